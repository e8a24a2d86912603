"""Sealing: what the files give away, and what is refused."""

import hashlib
import itertools
import json
import struct
import zipfile
from itertools import product

import numpy as np
import pytest
import torch

from attributionlab.base import AttributionLabError
from attributionlab.teaching import check_submission, grade_submissions, seal_laboratory
from attributionlab.teaching.sealed import laboratory as writing
from attributionlab.teaching.sealed import world as module
from attributionlab.teaching.sealed.archives import json_bytes, zip_bytes
from attributionlab.teaching.sealed.laboratory import (
    KEY_FILES,
    LAB_FILES,
    commitment,
    open_laboratory,
    open_sealed,
)
from attributionlab.teaching.sealed.questions import DOSES, METHODS
from attributionlab.teaching.sealed.world import derived, drawn_colors, drawn_places
from attributionlab.worlds import QUADRANTS
from attributionlab.worlds.images.regions import region_mask
from sealed_cases import KEY, NONCE, SIDE, hand_in, sealed


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.long
def test_a_laboratory_is_a_function_of_key_and_nonce(laboratory, tmp_path):
    again = sealed(tmp_path)
    assert again.lab.read_bytes() == laboratory.lab.read_bytes()
    assert again.key.read_bytes() == laboratory.key.read_bytes()


@pytest.mark.long
def test_another_key_is_another_laboratory_and_another_nonce_another_commitment_only(
    laboratory, tmp_path
):
    (tmp_path / "key").mkdir()
    (tmp_path / "nonce").mkdir()
    own = members(laboratory.lab)
    other = members(sealed(tmp_path / "key", key=bytes([9]) * 16).lab)
    same = {"questions.md"}
    assert {name for name in own if own[name] == other[name]} == same
    hidden = members(sealed(tmp_path / "nonce", nonce=bytes(32)).lab)
    assert {name for name in own if own[name] != hidden[name]} == {"commitment.txt"}


@pytest.mark.long
def test_images_and_weights_are_drawn_from_the_key(monkeypatch):
    def drawn(changed=""):
        """Images and weights, with another number for one of the purposes."""
        other = {changed: derived(b"another key", changed)}
        monkeypatch.setattr(
            module, "derived", lambda key, name: other.get(name, derived(key, name))
        )
        found = module.drawn_world(KEY, "easy", SIDE, 2)
        return found.images, torch.cat([each.flatten() for each in found.env.model.parameters()])

    images, weights = drawn()
    assert not torch.equal(drawn("images")[0], images)
    same, others = drawn("camouflage")
    assert torch.equal(same, images)
    assert not (others.shape == weights.shape and torch.equal(others, weights))


@pytest.mark.long
def test_keys_are_drawn_anew(tmp_path):
    colors = set()
    for k in range(2):
        lab, key = tmp_path / f"lab{k}.zip", tmp_path / f"key{k}.zip"
        seal_laboratory(lab, key, "easy", 24, 2)
        document = json.loads(members(key)["answers.json"])
        colors.add(members(lab)["lab.json"])
        assert len(bytes.fromhex(document["key"])) == 16
        assert len(bytes.fromhex(members(key)["nonce.txt"].decode())) == 32
        open_sealed(lab, key)
    assert len(colors) == 2


REDRAWN = {
    "nothing acts together": ("contexts", lambda *_: []),
    "all methods pass": ("causes", lambda *_: dict.fromkeys(METHODS, "passes")),
    "all fail for one reason": ("causes", lambda *_: dict.fromkeys(METHODS, "path")),
    "no method is asked": ("causes", lambda *_: {}),
    "one dose": ("breaking_doses", lambda *_: dict.fromkeys("abcdef", 0.25)),
    "parts without a sign": ("signs_of_parts", lambda *_: None),
}


@pytest.mark.long
@pytest.mark.parametrize("name", REDRAWN)
def test_worlds_that_cannot_be_asked_are_drawn_anew_until_it_is_enough(tmp_path, monkeypatch, name):
    replaced, by = REDRAWN[name]
    monkeypatch.setattr(module.questions, replaced, by)
    monkeypatch.setattr(module, "MOST_DRAWN", 3)
    with pytest.raises(
        AttributionLabError, match=r"none of 3 easy worlds.* image size of 24.* seal"
    ):
        sealed(tmp_path)
    assert not list(tmp_path.iterdir())


# As a cheating student looks for leaks


