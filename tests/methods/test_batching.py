"""Batches follow a budget of memory, and shrink where the memory does not suffice."""

import pytest
import torch
from torch import nn

from attributionlab import AttributionLabError
from attributionlab.methods import images_at_once, in_smaller_batches

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
    assert images_at_once(NETWORK, INPUTS, budget) == images
    assert not NETWORK[0]._forward_hooks


def test_hooks_are_gone_after_a_network_that_fails():
    with pytest.raises(RuntimeError):
        images_at_once(NETWORK, torch.zeros(1, 9, 4, 4))
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

    assert in_smaller_batches(run, 20, "mine") == 2
    assert tried == [20, 10, 5, 2]


def test_not_even_one_image_is_a_refusal():
    def run(batch):
        raise MemoryError

    with pytest.raises(AttributionLabError, match="mine does not fit in memory even one image"):
        in_smaller_batches(run, 8, "mine")


def test_other_errors_pass_unchanged():
    tried = []

    def run(batch):
        tried.append(batch)
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes do not match"):
        in_smaller_batches(run, 8, "mine")
    assert tried == [8]
