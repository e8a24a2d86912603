"""What tables of perturbation metrics say, and what the paper's numbers say about each other."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from attributionlab.metric_trials.agreement import mean_over_images
from attributionlab.papers.attributionlab.paper_ranks import AREAS, RANKS, PrintedRanks, attainable
from attributionlab.papers.attributionlab.perturbation_study import Study
from attributionlab.ranking import spearman

if TYPE_CHECKING:
    import pandas as pd

Subject = Literal["ranks", "areas", "insertion", "sensitivity_n"]
"""What sentences are about."""

INSERTION_IS_DELETION = (
    "Appendix G.4 inserts 'in ascending order'. That shows the network the images of Deletion in "
    "descending order, last to first: both areas would be equal and the two rankings opposite. The "
    "printed ranks of Insertion and Deletion correlate by {} instead of -1, so the highest "
    "attributions went in first, as they do here."
)
SIGN = (
    "Appendix G.5 correlates the attributions removed with the probability that is left. That is "
    "minus the correlation with the change f(x) - f(x without S), which is meant where 'greater is "
    "better' and is used here."
)


def findings(
    about: Subject,
    studies: Sequence[Study],
    correlations: "pd.DataFrame",
    ties: Mapping[str, tuple[float, float]] | None,
) -> list[str]:
    """Sentences, every number in them computed.

    Parameters
    ----------
    about : {"ranks", "areas", "insertion", "sensitivity_n"}
        What the first of them are about.
    studies : sequence of Study
        What was measured.
    correlations : DataFrame
        As `correlations_table` makes it.
    ties : mapping of str to (float, float), optional
        What a constant map scores in single-color-modulo.
    """
    printed = list(dict.fromkeys(RANKS[each.env.name].item for each in studies))
    tables = [next(t for t in RANKS.values() if t.item == item) for item in printed]
    by_place = correlations.groupby("environment", sort=False)
    ranks = [_ours(each, by_place.get_group(each.env.name)) for each in studies]
    ranks += [_printed(table) for table in tables]
    sensitivity = [_undefined(each) for each in studies if not _defined(each).all()]
    insertion, areas = [], []
    if ties is None:
        between = " and ".join(f"{each.between_insertion_and_deletion():.2f}" for each in tables)
        ranks.append(_ten_methods())
        insertion = [*(_replacement(each) for each in studies)]
        insertion += [INSERTION_IS_DELETION.format(between)]
        sensitivity.append(SIGN)
    else:
        areas = [*_best_areas(studies[0]), _ties(ties)]
    if about == "insertion":
        insertion = [*(_insertion(each) for each in studies), *_changed_order(studies), *insertion]
    if about == "sensitivity_n":
        sensitivity = [*(_sensitivity(each) for each in studies), *sensitivity]
    groups = {"ranks": ranks, "areas": areas, "insertion": insertion, "sensitivity_n": sensitivity}
    return [*groups.pop(about), *(sentence for group in groups.values() for sentence in group)]


def _ours(each: Study, rows: "pd.DataFrame") -> str:
    """One environment's correlations."""
    name = each.env.name
    methods, images = f"{len(RANKS[name].ranks)} methods", _images(each)
    said = [
        f"{truth} truth, {maps}: "
        + ", ".join(
            f"{row.ours:.2f} ({row.low:.2f} to {row.high:.2f})" for row in group.itertuples()
        )
        for (truth, maps), group in rows.groupby(["truth", "maps"], sort=False)
    ]
    return (
        f"{name}: rank correlation of Insertion, Deletion and Sensitivity-N with F1, of {methods} by "
        f"their means over {images}: {'; '.join(said)}. In brackets 95 % intervals (images and methods "
        f"drawn again): they are of the correlation that {images} and {methods} give, not of the one "
        "that many would give."
    )


def _insertion(each: Study) -> str:
    return (
        f"Insertion in {each.env.name}, mean area over {_images(each)}, highest first: "
        f"{_ordered(each, 'insertion')}."
    )


def _sensitivity(each: Study) -> str:
    return (
        f"Sensitivity-N in {each.env.name}, mean correlation over all N where it is defined and over "
        f"{_images(each)}, highest first: {_ordered(each, 'sensitivity_n')}."
    )


def _ordered(each: Study, metric: str) -> str:
    """Methods with their means, the highest first."""
    by_mean: dict[str, list[str]] = {}
    means = mean_over_images(each.scores[metric])
    known = np.flatnonzero(~np.isnan(means)).tolist()
    for index in sorted(known, key=lambda i: -means[i]):
        name = each.methods[index]
        named = by_mean.setdefault(f"{means[index] + 0.0:.2f}", [])
        named.append(f"{name}{_over_runs(each, metric, name)}")
    return "; ".join(f"{mean} {', '.join(names)}" for mean, names in by_mean.items())


