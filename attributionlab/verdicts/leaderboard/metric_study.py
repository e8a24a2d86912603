"""Rank metrics in default environments and random worlds: a cell of work for each metric in each."""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from attributionlab.base import (
    MOST_IMAGES,
    AttributionLabError,
    AttributionWarning,
    Stopped,
    integer_problem,
    own_arithmetic,
    refuse_if,
    repeated_problem,
)
from attributionlab.runs import Cell, fingerprint
from attributionlab.verdicts.exams import FEATURES, random_worlds
from attributionlab.verdicts.exams.exam import run_in_worlds
from attributionlab.verdicts.exams.metric import NONE, NOT_BUILT
from attributionlab.verdicts.exams.worlds import worlds_problems
from attributionlab.verdicts.faithfulness.protocol import DEFAULT_ENVIRONMENTS
from attributionlab.verdicts.leaderboard.metric_board import MetricBoard, MetricInWorld
from attributionlab.verdicts.metric_trials.answers import Asked
from attributionlab.verdicts.metric_trials.case import Evaluation
from attributionlab.verdicts.metric_trials.conditions import conditions_of
from attributionlab.verdicts.metric_trials.definition_panel import (
    DefinitionPanel,
    compared,
    definition_correlations,
    definition_panel,
)
from attributionlab.verdicts.metric_trials.panel import Panels
from attributionlab.verdicts.metric_trials.registry import METRICS, SHORT_NAMES, Metric, as_metric
from attributionlab.verdicts.metric_trials.run import (
    FEWEST_IMAGES,
    not_built,
    reports_of,
    why_no_twins,
)
from attributionlab.worlds import Environment, load, load_call

DEFAULT_METRICS = tuple(name for name in METRICS if name not in SHORT_NAMES)
"""Every metric that ranks maps, by its first name."""
WORLDS, QUICK_WORLDS = 50, 10
SIDE, QUICK_SIDE = 48, 24
UNSEEN_SHARE = 1.0
"""The dose of the drop: all replaced pixels have an unseen color."""


def rank_metrics(
    metrics: Sequence[str | Callable[..., Any]] | None = None,
    worlds: int | None = None,
    seed: int = 0,
    difficulty: str = "medium",
    image_size: int | None = None,
    n: int = 6,
    *,
    quick: bool = False,
    out: str | Path | None = None,
    jobs: int | None = 1,
    retry_failed: bool = False,
    show_progress: bool = False,
    command: str = "",
) -> MetricBoard:
    """Rank metrics by how far they rank maps as the truth does, over default and random worlds.

    Every metric takes `attributionlab.verdicts.metric_trials.run.metric_test` in each world, and ranks a second
    panel there, whose maps tell four definitions of the truth apart
    (`attributionlab.verdicts.metric_trials.definition_panel`). Worlds are the units of all means and intervals.

    Parameters
    ----------
    metrics : sequence of str or callable, optional
        Whatever `metric_test` takes, which says itself which direction is better; by default every
        metric that ranks maps.
    worlds : int, optional
        Random worlds (`attributionlab.random_worlds`) beside the default environments of
        `faithfulness_test`, 0 to 1000; 50 by default, 10 with `quick`.
    seed, difficulty
        Of the random worlds. `seed` is that of the questions in the default environments, too.
    image_size : int, optional
        Side of the images in pixels; 48 by default, 24 with `quick`.
    n : int
        Questions in each world, at least 2; with fewer than 6 no world finds a metric valid.
    quick : bool
        Fewer worlds and smaller images.
    out, jobs, retry_failed, show_progress
        As for `attributionlab.compare`. What is kept of a metric stays when others are added.
    command : str
        How to run this again, for the report.

    Raises
    ------
    AttributionLabError
        For unknown metrics and those that cannot rank maps, a metric that is named twice, and
        impossible numbers.

    Examples
    --------
    >>> import attributionlab as al
    >>> board = al.rank_metrics(["insertion", "road"], worlds=20)  # doctest: +SKIP
    >>> board.to_frame()[["metric", "agreement", "estimates"]]  # doctest: +SKIP
    """
    count = (QUICK_WORLDS if quick else WORLDS) if worlds is None else worlds
    side = (QUICK_SIDE if quick else SIDE) if image_size is None else image_size
    problems = integer_problem("n", n, FEWEST_IMAGES, MOST_IMAGES)
    problems += worlds_problems("worlds", count, seed, difficulty, side, least=0)
    chosen = _chosen(DEFAULT_METRICS if metrics is None else metrics, problems)
    try:
        places, cells, done, stop = run_in_worlds(
            problems,
            lambda: _places(count, seed, difficulty, side),
            lambda places: [_cell(metric, place, n) for place, metric in product(places, chosen)],
            name="rank_metrics",
            what="ranking metrics",
            out=out,
            jobs=jobs,
            retry_failed=retry_failed,
            show_progress=show_progress,
        )
    finally:
        _panels_of.cache_clear()
        _problem_of.cache_clear()
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
        worlds={"worlds": count, "seed": seed, "difficulty": difficulty, "image_size": side},
        n=n,
        command=command,
        wanted=len(cells),
    )
    if stop is not None:
        rows = f"{len(results)} of {len(cells)} metrics in a world were done"
        raise Stopped(rows, board if results else None) from stop
    return board


