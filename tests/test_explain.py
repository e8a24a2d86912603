"""Maps of a user's own network side by side: what is called, what is said, what is refused."""

import re

import numpy as np
import pytest
import torch
from captum.attr import InputXGradient, LayerGradCam
from torch import nn

import attributionlab as al
from attributionlab.base import AttributionLabError
from attributionlab.show import Maps, map_pages, maps_page
from unchanged import changed, of_process

SIDE = 12


class Network(nn.Module):
    """Its convolutions are made in another order than they run in; the last has a single cell."""

    def __init__(self):
        super().__init__()
        self.pooled = nn.Conv2d(4, 4, 1)
        self.last = nn.Conv2d(4, 4, 3, padding=1)
        self.first, self.relu = nn.Conv2d(3, 4, 3, padding=1), nn.ReLU()
        self.head = nn.Linear(4, 3, bias=False)

    def forward(self, images):
        maps = self.last(self.relu(self.first(images)))
        return self.head(self.pooled(maps.mean((2, 3), keepdim=True)).flatten(1))


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return Network().eval()


@pytest.fixture(scope="module")
def images():
    return torch.rand(3, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(1))


def twice(model, inputs, targets):
    return 2 * al.methods.saliency(model, inputs, targets)


@pytest.mark.filterwarnings("ignore::attributionlab.GuardWarning")
def test_built_in_methods_are_called_as_a_user_calls_them(model, images):
    settings = {"n_samples": 30, "cells": 3}
    found = al.explain(model, images, ["saliency", "gradcam", ("rise", settings)])
    targets = model(images).argmax(1)
    assert torch.equal(found.targets, targets)
    assert torch.equal(found.outputs, model(images).detach().amax(1))
    expected = {
        "saliency": al.methods.saliency(model, images, targets),
        "gradcam": al.methods.gradcam(model, images, targets, layer="last"),
        "rise": al.methods.rise(model, images, targets, **settings),
    }
    assert list(found.maps) == list(expected)
    for name, maps in expected.items():
        assert torch.equal(found.maps[name], maps.double().sum(1, keepdim=True)), name
    assert found.layer == "last"


def test_functions_captums_classes_and_ready_maps_stand_beside_them(model, images):
    ready = np.arange(3.0 * SIDE * SIDE).reshape(3, SIDE, SIDE)
    found = al.explain(model, images, [twice, InputXGradient, LayerGradCam, ready], targets=1)
    saliency = al.methods.saliency(model, images, 1).double().sum(1, keepdim=True)
    assert torch.equal(found.maps["twice"], 2 * saliency)
    product = al.methods.input_x_gradient(model, images, 1).double().sum(1, keepdim=True)
    assert torch.equal(found.maps["InputXGradient"], product)
    assert found.maps["LayerGradCam"].shape == (3, 1, SIDE, SIDE)
    assert np.array_equal(found.maps["precomputed"][:, 0].numpy(), ready)
    assert found.refused == {}


def test_one_method_with_several_settings_goes_by_them(model, images):
    found = al.explain(
        model, images, ["occlusion", ("occlusion", {"window": 3})], targets=[0, 1, 2]
    )
    assert list(found.maps) == ["occlusion", "occlusion (window=3)"]
    assert found.targets.tolist() == [0, 1, 2]


def test_a_seed_gives_the_same_maps_and_another_one_others(model, images):
    def drawing(model, inputs, targets):
        return torch.rand(inputs.shape)

    methods = [drawing, ("rise", {"n_samples": 30})]
    first, again, other = (al.explain(model, images, methods, seed=seed).maps for seed in (3, 3, 4))
    for name in first:
        assert torch.equal(first[name], again[name])
        assert not torch.equal(first[name], other[name])


def test_what_a_method_asks_for_is_handed_to_it(model, images):
    got = {}

    def asking(model, inputs, targets, *, highest, reference_images, layers, generator):
        got.update(highest=highest, layer=layers["gradcam"], seed=generator.initial_seed())
        got["others"] = len(reference_images)
        return inputs

    others = torch.rand(5, 3, SIDE, SIDE)
    given = {"layer": "first", "highest": 2.0, "reference_images": others, "seed": 7}
    assert al.explain(model, images, asking, **given).layer == "first"
    assert got == {"highest": 2.0, "layer": model.first, "seed": 7, "others": 5}


def test_guards_speak_of_every_method_and_nothing_is_printed_beside(model, images):
    def zeros(model, inputs, targets):
        return torch.zeros_like(inputs)

    class Mixing(nn.Module):
        def forward(self, inputs):
            return inputs.flatten(1)[:, :2] - inputs.mean()

    found = al.explain(model, images, [zeros, "lrp", "saliency"])
    assert found.warnings["zeros"] == ["attributions of 3 images are zero everywhere"]
    assert "do not sum to the output" in found.warnings["lrp"][0]
    assert found.warnings["saliency"] == []
    mixed = al.explain(Mixing().eval(), images, ["saliency", twice]).warnings
    for name, said in mixed.items():
        assert any("depends on the others in its batch" in each for each in said), name


def test_methods_without_maps_are_listed_and_the_others_go_on(model, images):
    def broken(model, inputs, targets):
        raise ValueError("out of ideas")

    found = al.explain(model, images, [broken, "iba", "occlusion-true-baseline", "saliency"])
    assert list(found.maps) == ["saliency"]
    assert (
        "raised ValueError: out of ideas on this model (test_explain.py" in found.refused["broken"]
    )
    assert found.refused["iba"].startswith("no value for 'reference_images'")
    assert "no value for 'baseline'" in found.refused["occlusion-true-baseline"]
    with pytest.raises(AttributionLabError, match=r"^explain: no method has maps .* out of ideas"):
        al.explain(model, images, [broken])


