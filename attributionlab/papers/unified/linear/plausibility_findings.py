"""Table 1 as printed and as measured, and what that says, in sentences."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from attributionlab.stats.intervals import FEWEST_FOR_ORDER

if TYPE_CHECKING:
    import pandas as pd

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
"""Of the interval of a mean Pointing Game; between them a score is neither."""
UNDECIDED = "undecided"


def cells_of(maps: "pd.DataFrame") -> "pd.DataFrame":
    """A row for each printed cell: scores of the maps that belong into it."""
    import pandas as pd

    rows = []
    for (plausible, faithful), printed in PRINTED.items():
        here = maps[(maps.plausible == plausible) & (maps.faithful == faithful)]
        levels = [_level(row) for row in here.itertuples()]
        rows.append(
            {
                "model": "plausible" if plausible else "implausible",
                "map": "faithful" if faithful else "unfaithful",
                "printed": printed,
                **{level: levels.count(level) for level in ("low", "between", "high", UNDECIDED)},
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


def _level(row: Any) -> str:
    if row.images < FEWEST_FOR_ORDER:
        return UNDECIDED
    if row.high <= LOW:
        return "low"
    if row.low >= HIGH:
        return "high"
    return "between" if row.low > LOW and row.high < HIGH else UNDECIDED


def _as_printed(printed: str, levels: list[str]) -> str:
    """An uncertain cell must hold low scores and high ones; in any other all are as printed."""
    if printed == "uncertain":
        missing = {"low", "high"} - set(levels)
        if not missing:
            return "yes"
        return UNDECIDED if levels.count(UNDECIDED) >= len(missing) else "no"
    if set(levels) - {printed, UNDECIDED}:
        return "no"
    return UNDECIDED if UNDECIDED in levels else "yes"


def _cells(cells: "pd.DataFrame", maps: "pd.DataFrame") -> Iterator[str]:
    for cell in cells.itertuples():
        plausible, faithful = cell.model == "plausible", cell.map == "faithful"
        here = maps[(maps.plausible == plausible) & (maps.faithful == faithful)]
        listed = ", ".join(
            f"{name} "
            + " and ".join(f"{row.pointing_game:.2f} ({row.model})" for row in of_name.itertuples())
            for name, of_name in here.groupby("map", sort=False)
        )
        asked = "low and high" if cell.printed == "uncertain" else f"all {cell.printed}"
        outcomes = {"yes": "as printed", "no": f"not {asked} as printed", UNDECIDED: UNDECIDED}
        model = str(cell.model).capitalize()
        yield (
            f"{model} model, {cell.map} map, Pointing Game: {listed}: {outcomes[cell.as_printed]}."
        )


def _against(maps: "pd.DataFrame") -> str:
    """The model whose truth is the furthest behind a map that knows nothing of any model."""
    pairs = [
        (own, free)
        for own in maps[maps.faithful].itertuples()
        for free in maps[maps["map"].isin([EDGES, RANDOM]) & (maps.model == own.model)].itertuples()
    ]
    own, free = max(pairs, key=lambda pair: pair[1].pointing_game - pair[0].pointing_game)
    if free.pointing_game <= own.pointing_game:
        outcome = "in no model does plausibility rank them against faithfulness."
    elif free.low <= own.high or own.images < FEWEST_FOR_ORDER:
        outcome = "undecided whether plausibility ranks them against faithfulness."
    else:
        outcome = "plausibility ranks these maps against faithfulness."
    return (
        f"For {own.model} {own.map} scores {own.pointing_game:.2f} and {free.map} "
        f"{free.pointing_game:.2f}, with faithfulness {own.faithfulness:.2f} and "
        f"{free.faithfulness:.2f} (images: {own.images}): {outcome}"
    )
