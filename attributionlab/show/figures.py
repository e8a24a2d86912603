"""Figures of results: images with their truth and maps, a leaderboard."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from attributionlab.show import plots, style
from attributionlab.show.map_grids import map_grid
from attributionlab.show.provenance import protocol_text
from attributionlab.show.reading import explained


def report_figure(report: Any) -> Figure:
    """The median example of each environment of a `FaithfulnessReport`."""
    rows, notes, signless = {}, {}, []
    for result in report.environments:
        example = result.example
        name = f"{result.name}\n{explained(result.to_dict())}"
        rows[name] = [
            visible(example.image, example.highest),
            map_cell(example.truth, example.signless),
            map_cell(example.attribution, unasked_only(example.signless), example.faint),
        ]
        solved, asked = result.count
        notes[name] = ["", "", f"{result.verdict}: solved {solved} of {asked}"]
        signless.append(example.signless)
    sides = dict.fromkeys(
        f"{w} x {h}" for *_, h, w in [r.images.shape for r in report.environments]
    )
    return map_grid(
        rows,
        headings=["image", "ground truth", "attribution"],
        notes=notes,
        title=f"{report.display_name}: {report.verdict}\nimage of median F1 of {report.n} in each "
        f"environment, {' or '.join(sides)} pixels\n{protocol_text(report.to_dict())}",
        limits=(-1, 1),
        cell=2.4,
        legend=signless_legend(signless),
    )


def visible(image: NDArray[Any], highest: float) -> NDArray[Any]:
    """An image (C, H, W) as it can be shown: (1, H, W) or (3, H, W), in [0, 1].

    `highest` is the length of the value range, 0 included. A user's own images may have negative
    values, which the smallest value of the image lifts, and other channels, of which the mean is shown.
    """
    lifted = (image - min(0.0, float(image.min()))) / highest
    shown = lifted if len(image) in (1, 3) else lifted.mean(0, keepdims=True)
    clipped: NDArray[Any] = shown.clip(0, 1)
    return clipped


def map_cell(
    values: NDArray[Any], signless: Mapping[str, NDArray[np.bool_]], faint: bool = False
) -> NDArray[Any]:
    """What `map_grid` shows of signed values (H, W) in [-1, 1]: themselves, zeros where they are so
    small that the method says nothing, or colors where `signless` pixels have their own.
    """
    if faint or not signless:
        return values * (not faint)
    colors = style.signed_colors(values) / 255.0
    for name, where in signless.items():
        colors[where] = style.rgb(style.SIGNLESS_COLORS[name]) / 255
    return np.moveaxis(colors, -1, 0)


def unasked_only(
    signless: Mapping[str, NDArray[np.bool_]],
) -> dict[str, NDArray[np.bool_]]:
    """Pixels of which an attribution's values were dropped; those of mixed ones count."""
    return {name: where for name, where in signless.items() if name == "not asked"}


def signless_legend(shown: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Colors of pixels without a sign, by what they mean, of those that are somewhere shown."""
    return {k: v for k, v in style.SIGNLESS_COLORS.items() if any(k in each for each in shown)}


RANKS = "cividis_r"


@style.in_defaults
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
    narrow = math.isfinite(style.room())
    names = [
        textwrap.fill(each, int(min(plots.LONGEST_LINE, plots.LETTERS * style.room() / 3)))
        for each in methods
    ]
    below = [textwrap.fill(case, plots.LONGEST_NAME) for case in cases]
    column, row = (
        max(0.27, plots.LINE * plots.text_lines(below)),
        max(0.3, plots.LINE * plots.text_lines(names)),
    )
    beside, across = plots.widest(names) / plots.LETTERS, column * len(cases)
    height = 2 + plots.widest(below) / plots.LETTERS + row * len(methods)
    if narrow:  # the ranks below, instead of beside
        width = max(style.room(), 0.8 + beside + across)
        size, ratios = (width, height + 2 + row * len(methods)), [1.0, 1.0]
    else:
        width = 5.4 + beside + across
        size, ratios = (width, height), [2.6, 1.6, across + 0.6]
    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(textwrap.fill(title, int(plots.LETTERS * width)), fontsize=10)
    grid = figure.add_gridspec(1 + narrow, len(ratios), width_ratios=ratios)
    fused, true = (figure.add_subplot(grid[0, place]) for place in range(2))
    ranked = figure.add_subplot(grid[1, :] if narrow else grid[0, 2])
    places = np.arange(len(methods))
    reach = (scores[:, 1:] - scores[:, [0]]) * [-1, 1]
    fused.errorbar(
        scores[:, 0],
        places,
        xerr=np.nan_to_num(reach.T).clip(0),  # a score may lie outside of its percentiles
        fmt="o",
        color=style.LINE_COLORS[0],
        capsize=3,
        markersize=5,
    )
    fused.axvline(0, color="#777777", linewidth=0.8)
    measured = [
        "Meta-Rank score, log odds\n(higher is better)",
        "truth: lowest F1\n(higher is better)",
    ]
    if narrow:
        measured = [textwrap.fill(each, 14) for each in measured]
    fused.set_xlabel(measured[0], fontsize=9)
    true.barh(places, truth, color=style.LINE_COLORS[2], height=0.6)
    true.set_xlim(0, 1)
    true.set_xlabel(measured[1], fontsize=9)
    for axis in (fused, true):
        axis.set_ylim(len(methods) - 0.5, -0.5)
        axis.grid(axis="x", linewidth=0.4, color="#cccccc")
        axis.set_axisbelow(True)
        axis.tick_params(labelsize=8)
    fused.set_yticks(places, names, fontsize=9)
    true.set_yticks([])
    image = ranked.imshow(ranks, cmap=RANKS, aspect="auto", vmin=1, vmax=len(methods))
    ranked.set_yticks(places if narrow else [], names if narrow else [], fontsize=8)
    ranked.set_xticks(range(len(cases)), below, rotation=90, fontsize=7)
    ranked.set_title("rank in each case", fontsize=9)
    bar = figure.colorbar(image, ax=ranked, fraction=0.03, pad=0.02)
    bar.set_label("rank (1 is best)", fontsize=8)
    bar.ax.tick_params(labelsize=8)
    bar.ax.invert_yaxis()
    return figure
