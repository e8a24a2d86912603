"""Algorithms 1 and 2 and Assumption 4.10 against Definitions 4.8 and 4.9, where phi is known."""

from collections import defaultdict
from itertools import product
from typing import TYPE_CHECKING, Any

from attributionlab.environment.catalog import load
from attributionlab.papers.reproduction import Reproduction
from attributionlab.papers.soco.truth.assumption import (
    assumption_rows,
    counterexample_rows,
    kept_sets,
    theorem_row,
)
from attributionlab.papers.soco.truth.conditions import (
    INDICATORS,
    REFERENCE,
    SEEN,
    Condition,
    Place,
    conditions_of,
)
from attributionlab.papers.soco.truth.findings import findings_of
from attributionlab.papers.soco.truth.panel import Entry, panel_of
from attributionlab.papers.soco.truth.ratios import (
    MIDDLE,
    PAPER_SCHEDULE,
    THRESHOLDS,
    ends_of,
    ratio_rows,
    soundness_rows,
)
from attributionlab.papers.soco.truth.summaries import (
    CONDITION,
    agreement_table,
    error_table,
    held_out_table,
)
from attributionlab.progress import track
from attributionlab.report.estimates import (
    Agreement,
    EstimatePanel,
    agreements_figure,
    estimates_figure,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

IMAGE_SIZE, QUICK_SIZE = 36, 24
STEPS, EPSILONS = (4.0, 1.0, 0.25), (0.0, 0.01, 0.05)
"""Percent of the area, and rises of the performance, of Algorithm 1."""
LOW = 0.1
"""The lowest of Algorithm 4's thresholds: nearest to Definition 4.9's 0."""
LABELS = {
    "soundness": "true soundness",
    "completeness": "true completeness\n(Definition 4.9)",
    "completeness of thresholds": "true completeness,\nmean over thresholds",
    "f1": "F1",
}
SHOWN = {
    "soundness": "Algorithm 1 at the level 0.6 of the way from nothing kept to all kept: share of the "
    "attributions that reach it, share of those that jump over it, bias and mean absolute error of the "
    "estimate, bias_from_nothing: with the first step held against nothing kept, rank: Spearman with "
    "the true soundness of the same pixels (low, high: 95 %), rank_of_all: with that of all attributed "
    "pixels",
    "completeness": "Algorithm 2 at the threshold 0.1, as a share of what performance there is to "
    "lose; rank: with the true completeness at that threshold, rank_of_all: with Definition 4.9's, "
    "ordered: pairs of attributions of which the one that loses more is the more complete, of those "
    "that differ in what is lost (Theorem 4.12)",
    "metrics": "Spearman between a metric's scores and each true quality of the attributions; "
    "distinct: different scores",
    "assumption": "pairs of sets of which the performance differs, the better of which has less "
    "information (reversed) or no more of it; pairs of equal performance, and the share of those with "
    "different information (hidden)",
}


def soundness_truth(
    *, n: int | None, quick: bool, seed: int = 0, show_progress: bool = False
) -> Reproduction:
    """Hold Algorithms 1 and 2 and Assumption 4.10 against Definitions 4.8 and 4.9.

    Parameters
    ----------
    n : int, optional
        Images of each environment; 8, or 4 in a quick run, by default.
    quick : bool
        Images of 24 x 24 pixels instead of 36 x 36, fewer attributions and conditions.
    seed : int
        Of images, attributions, noise and sets.
    show_progress : bool
        Show progress on standard error.

    Returns
    -------
    Reproduction
        Tables "soundness", "completeness" (`error_table` at one level and threshold), "levels" and
        "thresholds" (at all of them), "metrics" (`agreement_table`), "assumption" (of all sets,
        "assumption-by-sets": of each kind), "counterexamples", "theorem" (4.11), "schedule" (by step
        and epsilon, at one level), "schedule-held-out", and by attribution "soundness-attributions",
        "completeness-attributions", "scores".

    Raises
    ------
    AttributionLabError
        For fewer images than one.
    """
    import pandas as pd

    if n is None:
        n = 4 if quick else 8
    conditions = conditions_of(quick)
    places = _places(conditions, n, seed, quick)
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    work = [(name, entry) for name in places for entry in places[name].panel.entries]
    for name, entry in track(work, len(work), "soundness-truth", show_progress):
        place = places[name]
        for condition in conditions:
            if condition.environment != name:
                continue
            for indicator in INDICATORS[place.env.task]:
                for table, found in ratio_rows(place, condition, indicator, entry).items():
                    rows[table] += found
        if name == REFERENCE.environment:
            rows["schedule"] += _schedule_rows(place, entry)
        place.forget()
    for name, place in places.items():
        sets = kept_sets(place, seed)
        for condition in conditions:
            if condition.environment != name:
                continue
            for indicator in INDICATORS[place.env.task]:
                rows["assumption"] += assumption_rows(place, condition, indicator, sets)
                rows["counterexamples"] += counterexample_rows(place, condition, indicator)
                rows["theorem"].append(theorem_row(place, condition, indicator))
        place.forget()
    every = {name: pd.DataFrame(of_name) for name, of_name in rows.items()}
    levels = error_table(every["soundness"], [*CONDITION, "share"])
    thresholds = error_table(every["completeness"], [*CONDITION, "threshold"])
    of_all = every["assumption"].sets == "all"
    middle = every["schedule"][every["schedule"].share == MIDDLE]
    tables = {
        "soundness": levels[levels.share == MIDDLE].drop(columns="share"),
        "completeness": thresholds[thresholds.threshold == LOW].drop(columns="threshold"),
        "metrics": agreement_table(every["scores"]),
        "assumption": every["assumption"][of_all].drop(columns="sets"),
        "assumption-by-sets": every["assumption"][~of_all],
        "counterexamples": every["counterexamples"],
        "theorem": every["theorem"],
        "schedule": error_table(middle, ["step", "epsilon", "indicator"]),
        "schedule-held-out": held_out_table(middle, PAPER_SCHEDULE),
        "levels": levels,
        "thresholds": thresholds,
        "soundness-attributions": every["soundness"],
        "completeness-attributions": every["completeness"],
        "scores": every["scores"],
    }
    return Reproduction(
        item="soundness-truth",
        title="Soundness and completeness held against their definitions",
        tables=tables,
        figures=_figures(tables, n),
        findings=findings_of(tables, n),
        shown=SHOWN,
    )


def _places(conditions: list[Condition], n: int, seed: int, quick: bool) -> dict[str, Place]:
    size = QUICK_SIZE if quick else IMAGE_SIZE
    names = dict.fromkeys(each.environment for each in conditions)
    return {
        name: Place(
            panel_of(load(name, image_size=size), n, seed, THRESHOLDS[:-1], quick=quick), seed
        )
        for name in names
    }


def _schedule_rows(place: Place, entry: Entry) -> list[dict[str, Any]]:
    """Algorithm 1 by step and epsilon, at every level."""
    rows: list[dict[str, Any]] = []
    for indicator in INDICATORS[place.env.task]:
        ends = ends_of(place, REFERENCE, indicator)
        for step, epsilon in product(STEPS, EPSILONS):
            keys = {"step": step, "epsilon": epsilon, "indicator": indicator}
            found = soundness_rows(
                place, REFERENCE, indicator, entry, ends, step=step, epsilon=epsilon
            )
            rows += [{**keys, "attribution": entry.name, **row} for row in found]
    return rows


def _figures(tables: dict[str, "pd.DataFrame"], n: int) -> dict[str, "Figure"]:
    main = tables["scores"].environment.iloc[0]
    shown = [
        REFERENCE,
        Condition(main, 0.0, "noisy-linear"),
        Condition(main, 1.0, "noisy-linear"),
    ]
    ratios = [
        [_panel(tables["soundness-attributions"], each, "share", MIDDLE) for each in shown],
        [_panel(tables["completeness-attributions"], each, "threshold", LOW) for each in shown],
    ]
    images = f"{n} images"
    figures = {
        "ratios": estimates_figure(
            ratios,
            f"Estimated against true ratios, one dot for each attribution ({main}, {images})",
        )
    }
    for indicator in INDICATORS["classification"][:2]:
        here = tables["metrics"].query(f"indicator == {indicator!r}")
        figures[f"ranks-{indicator.replace(' ', '-')}"] = agreements_figure(
            {
                LABELS[str(truth)]: _agreements(of_truth)
                for truth, of_truth in here.groupby("truth", sort=False)
            },
            list(dict.fromkeys(_condition(row) for row in here.itertuples())),
            f"Do metrics rank attributions as the truth does? Indicator: {indicator}, {images}; "
            "lines: 95 % intervals",
        )
    return figures


def _panel(rows: "pd.DataFrame", condition: Condition, place: str, at: float) -> EstimatePanel:
    chosen = (rows[place] == at) & (rows.environment == condition.environment)
    chosen &= (rows.strength == condition.strength) & (rows.imputation == condition.imputation)
    points = {
        name: (of_name.truth.tolist(), of_name.estimate.tolist())
        for name, of_name in rows[chosen].groupby("indicator", sort=False)
    }
    if place == "share":
        xlabel, ylabel = "true soundness of the same pixels", f"soundness, level {at:g} (Alg. 1)"
    else:
        xlabel = f"true completeness, threshold {at:g}"
        ylabel = f"share of the performance lost,\nthreshold {at:g} (Alg. 2)"
    return EstimatePanel(_named(condition), xlabel, ylabel, points)


def _agreements(rows: "pd.DataFrame") -> dict[str, list[Agreement]]:
    return {
        metric: [Agreement(row.rank, row.low, row.high) for row in of_metric.itertuples()]
        for metric, of_metric in rows.groupby("metric", sort=False)
    }


def _condition(row: Any) -> str:
    place = Condition(row.environment, row.strength, row.imputation)
    return f"{row.environment}, {_named(place)}"


def _named(condition: Condition) -> str:
    """In words, without the environment."""
    if condition.imputation in SEEN:
        return f"{condition.imputation} (nothing unseen)"
    unseen = f"unseen data x {condition.strength:g}" if condition.strength else "no unseen data"
    return f"{condition.imputation}, {unseen}"
