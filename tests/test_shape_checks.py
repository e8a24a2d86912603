"""The shape checks of this suite are in force, and can be switched off to read our own messages."""

import jaxtyping
import pytest
import torch

from attributionlab.methods import Preset
from attributionlab.nets import Signal, evaluate, number_checker
from attributionlab.truth import Truth


@pytest.mark.parametrize(
    "call",
    [
        lambda: evaluate(number_checker([1]), torch.zeros(3)),
        lambda: Truth(torch.zeros(1, 1, 2, 2)),
        lambda: Signal(torch.zeros(2), torch.zeros(3)),
    ],
    ids=["shape", "dtype", "two shapes that differ"],
)
def test_an_array_against_its_annotation_is_an_error(call):
    with pytest.raises(jaxtyping.TypeCheckError):
        call()


def test_functions_and_classes_that_speak_of_no_array_are_called_without_checks():
    for function in (number_checker, Preset.__init__):
        assert not hasattr(function, "__wrapped__")
    for function in (evaluate, Truth.__init__, Signal.__init__):
        assert hasattr(function, "__wrapped__")


@pytest.mark.usefixtures("without_shape_checks")
def test_without_shape_checks_arrays_pass_as_they_do_for_users():
    assert Signal(torch.zeros(2), torch.zeros(3)).step.shape == (3,)
