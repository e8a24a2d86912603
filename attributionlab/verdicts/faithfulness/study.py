"""A run studied beyond its verdict: what its resolution allows, what is missing, what it looks like."""

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import torch
from torch import Tensor

from attributionlab.base import AttributionLabError, mean_score
from attributionlab.methods import observe
from attributionlab.metrics import f1
from attributionlab.verdicts.diagnosis.evidence import Evidence
from attributionlab.verdicts.diagnosis.likeness import look_alikes
from attributionlab.verdicts.faithfulness.report import lowest_mean, mean_of, median_gap
from attributionlab.verdicts.faithfulness.resolution import best_on_regions, grid_bound
from attributionlab.verdicts.faithfulness.run import Outcome
from attributionlab.verdicts.faithfulness.setup import Batch, Setup
from attributionlab.worlds import Rule

OWN_REGIONS = "own regions"
POSITIVE_ONLY = "positive only"
"""The method's maps are constant on its own superpixels; they have no negative values."""
ARGUMENTS = ("baseline", "baselines", "n_steps", "segmentation", "layer")
"""Arguments from which it follows how a method works."""


class Study(NamedTuple):
    """What is known of a run beyond its verdict."""

    resolution: str | None
    """what limits the method's maps: regions, a grid of cells, no negative values; None: nothing"""
    resolution_f1: float | None
    """the best F1 of the claim under this limit"""
    evidence: Evidence | None
    """None before a network of the user's: causes are known for the laboratory's only"""


def study_of(outcome: Outcome, batch: Batch, setup: Setup, part: str) -> Study:
    """Study the maps of a batch of the first images; `part` decides over the claim."""
    resolution, best = _resolution(outcome, batch, setup)
    if not setup.env.has_roles:
        return Study(resolution, best, None)
    evidence = _evidence(outcome, batch, setup, part, resolution, best)
    return Study(resolution, best, evidence)


def _resolution(
    outcome: Outcome, batch: Batch, setup: Setup
) -> tuple[str, float] | tuple[None, None]:
    """What limits the method's maps, and the best F1 of the claim that this allows."""
    never_negative = bool((outcome.highest > 0).any()) and not (outcome.lowest < 0).any()
    regions = outcome.regions
    if regions is not None:
        labels = regions.cpu()
        return _limited(OWN_REGIONS, lambda g: f1(best_on_regions(g, labels), g), batch, setup)
    env = batch.envs[0]  # the networks of all questions have maps of the same sizes
    model = env.explained_model(setup.output)
    layer = setup.method.enlarged_layer(model, dict(env.layers))
    if layer is not None and never_negative:  # cells of both signs sharpen each other's edges
        rows, columns = observe(model, layer, batch.images[:1].to(env.device))[0].shape[2:]
        name = f"{rows} x {columns} cells"
        return _limited(name, lambda g: grid_bound(g, (rows, columns)), batch, setup)
    if setup.form == "signed" and never_negative and batch.truth.negative.any():
        return POSITIVE_ONLY, 0.0
    return None, None


def _limited(
    name: str, best: Callable[[Tensor], Tensor], batch: Batch, setup: Setup
) -> tuple[str, float] | tuple[None, None]:
    """A limit with the lowest mean over the claim's parts, each by itself."""
    smoothed = batch.smooth
    truths: list[Tensor] = (
        [getattr(batch.truth, part) for part in setup.claimed_parts]
        if smoothed is None
        else [smoothed]
    )
    means = [mean_of(best(truth).numpy()) for truth in truths]
    there = [mean for mean in means if mean is not None]
    return (name, min(there)) if there else (None, None)


def _shapley_f1(batch: Batch, setup: Setup) -> float | None:
    """The claim's F1 of exact Shapley values; None where no closed form is known."""
    with suppress(AttributionLabError):  # worlds may have none
        values = [
            env.shapley(image, int(target), setup.truth_output)
            for image, target, env in zip(batch.images, batch.targets, batch.envs, strict=True)
        ]
        scores = setup.control_f1(torch.stack(values), batch)
        return lowest_mean({part: each.numpy() for part, each in scores.items()})[1]
    return None


def _evidence(
    outcome: Outcome,
    batch: Batch,
    setup: Setup,
    part: str,
    own: str | None,
    own_f1: float | None,
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
        tied=_tied(batch),
        sawtooth=env.worlds[0].counting.modulus is not None,
        unseen_colors_disturb=bool(env.worlds[0].network.effective.get("redundant_strength")),
        temperature=env.temperature if setup.output == "probability" else None,
        images=setup.n,
        all_zero=float(((outcome.lowest == 0) & (outcome.highest == 0)).mean()),
        own_resolution=own,
        own_ceiling=None if own is None else own_f1,
        positive_only=not (outcome.lowest < 0).any(),
        stochastic=outcome.stochastic,
        shapley_f1=_shapley_f1(batch, setup),
        runner_up=lowest_mean({part: lost[part]["f1"] for part in setup.claimed_parts if lost})[1],
    )


def _tied(batch: Batch) -> int:
    """How many equal counts decide a minimum or maximum of the rule, in every image; else 1."""
    pairs = zip(batch.envs, batch.images, strict=True)
    return min(
        env.counting.ties(image) if isinstance(env.counting, Rule) else 1 for env, image in pairs
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
