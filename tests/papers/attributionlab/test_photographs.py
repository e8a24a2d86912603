"""Figures with photographs: a user's own network and images, or trained ones with drawn pictures."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from torch import nn

from attributionlab.base import AttributionLabError
from attributionlab.papers import reproduce
from attributionlab.papers.attributionlab import photographs, segmented_lime
from attributionlab.papers.attributionlab.photographs import (
    SAME,
    Pictured,
    baselines_tables,
    pictured_by,
    signs_tables,
)
from attributionlab.papers.attributionlab.segmented_lime import (
    CONTROL,
    DRAWN_REGIONS,
    MEASURES,
    SAM,
    SegmentedMaps,
    lime_tables,
)
from attributionlab.papers.catalog import Found, Run
from attributionlab.papers.subjects.drawn_pictures import CLASSES, SIDE, pictures
from attributionlab.papers.subjects.subjects import Subject
from claims_held import holds

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # Captum's own

MODEL = f"""
import torch
from torch import nn

def make():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
        nn.Linear(64, {CLASSES}),
    )
"""


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Few pictures, and networks that are not trained long."""
    for name, value in {"QUICK_TRAINING": 30, "TESTED": 20, "QUICK_IMAGES": 2}.items():
        monkeypatch.setattr(photographs, name, value)
    for name in ("CONVOLUTIONS_EPOCHS", "ATTENTION_EPOCHS"):
        monkeypatch.setattr(photographs, name, 1)
    monkeypatch.setattr(segmented_lime, "QUICK_SAMPLES", 40)
    monkeypatch.setattr(photographs, "WINDOWS", 4)


@pytest.fixture
def own(tmp_path):
    """Photographs without classes, a network and its weights."""
    (tmp_path / "photographs").mkdir()
    for index, image in enumerate(pictures(2, 5).images):
        pixels = (255 * image).byte().permute(1, 2, 0).numpy()
        Image.fromarray(pixels).save(tmp_path / "photographs" / f"{index}.png")
    (tmp_path / "mine.py").write_text(MODEL)
    scope = {}
    exec(MODEL, scope)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = scope["make"]()
    torch.save(network.state_dict(), tmp_path / "weights.pt")
    return {
        "images": str(tmp_path / "photographs"),
        "model": f"{tmp_path / 'mine.py'}:make",
        "weights": str(tmp_path / "weights.pt"),
        "size": SIDE,
    }


def test_without_anything_given_networks_are_trained_with_seeds_that_follow():
    networks = pictured_by("convolutions", {}, 2, Run("", 1, quick=True, seed=3))
    assert [each.subject.name for each in networks] == ["convolutions, seed 3"]
    subject, objects = networks[0]
    drawn = pictures(2, 4)
    assert torch.equal(subject.images, drawn.images)
    assert torch.equal(objects, drawn.objects)
    assert subject.notes[0].startswith("convolutions, seed 3: right on ")


def test_the_default_run_trains_three_networks(monkeypatch):
    monkeypatch.setattr(photographs, "TRAINING", 10)
    networks = pictured_by("attention", {}, None, Run("", 1))
    assert [each.subject.name for each in networks] == [f"attention, seed {k}" for k in range(3)]
    assert {len(each.subject.images) for each in networks} == {photographs.IMAGES}


def test_given_photographs_have_no_objects_and_one_note(own):
    [(subject, objects)] = pictured_by("convolutions", own, 2, Run("", 1, quick=True))
    assert objects is None
    assert len(subject.images) == 2
    assert torch.equal(subject.targets, subject.model(subject.images).argmax(1))
    assert len(subject.notes) == 1


@pytest.mark.long
@pytest.mark.parametrize("item", ["figure-25", "figure-26"])
def test_lime_on_drawn_pictures_has_tables_and_a_figure(item):
    outcome = reproduce(item, n=2, quick=True)
    network = "convolutions" if item == "figure-25" else "attention"
    assert outcome.notes[-1].startswith(f"{network}, seed 0: right on ")
    assert outcome.tables["lime"].superpixels_by[0] == DRAWN_REGIONS
    assert len(outcome.tables["lime_images"]) == 2 * 4
    assert set(outcome.tables["lime_differences"].measure) == set(MEASURES)
    assert set(outcome.figures) == {"maps"}