def test_a_network_with_attention_has_no_layer_unless_one_is_named(images):
    class Attending(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches = nn.Conv2d(3, 8, 4, 4)
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, inputs):
            tokens = self.patches(inputs).flatten(2).mT
            return self.attention(tokens, tokens, tokens)[0].mean(1)

    model = Attending().eval()
    found = al.explain(model, images, ["gradcam", "saliency", "attention-rollout"])
    assert found.layer is None
    assert "no layer 'gradcam' of its own" in found.refused["gradcam"]
    assert list(found.maps) == ["saliency", "attention-rollout"]
    assert list(al.explain(model, images, "gradcam", layer="patches").maps) == ["gradcam"]


def test_nothing_of_the_users_is_changed(model, images):
    def careless(model, inputs, targets):
        model.head.weight.data.zero_()
        inputs.zero_()
        targets.zero_()
        return torch.ones(inputs.shape)

    before, process = images.clone(), of_process()
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    found = al.explain(model, images, [careless, "saliency"], targets=[2, 1, 0])
    assert torch.equal(images, before)
    assert found.targets.tolist() == [2, 1, 0]
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    assert not any(module._forward_hooks for module in model.modules())
    assert not changed(process, of_process())
    assert found.warnings["careless"][0].startswith("attributions of 3 images came with changed")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"model": 3}, "the model is of type int"),
        ({"model": Network()}, "training mode"),
        ({"images": torch.rand(3, 12)}, "images have shape (3, 12)"),
        ({"images": torch.full((1, 3, 4, 4), torch.nan)}, "inputs hold NaN or infinity"),
        ({"methods": []}, "methods are 0: give 1 to 100 of them"),
        ({"methods": "salience"}, "did you mean 'saliency'"),
        ({"methods": ["saliency", "saliency"]}, "methods have 'saliency' twice"),
        ({"methods": [("saliency", {}, 3)]}, "pass a method, or a pair (method, settings)"),
        ({"methods": [("occlusion", {"windw": 3})]}, "did you mean 'window'"),
        ({"targets": 3}, "targets go up to 3, but the model has 3 outputs"),
        ({"targets": lambda outputs: outputs[:, 0]}, "pass indices of outputs, or 'predicted'"),
        ({"layer": "lst"}, "layer is 'lst', which does not name a module: did you mean 'last'?"),
        ({"classes": ["a"], "targets": 2}, "classes name 1 outputs, and targets go up to 2"),
        ({"reference_images": torch.rand(2, 3, 5, 5)}, "reference_images are"),
        ({"highest": -1.0}, "highest is -1.0"),
        ({"seed": -1}, "seed is -1"),
        ({"html": "/nowhere/at/all.html"}, "/nowhere/at"),
    ],
)
@pytest.mark.usefixtures("without_shape_checks")
def test_what_cannot_be_explained_is_refused_in_one_line(model, images, wrong, says):
    given = {"model": model.train(False), "images": images, "methods": ["saliency"]} | wrong
    if isinstance(wrong.get("model"), nn.Module):
        given["model"] = nn.Sequential(nn.Dropout(), wrong["model"])
    with pytest.raises(AttributionLabError, match=re.escape(says)) as refused:
        al.explain(**given)
    assert "\n" not in str(refused.value)


def test_the_page_shows_every_map_and_where_its_warning_stands(model, images, tmp_path):
    path = tmp_path / "maps.html"
    classes = ["cat", "<script>alert(1)</script>", "dog"]
    found = al.explain(model, images, ["saliency", "lrp", "iba"], 1, classes=classes, html=path)
    page = path.read_text(encoding="utf-8")
    assert page.count("<img ") == 3 * (1 + 2)
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert page.count('href="#warning-0"') == 3
    assert page.count('id="warning-0"') == 1
    assert "iba: no maps" in page
    assert "nothing here shows which map is right" in page
    assert "verdict" not in page.partition("</style>")[2]
    assert f"largest {float(found.maps['saliency'][0].abs().max()):.2g}" in page
    found.to_html(tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == path.read_bytes()
    assert "no truth is known" in repr(found)


def shown(images, **changes):
    noise = np.random.default_rng(0).normal(size=(images, 64, 64))
    given = {"network": "net", "facts": {}, "highest": 1.0, "asked": ["output 0"] * images}
    given |= {"images": np.abs(noise[:, None]), "maps": {"one": noise, "two": -noise}}
    return Maps(**(given | {"warnings": {}, "refused": {}} | changes))


def test_a_page_has_smaller_pictures_and_then_fewer_images_where_it_would_be_too_large(monkeypatch):
    whole = maps_page(shown(4))
    assert "averaged" not in whole
    assert whole.count("<img ") == 12
    monkeypatch.setattr(map_pages.page, "LARGEST_PAGE", len(whole.encode()) - 1)
    smaller = maps_page(shown(4))
    assert "averaged over blocks, to at most 56 rows and columns" in smaller
    assert smaller.count("<img ") == 12
    monkeypatch.setattr(map_pages.page, "LARGEST_PAGE", len(smaller.encode()) - 10_000)
    fewer = maps_page(shown(4))
    assert len(fewer.encode()) <= map_pages.page.LARGEST_PAGE
    count = fewer.count("<img ") // 3
    assert 1 <= count < 4
    assert f"The first {count} of 4 images are shown" in fewer


def test_a_map_of_zeros_is_gray_and_says_so():
    page = maps_page(shown(1, maps={"none": np.zeros((1, 64, 64))}))
    assert page.count("no attribution") == 2  # below the picture, and in its description
