"""Rules on images whose colors have shades: network, truth, controls and refusals."""

import random

import numpy as np
import pytest
import torch

import attributionlab as al
from attributionlab.verdicts import pixel_kinds
from attributionlab.verdicts.controls import CONTROLS
from attributionlab.verdicts.diagnosis.shares import PIXEL_KINDS
from attributionlab.worlds import flattened, known_colors
from attributionlab.worlds.images.shades import Shading
from attributionlab.worlds.rules.networks import rule_network
from attributionlab.worlds.rules.parsing import parse
from attributionlab.worlds.rules.places import Places
from cases import loaded
from oracles_rules import Picture, rule_value, shades_of
from rules.random_rules import EVERYWHERE, OWN, tried_images

COLORS = {
    "red": (235, 20, 20),
    "green": (20, 235, 20),
    "blue": (20, 20, 235),
    "white": (235, 235, 235),
    "gray": (128, 127, 128),
}
BACKGROUND = (70, 70, 70)
SHADES, SPREAD = 9, 20
NAME = "quadrants-of-shades"
env = loaded(NAME, image_size=40)


def shaded(images, rng):
    """Images of a flat palette with a shade of it, or a neighbor of one, at each pixel."""
    flat = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255), "white": (255,) * 3}
    flat |= {"gray": (128, 127, 128), "": (20, 20, 20)}
    draw, found = np.random.default_rng(rng.randrange(2**32)), images.copy()
    for name, value in flat.items():
        shades = np.array(shades_of(COLORS.get(name, BACKGROUND), SHADES, SPREAD))
        where = (images == np.array(value)[None, :, None, None]).all(1)
        near = draw.integers(-1, 2, (where.sum(), 3)) * (draw.random((where.sum(), 1)) < 0.1)
        found.transpose(0, 2, 3, 1)[where] = shades[draw.integers(SHADES, size=where.sum())] + near
    return found.clip(0, 255)


@pytest.mark.parametrize("side", [24, 37])
@pytest.mark.parametrize(
    "text",
    [
        "red@left - 2 * (red@right) + 3 * (blue@top) - blue@bottom",
        "red - 2 * blue + (gray > 9)",
        "stripes(red, blue)@left - corner(red)@bar - red - 2 * (blue@ring)",
    ],
)
def test_networks_and_their_rules_count_all_shades_of_a_color(text, side):
    rng = random.Random(side)
    images = shaded(tried_images(rng, side, 40), rng)
    places = Places(COLORS, side, OWN, Shading(SHADES, SPREAD))
    rule = parse(text, COLORS, EVERYWHERE)
    with torch.no_grad():
        got = rule_network([rule], places, BACKGROUND).model(torch.from_numpy(images).float())
    pictures = [Picture(image.tolist(), COLORS, OWN, SHADES, SPREAD) for image in images]
    expected = [rule_value(text, picture, list(COLORS)) for picture in pictures]
    assert got[:, 0].tolist() == expected
    assert len(set(expected)) > 10


def test_the_truth_is_that_of_the_flat_image(env):
    images, _ = env.batch(4)
    flat = flattened(env.spec, images)
    assert len(images.permute(0, 2, 3, 1).reshape(-1, 3).unique(dim=0)) == 63
    assert len(flat.permute(0, 2, 3, 1).reshape(-1, 3).unique(dim=0)) == 7
    targets = torch.zeros(4, dtype=torch.int64)
    truths = [env.truth(each, targets) for each in (images, flat)]
    assert torch.equal(truths[0].signed, truths[1].signed)
    assert torch.equal(env.model(images), env.model(flat))
    assert torch.equal(env.shapley(images[0], 0), env.shapley(flat[0], 0))
    assert torch.equal(env.shapley(images[0], 0).sign(), truths[0].signed[0].double())


def test_the_specification_reaches_every_value(env):
    values = [shade for color in env.colors.values() for shade in shades_of(color, 9, 16)]
    assert list(known_colors(env.spec)) == values + shades_of((20, 20, 20), 9, 16)
    assert env.counting.places.shades["rose"] == tuple(shades_of((220, 20, 120), 9, 16))