def _over_runs(each: Study, metric: str, method: str) -> str:
    """The lowest and the highest mean of a method that optimizes, in brackets."""
    runs = each.in_run(metric, method)
    if len(runs) < 2:
        return ""
    means = mean_over_images(np.stack(runs)) + 0.0
    return f" ({np.nanmin(means):.2f} to {np.nanmax(means):.2f} in {len(runs)} runs)"


def _changed_order(studies: Sequence[Study]) -> list[str]:
    """Is the order by Insertion another one without the Unseen Data Effect?"""
    first, *others = studies
    means = [mean_over_images(each.scores["insertion"]) for each in studies]
    return [
        f"The orders of {len(first.methods)} maps by Insertion in {first.env.name} and in "
        f"{other.env.name} correlate by {spearman(means[0], ours):.2f}."
        for other, ours in zip(others, means[1:], strict=True)
    ]


def _images(each: Study) -> str:
    count = len(each.counted)
    return "1 image" if count == 1 else f"{count} images"


def _printed(table: PrintedRanks) -> str:
    """Do the printed correlations follow from the printed ranks?"""
    recomputed = [round(each, 2) for each in table.recomputed()]
    follow = "follow from" if recomputed == list(table.correlations) else "do not follow from"
    return (
        f"The paper's correlations of {table.item} ({_list(table.correlations)}) {follow} its printed "
        f"ranks, which correlate by {_list(recomputed)}."
    )


def _ten_methods() -> str:
    """How many methods the printed correlations need."""
    printed = [
        number
        for name in ("multi-color-sum", "multi-color-sum-in-distribution")
        for number in RANKS[name].correlations
    ]
    impossible = [number for number in printed if not attainable(number, 8)]
    fewest = next(n for n in range(8, 20) if all(attainable(number, n) for number in printed))
    return (
        f"No two rankings of eight methods without ties correlate by {_list(impossible)} (such "
        f"correlations are 1 - 6 D / 504, D even). All six numbers of table-2 exist from {fewest} "
        "methods on: they seem to be about more methods than the tables list."
    )


def _replacement(each: Study) -> str:
    """What the network makes of the replacement alone."""
    env = each.env
    side = env.recipe.image_size
    black = torch.zeros(1, env.recipe.channels, side, side)
    with torch.no_grad():
        logits = [round(number) for number in env.model(black)[0].tolist()]
    if not any(logits):
        return (
            f"The replacement (0, 0, 0) has no effect of its own in {env.name}: an image of it alone "
            "has logits of zero, as the background has."
        )
    return (
        f"The replacement (0, 0, 0) is an unseen color in {env.name}: an image of it alone has the "
        f"logits {', '.join(map(str, logits))}, where the background has zeros, so that the more is "
        f"replaced the more class {int(np.argmax(logits))} wins, whatever else the image shows."
    )


def _undefined(each: Study) -> str:
    """At which N there is nothing to correlate with."""
    missing = ~_defined(each)
    first = int(each.points["sensitivity_n"][missing][0])
    where = (
        f"from N = {first:,} on" if missing[missing.argmax() :].all() else f"first at N = {first:,}"
    )
    return (
        f"Sensitivity-N in {each.env.name} is not defined at {missing.mean():.0%} of all N ({where}): "
        "every draw gives the same probability in every image. They are left out of its means."
    )


def _defined(each: Study) -> NDArray[np.bool_]:
    """(points,): at which N some image has a correlation for some method."""
    known = ~np.isnan(each.curves["sensitivity_n"])
    return np.logical_or.reduce(known, axis=(0, 1), keepdims=True).reshape(-1)


def _best_areas(each: Study) -> list[str]:
    """What the best and a random order score, in closed form."""
    share = float(each.counted.mean())
    best, theirs = AREAS["lrp"], AREAS["random"]
    row = each.methods.index("random")
    ours = [float(each.scores[name][row].mean()) for name in ("insertion", "deletion")]
    return [
        f"The best order takes the {share:.2%} white pixels first: Insertion 1 - {share:.4f} / 2 = "
        f"{1 - share / 2:.4f}, Deletion {share / 2:.4f}. The paper's {best[0]} and {best[1]} are "
        f"those of {2 * best[1]:.2%} white pixels.",
        f"A random order scores 1/2 in expectation; here {ours[0]:.2f} and {ours[1]:.2f}, in the "
        f"paper {theirs[0]:.2f} and {theirs[1]:.2f}.",
    ]


def _ties(ties: Mapping[str, tuple[float, float]]) -> str:
    """Which order of equal values gives the paper's numbers for a constant map?"""
    insertion, deletion = AREAS["constant"]
    said = "; ".join(f"{name}: {areas[0]:.4f}, {areas[1]:.4f}" for name, areas in ties.items())
    return (
        f"A constant map scores what the order of its ties scores ({said}). The paper's {insertion} "
        f"and {deletion} are nearly equal and add up to {insertion + deletion:.2f}. One order for both "
        "metrics would make the sum 1, random ties would make both 1/2: ties were broken in opposite "
        "orders, as when one sort is read from its two ends."
    )


def _list(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:.2f}" for number in numbers)
