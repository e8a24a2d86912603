"""The registry of metrics: every metric of `attributionlab.metrics` by name, anybody's function, and
controls that run beside every tested metric: how well they rank attributions is no merit.

Those that never look at the model show what a panel gives away. Their swap contrast is exactly zero, so
each is *blind* when it is tested itself. One looks at a single pixel of each map and shows what the
least look at a network gains.
"""

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, Unpack, get_args, get_origin, is_typeddict

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from attributionlab import metrics
from attributionlab.base import (
    AttributionLabError,
    AttributionWarning,
    Numbers,
    format_error,
    in_one_line,
    loaded_files,
    nearest,
    place_of,
    refuse_if,
    repeated_problem,
)
from attributionlab.methods import METHODS, globals_restored, restored
from attributionlab.metrics import DECLARED, Takes, marking_problems, metric
from attributionlab.verdicts.metric_trials.case import SHARED, Evaluation, Sees, Shared

Images = Float[Tensor, "batch channels height width"]
Maps = Float[Tensor, "batch 1 height width"]
EachScore = Float[Tensor, " batch"]


@metric(higher_is_better=True, per_sample=True)
def foreground_share(
    model: object, images: Images, targets: Tensor, attributions: Maps, *, replacement: Tensor
) -> EachScore:
    """Share of the attribution, without signs, on pixels that differ from the replacement."""
    return _share(attributions, (images != replacement).any(1, keepdim=True))


@metric(higher_is_better=True, per_sample=True)
def edge_share(model: object, images: Images, targets: Tensor, attributions: Maps) -> EachScore:
    """Share of the attribution, without signs, on pixels that differ from a neighbor."""
    edges = torch.zeros_like(attributions, dtype=torch.bool)
    down = (images[:, :, 1:] != images[:, :, :-1]).any(1, keepdim=True)
    across = (images[..., 1:] != images[..., :-1]).any(1, keepdim=True)
    for sides, differ in (
        ((edges[:, :, 1:], edges[:, :, :-1]), down),
        ((edges[..., 1:], edges[..., :-1]), across),
    ):
        for side in sides:
            side |= differ
    return _share(attributions, edges)


@metric(higher_is_better=True, per_sample=True)
def sparsity(attributions: Maps) -> EachScore:
    r"""Gini index of the attribution, without signs, as in Chalasani et al. (2020).

    .. math:: G = \sum_i (2 i - P - 1) |a|_{(i)} / (P \sum_i |a|_{(i)})

    for P values in rising order: 0 where all are equal, (P - 1) / P where all but one are 0.
    """
    values = attributions.flatten(1).double().abs().sort(1).values
    pixels = values.shape[1]
    places = 2 * torch.arange(1, pixels + 1, dtype=torch.float64).to(values.device) - pixels - 1
    whole = values.sum(1)
    return (values * places).sum(1) / (pixels * torch.where(whole > 0, whole, 1))


@metric(higher_is_better=True, per_sample=True)
def one_pixel(
    model: Any, images: Images, targets: Tensor, attributions: Maps, *, replacement: Tensor
) -> EachScore:
    """What the output loses when the pixel of the highest attribution is replaced, the first of equals.

    All images of a call are the same one, as in a trial.
    """
    best, which = torch.unique(attributions.flatten(1).argmax(1), return_inverse=True)
    changed = images[:1].repeat(len(best), 1, 1, 1).flatten(2)
    rows = torch.arange(len(best), device=images.device)
    changed[rows, :, best] = replacement.to(images).flatten(1)[:, best].T
    with torch.no_grad():
        before, after = (
            model(each)[:, targets[0]].double()
            for each in (images[:1], changed.view(-1, *images.shape[1:]))
        )
    scores: Tensor = (before - after)[which]
    return scores


