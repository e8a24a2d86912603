"""A network that is not ours gets copies, and is asked whether an image's output is its own."""

import math
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import attributionlab as al
from attributionlab import AttributionLabError, GuardWarning
from attributionlab.base import borrowed, dependence, modules_in
from attributionlab.base.models import weights_in
from attributionlab.methods import collect_notices, smoothgrad
from small_networks import Function

IMAGES, TARGETS = torch.rand(3, 1, 6, 6), torch.tensor([0, 1, 0])


def network(*between):
    torch.manual_seed(0)
    layers = nn.Conv2d(1, 2, 3), *between, nn.Tanh(), nn.Flatten(), nn.Linear(32, 2)
    return nn.Sequential(*layers).eval()


own_draws = torch.Generator().manual_seed(0)
MIXING = {
    "batch normalization without running statistics": nn.BatchNorm2d(2, track_running_stats=False),
    "a mean over the batch": Function(lambda maps: maps - maps.mean(0) / 2),
    "a rank within the batch": Function(lambda maps: maps * (1 + maps.argsort(0))),
    "the last of the batch": Function(lambda maps: maps + maps[-1:]),
    "the first of the batch": Function(lambda maps: maps + maps[:1]),
    "the largest value of the batch": Function(lambda maps: maps / maps.abs().max()),
}
RANDOM = {
    "dropout of functions": Function(F.dropout),
    "rare dropout": Function(lambda maps: F.dropout(maps, 0.03)),
    "noise": Function(lambda maps: maps + 0.1 * torch.randn_like(maps)),
    "a generator of its own": Function(
        lambda maps: maps + torch.rand(maps.shape, generator=own_draws)
    ),
}
NEITHER = {
    "nothing": nn.Identity(),
    "running statistics": nn.BatchNorm2d(2),
    "statistics of an image": nn.GroupNorm(1, 2),
    "draws without effect": Function(lambda maps: maps + 0 * torch.rand_like(maps)),
    "single images only": Function(lambda maps: maps.reshape(1, 2, 4, 4)),
    "half precision": Function(lambda maps: maps.bfloat16().float()),
}
CASES = [
    *((each, "batch-mixing") for each in MIXING.items()),
    *((each, "unseeded") for each in RANDOM.items()),
    *((each, "") for each in NEITHER.items()),
]


@pytest.mark.parametrize(("case", "found"), CASES, ids=[name for (name, _), _ in CASES])
@pytest.mark.parametrize("images", [IMAGES, IMAGES[:1], torch.zeros(1, 1, 6, 6)])
def test_what_an_output_depends_on_beside_the_image_is_found(case, found, images):
    model = network(case[1])
    before = torch.get_rng_state()
    assert dependence(model, images) == found
    assert torch.equal(torch.get_rng_state(), before)


def test_what_was_found_is_remembered_until_something_changes():
    passed = []
    model = network(nn.BatchNorm2d(2, track_running_stats=False), nn.Dropout(0.5))
    model.register_forward_hook(lambda *_: passed.append(1))
    model[1].weight.data.zero_()  # nothing is to be seen behind a weight of 0
    assert dependence(model, IMAGES) == ""
    once = len(passed)
    assert dependence(model, IMAGES) == ""
    assert len(passed) == once
    with torch.no_grad():
        model[1].weight.add_(1)
    assert dependence(model, IMAGES) == "batch-mixing"
    model[2].train()
    assert dependence(model, IMAGES) == "unseeded"
    model[1], model[2] = nn.Identity(), nn.Identity()
    assert dependence(model, IMAGES) == ""


class Layer(nn.Module):
    """A user's, with a setting, a weight and a buffer, each of which mixes images unless it is 0."""

    def __init__(self):
        super().__init__()
        self.share = 0.0
        self.weight = nn.Parameter(torch.zeros(()))
        self.register_buffer("factor", torch.zeros(()))

    def forward(self, maps):
        return maps + (self.share + self.weight + self.factor) * maps.mean(0)


def twice(module, name, made):
    """Another value after the next, which may lie where the first lay."""
    setattr(module, name, made(0.0))
    setattr(module, name, made(1.0))


