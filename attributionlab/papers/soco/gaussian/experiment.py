"""Figure 6 of Li et al. (2024): soundness and completeness where a linear model's truth is known."""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

import torch

from attributionlab.errors import refuse_if
from attributionlab.imputation import constant
from attributionlab.metrics import label_probability, soundness_sweep
from attributionlab.metrics.inclusion import Variant
from attributionlab.papers.reproduction import Reproduction
from attributionlab.papers.soco.gaussian.findings import findings_of
from attributionlab.papers.soco.gaussian.rows import RATIOS, GaussianRows, soundness_of
from attributionlab.papers.soco.gaussian.trials import (
    LEVELS,
    READINGS,
    Modification,
    single_features,
    trial_rows,
)
from attributionlab.progress import track
from attributionlab.report.metric_panels import MetricLine, MetricPanel, metric_panels_figure
from attributionlab.validation import integer_problem, number_problem

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

POINTS, FEATURES = 1000, 200
TRIALS, QUICK_TRIALS = 1000, 20
CONTROL_TRIALS = 0.1
"""Share of the trials for the control: its means vary by less than a hundredth."""
STRENGTHS = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0)
STRENGTH_TRIALS = 5
SHOWN_THRESHOLDS = (0.1, 0.3, 0.5, 0.7, 0.9)
SHOWN = {
    "figure-6a": "soundness by predictive level, means over trials; true: Definition 4.8 where what "
    "speaks for the label is predictive",
    "figure-6b": "completeness: accuracy lost when features above a threshold are removed; true: "
    "Definition 4.9, predictive as above",
    "sweeps": "the ground truth's own soundness by indicator, imputation and variant (what the paper "
    "says, or its released code); all_steps: after the whole of Algorithm 3",
}


def soco_figure_6(
    *,
    n: int | None,
    quick: bool,
    seed: int = 0,
    trials: int | None = None,
    share: float = 0.5,
    strength: float = 1.5,
    show_progress: bool = False,
) -> Reproduction:
    """Soundness and completeness of the ground truth, and of it with attribution removed or introduced.

    Parameters
    ----------
    n : int, optional
        Rows of 200 features; 1,000 by default.
    quick : bool
        Fewer trials.
    seed : int
        Of data, noise and modifications.
    trials : int, optional
        Modifications of all maps; 1,000 by default, or 20 in a quick run.
    share : float
        Of attributed features that Remove empties, and of features without information that Introduce
        gives attribution to.
    strength : float
        Introduced attributions are drawn from U(0, strength), in units of a map's largest value.
    show_progress : bool
        Show progress on standard error.

    Returns
    -------
    Reproduction
        Tables "soundness" and "completeness" (means over trials), "strengths" (soundness of Introduce
        by strength), "sweeps" (of the ground truth, by indicator, imputation and variant); figures
        "metrics" and "strengths".
    """
    n = POINTS if n is None else n
    trials = (QUICK_TRIALS if quick else TRIALS) if trials is None else trials
    refuse_if(
        [
            *integer_problem("n", n, 1),
            *integer_problem("trials", trials, 1),
            *number_problem("share", share, least=0, most=1),
            *number_problem("strength", strength, above=0),
        ]
    )
    how = Modification(share, strength)
    data = {name: reading.rows(n, FEATURES, seed) for name, reading in READINGS.items()}
    counts = {
        name: max(1, round(CONTROL_TRIALS * trials)) if reading.silent else trials
        for name, reading in READINGS.items()
    }
    work = [(name, trial) for name, count in counts.items() for trial in range(count)]
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for name, trial in track(work, len(work), "soco-figure-6", show_progress):
        for table, row in trial_rows(READINGS[name], data[name], how, seed, trial):
            rows[table].append({"reading": name, **row})
    import pandas as pd

    soundness = _means(rows["soundness"], "level", "soundness", counts)
    completeness = _means(rows["completeness"], "threshold", "difference", counts)
    tables = {
        "figure-6a": _wide(soundness, "level", "soundness"),
        "figure-6b": _wide(
            completeness[completeness.threshold.round(1).isin(SHOWN_THRESHOLDS)],
            "threshold",
            "difference",
        ),
        "soundness": soundness,
        "completeness": completeness,
        "sweeps": pd.DataFrame(list(_sweeps(data["features"]))),
        "strengths": _strengths(data["features"], how, seed),
    }
    return Reproduction(
        item="soco-figure-6",
        title="Soundness and completeness of modified truth: a linear model of Gaussian features",
        tables=tables,
        figures={
            "metrics": _metrics_figure(tables, n, trials, how),
            "strengths": _strengths_figure(tables["strengths"], share),
        },
        findings=findings_of(tables, how, counts),
        shown=SHOWN,
    )


def _means(
    rows: list[dict[str, Any]], at: str, value: str, counts: dict[str, int]
) -> "pd.DataFrame":
    """Over trials, with the standard deviation of the value; `reached`: share of trials with a row."""
    import pandas as pd

    frame = pd.DataFrame(rows).drop(columns="trial")
    grouped = frame.groupby(["reading", "attribution", at], sort=False)
    table = grouped.mean()
    table.insert(list(table).index(value) + 1, "sd", grouped[value].std())
    table = table.reset_index()
    trials = [
        1 if row.attribution == "ground truth" else counts[row.reading]
        for row in table.itertuples()
    ]
    table["reached"] = grouped.size().to_numpy() / trials
    return table if at == "level" else table.drop(columns="reached")


