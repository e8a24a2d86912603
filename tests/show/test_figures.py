"""Figures show the images, maps, scores and ranks that they are given."""

import io

import numpy as np
import pytest
from matplotlib.image import imread

import attributionlab as al
from attributionlab.show import encoded, leaderboard_figure, report_figure


@pytest.mark.long
def test_a_report_figure_shows_image_truth_and_attribution_of_each_environment():
    environments = [
        al.load("multi-color-sum", image_size=24),
        al.load("uniform-accumulator", image_size=24),
    ]
    report = al.faithfulness_test("inverted-oracle", environments, n=6)
    figure = report_figure(report)
    axes = figure.axes[:6]
    assert [axis.get_title() for axis in axes] == [
        "image",
        "ground truth",
        "attribution",
        "",
        "",
        "",
    ]
    for row, result in enumerate(report.environments):
        shown = axes[3 * row :][:3]
        image, truth, attribution = (axis.images[0].get_array() for axis in shown)
        assert np.array_equal(truth, result.example.truth)
        assert np.array_equal(attribution, -truth)
        picture = result.example.image * 1.0 / result.example.highest
        assert np.array_equal(
            image, picture[0] if len(picture) == 1 else np.moveaxis(picture, 0, -1)
        )
        assert shown[0].get_ylabel().replace("\n", "").startswith(result.name)
        assert shown[2].get_xlabel().startswith("fail: solved 0 of 6")
    title = figure.get_suptitle()
    for said in ("Inverted oracle: fail", "24 x 24 pixels", "6 in each"):
        assert said in title.replace("\n", " ")
    ticks = [label.get_text() for label in figure.axes[6].get_xticklabels()]
    assert ticks == ["-1", "0", "+1"]
    assert "below 0: lowers the output" in figure.axes[6].get_xlabel()


def test_a_png_has_the_size_of_the_figure_and_is_not_blank():
    report = al.faithfulness_test("oracle", al.load("uniform-accumulator", image_size=24), n=1)
    figure = report_figure(report)
    pixels = imread(io.BytesIO(encoded(figure, dpi=50)))
    width, height = figure.get_size_inches() * 50
    assert pixels.shape[:2] == (int(height), int(width))
    assert pixels.std() > 0.05


# Leaderboards


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
