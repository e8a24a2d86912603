"""Path integrals agree with rational arithmetic, with closed forms and with brute force.

The adaptive rule: its constants, its error and its limits.

Integrals of the softmax's derivative along lines of logits.
"""

import copy
import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

import attributionlab as al
import oracles
from attributionlab.base.exact import path_integral
from attributionlab.base.exact.chain import ROUNDING, chain_of
from attributionlab.base.exact.integrals import integral, segments
from exact.random_networks import Case, Opaque, as_rational, cases, rational
from oracles import midpoint_rule

CASES = settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])


def in_rational_numbers(case: Case) -> torch.Tensor:
    layers = as_rational(case.model, case.end.shape[1:])
    with torch.no_grad():
        start, end = rational(case.start), rational(case.end)
    exact = oracles.path_integral(layers, start, end, case.target)
    return torch.tensor([float(value) for value in exact], dtype=torch.float64)


def chain(*layers):
    """A chain whose weights are given as nested lists."""
    modules = []
    for layer in layers:
        if isinstance(layer, nn.Module):
            modules.append(layer)
            continue
        weight = torch.tensor(layer)
        module = nn.Linear(*weight.T.shape, bias=False)
        module.weight = nn.Parameter(weight)
        modules.append(module)
    return nn.Sequential(nn.Flatten(), *modules)


def image(*values):
    return torch.tensor(values).float().reshape(1, 1, 1, -1)


def explained(name, image_size, output, start, **constants):
    """One image of an environment: model, inputs, baselines, targets."""
    env = al.load(name, image_size=image_size, **constants)
    images, labels = env.batch(1)
    baseline = env.baseline if start == "true" else torch.zeros(1)
    return env.explained_model(output), images, baseline, env.targets(labels)


# Against rational arithmetic


@pytest.mark.long
@CASES
@given(cases())
def test_a_relu_network_is_integrated_to_rounding(case):
    result = path_integral(case.model, *case.path)
    expected = in_rational_numbers(case)
    assert result.routes == ("exact",)
    assert (result.attributions.flatten() - expected).norm() <= result.error
    assert result.residual.abs() <= result.error


@pytest.mark.slow
@settings(max_examples=1000, suppress_health_check=[HealthCheck.too_slow])
@given(cases())
def test_rounding_leaves_half_the_margin_or_shows_in_the_residual(case):
    result = path_integral(case.model, *case.path)
    distance = (result.attributions.flatten() - in_rational_numbers(case)).norm()
    unit = ROUNDING * len(case.model) * result.attributions.norm()
    assert distance <= max(integral.MARGIN / 2 * unit, result.residual.abs())


@pytest.mark.long
@CASES
@given(cases())
def test_fewer_panels_than_kinks_still_add_up_and_say_how_far_off_they_are(case):
    exact = path_integral(case.model, *case.path)
    for most in (1, 4, 12):
        result = path_integral(case.model, *case.path, max_panels=most)
        assert result.panels <= most
        distance = (result.attributions - exact.attributions).norm()
        assert result.residual.abs() <= 1e-12
        if result.routes == ("exact",):
            assert torch.equal(result.attributions, exact.attributions)
        elif most == 1:
            assert result.error == math.inf
        # An estimate, which a quarter of the panels may by chance get nearly right.
        assert distance <= 4 * result.error + 1e-12


@pytest.mark.long
@CASES
@given(cases())
def test_probabilities_agree_with_adaptive_quadrature(case):
    model = nn.Sequential(case.model, nn.Softmax(dim=1))
    exact = path_integral(model, *case.path)
    adaptive = path_integral(Opaque(model), *case.path, tolerance=1e-5, max_evaluations=2000)
    assert exact.routes == ("exact",)
    assert adaptive.routes == ("adaptive",)
    # A panel's error is at least how far it is from summing to the change of the function, so these
    # together bound the whole's. 1e-11 is 2,000 roundings of numbers up to 40, of which the largest
    # attribution here is 0.62.
    assert adaptive.residual.abs() <= adaptive.error + 1e-11
    distance = (exact.attributions - adaptive.attributions).norm()
    # No bound exists: of several kinks in a panel the differences of its two rules may cancel (4.1
    # times the estimate in one example seen). Of one kink it is 1.22 (below). 10 finds gross errors.
    assert distance <= exact.error + 10 * adaptive.error
    assert exact.residual.abs() <= 1e-14 + exact.error


