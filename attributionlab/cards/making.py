"""Cards are made: one of any metric, or those of all metrics on one store."""

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch
from torch import Tensor, nn

from attributionlab.cards.card import Cost, MetricCard, MetricCards, facts
from attributionlab.environment import Environment
from attributionlab.environment.catalog import as_environments
from attributionlab.errors import AttributionLabError, Stopped, nearest, refuse_if
from attributionlab.methods.run import isolated
from attributionlab.metric_kit.report import KitReport
from attributionlab.metric_kit.run import check_metric
from attributionlab.metric_trials.registry import (
    FUNCTIONS,
    METRICS,
    OFFERED,
    as_metric,
    parameters_of,
    refusal,
)
from attributionlab.metric_trials.report import MetricReport
from attributionlab.metric_trials.run import MetricTestOptions, metric_test, metric_tests
from attributionlab.metrics.marking import DECLARED
from attributionlab.references import format_error, in_one_line, place_of
from attributionlab.store.cells import Cell
from attributionlab.store.running import Workers, run_cells, values_before_stop
from attributionlab.store.store import stored
from attributionlab.validation import integer_problem

SIDES = 8, 16
"""Of the images for which costs are counted: whether a cost grows with the pixels is seen."""
SETTINGS: Mapping[str, Any] = {"radius": 0.1, "tolerance": 0.1, "closeness": 0.1, "level": 0.5}
"""Values of parameters without defaults, which change no count."""


def metric_card(
    metric: str | Callable[..., Any],
    env: str | Environment = "multi-color-sum",
    n: int = 8,
    seed: int = 0,
    *,
    higher_is_better: bool | None = None,
    **options: Unpack[MetricTestOptions],
) -> MetricCard:
    """Make a metric's card: its facts and declarations, its cost, checks of its code, and its trial.

    A metric with a fault is not tried. A metric that cannot be tested (it explains changed images, say)
    has a card that says why.

    Parameters
    ----------
    metric : str or callable
        As for `metric_test`, and the other names of `attributionlab.metrics`, with hyphens.
    env, n, seed, higher_is_better, **options
        As for `metric_test`.

    Returns
    -------
    MetricCard
        ``.save(path)`` writes it as Markdown or HTML; ``.tables()``, ``.cannot_see()``.

    Raises
    ------
    AttributionLabError
        As `check_metric` and `metric_test` do.

    Examples
    --------
    >>> import attributionlab as al
    >>> card = al.metric_card("max-sensitivity")
    >>> [(each.passes, each.maps) for each in card.costs]
    [(0, 11), (0, 11)]
    """
    if isinstance(metric, str) and metric in FUNCTIONS and metric not in METRICS:
        return card_of(metric, command=options.get("command", ""))
    [place] = as_environments(env)
    show = options.get("show_progress", False)
    kit = check_metric(metric, higher_is_better=higher_is_better, seed=seed, show_progress=show)
    trial = None
    if kit.passed:
        trial = metric_test(metric, place, n, seed, higher_is_better=higher_is_better, **options)
    return card_of(
        *(metric, kit, trial, place),
        higher_is_better=higher_is_better,
        command=options.get("command", ""),
    )


def card_of(
    metric: str | Callable[..., Any],
    kit: KitReport | None = None,
    trial: MetricReport | None = None,
    env: Environment | None = None,
    *,
    higher_is_better: bool | None = None,
    command: str = "",
) -> MetricCard:
    """The card of a metric whose checks and trial are there, as far as they can be."""
    if isinstance(metric, str) and metric in FUNCTIONS and metric not in METRICS:
        name, function, why = metric, FUNCTIONS[metric], refusal(metric)
        better = function.higher_is_better
    else:
        adapted = as_metric(metric, higher_is_better)
        name, function, better = adapted.name, adapted.function, adapted.higher_is_better
        why = "" if trial is not None else "it was checked and not tried"
        if trial is None and kit is not None and not kit.passed:
            why = "a metric with a fault is not tried"
    ours = any(function is each for each in FUNCTIONS.values())
    declared = {"maps": "signed", "per_sample": True, **DECLARED}
    runs = kit is None or all(row.status != "fault" for row in kit.checks if row.id == "one-number")
    return MetricCard(
        metric=name,
        higher_is_better=better,
        declared={key: getattr(function, key, value) for key, value in declared.items()},
        takes=parameters_of(function, name),
        facts=facts()[function.__name__] if ours else None,
        costs=_costs(function, name) if runs else [],
        kit=kit,
        trial=trial,
        why=why,
        image_size=None if env is None or trial is None else env.recipe.image_size,
        command=command,
    )


