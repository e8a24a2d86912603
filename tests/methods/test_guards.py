"""Guards tell what makes attributions silently wrong, and findings reach who listens."""

import itertools
import math
import statistics
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import attributionlab as al
from attributionlab import methods
from attributionlab.base import GuardWarning
from attributionlab.methods import (
    Notice,
    collect_notices,
    deconvolution,
    deep_lift,
    deep_shap,
    guards,
    guided_backprop,
    notify,
    occlusion,
    saliency,
    summarized,
)
from attributionlab.methods.notices import ZEROS
from random_chains import FUNCTIONS, Between

INPUTS = torch.tensor([[[[1.0, 2.0], [0.5, 4.0]]], [[[3.0, -1.0], [1.0, 0.25]]]])
TARGETS = torch.tensor([0, 1])


def between(first, second):
    return Between(first, second).float()


def said(call, *arguments, **settings):
    """What a call tells, beside that all is well."""
    with collect_notices() as findings:
        call(*arguments, **settings)
    return [finding for finding in findings if finding.images]


# Hidden activations


@pytest.mark.parametrize("method", [deep_lift, deep_shap])
@pytest.mark.parametrize("functional", FUNCTIONS.values(), ids=FUNCTIONS)
def test_functional_activations_are_counted(method, functional):
    net = between(functional, functional)
    told = said(method, net, INPUTS, TARGETS)[0]
    assert (told.images, told.kind) == (2, "hooks")
    assert "with 2 functional (or unsupported) activations, which" in told.text
    assert "use a separate nn.ReLU for each" in told.text
    mixed = said(method, between(nn.ReLU(), functional), INPUTS, TARGETS)[0]
    assert "1 functional" in mixed.text


@pytest.mark.parametrize("method", [deep_lift, deep_shap, guided_backprop, deconvolution])
def test_modules_are_not_hidden(method):
    assert not said(method, between(nn.ReLU(), nn.ReLU()), INPUTS, TARGETS)
    in_place = between(nn.ReLU(inplace=True), nn.ReLU())
    assert not said(guided_backprop, in_place, INPUTS, TARGETS)


def test_the_activations_that_deep_lift_has_no_rule_for_are_counted():
    assert (
        "1 functional (or unsupported)"
        in said(deep_lift, between(nn.ReLU(), nn.LogSoftmax(1)), INPUTS, TARGETS)[0].text
    )
    assert not said(deep_lift, between(nn.Sigmoid(), nn.Tanh()), INPUTS, TARGETS)
    # GuidedBackprop is about ReLUs only.
    assert not said(guided_backprop, between(nn.ReLU(), torch.tanh), INPUTS, TARGETS)


def test_a_functional_pool_is_counted():
    class Pooled(nn.Module):
        def __init__(self, pool):
            super().__init__()
            self.pool = pool

        def forward(self, inputs):
            return self.pool(inputs).flatten(1).repeat(1, 2)

    assert said(deep_lift, Pooled(lambda x: F.max_pool2d(x, 2)), INPUTS, TARGETS)
    assert not said(deep_lift, Pooled(nn.MaxPool2d(2)), INPUTS, TARGETS)


def test_reused_modules_are_counted():
    relu = nn.ReLU()
    with guards.watched(between(relu, relu), "DeepLift") as found:
        found_output = INPUTS.clone().requires_grad_()
        between(relu, relu)(found_output)  # another network: not watched
    assert found.reused == 0
    net = between(relu, relu)
    with guards.watched(net, "DeepLift") as found:
        for _ in range(2):  # each forward pass is counted anew
            net(INPUTS.clone().requires_grad_())
    assert (found.functional, found.reused) == (0, 1)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in net.modules())


def test_a_module_reused_aside_changes_nothing():
    class Aside(Between):
        def forward(self, inputs):
            output = super().forward(inputs)
            self.first(output[:, :1].repeat(1, 6))  # leads nowhere
            return output

    for method in (deep_lift, guided_backprop):
        assert not said(method, Aside(nn.ReLU(), nn.ReLU()).float(), INPUTS, TARGETS)


