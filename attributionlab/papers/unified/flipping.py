"""Figures 1, 4, 5 and 6 of Wang and Wang (2022): what makes a network's output fall under a mask?"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Unpack

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray

from attributionlab.base import (
    FEWEST_FOR_ORDER,
    AttributionLabError,
    Replacement,
    mean_score,
    resampled_means,
)
from attributionlab.metrics import reference_order
from attributionlab.metrics.ranking import spearman
from attributionlab.papers.answers import all_above, mean_ends
from attributionlab.papers.catalog import Found, Run, Tables, claim
from attributionlab.papers.subjects.subjects import (
    TRAINED,
    OwnNetwork,
    Subject,
    chosen_subject,
    environment_subject,
    trained_subject,
)
from attributionlab.papers.unified.flipping_curves import (
    INDICATORS,
    RANDOM,
    REFERENCES,
    SEVEN,
    TRUTH,
    WINDOW,
    Flipped,
    Orders,
    baselines_of,
    flipped,
    mask_counts,
    orders_of,
    pooled,
    reference_name,
)
from attributionlab.papers.unified.six_methods import GRADCAM
from attributionlab.show import curves, map_grid
from attributionlab.worlds import load

FIRST, DECAYS, MASKS, WITHIN = (f"unified-figure-{number}" for number in (1, 4, 5, 6))
SIDE = 36
ENVIRONMENT = "multi-color-sum"
UNSEEN, KNOWN = f"{ENVIRONMENT}, unseen data", f"{ENVIRONMENT}, no unseen data"
ZEROS, TRUE_BASELINE = "zeros", "true baseline"
EARLY, MASKED = 0.05, 0.18
"""Shares of the pixels that tables are about: the beginning, and the paper's 9k of 224 x 224."""
HALF = 0.5
"""Place in a reference near which the paper sees the lowest point."""
FLOOR = -4.0
"""The least log ratio that is drawn: less than 2 % are left."""
LAST = 0.9
"""Share of masked pixels at which curves of all subjects end: nothing but the baseline is left at 1."""
COLUMNS = 6
SMALL_REFERENCE = 4 / 3
"""N / n of the paper's masked images: 12k and 9k."""
Case = tuple[str, str]
"""Names of a subject and a baseline."""
Cases = Mapping[Case, Flipped]
Numbers = NDArray[np.float64]


def pixel_flipping_of_maps(
    run: Run,
    *,
    networks: int,
    training: int,
    steps: int,
    layer: str | None = None,
    **own: Unpack[OwnNetwork],
) -> Found:
    """Mask pixels by maps, at random, in a window at random, and at random within GradCAM's first.

    Subjects are small networks trained on drawn pictures, and hand-weighted networks of which is known
    what they use: one that reacts to colors it has never seen, and one that does not. A user's
    network takes their place.
    """
    given = chosen_subject(run.n, run.seed, layer=layer, **own)
    if given is not None and layer is None:
        raise AttributionLabError(
            "layer is None, and GradCAM explains by one: pass the dotted name of a module of the model"
        )
    if given is not None:
        subject, orders = given, orders_of(given, run.seed)
        baselines = baselines_of(given, run.seed)
        explained = {given.name: [orders]}
        cases = _cases(given.name, given, orders, baselines, steps)
    else:
        subject, explained, cases = run.once("ours", partial(_ours, run, networks, training, steps))
        orders = explained[TRAINED][0]
    tables = {
        "drops": drops_table(cases, run.seed),
        "differences": differences_table(cases, run.seed),
        "correlations": correlations_table(cases, run.seed),
        "references": references_table(cases, run.seed),
        "unseen": unseen_table(cases, run.seed),
        "ties": ties_table(explained),
        "curves": curves_table(cases),
    }
    tables = {"summary": summary_table(tables), **tables}
    figures = {**_figures(cases), "masked": _masked_figure(subject, orders)}
    return Found(tables, figures, given.notes if given is not None else ())


LARGE_OBJECTS = "drawn objects are large and evenly colored, so that single pixels tell little"


