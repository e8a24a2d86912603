"""One output of each image is explained, and two that differ by rounding are the same."""

import pytest
import torch

from attributionlab.methods.outputs import same_outputs, target_outputs


def test_each_image_has_a_target_of_its_own():
    outputs = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert target_outputs(outputs, torch.tensor([2, 0])).tolist() == [3.0, 4.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1.0, -3.0, 1e-20, 1e20])
def test_outputs_are_the_same_up_to_four_units_in_the_last_place(dtype, size):
    eps = torch.finfo(dtype).eps
    first = torch.full((3,), size, dtype=dtype)
    second = first * (1 + eps * torch.tensor([0, 3, 8], dtype=dtype))
    assert same_outputs(first, second).tolist() == [True, True, False]
    assert same_outputs(second, first).tolist() == [True, True, False]


def test_zero_is_the_same_as_zero_only():
    assert same_outputs(torch.zeros(2), torch.tensor([0.0, 1e-38])).tolist() == [True, False]