def test_the_archive_says_nothing_about_the_machine_or_the_time(laboratory):
    for path, names in ((laboratory.lab, LAB_FILES), (laboratory.key, KEY_FILES)):
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            assert archive.comment == b""
        assert [entry.filename for entry in entries] == sorted(names)
        assert {entry.date_time for entry in entries} == {(1980, 1, 1, 0, 0, 0)}
        assert all(entry.extra == entry.comment == b"" for entry in entries)
        assert {entry.external_attr >> 16 for entry in entries} == {0o100644}
        assert {entry.create_system for entry in entries} == {3}  # as on Unix, wherever it is made


def test_no_file_of_the_laboratory_holds_anything_of_the_key(laboratory):
    document, answers = laboratory.document, members(laboratory.key)
    hidden = {
        "key": KEY.hex(),
        "key as bytes": KEY,
        "nonce": NONCE.hex(),
        "rule": document["rule"],
        "truth": answers["truth.npy"][128:],
        "digest of the truth": document["truth"],
        "digest of the answers": hashlib.sha256(answers["answers.json"]).hexdigest(),
        **{purpose: str(derived(KEY, purpose)) for purpose in ("rule", "images", "camouflage")},
    }
    for name, content in members(laboratory.lab).items():
        for what, text in hidden.items():
            sought = text.encode() if isinstance(text, str) else text
            assert sought not in content, (name, what)


def test_layers_and_tensors_have_numbers_for_names(laboratory):
    files = members(laboratory.lab)
    network = json.loads(files["network.json"])
    assert network.keys() == {
        "schema",
        "layers",
        "input",
    }  # neither baseline nor layers to attach to
    names = [layer["name"] for layer in network["layers"]]
    assert names == [f"layer{k:02}" for k in range(len(names))]
    [length] = struct.unpack("<Q", files["network.safetensors"][:8])
    header = json.loads(files["network.safetensors"][8 : 8 + length])
    tensors = {f"{name}.{what}" for name in names for what in ("weight", "bias")}
    assert header.keys() <= tensors  # no metadata either


def test_the_spec_says_what_is_public_and_no_more(laboratory):
    spec = json.loads(members(laboratory.lab)["lab.json"])
    colors, background = drawn_colors(KEY)
    assert spec["colors"] == {name: list(color) for name, color in colors.items()}
    assert list(colors.values()) == sorted(colors.values())  # their order has nothing of the rule's
    usual = {(0, 0, 0), (127, 127, 127), (255, 255, 255), background, *colors.values()}
    assert [tuple(each) for each in spec["baselines"].values()] == sorted(usual)
    places = ("top_left", "top_right", "bottom_left", "bottom_right")
    assert spec["places"].keys() == {*places}
    assert spec["parts"] == [f"{color}@{place}" for color in colors for place in places]
    fixed = {"schema", "difficulty", "images", "box", "output", "reading_weights", "methods"}
    fixed |= {
        "causes",
        "doses",
        "steps",
        "points",
        "colors",
        "places",
        "parts",
        "baselines",
        "free",
    }
    assert spec.keys() == fixed
    assert spec["reading_weights"] == "allowed"
    assert spec["methods"] == [  # all of them, whatever is asked of this one
        *("saliency", "input-x-gradient", "integrated-gradients", "feature-ablation")
    ]


def test_the_commitment_is_to_nonce_and_answers_and_the_answers_alone_do_not_open_it(laboratory):
    stated = members(laboratory.lab)["commitment.txt"].decode().strip()
    answers = members(laboratory.key)["answers.json"]
    assert stated == hashlib.sha256(NONCE + answers).hexdigest()
    for guess in (b"", bytes(32), KEY, KEY + KEY, hashlib.sha256(KEY).digest()):
        assert commitment(guess, answers) != stated


def test_small_integers_as_keys_give_other_colors(laboratory):
    colors = drawn_colors(KEY)
    assert not any(drawn_colors(seed.to_bytes(16, "big")) == colors for seed in range(500))
    assert not any(drawn_colors(seed.to_bytes(16, "little")) == colors for seed in range(500))


def test_colors_can_be_told_apart_and_the_usual_baselines_are_now_and_then_among_them():
    usual = {(0, 0, 0): 0, (127, 127, 127): 0, (255, 255, 255): 0}
    for number in range(200):
        colors, background = drawn_colors(bytes([number] * 16))
        shown = [*colors.values(), background]
        assert len(colors) == 6
        for first, second in itertools.combinations({*shown, *usual}, 2):
            assert max(abs(a - b) for a, b in zip(first, second, strict=True)) >= 24
        for color in usual:
            usual[color] += color in shown
    assert usual.pop((127, 127, 127)) == 0
    # A coin, tossed 200 times: six standard deviations are 6 * sqrt(200) / 2 = 42.
    assert all(58 <= count <= 142 for count in usual.values())


