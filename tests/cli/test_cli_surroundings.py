"""What surrounds a command: the user's Matplotlib, missing packages, versions of Typer, odd names."""

import json
import os
import tomllib
from pathlib import Path

import pytest

from attributionlab.base import AttributionLabError
from attributionlab.cli import app as cli
from attributionlab.cli import options, paths
from cli.command_line import command, python

SMALL = ["--env", "multi-color-sum", "--image-size", "16", "--n", "2", "--jobs", "1"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("variables", "settings"),
    [
        ({"MPLBACKEND": "module://matplotlib_inline.backend_inline"}, ""),
        ({"MPLBACKEND": "module://no_such.backend"}, ""),
        ({"MPLBACKEND": "nonsense"}, ""),
        ({}, "text.usetex: True\nfont.size: 40\n"),
        ({}, "backend: nonsense\naxes.prop_cycle: nonsense\n"),
    ],
)
def test_no_matplotlib_of_the_users_takes_a_figure(folder, variables, settings):
    (folder / "matplotlibrc").write_text(settings)
    files = ["--figure", "t.png", "--html", "t.html", "--json", "t.json"]
    done = command("test", "mine.py:right", *SMALL, *files, cwd=folder, env=variables)
    assert done.returncode in (1, 3), done.stderr
    assert {path.name for path in folder.glob("t.*")} == {"t.png", "t.html", "t.json"}


@pytest.mark.parametrize("before", [None, "svg"])
def test_the_choice_of_a_backend_outlives_a_command(monkeypatch, before):
    monkeypatch.delenv("MPLBACKEND", raising=False)
    if before:
        monkeypatch.setenv("MPLBACKEND", before)
    assert cli.main(["--version"]) == 0
    assert os.environ.get("MPLBACKEND") == before


def test_a_writer_that_fails_takes_no_other_file_with_it(tmp_path):
    def fails(path):
        raise RuntimeError("no latex")

    def lacks(path):
        raise ModuleNotFoundError("No module named 'PIL.Image'", name="PIL.Image")

    def refuses(path):
        raise AttributionLabError("too large: take less")

    writers = {"figure": fails, "html": lacks, "csv": refuses, "json": Path.touch}
    places = {name: tmp_path / f"t.{name}" for name in (*writers, "unknown")}
    with pytest.raises(AttributionLabError) as caught:
        paths.write_all(places, writers)
    assert [path.name for path in tmp_path.iterdir()] == ["t.json"]
    assert len(caught.value.problems) == 3
    said = str(caught.value)
    for part in ("--figure", "t.figure", "no latex", "pip install pillow", "too large"):
        assert part in said
    with pytest.raises(KeyboardInterrupt):
        paths.write_all(places, {"csv": raising_interrupt, "json": Path.touch})


def raising_interrupt(path):
    raise KeyboardInterrupt


