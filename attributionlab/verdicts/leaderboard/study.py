"""Rank methods in many cases, by what two removals and the truth say about the maps of each for one
network; fuse the rankings, and hold the result against the truth.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Literal, NamedTuple, Unpack, get_args

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor, nn

from attributionlab import metrics
from attributionlab.base import (
    CONFIDENCE,
    MOST_IMAGES,
    AttributionLabError,
    Numbers,
    Stopped,
    exact,
    explained_arguments,
    integer_problem,
    number_problem,
    own_arithmetic,
    refuse_if,
    repeated_problem,
    run_name,
)
from attributionlab.methods import AttributionMethod, as_method
from attributionlab.runs import Cell, Running, fingerprint, values
from attributionlab.verdicts.controls import KNOWN
from attributionlab.verdicts.faithfulness.calls import batch_maps
from attributionlab.verdicts.faithfulness.setup import prepared
from attributionlab.verdicts.leaderboard.agreement import FEWEST_METHODS
from attributionlab.verdicts.leaderboard.cases import PAIRS, PROTOCOLS, CaseScores, Pair, RemovedTo
from attributionlab.verdicts.leaderboard.report import CONTROL, ORACLE, Leaderboard
from attributionlab.verdicts.metric_trials.agreement import f1_of_maps, mean_over_images, truths_of
from attributionlab.worlds import Environment
from attributionlab.worlds.truth import Truth

IndicatorName = Literal["accuracy", "label-probability"]
"""Whether the label has the largest output, which jumps, or its softmax probability."""


class Explained(NamedTuple):
    """Images of one network with a map of each method for each of them."""

    images: Float[Tensor, "images channels height width"]
    targets: Int[Tensor, " images"]
    truth: Truth
    maps: Mapping[str, Tensor]
    """by method, (images, 1, H, W); runs of a method that optimizes beside its first by `run_name`"""
    reasons: Mapping[str, str]
    """of the methods that could not be run, why"""


def explained(methods: Sequence[Any], env: Environment, n: int, seed: int) -> Explained:
    """Attributions of every method that can be run, with the settings that the paper states for it.

    The truth of a classification is that of the label's probability for every method, also for those
    that explain logits.
    """
    resolved = [as_method(each, KNOWN) for each in methods]
    setups = [
        prepared(method, env, None, env.outputs[0], preset="paper", n=n, seed=seed)
        for method in resolved
    ]
    batches = list(setups[0].batches())
    maps: dict[str, Tensor] = {}
    reasons: dict[str, str] = {}
    for method, setup in zip(resolved, setups, strict=True):
        try:
            runs = [batch_maps(setup, batches, repeat) for repeat in range(method.runs)]
        except AttributionLabError as error:
            reasons[method.name] = str(error)
        else:
            maps |= {
                run_name(method.name, index): found.float() for index, found in enumerate(runs)
            }
    return Explained(
        torch.cat([batch.images for batch in batches]),
        torch.cat([batch.targets for batch in batches]),
        Truth.joined([batch.truth for batch in batches]),
        maps,
        reasons,
    )


def indicated(
    outputs: Float[Tensor, "*points classes"],
    target: int,
    name: IndicatorName | None,
    temperature: float,
) -> Float64[Tensor, " *points"]:
    """`attributionlab.metrics.accuracy` or `label_probability` of many outputs for one label; without a
    name the output itself, of a regression.
    """
    if name is None:
        return outputs[..., target].double()
    points = outputs.flatten(0, -2)
    targets = torch.full((len(points),), target, device=points.device)
    if name == "accuracy":
        values = metrics.accuracy(points, targets)
    else:
        values = metrics.label_probability(points, targets, temperature=temperature)
    return values.view(outputs.shape[:-1])


def removed_pixel(env: Environment, removed_to: RemovedTo) -> Float[Tensor, "channels 1 1"]:
    """What removed pixels become, where the network is."""
    return env.baseline if removed_to == "true baseline" else env.baseline * 0


def indicator_curves(
    model: nn.Module,
    images: Float[Tensor, "images channels height width"],
    targets: Int[Tensor, " images"],
    orders: Int[Tensor, "images draws pixels"],
    *,
    replacement: Float[Tensor, "channels 1 1"],
    indicator: IndicatorName | None,
    temperature: float,
) -> Iterator[Float64[Tensor, "draws counts"]]:
    """An indicator after 0, 1, ..., P removed pixels, image by image, along each order.

    Networks of the laboratory are followed from pixel to pixel (`attributionlab.exact.trajectories`),
    which equals a forward pass for each point.

    - `indicator`: what the curves show; None: the output itself.
    """
    canvas = replacement.expand(images.shape[1:])[None]
    for image, target, of_image in zip(images, targets, orders, strict=True):
        outputs = exact.trajectories(model, image[None], canvas, of_image[None])[0]
        yield indicated(outputs, int(target), indicator, temperature)


def areas_of(
    seen: Explained, env: Environment, removed_to: RemovedTo, indicator: IndicatorName
) -> dict[str, Numbers]:
    """Area under each image's curve over the fraction removed, by protocol: (methods, images).

    The data set's curve is the mean over images, and so is the area under it.

    - `indicator`: what the curves show; those of a regression show its output.
    """
    orders = [
        torch.stack([metrics.removal_order(maps, order=order) for maps in seen.maps.values()], 1)
        for order in PROTOCOLS.values()
    ]
    curves = indicator_curves(
        env.model,
        seen.images.to(env.device),
        seen.targets,
        torch.cat(orders, 1),
        replacement=removed_pixel(env, removed_to),
        indicator=indicator if env.task == "classification" else None,
        temperature=env.temperature or 1.0,
    )
    fractions = metrics.curve_fractions(seen.images[0, 0].numel())
    areas = np.stack(
        [metrics.area_under_curve(each, fractions).cpu().numpy() for each in curves], 1
    )
    return dict(zip(PROTOCOLS, np.split(areas, len(PROTOCOLS)), strict=True))


def f1_of(seen: Explained) -> dict[metrics.Part, Numbers]:
    """F1 of the maps with each part of the truth, (methods, images); what is not asked is dropped."""
    found = [f1_of_maps(maps, seen.truth) for maps in seen.maps.values()]
    return {part: np.stack([each[part] for each in found]) for part in found[0]}


PAPER_METHODS = (
    "input-x-gradient",
    "integrated-gradients",
    "deep-lift",
    "saliency",
    "lrp",
    "guided-backprop",
    "guided-gradcam",
    "deconvolution",
)
"""The paper's eight, in the order of its Table 4, best first."""
DEFAULT_METHODS = (
    *PAPER_METHODS,
    "deep-lift-true-baseline",
    "gradcam",
    "integrated-gradients-exact",
    "integrated-gradients-true-baseline",
    "occlusion",
    "occlusion-true-baseline",
)
"""The paper's and those others that take well below a second for an image. Not DeepSHAP, which with
one black reference is DeepLIFT."""
SIZE, QUICK_SIZE = 48, 32
IMAGES, QUICK_IMAGES = 16, 6


