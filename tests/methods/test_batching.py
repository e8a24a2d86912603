"""Batches follow a budget of memory, and shrink where the memory does not suffice."""

import numpy as np
import pytest
import torch
from torch import nn

from attributionlab import AttributionLabError, methods
from attributionlab.base import memory
from attributionlab.methods.batching import drawn_in_memory, over_batches, passes_at_once

# One image of 2 x 4 x 4 float32: 128 bytes; the convolution's output 3 x 4 x 4: 192; the ReLU's: 192;
# flattened: 192; 5 outputs: 20.
NETWORK = nn.Sequential(nn.Conv2d(2, 3, 1), nn.ReLU(), nn.Flatten(), nn.Linear(48, 5))
INPUTS = torch.zeros(7, 2, 4, 4)
BYTES = 128 + 192 + 192 + 192 + 20


@pytest.mark.parametrize(
    ("budget", "images"),
    [(0, 1), (BYTES, 1), (2 * BYTES - 1, 1), (2 * BYTES, 2), (10 * BYTES, 10)],
)
def test_the_budget_pays_for_every_output_of_every_layer(budget, images):
    assert methods.images_at_once(NETWORK, INPUTS, budget) == images
    assert not NETWORK[0]._forward_hooks


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"),
        torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate"),
        RuntimeError("std::bad_alloc"),
    ],
)
def test_a_batch_that_does_not_fit_is_halved_until_it_does(error):
    tried = []

    def run(batch):
        tried.append(batch)
        if batch > 3:
            raise error
        return batch

    assert methods.in_smaller_batches(run, 20, "mine") == 2
    assert tried == [20, 10, 5, 2]


def test_other_errors_pass_unchanged():
    tried = []

    def run(batch):
        tried.append(batch)
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes do not match"):
        methods.in_smaller_batches(run, 8, "mine")
    assert tried == [8]


@pytest.mark.parametrize("fitting", [1, 2, 3, 7])
def test_parts_are_as_large_as_memory_allows_and_joined_in_order(fitting):
    numbers, squares, tried = torch.arange(7), torch.arange(7) ** 2, []

    def run(first, second):
        tried.append(len(first))
        if len(first) > fitting:
            raise MemoryError
        return first + 1, second - first

    plus, minus = over_batches(run, (numbers, squares), "mine")
    assert torch.equal(plus, numbers + 1)
    assert torch.equal(minus, squares - numbers)
    assert tried == {1: [7, 3, *[1] * 7], 2: [7, 3, *[1] * 7], 3: [7, 3, 3, 1], 7: [7]}[fitting]


def test_an_image_that_never_fits_is_refused_under_the_methods_name():
    def run(images):
        raise MemoryError

    with pytest.raises(AttributionLabError, match="saliency does not fit in memory even one image"):
        over_batches(run, (INPUTS,), "saliency")


@pytest.mark.parametrize(
    ("draw", "count"),
    [(torch.rand, 10**15), (torch.rand, 10**18), (torch.rand, 10**30), (np.empty, 10**15)],
)
def test_more_draws_than_fit_in_memory_are_refused_in_one_line(draw, count):
    # With an estimate of nothing it is the allocator that refuses. 10^15 x 8 numbers are beyond the
    # addresses of a process (2^48 bytes), or a machine that overcommits its memory would be filled.
    with (
        pytest.raises(AttributionLabError, match=rf"^mine: n is {count}: .*memory; take fewer$"),
        drawn_in_memory("mine", "n", count, 0),
    ):
        draw((count, 8))


def test_more_draws_than_are_free_are_refused_before_any_is_made(monkeypatch):
    monkeypatch.setattr(memory, "free_bytes", lambda device: 3 * 2**20)
    with drawn_in_memory("mine", "n", 3, 2**20):
        pass
    with (
        pytest.raises(
            AttributionLabError, match=r"^mine: n is 4: .* 4 MiB, .* 3 MiB .*take fewer$"
        ),
        drawn_in_memory("mine", "n", 4, 2**20),
    ):
        pytest.fail("something was drawn")


def test_a_batch_size_that_a_user_asks_for_is_cut_to_what_is_free(monkeypatch):
    model = nn.Sequential(nn.Conv2d(1, 256, 1), nn.ReLU())  # 2 x 256 times as large as the image
    images = torch.zeros(1, 1, 64, 64)
    assert passes_at_once(model, images, 7) == 7
    one = 513 * images.nbytes
    monkeypatch.setattr(methods.batching, "free_bytes", lambda device: 20 * one)
    assert passes_at_once(model, images, 10**12) == 10  # half of it is for gradients
    assert passes_at_once(model, images, 9) == 9
    assert passes_at_once(model, images, None) == methods.images_at_once(model, images)


def test_many_images_begin_in_parts_that_surely_fit(monkeypatch):
    images, sizes = torch.zeros(50, 1, 64, 64), []
    monkeypatch.setattr(
        methods.batching, "free_bytes", lambda device: 20 * 1000 * images[:1].nbytes
    )

    def run(part):
        sizes.append(len(part))
        return [part]

    [joined] = over_batches(run, [images], "mine")
    assert sizes == [20, 20, 10]
    assert joined.shape == images.shape


def test_a_network_too_large_for_one_image_is_left_to_the_run():
    class Huge(nn.Module):
        def forward(self, images):
            raise MemoryError

    assert methods.images_at_once(Huge(), INPUTS) == 1
