"""How much unseen data it takes for a metric to stop ranking attributions as the truth does."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from attributionlab.metric_trials.conditions import AXES
from attributionlab.metric_trials.evaluations import METRICS
from attributionlab.metric_trials.report import Break, MetricReport, eight_methods
from attributionlab.metric_trials.trial import metric_tests
from attributionlab.papers.attributionlab.comparison_plan import environment_of
from attributionlab.papers.reproduction import Reproduction
from attributionlab.report.doses import DoseLine, doses_figure

if TYPE_CHECKING:
    import pandas as pd

ENVIRONMENT = "multi-color-sum"
METHODS = (
    "saliency",
    "input-x-gradient",
    "guided-backprop",
    "deep-shap",
    "deep-shap-true-baseline",
    "lrp",
    "gradcam",
    "sobel",
    "random",
)
"""Real methods and controls that take seconds."""
THRESHOLD = 0.5
"""Perturbation metrics look at the order of pixels, F1 at their values too: even where nothing is
unseen they need not reach 0.7."""


def unseen_data_dose(
    *,
    n: int | None,
    quick: bool,
    seed: int = 0,
    env: str = ENVIRONMENT,
    output: str | None = None,
    device: str | None = None,
    show_progress: bool = False,
) -> Reproduction:
    """Every metric at rising doses of unseen data: strength, channels, distance and share.

    Parameters
    ----------
    n : int, optional
        Images, each with a network of its own; 8 by default.
    quick : bool
        Images of 72 x 72 pixels.
    seed : int
        Of the images and of all that is random.
    env : str
        An environment with a color detector.
    output : {"probability", "logit"}, optional
        Which output is explained and perturbed; the probability by default.
    device : str, optional
        Where methods compute.
    show_progress : bool
        Show progress on standard error.

    Returns
    -------
    Reproduction
        Tables "doses" (a row for each metric, dose and ranking of the truth) and "breaks", figure
        "doses".
    """
    import pandas as pd

    place = environment_of(env, quick)
    reports = metric_tests(
        list(METRICS.values()),
        place,
        n or 8,
        seed,
        methods=METHODS,
        output=output,  # type: ignore[arg-type]
        threshold=THRESHOLD,
        device=device,
        show_progress=show_progress,
    )
    side = place.recipe.image_size
    title = (
        f"Agreement of metrics with the truth by dose of unseen data\n{place.name}, {side} x {side}, "
        f"{len(reports[0].candidates)} attributions, {reports[0].n} images; bands: 95 % intervals"
    )
    return Reproduction(
        "unseen-data-dose",
        "How much unseen data it takes for a metric to stop ranking as the truth does",
        {
            "breaks": _breaks(reports),
            "doses": pd.concat([report.to_frame() for report in reports], ignore_index=True),
        },
        {"doses": doses_figure(_panels(reports), THRESHOLD, title)},
        _findings(reports),
    )


def _panels(reports: Sequence[MetricReport]) -> dict[str, dict[str, DoseLine]]:
    panels: dict[str, dict[str, DoseLine]] = {}
    for axis, about in AXES.items():
        lines = panels.setdefault(about.meaning, {})
        for report in reports:
            if report.metric == "pixel-flipping":  # lies on deletion's line
                continue
            doses = report.along(axis)
            found = [each.correlations["signed"] for each in doses]
            lines[report.metric] = DoseLine(
                [each.dose for each in doses],
                [each.value for each in found],
                [each.low for each in found],
                [each.high for each in found],
                METRICS[report.metric].perturbs,
            )
    return panels


def _breaks(reports: Sequence[MetricReport]) -> "pd.DataFrame":
    """A row for each metric: its correlation without unseen data, and where it breaks on each axis."""
    import pandas as pd

    rows = []
    for report in reports:
        clean = next(each for each in report.doses if each.unseen == 0).correlations["signed"]
        row = {"metric": report.metric, "correlation_without_unseen": clean.value}
        row |= {"low": clean.low, "high": clean.high}
        for each in report.breaks():
            row[f"breaks_at_{each.axis}"] = _where(each)
        row["beats_the_oracle"] = _most_beaten(report)
        rows.append(row)
    return pd.DataFrame(rows)


def _where(broken: Break) -> str:
    if math.isnan(broken.largest):
        return "undefined"
    return "not shown" if broken.dose is None else f"{broken.dose:g}"


def _most_beaten(report: MetricReport) -> str:
    beaten = [each for each in report.doses if not each.measures_the_truth]
    if not beaten:
        return ""
    return max(beaten, key=lambda each: abs(each.best - each.oracle)).best_map


def _findings(reports: Sequence[MetricReport]) -> list[str]:
    by = {report.metric: report for report in reports}
    sentences = [
        f"A metric breaks at the smallest dose from which on the upper end of the interval of its "
        f"Spearman correlation with the truth's ranking (lowest F1 of all masks) lies below "
        f"{THRESHOLD:g}; 0: it does not reach that without unseen data either. That none is shown "
        "says little where images are few."
    ]
    for report in reports:
        if METRICS[report.metric].perturbs:
            first, *others = report.findings()
            sentences.append(f"{report.metric}, {first}")
            said = "; ".join(f"{each.axis} {each}" for each in report.breaks())
            sentences.append(f"{report.metric}: {said}. {others[-1]}")
    sentences += [
        _step(reports),
        _contrast(reports),
        _same_order(by),
        eight_methods(),
    ]
    return sentences


def _step(reports: Sequence[MetricReport]) -> str:
    """Whether the distance matters beyond being there."""
    equal = all(
        each.correlations == doses[1].correlations and each.oracle == doses[1].oracle
        for doses in (report.along("distance") for report in reports)
        for each in doses[1:]
    )
    if equal:
        return (
            "The distance of the replacement from the true baseline acts as a step: one gray level is "
            "as bad as black, because redundant channels fire alike on every color that they have not "
            "seen."
        )
    return "Scores differ between distances of the replacement from the true baseline."


def _contrast(reports: Sequence[MetricReport]) -> str:
    still = [each for each in reports if not METRICS[each.metric].perturbs]
    said = ", ".join(f"{r.metric} {r.doses[0].correlations['signed'].value:.2f}" for r in still)
    return (
        f"Localization metrics perturb nothing, so no dose changes them ({said}); but they need a "
        "mask, which outside of a laboratory states what people expect and not what the network used."
    )


def _same_order(by: dict[str, MetricReport]) -> str:
    deletion, flipping = by["deletion"], by["pixel-flipping"]
    gap = max(
        abs(one.correlations["signed"].value - other.correlations["signed"].value)
        for one, other in zip(deletion.doses, flipping.doses, strict=True)
    )
    return (
        "Pixel Flipping over all pixels is Deletion in another unit: on an image, its score falls by "
        "as much as Deletion's area rises, but for the ends of the curve, which all attributions "
        f"share. Their correlations differ by at most {gap:.2g}; the figure shows one of them."
    )
