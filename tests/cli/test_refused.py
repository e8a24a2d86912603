"""Commands that are refused leave everything as it was; files of others are never replaced."""

import io
import os
import shlex
import shutil

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from attributionlab.base import is_made_here
from attributionlab.cli import app as cli
from cli.command_line import FILES
from sealed_cases import hand_in, sealed
from unchanged import tree

SWEEP = """
environments = [{ name = "multi-color-sum", image_size = 12 }]
methods = ["random"]
n = 2
"""
THEIRS = {
    **{name: text for name, text in FILES.items() if name != "mine.py"},
    "methods.py": FILES["mine.py"],
    "own/part.py": FILES["mine.py"],
    "metrics.py": """
class Scorer:
    def __call__(self, attributions):
        return attributions.sum((1, 2, 3))
    @property
    def higher_is_better(self):
        raise RuntimeError("boom")
scorer = Scorer()
number = 3
""",
    "mine.py": "import aid\ndef f(model, inputs, targets): return inputs\n",
    "aid.py": "K = 1\n",
    "notes.json": '{"schema": 1, "versions": {"numpy": "2"}, "command": "attributionlab test"}',
    "notes.html": "<!doctype html><title>AttributionLab</title>",
    "notes.md": "# AttributionLab\n| method | F1 |\n|---|---|\n",
    "notes.tex": "% AttributionLab\n\\begin{table}\\end{table}\n",
    "notes.csv": "method,environment,mine\n1,2,3\n",
    "notes.svg": "<svg><title>AttributionLab</title></svg>",
    "sub/answers.json": "{}",
    "sub.zip": "a submission",
    "lab.zip": "a laboratory",
    "key.zip": "a key",
    "site/index.html": "<h1>mine</h1>",
    "slides/a.png": "mine",
    "books/a.ipynb": '{"cells": []}',
    "good.toml": SWEEP,
    "bad.toml": SWEEP.replace("random", "nope"),
    "preset.toml": SWEEP + "preset = ['paper']\n",
}
FIGURE = ("notes.svg", "notes.png", "notes.pdf")
WRITERS = {
    "test random": {"json": ["notes.json"], "csv": ["notes.csv"], "html": ["notes.html"],
                    "parquet": ["notes.parquet"], "figure": FIGURE},
    "compare random": {"json": ["notes.json"], "csv": ["notes.csv"], "maps": FIGURE,
                       "parquet": ["notes.parquet"], "figure": FIGURE, "latex": ["notes.tex"],
                       "markdown": ["notes.md"]},
    "metric sparsity": {"json": ["notes.json"], "csv": ["notes.csv"], "html": ["notes.html"],
                        "figure": FIGURE},
    "leaderboard": {"json": ["notes.json"], "csv": ["notes.csv"], "figure": FIGURE,
                    "latex": ["notes.tex"], "markdown": ["notes.md"]},
    "metrics": {"json": ["notes.json"], "csv": ["notes.csv"], "figure": FIGURE,
                "latex": ["notes.tex"], "markdown": ["notes.md"]},
    "reproduce table-1": {"latex": ["notes.tex"], "markdown": ["notes.md"]},
    "show number-checker": {"draw": FIGURE},
    "verify number-checker": {"json": ["notes.json"]},
    "demo --no-open": {"html": ["notes.html"]},
    "live": {"out": ["notes.html"]},
    "score sub lab.zip": {"json": ["notes.json"]},
    "grade lab.zip key.zip sub": {"csv": ["notes.csv", "sub.zip", "sub/answers.json"],
                                  "html": ["site", "notes.html"]},
    "export multi-color-sum": {"out": ["site", "sub.zip"]},
    "seal --out new.zip": {"answers": ["key.zip"]},
}  # fmt: skip
REFUSALS = {
    "test {} --env small.toml --json x.json": {
        "salience": "no method named 'salience': did you mean 'saliency'?",
        "nowhere.py:f": "no file at 'nowhere.py'",
        "methods.py:rihgt": "methods.py has no 'rihgt': did you mean 'right'?",
        "methods.py:broken": "broken raised ValueError: no such luck on small",
        "methods.py:leave": "leave raised SystemExit: 0 on small",
        "methods.py": "'methods.py' does not name a function: write methods.py:",
        "deletion": "deletion is a metric, not an attribution method: use attributionlab metric del",
        f"{'y' * 400}.py:f": "no file at",
        "no.module:f": "module 'no.module' cannot be imported",
        "torch:add": "add raised TypeError",
        "captum.attr:Attribution": "Attribution is abstract: pass one of Captum",
        "methods.py:right --set by": "--set 'by': write KEY=VALUE",
        "methods.py:shifted --set by=1 --set by=2": "by twice, last by 'by=2'",
        "methods.py:shifted --set bi=1": "has no setting 'bi': known are by",
        "oracle --n 0": "n is 0: take an integer from 1 to",
        "oracle --n many": "Invalid value for '--n'",
        "oracle --jobs 0": "jobs is 0: give an integer above 0",
        "oracle --claim sined": "claim is 'sined': did you mean 'signed'?",
        "oracle --device tpu9": "device is 'tpu9'",
        "oracle --figure .": "'.' is a folder: give the path of a file",
        "oracle --figure a.pdf --size A4": "--size is 'A4'",
        "oracle --size page": "add --figure",
        "oracle --figure a.jpg": "name it .png, .pdf or .svg",
        "oracle --quick --image-size 100": "--image-size is 100, --quick takes 72",
        "oracle --image-size 7": "image_size is 7: take an integer from 8 to 1024",
        "oracle --html ''": "--html is '': give a value, or leave --html out",
        "oracle --foo": "--foo",
        "oracle --env small.toml": "name each once",
        "oracle --also camouflage:-1": "also: camouflage is '-1'",
        "random --also seeds:0": "also: seeds is 0",
    },
    "test random --json x.json {}": {
        "--implementation trained --one-network --image-size 48": "--image-size is 48 ... side 24",
        "--env multi": "no environment named 'multi'",
        "--env gone.toml": "no environment file at 'gone.toml'",
        f"--env {'x' * 400}.toml": "no environment file at",
        "--env random:2 --n 0": "n is 0",
        "--env random:0 --csv x.csv": "n is 0",
        "--csv x.HTML": "--csv is 'x.HTML', the name of another kind of file: name it .csv",
        "--html x.png": "--html is 'x.png', the name of another kind of file: name it .html",
        "--csv x.json": "--json and --csv are both 'x.json': give two paths",
    },
    "test {}": {
        "random --json no/out.json": "there is no folder 'no'",
        **dict.fromkeys(("nope --out o", "nope --env random:2"), "no method named 'nope'"),
        "mine.py:g": "mine.py has no 'g'",
        "mine.py:f --json aid.py": "aid.py', a file that AttributionLab did not write",
        "aid.py --json x.json": "does not name a function",
        "methods.py:right --env small.toml --json methods.py": "an input file: write to another path",
        "methods.py:right --env small.toml --json small.toml": "an input file: write to another path",
        "methods.py:right --env small.toml --json images.toml": "an input file: write to another path",
        "methods:right --env small.toml --json methods.py": "an input file: write to another path",
        "own.part:right --env small.toml --json own/part.py": "an input file: write to another path",
        "maps.npy --env small.toml --n 2 --json maps.npy": "an input file: write to another path",
    },
    "compare {}": {
        "methods.py:right --csv t.txt --json t.txt": "--csv and --json are both 't.txt'",
        "saliency --html a.html": "no option --html (it writes no page: take --figure PATH, or --html",
        "methods.py:right --latex t.csv": "--latex is 't.csv', ... name it .tex",
        "methods.py:right --maps maps.gif": "--maps is 'maps.gif': name it .png, .pdf or .svg",
        "methods.py:right --csv missing/t.csv": "there is no folder 'missing'",
        "methods.py:right --preset papr": "preset is 'papr': did you mean 'paper'",
        "random --n 0 --out o": "n is 0",
        "random --jobs 0 --out a/b/o": "jobs is 0",
        "random --claim posative": "claim is 'posative': did you mean 'positive'",
        "nope --out o": "no method named 'nope'",
        "random random --out o": "twice",
        "random --env nope --out o --json x.json": "no environment named 'nope'",
        "maps.npy --env small.toml --n 2 --json maps.npy": "an input file: write to another path",
    },
    "metric {}": {
        "insertions": "no metric named 'insertions': did you mean 'insertion'?",
        "max-sensitivity": "max-sensitivity cannot be tested: ... metrics.max_sensitivity instead",
        "insertion --lower-is-better": "insertion already declares its direction",
        "insertion --env small.toml --json small.toml": "--json is 'small.toml', an input file",
        "insertion --method maps.npy --n 2 --json maps.npy": "an input file: write to another path",
        "metrics.py:nothing": "nothing",
        "metrics.py:number": "metric is 3: pass a name or a function",
        "metrics.py:scorer": "'higher_is_better' of Scorer ... boom (metrics.py, line 7): let",
        "insertion --output class": "output is 'class'",
        "saliency": "saliency is an attribution method, not a metric: use attributionlab test saliency",
        "metrics.py": "does not name a function: write metrics.py:Scorer; it defines Scorer",
        "none.py": "no file at 'none.py'",
        "insertion --dose share": "--dose is 'share': write AXIS=NUMBER",
        "insertion --dose 'share=0;1'": "--dose is 'share=0;1': write AXIS=NUMBER",
        "insertion --dose sharing=1": "no axis named 'sharing': did you mean 'share'?",
        "insertion --dose x=1 --out o": "no axis named 'x'",
        "insertion --env random:0": "n is 0: take an integer from 1",
        "insertion --n 0 --threshold 7": "n is 0: ... ; threshold is 7",
        "insertion --jobs 0 --out o": "jobs is 0",
        "insertion --method salience": "no method named 'salience'",
        "insertion --figure a.gif": "--figure is 'a.gif': name it .png, .pdf or .svg",
        "insertion --csv a.x --json a.x": "--json and --csv are both 'a.x'",
        "nope --env random:2 --out o": "no metric named 'nope'",
        "sparsity --n 1 --out o": "n is 1",
    },
    "cards {}": {
        "insertions --out a": "no metric named 'insertions': did you mean 'insertion'?",
        "--dose share --out a": "--dose is 'share': write AXIS=NUMBER",
        "insertion --dose x=1 --out o": "no axis named 'x'",
        "--out notes.csv": "'notes.csv' cannot be a folder",
        "insertion": "--out",
        "--env nope --out o": "no environment named 'nope'",
        "sparsity --n 1 --out o": "n is 1",
        "--out site": "site",
        "insertion --jobs 0 --out o": "jobs is 0",
        **{
            f"precision --out {name}/out": f"{name}' is a folder: give the path of a file"
            for name in ("index.html", "table.csv", "precision.html")
        },
    },
    "live --image-size 24 --n 1 {}": {
        "--env multi-color-sun --out new.html": "'multi-color-sun': did you mean 'multi-color-sum'",
        "--env quadrants --n 0 --out new.html": "n is 0",
        "--env quadrants --image-size 16 --out new.html": "16 x 16 ... 24 to 128",
        "--env quadrants --image-size 300 --out new.html": "300 x 300 ... 24 to 128",
        "--env colors.toml --out colors.toml": "--out",
        "--env quadrants --out no/page.html": "no folder",
        "--env quadrants --out page.json": "--out is 'page.json' ... name it .html",
    },
    "export {}": {
        "multi-color-sum --n 13 --image-size 24 --out out --seed 1": "(it holds another export)",
        "multi-color-sum --out right.npz": "'right.npz' is not a folder: name a new one",
        "multi-color-sum --out no/out": "there is no folder 'no'",
        "multi-color-sum": "Missing option '--out'",
        "multi-color-sum --image-size 24 --quick --out o": "--image-size is 24, --quick takes 72",
        "multi --out new": "no environment named 'multi'",
        "multi-color-sum --n 0 --out new": "n is 0",
    },
    "score {}": {
        "site right.npz --json new.json": "does not hold manifest.json",
        "out gone.npz": "no file at 'gone.npz'",
        "out right.npz --claim sined": "did you mean 'signed'?",
        "out right.npz --json right.npz": "an input file",
        "out right.npz --json out/s.json": "in the export",
    },
    "seal {}": {
        "--answers k.zip": "Missing option '--out'",
        "--out l.zip --answers k.zip --difficulty x": "known",
        "--out l.zip --answers l.zip": "give two paths",
        "--out no/l.zip --answers k.zip": "no folder 'no'",
        "--out notes.csv --answers k.zip": "exists: name a new file",
        "--out new.zip --answers k.zip --n 1": "1",
    },
    "{}": {
        "check-submission sealed/lab.zip none": "cannot read 'none'",
        "check-submission sealed/key.zip ada": "lacks lab.json",
        "check-submission sealed/lab.zip ada": "ada has these 3 problems",
        "check-submission lab.zip sub": "lab.zip",
        "grade sealed/lab.zip sealed/key.zip": "Missing argument",
        "grade sealed/lab.zip sealed/lab.zip ada": "lacks answers.json",
        "grade none.zip sealed/key.zip ada": "cannot read 'none.zip'",
        "grade sealed/lab.zip sealed/key.zip ada --csv sealed/key.zip": "an input file",
        "grade sealed/lab.zip sealed/key.zip ada --html site": "not empty",
        "grade sealed/lab.zip sealed/key.zip ada --html notes.csv": "is not a folder",
        "grade lab.zip key.zip sub --csv new.csv --html new": "lab.zip",
        "demo --html no/page.html": "there is no folder 'no'",
        "demo --no-open --html notes.html": "a file that AttributionLab did not write: name another",
        "show small.toml --draw no.gif": "--draw is 'no.gif'",
        "show small.toml --draw small.toml": "small.toml",
        "show colors.toml --draw no.png": "45 neurons in layer 1",
        "show nope --draw new.png": "no environment named 'nope'",
        "show quadrants --implementation trained --draw no.png": "--draw: ... a trained network",
        "show random:2:easy:7 --draw no.png": "name one, like random:1:easy:7, or",
        "verify nope --json new.json": "no environment named 'nope'",
        "train quadrants": "Missing option '--out'",
        "train quadrants --out a.pt": "--out is 'a.pt': name it NAME.safetensors",
        "train nope --out a.safetensors": "no environment named 'nope'",
        "train quadrants --out a.safetensors --architecture vits": "did you mean 'vit'?",
        "train quadrants --out no/a.safetensors": "there is no folder 'no'",
        "train quadrants --out a.safetensors --samples 0": "samples is 0",
        "train quadrants --out a.safetensors --samples 100000001": "samples is 100000001: take",
        "train quadrants --out a.safetensors --seed -1": "seed is -1",
        "train quadrants --out a.safetensors --image-size 26": "image_size is 26",
        "train random:1:easy:0 --out a.safetensors": "cannot be loaded: name a world of the catalog",
        "train number-checker --out a.safetensors": "1 channel",
        "slides --out new --notebooks sub": "'sub' ... --notebooks",
        "course --out slides": "'slides' ... not empty",
        "course --out new --install ' '": "' ' ... in one line",
        "class": "Missing argument",
        "class none.json": "'none.json' ... check the path",
        "class good.toml": "'good.toml' ... not a record",
        "slides --out slides --notebooks books": "",
        "leaderboard maps.npy saliency --n 2 --json maps.npy": "an input file: write to another path",
        "leaderboard nope random --out o": "no method named 'nope'",
        "leaderboard random --out o": "at least two",
        "leaderboard lrp saliency --figure a.gif": "name it .png",
        "leaderboard lrp saliency --json missing/a.json": "no folder",
        "leaderboard --jobs 0 --out o": "jobs is 0",
        "leaderboard --env random:0 --out o": "n is 0",
        "metrics nope --out o": "no metric named 'nope'",
        "metrics --env random:0 --out o": "n is 0",
        "reproduce nope --out o": "'nope'",
        "reproduce all nope --out o": "name all alone",
        "reproduce table-1 --set x --out o": "--set 'x': write KEY=VALUE",
        "reproduce table-1 --set x=1 --out a/o": "x",
        "reproduce table-1 table-2 --jobs 0 --out o": "jobs is 0",
        "reproduce table-1 --n 0 --out o": "0",
        "reproduce figure-2 --device nope --out o": "device is 'nope'",
        "sweep nope.toml --out o": "nope.toml",
        "sweep bad.toml --out o": "no method named 'nope'",
        "sweep preset.toml --out o": "preset",
        "sweep aid.py --out o": "aid.py",
        "sweep good.toml --jobs 0 --out o": "jobs is 0",
        "sweep good.toml --shard 5/4 --out o": "shard is (5, 4): take a pair",
        "sweep good.toml --dry-run --shard x --out o": "'x'",
        "sweep good.toml --scheduler tcp://127.0.0.1:9 --disk 1 --out o": "",
        "status sub": "sub",
        "status new": "new",
        "merge new sub": "sub",
        "merge new new": "new",
        "merge new": "Missing argument",
        "nope": "nope",
    },
}
"""What a command line with these words says: parts of its one line, between " ... "."""
LINES = [
    *(
        (line.format(words), said)
        for line, rest in REFUSALS.items()
        for words, said in rest.items()
    ),
    *(
        (f"{command} --{option} {path}", "" if path[:3] in ("sub", "sit", "key") else path)
        for command, options in WRITERS.items()
        for option, paths in options.items()
        for path in paths
    ),
]


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """A folder with files of the user's, some made with the libraries that we use, too."""
    folder = tmp_path_factory.mktemp("theirs")
    for name, text in THEIRS.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    pd.DataFrame({"method": [1], "environment": [2]}).to_parquet(folder / "notes.parquet")
    figure = Figure()
    figure.suptitle("AttributionLab")
    for suffix in ("png", "pdf"):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=suffix)
        (folder / f"notes.{suffix}").write_bytes(buffer.getvalue())
    np.save(folder / "maps.npy", np.zeros((2, 3, 16, 16)))
    for name in ("index.html", "table.csv", "precision.html"):
        (folder / name / "out" / name).mkdir(parents=True)
    (folder / "sealed").mkdir()
    sealed(folder / "sealed")
    hand_in(folder / "ada", answers={})
    export = ["multi-color-sum", "--n", "13", "--image-size", "24", "--out", str(folder / "out")]
    assert cli.main(["export", *export]) == 0
    masks = np.load(folder / "out" / "arrays.npz")["masks"]
    np.savez(folder / "right.npz", masks.astype(np.float32))
    return folder


