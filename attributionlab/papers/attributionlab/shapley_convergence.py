"""Sampled permutations and KernelSHAP held against exact Shapley values, by what they cost."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from attributionlab.base import with_intervals
from attributionlab.methods import collect_notices, kernel_shap, shapley_value_sampling
from attributionlab.papers.answers import decided
from attributionlab.papers.catalog import Found, Run, Tables
from attributionlab.show import curves
from attributionlab.worlds import Environment, load
from attributionlab.worlds.truth import enumerated_shapley

ENVIRONMENT, SIDE = "multi-color-sum", 8
PERMUTATIONS, QUICK_PERMUTATIONS = (2, 8, 32, 128, 512, 2048), (2, 8, 32, 128)
COALITIONS, QUICK_COALITIONS = (128, 512, 2048, 8192, 32768, 131072), (128, 512, 2048, 8192)
"""Samples; those of a row cost about the same, as a permutation of 64 pixels has 63 coalitions."""
SEEDS, QUICK_SEEDS = 8, 4
FITTED = 3
"""The largest numbers of samples that a slope is fitted to."""
CELLS = 3
"""Superpixels along a side, of which all coalitions are evaluated."""


Sampled = tuple[Callable[..., Tensor], Sequence[int], Callable[[int], int]]
"""A method, its numbers of samples, and the passes that n samples of all pixels cost."""


class Question(NamedTuple):
    """Images of which every pixel counts, and the Shapley values of these pixels."""

    env: Environment
    images: Tensor
    targets: Tensor
    exact: Tensor

    def map(
        self,
        method: Callable[..., Tensor],
        k: int,
        *,
        seed: int,
        samples: int,
        segmentation: str | Tensor = "pixels",
    ) -> Tensor:
        """A method's map of image k, (1, H, W)."""
        maps = method(
            *(self.env.softmax_model, self.images[k : k + 1], self.targets[k : k + 1]),
            highest=self.env.max_value,
            generator=torch.Generator().manual_seed(seed),
            segmentation=segmentation,
            baselines=self.env.baseline,
            n_samples=samples,
        )
        return maps[0].double()


def shapley_convergence(run: Run) -> Found:
    """How the errors of sampled Shapley values fall with the number of samples.

    Images have 8 x 8 pixels, each of a random one of the colors that count, so that all 64 are players;
    the environment's own images of this size are mostly background. Outputs are probabilities, the
    baseline is the true one.
    """
    question = _question(run.n, run.seed)
    permutations, coalitions = (
        (QUICK_PERMUTATIONS, QUICK_COALITIONS) if run.quick else (PERMUTATIONS, COALITIONS)
    )
    sampled: dict[str, Sampled] = {
        "shapley-value-sampling": (
            *(shapley_value_sampling, permutations),
            lambda n: n * (SIDE * SIDE - 1) + 2,
        ),
        "kernel-shap": (kernel_shap, coalitions, lambda n: n + 2),
    }
    seeds = QUICK_SEEDS if run.quick else SEEDS
    work = [(name, n, seed) for name in sampled for n in sampled[name][1] for seed in range(seeds)]
    rows = []
    for name, samples, index in run.track(work):
        method, _, passes = sampled[name]
        known = {"method": name, "samples": samples, "passes": passes(samples)}
        for k, exact in enumerate(question.exact):
            seed = run.seed + index
            with collect_notices() as notices:  # what the method's guards say
                found = question.map(method, k, seed=seed, samples=samples)
            error = float((found - exact).norm() / exact.norm())
            warned = any(notice.images for notice in notices)
            rows.append({**known, "sample": k, "seed": seed, "error": error, "warned": warned})
    maps = pd.DataFrame(rows)
    errors = _geometric_means(maps, run.seed)
    enumerated = pd.DataFrame([_enumerated(question, k) for k in range(run.n)])
    by_method = errors.groupby("method", sort=False)
    ends, last = by_method.last(), by_method.tail(FITTED).groupby("method", sort=False)
    # The last numbers of samples cost nearly the same; an error counts by its square in passes.
    cost = ends.error**2 * ends.passes
    slopes = pd.DataFrame(
        {
            "method": ends.index,
            "slope": [np.polyfit(np.log(of.passes), np.log(of.error), 1)[0] for _, of in last],
            "relative_passes": (cost / cost.iloc[0]).to_numpy(),
        }
    )
    figure = curves(
        *(errors, "passes", "error", "method"),
        title=f"Sampled Shapley values of {SIDE * SIDE} pixels compared with the exact ones\n"
        f"{ENVIRONMENT}, images: {run.n}, seeds: {seeds}; bands: 95 % intervals; independent samples "
        "fall at slope -1/2",
        xlabel="forward passes for an image",
        ylabel="relative error of the map (lower is better)",
        log="xy",
    )
    tables = {"errors": errors, "slopes": slopes, "enumerated": enumerated, "maps": maps}
    return Found(tables, {"errors": figure})


