"""A trial carried out: a method, and every control, on the same images."""

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.diagnosis.shares import missing_shares, pixel_kinds
from attributionlab.errors import AttributionLabError, AttributionLabWarning
from attributionlab.faithfulness.calls import (
    always_offered,
    attribute_scene,
    computed,
    control_maps,
    peculiarities,
)
from attributionlab.faithfulness.drift import Drift, drift_of
from attributionlab.faithfulness.report import ImageScores
from attributionlab.faithfulness.setup import STUDIED_IMAGES, Scene, Trial
from attributionlab.methods import Method, Notice, as_method, collect_notices
from attributionlab.methods.controls import CONTROLS
from attributionlab.metrics import Alignment, alignment, normalize
from attributionlab.progress import follow
from attributionlab.stats.runs import run_name
from attributionlab.truth import Truth

LONG, SOON = 3600.0, 10.0
"""Seconds: a warning comes if the images of an environment will take longer than the first, estimated
after the second, because the first image also waits for what is compiled and loaded."""

KEPT_BYTES = 16 * 2**20
"""Of the maps that are kept to be looked at: of 83 images at 224 pixels. All else is reduced to a few
numbers an image as batches come, so that memory does not grow with n."""


class Outcome(NamedTuple):
    """What a method, and every control, made of a trial."""

    maps: Tensor
    """(k, 1, H, W), summed over channels and normalized to [-1, 1]; of the first seed and the first
    k images, for which `KEPT_BYTES` suffice"""
    studied_maps: Tensor
    """(B, 1, H, W), of the studied images, as the method gave them; empty if nobody asks"""
    images: Tensor
    """(k, C, H, W), uint8"""
    truth: Truth
    """of these k"""
    shares: Mapping[str, Mapping[str, Tensor]]
    """by the parts that the claim rests on, where the missing F1 of each image goes
    (`assess.missing_shares`), (n,); empty if nobody asks"""
    highest: Tensor
    """(n,), the largest value of each map"""
    lowest: Tensor
    """(n,), the smallest"""
    by_seed: Sequence[ImageScores]
    """one for each seed, a single one for a method that draws nothing"""
    compared_runs: Sequence[ImageScores]
    """one for each of several runs of a method that optimizes: of the first images, or of all where
    all were asked for under several seeds; empty for others"""
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
    findings: list[Notice]
    gaps: NDArray[np.float64] | None
    """(n,), the completeness gap of each image, None where no method looked"""
    drift: Drift | None
    """between functionally equal networks, None if nobody asks"""


Listed = dict[str, dict[str, list[float]]]
"""Part -> name -> a number for each image."""


class _Batch(NamedTuple):
    """What is kept of one batch, beside the maps that are.

    Lists, because small tensors are pieces of memory that lie between the large ones of the next
    batches: thousands of them leave holes that are never given back.
    """

    studied_maps: Tensor
    """of the images looked at, not normalized"""
    shares: Listed
    highest: list[float]
    lowest: list[float]
    runs: list[Listed]
    """by seed"""
    random: bool
    controls: dict[str, dict[str, list[float]]]
    best: list[float]
    runner_up: Listed | Notice | None
    seconds: float
    findings: list[Notice]


