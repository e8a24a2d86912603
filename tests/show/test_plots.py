"""Each way to draw a table shows every row of it, tells values apart, and says what is missing."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import LineCollection, PathCollection, PolyCollection
from matplotlib.colors import to_hex

from attributionlab.show import curves, encoded, map_grid, map_grids, plots
from attributionlab.show.style import LINE_COLORS, SEQUENTIAL, SIGNED

LINES = pd.DataFrame(
    {
        "x": [0.0, 0.5, 1.0] * 4,
        "y": np.arange(12.0),
        "map": np.repeat(["a", "b", "a", "b"], 3),
        "goal": np.repeat(["first", "second"], 6),
    }
)


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_curves_have_a_panel_for_each_value_and_a_line_for_each_color():
    figure = plots.curves(LINES, "x", "y", "map", panel="goal", title="t", reference=3.0)
    left, right = figure.axes
    assert [axis.get_title() for axis in (left, right)] == ["first", "second"]
    assert legend(figure) == ["a", "b"]
    drawn = [list(line.get_ydata()) for line in right.lines]
    assert drawn == [[6, 7, 8], [9, 10, 11], [3, 3]]
    assert left.lines[0].get_color() == right.lines[0].get_color()
    assert left.lines[0].get_color() != left.lines[1].get_color()


def test_curves_are_drawn_along_x_whatever_the_order_of_rows_with_bands_and_dashes():
    table = LINES[LINES.goal == "first"].assign(low=-1.0, high=12.0).sample(frac=1, random_state=0)
    figure = plots.curves(table, "x", "y", "map", dashed=["b"], log="y")
    [axis] = figure.axes
    lines = {to_hex(line.get_color()): line for line in axis.lines}
    assert all((np.diff(line.get_xdata()) > 0).all() for line in lines.values())
    assert sorted(line.get_linestyle() for line in lines.values()) == ["-", "--"]
    assert len(axis.collections) == 2  # bands
    assert axis.get_yscale() == "log"


def test_more_panels_than_columns_go_on_below_and_leave_no_empty_frame():
    table = pd.DataFrame({"x": [0, 1] * 4, "y": 1.0, "map": "a", "p": np.repeat(list("abcd"), 2)})
    figure = plots.curves(table, "x", "y", "map", panel="p", columns=3)
    assert [axis.axison for axis in figure.axes] == [True] * 4  # two and two, not three and one
    table = pd.DataFrame({"x": [0, 1] * 5, "y": 1.0, "map": "a", "p": np.repeat(list("abcde"), 2)})
    figure = plots.curves(table, "x", "y", "map", panel="p", columns=3)
    assert [axis.axison for axis in figure.axes] == [True] * 5 + [False]


def test_eight_lines_look_different():
    table = pd.DataFrame({"x": 0.0, "y": 0.0, "map": list("abcdefgh")})
    lines = plots.curves(table, "x", "y", "map").axes[0].lines
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 8
    assert len(LINE_COLORS) < 8  # else the test shows nothing


def test_dots_stand_in_the_line_of_their_name_with_their_interval():
    table = pd.DataFrame(
        {
            "score": [0.1, 0.2, 0.3],
            "low": [0.0, 0.1, 0.2],
            "high": [0.4, 0.5, 0.6],
            "method": ["lime", "iba", "lime"],
            "setup": ["one", "one", "two"],
        }
    )
    figure = plots.dots(table, "score", "method", color="setup", reference=0.0)
    [axis] = figure.axes
    assert [text.get_text() for text in axis.get_yticklabels()] == ["lime", "iba"]
    assert axis.get_ylim()[0] > axis.get_ylim()[1]  # from top to bottom
    points = [c.get_offsets() for c in axis.collections if isinstance(c, PathCollection)]
    places = {(x, round(y)) for each in points for x, y in each.tolist()}
    assert places == {(0.1, 0), (0.2, 1), (0.3, 0)}
    bars = [c for c in axis.collections if isinstance(c, LineCollection)]
    ends = [(a[0], b[0]) for bar in bars for a, b in np.array(bar.get_segments()).tolist()]
    assert sorted(ends) == [(0.0, 0.4), (0.1, 0.5), (0.2, 0.6)]
    assert legend(figure) == ["one", "two"]


def test_scatter_counts_what_has_no_value_and_draws_the_diagonal():
    table = pd.DataFrame(
        {"truth": [0.0, 1.0, 2.0], "found": [0.5, np.nan, 1.0], "name": list("abc")}
    )
    figure = plots.scatter(table, "truth", "found", label="name", diagonal="equal")
    [axis] = figure.axes
    said = {text.get_text() for text in axis.texts}
    assert said == {"a", "c", "1 of 3 have no value"}
    assert legend(figure) == ["equal"]
    assert axis.lines[0].get_xdata().tolist() == axis.lines[0].get_ydata().tolist() == [0.0, 2.0]


def test_a_heat_map_has_each_number_in_its_cell_and_colors_that_meet_at_zero():
    table = pd.DataFrame({"a": ["x", "y", "x"], "b": ["u", "u", "v"], "rho": [0.5, -0.25, np.nan]})
    figure = plots.heat_map(table, "a", "b", "rho", limits=(-1, 1))
    axis = figure.axes[0]
    said = {text.get_position(): text.get_text() for text in axis.texts}
    assert said == {(0, 0): "0.50", (1, 0): "-0.25"}
    assert axis.images[0].cmap is SIGNED
    counts = plots.heat_map(table.assign(rho=[1, 2, 3]), "a", "b", "rho")
    assert counts.axes[0].images[0].cmap is SEQUENTIAL
    assert {text.get_text() for text in counts.axes[0].texts} == {"1", "2", "3"}


@pytest.mark.parametrize(("rows", "sides"), [(20, 1), (50, 2)])
def test_a_heat_map_of_many_rows_stays_low_and_names_its_columns_on_both_sides(rows, sides):
    names = [f"integrated-gradients-smoothgrad-absolute-{k}" for k in range(rows)]
    table = pd.DataFrame({"a": "a column", "b": names, "n": 0.5})
    figure = plots.heat_map(table, "a", "b", "n")
    [axes, bar] = figure.axes
    figure.draw_without_rendering()
    shown = [tick for tick in axes.xaxis.get_major_ticks() for on in (1, 2)
             if getattr(tick, f"label{on}").get_visible()]  # fmt: skip
    assert len(shown) == sides
    assert figure.get_figheight() <= 2.6 + 0.27 * rows
    gap = axes.get_position().y0 - bar.get_position().y1
    assert gap * figure.get_figheight() < 0.6  # inches
    assert all("\n" not in each.get_text() for each in axes.get_yticklabels())


@pytest.mark.parametrize(("columns", "turned"), [(4, 0), (9, 90)])
def test_names_above_a_heat_map_are_turned_only_where_they_have_no_room(columns, turned):
    names = [f"{k} a method's name" for k in range(columns)]
    figure = plots.heat_map(pd.DataFrame({"a": names, "b": "u", "n": 1}), "a", "b", "n")
    assert {label.get_rotation() for label in figure.axes[0].get_xticklabels()} == {turned}


def test_the_grid_shows_pictures_and_maps_empty_cells_notes_and_boxes():
    picture, values = np.zeros((3, 4, 4)), np.array([[2.0, 0.0], [0.0, -1.0]])
    figure = map_grids.map_grid(
        {"image": [picture, picture], "map": [values, None], "none": [0 * values, values]},
        headings=["first", "second"],
        notes={"map": ["F1 1.00", ""]},
        boxes=[[(0, 0, 1, 2)]],
    )
    axes = np.array(figure.axes[:6]).reshape(3, 2)
    assert [axis.get_title() for axis in axes[0]] == ["first", "second"]
    assert axes[1, 0].images[0].get_array().tolist() == [[1.0, 0.0], [0.0, -0.5]]
    assert axes[1, 0].get_xlabel() == "F1 1.00"
    assert not axes[1, 1].images
    assert [text.get_text() for text in axes[1, 1].texts] == ["none"]
    assert [text.get_text() for text in axes[2, 0].texts] == ["no attribution"]
    [box] = axes[1, 0].lines
    assert (box.get_xdata().min(), box.get_xdata().max()) == (-0.5, 1.5)
    assert (box.get_ydata().min(), box.get_ydata().max()) == (-0.5, 0.5)


@pytest.mark.parametrize("signed", [True, False])
def test_every_plot_becomes_a_png(signed):
    figure = map_grids.map_grid({"map": [np.ones((2, 2))]}, signed=signed, title="a title " * 20)
    assert encoded(figure)[:4] == b"\x89PNG"


def test_vertical_axes_show_at_least_the_limits_and_every_line():
    table = pd.DataFrame(
        {"x": [0.0, 1.0] * 2, "y": [1.0, 1.0, 0.5, 2.0], "line": "a", "panel": list("ppqq")}
    )
    flat, risen = curves(table, "x", "y", "line", panel="panel", limits=(0, 1)).axes
    for axis, highest in ((flat, 1), (risen, 2)):
        low, high = axis.get_ylim()
        # matplotlib adds a margin of 5 % on either side
        assert -0.11 < low < 0
        assert highest < high < 1.06 * highest + 0.01
        assert -0.1 < axis.get_xlim()[0] < 0


@pytest.mark.parametrize(("limits", "shown"), [(None, 1.0), ((0, 1), 0.25)])
def test_maps_are_divided_by_their_largest_value_unless_all_share_limits(limits, shown):
    figure = map_grid({"a": [np.full((2, 2), 0.25)]}, signed=False, limits=limits)
    [image] = figure.axes[0].images
    assert image.get_array().max() == shown
    assert image.get_clim() == (0, 1)


@pytest.mark.parametrize(("count", "violins"), [(7, 0), (8, 1)])
def test_a_spread_is_drawn_from_eight_values_on(count, violins):
    values = np.linspace(0, 1, count)
    table = pd.DataFrame({"x": [0.5], "y": ["a"], "values": [values]})
    [axis] = plots.dots(table, "x", "y").axes
    assert sum(isinstance(each, PolyCollection) for each in axis.collections) == violins


@pytest.mark.parametrize("limits", [(-0.25, 0.5), None], ids=["given", "of the table"])
def test_white_is_zero_in_a_heat_map_of_both_signs(limits):
    table = pd.DataFrame({"a": ["x", "y"], "b": ["u", "u"], "rho": [0.5, -0.25]})
    [image] = plots.heat_map(table, "a", "b", "rho", limits=limits).axes[0].images
    assert image.get_clim() == (-0.5, 0.5)
    assert image.cmap(image.norm(0.0)) == (1, 1, 1, 1)


def test_a_map_without_attribution_is_gray_and_is_not_scaled_up():
    figure = map_grid({"a": [np.zeros((2, 2)), np.ones((2, 2))]})
    gray, shown = figure.axes[:2]
    assert [text.get_text() for text in gray.texts] == ["no attribution"]
    assert gray.images[0].cmap is not SIGNED
    assert shown.images[0].cmap is SIGNED