@claim(FIRST, DECAYS, place="Figures 1 and 4", reason=LARGE_OBJECTS)
def random_is_ahead_of_gradcam(tables: Tables) -> bool | None:
    """At first, masked at random pixels take more of the probability than masked by GradCAM."""
    return all_above(_differences(tables, GRADCAM).head(1))


@claim(FIRST)
def unseen_colors_add_to_the_drop(tables: Tables) -> bool | None:
    """A color that a network has never seen adds to the drop of random masking."""
    table = tables["unseen"]
    return None if table.empty else all_above(table[table.order == RANDOM])


@claim(DECAYS, place="Figure 4", reason=LARGE_OBJECTS)
def isolated_maps_are_ahead(tables: Tables) -> bool | None:
    """Maps of isolated pixels lower the probability more than connected ones (correlation over the
    seven maps).
    """
    return all_above(_correlations(tables, "isolation"))


@claim(DECAYS, MASKS, reason=LARGE_OBJECTS)
def single_pixels_are_ahead_of_a_window(tables: Tables) -> bool | None:
    """Isolation alone does that: as many random pixels take more as single ones than in a window,
    although either masks each pixel as often.
    """
    return all_above(_differences(tables, WINDOW).tail(1))


@claim(DECAYS)
def drops_follow_information(tables: Tables) -> bool | None:
    """Where masked pixels get a color that the network knows, the drop follows the true information
    (correlation over the seven maps).
    """
    found = _correlations(tables, "truth")
    return all_above(found[(found.baseline == TRUE_BASELINE) | (found.subject == KNOWN)])


@claim(MASKS, place="Figure 5")
def random_pixels_are_isolated(tables: Tables) -> bool:
    """Pixels masked at random are isolated, those of GradCAM connected, those at random within
    GradCAM's first in between.
    """
    last = tables["drops"].groupby(["subject", "baseline", "order"], sort=False).isolation.last()
    wide = last.unstack("order")
    return bool(
        wide[[GRADCAM, reference_name(REFERENCES[0]), RANDOM]]
        .diff(axis=1)
        .iloc[:, 1:]
        .gt(0)
        .all(axis=None)
    )


@claim(WITHIN, place="Figure 6", reason=LARGE_OBJECTS)
def references_fall_faster(tables: Tables) -> bool | None:
    """Random masking within GradCAM's first N pixels falls faster than GradCAM and than random
    masking (half of N masked).
    """
    table = tables["references"]
    ends = [
        pd.DataFrame({"low": -table[f"{name}_high"], "high": -table[f"{name}_low"]})
        for name in ("gradcam", "random")
    ]
    return all_above(pd.concat([each.assign(units=table.units) for each in ends]))


@claim(WITHIN, place="Figure 6")
def lowest_points_are_near_half(tables: Tables) -> bool | None:
    """It is furthest below GradCAM where half of N is masked."""
    table = tables["references"]
    if table.units.min() < FEWEST_FOR_ORDER:
        return None
    # A curve that begins equal and is nowhere below has its lowest point at 0.
    return bool(((table["at"] > 0) & (table.at_low <= HALF) & (table.at_high >= HALF)).all())


def _differences(tables: Tables, other: str) -> Any:
    """Return differences of the probability from random masking, grouped by case."""
    table = tables["differences"]
    chosen = table[(table.against == other) & (table.indicator == "probability")]
    return chosen.groupby(["subject", "baseline"], sort=False)


def _correlations(tables: Tables, quantity: str) -> pd.DataFrame:
    """Return correlations of the drop of the probability at the larger share."""
    table = tables["correlations"]
    chosen = table[(table["with"] == quantity) & (table.indicator == "probability")]
    return chosen.groupby(["subject", "baseline"], sort=False).tail(1)


def _cases(
    name: str, subject: Subject, orders: Orders, baselines: Mapping[str, Replacement], steps: int
) -> dict[Case, Flipped]:
    """Mask a subject with each of the baselines."""
    counts = mask_counts(orders.orders.shape[2], steps, (EARLY, MASKED))
    return {
        (name, baseline): flipped(subject, orders, replacement, counts)
        for baseline, replacement in baselines.items()
    }


