"""Images, truths and maps side by side."""

import io
import itertools
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import NDArray

from attributionlab.digits import score_text
from attributionlab.report.terminal import explained

ACROSS = 16
"""Methods beside each other; more of them stand in bands of equal length."""
SIGNED = "RdBu_r"  # red raises, blue lowers; told apart with every common color vision


class _Row(NamedTuple):
    """One environment's example under its title.

    `example` has the arrays `image` (C, H, W), its largest possible value `highest`, `truth` (H, W) in
    {-1, 0, 1} and `attribution` (H, W) in [-1, 1].
    """

    title: str
    example: Any


def report_figure(report: Any) -> Figure:
    """The median example of each environment of a `FaithfulnessReport`."""
    rows = [
        _Row(
            f"{result.name}\n{explained(result.to_dict())}\n"
            f"mean F1 {score_text(result.claim_f1, report.gamma)} ({result.claim_part}): "
            f"{result.verdict}",
            result.example,
        )
        for result in report.environments
    ]
    return _examples_figure(f"{report.method}: {report.verdict}", rows)


class MapsRow(NamedTuple):
    """One image with its truth and the maps of several methods."""

    label: str
    image: NDArray[np.float32]
    """(C, H, W), integers from 0 to `highest`"""
    highest: int
    truth: NDArray[np.int8]
    """(H, W), -1, 0, +1"""
    maps: Mapping[str, NDArray[np.float32]]
    """(H, W) in [-1, 1] by method"""
    notes: Mapping[str, str]
    """What stands below a method's map"""


def maps_figure(rows: Sequence[MapsRow], title: str = "") -> Figure:
    """Images, their truth and the maps of several methods; empty where a method has none.

    Many methods stand in several bands, each with the images and their truth again.
    """
    methods = list(dict.fromkeys(name for row in rows for name in row.maps))
    bands = max(1, -(-len(methods) // ACROSS))
    across = -(-len(methods) // bands)
    size = (0.3 + 1.2 * (2 + across), 1.8 + (1.25 * len(rows) + 0.3) * bands - 0.3)
    figure = Figure(figsize=size, layout="compressed")
    figure.suptitle(title)
    axes: Any = figure.subplots(bands * len(rows), 2 + across, squeeze=False)
    for band in range(bands):
        shown = methods[band * across : (band + 1) * across]
        here = axes[band * len(rows) : (band + 1) * len(rows)]
        for axis, name in zip(here[0], ["image", "ground truth", *shown], strict=False):
            axis.set_title(_wrapped(name), fontsize=8)
        for row, (image_axis, truth_axis, *map_axes) in zip(rows, here, strict=True):
            show_image(image_axis, row.image, row.highest)
            image_axis.set_ylabel(_wrapped(row.label), fontsize=8)
            drawn = show_map(truth_axis, row.truth)
            for axis, method in itertools.zip_longest(map_axes, shown):
                if method in row.maps:
                    show_map(axis, row.maps[method])
                    axis.set_xlabel(row.notes.get(method, ""), fontsize=7)
                else:
                    axis.set_axis_off()
    color_bar(figure, drawn, axes)
    return figure


def _wrapped(name: str) -> str:
    """A name in several short lines, broken at its hyphens."""
    return "\n".join(textwrap.wrap(name.replace("-", " "), 13))


def _examples_figure(title: str, rows: Sequence[_Row]) -> Figure:
    """Image, truth and attribution side by side, a row for each environment."""
    figure = Figure(figsize=(8.4, 1.1 + 2.7 * len(rows)), layout="constrained")
    figure.suptitle(title)
    axes = figure.subplots(len(rows), 3, squeeze=False)
    for axis, name in zip(axes[0], ("image", "ground truth", "attribution"), strict=True):
        axis.set_title(name, fontsize=10)
    for (heading, example), (image_axis, truth_axis, map_axis) in zip(rows, axes, strict=True):
        show_image(image_axis, example.image, example.highest)
        image_axis.set_ylabel(heading, fontsize=8)
        show_map(truth_axis, example.truth)
        drawn = show_map(map_axis, example.attribution)
    color_bar(figure, drawn, axes)
    return figure


def show_image(axis: Axes, image: NDArray[np.float32], highest: int) -> None:
    """An image (C, H, W), gray or in color, without ticks."""
    shown = np.moveaxis(image, 0, -1) / highest
    gray = shown.shape[-1] == 1
    axis.imshow(
        shown[..., 0] if gray else shown, cmap="gray", vmin=0, vmax=1, interpolation="nearest"
    )
    axis.set(xticks=[], yticks=[])


def show_map(axis: Axes, values: NDArray[Any]) -> AxesImage:
    """Signed values (H, W) in [-1, 1], without ticks."""
    axis.set(xticks=[], yticks=[])
    return axis.imshow(values, cmap=SIGNED, vmin=-1, vmax=1, interpolation="nearest")


def color_bar(figure: Figure, drawn: AxesImage, axes: Any, shrink: float = 0.7) -> None:
    """What the colors of `show_map` mean, below these axes."""
    bar = figure.colorbar(
        drawn, ax=axes, location="bottom", shrink=shrink, aspect=40, ticks=[-1, 0, 1]
    )
    bar.ax.set_xticklabels(["-1: lowers the output", "0", "+1: raises the output"], fontsize=8)


def to_png(figure: Figure, dpi: int = 150) -> bytes:
    """A figure as the bytes of a PNG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=dpi, format="png")
    return buffer.getvalue()
