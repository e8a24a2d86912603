"""GradCAM and its kin agree with their formulas, written with loops."""

import warnings

import pytest
import torch
from captum.attr import (
    GuidedGradCam,
    LayerAttribution,
    LayerGradCam,
    LayerGradientXActivation,
)
from torch import nn

import attributionlab as al
import oracles_methods as twins
from attributionlab.errors import AttributionLabError
from attributionlab.methods import gradcam_plus_plus, layercam, xgradcam
from attributionlab.methods.cam import gradcam, guided_gradcam, layer_maps, linear_approximation
from attributionlab.methods.findings import collect_notices
from attributionlab.methods.gradients import guided_backprop


@pytest.fixture(scope="module")
def env():
    return al.load("multi-color-sum", image_size=24)


def maps_of(model, layer, image, target):
    """What a layer returns for an image, and the gradient there."""
    maps = []
    handle = layer.register_forward_hook(lambda _module, _inputs, output: maps.append(output))
    output = model(image[None])[0, target]
    handle.remove()
    (gradient,) = torch.autograd.grad(output, maps[0])
    return maps[0][0], gradient[0]


def expected(model, layer, image, target, relu=True):
    maps, gradient = maps_of(model, layer, image, target)
    coarse = twins.gradcam(maps.tolist(), gradient.tolist(), relu)
    return torch.tensor(twins.enlarge(coarse, *image.shape[1:]))


@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("layer", [None, "accumulator.1"])
def test_gradcam_weights_a_layers_maps_by_their_mean_gradients(env, layer, relu):
    images, labels = env.batch(2)
    got = gradcam(env.softmax_model, images, labels, layers=env.layers, layer=layer, relu=relu)
    module = env.layers["gradcam"] if layer is None else env.model.get_submodule(layer)
    assert got.shape == (2, 1, 24, 24)
    assert not got.requires_grad
    for image, label, each in zip(images, labels, got, strict=True):
        wanted = expected(env.softmax_model, module, image, int(label), relu)
        # Sums of at most 64 float32 products: 64 * 2^-24 of the largest value < 1e-5.
        torch.testing.assert_close(each[0], wanted, rtol=0, atol=1e-5 * float(wanted.abs().max()))


def test_what_speaks_against_the_output_is_cut_off_only_with_relu(env):
    images, labels = env.batch(2)
    signed = gradcam(env.softmax_model, images, labels, layers=env.layers, relu=False)
    assert (signed < 0).any()
    assert not (gradcam(env.softmax_model, images, labels, layers=env.layers) < 0).any()


def test_an_untrained_network_with_frozen_weights_has_maps_too():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 2))
    model.requires_grad_(False)
    inputs = torch.rand(1, 1, 8, 8)
    got = gradcam(model, inputs, torch.tensor([1]), layer="1", relu=False)
    assert got.any()
    assert not inputs.requires_grad


def test_a_layer_that_does_not_exist_or_has_no_maps_is_refused(env):
    images, labels = env.batch(1)
    with pytest.raises(AttributionLabError, match=r"did you mean 'accumulator\.5'\?"):
        gradcam(env.model, images, labels, layers=env.layers, layer="acumulator.5")
    with pytest.raises(AttributionLabError, match="name one that returns maps"):
        gradcam(env.model, images, labels, layers=env.layers, layer="flatten")


def test_it_claims_the_positive_truth():
    assert gradcam.claim == "positive"


@pytest.mark.parametrize("value", ["false", 1])
def test_relu_is_true_or_false(env, value):
    images, labels = env.batch(1)
    with pytest.raises(AttributionLabError, match=f"gradcam: relu is {value!r}: take True or Fal"):
        gradcam(env.model, images, labels, layers=env.layers, relu=value)


CAMS = [
    *(gradcam, guided_gradcam, linear_approximation),
    *(gradcam_plus_plus, layercam, xgradcam),
]


@pytest.mark.parametrize("layer", [None, "accumulator.1"])
def test_linear_approximation_is_activation_times_gradient_at_each_place(env, layer):
    images, labels = env.batch(2)
    got = linear_approximation(env.softmax_model, images, labels, layers=env.layers, layer=layer)
    module = env.layers["gradcam"] if layer is None else env.model.get_submodule(layer)
    assert got.shape == (2, 1, 24, 24)
    assert not got.requires_grad
    assert (got < 0).any()
    for image, label, each in zip(images, labels, got, strict=True):
        maps, gradient = maps_of(env.softmax_model, module, image, int(label))
        coarse = twins.linear_approximation(maps.tolist(), gradient.tolist())
        wanted = torch.tensor(twins.enlarge(coarse, *image.shape[1:]))
        # Sums of at most 64 float32 products: 64 * 2^-24 of the largest value < 1e-5.
        torch.testing.assert_close(each[0], wanted, rtol=0, atol=1e-5 * float(wanted.abs().max()))


