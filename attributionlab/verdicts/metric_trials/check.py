"""The check of a metric's code: all its questions, each within its time, and what they found."""

import html
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, NamedTuple

import cloudpickle
import pandas as pd

from attributionlab.base import (
    Files,
    Stopped,
    Within,
    attributes,
    checked_arguments,
    format_error,
    library_versions,
    nearest,
    not_empty,
    printable,
    refuse_if,
)
from attributionlab.metrics import Takes
from attributionlab.runs import Cell, Running, Workers, run_cells, values
from attributionlab.show import as_text, data_table
from attributionlab.verdicts.metric_trials.asking import SIDE, Check, Examined, Result, Status
from attributionlab.verdicts.metric_trials.judging import COMPARING, JUDGING
from attributionlab.verdicts.metric_trials.preferences import CONDUCT, PREFERENCES
from attributionlab.verdicts.metric_trials.registry import Handed, Metric, any_metric

ALL_CHECKS: Mapping[str, Check] = {**CONDUCT, **PREFERENCES, **JUDGING, **COMPARING}
BY_KIND: Mapping[Handed, tuple[str, Mapping[str, Check]]] = {
    "attributions": ("scores maps", PREFERENCES),
    "attribute": ("judges methods", JUDGING),
    "others": ("compares the maps of two methods", COMPARING),
}
"""What a metric does, and the checks for that alone, by what it is handed."""
FAULTS = [name for name, each in ALL_CHECKS.items() if each.blocks]
"""The checks that can find an error, which are all of a quick test."""
FIRST = "one-number"
"""The check without which no other says anything."""
PATIENCE = 2
"""Checks that may take too long, or end their process, before no further one is asked."""
HIGHEST_SEED = 2**53
"""Maps have seeds of their own, a thousand times as high."""
LARGEST = 1024
"""Side of images in pixels, as of environments."""
TIME, LONGEST = 60.0, 86_400
"""Seconds for each check of somebody's function, as a rule and at most; none of ours runs for ever."""


class CheckRow(NamedTuple):
    """One check of a metric."""

    id: str
    status: Status
    expected: str
    """the known answer"""
    found: str
    asks: str
    """what was compared, in one line"""
    snippet: str
    """code that repeats this check alone, in the process that runs it"""


@dataclass(frozen=True, eq=False)
class CheckReport(Files):
    """Whether a metric's code does what the metric claims: errors and advice.

    - `metric`: its name.
    - `higher_is_better`: which direction it prefers.
    - `checks`: in the order in which they ran.
    - `seed`: seed for networks, images and maps.
    - `time_limit`: time limit of each check, in seconds.
    """

    metric: str
    higher_is_better: bool
    checks: Sequence[CheckRow]
    seed: int
    time_limit: float | None

    def __repr__(self) -> str:
        columns = ["id", "status", "expected", "found"]
        return f"{self.title}\n{as_text(data_table(self.to_frame()[columns]), 120)}"

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(self.title)}</p>{self.to_frame().to_html(index=False, border=0)}"

    @property
    def faults(self) -> list[CheckRow]:
        """The checks that found an error."""
        return [row for row in self.checks if row.status == "fault"]

    @property
    def notes(self) -> list[CheckRow]:
        """The checks that found something that may or may not be intended."""
        return [row for row in self.checks if row.status == "note"]

    @property
    def findings(self) -> list[CheckRow]:
        """Faults, then notes."""
        return [*self.faults, *self.notes]

    @property
    def passed(self) -> bool:
        """Whether there are neither faults nor notes."""
        return not self.findings

    @property
    def has_scores(self) -> bool:
        """Whether the metric returned numbers, which all other checks need."""
        return all(row.id != FIRST for row in self.findings)

    def text(self) -> str:
        """The title, and each fault and note: what was asked, expected and found."""
        lines = [
            line
            for row in self.findings
            for line in (
                f"{row.status}: {row.id}: {row.asks}",
                f"  expected: {row.expected}",
                f"  found: {row.found}",
            )
        ]
        return "\n".join([self.title, *map(printable, lines)])

    @property
    def title(self) -> str:
        """The result in one line."""
        counts = Counter(row.status for row in self.checks)
        shown = ", ".join(f"{count} {status}" for status, count in counts.items())
        found = "faulty" if self.faults else "no fault"
        decisive = {row.status for row in self.checks if row.id in ("order", "network")}
        if self.passed and decisive == {"by declaration"}:
            found = "no fault, but its declarations leave no check that it prefers exact maps"
        return f"{printable(self.metric)}: {found} ({shown})"

    def to_frame(self) -> pd.DataFrame:
        """A row for each check: id, status, expected, found, asks, snippet."""
        return pd.DataFrame(list(self.checks), columns=list(CheckRow._fields)).map(printable)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "schema": 2,
            **attributes(self, "metric", "higher_is_better", "passed", "seed", "time_limit"),
            "checks": self.to_frame().to_dict("records"),
            "versions": library_versions(),
        }


