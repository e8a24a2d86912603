"""The test of metrics: checks of their code, of which only an error ends it, and trials, which decide:
graded attributions, ranked by the metric at every dose and by the truth.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

import numpy as np
import pandas as pd

from attributionlab.base import (
    CONFIDENCE,
    MOST_IMAGES,
    AttributionLabError,
    AttributionWarning,
    Numbers,
    Stopped,
    applicable,
    explained_arguments,
    integer_problem,
    lowest_f1,
    mean_score,
    number_problem,
    own_arithmetic,
    refuse_if,
)
from attributionlab.methods import AttributionMethod
from attributionlab.metrics import Takes
from attributionlab.metrics.ranking import Correlations, Resamples
from attributionlab.runs import values
from attributionlab.verdicts.faithfulness.protocol import RunningMethods, named_environment
from attributionlab.verdicts.metric_trials import agreement, panel
from attributionlab.verdicts.metric_trials.asking import SIDE
from attributionlab.verdicts.metric_trials.check import FIRST, checks_of_metrics, with_fault
from attributionlab.verdicts.metric_trials.conditions import Condition, conditions_of, quick_doses
from attributionlab.verdicts.metric_trials.isolation import tried_apart
from attributionlab.verdicts.metric_trials.registry import METRIC_CONTROLS, Metric, as_metric
from attributionlab.verdicts.metric_trials.report import DoseScore, MetricReport, Trial
from attributionlab.verdicts.own_process import processes_ended
from attributionlab.worlds import Environment, Questions
from attributionlab.worlds.truth import Output

FEWEST_IMAGES = 2
EXACT_SHAPLEY = "exact Shapley values"
OTHER_GAME = "Shapley values of the replacement's game"
BETTER = 0.01
"""By which share of the reach of all scores a map must beat the oracle: the order of pixels with equal
values, which says nothing, moves an area by some thousandths."""


class MetricTestOptions(RunningMethods, total=False):
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
        counterparts then, so nothing is decided; at every dose the Shapley values of the replacement's
        game compete with the exact mask. False by default.
    isolated : bool
        Call a user's metric in a process of its own, which has what the metric declares and nothing
        else; so it is by default. Set it to False for one that cannot be sent there.
    out, jobs, retry_failed, show_progress, device
        As for `attributionlab.compare`. Methods, and metrics of your own, compute on the device; the
        built-in metrics follow the laboratory's networks on the CPU in any case.
    """

    methods: Sequence[AttributionMethod]
    doses: Mapping[str, Sequence[float]] | None
    output: Output | None
    threshold: float
    confidence: float
    one_network: bool


def metric_tests(
    metrics: Sequence[Metric],
    env: str | Environment = "multi-color-sum",
    n: int = 8,
    seed: int = 0,
    **options: Unpack[MetricTestOptions],
) -> list[MetricReport]:
    """The trials of `attributionlab.metric_test` alone, of several metrics, which share what the model
    says; its parameters and errors.
    """
    reports = reports_of(questions_of(metrics, env, n, seed, **options), n, **options)
    refuse_if([f"{each.metric} is {RANKS_NONE}" for each in reports if each.trial is None])
    return reports


def questions_of(
    metrics: Sequence[Metric],
    env: str | Environment,
    n: int,
    seed: int,
    **options: Unpack[MetricTestOptions],
) -> panel.Asked:
    """What a trial asks; refuses what a trial refuses before any work."""
    methods, one_network = options.get("methods", ()), options.get("one_network", False)
    refuse_if(
        [
            *integer_problem("n", n, FEWEST_IMAGES, MOST_IMAGES),
            *integer_problem("seed", seed, 0),
            *number_problem("threshold", options.get("threshold", 0.5), above=-1, most=1),
            *number_problem("confidence", options.get("confidence", CONFIDENCE), above=0, below=1),
            *(
                []
                if isinstance(methods, list | tuple)
                else [f"methods is {methods!r}: give a list, such as ['saliency'], or leave it out"]
            ),
        ]
    )
    with own_arithmetic():
        chosen = named_environment(env)
        if (device := options.get("device")) is not None:
            chosen = chosen.to(device)
        explained = chosen.checked_output(options.get("output"))
        if explained == "logit" and chosen.softmax_model is not None:
            refuse_if(
                [
                    f"{each.name} takes probabilities, and output is 'logit': leave output out"
                    for each in metrics
                    if each.takes == "probabilities"
                ]
            )
        conditions = conditions_of(chosen, options.get("doses"))
        reason = why_no_twins(chosen, seed, explained, one_network=one_network)
        if reason and not (conditions or one_network):
            raise AttributionLabError(f"{reason}; it has no unseen data either")
        panels = panel.Panels(chosen, n, seed, explained, methods, one_network=bool(reason))
    tried = [tried_apart(each, options.get("isolated", True)) for each in metrics]
    return panel.Asked(panels, tried, conditions, reason)


