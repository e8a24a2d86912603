"""Questions: what is drawn, what it must not tell, and what stays the same."""

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

import attributionlab as al
import oracles
from attributionlab.worlds.environment.questions import LIGHTEST
from cases import SMALL_ENVIRONMENTS, SMALL_WORLDS, loaded

SIZE = 24
env = loaded("multi-color-sum-distractors", image_size=SIZE)


@pytest.fixture(scope="module")
def drawn(env):
    questions = al.Questions(env, seed=3)
    return [questions[index] for index in range(40)]


@pytest.mark.long
def test_a_question_is_a_function_of_environment_seed_and_index(env, drawn):
    again = al.Questions(env, seed=3)[7]
    first = drawn[7]
    for one, other in zip(first[1:], again[1:], strict=True):
        assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other
    assert first.env.spec.digest == again.env.spec.digest
    weights = zip(first.env.model.parameters(), again.env.model.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in weights)
    assert al.Questions(env, seed=4)[7].env.spec.digest != first.env.spec.digest


def test_the_network_counts_the_pixels_of_its_roles(drawn):
    for question in drawn:
        logits = question.env.model(question.image[None])[0]
        counts = [int((question.cells == cell).sum()) for cell in question.roles]
        assert logits.tolist() == counts
        colors = [question.values[cell] for cell in question.roles]
        assert counts == oracles.counts(question.image, colors)


def test_the_truth_is_that_of_the_target_among_the_roles(drawn):
    for question in drawn:
        target = torch.tensor([question.target])
        signed = question.env.truth(question.image[None], target).signed[0, 0]
        for cell in range(len(question.values)):
            expected = 0
            if cell in question.roles:
                expected = 1 if question.roles.index(cell) == question.target else -1
            assert (signed[question.cells == cell] == expected).all()
        assert (signed[question.cells < 0] == 0).all()


def test_every_color_is_shown_and_nothing_but_colors_and_background(drawn):
    for question in drawn:
        background = torch.tensor(question.env.recipe.background).float()
        is_background = (question.image == background[:, None, None]).all(0)
        assert torch.equal(is_background, question.cells < 0)
        assert all((question.cells == cell).any() for cell in range(6))
        assert len(set(question.values)) == 6


def test_images_in_which_a_color_is_missing_are_drawn_again():
    """Some patches with few filled pixels have none; a question about their color would be empty."""
    sparse = al.Questions(al.load("multi-color-sum-distractors", image_size=24, fill=0.1))
    for index in range(6):
        cells = sparse[index].cells
        assert all((cells == cell).any() for cell in range(6))


def test_roles_targets_colors_backgrounds_and_weights_vary(drawn):
    assert len({question.roles for question in drawn}) > 30
    assert {question.target for question in drawn} == {0, 1, 2, 3}
    assert len({question.values for question in drawn}) > 30
    grays = {question.env.recipe.background for question in drawn}
    assert len(grays) > 10
    assert all(len(set(gray)) == 1 and gray[0] <= LIGHTEST for gray in grays)
    assert len({question.env.spec.constants["weight_seed"] for question in drawn}) == 40
    channels = {question.env.spec.constants["redundant_channels"] for question in drawn}
    assert channels == {1, 2, 3, 4}


@pytest.mark.long
def test_roles_are_independent_of_what_the_image_shows(env):
    """The target's cell by its rank of size, and by its color, is uniform.

    Chi-square with 5 degrees of freedom exceeds 20.5 with a probability of 0.001; the seed is fixed.
    """
    small = al.load("multi-color-sum-distractors", image_size=16, redundant_channels=0)
    questions = al.Questions(small, seed=11)
    ranks, colors = Counter(), Counter()
    for index in range(240):
        question = questions[index]
        sizes = [int((question.cells == cell).sum()) for cell in range(6)]
        target = question.roles[question.target]
        ranks[int(np.argsort(np.argsort(sizes, kind="stable"), kind="stable")[target])] += 1
        colors[question.values[target]] += 1
    for counts in (ranks, colors):
        assert sum((counts[key] - 40) ** 2 / 40 for key in counts) < 20.5
        assert len(counts) == 6


def test_labels_of_patches_do_not_tell_colors(drawn):
    first = Counter()
    for question in drawn:
        labels = [int(question.patches[question.cells == cell][0]) for cell in range(6)]
        assert sorted(labels) == [1, 2, 3, 4, 5, 6]
        first[labels.index(1)] += 1
    assert len(first) == 6


def test_an_image_without_distractors_shows_four_of_six_colors():
    plain = al.load("multi-color-sum", image_size=SIZE)
    questions = al.Questions(plain)
    shown = [frozenset(questions[index].values) for index in range(20)]
    assert {len(colors) for colors in shown} == {4}
    assert len(set(shown)) > 5


