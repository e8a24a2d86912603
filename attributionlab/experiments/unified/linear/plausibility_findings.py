"""Table 1 as printed and as measured, and what that says, in sentences."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["EDGES", "FAITHFUL", "OTHERS", "PRINTED", "RANDOM", "cells_of", "findings_of"]

FAITHFUL = "the model's truth"
OTHERS, EDGES, RANDOM = "the other model's truth", "edges of the image", "random numbers"
PRINTED = {
    (True, True): "high",
    (True, False): "low",
    (False, True): "low",
    (False, False): "uncertain",
}
"""By whether the model is plausible and the map faithful."""
LOW, HIGH = 0.25, 0.75
"""Of a mean Pointing Game; between them a score is neither."""


def cells_of(maps: "pd.DataFrame") -> "pd.DataFrame":
    """A row for each printed cell: scores of the maps that belong into it."""
    import pandas as pd

    rows = []
    for (plausible, faithful), printed in PRINTED.items():
        here = maps[(maps.plausible == plausible) & (maps.faithful == faithful)]
        levels = [_level(score) for score in here.pointing_game]
        rows.append(
            {
                "model": "plausible" if plausible else "implausible",
                "map": "faithful" if faithful else "unfaithful",
                "printed": printed,
                **{level: levels.count(level) for level in ("low", "between", "high")},
                "least": here.pointing_game.min(),
                "largest": here.pointing_game.max(),
                "as_printed": _as_printed(printed, levels),
            }
        )
    return pd.DataFrame(rows)


def findings_of(
    tables: Mapping[str, "pd.DataFrame"], printed: Mapping[tuple[bool, bool], str]
) -> list[str]:
    """Sentences computed from the tables of `plausible_and_faithful`."""
    cells, maps = tables["table-1"], tables["maps"]
    said = ", ".join(
        f"{row.model} and {row.map} {printed[row.model == 'plausible', row.map == 'faithful']}"
        for row in cells.itertuples()
    )
    return [
        f"The paper, about a metric of plausibility (model and map): {said}.",
        *_cells(cells, maps),
        _against(maps),
    ]


def _level(score: float) -> str:
    return "low" if score <= LOW else "high" if score >= HIGH else "between"


def _as_printed(printed: str, levels: list[str]) -> bool:
    """An uncertain cell must hold low scores and high ones."""
    if printed == "uncertain":
        return {"low", "high"} <= set(levels)
    return all(level == printed for level in levels)


def _cells(cells: "pd.DataFrame", maps: "pd.DataFrame") -> Iterator[str]:
    for cell in cells.itertuples():
        plausible, faithful = cell.model == "plausible", cell.map == "faithful"
        here = maps[(maps.plausible == plausible) & (maps.faithful == faithful)]
        listed = ", ".join(
            f"{name} "
            + " and ".join(f"{row.pointing_game:.2f} ({row.model})" for row in of_name.itertuples())
            for name, of_name in here.groupby("map", sort=False)
        )
        outcome = "as printed" if cell.as_printed else f"not all {cell.printed} as printed"
        model = str(cell.model).capitalize()
        yield f"{model} model, {cell.map} map, Pointing Game: {listed}: {outcome}."


def _against(maps: "pd.DataFrame") -> str:
    """The highest of what knows nothing of the model, beside the lowest of the truth."""
    own, free = maps[maps.faithful], maps[maps["map"].isin([EDGES, RANDOM])]
    worst, best = own.loc[own.pointing_game.idxmin()], free.loc[free.pointing_game.idxmax()]
    reversed_ = best.pointing_game > worst.pointing_game
    return (
        f"The truth of a model scores as little as {worst.pointing_game:.2f} ({worst.model}), and "
        f"{best['map']}, which ask no model, score as much as {best.pointing_game:.2f} "
        f"({best.model}), with faithfulness {worst.faithfulness:.2f} and {best.faithfulness:.2f}: "
        + (
            "plausibility can rank maps against faithfulness."
            if reversed_
            else "here plausibility does not rank them against faithfulness."
        )
    )