@explained_arguments
def rank_methods(
    methods: Sequence[AttributionMethod] | None = None,
    n: int | None = None,
    seed: int = 0,
    *,
    pairs: Sequence[Pair] = PAIRS,
    indicator: IndicatorName = "accuracy",
    quick: bool = False,
    size: int | None = None,
    confidence: float = CONFIDENCE,
    **running: Unpack[Running],
) -> Leaderboard:
    """Rank attribution methods by removal in many cases, fuse the rankings and compare with the truth.

    A case is a pair of images and a network, whose pixels are removed in a method's order, most
    relevant first (MoRF) or least relevant first (LeRF). Its score is the area under the data set's
    curve of an indicator over the fraction removed, from 0 to 1: low is good under MoRF, high under
    LeRF. `attributionlab.ranking.meta_rank` fuses the rankings into one score. The truth, which the
    paper could not know, ranks methods by F1: the lowest of those on the positive, the negative and all
    pixels, on average over the images of the same cases.

    Source: Duan, Li, Zhang, Jiang, Xue, Sun, Song and Song (2024): On the evaluation consistency of
    attribution-based explanations. ECCV.

    Parameters
    ----------
    methods : sequence, optional
        Whatever `attributionlab.faithfulness_test` takes, at least two; the paper's eight and six more
        by default (`DEFAULT_METHODS`). The control "random" is ranked with them; the oracle is
        evaluated separately.
    n : int, optional
        Images of each pair; 16 by default, 6 with `quick`.
    seed : int
        Seed for images, random weights, methods that draw random numbers, and resampling.
    pairs : sequence of Pair
        Images and networks, each in both orders; 13 by default. One whose environment is named
        "random:N:DIFFICULTY:SEED" stands for N pairs, one for each world.
    indicator : {"accuracy", "label-probability"}
        How the effect of removal is measured. The accuracy of an image jumps from 1 to 0 once. In
        regression worlds it is the output; in worlds nothing is unseen, and removed pixels get the true
        baseline.
    quick : bool
        Use 32 x 32 pixels instead of 48 x 48.
    size : int, optional
        Side of the images in pixels.
    confidence : float
        Confidence of each interval.
    **running
        As for `attributionlab.compare`. Removal is always computed on the CPU.

    Raises
    ------
    AttributionLabError
        For fewer than two methods or cases, a method that is named twice or cannot be run in any case,
        a pair without accuracy, and invalid numbers.

    Examples
    --------
    >>> from attributionlab.verdicts import PAIRS, rank_methods
    >>> board = rank_methods(["lrp", "saliency"], n=2, pairs=PAIRS[:2], size=16)
    >>> board.to_frame()[["method", "place", "cases"]].values.tolist()
    [['saliency', 1, 4], ['lrp', 2, 4], ['random', 3, 4]]
    """
    images = (QUICK_IMAGES if quick else IMAGES) if n is None else n
    side = (QUICK_SIZE if quick else SIZE) if size is None else size
    named = _named(methods)
    refuse_if(
        [
            *integer_problem("n", images, 1, MOST_IMAGES),
            *integer_problem("seed", seed, 0),
            *integer_problem("size", side, 8),
            *number_problem("confidence", confidence, above=0, below=1),
            *_pairs_problem(pairs),
            *_indicator_problem(indicator),
        ]
    )
    pairs = [each for pair in pairs for each in pair.in_worlds(side)]
    resolved = [as_method(each, KNOWN) for each in named]
    names = [each.name for each in resolved]
    ranked = list(dict.fromkeys((*names, CONTROL)))
    everybody = [*named, *(() if CONTROL in names else (CONTROL,)), ORACLE]
    groups = _groups(pairs, side, seed, running.get("device"))
    cells = [_cell(each, everybody, images, each.seed_of(seed), indicator) for each in groups]
    done, stop = values(cells, "ranking methods", running)
    group_of = {cell.key: group for cell, group in zip(cells, groups, strict=True)}
    cases = [
        case._replace(pair=number)
        for cell, value in done
        for number, of_pair in zip(group_of[cell.key].pairs, value, strict=True)
        for case in of_pair
    ]
    cases.sort(key=attrgetter("pair"))
    said = f"{len({case.pair for case in cases})} of {len(pairs)} pairs were done"
    absent = [name for name in ranked if not any(name in case.areas for case in cases)]
    if stop is not None and absent:
        raise Stopped(said) from stop
    if absent:
        raise AttributionLabError(
            f"{absent[0]} could not be run in any case: leave it out ({cases[0].reasons[absent[0]]})"
        )
    board = Leaderboard(
        methods=ranked,
        cases=cases,
        indicator=indicator,
        n=images,
        size=side,
        seed=seed,
        confidence=confidence,
        wanted=len(pairs),
    )
    if stop is not None:
        raise Stopped(said, board) from stop
    return board