@pytest.mark.parametrize(
    ("line", "said"),
    # A scheduler is waited for.
    [pytest.param(*each, marks=[pytest.mark.long] * ("--scheduler" in each[0])) for each in LINES],
)
def test_a_refusal_is_2_and_one_line_and_leaves_everything_as_it_was(
    theirs, monkeypatch, capsys, line, said
):
    monkeypatch.chdir(theirs)
    monkeypatch.setattr("attributionlab.verdicts.metric_trials.check.checked", None)  # not reached
    before = tree(theirs)
    status = cli.main(shlex.split(line))
    after = tree(theirs)
    for name in after.keys() - before.keys():  # not to be met by other lines
        shutil.rmtree(theirs / name, ignore_errors=True)
    error = capsys.readouterr().err
    assert (status, after) == (2, before), error
    [told] = [each for each in error.splitlines() if each.startswith("attributionlab: ")]
    assert not [part for part in said.split(" ... ") if part not in told], told


def test_none_of_the_users_files_is_taken_for_ours(theirs):
    files = [theirs / name for name in THEIRS] + [*theirs.glob("notes.*")]
    assert not [path.name for path in files if is_made_here(path)]


def test_a_date_that_is_no_number_is_refused_before_the_work(theirs, monkeypatch, capsys):
    monkeypatch.chdir(theirs)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "x")
    assert cli.main(["test", "random", "--figure", "new.pdf"]) == 2
    assert "SOURCE_DATE_EPOCH is 'x': set it to whole seconds" in capsys.readouterr().err


