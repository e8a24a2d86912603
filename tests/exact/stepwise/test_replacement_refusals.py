"""What trajectories refuse, in one line, and what they leave alone."""

import os
import re
import subprocess
import sys

import pytest
import torch
from torch import nn

import attributionlab as al
from attributionlab.base import AttributionLabError
from attributionlab.base.exact import route_of, trajectories, trajectory
from attributionlab.base.exact.stepwise import incremental
from exact.random_networks import Opaque
from exact.stepwise.small_networks import by_passes, pair
from small_networks import Function

pytestmark = pytest.mark.usefixtures("without_shape_checks")

MODEL = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
IMAGES = torch.ones(2, 1, 2, 2)
ZERO = torch.zeros(1)
ORDERS = torch.arange(4).expand(2, 3, 4)


def refused(*arguments, call=trajectories, **settings):
    with pytest.raises(AttributionLabError) as caught:
        call(*arguments, **settings)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Flatten(), nn.Linear(5, 2)),
        nn.Sequential(nn.Flatten(), nn.Linear(2, 2)),
        nn.Sequential(nn.Conv2d(3, 1, 2), nn.Flatten()),
        nn.Sequential(nn.Conv2d(1, 1, 3), nn.Flatten()),
        nn.Sequential(nn.Conv2d(1, 1, 2), nn.Flatten(), nn.Conv2d(1, 1, 1)),
        nn.Sequential(nn.Conv2d(1, 1, 2), nn.Flatten(), nn.Linear(2, 1)),
    ],
    ids=str,
)
def test_what_a_model_itself_says_to_images_reaches_the_user(model):
    with pytest.raises(RuntimeError) as expected:
        model(IMAGES[:1])
    message = refused(model, IMAGES[0], ZERO, ORDERS[0, 0], call=trajectory)
    # Numbers in it may be the size of the batch.
    said = re.sub(r"\d+", "n", str(expected.value).splitlines()[0])
    assert said[:100] in re.sub(r"\d+", "n", message)
    assert "pass images of the shape and type that it takes" in message


# What is left alone


@pytest.mark.parametrize("wrap", [nn.Sequential, Opaque])
def test_model_and_inputs_stay_as_they_are(wrap, generator):
    model = wrap(al.load("multi-color-sum", image_size=16).softmax_model).train()
    image = torch.randint(256, (3, 16, 16), generator=generator).float().requires_grad_()
    end = torch.zeros(3, 1, 1, requires_grad=True)
    order = torch.randperm(256, generator=generator)
    parameters = [parameter.clone() for parameter in model.parameters()]
    before = image.clone(), end.clone(), order.clone()
    chance = torch.get_rng_state()
    outputs = trajectory(model, image, end, order)
    assert not outputs.requires_grad
    assert torch.equal(torch.get_rng_state(), chance)
    assert model.training
    assert image.grad is None
    assert all(map(torch.equal, (image, end, order), before))
    assert all(map(torch.equal, model.parameters(), parameters))
    assert all(p.grad is None and p.requires_grad for p in model.parameters())
    with torch.inference_mode():
        assert torch.equal(trajectory(model, image, end, order), outputs)


def test_a_result_shares_no_memory_with_later_ones(generator):
    env = al.load("uniform-accumulator", image_size=16)
    image, order = env.batch(1)[0][0], torch.randperm(256, generator=generator)
    first = trajectory(env.model, image, ZERO, order)
    kept = first.clone()
    first.zero_()
    assert torch.equal(trajectory(env.model, image, ZERO, order), kept)


@pytest.mark.parametrize(
    "change",
    [
        lambda image: image.to(torch.uint8),
        lambda image: image.long(),
        lambda image: image.double(),
        lambda image: image.half(),
        lambda image: image.transpose(1, 2).contiguous().transpose(1, 2),
        lambda image: image.flip(2).flip(2),
        lambda image: torch.stack([image, image], -1)[..., 0],
    ],
)
def test_types_and_memory_of_images_do_not_matter(change, generator):
    env = al.load("multi-color-sum", image_size=16)
    image, order = env.batch(1)[0][0], torch.randperm(256, generator=generator)
    expected = trajectory(env.model, image, env.baseline, order)
    assert torch.equal(trajectory(env.model, change(image), env.baseline, order), expected)


def test_the_default_type_and_autocast_are_respected(generator):
    model, image, order = pair([[1.0, 2.0]]), torch.tensor([[[257.0, 2.0]]]), torch.tensor([1, 0])
    expected = trajectory(model, image, ZERO, order)
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.equal(trajectory(model, image, ZERO.float(), order), expected)
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        assert route_of(model, image, ZERO) == (
            "forward",
            "autocast is on, and its layers compute in other numbers than their weights have",
        )
        outputs = trajectory(model, image, ZERO, order)
        assert outputs.tolist() == by_passes(model, image, ZERO, order)
    assert outputs.dtype == torch.bfloat16


def test_models_without_weights_compute_in_float32():
    model = Function(lambda x: x.flatten(1) / 3)
    outputs = trajectory(model, IMAGES[0].double(), ZERO, ORDERS[0, 0])
    assert outputs.dtype == torch.float32
    assert outputs.tolist() == by_passes(model, IMAGES[0], ZERO, ORDERS[0, 0])


def test_an_interrupt_leaves_nothing_behind(monkeypatch, generator):
    env = al.load("multi-color-sum", image_size=16)
    images, _ = env.batch(1)
    orders = torch.stack([torch.randperm(256, generator=generator) for _ in range(4)])[None]
    expected = trajectories(env.model, images, ZERO, orders)
    follow, calls = incremental.follow, []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return follow(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(incremental, "follow", interrupted)
        with pytest.raises(KeyboardInterrupt):
            trajectories(env.model, images, ZERO, orders)
    assert torch.equal(trajectories(env.model, images, ZERO, orders), expected)


# The compiler


def run(code, **environment):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.long
def test_numba_is_imported_when_a_network_is_followed_and_not_before():
    code = """
import sys, torch
from attributionlab.base.exact import route_of, trajectory
image, order = torch.ones(1, 2, 2), torch.arange(4)
trajectory(torch.nn.Sequential(torch.nn.AvgPool2d(2), torch.nn.Flatten()), image, image, order)
print("numba" in sys.modules)
"""
    assert run(code) == "False"


@pytest.mark.slow
@pytest.mark.parametrize("locators", ["", "numba.core.caching.CacheImpl._locator_classes = []"])
def test_a_cache_that_cannot_be_written_is_done_without(locators):
    code = f"""
import numba.core.caching, torch
{locators}
from attributionlab.base.exact import route_of, trajectory
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 1, bias=False))
torch.nn.init.ones_(model[1].weight)
image, order = torch.ones(1, 2, 2), torch.arange(4)
print(route_of(model, image, torch.zeros(1)).name)
print(trajectory(model, image, torch.zeros(1), order).flatten().tolist())
"""
    # Below a file there are no folders, not even for an administrator.
    unwritable = {"NUMBA_CACHE_DIR": f"{__file__}/cache", "HOME": __file__}
    assert run(code, **unwritable) == "incremental\n[4.0, 3.0, 2.0, 1.0, 0.0]"
