"""The figure of retrained networks shows a row of images for each set, and means with their spread."""

import numpy as np
import pytest
from matplotlib.container import ErrorbarContainer

from attributionlab.report import to_png
from attributionlab.report.retraining import AccuracyBars, retraining_figure

SAMPLES = {
    name: np.full((3, 3, 4, 4), value, dtype=np.float32)
    for name, value in (("whole", 1.0), ("cut", 0.5))
}
BARS = {
    "original": AccuracyBars([[0.1, 0.1, 0.4], [0.4, 0.4]], [0.25, None]),
    "retrained": AccuracyBars([[0.6, 0.8], [1.0, 1.0]], [None, 0.9]),
}


def drawn(bars=BARS, possible=(0.75, 1.0)):
    return retraining_figure(
        SAMPLES,
        bars,
        groups=["first", "second"],
        groups_label="test images",
        possible=possible,
        chance=0.1,
        title="Networks",
    )


@pytest.fixture(scope="module")
def figure():
    return drawn()


def legend_of(figure):
    [legend] = figure.subfigs[1].legends
    return {text.get_text() for text in legend.get_texts()}


def test_a_row_of_images_for_each_set_under_its_name(figure):
    axes = figure.subfigs[0].axes
    assert [float(axis.images[0].get_array().mean()) for axis in axes] == [1.0] * 3 + [0.5] * 3
    assert [axes[0].get_ylabel(), axes[3].get_ylabel()] == ["whole", "cut"]
    assert figure.get_suptitle() == "Networks"


def test_bars_are_means_side_by_side_and_say_so(figure):
    [axis] = figure.subfigs[1].axes
    assert [bar.get_height() for bar in axis.patches] == pytest.approx([0.2, 0.4, 0.7, 1.0])
    middles = [bar.get_x() + bar.get_width() / 2 for bar in axis.patches]
    assert middles == pytest.approx([-0.2, 0.8, 0.2, 1.2])
    assert [text.get_text() for text in axis.texts] == ["0.20", "0.40", "0.70", "1.00"]
    assert [label.get_text() for label in axis.get_xticklabels()] == ["first", "second"]
    assert axis.get_xlabel() == "test images"
    assert to_png(figure, dpi=40).startswith(b"\x89PNG")


def test_whiskers_reach_from_the_lowest_to_the_highest(figure):
    [axis] = figure.subfigs[1].axes
    reaches = [
        tuple(segment[:, 1])
        for container in axis.containers
        if isinstance(container, ErrorbarContainer)
        for segment in container.lines[2][0].get_segments()
    ]
    assert np.allclose(reaches, [(0.1, 0.4), (0.4, 0.4), (0.6, 0.8), (1.0, 1.0)])


def test_published_best_possible_and_chance_are_told_apart(figure):
    [axis] = figure.subfigs[1].axes
    points = axis.collections[-2].get_offsets()
    assert points[:, 1].tolist() == [0.25, 0.9]
    levels = [float(segment[0, 1]) for segment in axis.collections[-1].get_segments()]
    assert levels == [0.75, 1.0]
    assert legend_of(figure) == {
        "original",
        "retrained",
        "published, for CIFAR-10",
        "best possible",
        "chance",
    }


def test_a_group_may_lack_a_kind_of_networks():
    bars = {
        "original": AccuracyBars([[0.1, 0.3], [0.4]], [None, 0.3]),
        "retrained": AccuracyBars([[], [1.0]], [None, None]),
    }
    [axis] = drawn(bars).subfigs[1].axes
    assert [bar.get_height() for bar in axis.patches] == pytest.approx([0.2, 0.4, 1.0])
    middles = [bar.get_x() + bar.get_width() / 2 for bar in axis.patches]
    assert middles == pytest.approx([-0.2, 0.8, 1.2])


def test_what_is_not_known_is_not_drawn():
    bars = {"original": AccuracyBars([[0.1], [0.4]], [None, None])}
    assert legend_of(drawn(bars, possible=())) == {"original", "chance"}
