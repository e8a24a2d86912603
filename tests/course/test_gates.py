"""Prediction gates: what opens them, what they say, and the file that counts tries."""

import json
import os
import stat
import warnings

import numpy as np
import pytest
import torch

import attributionlab as al
from attributionlab.teaching.course import comparing
from attributionlab.teaching.course import gates as gates_module


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Tries are counted in a folder of the test's own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def gates(folder):
    record = json.loads((folder / "predictions.json").read_text(encoding="utf-8"))
    assert record["schema"] == 1
    return record["gates"]


class Unreadable:
    def tolist(self):
        raise RuntimeError("no values here\nat all")


endless = []
endless.append(endless)

NOTHING = {
    "none": None,
    "ellipsis": ...,
    "blank": "  ",
    "empty list": [],
    "empty array": np.array([]),
    "empty set": set(),
    "a part missing": [1, None, 0],
    "a part of a part missing": [1, (0, ...)],
}
NO_PREDICTION = {
    "function": (len, "builtin_function"),
    "mapping": ({"a": 1}, "dict"),
    "complex": (1j, "complex"),
    "endless": (endless, "recursion"),
    "unreadable": (Unreadable(), "no values here"),
    "sparse": (torch.eye(2).to_sparse(), ""),
}


@pytest.mark.parametrize("prediction", NOTHING.values(), ids=NOTHING)
def test_without_a_prediction_a_gate_waits_and_writes_nothing(prediction, folder, capsys):
    gate = al.course.predict("01.1", prediction)
    assert not gate
    assert capsys.readouterr().out.startswith("01.1 waits")
    assert gate.check([1234]) is False
    assert not gate.open
    assert capsys.readouterr().out == ""
    assert not list(folder.iterdir())


@pytest.mark.parametrize(("prediction", "why"), NO_PREDICTION.values(), ids=NO_PREDICTION)
def test_what_is_no_prediction_is_told_so_in_one_line(prediction, why, folder, capsys):
    assert not al.course.predict("01.1", prediction)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("01.1 waits")
    assert why in line
    assert not list(folder.iterdir())


@pytest.mark.parametrize("name", ["", "01", "01.3 ", 1.3, None], ids=repr)
def test_a_gate_without_a_name_is_refused(name):
    with pytest.raises(al.AttributionLabError, match=r"name.*01\.3"):
        al.course.predict(name, 1)


RIGHT = {
    "tuple for list": ((0, 0, 1, 1), [0, 0, 1, 1], 0),
    "list for tensor": ([0, 1], torch.tensor([0.0, 1.0]), 0),
    "tensor with a gradient": (torch.tensor([2.0], requires_grad=True), 2, 0),
    "array for list": (np.array([[1, 2]]), [1, 2], 0),
    "numpy number": (np.float32(0.1), 0.1, 0),
    "float for integer": (1.0, 1, 0),
    "truth value": (True, 1, 0),
    "yes for true": ("Yes", True, 0),
    "false": ("False", False, 0),
    "no": ("no", False, 0),
    "any case": ("Pass", "pass", 0),
    "blanks and hyphens": (" Guided_Backprop", "guided-backprop", 0),
    "brackets": ("(b)", "B", 0),
    "words": (["PASS", "fail"], ("pass", "fail"), 0),
    "text for numbers": ("[0, -1; 1]", [0, -1, 1], 0),
    "text for a number": ("-0.5", -0.5, 0),
    "fraction": ("1/3", 1 / 3, 0),
    "percent": ("30%", 0.3, 0),
    "one in a list": ([5], 5, 0),
    "range": (range(3), [0, 1, 2], 0),
    "decimals of float32": (0.1, torch.tensor(0.1), 0),
    "within the tolerance": (0.4, 0.3, 0.1),
    "in a set": (["b", "A"], {"a", "b"}, 0),
    "one of a set": ("a", {"a"}, 0),
    "set for one": ({5}, 5, 0),
    "minus zero": (0, -0.0, 0),
    "infinity": (float("inf"), float("inf"), 0),
    "number as a word": (0, "0", 0),
    "text for names of two words": (
        "off black, off background",
        {"off background", "off black"},
        0,
    ),
    "text for words": ("pass fail", ["pass", "fail"], 0),
    "signs": (["+", "down", "0"], [1, -1, 0], 0),
    "signs in a text": ("+ - same", [1, -1, 0], 0),
    "a sign": ("up", 1, 0),
    "another form of a word": ("passes", "pass", 0),
    "words in other forms": ("failed, passed", ["fail", "pass"], 0),
    "word and number": (["pass", 0.5], ["Pass", 0.5], 0),
}