def weightless(normalization):
    normalization.running_mean = normalization.running_var = None


def mix(_, __, maps):
    return maps + maps.mean(0)


CHANGES = {
    "a setting": lambda model: setattr(model[1], "share", 1.0),
    "another weight": lambda model: twice(
        model[1], "weight", lambda value: nn.Parameter(torch.tensor(value))
    ),
    "another buffer": lambda model: twice(model[1], "factor", torch.tensor),
    "a buffer in place": lambda model: model[1].factor.fill_(1.0),
    "no running statistics": lambda model: weightless(model[2]),
    "a hook": lambda model: model[1].register_forward_hook(mix),
    "a hook on the whole": lambda model: model.register_forward_hook(mix),
    "a forward of its own": lambda model: setattr(model[2], "forward", partial(mix, 0, 0)),
    "another forward": lambda model: setattr(model[3], "forward", partial(mix, 0, 0)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_was_found_is_forgotten_with_what_it_rests_on(change):
    model = network(Layer(), nn.BatchNorm2d(2), nn.Identity())
    model[3].forward = torch.tanh
    assert dependence(model, IMAGES) == ""
    change(model)
    assert dependence(model, IMAGES) == "batch-mixing"


@pytest.mark.parametrize(
    "targets", [TARGETS, lambda outputs: outputs[:, 0]], ids=["index", "score"]
)
def test_later_calls_of_a_network_take_no_more_passes_than_the_method(targets):
    model, passed = network(Layer(), nn.BatchNorm2d(2)), []
    model[0].register_forward_hook(lambda *_: passed.append(1))
    al.methods.saliency(model, IMAGES, targets)
    passed.clear()
    al.methods.saliency(model, IMAGES, targets)
    assert len(passed) == 1


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
def test_modules_are_found_once_and_in_the_order_of_torch():
    shared = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU(), nn.Linear(2, 2)))
    model = nn.ModuleDict({"a": shared[1], "b": shared, "c": nn.Sequential(shared[0], shared)})
    model.register_module("none", None)
    for each in (model, torch.jit.script(shared), shared[0]):
        assert [*map(id, modules_in(each))] == [*map(id, each.modules())]
        assert {*map(id, weights_in(modules_in(each)))} == {*map(id, each.parameters())}


@pytest.mark.parametrize("case", MIXING)
def test_a_direct_call_tells_that_images_are_mixed_where_batches_pass(case):
    model = network(MIXING[case])
    with pytest.warns(GuardWarning, match="of 3 images .* depends on the others in its batch"):
        al.methods.saliency(model, IMAGES, TARGETS)
    al.methods.saliency(model, IMAGES[:1], TARGETS[:1])  # right for an image that passes alone
    with pytest.warns(GuardWarning, match="of 1 image .* depends on the others in its batch"):
        al.methods.occlusion(model, IMAGES[:1], TARGETS[:1], window=2, stride=2)


@pytest.mark.parametrize("case", ["dropout of functions", "noise"])
def test_a_direct_call_tells_that_the_network_is_random(case):
    model = network(RANDOM[case])
    with pytest.warns(GuardWarning, match="two passes of the same image differ"):
        al.methods.saliency(model, IMAGES[:1], TARGETS[:1])
    generator = torch.Generator().manual_seed(0)
    with pytest.warns(GuardWarning, match="two passes of the same image differ"):
        smoothgrad(al.methods.saliency)(
            model, IMAGES[:1], TARGETS[:1], highest=1.0, generator=generator, n_samples=2
        )


def test_passes_of_a_copy_of_the_network_are_seen():
    """The exact path runs on one in float64."""
    with pytest.warns(GuardWarning) as told:
        al.methods.integrated_gradients_exact(
            network(RANDOM["noise"]), IMAGES[:1], TARGETS[:1], max_evaluations=15
        )
    assert any("two passes of the same image differ" in str(each.message) for each in told)


