"""What the tables of unified-appendix-e say, in sentences."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

BOTH_SIGNS = "weights of both signs"
POSITIVE = "positive weights"
COUNTS = "one class per pixel, counts"
"""Weights and inputs are 1, as where our environments count colors."""
OWN_CLASS = "one class per pixel, both signs"
ROUNDING = 1e-12
"""Of two means of the same few shares, summed in another sequence."""


def findings_of(tables: Mapping[str, "pd.DataFrame"]) -> list[str]:
    """Sentences computed from the tables of `accuracy_counterexample`."""
    return [
        _example(tables["example"]),
        _two_orders(tables["orders"]),
        _exhausted(tables["exhausted"]),
        *_shares(tables["shares"]),
        _margin(tables["shares"]),
        _one_class(tables["shares"]),
    ]


def _example(table: "pd.DataFrame") -> str:
    rows = table.set_index("masked")
    more, less = rows.loc["x1"], rows.loc["x2"]
    as_printed = bool(rows.right["nothing"] and more.right and not less.right)
    return (
        "The paper: masking the pixel that adds more (2) leaves the class, masking the one that adds "
        f"less (1) changes it. Exactly, by squares: without x1 the first class has {more.y1_squared} "
        f"against {more.y2_squared} and {more.y3_squared}, without x2 {less.y1_squared} against "
        f"{less.y2_squared} and {less.y3_squared}: "
        + ("as printed." if as_printed else "unlike what is printed.")
        + f" The score falls by {more.lost} and by {less.lost}."
    )


def _two_orders(table: "pd.DataFrame") -> str:
    [first] = table[table.by_contribution].itertuples()
    [other] = table[~table.by_contribution].itertuples()
    return (
        f"By the package's metrics the order by contribution has Pixel Flipping "
        f"{first.pixel_flipping:g} by score against {other.pixel_flipping:g} (higher is better), and "
        f"mean accuracy {first.mean_accuracy:.3f} against {other.mean_accuracy:.3f} (lower is better): "
        + (
            "score and accuracy disagree."
            if (first.pixel_flipping > other.pixel_flipping)
            == (first.mean_accuracy > other.mean_accuracy)
            else "score and accuracy agree."
        )
    )


def _exhausted(table: "pd.DataFrame") -> str:
    own = table[table.by_contribution]
    ahead = int((table.pixel_flipping > own.pixel_flipping.max()).sum())
    sooner = int((own.mean_accuracy.min() - table.mean_accuracy > ROUNDING).sum())
    return (
        f"Of all {len(table)} orders of the first drawn counterexample's pixels, {ahead} beat the "
        f"order by contribution by score and {sooner} by accuracy."
    )


def _shares(table: "pd.DataFrame") -> Iterator[str]:
    for kind, here in table.groupby("kind", sort=False):
        said = ", ".join(
            f"{row.by_accuracy:.1%} ({row.low:.1%} to {row.high:.1%}) with {row.classes} classes"
            for row in here.itertuples()
        )
        never = "for none" if here.by_score.max() == 0 else f"for up to {here.by_score.max():.1%}"
        yield (
            f"{str(kind).capitalize()}: by accuracy another order beats the one by contribution for "
            f"{said}; by score {never} of {here.classifiers.sum():,} classifiers."
        )


def _margin(table: "pd.DataFrame") -> str:
    here = table[table.kind != COUNTS]
    two, more = here[here.classes == 2], here[here.classes > 2]
    return (
        "The order by what a pixel adds to the target less the runner-up (the margin, which decides "
        f"about accuracy) is beaten for {_total(two, 'by_margin'):,} of {two.classifiers.sum():,} "
        f"classifiers with two classes, and for {_total(more, 'by_margin'):,} of "
        f"{more.classifiers.sum():,} with more, where another class may come second (without counts)."
    )


def _one_class(table: "pd.DataFrame") -> str:
    counts, signed = (table[table.kind == kind] for kind in (COUNTS, OWN_CLASS))
    beaten = [_total(here, "by_accuracy") for here in (counts, signed)]
    return (
        "Pixels that count for one class each: with weights and inputs 1, as where our environments "
        f"count colors, another order is better by accuracy for {beaten[0]:,} of "
        f"{counts.classifiers.sum():,} classifiers, with weights of both signs for {beaten[1]:,} of "
        f"{signed.classifiers.sum():,}: "
        + (
            "a counterexample does not need pixels that several classes share."
            if any(beaten)
            else "no counterexample without shared pixels was drawn."
        )
    )


def _total(table: "pd.DataFrame", share: str) -> int:
    """Classifiers, from shares of them."""
    return int((table[share] * table.classifiers).round().sum())
