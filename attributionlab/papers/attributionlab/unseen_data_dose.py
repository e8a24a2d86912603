"""How much unseen data it takes for a metric to stop ranking attributions as the truth does."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from attributionlab.papers.answers import decided
from attributionlab.papers.attributionlab.comparison_plan import COLORS, environment_of
from attributionlab.papers.catalog import Found, Run, Tables
from attributionlab.show import curves
from attributionlab.verdicts import AXES, Break, MetricReport, as_metric, metric_tests

METHODS = (
    *("saliency", "input-x-gradient", "guided-backprop", "deep-shap", "deep-shap-true-baseline"),
    *("lrp", "gradcam", "sobel", "random"),
)
"""Real methods and controls that take seconds."""
THRESHOLD = 0.5
"""Perturbation metrics look at the order of pixels, F1 at their values too: even where nothing is
unseen they need not reach 0.7."""
METRICS = [
    as_metric(name)
    for name in (
        *("insertion", "deletion", "pixel-flipping", "sensitivity-n", "infidelity"),
        *("soundness", "completeness", "single-deletion", "incremental-deletion"),
        *("pointing-game", "relevance-mass-accuracy", "relevance-rank-accuracy"),
    )
]
LOCALIZATION = [metric.name for metric in METRICS if metric.sees == "maps"]
PAPER_METRICS = ["insertion", "deletion", "sensitivity-n"]
NOT_SHOWN = "not shown"


def unseen_data_dose(run: Run, *, env: str = COLORS, output: str | None = None) -> Found:
    """Test twelve metrics at rising doses of unseen data: strength, channels, distance and share.

    Each image has a network of its own. `env` has a color detector; `output`, "probability" (the
    default) or "logit", is explained and perturbed.
    """
    place = environment_of(env, run.quick, stated=True)
    reports = metric_tests(
        METRICS,
        place,
        run.n,
        run.seed,
        methods=METHODS,
        output=output,  # type: ignore[arg-type]
        threshold=THRESHOLD,
        device=run.device,
        one_network=True,
        show_progress=run.show_progress,
    )
    doses = pd.concat([report.dose_frame() for report in reports], ignore_index=True)
    side = place.recipe.image_size
    # Evenly spaced whatever the doses are: the small ones decide, and would lie on top of each other.
    shown = doses[(doses.ranked_by == "signed") & (doses.metric != "pixel-flipping")]
    spaced = [f"{dose:g}" for dose in sorted(shown.dose.unique())]
    shown = shown.assign(
        dose=pd.Categorical([f"{dose:g}" for dose in shown.dose], spaced, ordered=True),
        panel=shown.axis.map({axis: about.meaning for axis, about in AXES.items()}),
    )
    shown.loc[shown.metric.isin(LOCALIZATION), ["low", "high"]] = math.nan
    figure = curves(
        *(shown, "dose", "correlation", "metric"),
        panel="panel",
        columns=2,
        title=f"Agreement of metrics with the truth by dose of unseen data\n{place.name}, "
        f"{side} x {side}, {len(reports[0].candidates)} attributions, {run.n} images; bands: 95 % "
        f"intervals; a metric below {THRESHOLD:g} is broken; "
        "level dashed lines: metrics that perturb nothing",
        xlabel="dose",
        ylabel="Spearman correlation with the\ntruth's ranking (higher is better)",
        dashed=LOCALIZATION,
        reference=THRESHOLD,
    )
    return Found({"breaks": _breaks(reports, doses), "doses": doses}, {"doses": figure})


def _breaks(reports: Sequence[MetricReport], doses: pd.DataFrame) -> pd.DataFrame:
    """A row for each metric: its correlations, where it breaks, and what beats the exact mask."""
    signed = doses[doses.ranked_by == "signed"].set_index(["axis", "dose"])
    by = dict(list(signed.groupby("metric")))
    rows = []
    for report in reports:
        own = by[report.metric]
        clean, unseen = own[own.unseen == 0].iloc[0], own[own.unseen > 0]
        worst = unseen.sort_values("correlation", na_position="first").iloc[0]
        row = {
            "metric": report.metric,
            "correlation_without_unseen": clean.correlation,
            "low": clean.low,
            "high": clean.high,
            **{f"breaks_at_{each.axis}": _where(each) for each in report.breaks()},
            **_most_beaten(report),
            "worst": worst.correlation,
            "worst_low": worst.low,
            "worst_high": worst.high,
            "from_deletion": (own.correlation - by["deletion"].correlation).abs().max(),
        }
        rows.append(row)
    return pd.DataFrame(rows)


def _where(broken: Break) -> str:
    if math.isnan(broken.largest):
        return "undefined"
    return NOT_SHOWN if broken.dose is None else f"{broken.dose:g}"


def _most_beaten(report: MetricReport) -> dict[str, Any]:
    """Which map scores better than the exact mask, where it does so by most."""
    beaten = [each for each in report.doses if not each.measures_the_truth]
    if not beaten:
        return {"beats_the_oracle": "", "beaten_doses": 0}
    most = max(beaten, key=lambda each: abs(each.best - each.oracle))
    return {
        "beats_the_oracle": most.best_map,
        "beaten_doses": len(beaten),
        "largest_gap_at": f"{most.axis} {most.dose:g}",
        "oracle": most.oracle,
        "best": most.best,
    }


def unseen_data_makes_metrics_worse(tables: Tables) -> bool | None:
    rows = tables["breaks"].set_index("metric").loc[PAPER_METRICS]
    return decided(
        (rows.worst_high < rows.low).all(), (rows.worst > rows.correlation_without_unseen).any()
    )


def insertion_loses_most(tables: Tables) -> bool | None:
    doses = tables["doses"]
    strength = doses[(doses.ranked_by == "signed") & (doses["axis"] == "strength")]
    ends = strength[strength.dose == strength.dose.max()].set_index("metric").loc[PAPER_METRICS]
    insertion, deletion, sensitivity = (row for _, row in ends.iterrows())
    return decided(
        insertion.high < deletion.low and deletion.high < sensitivity.low,
        insertion.low > deletion.high or deletion.low > sensitivity.high,
    )


def one_gray_level_is_as_bad_as_black(tables: Tables) -> bool:
    doses = tables["doses"]
    apart = doses[(doses["axis"] == "distance") & (doses.dose > 0)]
    columns = ["correlation", "low", "high", "oracle"]
    different = apart.groupby(["metric", "ranked_by"])[columns].nunique(dropna=False)
    return bool((different == 1).all(axis=None))


def localization_does_not_change(tables: Tables) -> bool:
    doses = tables["doses"]
    still = doses[doses.metric.isin(LOCALIZATION)].groupby(["metric", "ranked_by"])
    return bool((still.correlation.nunique(dropna=False) == 1).all())
