"""The test of metrics: checks of their code, which advise, and their trials, which decide."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

from attributionlab.base import Stopped, explained_arguments
from attributionlab.metrics import Takes
from attributionlab.runs import Cell, values
from attributionlab.verdicts.metric_trials.answers import Asked
from attributionlab.verdicts.metric_trials.check import CheckReport, checked, sending_problem
from attributionlab.verdicts.metric_trials.laboratories import SIDE
from attributionlab.verdicts.metric_trials.registry import Metric, any_metric, as_metric
from attributionlab.verdicts.metric_trials.report import MetricReport
from attributionlab.verdicts.metric_trials.run import MetricTestOptions, questions_of, reports_of
from attributionlab.worlds import Environment, as_environment

TIME = 60.0
"""Seconds for each check of somebody's function; none of ours runs for ever."""


@explained_arguments
def metric_test(
    metric: str | Callable[..., Any],
    env: str | Environment = "multi-color-sum",
    n: int = 8,
    seed: int = 0,
    *,
    higher_is_better: bool | None = None,
    takes: Takes | None = None,
    **options: Unpack[MetricTestOptions],
) -> MetricReport:
    """Test whether a metric ranks attributions as the truth does, and because of the network.

    First its code is checked (`attributionlab.check_metric`): a metric whose code has an error is
    *faulty* and not tried; all else that the checks find is a note in the report. The trial decides.

    Each image is a question (`attributionlab.Questions`): it has a target and a network of its own,
    which alone tells what each color counts for. More than a hundred attributions that are wrong by
    known amounts (`graded_attributions` in `metric_trials.graded`) are ranked twice: by the metric, and
    by their lowest F1 against the masks.

    - *Agreement* is Spearman's correlation of the two rankings, mean over questions.
    - *Swap contrast* (`metric_trials.swap`): the same attributions, a twin's and lures are scored
      before the question's network and before that of the twin, which has other roles. It is the
      agreement with the truth of the network that was shown, less that with the other truth, and
      exactly 0 for a metric that never looks at the network.
    - *Lead*: by how much the metric agrees better with the truth than the best control
      (`metric_trials.blind`) on the same attributions, the twin's and lures among them. Controls never
      see the network, or ask it about one pixel.
    - *Drops*: by how much unseen data lowers the agreement, paired within questions, along four axes:
      strength and number of the network's redundant channels, distance of the replacement from the
      true baseline, share of the replaced pixels that have an unseen color. Axes that change no score
      are left out. Worlds from rules have no redundant channels: nothing is unseen there.

    Pixels that the truth does not ask (`Truth.asked`) count for no F1, and graded attributions say
    nothing of them.

    Intervals are over questions and over families of attributions (kinds of damage, methods).
    `MetricReport.verdict` is "valid", "not valid", "blind", "reversed", "undecided" or "faulty"
    (`metric_trials.swap.verdict_of`). Attributions, and the two networks, come in a drawn order.

    Parameters
    ----------
    metric : str or callable
        The name of a metric of `al.metrics`, with hyphens, such as "insertion", "road" or "f1", or a
        function ``(model, images, targets, attributions, *, ...) -> (B,)``. Of `replacement` (C, H, W),
        `truth` (the positive mask), `values` (exact Shapley values), `information` (those above 0) and
        `seed` it is given what it declares; one without `model` is called ``(attributions, *, ...)``.
        Names of metrics that never look at the model are taken, too (`metric_trials.blind`). A function
        gets copies of one image with several attributions; one that draws random subsets should draw
        the same for all of them, as the built-in ones do by name. "infidelity" leaves the scale of a
        map free, from 0 up: ranked attributions have no common one.
    env : str or Environment
        Where nothing can be unseen, as in a world from a rule, there are no drops.
    n : int
        Questions, at least 2; with fewer than six the only clear verdict is "blind".
    seed : int
        Seed for questions, damages, subsets and resampling.
    higher_is_better : bool, optional
        For a function that does not say so itself (`attributionlab.metrics.metric`).
    takes : {"logits", "probabilities"}, optional
        For a function that does not say so itself: what the outputs of the model are that it is handed.
        By default they are what is explained: probabilities of a classifier (with the temperature of
        the environment), or logits with ``output="logit"``. A metric that applies a softmax itself
        takes logits; those that it is handed are divided by the temperature, so that their softmax is
        the explained probability.
    **options
        As `MetricTestOptions` says: methods, doses, output, threshold, confidence, device,
        one_network, out, jobs, retry_failed, show_progress.

    Raises
    ------
    AttributionLabError
        For an unknown metric or one that cannot be tested, an unknown environment, method or axis,
        doses in an environment to which no color is unseen, one that has neither unseen colors nor
        other roles, and impossible numbers.

    Examples
    --------
    >>> import attributionlab as al
    >>> env = al.load("multi-color-sum", image_size=12)
    >>> al.metric_test("sparsity", env, n=2, doses={"share": [0]}).verdict
    'blind'
    """
    tested = as_metric(metric, higher_is_better, takes)
    place = as_environment(env)
    try:
        [report] = checked_and_tried(
            [tested], place, n, seed, side=max(SIDE, place.image_shape[-1]), **options
        )
    except Stopped as stop:
        raise Stopped(str(stop), stop.result and stop.result[0]) from stop
    return report