def test_a_twin_has_the_image_and_another_target_cell(env, drawn):
    questions = al.Questions(env, seed=3)
    for index in range(6):
        twin, own = questions.twin(index), drawn[index]
        assert torch.equal(twin.image, own.image)
        assert torch.equal(twin.cells, own.cells)
        assert torch.equal(twin.patches, own.patches)
        assert twin.roles[twin.target] != own.roles[own.target]
        assert twin.env.spec.digest != own.env.spec.digest


def test_an_image_with_one_cell_has_no_twin():
    questions = al.Questions(al.load("uniform-accumulator", image_size=16))
    with pytest.raises(al.AttributionLabError, match=r"1 cell.*several colors"):
        questions.twin(0)


def test_a_number_is_drawn_among_those_of_the_image():
    questions = al.Questions(al.load("number-checker", image_size=SIZE))
    numbers = set()
    for index in range(12):
        question = questions[index]
        [number] = question.values[question.roles[0]]
        assert int(question.env.model(question.image[None])) == int(
            (question.image == number).sum()
        )
        assert int((question.image == number).sum()) > 0
        numbers.add(number)
    assert len(numbers) > 4


def test_without_colors_and_numbers_only_weights_are_drawn():
    base = al.load("nonuniform-accumulator", image_size=SIZE)
    one, other = (al.Questions(base)[index] for index in (0, 1))
    assert one.env.spec.constants.keys() == base.spec.constants.keys()
    differing = {
        key
        for key, value in one.env.spec.constants.items()
        if value != other.env.spec.constants[key]
    }
    assert differing == {"weight_seed"}


def test_several_patches_of_a_color_are_as_many_for_colors_that_do_not_count():
    many = al.load("multi-color-sum-distractors", image_size=72, patches_per_color=2,
                   patch_size=(0.1, 0.15))  # fmt: skip
    question = al.Questions(many)[0]
    patches = [len(question.patches[question.cells == cell].unique()) for cell in range(6)]
    assert patches == [2] * 6


def test_reference_images_are_in_the_colors_of_the_question_and_no_question_is_about_them(
    env, drawn
):
    questions = al.Questions(env, seed=3)
    images = questions.reference_images(drawn[2], 5)
    assert torch.equal(images, questions.reference_images(drawn[2], 6)[:5])
    known = {*drawn[2].values, drawn[2].env.recipe.background}
    for image in images:
        assert {tuple(int(v) for v in pixel) for pixel in image.flatten(1).T} == known
        assert not any(torch.equal(image, question.image) for question in drawn)
    question = drawn[2]
    with torch.no_grad():
        logits = question.env.model(images)
    counts = [
        oracles.counts(image, [question.values[cell] for cell in question.roles])
        for image in images
    ]
    assert logits.tolist() == counts


def test_a_question_can_be_loaded_again_by_its_overrides(drawn):
    plain = al.Questions(al.load("multi-color-sum", image_size=SIZE))
    for question in (drawn[0], *(plain[index] for index in range(3))):
        assert_loaded_again(question)


def assert_loaded_again(question):
    again = al.load(question.env.reference, **question.env.overrides)
    # What questions hide is drawn already: of constants that are given nothing is known to be hidden.
    specs = [replace(env.spec, hidden={}) for env in (again, question.env)]
    assert specs[0].digest == specs[1].digest
    pairs = itertools.islice(
        zip(again.model.parameters(), question.env.model.parameters(), strict=True), 9
    )
    assert all(torch.equal(one, other) for one, other in pairs)


def test_a_background_is_kept_where_colors_differ_in_contrast():
    uneven = al.load("multi-color-sum", image_size=SIZE,
                     colors=((255, 0, 0), (0, 255, 0), (0, 0, 200), (9, 9, 99)))  # fmt: skip
    assert al.Questions(uneven)[0].env.recipe.background == (20, 20, 20)


@pytest.mark.long
@pytest.mark.parametrize(("name", "overrides"), [*SMALL_ENVIRONMENTS, *SMALL_WORLDS])
def test_the_truth_of_a_question_is_that_of_its_environment(name, overrides):
    """In a world it is taken from what was solved when the role was drawn."""
    questions = al.Questions(al.load(name, **overrides), seed=5)
    for index in range(2):
        question = questions[index]
        shown = question.image[None], torch.tensor([question.target])
        for output in question.env.outputs:
            own, expected = question.truth(output), question.env.truth(*shown, output)
            for mask in ("signed", "relevant", "asked"):
                assert torch.equal(getattr(own, mask), getattr(expected, mask)), mask
