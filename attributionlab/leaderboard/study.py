"""Rank methods in many cases, fuse the rankings, and hold the result against the truth."""

from collections import Counter
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, get_args

import torch

from attributionlab.device import own_arithmetic
from attributionlab.environment import Environment
from attributionlab.errors import AttributionLabError, refuse_if
from attributionlab.leaderboard.agreement import FEWEST_METHODS
from attributionlab.leaderboard.cases import PAIRS, CaseScores, Pair
from attributionlab.leaderboard.evaluation import (
    Explained,
    IndicatorName,
    areas_of,
    explained,
    f1_of,
)
from attributionlab.leaderboard.report import CONTROL, ORACLE, Leaderboard
from attributionlab.methods import METHODS, AttributionMethod, as_method
from attributionlab.methods.controls import CONTROLS
from attributionlab.metric_trials.agreement import RankedBy, lowest_part
from attributionlab.progress import track
from attributionlab.stats.resampling import confidence_problem
from attributionlab.validation import MOST_IMAGES, integer_problem

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


@own_arithmetic()
def rank_methods(
    methods: Sequence[AttributionMethod] | None = None,
    n: int | None = None,
    seed: int = 0,
    *,
    pairs: Sequence[Pair] = PAIRS,
    indicator: IndicatorName = "accuracy",
    quick: bool = False,
    size: int | None = None,
    confidence: float = 0.95,
    device: str | torch.device | None = None,
    show_progress: bool = False,
    command: str = "",
) -> Leaderboard:
    """Rank attribution methods by removal in many cases, fuse the rankings by Meta-Rank, and see how
    far the result is the truth's.

    A case is a pair of images and a network, whose pixels are removed from the most to the least
    relevant (MoRF) or the other way round (LeRF), as a method orders them. Its score is the area under
    the data set's curve of an indicator over the fraction removed, from 0 to 1: low is good under MoRF,
    high under LeRF. `attributionlab.ranking.meta_rank` makes one score out of the rankings. The truth,
    which the paper could not know, ranks methods by F1: the lowest of those on the positive, the
    negative and all pixels, on average over the images of the same cases.

    Parameters
    ----------
    methods : sequence, optional
        Whatever `attributionlab.faithfulness_test` takes, at least two; the paper's eight and six more
        by default (`DEFAULT_METHODS`). The control "random" is ranked beside them, the oracle is looked
        at alone.
    n : int, optional
        Images of each pair; 16 by default, 6 with `quick`.
    seed : int
        Seed for images, random weights, methods that draw, and resampling.
    pairs : sequence of Pair
        Images and networks, each in both orders; 13 by default.
    indicator : {"accuracy", "label-probability"}
        What removal is seen by. The accuracy of an image jumps from 1 to 0 once.
    quick : bool
        32 x 32 pixels instead of 48 x 48.
    size : int, optional
        Side of the images in pixels.
    confidence : float
        Confidence of each interval.
    device : str or torch.device, optional
        Where methods compute; the CPU by default. Removal is followed on the CPU in any case.
    show_progress : bool
        Show progress on standard error.
    command : str
        How to run this again, for the report.

    Returns
    -------
    Leaderboard

    Raises
    ------
    AttributionLabError
        For fewer than two methods or cases, a method that is named twice or cannot be run in any case,
        a pair without accuracy, and impossible numbers.

    References
    ----------
    Duan, Li, Zhang, Jiang, Xue, Sun, Song and Song (2024): On the evaluation consistency of
    attribution-based explanations. ECCV.

    Examples
    --------
    >>> from attributionlab.leaderboard import PAIRS, rank_methods
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
            *confidence_problem(confidence),
            *_pairs_problem(pairs),
            *_indicator_problem(indicator),
        ]
    )
    chosen = list(pairs)
    names = [as_method(each, METHODS | CONTROLS).name for each in named]
    everybody = [*named, *(() if CONTROL in names else (CONTROL,)), ORACLE]
    known: dict[str, Explained] = {}
    cases: list[CaseScores] = []
    for number, pair in enumerate(
        track(chosen, len(chosen), "ranking methods", show_progress, "pairs", attrgetter("name"))
    ):
        env = pair.load(side, seed).to("cpu" if device is None else device)
        if env.spec.digest not in known:  # pixels may become black and the background
            known[env.spec.digest] = explained(everybody, env, images, seed)
        seen = known[env.spec.digest]
        _refuse_where_nothing_ran(pair, seen)
        cases += _cases_of(number, pair, env, seen, indicator)
    ranked = list(dict.fromkeys((*names, CONTROL)))
    _refuse_absent(ranked, cases)
    return Leaderboard(
        methods=ranked,
        cases=cases,
        indicator=indicator,
        n=images,
        size=side,
        seed=seed,
        confidence=confidence,
        command=command,
    )


def _cases_of(
    number: int, pair: Pair, env: Environment, seen: Explained, indicator: IndicatorName
) -> list[CaseScores]:
    """Both protocols of a pair."""
    f1 = f1_of(seen)
    by: dict[RankedBy, Any] = {
        "overall": f1["overall"],
        "positive": f1["positive"],
        "signed": lowest_part(f1),
    }
    means = {name: values.mean(1).tolist() for name, values in by.items()}
    found = areas_of(seen, env, pair.removed_to, indicator)
    unseen = pair.shows_unseen_data(env)
    return [
        CaseScores(
            pair=number,
            data=pair.data,
            network=pair.network,
            protocol=protocol,
            unseen=unseen,
            areas=dict(zip(seen.maps, areas.mean(1).tolist(), strict=True)),
            truth={
                method: {name: values[row] for name, values in means.items()}
                for row, method in enumerate(seen.maps)
            },
            reasons=seen.reasons,
        )
        for protocol, areas in found.items()
    ]


def _named(methods: Any) -> list[Any]:
    """What to rank; refused where there is nothing to compare."""
    chosen = list(DEFAULT_METHODS) if methods is None else methods
    if not isinstance(chosen, list | tuple):
        raise AttributionLabError(f"methods are {methods!r}: name at least two, in a list")
    names = [as_method(each, METHODS | CONTROLS).name for each in chosen]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise AttributionLabError(f"methods name {twice[0]!r} twice: name each once")
    if ORACLE in names:
        raise AttributionLabError(
            f"methods name {ORACLE!r}, which is looked at anyway, and not ranked: leave it out"
        )
    if len([name for name in names if name != CONTROL]) < FEWEST_METHODS:
        raise AttributionLabError(
            f"methods are {names}: name at least two beside {CONTROL!r}, a ranking of one says nothing"
        )
    return list(chosen)


def _refuse_where_nothing_ran(pair: Pair, seen: Explained) -> None:
    ran = [name for name in seen.maps if name not in (CONTROL, ORACLE)]
    if not ran:
        name, reason = next(iter(seen.reasons.items()))
        raise AttributionLabError(f"no method ran on {pair.name}; {name}: {reason}")


def _refuse_absent(methods: Sequence[str], cases: Sequence[CaseScores]) -> None:
    for method in methods:
        if not any(method in case.areas for case in cases):
            raise AttributionLabError(
                f"{method} could not be run in any case: leave it out ({cases[0].reasons[method]})"
            )


def _pairs_problem(pairs: Any) -> list[str]:
    if not isinstance(pairs, list | tuple) or not all(isinstance(each, Pair) for each in pairs):
        return [f"pairs are {pairs!r}: pass a list of attributionlab.leaderboard.Pair"]
    if not pairs:
        return ["pairs are empty: name at least one, which is two cases"]
    twice = [name for name, count in Counter(each.name for each in pairs).items() if count > 1]
    return [f"pairs name {name!r} twice: give each a label of its own" for name in twice[:1]]


def _indicator_problem(indicator: Any) -> list[str]:
    known = get_args(IndicatorName)
    return [] if indicator in known else [f"indicator is {indicator!r}: take {' or '.join(known)}"]
