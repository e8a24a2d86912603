"""A layer is found by its name, watched, and replaced."""

import re

import pytest
import torch
from torch import nn

from attributionlab.errors import AttributionLabError
from attributionlab.methods.layers import find_layer, observe, resume, returned

INPUTS = torch.arange(32.0).reshape(1, 2, 4, 4)


@pytest.fixture
def chain():
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Conv2d(2, 3, 2, 2), nn.ReLU(), nn.Conv2d(3, 2, 1))
    return nn.Sequential(inner, nn.ReLU(), nn.Flatten(), nn.Linear(8, 3))


class Residual(nn.Module):
    """No chain: there is a way around the layer."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(2, 2, 1)

    def forward(self, inputs):
        return (self.first(inputs) + inputs).flatten(1)[:, :3]


def test_a_layer_is_found_by_its_whole_name_or_an_unambiguous_end_of_it(chain):
    around = nn.Sequential(chain, nn.Softmax(dim=1))
    assert find_layer(around, "0.0.1", None, "iba") is chain[0][1]
    assert find_layer(chain, "0.1", None, "iba") is chain[0][1]
    assert find_layer(nn.Sequential(around), "0.0.0.1", None, "iba") is chain[0][1]
    assert find_layer(chain, None, {"iba": chain[1]}, "iba") is chain[1]
    assert find_layer(chain, 1, None, "iba") is chain[1]  # as layer=1 is read at the shell


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("frist", "layer is 'frist', which names no module: did you mean '1.first'?"),
        ("accumulator", "which names no module: known are 0, 0.first, 1, 1.first"),
        (1.1, """layer is 1.1, which names no module: write it as text, such as "layer='1.30'\""""),
        ("first", "layer is 'first', which names no module: it is one of 0.first, 1.first"),
    ],
)
def test_an_unknown_or_ambiguous_name_is_refused(name, says):
    with pytest.raises(AttributionLabError, match=re.escape(says)):
        find_layer(nn.Sequential(Residual(), Residual()), name, None, "iba")


@pytest.mark.parametrize("layers", [None, {}, {"iba": nn.ReLU()}])
def test_without_a_name_the_layer_must_be_the_models_own(chain, layers):
    with pytest.raises(AttributionLabError, match="the model has no layer 'iba' of its own: name"):
        find_layer(chain, None, layers, "iba")


def test_observing_gives_the_layers_and_the_networks_outputs(chain):
    maps, outputs = observe(chain, chain[0][1], INPUTS)
    assert torch.equal(maps, chain[0][:2](INPUTS))
    assert torch.equal(outputs, chain(INPUTS))
    assert not maps.requires_grad
    assert not outputs.requires_grad
    assert not chain[0][1]._forward_hooks


def test_maps_are_those_before_what_follows_works_in_place():
    model = nn.Sequential(nn.Conv2d(2, 3, 2), nn.ReLU(inplace=True), nn.Flatten())
    wanted = model[0](-INPUTS)
    assert (wanted < 0).any()
    assert torch.equal(observe(model, model[0], -INPUTS)[0], wanted)
    with_graph, _ = returned(model, model[0], -INPUTS)
    assert torch.equal(with_graph, wanted)
    given = [torch.autograd.grad(maps.sum(), model[0].weight) for maps in (with_graph, wanted)]
    assert torch.equal(given[0][0], given[1][0])


def test_maps_to_resume_from_stay_as_they_are():
    model, maps = nn.Sequential(nn.Identity(), nn.ReLU(inplace=True), nn.Flatten()), -INPUTS
    resume(model, model[0], INPUTS, maps)
    assert torch.equal(maps, -INPUTS)


def test_a_layer_that_runs_twice_or_returns_no_maps_is_refused(chain):
    relu = nn.ReLU()
    with pytest.raises(
        AttributionLabError, match="runs 2 times in a pass: name one that runs once"
    ):
        observe(nn.Sequential(relu, nn.Conv2d(2, 2, 1), relu), relu, INPUTS)
    with pytest.raises(AttributionLabError, match=r"returns shape \(1, 8\): name one that returns"):
        observe(chain, chain[2], INPUTS)
    assert not chain[2]._forward_hooks


def test_in_a_chain_only_what_is_behind_the_layer_runs(chain):
    maps = torch.randn(5, 3, 2, 2)
    chain[0][0].register_forward_hook(lambda *_: pytest.fail("the front ran"))
    expected = chain[1:](chain[0][2](maps))
    assert torch.equal(resume(chain, chain[0][1], INPUTS, maps), expected)


def test_elsewhere_the_layers_output_is_replaced():
    model, maps = Residual(), torch.randn(5, 2, 4, 4)
    expected = (maps + INPUTS).flatten(1)[:, :3]
    assert torch.equal(resume(model, model.first, INPUTS, maps), expected)
    assert not model.first._forward_hooks
