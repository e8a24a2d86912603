"""Sampled permutations and KernelSHAP held against exact Shapley values, by what they cost."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from attributionlab.methods import collect_notices, kernel_shap, shapley_value_sampling
from attributionlab.papers.answers import decided, mean_ends
from attributionlab.papers.catalog import Found, Run, Tables, claim
from attributionlab.show import curves
from attributionlab.worlds import Environment, load
from attributionlab.worlds.truth import enumerated_shapley

ITEM = "shapley-convergence"
ENVIRONMENT, SIDE = "multi-color-sum", 8
PERMUTATIONS, QUICK_PERMUTATIONS = (2, 8, 32, 128, 512, 2048), (2, 8, 32, 128)
COALITIONS, QUICK_COALITIONS = (128, 512, 2048, 8192, 32768, 131072), (128, 512, 2048, 8192)
"""Samples; those of a row cost about the same, as a permutation of 64 pixels has 63 coalitions."""
SEEDS, QUICK_SEEDS = 8, 4
FITTED = 3
"""The largest numbers of samples that a slope is fitted to."""
CELLS = 3
"""Superpixels along a side, of which all coalitions are evaluated."""


class Estimator(NamedTuple):
    """A method, its numbers of samples, and the passes that n samples of m players cost."""

    method: Callable[..., Tensor]
    samples: Sequence[int]
    passes: Callable[[int, int], int]


class Question(NamedTuple):
    """Images of which every pixel counts, and the Shapley values of these pixels."""

    env: Environment
    model: nn.Module
    images: Tensor
    targets: Tensor
    exact: Tensor


def shapley_convergence(run: Run) -> Found:
    """How the errors of sampled Shapley values fall with the number of samples.

    Images have 8 x 8 pixels, each of a random one of the colors that count, so that all 64 are players;
    the environment's own images of this size are mostly background. Outputs are probabilities, the
    baseline is the true one.
    """
    question = _question(run.n, run.seed)
    estimators = {
        "shapley-value-sampling": Estimator(
            shapley_value_sampling,
            QUICK_PERMUTATIONS if run.quick else PERMUTATIONS,
            lambda n, m: n * (m - 1) + 2,
        ),
        "kernel-shap": Estimator(
            kernel_shap, QUICK_COALITIONS if run.quick else COALITIONS, lambda n, _: n + 2
        ),
    }
    seeds = QUICK_SEEDS if run.quick else SEEDS
    work = [
        (name, samples, run.seed + index)
        for name, estimator in estimators.items()
        for samples in estimator.samples
        for index in range(seeds)
    ]
    rows = [_error(question, k, estimators[case[0]], *case) for case in run.track(work)
            for k in range(run.n)]  # fmt: skip
    maps = pd.DataFrame(rows)
    errors = _summary(maps, run.seed)
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
        title=f"Sampled Shapley values of {SIDE * SIDE} pixels beside the exact ones\n{ENVIRONMENT}, "
        f"images: {run.n}, seeds: {seeds}; bands: 95 % intervals; independent samples fall at "
        "slope -1/2",
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
    model = cast(nn.Module, env.softmax_model)
    with torch.no_grad():
        targets = model(images).argmax(1)
    exact = [env.shapley(x, int(t)) for x, t in zip(images, targets, strict=True)]
    return Question(env, model, images, targets, torch.stack(exact))


def _error(
    question: Question, k: int, estimator: Estimator, name: str, samples: int, seed: int
) -> dict[str, Any]:
    """The error of the map of image k, and whether the method's guards notice anything."""
    with collect_notices() as notices:
        found = _map(question, k, estimator.method, seed, "pixels", samples)
    exact = question.exact[k]
    return {
        "method": name,
        "samples": samples,
        "passes": estimator.passes(samples, exact.numel()),
        "sample": k,
        "seed": seed,
        "error": float((found - exact).norm() / exact.norm()),
        "warned": any(notice.images for notice in notices),
    }


def _map(
    question: Question,
    k: int,
    method: Callable[..., Tensor],
    seed: int,
    segmentation: str | Tensor,
    samples: int,
) -> Tensor:
    """A method's map of image k, (1, H, W)."""
    maps: Tensor = method(
        question.model,
        question.images[k : k + 1],
        question.targets[k : k + 1],
        highest=question.env.max_value,
        generator=torch.Generator().manual_seed(seed),
        segmentation=segmentation,
        baselines=question.env.baseline,
        n_samples=samples,
    )
    return maps[0].double()


def _summary(maps: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Geometric means with intervals, by method and number of samples."""
    rows = []
    keys = ["method", "samples", "passes"]
    for key, here in maps.groupby(keys, sort=False):
        logs = np.log(here.error.to_numpy())
        ends = (logs.mean(), *mean_ends(logs, seed))
        means = dict(zip(("error", "low", "high"), np.exp(ends).tolist(), strict=True))
        rows.append({**dict(zip(keys, key, strict=True)), **means, "warned": here.warned.mean()})
    return pd.DataFrame(rows)


def _enumerated(question: Question, k: int) -> dict[str, Any]:
    """KernelSHAP with all coalitions of a few superpixels beside the sum over coalitions."""
    labels = torch.arange(SIDE) * CELLS // SIDE
    superpixels = labels[:, None] * CELLS + labels
    players, target = CELLS * CELLS, int(question.targets[k])

    def value(coalitions: Tensor) -> Tensor:
        shown = coalitions[:, superpixels][:, None]
        mixtures = torch.where(shown, question.images[k], question.env.baseline)
        with torch.no_grad():
            return cast(Tensor, question.model(mixtures))[:, target].double()

    exact = enumerated_shapley(value, players) / torch.bincount(superpixels.flatten())
    found = _map(question, k, kernel_shap, 0, superpixels, 2**players - 2)[0]
    difference = (found - exact[superpixels]).abs().max() / exact.abs().max()
    return {
        "sample": k,
        "superpixels": players,
        "coalitions": 2**players - 2,
        "difference": float(difference),
    }


@claim(ITEM)
def errors_fall_as_the_root_of_samples(tables: Tables) -> bool:
    """Errors of both methods fall as the root of the number of samples: slope -1/2."""
    return bool((tables["slopes"].slope + 0.5).abs().max() < 0.15)


@claim(ITEM)
def kernel_shap_needs_fewer_passes(tables: Tables) -> bool | None:
    """For equal errors KernelSHAP needs fewer forward passes than sampled permutations."""
    ends = tables["errors"].groupby("method").last()
    kernel, sampled = ends.loc["kernel-shap"], ends.loc["shapley-value-sampling"]
    return decided(kernel.high < sampled.low, kernel.low > sampled.high)


@claim(ITEM)
def guards_speak_of_large_errors_only(tables: Tables) -> bool | None:
    """Guards speak of maps with large errors, and of none with small ones."""
    errors = tables["errors"]
    warned, calm = errors[errors.warned > 0].error, errors[errors.warned == 0].error
    if warned.empty or calm.empty:
        return None
    return bool(warned.max() > calm.max() >= calm.min() < warned.min())


@claim(ITEM)
def all_coalitions_give_the_definition(tables: Tables) -> bool:
    """With all coalitions KernelSHAP is the Shapley value, up to float32's rounding."""
    return bool(tables["enumerated"].difference.max() < 1e-5)