def metric_cards(
    metrics: Sequence[str] | None = None,
    env: str | Environment = "multi-color-sum",
    n: int = 8,
    seed: int = 0,
    *,
    doses: Mapping[str, Sequence[float]] | None = None,
    out: str | Path | None = None,
    jobs: int | None = 1,
    retry_failed: bool = False,
    show_progress: bool = False,
    command: str = "",
) -> MetricCards:
    """Make the cards of many metrics, whose trials share what the model says.

    Metrics with a fault are tried as well here, since that costs little more.

    Parameters
    ----------
    metrics : sequence of str, optional
        Names of metrics of `attributionlab.metrics`, with hyphens; all of them by default.
    env, n, seed, doses
        As for `metric_test`.
    out, jobs, retry_failed, show_progress
        As for `attributionlab.compare`.
    command : str
        How to make them again.

    Returns
    -------
    MetricCards
        ``.to_frame()`` is the one table, ``.save(folder)`` writes everything.

    Raises
    ------
    AttributionLabError
        For unknown names, and as `metric_test` does.
    """
    names = list(FUNCTIONS) if metrics is None else list(metrics)
    refuse_if([*integer_problem("seed", seed, 0), *_name_problems(names)])
    [place] = as_environments(env)
    tested = [name for name in names if name in METRICS]
    with stored(out) as store:
        cells = [
            Cell("metric-kit-of-card", {"metric": name}, {"seed": seed}, partial(_kit, name, seed))
            for name in tested
        ]
        done, stop = values_before_stop(
            cells,
            run_cells(
                *(cells, store, Workers(jobs)),
                retry_failed=retry_failed,
                what="checking metrics",
                show_progress=show_progress,
            ),
        )
    if stop is not None:
        raise Stopped(f"{len(done)} of {len(cells)} metrics were checked") from stop
    kits = {cell.place["metric"]: kit for cell, kit in done}
    stopped: Stopped | None = None
    trials: Sequence[MetricReport] = []
    if tested:
        try:
            trials = metric_tests(
                *([METRICS[name] for name in tested], place, n, seed),
                doses=doses,
                out=out,
                jobs=jobs,
                retry_failed=retry_failed,
                show_progress=show_progress,
            )
        except Stopped as error:
            if error.result is None:
                raise
            stopped, trials = error, error.result
    by_name = dict(zip(tested, trials, strict=True))
    cards = MetricCards(
        [
            card_of(name, kits.get(name), by_name.get(name), place, command=command)
            for name in names
        ],
        command,
    )
    if stopped is not None:
        raise Stopped(str(stopped).partition(": ")[0], cards) from stopped
    return cards


def cost_of(function: Callable[..., Any], name: str, side: int) -> Cost:
    """Count what one score of one map takes, before a network that no shortcut serves.

    The network is linear, of one channel, and an output rises with every pixel. What a metric wants
    beside its parameters' defaults is given by name: `OFFERED`, `SETTINGS`, a method that is counted.

    Parameters
    ----------
    function : callable
        As `as_metric` takes it, or one of `attributionlab.metrics` that takes a method or more maps.
    name : str
        For the text of a refusal.
    side : int
        Side of the image, in pixels; at least 4, so that there are 16 patches.

    Raises
    ------
    AttributionLabError
        For what the metric raises, in one line.
    """
    model, made = _Watched(side), list[int]()
    pixels = side * side
    image = (torch.arange(1.0, pixels + 1) / pixels).view(1, 1, side, side)

    def attribute(model: nn.Module, images: Tensor, targets: Tensor) -> Tensor:
        made.append(len(images))
        return images.clone()

    known = {
        **SETTINGS,
        "model": model,
        "images": image,
        "targets": torch.zeros(1, dtype=torch.int64),
        "attributions": image.clone(),
        "attribute": attribute,
        "others": image.clone(),
        "changes": torch.ones(1),
        "layer": model.layer,
        "replacement": torch.zeros(1, side, side),
        "truth": image > 0.5,
        "values": image.clone(),
        "information": image.clone(),
        "threshold": 0.5,
        "seed": 0,
    }
    parameters = inspect.signature(function).parameters.values()
    asked = [each for each in parameters if each.default is each.empty]
    placed = [each.name for each in asked if each.kind == each.POSITIONAL_OR_KEYWORD]
    if not known.keys() >= set(placed):  # a user's own names: as the registry calls it
        placed = ["model", "images", "targets", "attributions"]
        placed = placed if "model" in parameters_of(function, name) else placed[-1:]
    named = {each.name for each in asked if each.kind == each.KEYWORD_ONLY}
    named |= OFFERED & parameters_of(function, name)
    given = {key: known[key] for key in named & known.keys() if key not in placed}
    with (
        isolated(0),
        in_one_line(lambda error: f"{name} raised {format_error(error)}{place_of(error)}"),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        function(*(known[key] for key in placed), **given)
    return Cost(side, sum(model.batches), len(model.batches), sum(made))


def _costs(function: Callable[..., Any], name: str) -> list[Cost]:
    """The costs at all sizes; none where it refuses one."""
    try:
        return [cost_of(function, name, side) for side in SIDES]
    except AttributionLabError:  # a user's, made for images of one size
        return []


class _Watched(nn.Module):
    """Two weighted sums of an image's pixels, and how many images each call had."""

    def __init__(self, side: int) -> None:
        super().__init__()
        self.batches: list[int] = []
        self.layer = nn.Linear(side * side, 2, device="meta").to_empty(device="cpu")
        weights = np.arange(1, 2 * side * side + 1).reshape(2, -1) / (side * side)
        with torch.no_grad():
            self.layer.weight.copy_(torch.from_numpy(weights))
            self.layer.bias.zero_()
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        self.batches.append(len(images))
        outputs: Tensor = self.layer(images.flatten(1))
        return outputs


def _name_problems(names: Sequence[str]) -> list[str]:
    problems = [
        f"no metric named {name!r}: {nearest(str(name), FUNCTIONS)}"
        for name in names
        if name not in FUNCTIONS
    ]
    twice = dict.fromkeys(name for name in names if names.count(name) > 1)
    problems += [f"metrics name {name!r} twice: name each once" for name in twice]
    return problems if names else ["metrics are empty: name one, or leave them out for all"]


def _kit(name: str, seed: int, device: str | None) -> KitReport:
    """Check a metric of ours, for `run_cells`: in its process, since none of ours runs for ever."""
    return check_metric(name, seed=seed, time_limit=None)
