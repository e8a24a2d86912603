"""What exams have in common: a cell of work for each random world, and shares of the worlds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from attributionlab.base import (
    AttributionLabError,
    Interval,
    Stopped,
    as_json,
    boolean_problem,
    follow,
    library_versions,
    refuse_if,
    share_interval,
)
from attributionlab.runs import (
    Cell,
    Outcome,
    Workers,
    done_before_stop,
    folder_problem,
    run_cells,
    stored,
)
from attributionlab.verdicts.exams.drawing import FEATURES
from attributionlab.verdicts.exams.worlds import random_worlds, worlds_problems
from attributionlab.verdicts.faithfulness.report import Files, ends
from attributionlab.worlds import Environment, load_call

if TYPE_CHECKING:
    import pandas as pd

MAJORITY = 0.5
"""Share of the worlds that must be passed."""
SIDES = ("with", "without")


class WorldLabel(NamedTuple):
    """A world, as every result says it: its name, its rule, how Python makes it, what it asks."""

    name: str
    rule: str
    call: str
    features: tuple[str, ...]


@dataclass(frozen=True)
class InWorld:
    """What became of one world.

    - `name`, `rule`, `call`: the world, and how Python makes it.
    - `features`: what it asks, of `attributionlab.verdicts.exams.FEATURES`.
    - `verdict`: of the test in this world; "refused" where it could not be run.
    - `reason`: why it was refused, or is invalid.
    """

    name: str
    rule: str
    call: str
    features: tuple[str, ...]
    verdict: str
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """As in the JSON file."""
        found: dict[str, Any] = as_json(vars(self))
        return found


Result = TypeVar("Result", bound=InWorld)
Report = TypeVar("Report")
Drawn = TypeVar("Drawn")


class Share(NamedTuple):
    """How many of some worlds are passed."""

    worlds: int
    passed: int

    @property
    def value(self) -> float | None:
        """None without any world."""
        return self.passed / self.worlds if self.worlds else None

    @property
    def interval(self) -> Interval | None:
        """95 % interval over worlds."""
        return share_interval(self.passed, self.worlds) if self.worlds else None

    def to_dict(self) -> dict[str, Any]:
        """As in the JSON file."""
        return {**self._asdict(), "share": self.value, "interval": ends(self.interval)}


@dataclass(frozen=True, eq=False, kw_only=True)
class ExamReport(Files, Generic[Result]):
    """What became of random worlds.

    - `results`: one for each world, in the order in which they were drawn.
    - `exam`: what names the worlds: "worlds", "seed", "difficulty", "image_size".
    - `n`: questions in each world.
    - `rejected`: how many drawn rules were not kept, by reason.
    - `command`: how to run it again.
    - `seed_drawn`: whether the seed was drawn for this exam ("fresh").
    """

    PASSED: ClassVar[str]
    """the verdict with which a world is passed"""

    results: Sequence[Result]
    exam: Mapping[str, Any]
    n: int
    rejected: Mapping[str, int]
    command: str
    seed_drawn: bool = False

    @property
    def share(self) -> Share:
        """How many worlds are passed; one without a clear verdict is not, nor a refused one."""
        return self.share_of(self.results)

    def share_of(self, results: Sequence[Result], verdict: str = "") -> Share:
        """How many of some worlds have a verdict, or else are passed."""
        wanted = verdict or self.PASSED
        return Share(len(results), sum(each.verdict == wanted for each in results))

    def _means(self, results: Sequence[Result]) -> dict[str, float | None]:
        """Means over some worlds, by name."""
        return {}

    def by_feature(self) -> "pd.DataFrame":
        """Share of worlds passed with and without each feature.

        Columns: feature, and for "with" and "without" worlds, passed, share, low, high (95 % interval
        over worlds), and the means that the test has; NaN where there is no such world.
        """
        import pandas as pd

        rows, numbers = [], set[str]()
        for feature, sides in self._by_feature().items():
            row: dict[str, Any] = {"feature": feature}
            for side, found in sides.items():
                low, high = found["interval"] or (None, None)
                means = {name: found[name] for name in self._means([])}
                values = {"share": found["share"], "low": low, "high": high, **means}
                numbers |= {f"{name}_{side}" for name in values}
                shown = {"worlds": found["worlds"], "passed": found["passed"], **values}
                row |= {f"{name}_{side}": value for name, value in shown.items()}
            rows.append(row)
        return pd.DataFrame(rows).astype(dict.fromkeys(numbers, float))

    def _by_feature(self) -> dict[str, dict[str, dict[str, Any]]]:
        """For each feature what worlds with it and without it have."""
        found = {}
        for feature in FEATURES:
            has = [each for each in self.results if feature in each.features]
            lacks = [each for each in self.results if feature not in each.features]
            found[feature] = {
                side: {**self.share_of(some).to_dict(), **self._means(some)}
                for side, some in zip(SIDES, (has, lacks), strict=True)
            }
        return found

    def document(self, **own: Any) -> dict[str, Any]:
        """What the JSON of every exam has, around what one has of its own."""
        return {
            "schema": 1,
            **own,
            "exam": dict(self.exam),
            "seed_drawn": self.seed_drawn,
            "n": self.n,
            "majority": MAJORITY,
            "passed": self.share.to_dict(),
            "by_feature": self._by_feature(),
            "rejected": dict(self.rejected),
            "command": self.command,
            "versions": library_versions(),
        }


class ExamRun(NamedTuple, Generic[Result]):
    """An exam, as far as it is done."""

    results: list[Result]
    exam: dict[str, Any]
    rejected: Mapping[str, int]
    stop: BaseException | None

    def checked(self, report: Report, name: str) -> Report:
        """The report, or what was done before the stop, or why no world could be run."""
        if self.stop is not None:
            worlds = f"{len(self.results)} of {self.exam['worlds']} worlds were done"
            raise Stopped(worlds, report if self.results else None) from self.stop
        if all(each.verdict == "refused" for each in self.results):
            refuse_if(list(dict.fromkeys(each.reason for each in self.results)), name)
        return report


def run_in_worlds(
    problems: Sequence[str],
    draw: Callable[[], Drawn],
    cells_of: Callable[[Drawn], list[Cell]],
    *,
    name: str = "",
    what: str,
    out: str | Path | None,
    jobs: int | None,
    retry_failed: bool,
    show_progress: bool,
) -> tuple[Drawn, list[Cell], dict[str, Outcome], BaseException | None]:
    """Refuse all that is wrong, how to run it included; then draw worlds and run their cells.

    `name` is in front of the problems, and `what` names the work. Returns the worlds, their cells,
    outcomes of those that are done by key, and what stopped the others.
    """
    found = [*problems, *([] if out is None else folder_problem(out))]
    found += boolean_problem("retry_failed", retry_failed)
    try:
        workers = Workers(jobs)
    except AttributionLabError as error:
        found += error.problems
    refuse_if(found, name)
    with follow("drawing worlds", show=show_progress):
        drawn = draw()
    cells = cells_of(drawn)
    with stored(out) as store:
        done, stop = done_before_stop(
            run_cells(
                *(cells, store, workers),
                retry_failed=retry_failed,
                what=what,
                show_progress=show_progress,
            )
        )
    return drawn, cells, done, stop


def run_exam(
    worlds: int,
    seed: int,
    difficulty: str,
    image_size: int,
    cell_of: Callable[[Environment], Cell],
    result_of: Callable[[WorldLabel, Any], Result],
    *,
    out: str | Path | None,
    jobs: int | None,
    retry_failed: bool,
    show_progress: bool,
) -> ExamRun[Result]:
    """Draw the worlds of an exam and run a cell in each.

    `result_of` gets the value of a cell, or the text of its refusal.
    """
    drawn, cells, done, stop = run_in_worlds(
        worlds_problems("worlds", worlds, seed, difficulty, image_size),
        lambda: random_worlds(worlds, seed, difficulty, image_size),
        lambda drawn: [cell_of(env) for env in drawn],
        what="random worlds",
        out=out,
        jobs=jobs,
        retry_failed=retry_failed,
        show_progress=show_progress,
    )
    results = []
    for env, features, cell in zip(drawn, drawn.features, cells, strict=True):
        if cell.key in done:
            assert isinstance(env.rule, str)
            asked = tuple(each for each in FEATURES if each in features)
            outcome = done[cell.key]
            found = outcome.error if outcome.refused else outcome.value
            results.append(result_of(WorldLabel(env.name, env.rule, load_call(env), asked), found))
    exam = {"worlds": worlds, "seed": seed, "difficulty": difficulty, "image_size": image_size}
    return ExamRun(results, exam, drawn.rejected, stop)
