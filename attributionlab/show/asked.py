"""What was asked: of an image, color by color, so that a reader can check a map by eye; of a pass."""

import colorsys
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributionlab.base import LEAST_SHARE

HUES = (
    *("red", "orange", "yellow", "lime", "green", "spring green", "cyan", "azure", "blue"),
    *("violet", "magenta", "rose"),
)
"""Of hues 30 degrees apart, from 0 on."""
GRAY = 0.2
"""Saturation below which a color is a gray."""
MOST_COLORS = 4096
"""Colors of an image up to which they are looked at: a photograph has more."""
MOST = 12
"""Names up to which colors are told one by one."""


class Swatch(NamedTuple):
    """A color of an image, and what it does to the output."""

    name: str
    color: str
    does: str


DOES = {
    (True, False): "raises the output",
    (False, True): "lowers the output",
    (True, True): "raises it in some places and lowers it in others",
    (False, False): "does not count",
}
IN_PLACES = " in some places only"


def color_name(color: NDArray[Any]) -> str:
    """A color of one or three values in [0, 1], in a word or two.

    Examples
    --------
    >>> import numpy as np
    >>> color_name(np.array([1.0, 0.5, 0.0])), color_name(np.array([0.9]))
    ('orange', 'white')
    """
    red, green, blue = (float(each) for each in np.broadcast_to(color, 3))
    hue, saturation, value = colorsys.rgb_to_hsv(red, green, blue)
    if saturation < GRAY:
        return "white" if value > 0.8 else "black" if value < 0.15 else "gray"
    return HUES[round(12 * hue) % 12]


def asked_colors(
    image: NDArray[Any], highest: float, truth: NDArray[Any], left_out: NDArray[np.bool_]
) -> list[Swatch]:
    """What each color of an image does to the output, those that raise it first.

    Shades of one name are one color; the most frequent color is the background and is left out.

    `image` (C, H, W): integers from 0 to `highest`. `truth` (H, W): -1, 0, +1. `left_out` (H, W):
    pixels that no score asks for.

    Result: empty for images of other than one or three channels, or of more than `MOST` names.
    """
    if len(image) not in (1, 3):
        return []
    colors, place, counts = np.unique(
        image.reshape(len(image), -1), axis=1, return_inverse=True, return_counts=True
    )
    if len(counts) > MOST_COLORS:
        return []
    place, background = place.reshape(truth.shape), int(counts.argmax())
    by_name: dict[str, list[int]] = {}
    for index in np.argsort(-counts, kind="stable"):
        if index != background:
            by_name.setdefault(color_name(colors[:, index] / highest), []).append(int(index))
    if len(by_name) > MOST:
        return []
    found = []
    for name, members in by_name.items():
        signs = truth[np.isin(place, members) & ~left_out]
        if not signs.size:
            continue
        raises, lowers = bool((signs > 0).any()), bool((signs < 0).any())
        some = (raises != lowers) and bool((signs == 0).any())
        levels = np.rint(255 * np.broadcast_to(colors[:, members[0]] / highest, 3)).astype(int)
        code = "#" + bytes(levels.tolist()).hex()
        found.append(Swatch(name, code, DOES[raises, lowers] + IN_PLACES * some))
    order = [*(does + more for does in DOES.values() for more in ("", IN_PLACES))]
    return sorted(found, key=lambda each: order.index(each.does))


def by_effect(swatches: list[Swatch]) -> dict[str, list[Swatch]]:
    """Swatches of one effect together, in their order."""
    found: dict[str, list[Swatch]] = {}
    for each in swatches:
        found.setdefault(each.does, []).append(each)
    return found


def output_text(result: Mapping[str, Any]) -> str:
    """Which output of an environment was explained, in words."""
    if result["temperature"] is None and "target" not in result["hidden"]:
        return f"the network's output ({result['output']})"
    drawn = "a class that is drawn for each question"
    which = drawn if "target" in result["hidden"] else "the target class"
    behind = result["temperature"]
    softmax = "" if behind is None else f" (softmax of temperature {behind:g})"
    return f"the {result['output']} of {which}{softmax}"


def needed_text(document: Mapping[str, Any]) -> str:
    """How many questions a pass needs in each environment, as "13 of 13"; empty where that differs, or
    where there are too few.
    """
    from attributionlab.base import Tally  # with SciPy

    asked = {result["asked"] for result in document["environments"]}
    [n] = asked if len(asked) == 1 else [0]
    counts = range(int(LEAST_SHARE * n), n + 1)
    return next((f"{k} of {n}" for k in counts if Tally(k, n).passes), "")
