"""The commands `seal` and `grade`: what they write and say, and what they refuse."""

import json
import zipfile

import numpy as np
import pandas as pd
import pytest

import attributionlab as al
from attributionlab.cli import app as cli
from sealed_cases import SIDE, TEXTS, hand_in, sealed


def run(*arguments):
    return cli.main([*map(str, arguments)])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return sealed(tmp_path_factory.mktemp("sealed"))


@pytest.mark.long
def test_a_laboratory_is_sealed_and_a_submission_marked(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ("--out", "lab.zip", "--answers", "key.zip", "--difficulty", "easy")
    assert run("seal", *words, "--image-size", 24, "--n", 2) == 0
    said = capsys.readouterr().out
    assert "attributionlab grade lab.zip key.zip" in said
    with zipfile.ZipFile("key.zip") as archive:
        answers = json.loads(archive.read("answers.json"))
        truth = np.lib.format.read_array(archive.open("truth.npy"), allow_pickle=False)
    assert answers["rule"] not in said
    assert answers["key"] not in said
    assert al.open_laboratory("lab.zip").images.shape == (2, 3, 24, 24)
    hand_in(tmp_path / "ada", truth, answers["answers"])
    (tmp_path / "bob.zip").write_bytes(b"no zip")
    words = ("--csv", "marks.csv", "--html", "feedback")
    assert run("grade", "lab.zip", "key.zip", "ada", "bob.zip", *words) == 0
    said = capsys.readouterr().out
    assert "ada" in said
    assert "refused" in said
    table = pd.read_csv("marks.csv")
    assert table["submission"].tolist() == ["ada", "bob.zip"]
    assert table["total"].tolist() == [100, 0]
    names = sorted(path.name for path in (tmp_path / "feedback").iterdir())
    assert names == ["1-ada.html", "2-bob.html", "index.html"]


def test_a_student_checks_a_submission_without_the_key(made, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    spec = al.open_laboratory(made.lab).spec
    maps = np.random.default_rng(0).normal(size=(spec["images"][0], SIDE, SIDE))
    # Nothing of it is right: that is not looked at.
    answers = {
        "parts": {},
        "contexts": [],
        "baselines": [],
        "methods": dict.fromkeys(spec["methods"], "passes"),
        "doses": dict.fromkeys(spec["colors"], 0),
        "free": TEXTS,
    }
    hand_in(tmp_path / "ada", maps, answers)
    assert run("check-submission", made.lab, "ada") == 0
    said = capsys.readouterr().out
    assert said.startswith("ada: ")
    assert not any(word in said for word in ("point", "score", "100"))
    hand_in(
        tmp_path / "bob",
        maps[:, :5],
        {**answers, "methods": {}, "parts": 3, "doses": {"a": 0}, "free": {"trust": " "}},
    )
    (tmp_path / "bob" / "notes.txt").touch()
    before = sorted(tmp_path.rglob("*"))
    assert run("check-submission", made.lab, "bob") == 2
    said = capsys.readouterr().err
    assert said.count("\n  ") == 4
    assert said.endswith("attributionlab: bob has these 5 problems: correct them\n")
    for problem in (
        "maps.npz has the shape (4, 5, 24): give one map for each image, (4, 24, 24)",
        "parts is 3: write an object",
        "input-x-gradient, integrated-gradients and feature-ablation are missing and get no points: "
        "mention each under methods",
        "b, c, d, e and f are missing and get no points: mention each under doses",
        "assumed, irrelevant and trust are missing, which a person would read: mention each under free",
    ):
        assert problem in said
    assert al.check_submission(made.lab, "bob") != al.check_submission(made.lab, "ada") == []
    assert sorted(tmp_path.rglob("*")) == before


def test_what_is_missing_is_said_as_questions_md_says_it_below_the_marks(made, tmp_path, capsys):
    hand_in(tmp_path / "ada", answers={"baselines": []})
    assert run("check-submission", made.lab, tmp_path / "ada") == 2
    told = (
        "parts, contexts, methods and doses are missing and get no points: see questions.md\n"
        "  free is missing, which a person would read: see questions.md"  # it never gets any
    )
    assert told in capsys.readouterr().err
    assert run("grade", made.lab, made.key, tmp_path / "ada") == 0
    assert (
        f"\n\n{tmp_path / 'ada'}\n  maps.npz is missing and gets no points: hand in maps.npz and "
        f"answers.json\n  {told}\n" in capsys.readouterr().out
    )
    (tmp_path / "bob").mkdir()
    (tmp_path / "bob" / "answers.json").write_bytes(b"\xff")
    assert run("check-submission", made.lab, tmp_path / "bob") == 2
    assert capsys.readouterr().err.endswith(
        "  maps.npz is missing and gets no points: hand in maps.npz and answers.json\n"
        "  answers.json is not JSON in UTF-8 (byte 0): save it with the encoding UTF-8\n"
        f"attributionlab: {tmp_path / 'bob'} has these 2 problems: correct them\n"
    )
    questions = zipfile.ZipFile(made.lab).read("questions.md").decode()
    assert "missing gets no points, the\nothers count" in questions


def test_marks_that_are_there_stay(made, tmp_path, capsys):
    hand_in(tmp_path / "ada", answers={"baselines": []})
    marks = tmp_path / "marks.csv"
    words = ("grade", made.lab, made.key, tmp_path / "ada", "--csv", marks)
    assert run(*words) == 0
    before = marks.read_bytes()
    assert run(*words) == 2
    assert (
        "marks.csv', which exists: name a new file, or delete it first" in capsys.readouterr().err
    )
    assert marks.read_bytes() == before


def test_answers_in_words_are_printed_below_the_marks(made, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    hand_in(tmp_path / "ada", answers={"free": {"trust": "None,\nreally.\x1b[2J"}})
    hand_in(tmp_path / "bob", answers={})
    assert run("grade", made.lab, made.key, "ada", "bob") == 0
    said = capsys.readouterr().out
    question = al.open_laboratory(made.lab).spec["free"]["trust"]
    assert f"{question}\n  ada: None, really.\\x1b[2J\n" in said
    assert "  bob:" not in said
    assert "free_" not in said
    assert al.open_laboratory(made.lab).spec["free"]["assumed"] not in said  # nobody answered
    assert "same" not in said


def test_what_is_the_same_is_one_column_of_one_table(made, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("ada", "bob"):
        hand_in(tmp_path / name, answers={"baselines": ["x"], "free": {"trust": "None."}})
    assert run("grade", made.lab, made.key, "ada", "bob") == 0
    head, first, *_ = capsys.readouterr().out.splitlines()
    assert head.split()[-1] == "same"
    assert first.endswith("texts 1")
