"""Every picture of the laboratory is drawn here."""

import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from attributionlab.report.terminal import explained

__all__ = ["report_figure", "to_png"]

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
            f"mean F1 {result.claim_f1:.2f} ({result.claim_part}): {result.verdict}",
            result.example,
        )
        for result in report.environments
    ]
    return _examples_figure(f"{report.method}: {report.verdict}", rows)


def _examples_figure(title: str, rows: Sequence[_Row]) -> Figure:
    """Image, truth and attribution side by side, a row for each environment."""
    figure = Figure(figsize=(8.4, 1.1 + 2.7 * len(rows)), layout="constrained")
    figure.suptitle(title)
    axes = figure.subplots(len(rows), 3, squeeze=False)
    for axis, name in zip(axes[0], ("image", "ground truth", "attribution"), strict=True):
        axis.set_title(name, fontsize=10)
    for (heading, example), (image_axis, truth_axis, map_axis) in zip(rows, axes, strict=True):
        shown = np.moveaxis(example.image, 0, -1) / example.highest
        if shown.shape[-1] == 1:
            image_axis.imshow(shown[..., 0], cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        else:
            image_axis.imshow(shown, interpolation="nearest")
        image_axis.set_ylabel(heading, fontsize=8)
        for axis, values in ((truth_axis, example.truth), (map_axis, example.attribution)):
            drawn = axis.imshow(values, cmap=SIGNED, vmin=-1, vmax=1, interpolation="nearest")
        for axis in (image_axis, truth_axis, map_axis):
            axis.set_xticks([])
            axis.set_yticks([])
    bar = figure.colorbar(
        drawn, ax=axes, location="bottom", shrink=0.7, aspect=40, ticks=[-1, 0, 1]
    )
    bar.ax.set_xticklabels(["-1: lowers the output", "0", "+1: raises the output"], fontsize=8)
    return figure


def to_png(figure: Figure, dpi: int = 150) -> bytes:
    """A figure as the bytes of a PNG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=dpi, format="png")
    return buffer.getvalue()
