"""One weight at a time is set wrong: verify notices, or an argument shows that nothing is wrong."""

import random
from collections import Counter

import pytest
import torch

import attributionlab as al
from attributionlab.worlds.verification.oracle import Oracle
from attributionlab.worlds.verification.outputs import anywhere_in_the_box
from cases import COUNTING
from verification.mutants import Mutant, draw_mutant, equivalence, grid_of, mutated, parameters

# Sides with all three paddings; single-color-modulo with a head small enough to be sampled well, and
# once with the 675,033 parameters of the paper, of which the head's are sampled.
SIDES = (9, 10, 11, 16, 24)
SMALL_MODULO = {"modulus": 7, "max_count": 100}


def mutants(count: int):
    """Environments in turn, a random weight of each."""
    rng = random.Random(0)
    environments = []
    for index, name in enumerate(sorted(COUNTING)):
        modulo = name == "single-color-modulo"
        overrides = {"image_size": SIDES[index % len(SIDES)]} | (SMALL_MODULO if modulo else {})
        environments.append((al.load(name, **overrides), ""))
    environments.append((al.load("single-color-modulo", image_size=9), "head"))
    for index in range(count):
        env, within = environments[index % len(environments)]
        yield env, draw_mutant(env, rng, within)


def fate(env: al.Environment, mutant: Mutant) -> str:
    """How verify noticed the mutant, or the argument for its equivalence, or "missed"."""
    with mutated(env, mutant):
        certificate = al.verify(env)
    if not certificate.passed:
        return "noticed by " + next(check.name for check in certificate.checks if not check.passed)
    return equivalence(env, mutant) or "missed"


def same_answers(env: al.Environment, mutant: Mutant) -> bool:
    """Whether the mutant answers alike: on samples, and on any image where other colors do nothing."""
    images, _ = env.batch(4)
    if not Oracle.of(env).disturbed:
        images = torch.cat([images, anywhere_in_the_box(env, images, torch.Generator())])
    if env.spec.constants.get("modulus"):
        images = images[:4]  # nothing is promised of counts above the bound
    with torch.no_grad():
        right = env.model(images)
        with mutated(env, mutant):
            return torch.equal(env.model(images), right)


def report(fates: dict[tuple[str, str], int]) -> None:
    layers = sorted({layer for layer, _ in fates})
    for layer in layers:
        print(layer)
        for (where, how), count in sorted(fates.items()):
            if where == layer:
                print(f"  {count:4d}  {how}")


@pytest.mark.long
@pytest.mark.parametrize("count", [12, pytest.param(200, marks=pytest.mark.slow)])
def test_every_sampled_wrong_weight_is_noticed_or_shown_equivalent(count):
    fates: Counter[tuple[str, str]] = Counter()
    missed = []
    for env, mutant in mutants(count):
        how = fate(env, mutant)
        fates[mutant.parameter, how] += 1
        if how == "missed" or not (how.startswith("noticed") or same_answers(env, mutant)):
            missed.append((env, mutant))
    report(fates)
    noticed = sum(n for (_, how), n in fates.items() if how.startswith("noticed"))
    print(f"{noticed} noticed, {count - noticed - len(missed)} equivalent, {len(missed)} missed")
    assert not missed


HARMFUL = (
    # (environment, part of the network, entry, step), noticed by check
    ("multi-color-sum", "detector.8.bias", (0,), 1.0, "color-detector"),
    ("multi-color-sum", "detector.0.weight", (0, 1), 1.0, "number-checkers"),
    ("multi-color-sum", "accumulator.0.weight", (0, 4, 0, 0), 2.25, "redundant-weights"),
    ("multi-color-sum", "accumulator.2.weight", (0, 0, 1, 1), 2**-6, "sum-slopes"),
    ("single-color-modulo", "head.0.bias", (1,), 1.0, "remainder"),
    ("color-detector", "head.0.weight", (0, 3), 1.0, "identity"),
    ("multi-color-sum", "temperature.weight", (0, 1), 0.25, "temperature"),
)


@pytest.mark.parametrize(("name", "parameter", "index", "step", "check"), HARMFUL)
def test_no_argument_excuses_a_harmful_weight(name, parameter, index, step, check):
    env = al.load(name, image_size=24)
    mutant = Mutant(parameter, index, step)
    assert equivalence(env, mutant) is None
    assert fate(env, mutant) == f"noticed by {check}"


def test_a_checker_that_reads_a_second_channel_can_be_right_all_the_same():
    # ReLU(g - 221) becomes ReLU(g - 221 - r): I_{>220} is larger than 1 for some g, which cuts alike.
    env = al.load("color-detector", image_size=9, colors=((20, 220, 120),), distractors=0)
    mutant = Mutant("detector.0.weight", (5, 0), -1.0)
    assert fate(env, mutant) == (
        "(i) each number checker answers the same at all values of the channels it reads"
    )


@pytest.mark.long
def test_a_restored_network_is_the_network_again():
    env = al.load("multi-color-sum", image_size=9)
    before = {name: parameter.detach().clone() for name, parameter in parameters(env).items()}
    with mutated(env, Mutant("head.0.bias", (0,), 1.0)):
        assert not al.verify(env).passed
    assert all(torch.equal(before[name], now) for name, now in parameters(env).items())
    assert al.verify(env).passed


def test_the_grid_of_weights_is_their_largest_common_power_of_two():
    assert grid_of(torch.tensor([1.0, -30.0, 0.0])) == 1
    assert grid_of(torch.tensor([6.0, -10.0])) == 2
    assert grid_of(torch.tensor([0.75, 1.0])) == 0.25
    assert grid_of(torch.zeros(2)) == 1
