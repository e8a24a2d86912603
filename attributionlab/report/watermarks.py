"""Watermarked images with their maps, shares of maps on the watermark, accuracies as pixels go."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import NDArray

from attributionlab.report.figures import show_image
from attributionlab.report.palette import LINE_COLORS

STYLES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.2)), (0, (7, 2, 1.2, 2)))
MARKERS = "osD^v"
OUTLINE = "#0072b2"  # apart from the reds of the maps


class MarkedRow(NamedTuple):
    """One image with its maps.

    Parameters
    ----------
    label : str
        What stands beside it.
    image : ndarray, (C, H, W)
        In [0, 1].
    region : ndarray of bool, (H, W)
        What is outlined on the maps.
    maps : mapping of str to ndarray, (H, W)
        By method, in [0, 1].
    """

    label: str
    image: NDArray[np.float32]
    region: NDArray[np.bool_]
    maps: Mapping[str, NDArray[np.float64]]


class NetworkCurves(NamedTuple):
    """Curves in one coordinate system: by method (networks, S), known at x (S,)."""

    title: str
    x: Sequence[float]
    curves: Mapping[str, NDArray[np.float64]]
    better: str = "lower is better"


def watermarks_figure(groups: Mapping[str, Sequence[MarkedRow]], title: str) -> Figure:
    """Images and maps in rows, each group of rows under its heading, the regions outlined.

    Parameters
    ----------
    groups : mapping of str to sequence of MarkedRow
        By heading, from left to right, equally many rows in each.
    title : str
        Above all.
    """
    names = ["image", *next(iter(groups.values()))[0].maps]
    count = len(next(iter(groups.values())))
    size = (0.6 + 1.35 * len(names) * len(groups), 1.35 + 1.4 * count)
    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(title, fontsize=11)
    parts: Any = figure.subfigures(1, len(groups), squeeze=False)
    for part, (heading, rows) in zip(parts.flat, groups.items(), strict=True):
        part.suptitle(heading, fontsize=10)
        axes = part.subplots(count, len(names), squeeze=False)
        for row, line in zip(rows, axes, strict=True):
            show_image(line[0], row.image, 1)
            line[0].set_ylabel(row.label, fontsize=8)
            for axis, values in zip(line[1:], row.maps.values(), strict=True):
                drawn = _show_share(axis, values, row.region)
        for axis, name in zip(axes[0], names, strict=True):
            axis.set_title(name, fontsize=9)
        bar = part.colorbar(drawn, ax=axes, location="bottom", aspect=40)
        bar.set_label("attribution, 1: the map's largest; outlined: the watermark", fontsize=8)
        bar.ax.tick_params(labelsize=8)
    return figure


def _show_share(axis: Axes, values: NDArray[np.float64], region: NDArray[np.bool_]) -> AxesImage:
    """A map without ticks, under the outline of a region."""
    axis.set(xticks=[], yticks=[])
    height, width = region.shape
    padded = np.pad(region, 1).astype(float)  # so that outlines close at the edges
    # Twice as fine: lines then run between pixels and not through them.
    fine = padded.repeat(8, axis=0).repeat(8, axis=1)
    places = (np.arange(8 * (height + 2)) + 0.5) / 8 - 1.5
    across = (np.arange(8 * (width + 2)) + 0.5) / 8 - 1.5
    drawn = axis.imshow(values, cmap="Reds", vmin=0, vmax=1, interpolation="nearest")
    axis.contour(across, places, fine, levels=[0.5], colors=OUTLINE, linewidths=1.2)
    axis.set(xlim=(-0.5, width - 0.5), ylim=(height - 0.5, -0.5))
    return drawn


def share_figure(
    shares: Mapping[str, Mapping[str, Sequence[float]]],
    areas: Mapping[str, float],
    title: str,
) -> Figure:
    """Shares of attribution by data set and method: bars of means, a point for each network.

    Parameters
    ----------
    shares : mapping of str to mapping of str to sequence of float
        By data set and method, a share in [0, 1] for each network.
    areas : mapping of str to float
        By data set, the share of a uniform map.
    title : str
        Above all.
    """
    figure = Figure(figsize=(7.6, 3.9), layout="constrained")
    figure.suptitle(title, fontsize=11)
    axis = figure.subplots()
    methods = list(next(iter(shares.values())))
    width = 0.8 / len(shares)
    for index, (data, by_method) in enumerate(shares.items()):
        places = np.arange(len(methods)) + (index - (len(shares) - 1) / 2) * width
        means = [float(np.mean(by_method[method])) for method in methods]
        color = LINE_COLORS[index]
        axis.bar(places, means, 0.92 * width, color=color, alpha=0.75, label=data)
        for place, mean, method in zip(places, means, methods, strict=True):
            values = by_method[method]
            axis.plot([place] * len(values), values, "o", color="black", markersize=2.5)
            axis.text(
                *(place, max(*values, mean) + 0.02, f"{mean:.2f}"),
                ha="center",
                fontsize=8,
                bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.5},
            )
        axis.axhline(
            areas[data], color=color, linestyle=STYLES[1 + index], linewidth=1.2,
            label=f"{data}: share of the area",
        )  # fmt: skip
    axis.set_xticks(range(len(methods)), methods, fontsize=9)
    axis.set_ylim(0, 1.1)
    axis.set_ylabel("Attr%: share of attribution on\nthe watermark (higher is better)", fontsize=9)
    axis.tick_params(labelsize=8)
    figure.legend(loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    return figure


def network_curves_figure(
    panels: Sequence[NetworkCurves], title: str, columns: int | None = None
) -> Figure:
    """Accuracy as pixels are removed: means over networks, bands to the extremes.

    A method has the same color, style and marker in every panel. Panels stand in rows of a number of
    columns, which divides theirs; in one row by default.
    """
    columns = len(panels) if columns is None else columns
    rows = len(panels) // columns
    figure = Figure(figsize=(1.2 + 3.9 * columns, 0.5 + 3.4 * rows), layout="constrained")
    figure.suptitle(title, fontsize=11)
    axes: Any = figure.subplots(rows, columns, squeeze=False)
    names = list(dict.fromkeys(name for panel in panels for name in panel.curves))
    handles = {}
    for axis, panel in zip(axes.flat, panels, strict=True):
        for name, curves in panel.curves.items():
            place = names.index(name)
            color = LINE_COLORS[place]
            axis.fill_between(
                panel.x, curves.min(0), curves.max(0), color=color, alpha=0.15, linewidth=0
            )
            [handles[name]] = axis.plot(
                *(panel.x, curves.mean(0)),
                color=color,
                linestyle=STYLES[place % len(STYLES)],
                marker=MARKERS[place % len(MARKERS)],
                markersize=4,
                linewidth=1.6,
            )
        axis.set_title(panel.title, fontsize=9)
        axis.set_xlabel("fraction of pixels removed", fontsize=9)
        axis.set_ylabel(f"accuracy ({panel.better})", fontsize=9)
        axis.set_xlim(panel.x[0], panel.x[-1])
        axis.set_ylim(0, 1.02)
        axis.grid(linewidth=0.4, color="#dddddd")
        axis.tick_params(labelsize=8)
    figure.legend(
        *([handles[name] for name in names], names),
        loc="outside right center",
        fontsize=8,
        frameon=False,
        handlelength=4,
    )
    return figure
