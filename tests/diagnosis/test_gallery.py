"""Broken methods get the right first cause, those too that were set aside while rules were made."""

import pytest

import attributionlab as al
from diagnosis.gallery import Broken, gallery

NAMES = ("multi-color-sum-distractors", "quadrants", "marker-flips", "all-four")
QUICK = ("one_branch", "color_means", "squares", "signs_of_pixels", "from_black", "standardized")
"""What a new user met first; two environments tell them."""


def named(
    broken: Broken, environments: tuple[str, ...], seed: int, implementation: str
) -> str | None:
    """The first cause that a test names."""
    envs = [al.load(name, image_size=48) for name in environments]
    report = al.faithfulness_test(
        broken.method, envs, n=8, seed=seed, isolated=False, implementations=implementation
    )
    return next((hint.cause for hint in report.hints), None)


def test_the_gallery_is_large_and_half_of_it_is_set_aside():
    methods = gallery()
    assert len(methods) >= 40
    assert 2 * sum(broken.held_out for broken in methods) == len(methods)


@pytest.mark.long
@pytest.mark.parametrize("name", QUICK)
@pytest.mark.filterwarnings("ignore::attributionlab.base.errors.AttributionWarning")
def test_what_new_methods_do_wrong_gets_its_cause(name):
    broken = next(each for each in gallery() if each.name.startswith(f"{name} "))
    where = ("all-four",) if broken.cause == "tie" else ("quadrants",)
    assert named(broken, where, 5, "paper") == broken.cause


@pytest.mark.slow
@pytest.mark.parametrize("implementation", ["paper", "natural"])
@pytest.mark.filterwarnings("ignore::attributionlab.base.errors.AttributionWarning")
def test_nine_of_ten_in_the_gallery_get_their_cause(implementation):
    found = {
        broken.name: (broken.cause, named(broken, NAMES, 3, implementation)) for broken in gallery()
    }
    right = sum(cause == first for cause, first in found.values())
    wrong = {name: pair for name, pair in found.items() if pair[0] != pair[1]}
    assert 10 * right >= 9 * len(found), wrong
