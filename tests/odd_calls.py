"""What nobody should pass, and what has to become of a call with it: a result, or one line."""

import inspect
import math
import random
from types import UnionType
from typing import Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import torch
from torch import nn

import attributionlab as al
from unchanged import changed, of_process

LONGEST = 2000
"""Characters of a refusal: a few values of which each is cut after 200, or the names of all methods."""


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.last = nn.Conv2d(1, 2, 3, padding=1), nn.Linear(32, 3)

    def forward(self, images):
        return self.last(torch.relu(self.hidden(images)).flatten(1))


class Odd:
    """What nobody passes."""


def drawn(*shape):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(0))


MAPS = (2, 1, 4, 4)
ODD = (
    {"nothing": None, "no text": "", "a word": "postive", "nan": math.nan, "infinity": math.inf}
    | {"negative": -1, "zero": 0, "half": 0.5, "huge": 10**30, "beyond floats": 10**400}
    | {"true": True, "no list": [], "no mapping": {}, "an object": Odd(), "bytes": b"x"}
    | {
        "a complex number": 1j,
        "a set": {1},
        "a range": range(3),
        "texts": ["a"],
        "nans": [math.nan],
    }
    | {
        "a ragged list": [[1], [2, 3]],
        "a tuple": (1,),
        "a long text": "x" * 10**5,
        "lines": "a\nb",
    }
    | {"a surrogate": "\udc80", "no values": torch.zeros(0), "a vector": torch.zeros(3)}
    | {
        "a matrix": torch.zeros(2, 3),
        "no maps": torch.zeros(0, 1, 4, 4),
        "zeros": torch.zeros(MAPS),
    }
    | {"one map": torch.zeros(1, 1, 4, 4), "three maps": torch.zeros(3, 1, 4, 4)}
    | {"other sides": torch.zeros(2, 1, 3, 5), "nan maps": torch.full(MAPS, math.nan)}
    | {"integers": torch.zeros(MAPS).long(), "complex": torch.zeros(MAPS) + 0j}
    | {"half precision": torch.zeros(MAPS).half(), "bfloat16": torch.zeros(MAPS).bfloat16()}
    | {"a mask": torch.zeros(MAPS) > 0, "sparse": torch.zeros(MAPS).to_sparse()}
    | {"without memory": torch.zeros(MAPS, device="meta"), "large": torch.full(MAPS, 1e38)}
    | {
        "with gradient": torch.ones(MAPS, requires_grad=True),
        "a target too high": torch.tensor([0, 7]),
    }
    | {"a negative target": torch.tensor([0, -1]), "targets as floats": torch.tensor([0.0, 1.0])}
    | {
        "a scalar": torch.tensor(1),
        "numpy's float": np.float32(0.5),
        "numpy's integer": np.int64(2),
    }
    | {"a small integer": np.uint8(3), "an array": np.zeros(MAPS), "objects": np.array([None, 1])}
)
NETWORKS = {
    "another network": nn.Flatten(),
    "a dropping network": nn.Dropout(),
    "no outputs": nn.Identity(),
    "a network in half precision": Net().half(),
}
"""Functions, too: what a function raises that somebody passes is theirs."""


COSTLY = {"most", "draws", "resamples", "max_evaluations", "bins", "iterations"}
"""Parameters to which a huge number is no mistake, but more work than a test has time for."""


def annotations(function):
    """Annotations by the names of all parameters, those of options included."""
    plain = inspect.unwrap(getattr(function, "__func__", function))
    hints = get_type_hints(plain.__init__ if inspect.isclass(plain) else plain)
    found = {}
    for name, each in inspect.signature(function).parameters.items():
        if each.kind is not each.VAR_KEYWORD:
            found[name] = hints.get(name)
        elif options := get_args(hints[name]):
            found |= get_type_hints(options[0])
    return found


def parameters(function):
    """Names of all parameters, those of options included, and of the ones that must be given."""
    signature, names = inspect.signature(function), list(annotations(function))
    needed = [n for n, p in signature.parameters.items() if p.default is p.empty and n in names]
    return names, needed


def odd_calls(face, names, calls):
    """Pairs of a parameter and the name of an odd value, drawn for a function."""
    pairs = [
        (name, odd)
        for name in names
        for odd in (ODD | NETWORKS if name == "model" else ODD)
        if not (name in COSTLY and odd in ("huge", "beyond floats"))
    ]
    return random.Random(face).sample(pairs, min(calls, len(pairs)))


def wrong_words(function, given):
    """Parameters that take words only, and were given another text."""
    wrong = []
    for name, hint in annotations(function).items():
        kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        words = [word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]
        value = given.get(name)
        if words and str not in kinds and isinstance(value, str) and value not in words:
            wrong.append(name)
    return wrong


def taken_or_refused(function, given, what):
    """Call a function: it returns or refuses in one line, and nothing global is changed."""
    before = of_process()
    try:
        function(**given)
    except al.AttributionLabError as error:
        message = str(error)
        assert "\n" not in message, what
        assert 10 < len(message) < LONGEST, what
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
    else:
        assert not wrong_words(function, given), what
    assert not (left := changed(before, of_process())), (what, left)