def checked_and_tried(
    metrics: Sequence[Metric],
    env: str | Environment,
    n: int,
    seed: int,
    *,
    side: int = SIDE,
    **options: Unpack[MetricTestOptions],
) -> list[MetricReport]:
    """Check the code of metrics, and try those that can be tried, and have no error, side by side.

    `side`: of the images of those checks that may find an error. The rest is as for `metric_test`.

    Result: a report of each, without a trial where there was none. Raises `Stopped` with them, too.
    """
    tried = [each for each in metrics if not each.untried]
    # What a trial refuses is refused before the checks.
    asked = questions_of(tried, env, n, seed, **options) if tried else None
    checks = _checks([each for each in metrics if not each.only_described], side, seed, options)
    trials, stop = list[MetricReport](), None
    sound = [] if asked is None else [e for e in asked.metrics if not checks[e.name].faults]
    if asked is not None and sound:
        try:
            trials = reports_of(replace(asked, metrics=sound), n, **options)
        except Stopped as error:
            trials, stop = error.result or [], error
    by_name = {each.metric: each for each in trials}
    reports = [
        replace(
            by_name.get(each.name) or _without_trial(each, asked, seed),
            checks=checks.get(each.name),
        )
        for each in metrics
    ]
    if stop is not None:
        raise Stopped(str(stop), reports if trials else None) from stop
    return reports


def _without_trial(metric: Metric, asked: Asked | None, seed: int) -> MetricReport:
    """The report of a metric that was not tried."""
    return MetricReport(
        metric=metric.name,
        higher_is_better=metric.higher_is_better,
        environment=asked.panels.env.name if asked else "",
        output=asked.panels.output if asked else "",
        n=0,
        seed=seed,
        candidates=[],
        doses=[],
        has_unseen_data=bool(asked and asked.conditions),
        takes=metric.takes,
    )


def _checks(
    metrics: Sequence[Metric], side: int, seed: int, options: MetricTestOptions
) -> dict[str, CheckReport]:
    """The check of each metric's code: of ours as cells, of somebody's in a process of its own."""
    show = options.get("show_progress", False)
    cells = [
        Cell(
            "metric-check-of-ours",
            {"metric": each.name},
            {"seed": seed, "side": side},
            partial(_check, each.name, side, seed),
        )
        for each in metrics
        if each.has_name
    ]
    done, stop = values(cells, "checking metrics", options)
    if stop is not None:
        raise Stopped(f"{len(done)} of {len(metrics)} metrics were checked") from stop
    return {str(cell.place["metric"]): found for cell, found in done} | {
        each.name: checked(
            each, side, seed, None if sending_problem(each.function) else TIME, show_progress=show
        )
        for each in metrics
        if not each.has_name
    }


def _check(name: str, side: int, seed: int, device: str | None) -> CheckReport:
    return checked(any_metric(name), side, seed)
