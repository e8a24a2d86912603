"""Perturbation metrics and the truth on the same maps: every method once on every image.

Curves are evaluated at every pixel, and areas are those of all steps; figures get some of the points.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.environment import Environment
from attributionlab.faithfulness.calls import always_offered, attribute_scene
from attributionlab.faithfulness.setup import Trial, chosen_outputs
from attributionlab.methods import METHODS, Method, Preset, as_method, heard, preset_of
from attributionlab.methods.controls import CONTROLS
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
from attributionlab.stats.runs import OfRuns, over_runs

Numbers = NDArray[np.float64]

BLACK = 0.0
"""What replaces a pixel (F.4, G.4): the true baseline of binary images, an unseen color of others."""
DRAWS = 100
POINTS = 257
"""Of a curve in a figure."""
QUICK_SIZES = 324
"""How many N of Sensitivity-N a quick run looks at."""


@dataclass(frozen=True, eq=False)
class Study:
    """What the truth and three metrics say about methods in one environment.

    Parameters
    ----------
    env : Environment
        Where.
    methods : sequence of str
        By name.
    scores : dict of str to array, (methods, images)
        "f1_overall", "f1_positive" (NaN where not applicable), "insertion", "deletion" (areas) and
        "sensitivity_n" (mean over all N).
    curves : dict of str to array, (methods, images, points)
        Of the three metrics.
    points : dict of str to array, (points,)
        The fraction of pixels inserted or deleted, and N.
    counted : array, (images,)
        The share of pixels that the network counts.
    runs : dict of str to dict of str to array, (runs, images)
        By method that optimizes and by score, `scores` of each of several runs, the first among them.
    """

    env: Environment
    methods: Sequence[str]
    scores: dict[str, Numbers]
    curves: dict[str, Numbers]
    points: dict[str, Numbers]
    counted: Numbers
    runs: Mapping[str, Mapping[str, Numbers]] = field(default_factory=dict)

    def rows(self, methods: Sequence[str]) -> Iterator[tuple[str, str, OfRuns]]:
        """Rows of a table: the name of each, its method, and which of the values of the method's runs
        (`in_run`) it takes: the first and, where the method optimizes, the lowest and the highest.
        """
        for method in methods:
            yield method, method, lambda values: values[0]
            known = len(next(iter(self.runs[method].values()))) if method in self.runs else 1
            for name, end in over_runs(known).items():
                yield f"{method}, {name}", method, end

    def in_run(self, score: str, method: str) -> list[Numbers]:
        """(images,) for each run of a method."""
        if method in self.runs:
            return list(self.runs[method][score])
        return [self.scores[score][self.methods.index(method)]]


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
    """Run methods with the paper's settings, and score their maps.

    Parameters
    ----------
    env : Environment
        Where.
    methods : sequence of str
        Built-in methods and controls, by name.
    n, seed : int
        How many images, and which.
    unsigned : sequence of str
        Of these the maps without their signs are scored too, under the name that `magnitude_of` gives.
    quick : bool
        Not every N for Sensitivity-N.
    track : callable
        Passes the methods on; may show progress.
    """
    images, labels = env.batch(n, seed)
    targets = env.targets(labels)
    truth = env.truth(images, targets)
    by_name, others = {}, {}
    for name in track(methods):
        by_name[name], *others[name] = _of_runs(name, env, n, seed)
    by_name |= {magnitude_of(name): by_name[name].abs() for name in unsigned}
    maps = [*by_name.values(), *(each for of_name in others.values() for each in of_name)]
    scaled = [normalize(each) for each in maps]
    parts: tuple[Part, ...] = ("overall", "positive")
    scores = {
        f"f1_{part}": _stacked(
            [alignment(magnitudes(each, part), getattr(truth, part)).f1 for each in scaled]
        )
        for part in parts
    }
    curves, points = {}, {}
    fractions = curve_fractions(images[0, 0].numel())
    thin = _spread(len(fractions), POINTS)
    for name, function in (("insertion", insertion_curve), ("deletion", deletion_curve)):
        drawn = [_curves(function, env, images, targets, each) for each in maps]
        scores[name] = _stacked([area_under_curve(each, fractions) for each in drawn])
        curves[name] = _stacked([each[:, thin] for each in drawn])
        points[name] = fractions[thin].numpy()
    sizes, correlations = _sensitivity(env, images, targets, maps, seed, quick)
    scores["sensitivity_n"] = torch.from_numpy(correlations).nanmean(2).numpy()
    thin = _spread(len(sizes), POINTS)
    curves["sensitivity_n"], points["sensitivity_n"] = correlations[:, :, thin], sizes[thin] + 0.0
    counted = truth.overall.double().mean((1, 2, 3)).numpy()
    count, places = len(by_name), {name: [place] for place, name in enumerate(by_name)}
    for name, of_name in others.items():
        places[name] += range(count, count + len(of_name))
        count += len(of_name)
    runs = {
        name: {score: values[rows] for score, values in scores.items()}
        for name, rows in places.items()
        if len(rows) > 1
    }
    first = slice(len(by_name))
    return Study(
        env=env,
        methods=tuple(by_name),
        scores={score: values[first] for score, values in scores.items()},
        curves={metric: values[first] for metric, values in curves.items()},
        points=points,
        counted=counted,
        runs=runs,
    )


def magnitude_of(name: str) -> str:
    """What a method is called whose map's magnitudes are scored."""
    return f"{name}, magnitude"


