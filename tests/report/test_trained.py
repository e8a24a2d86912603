"""The figure of trained networks shows images, accuracies, and how every network ends."""

import numpy as np
import pytest
from matplotlib.colors import same_color

from attributionlab.report import TrainedNetworks, to_png, trained_networks_figure

OUTCOMES = ("none", "some", "all")


@pytest.fixture(scope="module")
def figure():
    images = [np.full((2, 4, 4), value, dtype=np.float32) for value in (0.0, 0.5, 1.0)]
    images[0][1] = 0.25
    networks = {
        "first": TrainedNetworks(
            ["all", "some", "all", "none", "some", "all"], np.linspace(-0.5, 1.2, 6)
        ),
        "second": TrainedNetworks(["some"], np.array([0.5])),
    }
    return trained_networks_figure(
        *images, accuracies=(1, 0.5, 0), networks=networks, outcomes=OUTCOMES, title="Networks"
    )


def test_images_stand_in_columns_under_their_accuracies(figure):
    shown = [float(axis.images[0].get_array().mean()) for axis in figure.axes[:6]]
    assert shown == [0.0, 0.5, 1.0, 0.25, 0.5, 1.0]
    assert all(axis.images[0].get_clim() == (0, 1) for axis in figure.axes[:6])
    titles = [axis.get_title().split()[-1] for axis in figure.axes[:3]]
    assert titles == ["100%", "50%", "0%"]
    assert [figure.axes[place].get_ylabel() for place in (0, 3)] == ["class 0", "class 1"]
    assert figure.get_suptitle() == "Networks"


def test_bars_of_one_kind_stand_side_by_side_in_the_order_of_the_outcomes(figure):
    bars = [bar for bar in figure.axes[6].patches if bar.get_width()]
    ends = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in bars]
    assert ends == [(0, 1), (1, 3), (3, 6), (0, 1)]
    assert same_color(bars[1].get_facecolor(), bars[3].get_facecolor())  # "some"
    assert len({bar.get_facecolor() for bar in bars}) == 3
    (legend,) = figure.subfigs[1].legends
    assert [text.get_text() for text in legend.get_texts()] == list(OUTCOMES)
    for patch, bar in zip(legend.get_patches(), bars, strict=False):
        assert same_color(patch.get_facecolor(), bar.get_facecolor())


def test_points_have_the_color_of_their_outcome_and_none_lies_outside(figure):
    bars = [bar.get_facecolor() for bar in figure.axes[6].patches if bar.get_width()]
    strip = figure.axes[7]
    first, second = strip.collections
    assert first.get_offsets()[:, 0].tolist() == np.linspace(-0.5, 1.2, 6).tolist()
    expected = [bars[OUTCOMES.index(o)] for o in ("all", "some", "all", "none", "some", "all")]
    assert [tuple(color) for color in first.get_facecolors()] == expected
    assert second.get_offsets().tolist() == [[0.5, 0.75]]
    left, right = strip.get_xlim()
    assert left < -0.5
    assert right > 1.2
    assert to_png(figure, dpi=40).startswith(b"\x89PNG")
