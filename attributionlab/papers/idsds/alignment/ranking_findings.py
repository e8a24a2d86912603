"""What the tables of idsds-figure-6 and idsds-figure-7 say, in sentences."""

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from attributionlab.papers.idsds.alignment.conditions import TOO_FEW
from attributionlab.stats.intervals import FEWEST_FOR_ORDER

if TYPE_CHECKING:
    import pandas as pd

PUBLISHED = {
    ("4", "16"): 0.93,
    ("16", "64"): 0.9,
    ("zero", "random"): 0.99,
    ("zero", "blurred"): 0.96,
}
"""Rank correlations of section 4.1, by pairs of conditions."""
PAPER = {
    "idsds-figure-6": "The paper (ResNet-50, ImageNet, methods of Table 2): rankings by IDSDS "
    "correlate by 0.93 for 4 and 16 patches, 0.9 for 16 and 64, by 0.99 for the zero and the random "
    "filling, 0.96 for zero and blurred; with more patches scores are lower, at 64 most between 0 and "
    "0.06.",
    "idsds-figure-7": "The paper (one ResNet-50, fine-tuned with five seeds): rankings by IDSDS "
    "correlate by at least 0.996.",
}


def ranking_findings(
    item: str, tables: Mapping[str, "pd.DataFrame"], *, images: int, methods: int
) -> list[str]:
    """Sentences computed from the tables of `idsds_rankings`.

    Parameters
    ----------
    item : str
        Which figure.
    tables : mapping of str to DataFrame
        "agreement" and "conditions".
    images : int
        How many were explained.
    methods : int
        How many were ranked.
    """
    agreements, conditions = tables["agreement"], tables["conditions"]
    said = [PAPER[item]]
    if item == "idsds-figure-6":
        said += [*_published(agreements), *_others(agreements), *_levels(conditions)]
    else:
        said += _seeds(agreements)
    said.append(_incomparable(images, methods))
    said += _truth(conditions)
    said.append(
        f"On {images} images that no network was trained on; IG starts at black under every condition."
        f"{TOO_FEW if images < FEWEST_FOR_ORDER else ''}"
    )
    return said


def _published(table: "pd.DataFrame") -> Iterator[str]:
    """The paper's pairs."""
    for row in table.itertuples():
        paper = PUBLISHED.get((row.first, row.second))
        if paper is None:
            continue
        yield (
            f"{row.first} and {row.second} ({row.part}): rankings correlate by {_interval(row)}; "
            f"in the paper {paper}."
        )


def _others(table: "pd.DataFrame") -> Iterator[str]:
    """Pairs that the paper leaves out."""
    found = [row for row in table.itertuples() if (row.first, row.second) not in PUBLISHED]
    if found:
        listed = "; ".join(f"{row.first} and {row.second} {_interval(row)}" for row in found)
        yield f"Pairs without a number in the paper: {listed}."


def _levels(table: "pd.DataFrame") -> Iterator[str]:
    for part, here in table.groupby("part", sort=False):
        levels = ", ".join(f"{row.name} {row.idsds:.2f}" for row in here.itertuples(index=False))
        yield f"Mean IDSDS of methods by {part}: {levels}."


def _seeds(table: "pd.DataFrame") -> Iterator[str]:
    for part, here in table.groupby("part", sort=False):
        least = here.loc[here.correlation.idxmin()]
        yield (
            f"By {part}, rankings correlate by {here.correlation.min():.3f} to "
            f"{here.correlation.max():.3f}, {here.correlation.mean():.3f} on average (pairs of seeds: "
            f"{len(here)}). The least is of {least['first']} and {least['second']}, "
            f"{_interval(least)}."
        )


def _incomparable(images: int, methods: int) -> str:
    # Spearman's 1 - 6 sum d^2 / (m^3 - m), with d = 1 for each of the two that change places.
    cost = 12 / (methods**3 - methods)
    return (
        f"These correlations cannot be held against the paper's: means over {images} images (the "
        "paper's over 50,000) have noise, which makes rankings less alike than they are, and with "
        f"{methods} methods two neighbors that change places cost {cost:.4f}."
    )


def _truth(table: "pd.DataFrame") -> Iterator[str]:
    if "truth" not in table:
        return
    yield "What the data say of each patch is known; what a trained network uses is not."
    for part, here in table.groupby("part", sort=False):
        listed = "; ".join(
            f"{row.name} {row.rankings:.2f}{_ends(row)}, {row.network:.2f}"
            for row in here.itertuples(index=False)
        )
        over = " (95 % interval over images)" if here.low.notna().any() else ""
        yield (
            f"By {part}, correlation of the rankings of methods by IDSDS and by the data{over}, and of "
            f"the logit's own drops with the data: {listed}."
        )


def _ends(row: Any) -> str:
    return "" if math.isnan(row.low) else f" ({row.low:.2f} to {row.high:.2f})"


def _interval(row: Any) -> str:
    over = "" if math.isnan(row.low) else f" (95 % interval {row.low:.3f} to {row.high:.3f})"
    return f"{row.correlation:.3f}{over}"