def test_pixels_of_doses_are_shares_of_the_image_and_the_same_at_larger_doses(laboratory):
    doses = open_laboratory(laboratory.lab).doses
    for dose, chosen in zip(DOSES, doses, strict=True):
        # Five standard deviations of a share of SIDE * SIDE pixels.
        assert abs(chosen.double().mean() - dose) <= 5 * (dose * (1 - dose)) ** 0.5 / SIDE
    assert not (doses[:-1] & ~doses[1:]).any()


# Tampering


def rewritten(path, target, **changes):
    """An archive in which files are changed, or left out where the change is None."""
    files = {**members(path), **changes}
    target.write_bytes(zip_bytes({name: each for name, each in files.items() if each is not None}))
    return target


def flipped(content):
    return content[:-5] + bytes([content[-5] ^ 1]) + content[-4:]


@pytest.mark.parametrize(("kind", "name"), [*product(["laboratory"], LAB_FILES),
    *product(["key"], KEY_FILES)])  # fmt: skip
@pytest.mark.parametrize("change", ["changed", "missing"])
def test_what_was_changed_is_refused(laboratory, tmp_path, kind, name, change):
    files = {"laboratory": laboratory.lab, "key": laboratory.key}
    changed = flipped(members(files[kind])[name]) if change == "changed" else None
    if name == "nonce.txt" and changed:
        changed = b"0" * 64
    files[kind] = rewritten(files[kind], tmp_path / "own.zip", **{name: changed})
    said = f"{name}: pass a {kind}" if change == "missing" else "chang"
    with pytest.raises(AttributionLabError, match=said):
        open_sealed(*files.values())


def test_answers_cannot_be_exchanged_with_their_nonce_moved_into_them(laboratory, tmp_path):
    """SHA-256(nonce || answers) without lengths: a shorter nonce and longer answers hash alike."""
    answers = members(laboratory.key)["answers.json"]
    changes = {"nonce.txt": NONCE[:16].hex().encode(), "answers.json": NONCE[16:] + answers}
    path = rewritten(laboratory.key, tmp_path / "key.zip", **changes)
    with pytest.raises(AttributionLabError, match="does not match the commitment"):
        open_sealed(laboratory.lab, path)


def test_laboratory_and_key_exchanged_or_broken_are_refused(laboratory, tmp_path):
    for lab, key in (
        (laboratory.key, laboratory.lab),
        (laboratory.lab, laboratory.lab),
        (laboratory.lab, tmp_path / "none.zip"),
    ):
        with pytest.raises(AttributionLabError):
            open_sealed(lab, key)
    broken = tmp_path / "broken.zip"
    broken.write_bytes(laboratory.lab.read_bytes()[:-30])
    with pytest.raises(AttributionLabError, match="zip"):
        open_sealed(broken, laboratory.key)


# Files of other versions


def resealed(laboratory, folder, **changes):
    """Laboratory and key with another lab.json; None leaves a key of it out."""
    files, key = members(laboratory.lab), members(laboratory.key)
    spec = {**json.loads(files["lab.json"]), **changes}
    files["lab.json"] = json_bytes({name: each for name, each in spec.items() if each is not None})
    document = json.loads(key["answers.json"])
    document["lab"]["lab.json"] = hashlib.sha256(files["lab.json"]).hexdigest()
    key["answers.json"] = json_bytes(document)
    files["commitment.txt"] = commitment(NONCE, key["answers.json"]).encode()
    folder.mkdir(exist_ok=True)
    paths = folder / "lab.zip", folder / "key.zip"
    for path, content in zip(paths, (files, key), strict=True):
        path.write_bytes(zip_bytes(content))
    return paths


def test_laboratories_without_places_and_free_questions_are_still_marked(laboratory, tmp_path):
    """Those of schema 1, as they were sealed before there were any."""
    lab, key = resealed(laboratory, tmp_path, schema=1, places=None, free=None)
    right = {name: each for name, each in laboratory.right.items() if name != "free"}
    mine = hand_in(tmp_path / "mine", laboratory.signed, right)
    assert check_submission(lab, mine) == []
    [graded] = grade_submissions(lab, key, [mine]).submissions
    assert (graded.marks.total, graded.marks.problems, graded.texts) == (100, [], {})
    asked = hand_in(tmp_path / "asked", laboratory.signed, laboratory.right)
    assert check_submission(lab, asked) == ["answers.json has 'free', which is not asked for"]


