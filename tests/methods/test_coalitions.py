"""Mixtures of image and baseline by coalition, in passes as full as they can be."""

import inspect

import pytest
import torch

from attributionlab.base import AttributionLabError
from attributionlab.methods import METHODS, surrogate
from attributionlab.methods.coalitions import (
    MASKING_SETTINGS,
    Coalitions,
    Game,
    coalition_outputs,
    drawn,
    followed_pixels,
    games_of,
)
from masking_cases import BASELINES, IMAGES, LABELS, TARGETS, WEIGHTS, Curved

LABELS_OF_BOTH = LABELS.expand(2, 3, 5)


def games():
    return games_of(IMAGES, BASELINES, LABELS_OF_BOTH, TARGETS)


def test_players_are_superpixels_that_differ_from_the_baseline():
    first, second = games()
    assert first.players == 4
    assert second.players == 5
    assert torch.equal(second.owners, LABELS)
    renamed = torch.tensor([0, 1, 2, -1, 3])
    assert torch.equal(first.owners, renamed[LABELS])


def test_members_are_shown_and_others_replaced():
    first, _ = games()
    coalitions = torch.tensor([[1, 0, 0, 1], [0, 0, 0, 0]]).bool()
    mixtures = first.mixtures(coalitions)
    shown = torch.tensor([1, 0, 0, 1, 1]).bool()[LABELS]  # superpixel 3 looks the same either way
    assert torch.equal(mixtures[0], torch.where(shown, IMAGES[0], BASELINES[0]))
    assert torch.equal(mixtures[1], BASELINES[0])


def test_pixels_share_the_worth_of_their_superpixel():
    first, _ = games()
    got = first.shared(torch.tensor([3.0, 6.0, 9.0, 4.0]))
    assert got.tolist() == [[[1, 1, 2, 2, 2], [1, 3, 3, 0, 0], [2, 2, 3, 0, 0]]]


def test_passes_are_filled_across_images_and_outputs_are_those_of_each():
    model = Curved()
    first, second = games()
    rows = torch.arange(5)[:, None] != torch.arange(4)
    lazy = Coalitions(3, lambda numbers: numbers[:, None] == torch.arange(5))
    got = coalition_outputs(model, [first, second], [drawn(rows), lazy], 4, "test")
    assert model.seen == [4, 4]
    eye = torch.eye(5)[:3].bool()
    for game, coalitions, outputs in zip((first, second), (rows, eye), got, strict=True):
        alone = Curved()(game.mixtures(coalitions))[:, int(game.target)]
        assert torch.equal(outputs, alone)


def test_where_memory_does_not_suffice_passes_are_halved():
    class Small(Curved):
        def forward(self, inputs):
            if len(inputs) > limit:
                raise RuntimeError("out of memory")
            return super().forward(inputs)

    limit, model = 3, Small()
    rows = torch.eye(5).bool()
    [got] = coalition_outputs(model, [games()[1]], [drawn(rows)], None, "test")
    assert model.seen == [1, 2, 2, 1]
    assert torch.equal(got, Curved()(games()[1].mixtures(rows))[:, 0])
    limit = 0
    with pytest.raises(AttributionLabError, match="test does not fit in memory"):
        coalition_outputs(model, [games()[1]], [drawn(rows)], 2, "test")


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


def test_pixels_of_no_player_are_always_shown():
    owners = torch.where(LABELS == 0, -1, LABELS - 1)
    game = Game(IMAGES[1], BASELINES[1], owners, 4, TARGETS[1])
    [mixture] = game.mixtures(torch.zeros(1, 4).bool())
    assert torch.equal(mixture, torch.where(LABELS == 0, IMAGES[1], BASELINES[1]))


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
