"""Command lines with one odd value: each ends with a documented status, a refused one in one line."""

import random
import shutil

import numpy as np
import pytest
import typer

from attributionlab import AttributionLabError
from attributionlab.cli import app as cli
from unchanged import tree

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]

LINES = 25
"""Of each command, drawn from all pairs of a parameter and an odd value."""
SMALL = ["--image-size", "12", "--n", "1"]
SWEEP = """
environments = [{ name = "multi-color-sum", image_size = 12 }]
methods = ["random"]
n = 1
"""
USUAL = {
    "list": [],
    "show": ["multi-color-sum"],
    "verify": ["single-color-sum"],
    "test": ["random", "--env", "multi-color-sum", *SMALL],
    "demo": ["--no-open"],
    "compare": ["random", "--env", "multi-color-sum", *SMALL],
    "metric": ["sparsity", "--image-size", "12"],
    "unseen": ["random", "--image-size", "12", "--n", "2"],
    "cards": ["sparsity", "--image-size", "12", "--out", "new"],
    "leaderboard": ["random", "saliency"],
    "metrics": ["sparsity"],
    "results": [],
    "reproduce": ["table-1", "--quick"],
    "export": ["multi-color-sum", "--out", "new", "--n", "1"],
    "live": [*SMALL, "--out", "new.html"],
    "score": ["folder", "maps.npy"],
    "seal": ["--out", "new.zip", "--answers", "key.zip"],
    "check-submission": ["lab.zip", "folder"],
    "grade": ["lab.zip", "key.zip", "folder"],
    "sweep": ["sweep.toml", "--out", "new"],
    "status": ["folder"],
    "merge": ["new", "folder"],
    "slides": ["--out", "new", "--notebooks", "folder"],
    "course": ["--out", "new"],
    "class": ["folder"],
    "train": ["quadrants", "--out", "new.safetensors"],
}
"""Arguments in good order, and little work."""
ODD = (
    *("", " ", "nan", "inf", "-1", "-0", "1e400", "1" * 400, "a,b", "=", "a=", "=b", "[]", "{}"),
    *("None", "0x10", "\udcff", "\n", "..", "folder", "missing.toml", "binary.npy", "x" * 300),
    *(
        "file.py:",
        ":name",
        "module:",
        "folder/x.json",
        "ü",
        "-",
        "--",
        "\N{RIGHT-TO-LEFT OVERRIDE}",
    ),
)
COSTLY = {
    "attributionlab.verdicts.faithfulness_test": {"demo", "test"},
    "attributionlab.verdicts.check_metric": {"metric"},
    "attributionlab.verdicts.metric_test": {"metric", "unseen"},
    "attributionlab.verdicts.unseen_test": {"unseen"},
    "attributionlab.worlds.verify": {"verify"},
    "attributionlab.worlds.make_trained": {"train"},
    "attributionlab.verdicts.metric_cards": {"cards"},
    "attributionlab.verdicts.protocol_results": {"results"},
    "attributionlab.verdicts.rank_methods": {"leaderboard"},
    "attributionlab.verdicts.rank_metrics": {"metrics"},
    "attributionlab.teaching.seal_laboratory": {"seal"},
    "attributionlab.papers.reproduce_all": {"reproduce"},
    "attributionlab.papers.reproduce": {"reproduce"},
}
"""What begins the work of commands that have too much of it for a test."""
REACHED = "stopped before the work"
COMMANDS = typer.main.get_command(cli.app).commands


def line_of(command, parameter, value):
    """The usual line of a command with an odd value for one of its parameters."""
    usual = list(USUAL[command])
    if parameter.param_type_name == "argument":
        places = [p for p in COMMANDS[command].params if p.param_type_name == "argument"]
        place = places.index(parameter)
        return [command, *usual[:place], value, *usual[place + 1 :]]
    option = parameter.opts[0]
    if parameter.is_flag:
        return [command, *usual, f"{option}={value}"]
    if option in usual:
        place = usual.index(option)
        usual[place : place + 2] = []
    return [command, *usual, option, value]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where a command runs: a folder within another one, which ".." is."""
    place = tmp_path / "within" / "here"
    (place / "folder").mkdir(parents=True)
    (place / "sweep.toml").write_text(SWEEP, encoding="utf-8")
    (place / "binary.npy").write_bytes(bytes(range(256)))
    np.save(place / "maps.npy", np.zeros((1, 12, 12)))
    monkeypatch.chdir(place)
    return place


def test_every_command_has_a_usual_line():
    assert USUAL.keys() == COMMANDS.keys()


@pytest.mark.parametrize("command", USUAL)
def test_an_odd_value_ends_in_a_documented_status(command, folder, monkeypatch, capsys):
    def stop(*_, **__):
        raise AttributionLabError(REACHED)

    for name, commands in COSTLY.items():
        if command in commands:
            monkeypatch.setattr(name, stop)
    parameters = [p for p in COMMANDS[command].params if p.name != "help"]
    pairs = [(parameter, value) for parameter in parameters for value in ODD]
    for parameter, value in random.Random(command).sample(pairs, min(LINES, len(pairs))):
        line = line_of(command, parameter, value)
        before = tree(folder.parent)
        status = cli.main(line)
        said = capsys.readouterr().err
        after = tree(folder.parent)
        assert status in range(5), (line, said)
        assert "Traceback" not in said, (line, said)
        if status == 2:
            refusals = [each for each in said.splitlines() if each.startswith("attributionlab:")]
            assert len(refusals) == 1, (line, said)
            assert after == before, (line, said)
        for name in sorted(after.keys() - before.keys(), reverse=True):  # not to be met again
            path = folder.parent / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
