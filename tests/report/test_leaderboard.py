"""Figures of leaderboards."""

import numpy as np

from attributionlab.report.leaderboard import leaderboard_figure


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
