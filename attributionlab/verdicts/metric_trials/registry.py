"""The registry of metrics: every metric of `attributionlab.metrics` by name, and anybody's function."""

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Unpack, get_args, get_origin, is_typeddict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from attributionlab import metrics
from attributionlab.base import (
    AttributionLabError,
    AttributionWarning,
    format_error,
    in_one_line,
    nearest,
    place_of,
    refuse_if,
)
from attributionlab.methods import isolated, restored
from attributionlab.metrics import DECLARED, Takes, marking_problems
from attributionlab.verdicts.metric_trials.blind import BLIND
from attributionlab.verdicts.metric_trials.case import Evaluation
from attributionlab.verdicts.metric_trials.scores import SHARED, Sees

Scores = NDArray[np.float64]

PIXELS_AT_ONCE = 2**20
"""Pixels of the images that a metric without shared evaluations gets in a batch: 20 maps at 224 x 224,
202 at 72 x 72. What they share is worked out once a batch."""

OFFERED = frozenset({"replacement", "truth", "values", "information", "seed"})
"""Parameters that a function is given if it declares them."""

Handed = Literal["attributions", "attribute", "others"]
"""What a metric scores: maps, a method, or maps beside those of another method."""

ACCEPTED: Mapping[Handed, str] = {
    "attributions": "(model, images, targets, attributions, *, ...), or without a model as "
    f"(attributions, *, ...), where ... are any of {', '.join(sorted(OFFERED))}",
    "attribute": "(model, images, targets, attribute), these names in any order, with radius, layer or "
    "seed where it needs them",
    "others": "(attributions, others, *, ...), or (model, images, targets, attributions, others, *, "
    f"...), where ... are any of {', '.join(sorted(OFFERED))}",
}
"""How a metric is called, by what it scores."""

NOT_GIVEN: Mapping[str, str] = {
    "attribute": "it lets a method explain changed images, and the test ranks ready maps",
    "changes": "it compares sums in units of the output, and the ranked maps have no common scale",
    "others": "it compares the maps of two methods, and the test ranks each for itself",
    "closeness": "it compares the maps of different images, and the test ranks the maps of one",
}
"""Why a metric with such a parameter cannot rank ready maps."""

SHORT_NAMES = {
    "soundness": "soundness-at",
    "completeness": "completeness-at",
    "single-deletion": "sds",
    "incremental-deletion": "ids",
}
"""Second names of metrics."""


@dataclass(frozen=True)
class Metric:
    """A metric that can be tested.

    - `higher_is_better`: which maps it prefers.
    - `scores`: an evaluation -> a number for each of its maps, NaN where not applicable.
    - `sees`: what the scores depend on.
    - `takes`: what the outputs of the model are that it is handed; None: what is explained.
    """

    name: str
    higher_is_better: bool
    scores: Callable[[Evaluation], Scores]
    sees: Sees
    function: Any
    takes: Takes | None = None


def as_metric(
    metric: Any, higher_is_better: bool | None = None, takes: Takes | None = None
) -> Metric:
    """Adapt whatever scores attributions.

    `metric`: a name in `METRICS` or `blind.BLIND`, or a function ``(model, images, targets,
    attributions, *, ...) -> (B,)``. Of `replacement` (C, H, W), `truth` (the positive mask, (B, 1, H,
    W)), `values` (exact Shapley values, (B, 1, H, W)), `information` (those above 0) and `seed` it is
    given what it declares; one that declares no `model` is called ``(attributions, *, ...)``.
    `higher_is_better`, `takes`: for a function that does not say so itself
    (`attributionlab.metrics.metric`).

    Raises AttributionLabError for an unknown name, for what cannot be called, does not say which
    direction is better or is defined on a data set only, and for parameters that are not given.
    """
    if isinstance(metric, str):
        if metric not in METRICS and metric not in FUNCTIONS and metric not in BLIND:
            known = nearest(metric.replace("_", "-"), [*METRICS, *BLIND, *FUNCTIONS])
            raise AttributionLabError(f"no metric named {metric!r}: {known}")
        if higher_is_better is not None:
            raise AttributionLabError(
                f"higher_is_better is {higher_is_better!r}: {metric} says itself which direction is "
                "better, leave it out"
            )
        if takes is not None:
            raise AttributionLabError(
                f"takes is {takes!r}: {metric} is handed what is explained, leave it out"
            )
        if metric in BLIND:
            return _by_batches(BLIND[metric], metric, BLIND[metric].higher_is_better)
        if metric not in METRICS:
            raise AttributionLabError(refusal(metric))
        return METRICS[metric]
    name, better = stated_direction(metric, higher_is_better)
    if (scored := handed(metric, name)) != "attributions":
        raise AttributionLabError(
            f"{name} cannot be tested: {NOT_GIVEN[scored]}; check its code with "
            "attributionlab.check_metric, or attributionlab metric METRIC --checks-only"
        )
    refuse_if(marking_problems(takes=takes), name)
    return _by_batches(metric, name, better, takes or _stated(metric, "takes"))


