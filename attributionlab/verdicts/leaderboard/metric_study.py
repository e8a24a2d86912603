"""Rank metrics in default environments and random worlds: a cell of work for each metric in each."""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import product
from typing import Any, Unpack

import numpy as np

from attributionlab.base import (
    MOST_IMAGES,
    AttributionLabError,
    AttributionWarning,
    Stopped,
    explained_arguments,
    integer_problem,
    own_arithmetic,
    refuse_if,
    repeated_problem,
)
from attributionlab.runs import Cell, fingerprint, outcomes_of, running_problems
from attributionlab.verdicts.faithfulness.protocol import FLAT_ENVIRONMENTS, RunningMethods
from attributionlab.verdicts.leaderboard.metric_board import (
    NONE,
    NOT_BUILT,
    MetricBoard,
    MetricInWorld,
)
from attributionlab.verdicts.metric_trials import registry
from attributionlab.verdicts.metric_trials.case import Evaluation
from attributionlab.verdicts.metric_trials.conditions import conditions_of
from attributionlab.verdicts.metric_trials.graded import (
    DefinitionPanel,
    compared,
    definition_correlations,
    definition_panel,
)
from attributionlab.verdicts.metric_trials.isolation import Apart, tried_apart
from attributionlab.verdicts.metric_trials.panel import Asked, Panels
from attributionlab.verdicts.metric_trials.test import (
    FEWEST_IMAGES,
    RANKS_NONE,
    not_built,
    reports_of,
    why_no_twins,
)
from attributionlab.verdicts.own_process import processes_ended
from attributionlab.worlds import Environment, load

DEFAULT_METRICS = tuple(name for name in registry.METRICS if name not in registry.SHORT_NAMES)
"""Every metric that ranks maps, by its first name."""
WORLDS, QUICK_WORLDS = 50, 10
SIDE, QUICK_SIDE = 48, 24
UNSEEN_SHARE = 1.0
"""The dose of the drop: all replaced pixels have an unseen color."""


@explained_arguments
def rank_metrics(
    metrics: Sequence[str | Callable[..., Any]] | None = None,
    environments: Sequence[str | Environment] | str | Environment | None = None,
    n: int = 6,
    seed: int = 0,
    *,
    image_size: int | None = None,
    quick: bool = False,
    **running: Unpack[RunningMethods],
) -> MetricBoard:
    """Rank metrics by their agreement with the truth over many worlds.

    In each world, every metric has the trial of `attributionlab.metric_test` and ranks a second panel,
    whose maps distinguish four definitions of the truth (`verdicts.metric_trials.graded`). Worlds are
    the units of all means and intervals.

    Parameters
    ----------
    metrics : sequence of str or callable, optional
        Whatever `metric_test` takes, if it declares its direction; by default every metric that ranks
        maps.
    environments : str, Environment, or a sequence of them, optional
        Where to test; each random world ("random:20:medium:7") counts as one. By default the default
        environments of `faithfulness_test` and 50 random worlds of `seed`, 10 with `quick`.
    n : int
        Questions in each world, at least 2; with fewer than 6, no metric can be valid.
    seed : int
        Seed of the questions; in random worlds, the seed of the world.
    image_size : int, optional
        Side of the images in pixels, for environments given by name; 48 by default, 24 with `quick`.
    quick : bool
        Fewer worlds and smaller images.
    **running
        As for `attributionlab.compare`, and isolated (True), whether a user's metric is called in its
        own process. Stored results remain valid if metrics are added.

    Raises
    ------
    AttributionLabError
        For unknown metrics and those that cannot rank maps, a metric that is named twice, and invalid
        numbers.

    Examples
    --------
    >>> import attributionlab as al
    >>> board = al.rank_metrics(["insertion", "road"], "random:20:medium:7")  # doctest: +SKIP
    >>> board.to_frame()[["metric", "agreement", "estimates"]]  # doctest: +SKIP
    """
    side = (QUICK_SIDE if quick else SIDE) if image_size is None else image_size
    problems = integer_problem("n", n, FEWEST_IMAGES, MOST_IMAGES)
    problems += [*integer_problem("seed", seed, 0), *running_problems(running)]
    isolated = running.get("isolated", True)
    chosen = registry.chosen_metrics(
        DEFAULT_METRICS if metrics is None else metrics,
        lambda each: tried_apart(registry.as_metric(each), isolated),
        problems,
    )
    named = _named(environments, seed, side, quick, problems)
    refuse_if(problems, "rank_metrics")
    try:
        with own_arithmetic():
            device = running.get("device")
            worlds = [env for each in named for env in each.worlds]
            worlds = worlds if device is None else [env.to(device) for env in worlds]
            # Other images in each random world, or chance in them would be in all worlds at once.
            places = [
                _Place(env.spec.digest, seed if env.features is None else env.spec.seed, env)
                for env in worlds
            ]
        cells = [_cell(metric, place, n) for place, metric in product(places, chosen)]
        with processes_ended():
            done, stop = outcomes_of(cells, "ranking metrics", running)
    finally:
        _panels_of.cache_clear()
    results, warned = [], dict[str, None]()
    for (place, metric), cell in zip(product(places, chosen), cells, strict=True):
        if cell.key in done:
            outcome = done[cell.key]
            refused = MetricInWorld(*_about(metric, place), "refused", outcome.error)
            results.append(refused if outcome.refused else outcome.value)
            warned |= dict.fromkeys(results[-1].warned)
    for text in warned:
        warnings.warn(text, AttributionWarning, stacklevel=2)
    board = MetricBoard(
        metrics={each.name: each.higher_is_better for each in chosen},
        results=results,
        environments=[each.name for each in named],
        seed=seed,
        image_size=side,
        n=n,
        command="",
        wanted=len(cells),
    )
    if stop is not None:
        rows = f"{len(results)} of {len(cells)} metrics in a world were done"
        raise Stopped(rows, board if results else None) from stop
    return board


