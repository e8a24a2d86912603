"""GradCAM agrees with its formula, written with loops."""

import pytest
import torch
from torch import nn

import attributionlab as al
import oracles_methods as twins
from attributionlab.errors import AttributionLabError
from attributionlab.methods.cam import gradcam


@pytest.fixture(scope="module")
def env():
    return al.load("multi-color-sum", image_size=24)


def expected(model, layer, image, target, relu=True):
    maps = []
    handle = layer.register_forward_hook(lambda _module, _inputs, output: maps.append(output))
    output = model(image[None])[0, target]
    handle.remove()
    (gradient,) = torch.autograd.grad(output, maps[0])
    coarse = twins.gradcam(maps[0][0].tolist(), gradient[0].tolist(), relu)
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