class _Group(NamedTuple):
    """Pairs with the same network, images and maps: pixels may become black and the background."""

    env: Environment
    pairs: dict[int, Pair]
    """by number"""

    def seed_of(self, seed: int) -> int:
        """Seed of the images: a random world has its own, or all would have the same ones."""
        drawn = any(isinstance(each.environment, Environment) for each in self.pairs.values())
        return self.env.spec.seed if drawn else seed


@own_arithmetic()
def _groups(
    pairs: Sequence[Pair], size: int, seed: int, device: str | torch.device | None
) -> list[_Group]:
    groups: dict[str, _Group] = {}
    for number, pair in enumerate(pairs):
        env = pair.load(size, seed).to("cpu" if device is None else device)
        groups.setdefault(env.spec.digest, _Group(env, {})).pairs[number] = pair
    return list(groups.values())


def _cell(
    group: _Group, methods: Sequence[Any], n: int, seed: int, indicator: IndicatorName
) -> Cell:
    """A group as work for the store."""
    env, pairs = group.env, list(group.pairs.values())
    resolved = [as_method(each, KNOWN) for each in methods]
    return Cell(
        "leaderboard",
        {"pairs": "; ".join(each.name for each in pairs), "spec": env.spec.digest[:8]},
        {
            "pairs": [(each.data, each.network, each.removed_to) for each in pairs],
            "environment": env.spec.digest,
            "methods": [
                (each.name, each.built_in or fingerprint(each.function), dict(each.settings))
                for each in resolved
            ],
            "n": n,
            "seed": seed,
            "indicator": indicator,
            "device": str(env.device),
        },
        partial(_scored, methods, env, pairs, n, seed, indicator),
    )


