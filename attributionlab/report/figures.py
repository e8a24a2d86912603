"""Figures of results: images with their truth and maps, the spread of scores, a leaderboard."""

import io
import itertools
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Patch
from numpy.typing import NDArray

from attributionlab.digits import score_text
from attributionlab.report.palette import LINE_COLORS, SIGNLESS_COLORS
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
    signless: Mapping[str, NDArray[np.bool_]]
    """(H, W) by names of `SIGNLESS_COLORS`"""
    maps: Mapping[str, NDArray[np.float32]]
    """(H, W) in [-1, 1] by method"""
    notes: Mapping[str, str]
    """What stands below a method's map"""


def maps_figure(rows: Sequence[MapsRow]) -> Figure:
    """Images, their truth and the maps of several methods; empty where a method has none.

    Many methods stand in several bands, each with the images and their truth again.
    """
    methods = list(dict.fromkeys(name for row in rows for name in row.maps))
    bands = max(1, -(-len(methods) // ACROSS))
    across = -(-len(methods) // bands)
    size = (0.3 + 1.2 * (2 + across), 1.8 + (1.25 * len(rows) + 0.3) * bands - 0.3)
    figure = Figure(figsize=size, layout="compressed")
    axes: Any = figure.subplots(bands * len(rows), 2 + across, squeeze=False)
    for band in range(bands):
        shown = methods[band * across : (band + 1) * across]
        here = axes[band * len(rows) : (band + 1) * len(rows)]
        for axis, name in zip(here[0], ["image", "ground truth", *shown], strict=False):
            axis.set_title(_wrapped(name), fontsize=8)
        for row, (image_axis, truth_axis, *map_axes) in zip(rows, here, strict=True):
            show_image(image_axis, row.image, row.highest)
            image_axis.set_ylabel(_wrapped(row.label), fontsize=8)
            drawn = show_map(truth_axis, row.truth, row.signless)
            for axis, method in itertools.zip_longest(map_axes, shown):
                if method in row.maps:
                    show_map(axis, row.maps[method])
                    axis.set_xlabel(row.notes.get(method, ""), fontsize=7)
                else:
                    axis.set_axis_off()
    color_bar(figure, drawn, axes)
    signless_legend(figure, [row.signless for row in rows])
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
        show_map(truth_axis, example.truth, example.signless)
        drawn = show_map(map_axis, example.attribution, unasked_only(example.signless))
    color_bar(figure, drawn, axes)
    signless_legend(figure, [example.signless for _, example in rows])
    return figure


def visible(image: NDArray[Any], highest: float) -> NDArray[Any]:
    """An image (C, H, W) as it can be shown: (1, H, W) or (3, H, W), in [0, 1].

    `highest` is the length of the value range, 0 included. A user's own images may have negative
    values, which the smallest value of the image lifts, and other channels, of which the mean is shown.
    """
    lifted = (image - min(0.0, float(image.min()))) / highest
    shown = lifted if len(image) in (1, 3) else lifted.mean(0, keepdims=True)
    clipped: NDArray[Any] = shown.clip(0, 1)
    return clipped


def show_image(axis: Axes, image: NDArray[np.float32], highest: float) -> None:
    """An image (C, H, W), gray or in color, without ticks."""
    shown = np.moveaxis(visible(image, highest), 0, -1)
    gray = shown.shape[-1] == 1
    axis.imshow(
        shown[..., 0] if gray else shown, cmap="gray", vmin=0, vmax=1, interpolation="nearest"
    )
    axis.set(xticks=[], yticks=[])


def show_map(
    axis: Axes, values: NDArray[Any], signless: Mapping[str, NDArray[np.bool_]] | None = None
) -> AxesImage:
    """Signed values (H, W) in [-1, 1], without ticks; `signless` pixels have colors of their own."""
    axis.set(xticks=[], yticks=[])
    drawn = axis.imshow(values, cmap=SIGNED, vmin=-1, vmax=1, interpolation="nearest")
    for name, where in (signless or {}).items():
        color = ListedColormap([SIGNLESS_COLORS[name]])
        axis.imshow(np.ma.masked_where(~where, where), cmap=color, interpolation="nearest")
    return drawn


def unasked_only(
    signless: Mapping[str, NDArray[np.bool_]],
) -> dict[str, NDArray[np.bool_]]:
    """Pixels of which an attribution's values were dropped; those of mixed ones count."""
    return {name: where for name, where in signless.items() if name == "not asked"}


def signless_legend(figure: Figure, shown: Sequence[Mapping[str, Any]]) -> None:
    """What the colors of pixels without a sign mean, at the figure's lower edge."""
    names = [name for name in SIGNLESS_COLORS if any(name in each for each in shown)]
    if names:
        patches = [Patch(color=SIGNLESS_COLORS[name], label=name) for name in names]
        figure.legend(handles=patches, loc="outside lower right", fontsize=8, frameon=False)


def color_bar(figure: Figure, drawn: AxesImage, axes: Any) -> None:
    """What the colors of `show_map` mean, below these axes."""
    bar = figure.colorbar(
        drawn, ax=axes, location="bottom", shrink=0.7, aspect=40, ticks=[-1, 0, 1]
    )
    bar.ax.set_xticklabels(["-1: lowers the output", "0", "+1: raises the output"], fontsize=8)


def to_png(figure: Figure, dpi: int = 150) -> bytes:
    """A figure as the bytes of a PNG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=dpi, format="png")
    return buffer.getvalue()


Scores = Mapping[str, NDArray[np.float64]]
"""Precision, recall and F1 of each image, NaN where not applicable."""
SCORE_NAMES = {"precision": "precision", "recall": "recall", "f1": "F1"}
BESIDE = 16
"""Methods up to which precision, recall and F1 have room beside each other."""
FILL, BARS, LINE = "#56b4e9", "#333333", "#d55e00"


def violins_figure(
    rows: Mapping[str, Mapping[str, Scores]], gamma: float, title: str = ""
) -> Figure:
    """Precision, recall and F1 of several methods; bars mark the least, the mean and the largest.

    The three stand beside each other, or below each other where there are many methods.

    Parameters
    ----------
    rows : mapping of str to mapping of str to mapping
        From top to bottom: what the scores are about, and the scores by method.
    gamma : float
        The F1 that must be reached, drawn as a line.
    title : str
        Above all.
    """
    methods = list(dict.fromkeys(name for row in rows.values() for name in row))
    across = len(SCORE_NAMES) if len(methods) <= BESIDE else 1
    lines = len(rows) * len(SCORE_NAMES) // across
    size = (3.6 + 0.42 * len(methods) * across, 1.9 + 2.0 * lines)
    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(title)
    axes: Any = figure.subplots(lines, across, squeeze=False, sharex=True, sharey=True)
    of_rows = axes.reshape(len(rows), len(SCORE_NAMES))
    for (label, scores), line in zip(rows.items(), of_rows, strict=True):
        for (key, name), axis in zip(SCORE_NAMES.items(), line, strict=True):
            for position, method in enumerate(methods, start=1):
                if method in scores:
                    _violin(axis, position, np.asarray(scores[method][key]))
            axis.grid(axis="y", linewidth=0.4, color="#cccccc")
            axis.set(ylim=(-0.04, 1.04))
            axis.set_title(f"{name}, {label}", fontsize=9)
        line[0].set_ylabel("higher is better", fontsize=8)
        line[-1].axhline(gamma, color=LINE, linewidth=1, linestyle="--")
        line[-1].annotate(
            f"gamma {gamma:g}", (1.01, gamma), xycoords=("axes fraction", "data"), fontsize=7,
            va="center", color=LINE, annotation_clip=False,
        )  # fmt: skip
    labels = ["\n".join(textwrap.wrap(name, 20)) for name in methods]
    for axis in axes[-1]:
        axis.set_xlim(0.4, len(methods) + 0.6)
        axis.set_xticks(range(1, len(methods) + 1), labels, rotation=60, ha="right", fontsize=8)
    return figure


def _violin(axis: Axes, position: int, values: NDArray[np.float64]) -> None:
    """Nothing where no value is applicable."""
    applicable = values[~np.isnan(values)]
    if not len(applicable):
        return
    drawn = axis.violinplot(applicable, [position], showmeans=True, widths=0.8)
    bodies: Any = drawn.pop("bodies")  # a list; everything else in there are lines
    for body in bodies:
        body.set(facecolor=FILL, edgecolor="none", alpha=0.8)
    for lines in drawn.values():
        lines.set(color=BARS, linewidth=1)


RANKS = "cividis_r"
LETTERS = 13
"""Characters of a title to the inch."""


def leaderboard_figure(
    methods: Sequence[str],
    *,
    scores: NDArray[np.float64],
    truth: NDArray[np.float64],
    ranks: NDArray[np.float64],
    cases: Sequence[str],
    title: str,
) -> Figure:
    """Fused scores with their intervals, the truth's beside them, and the ranks they are made of.

    Parameters
    ----------
    methods : sequence of str
        From top to bottom, best first.
    scores : ndarray, (methods, 3)
        Score, and the ends of its interval.
    truth : ndarray, (methods,)
        Scores by the truth, in [0, 1].
    ranks : ndarray, (methods, cases)
        NaN where a method is missing, which is left white.
    cases : sequence of str
        From left to right.
    title : str
        Above all.
    """
    width = 8.4 + 0.27 * len(cases)
    figure = Figure(figsize=(width, 3.6 + 0.3 * len(methods)), layout="constrained")
    figure.suptitle(textwrap.fill(title, int(LETTERS * width)), fontsize=10)
    ratios = [2.6, 1.6, 0.27 * len(cases) + 0.6]
    fused, true, ranked = figure.subplots(1, 3, width_ratios=ratios)
    places = np.arange(len(methods))
    reach = (scores[:, 1:] - scores[:, [0]]) * [-1, 1]
    fused.errorbar(
        scores[:, 0],
        places,
        xerr=np.nan_to_num(reach.T).clip(0),  # a score may lie outside of its percentiles
        fmt="o",
        color=LINE_COLORS[0],
        capsize=3,
        markersize=5,
    )
    fused.axvline(0, color="#777777", linewidth=0.8)
    fused.set_xlabel("Meta-Rank score, log odds\n(higher is better)", fontsize=9)
    true.barh(places, truth, color=LINE_COLORS[2], height=0.6)
    true.set_xlim(0, 1)
    true.set_xlabel("truth: lowest F1\n(higher is better)", fontsize=9)
    for axis in (fused, true):
        axis.set_ylim(len(methods) - 0.5, -0.5)
        axis.grid(axis="x", linewidth=0.4, color="#cccccc")
        axis.set_axisbelow(True)
        axis.tick_params(labelsize=8)
    fused.set_yticks(places, methods, fontsize=9)
    true.set_yticks([])
    image = ranked.imshow(ranks, cmap=RANKS, aspect="auto", vmin=1, vmax=len(methods))
    ranked.set_yticks([])
    ranked.set_xticks(range(len(cases)), cases, rotation=90, fontsize=7)
    ranked.set_title("rank in each case", fontsize=9)
    bar = figure.colorbar(image, ax=ranked, fraction=0.03, pad=0.02)
    bar.set_label("rank (1 is best)", fontsize=8)
    bar.ax.tick_params(labelsize=8)
    bar.ax.invert_yaxis()
    return figure