def run_method(method: Method, trial: Trial, show_progress: bool) -> Outcome:
    """Run a method and the controls on the n images of an environment."""
    always = always_offered(method, trial)
    controls = {name: as_method(name, CONTROLS) for name in CONTROLS}
    batches: list[_Batch] = []
    studied, labels = [], []
    start, told = time.monotonic(), False
    maps, images, signed = _room(trial)
    for scene in trial.scenes(f"{method.name} on {trial.env.name}", show_progress):
        looked_at = scene.part(0, max(0, STUDIED_IMAGES - scene.first)) if trial.diagnosed else None
        batch, of_batch = _run(method, controls, trial, scene, looked_at, always)
        for room, values in (
            (maps, of_batch),
            (images, scene.images),
            (signed, scene.truth.signed),
        ):
            free = room[scene.first : scene.first + len(values)]  # nothing behind the last one kept
            free.copy_(values[: len(free)])
        if looked_at is not None and len(looked_at.images):
            studied.append(looked_at)
            labels += [found.regions for found in batch.findings if found.regions is not None]
        without = [replace(found, regions=None) for found in batch.findings]
        batches.append(batch._replace(findings=without))
        if not told and time.monotonic() - start > SOON:
            told = True
            _tell_of_cost(method, trial, scene.first + len(scene.images), time.monotonic() - start)
    findings = [finding for batch in batches for finding in batch.findings]
    findings += [batch.runner_up for batch in batches if isinstance(batch.runner_up, Notice)]
    with follow(f"{method.name} on {trial.env.name}, asked again", show=show_progress):
        findings += peculiarities(method, trial, studied, always)
    gaps = [gap for finding in findings for gap in finding.gaps]
    lost = [batch.runner_up for batch in batches if isinstance(batch.runner_up, dict)]
    by_seed = [
        # A batch for which nothing was drawn has one run, which stands for all seeds.
        _joined([batch.runs[min(seed, len(batch.runs) - 1)] for batch in batches])
        for seed in range(max(len(batch.runs) for batch in batches))
    ]
    return Outcome(
        maps=maps,
        studied_maps=torch.cat([batch.studied_maps for batch in batches]),
        images=images,
        truth=Truth(signed),
        shares={
            part: {
                name: torch.tensor(_all([batch.shares[part][name] for batch in batches]))
                for name in of_part
            }
            for part, of_part in batches[0].shares.items()
        },
        highest=torch.tensor(_all([batch.highest for batch in batches])),
        lowest=torch.tensor(_all([batch.lowest for batch in batches])),
        by_seed=by_seed,
        compared_runs=_compared_runs(method, trial, by_seed, always, show_progress),
        stochastic=any(batch.random for batch in batches),
        controls={
            name: {
                part: _all([batch.controls[name][part] for batch in batches])
                for part in trial.claimed_parts
            }
            for name in controls
        },
        best=_all([batch.best for batch in batches]),
        studied=studied,
        regions=torch.cat(labels)[:STUDIED_IMAGES] if labels else None,
        runner_up=_joined(lost) if lost else None,
        seconds=sum(batch.seconds for batch in batches) / trial.n,
        findings=findings,
        gaps=np.array(gaps) if len(gaps) == trial.n else None,
        drift=drift_of(method, trial, show_progress) if trial.camouflage else None,
    )


def _tell_of_cost(method: Method, trial: Trial, done: int, seconds: float) -> None:
    """Warn of what the other images will take, if that is long."""
    left = seconds / done * (trial.n - done)
    if left > LONG:
        warnings.warn(
            f"{method.name} on {trial.env.name}: {done} of {trial.n} images took {seconds:.0f} s, the "
            f"others will take about {left / 3600:.1f} h; a smaller n, image_size or fewer samples or "
            "steps take less",
            AttributionLabWarning,
            stacklevel=3,
        )


def _run(
    method: Method,
    controls: Mapping[str, Method],
    trial: Trial,
    scene: Scene,
    looked_at: Scene | None,
    always: Mapping[str, Any],
) -> tuple[_Batch, Tensor]:
    """One batch: the method for each seed, the controls, and the runner-up of images looked at; its
    normalized maps.
    """
    claimed = trial.claimed(scene.truth)
    start = time.perf_counter()
    with collect_notices() as findings:
        attributed = attribute_scene(method, trial, scene, always)
    seconds = time.perf_counter() - start
    # float32 halves the memory of what is kept, and is precise enough within [-1, 1].
    maps = normalize(scene.asked(attributed.maps)).float()
    runs = [trial.scores(maps, scene.truth, claimed)]
    runs += [
        _again(method, trial, scene, always, repeat)
        for repeat in range(1, trial.seeds if attributed.random else 1)
    ]
    drawn = {
        name: trial.control_f1(
            scene.asked(control_maps(control, trial, scene, always)), scene.truth, claimed
        )
        for name, control in controls.items()
    }
    looked = 0 if looked_at is None else len(looked_at.images)
    batch = _Batch(
        studied_maps=attributed.maps[:looked].clone(),  # a slice would hold all of them
        shares=_shares(maps, trial, scene, claimed) if trial.diagnosed else {},
        highest=maps.flatten(1).amax(1).tolist(),
        lowest=maps.flatten(1).amin(1).tolist(),
        runs=[_listed(run) for run in runs],
        random=attributed.random,
        controls={
            name: {part: f1.tolist() for part, f1 in of_parts.items()}
            for name, of_parts in drawn.items()
        },
        best=_best(trial, scene, claimed).tolist(),
        runner_up=_runner_up(method, trial, looked_at, always),
        seconds=seconds,
        findings=findings,
    )
    return batch, maps


