"""What all figures share: colors for every color vision, sizes, file formats."""

import io
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import matplotlib as mpl
import numpy as np
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from numpy.typing import NDArray

from attributionlab.base import AttributionLabError, nearest

Given = ParamSpec("Given")
Drawn = TypeVar("Drawn")

RAISES, LOWERS = "#b2182b", "#3182bd"
"""Pixels that raise and lower the output, everywhere; the blue is lighter, for gray prints."""
SIGNED = LinearSegmentedColormap.from_list("signed", [LOWERS, "#ffffff", RAISES], N=255)
"""For limits -v and v; of an odd number of colors the middle one, white, is that of 0."""
SEQUENTIAL = mpl.colormaps["cividis"]
"""For values without a sign."""

LINE_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#56b4e9", "#e69f00")
"""Okabe and Ito's palette without its yellow, which is pale on white."""

NEUTRAL = "#7a828c"
VERDICT_COLORS = {
    "pass": "#00614a",
    "pass?": "#58a68d",
    "inconclusive": NEUTRAL,
    "fail": "#9c3300",
    "invalid": "#5d3a94",
    "agrees": "#00614a",
    "undecided": NEUTRAL,
    "differs": "#9c3300",
}
"""Of a verdict, and of whether a table agrees with a statement: green, gray and red everywhere; a paler
green where a pass does not exclude blind maps. Each has a marker of its own, too."""

SIGNLESS_COLORS = {"mixed": "#8a63b0", "not asked": "#9aa0a6"}
"""Of pixels whose sign no score asks for: they raise and lower the output, or are not asked at all."""
NO_ATTRIBUTION = "#d0d0d0"
"""Of a whole map that says nothing."""

SIZES: dict[str, tuple[float, float, bool]] = {
    "slide": (13.33, 7.5, True),
    "page": (7.0, 9.5, False),
    "column": (3.4, 9.5, False),
}
"""Width and height in inches, and whether the figure has exactly this size or at most: a slide of 16:9,
the text of an A4 page, one of its two columns."""
SUFFIXES = (".png", ".pdf", ".svg")
SMALLEST_TEXT, DRAWN_TEXT = 6.0, 7.0
"""Points of the smallest text on paper, at least, and as figures are drawn. Those for a page or a
column are laid out 7/6 as wide as they become, so that their text fits and remains readable."""
_layout: ContextVar[tuple[float, float]] = ContextVar("layout", default=(math.inf, math.inf))


def rgb(color: str) -> NDArray[np.float64]:
    """Red, green and blue, from 0 to 255, of a color such as #b2182b."""
    return np.array([int(color[place : place + 2], 16) for place in (1, 3, 5)], dtype=np.float64)


def signed_colors(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Colors (H, W, 3) of signed values (H, W), which are cut off at -1 and 1."""
    colors: NDArray[np.uint8] = SIGNED((values.clip(-1, 1) + 1) / 2, bytes=True)[..., :3]
    return colors


def in_defaults(draw: Callable[Given, Drawn]) -> Callable[Given, Drawn]:
    """Let a function draw as Matplotlib does by default: with settings of the user's, such as
    ``text.usetex`` where there is no LaTeX, a figure may have no room, or may not be drawn at all.
    """

    @wraps(draw)
    def plain(*arguments: Given.args, **settings: Given.kwargs) -> Drawn:
        with mpl.rc_context():
            mpl.rcdefaults()  # all but the backend and the like
            return draw(*arguments, **settings)

    return plain


@contextmanager
def laid_out_for(size: str | None) -> Iterator[None]:
    """Draw figures with no more panels beside each other than `size` has room for."""
    if size is not None and size not in SIZES:
        raise AttributionLabError(f"size is {size!r}: {nearest(size, SIZES)}")
    width, height, exact = SIZES.get(size or "", (math.inf, math.inf, True))
    larger = math.inf if exact else DRAWN_TEXT / SMALLEST_TEXT
    token = _layout.set((width * larger, height * larger))
    try:
        yield
    finally:
        _layout.reset(token)


def room() -> float:
    """Width in inches that figures are laid out for: infinite unless a size was asked for."""
    return _layout.get()[0]


def tallest() -> float:
    """Height in inches that figures are laid out for: infinite unless a size was asked for."""
    return _layout.get()[1]


def panels_beside(count: int, columns: int, width: float, margin: float) -> tuple[int, float]:
    """How many of `count` panels stand beside each other, and how wide they are, in inches.

    No more than `columns`, and than have room with three quarters of `width`; as few as take no more
    rows, so that hardly a place stays empty.
    """
    most = int(max(1, min(columns, count, (room() - margin) // (0.75 * width))))
    across = -(-count // -(-count // most))
    return across, float(min(width, (room() - margin) / across))


@in_defaults
def encoded(figure: Figure, suffix: str = ".png", size: str | None = None, dpi: int = 150) -> bytes:
    """A figure as the bytes of a file.

    Parameters
    ----------
    figure : Figure
        Is made as large as `size` says.
    suffix : {".png", ".pdf", ".svg"}
        Of the file's name. The same figure has the same bytes, without a date.
    size : {"slide", "page", "column"}, optional
        A key of `SIZES`; as large as it is by default.
    dpi : int
        Of a PNG.
    """
    if suffix not in SUFFIXES:
        raise AttributionLabError(f"{suffix!r} is not a figure format: use {', '.join(SUFFIXES)}")
    for text in figure.findobj(Text):
        # Names and settings are no formulas; the numbers at a logarithmic axis are.
        if "$" in text.get_text() and r"\mathdefault" not in text.get_text():
            text.set_parse_math(False)
    if size is not None:
        _fit(figure, *SIZES[size])
    buffer = io.BytesIO()
    about = {
        ".png": {"Software": "AttributionLab"},
        ".pdf": {"Creator": "AttributionLab", "CreationDate": None},
        ".svg": {"Creator": "AttributionLab", "Date": None},
    }
    # Undone by `in_defaults`. TrueType fonts, which publishers ask for; Type 3 is the default.
    mpl.rcParams.update({"svg.hashsalt": "attributionlab", "pdf.fonttype": 42})
    figure.savefig(buffer, dpi=dpi, format=suffix[1:], metadata=about[suffix])
    return buffer.getvalue()


def _fit(figure: Figure, width: float, height: float, exact: bool) -> None:
    """Scale a figure with its texts, lines and markers, so that its layout stays as it is."""
    own = figure.get_size_inches()
    scale = min(width / own[0], height / own[1]) if exact else min(1.0, width / own[0])
    for artist in figure.findobj():
        if isinstance(artist, Text):
            artist.set_fontsize(artist.get_fontsize() * scale)
        elif isinstance(artist, Line2D):
            artist.set_linewidth(artist.get_linewidth() * scale)
            artist.set_markersize(artist.get_markersize() * scale)
        elif isinstance(artist, PathCollection):
            artist.set_sizes(artist.get_sizes() * scale**2)
        elif isinstance(artist, LineCollection):
            artist.set_linewidth(np.asarray(artist.get_linewidth()) * scale)
    figure.set_size_inches((width, height) if exact else own * scale)
