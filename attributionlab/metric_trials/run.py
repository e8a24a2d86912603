"""The test of a metric: graded attributions, ranked by it at every dose and by the truth."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypedDict, Unpack, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from attributionlab.device import own_arithmetic
from attributionlab.diagnosis.shares import pixel_kinds
from attributionlab.environment import Environment
from attributionlab.environment.catalog import as_environments
from attributionlab.errors import refuse_if
from attributionlab.faithfulness.calls import attribute_batch
from attributionlab.faithfulness.ceilings import EXACT_SHAPLEY
from attributionlab.faithfulness.setup import Batch, Setup, prepared
from attributionlab.methods import (
    METHODS,
    AttributionMethod,
    as_method,
    collect_notices,
    preset_of,
)
from attributionlab.methods.controls import CONTROLS
from attributionlab.metric_trials.agreement import Agreement, mean_over_images
from attributionlab.metric_trials.case import Case, Evaluation
from attributionlab.metric_trials.conditions import Condition, conditions_of
from attributionlab.metric_trials.graded import graded_attributions
from attributionlab.metric_trials.registry import Metric, as_metric
from attributionlab.metric_trials.report import DoseScore, MetricReport
from attributionlab.metrics import Part, parts_f1
from attributionlab.progress import track
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
    """Test whether a metric ranks attributions as the truth does, with more and more unseen data.

    More than a hundred attributions that are wrong by known amounts (`graded_attributions` in
    `metric_trials.graded`) are ranked twice in each image: by the metric and by F1 against the masks.
    `MetricReport` has Spearman's correlation of the two rankings, its mean over images with an
    interval, at each dose of four kinds: strength and number of the network's redundant channels,
    distance of the replacement from the true baseline, share of the replaced pixels that have an
    unseen color. Each image has random weights of its own, so that no result hangs on one network; the
    attributions are a fixed panel.

    Parameters
    ----------
    metric : str or callable
        The name of a metric of `al.metrics`, with hyphens, such as "insertion", "road" or "f1", or a
        function ``(model, images, targets, attributions, *, ...) -> (B,)``. Of `replacement` (C, H, W),
        `truth` (the positive mask), `values` (exact Shapley values), `information` (those above 0) and
        `seed` it is given what it declares; one without `model` is called ``(attributions, *, ...)``.
        It gets copies of one image with several attributions; one that draws random subsets should
        draw the same for all of them, as the built-in ones do by name. "infidelity" leaves the scale
        of a map free, from 0 up: ranked attributions have no common one.
    env : str or Environment
        One with a color detector.
    n : int
        Images, at least 2; with fewer than six the interval holds the mean less often than it says.
    seed : int
        Seed for images, damages, subsets and resampling.
    higher_is_better : bool, optional
        For a function that does not say so itself (`attributionlab.metrics.metric`).
    **options
        As `MetricTestOptions` says: methods, doses, output, threshold, confidence, device,
        show_progress, command.

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
    >>> report = metric_test("relevance-rank-accuracy", env, n=2, doses={"distance": [0, 20]})
    >>> [str(broken) for broken in report.breaks("positive")]
    ['no break is shown up to 20']
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
    found = _Found.empty(metrics)
    images = _images(chosen, n, seed, explained, methods)
    for image in track(images, n, "testing metrics", show_progress, "images"):
        found.add(image, conditions, explained, seed)
    f1 = {part: np.stack(columns, 1) for part, columns in found.f1.items()}
    agreement = Agreement(f1, confidence, seed)
    return [
        MetricReport(
            metric=metric.name,
            higher_is_better=metric.higher_is_better,
            environment=chosen.name,
            output=explained,
            n=n,
            seed=seed,
            candidates=found.names[:-1],
            doses=found.dose_scores(metric, conditions, agreement),
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


class _Image(NamedTuple):
    """One image with all its attributions; the last one, exact Shapley values, is not ranked."""

    number: int
    case: Case
    names: list[str]


def _images(
    env: Environment, n: int, seed: int, output: Output, methods: Sequence[AttributionMethod]
) -> Iterator[_Image]:
    dataset, device = env.dataset(n, seed), env.device
    setups = [_setup(each, env, output, n, seed) for each in methods]
    has_distractors = bool(env.spec.constants.get("distractors", 0)) or output == "logit"
    for number in range(n):
        sample = dataset[number]
        images, patches = sample.image[None], sample.patches[None]
        targets = env.targets(sample.label[None])
        signed = env.truth(images, targets, output).signed
        kinds = pixel_kinds(images, patches, env.counting.classes_of(images), env.baseline.cpu())
        graded = graded_attributions(
            signed, kinds, distractors=has_distractors, seed=seed, first=number
        )
        batch = Batch(images, targets, patches, Truth(signed), number)
        with collect_notices():  # what is unusual about a method, faithfulness_test tells
            real = [attribute_batch(setup, batch).maps.float() for setup in setups]
        shapley = env.shapley(sample.image, int(targets[0]), output)[None].float()
        maps = torch.cat([*(each.maps for each in graded), *real, shapley])
        names = [each.name for each in graded]
        names += [*(setup.method.name for setup in setups), EXACT_SHAPLEY]
        stream = int(np.random.SeedSequence([seed, number, 8]).generate_state(1)[0])
        case = Case(
            image=sample.image.to(device),
            target=targets.to(device),
            maps=maps.to(device),
            truth=Truth(signed.to(device)),
            values=shapley.to(device),
            baseline=env.baseline,
            highest=env.max_value,
            seed=stream,
        )
        yield _Image(number, case, names)


def _setup(method: AttributionMethod, env: Environment, output: Output, n: int, seed: int) -> Setup:
    """A real method with the paper's settings; one that explains logits only is given logits."""
    resolved = as_method(method, METHODS | CONTROLS)
    preset = preset_of("paper", env.task, resolved.name if resolved.built_in else "")
    own = preset.output or resolved.output or output
    return prepared(resolved, env, env.checked_output(own), output, preset="paper", n=n, seed=seed)


class _Found(NamedTuple):
    """Scores, image by image: of all attributions, and of the one that belongs to a condition."""

    metrics: Sequence[Metric]
    names: list[str]
    f1: dict[Part, list[Numbers]]
    scores: dict[tuple[str, tuple[float, ...]], list[Numbers]]

    @classmethod
    def empty(cls, metrics: Sequence[Metric]) -> "_Found":
        return cls(metrics, [], {part: [] for part in get_args(Part)}, {})

    def add(
        self, image: _Image, conditions: Sequence[Condition], output: Output, seed: int
    ) -> None:
        """Score one image's attributions under every condition, each distinct one once."""
        case, device = image.case, image.case.image.device
        self.names[:] = image.names
        signed = case.truth.signed.expand(len(case.maps) - 1, *case.truth.signed.shape[1:])
        for part, f1 in parts_f1(case.maps[:-1], signed).items():
            self.f1[part].append(f1.cpu().numpy())
        models: dict[tuple[int, float], nn.Module] = {}
        shared: dict[tuple[str, tuple[float, ...]], Numbers] = {}
        for condition in {each.key: each for each in conditions}.values():
            setting = condition.setting
            if setting not in models:
                models[setting] = condition.network(image.number).explained_model(output)
            canvas = condition.canvas(image.number, seed).to(device)
            seen = Evaluation(case, models[setting], canvas)
            own = replace(seen, case=replace(case, maps=seen.shapley[None].float()))
            for metric in self.metrics:
                known = metric.name, setting if metric.sees == "network" else condition.key
                if known not in shared:
                    shared[known] = metric.scores(seen)
                scores = np.concatenate([shared[known], metric.scores(own)])
                self.scores.setdefault((metric.name, condition.key), []).append(scores)

    def dose_scores(
        self, metric: Metric, conditions: Sequence[Condition], agreement: Agreement
    ) -> list[DoseScore]:
        """What became of a metric under every condition, each distinct one worked out once."""
        known = {each.key: each for each in conditions}
        scores = {key: self._dose_score(metric, each, agreement) for key, each in known.items()}
        return [scores[each.key]._replace(axis=each.axis, dose=each.dose) for each in conditions]

    def _dose_score(self, metric: Metric, condition: Condition, agreement: Agreement) -> DoseScore:
        """What became of a metric under one condition."""
        scores = np.stack(self.scores[metric.name, condition.key], 1)  # (candidates + 2, images)
        means = mean_over_images(scores)
        names = [*self.names, OTHER_GAME]
        better = means if metric.higher_is_better else -means
        reach = np.nanmax(better) - np.nanmin(better) if not np.isnan(better).all() else 0.0
        winner = 0
        if reach and np.nanmax(better) > better[0] + BETTER * reach:
            winner = int(np.nanargmax(better))
        return DoseScore(
            axis=condition.axis,
            dose=condition.dose,
            unseen=condition.unseen,
            correlations=agreement.of(scores[:-2], metric.higher_is_better),
            oracle=float(means[0]),
            shapley=float(means[-2]),
            best=float(means[winner]),
            best_map=names[winner],
        )
