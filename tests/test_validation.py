"""Settings, tensors and outputs are refused in one sentence each, whatever was passed instead."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from attributionlab.base import (
    boolean_problem,
    broadcast_replacement,
    broadcast_to_images,
    checked_images,
    checked_outputs,
    checked_targets,
    has_gradient,
    integer_problem,
    number_problem,
    plain_problem,
    shown,
)
from refusals import refusal_of

NO_NUMBERS: list[Any] = [True, False, np.True_, "3", None, [3], math.nan, math.inf, -math.inf, 1j]


@pytest.mark.parametrize(
    ("problem", "limits", "fine", "wrong", "remedy"),
    [
        (
            integer_problem,
            {"least": 1},
            [1, 7, np.int64(3), np.uint8(1), 10**400],
            [*NO_NUMBERS, 0, -1, 2.0, 10.5, np.float64(2), np.int64(0)],
            "an integer of at least 1",
        ),
        (integer_problem, {"least": 1, "most": 8}, [8], [9], "an integer from 1 to 8"),
        (
            number_problem,
            {"least": 0, "most": 1},
            [0, 0.5, 1, np.float32(0.25), np.int16(1)],
            [*NO_NUMBERS, -0.1, 1.5, np.float32(2)],
            "a number of at least 0 and of at most 1",
        ),
        (number_problem, {}, [-5, 0.0, 10**300], [math.inf], "a finite number"),
        (number_problem, {"above": 0}, [1e-300], [0.0], "a number above 0"),
        (
            boolean_problem,
            {},
            [True, False, np.True_],
            ["false", 0, 1, None, [], np.int64(1)],
            "True or False",
        ),
    ],
)
def test_values_out_of_range_are_named_with_their_remedy(
    problem: Any, limits: Any, fine: Any, wrong: Any, remedy: str
) -> None:
    for value in fine:
        assert problem("it", value, **limits) == []
    for value in wrong:
        assert problem("it", value, **limits) == [f"it is {value!r}: take {remedy}"]


def test_what_no_float_can_hold_is_refused() -> None:
    [problem] = number_problem("shift", 10**400)
    assert problem == "shift is beyond the range of float64: take a smaller number"


# Tensors

IMAGES = torch.arange(12.0).reshape(2, 3, 1, 2)


def test_tensors_are_shown_by_type_and_shape_and_all_else_by_type() -> None:
    assert shown(IMAGES) == "torch.float32 of shape (2, 3, 1, 2)"
    assert shown(torch.tensor(True)) == "torch.bool of shape ()"
    assert shown(None) == "of type NoneType"
    assert shown(IMAGES.numpy()) == "of type ndarray"


def test_a_batch_of_images_is_taken_as_it_is() -> None:
    assert checked_images(IMAGES) is IMAGES


@pytest.mark.parametrize("images", [IMAGES[0], IMAGES[:0], IMAGES.numpy(), None, 1.0])
def test_what_is_no_batch_of_images_is_refused(images: Any) -> None:
    remedy = "pass a tensor of shape (B, C, H, W), B at least 1"
    assert refusal_of(checked_images, images) == f"images are {shown(images)}: {remedy}"
    assert refusal_of(checked_images, images, "inputs") == f"inputs are {shown(images)}: {remedy}"
    assert refusal_of(broadcast_replacement, 0, images) == f"images are {shown(images)}: {remedy}"


@pytest.mark.parametrize("number", [0, -3, 0.1, np.float32(0.1), np.int64(2), math.inf])
def test_a_number_takes_the_place_of_every_value_in_float64(number: Any) -> None:
    ends = broadcast_replacement(number, IMAGES)
    assert ends.dtype == torch.float64
    assert ends.shape == IMAGES.shape
    assert (ends == float(number)).all()


@pytest.mark.parametrize("shape", [(), (1,), (3, 1, 1), (3, 1, 2), (2, 1, 1, 1), (2, 3, 1, 2)])
def test_a_tensor_that_broadcasts_takes_the_images_place_without_a_copy(shape: Any) -> None:
    values = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    ends = broadcast_replacement(values, IMAGES)
    assert torch.equal(ends, values + torch.zeros_like(IMAGES))
    assert ends.untyped_storage().data_ptr() == values.untyped_storage().data_ptr()


@pytest.mark.parametrize("replacement", [None, "black", [0], True, False, 1j, np.zeros(1)])
def test_a_replacement_that_is_neither_number_nor_tensor_is_refused(replacement: Any) -> None:
    assert refusal_of(broadcast_replacement, replacement, IMAGES) == (
        f"the replacement is of type {type(replacement).__name__}: pass a number or a tensor, 0 for "
        "black"
    )


def test_tensors_that_do_not_broadcast_are_refused_under_their_parameters_name() -> None:
    remedy = "pass one that broadcasts to the"
    assert refusal_of(broadcast_replacement, torch.ones(3), IMAGES) == (
        f"the shape of the replacement is (3,): {remedy} images' (2, 3, 1, 2), such as (C, 1, 1)"
    )
    names = {"name": "baselines", "images_name": "inputs"}
    assert refusal_of(broadcast_to_images, torch.ones(1, 2, 3, 1, 2), IMAGES, **names) == (
        f"the shape of the baselines is (1, 2, 3, 1, 2): {remedy} inputs' (2, 3, 1, 2), such as "
        "(C, 1, 1)"
    )


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (IMAGES.to_sparse(), "torch.sparse_coo"),
        (IMAGES.to("meta"), "on meta"),
        (IMAGES * 1j, "torch.complex64"),
        (torch.nested.nested_tensor([IMAGES[0]], layout=torch.jagged), "nested"),
    ],
)
def test_tensors_that_do_not_simply_hold_numbers_are_refused(value: Any, kind: str) -> None:
    assert plain_problem("they are", value) == [
        f"they are {kind}: pass a dense tensor of real numbers, with its values in memory"
    ]


def test_plain_tensors_are_fine() -> None:
    for value in (IMAGES, IMAGES.long(), IMAGES > 0, IMAGES[..., ::2], IMAGES.transpose(1, 3)):
        assert plain_problem("they are", value) == []


class Network(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.forward = function


def test_a_network_has_a_gradient_if_its_output_depends_on_the_images_in_the_graph() -> None:
    weight = torch.ones(1, requires_grad=True)
    for function, expected in (
        (lambda images: images.sum((1, 2, 3)), True),
        (lambda images: 0 * images, True),
        (lambda images: images.detach(), False),
        (lambda images: images.long(), False),
        (lambda images: weight.expand(len(images)), False),
        (lambda images: 1 / 0, True),  # nothing is known
    ):
        assert has_gradient(Network(function), IMAGES) is expected


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8])
def test_targets_are_one_integer_for_each_image(dtype: torch.dtype) -> None:
    assert checked_targets(torch.tensor([3, 0], dtype=dtype), 2) == [3, 0]


@pytest.mark.parametrize(
    "targets",
    [
        *([0, 1], 0, torch.tensor(0), torch.tensor([0]), torch.tensor([[0, 1]])),
        *(torch.zeros(2), torch.zeros(2) > 0, torch.zeros(2) * 1j),
    ],
)
def test_other_targets_are_refused(targets: Any) -> None:
    assert refusal_of(checked_targets, targets, 2) == (
        f"targets are {shown(targets)}: pass a tensor of one integer for each of the 2 images"
    )


def test_outputs_are_one_row_for_each_image() -> None:
    outputs = torch.ones(2, 5)
    assert checked_outputs(outputs, 2) is outputs
    for wrong, what in [
        *((outputs[0], "(5,)"), (outputs[:1], "(1, 5)"), (outputs[None], "(1, 2, 5)")),
        ([outputs], "list"),
    ]:
        assert refusal_of(checked_outputs, wrong, 2) == (
            f"the model's output is {what} for 2 images: pass one that returns a tensor of shape "
            "(B, K), one row for each image"
        )
