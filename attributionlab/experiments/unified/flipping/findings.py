"""What the tables of Pixel Flipping say, in sentences."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from attributionlab.experiments.unified.flipping.orders import RANDOM, WINDOW
from attributionlab.experiments.unified.flipping.tables import Case
from attributionlab.experiments.unified.six_methods import GRADCAM

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["findings_of"]

HALF = 0.5
"""Of a reference, near which the paper sees the lowest point."""
Tables = Mapping[str, "pd.DataFrame"]


def findings_of(tables: Tables, units: Mapping[Case, int]) -> list[str]:
    """Sentences computed from the tables of `unified_flipping`.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        Of the run.
    units : mapping of pair of str to int
        Over how many networks or images the means of each case are.
    """
    counted = ", ".join(f"{' with '.join(case)}: {number}" for case, number in units.items())
    return [
        "The paper (VGG-16, ImageNet; 18 % of the pixels masked; no numbers): random masking falls "
        "faster than GradCAM at first, maps of isolated pixels (Gradient, guided backpropagation, "
        "DeConvNet) fall faster than connected ones, masking at random within GradCAM's first N pixels "
        "falls faster than both, the furthest near half of N. It does not say what a score is "
        "normalized by, nor whether zero is black or the mean color; here it is black, and log ratios "
        "are of means over images.",
        f"Intervals are 95 % bootstrap intervals over networks or images ({counted}).",
        *_random_against_gradcam(tables["differences"]),
        *_unseen(tables["unseen"]),
        *_isolation_alone(tables["differences"]),
        *_correlations(tables["correlations"]),
        *_references(tables["references"]),
    ]


def _random_against_gradcam(table: "pd.DataFrame") -> Iterator[str]:
    here = table[(table.against == GRADCAM) & (table.indicator == "probability")]
    for (subject, baseline), rows in here.groupby(["subject", "baseline"], sort=False):
        parts = [
            f"at {row.masked:.0%} masked random pixels take {_more(row)} GradCAM's of the probability "
            f"({_signed(row)})"
            for row in rows.itertuples()
        ]
        yield f"{subject}, {baseline}: {'; '.join(parts)}."


def _unseen(table: "pd.DataFrame") -> Iterator[str]:
    """What the true baseline leaves of the decay of random masking."""
    for subject in dict.fromkeys(table.get("subject", ())):
        here = table[(table.subject == subject) & table.order.isin([RANDOM, GRADCAM])]
        parts = [
            f"{row.order} at {row.masked:.0%} {row.by_true_baseline + row.difference:.3f} against "
            f"{row.by_true_baseline:.3f} ({_signed(row)})"
            for row in here.itertuples()
        ]
        by_random = here[here.order == RANDOM]
        most = table[table.subject == subject].sort_values("difference").iloc[-1]
        yield (
            f"{subject}: the drop of the probability with zeros, against that with the true baseline, "
            f"a color that the network knows: {', '.join(parts)}. "
            + (
                "So random masking falls faster by the unseen color, not by what it masks."
                if (by_random.low > 0).all()
                else "That the unseen color makes random masking fall faster is clear at "
                f"{int((by_random.low > 0).sum())} of {len(by_random)} shares."
            )
            + f" The most it adds to the drop of {most.order}: {most.difference:+.3f} ({most.low:+.3f} "
            f"to {most.high:+.3f}) at {most.masked:.0%}."
        )


def _isolation_alone(table: "pd.DataFrame") -> Iterator[str]:
    """Random pixels against random windows: as many, as uninformed, less isolated."""
    here = table[(table.against == WINDOW) & (table.indicator == "probability")]
    last = here.groupby(["subject", "baseline"], sort=False).tail(1)
    for row in last.itertuples():
        verdict = _verdict(
            row,
            "isolation alone makes masking look more important than it is",
            "isolation alone makes masking look less important than it is",
            "whether pixels are isolated or connected makes no clear difference",
        )
        yield (
            f"{row.subject}, {row.baseline}: {row.masked:.0%} masked at random as single pixels take "
            f"{_more(row)} a window of the probability ({_signed(row)}): {verdict}."
        )


def _correlations(table: "pd.DataFrame") -> Iterator[str]:
    here = table[table.indicator == "probability"]
    last = here.groupby(["subject", "baseline", "with"], sort=False).tail(1)
    for (subject, baseline), rows in last.groupby(["subject", "baseline"], sort=False):
        parts = [
            f"{'true information' if row[3] == 'truth' else row[3]} by {row[4]:.2f} "
            f"({row[5]:.2f} to {row[6]:.2f})"
            for row in rows[
                ["subject", "baseline", "masked", "with", "correlation", "low", "high"]
            ].itertuples(index=False, name=None)
        ]
        yield (
            f"{subject}, {baseline}: over the seven maps, the probability that "
            f"{rows.masked.iloc[0]:.0%} masked pixels take correlates with {' and with '.join(parts)}."
        )


def _references(table: "pd.DataFrame") -> Iterator[str]:
    for (subject, baseline), rows in table.groupby(["subject", "baseline"], sort=False):
        # A curve that begins equal and is nowhere below has its lowest point at 0.
        lower = rows[rows["at"] > 0]
        sizes = ", ".join(f"{share:.0%}" for share in rows.reference)
        below = [
            int(((rows[f"{name}_high"] < 0) & (rows[f"minus_{name}"] < 0)).sum())
            for name in ("gradcam", "random")
        ]
        outcome = (
            "as in the paper, every reference falls faster than both"
            if min(below) == len(rows)
            else f"{below[0]} of {len(rows)} references clearly fall faster than GradCAM, {below[1]} "
            "than random masking; the paper says all do"
        )
        yield (
            f"{subject}, {baseline}: half of a reference of {sizes} masked, {outcome}. "
            f"{_lowest(lower, len(rows))}"
        )


def _lowest(lower: "pd.DataFrame", references: int) -> str:
    """Of references that are below GradCAM anywhere."""
    if not len(lower):
        return "None is below GradCAM's mean anywhere."
    points = ", ".join(
        f"{row.at:.2f} of {row.reference:.0%} ({row.at_low:.2f} to {row.at_high:.2f})"
        for row in lower.itertuples()
    )
    near = int(((lower.at_low <= HALF) & (lower.at_high >= HALF)).sum())
    return (
        f"Of {references}, {len(lower)} are below GradCAM's mean somewhere, the furthest at {points}; "
        f"the half that the paper sees is in {near} of these intervals."
    )


def _more(row: Any) -> str:
    return _verdict(row, "more than", "less than", "about as much as")


def _verdict(row: Any, above: str, below: str, neither: str) -> str:
    if np.isnan(row.low) or row.low <= 0 <= row.high:
        return neither
    return above if row.low > 0 else below


def _signed(row: Any) -> str:
    return f"{row.difference:+.3f}, {row.low:+.3f} to {row.high:+.3f}"
