"""A user of Captum's own classes is told what is silently wrong with their results."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from captum.attr import (
    LRP,
    Deconvolution,
    DeepLift,
    DeepLiftShap,
    GuidedBackprop,
    GuidedGradCam,
    IntegratedGradients,
    KernelShap,
    LayerDeepLift,
    Lime,
    Saliency,
)
from torch import nn

from attributionlab.methods import collect_notices
from attributionlab.methods.calling import guard_captum
from attributionlab.methods.guards import CAPTUM_RULES

INPUTS = torch.tensor([[1.0, 2.0, 0.5, 4.0], [3.0, -1.0, 1.0, 0.25]])
TARGETS = torch.tensor([0, 1])


class Net(nn.Module):
    def __init__(self, activation, bias=True):
        super().__init__()
        torch.manual_seed(1)
        self.first, self.last = nn.Linear(4, 6, bias=bias), nn.Linear(6, 2, bias=bias)
        self.activation = activation

    def forward(self, inputs):
        return self.last(self.activation(self.first(inputs)))


def guarded(kind, model, **settings):
    """The findings about a result of Captum's class."""
    instance = kind(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        maps = instance.attribute(INPUTS, target=TARGETS, **settings)
    with collect_notices() as findings:
        guard_captum(instance, model, INPUTS, TARGETS, settings, maps)
    return findings


def texts(kind, model, guard=None, **settings):
    """What is told, of one kind if it is stated."""
    told = [finding for finding in guarded(kind, model, **settings) if finding.images]
    assert guard is None or {finding.kind for finding in told} <= {guard}
    return [finding.text for finding in told]


SHAP = {"baselines": torch.tensor([[0.0, 0, 0, 0], [1, 1, 1, 1]])}


@pytest.mark.parametrize(
    ("kind", "settings"),
    [(DeepLift, {}), (DeepLiftShap, SHAP), (Deconvolution, {}), (GuidedBackprop, {})],
)
def test_functional_activations_are_told(kind, settings):
    assert {each.kind for each in guarded(kind, Net(F.relu), **settings) if each.images} >= {
        "hooks"
    }
    assert "1 functional" in texts(kind, Net(F.relu), **settings)[0]
    assert not texts(kind, Net(nn.ReLU()), **settings)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (DeepLift, {}),
        (DeepLift, {"baselines": 2.0}),
        (DeepLift, {"baselines": (torch.ones(1, 4),)}),
        (DeepLiftShap, SHAP),
        (IntegratedGradients, {"n_steps": 500}),
        (IntegratedGradients, {"n_steps": 500, "baselines": INPUTS.flip(0)}),
    ],
)
def test_complete_attributions_hand_on_their_small_gaps(kind, settings):
    findings = guarded(kind, Net(nn.ReLU()), **settings)
    assert not any(finding.images for finding in findings)
    (gaps,) = [finding.gaps for finding in findings if finding.gaps]
    assert len(gaps) == 2
    assert max(gaps) < 0.02  # 500 nodes leave a step of 1/500 at each kink


def test_incomplete_attributions_are_told():
    softmax = nn.Sequential(Net(nn.ReLU()), nn.Softmax(dim=1))
    assert "softmax subtracts the mean" in texts(DeepLift, softmax, "completeness")[0]
    steep = nn.Sequential(nn.Linear(4, 2, bias=False), nn.Tanh())
    steep[0].weight.data = torch.full((2, 4), 5.0)
    assert "larger n_steps" in texts(IntegratedGradients, steep, "quadrature", n_steps=2)[0]
    assert "biases absorb" in texts(LRP, Net(nn.ReLU()), "completeness")[0]
    assert not texts(LRP, Net(nn.ReLU(), bias=False))


class Constant(nn.Module):
    def forward(self, inputs):
        return torch.full((len(inputs), 2), 123.4)


@pytest.mark.parametrize("kind", [Lime, KernelShap])
def test_surrogates_that_are_zero_everywhere_are_told_with_causes_that_can_be(kind):
    weak = nn.Linear(4, 2, bias=False)
    weak.weight.data = torch.full((2, 4), 1e-4 if kind is Lime else 0.0)
    for model in (weak, Constant()):
        (text,) = texts(kind, model, "zeros")
        assert "zero everywhere" in text
        assert "no perturbation changes the output (choose other baselines" in text
        # Only Lime has a penalty, and takes another model.
        assert ("either" in text) is ("penalty" in text) is (kind is Lime)
        assert ("interpretable_model" in text) is (kind is Lime)
    weak.weight.data = torch.full((2, 4), 10.0)
    assert not texts(kind, weak)


def test_a_layers_attributions_are_not_held_against_the_sum_but_its_activations_are_told():
    model = Net(F.relu)
    model.last = nn.Linear(6, 4)
    instance = LayerDeepLift(model, model.last)
    with collect_notices() as findings:
        guard_captum(instance, model, INPUTS, TARGETS, {}, torch.ones(2, 4))
    assert [finding.images for finding in findings] == [2]
    assert "1 functional" in findings[0].text


def test_guided_gradcam_is_told_what_guided_backprop_is():
    def texts_of(activation):
        model = Net(activation)
        with collect_notices() as findings:
            guard_captum(GuidedGradCam(model, model.first), model, INPUTS, TARGETS, {}, INPUTS)
        return [finding.text for finding in findings if finding.images]

    assert "1 functional" in texts_of(F.relu)[0]
    assert not texts_of(nn.ReLU())
    assert "the network has no ReLU" in texts_of(nn.Tanh())[0]


def test_captums_classes_are_told_of_rectifiers_without_a_rule():
    for kind in (Deconvolution, GuidedBackprop):
        assert "the network has no ReLU but 1 ReLU6" in texts(kind, Net(nn.ReLU6()))[0]
        mixed = texts(kind, nn.Sequential(Net(nn.ReLU()), nn.LeakyReLU()))
        assert "gradient of 1 LeakyReLU, because" in mixed[0]


def test_other_methods_and_other_results_are_left_alone():
    assert not guarded(Saliency, Net(F.relu))
    instance = DeepLift(Net(F.relu), multiply_by_inputs=False)
    with collect_notices() as findings:
        guard_captum(instance, instance.model, INPUTS, TARGETS, {}, (INPUTS, INPUTS))
    assert not any(finding.gaps for finding in findings)
    with collect_notices() as findings:
        guard_captum(instance, instance.model, INPUTS, TARGETS, {}, INPUTS)
    assert not any(finding.gaps for finding in findings)  # multipliers have no sum to keep
    drawn = guarded(DeepLiftShap, Net(nn.ReLU()), baselines=lambda: torch.rand(2, 4))
    assert not any(finding.gaps for finding in drawn)


def test_the_modules_that_captums_deep_lift_hooks_are_known():
    from captum.attr._core.deep_lift import SUPPORTED_NON_LINEAR

    assert set(CAPTUM_RULES) == set(SUPPORTED_NON_LINEAR)