def stated_direction(metric: Any, higher_is_better: bool | None) -> tuple[str, bool]:
    """Name and direction of a function, if it is marked as a metric of maps or methods may be."""
    if not callable(metric):
        raise AttributionLabError(f"metric is {metric!r}: pass a name or a function")
    name = str(_stated(metric, "__name__", type(metric).__name__))
    better = _stated(metric, "higher_is_better") if higher_is_better is None else higher_is_better
    if not isinstance(better, bool):
        raise AttributionLabError(
            f"{name} does not say which direction is better: mark it with "
            "attributionlab.metrics.metric, or pass higher_is_better"
        )
    stated = {key: _stated(metric, key, ABSENT) for key in ("per_sample", "maps", *DECLARED)}
    marks = {key: value for key, value in stated.items() if value is not ABSENT}
    refuse_if(marking_problems(**marks), name)
    if not marks.get("per_sample", True):
        raise AttributionLabError(
            f"{name} is defined on a data set only (per_sample=False), and maps are ranked image by "
            "image: write a function that returns one number for each attribution"
        )
    return name, better


def handed(function: Any, name: str) -> Handed:
    """What a metric scores, by its parameters without default."""
    parameters_of(function, name)  # refuses a function whose parameters cannot be read
    asked = required(function)
    return (
        "attribute" if "attribute" in asked else "others" if "others" in asked else "attributions"
    )


def not_given(function: Any, name: str) -> set[str]:
    """Parameters without default that a test of ready maps has nothing for."""
    return NOT_GIVEN.keys() & parameters_of(function, name) & {*required(function)}


def required(function: Any) -> list[str]:
    """Parameters that a function must be given."""
    parameters = inspect.signature(function).parameters.values()
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return [
        each.name for each in parameters if each.default is each.empty and each.kind not in kinds
    ]


ABSENT = object()
"""Stands for an attribute that a metric does not have."""


def says_direction(metric: Any) -> bool:
    """Return whether a function or an object says itself which direction is better."""
    return _stated(metric, "higher_is_better", ABSENT) is not ABSENT


def _stated(metric: Any, key: str, default: Any = None) -> Any:
    """Read an attribute, which may be a property of the user's; what that raises is refused."""
    with in_one_line(
        lambda error: (
            f"the attribute {key!r} of {type(metric).__name__} raised {format_error(error)}"
            f"{place_of(error)}: let it return a value, or remove it"
        )
    ):
        return getattr(metric, key, default)


def untested(name: str) -> str:
    """Why a metric of `attributionlab.metrics` cannot be tested."""
    [missing] = not_given(FUNCTIONS[name], name)
    return f"{name} cannot be tested: {NOT_GIVEN[missing]}"


def refusal(name: str) -> str:
    """Why a metric of `attributionlab.metrics` cannot be tested, and what to do."""
    function = FUNCTIONS[name]
    hint = f"; attributionlab metric {name} --checks-only checks its code"
    hint *= handed(function, name) != "attributions"
    return (
        f"{untested(name)}; score a method with "
        f"attributionlab.metrics.{function.__name__} instead, and see its card: "
        f"attributionlab cards {name} --out DIR" + hint
    )


