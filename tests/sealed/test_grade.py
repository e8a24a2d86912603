"""Grading: right, half right and nonsense; misconceptions; duplicates; pages."""

import copy
import itertools
import json
import re
import zipfile

import numpy as np
import pandas as pd
import pytest

import attributionlab as al
from attributionlab.base import AttributionLabError
from attributionlab.teaching.sealed.laboratory import open_sealed
from attributionlab.teaching.sealed.questions import POINTS
from attributionlab.teaching.sealed.rubric import MISCONCEPTIONS, marks_of
from attributionlab.teaching.sealed.submission import Submission, read_answers
from sealed_cases import IMAGES, SIDE, hand_in, npz


def graded(laboratory, *paths):
    return al.grade_submissions(laboratory.lab, laboratory.key, paths).submissions


def marks(laboratory, folder, maps=None, answers=None):
    [found] = graded(laboratory, hand_in(folder, maps, answers))
    return found.marks


def nonsense():
    return np.random.default_rng(0).normal(size=(IMAGES, SIDE, SIDE))


# The three samples


def test_a_right_submission_gets_every_point(laboratory, tmp_path):
    found = marks(laboratory, tmp_path / "right", laboratory.signed, laboratory.right)
    assert found.points == POINTS
    assert found.total == 100
    assert found.misconceptions == found.problems == []


def test_a_half_right_submission_gets_half(laboratory, tmp_path):
    """Right pixels and parts with the wrong signs; contexts, baselines and doses half found."""
    answers = copy.deepcopy(laboratory.right)
    answers["parts"] = {part: -sign for part, sign in answers["parts"].items()}
    answers["contexts"].append(["a@top_left", "b@top_left"])
    found = marks(laboratory, tmp_path / "half", -laboratory.signed, answers)
    assert len(laboratory.right["contexts"]) == 1
    # Of maps half; of parts half; of contexts F1 = 2 / (2 + 1).
    assert found.points["maps"] == 20
    assert found.points["parts"] == 10
    assert found.points["contexts"] == 6.7
    assert found.misconceptions == ["signs", "part signs", "sums"]
    assert 40 <= found.total <= 75


def test_no_answer_of_one_kind_pays_off(laboratory, tmp_path):
    """All, or none, of the candidates; one dose, or cause, for all: no better than silence."""
    spec = al.open_laboratory(laboratory.lab).spec
    for k, (question, given) in enumerate(
        [
            ("baselines", list(spec["baselines"])),
            ("baselines", []),
            *(("doses", dict.fromkeys(spec["colors"], dose)) for dose in (*spec["doses"], "never")),
            *(("methods", dict.fromkeys(spec["methods"], cause)) for cause in spec["causes"]),
        ]
    ):
        found = marks(laboratory, tmp_path / str(k), None, {question: given})
        assert found.points[question] == 0, (question, given)


@pytest.mark.long
@pytest.mark.parametrize("difficulty", ["easy", "medium", "hard"])
@pytest.mark.parametrize("number", range(2))
def test_nonsense_gets_next_to_nothing_in_every_laboratory(tmp_path, difficulty, number):
    """Of three parts and more some act together, some method fails, and no answer is right for all."""
    lab, key = tmp_path / "lab.zip", tmp_path / "key.zip"
    al.seal_laboratory(lab, key, difficulty, SIDE, IMAGES, key=bytes([number + 3] * 16))
    truths = open_sealed(lab, key)
    right, spec = truths.answers, truths.spec
    assert right["contexts"]
    assert any(cause != "passes" for cause in right["methods"].values())
    pairs = [list(pair) for pair in itertools.combinations(spec["parts"], 2)]
    given = [({}, None), ({"parts": {}, "contexts": [], "methods": {}, "doses": {}}, None)]
    for cause, dose in itertools.product(spec["causes"], (*spec["doses"], "never")):
        answers = {
            "parts": dict.fromkeys(spec["parts"], 1),
            "contexts": pairs,
            "baselines": list(spec["baselines"]),
            "methods": dict.fromkeys(spec["methods"], cause),
            "doses": dict.fromkeys(spec["colors"], dose),
        }
        given.append((answers, nonsense()[:, None]))
    for answers, maps in given:
        read, _ = read_answers(answers, spec)
        assert marks_of(Submission(maps, read, []), truths).total < 15, answers
    best, _ = read_answers(right, spec)
    everything = Submission(truths.signed.double().numpy(), best, [])
    assert marks_of(everything, truths).points == POINTS