def test_called_directly_a_guard_warns():
    with pytest.warns(GuardWarning, match="attributions of 2 images rest on .* of 1 ReLU6"):
        guided_backprop(between(F.relu, F.relu6), INPUTS, TARGETS)


# Completeness


def complete(values, output, reference):
    with collect_notices() as findings:
        guards.completeness(
            torch.tensor(values), torch.tensor(output), torch.tensor(reference), "REMEDY"
        )
    return findings[0]


def test_the_gap_is_the_share_of_the_change_that_is_missed():
    finding = complete([[1.0, 2.0], [1.0, 3.0], [-2.0, -1.9]], [3.0, 6.0, 0.0], [0.0, 1.0, 4.0])
    assert finding.gaps == pytest.approx([0.0, 0.2, 0.025], abs=1e-6)  # 1 of 5, 0.1 of 4
    assert finding.images == 1
    assert finding.worst == pytest.approx(0.2)
    text = finding.text.format(worst="20%")
    assert text == "do not sum to the change of the output but miss up to 20% of it: REMEDY"


def test_gaps_are_handed_on_when_all_is_well():
    finding = complete([[1.0, 2.0]], [3.0], [0.0])
    assert (finding.images, list(finding.gaps)) == (0, [0.0])


def test_without_a_change_of_the_output_contributions_must_cancel():
    finding = complete(
        [[1.0, -1.0], [0.0, 0.0], [3.0, -1.0], [3.0, 0.0], [0.0, 1e-7]],
        [0.0, 0.0, 0.0, 5.0, 1.0],
        [0.0, 0.0, 0.0, 5.0, 1.0 + 2**-23],
    )
    # Of 3 + 1 the sum 2 is too much; of |f| = 5 it is 3; the last is rounding.
    assert finding.gaps == pytest.approx([0.0, 0.0, 0.5, 0.6, 0.0], abs=1e-6)
    assert finding.images == 2


def test_shares_of_a_change_have_one_scale():
    shares = guards.shares_of_change(
        torch.tensor([-1.0, 1.0, 1.0, 0.0, 1.0, math.inf]),
        torch.tensor([[3.0, 2.0], [-8.0, 2.0], [1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [1.0, 1.0]]),
        torch.tensor([5.0, 2.0, 4.0, 0.0, 0.0, 1.0]),
        torch.tensor([1.0, 2.0, 4.0, 0.0, 0.0, 0.0]),
    )
    # The change 4; without one the sum of |a| or the output; nothing of nothing; then no share at all.
    assert shares.tolist() == [0.25, 0.1, 0.25, 0.0, math.inf, math.inf]


def test_integrated_gradients_with_too_few_nodes_is_told():
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2, bias=False), nn.Tanh())
    model[1].weight.data = torch.full((2, 4), 5.0)
    told = said(methods.integrated_gradients, model, INPUTS, TARGETS, n_steps=2)
    assert (told[0].images, told[0].kind) == (2, "quadrature")
    assert "larger n_steps, or the exact integral of integrated-gradients-exact" in told[0].text
    assert not said(methods.integrated_gradients, model, INPUTS, TARGETS, n_steps=200)


def test_deep_lift_behind_a_softmax_names_captums_rule():
    model = nn.Sequential(between(nn.ReLU(), nn.ReLU()), nn.Softmax(dim=1))
    (told,) = said(deep_lift, model, INPUTS, TARGETS)
    assert told.kind == "completeness"
    assert "Captum's rule for a softmax subtracts the mean" in told.text
    assert "explain='logit'" in told.text


# Saturation


def classifier(gap, temperature):
    """Two logits, gap * the sum of the pixels apart, behind our softmax."""
    layer, scale = nn.Linear(4, 2, bias=False), nn.Linear(2, 2, bias=False)
    layer.weight.data = torch.stack([torch.full((4,), gap), torch.zeros(4)])
    scale.weight.data = torch.eye(2) / temperature
    return nn.Sequential(nn.Sequential(nn.Flatten(), layer), scale, nn.Softmax(dim=1))


