"""No label of a figure overlaps another or is cut off, whatever the table and the size."""

import numpy as np
import pandas as pd
import pytest

from attributionlab import show
from attributionlab.worlds import nets
from text_boxes import faults

LONG = [
    "IG, true baseline (integrated-gradients-true-baseline)",
    "IG, smoothed and squared (integrated-gradients-smoothgrad-squared, n_samples=50, stdevs=0.25)",
    "LIME",
    "path/to/a-file-with-quite-a-long-name.py:a_function_with_quite_a_long_name_too",
]
MANY = [f"{LONG[i % 4]} {i}" for i in range(26)]
TITLE = (
    "A title that says what is shown, of which environments, of how many images and how large: "
    "means, with 95 % intervals; line: gamma 0.5"
)
AXIS = "Spearman's correlation of scores with the truth, in percent\n(higher is better)"
NAMES = {"one": ["x"], "long": LONG, "many": MANY}


def crossed(names, panels):
    """A row for each name in each panel, with values of very different size."""
    generator = np.random.default_rng(0)
    table = pd.DataFrame([{"name": name, "panel": panel} for panel in panels for name in names])
    value = generator.normal(0, 1, len(table)).round(3) * 10.0 ** generator.integers(
        -4, 4, len(table)
    )
    return table.assign(value=value, low=value - 1, high=value + 1, x=generator.random(len(table)))


def dots(names, panels):
    return show.plots.dots(
        crossed(names, panels),
        "value",
        "name",
        color="panel",
        panel="panel",
        title=TITLE,
        xlabel=AXIS,
    )


def crowded_dots(names, panels):
    return show.plots.dots(
        crossed(names, panels), "value", "name", color="panel", title=TITLE, reference=0
    )


def curves(names, panels):
    table = pd.concat([crossed(names, panels).assign(x=x) for x in (0.001, 0.1, 1.0)])
    return show.plots.curves(
        table, "x", "value", "name", panel="panel", title=TITLE, xlabel=AXIS, ylabel=AXIS, log="x"
    )


def scatter(names, panels):
    table = crossed(names, panels)
    return show.plots.scatter(
        *(table.assign(label=table.name.str[:24]), "x", "value"),
        color="name",
        panel="panel",
        label="label" if len(names) < 5 else None,
        title=TITLE,
        ylabel=AXIS,
        diagonal="equal",
    )


def heat_map(names, panels):
    table = crossed(names, panels)
    both = pd.concat([table.assign(other=name) for name in names])
    return show.plots.heat_map(
        both, "name", "other", "value", panel="panel", title=TITLE, label=AXIS
    )


def map_grid(names, panels):
    cells = [np.full((4, 4), 0.5) for _ in panels]
    return show.map_grids.map_grid(
        dict.fromkeys(names, cells),
        headings=panels,
        notes={
            name: ["F1 0.50, inconclusive\ntruth of the probability"] * len(panels)
            for name in names
        },
        title=TITLE,
        legend={"mixed": "#8a63b0", "not asked": "#9aa0a6"},
    )


def leaderboard(names, panels):
    values = np.random.default_rng(0).normal(size=(len(names), 3))
    ranks = np.arange(len(names) * len(panels)).reshape(len(names), -1) % len(names) + 1.0
    return show.leaderboard_figure(
        names,
        scores=np.sort(values)[:, [1, 0, 2]],
        truth=np.full(len(names), 0.5),
        ranks=ranks,
        cases=panels,
        title=TITLE,
    )


DRAWN = [dots, crowded_dots, curves, scatter, heat_map, map_grid, leaderboard]


def check(draw, names, panels, size):
    shown = [
        f"multi-color-sum-distractors (image_size=72, distractors={place}): positive, precision"
        for place in range(panels)
    ]
    with show.laid_out_for(size):
        figure = draw(NAMES[names], shown)
    show.encoded(figure, ".png", size, dpi=40)
    assert not faults(figure)


@pytest.mark.parametrize("draw", DRAWN, ids=lambda each: each.__name__)
def test_one_row_has_labels_that_do_not_overlap(draw):
    check(draw, "one", 1, None)


@pytest.mark.long
@pytest.mark.parametrize("size", [None, "column"])
@pytest.mark.parametrize(("names", "panels"), [("one", 3), ("long", 1), ("long", 3), ("many", 1)])
@pytest.mark.parametrize("draw", DRAWN, ids=lambda each: each.__name__)
def test_many_and_long_names_have_labels_that_do_not_overlap(draw, names, panels, size):
    check(draw, names, panels, size)


@pytest.mark.parametrize("stages", [nets.greater_than([4]), nets.modulo_mlp(5, 10)], ids=len)
def test_a_network_and_its_legend_have_labels_that_do_not_overlap(stages):
    examples = {"x = 8": [8], "x = 9": [9], "x = 10": [10]}
    assert not faults(
        show.network_drawing(stages, inputs=["x"], outputs=["answer"], examples=examples)
    )


def test_values_on_a_short_logarithmic_axis_have_labels_that_do_not_overlap():
    table = pd.DataFrame({"x": [256.0, 512.0], "y": [0.02, 0.03], "map": "a"})
    assert not faults(show.plots.curves(table, "x", "y", "map", log="xy"))


def test_the_check_itself_finds_what_overlaps_and_what_is_cut_off():
    figure = show.plots.curves(pd.DataFrame({"x": [0, 1], "y": 0.0, "map": "a"}), "x", "y", "map")
    figure.text(0.5, 0.5, "one")
    figure.text(0.5, 0.5, "two")
    figure.text(0.99, 0.6, "beyond the edge")
    assert set(faults(figure)) == {("one", "two"), ("beyond the edge", "cut")}