# Maps and what they show


def wrong_maps(laboratory):
    opened = al.open_laboratory(laboratory.lab)
    signed, truths = laboratory.signed, laboratory.truths
    return {
        "zero": np.zeros_like(signed),
        "signs": -3 * signed,
        "one sign": np.abs(signed),
        "diffuse": opened.images.numpy().mean(1),
        "visible": truths.visible.numpy().astype(float),
        "other images": np.roll(signed, 1, 0),
        "orientation": signed[..., ::-1],
    }


@pytest.mark.parametrize(
    "name",
    ["zero", "signs", "one sign", "visible", "other images", "orientation", "diffuse"],
)
def test_wrong_maps_are_told_their_misconception(laboratory, tmp_path, name):
    found = marks(laboratory, tmp_path / "maps", wrong_maps(laboratory)[name])
    assert found.misconceptions == [name]
    assert found.points["maps"] <= 28  # one sign: 20 for the pixels, little for the signs


@pytest.mark.parametrize(
    "turn",
    [
        pytest.param(lambda maps: maps[:, :, ::-1], id="upside down"),
        pytest.param(lambda maps: maps[..., ::-1], id="left and right"),
        pytest.param(lambda maps: maps[:, :, ::-1, ::-1], id="half a turn"),
        pytest.param(lambda maps: maps.swapaxes(2, 3), id="rows as columns"),
    ],
)
def test_maps_that_are_turned_are_told_so(laboratory, turn):
    maps = turn(laboratory.signed).copy()
    found = marks_of(Submission(maps, {}, []), laboratory.truths)
    assert found.misconceptions == ["orientation"]


def test_right_colors_in_wrong_places_are_told_so(laboratory):
    truths = laboratory.truths
    positive = truths.signed.clamp(min=0)  # one part of four of the color
    given = Submission(truths.of_colors.double().numpy(), {}, [])
    found = marks_of(given, truths._replace(signed=positive))
    assert found.misconceptions == ["places"]


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        pytest.param((IMAGES, SIDE, SIDE), "<f8", id="three axes"),
        pytest.param((IMAGES, 1, SIDE, SIDE), ">f4", id="big endian"),
        pytest.param((IMAGES, SIDE, SIDE), "<f2", id="half"),
        pytest.param((IMAGES, SIDE, SIDE), "i1", id="bytes"),
    ],
)
def test_maps_of_any_layout_get_the_same_points(laboratory, tmp_path, shape, dtype):
    maps = laboratory.signed.reshape(shape).astype(dtype)
    for k, given in enumerate(
        (maps, np.asfortranarray(maps), npz(own=maps)[:0] or npz(arr_0=maps))
    ):
        assert marks(laboratory, tmp_path / str(k), given).points["maps"] == 40


def test_channels_are_summed(laboratory, tmp_path):
    parts = np.random.default_rng(0).normal(size=(IMAGES, 3, SIDE, SIDE))
    parts[:, 2] = laboratory.signed[:, 0] - parts[:, :2].sum(1)
    # Rounding leaves less than 1e-15 of noise on other pixels.
    assert marks(laboratory, tmp_path / "sum", parts).points["maps"] == 40


def test_extreme_values_neither_overflow_nor_vanish(laboratory, tmp_path):
    for k, scale in enumerate((1e308, 1e-308, 5e-324)):
        given = np.repeat(laboratory.signed * scale, 3, 1)
        assert marks(laboratory, tmp_path / str(k), given).points["maps"] == 40


# Answers