def test_lime_on_own_photographs_explains_one_of_each_class_and_has_no_control(own):
    outcome = reproduce("figure-25", quick=True, settings=own)
    assert set(outcome.tables) == {"lime", "lime_images"}
    assert set(outcome.tables["lime_images"].image) == {0}
    assert "on_object" not in outcome.tables["lime"]
    assert "have no labels" in " ".join(outcome.notes)
    assert {each["here"] for each in outcome.claims} == {"undecided"}


@pytest.mark.parametrize("item", ["figure-5", "figure-6", "figure-7", "figure-25", "figure-26"])
def test_weights_are_those_of_the_file(item, own):
    own["weights"] = "none.pt"
    with pytest.raises(AttributionLabError, match=r"no file of weights at 'none\.pt'"):
        reproduce(item, n=1, quick=True, settings=own)


@pytest.mark.parametrize("item", ["figure-5", "figure-6", "figure-7"])
def test_a_number_of_pictures_that_is_none_is_refused(item):
    with pytest.raises(AttributionLabError, match="pictures is 0: take an integer"):
        reproduce(item, n=1, quick=True, settings={"pictures": 0})


class Half(nn.Module):
    """The brightness on the left less that on the right, so that the sign of a gradient is known."""

    def forward(self, images):
        left, right = images[..., : SIDE // 2], images[..., SIDE // 2 :]
        score = left.sum((1, 2, 3)) - right.sum((1, 2, 3))
        return torch.stack([score, -score], 1)


def subject_of(drawn, name):
    """Drawn pictures, explained for the left of a linear model, from an empty pixel of 0."""
    model = Half()
    targets = torch.zeros(len(drawn.images)).long()
    return Subject(name, model, model, drawn.images, targets, 1.0, torch.zeros(3, 1, 1), 1.0)


def results(maps, objects=True):
    """Segmented maps that were made up: of one network for each sequence of two images."""
    drawn = pictures(2, 0)
    made = []
    for number, of_network in enumerate(maps):
        subject = subject_of(drawn, str(number))
        superpixels = {name: torch.zeros(2, SIDE, SIDE).long() for name in of_network}
        known = Pictured(subject, drawn.objects if objects else None)
        made.append(SegmentedMaps(known, of_network, superpixels))
    return made


def stripes(width, height=1.0):
    """A map of upright stripes: 32 / width of them."""
    columns = (torch.arange(SIDE) // width % 2).double() * height
    return columns.expand(2, 1, SIDE, SIDE).clone()


def test_differences_are_of_the_first_from_each_other_image_by_image():
    made = {DRAWN_REGIONS: stripes(16), "quickshift": stripes(1), CONTROL: stripes(8)}
    made[CONTROL][1] = stripes(4)[1]
    tables = lime_tables(results([made, made]), 0)
    frame = tables["lime_differences"]
    noise = frame[frame.measure == "total_variation"].set_index("against")
    pairs = 2 * SIDE * (SIDE - 1)
    one, many, some = (SIDE * steps / pairs for steps in (1, 31, (3 + 7) / 2))
    assert noise.loc["quickshift", "mean"] == pytest.approx(one - many)
    assert noise.loc[CONTROL, "mean"] == pytest.approx(one - some)
    assert noise.loc[CONTROL, "same_sign"] == "2 of 2"
    assert noise.loc["quickshift", "low"] == noise.loc["quickshift", "high"]
    means = tables["lime"].set_index("superpixels_by")
    assert means.loc["quickshift", "total_variation"] == pytest.approx(many)
    objects = pictures(2, 0).objects
    share = (stripes(1) * objects).sum((1, 2, 3)) / stripes(1).sum((1, 2, 3))
    assert means.loc["quickshift", "on_object"] == pytest.approx(float(share.mean()))


REGIONS, SQUARES = "regions_have_less_noise", "a_grid_has_no_more_noise"


@pytest.mark.parametrize(
    ("widths", "regions", "squares"),
    [
        ((16, 1, 1, 4), "agrees", "differs"),
        ((8, 1, 1, 16), "agrees", "agrees"),
        ((4, 8, 8, 16), "differs", "agrees"),
        ((4, 1, 8, 2), "differs", "differs"),
    ],
)
def test_claims_about_noise_follow_the_numbers(widths, regions, squares):
    names = (DRAWN_REGIONS, "quickshift", "felzenszwalb", CONTROL)
    made = dict(zip(names, map(stripes, widths), strict=True))
    tables = lime_tables(results([made]), 0)
    assert holds(tables, REGIONS) == regions
    assert holds(tables, SQUARES) == squares


def test_an_interval_that_holds_zero_decides_nothing():
    made = {DRAWN_REGIONS: stripes(8), "quickshift": stripes(1), "felzenszwalb": stripes(4)}
    made[CONTROL] = stripes(4)
    for name in ("felzenszwalb", CONTROL):
        made[name][1] = stripes(16)[1]  # noisier in one image, less noisy in the other
    tables = lime_tables(results([made]), 0)
    assert holds(tables, REGIONS) == holds(tables, SQUARES) == "undecided"


def test_one_image_decides_nothing():
    made = {DRAWN_REGIONS: stripes(8), "quickshift": stripes(1), CONTROL: stripes(16)}
    tables = lime_tables(results([made]), 0)
    tables["lime_differences"][["low", "high"]] = np.nan
    assert holds(tables, REGIONS) == holds(tables, SQUARES) == "undecided"


def test_negative_attribution_is_none_of_the_objects():
    made = {DRAWN_REGIONS: stripes(4) - 0.5, "quickshift": stripes(4), CONTROL: stripes(4)}
    means = lime_tables(results([made]), 0)["lime"].set_index("superpixels_by")
    assert means.on_object[DRAWN_REGIONS] == pytest.approx(means.on_object["quickshift"])


def test_maps_that_say_nothing_are_no_less_noisy_and_are_counted():
    made = {DRAWN_REGIONS: stripes(4), "quickshift": stripes(2), CONTROL: stripes(4)}
    made["quickshift"][1] = 0.0
    tables = lime_tables(results([made]), 0)
    means = tables["lime"].set_index("superpixels_by")
    pairs = 2 * SIDE * (SIDE - 1)
    assert means.total_variation["quickshift"] == pytest.approx(SIDE * 15 / pairs)
    assert means.constant.to_dict() == {DRAWN_REGIONS: 0, "quickshift": 1, CONTROL: 0}


def test_sam_is_the_reference_on_photographs():
    made = {SAM: stripes(16), "quickshift": stripes(2), CONTROL: stripes(4)}
    tables = lime_tables(results([made], objects=False), 0)
    assert set(tables["lime_differences"]["first"]) == {SAM}
    assert holds(tables, REGIONS) == "agrees"


@pytest.fixture
def halves():
    """Pictures and a model whose gradients have known signs."""
    drawn = pictures(3, 0)
    return Pictured(subject_of(drawn, "halves"), drawn.objects)


def test_both_signs_are_counted_on_the_object(halves):
    tables, _ = signs_tables([halves], 0)
    found = tables["photographs_images"].set_index(["method", "image"])
    images, objects = halves.subject.images.sum(1), halves.objects[:, 0]
    right = torch.arange(SIDE) >= SIDE // 2
    for index in range(3):
        on = images[index] * objects[index]
        expected = float(on[:, right].sum() / on.sum())
        # float32: sums of 1,024 terms
        assert found.loc[("IG", index), "negative"] == pytest.approx(expected, rel=1e-4)
        assert found.loc[("IG", index), "on_object"] == pytest.approx(
            float(on.sum() / images[index].sum()), rel=1e-4
        )
        crossing = int((objects[index][:, 15] & objects[index][:, 16]).sum())
        inside = objects[index]
        pairs = int((inside[1:] & inside[:-1]).sum() + (inside[:, 1:] & inside[:, :-1]).sum())
        assert found.loc[("IG", index), "sign_changes"] == pytest.approx(crossing / pairs)
    shares = found.loc["DeepSHAP"].negative
    row = tables["photographs"].set_index("method").loc["DeepSHAP"]
    assert row.both_signs == ((shares >= 0.1) & (shares <= 0.9)).sum() > 0
    assert row.maps == 3
    assert row.low <= row.negative <= row.high
    assert holds(tables, BOTH) == "agrees"


BOTH = "deep_shap_has_both_signs_on_objects"


def test_one_sign_alone_is_not_both(halves):
    brighter = halves.subject.images.clone()
    brighter[..., SIDE // 2 :] = 0
    tables, _ = signs_tables([Pictured(replace(halves.subject, images=brighter), None)], 0)
    assert tables["photographs"].both_signs.tolist() == [0, 0]
    assert "on_object" not in tables["photographs"]
    assert holds(tables, BOTH) == "differs"
    empty = tables["photographs"].assign(maps=0)
    assert holds({"photographs": empty}, BOTH) == "undecided"


OTHER = "other_baselines_highlight_other_pixels"


def test_constant_maps_have_no_verdict_on_the_baseline(halves, monkeypatch):
    monkeypatch.setattr(
        photographs, "maps_of", lambda subject, *_: torch.zeros(len(subject.images), 1, SIDE, SIDE)
    )
    tables, _ = baselines_tables([halves], 0)
    assert tables["photographs"].with_black.isna().all()
    assert holds(tables, OTHER) == "undecided"


def test_baselines_are_compared_with_black(halves):
    tables, maps = baselines_tables([halves], 0)
    table = tables["photographs"]
    frame = table.set_index(["method", "baseline"])
    assert set(frame.index) == {
        (method, color)
        for method in ("IG", "Occlusion")
        for color in ("black", "white", "mean color")
    }
    assert [*maps] == [f"{method}, {color}" for method, color in frame.index]
    assert frame.with_black[:, "black"].tolist() == pytest.approx([1, 1])
    # the empty pixel is black here
    assert frame.with_black[:, "mean color"].tolist() == pytest.approx([1, 1])
    assert frame.with_black["IG", "white"] < SAME
    assert frame.low["IG", "white"] <= frame.with_black["IG", "white"] <= frame.high["IG", "white"]
    assert holds({"photographs": table[table.method == "IG"]}, OTHER) == "agrees"
    integrated = tables["photographs_images"]
    row = integrated[(integrated.method == "IG") & (integrated.baseline == "white")].iloc[0]
    image, inside = halves.subject.images[0], halves.objects[0, 0]
    values = (image - 1).sum(0)
    values[:, SIDE // 2 :] *= -1
    positive = values.clamp(min=0)
    expected = float((positive * inside).sum() / positive.sum())
    assert row.on_object == pytest.approx(expected, rel=1e-4)


def test_windows_of_occlusion_grow_with_the_image(halves, monkeypatch):
    calls = []

    def maps_of(subject, name, seed, settings):
        calls.append((name, settings))
        return subject.images.sum(1, keepdim=True)

    monkeypatch.setattr(photographs, "maps_of", maps_of)
    monkeypatch.setattr(photographs, "WINDOWS", 14)
    tables, _ = baselines_tables([halves], 0)
    windows = [settings for name, settings in calls if name == "occlusion"]
    assert [(each["window"], each["stride"]) for each in windows] == [(2, 1)] * 3
    assert all("window" not in settings for name, settings in calls if name != "occlusion")
    assert holds(tables, OTHER) == "differs"


@pytest.mark.long
@pytest.mark.parametrize("item", ["figure-5", "figure-6", "figure-7"])
def test_pictures_follow_the_environments(item, own, monkeypatch):
    def of_environments(*_, **__):
        return Found({"summary": pd.DataFrame({"method": ["lime"], "f1": [0.5]})})

    monkeypatch.setattr(photographs, "comparison", of_environments)
    monkeypatch.setattr(segmented_lime, "compared", of_environments)
    monkeypatch.setattr("attributionlab.papers.catalog.CLAIMS", [])
    for settings in ({}, own):
        outcome = reproduce(item, n=1, quick=True, settings=settings)
        assert next(iter(outcome.tables)) == "summary"
        assert len(outcome.tables) > 2
        assert [*outcome.figures] == ["photographs"]
        network = "have no labels" if settings else "right on"
        assert network in outcome.notes[-1]
