"""What the tables of unified-section-6-2-2 say, in sentences."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from attributionlab.stats.intervals import FEWEST_FOR_ORDER

if TYPE_CHECKING:
    import pandas as pd

REMOVAL, CHANGE = "removal", "change"
GRADIENT, PRODUCT = "gradient", "gradient x input"
OWN_MAP = {REMOVAL: PRODUCT, CHANGE: GRADIENT}
OTHER_MAP = {REMOVAL: GRADIENT, CHANGE: PRODUCT}
"""By goal: the map whose goal it is, and the one that has the other goal."""
RANDOM = "random order"


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
    compatible, other = OWN_MAP[goal], OTHER_MAP[goal]
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
    best = table.set_index(["inputs", "goal", "map"]).best
    kinds = list(table.inputs.unique())
    alike = [str(kind) for kind in kinds if best[kind].min() == 1]
    own = [
        str(kind)
        for kind in kinds
        if all(
            best[kind, goal, OWN_MAP[goal]] > best[kind, goal, OTHER_MAP[goal]]
            for goal in (REMOVAL, CHANGE)
        )
    ]
    return (
        f"Both maps are best by both goals for inputs {'; '.join(alike)}: a metric cannot tell goals "
        "apart there"
        if alike
        else "For no kind of inputs are both maps best by both goals"
    ) + (f"; for {'; '.join(own)} either goal prefers its own map." if own else ".")


def _digits(table: "pd.DataFrame") -> Iterator[str]:
    for goal, here in table.groupby("goal", sort=False):
        rows = {row[2]: row for row in here.itertuples()}
        said = ", ".join(
            f"{name} {row.loss:.3f} ({row.low:.3f} to {row.high:.3f})" for name, row in rows.items()
        )
        own, other = OWN_MAP[str(goal)], OTHER_MAP[str(goal)]
        outcome = (
            f"fewer than {FEWEST_FOR_ORDER} images decide nothing"
            if here.images.min() < FEWEST_FOR_ORDER
            else f"{other} is {_beside(rows[other], rows[own])} {own} and "
            f"{_beside(rows[other], rows[RANDOM])} a {RANDOM}"
        )
        yield f"Digits, goal {goal}, mean loss (0 best, 1 worst order): {said}; {outcome}."


def _beside(first: Any, second: Any) -> str:
    """By intervals of losses."""
    if first.low > second.high:
        return "behind"
    return "ahead of" if first.high < second.low else "not told apart from"