def with_fault(report: CheckReport, name: str, found: str) -> CheckReport:
    """The same report where a check has found an error after all."""
    rows = [
        row._replace(status="fault", found=found) if row.id == name else row
        for row in report.checks
    ]
    return replace(report, checks=rows)


def checks_of(handed: Handed) -> dict[str, Check]:
    """The checks of metrics that are handed this, by id, in the order in which they are asked."""
    shared = {name: each for name, each in CONDUCT.items() if handed in each.of}
    return {**shared, **BY_KIND[handed][1]}


@checked_arguments
def check_metric(
    metric: Any,
    *,
    higher_is_better: bool | None = None,
    takes: Takes | None = None,
    image_size: Annotated[int, Within(least=SIDE, most=LARGEST)] = SIDE,
    seed: Annotated[int, Within(least=0, most=HIGHEST_SEED)] = 0,
    time_limit: Annotated[float, Within(above=0, most=LONGEST)] | None = 60.0,
    only: Annotated[Sequence[str], not_empty] | None = None,
    show_progress: bool = False,
) -> CheckReport:
    """Check that a metric's code does what the metric claims, on networks with a known exact map.

    Two linear networks (one whose outputs rise with the whole image, one with arbitrary signs), one
    that counts pixels and one that takes the minimum of two counts, all on 8 x 8 pixels, give some
    thirty checks with known answers (listed in docs/metric-check.md). What the metric declares
    (`attributionlab.metrics.metric`) decides which map is exact, and settles some of them. A metric
    that passes may still rank badly if the network is not a sum: use `attributionlab.metric_test`.
    Metrics that judge methods are checked for what they vary, and on methods with a known score; those
    that compare the maps of two methods are checked on equal, unrelated, opposite and swapped maps.

    Parameters
    ----------
    metric : str or callable
        A name, or a function ``(model, images, targets, attributions, *, ...) -> (B,)``, or without a
        model ``(attributions, *, ...) -> (B,)``. A metric that judges methods takes `model`, `images`,
        `targets` and `attribute` by these names; one that compares maps takes the other maps as
        `others`. Of `replacement` (C, H, W), `truth` (mask of what raises the output), `values` (exact
        Shapley values), `information` (those above 0), each of shape (B, 1, H, W), and `seed`, it
        receives what it declares.
    higher_is_better : bool, optional
        For a function that does not declare its direction.
    takes : {"logits", "probabilities"}, optional
        As for `metric_test`.
    image_size : int
        Side of the images in checks that can find a fault, 8 to 1024; in `metric_test` that of the
        trial. All others use 8 x 8 pixels, because they call the metric some thousand times.
    seed : int
        Seed for weights, images and maps.
    time_limit : float, optional
        Seconds for each check, 60 by default. The checks run in a separate process, which is killed
        after that time; an unfinished check is a fault or a note. None: run in this process, for
        debugging; a metric that never returns is then never stopped.
    only : sequence of str, optional
        Ids of the checks to run; all by default.
    show_progress : bool
        Whether to show progress on standard error.

    Returns
    -------
    CheckReport
        ``.faults`` are errors of the code: it raises, does not return one number per map, returns
        different numbers for the same call, or changes its arguments or the network. ``.notes`` are
        advice: behavior that may be intended and should then be declared. ``.passed``: whether there
        are neither. Anything the metric does in a call (end its process, never return) is a result.

    Raises
    ------
    AttributionLabError
        For a metric that cannot be called as stated or does not declare its direction, for unknown ids,
        and for numbers out of range.

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
    tested = any_metric(metric, higher_is_better, takes)
    refuse_if([tested.refusal] if tested.only_described else [])
    kind, known = BY_KIND[tested.handed][0], checks_of(tested.handed)
    unknown = [each for each in only or () if each not in known]
    refuse_if(
        [
            f"only names {each!r}, and {tested.name} {kind}: {nearest(each, known)}"
            if each in ALL_CHECKS
            else f"no check {each!r}: {nearest(each, ALL_CHECKS)}"
            for each in unknown
        ]
    )
    refuse_if(sending_problem(metric) if time_limit is not None else [])
    return checked(tested, image_size, seed, time_limit, only or known, show_progress)


def checked(
    metric: Metric,
    image_size: int = SIDE,
    seed: int = 0,
    time_limit: float | None = None,
    only: Iterable[str] = (),
    show_progress: bool = False,
) -> CheckReport:
    """`check_metric` of what is known to be a metric that can be checked; `only`: all if empty."""
    known = checks_of(metric.handed)
    asked = list(dict.fromkeys(only or known))
    cells = [
        Cell(
            "metric-check",
            {"check": name},
            {},
            partial(_answer, name, metric, image_size, seed, time_limit is None),
        )
        for name in asked
    ]
    found = list(_results(cells, Workers(1, seconds=time_limit), show_progress))
    call = f"al.check_metric({metric.written}"
    call += "" if image_size == SIDE else f", image_size={image_size}"
    rows = [
        CheckRow(
            *(name, each.status, known[name].expected, each.found, known[name].asks),
            f"{call}, seed={seed}, only=[{name!r}], time_limit=None)",
        )
        for name, each in found
    ]
    return CheckReport(metric.name, metric.higher_is_better, tuple(rows), seed, time_limit)


def _answer(
    name: str, metric: Metric, image_size: int, seed: int, here: bool, device: str | None
) -> Result:
    """The result of a check, for `run_cells`."""
    check = ALL_CHECKS[name]
    try:
        return check.ask(Examined(metric, seed, image_size if check.blocks else SIDE))
    except KeyboardInterrupt:  # Ctrl-C, or the metric's own: other processes hear no Ctrl-C
        if here:
            raise
        return Result(check.wrong, "raised KeyboardInterrupt")


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
                last = outcome.error.strip().splitlines()[-1]
                result = Result(ALL_CHECKS[name].wrong, last)
            else:
                result = outcome.value
            failed += bool(outcome.error)
            left.remove(name)
            yield name, result
            if name == FIRST and result.status != "pass":
                why = f"not run: {FIRST} found no number"
            elif failed >= PATIENCE:
                why = f"not run: {PATIENCE} checks took too long, or ended their process"
            if why:
                break
    yield from ((name, Result("not applicable", why)) for name in left)


def checks_of_metrics(
    metrics: Sequence[Metric], side: int, seed: int, running: Running, *, quick: bool = False
) -> dict[str, CheckReport]:
    """The check of each metric's code: of ours as cells, of somebody's in a process of its own.

    `quick`: only those that can find an error.
    """
    show, only = running.get("show_progress", False), FAULTS if quick else []
    cells = [
        Cell(
            "metric-check-of-ours",
            {"metric": each.name},
            {"seed": seed, "side": side, **({"only": only} if quick else {})},
            partial(_check, each.name, side, seed, only),
        )
        for each in metrics
        if each.has_name
    ]
    done, stop = values(cells, "checking metrics", running)
    if stop is not None:
        raise Stopped(f"{len(done)} of {len(metrics)} metrics were checked") from stop
    return {str(cell.place["metric"]): found for cell, found in done} | {
        each.name: checked(
            each, side, seed, None if sending_problem(each.function) else TIME, only, show
        )
        for each in metrics
        if not each.has_name
    }


def _check(name: str, side: int, seed: int, only: Sequence[str], device: str | None) -> CheckReport:
    return checked(any_metric(name), side, seed, only=only)


def sending_problem(metric: Any) -> list[str]:
    """Why a metric cannot be checked in a process of its own."""
    try:
        cloudpickle.loads(cloudpickle.dumps(metric))
    except Exception as error:
        return [
            f"the metric cannot be sent to another process ({format_error(error)}): pass "
            "time_limit=None, which runs it in this one"
        ]
    return []