def test_one_kink_between_the_outermost_nodes_is_missed_by_at_most_1_22_of_the_estimate():
    """A gradient that steps by 1 at x: a rule gives the weights of the nodes before x, the integral is
    x + 1. Between two nodes the rules stay and the integral grows, so the worst x is one of these two.
    """
    kronrod, gauss = np.cumsum(integral.KRONROD), np.cumsum(integral.GAUSS)
    steps = list(zip(itertools.pairwise(integral.NODES), kronrod, gauss, strict=False))
    worst = [
        max(abs(ours - x - 1) for x in ends) / abs(ours - theirs) for ends, ours, theirs in steps
    ]
    assert len(worst) == len(integral.NODES) - 1
    assert max(worst) == pytest.approx(1.22, abs=0.005)


@pytest.fixture
def many_kinks():
    """200 ReLUs of two pixels, with evenly spaced kinks along the path from black to (1, 2).

    A softmax makes merged kinks count: panels with one ReLU layer alone are exact however coarse.
    """
    places = (torch.arange(200) + 0.5) / 200
    weights = torch.stack([torch.ones(200), torch.sin(9 * places)], dim=1)
    end = image(1.0, 2.0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(2, 200), nn.ReLU(), nn.Linear(200, 2))
    model[1].weight.data, model[1].bias.data = weights, -places * (weights @ end.flatten())
    model[3].weight.data = 0.05 * torch.stack([torch.cos(5 * places), torch.sin(7 * places)])
    return nn.Sequential(model, nn.Softmax(dim=1)), end, torch.zeros(1), torch.tensor([0])


def test_as_many_panels_are_told_apart_as_a_step_of_16_of_the_gap_allows(many_kinks):
    exact, some = path_integral(*many_kinks), path_integral(*many_kinks, max_panels=70)
    assert exact.panels == 201
    assert exact.routes + some.routes == ("exact", "secant")
    assert 70 / 16 < some.panels <= 70


def test_a_secants_error_is_the_distance_from_at_least_an_eighth_of_the_panels(many_kinks):
    model, end, _, _ = many_kinks
    result = path_integral(*many_kinks, max_panels=70)
    chain, end = chain_of(model), end[0].double()
    distances = []
    for power in range(1, 12):
        effort = segments.Effort(2.0**-power, most=1000)
        coarse = segments.integrate_chain(chain, torch.zeros_like(end), end, 0, effort)
        if result.panels / 8 <= effort.panels <= result.panels / 4:
            distances.append(float((result.attributions[0] - coarse).norm()))
    assert float(result.error) in distances
    assert result.error > 1e-9


def test_the_error_is_no_less_than_the_residual():
    model = nn.Sequential(nn.Flatten(), nn.Linear(1, 1)).double()
    model[1].weight.data.fill_(1 / 3)
    model[1].bias.data.fill_(1e6)  # the outputs lose ten digits, the attributions none
    result = path_integral(model, image(1.0), image(0.0), torch.tensor([0]))
    assert result.attributions.item() == 1 / 3
    assert result.error == result.residual.abs() > 1e-12


# Closed forms


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [(-1.0, 3.0, 3.0), (3.0, -1.0, -3.0), (0.0, 2.0, 2.0), (-2.0, 0.0, 0.0), (-3.0, -1.0, 0.0)],
)
def test_one_relu_hands_on_its_positive_part(start, end, expected):
    result = path_integral(chain(nn.ReLU()), image(end), image(start), torch.tensor([0]))
    assert result.attributions.item() == pytest.approx(expected, abs=1e-15)


def test_each_pixel_has_its_share_of_the_time_in_which_the_neuron_is_on():
    # ReLU(x_1 - 2 x_2) from (0, 1) to (6, 2): -2 -> 2, on in the second half of the path.
    model = chain([[1.0, -2.0]], nn.ReLU())
    result = path_integral(model, image(6, 2), image(0, 1), torch.tensor([0]))
    assert result.attributions.flatten().tolist() == [3.0, -1.0]
    assert result.panels.tolist() == [2]