def _ours(
    run: Run, networks: int, training: int, steps: int
) -> tuple[Subject, dict[str, list[Orders]], dict[Case, Flipped]]:
    """Return the first of the trained networks, and the orders and cases of all our own.

    Trained ones differ in pictures and weights. Of those set by hand one has never seen black, and one
    does not react to it; the true baseline is a color that either knows.
    """
    explained: dict[str, list[Orders]] = {TRAINED: []}
    found: dict[Case, list[Flipped]] = {}
    first: Subject | None = None
    # A subject takes the seeds s and s + 1, so that no two networks share pictures.
    for seed in run.track(range(run.seed, run.seed + 2 * networks, 2)):
        subject = trained_subject(run.n, training, seed)
        first, orders = first or subject, orders_of(subject, seed)
        explained[TRAINED].append(orders)
        for case, of_case in _cases(
            TRAINED, subject, orders, baselines_of(subject, seed), steps
        ).items():
            found.setdefault(case, []).append(of_case)
    assert first is not None
    cases = {case: pooled(of_case) for case, of_case in found.items()}
    for name, settings in ((UNSEEN, {}), (KNOWN, {"redundant_channels": 0})):
        subject = environment_subject(
            load(ENVIRONMENT, image_size=SIDE, **settings), run.n, run.seed
        )
        explained[name] = [orders_of(subject, run.seed)]
        known = {TRUE_BASELINE: subject.empty} if name == UNSEEN else {}
        cases |= _cases(name, subject, explained[name][0], {ZEROS: 0.0, **known}, steps)
    return first, explained, cases


def drops_table(cases: Cases, seed: int) -> pd.DataFrame:
    """Return how far each order brings the indicators down, and how isolated its pixels are."""
    return pd.DataFrame(
        {
            **keys,
            "order": name,
            "isolation": float(np.nanmean(case.isolation[:, index, at])),
            **{each: float(case.drop(name, each)[:, at].mean()) for each in INDICATORS},
            **_ends(case.drop(name, "probability")[:, at], seed),
        }
        for keys, case, at in _points(cases)
        for index, name in enumerate(case.names)
    )


def differences_table(cases: Cases, seed: int) -> pd.DataFrame:
    """Return how much further random masking brings indicators down than GradCAM, and than a window."""
    rows = []
    for keys, case, at in _points(cases):
        for other in (GRADCAM, WINDOW):
            for indicator in INDICATORS:
                further = (case.drop(RANDOM, indicator) - case.drop(other, indicator))[:, at]
                compared = {"against": other, "indicator": indicator}
                mean = {"difference": float(further.mean()), **_ends(further, seed)}
                rows.append({**keys, **compared, **mean})
    return pd.DataFrame(rows)


def correlations_table(cases: Cases, seed: int) -> pd.DataFrame:
    """Return Spearman correlations over seven maps of the drop with isolation, and with information."""
    rows = []
    for keys, case, at in _points(cases):
        chosen = [case.names.index(name) for name in SEVEN]
        for indicator in ("probability", "logit"):
            drops = case.curves[indicator][:, chosen, 0] - case.curves[indicator][:, chosen, at]
            for quantity, every in (("isolation", case.isolation), ("truth", case.captured)):
                values = every[:, chosen, at]
                if np.isnan(values).all():
                    continue
                found = np.array([spearman(*pair) for pair in zip(drops, values, strict=True)])
                compared = {"indicator": indicator, "with": quantity}
                rows.append(
                    {**keys, **compared, "correlation": mean_score(found), **_ends(found, seed)}
                )
    return pd.DataFrame(rows)


def summary_table(tables: Tables) -> pd.DataFrame:
    """Return what the two tables before say of the probability, correlations at the larger share."""
    differences, correlations = tables["differences"], tables["correlations"]
    first = differences.assign(
        what="Random minus " + differences.against, value=differences.difference
    )
    second = correlations.assign(
        what="correlation with " + correlations["with"], value=correlations.correlation
    )
    second = second[second.masked == second.masked.groupby(second.subject).transform("max")]
    both = pd.concat([first, second], ignore_index=True)
    columns = ["subject", "baseline", "what", "masked", "value", "low", "high", "units"]
    return both.loc[both.indicator == "probability", columns].reset_index(drop=True)