@pytest.mark.parametrize("method", [saliency, occlusion])
def test_a_saturated_softmax_is_named_with_its_temperature(method):
    settings = {"window": 1, "stride": 1} if method is occlusion else {}
    for gap, saturated in ((1000.0, True), (1.0, False)):
        model = classifier(gap, 2.0)
        with collect_notices():
            maps = method(model, INPUTS, TARGETS, **settings)
        told = said(guards.saturation, model, INPUTS, TARGETS, maps)
        assert bool(told) is saturated
    (finding,) = said(
        guards.saturation, classifier(1000.0, 2.0), INPUTS, TARGETS, torch.zeros(2, 1, 2, 2)
    )
    assert (finding.images, finding.kind) == (2, "saturation")
    assert "raise the environment's temperature (now 2)" in finding.text


def test_in_an_environment_at_the_papers_temperature_the_softmax_is_saturated():
    # The largest counts are more than 104 = ln(2^150) apart: beyond float32.
    env = al.load("multi-color-sum", image_size=144, temperature=1)
    images, labels = env.batch(2)
    with pytest.warns(GuardWarning, match="the softmax is saturated"):
        maps = saliency(env.softmax_model, images, labels)
    (finding,) = said(guards.saturation, env.softmax_model, images, labels, maps)
    assert finding.images == 2
    assert "(now 1)" in finding.text


def test_a_probability_of_exactly_1_is_saturated_though_the_other_logits_have_a_gradient():
    model = classifier(20 / 7.5, 1.0)  # logits 20 and 0: 1 - p = 2e-9 is below the last bit of 1
    assert model(INPUTS)[0, 0] == 1
    assert model(INPUTS)[0, 1] > 0
    zeros = torch.zeros(1, 1, 2, 2)  # as Occlusion sees it
    assert said(guards.saturation, model, INPUTS[:1], TARGETS[:1], zeros)


def test_zeros_of_other_causes_are_not_blamed_on_the_softmax():
    zeros = torch.zeros(2, 1, 2, 2)
    assert not said(guards.saturation, classifier(1.0, 1.0), INPUTS, TARGETS, zeros)
    assert not said(guards.saturation, between(nn.ReLU(), nn.ReLU()), INPUTS, TARGETS, zeros)
    assert not said(guards.saturation, classifier(1000.0, 1.0), INPUTS, TARGETS, zeros + 1)
    # A softmax inside the network, not at its end.
    inner = nn.Sequential(classifier(1000.0, 1.0), nn.Linear(2, 2, bias=False))
    inner[1].weight.data = torch.eye(2)
    assert not said(guards.saturation, inner, INPUTS, TARGETS, zeros)


def test_only_images_whose_map_is_zero_count_and_unknown_temperatures_are_not_named():
    model = nn.Sequential(classifier(1000.0, 1.0)[0], nn.Softmax(dim=1))
    maps = torch.zeros(2, 1, 2, 2)
    maps[0, 0, 0, 0] = 1
    (finding,) = said(guards.saturation, model, INPUTS, TARGETS, maps)
    assert finding.images == 1
    assert "temperature, or" in finding.text
    assert not any(module._forward_hooks for module in model.modules())


# Kinks


