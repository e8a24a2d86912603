"""Maps of several definitions of the truth side by side, and what they give one pixel of each color."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray

from attributionlab.report.figures import color_bar, show_image, show_map
from attributionlab.report.palette import LINE_COLORS

LOWERS, NEITHER, RAISES = "#2166ac", "#f7f7f7", "#b2182b"
"""The ends and the middle of the maps' palette."""
UNTOLD, OPPOSED = "#f6e3a1", "#e6ab02"
"""Two shades that are on none of its sides."""
VERDICTS = {
    "all: raises the output": RAISES,
    "all: lowers it": LOWERS,
    "all: no effect": NEITHER,
    "only some give a sign": UNTOLD,
    "opposite signs": OPPOSED,
}
MARKERS = "osD^v<>PX"


class DefinitionsRow(NamedTuple):
    """One image with the values that each definition gives its pixels."""

    label: str
    image: NDArray[np.float32]
    """(C, H, W), integers from 0 to `highest`"""
    highest: int
    values: Mapping[str, NDArray[np.float64]]
    """(H, W) by definition, in units of the output"""
    notes: Mapping[str, str]
    """What stands below a definition's map"""
    agreed: NDArray[np.bool_]
    """(H, W): where all definitions give the same sign"""
    signs: NDArray[np.int8]
    """(H, W): that sign"""
    opposed: NDArray[np.bool_]
    """(H, W): where one gives + and another -"""


def definitions_figure(rows: Sequence[DefinitionsRow], title: str = "") -> Figure:
    """Images, each definition's values, and where the definitions agree on the sign.

    Each map is scaled by its own largest magnitude; a definition that a row lacks leaves its place
    empty.
    """
    names = list(dict.fromkeys(name for row in rows for name in row.values))
    columns = 2 + len(names)
    figure = Figure(figsize=(0.4 + 1.55 * columns, 1.5 + 1.95 * len(rows)), layout="compressed")
    figure.suptitle(title, fontsize=11)
    axes: Any = figure.subplots(len(rows), columns, squeeze=False)
    headings = ["image", *(name.replace("-", "\n") for name in names), "agreement"]
    for axis, heading in zip(axes[0], headings, strict=True):
        axis.set_title(heading, fontsize=9)
    for row, (image_axis, *map_axes, agreed_axis) in zip(rows, axes, strict=True):
        show_image(image_axis, row.image, row.highest)
        image_axis.set_ylabel(row.label, fontsize=8)
        for axis, name in zip(map_axes, names, strict=True):
            if name in row.values:
                drawn = show_map(axis, _scaled(row.values[name]))
                axis.set_xlabel(row.notes.get(name, ""), fontsize=7)
            else:
                axis.set_axis_off()
        _show_agreement(agreed_axis, row)
    color_bar(figure, drawn, axes[:, 1:-1], shrink=0.6)
    handles = [
        Patch(facecolor=color, edgecolor="#999999", label=name) for name, color in VERDICTS.items()
    ]
    axes[-1, -1].legend(
        handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.2), fontsize=7, frameon=False
    )
    return figure


def _scaled(values: NDArray[np.float64]) -> NDArray[np.float64]:
    largest = np.abs(values).max()
    return values / largest if largest else values


def _show_agreement(axis: Axes, row: DefinitionsRow) -> None:
    verdicts = np.where(row.agreed, row.signs, np.where(row.opposed, 3, 2))
    colors = ListedColormap([LOWERS, NEITHER, RAISES, UNTOLD, OPPOSED])
    axis.imshow(verdicts, cmap=colors, vmin=-1.5, vmax=3.5, interpolation="nearest")
    axis.set(xticks=[], yticks=[])
    axis.set_xlabel(row.notes.get("agreement", ""), fontsize=7)


def worth_figure(
    worths: Mapping[str, Mapping[str, float]],
    sizes: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    default: float,
    title: str = "",
) -> Figure:
    """What one pixel of each color is worth, and how large the target's is by temperature.

    Parameters
    ----------
    worths : mapping of str to mapping of str to float
        By definition, by color; on a common scale for the target's pixel.
    sizes : mapping of str to (temperatures, sizes)
        One line for each definition; sizes are positive, in units of the output.
    default : float
        The temperature to mark.
    title : str
        Above all.
    """
    figure = Figure(figsize=(10.5, 4.4), layout="constrained")
    figure.suptitle(title, fontsize=11)
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    colors = list(next(iter(worths.values())))
    for index, color in enumerate(colors):
        heights = [of_color[color] for of_color in worths.values()]
        places = np.arange(len(worths)) + 0.19 * (index - (len(colors) - 1) / 2)
        left.bar(
            places, heights, width=0.17, color=LINE_COLORS[index], label=color.replace("_", "-")
        )
    left.axhline(0, color="#999999", linewidth=0.8)
    left.set_xticks(range(len(worths)), [_wrapped(name) for name in worths], fontsize=8)
    left.set_ylabel("one pixel of each color (target = 3)", fontsize=9)
    left.legend(fontsize=8, frameon=False, ncols=2, title="color, by its pixels", title_fontsize=8)
    for index, (name, (temperatures, each)) in enumerate(sizes.items()):
        right.plot(
            temperatures, each, color=LINE_COLORS[index], marker=MARKERS[index], label=name,
            markersize=5, markerfacecolor="none",
        )  # fmt: skip
    right.axvline(default, color="#999999", linewidth=0.8, linestyle="--")
    right.set(xscale="log", yscale="log")
    right.set_xlabel("temperature (dashed: the default)", fontsize=9)
    right.set_ylabel("one pixel of the target, in probability", fontsize=9)
    right.legend(fontsize=8, frameon=False)
    return figure


def _wrapped(name: str) -> str:
    return name.replace("integrated-", "integr.-").replace("-", "\n")
