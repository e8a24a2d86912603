"""The test of a metric: graded attributions, ranked by it at every dose and by the truth."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attributionlab.base import (
    MOST_IMAGES,
    AttributionLabError,
    AttributionWarning,
    Stopped,
    applicable,
    integer_problem,
    mean_score,
    number_problem,
    own_arithmetic,
    refuse_if,
)
from attributionlab.methods import AttributionMethod
from attributionlab.metrics import Part, Takes
from attributionlab.metrics.ranking import Resamples
from attributionlab.runs import Running, values
from attributionlab.verdicts.metric_trials.agreement import (
    Agreement,
    lowest_part,
    mean_over_images,
    without_rounding,
)
from attributionlab.verdicts.metric_trials.answers import Answers, Asked
from attributionlab.verdicts.metric_trials.conditions import Condition, conditions_of
from attributionlab.verdicts.metric_trials.panel import Candidate, Panels, refuse_equal_twins
from attributionlab.verdicts.metric_trials.registry import Metric, as_metric
from attributionlab.verdicts.metric_trials.report import DoseScore, MetricReport, Trial
from attributionlab.verdicts.metric_trials.swap import (
    Drop,
    Lead,
    Pair,
    contrast_of,
    lead_over,
    unmoved_axes,
)
from attributionlab.worlds import Environment, Questions, as_environment
from attributionlab.worlds.truth import Output

Numbers = NDArray[np.float64]

FEWEST_IMAGES = 2
EXACT_SHAPLEY = "exact Shapley values"
OTHER_GAME = "Shapley values of the replacement's game"
BETTER = 0.01
"""By which share of the reach of all scores a map must beat the oracle: the order of pixels with equal
values, which says nothing, moves an area by some thousandths."""


class ReportOptions(Running, total=False):
    """Those keywords of `MetricTestOptions` that say how tests are run and reported."""

    threshold: float
    confidence: float
    command: str


class MetricTestOptions(ReportOptions, total=False):
    """Keywords of a test of metrics.

    Parameters
    ----------
    methods : sequence, optional
        Real methods, ranked beside the graded attributions; whatever `faithfulness_test` takes.
    doses : mapping of str to sequence of float, optional
        Which axes ("strength", "channels", "distance", "share"), at which doses; all of
        `metric_trials.conditions.AXES` by default.
    output : {"probability", "logit"}, optional
        Which output is explained and perturbed; that of the environment by default.
    threshold : float
        A metric breaks where the interval's upper end falls below it for good; in (-1, 1], 0.5 by
        default.
    confidence : float
        Confidence of the intervals, in (0, 1), 0.95 by default.
    one_network : bool
        Take the images of the data set, all with the roles of `env`, instead of questions. There are no
        twins then, so nothing is decided; at every dose the Shapley values of the replacement's game
        compete with the exact mask. False by default.
    out, jobs, retry_failed, show_progress, device
        As for `attributionlab.compare`. Methods, and metrics of your own, compute on the device; the
        built-in metrics follow the laboratory's networks on the CPU in any case.
    command : str, optional
        How to run this again, for the report.
    """

    methods: Sequence[AttributionMethod]
    doses: Mapping[str, Sequence[float]] | None
    output: Output | None
    one_network: bool


def metric_trial(
    metric: str | Callable[..., Any],
    env: str | Environment = "multi-color-sum",
    n: int = 8,
    seed: int = 0,
    *,
    higher_is_better: bool | None = None,
    takes: Takes | None = None,
    **options: Unpack[MetricTestOptions],
) -> MetricReport:
    """The trial of `attributionlab.metric_test` without the checks of the metric's code; its
    parameters and errors.
    """
    try:
        tested = as_metric(metric, higher_is_better, takes)
        [report] = metric_tests([tested], env, n, seed, **options)
    except Stopped as stop:
        raise Stopped(str(stop), stop.result and stop.result[0]) from stop
    return report


def metric_tests(
    metrics: Sequence[Metric],
    env: str | Environment = "multi-color-sum",
    n: int = 8,
    seed: int = 0,
    *,
    methods: Sequence[AttributionMethod] = (),
    doses: Mapping[str, Sequence[float]] | None = None,
    output: Output | None = None,
    one_network: bool = False,
    **options: Unpack[ReportOptions],
) -> list[MetricReport]:
    """`metric_trial` of several metrics, which share what the model says; its parameters and errors."""
    asked, reason = questions_of(
        metrics,
        env,
        n,
        seed,
        methods=methods,
        doses=doses,
        output=output,
        one_network=one_network,
        options=options,
    )
    return reports_of(asked, n, reason=reason, **options)


def questions_of(
    metrics: Sequence[Metric],
    env: str | Environment,
    n: int,
    seed: int,
    *,
    methods: Sequence[AttributionMethod] = (),
    doses: Mapping[str, Sequence[float]] | None = None,
    output: Output | None = None,
    one_network: bool = False,
    options: Mapping[str, Any],
) -> tuple[Asked, str]:
    """What a trial asks, and why its questions have no twins ("" where they have); refuses what a trial
    refuses before any work.
    """
    refuse_if(
        [
            *integer_problem("n", n, FEWEST_IMAGES, MOST_IMAGES),
            *integer_problem("seed", seed, 0),
            *number_problem("threshold", options.get("threshold", 0.5), above=-1, most=1),
            *number_problem("confidence", options.get("confidence", 0.95), above=0, below=1),
            *methods_problem(methods),
        ]
    )
    with own_arithmetic():
        chosen = as_environment(env)
        if options.get("device") is not None:
            chosen = chosen.to(options["device"])
        explained = chosen.checked_output(output)
        if explained == "logit" and chosen.softmax_model is not None:
            refuse_if(
                [
                    f"{each.name} takes probabilities, and output is 'logit': leave output out"
                    for each in metrics
                    if each.takes == "probabilities"
                ]
            )
        conditions = conditions_of(chosen, doses)
        reason = why_no_twins(chosen, seed, explained, one_network=one_network)
        if reason and not (conditions or one_network):
            raise AttributionLabError(f"{reason}; nothing is unseen there either")
        panels = Panels(chosen, n, seed, explained, methods, one_network=bool(reason))
    return Asked(panels, metrics, conditions), reason


def reports_of(
    asked: Asked,
    n: int,
    *,
    reason: str = "",
    threshold: float = 0.5,
    confidence: float = 0.95,
    command: str = "",
    **running: Unpack[Running],
) -> list[MetricReport]:
    """Ask metrics about the first `n` images of panels; `reason` says why those have no twins.

    Panels that are kept (`Panels.shared`) save what they have been asked. The rest is as for
    `metric_test`, which has checked it.
    """
    metrics, seed = asked.metrics, asked.panels.seed
    with own_arithmetic():
        cells = asked.cells(n)
    done, stop = values(cells, "testing metrics", running)
    if len(done) < FEWEST_IMAGES:  # stopped
        raise Stopped(f"{len(done)} of {n} images were done") from stop
    answers = {int(cell.place["question"]): each for cell, each in done}
    for text in dict.fromkeys(text for each in answers.values() for text in each.warned):
        warnings.warn(text, AttributionWarning, stacklevel=4)
    found = _Found(asked, answers)
    refuse_if([_NAN.format(name=each.name) for each in metrics if found.says_nothing(each)])
    agreement = found.agreement(confidence, seed)
    exchange = None if reason else _Exchange(found, list(answers.values()), confidence, seed)
    reports = [
        MetricReport(
            metric=metric.name,
            higher_is_better=metric.higher_is_better,
            environment=asked.panels.env.name,
            output=asked.panels.output,
            n=len(done),
            seed=seed,
            candidates=[each.name for each in found.candidates],
            doses=found.dose_scores(metric, agreement),
            trial=found.trial(metric, agreement, exchange),
            not_decisive=reason,
            has_unseen_data=bool(asked.conditions),
            threshold=threshold,
            confidence=confidence,
            command=command,
            wanted=n,
            takes=metric.takes,
            unmoved=sorted(found.unmoved(metric)),
        )
        for metric in metrics
    ]
    if stop is not None:
        verdicts = "; ".join(f"{each.metric} {each.verdict}" for each in reports)
        raise Stopped(f"{len(done)} of {n} images were done: {verdicts}", reports) from stop
    return reports


def methods_problem(methods: Any) -> list[str]:
    """What is wrong with real methods to rank."""
    if isinstance(methods, list | tuple):
        return []
    return [f"methods is {methods!r}: give a list, such as ['saliency'], or leave it out"]


def why_no_twins(env: Environment, seed: int, output: Output, *, one_network: bool = False) -> str:
    """Why no other network can be put before an image; "" where one can."""
    if one_network:
        return "all images have networks with the same roles (one_network), and no twins"
    first = Questions(env, seed)[0]
    if first.world is not None:
        if first.other_network(output) is not None:
            return ""
        return (
            f"in no other role of its rule something else raises the output of {env.name}, so no "
            "network has other roles; take a world whose colors, quadrants or motifs can change places"
        )
    if len(first.values) < 2:
        return (
            f"images of {env.name} show one kind of pixels that may count, so no network has other "
            "roles; take an environment with several colors"
        )
    return ""


def not_built(env: Environment, seed: int, n: int) -> str:
    """Why a world has no `n` questions with twins at its size; "" where it has."""
    try:
        questions = Questions(env, seed)
        for number in range(n):
            refuse_equal_twins(questions[number], questions.twin(number))
    except AttributionLabError as error:
        return str(error)
    return ""


_NAN = (
    "{name} is NaN for every attribution of every image, so it ranks none: let it return a number for "
    "each, and NaN only where it is not defined"
)


class _Found:
    """Scores of all attributions, of those images that are done."""

    def __init__(self, asked: Asked, answers: Mapping[int, Answers]) -> None:
        self.conditions, self.clean, self.controls = asked.conditions, asked.clean, asked.controls
        self.panels = asked.panels
        self.numbers, each = list(answers), list(answers.values())
        self.candidates, self.others = each[-1].candidates, each[-1].others
        self.f1 = _columns([one.f1 for one in each])
        self.scores = _columns([one.scores for one in each])

    def says_nothing(self, metric: Metric) -> bool:
        """Whether all of a metric's scores are NaN."""
        return all(
            bool(np.isnan(scores).all())
            for (name, _), scores in self.scores.items()
            if name == metric.name
        )

    def agreement(self, confidence: float, seed: int) -> Agreement:
        """The truth's rankings; other families are drawn where questions are asked."""
        families = [each.family for each in self.candidates] if self.others else None
        return self.panels.shared(
            ("agreement", confidence, seed, *self.numbers),
            lambda: Agreement(self.f1, confidence, seed, families),
        )

    def dose_scores(self, metric: Metric, agreement: Agreement) -> list[DoseScore]:
        """What became of a metric under every condition, each distinct one worked out once."""
        unmoved = self.unmoved(metric)
        moved = [each for each in self.conditions if each.axis not in unmoved]
        known = {each.key: each for each in moved}
        scores = {key: self._dose_score(metric, each, agreement) for key, each in known.items()}
        return [scores[each.key]._replace(axis=each.axis, dose=each.dose) for each in moved]

    def unmoved(self, metric: Metric) -> set[str]:
        """Axes along which no score of the metric changes."""
        if not (self.others and self.conditions):
            return set()
        axes, keys = zip(*((each.axis, each.key) for each in self.conditions), strict=True)
        return unmoved_axes(axes, keys, [self.scores[metric.name, key] for key in keys])

    def trial(self, metric: Metric, agreement: Agreement, exchange: "_Exchange | None") -> Trial:
        """What is known of a metric without unseen data, and by how much that makes it worse."""
        scores, better = self.scores[metric.name, self.clean.key], metric.higher_is_better
        found = agreement.correlations(scores[: len(self.candidates)], better)
        value, ranked = agreement.resamples.interval(found), applicable(found.each)
        if exchange is None:
            shown = scores[: len(self.candidates)]
            table = _frame(self.candidates, self.numbers, "own", shown, self.f1)
            return Trial(value, None, None, [], table, pd.DataFrame(), pd.DataFrame(), ranked)
        unmoved, drops = self.unmoved(metric), []
        for each in self.conditions:
            if each.unseen and each.axis not in unmoved:
                at = self.scores[metric.name, each.key][: len(self.candidates)]
                less = found.less(agreement.correlations(at, better))
                drops.append(Drop(each.axis, each.dose, agreement.resamples.interval(less)))
        return Trial(
            *(value, exchange.contrast(metric), exchange.lead(metric), drops),
            *(exchange.frame(metric), exchange.controls(metric), exchange.lures(metric), ranked),
            sees_signs=exchange.sees_signs(metric),
        )

    def _dose_score(self, metric: Metric, condition: Condition, agreement: Agreement) -> DoseScore:
        """What became of a metric under one condition."""
        scores, ranked = self.scores[metric.name, condition.key], len(self.candidates)
        means = mean_over_images(scores)
        names = [*(each.name for each in self.candidates), EXACT_SHAPLEY, OTHER_GAME]
        better = means if metric.higher_is_better else -means
        reach = np.nanmax(better) - np.nanmin(better) if not np.isnan(better).all() else 0.0
        winner = 0
        if reach and np.nanmax(better) > better[0] + BETTER * reach:
            winner = int(np.nanargmax(better))
        return DoseScore(
            axis=condition.axis,
            dose=condition.dose,
            unseen=condition.unseen,
            correlations=agreement.of(scores[:ranked], metric.higher_is_better),
            oracle=float(means[0]),
            shapley=float(means[ranked]),
            best=float(means[winner]),
            best_map=names[winner],
        )


