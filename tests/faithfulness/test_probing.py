"""What a method is seen to show a network, and to use of it."""

import copy

import pytest
import torch

import attributionlab as al
from attributionlab.methods import METHODS, as_method
from attributionlab.verdicts import CONTROLS
from attributionlab.verdicts.faithfulness.equal_networks import shows_integer_images_only
from attributionlab.verdicts.faithfulness.setup import Setup


@pytest.fixture(scope="module")
def colors():
    return al.load("multi-color-sum", image_size=16)


def probed(method, env, **settings):
    resolved = as_method(method, METHODS | CONTROLS, settings)
    setup = Setup(resolved, env, "probability", "probability")
    [batch] = setup.batches()
    return shows_integer_images_only(setup, batch)


def shows(change):
    """A method that shows the network one changed image."""

    def method(model, inputs, targets):
        with torch.no_grad():
            model(change(inputs))
        return inputs

    return method


def test_what_is_shown_must_be_integers_of_the_box(colors):
    assert probed(shows(lambda images: images), colors)
    assert probed(shows(lambda images: 255 - images), colors)
    assert not probed(shows(lambda images: images + 0.5), colors)
    assert not probed(shows(lambda images: images - 21), colors)
    assert not probed(shows(lambda images: images + 36), colors)


@pytest.mark.long
def test_gradients_layers_and_hooks_are_seen(colors):
    def by_input(model, inputs, targets):
        inputs.requires_grad_()
        return torch.autograd.grad(model(inputs).sum(), inputs)[0]

    def by_weights(model, inputs, targets):
        model(inputs).sum().backward()
        return inputs

    def one_layer(model, inputs, targets):
        with torch.no_grad():
            model(inputs)
            next(model.children())(inputs)
        return inputs

    def hooked(model, inputs, targets, *, layers):
        handle = layers["gradcam"].register_forward_hook(lambda *_: None)
        with torch.no_grad():
            model(inputs)
        handle.remove()
        return inputs

    for method in (by_input, by_weights, one_layer, hooked):
        assert not probed(method, colors)
    for name in ("saliency", "gradcam", "integrated-gradients", "deep-lift", "iba", "sobel"):
        assert not probed(name, colors)


def test_a_method_that_hides_what_it_sees_is_seen_all_the_same(colors):
    def method(model, inputs, targets):
        try:
            with torch.no_grad():
                model(inputs + 0.25)
        except BaseException:
            pass
        return inputs

    assert not probed(method, colors)


def test_a_copy_of_the_network_is_watched_too(colors):
    def method(model, inputs, targets):
        with torch.no_grad():
            copy.deepcopy(model)(inputs + 0.25)
        return inputs

    assert not probed(method, colors)


def test_the_probe_leaves_the_network_as_it_was(colors):
    probed("occlusion", colors)
    probed("integrated-gradients-exact", colors)
    for module in colors.softmax_model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
