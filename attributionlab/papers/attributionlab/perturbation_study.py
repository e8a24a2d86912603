"""Perturbation metrics and the truth on the same maps: every method once on every image.

Curves are evaluated at every pixel, and areas are those of all steps; figures get some of the points.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.methods import as_method
from attributionlab.metrics import (
    Measure,
    Part,
    alignment,
    area_under_curve,
    curve_fractions,
    deletion_curve,
    insertion_curve,
    magnitudes,
    normalize,
    subset_effects,
)
from attributionlab.verdicts import KNOWN, batch_maps, prepared
from attributionlab.worlds import Environment

CURVES: Mapping[str, Callable[..., Tensor]] = {
    "insertion": insertion_curve,
    "deletion": deletion_curve,
}
METRICS = ("insertion", "deletion", "sensitivity_n")
SCORES = ("f1_overall", "f1_positive", *METRICS)
OPPOSITE = (
    "Insertion in reading order, Deletion reversed",
    "Insertion reversed, Deletion in reading order",
)
"""Orders of equal pixels that differ between the two metrics."""
BLACK = 0.0
"""What replaces a pixel (F.4, G.4): the true baseline of binary images, an unseen color of others."""
DRAWS = 100
POINTS = 257
"""The number of points of a curve in a table."""
QUICK_SIZES = 162
"""How many N of Sensitivity-N a quick run looks at."""


class Study(NamedTuple):
    """What the truth and three metrics say about methods in one environment.

    `scores` has a row for each method, run (several of a method that optimizes) and image: the F1s
    (NaN where not applicable), areas, and Sensitivity-N (mean over all N). `curves` has those of first
    runs, mean, least and largest over images; `undefined` says at which N no method has a correlation
    in any image; `counted` is the mean share of pixels that the network counts.
    """

    env: Environment
    scores: pd.DataFrame
    curves: pd.DataFrame
    undefined: dict[str, Any]
    counted: float


def study(
    env: Environment,
    methods: Sequence[str],
    n: int,
    seed: int,
    *,
    unsigned: Sequence[str] = (),
    quick: bool = False,
    track: Callable[[Sequence[str]], Iterator[str]] = iter,
) -> Study:
    """Run methods and controls with the paper's settings, and score their maps.

    Of the methods in `unsigned` the maps without their signs are scored too, as `magnitude_of` names
    them. A quick study does not look at every N of Sensitivity-N.
    """
    images, labels = env.batch(n, seed)
    targets, truth = env.targets(labels), env.truth(images, env.targets(labels))
    maps = {
        (name, run): maps_of(name, env, n, seed, run)
        for name in track(methods)
        for run in range(as_method(name, KNOWN).runs)
    }
    maps |= {(magnitude_of(name), 0): maps[name, 0].abs() for name in unsigned}
    every, scaled = list(maps.values()), [normalize(each) for each in maps.values()]
    parts: tuple[Part, ...] = ("overall", "positive")
    scores: dict[str, list[Tensor]] = {
        f"f1_{part}": [
            alignment(magnitudes(each, part), getattr(truth, part)).f1 for each in scaled
        ]
        for part in parts
    }
    points: dict[str, NDArray[Any]] = {}
    curves: dict[str, NDArray[np.float64]] = {}
    fractions = curve_fractions(images[0, 0].numel())
    for name, function in CURVES.items():
        drawn = [_curves(function, env, images, targets, each) for each in every]
        scores[name] = [area_under_curve(each, fractions) for each in drawn]
        thin = _spread(len(fractions), POINTS)
        points[name] = fractions[thin].numpy()
        curves[name] = torch.stack([each[:, thin] for each in drawn]).double().numpy()
    sizes, correlations = _sensitivity(env, images, targets, every, seed, quick)
    scores["sensitivity_n"] = list(torch.from_numpy(correlations).nanmean(2))
    thin = _spread(len(sizes), POINTS)
    points["sensitivity_n"], curves["sensitivity_n"] = sizes[thin] + 0.0, correlations[..., thin]
    keys = [(*key, sample) for key in maps for sample in range(n)]
    values = {name: torch.cat(each).double().numpy() for name, each in scores.items()}
    return Study(
        env=env,
        scores=pd.DataFrame(keys, columns=["method", "run", "sample"]).assign(**values),
        curves=_curves_table(list(maps), points, curves),
        undefined=_undefined(env.name, sizes, correlations),
        counted=float(truth.overall.double().mean()),
    )


def magnitude_of(name: str) -> str:
    """What a method is called whose map's magnitudes are scored."""
    return f"{name}, magnitude"


def maps_of(name: str, env: Environment, n: int, seed: int, repeat: int = 0) -> Tensor:
    """A method's attributions with the paper's settings, summed over channels only, (n, 1, H, W); with
    `repeat` those of a run of its own.
    """
    method = as_method(name, KNOWN)
    setup = prepared(method, env, preset="paper", n=n, seed=seed)
    return batch_maps(setup, setup.batches(), repeat)


