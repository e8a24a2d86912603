"""Figures of watermarked images, shares of attribution, and curves of networks."""

import numpy as np
import pytest

from attributionlab.report import to_png
from attributionlab.report.watermarks import (
    MarkedRow,
    NetworkCurves,
    network_curves_figure,
    share_figure,
    watermarks_figure,
)


def row(label, value):
    region = np.zeros((6, 6), dtype=bool)
    region[:2] = True  # up to the edges
    values = np.full((6, 6), value)
    return MarkedRow(
        label, np.full((3, 6, 6), value, np.float32), region, {"a": values, "b": 1 - values}
    )


def test_images_and_maps_stand_in_rows_under_their_headings():
    groups = {"left": [row("0", 0.0), row("1", 0.25)], "right": [row("2", 0.5), row("3", 1.0)]}
    figure = watermarks_figure(groups, "title")
    assert figure.get_suptitle() == "title"
    assert [part.get_suptitle() for part in figure.subfigs] == ["left", "right"]
    for part, rows in zip(figure.subfigs, groups.values(), strict=True):
        axes = part.axes[:6]
        assert [axis.get_title() for axis in axes[:3]] == ["image", "a", "b"]
        assert [axes[place].get_ylabel() for place in (0, 3)] == [each.label for each in rows]
        for index, each in enumerate(rows):
            shown = [float(np.mean(axis.images[0].get_array())) for axis in axes[3 * index :][:3]]
            value = float(each.image[0, 0, 0])
            assert shown == [value, value, 1 - value]
            for axis in axes[3 * index + 1 :][:2]:
                assert axis.images[0].get_clim() == (0, 1)
                assert axis.get_ylim() == (5.5, -0.5)
                points = np.concatenate(
                    [p.vertices for one in axis.collections for p in one.get_paths()]
                )
                # Half a subpixel off the boundary of the pixels at most.
                assert points[:, 1].min() == pytest.approx(-0.5, abs=0.07)
                assert points[:, 1].max() == pytest.approx(1.5, abs=0.07)
    assert to_png(figure, 40).startswith(b"\x89PNG")


def test_shares_are_bars_of_means_with_a_point_for_each_network():
    shares = {"x": {"a": [0.2, 0.4], "b": [1.0, 1.0]}, "y": {"a": [0.0, 0.1], "b": [0.5, 0.7]}}
    figure = share_figure(shares, {"x": 0.1, "y": 0.5}, "title")
    [axis] = figure.axes
    assert [round(bar.get_height(), 9) for bar in axis.patches] == [0.3, 1.0, 0.05, 0.6]
    points = [line for line in axis.lines if line.get_marker() == "o"]
    assert [list(line.get_ydata()) for line in points] == [[0.2, 0.4], [1, 1], [0, 0.1], [0.5, 0.7]]
    for bar, line in zip(axis.patches, points, strict=True):
        assert line.get_xdata()[0] == pytest.approx(bar.get_x() + bar.get_width() / 2)
    lines = [line for line in axis.lines if line.get_marker() != "o"]
    assert [line.get_ydata()[0] for line in lines] == [0.1, 0.5]
    assert "higher is better" in axis.get_ylabel()


def test_a_method_looks_the_same_in_every_panel_and_its_band_is_that_of_the_networks():
    x = (0.0, 0.5, 1.0)
    a = np.array([[1.0, 0.5, 0.0], [0.8, 0.3, 0.2]])
    panels = [NetworkCurves("one", x, {"a": a, "b": a / 2}), NetworkCurves("two", x, {"b": a})]
    figure = network_curves_figure(panels, "title")
    first, second = figure.axes
    assert first.lines[0].get_ydata().tolist() == a.mean(0).tolist()
    assert first.lines[1].get_color() == second.lines[0].get_color() != first.lines[0].get_color()
    assert first.lines[1].get_marker() == second.lines[0].get_marker()
    band = first.collections[0].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == (0.0, 1.0)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b"]
    assert [axis.get_title() for axis in figure.axes] == ["one", "two"]
    assert all("lower is better" in axis.get_ylabel() for axis in figure.axes)


def test_panels_stand_in_rows_of_columns_and_say_what_is_better():
    curves = {"a": np.array([[1.0, 0.5]])}
    panels = [NetworkCurves(str(place), (0.0, 1.0), curves, f"{place} wins") for place in range(4)]
    figure = network_curves_figure(panels, "title", columns=2)
    grid = figure.axes[0].get_gridspec()
    assert (grid.nrows, grid.ncols) == (2, 2)
    assert [axis.get_title() for axis in figure.axes] == ["0", "1", "2", "3"]
    assert [axis.get_ylabel() for axis in figure.axes] == [
        f"accuracy ({place} wins)" for place in range(4)
    ]
