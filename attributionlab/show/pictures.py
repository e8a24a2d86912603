"""Images and maps as small PNG files inside a page."""

import base64
import io
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from attributionlab.show.figures import map_cell, visible
from attributionlab.show.style import NO_ATTRIBUTION, SIGNED, SIGNLESS_COLORS, rgb

ERROR_COLORS = {
    "found": "#a6dba0",
    "missed": "#8a3fb0",
    "falsely attributed": "#e69f00",
    "wrong sign": "#101010",
}
"""Told apart by lightness alone, hence with every color vision and in a gray print; none is the red or
blue of what raises and lowers the output."""

IN_A_ROW = 5
"""Tokens side by side in a picture."""
LEVELS = 64
SIGNED_COLORS = SIGNED(np.linspace(0, 1, 255), bytes=True)[:, :3]
"""From -1 to 1; of an odd number of colors the middle one is that of 0."""
Pixels = NDArray[np.uint8]


def image_picture(image: NDArray[Any], highest: float, side: int) -> str:
    """An image (C, H, W) as `figures.visible` shows it, at most `side` wide."""
    values = np.asarray(image, dtype=np.float64)
    levels = np.rint(255 * averaged(visible(values, highest), side)).astype(np.uint8)
    if len(levels) == 1:
        return data_uri(levels[0], np.repeat(np.arange(256, dtype=np.uint8)[:, None], 3, axis=1))
    return data_uri(np.moveaxis(levels, 0, -1))


def map_picture(
    values: NDArray[Any],
    side: int,
    signless: Mapping[str, NDArray[np.bool_]] | None = None,
    faint: bool = False,
) -> str:
    """Signed values (H, W) in [-1, 1]: red raises the output, blue lowers it, white is 0.

    `signless` are the pixels (H, W) that have the colors of `SIGNLESS_COLORS` instead, by its names.
    A `faint` one says nothing, and is gray.
    """
    shown = np.asarray(values, dtype=np.float64)
    if faint:
        return _colored(np.full((*shown.shape, 3), rgb(NO_ATTRIBUTION)), side)
    if not signless:
        shown = averaged(shown, side)
        return data_uri(np.rint(127 + 127 * shown.clip(-1, 1)).astype(np.uint8), SIGNED_COLORS)
    return _colored(255 * np.moveaxis(map_cell(shown, signless), 0, -1), side)


def _colored(colors: NDArray[np.float64], side: int) -> str:
    """A picture of colors (H, W, 3), which are averaged, since what they stand for does not mix."""
    mixed = averaged(np.moveaxis(colors, -1, 0), side)
    return data_uri(np.rint(np.moveaxis(mixed, 0, -1)).astype(np.uint8))


class Errors(NamedTuple):
    """What an attribution misses and what it claims falsely, pixel by pixel (H, W)."""

    missed: NDArray[np.float64]
    """In [0, 1] where the truth is not 0, 0 elsewhere."""
    wrong_sign: NDArray[np.float64]
    """In [0, 1] where the truth is not 0, 0 elsewhere."""
    false: NDArray[np.float64]
    """In [0, 1] where the truth is 0, 0 elsewhere."""
    relevant: NDArray[np.bool_]
    """Where the truth is not 0."""
    asked: NDArray[np.bool_]
    """What the claim is about; elsewhere all of the above is 0."""

    @property
    def shares(self) -> tuple[float, float, float]:
        """The missed value and the pixels of wrong sign of the relevant, and how much of the map's
        values lies on these: its precision, whatever the signs.
        """
        relevant = max(self.relevant.sum(), 1)
        on_them = float((self.relevant - self.missed + self.wrong_sign).sum())
        return (
            float(self.missed.sum() / relevant),
            float((self.wrong_sign > 0).sum() / relevant),
            on_them / (on_them + float(self.false.sum()) or 1.0),
        )


def errors(
    truth: NDArray[Any],
    attribution: NDArray[Any],
    claim: str,
    signless: Mapping[str, NDArray[np.bool_]] | None = None,
) -> Errors:
    """Truth s in {-1, 0, 1} against attribution a in [-1, 1].

    Under the claim "signed": where s is not 0, |s - a| up to 1 is missed, and what exceeds 1 has the
    wrong sign; where s is 0, |a| is false. The claim "overall" compares magnitudes, "positive" the
    positive sides only. Of the pixels `signless` (names of `SIGNLESS_COLORS`, (H, W) each) mixed ones
    are relevant under "overall"; no other claim asks for them.
    """
    sign, value = np.sign(truth).astype(np.float64), np.asarray(attribution, dtype=np.float64)
    asked = np.ones(sign.shape, dtype=bool)
    for name, where in (signless or {}).items():
        if name == "mixed" and claim == "overall":
            sign = np.where(where, 1.0, sign)
        else:
            asked &= ~where
    value = np.where(asked, value, 0.0)
    if claim == "overall":
        sign, value = np.abs(sign), np.abs(value)
    elif claim.startswith("positive"):
        sign, value = sign.clip(min=0), value.clip(min=0)
    relevant, error = sign != 0, np.abs(sign - value)
    return Errors(
        np.where(relevant, error.clip(max=1), 0),
        np.where(relevant, (error - 1).clip(min=0), 0),
        np.where(relevant, 0, error),
        relevant,
        asked,
    )


