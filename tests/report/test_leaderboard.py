"""Figures of leaderboards, of correlation matrices and of seconds."""

import numpy as np

from attributionlab.report.leaderboard import (
    CorrelationMatrix,
    correlation_matrices_figure,
    leaderboard_figure,
)
from attributionlab.report.seconds import SecondsLine, seconds_figure


def test_a_leaderboard_shows_scores_truth_and_ranks_in_one_order():
    ranks = np.array([[1.0, np.nan], [2.0, 1.0]])
    figure = leaderboard_figure(
        ["a", "b"],
        scores=np.array([[1.0, 1.5, 2.0], [-1.0, np.nan, np.nan]]),
        truth=np.array([0.9, 0.1]),
        ranks=ranks,
        cases=["one", "two"],
        title="title",
    )
    [bars] = figure.axes[0].collections
    ends = [segment[:, 0].tolist() for segment in bars.get_segments()]
    assert ends == [[1, 2], [-1, -1]]  # to the upper end, not to the other side of it
    fused, true, ranked, bar = figure.axes
    assert fused.lines[0].get_xdata().tolist() == [1, -1]
    assert fused.get_ylim() == (1.5, -0.5)  # the first method is on top
    assert [patch.get_width() for patch in true.patches] == [0.9, 0.1]
    shown = ranked.get_images()[0].get_array()
    assert shown.mask.tolist() == np.isnan(ranks).tolist()
    assert "1 is best" in bar.get_ylabel()
    assert "higher is better" in fused.get_xlabel()


def test_matrices_have_numbers_in_cells_that_there_are():
    whole = CorrelationMatrix("whole", ["a", "b"], ["a", "b"], np.array([[1, -0.5], [-0.5, 1]]))
    part = CorrelationMatrix("part", ["a"], ["c", "d"], np.array([[0.25, np.nan]]))
    figure = correlation_matrices_figure({"first": [whole, part], "second": [part]}, "title")
    drawn = [axis for axis in figure.axes if axis.get_images()]
    assert [[text.get_text() for text in axis.texts] for axis in drawn] == [
        ["1.00", "-0.50", "-0.50", "1.00"],
        ["0.25"],
        ["0.25"],
    ]
    assert drawn[0].get_ylabel() == "first"
    assert drawn[0].texts[0].get_color() == "white"
    assert drawn[1].texts[0].get_color() == "black"


def test_seconds_are_drawn_on_logarithmic_axes():
    line = SecondsLine(np.array([1.0, 10.0]), np.array([0.1, 1.0]))
    [axis] = seconds_figure({"way": line}, xlabel="methods", title="title").axes
    assert (axis.get_xscale(), axis.get_yscale()) == ("log", "log")
    assert axis.get_legend().get_texts()[0].get_text() == "way"
    assert "lower is better" in axis.get_ylabel()