@dataclass(frozen=True)
class _Place:
    """A world with the seed of its questions; what it asks, of a random one."""

    digest: str
    seed: int
    env: Environment = field(compare=False)
    features: tuple[str, ...] | None = field(compare=False)


@lru_cache(maxsize=1)
def _panels_of(place: _Place, n: int) -> Panels:
    """The panels of the world that is at work, and what its networks have answered so far."""
    output = place.env.outputs[0]
    reason = why_no_twins(place.env, place.seed, output)
    refuse_if([reason] if reason else [])
    return Panels(place.env, n, place.seed, output, (), one_network=False, keep=True)


@lru_cache(maxsize=1)
def _problem_of(place: _Place, n: int) -> str:
    """Why a world has no such questions: that is no metric's fault."""
    return not_built(place.env, place.seed, n)


@own_arithmetic()
def _in_world(metric: Metric, place: _Place, n: int, device: str | None) -> MetricInWorld:
    """A metric in one world."""
    env = place.env
    if problem := _problem_of(place, n):
        return MetricInWorld(*_about(metric, place), NOT_BUILT, problem)
    panels = _panels_of(place, n)
    doses = {"share": [UNSEEN_SHARE]} if conditions_of(env) else None
    asked = Asked(panels, [metric], conditions_of(env, doses))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", AttributionWarning)
        [report] = reports_of(asked, n)
    trial = report.trial
    assert trial is not None
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
    env, case = asked.clean.of(panel.env).network(panel.weights), panel.case
    truths = env.truths(case.image[None], case.target, asked.panels.output)
    made = definition_panel(truths, case.truth, asked.panels.seed, number)
    return made, replace(seen, case=replace(case, maps=made.maps))


def _seconds(metric: Metric, seen: Evaluation) -> float:
    """CPU time for one map, with nothing worked out before."""
    alone = replace(seen, case=replace(seen.case, maps=seen.case.maps[:1]))
    start = time.process_time()
    metric.scores(alone)
    return time.process_time() - start


def _about(metric: Metric, place: _Place) -> tuple[str, str, str, str, tuple[str, ...] | None]:
    """The first fields of a row of the board."""
    env = place.env
    return metric.name, env.name, str(env.rule or ""), load_call(env), place.features


def _chosen(metrics: Any, problems: list[str]) -> list[Metric]:
    """The metrics; what is wrong with any of them goes to the problems."""
    if not isinstance(metrics, list | tuple) or not metrics:
        problems.append(f"metrics are {metrics!r}: name at least one, in a list")
        return []
    found = []
    for each in metrics:
        try:
            found.append(as_metric(each))
        except AttributionLabError as error:
            problems.extend(error.problems or [str(error)])
    problems += repeated_problem("metrics", [each.name for each in found])
    return found


@own_arithmetic()
def _places(count: int, seed: int, difficulty: str, side: int) -> list[_Place]:
    """Default environments, then random worlds."""
    fixed = [load(name, image_size=side) for name in DEFAULT_ENVIRONMENTS]
    places = [_Place(env.spec.digest, seed, env, None) for env in fixed]
    if count:
        drawn = random_worlds(count, seed, difficulty, side)
        for env, features in zip(drawn, drawn.features, strict=True):
            asked = tuple(each for each in FEATURES if each in features)
            # Other images in each world, or chance in them would be in all worlds at once.
            places.append(_Place(env.spec.digest, env.spec.seed, env, asked))
    return places


def _cell(metric: Metric, place: _Place, n: int) -> Cell:
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
        },
        partial(_in_world, metric, place, n),
    )