@pytest.mark.parametrize(("prediction", "answer", "tolerance"), RIGHT.values(), ids=RIGHT)
def test_right_in_any_form(prediction, answer, tolerance, folder, capsys):
    gate = al.course.predict("01.1", prediction)
    assert gate
    assert gate.check(answer, tolerance=tolerance)
    assert gate.open
    assert "01.1: right (try 1)" in capsys.readouterr().out
    assert [each["right"] for each in gates(folder)["01.1"]] == [True]


WRONG = {
    "too few": ([0, 1], [0, 1, 1], "2 values given, 3 expected"),
    "one for many": (1, [1, 1], "1 value given, 2 expected"),
    "word for a number": ("three", 3, "Expected a number, but 'three' is a word"),
    "a sign where a size is asked": ("up", 2, "'up' is a word"),
    "a list in a text for one of a set": ("a, b", {"a"}, "1 right, 1 wrong"),
    "a list in a text for one word": ("a, b", "a", "2 values given, 1 expected"),
    "part of a word": ("passable", "pass", "a different word"),
    "number for a word": (1, "pass", "Expected a word, but 1.0 is a number"),
    "sign": (-2, 2, "size is right, the sign is wrong"),
    "all signs": ([1, -1, 0], [-1, 1, 0], "signs are all reversed"),
    "one sign": ([1, -1, 1], [1, 1, 1], "1 sign of 3 wrong"),
    "reversed": ([1, 2, 3], [3, 2, 1], "reversed"),
    "order": ([1, 3, 2], [3, 2, 1], "order is wrong"),
    "order of words": (["a", "c", "b"], ["c", "b", "a"], "order is wrong"),
    "twice": (6, 3, "twice as large"),
    "half": ([1, 0.5], [2, 1], "Each value is half as large"),
    "per cent": (30, 0.3, "100 times as large"),
    "per cent within the tolerance": ([50, 0], [0.57, 0], "100 times as large"),
    "neither yes nor no": ("perhaps", True, "Answer yes or no"),
    "no for yes": ("no", True, "It is the other one"),
    "of 255": ([0.0, 1.0], [0, 255], "1/255 as large"),
    "one of four": ([0, 1, 1, 1], [0, 0, 1, 1], "Only value 2 of 4"),
    "some": ([1, 1, 0, 1], [0, 0, 1, 1], "3 of 4 values are wrong"),
    "too large": (5, 3, "too large"),
    "too small": (-7, 3, "too small"),
    "off by one in a large one": (1_000_001, 1_000_000, "too large"),
    "a different word": ("fail", "pass", "a different word"),
    "nan": (float("nan"), 3, "nan"),
    "a set has no order": ({1, 2}, [1, 2], "no order"),
    "parts of a set": (["a", "x"], {"a", "b", "c"}, "1 right, 1 wrong, some are missing"),
    "division by zero": ("1/0", 3, "is a word"),
    "huge": (10**400, 3, "too large"),
    "hugely negative": (-(10**400), 3, "too small"),
    "beyond the tolerance": (0.41, 0.3, "too large"),
}


@pytest.mark.parametrize(("prediction", "answer", "how"), WRONG.values(), ids=WRONG)
def test_how_a_wrong_one_is_wrong_without_the_answer(prediction, answer, how, folder, capsys):
    gate = al.course.predict("01.1", prediction)
    assert not gate.check(answer, tolerance=0.1 if answer in (0.3, [0.57, 0]) else 0)
    assert not gate.open
    out = capsys.readouterr().out
    assert "01.1: not right (try 1)" in out
    assert how in out
    assert "The answer" not in out
    assert [each["right"] for each in gates(folder)["01.1"]] == [False]


@pytest.mark.parametrize("typed", [al.course.skip, " Skip ", "'skip'", ["skip"]], ids=repr)
def test_skip_shows_the_answer(typed, folder, capsys):
    gate = al.course.predict("01.1", typed)
    assert gate.check([1 / 3, -0.0, "pass"])
    assert gate.open
    assert capsys.readouterr().out == "01.1: skipped. The answer: 0.33333, 0, pass\n"
    assert gates(folder)["01.1"] == [{"prediction": "skip", "right": None}]