def test_linear_approximation_sums_to_the_output_behind_which_nothing_has_a_bias():
    torch.manual_seed(0)
    model = nn.Sequential(
        *(nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.Conv2d(3, 3, 1, bias=False), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(192, 2, bias=False)),
    ).double()
    inputs, targets = torch.rand(2, 1, 8, 8).double(), torch.tensor([0, 1])
    got = linear_approximation(model, inputs, targets, layer="1").sum((1, 2, 3))
    # Sums of some hundred float64 numbers of order 1.
    torch.testing.assert_close(got, model(inputs)[[0, 1], [0, 1]], rtol=0, atol=1e-12)


def small_network():
    torch.manual_seed(1)
    return nn.Sequential(
        *(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(3, 4, 1), nn.ReLU(), nn.Flatten(), nn.Linear(36, 3)),
    ).double()


@pytest.mark.parametrize("relu", [True, False])
def test_gradcam_and_linear_approximation_are_captums_enlarged(relu):
    model = small_network()
    inputs, targets = torch.rand(3, 1, 8, 8).double(), torch.tensor([0, 1, 2])
    leaf = inputs.clone().requires_grad_()
    captums = LayerGradCam(model, model[3]).attribute(leaf, targets, relu_attributions=relu)
    products = (
        LayerGradientXActivation(model, model[3]).attribute(leaf, targets).sum(1, keepdim=True)
    )
    of_captum, ours = (
        [LayerAttribution.interpolate(each, (8, 8), "bilinear") for each in (captums, products)],
        [
            gradcam(model, inputs, targets, layer="3", relu=relu),
            linear_approximation(model, inputs, targets, layer="3"),
        ],
    )
    for got, wanted in zip(ours, of_captum, strict=True):
        assert got.any()
        # Sums of some ten float64 numbers of order 1.
        torch.testing.assert_close(got, wanted.detach(), rtol=0, atol=1e-12)


def test_guided_gradcam_is_the_product_of_both_and_captums_with_bilinear_maps():
    model = small_network()
    inputs, targets = torch.rand(3, 1, 8, 8).double(), torch.tensor([0, 1, 2])
    got = guided_gradcam(model, inputs, targets, layer="4")
    coarse = gradcam(model, inputs, targets, layer="4")
    assert got.shape == inputs.shape
    assert got.any()
    assert not got.requires_grad
    assert torch.equal(got, coarse * guided_backprop(model, inputs, targets))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        captum = GuidedGradCam(model, model[4]).attribute(
            inputs, target=targets, interpolate_mode="bilinear"
        )
    # Products of two float64 numbers of order 1.
    torch.testing.assert_close(got, captum.detach(), rtol=0, atol=1e-12)


def test_guided_gradcam_tells_of_functional_relus():
    class Functional(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = small_network()

        def forward(self, inputs):
            return self.net(inputs).relu()

    with collect_notices() as findings:
        guided_gradcam(
            Functional(), torch.rand(1, 1, 8, 8).double(), torch.tensor([0]), layer="net.4"
        )
    assert "1 functional" in next(each for each in findings if each.images).text


@pytest.mark.parametrize("method", CAMS)
def test_a_layer_without_maps_of_another_network_or_that_is_not_there_is_refused(method):
    model, other = small_network(), nn.ReLU()
    given = model, torch.rand(1, 1, 8, 8).double(), torch.tensor([0])
    with pytest.raises(AttributionLabError, match=r"shape \(1, 36\): name one that returns maps"):
        method(*given, layer="5")
    with pytest.raises(AttributionLabError, match="layer is '9', which names no module"):
        method(*given, layer="9")
    with pytest.raises(AttributionLabError, match="has no layer 'gradcam' of its own"):
        method(*given, layers={"gradcam": other})


@pytest.mark.parametrize("method", CAMS)
def test_a_layer_without_spatial_extent_is_refused(method):
    model = nn.Sequential(
        *(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1)),
        *(nn.Flatten(), nn.Linear(2, 2)),
    )
    given = model, torch.rand(1, 1, 8, 8), torch.tensor([0])
    with pytest.raises(
        AttributionLabError, match=r"a single cell, 1 x 1, .* name a layer before it"
    ):
        method(*given, layer="2")
    row = nn.Sequential(nn.AdaptiveAvgPool2d((1, 2)), nn.ReLU(), nn.Flatten(), nn.Linear(2, 2))
    assert gradcam(row, *given[1:], layer="0").shape == (1, 1, 8, 8)


