"""What the tables of unified-table-3 say, in sentences."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

DOT, NORMALIZED, INK = "faint dot in the corner", "normalized", "ink as it is"
MAIN_PENALTY = 0.1
"""C, of the values that are asked the one with a few weights for each class."""
ROUNDING = 1e-12
"""Of two means over the same splits."""


def findings_of(tables: Mapping[str, "pd.DataFrame"]) -> list[str]:
    """Sentences computed from the tables of `sparse_linear_model`."""
    table = tables["table-3"].set_index(["values", "model"])
    return [
        "The paper (MNIST): accuracy 79.51 % for both models, Pointing Game 100.0 % for the standard "
        "and 0.0 % for the manipulated one.",
        *_measured(table),
        _as_it_is(table),
        _why_all_hit(tables["penalties"]),
        _nothing_learned(tables["maps"]),
    ]


def _measured(table: "pd.DataFrame") -> Iterator[str]:
    for values in (DOT, NORMALIZED):
        before, after = table.loc[(values, "standard")], table.loc[(values, "manipulated")]
        same = after.same_predictions == 1
        answers = (
            "all predictions are the same, image by image, since all scores of an image rise by one "
            "integer"
            if same
            else f"in the worst split {after.same_predictions:.2%} of the predictions are the same"
        )
        leads = (
            "in every image and for every class"
            if after.corner_first == 1
            else f"in {after.corner_first:.2%} of images and classes"
        )
        hits = (_percent(before.pointing_game), _percent(after.pointing_game))
        dropped = (
            "as in the paper"
            if hits == ("100.0%", "0.0%")  # to the decimals of the paper
            else "not from 100.0 % to 0.0 % as in the paper"
        )
        yield (
            f"{values}: Pointing Game {hits[0]} (splits {_percent(before.low)} "
            f"to {_percent(before.high)}) and {hits[1]} "
            f"({_percent(after.low)} to {_percent(after.high)}; splits: {before.splits:.0f}, test "
            f"images in each: {before.images:.0f}), {dropped}. "
            f"Accuracy {before.accuracy:.2%} and {after.accuracy:.2%}; {answers}. The corner leads "
            f"{leads}. For the predicted class: {_percent(before.predicted_class)} and "
            f"{_percent(after.predicted_class)}."
        )


def _as_it_is(table: "pd.DataFrame") -> str:
    before, after = table.loc[(INK, "standard")], table.loc[(INK, "manipulated")]
    changed = after.pointing_game != before.pointing_game
    return (
        "The paper multiplies weights with pixels whose background is 0 (appendix D): a corner of "
        f"value 0 adds 0, whatever its weight. With {INK} the raised weight "
        f"{'changes' if changed else 'does not change'} the Pointing Game "
        f"({_percent(before.pointing_game)} and {_percent(after.pointing_game)}). The paper does not "
        "say how its corner got a value; normalized values are customary for MNIST, and take a "
        "negative weight."
    )


def _why_all_hit(penalties: "pd.DataFrame") -> str:
    ink = penalties[penalties["values"] == INK]
    certain = bool((ink.standard >= ink.some_positive - ROUNDING).all())
    said = ", ".join(
        f"C = {row.C:g}: {row.some_positive:.1%} of the images have such a pixel, Pointing Game "
        f"{row.standard:.1%}, accuracy {row.accuracy:.1%}"
        for row in ink.itertuples()
    )
    return (
        "Where the background is 0, w * x is 0 on it, so that any pixel that speaks for the class is a "
        f"hit: {said}. "
        + (
            "Where a pixel speaks for the class, the hits follow from the zeros of the data."
            if certain
            else "Not all of these images are hits."
        )
    )


def _nothing_learned(maps: "pd.DataFrame") -> str:
    def score(values: str, name: str) -> Any:
        [row] = maps[(maps["values"] == values) & (maps.attribution == name)].itertuples()
        return row.pointing_game

    box = float(maps.box.iloc[0])
    return (
        f"Maps that know nothing: random weights * x hit {score(INK, 'random weights * x'):.1%} on "
        f"{INK} and {score(NORMALIZED, 'random weights * x'):.1%} on {NORMALIZED} values, the image "
        f"itself {score(INK, 'x itself'):.1%}; the box is {box:.1%} of the image."
    )


def _percent(share: float) -> str:
    return f"{share:.1%}"