def unseen_table(cases: Cases, seed: int) -> pd.DataFrame:
    """Return how much of a drop is due to a color that the network has never seen, order by order.

    The same orders of the same images with zeros minus with the true baseline, which is a known color.
    """
    rows = []
    for keys, case, at in _points(cases):
        known = cases.get((keys["subject"], TRUE_BASELINE))
        if known is None or keys["baseline"] == TRUE_BASELINE:
            continue
        del keys["baseline"]
        for name in case.names:
            seen = known.drop(name, "probability")[:, at]
            more = case.drop(name, "probability")[:, at] - seen
            means = {"by_true_baseline": float(seen.mean()), "difference": float(more.mean())}
            rows.append({**keys, "order": name, **means, **_ends(more, seed)})
    return pd.DataFrame(rows)


def references_table(cases: Cases, seed: int) -> pd.DataFrame:
    """Return where masking within a reference is furthest below masking by GradCAM, and how far.

    ``at`` is the number of masked pixels there as a share of the reference. The differences are those
    of the mean probability, half of the reference masked: from GradCAM and from random masking.
    """
    rows = []
    for (subject, baseline), case in cases.items():
        for share in REFERENCES:
            own = case.of(reference_name(share), "probability")
            below = own - case.of(GRADCAM, "probability")
            inside = case.shares <= share
            point = lowest_point(below[:, inside], case.shares[inside] / share, seed)
            row: dict[str, Any] = {"subject": subject, "baseline": baseline, "reference": share}
            row |= dict(zip(("at", "at_low", "at_high"), point, strict=True))
            half = case.at(share / 2)
            for name, other in (("gradcam", GRADCAM), ("random", RANDOM)):
                less = (own - case.of(other, "probability"))[:, half]
                ends = _ends(less, seed)
                row |= {f"minus_{name}": float(less.mean()), f"{name}_low": ends["low"]}
                row |= {f"{name}_high": ends["high"], "units": ends["units"]}
            rows.append(row)
    return pd.DataFrame(rows)


def lowest_point(differences: Numbers, places: Numbers, seed: int) -> tuple[float, float, float]:
    """Return where the mean of curves is lowest, with a 95 % bootstrap interval over the curves.

    The first of equals; curves (units, S) are drawn again with replacement, and a single one has no
    interval (NaN).
    """
    place = float(places[differences.mean(0).argmin()])
    if len(differences) < 2:
        return place, np.nan, np.nan
    found = places[resampled_means(differences, seed).argmin(1)]
    low, high = np.quantile(found, [0.025, 0.975], method="inverted_cdf")
    return place, float(low), float(high)


def ties_table(explained: Mapping[str, Sequence[Orders]]) -> pd.DataFrame:
    """Return of how many maps chance decides the order, or that among negative values and zeros."""
    rows = []
    for subject, networks in explained.items():
        for name in networks[0].positive:
            positive = np.concatenate([each.positive[name].numpy() for each in networks])
            constant = np.concatenate([each.constant[name].numpy() for each in networks])
            row = {"subject": subject, "map": name, "constant": int(constant.sum())}
            for share in (EARLY, MASKED):
                row[f"fewer than {share:.0%} positive"] = int((positive < share).sum())
            rows.append({**row, "maps": len(positive)})
    return pd.DataFrame(rows)


def curves_table(cases: Cases) -> pd.DataFrame:
    """Return means over units at every share of masked pixels."""
    return pd.concat(
        pd.DataFrame(
            {
                "subject": subject,
                "baseline": baseline,
                "order": name,
                "masked": case.shares,
                **{each: case.of(name, each).mean(0) for each in INDICATORS},
                "isolation": case.isolation[:, index].mean(0),
            }
        )
        for (subject, baseline), case in cases.items()
        for index, name in enumerate(case.names)
    )


def _points(cases: Cases) -> Iterator[tuple[dict[str, Any], Flipped, int]]:
    for (subject, baseline), case in cases.items():
        for share in (EARLY, MASKED):
            at = case.at(share)
            masked = round(float(case.shares[at]), 3)
            yield {"subject": subject, "baseline": baseline, "masked": masked}, case, at