@pytest.mark.parametrize(("answer", "said"), [(3 > 2, "yes"), (2 > 3, "no")])
def test_the_answer_to_yes_or_no_is_one_of_them(answer, said, capsys):
    al.course.predict("01.1", al.course.skip).check(answer)
    assert capsys.readouterr().out == f"01.1: skipped. The answer: {said}\n"


def test_a_gate_shows_the_answer_of_its_own_question_only(folder, capsys):
    """The cell of the next question stopped with an error, so the one behind it asks this gate."""
    for prediction in ("skip", 4, 5):
        gate = al.course.predict("01.1", prediction)
        gate.check(4)
        before = gates(folder)
        capsys.readouterr()
        assert not gate.check(5)
        assert not gate.open
        out = capsys.readouterr().out
        assert "5" not in out.replace("01.1", "")
        assert "fix it, and run it" in out
        assert gates(folder) == before
        assert gate.check(4) == (prediction != 5)  # the cell of its own runs again


@pytest.fixture
def hints(monkeypatch):
    known = {
        "99.1": {"0, 1": "You counted from 1.", "many": "Count them.", "2/3": "A share."},
        "99.2": {"a, b": "Look again."},
    }
    monkeypatch.setattr(comparing, "known_mistakes", lambda: known)
    return known


def test_a_hint_answers_its_wrong_prediction_only(hints, capsys):
    made = (([0, 1], "from 1"), ("Many", "Count them"), (0.66, "A share"), (0.5, ""), ([3, 4], ""))
    for prediction, said in made:
        al.course.predict("99.1", prediction).check([1, 2], tolerance=0.01)
        out = capsys.readouterr().out
        assert said in out
        assert sum(text in out for text in hints["99.1"].values()) == bool(said)


def test_in_a_set_the_order_of_a_wrong_prediction_does_not_count_for_its_hint(hints, capsys):
    for prediction in (["b", "a"], "a, b", {"A", "b"}):
        al.course.predict("99.2", prediction).check({"a", "c"})
        assert "Look again" in capsys.readouterr().out
    al.course.predict("99.2", ["b", "a"]).check(["c", "d"])
    assert "Look again" not in capsys.readouterr().out


# Code of students


def test_what_a_students_code_returns_is_compared_and_what_is_typed_is_not(folder, capsys):
    gate = al.course.predict("99.1", 3)
    assert not gate.check(3, by=lambda: 4)
    assert "too large" in capsys.readouterr().out
    assert al.course.predict("99.1", "ready").check(3, by=lambda: torch.tensor(3.0))
    assert [each["prediction"] for each in gates(folder)["99.1"]] == ["4", "3"]
    assert al.course.predict("99.1", "skip").check(3, by=lambda: 4)
    assert al.course.predict("99.1").check(3, by=lambda: 3) is False


def raises():
    raise KeyError("x\nmore")


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (lambda: None, "returns nothing yet"),
        (lambda: [None, 1], "returns nothing yet"),
        (dict, "dict"),
        (raises, "stopped with KeyError"),
    ],
)
def test_code_that_gives_nothing_to_compare_is_told_so_and_is_no_try(code, why, folder, capsys):
    gate = al.course.predict("99.1", "ready")
    assert not gate.check(3, by=code)
    assert not gate.open
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("99.1: ")
    assert why in line
    assert not list(folder.iterdir())


# What may be typed


NAMES = {"x": 3, "red": [1, 0], "torch": torch}
TYPED = {
    "pass": "'pass'",
    "skip": "'skip'",
    "[pass, fail]": "'[pass, fail]'",
    "on black, off black": "'on black, off black'",
    "deep-lift*, ig*": "'deep-lift*, ig*'",
    "+": "'+'",
    "[+, -, 0]": "'[+, -, 0]'",
    "30%": "'30%'",
    "red": "'red'",
    "[red, blue]": "'[red, blue]'",
    "None": "None",
    "x": "x",
    "[x, 2 * x]": "[x, 2 * x]",
    "torch.pi": "torch.pi",
    "[each + 1 for each in red]": "[each + 1 for each in red]",
    "len([1, 2])": "len([1, 2])",
    '"red"': '"red"',
    "1e3": "1e3",
    "": "",
}


