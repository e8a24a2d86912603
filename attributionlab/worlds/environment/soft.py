"""Soft sisters of worlds: the same images and truth, and a slope along every count."""

import torch
from jaxtyping import Int8, Real
from torch import Tensor

from attributionlab.worlds.environment.catalog import load
from attributionlab.worlds.environment.environment import Environment
from attributionlab.worlds.environment.files import environments
from attributionlab.worlds.environment.worlds import world
from attributionlab.worlds.rules.expressions import Count, collected, is_condition
from attributionlab.worlds.rules.rule import Rule

SLOPE, STEP = 20, 1_000
"""What the rule is multiplied by, so that the counts that are added stay small: of numbers of pixels,
and of a condition, which is 0 or 1."""
IMAGES = 8
"""On which the sign of each count is looked up, and the truth compared."""


def soft_sister(env: Environment) -> Environment | None:
    """A world with the same images and truth whose rule changes with every count that it reads.

    Minima, maxima and conditions are flat on one side, as no trained network is. The catalog states
    some sisters, such as `soft-at-least`. Others are made: the rule is multiplied by `SLOPE` or `STEP`,
    and every count is added with the sign of its effect.

    None where that is needless (each count is a term of the rule already) or impossible: for classes,
    for networks without a rule, and if a count raises some outputs and lowers others, or none.
    """
    if (name := f"soft-{env.reference}") in environments():
        return load(name, **env.overrides)
    rule = env.counting
    if not isinstance(rule, Rule) or rule.names:
        return None
    [expression] = rule.expressions
    if {*rule.counts_used} <= collected(expression)[0].keys():
        return None
    images, _ = env.batch(IMAGES)
    signs = _signs(rule, images)
    if not all(signs.values()):
        return None
    factor = STEP if is_condition(expression) else SLOPE
    added = "".join(f" {'+' if sign > 0 else '-'} {count}" for count, sign in signs.items())
    text = f"{factor} * ({expression}){added}"
    if env.maker == "world":
        sister = world(text, **{**env.overrides, "hidden": None})
    else:
        sister = load(env.reference, **{**env.overrides, "rule": text})
    sister.name = f"soft-{env.name}"
    assert isinstance(sister.counting, Rule)
    kept = (_signed(sister.counting, images) == _signed(rule, images)).all()
    return sister if kept else None


def _signed(
    rule: Rule, images: Real[Tensor, "batch 3 height width"]
) -> Int8[Tensor, "batch height width"]:
    """The signs of pixels, 0 where a pixel is not relevant or not asked."""
    truth = rule.truth(images, torch.zeros(len(images), dtype=torch.int64), "logit")
    return truth.signed[:, 0]


def _signs(rule: Rule, images: Real[Tensor, "batch 3 height width"]) -> dict[Count, int]:
    """Whether a count raises (1) or lowers (-1) the output; 0 if neither, or now one, now the other."""
    signed, signs = _signed(rule, images), dict[Count, int]()
    for count in rule.counts_used:
        seen = torch.stack([torch.from_numpy(rule.places.seen(i.numpy(), count)) for i in images])
        found = {*signed[seen].tolist()} - {0}
        signs[count] = found.pop() if len(found) == 1 else 0
    return signs
