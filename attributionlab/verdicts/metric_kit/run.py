"""All checks of a metric, each within its time."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import cloudpickle

from attributionlab.base import (
    AttributionLabError,
    explained_arguments,
    format_error,
    integer_problem,
    nearest,
    number_problem,
    refuse_if,
)
from attributionlab.metrics import Takes
from attributionlab.runs import Cell, Workers, run_cells
from attributionlab.verdicts.metric_kit.asking import Check, Result, Status
from attributionlab.verdicts.metric_kit.comparing import COMPARING
from attributionlab.verdicts.metric_kit.conduct import CONDUCT
from attributionlab.verdicts.metric_kit.judging import JUDGING
from attributionlab.verdicts.metric_kit.laboratories import SIDE
from attributionlab.verdicts.metric_kit.preferences import PREFERENCES
from attributionlab.verdicts.metric_kit.report import CheckRow, KitReport
from attributionlab.verdicts.metric_kit.subject import Subject

CHECKS = {**CONDUCT, **PREFERENCES}
"""Of metrics that score maps: by id, in the order in which they are asked."""
OF_CONDUCT = (
    *("one-number", "repeatable", "global-seed", "random-states-kept", "arguments-kept"),
    *("model-kept", "gradients-left", "modes-kept", "memory-kept", "batch-size", "batch-order"),
    *("float64", "cuda", "scale", "shift"),
)
JUDGE_CHECKS = {name: CONDUCT[name] for name in OF_CONDUCT} | JUDGING
"""Of metrics that judge methods."""
OF_MAPS = ("nan-map", "zero-map", "constant-map", "relabelled", "relabelled-ties")
COMPARE_CHECKS = {name: CONDUCT[name] for name in OF_CONDUCT + OF_MAPS} | COMPARING
"""Of metrics that compare the maps of two methods."""
ALL_CHECKS = CHECKS | JUDGE_CHECKS | COMPARE_CHECKS
BY_KIND: Mapping[str, tuple[str, Mapping[str, Check]]] = {
    "attributions": ("scores maps", CHECKS),
    "attribute": ("judges methods", JUDGE_CHECKS),
    "others": ("compares the maps of two methods", COMPARE_CHECKS),
}
"""What a metric does, and its checks, by what it is handed."""
FIRST = "one-number"
"""The check without which no other says anything."""
PATIENCE = 2
"""Checks that may take too long, or end their process, before no further one is asked."""
HIGHEST_SEED = 2**53
"""Maps have seeds of their own, a thousand times as high."""
LARGEST = 1024
"""Side of images in pixels, as of environments."""
LONGEST = 86_400
"""Seconds for a check."""


@explained_arguments
def check_metric(
    metric: str | Callable[..., Any],
    *,
    higher_is_better: bool | None = None,
    takes: Takes | None = None,
    image_size: int = SIDE,
    seed: int = 0,
    time_limit: float | None = 60.0,
    only: Sequence[str] | None = None,
    show_progress: bool = False,
) -> KitReport:
    """Check that the code of a metric does what the metric says, where the exact map is known.

    Two linear networks (one whose outputs rise with the whole image, one with arbitrary signs), one
    that counts pixels and one that takes the minimum of two counts, all on 8 x 8 pixels, are asked
    some thirty questions with known answers: docs/metric-kit.md lists them. What the metric declares
    (`attributionlab.metrics.metric`) decides which map is exact, and answers some of them. A metric
    that passes may still rank badly where the network is no sum: `attributionlab.metric_test` tries.
    A metric that judges methods is asked what it varies, and about methods whose score is known; one
    that compares the maps of two methods about equal, unrelated, opposite and exchanged maps.

    Parameters
    ----------
    metric : str or callable
        A name, or a function ``(model, images, targets, attributions, *, ...) -> (B,)``, or without a
        model ``(attributions, *, ...) -> (B,)``. One that judges methods takes `model`, `images`,
        `targets` and `attribute` by these names; one that compares maps takes the other ones as
        `others`. Of `replacement` (C, H, W), `truth` (mask of what raises the output), `values` (exact
        Shapley values), `information` (those above 0), each of shape (B, 1, H, W), and `seed` it is
        given what it declares.
    higher_is_better : bool, optional
        For a function that does not say so itself.
    takes : {"logits", "probabilities"}, optional
        As for `metric_test`.
    image_size : int
        Side of the images of those checks that may find a fault, 8 to 1024; in `metric_test` that of
        the trial. All others have 8 x 8 pixels: they call the metric some thousand times.
    seed : int
        Seed for weights, images and maps.
    time_limit : float, optional
        Seconds for each check, 60 by default. The checks run in a process of their own, which is killed
        after that time; what is not decided then is a fault or a note. None: in this process, for a
        debugger, where a metric that never returns is never stopped.
    only : sequence of str, optional
        Ids of the checks to run; all by default.
    show_progress : bool
        Whether to show progress on standard error.

    Returns
    -------
    KitReport
        ``.faults`` are errors of the code: it raises or returns no number for each map, it returns
        others for the same call, it changes its arguments or the network. ``.notes`` is advice: what a
        metric may mean, and should declare then. ``.passed`` is whether there is neither. Whatever the
        metric does in a call (end its process, never return) is a result.

    Raises
    ------
    AttributionLabError
        For a metric that cannot be called as stated, or does not say which direction is better, for
        unknown ids, and for numbers out of range.

    Examples
    --------
    >>> import attributionlab as al
    >>> from attributionlab.metrics import metric
    >>> @metric(higher_is_better=True, per_sample=True, unit="place")
    ... def size(attributions):
    ...     return attributions.abs().sum((1, 2, 3))
    >>> report = al.check_metric(size, only=["one-number", "order"], time_limit=None)
    >>> [(row.id, row.status) for row in report.checks]
    [('one-number', 'pass'), ('order', 'note')]
    """
    problems = integer_problem("seed", seed, 0, HIGHEST_SEED)
    problems += integer_problem("image_size", image_size, SIDE, LARGEST)
    if time_limit is not None:
        problems += number_problem("time_limit", time_limit, above=0, most=LONGEST)
    if not (higher_is_better is None or isinstance(higher_is_better, bool)):
        problems.append(f"higher_is_better is {higher_is_better!r}: take True or False")
    if not (only is None or (isinstance(only, list | tuple) and only)):
        problems.append(f"only is {only!r}: give a list of checks, such as ['order']")
    else:
        problems += [
            f"no check {each!r}: {nearest(str(each), ALL_CHECKS)}"
            for each in only or ()
            if not isinstance(each, str) or each not in ALL_CHECKS
        ]
    refuse_if(problems, "check_metric")
    subject = Subject(metric, higher_is_better, seed, takes)
    kind, checks = BY_KIND[subject.handed]
    refuse_if(
        [
            f"only names {each!r}, and {subject.name} {kind}: {nearest(each, checks)}"
            for each in only or ()
            if each not in checks
        ]
    )
    asked = checks if only is None else only
    if time_limit is not None:
        _check_sendable(metric)
    stated = (metric, higher_is_better, takes, image_size, seed, time_limit is None)
    cells = [
        Cell("metric-kit", {"check": name}, {}, partial(_answer, name, *stated))
        for name in dict.fromkeys(asked)
    ]
    workers = Workers(1, seconds=time_limit)
    found = dict(_results(cells, workers, show_progress))
    written = repr(metric) if isinstance(metric, str) else subject.name
    direction = "" if higher_is_better is None else f", higher_is_better={higher_is_better}"
    direction += "" if takes is None else f", takes={takes!r}"
    direction += "" if image_size == SIDE else f", image_size={image_size}"
    rows = [
        CheckRow(
            *(name, each.status, checks[name].expected, each.found, checks[name].asks),
            f"al.check_metric({written}{direction}, seed={seed}, only=[{name!r}], time_limit=None)",
        )
        for name, each in found.items()
    ]
    return KitReport(subject.name, subject.sign > 0, tuple(rows), seed, time_limit)


def _answer(
    name: str,
    metric: Any,
    higher_is_better: bool | None,
    takes: Takes | None,
    image_size: int,
    seed: int,
    here: bool,
    device: str | None,
) -> Result:
    """The result of a check, for `run_cells`."""
    check = ALL_CHECKS[name]
    side = image_size if check.blocks else SIDE
    try:
        return check.ask(Subject(metric, higher_is_better, seed, takes, side))
    except KeyboardInterrupt:  # Ctrl-C, or the metric's own: other processes hear no Ctrl-C
        if here:
            raise
        return Result(_wrong(name), "raised KeyboardInterrupt")


def _results(
    cells: Sequence[Cell], workers: Workers, show_progress: bool
) -> Iterator[tuple[str, Result]]:
    """What each check found; where the first fails, or several never end, the others say nothing."""
    left, why, failed = [str(cell.place["check"]) for cell in cells], "", 0
    with closing(
        run_cells(cells, None, workers, what="checking the metric", show_progress=show_progress)
    ) as outcomes:
        for cell, outcome in outcomes:
            name = str(cell.place["check"])
            if outcome.error:  # the last line of a traceback says what it is
                result = Result(_wrong(name), outcome.error.strip().splitlines()[-1])
            else:
                result = outcome.value
            failed += bool(outcome.error)
            left.remove(name)
            yield name, result
            if name == FIRST and result.status != "pass":
                why = f"not asked: {FIRST} found no number"
            elif failed >= PATIENCE:
                why = f"not asked: {PATIENCE} checks took too long, or ended their process"
            if why:
                break
    yield from ((name, Result("not applicable", why)) for name in left)


def _wrong(name: str) -> Status:
    return "fault" if ALL_CHECKS[name].blocks else "note"


def is_sendable(metric: Any) -> bool:
    """Whether a metric can be checked in a process of its own."""
    try:
        _check_sendable(metric)
    except AttributionLabError:
        return False
    return True


def _check_sendable(metric: Any) -> None:
    try:
        cloudpickle.loads(cloudpickle.dumps(metric))
    except Exception as error:
        raise AttributionLabError(
            f"the metric cannot be sent to another process ({format_error(error)}): pass "
            "time_limit=None, which runs it in this one"
        ) from error
