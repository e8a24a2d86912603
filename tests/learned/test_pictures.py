"""Images as indices of colors, what is done to them, and the rule's answers for them."""

import numpy as np
import pytest
import torch

import attributionlab as al
from attributionlab import AttributionLabError
from attributionlab.worlds.learned.pictures import (
    INTERVENTIONS,
    VARIATIONS,
    RuleAnswers,
    drawn_pictures,
    varied,
)
from learned.worlds import COLORS, rng, world

VARIATION = {change.__name__: change for change in VARIATIONS}


@pytest.fixture(scope="module")
def env():
    return world("red", "blue", "green")


@pytest.fixture(scope="module")
def pictures(env):
    return drawn_pictures(env, 240, seed=1)


@pytest.mark.long
def test_pictures_are_the_images_of_the_world(env, pictures):
    images, _ = env.batch(240, seed=1)
    assert torch.equal(pictures.images, images)
    assert torch.equal(pictures.part(slice(3, 5)).images, images[3:5])


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("quadrants", {}),
        ("stripes-or-checks", {}),
        ("multi-color-sum-distractors", {}),
        ("quadrants", {"camouflage_seed": 3}),
    ],
)
def test_the_rules_answers_are_those_of_the_whole_network(name, how):
    env = al.load(name, image_size=24, **how)
    pictures = varied(drawn_pictures(env, 6, seed=1), rng())
    answers = RuleAnswers(env, pictures.colors)
    assert torch.equal(answers(pictures.shown), env.model(pictures.images))


def test_images_of_other_colors_are_refused():
    env = al.load("multi-color-sum", image_size=24)
    drawn_pictures(env, 1, seed=0)
    with pytest.raises(AttributionLabError, match="colors beyond the"):
        drawn_pictures(_shifted(env), 1, seed=0)
    with pytest.raises(AttributionLabError, match="1 channel, but networks are trained on color"):
        drawn_pictures(al.load("number-checker", image_size=24), 1, seed=0)


def _shifted(env):
    """A world whose images have one gray level more than it states."""
    samples = env.dataset(1, 0)

    class Shifted:
        def __getitem__(self, index):
            return samples[index]._replace(image=samples[index].image + 1)

    env.dataset = lambda n, seed: Shifted()
    return env


def test_removed_patches_are_whole_and_nothing_else_changes(pictures):
    removed = INTERVENTIONS["patches_removed"](pictures, rng())
    gone = (removed.shown != pictures.shown).flatten(1)
    for shown, patches, lost in zip(
        pictures.shown.flatten(1), pictures.patches.flatten(1), gone, strict=True
    ):
        for patch in patches[lost].unique():
            assert torch.equal(lost[patches == patch], shown[patches == patch] > 0)
    assert not removed.shown[gone.view_as(removed.shown)].any()
    rates = (
        torch.stack(
            [
                gone[i, own == k].any()
                for i, own in enumerate(pictures.patches.flatten(1))
                for k in (1, 2, 3)
            ]
        )
        .view(-1, 3)
        .double()
        .mean(1)
    )
    assert 0.15 < rates.mean() < 0.35  # between 0 and 1/2 for each picture
    assert not torch.equal(rates, rates[:1].expand(240))


def test_removed_pixels_get_the_background_at_rates_of_their_own(pictures):
    removed = INTERVENTIONS["pixels_removed"](pictures, rng())
    gone = removed.shown != pictures.shown
    assert not removed.shown[gone].any()
    rates = gone.flatten(1).sum(1) / (pictures.shown > 0).flatten(1).sum(1)
    assert rates.max() < 0.75
    assert 0.15 < rates.mean() < 0.35  # between 0 and 1/2
    assert rates.std() > 0.1  # 0.14 of a uniform share; with one rate for all 0.07


def test_swapped_colors_are_a_permutation_of_each_picture(pictures):
    swapped = INTERVENTIONS["colors_swapped"](pictures, rng())
    tables = set()
    for before, after in zip(pictures.shown, swapped.shown, strict=True):
        pairs = {*zip(before.flatten().tolist(), after.flatten().tolist(), strict=True)}
        assert len(pairs) == len(before.unique()) == len(after.unique())
        assert (0, 0) in pairs
        tables.add(frozenset(pairs))
    assert len(tables) == 6  # of three colors


def test_moved_places_are_quarter_turns_of_pixels_and_patches(pictures):
    moved = INTERVENTIONS["places_moved"](pictures, rng())
    turns = []
    for old, new, own, other in zip(
        pictures.shown, moved.shown, pictures.patches, moved.patches, strict=True
    ):
        [turn] = [turn for turn in (1, 2, 3) if np.array_equal(np.rot90(old, turn), new)]
        assert np.array_equal(np.rot90(own, turn), other)
        turns.append(turn)
    assert {*turns} == {1, 2, 3}


def test_recolored_patches_have_one_color_each_and_stay_where_they_are(pictures):
    painted = VARIATION["_patches_recolored"](pictures, rng())
    assert torch.equal(painted.shown > 0, pictures.shown > 0)
    assert torch.equal(painted.patches, pictures.patches)
    changed = 0
    for before, after, own in zip(pictures.shown, painted.shown, pictures.patches, strict=True):
        for patch in (1, 2, 3):
            filled = (own == patch) & (before > 0)
            colors = after[filled].unique()
            assert len(colors) == 1
            assert 1 <= int(colors) <= len(COLORS)
            changed += not torch.equal(after[filled], before[filled])
    # Half are painted, a third of those in the color that they have: 240 of 720, +- 13 at one sigma.
    assert abs(changed - 240) < 65


def test_a_rolled_picture_comes_in_on_the_other_side_with_its_patches(pictures):
    rolled = VARIATION["_picture_rolled"](pictures, rng())
    moves = set()
    for index in range(24):
        before, after = pictures.shown[index], rolled.shown[index]
        found = [
            (down, right)
            for down in range(0, 16, 2)
            for right in range(0, 16, 2)
            if torch.equal(before.roll((-down, -right), (0, 1)), after)
        ]
        [move] = found
        moves.add(move)
        shifts = (-move[0], -move[1])
        assert torch.equal(pictures.patches[index].roll(shifts, (0, 1)), rolled.patches[index])
    assert len(moves) > 12


@pytest.mark.long
def test_variants_differ_and_counts_vary_independently(pictures):
    one, two = varied(pictures, rng(0)), varied(pictures, rng(1))
    assert not torch.equal(one.shown, two.shown)
    assert torch.equal(one.shown, varied(pictures, rng(0)).shown)
    tied = drawn_pictures(
        al.world("red - blue", 16, colors=COLORS, items=["red & blue"], equal_areas=True), 240, 0
    )

    def correlation(shown):
        counts = torch.stack([(shown == color).flatten(1).sum(1) for color in (1, 2)]).double()
        return float(torch.corrcoef(counts)[0, 1])

    assert correlation(tied.shown) > 0.99
    assert correlation(varied(tied, rng()).shown) < 0.6
