"""Camouflaged environments: certified as a whole, their parts before they were camouflaged."""

import pytest
import torch

import attributionlab as al
from attributionlab.worlds.nets import camouflaged

SMALL = (
    ("multi-color-sum", {"image_size": 16}),
    ("number-checker", {"image_size": 10}),
    ("single-color-modulo", {"image_size": 12, "modulus": 7, "max_count": 100}),
)


def disguised(name: str, seed: int = 0, **overrides) -> al.Environment:
    plain = al.load(name, **overrides)
    return al.Environment(plain.spec, camouflaged(plain.network, seed), plain.recipe)


def failures(env: al.Environment) -> set[str]:
    return {check.name for check in al.verify(env).checks if not check.passed}


@pytest.mark.long
@pytest.mark.parametrize(("name", "overrides"), SMALL)
def test_a_camouflaged_environment_passes_every_check_and_one_more(name, overrides):
    plain = {check.name for check in al.verify(al.load(name, **overrides)).checks}
    certificate = al.verify(disguised(name, **overrides))
    assert certificate.passed
    assert {check.name for check in certificate.checks} == plain | {"camouflage"}


@pytest.mark.long
@pytest.mark.parametrize(("name", "form"), [("number-checker", "both-sides-averaged"),
    ("multi-color-sum-distractors", "and-two-ways")])  # fmt: skip
def test_an_implementation_passes_the_checks_of_a_camouflage(name, form):
    env = al.load(name, image_size=16, implementation=form)
    certificate = al.verify(env)
    assert certificate.passed
    assert certificate.checks[-1].name == "camouflage"
    with torch.no_grad():
        next(env.model.parameters())[0] += 1
    assert "camouflage" in failures(env)


def test_every_count_and_every_value_is_shown_where_images_are_small():
    env = disguised("number-checker", image_size=10)
    check = al.verify(env).checks[-1]
    # 4 samples, 4 images anywhere in the box, 256 values in 3 images, 0 to 100 counted pixels.
    assert (check.name, check.tested) == ("camouflage", 4 + 4 + 3 + 101)


def test_a_wrong_answer_of_the_camouflaged_network_alone_is_noticed():
    env = disguised("number-checker", image_size=10)
    with torch.no_grad():
        list(env.model.parameters())[-1].add_(1)
    # The parts are those of the network before: they are right.
    assert (
        {"camouflage", "logits"}
        <= failures(env)
        <= {*("camouflage", "logits", "removal", "insertion", "irrelevant")}
    )


def test_a_wrong_part_before_the_camouflage_is_noticed():
    env = disguised("number-checker", image_size=10)
    with torch.no_grad():
        env.network.plain.get_parameter("detector.4.bias").add_(1)
    assert {"number-checker", "camouflage"} <= failures(env)