def reports_of(
    asked: panel.Asked, n: int, **options: Unpack[MetricTestOptions]
) -> list[MetricReport]:
    """Ask metrics about the first `n` images of panels; options as for `metric_test`, which has checked
    them. Panels that are kept (`Panels.shared`) save what they have been asked. A metric without any
    score has a report without a trial.
    """
    metrics = asked.metrics
    with own_arithmetic():
        cells = asked.cells(n)
    with processes_ended():
        done, stop = values(cells, "testing metrics", options)
    if len(done) < FEWEST_IMAGES:  # stopped
        raise Stopped(f"{len(done)} of {n} questions were done") from stop
    answers = {int(cell.place["question"]): each for cell, each in done}
    for text in dict.fromkeys(text for each in answers.values() for text in each.warned):
        warnings.warn(text, AttributionWarning, stacklevel=4)
    found = _Found(asked, answers, options.get("confidence", CONFIDENCE))
    reports = [
        _without_trial(each, asked, asked.panels.seed)
        if found.says_nothing(each)
        else found.report(each, n, options)
        for each in metrics
    ]
    if stop is not None:
        verdicts = "; ".join(f"{each.metric} {each.verdict}" for each in reports)
        raise Stopped(f"{len(done)} of {n} questions were done: {verdicts}", reports) from stop
    return reports


def why_no_twins(env: Environment, seed: int, output: Output, *, one_network: bool = False) -> str:
    """Why no other network can be put before an image; "" where one can."""
    if one_network:
        return "all images have networks with the same roles (one_network): no counterparts"
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
            f"images of {env.name} show a single kind of pixels that may count, so no network has "
            "other roles; take an environment with several colors"
        )
    return ""


def not_built(env: Environment, seed: int, n: int) -> str:
    """Why a world has no `n` questions with counterparts at its size; "" where it has."""
    try:
        questions = Questions(env, seed)
        for number in range(n):
            panel.refuse_equal_twins(questions[number], questions.twin(number))
    except AttributionLabError as error:
        return str(error)
    return ""


RANKS_NONE = (
    "NaN for every attribution of every image of the trial, so it ranks none: return a number for "
    "each, and NaN only where it is undefined"
)


