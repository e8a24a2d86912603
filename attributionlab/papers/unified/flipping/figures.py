"""Figures of Pixel Flipping: logarithms of what is left, and masked images."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from attributionlab.metrics.reference_masking import reference_order
from attributionlab.papers.subjects.subjects import Subject
from attributionlab.papers.unified.flipping.curves import Flipped
from attributionlab.papers.unified.flipping.orders import (
    RANDOM,
    REFERENCES,
    SEVEN,
    TRUTH,
    WINDOW,
    Orders,
    reference_name,
)
from attributionlab.papers.unified.flipping.tables import MASKED, Case
from attributionlab.papers.unified.six_methods import GRADCAM
from attributionlab.report.decays import DecayPanel, decays_figure
from attributionlab.report.picture_grid import GridRow, picture_grid_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Cases = Mapping[Case, Flipped]
Line = tuple[NDArray[np.float64], NDArray[np.float64]]
X = "share of the pixels masked"
Y = "log ratio of the {} (lower: more lost)"
FIRST_INDICATORS = ("accuracy", "probability")
FLOOR = -4.0
"""Of log ratios that are drawn: less than 2 % are left."""
LAST = 0.9
"""Share of masked pixels at which curves of all subjects end: nothing but the baseline is left at 1."""
COLUMNS = 6
SMALL_REFERENCE = 4 / 3
"""N / n of the paper's masked images: 12k and 9k."""


def first_figure(cases: Cases) -> "Figure":
    """GradCAM and random pixels: accuracy and probability of the label."""
    rows = [
        [_panel(f"{subject}, {baseline}", case, indicator, (GRADCAM, RANDOM))]
        for (subject, baseline), case in cases.items()
        for indicator in FIRST_INDICATORS
    ]
    panels = [panel for [panel] in rows]
    half = len(FIRST_INDICATORS)
    return decays_figure(
        [panels[start : start + half] for start in range(0, len(panels), half)],
        "Pixel Flipping of GradCAM and of random pixels; a line ends where nothing is left",
    )


def decay_figure(cases: Cases) -> "Figure":
    """Seven maps, a window at random and, where it is known, the truth: a panel for each case."""
    names = (*SEVEN, WINDOW, TRUTH)
    panels = [
        _panel(f"{subject}, {baseline}", case, "probability", names)
        for (subject, baseline), case in cases.items()
    ]
    return decays_figure(
        _in_rows(panels, 2),
        "Pixel Flipping of seven maps and of a window",
        bold=(RANDOM, TRUTH),
        bands=(RANDOM, GRADCAM),
    )


def reference_figure(cases: Cases) -> "Figure":
    """Random masking within GradCAM's first pixels, and its difference from GradCAM."""
    references = [reference_name(share) for share in REFERENCES]
    rows = []
    for (subject, baseline), case in cases.items():
        title = f"{subject}, {baseline}"
        by_map = case.of(GRADCAM, "probability")
        lines = {name: _log_difference(case.of(name, "probability"), by_map) for name in references}
        ylabel = "log ratio minus GradCAM's\n(lower: more lost)"
        difference = DecayPanel(title, X, ylabel, case.shares, lines, zero=True, floor=FLOOR)
        rows.append(
            [
                _panel(title, case, "probability", (GRADCAM, RANDOM, *references)),
                _ended(difference),
            ]
        )
    return decays_figure(rows, "Reference Pixel Flipping", bold=(GRADCAM, RANDOM))


def masked_figure(subject: Subject, orders: Orders) -> "Figure":
    """The first images without the pixels that are masked at random, within a reference, by GradCAM."""
    pixels = orders.orders.shape[2]
    masked = round(MASKED * pixels)
    by_map = orders.of(GRADCAM)[:COLUMNS]
    within = reference_order(
        by_map, round(SMALL_REFERENCE * masked), torch.Generator().manual_seed(0)
    )
    shown = {
        "random": orders.of(RANDOM)[:COLUMNS],
        f"random in the first {SMALL_REFERENCE * MASKED:.0%} by GradCAM": within,
        "by GradCAM": by_map,
    }
    pictures = subject.images[:COLUMNS] / subject.highest
    rows = [GridRow("image", list(pictures.numpy()))]
    for name, order in shown.items():
        cells = pictures.flatten(2).clone()
        chosen = order[:, None, :masked].expand(-1, pictures.shape[1], -1)
        rows.append(GridRow(name, list(cells.scatter(2, chosen, 0.0).view_as(pictures).numpy())))
    return picture_grid_figure(rows, f"{MASKED:.0%} of the pixels masked, {subject.name}")


def _panel(title: str, case: Flipped, indicator: str, names: Sequence[str]) -> DecayPanel:
    lines = {name: _log_ratio(case.of(name, indicator)) for name in names if name in case.names}
    return _ended(DecayPanel(title, X, Y.format(indicator), case.shares, lines, floor=FLOOR))


def _ended(panel: DecayPanel) -> DecayPanel:
    # The nearest share, as numbers of pixels are rounded.
    inside = slice(int(np.abs(panel.x - LAST).argmin()) + 1)
    lines = {name: (mean[inside], error[inside]) for name, (mean, error) in panel.lines.items()}
    return panel._replace(x=panel.x[inside], lines=lines)


def _log_ratio(curves: NDArray[np.float64]) -> Line:
    """Of the mean to the mean unmasked; the error is that of the mean, relative to it."""
    mean = curves.mean(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(mean / mean[0]), _error(curves) / mean


def _log_difference(own: NDArray[np.float64], other: NDArray[np.float64]) -> Line:
    """Of two log ratios of the same units; the error is that of the paired difference."""
    first, second = own.mean(0), other.mean(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(first / second), _error(own / first - other / second)


def _error(curves: NDArray[np.float64]) -> NDArray[np.float64]:
    units = len(curves)
    spread = curves.std(0, ddof=1) if units > 1 else np.full(curves.shape[1], np.nan)
    return np.asarray(spread / np.sqrt(units))


def _in_rows(panels: Sequence[DecayPanel], columns: int) -> list[list[DecayPanel]]:
    return [list(panels[start : start + columns]) for start in range(0, len(panels), columns)]
