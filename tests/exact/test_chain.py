"""Which models are read as chains, and that a chain computes what its model does."""

import pytest
import torch
from hypothesis import given
from torch import nn

import attributionlab as al
from attributionlab.base.exact import path_integral
from attributionlab.base.exact.chain import Relu, chain_of
from exact.random_networks import Opaque, cases


class Doubled(nn.Conv2d):
    """A convolution by type, not by what it computes."""

    def forward(self, images):
        return 2 * super().forward(images)


def with_hook(module, kind):
    getattr(module, kind)(lambda *_: None)
    return module


def replaced(module):
    """A module whose `forward` is an attribute of the instance."""
    module.forward = lambda values: 2 * values
    return module


def run(chain, values):
    for layer in chain.layers:
        values = values.relu() if isinstance(layer, Relu) else layer(values)
    return values.softmax(1) if chain.has_softmax else values


@given(cases())
def test_a_chain_computes_what_its_model_does(case):
    chain = chain_of(nn.Sequential(case.model, nn.Softmax(dim=1)))
    assert chain is not None
    assert chain.has_softmax
    expected = case.model.double()(case.end.double()).softmax(1)
    torch.testing.assert_close(run(chain, case.end.double()), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    "convolution",
    [
        nn.Conv2d(2, 4, 3, stride=(2, 1), padding=(0, 2), dilation=(1, 2), groups=2),
        nn.Conv2d(2, 3, (3, 5), padding="same", dilation=(2, 1)),
        nn.Conv2d(2, 3, 2, padding="valid", bias=False),
    ],
    ids=str,
)
def test_a_transpose_is_a_transpose(convolution, generator):
    images = torch.randn(2, 2, 7, 8, generator=generator, dtype=torch.float64)
    chain = chain_of(nn.Sequential(convolution))
    assert chain is not None
    (layer,) = chain.layers
    outputs = layer(images)
    torch.testing.assert_close(outputs, convolution.double()(images), rtol=0, atol=1e-13)
    change = outputs - layer(torch.zeros_like(images))
    gradients = torch.randn(outputs.shape, generator=generator, dtype=torch.float64)
    back = layer.transpose(gradients, images.shape[1:])
    assert back.shape == images.shape
    # <W x, g> = <x, W^T g>, for each image
    left, right = (change * gradients).flatten(1).sum(1), (images * back).flatten(1).sum(1)
    torch.testing.assert_close(left, right, rtol=0, atol=1e-12)


@pytest.mark.long
def test_every_environment_is_a_chain():
    for name in al.environments():
        env = al.load(name, image_size=16)
        for output in env.outputs:
            assert chain_of(env.explained_model(output)) is not None, name


@pytest.mark.parametrize(
    "model",
    [
        Opaque(nn.ReLU()),
        nn.Sequential(Doubled(1, 1, 1)),
        nn.Sequential(nn.Conv2d(1, 1, 3, padding=1, padding_mode="reflect")),
        nn.Sequential(nn.Conv2d(1, 1, 2, padding="same")),
        nn.Sequential(nn.Softmax(dim=1), nn.ReLU()),
        nn.Sequential(nn.Flatten(), nn.Softmax(dim=0)),
        nn.Sequential(nn.Flatten(2)),
        nn.Sequential(nn.Flatten(), nn.Tanh()),
        nn.Sequential(with_hook(nn.Flatten(), "register_forward_hook")),
        nn.Sequential(with_hook(nn.ReLU(), "register_forward_pre_hook")),
        with_hook(nn.Sequential(nn.ReLU()), "register_forward_hook"),
        nn.Sequential(nn.Flatten(), with_hook(nn.Softmax(dim=1), "register_forward_hook")),
        nn.Sequential(replaced(nn.ReLU())),
        nn.Sequential(nn.Flatten(), replaced(nn.Softmax(dim=1))),
    ],
    ids=str,
)
def test_what_may_compute_something_else_is_no_chain(model):
    assert chain_of(model) is None


@pytest.mark.parametrize(
    "register",
    [
        nn.modules.module.register_module_forward_hook,
        nn.modules.module.register_module_forward_pre_hook,
        nn.modules.module.register_module_full_backward_hook,
        nn.modules.module.register_module_full_backward_pre_hook,
    ],
    ids=lambda register: register.__name__,
)
def test_with_hooks_on_all_modules_nothing_is_a_chain(register):
    model = nn.Sequential(nn.ReLU(), nn.Flatten())
    handle = register(lambda *_: None)
    try:
        assert chain_of(model) is None
    finally:
        handle.remove()
    assert chain_of(model) is not None


def test_what_is_no_chain_is_explained_as_it_runs():
    # The doubled convolution is linear: its attributions are weight times step, doubled.
    model = nn.Sequential(Doubled(1, 1, 1, bias=False), nn.Flatten())
    model[0].weight.data.fill_(3.0)
    images = torch.full((1, 1, 1, 1), 5.0)
    result = path_integral(model, images, torch.tensor(1.0), torch.tensor([0]))
    assert result.routes == ("adaptive",)
    assert result.attributions.item() == pytest.approx(24.0, abs=1e-13)
