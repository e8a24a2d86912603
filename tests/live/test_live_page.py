"""What the live page is made of: the networks, images and truth in it are those of Python."""

import base64
import json
import re
import zlib

import numpy as np
import pytest
import torch
from torch import nn

import attributionlab as al
from attributionlab.base import SOLVED_ABOVE
from attributionlab.teaching import live_page
from attributionlab.teaching.live import page as live
from attributionlab.worlds.nets import equivalents_of
from cases import loaded

SIDE = 24
env = loaded("multi-color-sum-distractors", image_size=SIDE)


@pytest.fixture(scope="module")
def page(env):
    return live_page(env, 3, command="attributionlab live --out <page>.html")


def part(page, name):
    """The text of a script element."""
    return re.search(rf'<script [^>]*id="{name}">(.*?)</script>', page, re.DOTALL)[1]


def document_of(page):
    return json.loads(part(page, "document"))


def test_no_frame_is_without_a_caption_while_the_network_runs(page):
    assert "" not in re.findall(r"<figcaption><strong[^>]*>(.*?)</strong>", page)


def tensors_of(page):
    values = np.frombuffer(zlib.decompress(base64.b64decode(part(page, "tensors"))), "<f4")
    places = document_of(page)["tensors"]
    return [
        torch.tensor(values[start : start + int(np.prod(shape))]).reshape(shape)
        for start, *shape in places
    ]


def rebuilt(network, tensors):
    """The network of a page as torch's modules, logits last."""
    modules = []
    for layer in network["layers"][: network["logits"]]:
        kind, weight = layer["kind"], tensors[layer["weight"]] if "weight" in layer else None
        if weight is None:
            modules.append({"relu": nn.ReLU, "flatten": nn.Flatten}[kind]())
            continue
        has_bias = "bias" in layer
        if kind == "linear":
            module = nn.Linear(*weight.shape[::-1], bias=has_bias)
        else:
            sizes = weight.shape[1], weight.shape[0], tuple(weight.shape[2:])
            steps = tuple(layer["stride"]), tuple(layer["padding"])
            module = nn.Conv2d(*sizes, *steps, bias=has_bias)
        module.weight.data = weight
        if has_bias:
            module.bias.data = tensors[layer["bias"]]
        modules.append(module)
    return nn.Sequential(*modules)


@pytest.mark.long
def test_every_network_in_the_page_is_that_of_python(env, page):
    document, tensors = document_of(page), tensors_of(page)
    main, *worlds = document["subjects"]
    forms = equivalents_of(env.network)
    assert len(forms) == 5
    originals = {"plain": env, **{form: env.with_implementation(form) for form in forms}}
    for strength in live.STRENGTHS:
        originals[f"strength {strength:g}"] = al.load(
            "multi-color-sum-distractors", image_size=SIDE, redundant_strength=strength
        )
    assert originals.keys() == main["networks"].keys()
    unseen = torch.randint(0, 256, (2, 3, SIDE, SIDE), generator=torch.Generator().manual_seed(0))
    images, _ = env.batch(3)
    for name, original in originals.items():
        network = rebuilt(main["networks"][name], tensors)
        for batch in (images, unseen.float()):
            assert torch.equal(network(batch), original.model(batch)), name
        assert torch.equal(torch.tensor(main["logits"][name]), original.model(images)), name
    assert [world["name"] for world in worlds] == list(live.WORLDS)
    for world in worlds:
        original = al.load(world["name"], image_size=SIDE)
        images, _ = original.batch(3)
        network = rebuilt(world["networks"]["plain"], tensors)
        assert torch.equal(tensors[world["images"]], images)
        assert torch.equal(network(images), original.model(images))