@dataclass(frozen=True)
class _Place:
    """A world with the seed of its questions."""

    digest: str
    seed: int
    env: Environment = field(compare=False)


@lru_cache(maxsize=1)
def _panels_of(place: _Place, n: int) -> Panels | str:
    """The panels of the world that is at work, and what its networks have answered so far; or why it
    has no such questions, which is no metric's fault.
    """
    env, seed, output = place.env, place.seed, place.env.outputs[0]
    if problem := not_built(env, seed, n) or why_no_twins(env, seed, output):
        return problem
    return Panels(env, n, seed, output, (), one_network=False, keep=True)


@own_arithmetic()
def _in_world(metric: registry.Metric, place: _Place, n: int, device: str | None) -> MetricInWorld:
    """A metric in one world."""
    env, panels = place.env, _panels_of(place, n)
    if isinstance(panels, str):
        return MetricInWorld(*_about(metric, place), NOT_BUILT, panels)
    doses = {"share": [UNSEEN_SHARE]} if conditions_of(env) else None
    asked = Asked(panels, [metric], conditions_of(env, doses))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", AttributionWarning)
        [report] = reports_of(asked, n)
    trial = report.trial
    if trial is None:
        raise AttributionLabError(f"{report.metric} is {RANKS_NONE}")
    assert trial.contrast is not None
    shown = [
        panels.shared((number, "definitions"), partial(_definitions, asked, number))
        for number in range(n)
    ]
    sign = 1 if metric.higher_is_better else -1
    correlations, differences = compared(
        np.stack([definition_correlations(sign * metric.scores(seen), at) for at, seen in shown]),
        np.stack([panel.apart for panel, _ in shown]),
    )
    return MetricInWorld(
        *(*_about(metric, place), report.verdict, ""),
        agreement=trial.agreement,
        contrast=trial.contrast.mean,
        drop=next((each.drop for each in report.doses if each.drop), NONE),
        seconds=_seconds(metric, shown[0][1]),
        correlations=correlations,
        differences=differences,
        warned=[str(each.message) for each in caught],
    )


def _definitions(asked: Asked, number: int) -> tuple[DefinitionPanel, Evaluation]:
    """A question's second panel, and the network that is asked about it, without unseen data."""
    panel = asked.panels[number]
    seen = asked.evaluation(panel, asked.clean)
    env, case = asked.clean.network(panel.env, panel.weights), panel.case
    truths = env.truths(case.image[None], case.target, asked.panels.output)
    made = definition_panel(truths, case.truth, asked.panels.seed, number)
    return made, replace(seen, case=replace(case, maps=made.maps))


def _seconds(metric: registry.Metric, seen: Evaluation) -> float:
    """CPU time for one map, with nothing worked out before; by the clock in a process of its own."""
    alone = replace(seen, case=replace(seen.case, maps=seen.case.maps[:1]))
    clock = time.perf_counter if isinstance(metric, Apart) else time.process_time
    start = clock()
    metric.scores(alone)
    return clock() - start


def _about(metric: registry.Metric, place: _Place) -> tuple[str, str, str, tuple[str, ...] | None]:
    """The first fields of a row of the board."""
    env = place.env
    return metric.name, env.name, str(env.rule or ""), env.features


def _named(
    environments: Any, seed: int, side: int, quick: bool, problems: list[str]
) -> list[Environment]:
    """The environments; what is wrong with any of them goes to the problems."""
    named = environments
    if environments is None:
        drawn = QUICK_WORLDS if quick else WORLDS
        named = [*FLAT_ENVIRONMENTS, f"random:{drawn}:medium:{seed}"]
    found = []
    for each in named if isinstance(named, list | tuple) else [named]:
        try:
            found.append(each if isinstance(each, Environment) else load(each, image_size=side))
        except AttributionLabError as error:
            problems.extend(error.problems or [str(error)])
    problems += repeated_problem("environments", [each.name for each in found])
    return found


def _cell(metric: registry.Metric, place: _Place, n: int) -> Cell:
    """A metric in a world, as work for the store: other metrics leave it as it is."""
    env = place.env
    return Cell(
        "metric-board",
        {"environment": env.name, "spec": env.spec.digest[:8], "metric": metric.name},
        {
            "metric": (metric.name, metric.higher_is_better, fingerprint(metric.function)),
            "environment": env.spec.digest,
            "seed": place.seed,
            "n": n,
            "device": str(env.device),
        },
        partial(_in_world, metric, place, n),
    )
