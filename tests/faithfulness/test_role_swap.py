"""The role-swap test is exact for blind maps, and finds the maps that depend on what was asked."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import oracles_knowledge as oracles
from attributionlab import AttributionLabError
from attributionlab.faithfulness.knowledge import known_questions, unknown_roles, unknown_target
from attributionlab.faithfulness.role_swap import CellMasses, role_swap_test


def masses_of(values, cell_of, cells, question, possible):
    """What the test takes of a map, given pixel by pixel; -1 is no cell."""
    values, cell_of = np.array(values, float), np.array(cell_of)
    up, down = np.maximum(values, 0), np.maximum(-values, 0)

    def sums(side):
        return np.bincount(cell_of + 1, side, cells + 1)

    positive, negative, sizes = sums(up), sums(down), sums(np.ones_like(values))
    outside = positive[0], negative[0]
    return CellMasses(positive[1:], negative[1:], outside, sizes[1:], question, possible)


@st.composite
def cases(draw):
    """(maps as pixels, roles and target of each, cells, output, knowledge) of one to three."""
    cells = draw(st.integers(2, 4))
    classes = draw(st.integers(1, min(3, cells)))
    count = draw(st.integers(1, 3))
    pixels = st.lists(
        st.tuples(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0]), st.integers(-1, cells - 1)),
        min_size=cells,
        max_size=12,
    )
    maps = [tuple(zip(*draw(pixels), strict=True)) for _ in range(count)]
    asked = [
        (tuple(draw(st.permutations(range(cells))))[:classes], draw(st.integers(0, classes - 1)))
        for _ in range(count)
    ]
    knows = draw(st.sampled_from(["target", "roles"]))
    return maps, asked, cells, draw(st.sampled_from(["probability", "logit"])), knows


def both_forms(maps, asked, cells, output, knows):
    """What the test takes, and what its naive twin takes."""
    ours, questions, possible = [], [], []
    for (values, cell_of), (roles, target) in zip(maps, asked, strict=True):
        sizes = [cell_of.count(cell) for cell in range(cells)]
        if knows == "roles":
            known = unknown_target(roles, cells, output)
            naive = {
                oracles.question(roles, each, output): Fraction(1, len(roles))
                for each in range(len(roles))
            }
        else:
            known = unknown_roles(cells, len(roles), output)
            naive = oracles.questions(cells, len(roles), output)
        question = known_questions([(roles, target)], cells, output)
        assume(sizes[roles[target]])
        naive = oracles.shown(naive, sizes)
        assume(len({any(sizes[cell] for cell in others) for _, others in naive}) == 1)
        ours.append(masses_of(values, cell_of, cells, question, known))
        questions.append(oracles.question(roles, target, output))
        possible.append(naive)
    return ours, questions, possible


@pytest.mark.long
@settings(max_examples=60)
@given(cases(), st.sampled_from(["signed", "overall", "positive"]))
def test_it_estimates_the_share_of_all_assignments_that_score_as_much(case, claim):
    maps, *_ = case
    ours, questions, possible = both_forms(*case)
    assume(np.prod([len(each) for each in possible]) <= 3000)
    pixels = [list(each) for each in maps]
    exact = oracles.role_swap_p(pixels, questions, possible, claim)
    found = role_swap_test(ours, claim, draws=4000)
    # Five standard errors of a share of 4,000 draws, and five draws for shares near 0.
    assert abs(found.p_value - exact) <= 5 * np.sqrt(exact * (1 - exact) / 4000) + 5 / 4001
    scores = [oracles.pixel_scores(*each, q) for each, q in zip(pixels, questions, strict=True)]
    assert found.score == pytest.approx(oracles.claim_score(scores, claim), abs=1e-12)
    assert found.draws == 4000


CELLS, CLASSES = 6, 4


def drawn_questions(rng, n):
    """Sizes of the cells, roles and target of n questions."""
    for _ in range(n):
        roles = tuple(rng.permutation(CELLS)[:CLASSES].tolist())
        yield rng.integers(5, 60, CELLS).astype(float), roles, int(rng.integers(CLASSES))


def majority(sizes, rng):
    """The largest cell +1, all others -1."""
    largest = np.arange(CELLS) == sizes.argmax()
    return np.where(largest, sizes, 0), np.where(largest, 0, sizes)


def noise(sizes, rng):
    """Any values, drawn anew for each image."""
    shares = rng.dirichlet(np.ones(3), CELLS)
    return sizes * shares[:, 0], sizes * shares[:, 1]


@pytest.mark.long
@pytest.mark.parametrize("blind", [majority, noise])
@pytest.mark.parametrize("knows", ["neither", "roles"])
def test_blind_maps_have_small_p_values_no_more_often_than_they_should(blind, knows):
    rng, ps, tried = np.random.default_rng(5), [], 400
    roles_unknown = unknown_roles(CELLS, CLASSES, "probability")
    for trial in range(tried):
        maps = []
        for sizes, roles, target in drawn_questions(rng, 6):
            question = known_questions([(roles, target)], CELLS, "probability")
            if knows == "roles":  # a map that depends on the network, not on the target
                possible = unknown_target(roles, CELLS, "probability")
                counted = np.isin(np.arange(CELLS), roles)
                positive, negative = (side * counted for side in blind(sizes, rng))
            else:
                possible = roles_unknown
                positive, negative = blind(sizes, rng)
            maps.append(CellMasses(positive, negative, (0, 0), sizes, question, possible))
        ps.append(role_swap_test(maps, draws=199, seed=trial).p_value)
    for alpha in (0.01, 0.05, 0.1, 0.25, 0.5):
        error = np.sqrt(alpha * (1 - alpha) / tried)
        found = np.mean(np.array(ps) <= alpha)
        assert found <= alpha + 3 * error
        if blind is noise:  # without ties no less often, either
            assert found >= alpha - 4 * error


def test_the_truth_depends_on_the_network_and_on_the_target():
    rng, blind, target_blind = np.random.default_rng(0), [], []
    for sizes, roles, target in drawn_questions(rng, 8):
        question = known_questions([(roles, target)], CELLS, "probability")
        positive, negative = np.zeros(CELLS), np.zeros(CELLS)
        for each, cell in enumerate(roles):
            (positive if each == target else negative)[cell] = sizes[cell]
        known = (positive, negative, (0, 0), sizes, question)
        blind.append(CellMasses(*known, unknown_roles(CELLS, CLASSES, "probability")))
        target_blind.append(CellMasses(*known, unknown_target(roles, CELLS, "probability")))
    assert role_swap_test(blind) == (1 / 20_000, 1.0, 19_999)
    # One of 4^8 assignments is the truth: about 0.3 of the draws in expectation.
    assert role_swap_test(target_blind).p_value <= 5 / 20_000


def test_what_depends_on_the_network_alone_is_told_from_what_depends_on_the_target():
    """All counted cells half +1, half -1: the network was read, the target was not."""
    rng, maps = np.random.default_rng(1), {"network": [], "target": []}
    for sizes, roles, target in drawn_questions(rng, 60):
        half = sizes * np.isin(np.arange(CELLS), roles) / 2
        known = (
            half,
            half,
            (0, 0),
            sizes,
            known_questions([(roles, target)], CELLS, "probability"),
        )
        maps["network"].append(CellMasses(*known, unknown_roles(CELLS, CLASSES, "probability")))
        maps["target"].append(CellMasses(*known, unknown_target(roles, CELLS, "probability")))
    assert role_swap_test(maps["network"]).p_value < 0.01
    assert role_swap_test(maps["target"]).p_value > 0.05


def test_mass_outside_the_cells_lowers_the_score_and_no_tie_is_lost():
    question = known_questions([((0,), 0)], 3, "logit")
    possible = unknown_roles(3, 1, "logit")
    map_ = CellMasses([4, 4, 4], [0, 0, 0], (12, 0), [4, 4, 4], question, possible)
    found = role_swap_test([map_])
    assert found.score == pytest.approx(2 * 4 / (24 + 4))
    assert found.p_value == 1.0  # all three cells score the same


def test_the_seed_alone_decides():
    rng = np.random.default_rng(2)
    maps = [
        CellMasses(
            *noise(sizes, rng),
            (0, 0),
            sizes,
            known_questions([(roles, target)], CELLS, "probability"),
            unknown_roles(CELLS, CLASSES, "probability"),
        )
        for sizes, roles, target in drawn_questions(rng, 5)
    ]
    first, again, other = (role_swap_test(maps, draws=500, seed=seed) for seed in (3, 3, 4))
    assert first == again
    assert first.p_value != other.p_value


ASKED, POSSIBLE = (
    known_questions([((0, 1), 0)], 3, "probability"),
    unknown_roles(3, 2, "probability"),
)
GOOD = CellMasses([1, 0, 0], [0, 1, 1], (0, 0), [2, 2, 2], ASKED, POSSIBLE)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"positive": [3, 0, 0]}, r"map 0 has the masses \[3.0, 0.0, 0.0\].*at most 1"),
        ({"negative": [0, -1, 0]}, "map 0 has the masses"),
        ({"negative": [0, float("nan"), 0]}, "map 0 has the masses"),
        ({"outside": (-1, 0)}, "map 0 has the masses"),
        ({"positive": [1, 0]}, r"map 0 has masses of shapes \(2,\) and \(3,\): pass \(3,\)"),
        ({"sizes": [2, 2]}, r"sizes of image 0 are \[2.0, 2.0\]: pass 3 numbers"),
        ({"question": POSSIBLE}, "map 0 was asked 6 questions of 3 cells: pass one"),
        (
            {"question": known_questions([((0, 1), 0)], 3, "logit")},
            "map 0 was asked what is not among the possible questions",
        ),
        ({"sizes": [0, 2, 2], "positive": [0, 0, 0]}, "map 0 was asked what is not"),
    ],
)
def test_masses_that_fit_nothing_are_refused(change, message):
    if (
        "sizes" in change and change["sizes"][0] == 0
    ):  # two others that are seen, to reach the check
        possible = unknown_roles(3, 3, "probability")
        asked = known_questions([((0, 1, 2), 0)], 3, "probability")
        change = {**change, "question": asked, "possible": possible}
    with pytest.raises(AttributionLabError, match=message):
        role_swap_test([GOOD._replace(**change)])


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"claim": "positive-smoothed"}, "claim is 'positive-smoothed', which has no ceiling"),
        ({"draws": 0}, "draws is 0"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_settings_that_fit_nothing_are_refused(how, message):
    with pytest.raises(AttributionLabError, match=message):
        role_swap_test([GOOD], **how)


def test_no_map_is_refused():
    with pytest.raises(AttributionLabError, match="there is no image"):
        role_swap_test([])