def error_picture(found: Errors, side: int) -> str:
    """Errors in the colors of `ERROR_COLORS`, the fuller the larger, and full for any wrong sign, to be
    seen; white is rightly without value.

    What is not asked has its color of `SIGNLESS_COLORS`.
    """
    kind = np.where(found.relevant, np.where(found.wrong_sign > 0, 1, 0), 2)
    size = np.choose(kind, [found.missed, found.wrong_sign, found.false])
    hit, missed, false, wrong = (rgb(color) for color in ERROR_COLORS.values())
    ramps = [(hit, missed), (wrong, wrong), (rgb("#ffffff"), false)]
    palette = np.rint(np.concatenate([np.linspace(*ends, LEVELS) for ends in ramps]))
    indices = kind * LEVELS + np.rint((LEVELS - 1) * size).astype(int)
    palette = np.concatenate([palette, [rgb(SIGNLESS_COLORS["not asked"])]])
    indices = np.where(found.asked, indices, len(palette) - 1)
    if max(indices.shape) <= side:
        return data_uri(indices.astype(np.uint8), palette)
    return _colored(palette[indices], side)


def averaged(values: NDArray[np.float64], side: int) -> NDArray[np.float64]:
    """Means of square blocks of (..., H, W), as large as needed for at most `side` rows and columns.

    Blocks at the end may be smaller. Values that fit already come back as they are.

    Examples
    --------
    >>> averaged(np.array([[1.0, 3.0, 5.0]]), 2)
    array([[2., 5.]])
    """
    height, width = values.shape[-2:]
    block = -(-max(height, width) // side)
    rows, columns = np.arange(0, height, block), np.arange(0, width, block)
    sums = np.add.reduceat(np.add.reduceat(values, rows, axis=-2), columns, axis=-1)
    heights, widths = np.diff([*rows, height]), np.diff([*columns, width])
    means: NDArray[np.float64] = sums / (heights[:, None] * widths)
    return means


def of_tokens(
    pictures: Mapping[str, str], image: NDArray[Any]
) -> tuple[dict[str, str], tuple[int, int]]:
    """Pictures of a sequence (V, 1, T) as its tokens, each in its color, and (height, width) in tokens.

    A token shows the number of its word, and nothing where it is absent; the picture "image" is white.
    Pictures of other images stay as they are.
    """
    height, width = image.shape[1:]
    if height > 1 or len(image) <= 3:
        return dict(pictures), (height, width)
    rows, words = -(-width // IN_A_ROW), image[:, 0].argmax(0).tolist()
    found = {}
    for name, picture in pictures.items():
        png = base64.b64decode(picture.partition(",")[2])
        colors = np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))[0]
        cells = []
        for place, word in enumerate(words):
            x, y = place % IN_A_ROW, place // IN_A_ROW
            fill = "ffffff" if name == "image" else bytes(colors[place].tolist()).hex()
            ink = "000000" if name == "image" or colors[place].mean() > 110 else "ffffff"
            cells.append(
                f'<rect x="{x}" y="{y}" width="1" height="1" fill="#{fill}" stroke="#888" '
                f'stroke-width=".04"/><text x="{x + 0.5}" y="{y + 0.65}" font-size=".45" '
                f'text-anchor="middle" font-family="sans-serif" fill="#{ink}">{word or ""}</text>'
            )
        box = f'viewBox="0 0 {IN_A_ROW} {rows}" width="{40 * IN_A_ROW}" height="{40 * rows}"'
        svg = f'<svg xmlns="http://www.w3.org/2000/svg" {box}>{"".join(cells)}</svg>'
        code = base64.b64encode(svg.encode()).decode("ascii")
        found[name] = f"data:image/svg+xml;base64,{code}"
    return found, (rows, IN_A_ROW)


def data_uri(pixels: Pixels, palette: NDArray[Any] | None = None) -> str:
    """A PNG file as an address that needs no network.

    `pixels`: colors (H, W, 3), or with a palette indices into it, (H, W): a third of the bytes for a
    noisy map. `palette`: red, green and blue, (256 at most, 3).
    """
    picture = Image.fromarray(pixels)
    if palette is not None:
        picture.putpalette(palette.astype(np.uint8).tobytes())
    buffer = io.BytesIO()
    picture.save(buffer, "png")
    return png_uri(buffer.getvalue())


def png_uri(png: bytes) -> str:
    """The bytes of a PNG file as an address."""
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")