def test_units_on_their_kink_are_a_share_of_those_that_a_gradient_reaches():
    layer, last = nn.Linear(4, 4), nn.Linear(4, 2, bias=False)
    layer.weight.data, layer.bias.data = torch.eye(4), torch.tensor([-1.0, -2.0, 0.0, 0.0])
    # The last unit is on no path to output 0; the first two sit on their kinks.
    last.weight.data = torch.tensor([[1.0, 1.0, 1.0, 0.0], [0.0, 0.0, 1.0, 1.0]])
    for relu in (nn.ReLU(), nn.ReLU(inplace=True)):
        model = nn.Sequential(nn.Flatten(), layer, relu, last)
        with collect_notices() as findings:
            share = guards.kinks(model, INPUTS, TARGETS)
            assert guards.kinks(model, INPUTS[:1], torch.tensor([1])) == 0
        assert share == pytest.approx(2 / 3)
        assert [finding.images for finding in findings] == [1, 0]
        assert (findings[0].worst, findings[0].kind) == (share, "kinks")
        assert "ReLU'(0) = 0 decides" in findings[0].text
        assert not any(module._forward_hooks or module._forward_pre_hooks for module in model)


def test_every_environment_sits_on_kinks_and_no_ordinary_network_does():
    env = al.load("multi-color-sum", image_size=24)
    images, labels = env.batch(2)
    with torch.no_grad():
        assert said(guards.kinks, env.model, images, labels)
    torch.manual_seed(0)
    ordinary = nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(3200, 4),
    )
    with collect_notices() as findings:
        assert guards.kinks(ordinary, images, labels) == 0
    assert [finding.images for finding in findings] == [0]
    assert guards.kinks(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), INPUTS, TARGETS) == 0


# Kinds


@pytest.mark.parametrize("samples", [2, 3, 10])
def test_it_is_the_squared_standard_errors_over_the_squared_means(samples):
    maps = torch.rand(samples, 7, generator=torch.Generator().manual_seed(0)).double()
    errors = [statistics.variance(values) / samples for values in maps.T.tolist()]
    means = [statistics.fmean(values) for values in maps.T.tolist()]
    expected = sum(errors) / sum(mean**2 for mean in means)
    found = guards.noise_share(maps.sum(0), maps.square().sum(0), samples)
    assert found == pytest.approx(expected, rel=1e-12)


def test_equal_samples_and_none_but_zeros_have_no_noise():
    values = torch.tensor([1.0, -3.0]).double()
    assert guards.noise_share(4 * values, 4 * values.square(), 4) == 0
    assert guards.noise_share(0 * values, 0 * values, 3) == 0
    assert guards.noise_share(0 * values, 0 * values, 1) == 0


def test_of_a_single_sample_the_noise_is_unknown_unless_there_is_no_other():
    values = torch.tensor([1.0, -3.0]).double()
    assert guards.noise_share(values, values.square(), 1) == math.inf
    assert guards.noise_share(values, values.square(), 1, population=2) == math.inf
    assert guards.noise_share(values, values.square(), 1, population=1) == 0


