"""Make one card, or all on one store."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeGuard, Unpack

from attributionlab.base import (
    MOST_IMAGES,
    Stopped,
    explained_arguments,
    integer_problem,
    nearest,
    refuse_if,
    repeated_problem,
)
from attributionlab.metrics import DECLARED, known_facts
from attributionlab.runs import Cell, values
from attributionlab.verdicts.cards.card import MetricCard, MetricCards
from attributionlab.verdicts.cards.cost import costs_of
from attributionlab.verdicts.metric_kit.report import KitReport
from attributionlab.verdicts.metric_kit.run import FIRST, check_metric
from attributionlab.verdicts.metric_kit.subject import Subject
from attributionlab.verdicts.metric_trials.blind import BLIND
from attributionlab.verdicts.metric_trials.conditions import conditions_of
from attributionlab.verdicts.metric_trials.registry import (
    FUNCTIONS,
    METRICS,
    NOT_GIVEN,
    as_metric,
    handed,
    not_given,
    parameters_of,
    refusal,
)
from attributionlab.verdicts.metric_trials.report import MetricReport
from attributionlab.verdicts.metric_trials.run import FEWEST_IMAGES, MetricTestOptions, metric_tests
from attributionlab.worlds import Environment, as_environment


@explained_arguments
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

    A metric without scores is not tried, nor one that judges methods or compares the maps of two. A
    metric that can be neither checked nor tried (it compares sums, say) has a card that says why.

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
    try:
        [card] = metric_cards(
            [metric], env, n, seed, higher_is_better=higher_is_better, **options
        ).cards
    except Stopped as stop:
        raise Stopped(str(stop), stop.result and stop.result.cards[0]) from stop
    return card


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
    if is_only_described(metric):
        name, function, not_examined = metric, FUNCTIONS[metric], refusal(metric)
        better = function.higher_is_better
    else:
        subject = Subject(metric, higher_is_better, 0)
        name, function, better = subject.name, subject.function, subject.sign > 0
        not_examined = "it was neither checked nor tried"
        if trial is not None:
            not_examined = ""
        elif kit is not None:
            not_examined = "it was checked and not tried"
            if subject.handed != "attributions":
                not_examined += f": {NOT_GIVEN[subject.handed]}"
            elif kit.faults:
                not_examined = "its code has a fault, and it was not tried"
    ours = any(function is each for each in FUNCTIONS.values())
    declared = {"maps": "signed", "per_sample": True, **DECLARED}
    return MetricCard(
        metric=name,
        higher_is_better=better,
        declared={key: getattr(function, key, value) for key, value in declared.items()},
        takes=parameters_of(function, name),
        facts=known_facts().get(function.__name__) if ours else None,
        costs=costs_of(function, name) if kit is None or _has_scores(kit) else [],
        kit=kit,
        trial=trial,
        not_examined=not_examined,
        image_size=None if env is None or trial is None else env.image_shape[-1],
        command=command,
    )


@explained_arguments
def metric_cards(
    metrics: Sequence[str | Callable[..., Any]] | None = None,
    env: str | Environment = "multi-color-sum",
    n: int = 8,
    seed: int = 0,
    *,
    higher_is_better: bool | None = None,
    **options: Unpack[MetricTestOptions],
) -> MetricCards:
    """Make the cards of many metrics, whose trials share what the model says.

    Parameters
    ----------
    metrics : sequence of str or callable, optional
        Each as for `metric_card`; all of `attributionlab.metrics` by default.
    env, n, seed, higher_is_better, **options
        As for `metric_test`. What is in the folder `out` is not computed again, except the checks of a
        function.

    Returns
    -------
    MetricCards
        ``.to_frame()`` is the one table, ``.save(folder)`` writes everything.

    Raises
    ------
    AttributionLabError
        For unknown names, and as `check_metric` and `metric_test` do.
    """
    chosen = list(FUNCTIONS) if metrics is None else metrics
    problems = [
        *integer_problem("n", n, FEWEST_IMAGES, MOST_IMAGES),
        *integer_problem("seed", seed, 0),
    ]
    refuse_if([*problems, *_metrics_problems(chosen)])
    place = as_environment(env)
    conditions_of(place, options.get("doses"))  # refused before metrics are checked
    subjects = [
        None if is_only_described(each) else Subject(each, higher_is_better, seed)
        for each in chosen
    ]
    names = [
        str(each) if subject is None else subject.name
        for each, subject in zip(chosen, subjects, strict=True)
    ]
    taken = [name for name in names if name.casefold() == "index" and len(names) > 1]
    problems = [f"metrics name {name!r}, the page of all cards: rename it" for name in taken]
    refuse_if([*repeated_problem("metrics", names), *problems])
    checked = {each.name: each for each in subjects if each is not None}
    named = dict(zip(names, chosen, strict=True))
    kits = _kits(named, checked, seed, higher_is_better, options)
    tried = [
        as_metric(named[name], higher_is_better)
        for name, subject in checked.items()
        if subject.handed == "attributions" and not kits[name].faults
    ]
    stopped: Stopped | None = None
    trials: Sequence[MetricReport] = []
    if tried:
        try:
            trials = metric_tests(tried, place, n, seed, **options)
        except Stopped as stop:
            if stop.result is None:
                raise
            stopped, trials = stop, stop.result
    by_name = {report.metric: report for report in trials}
    command = options.get("command", "")
    cards = MetricCards(
        [
            card_of(
                *(each, kits.get(name), by_name.get(name), place),
                higher_is_better=higher_is_better,
                command=command,
            )
            for name, each in zip(names, chosen, strict=True)
        ],
        command,
    )
    if stopped is not None:
        raise Stopped(str(stopped).partition(": ")[0], cards) from stopped
    return cards


def _kits(
    named: Mapping[str, Any],
    checked: Iterable[str],
    seed: int,
    higher_is_better: bool | None,
    options: MetricTestOptions,
) -> dict[str, KitReport]:
    """The checks of metrics by name: of built-in ones as cells, of functions each in a process."""
    show = options.get("show_progress", False)
    cells = [
        Cell("metric-kit-of-card", {"metric": name}, {"seed": seed}, partial(_kit, name, seed))
        for name in checked
        if isinstance(named[name], str)
    ]
    done, stop = values(cells, "checking metrics", options)
    if stop is not None:
        raise Stopped(f"{len(done)} of {len(cells)} metrics were checked") from stop
    return {cell.place["metric"]: kit for cell, kit in done} | {
        name: check_metric(
            named[name], higher_is_better=higher_is_better, seed=seed, show_progress=show
        )
        for name in checked
        if not isinstance(named[name], str)
    }


def _kit(name: str, seed: int, device: str | None) -> KitReport:
    """Check a metric of ours, as a cell: in its process, since none of ours runs for ever."""
    return check_metric(name, seed=seed, time_limit=None)


def is_tried(metric: str | Callable[..., Any]) -> bool:
    """Whether a metric can be tried, as far as its parameters tell."""
    function = FUNCTIONS.get(metric) if isinstance(metric, str) else metric
    return not callable(function) or not not_given(function, str(metric))


def is_only_described(metric: str | Callable[..., Any]) -> TypeGuard[str]:
    """Whether it is a metric of ours that can be neither checked nor tried."""
    return (
        isinstance(metric, str)
        and not is_tried(metric)
        and handed(FUNCTIONS[metric], metric) == "attributions"
    )


def _has_scores(kit: KitReport) -> bool:
    """Whether a metric returned numbers, without which nothing else can be asked."""
    return all(row.id != FIRST for row in kit.findings)


def _metrics_problems(metrics: object) -> list[str]:
    if not isinstance(metrics, list | tuple) or not metrics:
        return [f"metrics are {metrics!r}: name at least one, in a list, or leave them out for all"]
    known = {*FUNCTIONS, *METRICS, *BLIND}
    return [
        f"no metric named {each!r}: {nearest(each, known)}"
        for each in metrics
        if isinstance(each, str) and each not in known
    ]