def _by_batches(
    function: Any, name: str, higher_is_better: bool, takes: Takes | None = None
) -> Metric:
    """A function of a batch: the image is repeated beside its maps."""
    taken = parameters_of(function, name)
    check_call(function, name, 4 if "model" in taken else 1, taken & OFFERED)
    scale: Any = getattr(function, "maps", "signed")
    warned_of: set[str] = set()  # of each repair once, and not once a batch

    def scores(seen: Evaluation) -> Scores:
        case, each = seen.case, []
        model = logits_of(seen.model) if takes == "logits" else seen.model
        if "truth" in taken:  # what it does not ask is dropped before maps are normalized
            case = replace(case, maps=case.maps * case.truth.asked)
        # In a drawn order: its place says nothing of a map.
        order = np.random.default_rng([case.seed, len(case.maps)]).permutation(len(case.maps))
        shuffled = case.scaled(scale)[torch.from_numpy(order)]
        for maps in torch.split(shuffled, max(1, PIXELS_AT_ONCE // case.pixels)):
            n = len(maps)
            # Copies: what a metric writes into, no other metric sees.
            offered = {
                "replacement": seen.replacement.clone(),
                "truth": case.truth.positive.repeat(n, 1, 1, 1),
                "values": case.values.repeat(n, 1, 1, 1),
                "information": case.values.clamp(min=0).repeat(n, 1, 1, 1),
                "seed": case.seed,
            }
            given = {key: value for key, value in offered.items() if key in taken}
            repeated = model, case.image.repeat(n, 1, 1, 1), case.target.repeat(n)
            arguments = (*repeated, maps.clone()) if "model" in taken else (maps.clone(),)
            with (
                restored(seen.model) as repaired,
                isolated(case.seed),
                in_one_line(lambda error: f"{name} raised {format_error(error)}{place_of(error)}"),
            ):
                returned = function(*arguments, **given)
            for what in [each for each in repaired if each not in warned_of]:
                warned_of.add(what)
                text = f"{name} changed {what} of the model, which have been restored"
                warnings.warn(text, AttributionWarning, stacklevel=2)
            each.append(checked_scores(returned, n, name))
        return np.concatenate(each)[order.argsort()]

    sees: Sees = "condition" if "model" in taken else "maps"
    return Metric(name, higher_is_better, scores, sees, function, takes)


def logits_of(model: nn.Module) -> nn.Module:
    """A model without its last softmax: that of its outputs is the explained probability."""
    if isinstance(model, nn.Sequential) and isinstance(model[-1], nn.Softmax):
        return model[:-1].eval()
    return model


def parameters_of(function: Any, name: str) -> frozenset[str]:
    """Names of a function's parameters, with those of keywords that are declared as a TypedDict."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError) as error:
        raise AttributionLabError(
            f"{name} does not tell its parameters: wrap it in a function of your own"
        ) from error
    declared = [
        key
        for each in parameters.values()
        if each.kind == each.VAR_KEYWORD and get_origin(each.annotation) is Unpack
        for options in get_args(each.annotation)
        if is_typeddict(options)
        for key in options.__annotations__
    ]
    return frozenset([*parameters, *declared])


def check_call(function: Any, name: str, arguments: int, given: Iterable[str]) -> None:
    """Refuse a function that takes other arguments: so many by place, and these by name."""
    try:
        inspect.signature(function).bind(*range(arguments), **dict.fromkeys(given))
    except TypeError as error:
        raise AttributionLabError(
            f"{name} takes {inspect.signature(function)} ({error}): write it as "
            f"{ACCEPTED[handed(function, name)]}, and parameters with a default"
        ) from error


def checked_scores(scores: Any, number: int, name: str) -> Scores:
    """What somebody's metric returned, if it is a number for each map."""
    kind = type(scores).__name__
    try:
        if isinstance(scores, Tensor):
            kind = f"{kind} of {scores.dtype} on {scores.device}"
            scores = scores.detach().cpu().to_dense()
            scores = scores if scores.is_complex() else scores.double()
        if np.iscomplexobj(scores):
            raise TypeError("complex numbers have no order")
        values = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise AttributionLabError(
            f"{name} returned {kind} ({format_error(error)}): return one number for each attribution"
        ) from error
    if np.isinf(values).any():
        raise AttributionLabError(
            f"{name} returned {values[np.isinf(values)][0]}: return finite numbers, NaN where it does "
            "not apply"
        )
    if values.shape != (number,):
        raise AttributionLabError(
            f"{name} returned the shape {values.shape} for {number} attributions: return one number "
            "for each (a metric of whole data sets cannot be tested)"
        )
    return values


def _from_shared(name: str, function: Any) -> Metric:
    scores, sees = SHARED[name]
    return Metric(
        name.replace("_", "-"),
        function.higher_is_better,
        lambda seen: scores(seen).cpu().numpy(),
        sees,
        function,
    )


FUNCTIONS: Mapping[str, Any] = {
    name.replace("_", "-"): getattr(metrics, name)
    for name in dir(metrics)
    if hasattr(getattr(metrics, name), "higher_is_better")
}
"""Every metric of `attributionlab.metrics` by its function's name with hyphens."""

_TESTED = {
    name: _from_shared(function.__name__, function)
    if function.__name__ in SHARED
    else _by_batches(function, name, function.higher_is_better)
    for name, function in FUNCTIONS.items()
    if not not_given(function, name)
}
METRICS: Mapping[str, Metric] = _TESTED | {
    short: replace(_TESTED[name], name=short) for short, name in SHORT_NAMES.items()
}
"""Those that can be tested, and their second names. They score as the functions with their default
settings do, except as `SHARED` says; localization and alignment are held against the positive mask."""