def test_two_classes_share_as_their_weights_do():
    # The difference of two logits is all a softmax of two sees, and it is linear along the path.
    weight = torch.tensor([[1.0, 2.0, -1.0], [0.5, -3.0, 0.0]])
    start, end = image(1, 0, 2), image(3, 1, -4)
    result = path_integral(chain(weight.tolist(), nn.Softmax(dim=1)), end, start, torch.tensor([1]))
    slope = (weight[1] - weight[0]).double()
    change = (end - start).double().flatten() * slope
    before, after = (torch.sigmoid((slope * x.double().flatten()).sum()) for x in (start, end))
    expected = change / change.sum() * (after - before)
    torch.testing.assert_close(result.attributions.flatten(), expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("start", ["zero", "true"])
def test_modulo_gives_every_white_pixel_the_same_and_every_black_one_nothing(start):
    model, images, baseline, targets = explained("single-color-modulo", 48, "logit", start)
    result = path_integral(model, images, baseline, targets)
    white = images == 1
    n = int(white.sum())
    assert n > 30  # the sawtooth has more than one tooth
    share = (n % 30) / n
    # A tooth's kinks are found to 1e-13 of the count, which five teeth of height 30 multiply.
    torch.testing.assert_close(
        result.attributions[white], torch.full((n,), share, dtype=torch.float64), rtol=0, atol=1e-11
    )
    assert (result.attributions[~white] == 0).all()
    assert result.attributions[white].min() > result.attributions[~white].max()
    assert result.residual.abs() <= 1e-9


# The laboratory's own networks


@pytest.mark.parametrize("output", ["logit", "probability"])
@pytest.mark.parametrize("start", ["zero", "true"])
@pytest.mark.parametrize(
    "name", ["multi-color-sum-in-distribution", "multi-color-sum", "multi-color-sum-distractors"]
)
def test_the_catalog_is_integrated_completely(name, start, output):
    model, images, baseline, targets = explained(name, 40, output, start)
    result = path_integral(model, images, baseline, targets)
    assert result.routes == ("exact",)
    assert result.residual.abs() <= 1e-11
    unmoved = (images == baseline.expand_as(images)).expand_as(images)
    assert (result.attributions[unmoved] == 0).all()


@pytest.mark.parametrize("start", ["zero", "true"])
def test_without_unseen_colors_a_logit_is_the_count_shared_equally(start):
    model, images, baseline, targets = explained(
        "multi-color-sum-in-distribution", 40, "logit", start
    )
    env = al.load("multi-color-sum-in-distribution", image_size=40)
    mask = env.truth(images, targets, output="logit").positive
    result = path_integral(model, images, baseline, targets)
    got = result.attributions.sum(1, keepdim=True)
    torch.testing.assert_close(got, mask.double(), rtol=0, atol=1e-13)
    # One panel for each moving output of the detector; where only its inside moves there is no work.
    assert result.panels <= 4


@pytest.mark.long
@pytest.mark.parametrize("output", ["logit", "probability"])
@pytest.mark.parametrize("start", ["zero", "true"])
def test_with_unseen_colors_each_channel_agrees_with_adaptive_quadrature(start, output):
    model, images, baseline, targets = explained("multi-color-sum", 8, output, start)
    exact = path_integral(model, images, baseline, targets)
    adaptive = path_integral(
        Opaque(model), images, baseline, targets, tolerance=1e-7, max_evaluations=10_000
    )
    assert adaptive.error <= 1e-7
    assert exact.error <= 1e-12
    assert exact.panels > 2  # the accumulator has kinks of its own
    assert (exact.attributions - adaptive.attributions).norm() <= exact.error + adaptive.error


def test_knowing_pixels_apart_or_alike_gives_the_same(monkeypatch):
    path = explained("multi-color-sum", 16, "probability", "zero")
    alike = path_integral(*path)
    monkeypatch.setattr("attributionlab.base.exact.integrals.segments.FEW_PIXELS", 0)
    apart = path_integral(*path)
    torch.testing.assert_close(alike.attributions, apart.attributions, rtol=0, atol=1e-14)


def test_small_chunks_give_the_same(monkeypatch):
    path = explained("multi-color-sum", 24, "probability", "zero")
    at_once = path_integral(*path)
    monkeypatch.setattr("attributionlab.base.exact.integrals.segments.NUMBERS_AT_ONCE", 2**13)
    chunked = path_integral(*path)
    assert torch.equal(at_once.panels, chunked.panels)
    torch.testing.assert_close(at_once.attributions, chunked.attributions, rtol=0, atol=1e-14)


# Corners


def test_no_path_no_attributions():
    model, images, _, targets = explained("multi-color-sum", 16, "probability", "zero")
    for same in (model, Opaque(model)):
        result = path_integral(same, images, images, targets)
        assert (result.attributions == 0).all()
        assert result.residual.tolist() == result.error.tolist() == [0.0]


@pytest.mark.parametrize("layer", [nn.Linear(3, 1, bias=False), nn.Conv2d(1, 1, (1, 3))], ids=str)
def test_a_neuron_that_stays_at_zero_is_off_though_rounding_moves_it(layer):
    # 0.1 + 0.2 - 0.3 is no zero in float64, in whatever order: 2.8e-17 or 5.6e-17.
    model = nn.Sequential(layer, nn.ReLU(), nn.Flatten()).double()
    weight = torch.tensor([0.1, 0.2, -0.3], dtype=torch.float64)
    layer.weight = nn.Parameter(weight.reshape(layer.weight.shape))
    if layer.bias is not None:
        layer.bias.data.zero_()
    result = path_integral(model, image(1, 1, 1), image(0, 0, 0), torch.tensor([0]))
    assert result.attributions.flatten().tolist() == [0.0, 0.0, 0.0]


def test_saturated_probabilities_keep_their_digits():
    # From logits (0, 0) to (1000, 0): p goes from 1/2 to 1, in the first hundredth of the path.
    model = chain([[1000.0], [0.0]], nn.Softmax(dim=1))
    result = path_integral(model, image(1.0), image(0.0), torch.tensor([0]))
    assert result.attributions.item() == pytest.approx(0.5, abs=1e-15)
    # From (-800, 0) on to (-700, 0): p = exp(z) as long as it is tiny.
    model[1].weight.data = torch.tensor([[100.0], [0.0]])
    result = path_integral(model, image(-0.5), image(-0.6), torch.tensor([0]))
    ends = [math.exp(100 * float(np.float32(x))) for x in (-0.5, -0.6)]
    assert result.attributions.item() == pytest.approx(ends[0] - ends[1], rel=1e-12)


def test_images_of_a_batch_do_not_know_of_each_other():
    env = al.load("multi-color-sum", image_size=16)
    images, labels = env.batch(3)
    together = path_integral(env.softmax_model, images, env.baseline, labels)
    for index in range(3):
        alone = path_integral(
            env.softmax_model, images[index : index + 1], env.baseline, labels[index : index + 1]
        )
        assert torch.equal(together.attributions[index], alone.attributions[0])
        assert together.panels[index] == alone.panels[0]
        assert together.residual[index] == alone.residual[0]


def test_the_model_and_the_images_are_left_alone():
    model, images, baseline, targets = explained("multi-color-sum", 16, "probability", "true")
    state, before = copy.deepcopy(model.state_dict()), images.clone()
    for same in (model, Opaque(model)):
        path_integral(same, images, baseline, targets, max_evaluations=15)
    assert all(torch.equal(state[name], value) for name, value in model.state_dict().items())
    assert all(p.dtype == torch.float32 and p.requires_grad for p in model.parameters())
    assert all(p.grad is None for p in model.parameters())
    assert torch.equal(images, before)


def density_of(function, derivative):
    """What `integrate_gradients` asks for, of a function of s alone: one pixel has it all."""
    asked = []

    def evaluate(points):
        asked.append(len(points))
        return function(points), derivative(points)[:, None, None, None]

    ends = tuple(function(torch.tensor([end]).double())[0] for end in (0.0, 1.0))
    return evaluate, ends, asked


@pytest.mark.parametrize(("rule", "degree"), [(integral.KRONROD, 22), (integral.GAUSS, 13)])
def test_the_rules_are_exact_for_polynomials_of_their_degree(rule, degree):
    nodes, weights = (torch.tensor(row, dtype=torch.float64) for row in (integral.NODES, rule))
    for power in range(0, degree + 2, 2):
        off = abs(float((weights * nodes**power).sum()) - 2 / (power + 1))
        assert (off <= 1e-15) == (power <= degree), power
    assert torch.equal(nodes, -nodes.flip(0))
    assert torch.equal(weights, weights.flip(0))


def test_a_smooth_function_takes_one_panel():
    evaluate, ends, asked = density_of(torch.sin, torch.cos)
    result = integral.integrate_gradients(evaluate, ends, 1e-9, 3000)
    assert result.panels == 1
    assert asked == [15]
    assert abs(float(result.attributions) - float(torch.sin(torch.tensor(1.0).double()))) <= 1e-15


def test_kinks_are_closed_in_on():
    kink = 1 / 3

    def function(s):
        return (s - kink).clamp(min=0)

    evaluate, ends, asked = density_of(function, lambda s: (s > kink).double())
    result = integral.integrate_gradients(evaluate, ends, 1e-9, 3000)
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
    result = integral.integrate_gradients(evaluate, ends, 1e-6, 3000)
    assert abs(float(result.attributions) - 1) <= result.error <= 1e-6


@pytest.mark.parametrize("most", [15, 44, 45, 100])
def test_the_budget_is_kept_and_the_error_admitted(most):
    evaluate, ends, asked = density_of(lambda s: (s - 0.3).abs(), lambda s: (s - 0.3).sign())
    result = integral.integrate_gradients(evaluate, ends, 1e-12, most)
    assert sum(asked) <= most
    assert result.panels == 1 + (most - 15) // 30
    assert result.error > 1e-12
    assert abs(float(result.attributions) - 0.4) <= result.error


def test_panels_do_not_shrink_forever():
    # A jump of the function itself has no derivative to integrate: the error stays.
    evaluate, ends, _ = density_of(lambda s: (s > 0.3).double(), torch.zeros_like)
    result = integral.integrate_gradients(evaluate, ends, 1e-9, 100_000)
    assert result.error == 1.0
    assert result.panels < 100


POINTS = torch.tensor([0.0, 0.25, 1.0]).double()


def test_a_logit_counts_for_the_width_of_each_panel():
    assert segments.logit_weights(POINTS, torch.zeros(3, 2).double(), 1).tolist() == [
        [0, 0.25],
        [0, 0.75],
    ]


@pytest.mark.parametrize("target", [0, 2])
@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0])
def test_probabilities_as_brute_force(target, scale):
    ends = torch.tensor([[0.3, -1.0, 0.5], [-0.7, 1.5, 0.0]]).double() * scale
    n = 5_000

    def derivative(s):
        p = (ends[0] + s * (ends[1] - ends[0])).softmax(0)
        return [float(p[target] * (float(target == k) - p[k])) for k in range(3)]

    got = segments.probability_weights(POINTS[[0, 2]], ends, target)[0]
    near = torch.tensor(midpoint_rule(derivative, n), dtype=torch.float64)
    # The midpoint rule is off by |f''| / (24 n^2); each derivative brings a factor of at most the
    # largest difference of rates, 3.5 scale, and small numbers: f'' <= 10 * (3.5 * 30)^2.
    assert (got - near).abs().max() <= 2e-4


