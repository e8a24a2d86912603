"""The figure of doses draws the numbers that it is given."""

import numpy as np
import pytest

from attributionlab.report.doses import DoseLine, doses_figure

NAN = float("nan")
PANELS = {
    "strength": {
        "deletion": DoseLine([0, 0.5, 4], [0.8, 0.4, -0.2], [0.6, 0.1, -0.5], [0.9, 0.5, 0.1]),
        "pointing-game": DoseLine([0, 0.5, 4], [0.5] * 3, [0.4] * 3, [0.6] * 3, perturbs=False),
    },
    "share": {"deletion": DoseLine([0, 1], [0.8, NAN], [0.7, NAN], [0.9, NAN])},
    "distance": {"deletion": DoseLine([0, 1], [0.8, 0.1], [0.7, 0.0], [0.9, 0.2])},
}


@pytest.fixture(scope="module")
def figure():
    return doses_figure(PANELS, 0.5, "title")


def test_a_panel_for_each_kind_of_dose_with_its_doses_evenly_spaced(figure):
    shown = [axis for axis in figure.axes if axis.axison]
    assert [axis.get_xlabel() for axis in shown] == list(PANELS)
    assert [label.get_text() for label in shown[0].get_xticklabels()] == ["0", "0.5", "4"]
    assert shown[0].get_xticks().tolist() == [0, 1, 2]
    assert figure.get_suptitle() == "title"


def test_lines_are_the_values_and_those_that_cannot_change_are_dashed(figure):
    lines = figure.axes[0].lines
    assert list(lines[0].get_ydata()) == [0.8, 0.4, -0.2]
    assert list(lines[1].get_ydata()) == [0.5, 0.5, 0.5]
    assert [line.get_linestyle() for line in lines[:2]] == ["-", "--"]
    assert len({line.get_color() for line in lines[:2]}) == 2
    assert len({line.get_marker() for line in lines[:2]}) == 2


def test_bands_reach_from_low_to_high_for_metrics_that_a_dose_can_change(figure):
    [band] = figure.axes[0].collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == (-0.5, 0.9)


def test_a_metric_has_the_same_color_in_every_panel(figure):
    colors = {axis.lines[0].get_color() for axis in figure.axes if axis.axison}
    assert len(colors) == 1


def test_the_legend_names_every_metric_and_the_threshold_that_is_drawn(figure):
    [legend] = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["deletion", "pointing-game", "threshold"]
    assert list(figure.axes[0].lines[-1].get_ydata()) == [0.5, 0.5]


def test_nothing_is_cut_off_at_the_bottom(figure):
    low, high = figure.axes[0].get_ylim()
    assert low <= -0.5
    assert high >= 1
    assert np.isfinite(low)
