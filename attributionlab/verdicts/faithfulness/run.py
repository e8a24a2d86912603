"""A run of a method, and of every control, on the same images."""

import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from attributionlab.base import AttributionLabError, CostWarning, Numbers, follow, run_name
from attributionlab.methods import Notice, as_method, collect_notices
from attributionlab.metrics import Alignment, parts_f1
from attributionlab.verdicts.controls import ALONGSIDE, CONTROLS
from attributionlab.verdicts.diagnosis.shares import missing_shares, pixel_kinds
from attributionlab.verdicts.faithfulness import calls
from attributionlab.verdicts.faithfulness.equal_networks import Drift, drift_of
from attributionlab.verdicts.faithfulness.report import ImageScores
from attributionlab.verdicts.faithfulness.setup import STUDIED_IMAGES, Batch, Setup, joined
from attributionlab.worlds import Rule
from attributionlab.worlds.truth import Truth

LONG, SOON = 3600.0, 10.0
"""Seconds: a warning comes if the images of an environment will take longer than the first, estimated
after the second, because the first image also waits for what is compiled and loaded."""

KEPT_BYTES = 16 * 2**20
"""Size of the maps that are kept to be looked at: of 83 images at 224 pixels. All else is reduced to a
few numbers an image as batches come, so that memory does not grow with n."""


class Outcome(NamedTuple):
    """What a run found: of a method, and of every control; what says nothing of itself is that of
    `report.EnvironmentResult`.
    """

    maps: Tensor
    """(k, 1, H, W), summed over channels and normalized to [-1, 1]; of the first seed and the first
    k images, for which `KEPT_BYTES` suffice"""
    images: Tensor
    """(k, C, H, W), uint8; float32 for a user's own"""
    truth: Truth
    """of these k"""
    studied: Batch | None
    """the first images, None if only the verdict counts"""
    studied_maps: Tensor
    """(B, 1, H, W), of the studied images, as the method gave them"""
    regions: Tensor | None
    """(B, H, W) label maps of the studied images, where a method states on which regions its map
    is constant"""
    runner_up: ImageScores | None
    """of the studied images, with the class of the second-most pixels as target"""
    shares: Mapping[str, Mapping[str, Numbers]]
    """by the parts that the claim rests on, where the missing F1 of each image goes
    (`diagnosis.shares.missing_shares`), (n,); empty if only the verdict counts"""
    highest: Numbers
    """(n,), the largest value of each map"""
    lowest: Numbers
    """(n,), the smallest"""
    faint: Numbers
    """(n,), 1 where the map as the method gave it says nothing (`calls.says_nothing`)"""
    by_seed: Sequence[ImageScores]
    """one for each seed, a single one for a method that draws nothing"""
    compared_runs: Sequence[ImageScores]
    stochastic: bool
    controls: Mapping[str, Mapping[str, Numbers]]
    """F1 of each control, by the parts that the claim rests on, (n,)"""
    strict: Mapping[str, Numbers]
    """in worlds from rules, F1 of the studied images' first run by part at the strict level
    (`rules.game.strict`); empty elsewhere"""
    best: Numbers
    seconds: float
    notices: list[Notice]
    gaps: Numbers | None
    """(n,), the completeness gap of each image, None where no method looked"""
    drift: Drift | None