@given(
    st.lists(st.lists(st.floats(-50, 50), min_size=3, max_size=3), min_size=2, max_size=2),
    st.sampled_from([1.0, 1e3, 1e6]),
)
def test_weights_times_change_are_the_change_of_the_probability(ends, scale):
    logits = torch.tensor(ends).double() * scale
    weights = segments.probability_weights(POINTS[[0, 2]], logits, 1)
    change = logits.softmax(1)[1, 1] - logits.softmax(1)[0, 1]
    assert weights.sum().abs() <= 1e-15
    # The probabilities at the ends know their logits to 1e-16 of their size.
    size = float(logits.abs().max())
    assert ((weights * logits.diff(dim=0)).sum() - change).abs() <= 1e-14 + 1e-15 * size


def test_a_tie_far_above_a_third_logit_is_not_cut_to_pieces():
    logits = torch.tensor([[0.0, 0.0, -1e9], [1.0, 1.0, -2e9]]).double()
    weights = segments.probability_weights(POINTS[[0, 2]], logits, 0)
    assert weights[0].tolist() == pytest.approx([0.25, -0.25, 0.0], abs=1e-16)


def test_a_logit_far_behind_still_counts():
    # p_1 falls from exp(-6) to nothing, along a path on which logit 0 leads throughout.
    logits = torch.tensor([[0.0, -6.0], [0.0, -66.0]]).double()
    weights = segments.probability_weights(POINTS[[0, 2]], logits, 1)
    expected = (1 / (1 + math.exp(66)) - 1 / (1 + math.exp(6))) / -60
    assert weights[0].tolist() == pytest.approx([-expected, expected], rel=1e-13)


def test_one_class_is_certain():
    assert segments.probability_weights(POINTS, torch.randn(3, 1).double(), 0).tolist() == [
        [0.0],
        [0.0],
    ]
