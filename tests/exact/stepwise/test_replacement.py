"""Trajectories are equal, to the last bit, to one forward pass for each step."""

import itertools
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

import attributionlab as al
from attributionlab.base import AttributionLabError
from attributionlab.base.exact import route_of, trajectories, trajectory
from attributionlab.base.exact.stepwise import incremental, replacement
from cases import COUNTING
from exact.random_networks import Opaque
from exact.stepwise.small_networks import by_passes, followed, pair
from small_networks import Function

REPLACEMENTS = ("black", "true", "integers", "halves", "partly", "floats")


def replacement_of(kind, env, image, generator):
    top = int(image.max())
    if kind == "black":
        return torch.zeros(1)
    if kind == "true":
        return env.baseline
    if kind == "floats":
        return torch.rand(image.shape, generator=generator) * top
    if kind == "halves":
        return torch.randint(2 * top + 1, image.shape, generator=generator) / 2
    integers = torch.randint(top + 1, image.shape, generator=generator).float()
    if kind == "partly":
        return torch.where(torch.rand(image.shape[1:], generator=generator) < 0.5, image, integers)
    return integers


def permutations(n, pixels, generator):
    return torch.stack([torch.randperm(pixels, generator=generator) for _ in range(n)])


def some_counts(n, pixels, generator):
    chosen = torch.randperm(pixels + 1, generator=generator)[:n]
    return sorted(chosen.tolist())


# Numbers as replacements


@pytest.mark.parametrize("number", [3, 0.1, -2.5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_number_replaces_all_values_of_a_pixel_in_the_precision_of_the_model(number, dtype):
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 12, bias=False)).to(dtype)
    nn.init.eye_(model[1].weight)  # no output is rounded, in whatever batch
    image, order = torch.ones(3, 2, 2), torch.tensor([2, 0, 3, 1])
    end = torch.tensor(number, dtype=torch.float64)
    outputs = trajectory(model, image, number, order)
    assert torch.equal(outputs, trajectory(model, image, end, order))
    assert (outputs[-1] == end.to(dtype)).all()
    several = trajectories(model, image[None], number, order[None, None])
    assert torch.equal(several[0, 0], outputs)


def test_a_number_decides_the_route_as_its_tensor_does():
    env = al.load("single-color-modulo", image_size=16)
    image = env.batch(1)[0][0]
    for number in (0, 0.1, 1e30):
        assert route_of(env.model, image, number) == route_of(
            env.model, image, torch.tensor(number)
        )


# The catalog


@pytest.mark.parametrize("name", al.environments())
def test_environments_are_followed_exactly(name, generator):
    env = al.load(name, image_size=16)
    image = env.batch(1)[0][0]
    order = torch.randperm(256, generator=generator)
    for kind, output in itertools.product(REPLACEMENTS[:-1], env.outputs):
        model, end = env.explained_model(output), replacement_of(kind, env, image, generator)
        counts = [0, *some_counts(20, 256, generator)[1:-1], 256]
        expected = by_passes(model, image, end, order, counts)
        assert followed(model, image, end, order, counts).tolist() == expected, (kind, output)


def random_configuration(seed, sizes):
    """An environment with random constants, where a trajectory starts and ends, its order."""
    generator = torch.Generator().manual_seed(seed)

    def one_of(*choices):
        return choices[int(torch.randint(len(choices), (), generator=generator))]

    name = one_of(*sorted(COUNTING))
    constants = {"accumulator": one_of("uniform", "nonuniform"), "image_size": one_of(*sizes)}
    constants["weight_seed"] = one_of(0, 1, 2)
    if name.startswith("multi-color-sum"):
        constants["redundant_channels"] = one_of(0, 1, 3)
        constants["redundant_strength"] = one_of(0.0, 0.25, 1.0, 3.0)
        constants["distractors"] = one_of(0, 1, 2)
        constants["temperature"] = one_of(1, 8, 256)
    if name == "number-checker":
        constants["number"] = one_of(5, 6, 7)
    if name == "single-color-modulo":
        constants["modulus"] = one_of(7, 30)
    env = al.load(name, **constants)
    image = env.batch(1, seed=seed)[0][0]
    end = replacement_of(one_of(*REPLACEMENTS[:-1]), env, image, generator)
    pixels = image[0].numel()
    order = torch.randperm(pixels, generator=generator)
    counts = some_counts(300, pixels, generator)
    return env.explained_model(one_of(*env.outputs)), image, end, order, counts


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_random_steps_of_random_configurations_are_exact(seed):
    asked = random_configuration(seed, range(18, 29))
    assert followed(*asked).tolist() == by_passes(*asked)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20, 40))