def test_answers_lose_points_one_by_one(laboratory, tmp_path):
    right = laboratory.right
    method, cause = next((m, c) for m, c in right["methods"].items() if c != "passes")
    other = "path" if cause != "path" else "gradient"
    found = marks(
        laboratory,
        tmp_path / "cause",
        answers={**right, "methods": {**right["methods"], method: other}},
    )
    # Half for one of three with the same cause, all for the fourth: (5/6 + 1) / 2. One cause for all
    # gets (1 + 1/2) / 2.
    assert sorted(right["methods"].values()) == ["path", *["single-change"] * 3]
    assert found.points["methods"] == round(10 * (11 / 12 - 3 / 4) / (1 - 3 / 4), 1)
    assert found.misconceptions == ["cause"]
    found = marks(
        laboratory, tmp_path / "shy", answers={**right, "baselines": right["baselines"][1:]}
    )
    safe = len(right["baselines"])
    assert found.points["baselines"] == round(10 * (safe - 1) / safe, 1)
    assert found.misconceptions == ["shy baseline"]
    moved = {part.replace("bottom", "top"): sign for part, sign in right["parts"].items()}
    found = marks(laboratory, tmp_path / "moved", answers={"parts": moved})
    assert found.misconceptions == ["colors only"]
    assert not any(part.startswith("a@") for part in right["parts"])
    found = marks(laboratory, tmp_path / "color", answers={"parts": {"a@top_left": 1}})
    assert found.misconceptions == []
    assert found.points["parts"] == 0


def test_a_dose_beside_the_right_one_gets_half(laboratory, tmp_path):
    right = laboratory.right["doses"]
    color = next(name for name, dose in right.items() if dose == 0.5)
    for k, (dose, expected) in enumerate({0.25: 0.5, 1: 0.5, 0.1: 0.0, "never": 0.0}.items()):
        found = marks(laboratory, tmp_path / str(k), answers={"doses": {**right, color: dose}})
        breaking = sum(each != "never" for each in right.values())
        assert found.points["doses"] == round(10 * (breaking - 1 + expected) / breaking, 1)
    assert found.misconceptions == ["doses"]


WRONG_ANSWERS = {
    "parts list": ("parts", ["a@top_left"]),
    "parts unknown": ("parts", {"g@top_left": 1}),
    "parts true": ("parts", {"a@top_left": True}),
    "parts 2": ("parts", {"a@top_left": 2}),
    "parts text": ("parts", {"a@top_left": "1"}),
    "contexts one": ("contexts", [["a@top_left"]]),
    "contexts same": ("contexts", [["a@top_left", "a@top_left"]]),
    "contexts number": ("contexts", 3),
    "contexts nested": ("contexts", [[["a@top_left"], "b@top_left"]]),
    "contexts many": ("contexts", [["a@top_left", "b@top_left"]] * 1001),
    "baselines text": ("baselines", "p0"),
    "baselines unknown": ("baselines", ["p99"]),
    "baselines object": ("baselines", [{}]),
    "methods unknown": ("methods", {"lime": "passes"}),
    "methods list": ("methods", {"saliency": ["passes"]}),
    "doses other": ("doses", {"a": 0.3}),
    "doses null": ("doses", {"a": None}),
    "doses huge": ("doses", {"a": 10**400}),
    "null": ("doses", None),
}
WRONG_TEXTS = {
    "text": "None.",
    "list": ["None."],
    "null": None,
    "unknown": {"why": "None."},
    "number": {"trust": 3},
    "list of lines": {"trust": ["a", "b"]},
    "long": {"trust": "x" * 1501},
}


@pytest.mark.parametrize("name", WRONG_ANSWERS)
def test_a_wrong_answer_is_named_and_the_others_count(laboratory, tmp_path, name):
    question, given = WRONG_ANSWERS[name]
    answers = {**laboratory.right, question: given, "extra": 1}
    found = marks(laboratory, tmp_path / "wrong", answers=answers)
    assert found.points == {**POINTS, "maps": 0, question: 0}
    assert re.match(r"maps\.npz is missing", found.problems[0])
    assert [question in found.problems[1], "'extra'" in found.problems[2]] == [True, True]


@pytest.mark.parametrize("name", WRONG_TEXTS)
def test_wrong_answers_in_words_are_refused_in_one_line_and_cost_nothing(
    laboratory, tmp_path, name
):
    answers = {**laboratory.right, "free": WRONG_TEXTS[name]}
    [found] = graded(laboratory, hand_in(tmp_path / "wrong", laboratory.signed, answers))
    assert found.marks.total == 100
    assert found.texts == {}
    [problem] = found.marks.problems
    assert problem.startswith("free is ")
    assert problem.endswith("texts of at most 1,500 characters for assumed, irrelevant, trust")
    assert len(problem) < 200
    assert "\n" not in problem