def _wide(table: "pd.DataFrame", at: str, value: str) -> "pd.DataFrame":
    """A row for each reading and map, and beside every value the true ratio."""
    import pandas as pd

    rows = []
    for (reading, attribution), here in table.groupby(["reading", "attribution"], sort=False):
        row: dict[str, Any] = {"reading": reading, "attribution": attribution}
        for point in here.itertuples():
            place = f"{getattr(point, at):g}"
            row |= {f"at {place}": getattr(point, value), f"true {place}": point.true}
        rows.append(row)
    return pd.DataFrame(rows)


def _sweeps(rows: GaussianRows) -> Iterator[dict[str, Any]]:
    """Algorithms 1 and 3 on the unmodified truth, as published and as released."""
    margin = 2 * float(abs(rows.features @ rows.weights).mean())
    indicators = {
        "accuracy": "accuracy",
        "probability": partial(label_probability, temperature=margin),
    }
    imputations = {"noisy linear": rows.imputation, "zero": partial(constant, value=0.0)}
    bound = float(abs(rows.features).max())
    maps = torch.from_numpy(rows.truth)[:, None, None]
    for imputed, imputation in imputations.items():
        for indicated, indicator in indicators.items():
            setup: dict[str, Any] = {
                "indicator": indicator,
                "imputation": imputation,
                "value_range": (-bound, bound),
                "nothing_kept": 0.0,
                "batch_size": len(maps),
            }
            asked = (rows.model(), rows.images, rows.targets, maps)
            for variant in get_args(Variant):
                how = setup | {"ratios": RATIOS, "variant": variant}
                every = soundness_sweep(*asked, **how)
                inside = soundness_sweep(*asked, expansion="attributed", **how)
                yield {
                    "imputation": imputed,
                    "indicator": indicated,
                    "variant": variant,
                    "first_step": float(every.performance[0]),
                    "highest": float(every.performance.max()),
                    "intact": float(every.performance[-1]),
                    **{f"at_{level:g}": inside.at(level).soundness for level in LEVELS},
                    "all_steps": float(every.soundness[-1]),
                    "false_steps": int(every.false.sum()),
                    "steps": len(RATIOS),
                }


def _strengths(rows: GaussianRows, how: Modification, seed: int) -> "pd.DataFrame":
    """Soundness of Introduce by its strength, at every level."""
    import numpy as np
    import pandas as pd

    found = []
    for strength in sorted({*STRENGTHS, how.strength}):
        for trial in range(STRENGTH_TRIALS):
            generator = np.random.default_rng((seed, trial))
            drawn = Modification(how.share, strength)
            maps = single_features(rows, "introduce", drawn, generator)
            found += [
                {"strength": strength, **each._asdict()}
                for each in soundness_of(rows, maps, LEVELS)
            ]
    means = pd.DataFrame(found).groupby(["strength", "level"]).mean().reset_index()
    return means.drop(columns="true_of_all")


def _metrics_figure(
    tables: dict[str, "pd.DataFrame"], n: int, trials: int, how: Modification
) -> "Figure":
    panels = []
    for name, reading in READINGS.items():
        row = []
        for metric, at, value, xlabel, ylabel in (
            ("soundness", "level", "soundness", "accuracy (predictive level)", "soundness"),
            (
                *("completeness", "threshold", "difference"),
                *("attribution threshold (share of the truth's largest)", "accuracy lost"),
            ),
        ):
            table = tables[metric]
            here = table[table.reading == name]
            lines = {
                map_: MetricLine(
                    of_map[at].to_numpy(),
                    of_map[value].to_numpy(),
                    of_map.sd.to_numpy(),
                    of_map.true.to_numpy(),
                )
                for map_, of_map in here.groupby("attribution", sort=False)
            }
            title = f"{metric.capitalize()}: {reading.meaning}"
            row.append(MetricPanel(title, xlabel, f"{ylabel} (higher is better)", lines))
        panels.append(row)
    title = (
        f"{n} rows of {FEATURES} Gaussian features, linear model; means and standard deviations over "
        f"{trials} trials\nRemove: {how.share:.0%} of attributed features emptied; Introduce: "
        f"{how.share:.0%} of features without information get U(0, {how.strength:g})"
    )
    return metric_panels_figure(panels, title, truth="true ratio (Definitions 4.8, 4.9)")


def _strengths_figure(strengths: "pd.DataFrame", share: float) -> "Figure":
    lines = {
        f"level {level:g}": MetricLine(
            of_level.strength.to_numpy(),
            of_level.soundness.to_numpy(),
            truth=of_level.true.to_numpy(),
        )
        for level, of_level in strengths.groupby("level")
    }
    title = f"Introduce on {share:.0%} of the features without information"
    panel = MetricPanel(
        title,
        "strength: introduced attributions are U(0, strength) of the largest",
        "soundness (higher is better)",
        lines,
    )
    return metric_panels_figure([[panel]], "", truth="true ratio")
