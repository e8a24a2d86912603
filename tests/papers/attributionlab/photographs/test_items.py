"""Figures with photographs: a user's own network and images, or trained ones with drawn pictures."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from torch import nn

from attributionlab.errors import AttributionLabError
from attributionlab.papers.attributionlab.photographs import (
    baselines,
    figures,
    pictured,
    segmented_lime,
    signs,
)
from attributionlab.papers.attributionlab.photographs.baselines import baselines_panel
from attributionlab.papers.attributionlab.photographs.items import PHOTOGRAPH_ITEMS
from attributionlab.papers.attributionlab.photographs.lime_items import lime_on_photographs
from attributionlab.papers.attributionlab.photographs.panels import Panel, with_panel
from attributionlab.papers.attributionlab.photographs.pictured import Own, Pictured, pictured_by
from attributionlab.papers.attributionlab.photographs.segmented_lime import (
    SegmentedMaps,
    lime_findings,
    lime_tables,
)
from attributionlab.papers.attributionlab.photographs.signs import signs_panel
from attributionlab.papers.attributionlab.photographs.superpixels import CONTROL, DRAWN_REGIONS, SAM
from attributionlab.papers.reproduction import Reproduction
from attributionlab.papers.subjects.drawn_pictures import CLASSES, SIDE, pictures
from attributionlab.papers.subjects.subjects import Subject

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
        monkeypatch.setattr(pictured, name, value)
    for name in ("CONVOLUTIONS_EPOCHS", "ATTENTION_EPOCHS"):
        monkeypatch.setattr(pictured, name, 1)
    monkeypatch.setattr(segmented_lime, "QUICK_SAMPLES", 40)
    monkeypatch.setattr(baselines, "WINDOWS", 4)


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
    networks = pictured_by("convolutions", Own(), 2, quick=True, seed=3)
    assert [each.subject.name for each in networks] == ["convolutions, seed 3"]
    subject, objects = networks[0]
    drawn = pictures(2, 4)
    assert torch.equal(subject.images, drawn.images)
    assert torch.equal(objects, drawn.objects)
    assert subject.notes[0].startswith("convolutions, seed 3: right on ")


def test_the_default_run_trains_three_networks(monkeypatch):
    monkeypatch.setattr(pictured, "TRAINING", 10)
    networks = pictured_by("attention", Own(), None, quick=False, seed=0)
    assert [each.subject.name for each in networks] == [f"attention, seed {k}" for k in range(3)]
    assert {len(each.subject.images) for each in networks} == {pictured.IMAGES}


def test_given_photographs_have_no_objects_and_one_note(own):
    [(subject, objects)] = pictured_by("convolutions", Own(**own), 2, quick=True, seed=0)
    assert objects is None
    assert len(subject.images) == 2
    assert torch.equal(subject.targets, subject.model(subject.images).argmax(1))
    assert len(subject.notes) == 1


@pytest.mark.parametrize("item", ["figure-25", "figure-26"])
def test_lime_on_drawn_pictures_has_tables_figure_and_findings(item, tmp_path):
    outcome = lime_on_photographs(item, n=None, quick=True)
    assert outcome.item == item
    network = "convolutions" if item == "figure-25" else "attention"
    assert outcome.findings[0].startswith(f"{network}, seed 0: right on ")
    assert outcome.tables["lime"].superpixels_by[0] == DRAWN_REGIONS
    assert len(outcome.tables["lime_images"]) == 2 * 4
    assert set(outcome.tables["lime_differences"].measure) == set(segmented_lime.MEASURES)
    assert "nan" not in " ".join(outcome.findings).lower().split()
    outcome.save(tmp_path, "command")
    assert json.loads((tmp_path / f"{item}.json").read_text())["item"] == item


def test_lime_on_own_photographs_says_what_is_missing_for_sam(own):
    outcome = lime_on_photographs("figure-25", n=2, quick=True, **own)
    assert set(outcome.tables) == {"lime", "lime_images"}
    assert "on_object" not in outcome.tables["lime"]
    text = " ".join(outcome.findings)
    assert "pass sam_weights" in text
    assert "have no labels" in text
    assert "drawn" not in text


def test_weights_are_those_of_the_file(own):
    own["weights"] = "none.pt"
    for function in PHOTOGRAPH_ITEMS.values():
        with pytest.raises(AttributionLabError, match=r"no file of weights at 'none\.pt'"):
            function(n=1, quick=True, **own)


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


@pytest.mark.parametrize(
    ("first", "other", "control", "said"),
    [
        (16, 1, 4, "less than quickshift, as in the paper; less than a grid of as many"),
        (8, 1, 16, "less than quickshift, as in the paper; not less than a grid of as many"),
        (
            4,
            8,
            16,
            "drawn regions: not less than quickshift, unlike the paper's SAM; not less than",
        ),
    ],
)
def test_the_verdict_on_noise_follows_the_numbers(first, other, control, said):
    made = {
        DRAWN_REGIONS: stripes(first),
        "quickshift": stripes(other),
        CONTROL: stripes(control),
    }
    findings = lime_findings(lime_tables(results([made]), 0), 40)
    assert said in findings[-1]


def test_an_interval_that_holds_zero_decides_nothing():
    made = {DRAWN_REGIONS: stripes(8), "quickshift": stripes(1), CONTROL: stripes(4)}
    made[CONTROL][1] = stripes(16)[1]  # noisier in one image, less noisy in the other
    findings = lime_findings(lime_tables(results([made]), 0), 40)
    assert "less than quickshift, as in the paper; undecided against a grid of" in findings[-1]


def test_one_image_decides_nothing():
    made = {DRAWN_REGIONS: stripes(8), "quickshift": stripes(1), CONTROL: stripes(16)}
    tables = lime_tables(results([made]), 0)
    tables["lime_differences"][["low", "high"]] = np.nan
    [*_, judged] = lime_findings(tables, 40)
    assert "drawn regions: undecided against quickshift (" in judged
    assert "undecided against a grid of as many squares (" in judged
    assert "less" not in judged


def test_superpixels_against_which_the_outcome_differs_are_named_apart():
    made = {DRAWN_REGIONS: stripes(8), "quickshift": stripes(1), "felzenszwalb": stripes(16)}
    made |= {"other": stripes(4), CONTROL: stripes(16)}
    made["other"][1] = stripes(16)[1]
    judged = lime_findings(lime_tables(results([made]), 0), 40)[-1]
    assert "less than quickshift, as in the paper; not less than felzenszwalb, unlike" in judged
    assert "SAM; undecided against other (" in judged


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
    findings = lime_findings(tables, 40)
    assert any(each.endswith("larger images have more): quickshift 1.") for each in findings)


def test_sam_is_the_reference_on_photographs():
    made = {SAM: stripes(16), "quickshift": stripes(2), CONTROL: stripes(4)}
    findings = lime_findings(lime_tables(results([made], objects=False), 0), 40)
    assert findings[-1].startswith("Noise (total variation) of SAM: less than quickshift, as in")
    assert not any("drawn of" in sentence for sentence in findings)


@pytest.fixture
def halves():
    """Pictures and a model whose gradients have known signs."""
    drawn = pictures(3, 0)
    return Pictured(subject_of(drawn, "halves"), drawn.objects)


def test_both_signs_are_counted_on_the_object(halves):
    panel = signs_panel([halves], 0)
    found = panel.tables["photographs_images"].set_index(["method", "image"])
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
    [deep] = [each for each in panel.findings if each.startswith("DeepSHAP")]
    shares = found.loc["DeepSHAP"].negative
    both = ((shares >= 0.1) & (shares <= 0.9)).sum()
    assert both > 0
    assert f"both signs on the foreground: {both} of our 3 maps have at least 10% of each" in deep


def test_one_sign_alone_is_said_to_be_one(halves):
    brighter = halves.subject.images.clone()
    brighter[..., SIDE // 2 :] = 0
    panel = signs_panel([Pictured(replace(halves.subject, images=brighter), None)], 0)
    [deep] = [each for each in panel.findings if each.startswith("DeepSHAP")]
    assert "0 of our 3 maps have at least 10% of each" in deep
    assert "in the image is negative" in deep


def test_maps_of_one_sign_each_are_none_of_both():
    """Half of them negative everywhere: the mean over images looks like both signs."""
    table = pd.DataFrame({"method": "DeepSHAP", "negative": [0.0, 1.0, 0.0, 1.0, 0.5, np.nan]})
    table["sign_changes"] = 0.0
    [deep, _] = signs._findings(table, 0)
    assert "1 of our 5 maps have at least 10% of each" in deep
    [empty, _] = signs._findings(table.assign(negative=np.nan), 0)
    assert empty == "DeepSHAP on pictures: no map has any attribution in the image."


def test_constant_maps_have_no_verdict_on_the_baseline(halves, monkeypatch):
    monkeypatch.setattr(
        baselines, "maps_of", lambda subject, *_: torch.zeros(len(subject.images), 1, SIDE, SIDE)
    )
    for sentence in baselines_panel([halves], 0).findings:
        assert "from black undefined from white, undefined from mean color" in sentence
        assert "Whether the baseline matters is undecided" in sentence
        assert "nan" not in sentence


def test_baselines_are_compared_with_black(halves):
    panel = baselines_panel([halves], 0)
    frame = panel.tables["photographs"].set_index(["method", "baseline"])
    assert set(frame.index) == {
        (method, color)
        for method in ("IG", "Occlusion")
        for color in ("black", "white", "mean color")
    }
    assert frame.with_black[:, "black"].tolist() == pytest.approx([1, 1])
    # the empty pixel is black here
    assert frame.with_black[:, "mean color"].tolist() == pytest.approx([1, 1])
    assert frame.with_black["IG", "white"] < baselines.SAME
    [first, _] = panel.findings
    assert "As in the paper, other pixels are highlighted" in first
    integrated = panel.tables["photographs_images"]
    row = integrated[(integrated.method == "IG") & (integrated.baseline == "white")].iloc[0]
    image, inside = halves.subject.images[0], halves.objects[0, 0]
    values = (image - 1).sum(0)
    values[:, SIDE // 2 :] *= -1
    positive = values.clamp(min=0)
    expected = float((positive * inside).sum() / positive.sum())
    assert row.on_object == pytest.approx(expected, rel=1e-4)


def test_windows_of_occlusion_grow_with_the_image(halves, monkeypatch):
    asked = []

    def maps_of(subject, name, seed, settings):
        asked.append((name, settings))
        return subject.images.sum(1, keepdim=True)

    monkeypatch.setattr(baselines, "maps_of", maps_of)
    monkeypatch.setattr(baselines, "WINDOWS", 14)
    baselines_panel([halves], 0)
    windows = [settings for name, settings in asked if name == "occlusion"]
    assert [(each["window"], each["stride"]) for each in windows] == [(2, 1)] * 3
    assert all("window" not in settings for name, settings in asked if name != "occlusion")
    assert "the baseline hardly matters" in baselines_panel([halves], 0).findings[0]


def made_up(*arguments, **settings):
    """An experiment on environments that costs nothing."""
    frame = pd.DataFrame({"f1": [0.5]})
    return Reproduction("figure-0", "made up", {"summary": frame}, {}, ["of environments"])


@pytest.mark.parametrize(
    ("item", "said"),
    [("figure-5", "DeepSHAP on pictures"), ("figure-6", "LIME of"), ("figure-7", "IG on pictures")],
)
def test_a_panel_on_pictures_follows_the_environments(item, said, own, monkeypatch):
    monkeypatch.setattr(figures, "carry_out", made_up)
    monkeypatch.setattr(figures, "of_environments", made_up)
    for settings in ({}, own):
        outcome = PHOTOGRAPH_ITEMS[item](n=1, quick=True, **settings)
        assert outcome.findings[0] == "of environments"
        assert any(sentence.startswith(said) for sentence in outcome.findings)
        assert next(iter(outcome.tables)) == "summary"
        assert "photographs" in outcome.figures
        assert set(outcome.shown) <= set(outcome.tables)
        assert "summary" in outcome.shown


def test_tables_that_an_experiment_shows_stay_shown():
    panel = Panel({"photographs": pd.DataFrame()}, {}, ["new"], {"photographs": "how"})
    before = Reproduction("i", "t", {"own": pd.DataFrame()}, {}, ["old"], {"own": "why"})
    after = with_panel(before, panel, [])
    assert after.shown == {"own": "why", "photographs": "how"}
    assert after.findings == ["old", "new"]
    assert np.array_equal(list(after.tables), ["own", "photographs"])
