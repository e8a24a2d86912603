"""What tables of perturbation metrics say, and what the paper's numbers say about each other."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from attributionlab.experiments.paper_ranks import AREAS, RANKS, PrintedRanks, attainable
from attributionlab.experiments.perturbation_study import Study

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["findings"]

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
    studies: Sequence[Study],
    correlations: "pd.DataFrame",
    ties: Mapping[str, tuple[float, float]] | None,
) -> list[str]:
    """Sentences, every number in them computed.

    Parameters
    ----------
    studies : sequence of Study
        What was measured.
    correlations : DataFrame
        As `correlations_table` makes it.
    ties : mapping of str to (float, float), optional
        What a constant map scores in single-color-modulo.
    """
    printed = list(dict.fromkeys(RANKS[each.env.name].item for each in studies))
    tables = [next(t for t in RANKS.values() if t.item == item) for item in printed]
    sentences = [_ours(rows) for _, rows in correlations.groupby("environment", sort=False)]
    sentences += [_printed(table) for table in tables]
    if ties is not None:
        return [*sentences, *_best_areas(studies[0]), _ties(ties)]
    between = " and ".join(f"{each.between_insertion_and_deletion():.2f}" for each in tables)
    return [
        *sentences,
        _ten_methods(),
        *(_replacement(each) for each in studies),
        INSERTION_IS_DELETION.format(between),
        SIGN,
    ]


def _ours(rows: "pd.DataFrame") -> str:
    """One environment's correlations."""
    name = rows["environment"].iloc[0]
    said = [
        f"{truth} truth, {maps}: "
        + ", ".join(
            f"{row.ours:.2f} ({row.low:.2f} to {row.high:.2f})" for row in group.itertuples()
        )
        for (truth, maps), group in rows.groupby(["truth", "maps"], sort=False)
    ]
    return (
        f"{name}: rank correlation of Insertion, Deletion and Sensitivity-N with F1, with 95 % "
        f"intervals (images and methods drawn again): {'; '.join(said)}."
    )


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
    defined = ~np.isnan(each.curves["sensitivity_n"]).all((0, 1))
    return (
        f"The replacement (0, 0, 0) is an unseen color in {env.name}: an image of it alone has the "
        f"logits {', '.join(map(str, logits))}, where the background has zeros, so that the more is "
        f"replaced the more class {int(np.argmax(logits))} wins, whatever else the image shows. At "
        f"{(~defined).mean():.0%} of all N every draw gives the same probability in every image: there "
        "Sensitivity-N is not defined, and left out."
    )


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