def maps_of(name: str, env: Environment, n: int, seed: int, repeat: int = 0) -> Tensor:
    """A method's attributions with the paper's settings, summed over channels only, (n, 1, H, W); with
    `repeat` those of a run of its own.
    """
    prepared, method = _prepared(name, env)
    output, held = chosen_outputs(env, None, None, prepared, method.output)
    trial = Trial(env, output, held, "overall", 0.5, n, seed, diagnosed=False)
    always = always_offered(method, trial)
    with heard():  # what is unusual about a method is told by `test` and `compare`
        scenes = trial.scenes("", show_progress=False)
        found = [attribute_scene(method, trial, each, always, repeat).maps for each in scenes]
    return torch.cat(found)


def _of_runs(name: str, env: Environment, n: int, seed: int) -> list[Tensor]:
    """Maps of every run of a method that optimizes, and of the only one of others."""
    runs = _prepared(name, env)[1].runs
    return [maps_of(name, env, n, seed, repeat) for repeat in range(runs)]


def _prepared(name: str, env: Environment) -> tuple[Preset, Method]:
    """The paper's settings, and the method with them."""
    preset = preset_of("paper", env.task, name)
    return preset, as_method(name, METHODS | CONTROLS, preset.settings)


def constant_by_ties(env: Environment, n: int, seed: int) -> dict[str, tuple[float, float]]:
    """Mean Insertion and Deletion AUC of a map that is 1 everywhere, by how its ties are broken.

    Returns
    -------
    dict of str to (float, float)
        By what orders the pixels: the two metrics in the same way, or in opposite ways.
    """
    images, labels = env.batch(n, seed)
    ones = torch.ones_like(images[:, :1])
    # The later a pixel, the more: the order that a constant map has when ties are read backwards.
    rising = torch.arange(ones[0].numel()).reshape(ones[:1].shape).expand_as(ones)

    def areas(maps: Tensor, **options: Any) -> tuple[float, float]:
        fractions = curve_fractions(ones[0].numel())
        insertion, deletion = (
            _curves(function, env, images, env.targets(labels), maps, **options)
            for function in (insertion_curve, deletion_curve)
        )
        insertion, deletion = (area_under_curve(each, fractions) for each in (insertion, deletion))
        return float(insertion.mean()), float(deletion.mean())

    first, last = areas(ones), areas(rising)
    return {
        "reading order": first,
        "reversed reading order": last,
        "Insertion in reading order, Deletion reversed": (first[0], last[1]),
        "Insertion reversed, Deletion in reading order": (last[0], first[1]),
        "random": areas(ones, ties="random", generator=torch.Generator().manual_seed(seed)),
    }


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
        *(model, images, targets, maps), replacement=BLACK, measure=_measure(env), **options
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
) -> tuple[NDArray[np.int64], Numbers]:
    """Numbers of pixels N (S,), and the correlations (methods, images, S)."""
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


def _spread(total: int, count: int) -> NDArray[np.int64]:
    """So many indices below a total, or all, evenly spread and with both ends."""
    return np.linspace(0, total - 1, min(count, total)).round().astype(np.int64)


def _stacked(each: Sequence[Tensor]) -> Numbers:
    return torch.stack(list(each)).double().numpy()