class Tailed(nn.Module):
    """A layer's maps pass on as this function has it."""

    def __init__(self, tail):
        super().__init__()
        self.layer, self.tail = nn.Conv2d(1, 2, 3), tail

    def forward(self, inputs):
        return self.tail(self.layer, inputs)


@pytest.mark.parametrize(
    "tail",
    [
        lambda layer, x: layer(x).detach().sum((2, 3)),
        lambda layer, x: (layer(x), x.sum((2, 3)) * torch.ones(2, requires_grad=True))[1],
    ],
)
def test_an_output_without_a_gradient_at_the_layer_is_refused(tail):
    with pytest.raises(AttributionLabError, match="gradcam: the output has no gradient with respe"):
        gradcam(Tailed(tail), torch.rand(1, 1, 8, 8), torch.tensor([0]), layer="layer")


def test_a_layer_that_runs_twice_is_refused():
    twice = Tailed(lambda layer, x: (layer(x) + layer(x)).sum((2, 3)))
    with pytest.raises(
        AttributionLabError, match="runs 2 times in a pass: name one that runs once"
    ):
        gradcam(twice, torch.rand(1, 1, 8, 8), torch.tensor([0]), layer="layer")


def test_maps_are_those_of_the_layer_where_the_next_works_in_place():
    torch.manual_seed(0)
    in_place = Tailed(lambda layer, x: torch.relu_(layer(x)).sum((2, 3)))
    inputs = torch.rand(1, 1, 8, 8)
    maps, gradients = layer_maps(
        in_place, in_place.layer, inputs, torch.tensor([1]), "channels-first", "gradcam-plus-plus"
    )
    with torch.no_grad():
        assert torch.equal(maps, in_place.layer(inputs))
    assert (maps < 0).any()
    assert torch.equal(gradients[0, 1], (maps[0, 1] > 0).float())
    assert not gradients[0, 0].any()


def test_a_layer_beside_a_shortcut_and_one_computed_without_gradients_work():
    def beside(layer, x):
        return (layer(x) * x[:, :, 1:-1, 1:-1]).sum((2, 3))

    def frozen(layer, x):
        with torch.no_grad():
            maps = layer(x)
        return maps.square().sum((2, 3))

    inputs, targets = torch.rand(2, 1, 8, 8), torch.tensor([0, 1])
    for tail in (beside, frozen):
        model = Tailed(tail)
        maps, gradients = layer_maps(
            model, model.layer, inputs, targets, "channels-first", "layercam"
        )
        wanted = torch.zeros_like(maps)
        for k in range(2):
            wanted[k, k] = inputs[k, 0, 1:-1, 1:-1] if tail is beside else 2 * maps[k, k]
        assert torch.equal(gradients, wanted)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad, torch.inference_mode])
def test_nothing_is_left_behind_and_the_callers_mode_does_not_matter(mode):
    model, inputs = small_network(), torch.rand(2, 1, 8, 8).double()
    before, state = {key: each.clone() for key, each in model.state_dict().items()}, inputs.clone()
    with mode():
        enabled = torch.is_grad_enabled()
        got = gradcam(model, inputs, torch.tensor([0, 1]), layer="4")
        assert torch.is_grad_enabled() == enabled
    assert not got.requires_grad
    assert torch.equal(inputs, state)
    assert not inputs.requires_grad
    assert all(each.grad is None and each.requires_grad for each in model.parameters())
    assert not any(module._forward_hooks for module in model.modules())
    assert all(torch.equal(each, before[key]) for key, each in model.state_dict().items())


def test_memory_that_does_not_suffice_halves_the_batch():
    model = small_network()
    inputs, targets = torch.rand(3, 1, 8, 8).double(), torch.tensor([0, 1, 2])
    whole = gradcam(model, inputs, targets, layer="4")
    passed = []

    def scarce(_module, given):
        passed.append(len(given[0]))
        if len(given[0]) > 1:
            raise RuntimeError("out of memory")

    handle = model.register_forward_pre_hook(scarce)
    torch.testing.assert_close(gradcam(model, inputs, targets, layer="4"), whole)
    handle.remove()
    assert passed == [1, 3, 1, 1, 1]  # the first one for the layer's layout


def test_linear_approximation_and_guided_gradcam_declare_what_they_are():
    assert (linear_approximation.claim, guided_gradcam.claim) == (None, "positive")
    assert (linear_approximation.resolution, guided_gradcam.resolution) == ("gradcam", None)
    assert guided_gradcam.gradient
