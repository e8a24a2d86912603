"""The test of a metric: graded attributions, ranked by it at every dose and by the truth."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypedDict, Unpack, get_args

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from attributionlab.device import own_arithmetic
from attributionlab.environment import Environment
from attributionlab.environment.catalog import as_environments
from attributionlab.environment.questions import Questions
from attributionlab.errors import refuse_if
from attributionlab.faithfulness.ceilings import EXACT_SHAPLEY
from attributionlab.methods import AttributionMethod
from attributionlab.metric_trials.agreement import (
    Agreement,
    lowest_part,
    mean_over_images,
    without_rounding,
)
from attributionlab.metric_trials.blind import BLIND
from attributionlab.metric_trials.case import Evaluation
from attributionlab.metric_trials.conditions import Condition, conditions_of, without_unseen_data
from attributionlab.metric_trials.panel import Candidate, Panel, Panels, Swap
from attributionlab.metric_trials.registry import Metric, as_metric
from attributionlab.metric_trials.report import DoseScore, MetricReport, Trial
from attributionlab.metric_trials.swap import Drop, Pair, contrast_of, unmoved_axes
from attributionlab.metrics import Part, parts_f1
from attributionlab.progress import track
from attributionlab.ranking import Resamples
from attributionlab.stats.intervals import mean_score
from attributionlab.stats.resampling import confidence_problem
from attributionlab.truth import Output, Truth
from attributionlab.validation import MOST_IMAGES, integer_problem, number_problem

Numbers = NDArray[np.float64]

OTHER_GAME = "Shapley values of the replacement's game"
BETTER = 0.01
"""By which share of the reach of all scores a map must beat the oracle: the order of pixels with equal
values, which says nothing, moves an area by some thousandths."""


class MetricTestOptions(TypedDict, total=False):
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
    device : str or torch.device, optional
        Where methods, and metrics of your own, compute; by default where the environment is. The
        built-in metrics follow the laboratory's networks on the CPU in any case.
    one_network : bool
        Take the images of the data set, all with the roles of `env`, instead of questions. There are no
        twins then, so nothing is decided; at every dose the Shapley values of the replacement's game
        compete with the exact mask. False by default.
    show_progress : bool
        Show progress on standard error.
    command : str, optional
        How to run this again, for the report.
    """

    methods: Sequence[AttributionMethod]
    doses: Mapping[str, Sequence[float]] | None
    output: Output | None
    threshold: float
    confidence: float
    device: str | torch.device | None
    one_network: bool
    show_progress: bool
    command: str


def metric_test(
    metric: str | Callable[..., Any],
    env: str | Environment = "multi-color-sum",
    n: int = 8,
    seed: int = 0,
    *,
    higher_is_better: bool | None = None,
    **options: Unpack[MetricTestOptions],
) -> MetricReport:
    """Test whether a metric ranks attributions as the truth does, and because of the network.

    Each image is a question (`attributionlab.Questions`): it has a target and a network of its own,
    which alone tells what each color counts for. More than a hundred attributions that are wrong by
    known amounts (`graded_attributions` in `metric_trials.graded`) are ranked twice: by the metric, and
    by their lowest F1 against the masks.

    - *Agreement* is Spearman's correlation of the two rankings, mean over questions.
    - *Swap contrast* (`metric_trials.swap`): the same attributions, a twin's and lures are scored
      before the question's network and before that of the twin, which has other roles. It is the
      agreement with the truth of the network that was shown, less that with the other truth, and
      exactly 0 for a metric that never looks at the network.
    - *Drops*: by how much unseen data lowers the agreement, paired within questions, along four axes:
      strength and number of the network's redundant channels, distance of the replacement from the
      true baseline, share of the replaced pixels that have an unseen color. Axes that change no score
      are left out.

    Intervals are over questions and over families of attributions (kinds of damage, methods).
    `MetricReport.verdict` is "valid", "blind", "reversed" or "undecided" (`metric_trials.swap`).

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
        One with a color detector.
    n : int
        Questions, at least 2; with fewer than six nothing is decided but that a metric is blind.
    seed : int
        Seed for questions, damages, subsets and resampling.
    higher_is_better : bool, optional
        For a function that does not say so itself (`attributionlab.metrics.metric`).
    **options
        As `MetricTestOptions` says: methods, doses, output, threshold, confidence, device,
        one_network, show_progress, command.

    Returns
    -------
    MetricReport

    Raises
    ------
    AttributionLabError
        For an unknown metric or one that cannot be tested, an unknown environment, method or axis, an
        environment to which no color is unseen, and impossible numbers.

    Examples
    --------
    >>> import attributionlab as al
    >>> from attributionlab.metric_trials.run import metric_test
    >>> env = al.load("multi-color-sum", image_size=12)
    >>> metric_test("sparsity", env, n=2, doses={"share": [0]}).verdict
    'blind'
    """
    [report] = metric_tests([as_metric(metric, higher_is_better)], env, n, seed, **options)
    return report