def test_a_page_may_have_a_name_that_is_no_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = os.fsdecode(b"\xff.html")
    assert cli.main(["live", "--out", name, "--n", "1", "--image-size", "24"]) == 0
    assert is_made_here(name)


@pytest.mark.long
def test_what_a_command_wrote_it_may_write_again(theirs, tmp_path, monkeypatch, capsys):
    """Every writer's file is known as ours, those of an earlier run too."""
    monkeypatch.chdir(tmp_path)
    size = ("--image-size", "24", "--n", "2")
    suffixes = {"latex": ["tex"], "markdown": ["md"], "out": ["html"]}
    drawn = {name: ["png", "pdf", "svg"] for name in ("figure", "maps", "draw")}
    for command, writers in WRITERS.items():
        if command.split()[0] in (
            "grade",
            "seal",
            "export",
            "score",
            "leaderboard",
            "metrics",
            "demo",
        ):
            continue
        quick = size if command.split()[0] in ("test", "compare", "metric", "live") else ()
        if "verify" in command or "reproduce" in command:
            quick = ("--quick",) if "reproduce" in command else ()
        for turn in range(max(len((suffixes | drawn).get(name, [1])) for name in writers)):
            paths = []
            for name in writers:
                known = (suffixes | drawn).get(name, [name])
                paths += [f"--{name}", f"{name}.{known[turn % len(known)]}"]
            for _ in range(2):
                assert cli.main([*command.split(), *quick, *paths]) != 2, capsys.readouterr().err
            assert all(map(is_made_here, paths[1::2])), paths