@own_arithmetic()
def _scored(
    methods: Sequence[Any],
    env: Environment,
    pairs: Sequence[Pair],
    n: int,
    seed: int,
    indicator: IndicatorName,
    device: str | None,
) -> list[list[CaseScores]]:
    """Both protocols of each pair of a group."""
    if device is not None:
        env = env.to(device)
    seen = explained(methods, env, n, seed)
    if not seen.maps.keys() - {CONTROL, ORACLE}:
        name, reason = next(iter(seen.reasons.items()))
        raise AttributionLabError(f"no method ran on {pairs[0].name}; {name}: {reason}")
    return [_cases_of(pair, env, seen, indicator) for pair in pairs]


def _cases_of(
    pair: Pair, env: Environment, seen: Explained, indicator: IndicatorName
) -> list[CaseScores]:
    """Both protocols of a pair, which is not numbered yet."""
    means = {name: mean_over_images(each).tolist() for name, each in truths_of(f1_of(seen)).items()}
    found = areas_of(seen, env, pair.removed_to, indicator)
    unseen = pair.shows_unseen_data(env)
    return [
        CaseScores(
            pair=0,
            data=pair.data,
            network=pair.network,
            protocol=protocol,
            unseen=unseen,
            areas=dict(zip(seen.maps, areas.mean(1).tolist(), strict=True)),
            truth={
                method: {name: each[row] for name, each in means.items()}
                for row, method in enumerate(seen.maps)
            },
            reasons=seen.reasons,
            in_world=bool(env.rule),
            features=env.features,
        )
        for protocol, areas in found.items()
    ]


def _named(methods: Any) -> list[Any]:
    """What to rank; refused where there is nothing to compare."""
    chosen = list(DEFAULT_METHODS) if methods is None else methods
    if not isinstance(chosen, list | tuple):
        raise AttributionLabError(f"methods are {methods!r}: name at least two, in a list")
    names = [as_method(each, KNOWN).name for each in chosen]
    refuse_if(repeated_problem("methods", names))
    if ORACLE in names:
        raise AttributionLabError(
            f"methods name {ORACLE!r}, which is always scored, but not ranked: leave it out"
        )
    if len([name for name in names if name != CONTROL]) < FEWEST_METHODS:
        raise AttributionLabError(
            f"methods are {names}: name at least two beside {CONTROL!r}, a ranking needs two"
        )
    return list(chosen)


def _pairs_problem(pairs: Any) -> list[str]:
    if not isinstance(pairs, list | tuple) or not all(isinstance(each, Pair) for each in pairs):
        return [f"pairs are {pairs!r}: pass a list of attributionlab.verdicts.leaderboard.Pair"]
    if not pairs:
        return ["pairs are empty: name at least one, which is two cases"]
    twice = [name for name, count in Counter(each.name for each in pairs).items() if count > 1]
    return [f"pairs name {name!r} twice: give each a label of its own" for name in twice[:1]]


def _indicator_problem(indicator: Any) -> list[str]:
    known = get_args(IndicatorName)
    return [] if indicator in known else [f"indicator is {indicator!r}: take {' or '.join(known)}"]
