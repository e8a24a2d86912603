"""Environments as folders: what the files hold, and what is refused before anything is written."""

import csv
import errno
import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.numpy import load_file
from torch import nn

import attributionlab as al
from attributionlab.verdicts import listed_network
from attributionlab.worlds import from_spec
from cases import SMALL_ENVIRONMENTS, SMALL_WORLDS

FILES = {"arrays.npz", "images", "manifest.json", "metadata.csv", "network.json"}
FILES |= {"network.safetensors"}


@pytest.fixture
def env():
    return al.load("multi-color-sum", image_size=24)


def read(folder, name):
    return json.loads((folder / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize(("name", "overrides"), SMALL_ENVIRONMENTS, ids=lambda each: str(each)[:24])
def test_files_hold_the_images_labels_masks_and_weights_of_the_environment(
    tmp_path, name, overrides
):
    env = al.load(name, **overrides)
    out = al.export_environment(env, tmp_path / "export", n=3, seed=5)
    assert {path.name for path in out.iterdir()} == FILES
    images, labels = env.batch(3, 5)
    targets = env.targets(labels)
    arrays = np.load(out / "arrays.npz", allow_pickle=False)
    assert (arrays["images"] == images.numpy()).all()
    assert arrays["images"].dtype == np.uint8
    assert arrays["labels"].tolist() == labels.tolist()
    assert arrays["targets"].tolist() == targets.tolist()
    assert (arrays["masks"] == env.truth(images, targets).signed.numpy()).all()
    with (out / "metadata.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["file_name", "index", "label", "target"]
    for index, (row, image) in enumerate(zip(rows, images.numpy(), strict=True)):
        assert row["file_name"] == f"images/0000{index}.png"
        assert [int(row[key]) for key in ("index", "label", "target")] == [
            index,
            int(labels[index]),
            int(targets[index]),
        ]
        pixels = np.array(Image.open(out / row["file_name"]))
        assert (pixels.reshape(*image.shape[1:], -1).transpose(2, 0, 1) == image).all()
    document, weights = read(out, "network.json"), load_file(out / "network.safetensors")
    state = {key: value.numpy() for key, value in env.model.state_dict().items()}
    for key, value in state.items():
        assert (weights[key] == value).all()
    assert set(weights) - set(state) == ({"temperature.weight"} if env.softmax_model else set())
    assert set(document["outputs"]) == set(env.outputs)
    shape = [document["input"][key] for key in ("channels", "height", "width", "highest")]
    assert shape == [*images.shape[1:], env.max_value]
    assert document["baseline"] == env.baseline.flatten().tolist()
    modules = dict(env.model.named_modules())
    assert {key: modules[name] for key, name in document["attach"].items()} == env.layers


def test_the_manifest_has_the_sum_of_every_file_and_all_to_build_the_environment_again(
    tmp_path, env
):
    out = al.export_environment(env, tmp_path / "export", n=2, output="logit")
    manifest = read(out, "manifest.json")
    files = [path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()]
    assert manifest["files"].keys() == {*files} - {"manifest.json"}
    for name, expected in manifest["files"].items():
        assert hashlib.sha256((out / name).read_bytes()).hexdigest() == expected
    assert (manifest["schema"], manifest["n"], manifest["seed"]) == (1, 2, 0)
    assert manifest["output"] == "logit"
    assert manifest["environment"]["digest"] == env.spec.digest
    assert from_spec(manifest["environment"]["spec"]).spec == env.spec
    assert manifest["versions"]["attributionlab"] == al.__version__
    again = eval(
        manifest["command"].replace(repr(str(out)), "tmp_path / 'again'"),
        {"attributionlab": al, "tmp_path": tmp_path},
    )
    assert read(again, "manifest.json")["files"] == manifest["files"]
    masks = np.load(out / "arrays.npz")["masks"]
    assert set(np.unique(masks)) == {0, 1}  # of the logit; the probability's have -1, too


@pytest.mark.long
def test_a_specification_alone_builds_any_environment(tmp_path):
    for name, overrides in (*SMALL_WORLDS, *SMALL_ENVIRONMENTS):
        small = al.load(name, **overrides)
        assert from_spec(json.loads(json.dumps(asdict(small.spec)))).spec == small.spec
    for spec, message in (
        ({}, "has the name None"),
        ({"name": "mine", "constants": {}}, "the design lacks 'builder'"),
        (asdict(small.spec) | {"size": "many"}, "size is 'many': take an integer"),
        (asdict(small.spec) | {"constants": {"image_sise": 9}}, "unknown constant 'image_sise'"),
    ):
        with pytest.raises(al.AttributionLabError, match=message):
            from_spec(spec)


def test_two_exports_are_equal_byte_for_byte(tmp_path, env):
    first, second = (al.export_environment(env, tmp_path / each, n=2) for each in "ab")
    for name in read(first, "manifest.json")["files"]:
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_the_same_export_is_left_as_it_is_and_another_is_refused(tmp_path, env):
    out = al.export_environment(env, tmp_path / "export", n=2)
    (out / "maps.npz").write_bytes(b"somebody's maps")
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    assert al.export_environment(env, out, n=2) == out
    for changes in ({"n": 3}, {"seed": 1}, {"output": "logit"}):
        with pytest.raises(al.AttributionLabError, match=r"is not empty \(it holds another export"):
            al.export_environment(env, out, **{"n": 2, **changes})
    with pytest.raises(al.AttributionLabError, match="another export"):
        al.export_environment(env.camouflaged(1), out, n=2)
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before
    (out / "metadata.csv").write_text("mine")
    with pytest.raises(
        al.AttributionLabError, match=r"not empty \(.*1 of 6 files have changed \(metadata.csv\)"
    ):
        al.export_environment(env, out, n=2)


def test_an_export_of_another_version_is_not_the_same(tmp_path, env):
    out = al.export_environment(env, tmp_path / "export", n=1)
    manifest = read(out, "manifest.json")
    manifest["versions"]["attributionlab"] = "0.0.9"
    (out / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(al.AttributionLabError, match="another export"):
        al.export_environment(env, out, n=1)


def test_folders_with_something_else_are_refused_and_empty_ones_filled(tmp_path, env, monkeypatch):
    (tmp_path / "empty").mkdir()
    assert al.export_environment(env, tmp_path / "empty", n=1).is_dir()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(
        al.AttributionLabError, match=r"is not empty \(.* does not hold manifest.json"
    ):
        al.export_environment(env, tmp_path / "mine", n=1)
    with pytest.raises(al.AttributionLabError, match="is not a folder: name a new one"):
        al.export_environment(env, tmp_path / "mine" / "notes.txt", n=1)
    with pytest.raises(al.AttributionLabError, match="there is no folder"):
        al.export_environment(env, tmp_path / "no" / "export", n=1)
    monkeypatch.chdir(tmp_path / "empty")
    with pytest.raises(al.AttributionLabError, match=r"'\.' is the current folder"):
        al.export_environment(env, ".", n=1)
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    with pytest.raises(al.AttributionLabError, match="no permission"):
        al.export_environment(env, tmp_path / "export", n=1)
    assert {path.name for path in tmp_path.iterdir()} == {"empty", "mine"}


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
def test_a_full_disk_or_an_interrupt_leaves_nothing(tmp_path, env, monkeypatch, error):
    (tmp_path / "export").mkdir()
    write, written = Path.write_bytes, []

    def fail(path, content):
        written.append(path)
        if len(written) == 3:
            raise error
        return write(path, content)

    monkeypatch.setattr(Path, "write_bytes", fail)
    expected = KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else al.AttributionLabError
    with pytest.raises(expected, match="cannot write .*No space left" if error.args else None):
        al.export_environment(env, tmp_path / "export", n=4)
    assert len(written) == 3
    assert [path.name for path in tmp_path.rglob("*")] == ["export"]


@pytest.mark.usefixtures("without_shape_checks")
def test_bad_numbers_and_names_are_refused(tmp_path, env):
    for arguments, message in (
        ({"n": 0}, "n is 0: take an integer from 1"),
        ({"n": 2.5}, "n is 2.5"),
        ({"seed": -1}, "seed is -1"),
        ({"output": "logits"}, "output is 'logits'"),
    ):
        with pytest.raises(al.AttributionLabError, match=message):
            al.export_environment(env, tmp_path / "export", **arguments)
    with pytest.raises(al.AttributionLabError, match="no environment named 'multi'"):
        al.export_environment("multi", tmp_path / "export")
    gray = al.load("number-checker", image_size=16)
    with pytest.raises(al.AttributionLabError, match="is a regression"):
        al.export_environment(gray, tmp_path / "export", output="probability")
    assert not list(tmp_path.iterdir())


class Residual(nn.Module):
    """A branch and a sum."""

    def forward(self, x):
        return x + x.clamp(min=0)


class Doubled(nn.ReLU):
    """What only looks like a ReLU."""

    def forward(self, x):
        return 2 * x.clamp(min=0)


@pytest.mark.parametrize(
    "layer",
    [
        Residual(),
        Doubled(),
        nn.Sigmoid(),
        nn.Conv2d(4, 4, 3, groups=2),
        nn.Conv2d(4, 4, 3, dilation=2),
        nn.Conv2d(4, 4, 3, padding="same"),
        nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular"),
        nn.Flatten(2),
        nn.Softmax(dim=0),
        nn.BatchNorm2d(4),
    ],
    ids=lambda layer: str(layer)[:20],
)
def test_what_a_list_of_layers_cannot_say_is_refused_in_one_line(tmp_path, env, layer):
    env.model = nn.Sequential(env.model, layer)
    with pytest.raises(al.AttributionLabError, match=r"layer '1' is .*cannot represent") as refused:
        al.export_environment(env, tmp_path / "export", n=1)
    assert "\n" not in str(refused.value)
    assert not list(tmp_path.iterdir())


def test_a_module_used_twice_is_listed_twice():
    env = al.load("number-checker", image_size=24)
    relu = nn.ReLU()
    env.model = nn.Sequential(relu, nn.Flatten(), relu)
    kinds = [layer["kind"] for layer in listed_network(env).document["layers"]]
    assert kinds == ["relu", "flatten", "relu"]


def test_weights_in_other_numbers_or_changed_by_hand_are_refused(tmp_path, env):
    with torch.no_grad():
        env.model.head[0].weight[0, 0] += 0.25
    with pytest.raises(al.AttributionLabError, match="differ from its specification"):
        al.export_environment(env, tmp_path / "export", n=1)
    env.model.double()
    with pytest.raises(al.AttributionLabError, match=r"is of torch.float64: export float32"):
        al.export_environment(env, tmp_path / "export", n=1)
    assert not list(tmp_path.iterdir())


def test_an_environment_whose_images_are_not_its_specifications_is_refused(tmp_path, env):
    env.recipe = al.load("multi-color-sum", image_size=24, fill=0.75).recipe
    with pytest.raises(al.AttributionLabError, match="differ from its specification"):
        al.export_environment(env, tmp_path / "export", n=1)
