"""The adaptive rule: its constants, its error and its limits."""

import pytest
import torch

from attributionlab.base.exact.integrals.integral import (
    GAUSS,
    KRONROD,
    NODES,
    integrate_gradients,
)


def density_of(function, derivative):
    """What `integrate_gradients` asks for, of a function of s alone: one pixel has it all."""
    asked = []

    def evaluate(points):
        asked.append(len(points))
        return function(points), derivative(points)[:, None, None, None]

    ends = tuple(function(torch.tensor([end]).double())[0] for end in (0.0, 1.0))
    return evaluate, ends, asked


@pytest.mark.parametrize(("rule", "degree"), [(KRONROD, 22), (GAUSS, 13)])
def test_the_rules_are_exact_for_polynomials_of_their_degree(rule, degree):
    nodes, weights = (torch.tensor(row, dtype=torch.float64) for row in (NODES, rule))
    for power in range(0, degree + 2, 2):
        off = abs(float((weights * nodes**power).sum()) - 2 / (power + 1))
        assert (off <= 1e-15) == (power <= degree), power
    assert torch.equal(nodes, -nodes.flip(0))
    assert torch.equal(weights, weights.flip(0))


def test_a_smooth_function_takes_one_panel():
    evaluate, ends, asked = density_of(torch.sin, torch.cos)
    result = integrate_gradients(evaluate, ends, 1e-9, 3000)
    assert result.panels == 1
    assert asked == [15]
    assert abs(float(result.attributions) - float(torch.sin(torch.tensor(1.0).double()))) <= 1e-15


def test_kinks_are_closed_in_on():
    kink = 1 / 3

    def function(s):
        return (s - kink).clamp(min=0)

    evaluate, ends, asked = density_of(function, lambda s: (s > kink).double())
    result = integrate_gradients(evaluate, ends, 1e-9, 3000)
    assert result.error <= 1e-9
    assert abs(float(result.attributions) - 2 / 3) <= result.error
    assert result.panels < 40
    assert sum(asked) == 15 + 30 * (result.panels - 1)


def test_a_step_between_all_nodes_is_found_by_what_is_missing():
    width = 1e-4

    def function(s):
        return ((s - 0.3) / width).clamp(0, 1)

    evaluate, ends, _ = density_of(
        function, lambda s: ((s > 0.3) & (s < 0.3 + width)).double() / width
    )
    result = integrate_gradients(evaluate, ends, 1e-6, 3000)
    assert abs(float(result.attributions) - 1) <= result.error <= 1e-6


@pytest.mark.parametrize("most", [15, 44, 45, 100])
def test_the_budget_is_kept_and_the_error_admitted(most):
    evaluate, ends, asked = density_of(lambda s: (s - 0.3).abs(), lambda s: (s - 0.3).sign())
    result = integrate_gradients(evaluate, ends, 1e-12, most)
    assert sum(asked) <= most
    assert result.panels == 1 + (most - 15) // 30
    assert result.error > 1e-12
    assert abs(float(result.attributions) - 0.4) <= result.error


def test_panels_do_not_shrink_forever():
    # A jump of the function itself has no derivative to integrate: the error stays.
    evaluate, ends, _ = density_of(lambda s: (s > 0.3).double(), torch.zeros_like)
    result = integrate_gradients(evaluate, ends, 1e-9, 100_000)
    assert result.error == 1.0
    assert result.panels < 100
