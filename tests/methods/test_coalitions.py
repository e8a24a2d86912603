"""Mixtures of image and baseline by coalition, in passes as full as they can be."""

import inspect

import pytest
import torch

from attributionlab.base import AttributionLabError
from attributionlab.methods import METHODS, surrogate
from attributionlab.methods.coalitions import (
    MASKING_SETTINGS,
    Game,
    followed_pixels,
    games_of,
)
from masking_cases import BASELINES, IMAGES, LABELS, TARGETS, WEIGHTS, Curved

LABELS_OF_BOTH = LABELS.expand(2, 3, 5)


def games():
    return games_of(IMAGES, BASELINES, LABELS_OF_BOTH, TARGETS)


def test_single_pixels_are_followed_whatever_their_labels():
    linear = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(45, 2, bias=False))
    with torch.no_grad():
        linear[1].weight.copy_(torch.stack([WEIGHTS.flatten(), -WEIGHTS.flatten()]))
    labels = torch.arange(15).flip(0).reshape(3, 5)
    [game] = games_of(IMAGES[:1], BASELINES[:1], labels[None], TARGETS[:1])
    pixels = followed_pixels(linear, game)
    assert torch.equal(game.owners.flatten()[pixels], torch.arange(game.players))
    assert game.players == 11
    assert followed_pixels(Curved(), game) is None
    assert followed_pixels(linear, games()[0]) is None
    nobody = Game(IMAGES[0], IMAGES[0], torch.full((3, 5), -1), 0, TARGETS[0])
    assert followed_pixels(linear, nobody) is None


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
    assert there == {*MASKING_SETTINGS, "highest", "patches", "show_progress", *own}


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize(
    "name", ["feature-ablation", "kernel-shap", "lime", "shapley-value-sampling"]
)
def test_outputs_that_are_not_finite_are_refused(name, bad):
    """A map of zeros, or of NaN, would not say why."""

    class Masked(Curved):
        def forward(self, images):
            whole = torch.stack([(images == each).flatten(1).all(1) for each in IMAGES]).any(0)
            return torch.where(whole[:, None], super().forward(images), bad)

    given = {"segmentation": LABELS, "highest": 255, "baselines": 1.0}
    if name != "feature-ablation":
        given["generator"] = torch.Generator().manual_seed(0)
    with pytest.raises(
        AttributionLabError, match=rf"{name}: the model returns {bad} .* other base"
    ):
        METHODS[name](Masked(), IMAGES, TARGETS, **given)
