"""No map exceeds the ceiling of what its maker does not see, and some map comes close."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.stats import binom

import oracles_knowledge as oracles
from attributionlab import AttributionLabError
from attributionlab.faithfulness import knowledge
from attributionlab.faithfulness.knowledge import (
    ROUNDING,
    TOLERANCE,
    ceiling,
    known_questions,
    smooth_ceiling,
    tail_bound,
    unknown_roles,
    unknown_target,
)
from attributionlab.faithfulness.mass_boxes import box_bound, largest_mix, solve_corner
from attributionlab.metrics import best_map, f1

SLACK = TOLERANCE + ROUNDING
SIZES = st.one_of(
    st.just(0.0), st.integers(1, 400).map(float), st.floats(1e-3, 1e5, allow_subnormal=False)
)
OUTPUTS = st.sampled_from(["probability", "logit"])
CLAIMS = st.sampled_from(["signed", "overall", "positive"])


@st.composite
def worlds(draw, most_cells=5, most_images=3):
    """(possible, its naive twin, sizes of each image), each image with all parts or none."""
    cells = draw(st.integers(1, most_cells))
    classes = draw(st.integers(1, min(cells, 4)))
    output = draw(OUTPUTS)
    if draw(st.booleans()):
        possible = unknown_roles(cells, classes, output)
        naive = oracles.questions(cells, classes, output)
    else:
        roles = draw(st.permutations(range(cells)))[:classes]
        possible = unknown_target(roles, cells, output)
        naive = {oracles.question(roles, t, output): Fraction(1, classes) for t in range(classes)}
    images = draw(
        st.lists(st.lists(SIZES, min_size=cells, max_size=cells), min_size=1, max_size=most_images)
    )
    for sizes in images:
        asked = oracles.shown(naive, sizes) if any(sizes[t] for t, _ in naive) else {}
        assume(asked)
        assume(len({any(sizes[cell] for cell in others) for _, others in asked}) == 1)
    return possible, naive, images


def random_map(rng, sizes):
    """Masses of a map: all of a cell, a half of each sign, or anything."""
    kind = rng.integers(3)
    if kind == 0:
        signs = rng.integers(-1, 2, len(sizes))
        return np.where(signs > 0, sizes, 0), np.where(signs < 0, sizes, 0)
    if kind == 1:
        half = rng.random(len(sizes)) < 0.7
        return sizes * half / 2, sizes * half / 2
    shares = rng.dirichlet(np.full(3, 0.5), len(sizes))
    return sizes * shares[:, 0], sizes * shares[:, 1]


# Who does not know the roles, or the target


@pytest.mark.parametrize("output", ["probability", "logit"])
@pytest.mark.parametrize(("cells", "classes"), [(1, 1), (3, 1), (3, 2), (5, 3), (6, 4), (4, 4)])
def test_possible_questions_are_those_of_all_orders_of_the_colors(cells, classes, output):
    possible = unknown_roles(cells, classes, output)
    found = {
        (int(target), frozenset(np.flatnonzero(others).tolist())): weight
        for target, others, weight in zip(
            possible.positive.argmax(1), possible.negative, possible.weights, strict=True
        )
    }
    expected = oracles.questions(cells, classes, output)
    assert len(found) == len(possible.weights)
    assert found == pytest.approx({each: float(share) for each, share in expected.items()})


# Known values; they hold for equal sizes. The search for weights stops at steps of 2^-8, which costs
# less than 0.001 here.


@pytest.mark.parametrize(
    ("classes", "expected"),
    [(4, (0.375, 0.319, 0.277, 0.244)), (2, (0.5, 0.4, 1 / 3, 2 / 7))],
)
def test_signed_ceilings_of_random_roles(classes, expected):
    found = [
        ceiling(
            [
                (
                    unknown_roles(classes + ignored, classes, "probability"),
                    [30.0] * (classes + ignored),
                )
            ]
        )
        for ignored in range(4)
    ]
    assert found == pytest.approx(expected, abs=1e-3)


@pytest.mark.long
def test_twelve_cells_and_six_classes_are_not_too_many():
    possible = unknown_roles(12, 6, "probability")
    bounds = {
        claim: ceiling([(possible, [3.0] * 12)], claim, 1e-3) for claim in ("positive", "signed")
    }
    assert 0.14 < bounds["signed"] <= bounds["positive"] + 1e-3 <= 2 / 13 + 2e-3 + ROUNDING


@pytest.mark.parametrize("classes", [2, 3, 4, 5])
def test_all_classes_of_equal_sizes_asked(classes):
    exact = 2 * (classes - 1) / classes**2
    possible = unknown_target(range(classes), classes + 2, "probability")
    found = ceiling([(possible, [10.0] * (classes + 2))])
    assert exact <= found <= exact + 2 * SLACK


@pytest.mark.parametrize("cells", [1, 2, 3, 6, 12, 200])
def test_positive_truths_that_do_not_overlap_equal_sizes(cells):
    for claim in ("positive", "signed", "overall"):
        found = ceiling([(unknown_roles(cells, 1, "logit"), [7.0] * cells)], claim)
        assert 2 / (cells + 1) - 1e-12 <= found <= min(1.0, 2 / (cells + 1) + SLACK)


@given(st.lists(SIZES, min_size=1, max_size=8))
def test_positive_truths_that_do_not_overlap_any_sizes(sizes):
    shown = sum(size > 0 for size in sizes)
    assume(shown)
    found = ceiling([(unknown_roles(len(sizes), 1, "logit"), sizes)], "positive")
    assert found <= 2 / (shown + 1) + SLACK


def test_overall_reaches_what_a_map_of_all_cells_scores():
    exact = 2 * 4 / (6 + 4)  # foreground 6 cells, 4 of them counted
    found = ceiling([(unknown_roles(6, 4, "probability"), [1.0] * 6)], "overall")
    assert exact <= found <= exact + SLACK


def test_one_question_binds_nothing():
    for claim in ("signed", "overall", "positive"):
        asked = known_questions([((2, 0, 1), 1)], 4, "probability")
        assert ceiling([(asked, [3.0, 1.0, 4.0, 1.0])], claim) == 1.0


@pytest.mark.long
def test_half_of_a_cell_positive_and_half_negative_exceeds_cells_of_one_value():
    """One positive and one negative cell out of three."""
    possible = oracles.questions(3, 2, "probability")

    def score(values, halves=False):
        positive = [0.5 if halves else max(v, 0) for v in values]
        negative = [0.5 if halves else max(-v, 0) for v in values]
        found = oracles.expected_scores(positive, negative, [1, 1, 1], possible)
        return oracles.claim_score([found], "signed")

    grid = np.linspace(-1, 1, 21)
    constant = max(score(values) for values in itertools.product(grid, repeat=3))
    halves = score([0, 0, 0], halves=True)
    bound = ceiling([(unknown_roles(3, 2, "probability"), [1.0] * 3)])
    assert constant == pytest.approx(1 / 3, abs=1e-9)
    assert halves == pytest.approx(0.4)
    assert halves <= bound <= halves + 1e-3


def test_the_mean_of_each_images_best_minimum_is_no_bound():
    """In the first image the positive truth is known, in the second the negative one."""
    first = known_questions([((0, 1), 0), ((0, 2), 0)], 3, "probability")
    second = known_questions([((0, 2), 0), ((1, 2), 0)], 3, "probability")
    sizes, half = [1.0, 1.0, 1.0], Fraction(1, 2)
    scores = [
        oracles.expected_scores(positive, negative, sizes, dict.fromkeys(questions, half))
        for positive, negative, questions in (
            ([1, 0, 0], [0, 1, 1], [(0, frozenset({1})), (0, frozenset({2}))]),
            ([1, 1, 0], [0, 0, 1], [(0, frozenset({2})), (1, frozenset({2}))]),
        )
    ]
    reached = oracles.claim_score(scores, "signed")
    own = np.mean([ceiling([(each, sizes)]) for each in (first, second)])
    assert own < 0.67 < 0.8 == pytest.approx(reached)
    assert reached <= ceiling([(first, sizes), (second, sizes)]) <= reached + 1e-3


# Attacks


@pytest.mark.long
@settings(max_examples=60)
@given(worlds(), CLAIMS, st.integers(0, 2**31))
def test_no_map_that_was_drawn_exceeds_the_ceiling(world, claim, seed):
    possible, naive, images = world
    bound = ceiling([(possible, sizes) for sizes in images], claim)
    rng = np.random.default_rng(seed)
    for _ in range(20):
        scores = [
            oracles.expected_scores(*random_map(rng, np.array(sizes)), sizes, naive)
            for sizes in images
        ]
        assert oracles.claim_score(scores, claim) <= bound


def climbed(possible, images, claim, seed, steps=250, starts=16, weights=None):
    """The best claim score that gradient ascent finds on masses, from random starts at once.

    With `weights` (positive, negative, overall), the best mix in place of the lowest mean.
    """
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.tensor(np.array(images), dtype=torch.float64)  # (n, m)
    cells = sizes.shape[1]
    target = torch.from_numpy(possible.positive).double()
    others = torch.from_numpy(possible.negative).double()
    sets = {"positive": target, "negative": others, "overall": target + others}
    asked = torch.from_numpy(np.stack([possible.asked(each) for each in sizes.numpy()]))  # (n, Q)
    free = torch.randn(starts, len(sizes), cells, 3, dtype=torch.float64, generator=generator) * 2
    free.requires_grad_()
    climb, best = torch.optim.Adam([free], lr=0.1), 0.0
    wanted = list(sets) if claim == "signed" else [claim]
    for _ in range(steps):
        positive, negative, _ = (free.softmax(3) * sizes[..., None]).unbind(3)
        masses = {"positive": positive, "negative": negative, "overall": positive + negative}
        means = []
        for part in wanted:
            truth = sizes @ sets[part].T  # (n, Q)
            if not truth.any():
                continue
            mass = masses[part].sum(2, keepdim=True)
            scores = 2 * masses[part] @ sets[part].T / (mass + truth)
            means.append((scores * asked).nan_to_num().sum(2).mean(1))
        stacked = torch.stack(means)
        value = stacked.amin(0) if weights is None else torch.tensor(weights).double() @ stacked
        best = max(best, value.detach().max().item())
        # The lowest mean has a kink where the best maps lie; a soft minimum leads there.
        goal = -torch.logsumexp(-stacked * 100, 0) / 100 if weights is None else value
        climb.zero_grad()
        (-goal.sum()).backward()
        climb.step()
    return best


ATTACKED = {
    "roles, 6 cells": (unknown_roles(6, 4, "probability"), "signed"),
    "roles, 3 cells": (unknown_roles(3, 2, "probability"), "signed"),
    "target": (unknown_target((3, 0, 4, 1), 6, "probability"), "signed"),
    "twins": (known_questions([((0, 1, 2), 0), ((3, 0, 4), 1)], 6, "probability"), "signed"),
    "overall": (unknown_roles(6, 4, "probability"), "overall"),
    "positive": (unknown_roles(6, 4, "probability"), "positive"),
}


@pytest.mark.long
@pytest.mark.parametrize("name", ATTACKED)
# Cells of equal sizes are a special case of what unequal ones show.
@pytest.mark.parametrize("sizes", [pytest.param("equal", marks=pytest.mark.slow), "unequal"])
def test_gradient_ascent_comes_close_and_never_above(name, sizes):
    possible, claim = ATTACKED[name]
    rng = np.random.default_rng(0)
    images = np.full((4, possible.cells), 30.0)
    if sizes == "unequal":
        images = rng.integers(5, 300, images.shape).astype(float)
    bound = ceiling([(possible, each) for each in images], claim)
    best = climbed(possible, images, claim, seed=1)
    # Four images cannot mix maps that serve one part or the other as finely as the bound allows.
    assert bound - (0.005 if claim == "signed" else 5e-4) <= best <= bound


ONE_PART, HALF, MORE_OF_OTHERS = (0.9, 0.1, 0.0), (0.5, 0.25, 0.25), (0.1, 0.5, 0.4)


# One with all parts; the slow suite goes to either side of it.
@pytest.mark.long
@pytest.mark.parametrize(
    "weights",
    [HALF, *(pytest.param(w, marks=pytest.mark.slow) for w in (ONE_PART, MORE_OF_OTHERS))],
)
def test_gradient_ascent_reaches_the_largest_mix_of_the_parts(weights):
    possible, sizes = (
        unknown_target((3, 0, 4, 1), 6, "probability"),
        np.array([30.0, 5, 9, 80, 2, 41]),
    )
    reached, bound = largest_mix(*mixed(possible, sizes, weights), 1e-5)
    best = climbed(possible, [sizes], "signed", seed=0, starts=64, weights=weights)
    assert best <= bound <= reached + 1e-5 + 1e-12
    assert best >= reached - 1e-3


def mixed(possible, sizes, weights):
    """What the search for the largest mix takes, written out question by question."""
    sets = possible.positive, possible.negative, possible.positive | possible.negative
    members = np.concatenate(sets)
    shares = np.concatenate([w * possible.weights for w in weights])
    return sizes, members, np.repeat([0, 1, 2], len(possible.weights)), shares, members @ sizes


# Corners and boxes of masses

UNIT = st.floats(0, 1)


@st.composite
def mixes(draw):
    """(sizes, members, kinds, weights, truth sizes) of up to six truths on up to five cells."""
    cells, truths = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    sizes = np.array(draw(st.lists(st.floats(0.01, 1), min_size=cells, max_size=cells)))
    members = np.array(
        draw(
            st.lists(
                st.lists(st.booleans(), min_size=cells, max_size=cells),
                min_size=truths,
                max_size=truths,
            )
        )
    )
    members[np.arange(truths), np.arange(truths) % cells] = True  # no truth is empty
    kinds = np.array(draw(st.lists(st.integers(0, 2), min_size=truths, max_size=truths)))
    weights = np.array(draw(st.lists(UNIT, min_size=truths, max_size=truths)))
    return sizes, members, kinds, weights, members @ sizes


def coefficients(mix, positive, negative):
    """Gains of both kinds of mass on each cell, truth by truth."""
    sizes, members, kinds, weights, truth_sizes = mix
    alpha, beta = np.zeros(len(sizes)), np.zeros(len(sizes))
    for truth, kind, weight, size in zip(members, kinds, weights, truth_sizes, strict=True):
        mass = [positive, negative, positive + negative][kind]
        for gains, seen in ((alpha, kind != 1), (beta, kind != 0)):
            gains += seen * truth * 2 * weight / (mass + size)
    return alpha, beta


@pytest.mark.long
@settings(max_examples=100)
@given(mixes(), UNIT, UNIT)
def test_a_corner_is_solved_as_a_linear_program(mix, positive, negative):
    sizes, found = mix[0], np.zeros(3)
    solve_corner(positive, negative, *mix, found)
    alpha, beta = coefficients(mix, positive, negative)
    cells, zeros = len(sizes), np.zeros(len(sizes))
    eye = np.eye(cells)
    solved = linprog(
        -np.concatenate([alpha, beta]),
        A_ub=np.vstack(
            [np.append(zeros + 1, zeros), np.append(zeros, zeros + 1), np.hstack([eye, eye])]
        ),
        b_ub=[positive, negative, *sizes],
    )
    assert solved.status == 0
    assert found[0] == pytest.approx(-solved.fun, abs=1e-7)  # the solver's own tolerance
    mu, nu = found[1:]
    assert min(mu, nu) >= 0
    dual = positive * mu + negative * nu + sizes @ np.maximum(0, np.maximum(alpha - mu, beta - nu))
    assert found[0] == pytest.approx(dual, abs=1e-12)


@pytest.mark.long
@settings(max_examples=200)
@given(mixes(), UNIT, UNIT, UNIT, UNIT, UNIT, UNIT)
def test_nothing_in_a_box_exceeds_its_bound(mix, left, low, width, height, across, up):
    box = np.zeros(17)
    box[:4] = left, low, width, height
    for place in range(4):
        corner = left + (place % 2) * width, low + (place // 2) * height
        solve_corner(*corner, *mix, box[4 + 3 * place : 7 + 3 * place])
    inside = np.zeros(3)
    solve_corner(left + across * width, low + up * height, *mix, inside)
    assert inside[0] <= box_bound(box) + 1e-12


@pytest.mark.parametrize("mirrored", [False, True])
def test_the_bound_of_a_box_needs_the_curve_at_its_far_side(mirrored):
    """One cell, nearly full: found among 10^5 random boxes; positive and negative may change places."""
    kinds, start, extent, place = [0, 1, 2], [0.9722, 0.0], [0.0251, 0.0158], [0.53, 1.0]
    if mirrored:
        kinds, start, extent, place = [1, 0, 2], start[::-1], extent[::-1], place[::-1]
    weights = np.array([0.32697, 0.56215, 0.24980])
    mix = np.ones(1), np.ones((3, 1), dtype=bool), np.array(kinds), weights, np.ones(3)
    box, inside = np.array([*start, *extent, *[0.0] * 13]), np.zeros(3)
    for corner in range(4):
        masses = start[0] + corner % 2 * extent[0], start[1] + corner // 2 * extent[1]
        solve_corner(*masses, *mix, box[4 + 3 * corner : 7 + 3 * corner])
    solve_corner(*np.add(start, np.multiply(place, extent)).tolist(), *mix, inside)
    assert box[[4, 7, 10, 13]].max() + 5e-4 < inside[0] <= box_bound(box)


@pytest.mark.long
@settings(max_examples=60)
@given(mixes(), st.integers(0, 2**31))
def test_no_map_exceeds_the_largest_mix(mix, seed):
    sizes, members, kinds, weights, truth_sizes = mix
    reached, bound = largest_mix(*mix, 1e-4)
    assert reached <= bound <= reached + 1e-4 + 1e-12
    rng = np.random.default_rng(seed)
    for _ in range(50):
        positive, negative = random_map(rng, sizes)
        masses = positive, negative, positive + negative
        value = sum(
            weight * 2 * masses[kind][truth].sum() / (masses[kind].sum() + size)
            for truth, kind, weight, size in zip(members, kinds, weights, truth_sizes, strict=True)
        )
        assert value <= bound + 1e-12


# Parts that images do not have


def test_a_part_has_its_mean_over_the_images_that_have_it():
    """The first image has no negative truth: it must not make the mean of that part smaller."""
    one, all_ = (
        known_questions([((0,), 0)], 2, "probability"),
        unknown_target((0, 1), 2, "probability"),
    )
    images = [(one, [5.0, 5.0]), (all_, [5.0, 5.0])]
    scores = [
        oracles.expected_scores([5, 0], [0, 0], [5, 5], {(0, frozenset()): Fraction(1)}),
        oracles.expected_scores(
            [5 / 6, 5 / 6],  # a sixth of each cell: 0.25, so 0.625 on average
            [25 / 6, 25 / 6],  # and the rest: 0.625
            [5, 5],
            {(0, frozenset({1})): Fraction(1, 2), (1, frozenset({0})): Fraction(1, 2)},
        ),
    ]
    reached = oracles.claim_score(scores, "signed")
    assert reached == pytest.approx(0.625)
    assert reached <= ceiling(images) <= reached + 1e-3


def test_cells_that_an_image_does_not_show_count_for_nothing():
    shown = ceiling([(unknown_roles(3, 1, "logit"), [4.0, 9.0, 2.0])])
    more = ceiling([(unknown_roles(5, 1, "logit"), [0.0, 4.0, 9.0, 0.0, 2.0])])
    assert more == pytest.approx(shown, abs=1e-12)


def test_sizes_in_another_unit_change_nothing():
    possible, sizes = unknown_roles(5, 3, "probability"), np.array([4.0, 9, 2, 7, 7])
    found = [ceiling([(possible, sizes * unit)]) for unit in (1e-3, 1, 4096)]
    assert found == pytest.approx([found[0]] * 3, abs=SLACK)


# Smooth truths


def test_one_smooth_truth_has_the_best_map_of_that_truth():
    truth = torch.rand(1, 1, 6, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    best = float(f1(best_map(truth), truth))
    assert best <= smooth_ceiling(truth.reshape(1, -1).numpy(), 1e-5) <= best + 1e-5 + ROUNDING


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_masks_as_smooth_truths_are_cells(sizes):
    masks = np.repeat(np.eye(len(sizes)), sizes, axis=1)
    cells = ceiling([(unknown_roles(len(sizes), 1, "logit"), sizes)], "positive")
    assert smooth_ceiling(masks, TOLERANCE) == pytest.approx(cells, abs=SLACK)


@pytest.mark.long
@settings(max_examples=60)
@given(st.integers(1, 4), st.integers(1, 30), st.integers(0, 2**31))
def test_no_map_exceeds_the_smooth_ceiling_and_some_map_comes_close(count, pixels, seed):
    rng = np.random.default_rng(seed)
    truths = rng.random((count, pixels)) ** rng.choice([1, 4, 20])
    bound, totals = smooth_ceiling(truths), truths.sum(1)

    def score(values):
        return float(np.mean(2 * truths @ values / (values.sum() + totals)))

    best = 0.0
    for mass in np.linspace(0, pixels, 200):  # the pixels of the largest gains, and one in part
        order = np.argsort(-((1 / (mass + totals)) @ truths))
        values = np.zeros(pixels)
        values[order] = np.clip(mass - np.arange(pixels), 0, 1)
        best = max(best, score(values))
    assert best <= bound <= best + 0.01  # of the grid of masses
    for _ in range(20):
        assert score(rng.random(pixels) ** rng.choice([0.1, 1, 10])) <= bound


# Chance


def test_the_chance_of_half_with_64_questions_of_one_color_in_six():
    assert tail_bound(0.5, 2 / 7, 64) == pytest.approx((40 / 49) ** 32)


@given(st.integers(1, 200), st.floats(0.01, 0.99), st.data())
def test_coins_exceed_their_mean_no_more_often_than_the_tail_bound(n, mean, data):
    heads = data.draw(st.integers(0, n))
    chance = binom.sf(heads - 1, n, mean)  # P(X >= heads)
    assert chance <= tail_bound(heads / n, mean, n) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("score", "bound", "n", "expected"),
    [
        (0.4, 0.4, 9, 1.0),
        (0.3, 0.4, 9, 1.0),
        (1.0, 0.5, 3, 0.125),
        (0.1, 0.0, 2, 0.0),
        (1, 1, 5, 1.0),
    ],
)
def test_ends_of_the_tail_bound(score, bound, n, expected):
    assert tail_bound(score, bound, n) == pytest.approx(expected, abs=1e-15)


# What is refused

KNOWN = unknown_roles(3, 2, "probability")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: unknown_roles(3, 4, "logit"), "classes is 4: take an integer from 1 to 3"),
        (lambda: unknown_roles(0, 1, "logit"), "cells is 0"),
        (
            lambda: unknown_roles(20, 10, "probability"),
            "20 cells and 10 classes make 1847560 possible",
        ),
        (
            lambda: unknown_target((0, 0), 3, "logit"),
            r"roles are \(0, 0\): take a cell from 0 to 2",
        ),
        (lambda: unknown_target((0, 3), 3, "logit"), r"roles are \(0, 3\)"),
        (
            lambda: known_questions([((0, 1), 2)], 3, "logit"),
            "target is 2: take an integer from 0 to 1",
        ),
        (lambda: known_questions([], 3, "logit"), "there is no question"),
        (
            lambda: ceiling([(KNOWN, [1, 1, 1])], "agreed"),
            "claim is 'agreed', which has no ceiling",
        ),
        (lambda: ceiling([(KNOWN, [1, 1, 1])], tolerance=0), "tolerance is 0"),
        (lambda: ceiling([]), "there is no image"),
        (lambda: ceiling([(KNOWN, [1, 1])]), r"sizes of image 0 are \[1.0, 1.0\]: pass 3 numbers"),
        (lambda: ceiling([(KNOWN, [1, 1, -1])]), "sizes of image 0"),
        (lambda: ceiling([(KNOWN, [1, 1, float("nan")])]), "sizes of image 0"),
        (lambda: ceiling([(KNOWN, [1, 1, 1e-12])]), "pass no cell below 1e-09 of all"),
        (lambda: ceiling([(KNOWN, [0, 0, 0])]), "image 0 shows the target of no possible question"),
        (lambda: ceiling([(KNOWN, [5, 5, 0])]), "a negative truth and others none"),
        (lambda: smooth_ceiling([0.5, 0.5]), r"truths have shape \(2,\): pass \(Q, P\)"),
        (lambda: smooth_ceiling([[0.5, 2.0]]), r"truths lie in \[0.5, 2\]"),
        (lambda: smooth_ceiling([[0.5, 0.5], [0, 0]]), "1 of them 0 everywhere"),
        (lambda: tail_bound(1.5, 0.5, 3), "score is 1.5"),
        (lambda: tail_bound(0.5, float("nan"), 3), "ceiling is nan"),
        (lambda: tail_bound(0.5, 0.5, 0), "n is 0"),
    ],
)
def test_what_fits_nothing_is_refused_in_one_line(call, message):
    with pytest.raises(AttributionLabError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_the_same_numbers_are_bounded_once_and_other_ones_again(monkeypatch):
    counted = []
    bound = knowledge._signed_ceiling
    monkeypatch.setattr(knowledge, "_signed_ceiling", lambda *a: counted.append(a) or bound(*a))
    sizes = np.array([5.0, 6.0, 7.0, 23.0])  # of no other test
    possible = unknown_roles(4, 2, "probability")
    first = ceiling([(possible, sizes)])
    assert ceiling([(unknown_roles(4, 2, "probability"), sizes.tolist())]) == first
    assert len(counted) == 1
    assert ceiling([(possible, sizes)], tolerance=1e-5) < first + SLACK
    assert len(counted) == 2
    sizes[0] = 11  # the array that was passed before
    knowledge._ceiling.cache_clear()
    afresh = ceiling([(possible, sizes)])
    knowledge._ceiling.cache_clear()
    sizes[0] = 5
    assert ceiling([(possible, sizes)]) == first
    sizes[0] = 11
    assert ceiling([(possible, sizes)]) == afresh != first
    ceiling([(unknown_target((2, 1), 4, "probability"), sizes)])
    assert len(counted) == 6