def _question(n: int, seed: int) -> Question:
    env = load(ENVIRONMENT, image_size=SIDE)
    drawn, _ = env.batch(32, seed)
    colors = torch.from_numpy(np.unique(drawn.movedim(1, -1).flatten(0, 2), axis=0))
    counted = colors[(colors != env.baseline.flatten()).any(1)]
    source = torch.Generator().manual_seed(seed)
    chosen = torch.randint(len(counted), (n, SIDE, SIDE), generator=source)
    images = counted[chosen].movedim(-1, 1).contiguous()
    with torch.no_grad():
        targets = env.model(images).argmax(1)
    exact = [env.shapley(x, int(t)) for x, t in zip(images, targets, strict=True)]
    return Question(env, images, targets, torch.stack(exact))


def _geometric_means(maps: pd.DataFrame, seed: int) -> pd.DataFrame:
    """With intervals, and how often guards warned, by method and number of samples."""
    keys, ends = ["method", "samples", "passes"], ["error", "low", "high"]
    logs = with_intervals(maps.assign(error=np.log(maps.error)), keys, "error", seed)
    warned = maps.groupby(keys, sort=False).warned.mean().to_numpy()
    return logs[[*keys, *ends]].assign(**np.exp(logs[ends]), warned=warned)


def _enumerated(question: Question, k: int) -> dict[str, Any]:
    """KernelSHAP with all coalitions of a few superpixels beside the sum over coalitions."""
    labels = torch.arange(SIDE) * CELLS // SIDE
    superpixels = labels[:, None] * CELLS + labels
    players, target = CELLS * CELLS, int(question.targets[k])
    model = cast(nn.Module, question.env.softmax_model)

    def value(coalitions: Tensor) -> Tensor:
        shown = coalitions[:, superpixels][:, None]
        mixtures = torch.where(shown, question.images[k], question.env.baseline)
        with torch.no_grad():
            return cast(Tensor, model(mixtures))[:, target].double()

    exact = enumerated_shapley(value, players) / torch.bincount(superpixels.flatten())
    every = {"samples": 2**players - 2, "segmentation": superpixels}
    found = question.map(kernel_shap, k, seed=0, **every)[0]
    difference = (found - exact[superpixels]).abs().max() / exact.abs().max()
    return {
        "sample": k,
        "superpixels": players,
        "coalitions": 2**players - 2,
        "difference": float(difference),
    }


def kernel_shap_needs_fewer_passes(tables: Tables) -> bool | None:
    ends = tables["errors"].groupby("method").last()
    kernel, sampled = ends.loc["kernel-shap"], ends.loc["shapley-value-sampling"]
    return decided(kernel.high < sampled.low, kernel.low > sampled.high)


def guards_speak_of_large_errors_only(tables: Tables) -> bool | None:
    errors = tables["errors"]
    warned, calm = errors[errors.warned > 0].error, errors[errors.warned == 0].error
    if warned.empty or calm.empty:
        return None
    return bool(warned.max() > calm.max() >= calm.min() < warned.min())