class _Exchange:
    """Scores of both twins' attributions before both networks."""

    def __init__(
        self, found: _Found, answers: Sequence[Answers], confidence: float, seed: int
    ) -> None:
        self._found = found
        self._candidates = [*found.candidates, *found.others]
        self._scores, self._f1 = (
            [
                _columns([{key: pair[side] for key, pair in each.items()} for each in pairs])
                for side in (0, 1)
            ]
            for pairs in zip(*((each.swapped, each.swapped_f1) for each in answers), strict=True)
        )
        self._truths = lowest_part(self._f1[0]), lowest_part(self._f1[1])
        families = [each.family for each in self._candidates]
        self._resamples = found.panels.shared(
            ("twins", confidence, seed, *found.numbers),
            lambda: Resamples(families, confidence, seed),
        )
        # On the same attributions, which are no sample then: only questions are drawn again.
        self._fixed = Resamples(None, confidence, seed)

    def _ranked(self, metric: Metric) -> Pair:
        """The higher the better."""
        own, twin = (each[metric.name] for each in self._scores)
        return (own, twin) if metric.higher_is_better else (-own, -twin)

    def contrast(self, metric: Metric) -> Any:
        return contrast_of(self._ranked(metric), self._truths, self._resamples)

    def lead(self, metric: Metric) -> Lead:
        """Agreement above that of the best control, on both twins' attributions and lures."""
        controls = {each.name: self._ranked(each) for each in self._found.controls}
        return lead_over(self._ranked(metric), controls, self._truths, self._fixed)

    def sees_signs(self, metric: Metric) -> bool:
        """Whether any score before either network changes where signs of the exact map do."""
        turned = [
            place
            for place, each in enumerate(self._candidates)
            if (each.family, each.made_for) == ("signs", "own")
        ]
        return any(
            bool(np.ptp(without_rounding(scores.T)[:, [0, *turned]], axis=1).any())
            for scores in self._ranked(metric)
        )

    def frame(self, metric: Metric) -> pd.DataFrame:
        """A row for each attribution before each network."""
        candidates, numbers = self._candidates, self._found.numbers
        return pd.concat(
            [
                _frame(candidates, numbers, network, scores[metric.name], f1)
                for network, scores, f1 in zip(("own", "twin"), self._scores, self._f1, strict=True)
            ],
            ignore_index=True,
        )

    def controls(self, metric: Metric) -> pd.DataFrame:
        """What controls reach on these attributions, and how like them this metric is."""
        ranked, rows = self._ranked(metric)[0], []
        agreement = Agreement(self._found.f1, 0.95, 0)  # no intervals: the panel as it is
        for each in self._found.controls:
            own = self._ranked(each)
            f1 = agreement.correlations(own[0][: len(self._found.candidates)], True)
            rows.append(
                {
                    "metric": each.name,
                    "agreement": mean_score(f1.each),
                    "contrast": contrast_of(own, self._truths, self._fixed).mean.value,
                    "likeness": self._fixed.interval(
                        self._fixed.correlations(
                            *(without_rounding(values.T) for values in (ranked, own[0]))
                        )
                    ).value,
                }
            )
        return pd.DataFrame(rows)

    def lures(self, metric: Metric) -> pd.DataFrame:
        """How wrong attributions that a metric may fall for score beside the exact one."""
        own, rows = self._ranked(metric)[0], []
        means = mean_over_images(self._scores[0][metric.name])
        for place, each in enumerate(self._candidates):
            if each.family == "lure" or (each.name, each.made_for) == ("exact", "twin"):
                rows.append(
                    {
                        "lure": each.name if each.family == "lure" else "exact for the twin",
                        "f1": mean_score(self._truths[0][place]),
                        "score": means[place],
                        "exact_score": means[0],
                        "beats_exact": float((own[place] >= own[0]).mean()),
                    }
                )
        return pd.DataFrame(rows)


def _columns(each: Sequence[Mapping[Any, Numbers]]) -> dict[Any, Numbers]:
    """Arrays (candidates,) of each image, by a key, as (candidates, images)."""
    return {key: np.stack([one[key] for one in each], 1) for key in each[0]}


def _frame(
    candidates: Sequence[Candidate],
    numbers: Sequence[int],
    network: str,
    scores: Numbers,
    f1: Mapping[Part, Numbers],
) -> pd.DataFrame:
    """A row for each attribution of each image: its score before a network, and its F1 there."""
    table = pd.DataFrame([each._asdict() for each in candidates for _ in numbers])
    table.insert(0, "question", np.tile(numbers, len(candidates)))
    table.insert(1, "network", network)
    table["score"] = scores.ravel()
    for part, each in f1.items():
        table[f"f1_{part}"] = each.ravel()
    table["f1_lowest"] = lowest_part(f1).ravel()
    return table