@pytest.mark.parametrize("schema", [3, "x" * 99, None])
def test_laboratories_of_an_unknown_schema_are_refused_in_one_line(laboratory, tmp_path, schema):
    lab, key = resealed(laboratory, tmp_path, schema=schema)
    for opening in (open_laboratory, lambda lab: open_sealed(lab, key), check):
        with pytest.raises(AttributionLabError, match=r"lab\.json has the schema .* 1 and 2: ins"):
            opening(lab)


def check(lab):
    return check_submission(lab, lab)


# Places


def test_drawn_places_share_out_the_image_and_are_no_quadrants():
    rng = np.random.default_rng(0)
    quadrants = [region_mask(name, 48) for name in QUADRANTS]
    layouts = set()
    for _ in range(100):
        places = drawn_places(rng)
        masks = [region_mask(name, 48, places) for name in places]
        assert len(masks) == 5
        assert (np.sum(masks, 0) == 1).all()
        # (3/5 - 0.04) * (1/3 - 0.08) = 0.142, less a row and a column of pixels.
        assert min(mask.mean() for mask in masks) >= 0.142 - (0.56 + 0.26) / 48
        for quadrant in quadrants:
            assert sum((quadrant & mask).any() for mask in masks) >= 2
        assert not any(np.array_equal(mask, each) for mask in masks for each in quadrants)
        layouts.add(tuple(places.values()))
    assert len(layouts) == 100


@pytest.mark.long
def test_hard_laboratories_say_points_in_places_and_no_borders(hard_laboratory):
    spec, borders = open_laboratory(hard_laboratory.lab).spec, hard_laboratory.document["places"]
    assert len(spec["colors"]) == 12
    assert spec["places"].keys() == borders.keys()
    for name, (row, column) in spec["places"].items():
        top, left, bottom, right = borders[name]
        assert top < row < bottom
        assert left < column < right
    assert json.dumps(borders).encode() not in b"".join(members(hard_laboratory.lab).values())
    used = {part.split("@")[1] for part in hard_laboratory.right["parts"]}
    assert used < borders.keys()  # in one place nothing counts


# What is refused


@pytest.mark.parametrize(
    ("given", "said"),
    [
        pytest.param({"difficulty": "hrad"}, "hard", id="difficulty"),
        pytest.param({"image_size": 23}, "image_size is 23", id="size"),
        pytest.param({"n": 1}, "n is 1", id="one image"),
        pytest.param({"n": 65}, "n is 65", id="many images"),
        pytest.param({"key": bytes(15)}, "key does not have 16 bytes", id="short key"),
        pytest.param({"key": 3}, "key is 3: pass bytes", id="small seed"),
        pytest.param({"nonce": bytes(16)}, "nonce does not have 32 bytes", id="short nonce"),
    ],
)
def test_bad_arguments_are_refused_and_nothing_is_written(tmp_path, given, said):
    with pytest.raises(AttributionLabError, match=said):
        seal_laboratory(tmp_path / "lab.zip", tmp_path / "key.zip", **given)
    assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_no_key_is_left_without_its_laboratory(tmp_path, monkeypatch, laboratory):
    def full(path, content):
        if "lab" in str(path):
            raise AttributionLabError("the disk is full")
        path.write_bytes(content)

    monkeypatch.setattr(writing, "write_atomically", full)
    with pytest.raises(AttributionLabError, match="full"):
        sealed(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_laboratory_with_a_layer_too_large_or_damaged_weights_is_refused(laboratory, tmp_path):
    content = members(laboratory.lab)["network.json"]
    document = json.loads(content)
    layer = next(each for each in document["layers"] if each["kind"] == "conv2d")
    layer["kernel"] = [10**6, 10**6]  # 4 TB
    changed = json.dumps(document).encode()
    weights = members(laboratory.lab)["network.safetensors"][:-8]
    for file, said in (
        ({"network.json": changed}, r"damaged.*size mismatch"),
        ({"network.safetensors": weights}, "damaged"),
    ):
        path = rewritten(laboratory.lab, tmp_path / "lab.zip", **file)
        with pytest.raises(AttributionLabError, match=said):
            open_laboratory(path)


@pytest.mark.parametrize("content", [b'{"schema": 2}', b'{"schema": 1, "images": [4, 3, 24, 24]}'])
def test_a_laboratory_without_its_questions_is_refused_in_one_line(laboratory, tmp_path, content):
    path = rewritten(laboratory.lab, tmp_path / "lab.zip", **{"lab.json": content})
    with pytest.raises(AttributionLabError, match="laboratory cannot be read"):
        check_submission(path, laboratory.key)
