"""Scores of exported environments: those of the test on one network; what has changed is named."""

import json
import shutil

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import attributionlab as al
from attributionlab.verdicts.exchange import Manifest, digest_of
from attributionlab.worlds.nets import equivalents_of
from cases import SMALL_ENVIRONMENTS, loaded

ALIKE = ("method", "command")
"""What a score and a test say differently."""


env = loaded("multi-color-sum", image_size=24)


@pytest.fixture(scope="module")
def exported(env, tmp_path_factory):
    return al.export_environment(env, tmp_path_factory.mktemp("exported") / "export", n=6)


@pytest.fixture
def folder(exported, tmp_path):
    """A copy to change."""
    return shutil.copytree(exported, tmp_path / "export")


def noisy(masks, seed=0):
    """Maps that are right in part."""
    rng = np.random.default_rng(seed)
    return (masks + rng.normal(scale=0.3, size=masks.shape)).astype(np.float32)


def comparable(report):
    """A report without what a score says differently; seconds differ from run to run."""
    document = {key: value for key, value in report.to_dict().items() if key not in ALIKE}
    for environment in document["environments"]:
        del environment["seconds_per_image"]
    return document


def manifest_of(folder):
    return json.loads((folder / "manifest.json").read_text(encoding="utf-8"))


def write_manifest(folder, manifest):
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


@pytest.mark.long
@pytest.mark.parametrize(("name", "overrides"), SMALL_ENVIRONMENTS, ids=lambda each: str(each)[:24])
def test_a_score_is_that_of_the_test_on_one_network(tmp_path, name, overrides):
    env = al.load(name, **overrides)
    out = al.export_environment(env, tmp_path / "export", n=6, seed=3)
    maps = noisy(np.load(out / "arrays.npz")["masks"])
    np.savez(tmp_path / "maps.npz", maps)
    report = al.score_export(out, tmp_path / "maps.npz")
    tested = al.faithfulness_test(maps, env, 6, 3, one_network=True)
    assert comparable(report) == comparable(tested)
    assert report.to_dict()["one_network"] is True
    assert report.method == str(tmp_path / "maps.npz")
    assert 0 < report.environments[0].claim_f1 < 1
    result, expected = report.environments[0], tested.environments[0]
    for part, scores in expected.scores.items():
        for score, values in scores.items():
            np.testing.assert_array_equal(result.scores[part][score], values)


@pytest.mark.long
@pytest.mark.parametrize("claim", ["overall", "positive", "positive-smoothed", "agreed"])
def test_claims_are_those_of_the_test(exported, env, claim):
    maps = noisy(np.load(exported / "arrays.npz")["masks"])
    report = al.score_export(exported, maps, claim)
    tested = al.faithfulness_test(maps, env, 6, 0, claim=claim, one_network=True)
    assert comparable(report) == comparable(tested)


@pytest.mark.long
def test_hints_have_the_commands_of_the_test(exported, env):
    maps = abs(np.load(exported / "arrays.npz")["masks"]).astype(np.float32)
    report = al.score_export(exported, maps)
    assert "load('multi-color-sum-distractors', image_size=24), n=6, one" in report.hints[0].confirm
    tested = al.faithfulness_test(maps, env, 6, one_network=True)
    assert comparable(report) == comparable(tested)


@pytest.mark.long
def test_masks_of_the_logit_are_what_its_maps_are_scored_against(tmp_path, env):
    out = al.export_environment(env, tmp_path / "export", n=13, output="logit")
    masks = np.load(out / "arrays.npz")["masks"].astype(np.float32)
    report = al.score_export(out, masks)
    assert report.verdict == "pass"
    assert report.environments[0].output == "logit"
    tested = al.faithfulness_test(masks, env, 13, explain="logit", one_network=True)
    assert comparable(report) == comparable(tested)


@pytest.mark.long
def test_rewritten_networks_come_back(tmp_path):
    plain = al.load("multi-color-sum-distractors", image_size=16)
    rewritten = [
        plain.camouflaged(3),
        *(plain.with_implementation(f) for f in equivalents_of(plain.network)),
    ]
    rewritten.append(rewritten[1].camouflaged(0))
    assert len(rewritten) == 7
    for index, env in enumerate(rewritten):
        out = al.export_environment(env, tmp_path / str(index), n=2)
        masks = np.load(out / "arrays.npz")["masks"].astype(np.float32)
        result = al.score_export(out, masks).environments[0]
        assert result.claim_f1 == 1
        assert result.digest == env.spec.digest


def test_users_toml_is_not_needed_for_the_score(tmp_path):
    (tmp_path / "mine.toml").write_text(
        'claim = "a"\nformula = "b"\nsource = "c"\nbuilder = "white-sum"\ndataset = "its.toml"\n'
    )
    (tmp_path / "its.toml").write_text(
        'generator = "binary-patches"\nsize = 4\nseed = 0\n[constants]\nimage_size = 16\n'
    )
    out = al.export_environment(str(tmp_path / "mine.toml"), tmp_path / "export", n=13)
    (tmp_path / "mine.toml").unlink()
    (tmp_path / "its.toml").unlink()
    images = np.load(out / "arrays.npz")["images"]
    assert images.max() == 1
    assert al.score_export(out, images.astype(np.float32)).verdict == "pass"


