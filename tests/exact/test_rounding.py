"""The bound on a gradient's rounding error holds, and is a bound on rounding alone."""

import pytest
import torch
from torch import nn

import attributionlab as al
from attributionlab.base import gradient_rounding


def gradient(model, images, targets):
    images = images.clone().requires_grad_()
    chosen = model(images).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(chosen, images)[0].double()


def test_of_one_layer_it_is_the_formula():
    model = nn.Sequential(nn.Flatten(), nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 1))
    with torch.no_grad():
        model[1].weight.copy_(torch.tensor([[1.0, -2, 0], [4, 8, 16]]))
        model[1].bias.copy_(torch.tensor([1.0, -100]))
        model[3].weight.copy_(torch.tensor([[3.0, 5]]))
    found = gradient_rounding(model, torch.ones(1, 1, 1, 3), torch.tensor([0]))
    assert (found == 0).all()  # both units are shut: 1 - 2 + 1 = 0, and 28 - 100 < 0
    images = torch.tensor([[[[4.0, 1, 9]]]])
    found = gradient_rounding(model, images, torch.tensor([0])).flatten()
    steps = 4 + 1 + 2  # at most 1 product behind the last layer, 2 behind the first
    unit = 2.0**-24
    gamma = steps * unit / (1 - steps * unit)
    expected = gamma * (3 * torch.tensor([1.0, 2, 0]) + 5 * torch.tensor([4.0, 8, 16])).double()
    # Products of small integers with gamma, in float64.
    assert torch.allclose(found, expected, rtol=1e-12, atol=0)


@pytest.mark.long
@pytest.mark.parametrize("name", ["multi-color-sum", "single-color-modulo"])
def test_float32_gradients_lie_within_it_of_float64s(name):
    env = al.load(name, image_size=16)
    for place in (env, env.camouflaged(3)):
        model = place.softmax_model or place.model
        images, labels = place.batch(2)
        targets = place.targets(labels)
        bound = gradient_rounding(model, images, targets)
        narrow = gradient(model, images, targets)
        assert narrow.any()
        wide = gradient_from_the_logits(place, images, targets)
        assert ((narrow - wide).abs() <= bound).all()


def gradient_from_the_logits(place, images, targets):
    """In float64 behind the logits, on which the forward pass is exact; float32's own before them."""
    scores = place.model(images).detach().requires_grad_()
    ending = place.softmax_model[1:] if place.softmax_model is not None else nn.Identity()
    chosen = ending(scores).gather(1, targets[:, None]).sum()
    [above] = torch.autograd.grad(chosen, scores)
    images = images.double().requires_grad_()
    [found] = torch.autograd.grad(_double(place.model)(images), images, above.double())
    return found


def _double(model):
    import copy

    return copy.deepcopy(model).double()


def test_there_is_none_for_what_is_no_chain():
    class Odd(nn.Module):
        def forward(self, images):
            return images.flatten(1).sin()

    assert gradient_rounding(Odd(), torch.ones(1, 1, 2, 2), torch.tensor([0])) is None
