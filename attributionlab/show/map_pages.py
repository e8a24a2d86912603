"""Maps of several methods side by side as one HTML page, where no truth is known."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from attributionlab.base import cut, printable
from attributionlab.show import page
from attributionlab.show.pictures import SIGNED_COLORS, image_picture, map_picture

SIDES = (448, 224, 160, 112, 80, 56)
"""Rows and columns of a picture at most; the first with which the page is small enough is taken."""


class Maps(NamedTuple):
    """What the page shows.

    - `network`: what it is called. `facts`: what else stands in the head, by name.
    - `images` (B, C, H, W), of values whose range has the length `highest`.
    - `asked`: of each image, what is explained.
    - `maps`: (B, H, W) of each method. `warnings`: what is said of them; `refused`: why there are none.
    """

    network: str
    facts: Mapping[str, str]
    images: NDArray[Any]
    highest: float
    asked: Sequence[str]
    maps: Mapping[str, NDArray[np.float64]]
    warnings: Mapping[str, Sequence[str]]
    refused: Mapping[str, str]


def maps_page(shown: Maps) -> str:
    """Images and maps as an HTML page of under 5 MB that loads and runs nothing.

    Each map is divided by its own largest magnitude, which stands below it. Where pictures would make
    the page too large they are smaller, and then fewer; the page says so. The same input gives the same
    page.

    Parameters
    ----------
    shown : Maps
        Its texts are anybody's: they are shown, never run.

    Returns
    -------
    str
        To be written as UTF-8.
    """
    style = "".join(
        (page.HERE / name).read_text(encoding="utf-8") for name in ("page.css", "maps.css")
    )
    whole = page.template("maps")
    said = [name for name in shown.maps if shown.warnings.get(name)]
    content = {
        "network": _name(shown.network),
        "facts": {
            name: cut(printable(value), page.LONGEST_TEXT) for name, value in shown.facts.items()
        },
        "warnings": [
            {
                "anchor": f"warning-{place}",
                "name": _name(name),
                "said": _texts(shown.warnings[name]),
            }
            for place, name in enumerate(said)
        ],
        "refused": [
            {"name": _name(name), "why": cut(printable(why), page.LONGEST_TEXT)}
            for name, why in shown.refused.items()
        ],
        "signed_colors": [f"#{bytes(color).hex()}" for color in SIGNED_COLORS[:: 127 // 4]],
        "style": Markup(style),
        "policy": page.style_policy(style),
    }
    height, width = shown.images.shape[2:]
    content |= {"height": height, "width": width}
    anchors = {name: f"warning-{place}" for place, name in enumerate(said)}
    without = whole.render(content, samples=[], notes=_notes(shown, 0, 0))
    room = page.LARGEST_PAGE - len(without.encode())
    for side in SIDES:
        samples = _fitting(shown, side, anchors, room)
        if len(samples) == len(shown.images):
            break
    return whole.render(content, samples=samples, notes=_notes(shown, side, len(samples)))


def _name(text: str) -> str:
    return cut(printable(text), page.LONGEST_NAME)


def _texts(said: Sequence[str]) -> list[str]:
    return [cut(printable(text), page.LONGEST_TEXT) for text in said[: page.MOST_ITEMS]]


BESIDE = 600
"""Bytes of a picture's description and tags, beside its texts, at most."""


def _fitting(shown: Maps, side: int, anchors: Mapping[str, str], room: int) -> list[dict[str, Any]]:
    """The first images with their maps, as many as fit in so many bytes; one at least."""
    samples: list[dict[str, Any]] = []
    for index in range(len(shown.images)):
        sample = _sample(shown, index, side, anchors)
        texts = [sample["picture"], sample["asked"]]
        texts += [each[key] for each in sample["maps"] for key in ("picture", "name", "name")]
        # An escaped character has five bytes at most (&#34;); those of a picture are not escaped.
        names = 5 * sum(len(text.encode()) for text in texts if not isinstance(text, Markup))
        pictures = sum(len(text) for text in texts if isinstance(text, Markup))
        room -= names + pictures + BESIDE * (1 + len(sample["maps"]))
        if room < 0 and samples:
            break
        samples.append(sample)
    return samples


def _sample(shown: Maps, index: int, side: int, anchors: Mapping[str, str]) -> dict[str, Any]:
    """One image with its maps."""
    maps = []
    for name, values in shown.maps.items():
        largest = float(np.abs(values[index]).max())
        shares = values[index] / (largest or 1.0)
        maps.append(
            {
                "name": _name(name),
                "picture": Markup(map_picture(shares, side, faint=largest == 0)),
                "largest": f"{largest:.2g}" if largest else "",
                "below": float((values[index] < 0).mean()),
                "above": float((values[index] > 0).mean()),
                "anchor": anchors.get(name, ""),
            }
        )
    picture = Markup(image_picture(shown.images[index], shown.highest, side))
    asked = cut(printable(shown.asked[index]), page.LONGEST_TEXT)
    return {"index": index, "asked": asked, "picture": picture, "maps": maps}


def _notes(shown: Maps, side: int, count: int) -> list[str]:
    """What was left out or made smaller, so that the page stays small."""
    notes = []
    if count < len(shown.images):
        notes.append(
            f"The first {count:,} of {len(shown.images):,} images are shown, to keep this page under "
            "5 MB."
        )
    height, width = shown.images.shape[2:]
    if max(height, width) > side:
        notes.append(
            f"Images of {height:,} x {width:,} pixels are averaged over blocks, to at most {side} "
            "rows and columns."
        )
    return notes
