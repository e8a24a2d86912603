"""A trial carried out: a method, and every control, on the same images."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.assess import CONTROLS, Drift, pixel_kinds
from attributionlab.environment import Environment
from attributionlab.errors import AttributionLabError
from attributionlab.methods import Finding, Method, as_method, heard
from attributionlab.metrics import Alignment, alignment, normalize
from attributionlab.results import ImageScores
from attributionlab.trial.calls import (
    always_offered,
    attribute_scene,
    computed,
    control_maps,
    peculiarities,
)
from attributionlab.trial.drift import drift_of
from attributionlab.trial.question import STUDIED_IMAGES, Scene, Trial
from attributionlab.truth import Truth

__all__ = ["Outcome", "carry_out"]


class Outcome(NamedTuple):
    """What a method, and every control, made of a trial."""

    maps: Tensor
    """(n, 1, H, W), summed over channels and normalized to [-1, 1]; of the first seed"""
    studied_maps: Tensor
    """(B, 1, H, W), of the studied images, as the method gave them; empty if nobody asks"""
    images: Tensor
    """(n, C, H, W), uint8"""
    truth: Truth
    kinds: Tensor
    """(n, 1, H, W), what lies where (`assess.pixel_kinds`); empty if nobody asks"""
    by_seed: Sequence[ImageScores]
    """one for each seed, a single one for a method that draws nothing"""
    stochastic: bool
    """whether the method drew random numbers"""
    controls: Mapping[str, Mapping[str, NDArray[np.float64]]]
    """F1 of each control, by the parts that the claim rests on, (n,)"""
    best: NDArray[np.float64]
    """(n,), the F1 of the best possible map for the claim; 1 for masks"""
    studied: Sequence[Scene]
    """the first images"""
    regions: Tensor | None
    """(B, H, W) label maps of the studied images, where a method tells on which regions its map is
    constant"""
    runner_up: ImageScores | None
    """of the studied images, with the class of the second-most pixels as target"""
    seconds: float
    """of the method, for an image"""
    findings: list[Finding]
    gaps: NDArray[np.float64] | None
    """(n,), the completeness gap of each image, None where no method looked"""
    drift: Drift | None
    """between functionally equal networks, None if nobody asks"""


class _Batch(NamedTuple):
    """What is kept of one batch."""

    maps: Tensor
    studied_maps: Tensor
    """of the images looked at, not normalized"""
    kinds: Tensor
    runs: list[dict[str, Alignment]]
    """by seed"""
    random: bool
    controls: dict[str, dict[str, Tensor]]
    best: Tensor
    runner_up: dict[str, Alignment] | Finding | None
    seconds: float
    findings: list[Finding]


def carry_out(method: Method, trial: Trial, show_progress: bool) -> Outcome:
    """Run a method and the controls on the n images of an environment."""
    always = always_offered(method, trial)
    controls = {name: as_method(name, CONTROLS) for name in CONTROLS}
    batches, studied, images, truths = [], [], [], []
    for scene in trial.scenes(f"{method.name} on {trial.env.name}", show_progress):
        looked_at = scene.part(0, max(0, STUDIED_IMAGES - scene.first)) if trial.diagnosed else None
        batches.append(_run(method, controls, trial, scene, looked_at, always))
        images.append(scene.images.to(torch.uint8))
        truths.append(scene.truth.signed)
        if looked_at is not None and len(looked_at.images):
            studied.append(looked_at)
    told = [finding for batch in batches for finding in batch.findings]
    told += [batch.runner_up for batch in batches if isinstance(batch.runner_up, Finding)]
    told += peculiarities(method, trial, studied, always)
    labels = [finding.regions for finding in told if finding.regions is not None]
    regions = torch.cat(labels)[:STUDIED_IMAGES] if labels else None
    findings = [replace(finding, regions=None) for finding in told]  # label maps are large
    gaps = [gap for finding in findings for gap in finding.gaps]
    lost = [batch.runner_up for batch in batches if isinstance(batch.runner_up, dict)]
    return Outcome(
        maps=torch.cat([batch.maps for batch in batches]),
        studied_maps=torch.cat([batch.studied_maps for batch in batches]),
        images=torch.cat(images),
        truth=Truth(torch.cat(truths)),
        kinds=torch.cat([batch.kinds for batch in batches]),
        by_seed=[
            # A batch for which nothing was drawn has one run, which stands for all seeds.
            _joined([batch.runs[min(seed, len(batch.runs) - 1)] for batch in batches])
            for seed in range(max(len(batch.runs) for batch in batches))
        ],
        stochastic=any(batch.random for batch in batches),
        controls={
            name: {
                part: torch.cat([batch.controls[name][part] for batch in batches]).numpy()
                for part in trial.claimed_parts
            }
            for name in controls
        },
        best=torch.cat([batch.best for batch in batches]).numpy(),
        studied=studied,
        regions=regions,
        runner_up=_joined(lost) if lost else None,
        seconds=sum(batch.seconds for batch in batches) / trial.n,
        findings=findings,
        gaps=np.array(gaps) if len(gaps) == trial.n else None,
        drift=drift_of(method, trial, show_progress) if trial.camouflage else None,
    )


def _run(
    method: Method,
    controls: Mapping[str, Method],
    trial: Trial,
    scene: Scene,
    looked_at: Scene | None,
    always: Mapping[str, Any],
) -> _Batch:
    """One batch: the method for each seed, the controls, and the runner-up of images looked at."""
    env, claimed = trial.env, trial.claimed(scene.truth)
    start = time.perf_counter()
    with heard() as findings:
        attributed = attribute_scene(method, trial, scene, always)
    seconds = time.perf_counter() - start
    # float32 halves the memory of what is kept, and is precise enough within [-1, 1].
    maps = normalize(scene.asked(attributed.maps)).float()
    runs = [trial.scores(maps, scene.truth, claimed)]
    for repeat in range(1, trial.seeds if attributed.random else 1):
        with heard():  # what there is to say has been said of the first seed
            again = attribute_scene(method, trial, scene, always, repeat)
        maps_again = normalize(scene.asked(again.maps)).float()
        runs.append(trial.scores(maps_again, scene.truth, claimed))
    drawn = {
        name: trial.control_f1(
            scene.asked(control_maps(control, trial, scene, always)), scene.truth, claimed
        )
        for name, control in controls.items()
    }
    return _Batch(
        maps=maps,
        studied_maps=attributed.maps[: 0 if looked_at is None else len(looked_at.images)].cpu(),
        kinds=_kinds(scene, env) if trial.diagnosed else torch.empty(0),
        runs=runs,
        random=attributed.random,
        controls=drawn,
        best=_best(trial, scene, claimed),
        runner_up=_runner_up(method, trial, looked_at, always),
        seconds=seconds,
        findings=findings,
    )


def _kinds(scene: Scene, env: Environment) -> Tensor:
    """What lies where, (B, 1, H, W)."""
    classes = env.counting.classes_of(scene.images)
    return pixel_kinds(scene.images, scene.patches, classes, env.baseline.cpu())


def _best(trial: Trial, scene: Scene, claimed: Tensor) -> Tensor:
    """The F1 that the best map for the claim reaches, from the definition and past the oracle, (B,)."""
    if trial.claim == "positive-smoothed":
        return alignment(trial.ideal(scene.truth), claimed).f1
    return torch.ones(len(claimed), dtype=torch.float64)


def _runner_up(
    method: Method, trial: Trial, scene: Scene | None, always: Mapping[str, Any]
) -> dict[str, Alignment] | Finding | None:
    """Scores for the class of the second-most pixels, where there are classes and a method to ask; a
    method that cannot explain it keeps its verdict.
    """
    if scene is None or not len(scene.images) or trial.env.task == "regression" or computed(method):
        return None
    other = trial.runner_up(scene)
    try:
        with heard():
            attributed = attribute_scene(method, trial, other, always)
    except AttributionLabError as error:
        text = f"could not be had for the class of the second-most pixels: {error}"
        return Finding(text, len(scene.images))
    maps = normalize(other.asked(attributed.maps)).float()
    return trial.scores(maps, other.truth, trial.claimed(other.truth))


def _joined(batches: Sequence[Mapping[str, Alignment]]) -> ImageScores:
    """Scores of all batches, one after another."""
    return {
        part: {
            score: torch.cat([getattr(batch[part], score) for batch in batches]).cpu().numpy()
            for score in Alignment._fields
        }
        for part in batches[0]
    }
