"""A trial studied beyond its verdict: what was attainable, what is missing, what it looks like."""

from collections.abc import Mapping

import torch
from torch import Tensor

from attributionlab.diagnosis.evidence import Evidence
from attributionlab.diagnosis.likeness import look_alikes
from attributionlab.faithfulness.ceilings import (
    EXACT_SHAPLEY,
    POSITIVE_ONLY,
    claim_ceilings,
    part_ceilings,
)
from attributionlab.faithfulness.report import mean_of, median_gap
from attributionlab.faithfulness.run import Outcome
from attributionlab.faithfulness.setup import Scene, Trial, joined
from attributionlab.methods import Method, observe
from attributionlab.truth import mask

OWN_REGIONS = "own regions"

ARGUMENTS = ("baseline", "baselines", "n_steps", "segmentation", "layer")
"""What a method may declare that says how it works."""


def ceilings_of(
    outcome: Outcome, trial: Trial, method: Method
) -> tuple[dict[str, float], str | None]:
    """The best F1 of the claim at several resolutions, and which of these is the method's own."""
    env, scene = trial.env, joined(outcome.studied)
    model = trial.env.explained_model(trial.output)
    layers = dict(env.layers)
    own_layer = method.enlarged_layer(model, layers)
    if own_layer is not None:
        layers["own"] = own_layer
    image = scene.images[:1].to(env.device)
    sizes = {key: tuple(observe(model, layer, image)[0].shape[2:]) for key, layer in layers.items()}
    grids = {_cells(size): (size[0], size[1]) for size in sizes.values()}
    regions = {"true patches": scene.patches}
    own = None
    never_negative = bool((outcome.highest > 0).any()) and not (outcome.lowest < 0).any()
    if outcome.regions is not None:
        own = OWN_REGIONS
        regions[own] = outcome.regions.cpu()
    elif "own" in sizes and never_negative:  # cells of both signs sharpen each other's edges
        own = _cells(sizes["own"])
    elif trial.form == "signed" and never_negative:
        own = POSITIVE_ONLY
    ceilings = part_ceilings(
        scene.truth,
        trial.form,
        trial.claimed(scene.truth),
        regions=regions,
        grids=grids,
        shapley=scene.asked(_shapley(scene, trial)),
    )
    best = claim_ceilings(ceilings, trial.form)
    return best, own if own in best else None


def evidence_of(
    outcome: Outcome,
    trial: Trial,
    method: Method,
    part: str,
    ceilings: Mapping[str, float],
    own: str | None,
) -> Evidence:
    """What is known about why F1 is missing."""
    env, scene = trial.env, joined(outcome.studied)
    smooth = trial.form == "positive-smoothed"
    shares = outcome.shares[part]
    if own == POSITIVE_ONLY:  # no resolution, and told by `positive_only` below
        own = None
    return Evidence(
        environment=env.reference,
        method=method.name,
        reference=method.reference,
        in_shell=(method.reference != method.name and not env.overrides.keys() - {"image_size"}),
        overrides=env.overrides,
        options=trial.options,
        claim=trial.form,
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
            trial.form,
            trial.claimed(scene.truth) if smooth else None,
            tested=trial.n,
            others=_truths(scene, trial),
        ),
        guards=frozenset(each.kind for each in outcome.findings if each.images and each.kind),
        completeness_gap=median_gap(outcome.gaps),
        settings=method.settings,
        takes=frozenset(name for name in ARGUMENTS if method.asks_for(name)),
        sawtooth=env.counting.modulus is not None,
        unseen_colors_disturb=bool(env.network.effective.get("redundant_strength")),
        temperature=env.temperature if trial.output == "probability" else None,
        images=trial.n,
        all_zero=float(((outcome.lowest == 0) & (outcome.highest == 0)).double().mean()),
        own_resolution=own,
        own_ceiling=None if own is None else ceilings[own],
        positive_only=not (outcome.lowest < 0).any(),
        stochastic=outcome.stochastic,
        shapley_f1=ceilings.get(EXACT_SHAPLEY),
        runner_up=_runner_up(outcome, trial),
    )


def _truths(scene: Scene, trial: Trial) -> list[Tensor]:
    """The signed truth of each class; none where there is one output."""
    env = trial.env
    if env.task == "regression":
        return []
    classes = env.counting.classes_of(scene.images)
    return [
        mask(classes, torch.full_like(scene.targets, index), trial.truth_output).signed
        for index in range(len(env.counting.values))
    ]


def _runner_up(outcome: Outcome, trial: Trial) -> float | None:
    """The claim's F1 where the class with the second-most pixels is explained."""
    if outcome.runner_up is None:
        return None
    f1 = [mean_of(outcome.runner_up[part]["f1"]) for part in trial.claimed_parts]
    return min((mean for mean in f1 if mean is not None), default=None)


def _cells(size: tuple[int, ...]) -> str:
    return f"{size[0]} x {size[1]} cells"


def _shapley(scene: Scene, trial: Trial) -> Tensor:
    """Exact Shapley values of what the truth is about, (B, 1, H, W)."""
    env = trial.env
    return torch.stack(
        [
            env.shapley(image, int(target), trial.truth_output)
            for image, target in zip(scene.images, scene.targets, strict=True)
        ]
    )