@pytest.mark.long
@pytest.mark.parametrize("name", ["quadrants", "parity", "several-objects"])
def test_the_truth_in_the_page_is_that_of_python(name):
    env = al.load(name, image_size=36)
    page = live_page(env, 2)
    images, labels = env.batch(2)
    truth = env.truth(images, env.targets(labels))
    shown = tensors_of(page)[document_of(page)["subjects"][0]["truth"]]
    for code, mask in ((1, truth.positive), (-1, truth.negative), (2, truth.mixed)):
        assert torch.equal(shown == code, mask & truth.asked)
    assert torch.equal(shown == 3, ~truth.asked)
    has_kind = {"parity": truth.mixed, "several-objects": ~truth.asked, "quadrants": truth.positive}
    assert has_kind[name].any()  # or nothing was compared


def test_the_last_layers_are_temperature_and_softmax(env, page):
    network = document_of(page)["subjects"][0]["networks"]["plain"]
    [temperature, softmax] = network["layers"][network["logits"] :]
    weight = tensors_of(page)[temperature["weight"]]
    assert torch.equal(weight, torch.eye(4) / env.temperature)
    assert softmax == {"kind": "softmax"}


@pytest.mark.long
def test_the_same_call_gives_the_same_bytes_and_another_seed_others():
    env = al.load("quadrants", image_size=SIDE)
    first, again, other = (live_page(env, 1, seed=seed) for seed in (0, 0, 1))
    assert again == first
    assert part(other, "tensors") != part(first, "tensors")


def test_the_page_loads_nothing(page):
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src &#39;none&#39;")
    assert "unsafe" not in policy
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)
    assert not re.search(r"\bsrc=|@import|fetch\(|XMLHttpRequest|importScripts|WebSocket", page)
    assert "url(" not in page
    [icon] = re.findall(r"<link [^>]*>", page)
    assert 'href="data:,"' in icon


@pytest.mark.long
def test_text_from_outside_stays_text(tmp_path):
    design = tmp_path / "mine.toml"
    text = '</script><script>alert("1")</script>'
    design.write_text(
        f"claim = '{text}'\nformula = '{text}'\nsource = 'none'\nbuilder = 'color-sum'\n"
        "dataset = 'four-colors'\n[constants]\nsmoothing = 0.04\n"
    )
    page = live_page(al.load(design, image_size=SIDE), 1, command=text)
    assert text not in page
    assert document_of(page)["subjects"][0]["claim"] == text


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        pytest.param("multi-color-sum", {}, id="all scenes"),
        pytest.param("multi-color-sum-in-distribution", {"strength": "unseen"}, id="all seen"),
        pytest.param("quadrants", {"strength": "unseen"}, id="rule"),
        pytest.param(
            "single-color-modulo",
            {"baseline": "black and white", "strength": "unseen", "forms": "No other"},
            id="black and white",
        ),
    ],
)
def test_scenes_that_an_environment_lacks_have_a_reason(name, missing):
    document = document_of(live_page(al.load(name, image_size=SIDE), 1))
    assert document["scenes"].keys() == missing.keys()
    for scene, words in missing.items():
        assert words in document["scenes"][scene]


@pytest.mark.long
def test_a_colored_background_has_no_gray_value():
    env = al.load("multi-color-sum", image_size=SIDE, background=(20, 20, 30))
    scenes = document_of(live_page(env, 1))["scenes"]
    assert scenes.keys() == {"baseline"}
    assert "(20, 20, 30)" in scenes["baseline"]


def test_a_network_that_is_no_chain_is_refused():
    other = al.load("multi-color-sum-in-distribution", image_size=SIDE)
    other.model.head.append(nn.Sigmoid())
    with pytest.raises(al.AttributionLabError, match=r"Sigmoid.*nn\.Sequential"):
        live_page(other, 1)


@pytest.mark.long
def test_a_page_that_would_be_too_large_is_refused(env, monkeypatch):
    monkeypatch.setattr(live, "LARGEST_PAGE", 50_000)
    with pytest.raises(al.AttributionLabError, match=r"50,000.*smaller"):
        live_page(env, 1)


def test_the_line_lies_where_a_question_is_solved(page):
    assert document_of(page)["solved"] == SOLVED_ABOVE
    assert "above 2/3, the vertical line" in page
    assert "--solved: 66.667%" in page
