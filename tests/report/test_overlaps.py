"""Overlaps: the line is n / N in both panels, the symbols are the samples."""

import numpy as np
import pytest

from attributionlab.report import to_png
from attributionlab.report.overlaps import Overlap, overlaps_figure


def test_lines_are_n_divided_by_the_reference_and_straight_against_its_inverse():
    overlap = Overlap(2, np.array([2.0, 4.0, 8.0]), np.array([1.0, 0.5, 0.3]), np.full(3, 0.1))
    figure = overlaps_figure({"n = 2": overlap}, "title")
    by_size, by_inverse = figure.axes
    curve, dots, *_ = by_size.lines
    # Two divisions in float64.
    assert curve.get_ydata() == pytest.approx(2 / curve.get_xdata(), rel=1e-12)
    assert (curve.get_xdata().min(), curve.get_xdata().max()) == (2, 8)
    assert list(dots.get_xdata()) == [2, 4, 8]
    assert list(dots.get_ydata()) == [1, 0.5, 0.3]
    line, dots, *_ = by_inverse.lines
    assert list(line.get_xdata()) == [0, 500]
    assert list(line.get_ydata()) == [0, 1]
    assert list(dots.get_xdata()) == [500, 250, 125]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["n = 2"]
    assert "reference pixels" in by_size.get_xlabel()
    assert len(to_png(figure)) > 1000