def test_answers_in_words_get_no_points_and_are_shown_as_plain_text(laboratory, tmp_path):
    texts = {
        "trust": "=HYPERLINK(1)",
        "irrelevant": " <b>b</b>;=1+1\n\ta\u202e \ud800",
        "assumed": "x" * 1500,
    }
    paths = [
        hand_in(tmp_path / "words", answers={"free": texts}),
        hand_in(tmp_path / "copy", answers={"free": {**texts, "trust": " =HYPERLINK(1) "}}),
        hand_in(tmp_path / "none", answers={"free": {"trust": " "}}),
    ]
    grades = al.grade_submissions(laboratory.lab, laboratory.key, paths)
    assert [each.marks.total for each in grades.submissions] == [0, 0, 0]
    assert [each.same_texts for each in grades.submissions] == [1, 1, None]
    grades.to_csv(tmp_path / "marks.csv")
    table = pd.read_csv(tmp_path / "marks.csv", keep_default_na=False)
    assert table["free_trust"].tolist() == ["'=HYPERLINK(1)", "'=HYPERLINK(1)", ""]
    assert table["free_irrelevant"][0] == "<b>b</b>;'=1+1 a\\u202e \\ud800"
    assert table["free_assumed"][0] == texts["assumed"]
    grades.to_html(tmp_path / "pages")
    index = (tmp_path / "pages" / "index.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;b&lt;/b&gt;;=1+1 a\\u202e" in index
    assert "HYPERLINK" not in (tmp_path / "pages" / "1-words.html").read_text(encoding="utf-8")


def test_of_many_answers_the_wrong_one_is_named(laboratory, tmp_path):
    right = laboratory.right
    answers = {
        **right,
        "parts": {**right["parts"], "a@topright": 1},
        "baselines": [*right["baselines"], "p99"],
    }
    found = marks(laboratory, tmp_path / "typo", answers=answers)
    assert found.problems[1].startswith("parts has 'a@topright': did you mean ")
    assert found.problems[2].startswith("baselines is ['p99']: ")


# Feedback gives nothing away


def test_feedback_is_the_same_whatever_the_right_answer_is(laboratory, tmp_path):
    """Sentences are written beforehand: no name of a part, color, candidate or dose stands in them."""
    names = ("@", "top_", "bottom_", "0.0", "0.1", "0.2")
    assert not [text for text in MISCONCEPTIONS.values() if any(name in text for name in names)]
    assert not [text for text in MISCONCEPTIONS.values() if re.search(r"\bp\d\b|\b[a-f]@", text)]
    hand_in(tmp_path / "student", nonsense(), {"parts": {"a@top_left": 1}})
    grades = al.grade_submissions(laboratory.lab, laboratory.key, [tmp_path / "student"])
    grades.to_html(tmp_path / "pages")
    [page] = [each for each in (tmp_path / "pages").iterdir() if each.name != "index.html"]
    assert page.name == "1-student.html"
    text = page.read_text(encoding="utf-8").partition("<body>")[2]
    secrets = [*laboratory.right["parts"], laboratory.document["rule"], laboratory.document["key"]]
    assert not [each for each in secrets if each in text]


# Many


def test_one_bad_submission_stops_no_other_and_order_is_kept(laboratory, tmp_path):
    hand_in(tmp_path / "a", laboratory.signed, laboratory.right)
    (tmp_path / "b.zip").write_bytes(b"no zip")
    hand_in(tmp_path / "c", nonsense(), laboratory.right)
    paths = [tmp_path / "a", tmp_path / "b.zip", tmp_path / "none", tmp_path / "c"]
    found = graded(laboratory, *paths)
    assert [each.name for each in found] == list(map(str, paths))
    assert [each.status for each in found] == ["graded", "refused", "refused", "graded"]
    assert [each.marks.total for each in found[:3]] == [100, 0, 0]
    assert "none" in found[2].marks.problems[0]


def test_a_zip_is_marked_like_its_folder(laboratory, tmp_path):
    folder = hand_in(tmp_path / "student", laboratory.signed, laboratory.right)
    for k, prefix in enumerate(("", "student/", "deep/er/", "student\\", "./")):
        path = tmp_path / f"{k}.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in folder.iterdir():
                archive.write(file, prefix + file.name)
            archive.writestr("__MACOSX/._maps.npz", b"resource fork")
            archive.writestr("__MACOSX/maps.npz", b"resource fork")
            archive.writestr("Screenshot 12:30.png", b"whatever")
            archive.writestr("maps.npz/", b"")
        assert graded(laboratory, path)[0].marks.total == 100


# Duplicates


def copies(laboratory):
    """The same work in other clothes."""
    maps, answers = laboratory.signed + 0.1 * nonsense()[:, None], copy.deepcopy(laboratory.right)
    answers["doses"] = dict.fromkeys(answers["doses"], 0.05)
    other = {key: answers[key] for key in reversed(answers)}
    other["contexts"] = [pair[::-1] for pair in reversed(answers["contexts"])]
    other["baselines"] = answers["baselines"][::-1]
    return {
        "original": (maps, answers),
        "renamed": (npz(arr_0=maps), answers),
        "rescaled": (7 * maps, answers),
        "single precision": (maps.astype(np.float32), answers),
        "images reordered": (maps[::-1], answers),
        "answers reordered": (maps, other),
        "spaces": (maps, json.dumps(answers, indent=7).encode()),
        "decimals": (maps, re.sub(r"(: -?1)(?=[,}])", r"\1.0", json.dumps(answers)).encode()),
        "a note": (maps, {**answers, "note": "all my own work"}),
        "parts without effect": (maps, {**answers, "parts": {"a@top_left": 0, **answers["parts"]}}),
        "pairs twice": (maps, {**answers, "contexts": answers["contexts"] * 2}),
    }


def test_copies_are_found_through_their_disguises_and_others_are_not(laboratory, tmp_path):
    paths = [hand_in(tmp_path / name, *given) for name, given in copies(laboratory).items()]
    own = laboratory.signed + 0.1 * nonsense()[:, None].copy()
    own[0, 0, 0, 0] += 0.01
    answers = {**laboratory.right, "doses": {"a": 0.5}}
    paths.append(hand_in(tmp_path / "somebody else", own, answers))
    *same, other = graded(laboratory, *paths)
    assert [(each.same_maps, each.same_answers) for each in same] == [(1, 1)] * len(same)
    assert other.same_maps is other.same_answers is None


def test_equal_right_answers_are_no_copies(laboratory, tmp_path):
    paths = [hand_in(tmp_path / str(k), laboratory.signed, laboratory.right) for k in range(2)]
    for each in graded(laboratory, *paths):
        assert each.same_maps is each.same_answers is None


# Files


NAMES = [
    "<img src=x onerror=alert(1)>",
    '=HYPERLINK("http:..")',
    "a;=1+1; @b",
    "\uff1d1+1",
    "@a;b,c\nd",
    "\u202eevil",
    "x" * 200,
]


@pytest.mark.parametrize(
    "name", NAMES, ids=["markup", "formula", "semicolons", "wide", "lines", "direction", "long"]
)
def test_names_of_submissions_harm_neither_pages_nor_tables(
    laboratory, tmp_path, name, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    name = name.replace("/", "_")
    hand_in(tmp_path / name, laboratory.signed, laboratory.right)
    grades = al.grade_submissions(laboratory.lab, laboratory.key, [name])
    grades.to_csv("marks.csv")
    grades.to_html("pages")
    table = pd.read_csv("marks.csv")
    assert len(table) == 1
    assert table["total"].tolist() == [100]
    assert not re.search(r"(^|;)\s*[=+@\uff1d-]", str(table["submission"][0]))
    pages = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "pages").iterdir()}
    assert len(pages) == 2
    assert all(re.fullmatch(r"[a-z0-9.-]+", page) and len(page) < 60 for page in pages)
    for text in pages.values():
        assert "<img" not in text
        assert "\u202e" not in text
        assert "default-src &#39;none&#39;" in text
    assert not list(tmp_path.parent.glob("*.html"))


@pytest.mark.parametrize("given", [[], "lab.zip"], ids=["none", "text"])
def test_without_a_list_of_submissions_nothing_is_marked(laboratory, given):
    with pytest.raises(AttributionLabError, match="a list"):
        al.grade_submissions(laboratory.lab, laboratory.key, given)
