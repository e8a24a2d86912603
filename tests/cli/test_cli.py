"""The command line: exit statuses, one-line refusals, files whole or not at all."""

import io
import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import attributionlab as al
from attributionlab.base import QUESTIONS
from attributionlab.cli import app as cli
from attributionlab.cli import options as cli_options
from attributionlab.verdicts import CONTROLS
from attributionlab.verdicts.faithfulness.protocol import COUNTED
from cli.command_line import ENVIRONMENT, FILES, command, python, without_progress
from schemas import SCHEMAS, problems


def run(*arguments):
    return cli.main([*arguments])


ASKED = ("--env", "colors.toml", "--n", "13", "--one-network", "--implementation", "paper")
"""Thirteen questions, the fewest that give a pass."""
ONE_NETWORK = ("--env", "small.toml", "--n", "13", "--one-network")


@pytest.mark.long
def test_a_pass_is_0_and_a_fail_is_1(folder, capsys):
    assert run("test", "mine.py:gradients", *ASKED) == 0
    assert "mine.py:gradients: pass" in capsys.readouterr().out
    assert run("test", "mine.py:foreground", *ASKED) == 1
    assert "mine.py:foreground: fail" in capsys.readouterr().out


def test_warnings_as_errors_are_refusals_and_no_bugs(folder, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error", al.AttributionWarning)
        arguments = ["--env", "small.toml", "--n", "2", "--implementation", "paper"]
        assert run("test", "oracle", *arguments) == 2
    assert capsys.readouterr().err.endswith("take 13 or more for a verdict\n")


def test_settings_reach_the_method_and_its_citation(folder, capsys):
    arguments = ["test", "mine.py:shifted", *ONE_NETWORK]
    assert run(*arguments, "--set", "by=0", "--cite") == 0
    assert "mine.py:shifted (by=0) was tested with AttributionLab" in capsys.readouterr().out
    assert run(*arguments, "--set", "by=5") == 1


@pytest.mark.long
def test_the_report_is_written_with_the_command_that_made_it(folder):
    arguments = ["test", "mine.py:gradients", *ASKED, "--seed", "4"]
    assert run(*arguments, "--json", "out.json", "--figure", "out.png") == 0
    document = json.loads((folder / "out.json").read_text(encoding="utf-8"))
    assert document["command"].startswith("attributionlab test mine.py:gradients --env colors.toml")
    assert (document["seed"], document["seed_drawn"]) == (4, False)
    assert (folder / "out.png").read_bytes().startswith(b"\x89PNG")
    assert {path.name for path in folder.iterdir()} >= {"out.json", "out.png"}
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


@pytest.mark.long
def test_a_quick_test_has_images_of_72_pixels_and_can_be_run_again(folder, capsys):
    (folder / "mine.py").write_text(
        "def shape(model, inputs, targets):\n    print(tuple(inputs.shape[2:]))\n    return inputs\n"
    )
    for arguments, side in ((["--quick"], 72), (["--image-size", "20"], 20), ([], 16)):
        command = ["test", "mine.py:shape", "--env", "small.toml", "--n", "2", *arguments]
        assert run(*command, "--json", "out.json") in (0, 1, 3)
        printed = " ".join(capsys.readouterr().out.split())
        assert f"({side}, {side})" in printed
        assert "2 questions" in printed
        assert f"of {side} x {side} pixels each" in printed
        document = json.loads((folder / "out.json").read_text(encoding="utf-8"))
        assert document["command"] == " ".join(["attributionlab", *command, "--json", "out.json"])
        assert document["environments"][0]["constants"]["image_size"] == side


def test_all_problems_of_a_file_are_reported_at_once(folder, capsys):
    (folder / "small.toml").write_text(FILES["small.toml"] + "numbr = 3\naccumulator = 4\n")
    assert run("show", "small.toml") == 2
    error = capsys.readouterr().err
    assert "unknown constant 'numbr'" in error
    assert "accumulator is 4: take 'uniform' or 'nonuniform'" in error


def test_an_interrupt_is_130_and_writes_nothing(folder, capsys):
    arguments = ["test", "mine.py:stopped", "--env", "small.toml", "--json", "out.json"]
    assert run(*arguments) == 130
    said = capsys.readouterr().err.strip().splitlines()
    assert said[-2:] == ["0 of 1 environments were done", "interrupted"]
    assert not (folder / "out.json").exists()


@pytest.mark.long
def test_an_interrupt_tells_what_was_found_before(folder, capsys):
    (folder / "other.toml").write_text(FILES["small.toml"].replace("images.toml", "larger.toml"))
    (folder / "larger.toml").write_text(FILES["images.toml"].replace("16", "24"))
    (folder / "late.py").write_text(
        "def method(model, inputs, targets):\n"
        "    if inputs.shape[-1] == 24:\n"
        "        raise KeyboardInterrupt\n"
        "    return inputs\n"
    )
    two = ["--env", "small.toml", "--env", "other.toml", "--n", "13", "--html", "out.html"]
    assert run("test", "late.py:method", *two) == 130
    said = capsys.readouterr().err.strip().splitlines()
    digest = al.load("small.toml").spec.digest[:8]
    assert said[-2:] == [
        f"1 of 2 environments were done; small (small.toml, {digest}) pass, solved 13 of 13",
        "interrupted",
    ]
    assert not (folder / "out.html").exists()


@pytest.mark.long
def test_every_file_of_a_test_is_written(folder, capsys):
    files = ["--html", "t.html", "--csv", "t.csv", "--parquet", "t.parquet", "--json", "t.json"]
    assert run("test", "mine.py:gradients", *ASKED, *files) == 0
    assert {path.suffix for path in folder.glob("t.*")} == {".html", ".csv", ".parquet", ".json"}
    page = (folder / "t.html").read_text(encoding="utf-8")
    shown = re.sub("<[^>]+>", "", page)  # flags are kept whole by tags
    assert "attributionlab test mine.py:gradients --env colors.toml" in shown


def test_a_file_that_fails_at_the_end_takes_neither_table_nor_other_files_with_it(folder, capsys):
    (folder / "gone").mkdir()
    (folder / "rm.py").write_text(
        "import pathlib\n\n"
        "def method(model, inputs, targets):\n"
        "    if pathlib.Path('gone').exists():\n"
        "        pathlib.Path('gone').rmdir()\n"
        "    return inputs\n"
    )
    files = ["--html", "gone/t.html", "--json", "t.json"]
    assert run("test", "rm.py:method", *ONE_NETWORK, *files) == 2
    captured = capsys.readouterr()
    assert "rm.py:method: pass" in captured.out
    assert "gone" in captured.err
    assert json.loads((folder / "t.json").read_text(encoding="utf-8"))["verdict"] == "pass"


@pytest.mark.long
def test_too_few_images_are_3_and_a_control_that_passes_is_4(folder, capsys, monkeypatch):
    for few in (
        ["small.toml", "--n", "1", "--one-network"],
        ["colors.toml", "--n", "5", "--implementation", "paper"],
    ):
        method = "mine.py:gradients" if "colors.toml" in few else "mine.py:right"
        assert run("test", method, "--env", *few) == 3
        assert "inconclusive" in capsys.readouterr().out
    monkeypatch.setitem(CONTROLS, "random", CONTROLS["oracle"])
    arguments = ["--env", "small.toml", "--n", "13", "--one-network"]
    assert run("test", "mine.py:right", *arguments) == 4
    assert "no verdict" in capsys.readouterr().out


@pytest.mark.long
def test_definitions_of_the_truth_and_drift_are_told_when_asked_for(folder, capsys):
    asked = (*ONE_NETWORK, "--also", "truths", "--also", "camouflage:1")
    assert run("test", "oracle", *asked, "--json", "out.json", "--html", "out.html") == 0
    said = capsys.readouterr().out
    assert re.search(r"insertion +closed form +1 +1 +1 +0\b", said)
    (result,) = json.loads(Path("out.json").read_text(encoding="utf-8"))["environments"]
    assert result["truths"][0]["definition"] == "mask"
    assert len(result["drift"]["networks"]) == 1
    page = Path("out.html").read_text(encoding="utf-8")
    assert 'id="truths"' in page
    assert run("test", "oracle", "--env", "small.toml", "--also", "camouflage:-1") == 2
    assert "also: camouflage is '-1'" in capsys.readouterr().err


@pytest.mark.long
def test_seeds_are_run_and_told(folder, capsys):
    assert run("test", "random", *ASKED, "--also", "seeds:3") == 1
    assert "standard deviation" in capsys.readouterr().out
    assert run("test", "random", "--env", "small.toml", "--also", "seeds:0") == 2
    assert "also: seeds is 0" in capsys.readouterr().err


@pytest.mark.long
def test_two_methods_are_compared_image_by_image(folder, capsys):
    assert run("compare", "mine.py:right", "mine.py:wrong", "--env", "small.toml") == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "mine.py:right (first) minus mine.py:wrong (second), F1 on the same images" in printed
    assert " 32 first " in printed.partition("on the same images")[2]


def test_a_crash_of_ours_is_70_with_its_traceback(folder, capsys, monkeypatch):
    def crash(*_, **__):
        raise RuntimeError("a bug")

    monkeypatch.setattr("attributionlab.verdicts.faithfulness_test", crash)
    assert run("test", "oracle", "--env", "small.toml") == 70
    error = capsys.readouterr().err
    assert "RuntimeError: a bug" in error
    assert error.rstrip().endswith("please report the lines above")


def test_a_file_that_fails_is_not_blamed_on_standard_output(folder, capsys, monkeypatch):
    from attributionlab import worlds

    def fail(name):
        raise FileNotFoundError(2, "No such file or directory", "gone.bin")

    monkeypatch.setattr(worlds, "load", fail)
    assert run("show", "small.toml") == 2
    error = capsys.readouterr().err
    assert error.startswith("attributionlab: cannot use the file 'gone.bin': No such file")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["list"], 0),
        (["--help"], 0),
        (["--version"], 0),
        (["lits"], 2),
        (["test", "saliency", "--env", "halves", "--env", "quadrnts"], 2),
        (["metric", "sparsity", "--env", "quadrnts"], 2),
    ],
)
def test_what_computes_nothing_imports_nothing_heavy(words, status):
    code = (
        "import sys; from attributionlab.cli import main; status = main(sys.argv[1:]);"
        "print('\\n', *{name.split('.')[0] for name in sys.modules}); sys.exit(status)"
    )
    done = python("-c", code, *words)
    assert done.returncode == status, done.stderr
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "attributionlab" in loaded
    assert not loaded & {"torch", "numpy", "scipy", "pandas", "matplotlib", "numba", "captum"}


