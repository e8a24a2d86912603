"""What the tables of soundness-truth say, in sentences."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from attributionlab.papers.soco.truth.assumption_findings import assumption_sentences
from attributionlab.papers.soco.truth.conditions import LINEAR, REFERENCE, Condition
from attributionlab.papers.soco.truth.ratios import MIDDLE, OWN_FRACTIONS, PAPER_SCHEDULE
from attributionlab.papers.soco.truth.summaries import of_condition

if TYPE_CHECKING:
    import pandas as pd

Tables = Mapping[str, "pd.DataFrame"]
TITLES = {
    "f1": "F1",
    "completeness": "completeness (Definition 4.9)",
    "completeness of thresholds": "completeness (mean over thresholds)",
}


def findings_of(tables: Tables, n: int) -> list[str]:
    """Sentences computed from the tables of `soundness_truth`."""
    return [
        _panel(tables, n),
        _estimates(tables),
        _why_biased(of_condition(tables["soundness"], REFERENCE)),
        _levels(tables["levels"]),
        _schedule(tables["schedule"], tables["schedule-held-out"]),
        _completeness(tables),
        _doses(tables),
        _ranking(tables["metrics"]),
        *assumption_sentences(tables),
    ]


def _panel(tables: Tables, n: int) -> str:
    scores = tables["scores"]
    kinds = scores.drop_duplicates(["environment", "attribution"]).kind.value_counts()
    return (
        "Definitions 4.8 and 4.9 need the information phi of every pixel; here it is max(exact Shapley "
        "value of the label, 0). Pixels of the label are interchangeable, so all of an image's have "
        "the same phi, of the logit and of the probability alike, and a mask of them gives the same "
        "true ratios. How Definition 4.9 weighs pixels makes no difference here; in soco-figure-6, "
        f"where phi varies, it does. Rated, of each environment "
        f"({', '.join(scores.environment.unique())}; {n} images each): "
        f"{_per(kinds, 'graded', scores)} graded attributions and {_per(kinds, 'real', scores)} of "
        "methods and controls, of each what raises the output, divided by its maximum."
    )


def _per(kinds: "pd.Series", kind: str, scores: "pd.DataFrame") -> int:
    """At most, of one environment."""
    number: int = scores.environment.nunique()
    return -(-int(kinds.get(kind, 0)) // number)


def _estimates(tables: Tables) -> str:
    here = of_condition(tables["soundness"], REFERENCE)
    each = of_condition(tables["soundness-attributions"], REFERENCE, "accuracy")
    reached = each[(each.share == MIDDLE) & each.reached]
    perfect = reached[reached.estimate == 1]
    said = "; ".join(
        f"{row.indicator}: bias {row.bias:+.2f}, mean absolute error {row.error:.2f}, Spearman with "
        f"the truth {_number(row.rank)} ({_number(row.low)} to {_number(row.high)})"
        for row in here.itertuples()
    )
    least = f", with true soundness from {perfect.truth.min():.2f}" if len(perfect) else ""
    step, epsilon = PAPER_SCHEDULE
    return (
        "The paper calls Algorithm 1 an approximation of the soundness of the included pixels and does "
        f"not say how good. With steps of {step:g} % of the area and epsilon {epsilon:g}, under the "
        "best condition (removed pixels become the true baseline, nothing is unseen), at the level "
        f"{MIDDLE:g} of the way from nothing to everything: {said}. By accuracy {len(perfect)} of the "
        f"{len(reached)} attributions that reach it are rated 1{least}."
    )


def _why_biased(here: "pd.DataFrame") -> str:
    """What an estimate is off by is an identity; how much of it is the first step's is measured."""
    said = "; ".join(
        f"{row.indicator} {row.bias_from_nothing:+.3f} instead of {row.bias:+.3f}"
        for row in here.itertuples()
    )
    high = list(here[here.bias > 0].indicator)
    where = f"too high on average by {' and '.join(high)}" if high else "too high by no indicator"
    removed = (1 - here.bias_from_nothing / here.bias)[here.bias > 0]
    part = f": that explains {removed.max():.0%} of a bias at most" if len(high) else ""
    return (
        "An estimate exceeds the truth by the attribution of other pixels in steps that count as sound "
        f"less that of the label's pixels in steps that do not. It is {where}. Algorithm 1 holds its "
        "first step against a performance of 0; against that of an image of which nothing is kept the "
        f"bias is, {said}{part}."
    )


def _levels(levels: "pd.DataFrame") -> str:
    reference = of_condition(levels, REFERENCE)
    jumped = ", ".join(
        f"{indicator} {group.jumped.mean():.0%}"
        for indicator, group in reference.groupby("indicator", sort=False)
    )
    accuracy = levels[levels.indicator == "accuracy"]
    least = accuracy.loc[accuracy.reached.idxmin()]
    return (
        "Levels are jumped over by more than epsilon in a single step in this share of what is "
        f"reached, under the best condition: {jumped} (mean over four levels). By accuracy the level "
        f"{least.share:g} is reached by {least.reached:.0%} of the attributions in the worst case "
        f"({least.environment}, {least.imputation}, unseen data x {least.strength:g})."
    )