def _share(attributions: Maps, there: Tensor) -> EachScore:
    sizes = attributions.double().abs()
    whole = sizes.sum((1, 2, 3))
    return (sizes * there).sum((1, 2, 3)) / torch.where(whole > 0, whole, 1)


BLIND: Mapping[str, Any] = {
    "foreground-share": foreground_share,
    "edge-share": edge_share,
    "sparsity": sparsity,
}
"""By name; `attributionlab metric` takes these names, too."""
PIXELS_AT_ONCE = 2**20
"""Pixels of the images that a metric without shared evaluations gets in a batch: 20 maps at 224 x 224,
202 at 72 x 72. What they share is worked out once a batch."""

OFFERED = frozenset({"replacement", "truth", "values", "information", "seed"})
"""Parameters that a function is given if it declares them."""

Handed = Literal["attributions", "attribute", "others"]
"""What a metric scores: maps, a method, or maps beside those of another method."""

GIVEN: Mapping[Handed, frozenset[str]] = {
    "attributions": OFFERED,
    "attribute": frozenset(["model", "images", "targets", "attribute", "radius", "layer", "seed"]),
    "others": OFFERED | {"others"},
}
"""What a metric is given by name, where it asks."""

ACCEPTED: Mapping[Handed, str] = {
    "attributions": "(model, images, targets, attributions, *, ...), or without a model as "
    f"(attributions, *, ...), where ... are any of {', '.join(sorted(OFFERED))}",
    "attribute": "(model, images, targets, attribute), these names in any order, plus radius, "
    "layer or seed if it needs them",
    "others": "(attributions, others, *, ...), or (model, images, targets, attributions, others, *, "
    f"...), where ... are any of {', '.join(sorted(OFFERED))}",
}
"""How a metric is called, by what it scores."""

RENAMED = {
    **dict.fromkeys(("baseline", "baselines", "reference", "background"), "replacement"),
    **dict.fromkeys(("mask", "masks", "ground_truth"), "truth"),
}
"""What other libraries call a parameter, and what it is called here."""

NOT_GIVEN: Mapping[str, str] = {
    "attribute": "it lets a method explain changed images, but the test ranks given maps",
    "changes": "it compares sums in units of the output, but the ranked maps have no common scale",
    "others": "it compares the maps of two methods, but the test ranks each map by itself",
    "closeness": "it compares the maps of different images, but the test ranks the maps of one",
}
"""Why a metric with such a parameter cannot rank ready maps."""

SHORT_NAMES = {
    "soundness": "soundness-at",
    "completeness": "completeness-at",
    "single-deletion": "sds",
    "incremental-deletion": "ids",
}
"""Second names of metrics."""

STATED: Mapping[str, Any] = {"maps": "signed", "per_sample": True, **DECLARED}
"""What a metric says of itself, and what holds for one that does not."""

ABSENT = object()
"""Stands for an attribute that a metric does not have."""


