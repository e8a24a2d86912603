"""The test of a metric: checks of its code, which advise, and its trial, which decides."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Unpack

from attributionlab.base import Stopped, explained_arguments
from attributionlab.metrics import Takes
from attributionlab.verdicts.metric_kit.laboratories import SIDE
from attributionlab.verdicts.metric_kit.run import check_metric, is_sendable
from attributionlab.verdicts.metric_trials.registry import as_metric
from attributionlab.verdicts.metric_trials.report import MetricReport
from attributionlab.verdicts.metric_trials.run import (
    MetricTestOptions,
    ReportOptions,
    questions_of,
    reports_of,
)
from attributionlab.worlds import Environment

TIME = 60.0
"""Seconds for each check."""


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
        one_network, out, jobs, retry_failed, show_progress, command.

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
    reporting, asking = dict[str, Any](), dict[str, Any]()
    for key, value in options.items():
        (reporting if key in ReportOptions.__annotations__ else asking)[key] = value
    asked, reason = questions_of([tested], env, n, seed, options=reporting, **asking)
    checks = check_metric(
        metric,
        higher_is_better=higher_is_better,
        takes=takes,
        image_size=max(SIDE, asked.panels.env.image_shape[-1]),
        seed=seed,
        time_limit=TIME if is_sendable(metric) else None,
        show_progress=options.get("show_progress", False),
    )
    if checks.faults:
        return MetricReport(
            metric=tested.name,
            higher_is_better=tested.higher_is_better,
            environment=asked.panels.env.name,
            output=asked.panels.output,
            n=0,
            seed=seed,
            candidates=[],
            doses=[],
            has_unseen_data=bool(asked.conditions),
            command=options.get("command", ""),
            takes=tested.takes,
            checks=checks,
        )
    try:
        [report] = reports_of(asked, n, reason=reason, **reporting)
    except Stopped as stop:
        done = stop.result and replace(stop.result[0], checks=checks)
        raise Stopped(str(stop), done) from stop
    return replace(report, checks=checks)