def test_verify_certifies_and_writes_certificates(folder, capsys):
    assert run("verify", "small.toml", "--json", "certificates.json") == 0
    assert "no mismatches" in capsys.readouterr().out
    [document] = json.loads((folder / "certificates.json").read_text())
    digest = al.load("small.toml").spec.digest[:8]
    assert document["environment"] == f"small (small.toml, {digest})"
    assert document["passed"]
    assert problems(document, "verify") == []


def test_a_failed_certificate_is_1(folder, capsys, monkeypatch):
    from attributionlab import worlds

    load = worlds.load

    def load_broken(name):
        env = load(name)
        env.model.accumulator[0].weight.data[0] *= 2
        return env

    monkeypatch.setattr(worlds, "load", load_broken)
    assert run("verify", "small.toml") == 1
    assert "not certified: small" in capsys.readouterr().out


def test_the_help_says_what_the_defaults_are():
    said = {name: kind.__metadata__[0].help for name, (kind, _) in cli_options.QUESTIONS.items()}
    counts = {name: str(count) for name, (count, _) in COUNTED.items()}
    assert dict(re.findall(r"(\w+): [^.:]*?K \((\d+)\)", said["also"])) == counts
    assert f"Default: {QUESTIONS}, or {cli_options.QUICK_QUESTIONS} with" in said["n"]
    questions, side = cli_options.QUICK_QUESTIONS, cli_options.QUICK_SIZE
    assert f"Ask {questions} questions, with images of {side} x {side}" in said["quick"]


