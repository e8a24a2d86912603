"""Trees over linear forms, cells, tables of sums, and signs by structure: the game's parts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from attributionlab.worlds import evaluate
from attributionlab.worlds.rules.cells import Unit, cells_of, merged
from attributionlab.worlds.rules.expressions import counts_in
from attributionlab.worlds.rules.forms import Form, Node, Readout, Reducer, forms_in, value
from attributionlab.worlds.rules.game import asked, rule_game
from attributionlab.worlds.rules.parsing import parse
from attributionlab.worlds.rules.signs import Structure, signs, steps_of
from attributionlab.worlds.rules.sums import SumGrid, axes_of_sums
from attributionlab.worlds.rules.tables import parts
from rules.random_games import COLORS, Drawing, blank, places_of

TRIALS = 200


def tree_of(text: str, **most: int):
    rule = parse(text, list(COLORS), [])
    return Reducer({count: most.get(count.colors[0], 9) for count in counts_in(rule)}).tree(rule)


@pytest.mark.parametrize("seed", range(300))
def test_a_reduced_rule_has_the_values_of_the_rule(seed):
    drawing = Drawing(seed, largest=8, motifs=0.1)
    rule = drawing.number(1 + seed % 4)
    generator = np.random.default_rng(seed)
    most = {count: int(generator.integers(0, 12)) for count in counts_in(rule)}
    counts = {count: generator.integers(0, most[count] + 1, TRIALS) for count in most}
    for count in counts:
        counts[count][:2] = 0, most[count]  # the ends
    tree = Reducer(most).tree(rule)
    forms = {
        form: sum(weight * counts[count] for count, weight in form) for form in forms_in([tree])
    }
    expected = np.broadcast_to(evaluate(rule, counts), TRIALS)
    assert (np.broadcast_to(value(tree, forms), TRIALS) == expected).all()
    low, high = Reducer(most).interval(tree)
    assert low <= expected.min()
    assert expected.max() <= high


@pytest.mark.parametrize(
    ("text", "reduced"),
    [
        ("red > blue", Node("step", (tree_of("red - blue - 1"),))),
        ("red + min(red, blue) - red - min(red, blue)", Form(())),
        ("not red > 3", tree_of("1 - (red > 3)")),
        ("red > 9", Form((), 0)),
        ("abs(red)", tree_of("red")),
        ("abs(red - 9)", tree_of("9 - red")),
        ("(30 * red + blue) % 30", tree_of("blue")),
        ("(min(red, blue) + 20) % 20", tree_of("min(red, blue)")),
        ("min(red, blue + 10)", tree_of("red")),
        ("relu(red - blue + 9)", tree_of("red - blue + 9")),
        ("red if blue > 9 else green", tree_of("green")),
        ("red if blue > 3 else red", tree_of("red")),
        ("max(red, max(blue, red))", tree_of("max(red, blue)")),
    ],
)
def test_what_a_rule_is_reduced_to(text, reduced):
    assert tree_of(text) == reduced


def test_pixels_with_equal_coefficients_are_one_cell():
    image = blank(8)
    image[:, 0, 0] = image[:, 0, 7] = image[:, 7, 0] = image[:, 7, 7] = COLORS["red"]
    image[:, 3, 3] = COLORS["blue"]
    regions = ["left", "top", "right"]
    rule = parse("min(red@left + red@right, 3) - 2 * blue", list(COLORS), regions)
    game = rule_game(image, places_of(8), [rule])
    corners = game.labels[[0, 0, 7, 7], [0, 7, 0, 7]]
    assert len(set(corners.tolist())) == 1
    assert set(game.labels.ravel()) == {-1, corners[0], game.labels[3, 3]}
    other = parse("min(red@left, 1) + red@top", list(COLORS), regions)
    labels = rule_game(image, places_of(8), [other]).labels
    assert len({int(labels[y, x]) for y, x in ((0, 0), (0, 7), (7, 0))}) == 3
    assert labels[7, 7] == -1


def test_merged_units_add_up_and_a_tile_without_bonus_falls_into_pixels():
    units = (
        Unit((((1, 0), 1),), (0, 0), 5),
        Unit((((1, 2), 1),), (0, 0), 3),
        Unit((((0, 0), 2), ((1, 0), 2)), (0, 7), 4),
    )
    first = merged(units, [0])
    assert first.units == (Unit((((1,), 1),), (0,), 5 + 3 + 2 * 4),)
    assert first.places == {(0, 0): (0, 0), (1, 0): (0, 0), (2, 1): (0, 0)}
    second = merged(units, [1])
    assert {unit.size: unit.number for unit in second.units} == {1: 3, 4: 4}
    assert second.places[2, 0] == second.places[2, 1]
    assert (0, 0) not in second.places


def test_units_along_one_vector_are_one_axis():
    vectors = ((1, -1, 0), (-2, 2, 0), (0, 0, 3), (1, 1, 0), (3, -3, 0))
    units = [Unit(((vector, 1),), (0, 0, 0), 4) for vector in vectors]
    axes = axes_of_sums(units)
    assert sorted(axis.units for axis in axes) == [(0, 1, 4), (2,), (3,)]
    (long,) = (axis for axis in axes if len(axis.units) == 3)
    assert (long.steps, long.low, long.width, long.scales) == ((1, -2, 3), -8, 25, (1, -1, 0))
    (three,) = (axis for axis in axes if axis.units == (2,))
    assert (three.steps, three.low, three.width, three.scales) == ((1,), 0, 5, (0, 0, 3))


def test_sums_that_nothing_reaches_show_no_effect():
    units = [Unit((((step,), 1),), (0,), 4) for step in (2, 3)]
    grid = SumGrid(units)
    never = 1 * (grid.forms()[0] == 1)
    for unit in (0, 1):
        assert not grid.differences(never, unit).any()
        effects = grid.differences(never, unit, 5)  # a linear part beside it
        assert set(effects.ravel().tolist()) == {0, 5}
        assert parts(effects, grid.weights(unit)).rising == pytest.approx(5, abs=1e-12)


@pytest.mark.long
def test_most_signs_are_decided_without_a_table():
    decided = total = 0
    for seed in range(60):
        drawing = Drawing(seed)
        game = rule_game(drawing.pixels(24, 200), places_of(24), [drawing.number(2)])
        found = signs(game.game.roots, game.game.units, game.readout)
        decided += (np.array(found) >= 0).all(0).sum()
        total += len(cells_of(game.game.units))
    assert total > 100
    assert decided / total > 0.85  # 0.935 on rules of a trial


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("red == 0", (False, True)),
        ("red == 6", (True, False)),
        ("red == 3", (True, True)),
        ("not red > 2", (False, True)),
        ("abs(red - 3)", (True, True)),
        ("abs(red@left - red) + blue", (True, False)),  # of the right: the left is no player
        ("abs(red - red@left) + blue", (True, False)),
        ("min(red, blue) - max(red, 3)", (True, True)),
        ("blue + 5 if red > 2 else blue", (True, False)),
        ("blue if red > 2 else blue + 5", (False, True)),
        ("green if blue > red else green - 1", (False, True)),
        ("xor(red > 2, blue > 2)", (True, True)),
    ],
)
def test_structure_bounds_what_a_pixel_may_do(text, expected):
    image = blank(8)
    for row, name in enumerate(("red", "blue", "green")):
        image[:, row, 1:7] = np.array(COLORS[name])[:, None]
    game = rule_game(image, places_of(8), [parse(text, list(COLORS), ["left"])])
    root, units = game.game.roots[0], game.game.units
    label = cells_of(units)[int(game.labels[0, 6])]
    steps = steps_of(units)[cells_of(units).index(label)]
    assert Structure(forms_in([root]), units).moves(root, steps) == expected


def test_asked_follows_its_thresholds():
    rising = np.array([10.0, 2.5, 2.4, 0.0, 5.0, 9.0, 8.0])
    falling = np.array([0.0, 0.0, 0.0, 0.0, 5.0, 1.0, 0.0])
    null = np.array([False, False, False, True, False, False, False])
    errors = np.array([0.0, 0.0, 0.06, 0.0, 0.0, 0.1, 0.1])
    found = asked(rising, falling, null, errors)
    assert found.relevant.tolist() == [True, True, False, False, True, True, True]
    assert found.signed.tolist() == [1, 1, 0, 0, 0, 1, 1]
    assert found.mixed.tolist() == [False, False, False, False, True, False, False]
    assert found.asked.tolist() == [True, True, False, True, True, True, True]
    assert found.sure.tolist() == [True, True, False, True, True, False, True]
    loose = asked(rising, falling, null, errors, share=0.1, purity=0.9)
    assert loose.relevant.tolist() == [True, True, True, False, True, True, True]
    assert loose.signed.tolist() == [1, 1, 1, 0, 0, 0, 1]


@given(
    arrays(np.float64, (2, 5), elements=st.floats(0, 10)),
    arrays(np.bool_, 5),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_every_cell_is_null_or_weak_or_mixed_or_has_a_sign(both, null, share, purity):
    rising, falling = np.where(null, 0, both)
    found = asked(rising, falling, null, np.zeros(5), share=share, purity=purity)
    weak = ~found.asked
    kinds = np.stack([null, weak, found.mixed, found.relevant & ~found.mixed])
    assert (kinds.sum(0) == 1).all()
    assert not found.signed[~found.relevant | found.mixed].any()
    assert found.sure.all()


def test_a_probability_of_integers_overflows_to_none():
    readout = Readout(1e-30)
    assert readout([np.array([0, 5, -5])]).tolist() == [0.5, 0.0, 1.0]
    assert readout.direction == -1
