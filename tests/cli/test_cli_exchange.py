"""The commands `export` and `score`: exit statuses, one-line refusals, files whole or not at all."""

import json

import numpy as np
import pytest

import attributionlab as al
from attributionlab.cli import app as cli

EXPORT = ("export", "multi-color-sum", "--n", "13", "--image-size", "24", "--out", "out")


@pytest.fixture
def exported(tmp_path, monkeypatch):
    """The current folder, with an export and maps of every verdict."""
    monkeypatch.chdir(tmp_path)
    assert cli.main([*EXPORT]) == 0
    masks = np.load("out/arrays.npz")["masks"].astype(np.float32)
    np.savez("right.npz", masks)
    np.savez("wrong.npz", -masks)
    return tmp_path


@pytest.mark.long
def test_exports_are_written_and_scored_as_by_the_test(exported, capsys):
    assert cli.main([*EXPORT]) == 0  # the same once more
    assert cli.main(["score", "out", "right.npz", "--json", "right.json", "--cite"]) == 0
    said = capsys.readouterr().out
    assert "was tested with AttributionLab" in said
    assert "out: multi-color-sum, 13 images, seed 0, masks of the probability" in said
    assert "attributionlab score out maps.npz" in said
    assert "right.npz: pass" in said
    assert "All images of an environment have one network" in said
    assert cli.main(["score", "out", "wrong.npz", "--json", "wrong.json"]) == 1
    assert cli.main(["score", "out", "wrong.npz", "--claim", "overall"]) == 0
    document = json.loads((exported / "wrong.json").read_text(encoding="utf-8"))
    assert document["one_network"] is True
    assert document["command"] == "attributionlab score out wrong.npz --json wrong.json"
    assert document["method"] == "wrong.npz"
    maps = np.load("wrong.npz")["arr_0"]
    env = al.load("multi-color-sum", image_size=24)
    tested = al.faithfulness_test(maps, env, 13, one_network=True).to_dict()
    for key in ("verdict", "claim", "least", "hints", "controls"):
        assert document[key] == tested[key]
    for part in ("overall", "positive", "negative"):
        assert document["environments"][0][part] == tested["environments"][0][part]
    manifest = json.loads((exported / "out" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["command"] == " ".join(["attributionlab", *EXPORT])


def test_sizes_seeds_and_outputs_are_chosen(exported):
    words = ("--n", "1", "--seed", "4", "--output", "logit", "--quick")
    assert cli.main(["export", "multi-color-sum", *words, "--out", "quick"]) == 0
    manifest = json.loads((exported / "quick" / "manifest.json").read_text(encoding="utf-8"))
    assert [manifest[key] for key in ("n", "seed", "output")] == [1, 4, "logit"]
    assert np.load("quick/arrays.npz")["images"].shape == (1, 3, 72, 72)


def test_a_changed_file_is_named(exported, capsys):
    path = exported / "out" / "images" / "00002.png"
    path.write_bytes(path.read_bytes()[:50])
    assert cli.main(["score", "out", "right.npz"]) == 2
    assert "1 of 17 files have changed (images/00002.png)" in capsys.readouterr().err
