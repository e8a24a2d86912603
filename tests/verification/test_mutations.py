"""One weight at a time is set wrong: verify notices, or no answer changes."""

import random

import pytest
import torch

import attributionlab as al
from attributionlab.base import grid_step
from attributionlab.worlds.verification.oracle import Oracle
from attributionlab.worlds.verification.pixels import anywhere_in_the_box
from cases import COUNTING

# Sides with all three paddings; single-color-modulo with a head small enough to be sampled well, and
# once with the 675,033 parameters of the paper, of which the head's are sampled.
SIDES = (9, 10, 11, 16, 24)
SMALL_MODULO = {"modulus": 7, "max_count": 100}


def environments():
    """Each with the part of the network whose weights are drawn; some are camouflaged."""
    for index, name in enumerate(sorted(COUNTING)):
        modulo = name == "single-color-modulo"
        overrides = {"image_size": SIDES[index % len(SIDES)]} | (SMALL_MODULO if modulo else {})
        yield al.load(name, **overrides), ""
    yield al.load("single-color-modulo", image_size=9), "head"
    yield al.load("number-checker", image_size=10, camouflage_seed=1), ""
    yield al.load("single-color-modulo", image_size=12, camouflage_seed=1, **SMALL_MODULO), ""


def drawn(env: al.Environment, rng: random.Random, within: str):
    """A weight, half of the time one that is not 0, or a bias; its entry, and one step of its grid."""
    known = dict(env.model.named_parameters())
    if env.softmax_model is not None:
        known["temperature.weight"] = env.softmax_model.get_parameter("temperature.weight")
    name = rng.choice([n for n in known if n.startswith(within) and n.endswith("weight")])
    grid = float(grid_step(known[name].detach()).min())
    bias = name.replace("weight", "bias")
    entries = known[bias if bias in known and rng.random() < 0.25 else name].detach()
    present = entries.nonzero().tolist()
    if present and rng.random() < 0.5:
        index = rng.choice(present)
    else:
        index = [rng.randrange(size) for size in entries.shape]
    return entries, tuple(index), rng.choice([-grid, grid])


def answers(env: al.Environment) -> torch.Tensor:
    """On samples, and on any image where other colors do nothing."""
    images, _ = env.batch(4)
    if not Oracle.of(env).disturbed and not env.spec.constants.get("modulus"):
        # Of counts above a bound nothing is promised.
        images = torch.cat([images, anywhere_in_the_box(env, images, torch.Generator())])
    with torch.no_grad():
        return (env.softmax_model or env.model)(images)


@pytest.mark.long
@pytest.mark.parametrize("count", [26, pytest.param(200, marks=pytest.mark.slow)])
def test_every_sampled_wrong_weight_is_noticed_or_changes_no_answer(count):
    rng, noticed = random.Random(0), 0
    known = [(*each, answers(each[0])) for each in environments()]
    for place in range(count):
        env, within, right = known[place % len(known)]
        entries, index, step = drawn(env, rng, within)
        before = entries[index].clone()
        entries[index] += step
        passed = al.verify(env).passed
        assert not passed or torch.equal(answers(env), right), (env.name, entries.shape, index)
        entries[index] = before
        noticed += not passed
    assert noticed >= count / 3
