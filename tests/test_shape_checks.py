"""The shape checks of this suite are in force, and can be switched off to read our own messages."""

import jaxtyping
import pytest
import torch

import shape_checks
from attributionlab.base import cut
from attributionlab.methods import Preset
from attributionlab.methods.ensembles import all_equal
from attributionlab.worlds.nets import Signal
from attributionlab.worlds.truth import Truth


@pytest.mark.parametrize(
    "call",
    [
        lambda: all_equal(torch.zeros(())),
        lambda: Truth(torch.zeros(1, 1, 2, 2)),
        lambda: Signal(torch.zeros(2), torch.zeros(3)),
    ],
    ids=["shape", "dtype", "two shapes that differ"],
)
def test_an_array_against_its_annotation_is_an_error(call):
    with pytest.raises(jaxtyping.TypeCheckError):
        call()


@pytest.mark.parametrize("test", [1, 2])
def test_a_function_is_checked_at_its_first_calls_in_each_test(test):
    integers = torch.ones(3, 1, dtype=torch.int64)
    with pytest.raises(jaxtyping.TypeCheckError):
        all_equal(integers)
    for _ in range(shape_checks.CALLS - 1):
        all_equal(integers.float())
    assert all_equal(integers)


def test_functions_and_classes_that_speak_of_no_array_are_called_without_checks():
    for function in (cut, Preset.__init__):
        assert not hasattr(function, "__wrapped__")
    for function in (all_equal, Truth.__init__, Signal.__init__):
        assert hasattr(function, "__wrapped__")


@pytest.mark.usefixtures("without_shape_checks")
def test_without_shape_checks_arrays_pass_as_they_do_for_users():
    assert Signal(torch.zeros(2), torch.zeros(3)).step.shape == (3,)
