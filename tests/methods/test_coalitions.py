"""Mixtures of image and baseline by coalition, in passes as full as they can be."""

import inspect

import pytest
import torch

from attributionlab.base import AttributionLabError, GuardWarning
from attributionlab.methods import METHODS, coalitions, collect_notices, surrogate
from masking_cases import BASELINES, IMAGES, LABELS, TARGETS, WEIGHTS, Constant, Curved

LABELS_OF_BOTH = LABELS.expand(2, 3, 5)


def games():
    return coalitions.games_of(IMAGES, BASELINES, LABELS_OF_BOTH, TARGETS)


def test_single_pixels_are_followed_whatever_their_labels():
    linear = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(45, 2, bias=False))
    with torch.no_grad():
        linear[1].weight.copy_(torch.stack([WEIGHTS.flatten(), -WEIGHTS.flatten()]))
    labels = torch.arange(15).flip(0).reshape(3, 5)
    [game] = coalitions.games_of(IMAGES[:1], BASELINES[:1], labels[None], TARGETS[:1])
    pixels = coalitions.followed_pixels(linear, game)
    assert torch.equal(game.owners.flatten()[pixels], torch.arange(game.players))
    assert game.players == 11
    assert coalitions.followed_pixels(Curved(), game) is None
    assert coalitions.followed_pixels(linear, games()[0]) is None
    nobody = coalitions.Game(IMAGES[0], IMAGES[0], torch.full((3, 5), -1), 0, TARGETS[0])
    assert coalitions.followed_pixels(linear, nobody) is None


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("feature-ablation", ()),
        ("kernel-shap", ("n_samples", "generator")),
        ("lime", ("generator", *surrogate.SETTINGS)),
        ("shapley-value-sampling", ("n_samples", "generator")),
    ],
)
def test_settings_to_suggest_are_those_of_the_signature(name, own):
    parameters = inspect.signature(METHODS[name]).parameters.values()
    there = {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}
    assert there == {*coalitions.MASKING_SETTINGS, "highest", "patches", "show_progress", *own}


MASKING = ("feature-ablation", "kernel-shap", "lime", "shapley-value-sampling")


def masked(name, model, **settings):
    given = {"segmentation": LABELS, "highest": 255, "baselines": 1.0} | settings
    if name != "feature-ablation":
        given["generator"] = torch.Generator().manual_seed(0)
    return METHODS[name](model, IMAGES, TARGETS, **given)


@pytest.mark.parametrize("name", MASKING)
@pytest.mark.parametrize("segmentation", ["pixels", LABELS])
def test_it_says_when_nothing_moves_the_output(name, segmentation):
    for wobble in (0, 1):  # units in the last place
        with pytest.warns(GuardWarning, match="of 2 images .* no perturbation changes the output"):
            assert not masked(name, Constant(0.1, wobble), segmentation=segmentation).any()
    with pytest.warns(GuardWarning, match="of 2 images .* no perturbation changes the output"):
        assert not masked(name, Curved(), segmentation=segmentation, baselines=IMAGES).any()


@pytest.mark.filterwarnings("ignore::attributionlab.GuardWarning")
@pytest.mark.parametrize("name", MASKING)
def test_superpixels_are_told_and_a_single_one_is_warned_of(name):
    own = torch.stack([LABELS, torch.zeros_like(LABELS)])
    with collect_notices() as told:
        maps = masked(name, Curved(), segmentation=own)
        masked(name, Curved(), segmentation="pixels")
    segments, pixels = (each for each in told if each.kind == "segments")
    assert torch.equal(segments.regions, own)
    assert pixels.regions is None
    assert (segments.images, pixels.images) == (1, 0)
    assert "a single superpixel" in segments.text
    for k in range(2):
        for label in own[k].unique():
            assert len(maps[k, 0][own[k] == label].unique()) == 1


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", MASKING)
def test_outputs_that_are_not_finite_are_refused(name, bad):
    """A map of zeros, or of NaN, would not say why."""

    class Masked(Curved):
        def forward(self, images):
            whole = torch.stack([(images == each).flatten(1).all(1) for each in IMAGES]).any(0)
            return torch.where(whole[:, None], super().forward(images), bad)

    with pytest.raises(
        AttributionLabError, match=rf"{name}: the model returns {bad} .* other base"
    ):
        masked(name, Masked())