def run_method(
    setup: Setup, show_progress: bool = False, keep: Callable[[Tensor], object] | None = None
) -> Outcome:
    """Run a method and the controls on the n images of an environment.

    `setup`: what is run, and where. `show_progress`: show progress on standard error. `keep`: called
    with the maps of each batch as the method gave them, summed over channels, (B, 1, H, W).
    """
    controls = {name: replace(setup, method=as_method(name, CONTROLS)) for name in ALONGSIDE}
    numbers: list[dict[str, Any]] = []
    runs: list[list[dict[str, Any]]] = []
    notices: list[Notice] = []
    studied: list[Batch] = []
    studied_maps: list[Tensor] = []
    regions: list[Tensor] = []
    runner_up: list[dict[str, Any] | Notice | None] = []
    strict: list[dict[str, Any]] = []
    seconds, stochastic = 0.0, False
    start, warned = time.monotonic(), False
    kept = maps, images, *known = _room(setup)
    for batch in setup.batches(setup.title, show_progress):
        began = time.perf_counter()
        with collect_notices() as found:
            attributed = calls.attribute_batch(setup, batch)
        seconds += time.perf_counter() - began
        if keep is not None:
            keep(attributed.maps)
        stochastic |= attributed.random
        scaled = batch.scaled(attributed.maps)
        repeats = range(1, setup.also.seeds if attributed.random else 1)
        again = [_again(setup, batch, repeat) for repeat in repeats]
        runs.append([_listed(setup.scores(scaled, batch)), *again])
        numbers.append(_listed(_numbers(attributed.maps, scaled, setup, batch, controls)))
        truth = batch.truth
        values_kept = scaled, batch.images, truth.signed, truth.relevant, truth.asked
        for room, values in zip(kept, values_kept, strict=True):
            free = room[batch.first : batch.first + len(values)]  # nothing behind the last one kept
            free.copy_(values[: len(free)])
        if setup.also.diagnosis and batch.first < STUDIED_IMAGES:
            few = batch.part(0, STUDIED_IMAGES - batch.first)
            studied.append(few)
            # A slice would hold all of them.
            studied_maps.append(attributed.maps[: len(few.images)].clone())
            regions += [notice.regions for notice in found if notice.regions is not None]
            runner_up.append(_runner_up(setup, few))
            strict.append(_listed(_strict(studied_maps[-1], setup, few)))
        notices += [replace(notice, regions=None) for notice in found]
        if not warned and time.monotonic() - start > SOON:
            warned = True
            _warn_of_cost(setup, batch.first + len(batch.images), time.monotonic() - start)
    notices += [each for each in runner_up if isinstance(each, Notice)]
    first_ones = joined(studied) if studied else None
    if first_ones is not None:
        with follow(f"checking that {setup.title} is deterministic", show=show_progress):
            notices += calls.peculiarities(setup, first_ones)
    gaps = [gap for notice in notices for gap in notice.gaps]
    lost = [each for each in runner_up if isinstance(each, dict)]
    by_seed = [
        # A batch for which nothing was drawn has one run, which stands for all seeds.
        _joined([each[min(seed, len(each) - 1)] for each in runs])
        for seed in range(max(map(len, runs)))
    ]
    return Outcome(
        maps=maps,
        images=images,
        truth=Truth(*known),
        studied=first_ones,
        studied_maps=torch.cat(studied_maps) if studied else maps[:0],
        regions=torch.cat(regions)[:STUDIED_IMAGES] if regions else None,
        runner_up=_joined(lost) if lost else None,
        **_joined(numbers),
        by_seed=by_seed,
        compared_runs=_compared_runs(setup, by_seed, show_progress),
        stochastic=stochastic,
        seconds=seconds / setup.n,
        notices=notices,
        gaps=np.array(gaps) if len(gaps) == setup.n else None,
        drift=drift_of(setup, show_progress) if setup.also.camouflage else None,
        strict=_joined(strict) if strict else {},
    )


def _numbers(
    given: Tensor, maps: Tensor, setup: Setup, batch: Batch, controls: Mapping[str, Setup]
) -> dict[str, Any]:
    """Numbers of each image, under the names of `Outcome`: of maps as given and scaled, and of the
    controls.
    """
    return {
        "shares": _shares(maps, setup, batch)
        if setup.also.diagnosis and batch.env.has_roles
        else {},
        "highest": maps.flatten(1).amax(1),
        "lowest": maps.flatten(1).amin(1),
        "faint": calls.says_nothing(given, setup, batch).double(),
        "controls": {
            name: control.control_f1(calls.control_maps(control, batch), batch)
            for name, control in controls.items()
        },
        "best": batch.best_f1,
    }


def _strict(maps: Tensor, setup: Setup, batch: Batch) -> Mapping[str, Tensor]:
    """F1 of unscaled maps at the strict level of a rule."""
    env, found = batch.env, {}
    if env.has_roles and isinstance(env.counting, Rule):
        truth = env.counting.truth(
            batch.images, batch.targets, setup.truth_output, env.temperature, strict=True
        )
        found = parts_f1(maps, truth.signed, truth.mixed)
    return {str(part): f1 for part, f1 in found.items()}