@pytest.mark.parametrize("samples", [2, 3, 4, 5, 6, 7, 8, 9, 12])
def test_without_replacement_the_squared_error_is_expected_to_be_the_variance_of_means(samples):
    """All draws of a population of 4, whose rounds differ in the last one only."""
    population = [1.0, 5.0, 6.0, 13.0]
    last = samples % 4
    means, errors = [], []
    for rest in itertools.combinations(population, last):
        drawn = torch.tensor(population * (samples // 4) + list(rest)).double()
        means.append(float(drawn.mean()))
        share = guards.noise_share(drawn.sum(), drawn.square().sum(), samples, population=4)
        errors.append(share * means[-1] ** 2)
    if last:
        assert statistics.fmean(errors) == pytest.approx(statistics.pvariance(means), rel=1e-12)
    else:
        assert errors == [0.0]


@pytest.mark.parametrize("scale", [1.0, 1e-30])  # squares leave float32
def test_the_share_of_given_errors_is_that_of_the_sum_of_squares(scale):
    estimate = torch.tensor([[[3.0, 4.0]]]) * scale
    assert guards.share_of_errors(estimate, estimate * 0.5) == pytest.approx(0.25)
    assert guards.share_of_errors(estimate, torch.tensor([[[0.0, 4.0]]]) * scale) == pytest.approx(
        16 / 25
    )
    assert guards.share_of_errors(estimate, torch.tensor([[[0.0, math.inf]]])) == math.inf
    assert guards.share_of_errors(estimate * 0, estimate) == 0


def test_noise_and_noise_of_unknown_size_are_told_apart():
    with collect_notices() as told:
        guards.notify_of_noise([0.4, 0.6, math.inf, 7.0, math.inf, math.inf, 0.0], "take more")
    unknown, noisy = told
    assert (unknown.images, noisy.images) == (3, 2)
    assert unknown.text == (
        "have a sampling noise of unknown size, as too few samples cannot show it: take more"
    )
    assert noisy.worst == 1.0


def test_without_a_listener_a_finding_warns():
    with pytest.warns(GuardWarning, match="attributions of 3 images are odd, by up to 25%"):
        notify(Notice("are odd, by up to {worst}", 3, worst=0.25))


def test_a_worst_value_stands_with_the_median_where_there_is_one_of_each_image():
    gaps = [0.1, 0.2, 40.0]
    noticed = [Notice("miss up to {worst} of it", 1, gaps[:2], 0.2), Notice("are odd", 0)]
    noticed += [Notice("miss up to {worst} of it", 1, gaps[2:], 40.0)]
    assert summarized(noticed) == ["attributions of 2 images miss up to 4000% (median 20%) of it"]


@pytest.mark.parametrize(("told", "left"), [(2, 1), (3, 0)])
def test_maps_of_zeros_are_told_once_with_their_reason(told, left):
    noticed = [Notice("are zero because of x", told, kind="zeros"), Notice(ZEROS, 3)]
    rest = [f"attributions of {left} image {ZEROS}"] * left
    assert summarized(noticed) == [f"attributions of {told} images are zero because of x", *rest]


def test_a_finding_about_no_image_says_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        notify(Notice("are odd", 0, gaps=(0.1,)))


def test_a_listener_hears_instead_of_warning_and_only_inside():
    with collect_notices() as findings:
        notify(Notice("are odd", 1))
        notify(Notice("are even", 0, gaps=(0.5,)))
    assert [finding.text for finding in findings] == ["are odd", "are even"]
    with pytest.warns(GuardWarning):
        notify(Notice("are odd", 1))
    assert len(findings) == 2


def test_the_inner_of_two_listeners_hears():
    with collect_notices() as outer, collect_notices() as inner:
        notify(Notice("are odd", 1))
    assert (len(outer), len(inner)) == (0, 1)


def test_one_sentence_for_each_kind_with_the_sum_of_images_and_the_worst_value():
    findings = [
        Notice("miss {worst}", 2, worst=0.1),
        Notice("are odd", 1),
        Notice("miss {worst}", 3, worst=0.4),
        Notice("miss {worst}", 0, worst=0.2),
        Notice("are fine", 0),
    ]
    assert summarized(findings) == [
        "attributions of 5 images miss 40%",
        "attributions of 1 image are odd",
    ]


def test_braces_in_a_text_are_left_alone():
    assert summarized([Notice("need {'a': 1}", 1)]) == ["attributions of 1 image need {'a': 1}"]


def test_label_maps_are_handed_on_and_never_said():
    labels = torch.zeros(2, 3, 4, dtype=torch.int64)
    with collect_notices() as findings:
        notify(Notice("are odd", 2, regions=labels))
    assert findings[0].regions is labels
    assert findings == [Notice("are odd", 2)]  # what is said is the same
    assert summarized(findings) == ["attributions of 2 images are odd"]
    assert Notice("are odd", 2).regions is None


def test_a_warning_names_the_line_that_called_the_method():
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 1))  # without a ReLU
    given = model, torch.ones(1, 1, 2, 2), torch.tensor([0])
    for method in (methods.guided_backprop, methods.absolute(methods.guided_backprop)):
        with pytest.warns(GuardWarning, match="the network has no ReLU") as warned:
            method(*given)
        assert [each.filename for each in warned] == [__file__]