class _Found:
    """Scores of all attributions, of those images that are done, and what follows from them."""

    def __init__(
        self, asked: panel.Asked, answers: Mapping[int, panel.Answers], confidence: float
    ) -> None:
        self.asked, self.confidence, seed = asked, confidence, asked.panels.seed
        self.numbers, each = list(answers), list(answers.values())
        self.candidates = each[-1].candidates
        self.ranked = sum(one.made_for == "own" for one in self.candidates)
        self.has_twins = self.ranked < len(self.candidates)
        self.f1 = _columns([one.f1 for one in each])
        self.clean = _columns([one.clean for one in each])
        self.scores = _columns([one.scores for one in each])
        every = [one.family for one in self.candidates]
        key = confidence, *self.numbers
        own = {part: f1[0, : self.ranked] for part, f1 in self.f1.items()}
        self.truths = agreement.truths_of(own)
        # Of the same images and attributions, whichever metric ranks them.
        self.own, self.resamples = (
            asked.panels.shared((name, *key), partial(Resamples, families, confidence, seed))
            for name, families in (
                ("own", every[: self.ranked] if self.has_twins else None),
                ("twins", every),
            )
        )
        # On the same attributions, which are no sample then: only questions are drawn again.
        self.fixed = Resamples(None, confidence, seed)

    def says_nothing(self, metric: Metric) -> bool:
        """Whether all of a metric's scores are NaN."""
        return all(
            bool(np.isnan(scores).all())
            for (name, _), scores in self.scores.items()
            if name == metric.name
        )

    def report(self, metric: Metric, n: int, options: MetricTestOptions) -> MetricReport:
        """What is known of a metric; `n`: how many images there should be."""
        asked = self.asked
        unmoved = agreement.unmoved_axes(
            (each.axis, each.key, self.scores[metric.name, each.key])
            for each in (asked.conditions if self.has_twins else ())
        )
        own = self._ranked(metric)[0, : self.ranked]
        clean = agreement.ranked_alike(own, self.truths["signed"], self.own)
        moved = [each for each in asked.conditions if each.axis not in unmoved]
        distinct = {each.key: each for each in moved}
        doses = {key: self._dose_score(metric, each, clean) for key, each in distinct.items()}
        return replace(
            _without_trial(metric, asked, asked.panels.seed),
            n=len(self.numbers),
            candidates=[each.name for each in self.candidates[: self.ranked]],
            doses=[doses[e.key]._replace(axis=e.axis, dose=e.dose) for e in moved],
            trial=self.trial(metric, clean),
            not_decisive=asked.no_twins,
            threshold=options.get("threshold", 0.5),
            confidence=self.confidence,
            wanted=n,
            unmoved=sorted(unmoved),
            image_size=asked.panels.env.image_shape[-1],
        )

    def _dose_score(self, metric: Metric, condition: Condition, clean: Correlations) -> DoseScore:
        """What became of a metric under one condition."""
        scores, ranked = self.scores[metric.name, condition.key], self.ranked
        means = agreement.mean_over_images(scores)
        names = [each.name for each in self.candidates[:ranked]] + [EXACT_SHAPLEY, OTHER_GAME]
        better = means if metric.higher_is_better else -means
        reach = np.nanmax(better) - np.nanmin(better) if not np.isnan(better).all() else 0.0
        winner = 0
        if reach and np.nanmax(better) > better[0] + BETTER * reach:
            winner = int(np.nanargmax(better))
        signed = scores if metric.higher_is_better else -scores
        found = {
            by: agreement.ranked_alike(signed[:ranked], truth, self.own)
            for by, truth in self.truths.items()
        }
        interval = self.own.interval
        shows_unseen_data = self.has_twins and condition.unseen
        return DoseScore(
            axis=condition.axis,
            dose=condition.dose,
            unseen=condition.unseen,
            correlations={by: interval(each) for by, each in found.items()},
            oracle=float(means[0]),
            shapley=float(means[ranked]),
            best=float(means[winner]),
            best_map=names[winner],
            drop=interval(clean.less(found["signed"])) if shows_unseen_data else None,
        )

    def trial(self, metric: Metric, clean: Correlations) -> Trial:
        """What is known of a metric without unseen data."""
        found = Trial(
            agreement=self.own.interval(clean),
            contrast=None,
            lead=None,
            attributions=self._attributions(metric),
            controls=pd.DataFrame(),
            lures=pd.DataFrame(),
            ranked=applicable(clean.each),
        )
        if not self.has_twins:
            return found
        pair, truths = self._ranked(metric), lowest_f1(self.f1)
        controls = {each.name: self._ranked(each) for each in METRIC_CONTROLS}
        return found._replace(
            contrast=agreement.contrast_of(pair, truths, self.resamples),
            lead=agreement.lead_over(pair, controls, truths, self.fixed),
            controls=self._controls(pair, controls, truths),
            lures=self._lures(metric, pair[0], truths[0]),
            sees_signs=self._sees_signs(pair),
        )

    def _attributions(self, metric: Metric) -> pd.DataFrame:
        """A row for each attribution of each image before each network: its score, and its F1 there."""
        frames = []
        for at, scores in enumerate(self.clean[metric.name]):
            table = pd.DataFrame([each._asdict() for each in self.candidates for _ in self.numbers])
            table.insert(0, "question", np.tile(self.numbers, len(self.candidates)))
            table.insert(1, "network", ("own", "twin")[at])
            table["score"] = scores.ravel()
            for part, each in {**self.f1, "lowest": lowest_f1(self.f1)}.items():
                table[f"f1_{part}"] = each[at].ravel()
            frames.append(table)
        return pd.concat(frames, ignore_index=True)

    def _ranked(self, metric: Metric) -> agreement.Pair:
        """Scores before both networks, the higher the better."""
        found = self.clean[metric.name]
        return found if metric.higher_is_better else -found

    def _sees_signs(self, pair: agreement.Pair) -> bool:
        """Whether any score before either network changes where signs of the exact map do."""
        own = self.candidates[: self.ranked]
        turned = [at for at, each in enumerate(own) if each.family == "signs"]
        return any(
            bool(np.ptp(agreement.without_rounding(scores.T)[:, [0, *turned]], axis=1).any())
            for scores in pair
        )

    def _controls(
        self, pair: agreement.Pair, controls: Mapping[str, agreement.Pair], truths: agreement.Pair
    ) -> pd.DataFrame:
        """What controls reach on these attributions, and how like them a metric is."""
        own = truths[0, : self.ranked]
        return pd.DataFrame(
            {
                "metric": name,
                "agreement_on_both": mean_score(agreement.on_both(each, truths, self.fixed)),
                "agreement": mean_score(
                    agreement.ranked_alike(each[0, : self.ranked], own, self.fixed).each
                ),
                "contrast": agreement.contrast_of(each, truths, self.fixed).mean.value,
                "likeness": self.fixed.interval(
                    agreement.ranked_alike(pair[0], each[0], self.fixed)
                ).value,
            }
            for name, each in controls.items()
        )

    def _lures(self, metric: Metric, own: Numbers, truth: Numbers) -> pd.DataFrame:
        """How wrong attributions that a metric may fall for score beside the exact one."""
        means = agreement.mean_over_images(self.clean[metric.name][0])
        return pd.DataFrame(
            {
                "lure": each.name if each.family == "lure" else "exact for the counterpart",
                "f1": mean_score(truth[place]),
                "score": means[place],
                "exact_score": means[0],
                "beats_exact": float((own[place] >= own[0]).mean()),
            }
            for place, each in enumerate(self.candidates)
            if each.family == "lure" or (each.name == "exact" and place)
        )