def _schedule(schedule: "pd.DataFrame", held_out: "pd.DataFrame") -> str:
    sentences = []
    for indicator, group in held_out.groupby("indicator", sort=False):
        paper, chosen = group.sort_values("chosen").itertuples()
        sentences.append(
            f"{indicator}: error {paper.error:.2f} (Spearman {_number(paper.rank)}) as in the paper, "
            f"{chosen.error:.2f} ({_number(chosen.rank)}) with {chosen.settings}"
        )
    return (
        f"How the answer at the level {MIDDLE:g} depends on steps ({_listed(schedule.step)} % of the "
        f"area) and epsilon ({_listed(schedule.epsilon)}), under the best condition; what has the "
        "least error on one half of the attributions is judged on the other half, both ways: "
        f"{'; '.join(sentences)}."
    )


def _completeness(tables: Tables) -> str:
    thresholds = of_condition(tables["thresholds"], REFERENCE)
    exact = thresholds[thresholds.threshold == 0].set_index("indicator")
    here = of_condition(tables["completeness"], REFERENCE)
    said = "; ".join(
        f"{row.indicator}: Spearman {_number(row.rank)} ({_number(row.low)} to {_number(row.high)}), "
        f"mean absolute error {row.error:.2f}, at the threshold 0 Spearman "
        f"{_number(exact['rank'][row.indicator])}"
        for row in here.itertuples()
    )
    each = of_condition(tables["completeness-attributions"], REFERENCE)
    above = ""
    if each.estimate.max() > 1:
        above = (
            f" Shares reach {each.estimate.max():.2f}: above 1 a network does worse with the pixels "
            "that are left than with nothing."
        )
    return (
        "Algorithm 2 promises an order only. Under the best condition, at the threshold 0.1, the "
        "performance lost (as a share of what there is between nothing and everything) against the "
        f"true completeness at that threshold: {said}.{above}"
    )


def _doses(tables: Tables) -> str:
    metrics, assumption = tables["metrics"], tables["assumption"]
    chosen = (metrics.environment == REFERENCE.environment) & (metrics.imputation == LINEAR)
    here = metrics[chosen & (metrics.indicator == "accuracy")]
    parts = []
    for strength in sorted(here.strength.unique()):
        of_dose = here[here.strength == strength].set_index(["metric", "truth"])
        condition = Condition(REFERENCE.environment, float(strength), LINEAR)
        level = of_condition(tables["soundness"], condition, "accuracy").iloc[0]
        held = of_condition(assumption, condition, "accuracy")
        held = held[held.performance_of == "data set"].iloc[0]

        def both(metric: str, of_dose: "pd.DataFrame" = of_dose) -> str:
            row = of_dose.loc[(metric, "completeness")]
            mean = of_dose.loc[(metric, "completeness of thresholds"), "rank"]
            return (
                f"{_number(row['rank'])} ({_number(mean)}; {row.distinct:g} different scores of "
                f"{row.ranked:g})"
            )

        parts.append(
            f"{strength:g}: {level.reached:.0%} reach the level; completeness {both('completeness')}, "
            f"ROAD {both('removal, most first')}, by its own fractions "
            f"{both(OWN_FRACTIONS)}; Assumption 4.10 fails in "
            f"{held.reversed_share + held.no_more_share:.0%} of the pairs of different performance"
        )
    return (
        "Noisy linear imputation, by the strength of the channels that fire on unseen colors. By "
        "accuracy, Spearman with the true completeness of Definition 4.9 (in brackets with its mean "
        "over Algorithm 4's thresholds, which are the estimator's own) of completeness, and of ROAD, "
        f"most relevant first, from 0 to 10 % removed and from 10 to 90 %: {'. '.join(parts)}."
    )


def _ranking(metrics: "pd.DataFrame") -> str:
    parts = []
    worst = Condition(REFERENCE.environment, 1.0, LINEAR)
    cases = (("nothing unseen", REFERENCE), ("noisy linear imputation, unseen data", worst))
    for name, condition in cases:
        here = of_condition(metrics, condition, "accuracy")
        said = []
        for truth, group in here.groupby("truth", sort=False):
            ranked = group.dropna(subset="rank")
            if len(ranked):
                best = ranked.loc[ranked["rank"].idxmax()]
                said.append(
                    f"by {TITLES.get(str(truth), truth)} {best.metric} {best['rank']:.2f} "
                    f"({_number(best.low)} to {_number(best.high)})"
                )
        parts.append(f"{name}: {'; '.join(said)}")
    return (
        "Which metric ranks attributions best, by accuracy, against each true quality (the highest of "
        f"{metrics.metric.nunique()} correlations, which flatters it): {'. '.join(parts)}. "
        "Attributions are a panel, not a sample: intervals say how much hangs on which ones it holds."
    )


def _number(value: float) -> str:
    return "undefined" if value != value else f"{value:.2f}"


def _listed(values: "pd.Series") -> str:
    return ", ".join(f"{each:g}" for each in sorted(set(values)))
