"""Constants of TOML files: conversion to the annotated types, and defaults of signatures."""

import re
from collections.abc import Sequence
from typing import Literal

import pytest

from attributionlab.worlds.environment.catalog import convert, default_constants

Color = tuple[int, int, int]


@pytest.mark.parametrize(
    ("value", "annotation", "converted"),
    [
        (3, int, 3),
        (0.5, float, 0.5),
        (1, float, 1.0),
        ("text", str, "text"),
        (True, bool, True),
        ("uniform", Literal["uniform", "nonuniform"], "uniform"),
        ([255, 127, 0], Color, (255, 127, 0)),
        ([], tuple[Color, ...], ()),
        ([[1, 2, 3], [4, 5, 6]], tuple[Color, ...], ((1, 2, 3), (4, 5, 6))),
        (((1, 2, 3),), Sequence[Color], ((1, 2, 3),)),
        (["bezier"], tuple[str, ...], ("bezier",)),
        ([0, 1], tuple[float, float], (0.0, 1.0)),
        ([1, 2], list[int], (1, 2)),
    ],
)
def test_a_toml_value_takes_the_annotated_type(value, annotation, converted):
    result = convert(value, annotation)
    assert result == converted
    assert type(result) is type(converted)


def test_lists_become_tuples_at_every_depth():
    result = convert([[1, 2, 3]], Sequence[Color])
    assert isinstance(result, tuple)
    assert isinstance(result[0], tuple)


@pytest.mark.parametrize(
    ("value", "annotation", "takes"),
    [
        ("3", int, "an integer"),
        (3.0, int, "an integer"),
        (True, int, "an integer"),
        (False, float, "a number"),
        ("1", float, "a number"),
        (1, str, "a string"),
        (1, bool, "true or false"),
        ("red", Literal["uniform", "nonuniform"], "one of 'uniform', 'nonuniform'"),
        ([255, 127], Color, "[an integer, an integer, an integer]"),
        ([255, 127, 0, 0], Color, "[an integer, an integer, an integer]"),
        ([255, 127, 0.5], Color, "[an integer, an integer, an integer]"),
        (255, Color, "[an integer, an integer, an integer]"),
        ("bezier", tuple[str, ...], "a list of a string"),
        ([[1, 2]], Sequence[Color], "a list of [an integer, an integer, an integer]"),
        ([1, 2, 3], tuple[Color, ...], "a list of [an integer, an integer, an integer]"),
        ([0.1, True], tuple[float, float], "[a number, a number]"),
    ],
)
def test_what_is_no_such_value_is_refused_with_what_would_have_been(value, annotation, takes):
    with pytest.raises(TypeError, match=f"^{re.escape(takes)}$"):
        convert(value, annotation)


def test_defaults_of_several_signatures_are_put_together():
    def one(*, size: int, fill: float = 0.5) -> None: ...

    def other(*, seed: int = 3, names: tuple[str, ...] = ()) -> None: ...

    assert default_constants(one, other) == {"fill": 0.5, "seed": 3, "names": ()}


def test_a_signature_without_defaults_has_none():
    def required(*, size: int) -> None: ...

    assert default_constants(required) == {}
    assert default_constants() == {}