def test_random_steps_of_large_random_configurations_are_exact(seed):
    asked = random_configuration(seed, (72, 100, 160, 223, 224))
    assert followed(*asked).tolist() == by_passes(*asked)


def test_pixels_that_float32_cannot_add_up_are_shown_to_the_model(generator, monkeypatch):
    # One image at a time, as in the twin: sums that are rounded depend on the size of a batch.
    monkeypatch.setattr("attributionlab.base.exact.stepwise.replacement.PIXELS_AT_ONCE", 1)
    env = al.load("multi-color-sum", image_size=16)
    image = env.batch(1)[0][0]
    end = replacement_of("floats", env, image, generator)
    route = route_of(env.model, image, end)
    assert route.name == "forward"
    assert route.reason.startswith("its layer 1 may round: it needs 1.")
    assert route.reason.endswith(
        "e+09 grid steps, but the proof for float32 reaches up to 16,777,216"
    )
    order = torch.randperm(256, generator=generator)
    assert trajectory(env.model, image, end, order).tolist() == by_passes(
        env.model, image, end, order
    )


# Several images and orders


def test_images_and_orders_keep_their_places(generator):
    env = al.load("multi-color-sum", image_size=16)
    images, _ = env.batch(2)
    ends, _ = env.batch(2, seed=1)
    orders = permutations(6, 256, generator).reshape(2, 3, 256)
    counts = [0, 1, 100, 255, 256]
    outputs = trajectories(env.softmax_model, images, ends, orders, counts=counts)
    assert outputs.shape == (2, 3, 5, 4)
    for b, d in itertools.product(range(2), range(3)):
        expected = by_passes(env.softmax_model, images[b], ends[b], orders[b, d], counts)
        assert outputs[b, d].tolist() == expected


@pytest.mark.parametrize("wrap", [nn.Sequential, Opaque])
def test_counts_choose_rows_of_the_whole_trajectory(wrap, generator):
    env = al.load("nonuniform-accumulator", image_size=16)
    model, images = wrap(env.model), env.batch(2)[0]
    orders = permutations(4, 256, generator).reshape(2, 2, 256)
    whole = trajectories(model, images, torch.ones(1), orders)
    assert whole.shape == (2, 2, 257, 1)
    for counts in ([0], [256], [3, 4, 200], range(0, 257, 16), torch.tensor([7, 9])):
        some = trajectories(model, images, torch.ones(1), orders, counts=counts)
        assert some.tolist() == whole[:, :, list(counts)].tolist()


def test_each_image_takes_the_route_that_serves_it():
    model = pair([[1.0, 1.0]])
    images = torch.tensor([[[[1.0, 2.0]]], [[[2.0**24, 1.0]]]])
    orders = torch.tensor([[[1, 0]], [[1, 0]]])
    assert [route_of(model, image, torch.zeros(1)).name for image in images] == [
        "incremental",
        "forward",
    ]
    outputs = trajectories(model, images, torch.zeros(1), orders)
    # In float32, 2^24 + 1 is 2^24.
    assert outputs[:, 0, :, 0].tolist() == [[3, 1, 0], [2**24, 2**24, 0]]


