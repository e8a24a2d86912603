"""Outputs after single replacements are equal, to the last bit, to one forward pass for each pixel."""

import pytest
import torch
from hypothesis import given, settings
from torch import nn

import attributionlab as al
import oracles_truth
from attributionlab.base import followed_tree
from attributionlab.base.exact import route_of, single_replacements, trajectories
from attributionlab.base.exact.stepwise.incremental import mixture_of
from exact.random_networks import Opaque, cases
from exact.stepwise.random_trees import agreed
from exact.stepwise.small_networks import pair


def by_passes(model, image, replacement):
    """One forward pass for each pixel."""
    with torch.no_grad():
        return oracles_truth.single_replacements(model, image, replacement.expand_as(image))


def followed(model, image, replacement):
    """The outputs of a model that has to be served incrementally."""
    assert route_of(model, image, replacement).name == "incremental"
    return single_replacements(model, image[None], replacement)[0]


# By hand


def test_each_row_belongs_to_one_pixel_in_the_order_of_rows():
    model = nn.Sequential(nn.Flatten(), nn.Linear(6, 1, bias=False))
    model[1].weight.data = torch.tensor([[1.0, 10.0, 100.0, 1000.0, 10000.0, 100000.0]])
    outputs = single_replacements(model, torch.ones(1, 1, 2, 3), 0)
    assert outputs.tolist() == [[[111111.0 - 10**p] for p in range(6)]]


# Against forward passes


@pytest.mark.long
@pytest.mark.parametrize("name", al.environments())
def test_environments_are_followed_exactly(name, generator):
    env = al.load(name, image_size=16)
    image = env.batch(1)[0][0]
    integers = torch.randint(int(image.max()) + 1, image.shape, generator=generator).float()
    for output in env.outputs:
        model = env.explained_model(output)
        for end in (torch.zeros(1), integers):
            assert followed(model, image, end).tolist() == by_passes(model, image, end)


@pytest.fixture
def agrees(monkeypatch):
    """The route of a random network, if its outputs are those of forward passes."""
    monkeypatch.setattr("attributionlab.base.exact.stepwise.replacement.PIXELS_AT_ONCE", 1)

    def single(model, image, replacement, order):
        return single_replacements(model, image[None], replacement)[0]

    def passes(model, image, replacement, order):
        return by_passes(model, image, replacement)

    return lambda seed, dtype=torch.float32: agreed(seed, dtype, single, passes)


@pytest.mark.long
def test_random_trees_are_followed_exactly(agrees):
    routes = [agrees(seed) for seed in range(150)]
    assert routes.count("incremental") > 90
    assert routes.count("forward") > 10


def test_random_trees_in_float64_are_followed_exactly(agrees):
    assert [agrees(seed, torch.float64) for seed in range(200, 230)].count("incremental") > 5


@pytest.mark.slow
def test_thousands_of_random_trees_are_followed_exactly(agrees):
    assert [agrees(seed) for seed in range(1000, 5000)].count("incremental") > 2500


@settings(max_examples=30)
@given(cases())
def test_random_networks_with_overlapping_windows_are_shown_each_image(case):
    outputs = single_replacements(case.model, case.start, case.end)
    assert outputs[0].tolist() == by_passes(case.model, case.start[0], case.end[0])


# Routes, batches, types


def test_images_keep_their_places_and_take_the_route_that_serves_them():
    model = pair([[1.0, 1.0]])
    images = torch.tensor([[[[1.0, 2.0]]], [[[2.0**24, 1.0]]], [[[4.0, 8.0]]]])
    ends = torch.tensor([[[[0.0, 0.0]]], [[[2.0, 0.0]]], [[[1.0, 1.0]]]])
    routes = [route_of(model, image, end).name for image, end in zip(images, ends, strict=True)]
    assert routes == ["incremental", "forward", "incremental"]
    outputs = single_replacements(model, images, ends)
    assert outputs[..., 0].tolist() == [[2, 1], [3, 2**24], [9, 5]]


@pytest.mark.long
def test_any_model_is_shown_the_same_images(generator, monkeypatch):
    env = al.load("multi-color-sum", image_size=16)
    images, _ = env.batch(2)
    served = single_replacements(env.model, images, 0)
    for at_once in (1, 256 * 7, 256 * 1000):
        monkeypatch.setattr(
            "attributionlab.base.exact.stepwise.replacement.PIXELS_AT_ONCE", at_once
        )
        assert torch.equal(single_replacements(Opaque(env.model), images, 0), served)


def test_they_are_the_first_steps_of_all_trajectories(generator):
    env = al.load("single-color-modulo", image_size=16)
    images, _ = env.batch(1)
    orders = torch.stack([torch.arange(256).roll(-p) for p in range(256)])
    steps = trajectories(env.model, images, 0, orders[None], counts=[1])
    assert torch.equal(single_replacements(env.model, images, 0), steps[:, :, 0])


def test_asking_leaves_a_mixture_as_it_was(generator):
    env = al.load("multi-color-sum", image_size=16)
    image = env.batch(1)[0][0]
    mixture = mixture_of(followed_tree(env.model, image[None]), image, torch.zeros_like(image))
    order, counts = torch.randperm(256, generator=generator).numpy(), torch.arange(257).numpy()
    curve, outputs = mixture.outputs(order[None], counts)[0], mixture.single_outputs()
    assert torch.equal(mixture.single_outputs(), outputs)
    assert torch.equal(mixture.outputs(order[None], counts)[0], curve)
