"""A trial studied beyond its verdict: what was attainable, what is missing, what it looks like."""

from collections.abc import Sequence

import torch
from torch import Tensor

from attributionlab.assess import (
    POSITIVE_ONLY,
    Evidence,
    claim_ceilings,
    look_alikes,
    missing_shares,
    part_ceilings,
)
from attributionlab.methods import Method, observe, summarized
from attributionlab.results import median_gap
from attributionlab.trial.question import Scene, Trial
from attributionlab.trial.run import Outcome
from attributionlab.truth import Truth

__all__ = ["ceilings_of", "evidence_of"]

OWN_REGIONS = "own regions"


def ceilings_of(
    outcome: Outcome, trial: Trial, method: Method
) -> tuple[dict[str, float], str | None]:
    """The best F1 of the claim at several resolutions, and which of these is the method's own."""
    env, scene = trial.env, _joined(outcome.studied)
    model = trial.env.explained_model(trial.output)
    layers = dict(env.layers)
    own_layer = method.enlarged_layer(model, layers)
    if own_layer is not None:
        layers["own"] = own_layer
    image = scene.images[:1].to(env.device)
    sizes = {key: tuple(observe(model, layer, image)[0].shape[2:]) for key, layer in layers.items()}
    grids = {_cells(size): (size[0], size[1]) for size in sizes.values()}
    regions = {"true patches": scene.patches}
    own, never_negative = None, not (outcome.maps < 0).any()
    if outcome.regions is not None:
        own = OWN_REGIONS
        regions[own] = outcome.regions.cpu()
    elif "own" in sizes and never_negative:  # cells of both signs sharpen each other's edges
        own = _cells(sizes["own"])
    elif trial.claim == "signed" and never_negative:
        own = POSITIVE_ONLY
    ceilings = part_ceilings(
        scene.truth,
        trial.claim,
        trial.claimed(scene.truth),
        regions=regions,
        grids=grids,
        shapley=_shapley(scene, trial),
    )
    return claim_ceilings([ceilings], trial.claim), own


def evidence_of(
    outcome: Outcome,
    trial: Trial,
    method: Method,
    part: str,
    own_ceiling: tuple[str, float] | None,
) -> Evidence:
    """What is known about why F1 is missing."""
    env, scene = trial.env, _joined(outcome.studied)
    smooth = trial.claim == "positive-smoothed"
    shares = missing_shares(
        outcome.maps,
        outcome.truth.signed,
        outcome.kinds,
        part,  # type: ignore[arg-type]
        trial.claimed(outcome.truth) if smooth else None,
    )
    own, ceiling = own_ceiling or (None, None)
    if own == POSITIVE_ONLY:  # no resolution, and told by `positive_only` below
        own, ceiling = None, None
    return Evidence(
        environment=env.name,
        method=method.name,
        claim=trial.claim,
        part=part,
        gamma=trial.gamma,
        missing=sum(float(share.nanmean()) for share in shares.values()),
        shares={name: float(share.nanmean()) for name, share in shares.items()},
        likeness=look_alikes(
            outcome.maps[: len(scene.images)],
            scene.truth.signed,
            scene.images,
            scene.patches,
            env.baseline.cpu(),
            trial.claim,
            trial.claimed(scene.truth) if smooth else None,
        ),
        guards=summarized(outcome.findings),
        completeness_gap=median_gap(outcome.gaps),
        settings=method.settings,
        asks_for_baseline=method.asks_for("baseline"),
        regression=env.task == "regression",
        unseen_colors_disturb=bool(env.network.effective.get("redundant_strength")),
        temperature=env.temperature if trial.output == "probability" else None,
        all_zero=float((outcome.maps == 0).flatten(1).all(1).double().mean()),
        own_resolution=own,
        own_ceiling=ceiling,
        positive_only=not (outcome.maps < 0).any(),
        stochastic=outcome.stochastic,
    )


def _cells(size: tuple[int, ...]) -> str:
    return f"{size[0]} x {size[1]} cells"


def _joined(scenes: Sequence[Scene]) -> Scene:
    """Batches of the studied images as one."""
    return Scene(
        torch.cat([scene.images for scene in scenes]),
        torch.cat([scene.targets for scene in scenes]),
        torch.cat([scene.patches for scene in scenes]),
        Truth(torch.cat([scene.truth.signed for scene in scenes])),
        scenes[0].first,
    )


def _shapley(scene: Scene, trial: Trial) -> Tensor:
    """Exact Shapley values of what the truth is about, (B, 1, H, W)."""
    env = trial.env
    return torch.stack(
        [
            env.shapley(image, int(target), trial.truth_output)
            for image, target in zip(scene.images, scene.targets, strict=True)
        ]
    )
