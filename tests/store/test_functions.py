"""Users' functions as a part of cells: what they are known by, and how they reach other processes."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from attributionlab.runs import fingerprint


def scaled(by, default=0):
    def inner(value, other=default):
        return value * by + other

    return inner


class Scale:
    def __init__(self, by):
        self.by = by

    def __call__(self, value):
        return value * self.by


state = []


def test_functions_of_one_factory_differ_by_what_they_hold():
    different = [
        *(scaled(1), scaled(2), scaled(1, 1), scaled(torch.ones(2)), scaled(torch.zeros(2))),
        *(Scale(1), Scale(2), Scale(1).__call__, Scale(2).__call__, Scale, scaled),
    ]
    assert len({fingerprint(each) for each in different}) == len(different)
    assert fingerprint(scaled(torch.ones(2))) == fingerprint(scaled(torch.ones(2)))
    assert fingerprint(Scale(2).__call__) == fingerprint(Scale(2).__call__)


def test_what_a_function_has_written_meanwhile_changes_nothing():
    def counting(value):
        state.append(value)

    before = fingerprint(counting)
    counting(1)
    assert fingerprint(counting) == before


PROGRAM = """
import torch
from attributionlab.runs.cells import fingerprint
model = torch.nn.Linear(2, 1)
torch.nn.init.ones_(model.weight), torch.nn.init.ones_(model.bias)
print(fingerprint(torch.arange(3.0)), fingerprint({"a": torch.ones(2)}), fingerprint(model.weight))
"""


@pytest.mark.long
def test_tensors_are_known_by_their_values_in_every_process():
    found = [
        subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert found[0].stdout == found[1].stdout
    assert len(set(found[0].stdout.split())) == 3
    assert fingerprint(torch.zeros(3)) != fingerprint(torch.ones(3))
    assert fingerprint(np.zeros(3)) != fingerprint(np.ones(3))