def test_a_missing_shade_is_noticed():
    """One weight of the detector's last layer, which hands a shade on, is set to 0."""
    env = al.load(NAME, image_size=24)
    last = [layer for layer in env.model.detector if isinstance(layer, torch.nn.Conv2d)][-1]
    with torch.no_grad():
        last.weight[2, 21] = 0  # the third color's fourth shade
    wrong = {check.name for check in al.verify(env).checks if not check.passed}
    assert wrong >= {"color-detector", "rule-counts", "rule-logits"}


def test_controls_see_each_color_as_one_value(env):
    """Or the foreground would be nearly everything, and a majority one of nine shades."""
    images, _ = env.batch(2)
    targets = torch.zeros(2, dtype=torch.int64)
    flat = flattened(env.spec, images)
    for name in ("non-background", "baseline-distance", "majority", "sobel"):
        known = {"baseline": env.baseline} if name.endswith(("background", "distance")) else {}
        expected = CONTROLS[name](env.model, flat, targets, **known)
        assert torch.equal(al.attribute(name, env, images, targets), expected), name
        assert not torch.equal(CONTROLS[name](env.model, images, targets, **known), expected)


def test_a_shade_of_the_background_is_background(env):
    sample = env.dataset(1)[0]
    images, patches = sample.image[None], sample.patches[None]
    classes = env.counting.classes_of(images)
    kinds = pixel_kinds(flattened(env.spec, images), patches, classes, env.baseline)
    outside = kinds[0, 0][sample.patches == 0]
    assert (outside == PIXEL_KINDS.index("background")).all()


ABOVE = "give shades above 1 and a spread above 0, or leave out both"


@pytest.mark.parametrize(
    ("name", "changed", "told"),
    [
        ("quadrants", {"shades": 9}, f"shades is 9 and spread 0: {ABOVE}"),
        ("quadrants", {"spread": 3}, f"shades is 1 and spread 3: {ABOVE}"),
        (NAME, {"shades": 28}, "shades is 28: take an integer from 1 to 27"),
        (
            *(NAME, {"shades": 8}),
            "shades is 8: take an odd number, for as many warmer as cooler ones",
        ),
        (
            *(NAME, {"spread": 15}),
            "spread is 15 for 9 shades: take a multiple of 4, which are then evenly spaced integers",
        ),
        (
            *(NAME, {"spread": 24}),
            "spread is 24: shades of rose (220, 20, 120) would leave [0, 255], take at most 20 or "
            "other colors",
        ),
        (
            *(NAME, {"background": (200, 100, 40)}),
            "spread is 16: shades of orange (220, 120, 20) and background (200, 100, 40) would meet, "
            "take at most 8 or other colors",
        ),
    ],
)
def test_impossible_shades_are_refused_in_one_line(name, changed, told):
    with pytest.raises(al.AttributionLabError) as refused:
        al.load(name, image_size=24, **changed)
    assert str(refused.value) == f"{name}: {told}"


@pytest.mark.parametrize("constants", [{"spread": 20}, {"background": (200, 100, 40), "spread": 8}])
def test_what_a_refusal_proposes_is_taken(constants):
    assert al.load(NAME, image_size=24, **constants).counting.places.shading.shades == 9


def test_a_world_of_ones_own_may_have_shades():
    warm, cold = (200, 100, 40), (40, 100, 200)
    env = al.world(
        "warm@left - cold",
        image_size=24,
        colors={"warm": warm, "cold": cold},
        background=(90, 90, 90),
        shades=15,
        spread=14,
    )
    images, labels = env.batch(3)
    assert env.model(images)[:, 0].tolist() == labels.tolist()
    assert len(images[0].flatten(1).T.unique(dim=0)) > 32
    assert env.overrides["shades"] == 15


def test_where_no_shades_are_stated_none_stand_in_the_specification():
    """So the digests of all worlds before are what they were."""
    constants = al.load("quadrants", image_size=24).spec.constants
    assert not {"shades", "spread"} & constants.keys()