@own_arithmetic()
def metric_tests(
    metrics: Sequence[Metric],
    env: str | Environment = "multi-color-sum",
    n: int = 8,
    seed: int = 0,
    *,
    methods: Sequence[AttributionMethod] = (),
    doses: Mapping[str, Sequence[float]] | None = None,
    output: Output | None = None,
    threshold: float = 0.5,
    confidence: float = 0.95,
    device: str | torch.device | None = None,
    one_network: bool = False,
    show_progress: bool = False,
    command: str = "",
) -> list[MetricReport]:
    """`metric_test` of several metrics, which share what the model says; its parameters and errors."""
    refuse_if(
        [
            *integer_problem("n", n, 2, MOST_IMAGES),
            *integer_problem("seed", seed, 0),
            *number_problem("threshold", threshold, above=-1, most=1),
            *confidence_problem(confidence),
            *_methods_problem(methods),
        ]
    )
    [chosen] = as_environments(env)
    if device is not None:
        chosen = chosen.to(device)
    explained = chosen.checked_output(output)
    conditions = conditions_of(chosen, doses)
    reason = _why_no_twins(chosen, seed, one_network=one_network)
    found = _Found(metrics, conditions, explained, seed, has_twins=not reason)
    panels = Panels(chosen, n, seed, explained, methods, one_network=bool(reason))
    for panel in track(panels, n, "testing metrics", show_progress, "images"):
        found.add(panel)
    agreement = found.agreement(confidence, seed)
    exchange = None if reason else _Exchange(found, confidence, seed)
    return [
        MetricReport(
            metric=metric.name,
            higher_is_better=metric.higher_is_better,
            environment=chosen.name,
            output=explained,
            n=n,
            seed=seed,
            candidates=[each.name for each in found.candidates],
            doses=found.dose_scores(metric, agreement),
            trial=found.trial(metric, agreement, exchange),
            not_decisive=reason,
            threshold=threshold,
            confidence=confidence,
            command=command,
        )
        for metric in metrics
    ]


def _methods_problem(methods: Any) -> list[str]:
    if isinstance(methods, list | tuple):
        return []
    return [f"methods is {methods!r}: give a list, such as ['saliency'], or leave it out"]


def _why_no_twins(env: Environment, seed: int, *, one_network: bool) -> str:
    """Why no other network can be put before an image; "" where one can."""
    if one_network:
        return "all images have networks with the same roles (one_network), and no twins"
    if len(Questions(env, seed)[0].values) < 2:
        return (
            f"images of {env.name} show one kind of pixels that may count, so no network has other "
            "roles; take an environment with several colors"
        )
    return ""


