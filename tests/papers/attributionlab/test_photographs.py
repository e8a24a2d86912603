"""Panel (d) of figure 7: a user's network and photographs, or trained ones with drawn pictures."""

import pandas as pd
import pytest
import torch
from torch import nn

from attributionlab.base import AttributionLabError
from attributionlab.papers import reproduce
from attributionlab.papers.attributionlab import photographs
from attributionlab.papers.attributionlab.photographs import SAME, baselines_tables, pictured
from attributionlab.papers.catalog import Found, Run
from attributionlab.papers.subjects.drawn_pictures import SIDE, pictures
from attributionlab.papers.subjects.subjects import of_images
from claims_held import holds
from own_network import own_network

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # Captum's own
OTHER = "other_baselines_highlight_other_pixels"


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Few pictures, so that networks are not trained long."""
    sizes = {"TRAINING": 10, "QUICK_TRAINING": 30, "TESTED": 20, "QUICK_IMAGES": 2, "WINDOWS": 4}
    for name, value in sizes.items():
        monkeypatch.setattr(photographs, name, value)


@pytest.fixture
def own(tmp_path):
    """Photographs without classes, a network and its weights."""
    given = own_network(tmp_path) | {"weights": str(tmp_path / "100.pt")}
    return given | {"images": str(tmp_path / "images" / "dark")}


def test_without_anything_given_networks_are_trained_with_seeds_that_follow():
    [subject] = pictured({}, 2, Run("", 1, quick=True, seed=3))
    drawn = pictures(2, 4)
    assert torch.equal(subject.images, drawn.images)
    assert torch.equal(subject.objects, drawn.objects)
    assert subject.notes[0].startswith("convolutions, seed 3: right on ")
    networks = pictured({}, None, Run("", 1))
    assert [each.name for each in networks] == [f"convolutions, seed {k}" for k in range(3)]
    assert {len(each.images) for each in networks} == {photographs.IMAGES}


def test_given_photographs_have_no_objects_and_one_note(own):
    [subject] = pictured(own, 2, Run("", 1, quick=True))
    assert subject.objects is None
    assert len(subject.images) == 2
    assert torch.equal(subject.targets, subject.model(subject.images).argmax(1))
    assert len(subject.notes) == 1


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"weights": "none.pt"}, r"no file of weights at 'none\.pt'"),
    ],
)
def test_wrong_settings_are_refused(own, changed, problem):
    with pytest.raises(AttributionLabError, match=problem):
        reproduce("figure-7", n=1, quick=True, settings=own | changed)


class Half(nn.Module):
    """The brightness on the left less that on the right, so that the sign of a gradient is known."""

    def forward(self, images):
        left, right = images[..., : SIDE // 2], images[..., SIDE // 2 :]
        score = left.sum((1, 2, 3)) - right.sum((1, 2, 3))
        return torch.stack([score, -score], 1)


@pytest.fixture
def halves():
    """Pictures and a model whose gradients have known signs; the empty pixel is black."""
    drawn = pictures(3, 0)
    shown = (drawn.images, torch.zeros(3).long(), torch.zeros(3, 1, 1))
    return of_images("halves", Half(), *shown, objects=drawn.objects)


def test_constant_maps_have_no_verdict_on_the_baseline(halves, monkeypatch):
    monkeypatch.setattr(photographs, "maps_of", lambda *_: torch.zeros(3, 1, SIDE, SIDE))
    tables, _ = baselines_tables([halves], 0)
    assert tables["photographs"].with_black.isna().all()
    assert holds(tables, OTHER) == "undecided"


def test_baselines_are_compared_with_black(halves):
    tables, maps = baselines_tables([halves], 0)
    table = tables["photographs"]
    frame = table.set_index(["method", "baseline"])
    colors = ("black", "white", "mean color")
    assert [*frame.index] == [(m, color) for m in ("IG", "Occlusion") for color in colors]
    assert [*maps] == [f"{method}, {color}" for method, color in frame.index]
    for same in ("black", "mean color"):
        assert frame.with_black[:, same].tolist() == pytest.approx([1, 1])
    assert frame.with_black["IG", "white"] < SAME
    assert frame.low["IG", "white"] <= frame.with_black["IG", "white"] <= frame.high["IG", "white"]
    assert holds({"photographs": table[table.method == "IG"]}, OTHER) == "agrees"
    integrated = tables["photographs_images"]
    row = integrated[(integrated.method == "IG") & (integrated.baseline == "white")].iloc[0]
    image, inside = halves.images[0], halves.objects[0, 0]
    values = (image - 1).sum(0)
    values[:, SIDE // 2 :] *= -1
    positive = values.clamp(min=0)
    expected = float((positive * inside).sum() / positive.sum())
    assert row.on_object == pytest.approx(expected, rel=1e-4)  # float32: sums of 1,024 terms
    assert row.object_area == float(inside.double().mean())


def test_windows_of_occlusion_grow_with_the_image(halves, monkeypatch):
    calls = []

    def maps_of(subject, name, seed, settings):
        calls.append((name, settings.get("window"), settings.get("stride")))
        return subject.images.sum(1, keepdim=True)

    monkeypatch.setattr(photographs, "maps_of", maps_of)
    monkeypatch.setattr(photographs, "WINDOWS", 14)
    tables, _ = baselines_tables([halves], 0)
    assert calls == [("integrated-gradients", None, None)] * 3 + [("occlusion", 2, 1)] * 3
    assert holds(tables, OTHER) == "differs"


@pytest.mark.long
def test_pictures_follow_the_environments(own, monkeypatch):
    summary = pd.DataFrame({"method": ["lime"], "f1": [0.5]})
    monkeypatch.setattr(photographs, "comparison", lambda _: Found({"summary": summary}))
    monkeypatch.setattr("attributionlab.papers.catalog.CLAIMS", [])
    for settings, note in (({}, "right on"), (own, "have no labels")):
        outcome = reproduce("figure-7", n=1, quick=True, settings=settings)
        assert [*outcome.tables] == ["summary", "photographs", "photographs_images"]
        assert [*outcome.figures] == ["photographs"]
        assert note in outcome.notes[-1]