def _ends(values: Numbers, seed: int) -> dict[str, float]:
    low, high = mean_ends(values, seed)
    return {"low": low, "high": high, "units": len(values)}


def _figures(cases: Cases) -> dict[str, Figure]:
    """Draw logarithms of what is left."""
    references = [reference_name(share) for share in REFERENCES]
    pair = (GRADCAM, RANDOM)
    indicators = ("accuracy", "probability")
    difference = _lines(
        cases, references, "probability", "{}: minus GradCAM's", relative_to=GRADCAM
    )
    tables = {
        "first": pd.concat([_lines(cases, pair, each, "{}: " + each) for each in indicators]),
        "decays": _lines(cases, (*SEVEN, WINDOW, TRUTH), "probability", bands=pair),
        "references": pd.concat([_lines(cases, (*pair, *references), "probability"), difference]),
    }
    titles = {
        "first": "Pixel Flipping of GradCAM and of random pixels; a line ends where nothing is left. "
        "Bands: one standard error",
        "decays": "Pixel Flipping of seven maps and of a window. Bands (GradCAM, Random): one standard "
        "error",
        "references": "Reference Pixel Flipping. Bands: one standard error",
    }
    return {
        name: curves(
            *(table.sort_values("case", kind="stable"), "masked", "log ratio", "order"),
            panel="panel",
            columns=2,
            title=titles[name],
            xlabel="share of the pixels masked",
            ylabel="log ratio to unmasked images\n(lower: more lost)",
        )
        for name, table in tables.items()
    }


def _lines(
    cases: Cases,
    names: Sequence[str],
    indicator: str,
    panel: str = "{}",
    *,
    relative_to: str | None = None,
    bands: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Return log ratios of means to those unmasked, or to those of another order.

    The standard error is that of the paired ratio, to first order.
    """
    parts = []
    for place, ((subject, baseline), case) in enumerate(cases.items()):
        for name in names:
            if name not in case.names:
                continue
            own = case.of(name, indicator)
            other = own[:, :1] if relative_to is None else case.of(relative_to, indicator)
            mean, base = own.mean(0), other.mean(0)
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.log(mean / base)
                spread = (own / mean - other / base).std(0, ddof=1) if len(own) > 1 else np.nan
            error = spread / np.sqrt(len(own)) if bands is None or name in bands else np.nan
            title = panel.format(f"{subject}, {baseline}")
            line = {"case": place, "panel": title, "order": name, "masked": case.shares}
            line |= {"log ratio": ratio, "low": ratio - error, "high": ratio + error}
            # The nearest share, as numbers of pixels are rounded.
            parts.append(pd.DataFrame(line).iloc[: case.at(LAST) + 1])
    table = pd.concat(parts)
    left = np.isfinite(table["log ratio"]) & (table["log ratio"] >= FLOOR)
    table.loc[~left, ["log ratio", "low", "high"]] = np.nan
    return table


def _masked_figure(subject: Subject, orders: Orders) -> Figure:
    """Draw the first images without pixels masked at random, within a reference and by GradCAM."""
    masked = round(MASKED * orders.orders.shape[2])
    by_map = orders.of(GRADCAM)[:COLUMNS]
    generator = torch.Generator().manual_seed(0)
    shown = {
        "random": orders.of(RANDOM)[:COLUMNS],
        f"random in the first {SMALL_REFERENCE * MASKED:.0%} by GradCAM": reference_order(
            by_map, round(SMALL_REFERENCE * masked), generator
        ),
        "by GradCAM": by_map,
    }
    pictures = subject.images[:COLUMNS] / subject.highest
    rows = {"image": list(pictures.numpy())}
    for name, order in shown.items():
        chosen = order[:, None, :masked].expand(-1, pictures.shape[1], -1)
        cells = pictures.flatten(2).scatter(2, chosen, 0.0).view_as(pictures)
        rows[name] = list(cells.numpy())
    return map_grid(rows, title=f"{MASKED:.0%} of the pixels masked, {subject.name}")
