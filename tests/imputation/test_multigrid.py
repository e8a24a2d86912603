"""The multigrid solver: its bound of the error, and that few steps suffice whatever the size."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles_imputation
from attributionlab.metrics.imputation.multigrid import WeightedMeans


def removed_mask(kind, height, width, share, seed):
    """At least one pixel is removed, and one is kept."""
    draw = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    if kind == "noise":
        rank = draw.random((height, width))
    elif kind == "hole":
        rank = np.hypot(y - height / 2, x - width / 2)
    elif kind == "corridor":  # one that winds through the image, three pixels wide
        wall = (y % 4 == 3) & (x != np.where(y % 8 == 3, width - 1, 0))
        rank = np.where(wall, 2, 0) + draw.random((height, width))
        share = max(share, 0.7)
    order = rank.ravel().argsort().argsort().reshape(height, width)
    return order < min(max(1, round(share * height * width)), height * width - 1)


@given(
    st.sampled_from(["noise", "hole", "corridor"]),
    st.integers(1, 16),
    st.integers(2, 16),
    st.floats(0, 1),
    st.integers(0, 2**32 - 1),
)
def test_the_bound_is_that_of_the_inverse_and_not_far_from_it(kind, height, width, share, seed):
    removed = removed_mask(kind, height, width, share, seed)
    a, _ = oracles_imputation.equations(removed)
    least = np.linalg.solve(a.toarray(), np.ones(removed.sum())).max()
    bound = WeightedMeans(height, width).remove(removed)
    # u with A u between 1/2 and 3/2 is at most 3/2 of what A u = 1 has, and divided by at least 1/2.
    # Roundings: 2^-53 times a condition number of at most (16 * 16)^2, and as much of the dense solve.
    assert least * (1 - 1e-10) <= bound <= 3 * least * (1 + 1e-10)


def filled_by(solver, channel, tolerance, start=None):
    """And the number of steps."""
    out = np.empty_like(channel)
    return out, solver.fill(channel, start, tolerance, out)


@pytest.mark.parametrize("kind", ["noise", "hole", "corridor"])
@pytest.mark.parametrize("share", [0.4, 0.97])
def test_few_steps_suffice_whatever_the_size(kind, share):
    steps = []
    for side in (48, 96, 192):
        solver = WeightedMeans(side, side)
        solver.remove(removed_mask(kind, side, side, share, 0))
        image = np.random.default_rng(0).random((side, side))
        steps.append(filled_by(solver, image, 1e-6)[1])
    assert max(steps) <= 14
    # Plain conjugate gradients would need four times as many for a hole that is four times as wide.
    assert max(steps) - min(steps) <= 4


def test_a_start_that_solves_the_equations_needs_no_step():
    removed = removed_mask("hole", 40, 30, 0.5, 0)
    image = np.random.default_rng(0).random((40, 30))
    solver = WeightedMeans(40, 30)
    solver.remove(removed)
    exact = filled_by(solver, image, 1e-10)[0]
    filled, steps = filled_by(solver, image, 1e-9, exact)
    assert steps == 0
    assert (filled == exact).all()


def test_what_was_solved_before_does_not_matter():
    draw = np.random.default_rng(0)
    used = WeightedMeans(21, 34)
    for kind in ("hole", "corridor", "noise"):
        image, removed = 1e5 * draw.random((21, 34)), removed_mask(kind, 21, 34, 0.8, 1)
        fresh = WeightedMeans(21, 34)
        assert used.remove(removed) == fresh.remove(removed)
        (a, a_steps), (b, b_steps) = (filled_by(each, image, 1e-6) for each in (used, fresh))
        assert a_steps == b_steps
        assert (a == b).all()


def test_the_sign_of_a_residual_does_not_matter():
    image = np.random.default_rng(0).random((24, 24)) ** 8  # mostly near 0, and rarely near 1
    solver = WeightedMeans(24, 24)
    solver.remove(removed_mask("noise", 24, 24, 0.6, 0))
    for tolerance in 10.0 ** -np.linspace(2, 9, 40):
        filled, steps = filled_by(solver, image, tolerance)
        negative, as_many = filled_by(solver, -image, tolerance)
        assert as_many == steps
        assert (negative == -filled).all()
