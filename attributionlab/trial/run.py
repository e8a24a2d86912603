"""A trial carried out: a method, and every control, on the same images."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.assess import CONTROLS, pixel_kinds
from attributionlab.methods import Attributed, Call, Finding, Method, as_method, attribute, heard
from attributionlab.metrics import Alignment, alignment, normalize
from attributionlab.results import ImageScores
from attributionlab.trial.question import Scene, Trial
from attributionlab.truth import Truth

__all__ = ["STUDIED_IMAGES", "Outcome", "carry_out"]

REFERENCE_IMAGES = 256
"""How many other images a method gets that asks for some: enough to set off every neuron of IBA's layer
that a test image sets off, or nearly (16 leave neurons that never vary, which then own the map)."""
STUDIED_IMAGES = 8
"""On how many images ceilings, likenesses and the runner-up are looked at, which decide nothing."""


class Outcome(NamedTuple):
    """What a method, and every control, made of a trial."""

    maps: Tensor
    """(n, 1, H, W), summed over channels and normalized to [-1, 1]; of the first seed"""
    truth: Truth
    kinds: Tensor
    """(n, 1, H, W), what lies where (`assess.pixel_kinds`)"""
    scores: ImageScores
    """means over seeds"""
    seed_variance: Mapping[str, NDArray[np.float64]] | None
    """by part, of an image's F1 over seeds, (n,); None unless several seeds were run"""
    stochastic: bool
    """whether the method drew random numbers"""
    controls: Mapping[str, ImageScores]
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


class _Batch(NamedTuple):
    """What is kept of one batch."""

    maps: Tensor
    kinds: Tensor
    runs: list[dict[str, Alignment]]
    """by seed"""
    random: bool
    controls: dict[str, dict[str, Alignment]]
    best: Tensor
    runner_up: dict[str, Alignment] | None
    seconds: float
    findings: list[Finding]