def _room(trial: Trial) -> tuple[Tensor, Tensor, Tensor]:
    """Memory for the maps that are kept, their images and truth.

    Taken at once: small pieces that last, between those of a batch, would leave holes.
    """
    side, channels = trial.env.recipe.image_size, trial.env.recipe.channels
    kept = min(trial.n, max(STUDIED_IMAGES, KEPT_BYTES // (4 * side**2)))
    return (
        torch.empty((kept, 1, side, side)),
        torch.empty((kept, channels, side, side), dtype=torch.uint8),
        torch.empty((kept, 1, side, side), dtype=torch.int8),
    )


def _again(
    method: Method, trial: Trial, scene: Scene, always: Mapping[str, Any], repeat: int
) -> dict[str, Alignment]:
    """Scores of one batch under another seed."""
    with collect_notices():  # what there is to say has been said of the first seed
        attributed = attribute_scene(method, trial, scene, always, repeat)
    maps = normalize(scene.asked(attributed.maps)).float()
    return trial.scores(maps, scene.truth, trial.claimed(scene.truth))


def _compared_runs(
    method: Method,
    trial: Trial,
    by_seed: Sequence[ImageScores],
    always: Mapping[str, Any],
    show_progress: bool,
) -> Sequence[ImageScores]:
    """Scores of several runs of a method that optimizes: on the first images, since each run costs as
    much as the one that is judged.
    """
    if method.runs == 1:
        return []
    if len(by_seed) > 1:
        return by_seed
    [judged] = by_seed
    few = replace(trial, n=min(trial.n, STUDIED_IMAGES))
    first = {
        part: {score: values[: few.n] for score, values in scores.items()}
        for part, scores in judged.items()
    }
    others = []
    for repeat in range(1, method.runs):
        scenes = few.scenes(run_name(f"{method.name} on {trial.env.name}", repeat), show_progress)
        again = [_listed(_again(method, few, scene, always, repeat)) for scene in scenes]
        others.append(_joined(again))
    return [first, *others]


def _shares(maps: Tensor, trial: Trial, scene: Scene, claimed: Tensor) -> Listed:
    """Where the missing F1 goes, of every part that may turn out to decide."""
    classes = trial.env.counting.classes_of(scene.images)
    kinds = pixel_kinds(scene.images, scene.patches, classes, trial.env.baseline.cpu())
    smooth = claimed if trial.claim == "positive-smoothed" else None
    shares = {
        part: missing_shares(maps, scene.truth.signed, kinds, part, smooth)  # type: ignore[arg-type]
        for part in trial.claimed_parts
    }
    return {
        part: {name: share.tolist() for name, share in of_part.items()}
        for part, of_part in shares.items()
    }


def _best(trial: Trial, scene: Scene, claimed: Tensor) -> Tensor:
    """The F1 that the best map for the claim reaches, from the definition and past the oracle, (B,)."""
    if trial.claim == "positive-smoothed":
        return alignment(trial.ideal(scene.truth), claimed).f1
    return torch.ones(len(claimed), dtype=torch.float64)


def _runner_up(
    method: Method, trial: Trial, scene: Scene | None, always: Mapping[str, Any]
) -> Listed | Notice | None:
    """Scores for the class of the second-most pixels, where there are classes and a method to ask; a
    method that cannot explain it keeps its verdict.
    """
    if scene is None or not len(scene.images) or trial.env.task == "regression" or computed(method):
        return None
    other = trial.runner_up(scene)
    try:
        with collect_notices():
            attributed = attribute_scene(method, trial, other, always)
    except AttributionLabError as error:
        text = f"could not be had for the class of the second-most pixels: {error}"
        return Notice(text, len(scene.images))
    maps = normalize(other.asked(attributed.maps)).float()
    return _listed(trial.scores(maps, other.truth, trial.claimed(other.truth)))


def _listed(scores: Mapping[str, Alignment]) -> Listed:
    return {
        part: {score: values.tolist() for score, values in each._asdict().items()}
        for part, each in scores.items()
    }


def _joined(batches: Sequence[Listed]) -> ImageScores:
    """Scores of all batches, one after another."""
    return {
        part: {
            score: _all([batch[part][score] for batch in batches]) for score in Alignment._fields
        }
        for part in batches[0]
    }


def _all(batches: Sequence[list[float]]) -> NDArray[np.float64]:
    return np.concatenate([np.array(each, dtype=np.float64) for each in batches])