@dataclass(frozen=True)
class Metric:
    """Whatever scores attributions, and what is known of it.

    - `higher_is_better`: which maps it prefers.
    - `takes`: what the outputs of the model are that it is handed; None: what is explained.
    - `stated`: what it says of itself (`STATED`).
    - `shared`: how it scores all maps of an evaluation at once; None: the function is called.
    """

    name: str
    higher_is_better: bool
    function: Any
    takes: Takes | None
    stated: Mapping[str, Any]
    shared: Shared | None = None

    @cached_property
    def parameters(self) -> frozenset[str]:
        """Names of its parameters, with those of keywords that are declared as a TypedDict."""
        declared = [
            key
            for each in inspect.signature(self.function).parameters.values()
            if each.kind == each.VAR_KEYWORD and get_origin(each.annotation) is Unpack
            for options in get_args(each.annotation)
            if is_typeddict(options)
            for key in options.__annotations__
        ]
        return frozenset([*inspect.signature(self.function).parameters, *declared])

    @cached_property
    def required(self) -> list[str]:
        """Parameters that it must be given."""
        parameters = inspect.signature(self.function).parameters.values()
        kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        return [
            each.name
            for each in parameters
            if each.default is each.empty and each.kind not in kinds
        ]

    @property
    def handed(self) -> Handed:
        """What it scores, by its parameters without default."""
        both: tuple[Handed, ...] = ("attribute", "others")
        return next((each for each in both if each in self.required), "attributions")

    @property
    def untried(self) -> str:
        """Why it cannot rank ready maps; "" where it can."""
        return next((why for each, why in NOT_GIVEN.items() if each in self.required), "")

    @property
    def only_described(self) -> bool:
        """Whether it can be neither checked nor tried."""
        return bool(self.untried) and self.handed == "attributions"

    @property
    def refusal(self) -> str:
        """Why it cannot be tested, and what to do."""
        check = "" if self.only_described else "; attributionlab.check_metric checks its code"
        ours = (
            f"; score a method with attributionlab.metrics.{self.function.__name__} instead, and see "
            f"its card: attributionlab cards {self.name} --out DIR"
        )
        return f"{self.name} cannot be tested: {self.untried}{ours * self.has_name}{check}"

    @property
    def called(self) -> str:
        """Its name in messages: with the file, where a command loaded one."""
        file = loaded_files().get(getattr(self.function, "__module__", ""))
        return f"{Path(file).name}:{self.name}" if file else self.name

    @property
    def has_name(self) -> bool:
        """Whether it is one of `NAMED`."""
        return NAMED.get(self.name) == self

    @property
    def written(self) -> str:
        """The arguments that name it in a call."""
        if self.has_name:
            return repr(self.name)
        given = {"higher_is_better": self.higher_is_better, "takes": self.takes}
        unsaid = [key for key in given if getattr(self.function, key, None) != given[key]]
        return ", ".join([self.name, *(f"{key}={given[key]!r}" for key in unsaid)])

    @property
    def sees(self) -> Sees:
        """What its scores depend on."""
        if self.shared is not None:
            return self.shared.sees
        return "condition" if "model" in self.parameters else "maps"

    def call(self, known: Mapping[str, Any]) -> Any:
        """Call the function with what it asks of what is known: a model, images, targets and maps by
        their places, whatever it calls them, and the rest by name.
        """
        placed, named = self.asked(known)
        return self.function(
            *(known[each] for each in placed), **{each: known[each] for each in named}
        )

    def check_call(self) -> None:
        """Refuse a function that takes other arguments than a metric is given."""
        placed, named = self.asked(GIVEN[self.handed])
        try:
            inspect.signature(self.function).bind(*placed, **dict.fromkeys(named))
        except TypeError as error:
            here = {each: RENAMED[each] for each in self.required if each in RENAMED}
            hint = "".join(f"; rename {old} to {new}" for old, new in here.items())
            raise AttributionLabError(
                f"{self.called} takes {inspect.signature(self.function)} ({error}): write it as "
                f"{ACCEPTED[self.handed]}, plus parameters with defaults{hint}"
            ) from error

    def asked(self, known: Any) -> tuple[list[str], list[str]]:
        """What it is given by place, and of what is known by name."""
        placed = [] if self.handed == "attribute" else ["attributions"]
        if placed and "model" in self.parameters:
            placed = ["model", "images", "targets", "attributions"]
        named = {*self.required[len(placed) :]} | OFFERED & self.parameters
        return placed, sorted(each for each in named if each in known)

    def scores(self, seen: Evaluation) -> Numbers:
        """A number for each map of an evaluation, NaN where not applicable."""
        if self.shared is not None:
            return self.shared.scores(seen).cpu().numpy()
        case, found, repairs = seen.case, [], dict[str, None]()
        model = logits_of(seen.model) if self.takes == "logits" else seen.model
        if "truth" in self.parameters:  # what it does not ask is dropped before maps are normalized
            case = replace(case, maps=case.maps * case.truth.asked)
        # In a drawn order: its place says nothing of a map.
        order = np.random.default_rng([case.seed, len(case.maps)]).permutation(len(case.maps))
        shuffled = case.scaled(self.stated["maps"])[torch.from_numpy(order)]
        for maps in torch.split(shuffled, max(1, PIXELS_AT_ONCE // case.pixels)):
            n = len(maps)
            known = {  # copies: what a metric writes into, no other metric sees
                "model": model,
                "images": case.image.repeat(n, 1, 1, 1),
                "targets": case.target.repeat(n),
                "attributions": maps.clone(),
                "replacement": seen.replacement.clone(),
                "truth": case.truth.positive.repeat(n, 1, 1, 1),
                "values": case.values.repeat(n, 1, 1, 1),
                "information": case.values.clamp(min=0).repeat(n, 1, 1, 1),
                "seed": case.seed,
            }
            scores, repaired = self.scores_of(known, n, seen)
            repairs |= dict.fromkeys(repaired)
            found.append(scores)
        for what in repairs:  # of each once, and not once a batch
            text = f"{self.name} changed {what} of the model, which have been restored"
            warnings.warn(text, AttributionWarning, stacklevel=2)
        return np.concatenate(found)[order.argsort()]

    def scores_of(
        self, known: Mapping[str, Any], number: int, seen: Evaluation
    ) -> tuple[Numbers, list[str]]:
        """A number for each map of a batch, and what of the model had to be restored."""
        call = partial(self.call, known)
        return scored(call, seen.model, seen.case.seed, number, self.called)


def as_metric(
    metric: Any, higher_is_better: bool | None = None, takes: Takes | None = None
) -> Metric:
    """Adapt whatever ranks ready maps: what `attributionlab.metric_test` takes, with its errors."""
    found = any_metric(metric, higher_is_better, takes)
    refuse_if([found.refusal] if found.untried else [])
    return found


def chosen_metrics(
    metrics: Any, make: Callable[[Any], Metric], problems: list[str]
) -> list[Metric]:
    """Several metrics, made one by one; what is wrong with any of them goes to the problems."""
    if not isinstance(metrics, list | tuple) or not metrics:
        problems.append(f"metrics are {metrics!r}: name at least one, in a list")
        return []
    found = []
    for each in metrics:
        try:
            found.append(make(each))
        except AttributionLabError as error:
            problems.extend(error.problems or [str(error)])
    problems += repeated_problem("metrics", [each.name for each in found])
    return found


def any_metric(
    metric: Any, higher_is_better: bool | None = None, takes: Takes | None = None
) -> Metric:
    """`as_metric` that also takes what judges methods, compares maps, or can only be described."""
    if isinstance(metric, str):
        if metric in METHODS:
            raise AttributionLabError(
                f"{metric} is an attribution method, not a metric: use attributionlab test {metric}"
            )
        if metric not in NAMED:
            known = nearest(metric.replace("_", "-"), NAMED)
            raise AttributionLabError(f"no metric named {metric!r}: {known}")
        if higher_is_better is not None:
            raise AttributionLabError(
                f"higher_is_better is {higher_is_better!r}: {metric} already declares its "
                "direction: leave it out"
            )
        if takes is not None:
            raise AttributionLabError(
                f"takes is {takes!r}: {metric} gets the explained output: leave it out"
            )
        return NAMED[metric]
    if not callable(metric):
        raise AttributionLabError(f"metric is {metric!r}: pass a name or a function")
    name = str(_attribute(metric, "__name__", type(metric).__name__))
    better = _attribute(metric, "higher_is_better", None)
    better = better if higher_is_better is None else higher_is_better
    if not isinstance(better, bool):
        raise AttributionLabError(
            f"{name} does not say which direction is better: mark it with "
            "attributionlab.metrics.metric, or pass higher_is_better"
        )
    stated = {key: _attribute(metric, key, default) for key, default in STATED.items()}
    refuse_if(marking_problems(**stated), name)
    if not stated["per_sample"]:
        raise AttributionLabError(
            f"{name} is defined on a data set only (per_sample=False), but maps are ranked for each "
            "image: write a function that returns one number for each attribution"
        )
    refuse_if(marking_problems(takes=takes), name)
    try:
        inspect.signature(metric)
    except (TypeError, ValueError) as error:
        raise AttributionLabError(
            f"{name} does not reveal its parameters: wrap it in a function of your own"
        ) from error
    found = Metric(name, better, metric, takes or stated["takes"], stated)
    found.check_call()
    return found


def raised(name: str = "") -> AbstractContextManager[None]:
    """Refuse what somebody's metric raises in one line."""
    return in_one_line(
        lambda error: f"{name} raised {format_error(error)}{place_of(error)}".lstrip()
    )


def scored(
    call: Callable[[], Any], model: nn.Module, seed: int, number: int, name: str
) -> tuple[Numbers, list[str]]:
    """A number for each map by a call of somebody's metric, and what of the model was restored."""
    with restored(model) as repaired, globals_restored(seed), raised(name):
        returned = call()
    return checked_scores(returned, number, name), repaired


@contextmanager
def warned() -> Iterator[list[str]]:
    """What metrics are warned of in a block; another library's warning is shown where it was raised."""
    told = list[str]()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", AttributionWarning)
        yield told
    for each in caught:
        if issubclass(each.category, AttributionWarning):
            told.append(str(each.message))
        else:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)


def says_direction(metric: Any) -> bool:
    """Whether a function or an object says itself which direction is better."""
    return _attribute(metric, "higher_is_better", ABSENT) is not ABSENT


def _attribute(metric: Any, key: str, default: Any) -> Any:
    """Read an attribute, which may be a property of the user's; what that raises is refused."""
    with in_one_line(
        lambda error: (
            f"the attribute {key!r} of {type(metric).__name__} raised {format_error(error)}"
            f"{place_of(error)}: let it return a value, or remove it"
        )
    ):
        return getattr(metric, key, default)


def logits_of(model: nn.Module) -> nn.Module:
    """A model without its last softmax: that of its outputs is the explained probability."""
    if isinstance(model, nn.Sequential) and isinstance(model[-1], nn.Softmax):
        return model[:-1].eval()
    return model


def checked_scores(scores: Any, number: int, name: str) -> Numbers:
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


def _named(name: str, function: Any, shared: Shared | None = None) -> Metric:
    stated = {key: getattr(function, key, default) for key, default in STATED.items()}
    return Metric(name, function.higher_is_better, function, None, stated, shared)


FUNCTIONS: Mapping[str, Any] = {
    name.replace("_", "-"): getattr(metrics, name)
    for name in dir(metrics)
    if hasattr(getattr(metrics, name), "higher_is_better")
}
"""Every metric of `attributionlab.metrics` by its function's name with hyphens."""

_OURS = {
    name: _named(name, function, SHARED.get(function.__name__))
    for name, function in FUNCTIONS.items()
}
_OURS |= {short: replace(_OURS[name], name=short) for short, name in SHORT_NAMES.items()}
METRICS: Mapping[str, Metric] = {name: each for name, each in _OURS.items() if not each.untried}
"""Those that can be tested, and their second names. They score as the functions with their default
settings do, except as `SHARED` says; localization and alignment are held against the positive mask."""
NAMED: Mapping[str, Metric] = {
    **{name: _named(name, function) for name, function in BLIND.items()},
    **_OURS,
}
"""All that have a name: those that never look at a model, too."""
METRIC_CONTROLS: Sequence[Metric] = [
    *(_named(f"{name} (blind)", function) for name, function in BLIND.items()),
    _named("one-pixel", one_pixel),
]
"""What every metric is held against, under the names that a report shows."""