@pytest.mark.long
def test_maps_of_every_shape_and_number_are_taken(exported, tmp_path):
    masks = np.load(exported / "arrays.npz")["masks"].astype(np.float32)
    f1 = al.score_export(exported, noisy(masks)).environments[0].claim_f1
    same = noisy(masks)
    parts = np.stack([same[:, 0], np.zeros_like(same[:, 0]), np.zeros_like(same[:, 0])], 1)
    for maps in (same[:, 0], parts, torch.from_numpy(same)):
        assert al.score_export(exported, maps).environments[0].claim_f1 == f1
    np.save(tmp_path / "maps.npy", same)
    np.savez(tmp_path / "two.npz", **{"multi-color-sum": same, "other": masks})
    for name in ("maps.npy", "two.npz"):
        assert al.score_export(exported, str(tmp_path / name)).environments[0].claim_f1 == f1


class Trap:
    """What runs when it is unpickled."""

    def __reduce__(self):
        return pytest.fail, ("was unpickled",)


MAPS = {
    "NaN": (lambda m: np.where(m == 0, np.nan, m), "returned nan for image 0"),
    "infinite": (lambda m: np.where(m == 0, np.inf, m), "returned inf for image 0"),
    "too few": (lambda m: m[:5], "one map for each of the 6 images"),
    "too many": (lambda m: np.concatenate([m, m]), "one map for each of the 6 images"),
    "flat": (lambda m: m.reshape(6, -1), "one map for each of the 6 images"),
    "channels last": (lambda m: np.repeat(m, 3, 1).transpose(0, 2, 3, 1), "shape"),
    "other size": (lambda m: m[:, :, :20, :20], "shape"),
    "texts": (lambda m: m.astype(str), "<U"),
    "complex": (lambda m: m * 1j, "complex"),
    "none": (lambda m: m[:0], "one map for each of the 6 images"),
}


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.parametrize("case", MAPS)
def test_maps_that_cannot_be_scored_are_refused_in_one_line(exported, tmp_path, case):
    change, message = MAPS[case]
    maps = change(np.load(exported / "arrays.npz")["masks"].astype(np.float32))
    np.savez(tmp_path / "maps.npz", maps)
    with pytest.raises(al.AttributionLabError, match=message) as refused:
        al.score_export(exported, tmp_path / "maps.npz")
    assert "\n" not in str(refused.value)


# NumPy leaves a truncated file open for the garbage collection.
@pytest.mark.long
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_files_that_hold_no_maps_are_refused_and_nothing_is_unpickled(exported, tmp_path):
    trap = np.array([Trap()], dtype=object)
    np.savez(tmp_path / "trap.npz", maps=trap)
    np.save(tmp_path / "trap.npy", trap)
    np.savez(tmp_path / "several.npz", a=np.zeros(2), b=np.zeros(2))
    np.savez(tmp_path / "empty.npz")
    (tmp_path / "text.npz").write_text("maps")
    (tmp_path / "cut.npz").write_bytes((exported / "arrays.npz").read_bytes()[:200])
    (tmp_path / "folder.npz").mkdir()
    torch.save(torch.zeros(6, 24, 24), tmp_path / "maps.pt")
    for name, message in (
        ("trap.npz", "holds no array"),
        ("trap.npy", "holds no array"),
        ("several.npz", "holds 'a', 'b': save one array, or one named 'multi-color-sum'"),
        ("empty.npz", "holds nothing"),
        ("text.npz", "holds no array"),
        ("cut.npz", "holds no array"),
        ("folder.npz", "no file at"),
        ("gone.npz", "no file at"),
        ("maps.pt", "save them as .npz or .npy"),
        ("maps", "save them as .npz or .npy"),
        ("mine.py:maps", "save them as .npz or .npy"),
    ):
        with pytest.raises(al.AttributionLabError, match=message):
            al.score_export(exported, tmp_path / name)


@pytest.mark.parametrize(
    "name",
    [
        *("images/00003.png", "metadata.csv", "arrays.npz", "network.json"),
        "network.safetensors",
    ],
)
def test_a_file_that_has_changed_is_named(folder, name):
    masks = np.load(folder / "arrays.npz")["masks"]
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:-20])
    with pytest.raises(al.AttributionLabError, match=rf"1 of 10 files have changed \({name}\)"):
        al.score_export(folder, masks)
    (folder / name).unlink()
    with pytest.raises(al.AttributionLabError, match=rf"1 of 10 files are missing \({name}\)"):
        al.score_export(folder, masks)
    (folder / name).mkdir()
    with pytest.raises(al.AttributionLabError, match="are missing"):
        al.score_export(folder, masks)


