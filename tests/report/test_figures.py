"""Figures show the images, maps, scores and ranks that they are given."""

import io

import numpy as np
import pytest
from matplotlib.image import imread

import attributionlab as al
from attributionlab.report import MapsRow, maps_figure, report_figure, to_png, violins_figure
from attributionlab.report.figures import leaderboard_figure


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
        image, truth, attribution = (axis.images[0].get_array() for axis in axes[3 * row :][:3])
        assert np.array_equal(truth, result.example.truth)
        assert np.array_equal(attribution, -truth)
        highest = result.example.highest
        shown = result.example.image * 1.0 / highest
        assert np.array_equal(image, shown[0] if len(shown) == 1 else np.moveaxis(shown, 0, -1))
        label = axes[3 * row].get_ylabel()
        assert label.startswith(result.name)
        assert label.endswith("fail")
    assert figure.get_suptitle() == "inverted-oracle: fail"
    ticks = [label.get_text() for label in figure.axes[6].get_xticklabels()]
    assert ticks == ["-1: lowers the output", "0", "+1: raises the output"]


def test_a_png_has_the_size_of_the_figure_and_is_not_blank():
    report = al.faithfulness_test("oracle", al.load("uniform-accumulator", image_size=24), n=1)
    figure = report_figure(report)
    pixels = imread(io.BytesIO(to_png(figure, dpi=50)))
    width, height = figure.get_size_inches() * 50
    assert pixels.shape[:2] == (int(height), int(width))
    assert pixels.std() > 0.05


# Maps of several methods


def row(methods, label="somewhere"):
    maps = {name: np.full((2, 2), value) for name, value in methods.items()}
    truth = np.array([[1, 0], [0, -1]], dtype=np.int8)
    return MapsRow(label, np.zeros((1, 2, 2), np.float32), 1, truth, {}, maps, {})


def shown(figure):
    """By title or, below a title, by what stands above: the largest value of each map drawn."""
    return [
        [float(axis.images[0].get_array().max()) for axis in line if axis.images]
        for line in np.reshape(figure.axes[:-1], (-1, columns(figure)))
    ]


def columns(figure):
    return figure.axes[0].get_subplotspec().get_gridspec().ncols


def test_few_methods_stand_beside_each_other():
    figure = maps_figure([row({"one": 0.25, "two": 0.5}), row({"two": 0.75})])
    assert columns(figure) == 4
    assert shown(figure) == [[0, 1, 0.25, 0.5], [0, 1, 0.75]]


def test_many_methods_stand_in_bands_with_the_images_again():
    methods = {f"m{k}": k / 32 for k in range(17)}
    figure = maps_figure([row(methods), row({"m16": 1.0})])
    assert columns(figure) == 2 + 9
    first, second, third, fourth = shown(figure)
    assert first == [0, 1, *(k / 32 for k in range(9))]
    assert second == fourth[:2] == [0, 1]
    assert third == [0, 1, *(k / 32 for k in range(9, 17))]
    assert fourth == [0, 1, 1.0]
    titles = [axis.get_title() for axis in figure.axes[:-1]]
    assert titles[:3] == ["image", "ground truth", "m0"]
    assert titles[22:25] == ["image", "ground truth", "m9"]


# Violins


def scores(*f1):
    values = np.array(f1, dtype=float)
    return {"precision": values, "recall": values / 2, "f1": values / 4}


ROWS = {
    "overall": {"first": scores(0.2, 0.4, 0.9), "second": scores(1.0, 1.0)},
    "positive": {"second": scores(0.5, np.nan, 0.7)},
}


def bars(axis, position):
    """Smallest, mean and largest value of the violin at a position, from its three lines."""
    heights = []
    for lines in axis.collections:
        for segment in getattr(lines, "get_segments", list)():
            (x0, y0), (x1, y1) = segment
            if y0 == y1 and x0 < position < x1:
                heights.append(y0)
    return sorted(set(heights))


def test_a_row_for_each_part_and_a_column_for_each_score():
    figure = violins_figure(ROWS, 0.5, "title")
    titles = [axis.get_title() for axis in figure.axes]
    assert titles == [f"{score}, {row}" for row in ROWS for score in ("precision", "recall", "F1")]
    labels = [label.get_text() for label in figure.axes[-1].get_xticklabels()]
    assert labels == ["first", "second"]
    assert figure.get_suptitle() == "title"


@pytest.mark.parametrize(("column", "divisor"), [(0, 1), (1, 2), (2, 4)])
def test_bars_are_smallest_mean_and_largest(column, divisor):
    axis = violins_figure(ROWS, 0.5).axes[column]
    assert bars(axis, 1) == pytest.approx([0.2 / divisor, 0.5 / divisor, 0.9 / divisor])


def test_a_constant_score_is_a_line_and_nan_is_left_out():
    figure = violins_figure(ROWS, 0.5)
    assert bars(figure.axes[0], 2) == pytest.approx([1.0])
    assert bars(figure.axes[3], 2) == pytest.approx([0.5, 0.6, 0.7])


def test_a_method_without_scores_in_a_row_leaves_its_place_empty():
    assert bars(violins_figure(ROWS, 0.5).axes[3], 1) == []


def test_the_f1_that_must_be_reached_is_drawn_in_the_column_of_f1_only():
    figure = violins_figure(ROWS, 0.65)
    for index, axis in enumerate(figure.axes):
        dashed = [line for line in axis.lines if line.get_linestyle() == "--"]
        assert [line.get_ydata()[0] for line in dashed] == ([0.65] if index % 3 == 2 else [])


def test_the_scores_of_many_methods_stand_below_each_other():
    many = {f"method {k}": ROWS["overall"]["first"] for k in range(17)}
    figure = violins_figure({"one": many, "two": many}, 0.5)
    titles = [axis.get_title() for axis in figure.axes]
    assert titles == [
        f"{name}, {row}" for row in ("one", "two") for name in ("precision", "recall", "F1")
    ]
    left = {round(axis.get_position().x0, 3) for axis in figure.axes}
    assert len(left) == 1


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
