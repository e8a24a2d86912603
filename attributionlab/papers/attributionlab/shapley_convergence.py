"""Sampled permutations and KernelSHAP held against exact Shapley values, by what they cost."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn

from attributionlab.environment import Environment
from attributionlab.environment.catalog import load
from attributionlab.methods import heard, kernel_shap, shapley_value_sampling
from attributionlab.papers.reproduction import Reproduction
from attributionlab.progress import track
from attributionlab.report.convergence import ConvergenceLine, convergence_figure
from attributionlab.stats.intervals import mean_interval
from attributionlab.truth import enumerated_shapley

if TYPE_CHECKING:
    import pandas as pd

ENVIRONMENT, SIDE = "multi-color-sum", 8
PERMUTATIONS, QUICK_PERMUTATIONS = (2, 8, 32, 128, 512, 2048), (2, 8, 32, 128)
COALITIONS, QUICK_COALITIONS = (128, 512, 2048, 8192, 32768, 131072), (128, 512, 2048, 8192)
"""Samples; those of a row cost about the same, as a permutation of 64 pixels has 63 coalitions."""
SEEDS, QUICK_SEEDS = 8, 4
FITTED = 3
"""The largest numbers of samples that a slope is fitted to."""
CELLS = 3
"""Along a side of the superpixels of which all coalitions are asked."""
SHOWN = {
    "errors": "relative error |estimate - exact| / |exact| of a map (Euclidean norms), geometric mean "
    "over images and seeds with a 95 % bootstrap interval; passes: forward passes for an image; "
    "told: share of maps of which a guard says that they are mostly noise or not determined",
    "slopes": "of log error by log passes; -1/2 is that of independent samples",
    "enumerated": "KernelSHAP with all coalitions of a few superpixels beside the definition: largest "
    "difference of two values, as a share of the largest value",
}


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


def shapley_convergence(
    *, n: int | None, quick: bool, seed: int = 0, show_progress: bool = False
) -> Reproduction:
    """How the errors of sampled Shapley values fall with the number of samples.

    Images have 8 x 8 pixels, each of a random one of the colors that count, so that all 64 are players;
    the environment's own images of this size are mostly background. Outputs are probabilities, the
    baseline is the true one.

    Parameters
    ----------
    n : int, optional
        Images; 4, or 2 in a quick run, by default.
    quick : bool
        Fewer samples and seeds.
    seed : int
        Of images and methods.
    show_progress : bool
        Show progress on standard error.

    Returns
    -------
    Reproduction
        Tables "errors" (a row for each method and number of samples), "slopes", "enumerated" (a row for
        each image) and "maps" (errors of single maps); figure "errors".
    """
    import pandas as pd

    question = _question(n or (2 if quick else 4), seed)
    estimators = {
        "shapley-value-sampling": Estimator(
            shapley_value_sampling,
            QUICK_PERMUTATIONS if quick else PERMUTATIONS,
            lambda n, m: n * (m - 1) + 2,
        ),
        "kernel-shap": Estimator(
            kernel_shap, QUICK_COALITIONS if quick else COALITIONS, lambda n, _: n + 2
        ),
    }
    seeds = QUICK_SEEDS if quick else SEEDS
    work = [
        (name, samples, index)
        for name, estimator in estimators.items()
        for samples in estimator.samples
        for index in range(seeds)
    ]
    rows: list[dict[str, Any]] = []
    for name, samples, index in track(work, len(work), "shapley-convergence", show_progress):
        rows += _errors(question, name, estimators[name], samples, seed + index)
    maps = pd.DataFrame(rows)
    errors, enumerated = _summary(maps, seed), pd.DataFrame(_enumerated(question))
    slopes = pd.DataFrame(
        [{"method": name, "slope": _slope(errors[errors.method == name])} for name in estimators]
    )
    tables = {"errors": errors, "slopes": slopes, "enumerated": enumerated, "maps": maps}
    figure = convergence_figure(
        {name: _line(errors[errors.method == name]) for name in estimators},
        "forward passes for an image",
        "relative error of the map (lower is better)",
        f"Sampled Shapley values of {SIDE * SIDE} pixels beside the exact ones\n"
        f"{ENVIRONMENT}, images: {len(question.images)}, seeds: {seeds}; bands: 95 % intervals",
    )
    return Reproduction(
        "shapley-convergence",
        "How fast sampled Shapley values come close to the exact ones",
        tables,
        {"errors": figure},
        _findings(errors, slopes, enumerated),
        SHOWN,
    )


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


def _errors(
    question: Question, name: str, estimator: Estimator, samples: int, seed: int
) -> list[dict[str, Any]]:
    """A row for each image."""
    rows = []
    for k in range(len(question.images)):
        with heard() as told:
            found = estimator.method(
                question.model,
                question.images[k : k + 1],
                question.targets[k : k + 1],
                highest=question.env.max_value,
                generator=torch.Generator().manual_seed(seed),
                segmentation="pixels",
                baselines=question.env.baseline,
                n_samples=samples,
            )[0].double()
        exact = question.exact[k]
        rows.append(
            {
                "method": name,
                "samples": samples,
                "passes": estimator.passes(samples, exact.numel()),
                "sample": k,
                "seed": seed,
                "error": float((found - exact).norm() / exact.norm()),
                "told": any(finding.images for finding in told),
            }
        )
    return rows


def _summary(maps: "pd.DataFrame", seed: int) -> "pd.DataFrame":
    """Geometric means with intervals, by method and number of samples."""
    import pandas as pd

    rows = []
    for (name, samples, passes), here in maps.groupby(["method", "samples", "passes"], sort=False):
        logs = np.log(here.error.to_numpy())
        interval = mean_interval(logs, seed)
        low, high = (float("nan"),) * 2 if interval is None else interval
        rows.append(
            {
                "method": name,
                "samples": samples,
                "passes": passes,
                "error": float(np.exp(logs.mean())),
                "low": float(np.exp(low)),
                "high": float(np.exp(high)),
                "told": float(here.told.mean()),
            }
        )
    return pd.DataFrame(rows)


def _enumerated(question: Question) -> list[dict[str, Any]]:
    """KernelSHAP with all coalitions of a few superpixels beside the sum over coalitions."""
    rows = []
    labels = torch.arange(SIDE) * CELLS // SIDE
    superpixels = labels[:, None] * CELLS + labels
    players = CELLS * CELLS
    for k, image in enumerate(question.images):
        target = int(question.targets[k])

        def worth(coalitions: Tensor, image: Tensor = image, target: int = target) -> Tensor:
            shown = coalitions[:, superpixels][:, None]
            mixtures = torch.where(shown, image, question.env.baseline)
            with torch.no_grad():
                return cast(Tensor, question.model(mixtures))[:, target].double()

        exact = enumerated_shapley(worth, players)
        found = kernel_shap(
            question.model,
            image[None],
            question.targets[k : k + 1],
            highest=question.env.max_value,
            generator=torch.Generator().manual_seed(0),
            segmentation=superpixels,
            baselines=question.env.baseline,
            n_samples=2**players - 2,
        )[0, 0].double()
        sizes = torch.bincount(superpixels.flatten())
        difference = (found - (exact / sizes)[superpixels]).abs().max()
        rows.append(
            {
                "sample": k,
                "superpixels": players,
                "coalitions": 2**players - 2,
                "difference": float(difference / (exact / sizes).abs().max()),
            }
        )
    return rows


def _slope(errors: "pd.DataFrame") -> float:
    last = errors.tail(FITTED)
    return float(np.polyfit(np.log(last.passes), np.log(last.error), 1)[0])


def _line(errors: "pd.DataFrame") -> ConvergenceLine:
    columns = (errors[name].to_numpy(float) for name in ("passes", "error", "low", "high"))
    return ConvergenceLine(*columns)


def _findings(
    errors: "pd.DataFrame", slopes: "pd.DataFrame", enumerated: "pd.DataFrame"
) -> list[str]:
    sentences = []
    for name, slope in zip(slopes.method, slopes.slope, strict=True):
        here = errors[errors.method == name]
        first, last = here.iloc[0], here.iloc[-1]
        sentences.append(
            f"{name}: the relative error falls from {first.error:.2g} with {first.passes:,} passes to "
            f"{last.error:.2g} with {last.passes:,} (interval {last.low:.2g} to {last.high:.2g}); "
            f"slope {slope:.2f} over the last {FITTED} numbers of samples, where independent samples "
            "have -0.5."
        )
    ends = [errors[errors.method == name].iloc[-1] for name in slopes.method]
    # The last numbers of samples cost nearly the same; an error counts by its square in passes.
    ratio = (ends[1].error / ends[0].error) ** 2 * ends[1].passes / ends[0].passes
    sentences.append(
        f"For equal errors {ends[1].method} needs {ratio:.2g} times the passes of {ends[0].method} "
        "(from the last numbers of samples, at slope -1/2)."
    )
    told = errors[errors.told > 0]
    calm = errors[errors.told == 0]
    sentences.append(
        "Guards speak of all or some maps up to an error of "
        f"{told.error.max():.2g} (least {told.error.min():.2g}), and of none below "
        f"{calm.error.max():.2g}."
        if len(told)
        else f"Guards speak of no map: the largest mean error is {errors.error.max():.2g}."
    )
    row = enumerated.loc[enumerated.difference.idxmax()]
    sentences.append(
        f"With all {row.coalitions:,.0f} coalitions of {row.superpixels:.0f} superpixels KernelSHAP is "
        f"the Shapley value, up to {row.difference:.0e} of the largest value: float32's rounding."
    )
    return sentences
