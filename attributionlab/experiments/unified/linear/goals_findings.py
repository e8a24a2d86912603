"""What the tables of unified-section-6-2-2 say, in sentences."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CHANGE", "GRADIENT", "PRODUCT", "REMOVAL", "findings_of"]

REMOVAL, CHANGE = "removal", "change"
GRADIENT, PRODUCT = "gradient", "gradient x input"


def findings_of(tables: Mapping[str, "pd.DataFrame"]) -> list[str]:
    """Sentences computed from the tables of `goals_of_maps`."""
    exhausted = tables["exhausted"]
    return [
        "The paper: gradient x input of a linear model aces Pixel Flipping, the gradient need not, "
        "since it says what changing a pixel does.",
        *(_goal(exhausted, goal) for goal in (REMOVAL, CHANGE)),
        _same(exhausted),
        *_digits(tables["digits"]),
    ]


def _goal(table: "pd.DataFrame", goal: str) -> str:
    here = table[table.goal == goal]
    compatible, other = (PRODUCT, GRADIENT) if goal == REMOVAL else (GRADIENT, PRODUCT)
    own, behind = here[here["map"] == compatible], here[here["map"] == other]
    said = ", ".join(
        f"for {row.best:.1%} of {row.cases:,} with inputs {row.inputs} (mean loss {row.loss:.3f}, at "
        f"most {row.largest_loss:.3g})"
        for row in behind.itertuples()
    )
    always = (
        f"{compatible} is the best of all orders for all {own.cases.sum():,} pairs of a model and an "
        "input"
        if own.best.min() == 1
        else f"{compatible} is not always the best order (at least {own.best.min():.1%})"
    )
    return f"Goal {goal}: {always}; {other} is the best {said}."


def _same(table: "pd.DataFrame") -> str:
    alike = [
        str(kind) for kind, here in table.groupby("inputs", sort=False) if here.best.min() == 1
    ]
    return (
        f"Both maps are best by both goals for inputs {', '.join(alike)}: a metric cannot tell goals "
        "apart there, and for other inputs it prefers the map whose goal is its own."
        if alike
        else "For no kind of inputs are both maps best by both goals."
    )


def _digits(table: "pd.DataFrame") -> Iterator[str]:
    for goal, here in table.groupby("goal", sort=False):
        said = ", ".join(
            f"{row[2]} {row.loss:.3f} ({row.low:.3f} to {row.high:.3f})"
            for row in here.itertuples()
        )
        behind = here[here["map"].isin([PRODUCT, GRADIENT])].sort_values("loss").iloc[-1]
        by_chance = here[~here["map"].isin([PRODUCT, GRADIENT])].iloc[0]
        outcome = (
            "one image decides nothing"
            if behind.images < 2
            else f"{behind['map']} is behind, and ahead of a random order"
            if behind.high < by_chance.low
            else f"{behind['map']} is not ahead of a random order"
        )
        yield f"Digits, goal {goal}, mean loss (0 best, 1 worst order): {said}; {outcome}."
