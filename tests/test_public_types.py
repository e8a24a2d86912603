"""A type checker knows the public names, and no others, and takes every form of a method."""

import subprocess
import sys
from pathlib import Path

import pytest

import attributionlab as al

PACKAGE = Path(al.__file__).parent
FORMS = """
from typing import Any

import numpy as np
import torch
from captum.attr import InputXGradient
from numpy.typing import NDArray
from torch import Tensor, nn

import attributionlab as al


def plain(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return inputs


def asking(
    model: nn.Module, inputs: Tensor, targets: Tensor, *, baseline: Tensor, steps: int = 3
) -> NDArray[np.float32]:
    return np.zeros(3, dtype=np.float32)


class Called:
    def __call__(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        return inputs


class Own:
    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def attribute(self, inputs: Tensor, target: Tensor) -> Tensor:
        return inputs


maps = np.zeros((8, 3, 24, 24))
report = al.faithfulness_test(plain, n=8)
al.faithfulness_test("saliency", settings={"absolute": True})
al.faithfulness_test(asking)
al.faithfulness_test(Called())
al.faithfulness_test(Own)
al.faithfulness_test(InputXGradient)
al.faithfulness_test(InputXGradient(nn.ReLU()))
al.faithfulness_test(maps)
al.faithfulness_test(torch.zeros(8, 3, 24, 24))
al.faithfulness_test({"multi-color-sum": maps})
al.compare(["saliency", plain, (asking, {"steps": 2})], n=2)
al.compare(plain)
al.rank_methods(["saliency", plain])
verdict: str = report.verdict
images = torch.zeros(2, 3, 4, 4)
al.methods.saliency(nn.Flatten(), images, torch.tensor([0, 1]), abs=True)
al.methods.saliency(model=nn.Flatten(), inputs=images, targets=[0, 1])
al.methods.saliency(lambda some: some.flatten(1), images, "predicted", show_progress=True)
of_score: Tensor = al.methods.lime(
    *(nn.Flatten(), images, lambda outputs: outputs.sum(1)),
    highest=1.0,
    generator=torch.Generator(),
    segmentation="grid",
    cells=2,
)
"""
WRONG = """
al.faithfulness_test(3)
al.faithfulness_test(None)
al.faithfulness_test([plain])
al.methods.saliency(nn.Flatten(), images, 0.5)
"""


def checked(tmp_path, text, *options):
    """What mypy --strict says of a file."""
    (tmp_path / "mine.py").write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache"]
    given = [*options, PACKAGE / "__init__.pyi", tmp_path / "mine.py"]
    done = subprocess.run(
        [*command, *given], capture_output=True, text=True, check=False, cwd=PACKAGE.parent
    )
    return [line for line in done.stdout.splitlines() if "mine.py" in line]


@pytest.mark.long
def test_an_invented_name_is_an_error_and_the_public_names_are_none(tmp_path):
    names = "\n".join(f"al.{name}" for name in [*al.__all__, "__version__"])
    # What the package imports is skipped: it takes mypy minutes, and is checked elsewhere.
    options = ["--follow-imports=skip", "--config-file="]
    assert not checked(tmp_path, f"import attributionlab as al\n{names}\n", *options)
    [said] = checked(tmp_path, "import attributionlab as al\n\nal.laod\n", *options)
    assert "mine.py:3" in said
    assert '"laod"' in said


@pytest.mark.slow
def test_every_form_of_a_method_passes_a_type_checker_and_nothing_else(tmp_path):
    assert checked(tmp_path, FORMS) == []
    found = checked(tmp_path, FORMS + WRONG)
    first = len(FORMS.splitlines()) + 2
    assert [f":{line}:" in said for line, said in enumerate(found, first)] == [True] * 4
