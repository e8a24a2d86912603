"""Every snippet of docs/bring-your-own.md runs as it stands there."""

import re
import shlex
import sys
from pathlib import Path
from types import ModuleType

import captum.attr  # noqa: F401 - pytester forgets what its runs import, and captum is slow
import pytest
import torch
from PIL import Image
from torch import nn

import attributionlab as al
from attributionlab import verdicts
from attributionlab.base import loaded_files
from attributionlab.cli import app as cli
from attributionlab.cli import pytest_plugin
from attributionlab.papers.subjects.drawn_pictures import pictures
from attributionlab.verdicts.faithfulness import protocol as faithfulness
from attributionlab.worlds.environment import catalog

PAGE = Path(__file__).parents[1] / "docs" / "bring-your-own.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
FILES = {
    match[1]: code for _, code in BLOCKS if (match := re.match(r"# ([\w-]+\.(?:py|toml))\n", code))
}

pytestmark = pytest.mark.filterwarnings("ignore:.*rest on a convention")


def tiny_vgg16():
    """What stands for torchvision's network of this name."""
    return nn.Sequential(
        *(nn.Conv2d(3, 4, 3, stride=4), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(4)),
        *(nn.Flatten(), nn.Linear(64, 5)),
    )


class Normalize(nn.Module):
    """What stands for torchvision's transform of this name."""

    def __init__(self, mean, std):
        super().__init__()
        self.mean, self.std = (torch.tensor(values)[:, None, None] for values in (mean, std))

    def forward(self, images):
        return (images - self.mean) / self.std


@pytest.fixture
def photographs(tmp_path, monkeypatch):
    """Two photographs, a file of weights, and the parts of torchvision that the page names."""
    (tmp_path / "photographs").mkdir()
    for index, image in enumerate(pictures(2, 0).images):
        pixels = (255 * image).byte().permute(1, 2, 0).numpy()
        Image.fromarray(pixels).save(tmp_path / "photographs" / f"{index}.jpg")
    torch.save(tiny_vgg16().state_dict(), tmp_path / "vgg16.pth")
    for name, values in {
        "torchvision": {},
        "torchvision.models": {"vgg16": tiny_vgg16},
        "torchvision.transforms": {"Normalize": Normalize},
    }.items():
        module = ModuleType(name)
        vars(module).update(values)
        monkeypatch.setitem(sys.modules, name, module)


@pytest.fixture
def folder(tmp_path, monkeypatch, photographs):
    """A reader's folder with the page's files; environments that are loaded have 40 x 40 pixels, and in
    Python a test asks by default in those two that hide all that a claim asks, on the paper's networks.
    """
    for name, code in FILES.items():
        (tmp_path / name).write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    faithfulness.protocol_document()  # kept from now on: of the names, which the next lines replace
    read = catalog.files.read_spec

    def read_smaller(path):
        table = read(path)
        if "generator" in table:
            table["constants"]["image_size"] = 40
        return table

    monkeypatch.setattr(catalog.files, "read_spec", read_smaller)
    names = faithfulness.DEFAULT_ENVIRONMENTS
    monkeypatch.setattr(verdicts, "DEFAULT_ENVIRONMENTS", names)  # the command asks in all
    asking = [al.load(names[index]) for index in (0, 2)]
    monkeypatch.setattr(faithfulness, "DEFAULT_ENVIRONMENTS", asking)
    yield tmp_path
    sys.modules.pop("mine", None)
    for name in loaded_files():  # a worker of a later test would load them, without torchvision
        sys.modules.pop(name)


def test_the_page_has_snippets_for_python_and_shell_each_a_few_lines_long():
    assert {language for language, _ in BLOCKS} == {"python", "shell", "toml"}
    assert set(FILES) >= {"mine.py", "test_my_method.py", "my-design.toml"}
    assert max(code.count("\n") for _, code in BLOCKS) <= 15


@pytest.mark.long
def test_every_snippet_runs_in_the_order_of_the_page(folder, capsys):
    ran = 0
    for language, code in BLOCKS:
        if code in FILES.values():
            continue
        if language == "python":
            exec(compile(code, PAGE.name, "exec"), {})
            ran += 1
        for line in code.splitlines() if language == "shell" else ():
            command, *arguments = shlex.split(line)
            assert command == "attributionlab"
            status = cli.main(arguments)
            expected = "pass"
            if arguments[0] == "test" and "my-design.toml" in arguments:
                expected = "inconclusive"  # it hides no place, sign or context
            elif arguments[0] == "test" and "--env" not in arguments:
                expected = "fail"  # gradients in all-four, of the default environments
            assert status == cli.options.STATUSES[expected], line
            ran += 1
    assert ran >= 8
    printed = capsys.readouterr().out
    assert "InputXGradient: pass" in printed
    assert "\ninconclusive pass\npass\n" in printed
    rows = "interventions|irrelevant|relevant|not checked"
    said = re.findall(rf"^    ( *(?:{rows}) .*)$", TEXT, re.MULTILINE)
    assert len(said) == 4
    assert all(f"\n  {line}\n" in printed for line in said)
    for name in ("report.html", "report.json", "scores.csv"):
        assert (folder / name).stat().st_size > 100


@pytest.mark.long
def test_the_file_for_pytest_passes(folder, pytester, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    options = ("--strict-markers", "-p", "no:cacheprovider", str(folder / "test_my_method.py"))
    pytester.runpytest_inprocess(*options, plugins=[pytest_plugin]).assert_outcomes(passed=2)


def test_the_table_of_verdicts_has_the_exit_statuses_of_the_command():
    rows = re.findall(r"^\| (\w+) \| .* \| (\d) \|$", TEXT, re.MULTILINE)
    assert {verdict: int(status) for verdict, status in rows} == cli.options.STATUSES


@pytest.mark.long
def test_what_a_function_may_ask_for_is_what_it_is_offered(folder):
    part = TEXT.partition("## What a function can take")[2]
    names = re.search(r"((?:- `.*\n)+)", part)[1]
    asked = re.findall(r"^- `(\w+)`", names, re.MULTILINE)
    offered = {}
    code = f"def method(model, inputs, targets, {', '.join(f'{name}=None' for name in asked)}):\n"
    code += "    seen.update(locals())\n    return inputs"
    exec(code, scope := {"seen": offered})
    al.faithfulness_test(
        scope["method"], al.load("multi-color-sum", image_size=24), n=2, isolated=False
    )
    assert len(asked) == 6
    assert all(offered[name] is not None for name in asked)