def carry_out(method: Method, trial: Trial, show_progress: bool) -> Outcome:
    """Run a method and the controls on the n images of an environment."""
    always = _always_offered(method, trial)
    controls = {name: as_method(name, CONTROLS) for name in CONTROLS}
    batches, studied, truths = [], [], []
    for scene in trial.scenes(f"{method.name} on {trial.env.name}", show_progress):
        looked_at = scene.head(max(0, STUDIED_IMAGES - scene.first)) if trial.diagnosed else None
        batches.append(_run(method, controls, trial, scene, looked_at, always))
        truths.append(scene.truth.signed)
        if looked_at is not None and len(looked_at.images):
            studied.append(looked_at)
    told = [finding for batch in batches for finding in batch.findings]
    labels = [finding.regions for finding in told if finding.regions is not None]
    regions = torch.cat(labels)[:STUDIED_IMAGES] if labels else None
    findings = [replace(finding, regions=None) for finding in told]  # label maps are large
    gaps = [gap for finding in findings for gap in finding.gaps]
    lost = [batch.runner_up for batch in batches if batch.runner_up is not None]
    return Outcome(
        maps=torch.cat([batch.maps for batch in batches]),
        truth=Truth(torch.cat(truths)),
        kinds=torch.cat([batch.kinds for batch in batches]),
        scores=_joined([_mean(batch.runs) for batch in batches]),
        seed_variance=_seed_variance(batches) if trial.seeds > 1 else None,
        stochastic=any(batch.random for batch in batches),
        controls={
            name: _joined([_mean([batch.controls[name]]) for batch in batches]) for name in controls
        },
        best=torch.cat([batch.best for batch in batches]).numpy(),
        studied=studied,
        regions=regions,
        runner_up=_joined([_mean([scores]) for scores in lost]) if lost else None,
        seconds=sum(batch.seconds for batch in batches) / trial.n,
        findings=findings,
        gaps=np.array(gaps) if len(gaps) == trial.n else None,
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
        attributed = _attribute(method, trial, scene, always)
    seconds = time.perf_counter() - start
    # float32 halves the memory of what is kept, and is precise enough within [-1, 1].
    maps = normalize(attributed.maps).float()
    runs = [trial.scores(maps, scene.truth, claimed)]
    for repeat in range(1, trial.seeds if attributed.random else 1):
        with heard():  # what there is to say has been said of the first seed
            again = _attribute(method, trial, scene, always, repeat)
        runs.append(trial.scores(normalize(again.maps).float(), scene.truth, claimed))
    drawn = {
        name: trial.scores(_control_maps(control, trial, scene, always), scene.truth, claimed)
        for name, control in controls.items()
    }
    return _Batch(
        maps=maps,
        kinds=pixel_kinds(
            scene.images, scene.patches, env.counting.classes_of(scene.images), env.baseline.cpu()
        ),
        runs=runs,
        random=attributed.random,
        controls=drawn,
        best=_best(trial, scene, claimed),
        runner_up=_runner_up(method, trial, looked_at, always),
        seconds=seconds,
        findings=findings,
    )


def _attribute(
    method: Method, trial: Trial, scene: Scene, always: Mapping[str, Any], repeat: int = 0
) -> Attributed:
    """Attributions of a batch under the seed of this batch and repetition."""
    device = trial.env.device
    # A copy of its own: the controls look at the same images afterwards.
    inputs = scene.images.clone(memory_format=torch.channels_last).to(device)
    seed = _seed(trial, scene, repeat)
    offered = _offered(method, trial, scene, always, seed)
    model = trial.env.explained_model(trial.output)
    targets = scene.targets.clone().to(device)
    call = Call(trial.env.name, model, inputs, targets, scene.first, trial.n, offered)
    return attribute(method, call, seed)


def _control_maps(control: Method, trial: Trial, scene: Scene, always: Mapping[str, Any]) -> Tensor:
    """A control's maps, without the care that strangers' code needs."""
    offered = _offered(control, trial, scene, always, _seed(trial, scene, 0))
    model = trial.env.explained_model(trial.output)
    images = scene.images
    call = Call(trial.env.name, model, images, scene.targets, scene.first, trial.n, offered)
    maps: Tensor = control.attribute(call)
    return normalize(maps)


def _best(trial: Trial, scene: Scene, claimed: Tensor) -> Tensor:
    """The F1 that the best map for the claim reaches, from the definition and past the oracle, (B,)."""
    if trial.claim == "positive-smoothed":
        return alignment(trial.ideal(scene.truth), claimed).f1
    return torch.ones(len(claimed), dtype=torch.float64)


def _runner_up(
    method: Method, trial: Trial, scene: Scene | None, always: Mapping[str, Any]
) -> dict[str, Alignment] | None:
    """Scores for the class of the second-most pixels, where there are classes and a method to ask."""
    computed = isinstance(method.function, np.ndarray | Tensor | Mapping)
    if scene is None or not len(scene.images) or trial.env.task == "regression" or computed:
        return None
    other = trial.runner_up(scene)
    with heard():
        attributed = _attribute(method, trial, other, always)
    maps = normalize(attributed.maps).float()
    return trial.scores(maps, other.truth, trial.claimed(other.truth))


def _seed(trial: Trial, scene: Scene, repeat: int) -> int:
    """Of one batch; the first repetition has that of a run without any."""
    stream = [trial.seed, scene.first, repeat] if repeat else [trial.seed, scene.first]
    return int(np.random.SeedSequence(stream).generate_state(1)[0])


def _offered(
    method: Method, trial: Trial, scene: Scene, always: Mapping[str, Any], seed: int
) -> dict[str, Any]:
    """What a method may declare by name; the truth is for controls."""
    offered = {
        **always,
        "patches": scene.patches.clone(),
        "generator": torch.Generator().manual_seed(seed),
    }
    if any(method.function is control for control in CONTROLS.values()):
        offered |= {"truth": scene.truth, "ideal": trial.ideal(scene.truth)}
    return offered


def _always_offered(method: Method, trial: Trial) -> dict[str, Any]:
    """What a method may declare by name that is the same for every batch."""
    env = trial.env
    offered = {
        "baseline": env.baseline.clone(),
        "layers": dict(env.layers),
        "highest": env.max_value,
    }
    if method.asks_for("reference_images"):
        # A stream of its own: none of them is tested.
        stream = int(np.random.SeedSequence([trial.seed, 1]).generate_state(1)[0])
        offered["reference_images"] = env.batch(REFERENCE_IMAGES, stream)[0].to(env.device)
    return offered


def _mean(runs: Sequence[Mapping[str, Alignment]]) -> ImageScores:
    """Scores of a batch, means over seeds."""
    return {
        part: {
            score: torch.stack([getattr(run[part], score) for run in runs]).mean(0).cpu().numpy()
            for score in Alignment._fields
        }
        for part in runs[0]
    }


def _seed_variance(batches: Sequence[_Batch]) -> dict[str, NDArray[np.float64]]:
    """By part the variance of each image's F1 over seeds; zero where a method draws nothing."""
    return {
        part: np.concatenate(
            [
                torch.stack([run[part].f1 for run in batch.runs]).var(0).numpy()
                if len(batch.runs) > 1
                else np.zeros(len(batch.maps))
                for batch in batches
            ]
        )
        for part in batches[0].runs[0]
    }


def _joined(batches: Sequence[ImageScores]) -> ImageScores:
    """Scores of all batches, one after another."""
    return {
        part: {
            score: np.concatenate([batch[part][score] for batch in batches])
            for score in batches[0][part]
        }
        for part in batches[0]
    }