@pytest.mark.parametrize(
    ("layer", "says"),
    [
        (MIXING["batch normalization without running statistics"], "on the others in its batch"),
        (RANDOM["dropout of functions"], "make it deterministic"),
    ],
)
def test_no_environment_is_made_of_a_network_that_depends_on_more_than_the_image(layer, says):
    with pytest.raises(AttributionLabError, match=says):
        al.custom_environment(network(layer), IMAGES, torch.zeros(3, 6, 6))


# Numbers that are none


class Fixed(nn.Module):
    """The sum of an image, and another output."""

    def __init__(self, other, where):
        super().__init__()
        self.other, self.where = other, where

    def forward(self, images):
        total = images.flatten(1).sum(1)
        other = torch.where(self.where(images), self.other, total)
        return torch.stack([total, other], 1)


CALLS = {
    "saliency": {},
    "integrated_gradients": {},
    "occlusion": {"window": 2, "stride": 2},
    "lime": {"segmentation": "grid", "cells": 2, "n_samples": 20},
}


def call(name, model, images, targets):
    drawn = {"generator": torch.Generator().manual_seed(0), "highest": 1.0}
    more = drawn if name == "lime" else {}
    return getattr(al.methods, name)(model, images, targets, **CALLS[name], **more)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_an_explained_output_that_is_no_number_is_refused_with_its_image(name, value):
    model = Fixed(value, lambda images: images[:, 0, 0, 0] > 0.5).eval()
    images = IMAGES.clone()
    images[:, 0, 0, 0] = torch.tensor([0.2, 0.9, 0.9])
    targets = torch.tensor([0, 0, 1])
    with pytest.raises(AttributionLabError, match=rf"output 1 of image 2 is {value}: fix"):
        call(name, model, images, targets)
    with collect_notices():  # another output may be what it is: classes are masked so
        assert call(name, model, images, targets * 0).isfinite().all()


def test_attributions_that_are_no_numbers_are_refused():
    class Root(nn.Module):
        def forward(self, images):
            return images.flatten(1).sqrt().sum(1, keepdim=True)

    images = IMAGES.clone()
    images[1, 0, 2, 2] = 0
    message = "saliency: attributions of image 1 are inf somewhere"
    with pytest.raises(AttributionLabError, match=message):
        al.methods.saliency(Root().eval(), images, torch.zeros(3, dtype=torch.int64))


def test_maps_of_zeros_are_told_once_with_what_is_known_of_them():
    images, targets = IMAGES.clone(), torch.zeros(3, dtype=torch.int64)
    constant = nn.Sequential(nn.Flatten(), nn.Linear(36, 2)).eval()
    constant[1].weight.data.zero_()
    with pytest.warns(GuardWarning) as caught:
        al.methods.saliency(constant, images, targets)
    assert [str(each.message) for each in caught] == [
        "attributions of 3 images are zero everywhere"
    ]
    with pytest.warns(GuardWarning) as caught:
        al.methods.feature_ablation(constant, images, targets, highest=1.0)
    (only,) = caught
    assert "no perturbation changes the output" in str(only.message)
    steep = nn.Sequential(nn.Flatten(), nn.Linear(36, 2), nn.Softmax(dim=1)).eval()
    steep[1].weight.data = torch.tensor([[1e4], [-1e4]]).repeat(1, 36)
    with pytest.warns(GuardWarning) as caught:
        al.methods.saliency_absolute(steep, images, targets)
    (only,) = caught
    assert "of 3 images are zero because the softmax is saturated" in str(only.message)


def test_copies_are_made_of_all_tensors_and_history_is_kept():
    class ByName(nn.Module):
        def forward(self, images, *, scale):
            images *= float(scale)
            scale += 1
            return images.flatten(1)

    model = ByName()
    leaf, scale = torch.ones(1, 1, 2, 2, requires_grad=True), torch.tensor(3.0)
    with borrowed(model) as passes:
        outputs = model(leaf, scale=scale)
    (gradient,) = torch.autograd.grad(outputs.sum(), leaf)
    assert torch.equal(gradient, torch.full((1, 1, 2, 2), 3.0))
    assert (float(scale), float(leaf.detach().sum())) == (3.0, 4.0)
    assert (passes.largest, passes.finite) == (1, True)
    assert not model._forward_hooks
    assert not model._forward_pre_hooks
