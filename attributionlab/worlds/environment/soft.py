"""Soft sisters of worlds: the same truth, and a slope along every count."""

import torch
from jaxtyping import Real
from torch import Tensor

from attributionlab.base import AttributionLabError
from attributionlab.worlds.environment.catalog import load
from attributionlab.worlds.environment.environment import Environment
from attributionlab.worlds.environment.files import environments
from attributionlab.worlds.environment.random_rules import is_linear
from attributionlab.worlds.environment.worlds import world
from attributionlab.worlds.rules.expressions import Count, is_condition
from attributionlab.worlds.rules.rule import Rule
from attributionlab.worlds.truth import Truth

SLOPE, STEP = 20, 1_000
"""What the rule is multiplied by, so that the counts that are added stay small: of numbers of pixels,
and of a condition, which is 0 or 1."""
IMAGES = 8
"""On which the sign of each count is looked up, and the truth compared."""


def soft_sister(env: Environment) -> Environment | None:
    """A world with the same kind of images and the same truth whose rule changes with every count.

    Minima, maxima and conditions are flat on one side, as no trained network is. The catalog states
    sisters of its own worlds, such as `soft-at-least`. For `attributionlab.world` and random worlds one
    is made: the rule is multiplied by `SLOPE` or `STEP`, and every count that it reads is added with
    the sign of its effect.

    None where that is needless (the rule is a weighted sum of counts) or impossible: for classes, if a
    count raises some outputs and lowers others, or none, if the truth would change on the images looked
    at, and if float32 cannot hold the sum.
    """
    if (name := f"soft-{env.reference}") in environments():
        return load(name, **env.overrides)
    rule = env.counting
    if env.maker != "world" or not isinstance(rule, Rule) or rule.names:
        return None
    [expression] = rule.expressions
    if is_linear(expression):
        return None
    images, _ = env.batch(IMAGES)
    truth = _truth(rule, images)
    signs = _signs(rule, images, truth)
    if not all(signs.values()):
        return None
    factor = STEP if is_condition(expression) else SLOPE
    added = "".join(f" {'+' if sign > 0 else '-'} {count}" for count, sign in signs.items())
    text = f"{factor} * ({expression}){added}"
    try:  # hidden: what other roles there are, nobody asks here
        sister = world(text, **{**env.overrides, "hidden": None})
    except AttributionLabError:  # the sum is too large for float32, or its text too long
        return None
    sister.name = f"soft-{env.name}"
    assert isinstance(sister.counting, Rule)
    own = _truth(sister.counting, images)
    kept = (own.asked & (own.signed == truth.signed))[truth.asked].all()
    return sister if kept else None


def _truth(rule: Rule, images: Real[Tensor, "batch 3 height width"]) -> Truth:
    return rule.truth(images, torch.zeros(len(images), dtype=torch.int64), "logit")


def _signs(
    rule: Rule, images: Real[Tensor, "batch 3 height width"], truth: Truth
) -> dict[Count, int]:
    """Whether a count raises (1) or lowers (-1) the output; 0 if neither, or now one, now the other."""
    signs = dict[Count, int]()
    for count in rule.counts_used:
        seen = torch.stack([torch.from_numpy(rule.places.seen(i.numpy(), count)) for i in images])
        found = {*truth.signed[:, 0][seen].tolist()} - {0}
        signs[count] = found.pop() if len(found) == 1 else 0
    return signs