class _Found:
    """Scores of all attributions, image by image."""

    def __init__(
        self,
        metrics: Sequence[Metric],
        conditions: Sequence[Condition],
        output: Output,
        seed: int,
        *,
        has_twins: bool,
    ) -> None:
        self.metrics, self.conditions = metrics, conditions
        self._output, self._seed = output, seed
        self.clean = (
            without_unseen_data(conditions[0].env)
            if has_twins
            else min(conditions, key=lambda each: each.unseen)
        )
        self.blind = [replace(as_metric(name), name=f"{name} (blind)") for name in BLIND]
        self.candidates: list[Candidate] = []
        self.others: list[Candidate] = []
        self.f1: dict[Part, list[Numbers]] = {part: [] for part in get_args(Part)}
        self.scores: dict[tuple[str, tuple[float, ...]], list[Numbers]] = {}
        self.swapped: dict[str, list[Pair]] = {}
        self.swapped_f1: list[tuple[Mapping[Part, Numbers], Mapping[Part, Numbers]]] = []

    def add(self, panel: Panel) -> None:
        """Score one image's attributions under every condition, each distinct one once."""
        self.candidates = panel.candidates
        for part, f1 in _f1(panel.case.maps[:-1], panel.case.truth).items():
            self.f1[part].append(f1)
        models: dict[tuple[int, float], nn.Module] = {}
        shared: dict[tuple[str, tuple[float, ...]], Numbers] = {}
        for each in {each.key: each for each in (*self.conditions, self.clean)}.values():
            condition, setting = each.of(panel.env), each.setting
            if setting not in models:
                network = condition.network(panel.weights)
                models[setting] = network.explained_model(self._output)
            canvas = condition.canvas(panel.number, self._seed).to(panel.case.image.device)
            seen = Evaluation(panel.case, models[setting], canvas)
            keys = {"maps": (), "network": setting, "condition": each.key}
            for metric in self.metrics:
                known = metric.name, keys[metric.sees]
                if known not in shared:
                    shared[known] = metric.scores(seen)
                scores = shared[known]
                if panel.swap is None:
                    game = replace(panel.case, maps=seen.shapley[None].float())
                    scores = np.concatenate([scores, metric.scores(replace(seen, case=game))])
                self.scores.setdefault((metric.name, each.key), []).append(scores)
            if panel.swap is not None and each.key == self.clean.key:
                self._add_swapped(panel, panel.swap, seen)

    def _add_swapped(self, panel: Panel, swap: Swap, seen: Evaluation) -> None:
        """Score both twins' attributions before both networks, without unseen data."""
        self.others = swap.candidates
        own, twin = (
            seen,
            replace(
                seen,
                case=swap.before_twin(panel.case),
                model=self.clean.of(swap.env).network(0).explained_model(self._output),
            ),
        )
        for metric in (*self.metrics, *self.blind):
            first = (
                metric.scores(own)
                if metric in self.blind
                else self.scores[metric.name, self.clean.key][-1]
            )
            before_own = first[:-1], metric.scores(replace(own, case=swap.others))
            others = swap.before_twin(swap.others)
            before_twin = (
                metric.scores(replace(twin, case=swap.before_twin(panel.case)))[:-1],
                metric.scores(replace(twin, case=others)),
            )
            pair = np.concatenate(before_own), np.concatenate(before_twin)
            self.swapped.setdefault(metric.name, []).append(pair)
        maps = torch.cat([panel.case.maps[:-1], swap.others.maps])
        self.swapped_f1.append((_f1(maps, panel.case.truth), _f1(maps, swap.truth)))

    def agreement(self, confidence: float, seed: int) -> Agreement:
        """The truth's rankings; other families are drawn where questions are asked."""
        f1 = {part: np.stack(columns, 1) for part, columns in self.f1.items()}
        families = [each.family for each in self.candidates] if self.swapped else None
        return Agreement(f1, confidence, seed, families)

    def dose_scores(self, metric: Metric, agreement: Agreement) -> list[DoseScore]:
        """What became of a metric under every condition, each distinct one worked out once."""
        known = {each.key: each for each in self.conditions}
        scores = {key: self._dose_score(metric, each, agreement) for key, each in known.items()}
        unmoved = self._unmoved(metric)
        return [
            scores[each.key]._replace(axis=each.axis, dose=each.dose)
            for each in self.conditions
            if each.axis not in unmoved
        ]

    def _unmoved(self, metric: Metric) -> set[str]:
        """Axes of which nothing is said: no score of the metric changes along them."""
        if not self.swapped:
            return set()
        axes, keys = zip(*((each.axis, each.key) for each in self.conditions), strict=True)
        return unmoved_axes(axes, keys, [self._of(metric, key) for key in keys])

    def trial(self, metric: Metric, agreement: Agreement, exchange: "_Exchange | None") -> Trial:
        """What is known of a metric without unseen data, and by how much that makes it worse."""
        scores, better = self._of(metric, self.clean.key), metric.higher_is_better
        found = agreement.correlations(scores[: len(self.candidates)], better)
        value = agreement.resamples.interval(found)
        f1 = {part: np.stack(columns, 1) for part, columns in self.f1.items()}
        if exchange is None:
            table = _frame(self.candidates, "own", scores[: len(self.candidates)], f1)
            return Trial(value, None, [], table, pd.DataFrame(), pd.DataFrame())
        unmoved, drops = self._unmoved(metric), []
        for each in self.conditions:
            if each.unseen and each.axis not in unmoved:
                at = self._of(metric, each.key)[: len(self.candidates)]
                less = found.less(agreement.correlations(at, better))
                drops.append(Drop(each.axis, each.dose, agreement.resamples.interval(less)))
        return Trial(
            *(value, exchange.contrast(metric), drops, exchange.frame(metric)),
            *(exchange.controls(metric, agreement), exchange.lures(metric)),
        )

    def _of(self, metric: Metric, key: tuple[float, ...]) -> Numbers:
        return np.stack(self.scores[metric.name, key], 1)  # (candidates and more, images)

    def _dose_score(self, metric: Metric, condition: Condition, agreement: Agreement) -> DoseScore:
        """What became of a metric under one condition."""
        scores, ranked = self._of(metric, condition.key), len(self.candidates)
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

    def __init__(self, found: _Found, confidence: float, seed: int) -> None:
        self._found = found
        self._candidates = [*found.candidates, *found.others]
        self._f1 = [
            {
                part: np.stack([each[side][part] for each in found.swapped_f1], 1)
                for part in found.f1
            }
            for side in (0, 1)
        ]
        self._truths = lowest_part(self._f1[0]), lowest_part(self._f1[1])
        families = [each.family for each in self._candidates]
        self._resamples = Resamples(families, confidence, seed)
        self._fixed = Resamples(None, confidence, seed)

    def _scores(self, metric: Metric) -> Pair:
        """(candidates, questions), as the metric has them."""
        own, twin = (
            np.stack(each, 1) for each in zip(*self._found.swapped[metric.name], strict=True)
        )
        return own, twin

    def _ranked(self, metric: Metric) -> Pair:
        """The higher the better."""
        own, twin = self._scores(metric)
        return (own, twin) if metric.higher_is_better else (-own, -twin)

    def contrast(self, metric: Metric) -> Any:
        return contrast_of(self._ranked(metric), self._truths, self._resamples)

    def frame(self, metric: Metric) -> pd.DataFrame:
        """A row for each attribution before each network."""
        pairs = zip(("own", "twin"), self._scores(metric), self._f1, strict=True)
        return pd.concat([_frame(self._candidates, *each) for each in pairs], ignore_index=True)

    def controls(self, metric: Metric, agreement: Agreement) -> pd.DataFrame:
        """What metrics without the model reach on these attributions, and how like them this one is."""
        ranked, rows = self._ranked(metric)[0], []
        for each in self._found.blind:
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
        means = mean_over_images(self._scores(metric)[0])
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


def _f1(maps: Tensor, truth: Truth) -> dict[Part, Numbers]:
    """F1 of many maps of one image, by part."""
    signed = truth.signed.expand(len(maps), *truth.signed.shape[1:])
    return {part: f1.cpu().numpy() for part, f1 in parts_f1(maps, signed).items()}


def _frame(
    candidates: Sequence[Candidate], network: str, scores: Numbers, f1: Mapping[Part, Numbers]
) -> pd.DataFrame:
    """A row for each attribution of each image: its score before a network, and its F1 there."""
    n = scores.shape[1]
    table = pd.DataFrame([each._asdict() for each in candidates for _ in range(n)])
    table.insert(0, "question", np.tile(np.arange(n), len(candidates)))
    table.insert(1, "network", network)
    table["score"] = scores.ravel()
    for part, values in f1.items():
        table[f"f1_{part}"] = values.ravel()
    table["f1_lowest"] = lowest_part(f1).ravel()
    return table
