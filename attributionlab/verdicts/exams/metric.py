"""The exam of a metric: in how many random worlds it ranks attributions as the truth does."""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch

from attributionlab.base import (
    MOST_IMAGES,
    AttributionLabError,
    AttributionWarning,
    as_json,
    integer_problem,
    mean_score,
    refuse_if,
    verdict_of,
)
from attributionlab.methods import METHODS, AttributionMethod, as_method
from attributionlab.metrics.ranking import CorrelationInterval
from attributionlab.runs import Cell, fingerprint
from attributionlab.verdicts.controls import CONTROLS
from attributionlab.verdicts.exams.exam import (
    MAJORITY,
    ExamReport,
    InWorld,
    Share,
    WorldLabel,
    run_exam,
)
from attributionlab.verdicts.faithfulness.test import drawn_seed
from attributionlab.verdicts.metric_trials.registry import Metric, as_metric
from attributionlab.verdicts.metric_trials.run import (
    FEWEST_IMAGES,
    methods_problem,
    metric_tests,
    not_built,
)
from attributionlab.worlds import Environment

if TYPE_CHECKING:
    import pandas as pd

MetricVerdict = Literal["valid", "not valid", "blind", "reversed", "undecided"]
NOT_BUILT = "not built"
"""Stands for a verdict where a world has no such questions at its size."""
NONE = CorrelationInterval(math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class MetricResult(InWorld):
    """What a metric made of one world.

    The verdict is that of the metric's trial in this world, "refused" where it could not be tried, or
    "not built" where the world has no such questions: that counts for nobody.

    `agreement`, `contrast`: means over questions with their intervals; NaN where there are none.
    """

    agreement: CorrelationInterval
    contrast: CorrelationInterval


@dataclass(frozen=True, eq=False, kw_only=True)
class MetricWorldsReport(ExamReport[MetricResult]):
    """What a metric made of random worlds; a world in which it is valid is passed.

    `metric`: its name. `higher_is_better`: which attributions it prefers.
    """

    PASSED = "valid"

    metric: str
    higher_is_better: bool

    @property
    def verdict(self) -> MetricVerdict:
        """ "valid", "reversed" or "blind" if all of the 95 % interval of the share of worlds with that
        verdict reaches one half, "blind" also if every world says so; "not valid" if nothing of
        the interval of the share of valid worlds does; "undecided" otherwise.
        """
        shares = {
            name: self.share_of(self.results, name) for name in ("valid", "reversed", "blind")
        }
        found: dict[str, str] = {
            name: verdict_of(share.interval, MAJORITY, share.value or 0.0)
            for name, share in shares.items()
        }
        if found["valid"] == "pass":
            return "valid"
        if found["blind"] == "pass" or shares["blind"].value == 1:
            return "blind"
        if found["reversed"] == "pass":
            return "reversed"
        return "not valid" if found["valid"] == "fail" else "undecided"

    def share_of(self, results: Sequence[MetricResult], verdict: str = "") -> Share:
        """Of the worlds that could be built."""
        return super().share_of([each for each in results if each.verdict != NOT_BUILT], verdict)

    def _means(self, results: Sequence[MetricResult]) -> dict[str, float | None]:
        """Mean agreement and contrast over worlds."""
        return {
            name: as_json(mean_score(np.array([getattr(each, name).value for each in results])))
            for name in ("agreement", "contrast")
        }

    def to_frame(self) -> "pd.DataFrame":
        """One row for each world: name, rule, features, verdict, agreement and contrast with low and
        high, reason.
        """
        import pandas as pd

        rows = []
        for each in self.results:
            row: dict[str, Any] = {
                "name": each.name,
                "rule": each.rule,
                "features": ", ".join(each.features),
                "verdict": each.verdict,
            }
            for name in ("agreement", "contrast"):
                value, low, high = getattr(each, name)
                row |= {name: value, f"{name}_low": low, f"{name}_high": high}
            rows.append({**row, "reason": each.reason})
        return pd.DataFrame(rows)

    def to_dict(self) -> dict[str, Any]:
        """Document that `to_json` writes."""
        return self.document(
            verdict=self.verdict,
            metric=self.metric,
            higher_is_better=self.higher_is_better,
            **self._means(self.results),
            worlds=[each.to_dict() for each in self.results],
        )


def metric_worlds_test(
    metric: str | Callable[..., Any],
    worlds: int = 50,
    seed: int | Literal["fresh"] = 0,
    difficulty: str = "medium",
    image_size: int = 48,
    n: int = 6,
    *,
    higher_is_better: bool | None = None,
    methods: Sequence[AttributionMethod] = (),
    device: str | torch.device | None = None,
    out: str | Path | None = None,
    jobs: int | None = 1,
    retry_failed: bool = False,
    show_progress: bool = False,
    command: str | None = None,
) -> MetricWorldsReport:
    """Test a metric in random worlds: in how many of them it ranks attributions as the truth does.

    Each world is an environment of `metric_test`: n questions, each with the rule in drawn roles and
    with a twin. Nothing is unseen in worlds, so no drop is measured. The result is the share of worlds
    in which the metric is valid, with an interval over worlds, and the same by feature, with mean
    agreement and swap contrast. A world that is undecided is not passed.

    Parameters
    ----------
    metric, higher_is_better, methods
        As for `metric_test`.
    worlds, seed, difficulty, image_size
        What names the worlds: `attributionlab.random_worlds`. "fresh" draws a seed, which the report
        states: an exam after the metric is fixed.
    n : int
        Questions in each world, at least 2; with fewer than 6 the only clear verdict is "blind".
    device, out, jobs, retry_failed, show_progress, command
        As for `compare`.

    Raises
    ------
    AttributionLabError
        For all that is wrong with the arguments, and for a metric that cannot be tested in any world.

    Examples
    --------
    >>> import attributionlab as al
    >>> report = al.metric_worlds_test("sparsity", worlds=2, difficulty="easy", image_size=24, n=2)
    >>> report.share.passed, report.verdict  # it never looks at the network
    (0, 'blind')
    """
    tested = as_metric(metric, higher_is_better)
    problems = integer_problem("n", n, FEWEST_IMAGES, MOST_IMAGES) + methods_problem(methods)
    refuse_if(problems, "metric_worlds_test")
    number, seed_drawn = drawn_seed(seed)
    resolved = [as_method(each, METHODS | CONTROLS) for each in methods]
    inputs = {
        "metric": (tested.name, tested.higher_is_better, fingerprint(tested.function)),
        "methods": [
            (each.name, each.built_in or fingerprint(each.function), dict(each.settings))
            for each in resolved
        ],
        "n": n,
    }

    def cell_of(env: Environment) -> Cell:
        # Other images in each world, or chance in them would be in all worlds at once.
        return Cell(
            "metric-worlds",
            {"metric": tested.name, "environment": env.name, "spec": env.spec.digest[:8]},
            {**inputs, "environment": env.spec.digest, "device": str(device or env.device)},
            partial(_in_world, tested, env, n, methods, device),
        )

    warned: list[str] = []

    def result_of(shown: WorldLabel, found: _Tested | str) -> MetricResult:
        if isinstance(found, str):
            return MetricResult(*shown, "refused", found, NONE, NONE)
        warned.extend(found.warned)
        return MetricResult(*shown, found.verdict, found.reason, found.agreement, found.contrast)

    run = run_exam(
        *(worlds, number, difficulty, image_size, cell_of, result_of),
        out=out,
        jobs=jobs,
        retry_failed=retry_failed,
        show_progress=show_progress,
    )
    for text in dict.fromkeys(warned):
        warnings.warn(text, AttributionWarning, stacklevel=2)
    shown = repr(metric) if isinstance(metric, str) else tested.name
    report = MetricWorldsReport(
        metric=tested.name,
        higher_is_better=tested.higher_is_better,
        results=run.results,
        exam=run.exam,
        n=n,
        rejected=run.rejected,
        command=command
        or f"attributionlab.metric_worlds_test({shown}, worlds={worlds}, seed={number}, "
        f"difficulty={difficulty!r}, image_size={image_size}, n={n}, "
        f"higher_is_better={higher_is_better}, "
        f"methods=[{', '.join(each.reference for each in resolved)}], device={device!r})",
        seed_drawn=seed_drawn,
    )
    return run.checked(report, tested.name)


class _Tested(NamedTuple):
    """What is kept of a metric's test in a world."""

    verdict: str
    reason: str
    """why the world could not be built"""
    agreement: CorrelationInterval
    contrast: CorrelationInterval
    warned: list[str]


def _in_world(
    metric: Metric,
    env: Environment,
    n: int,
    methods: Sequence[AttributionMethod],
    device: str | torch.device | None,
    own_device: str | None,
) -> _Tested:
    """The test of a metric in one world."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", AttributionWarning)
        try:
            [report] = metric_tests(
                [metric], env, n, env.spec.seed, methods=methods, device=own_device or device
            )
        except AttributionLabError:
            if problem := not_built(env, env.spec.seed, n):
                return _Tested(NOT_BUILT, problem, NONE, NONE, [])
            raise
    assert report.trial is not None
    contrast = report.trial.contrast
    return _Tested(
        report.verdict,
        "",
        report.trial.agreement,
        NONE if contrast is None else contrast.mean,
        [str(each.message) for each in caught],
    )
