"""What the annotations of a public function rule out is refused, and nothing else."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypedDict, Unpack

import numpy as np
import pytest
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

import attributionlab as al
from attributionlab.base import (
    Byte,
    Count,
    Name,
    Positive,
    Share,
    Text,
    Within,
    argument_problems,
    checked_arguments,
    named,
    not_empty,
    plain_arguments,
    rising,
)

pytestmark = pytest.mark.usefixtures("without_shape_checks")
MAPS = torch.rand(3, 1, 2, 2)
MASK = MAPS > 0.5
Color = tuple[Byte, Byte, Byte]


class Options(TypedDict, total=False):
    rounds: Count


@checked_arguments
def face(
    maps: Float[Tensor, "batch 1 height width"],
    truth: Bool[Tensor, "batch 1 height width"] | None = None,
    targets: Int[Tensor, " batch"] | None = None,
    *,
    order: Literal["morf", "lerf"] = "morf",
    level: Positive | None = None,
    share: Annotated[float, Within(least=0, most=1)] = 1,
    by: Literal["name"] | Callable[[int], int] = "name",
    flag: bool = True,
    anything: object = None,
    **options: Unpack[Options],
):
    return level, share, options


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"order": "mofr"}, "order is 'mofr': take 'morf' or 'lerf'"),
        ({"order": np.zeros(2)}, "order is array([0., 0.]): take 'morf' or 'lerf'"),
        ({"level": 0}, "level is 0: take a number above 0"),
        ({"level": math.nan}, "level is nan: take a number above 0"),
        ({"level": 10**400}, "level is beyond the range of float64"),
        ({"share": 1.5}, "share is 1.5: take a number of at least 0 and of at most 1"),
        ({"share": torch.zeros(2, 2)}, "share is torch.float32 of shape (2, 2): take a number"),
        ({"by": 3}, "by is 3: take 'name', or a function"),
        ({"flag": 1}, "flag is 1: take True or False"),
        ({"rounds": 0.5}, "rounds is 0.5: take an integer of at least 1"),
        ({"truth": MASK[:1]}, "truth is torch.bool of shape (1, 1, 2, 2): pass a tensor of shape"),
        ({"truth": MAPS}, "truth is torch.float32: pass torch.bool, such as truth > 0"),
        ({"targets": torch.zeros(3)}, "targets are torch.float32: pass integers"),
        ({"targets": torch.tensor(0)}, "pass a tensor of one integer for each of the 3 images"),
        ({"targets": 0}, "targets are of type int: pass a tensor of one integer for each of the 3"),
        ({"maps": MAPS[:0]}, "maps are torch.float32 of shape (0, 1, 2, 2): pass"),
        ({"maps": MAPS.to_sparse()}, "maps are torch.sparse_coo: pass a dense tensor"),
        ({"maps": MAPS.long()}, "maps are torch.int64: pass floating-point numbers, maps.float()"),
        ({"level": -1, "order": "up"}, "order is 'up': take 'morf' or 'lerf'"),
    ],
)
def test_what_annotations_rule_out_is_refused_in_one_line(settings, said):
    with pytest.raises(al.AttributionLabError) as no:
        face(**{"maps": MAPS, **settings})
    assert said in str(no.value)
    assert "\n" not in str(no.value)


def test_all_that_is_wrong_is_said_at_once():
    with pytest.raises(
        al.AttributionLabError, match=r"order is 'up'.*; level is -1.*; rounds is 0"
    ):
        face(MAPS, order="up", level=-1, rounds=0)


def test_the_rest_is_let_through_and_numbers_become_pythons():
    targets = torch.zeros(3, dtype=torch.uint8)
    found = face(
        MAPS, MASK, targets, level=np.float32(0.5), rounds=np.uint8(3), by=abs, anything=MAPS
    )
    assert found == (0.5, 1, {"rounds": 3})
    assert [type(each) for each in (found[0], found[1], found[2]["rounds"])] == [float, int, int]


class Table(TypedDict, total=False):
    rounds: Count
    inner: Options


NAMES = ["uniform", "nonuniform"]
PLAIN = [
    (1, float, 1.0),
    (3, int | float, 3),
    (True, bool, True),
    ([255, 127, 0], tuple[Byte, Byte, Byte], (255, 127, 0)),
    ([], tuple[Color, ...], ()),
    ([[1, 2, 3], [4, 5, 6]], tuple[Color, ...], ((1, 2, 3), (4, 5, 6))),
    ([[1, 2, 3]], Sequence[Color], ((1, 2, 3),)),
    ([0.5, 1], Annotated[tuple[Share, Share], rising], (0.5, 1.0)),
    (torch.tensor([1, 2]), Sequence[int], (1, 2)),
    (np.array([1, 2], np.uint8), Sequence[int], (1, 2)),
    (["bezier"], str | tuple[str, ...], ("bezier",)),
]


@pytest.mark.parametrize(("value", "annotation", "plain"), PLAIN)
def test_numbers_become_pythons_and_lists_tuples_of_them(value, annotation, plain):
    found = plain_arguments({"it": value}, {"it": annotation})["it"]
    assert repr(found) == repr(plain)  # 1 and 1.0 differ


@pytest.mark.parametrize(
    ("value", "annotation", "said"),
    [
        ([255, 127], Color, "it is [255, 127]: pass a list of 3 integers"),
        ([255, 127, 0.5], Color, "it[2] is 0.5: take an integer from 0 to 255"),
        ("bezier", tuple[str, ...], "it is 'bezier': pass a list of texts"),
        ([1, 2], tuple[Color, ...], "it[0] is 1: pass a list of 3 integers"),
        ({"a": [1]}, Mapping[str, Color], "it['a'] is [1]: pass a list of 3 integers"),
        ({1: 2}, Mapping[str, int], "a key of it is 1: pass a text"),
        (3, Mapping[str, int], "it is 3: pass a mapping"),
        ({"a": 1}, str | Mapping[str, str], "it['a'] is 1: pass a text"),
        (torch.zeros(2, 2), Sequence[float], "it is torch.float32 of shape (2, 2): pass a list"),
        ([], Annotated[Sequence[int], not_empty], "it is empty: give at least one"),
        ([2, 1], Annotated[tuple[int, int], rising], "it is (2, 1): give the smaller number first"),
        (["even"], Annotated[Sequence[str], named(NAMES)], "it is 'even': known are nonuniform,"),
        ("uniformm", Annotated[str, named(NAMES)], "it is 'uniformm': did you mean 'uniform'?"),
        ([], Annotated[Sequence[str], named(NAMES)], "it is empty: give at least one of uniform"),
        (" ", Text, "it is ' ': write a text that is not empty"),
        *((name, Name, "of one line that is not empty") for name in ("", "a\nb", "x" * 201)),
        ({"rounds": 0, "inner": {"rounds": "x"}}, Table, "it.rounds is 0: take an integer of"),
        ({"inner": {"rounds": "x"}}, Table, "it.inner.rounds is 'x': take an integer of"),
        ({"round": 3}, Table, "it has no 'round': did you mean 'rounds'?"),
        (3, Table, "it is 3: write a table of rounds, inner"),
        (3, nn.Module, "it is of type int: pass an nn.Module"),
        (3, np.random.Generator, "it is 3: pass a numpy.random.Generator"),
        (3, al.Truth, "it is of type int: pass one of the class Truth"),
    ],
)
def test_what_lists_tables_and_names_hold_is_looked_at(value, annotation, said):
    [problem] = argument_problems({"it": value}, {"it": annotation})[:1]
    assert problem.startswith(said) or said in problem


def test_names_of_one_line_are_names():
    for name in ("red", "a b", "\N{LATIN SMALL LETTER E WITH ACUTE}", "x" * 200):
        assert argument_problems({"name": name}, {"name": Name}) == []


def test_a_class_checks_what_it_is_made_of():
    @checked_arguments
    @dataclass(frozen=True)
    class Made:
        count: Count
        share: Share = 1

    assert repr(Made(np.int64(2), 1)) == repr(Made(2, 1.0))
    with pytest.raises(al.AttributionLabError, match=r"count is 0.*share is 2"):
        Made(0, share=2)


def test_calls_that_python_refuses_get_its_own_words():
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'maps'"):
        face()
    with pytest.raises(TypeError, match=r"face\(\) got an unexpected keyword argument 'round'"):
        face(MAPS, round=1)
    with pytest.raises(TypeError, match=r"compare\(\) got an unexpected keyword argument 'job'"):
        al.compare(job=2)


SILENT = {
    "a word": lambda: al.metrics.magnitudes(MAPS, "postive"),
    "an output": lambda: al.truth.mask(MASK.int(), torch.tensor([0, 0, 0]), "logits"),
    "classes": lambda: al.truth.mask(MAPS, torch.tensor([0, 0, 0]), "logit"),
    "a width": lambda: al.truth.smoothed(MASK, math.nan),
    "one map": lambda: al.metrics.alignment(MAPS[:1], MASK),
    "one truth": lambda: al.metrics.f1(MAPS, MASK[:1]),
    "a network": lambda: al.exact.trajectory(
        nn.Sequential(nn.Flatten(), nn.Dropout()), MAPS[0], 0, torch.arange(4)
    ),
}


@pytest.mark.parametrize("what", SILENT)
def test_what_once_gave_a_wrong_result_without_a_word_is_refused(what):
    with pytest.raises(al.AttributionLabError, match=r".+ (is|are|in) .+: (take|pass|call) .+"):
        SILENT[what]()