@given(data=st.data())
def test_any_changed_byte_is_noticed(exported, data):
    manifest = Manifest.read(exported)
    name = data.draw(st.sampled_from(sorted(manifest.files)))
    content = (exported / name).read_bytes()
    place = data.draw(st.integers(0, len(content) - 1))
    changed = bytes([content[place] ^ data.draw(st.integers(1, 255))])
    try:
        (exported / name).write_bytes(content[:place] + changed + content[place + 1 :])
        with pytest.raises(al.AttributionLabError, match=rf"1 of 10 files have changed \({name}\)"):
            manifest.check_files(exported)
    finally:
        (exported / name).write_bytes(content)
    manifest.check_files(exported)


def test_many_changed_files_are_counted(folder):
    for path in folder.glob("images/*.png"):
        path.write_bytes(b"")
    with pytest.raises(al.AttributionLabError, match=r"6 of 10 .*00004.png and 1 more\)"):
        al.score_export(folder, np.zeros((6, 24, 24)))


def sums_of(folder):
    """A manifest whose sums hold for files as they are."""
    manifest = manifest_of(folder)
    manifest["files"] = {name: digest_of(folder / name) for name in manifest["files"]}
    return manifest


def test_masks_images_and_weights_that_are_not_the_specifications_are_refused(exported, tmp_path):
    from safetensors.numpy import load_file, save_file

    def arrays(name):
        def change(folder):
            found = dict(np.load(folder / "arrays.npz"))
            found[name] = found[name].copy()
            found[name].flat[0] += 1
            np.savez(folder / "arrays.npz", **found)

        return change

    def weights(folder):
        found = load_file(folder / "network.safetensors")
        found["head.0.weight"] = 2 * found["head.0.weight"]
        save_file(found, folder / "network.safetensors")

    def layers(folder):
        document = json.loads((folder / "network.json").read_text())
        document["layers"].pop()
        (folder / "network.json").write_text(json.dumps(document))

    changes = [*map(arrays, ("images", "labels", "targets", "masks")), weights, layers]
    for index, change in enumerate(changes):
        folder = shutil.copytree(exported, tmp_path / str(index))
        masks = np.load(folder / "arrays.npz")["masks"]
        change(folder)
        write_manifest(folder, sums_of(folder))
        with pytest.raises(
            al.AttributionLabError, match="holds images, masks or weights that differ"
        ):
            al.score_export(folder, masks)
    folder = shutil.copytree(exported, tmp_path / "text")
    (folder / "arrays.npz").write_text("no arrays")
    write_manifest(folder, sums_of(folder))
    with pytest.raises(al.AttributionLabError, match="cannot be read"):
        al.score_export(folder, masks)


MANIFESTS = {
    "schema": (lambda m: m | {"schema": 2}, "has the schema 2, this version reads 1"),
    "a list": (lambda m: [m], "has the schema None"),
    "no n": (lambda m: {k: v for k, v in m.items() if k != "n"}, "n is None"),
    "n": (lambda m: m | {"n": 7}, r"not those of an export of 7 images \(images/00006.png"),
    "n is true": (lambda m: m | {"n": True}, "n is True"),
    "seed": (lambda m: m | {"seed": -1}, "seed is -1"),
    "other seed": (lambda m: m | {"seed": 1}, "holds images, masks or weights that differ"),
    "output": (lambda m: m | {"output": "logits"}, "output is 'logits'"),
    "other output": (
        lambda m: m | {"output": "logit"},
        "holds images, masks or weights that differ",
    ),
    "outside": (
        lambda m: m | {"files": m["files"] | {"../../secret": "0"}},
        r"not those of an export of 6 images \(../../secret\)",
    ),
    "unchecked": (
        lambda m: m | {"files": {k: v for k, v in m["files"].items() if k != "arrays.npz"}},
        r"not those of an export of 6 images \(arrays.npz\)",
    ),
    "no specification": (lambda m: m | {"environment": {}}, "has no specification"),
    "digest": (
        lambda m: m | {"environment": m["environment"] | {"digest": "0"}},
        "holds images, masks or weights that differ",
    ),
    "specification": (
        lambda m: (
            m
            | {
                "environment": m["environment"]
                | {"spec": m["environment"]["spec"] | {"builder": "x"}}
            }
        ),
        "no builder named 'x'",
    ),
}


@pytest.mark.parametrize("case", MANIFESTS)
def test_a_manifest_that_was_changed_is_refused_in_one_line(folder, case):
    change, message = MANIFESTS[case]
    write_manifest(folder, change(manifest_of(folder)))
    with pytest.raises(al.AttributionLabError, match=message) as refused:
        al.score_export(folder, np.zeros((6, 24, 24)))
    assert "\n" not in str(refused.value)


def test_folders_that_are_no_export_are_refused(tmp_path, folder):
    for path in (tmp_path / "gone", tmp_path):
        with pytest.raises(al.AttributionLabError, match=r"does not hold manifest\.json"):
            al.score_export(path, np.zeros((6, 24, 24)))
    for text in ("", "{", "[" * 100_000, "\xff"):
        (folder / "manifest.json").write_bytes(text.encode("latin-1"))
        with pytest.raises(al.AttributionLabError, match="is not JSON"):
            al.score_export(folder, np.zeros((6, 24, 24)))