BLOCKED = """
import sys
import tomllib
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {package!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Block())
from attributionlab.cli.app import main
sys.exit(main())
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("package", "installed", "written"),
    [
        ("torch", "torch", []),
        ("captum", "captum", []),
        ("scipy", "scipy", []),
        ("skimage", "scikit-image", []),
        ("matplotlib", "matplotlib", []),
        ("jinja2", "jinja2", ["t.json", "t.parquet"]),
        ("pyarrow", "", ["t.html", "t.json"]),
    ],
)
def test_a_missing_package_is_2_and_one_line_with_its_name(folder, package, installed, written):
    code, files = BLOCKED.format(package=package), []
    for suffix in ("html", "parquet", "json"):
        files += [f"--{suffix}", f"t.{suffix}"]
    done = python("-c", code, "test", "mine.py:right", *SMALL, *files, cwd=folder)
    assert done.returncode == 2
    [line] = [each for each in done.stderr.splitlines() if each.startswith("attributionlab: ")]
    assert package in line
    assert f"pip install {installed}" in line or not installed
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in folder.glob("t.*")) == written


def test_an_import_that_fails_in_our_own_code_is_a_bug(capsys, monkeypatch):
    def fails():
        from attributionlab.cli import nothing_of_this_name  # noqa: F401

    monkeypatch.setattr("attributionlab.cli.listing.print_names", fails)
    assert cli.main(["list"]) == 70
    assert "this is a bug" in capsys.readouterr().err


USAGE = [
    (["test"], ("method", "see attributionlab test --help")),
    (["test", "saliency", "--nn", "3"], ("--nn (did you mean --n?)", "attributionlab test --help")),
    (
        ["test", "saliency", "--questions", "5"],
        ("--questions (did you mean --n?): ", "test --help"),
    ),
    (
        ["metric", "sparsity", "--environment=a"],
        ("--environment (did you mean --env?): ", "--help"),
    ),
    (["live", "--size", "48"], ("option --size (did you mean --image-size?): ", "live --help")),
    (["grade", "--output", "a"], ("no option --output: ", "see attributionlab grade --help")),
    (["compare", "--method", "lime"], ("no option --method: ", "attributionlab compare --help")),
    (["test", "saliency", "--format", "json"], ("no option --format: ", "test --help")),
    (
        ["test", "saliency", "--n", "many"],
        ("--n", "'many'", "integer", "attributionlab test --help"),
    ),
    (["test", "saliency", "--n", "1.5"], ("--n", "'1.5'", "integer")),
    (["test", "saliency", "--n", "\udcff"], ("--n", r"'\udcff'")),
    (["test", "saliency", "--n", "high"], ("--n", "'high'", "attributionlab test --help")),
    (["test", "saliency", "--n"], ("--n", "see attributionlab test --help")),
    (["test", "saliency", "--quick=3"], ("--quick", "see attributionlab test --help")),
    (["test", "saliency", "more"], ("more", "see attributionlab test --help")),
    (["live"], ("--out", "see attributionlab live --help")),
    (["verify", "--foo"], ("--foo", "see attributionlab verify --help")),
    (["tset"], ("tset", "see attributionlab --help")),
    (["--foo"], ("--foo", "see attributionlab --help")),
]


@pytest.mark.parametrize(("words", "parts"), USAGE)
def test_a_wrong_command_line_is_told_with_value_and_remedy_in_one_line(words, parts, capsys):
    assert cli.main(words) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    for part in parts:
        assert part in error.replace("METHOD", "method")  # as older versions of Typer write it
    assert error.count(parts[1]) == 1  # the value is not said twice


@pytest.mark.parametrize(
    ("named", "failed", "status"),
    [
        ([], ["lime"], 0),
        (["lime"], ["lime"], 1),
        (["lime"], ["rise"], 0),
        (["a\x1b"], ["a\\x1b"], 1),
    ],
)
def test_only_what_was_named_must_fit_everywhere(named, failed, status):
    assert options.status_of(named, iter(failed)) == status


@pytest.mark.long
def test_bytes_that_are_no_text_are_escapes_in_the_command_of_a_report(folder, monkeypatch):
    name = os.fsdecode(b"a\xff.html")
    assert cli.main(["live", "--out", name, "--image-size", "24", "--n", "1"]) == 0
    page = (folder / name).read_text(encoding="utf-8")
    assert r"a\udcff.html" in page
    monkeypatch.setattr(options, "arguments", ["test", name])
    json.dumps(options.command_line()).encode()
    assert options.command_line().encode() == rb"attributionlab test 'a\udcff.html'"


EARLY = """
import os, signal, sys

class Sender:
    def find_spec(self, name, *_):
        if name == MODULE:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Sender())
from attributionlab.__main__ import main
sys.argv[1:] = ["list"]
sys.exit(main())
"""


@pytest.mark.parametrize("module", ["typer", "attributionlab.cli.supervisor"])
def test_ctrl_c_while_the_command_line_is_imported_ends_as_later(module):
    code = f"MODULE = {module!r}\n{EARLY}"
    done = python("-c", code)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_the_command_is_what_answers_ctrl_c():
    path = Path(__file__).parents[2] / "pyproject.toml"
    scripts = tomllib.loads(path.read_text(encoding="utf-8"))["project"]["scripts"]
    assert scripts == {"attributionlab": "attributionlab.__main__:main"}
