"""The cases: 13 pairs of images and network, each in two orders."""

import pytest
import torch

import attributionlab as al
from attributionlab.verdicts import PAIRS, PROTOCOLS, Pair


def test_there_are_26_cases_with_names_of_their_own():
    assert len(PAIRS) * len(PROTOCOLS) == 26
    assert len({pair.name for pair in PAIRS}) == 13
    assert PROTOCOLS == {"MoRF": "morf", "LeRF": "lerf"}


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_only_black_and_redundant_channels_make_unseen_data(pair):
    env = pair.load(12, 0)
    black = torch.zeros(1, 3, 12, 12)
    background = env.baseline.expand(1, 3, 12, 12)
    reacts = not torch.equal(env.model(black), env.model(background))
    assert pair.shows_unseen_data(env) == (reacts and pair.removed_to == "black")
    assert env.task == "classification"


@pytest.mark.long
def test_images_and_doses_differ_as_they_say():
    sizes = {
        pair.name: pair.load(16, 0).model(torch.zeros(1, 3, 16, 16)).shape[1] for pair in PAIRS
    }
    assert sizes["two colors, dose 0"] == 2
    assert sizes["four colors, dose 4"] == 4
    images = {pair.data: pair.load(16, 0).batch(4)[0] for pair in PAIRS}
    assert len(images) == 4
    assert not torch.equal(images["four colors"], images["shapes"])
    strengths = {pair.name: pair.load(16, 0).spec.constants["redundant_strength"] for pair in PAIRS}
    assert strengths["distractors, dose 4"] == 4
    assert strengths["four colors, dose 1, true baseline"] == 1


def test_networks_of_the_same_images_share_random_weights_and_others_do_not():
    def weight_seed(pair, seed):
        return pair.load(12, seed).spec.constants["weight_seed"]

    first, second, *_, other = PAIRS
    assert weight_seed(first, 0) == weight_seed(second, 0)
    assert weight_seed(first, 0) != weight_seed(other, 0)
    assert weight_seed(first, 0) != weight_seed(first, 1)


def test_a_pair_without_a_dose_is_the_environment_as_it_is():
    pair = Pair("multi-color-sum-in-distribution")
    assert pair.name == "multi-color-sum-in-distribution, as it is"
    env = pair.load(None, 0)
    assert env.recipe.image_size == 224
    assert not pair.shows_unseen_data(env)


def test_a_regression_is_refused():
    with pytest.raises(al.AttributionLabError, match="number-checker is a regression"):
        Pair("number-checker").load(16, 0)


@pytest.mark.parametrize("dose", [0.1, "a", float("nan")])
def test_a_dose_between_the_steps_is_refused(dose):
    with pytest.raises(al.AttributionLabError, match=r"dose is .*: take a multiple of 0.25"):
        Pair("multi-color-sum", dose).load(16, 0)


def test_an_unknown_replacement_is_refused():
    with pytest.raises(al.AttributionLabError, match="removed_to is 'white': take 'black' or"):
        Pair("multi-color-sum", removed_to="white").load(16, 0)