def test_help_without_arguments_says_nothing_more(capsys):
    assert run() == 2
    captured = capsys.readouterr()
    assert "Usage" in captured.out + captured.err
    assert "attributionlab: \n" not in captured.err


@pytest.mark.long
@pytest.mark.parametrize("given", ["--help", "--version", "show multi-color-sum", "list"])
def test_a_reader_that_leaves_is_141(given):
    reading, writing = os.pipe()
    os.close(reading)
    done = command(*given.split(), stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (done.returncode, without_progress(done.stderr)) == (141, "")


@pytest.mark.long
def test_a_reader_that_leaves_takes_no_verdict_and_no_file_with_it(folder):
    arguments = ["test", "mine.py:right", *ONE_NETWORK, "--json", "out.json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "attributionlab", *arguments],
        cwd=folder,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    error = process.stderr.read()
    process.stderr.close()
    assert (process.wait(), without_progress(error.decode())) == (141, "")
    assert (folder / "out.json").exists()


@pytest.mark.filterwarnings("default::attributionlab.AttributionWarning")
def test_names_are_shown_in_ascii_where_need_be_and_warnings_in_one_line_each(folder, monkeypatch):
    """In a terminal that has no other letters."""
    (folder / "ü.py").write_text("def f(model, inputs, targets):\n    return inputs.double()\n")
    # Python opens its streams so where PYTHONIOENCODING=ascii.
    streams = {"stdout": "strict", "stderr": "backslashreplace"}
    for name, errors in streams.items():
        stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors=errors)
        monkeypatch.setattr(sys, name, stream)
    status = run("test", "ü.py:f", *ONE_NETWORK)
    sys.stderr.flush()
    said, told = (getattr(sys, name).buffer.getvalue().decode("ascii") for name in streams)
    assert status == 0, told
    assert "\\xfc.py:f: pass" in said
    assert without_progress(told) == (
        "warning: \\xfc.py:f: attributions of 13 images were float64, which is accepted; "
        "return float32\n"
    )


@pytest.mark.long
def test_methods_are_compared_in_a_table_and_in_files(folder, capsys):
    files = ["--csv", "t.csv", "--parquet", "t.parquet", "--json", "t.json"]
    files += ["--latex", "table.tex", "--markdown", "table.md"]
    figures = ["--figure", "scores.pdf", "--maps", "maps.svg", "--size", "page"]
    arguments = ["compare", "mine.py:gradients", "mine.py:broken", "sobel", *ASKED]
    assert run(*arguments, *files, *figures) == 1  # one of them is broken
    printed = capsys.readouterr().out
    for word in ("colors", "mine.py:gradients", "sobel", "pass", "fail"):
        assert word in printed
    assert "not run: mine.py:broken on colors" in printed
    assert {path.suffix for path in folder.glob("t.*")} == {".csv", ".parquet", ".json"}
    document = json.loads((folder / "t.json").read_text(encoding="utf-8"))
    assert problems(document, "compare") == []
    own = set(SCHEMAS["compare"]["properties"]["results"]["items"]["properties"])
    for result in document["results"]:
        scored = {key: each for key, each in result.items() if key not in own}
        assert problems(scored, "test", "environment") == []
    assert document["command"].startswith("attributionlab compare mine.py:gradients")
    assert (folder / "scores.pdf").read_bytes().startswith(b"%PDF")
    assert (folder / "maps.svg").read_bytes().startswith(b"<?xml")
    rows = (("table.tex", r"sobel & 0 & "), ("table.md", r"\| sobel \| 0 \| "))
    for name, row in rows:
        assert re.search(row, (folder / name).read_text(encoding="utf-8"))


def test_a_comparison_with_a_fresh_seed_says_it_and_how_to_repeat_it(folder, capsys):
    arguments = ["compare", "sobel", "--env", "small.toml", "--image-size", "16", "--n", "2"]
    assert run(*arguments, "--seed", "fresh", "--json", "t.json", "--cite") == 0
    document = json.loads((folder / "t.json").read_text(encoding="utf-8"))
    seed = document["results"][0]["seed"]
    assert document["seed_drawn"]
    assert document["results"][0]["constants"]["image_size"] == 16
    assert f"--seed {seed} --json" in document["command"]
    printed = " ".join(capsys.readouterr().out.split())
    assert f"seed {seed} (fresh)" in printed
    sentence = re.search(
        r"compared on 2 questions for each network \(sobel: \w+\), using (.*?)@software", printed
    )[1]
    assert sentence.startswith("AttributionLab 1")
    assert re.search(r"pixels; a method passes if the exact 95 \\% interval", sentence)
    assert run("compare", "mine.py:right", *arguments[2:], "--no-isolation", "--cite") == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert re.search(r"right: \w+, its code has the fingerprint [0-9a-f]{12} and ran in", printed)
    assert "95 \\% interval" in sentence  # LaTeX, in which % begins a comment
    assert sentence.endswith(" \\citep{attributionlab-software,attributionlab}. ")


@pytest.mark.long
def test_a_comparison_that_is_stopped_writes_what_is_done_and_goes_on(folder, capsys):
    (folder / "stops.py").write_text(
        "import pathlib\n"
        "def stops(model, inputs, targets):\n"
        "    if not pathlib.Path('go').exists():\n"
        "        raise KeyboardInterrupt\n"
        "    return inputs\n",
        encoding="utf-8",
    )
    arguments = ["compare", "sobel", "stops.py:stops", "random", "--env", "small.toml", "--n", "2"]
    arguments += ["--out", "kept", "--jobs", "1", "--json", "t.json"]
    assert run(*arguments) == 130
    assert "1 of 3 runs were done: sobel" in capsys.readouterr().err
    document = json.loads((folder / "t.json").read_text(encoding="utf-8"))
    assert [result["method"] for result in document["results"]] == ["sobel"]
    (folder / "go").touch()
    assert run(*arguments) == 0
    said = capsys.readouterr().err
    assert "comparing, stops.py:stops" in said
    assert "comparing, sobel" not in said
    document = json.loads((folder / "t.json").read_text(encoding="utf-8"))
    names = [result["method"] for result in document["results"]]
    assert names == ["sobel", "stops.py:stops", "random"]


@pytest.mark.long
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_standard_output_is_2_and_one_line(folder):
    with open("/dev/full", "w") as full:
        done = command("--help", stdout=full, stderr=subprocess.PIPE)  # what needs no torch
    assert done.returncode == 2
    assert done.stderr.startswith("attributionlab: cannot write to standard output:")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(os.name == "nt", reason="a shell closes the streams")
@pytest.mark.parametrize(
    ("streams", "given", "status", "says"),
    [
        (">&-", "--help", 2, "attributionlab: cannot write to standard output:"),
        (">&- 2>&-", "--help", 2, ""),
        *((f"2>{where}", "--help", 0, "") for where in ("&-", "/dev/full")),
        *((f"2>{where}", "--nothing", 2, "") for where in ("&-", "/dev/full")),
    ],
)
def test_a_closed_or_full_stream_is_no_crash(streams, given, status, says):
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m attributionlab {given} {streams}"],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status
    said = without_progress(done.stderr)
    assert said.startswith(says)
    assert said.count("\n") == bool(says)


def test_what_strangers_texts_hold_moves_no_cursor(folder, capsys):
    evil = "\x1b[31mred\x07"
    (folder / "evil.py").write_text(
        f"def raises(model, inputs, targets):\n    raise ValueError({evil!r} + 'x' * 10_000)\n"
    )
    small = str(folder / "small.toml")
    assert cli.main(["test", f"{folder}/evil.py:raises", "--env", small, "--n", "2"]) == 2
    assert cli.main(["show", f"{evil}.toml"]) == 2
    cli._say_warning(UserWarning(evil))
    said = capsys.readouterr().err
    assert "\x1b" not in said
    assert "\x07" not in said
    assert said.count(r"\x1b[31mred\x07") == 3
    assert max(map(len, said.splitlines())) < 1_000


@pytest.mark.parametrize(("text", "value"), [("false", False), ("TRUE", True), ("None", None)])
def test_words_for_truth_and_nothing_may_be_spelled_as_elsewhere(text, value):
    assert cli_options.parse_settings([f"key={text}"]) == {"key": value}


def test_show_says_first_what_the_network_computes_and_breaks_lines(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert run("show", "quadrants", "--image-size", "24", "--implementation", "natural") == 0
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 80
    lines = said.splitlines()
    assert [line.split()[0] for line in lines[:2]] == ["quadrants", "claim"]
    assert lines[2].startswith(" " * 23)  # what is broken hangs
    assert "3 x 24 x 24" in said.partition("how its network is built")[0]
    assert "natural: " in said.partition("how its network is built")[2]
    assert "weight_seed" in said.partition("constants of its files")[2]