def _columns(each: Sequence[Mapping[Any, Numbers]]) -> dict[Any, Numbers]:
    """Arrays of each image, by a key, with the images behind their other dimensions."""
    return {key: np.stack([one[key] for one in each], -1) for key in each[0]}


@explained_arguments
def metric_test(
    metric: str | Callable[..., Any],
    env: str | Environment = "multi-color-sum",
    n: int = 8,
    seed: int = 0,
    *,
    higher_is_better: bool | None = None,
    takes: Takes | None = None,
    quick: bool = False,
    **options: Unpack[MetricTestOptions],
) -> MetricReport:
    """Test whether a metric ranks attributions as the truth does, and because of the network.

    First its code is checked (`attributionlab.check_metric`): a metric with an error in its code is
    *faulty* and has no trial; all other findings are notes in the report. The trial decides.

    Each image is a question (`attributionlab.Questions`) with its own target and network, and only the
    network determines what each color counts for. More than a hundred attributions that are wrong by
    known amounts (`graded_attributions` in `metric_trials.graded`) are ranked twice: by the metric, and
    by their lowest F1 against the masks.

    - *Agreement* is Spearman's correlation of the two rankings, mean over questions.
    - *Swap contrast* (`metric_trials.agreement`): the same attributions, those of a counterpart and
      lures are scored on the question's network and on that of the counterpart, which has different
      roles. It is the agreement with the truth of the network shown minus that with the other truth,
      and exactly 0 for a metric that never queries the network.
    - *Lead*: by how much the metric agrees better with the truth than the best control
      (`metric_trials.registry`) on the same attributions, including the counterpart's and lures.
      Controls never see the network, or query it about one pixel.
    - *Drops*: by how much unseen data lowers the agreement, paired within questions, along four axes:
      strength and number of the network's redundant channels, distance of the replacement from the true
      baseline, share of the replaced pixels that have an unseen color. Axes that change no score are
      left out. Worlds from rules have no redundant channels, so nothing is unseen there.

    Pixels that are not scored (`Truth.asked`) do not affect F1, and graded attributions are 0 there.

    Intervals are over questions and over families of attributions (kinds of damage, methods).
    `MetricReport.verdict` is "valid", "not valid", "blind", "reversed", "undecided" or "faulty"
    (`metric_trials.agreement.verdict_of`). The order of attributions and networks is random.

    Parameters
    ----------
    metric : str or callable
        The name of a metric of `al.metrics`, with hyphens, such as "insertion", "road" or "f1", or a
        function ``(model, images, targets, attributions, *, ...) -> (B,)``. Of `replacement` (C, H, W),
        `truth` (the positive mask), `values` (exact Shapley values), `information` (those above 0) and
        `seed`, it receives what it declares; one without `model` is called ``(attributions, *, ...)``.
        Names of metrics that never query the model are accepted, too (`metric_trials.registry`). A
        function gets copies of one image with several attributions; one that draws random subsets
        should use the same for all of them, as the built-in ones do by name. "infidelity" fits a
        nonnegative scale to each map, because ranked attributions have no common scale.
    env : str or Environment
        If nothing can be unseen, as in a world from a rule, there are no drops.
    n : int
        Number of questions, at least 2; with fewer than six the only clear verdict is "blind".
    seed : int
        Seed for questions, damages, subsets and resampling.
    higher_is_better : bool, optional
        For a function that does not declare its direction (`attributionlab.metrics.metric`).
    takes : {"logits", "probabilities"}, optional
        For a function that does not declare it: the outputs of the model that it receives. By default
        the explained outputs: probabilities of a classifier (with the temperature of the environment),
        or logits with ``output="logit"``. A metric that applies a softmax itself takes logits, which it
        receives divided by the temperature, so that their softmax is the explained probability.
    quick : bool
        Run only the checks that can find an error, and try unseen data at strength 0 and 1 alone
        unless `doses` are given. With a small `n` and small images, this is a first look: "undecided"
        is then no surprise.
    **options
        As `MetricTestOptions` says: methods, doses, output, threshold, confidence, device,
        one_network, out, jobs, retry_failed, show_progress.

    Raises
    ------
    AttributionLabError
        For an unknown metric or one that cannot be tested, an unknown environment, method or axis,
        doses in an environment without unseen colors, an environment with neither unseen colors nor
        other roles, and invalid numbers.

    Examples
    --------
    >>> import attributionlab as al
    >>> env = al.load("multi-color-sum", image_size=12)
    >>> al.metric_test("sparsity", env, n=2, doses={"share": [0]}).verdict
    'blind'
    """
    tested = as_metric(metric, higher_is_better, takes)
    place = named_environment(env)
    if quick and options.get("doses") is None:
        options["doses"] = quick_doses(place)
    side = max(SIDE, place.image_shape[-1])
    try:
        [report] = checked_and_tried([tested], place, n, seed, side=side, quick=quick, **options)
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
    quick: bool = False,
    **options: Unpack[MetricTestOptions],
) -> list[MetricReport]:
    """Check the code of metrics, and try those that can be tried, and have no error, side by side.

    `side`: of the images of those checks that may find an error. The rest is as for `metric_test`.

    Result: a report of each, without a trial where there was none; a user's metric that has no score in
    the trial has an error, too. Raises `Stopped` with them, too.
    """
    tried = [each for each in metrics if not each.untried]
    # What a trial refuses is refused before the checks.
    asked = questions_of(tried, env, n, seed, **options) if tried else None
    described = [each for each in metrics if not each.only_described]
    checks = checks_of_metrics(described, side, seed, options, quick=quick)
    trials, stop = list[MetricReport](), None
    sound = [] if asked is None else [e for e in asked.metrics if not checks[e.name].faults]
    if asked is not None and sound:
        try:
            trials = reports_of(replace(asked, metrics=sound), n, **options)
        except Stopped as error:
            trials, stop = error.result or [], error
        except AttributionLabError as error:
            # Images of the trial are others than those of the checks. Of several, none may fail.
            alone = sound[0]
            of_its_code = f"{alone.called} raised ", f"{alone.called} returned "
            if len(metrics) > 1 or alone.has_name or not str(error).startswith(of_its_code):
                raise
            checks = {alone.name: with_fault(checks[alone.name], FIRST, f"{error} (in the trial)")}
    by_name = {each.metric: each for each in trials}
    silent = [each for each in metrics if each.name in by_name and not by_name[each.name].trial]
    # Of ours the definition does not apply there.
    refuse_if([f"{each.name} is {RANKS_NONE}" for each in silent if each.has_name])
    checks |= {each.name: with_fault(checks[each.name], FIRST, RANKS_NONE) for each in silent}
    reports = [
        replace(
            by_name.get(each.name) or _without_trial(each, asked, seed),
            checks=checks.get(each.name),
            quick=quick,
        )
        for each in metrics
    ]
    if stop is not None:
        if not trials:
            raise Stopped(f"code checked, {stop}") from stop
        raise Stopped(str(stop), reports) from stop
    return reports


def _without_trial(metric: Metric, asked: panel.Asked | None, seed: int) -> MetricReport:
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
