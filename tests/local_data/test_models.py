"""A user's network comes from the file that makes it; whatever is wrong there is said in one line."""

import warnings
from functools import partial
from pathlib import Path

import pytest
import torch

from attributionlab.runs import local_model
from refusals import refusal_of

SOURCE = """
import torch
from torch import nn

network = nn.Sequential(nn.Dropout(), nn.Flatten(), nn.Linear(12, 2))
number = 3

class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(12, 3)

    def forward(self, images):
        return self.layer(images.flatten(1))

def made():
    return Own()

def broken():
    raise RuntimeError("no weights\\nhere")

def returns_text():
    return "weights"

def needs(path):
    return Own()

class Stubborn(Own):
    def train(self, mode=True):
        return self

class Silent(Own):
    def train(self, mode=True):
        super().train(mode)

class Failing(Own):
    def train(self, mode=True):
        raise RuntimeError("never")

class InPlace(Own):
    def forward(self, images):
        return super().forward(images.sub_(0.5).div_(0.25))
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(SOURCE, encoding="utf-8")
    return path


refused = partial(refusal_of, local_model)


@pytest.mark.parametrize(("name", "outputs"), [("network", 2), ("made", 3), ("Own", 3)])
def test_a_network_a_function_and_a_class_give_a_network_in_eval_mode(file, name, outputs):
    model = local_model(f"{file}:{name}")
    assert not any(module.training for module in model.modules())
    assert model(torch.zeros(4, 3, 2, 2)).shape == (4, outputs)


def test_a_network_that_stays_in_training_mode_is_refused(file):
    message = refused(f"{file}:Stubborn")
    assert f"{file}:Stubborn stays in training mode" in message
    assert not local_model(f"{file}:Silent").training
    assert "Failing raised RuntimeError: never in eval()" in refused(f"{file}:Failing")


def test_a_network_that_works_in_place_leaves_its_images_as_they_are(file):
    images = torch.rand(2, 3, 2, 2, generator=torch.Generator().manual_seed(0))
    before = images.clone()
    model = local_model(f"{file}:InPlace")
    outputs = model(images)
    assert torch.equal(images, before)
    assert torch.equal(outputs, model.layer(((before - 0.5) / 0.25).flatten(1)))
    leaf = images.requires_grad_()  # which nothing may change in place
    model(leaf).sum().backward()
    assert leaf.grad is not None


def test_a_scripted_network_is_taken_as_it_is(file):
    file.write_text(SOURCE + "\ndef scripted():\n    return torch.jit.script(Own())\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated; its networks are not gone
        model = local_model(f"{file}:scripted")
    assert model(torch.zeros(1, 3, 2, 2)).shape == (1, 3)


def test_what_is_no_network_is_refused_with_its_type(file):
    assert "number is of type int" in refused(f"{file}:number")
    assert "returned something of type str" in refused(f"{file}:returns_text")


def test_what_a_file_raises_is_said_in_one_line_with_its_place(file):
    assert "RuntimeError: no weights here (mine.py, line 20)" in refused(f"{file}:broken")
    assert "TypeError" in refused(f"{file}:needs")


def test_references_that_lead_nowhere_are_refused(file):
    for nowhere in ("resnet", ":network", ""):
        assert refused(nowhere) == f"no network named in {nowhere!r}: write path/to/file.py:name"
    assert f"write {file}:name" in refused(str(file))
    assert "did you mean 'network'?" in refused(f"{file}:netwrk")
    assert "no file at" in refused(f"{file.parent / 'other.py'}:network")


def test_a_path_is_a_reference_too_and_other_types_are_refused(file, without_shape_checks):
    assert local_model(Path(f"{file}:made")).layer.out_features == 3
    assert refused(file) == f"no network named in {str(file)!r}: write {file}:name"
    expected = "the reference is of type NoneType: write path/to/file.py:name"
    assert refused(None) == expected