@pytest.mark.parametrize(("typed", "made"), TYPED.items(), ids=TYPED)
def test_words_without_quotes_get_them(typed, made):
    behind = '  # "red" or "blue"\n'
    lines = [f"prediction = {typed}{behind}", 'gate = al.course.predict("01.1", prediction)\n']
    assert gates_module.quote_words(lines, NAMES) == [f"prediction = {made}{behind}", lines[1]]


def test_a_variable_is_a_variable_where_no_such_word_is_asked_and_other_lines_stay():
    lines = [
        "predictions = x\n",
        "prediction = red  # a list\n",
    ]
    assert gates_module.quote_words(lines, NAMES) == lines
    several = ["prediction = [\n", "    1, 2\n", "]\n"]
    assert gates_module.quote_words(several, NAMES) == several


def test_from_the_first_prediction_on_warnings_are_ignored(recwarn):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        al.course.predict("01.1")
        warnings.warn("told", al.AttributionWarning, stacklevel=1)
        al.course.predict("01.1", 1)
        warnings.warn("hidden", al.AttributionWarning, stacklevel=1)
    assert [str(each.message) for each in recwarn] == ["told"]


def test_an_answer_is_a_number_or_a_word():
    with pytest.raises(al.AttributionLabError, match="dict"):
        al.course.predict("01.1", 1).check({"a": 1})


# The file


def test_tries_are_counted_and_the_same_again_is_none(folder, capsys):
    for prediction in (1, 2, 2, 1, 3):
        al.course.predict("01.1", prediction).check(3)
    al.course.predict("01.2", 0).check(0)
    assert "(try 4)" in capsys.readouterr().out
    assert [each["prediction"] for each in gates(folder)["01.1"]] == ["1", "2", "1", "3"]
    assert gates(folder)["01.2"] == [{"prediction": "0", "right": True}]
    assert [path.name for path in folder.iterdir()] == ["predictions.json"]


def test_a_long_prediction_is_cut_in_the_file(folder, capsys):
    al.course.predict("01.1", torch.rand(3, 99, 99)).check(1)
    assert "29403 values given, 1 expected" in capsys.readouterr().out
    assert len(gates(folder)["01.1"][0]["prediction"]) < 300


FOREIGN = {
    "no JSON": (b"my notes", "not a record"),
    "no text": (b"\xff\xfe\x00", "not a record"),
    "empty": (b"", "not a record"),
    "a list": (b"[1]", "not a record"),
    "another's": (b'{"gates": {}}', "not a record"),
    "gates of another kind": (b'{"schema": 1, "gates": {"01.1": 3}}', "not a record"),
    "tries of another kind": (b'{"schema": 1, "gates": {"01.1": [{}]}}', "not a record"),
    "deep": (b"[" * 100_000, "not a record"),
    "a later version": (b'{"schema": 2}', "schema 2"),
}


@pytest.mark.parametrize(("content", "why"), FOREIGN.values(), ids=FOREIGN)
def test_another_file_of_that_name_is_kept_and_the_lesson_goes_on(content, why, folder, capsys):
    (folder / "predictions.json").write_bytes(content)
    assert al.course.predict("01.1", 3).check(3)
    refusal, said = capsys.readouterr().out.splitlines()
    assert "'predictions.json'" in refusal
    assert why in refusal
    assert "rename" in refusal
    assert said.startswith("01.1: right.")
    assert (folder / "predictions.json").read_bytes() == content


def test_a_folder_of_that_name_is_kept_and_the_lesson_goes_on(folder, capsys):
    (folder / "predictions.json").mkdir()
    assert al.course.predict("01.1", 3).check(3)
    assert "not counted" in capsys.readouterr().out


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root and Windows write everywhere"
)
def test_where_nothing_can_be_written_the_lesson_goes_on(folder, capsys):
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        assert al.course.predict("01.1", 3).check(3)
    finally:
        folder.chmod(stat.S_IRWXU)
    assert "not counted" in capsys.readouterr().out


@pytest.mark.parametrize("length", range(1, 9))
def test_what_is_said_of_a_part_of_a_set_does_not_tell_its_size(length):
    answers = [set(range(more)) for more in (length + 1, length + 2, 20)]
    assert len({comparing.difference(list(range(length)), answer) for answer in answers}) == 1


def test_words_are_alike_but_for_what_does_not_count():
    assert comparing.word(" 'Guided  back_prop'. ") == comparing.word("guided-back prop")
    assert comparing.word("pass") != comparing.word("passed")