@pytest.mark.parametrize("at_once", [replacement.STATES_AT_ONCE, 4 * 257, 1])
def test_an_image_that_is_repeated_with_its_replacement_is_prepared_once(
    at_once, generator, monkeypatch
):
    prepared = []
    monkeypatch.setattr(replacement, "STATES_AT_ONCE", at_once)  # 257 for each order
    whole = replacement._mixture

    def counted(tree, image, end):
        prepared.append((image, end))
        return whole(tree, image, end)

    monkeypatch.setattr(replacement, "_mixture", counted)
    env = al.load("multi-color-sum", image_size=16)
    first, second = env.batch(2)[0]
    images = torch.stack([first, first, first, second, second, first])
    ends = torch.zeros(6, 3, 1, 1)
    ends[4] = 20.0
    orders = permutations(12, 256, generator).view(6, 2, 256)
    outputs = trajectories(env.model, images, ends, orders)
    assert len(prepared) == 4  # the first three alone have both in common
    for image, end, both, found in zip(images, ends, orders, outputs, strict=True):
        for order, along in zip(both, found, strict=True):
            assert torch.equal(along, trajectory(env.model, image, end, order))


def test_threads_share_the_draws_and_change_nothing(generator):
    env = al.load("multi-color-sum", image_size=16)
    images, _ = env.batch(1)
    orders = permutations(5, 256, generator)[None]
    alone = trajectories(env.model, images, torch.zeros(1), orders)
    torch.set_num_threads(3)
    try:
        assert torch.equal(trajectories(env.model, images, torch.zeros(1), orders), alone)
        with ThreadPoolExecutor(4) as threads:
            calls = [
                threads.submit(trajectories, env.model, images, torch.zeros(1), orders)
                for _ in range(8)
            ]
            assert all(torch.equal(call.result(), alone) for call in calls)
    finally:
        torch.set_num_threads(1)


@pytest.mark.parametrize("output", ["logit", "probability"])
def test_orders_are_followed_in_pieces_that_change_nothing(output, generator, monkeypatch):
    env = al.load("multi-color-sum", image_size=16)
    model, (images, _) = env.explained_model(output), env.batch(1)
    orders = permutations(5, 256, generator)[None]
    together = trajectories(model, images, torch.zeros(1), orders)
    for order, outputs in zip(orders[0], together[0], strict=True):
        assert torch.equal(trajectory(model, images[0], torch.zeros(1), order), outputs)
    monkeypatch.setattr(replacement, "STATES_AT_ONCE", 2 * 257)  # two orders, two, one
    assert torch.equal(trajectories(model, images, torch.zeros(1), orders), together)


def test_models_are_asked_with_exact_products_and_the_setting_is_put_back():
    seen = []

    class Watching(nn.Module):
        def forward(self, images):
            seen.append((torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32))
            return images.flatten(1)

    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = True
    try:
        trajectory(Watching(), torch.ones(1, 1, 2), 0, torch.tensor([0, 1]))
        assert torch.backends.cudnn.allow_tf32
    finally:
        torch.backends.cudnn.allow_tf32 = before
    assert set(seen) == {(False, False)}


# What is left alone, and said


IMAGES, ZERO = torch.ones(2, 1, 2, 2), torch.zeros(1)


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
    with pytest.raises(AttributionLabError) as refused:
        trajectory(model, IMAGES[0], ZERO, torch.arange(4))
    message = str(refused.value)
    # Numbers in it may be the size of the batch.
    said = re.sub(r"\d+", "n", str(expected.value).splitlines()[0])
    assert said[:100] in re.sub(r"\d+", "n", message)
    assert "pass images of the shape and type that it takes" in message


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
            "autocast is on, so its layers do not compute in the type of their weights",
        )
        outputs = trajectory(model, image, ZERO, order)
        assert outputs.tolist() == by_passes(model, image, ZERO, order)
    assert outputs.dtype == torch.bfloat16


def test_models_without_weights_compute_in_float32():
    model = Function(lambda x: x.flatten(1) / 3)
    outputs = trajectory(model, IMAGES[0].double(), ZERO, torch.arange(4))
    assert outputs.dtype == torch.float32
    assert outputs.tolist() == by_passes(model, IMAGES[0], ZERO, torch.arange(4))


def test_an_interrupt_leaves_nothing_behind(monkeypatch, generator):
    env = al.load("multi-color-sum", image_size=16)
    images, _ = env.batch(1)
    orders = torch.stack([torch.randperm(256, generator=generator) for _ in range(4)])[None]
    expected = trajectories(env.model, images, ZERO, orders)
    follow, calls = incremental.kernels.follow, []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return follow(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(incremental.kernels, "follow", interrupted)
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