def constant_by_ties(env: Environment, n: int, seed: int) -> pd.DataFrame:
    """Mean Insertion and Deletion AUC of a map that is 1 everywhere, by the order of its equal pixels:
    the same for the two metrics, or opposite ones.
    """
    images, labels = env.batch(n, seed)
    ones = torch.ones_like(images[:, :1])
    # The later a pixel, the more: the order that a constant map has when ties are read backwards.
    rising = torch.arange(ones[0].numel()).reshape(ones[:1].shape).expand_as(ones)
    fractions = curve_fractions(ones[0].numel())

    def area(function: Callable[..., Tensor], maps: Tensor, **options: Any) -> float:
        curves = _curves(function, env, images, env.targets(labels), maps, **options)
        return float(area_under_curve(curves, fractions).mean())

    source = torch.Generator().manual_seed(seed)
    first, last = ([area(each, maps) for each in CURVES.values()] for maps in (ones, rising))
    rows = {
        "reading order": first,
        "reversed reading order": last,
        OPPOSITE[0]: (first[0], last[1]),
        OPPOSITE[1]: (last[0], first[1]),
        "random": [area(each, ones, ties="random", generator=source) for each in CURVES.values()],
    }
    return pd.DataFrame([(ties, *areas) for ties, areas in rows.items()], columns=["ties", *CURVES])


def replacement_table(studies: Sequence[Study]) -> pd.DataFrame:
    """Logits of an image of the replacement alone: a row for each environment and class."""
    rows = []
    for env in (each.env for each in studies):
        side = env.recipe.image_size
        with torch.no_grad():
            logits = env.model(torch.full((1, env.recipe.channels, side, side), BLACK))[0]
        rows += [(env.name, index, round(number)) for index, number in enumerate(logits.tolist())]
    return pd.DataFrame(rows, columns=["environment", "class", "logit"])


def _curves(
    function: Callable[..., Tensor],
    env: Environment,
    images: Tensor,
    targets: Tensor,
    maps: Tensor,
    **options: Any,
) -> Tensor:
    """(images, steps), of the output that is explained by default."""
    model = env.explained_model(env.outputs[0])
    result: Tensor = function(
        model, images, targets, maps, replacement=BLACK, measure=_measure(env), **options
    )
    return result


def _measure(env: Environment) -> Measure:
    """The output itself; for a remainder, which wraps, the steps that change it (F.4, F.5)."""
    return "changed-steps" if env.counting.modulus else "output"


def _sensitivity(
    env: Environment,
    images: Tensor,
    targets: Tensor,
    maps: Sequence[Tensor],
    seed: int,
    quick: bool,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Numbers of pixels N (S,), and the correlations (maps, images, S)."""
    pixels = images[0, 0].numel()
    sizes = 1 + _spread(pixels - 1, QUICK_SIZES if quick else pixels)  # all pixels are one subset
    model = env.explained_model(env.outputs[0])
    rows = []
    for index in range(len(images)):  # one by one: all draws of all sizes are many numbers
        one = slice(index, index + 1)
        effects = subset_effects(
            *(model, images[one], targets[one]),
            replacement=torch.tensor(BLACK),
            sizes=sizes.tolist(),
            draws=DRAWS,
            seed=int(np.random.SeedSequence([seed, index]).generate_state(1)[0]),
            measure=_measure(env),
        )
        rows.append([effects.correlations(each[one])[0].numpy() for each in maps])
    return sizes, np.array(rows).swapaxes(0, 1)


def _undefined(
    name: str, sizes: NDArray[np.int64], correlations: NDArray[np.float64]
) -> dict[str, Any]:
    """At which N there is nothing to correlate with: every draw gives the same output."""
    missing: NDArray[np.bool_] = np.logical_and.reduce(np.isnan(correlations), axis=(0, 1))
    first = int(sizes[missing][0]) if missing.any() else np.nan
    ever_after = bool(missing.any() and missing[missing.argmax() :].all())
    return {
        "environment": name,
        "share": missing.mean(),
        "first": first,
        "all_from_first": ever_after,
    }


def _curves_table(
    keys: Sequence[tuple[str, int]],
    points: Mapping[str, NDArray[Any]],
    curves: Mapping[str, NDArray[np.float64]],
) -> pd.DataFrame:
    """The curves of first runs: mean, least and largest over images, where some image has a value."""
    frames = []
    for metric, of_metric in curves.items():
        for (method, run), of_images in zip(keys, of_metric, strict=True):
            known = ~np.isnan(of_images).all(0)
            if run == 0:
                values = {
                    "x": points[metric][known],
                    "mean": np.nanmean(of_images[:, known], 0),
                    "low": np.nanmin(of_images[:, known], 0),
                    "high": np.nanmax(of_images[:, known], 0),
                }
                frames.append(pd.DataFrame({"metric": metric, "method": method, **values}))
    return pd.concat(frames, ignore_index=True)


def _spread(total: int, count: int) -> NDArray[np.int64]:
    """So many indices below a total, or all, evenly spread and with both ends."""
    return np.linspace(0, total - 1, min(count, total)).round().astype(np.int64)
