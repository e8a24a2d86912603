"""A run studied beyond its verdict: what was attainable, what is missing, what the maps look like."""

from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

import torch
from torch import Tensor

from attributionlab.diagnosis.evidence import Evidence
from attributionlab.diagnosis.likeness import look_alikes
from attributionlab.errors import AttributionLabError
from attributionlab.faithfulness.ceilings import (
    EXACT_SHAPLEY,
    POSITIVE_ONLY,
    claim_ceilings,
    part_ceilings,
)
from attributionlab.faithfulness.report import lowest_mean, median_gap
from attributionlab.faithfulness.run import Outcome
from attributionlab.faithfulness.setup import Batch, Setup
from attributionlab.methods import observe
from attributionlab.stats.intervals import mean_score

OWN_REGIONS = "own regions"

ARGUMENTS = ("baseline", "baselines", "n_steps", "segmentation", "layer")
"""Arguments from which it follows how a method works."""


class Study(NamedTuple):
    """What is known of a run beyond its verdict."""

    ceilings: Mapping[str, float]
    """the claim's best possible F1 by constraint"""
    own_ceiling: str | None
    """which of them is about this method's own resolution"""
    evidence: Evidence | None
    """None before a network of the user's: causes are known for the laboratory's only"""


def study_of(outcome: Outcome, batch: Batch, setup: Setup, part: str) -> Study:
    """Study the maps of a batch of the first images; `part` decides over the claim."""
    ceilings, own = _ceilings(outcome, batch, setup)
    if not setup.env.has_roles:
        return Study(ceilings, own, None)
    return Study(ceilings, own, _evidence(outcome, batch, setup, part, ceilings, own))


def _ceilings(outcome: Outcome, batch: Batch, setup: Setup) -> tuple[dict[str, float], str | None]:
    """The best F1 of the claim at several resolutions, and which of these is the method's own."""
    env = batch.envs[0]  # the networks of all questions have maps of the same sizes
    model = env.explained_model(setup.output)
    layers = dict(env.layers)
    own_layer = setup.method.enlarged_layer(model, layers)
    if own_layer is not None:
        layers["own"] = own_layer
    image = batch.images[:1].to(env.device)
    sizes = {key: tuple(observe(model, layer, image)[0].shape[2:]) for key, layer in layers.items()}
    grids = {_cells(size): (size[0], size[1]) for size in sizes.values()}
    regions = {"true patches": batch.patches} if batch.patches.any() else {}
    own = None
    never_negative = bool((outcome.highest > 0).any()) and not (outcome.lowest < 0).any()
    if outcome.regions is not None:
        own = OWN_REGIONS
        regions[own] = outcome.regions.cpu()
    elif "own" in sizes and never_negative:  # cells of both signs sharpen each other's edges
        own = _cells(sizes["own"])
    elif setup.form == "signed" and never_negative:
        own = POSITIVE_ONLY
    shapley = None
    with suppress(AttributionLabError):  # worlds may have no closed form
        values = [
            env.shapley(image, int(target), setup.truth_output)
            for image, target, env in zip(batch.images, batch.targets, batch.envs, strict=True)
        ]
        shapley = batch.counted(torch.stack(values))
    ceilings = part_ceilings(
        batch.truth,
        batch.smooth,
        regions=regions,
        grids=grids,
        shapley=shapley,
    )
    best = claim_ceilings(ceilings, setup.form)
    return best, own if own in best else None


def _evidence(
    outcome: Outcome,
    batch: Batch,
    setup: Setup,
    part: str,
    ceilings: Mapping[str, float],
    own: str | None,
) -> Evidence:
    """What is known about why F1 is missing."""
    env, method = setup.env, setup.method
    shares = {name: mean_score(share) for name, share in outcome.shares[part].items()}
    if own == POSITIVE_ONLY:  # no resolution; `positive_only` below states it
        own = None
    lost = {} if outcome.runner_up is None else outcome.runner_up
    return Evidence(
        environment=env.reference,
        method=method.name,
        reference=method.reference,
        in_shell=(method.reference != method.name and not env.overrides.keys() - {"image_size"}),
        overrides=env.overrides,
        options=setup.options,
        claim=setup.form,
        part=part,
        gamma=setup.gamma,
        missing=sum(shares.values()),
        shares=shares,
        likeness=look_alikes(
            outcome.maps[: len(batch.images)],
            batch.truth.signed,
            batch.images,
            batch.patches,
            batch.baselines,
            setup.form,
            batch.smooth,
            tested=setup.n,
            others=_truths(batch, setup),
        ),
        guards=frozenset(each.kind for each in outcome.notices if each.images and each.kind),
        completeness_gap=median_gap(outcome.gaps),
        settings=method.settings,
        takes=frozenset(name for name in ARGUMENTS if method.asks_for(name)),
        sawtooth=env.counting.modulus is not None,
        unseen_colors_disturb=bool(env.network.effective.get("redundant_strength")),
        temperature=env.temperature if setup.output == "probability" else None,
        images=setup.n,
        all_zero=float(((outcome.lowest == 0) & (outcome.highest == 0)).mean()),
        own_resolution=own,
        own_ceiling=None if own is None else ceilings[own],
        positive_only=not (outcome.lowest < 0).any(),
        stochastic=outcome.stochastic,
        shapley_f1=ceilings.get(EXACT_SHAPLEY),
        runner_up=lowest_mean({part: lost[part]["f1"] for part in setup.claimed_parts if lost})[1],
    )


def _truths(batch: Batch, setup: Setup) -> list[Tensor]:
    """The signed truth of each class; none where there is one output."""
    if setup.env.task == "regression":
        return []
    found = []
    for index in range(setup.env.classes):
        target = torch.tensor([index])
        pairs = zip(batch.images, batch.envs, strict=True)
        truths = [env.truth(image[None], target, setup.truth_output) for image, env in pairs]
        found.append(torch.cat([truth.signed for truth in truths]))
    return found


def _cells(size: tuple[int, ...]) -> str:
    return f"{size[0]} x {size[1]} cells"