def _warn_of_cost(setup: Setup, done: int, seconds: float) -> None:
    """Warn of what the other images will take, if that is long."""
    left = seconds / done * (setup.n - done)
    if left > LONG:
        warnings.warn(
            f"{setup.title}: {done} of {setup.n} images took {seconds:.0f} s, the "
            f"others will take about {left / 3600:.1f} h; a smaller n, image_size or fewer samples or "
            "steps take less",
            CostWarning,
            stacklevel=3,
        )


def _room(setup: Setup) -> tuple[Tensor, ...]:
    """Memory for the maps that are kept, their images and truth.

    Taken at once: small pieces that last, between those of a batch, would leave holes.
    """
    channels, *size = setup.env.image_shape
    kept = min(setup.n, max(STUDIED_IMAGES, KEPT_BYTES // (4 * math.prod(size))))
    values = torch.uint8 if setup.env.has_roles else torch.float32  # of a user's own range
    shape = (kept, 1, *size)
    return (
        torch.empty(shape),
        torch.empty((kept, channels, *size), dtype=values),
        torch.empty(shape, dtype=torch.int8),
        torch.empty(shape, dtype=torch.bool),
        torch.empty(shape, dtype=torch.bool),
    )


def _again(setup: Setup, batch: Batch, repeat: int = 0) -> dict[str, Any]:
    """Scores of one more run on a batch; its notices are those of the first run."""
    maps = calls.batch_maps(setup, [batch], repeat)
    scores: dict[str, Any] = _listed(setup.scores(batch.scaled(maps), batch))
    return scores


def _compared_runs(
    setup: Setup, by_seed: Sequence[ImageScores], show_progress: bool
) -> Sequence[ImageScores]:
    """Scores of several runs of a method that optimizes: on the first images, since each run costs as
    much as the one that decides.
    """
    if setup.method.runs == 1:
        return []
    if len(by_seed) > 1:
        return by_seed
    few = setup.first_images()
    first = {
        part: {score: values[: few.n] for score, values in scores.items()}
        for part, scores in by_seed[0].items()
    }
    others = []
    for repeat in range(1, setup.method.runs):
        batches = few.batches(run_name(setup.title, repeat), show_progress)
        others.append(_joined([_again(few, batch, repeat) for batch in batches]))
    return [first, *others]


def _shares(maps: Tensor, setup: Setup, batch: Batch) -> dict[str, dict[str, Tensor]]:
    """Where the missing F1 goes, of every part that may turn out to decide."""
    kinds = pixel_kinds(batch.flat_images, batch.patches, batch.classes, batch.baselines)
    truth, shares = batch.truth, {}
    for part in setup.claimed_parts:
        # A mixed pixel is relevant, whatever its sign; the other parts leave it out.
        signed = truth.signed + truth.mixed.to(torch.int8) if part == "overall" else truth.signed
        seen = batch.seen(maps, part)  # type: ignore[arg-type]
        shares[part] = missing_shares(seen, signed, kinds, part, batch.smooth)  # type: ignore[arg-type]
    return shares


def _runner_up(setup: Setup, batch: Batch) -> dict[str, Any] | Notice | None:
    """Scores for the class of the second-most pixels, where there are classes and a method to run; a
    method that cannot explain it keeps its verdict.
    """
    if setup.env.task == "regression" or calls.computed(setup.method) or batch.questions:
        return None  # the target of a question is any class already
    if not setup.env.has_roles:
        return None  # the truth may be stated for one target only
    other = setup.runner_up(batch)
    try:
        return _again(setup, other)
    except AttributionLabError as error:
        text = f"could not be computed for the class with the second-most pixels: {error}"
        return Notice(text, len(batch.images))


def _listed(tree: Any) -> Any:
    """Nested tensors as lists: thousands of small tensors between the large ones of the next batches
    leave holes in memory that are never given back.
    """
    if isinstance(tree, Tensor):
        return tree.tolist()
    items = tree._asdict() if isinstance(tree, Alignment) else tree
    return {key: _listed(each) for key, each in items.items()}


def _joined(batches: Sequence[Any]) -> Any:
    """Nested lists of all batches, one after another, as arrays."""
    if isinstance(batches[0], Mapping):
        return {key: _joined([batch[key] for batch in batches]) for key in batches[0]}
    return np.concatenate([np.array(each, dtype=np.float64) for each in batches])
