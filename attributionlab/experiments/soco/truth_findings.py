"""What the tables of soundness-truth say, in sentences."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from attributionlab.experiments.soco.truth_conditions import REFERENCE, Condition
from attributionlab.experiments.soco.truth_ratios import MIDDLE

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["findings"]

Tables = Mapping[str, "pd.DataFrame"]
PAPER_STEP, PAPER_EPSILON = 1.0, 0.01
LINEAR = "noisy-linear"


def findings(tables: Tables, n: int) -> list[str]:
    """Sentences computed from the tables of `soundness_truth`."""
    return [
        _panel(tables, n),
        _estimates(tables),
        _levels(tables["levels"]),
        _schedule(tables["schedule"]),
        _completeness(tables["completeness"]),
        _doses(tables),
        _ranking(tables["metrics"]),
        *_assumption(tables["assumption"]),
        *_counterexamples(tables["counterexamples"]),
        _theorem(tables["theorem"]),
    ]


def _panel(tables: Tables, n: int) -> str:
    scores = tables["scores"]
    kinds = scores.drop_duplicates(["environment", "attribution"]).kind.value_counts()
    return (
        "Definitions 4.8 and 4.9 need the information phi of every pixel; here it is max(exact "
        "Shapley "
        "value of the label, 0). Pixels of the label are interchangeable, so all of an image's "
        "have the "
        "same phi, of the logit and of the probability alike, and the true ratios are the same for "
        f"both. Rated, of each environment ({', '.join(scores.environment.unique())}; {n} images "
        f"each): {_per(kinds, 'graded', scores)} graded attributions and "
        f"{_per(kinds, 'real', scores)} of "
        "methods and controls, of each what raises the output, divided by its maximum."
    )


def _per(kinds: "pd.Series", kind: str, scores: "pd.DataFrame") -> int:
    """At most, of one environment."""
    number: int = scores.environment.nunique()
    return -(-int(kinds.get(kind, 0)) // number)


def _estimates(tables: Tables) -> str:
    here = _at(tables["soundness"], REFERENCE)
    each = _at(tables["soundness-attributions"], REFERENCE, "accuracy")
    reached = each[(each.share == MIDDLE) & each.reached]
    perfect = reached[reached.estimate == 1]
    said = "; ".join(
        f"{row.indicator}: bias {row.bias:+.2f}, mean absolute error {row.error:.2f}, Spearman "
        "with the "
        f"truth {_number(row.rank)} ({_number(row.low)} to {_number(row.high)})"
        for row in here.itertuples()
    )
    return (
        "The paper calls Algorithm 1 an approximation of the soundness of the included pixels and "
        "does "
        f"not say how good. With steps of {PAPER_STEP:g} % of the area and epsilon "
        f"{PAPER_EPSILON:g}, under "
        "the best condition (removed pixels become the true baseline, nothing is unseen), at the "
        "level "
        f"{MIDDLE:g} of the way from nothing to everything: {said}. By accuracy {len(perfect)} of "
        "the "
        f"{len(reached)} attributions that reach it are rated 1{_least(perfect)}. "
        f"{_why_biased(here)}"
    )


def _least(perfect: "pd.DataFrame") -> str:
    return f", with true soundness from {perfect.truth.min():.2f}" if len(perfect) else ""


def _why_biased(here: "pd.DataFrame") -> str:
    if (here.bias > 0).all():
        return (
            "Estimates are too high on average: a step that raises the performance counts as sound "
            "as a whole, "
            "whatever else is in it, and the first is compared with a performance of 0, not with "
            "that "
            "of an image of which nothing is kept."
        )
    return "Estimates are not too high on average by every indicator."


def _levels(levels: "pd.DataFrame") -> str:
    reference = _at(levels, REFERENCE)
    jumped = ", ".join(
        f"{indicator} {group.jumped.mean():.0%}"
        for indicator, group in reference.groupby("indicator", sort=False)
    )
    accuracy = levels[levels.indicator == "accuracy"]
    least = accuracy.loc[accuracy.reached.idxmin()]
    return (
        "One pixel of the label on plain background already decides the class, and at most a few "
        f"percent of the area are the label's. So levels are jumped over by more than epsilon in a "
        f"single step, in this share of what is reached: {jumped} (mean over four levels). By "
        "accuracy "
        f"the level {least.share:g} is reached by {least.reached:.0%} of the attributions in the "
        "worst "
        f"case ({_named(least)})."
    )


def _schedule(schedule: "pd.DataFrame") -> str:
    sentences = []
    for indicator, group in schedule.groupby("indicator", sort=False):
        paper = group[(group.step == PAPER_STEP) & (group.epsilon == PAPER_EPSILON)].iloc[0]
        best = group.loc[group.error.idxmin()]
        sentences.append(
            f"{indicator}: error {paper.error:.2f} (Spearman {_number(paper['rank'])}) as in the "
            "paper, "
            f"{best.error:.2f} ({_number(best['rank'])}) with steps of {best.step:g} % and epsilon "
            f"{best.epsilon:g}"
        )
    return (
        f"How the answer depends on steps ({_listed(schedule.step)} % of the area) and epsilon "
        f"({_listed(schedule.epsilon)}), over all levels under the best condition, the smallest "
        "error "
        f"beside the paper's: {'; '.join(sentences)}."
    )


def _completeness(table: "pd.DataFrame") -> str:
    here = _at(table, REFERENCE)
    said = "; ".join(
        f"{row.indicator}: Spearman {_number(row.rank)} ({_number(row.low)} to "
        f"{_number(row.high)}), "
        f"mean absolute error {row.error:.2f}"
        for row in here.itertuples()
    )
    return (
        "Algorithm 2 promises an order only. Under the best condition, at the threshold 0.1, the "
        "performance lost (as a share of what there is between nothing and everything) against "
        "true "
        f"completeness: {said}. Shares above 1 occur where the pixels of losing colors are left, "
        "with "
        "which a network does worse than with nothing."
    )


def _doses(tables: Tables) -> str:
    metrics, assumption = tables["metrics"], tables["assumption"]
    chosen = (metrics.environment == REFERENCE.environment) & (metrics.imputation == LINEAR)
    here = metrics[chosen & (metrics.indicator == "accuracy")]
    parts = []
    for strength in sorted(here.strength.unique()):
        of_dose = here[here.strength == strength]
        condition = Condition(REFERENCE.environment, float(strength), LINEAR)
        level = _at(tables["soundness"], condition, "accuracy").iloc[0]
        held = _at(assumption, condition, "accuracy").iloc[0]
        parts.append(
            f"{strength:g}: {level.reached:.0%} reach the level, completeness agrees by "
            f"{_agreement(of_dose, 'completeness', 'completeness')}, ROAD (most relevant first) by "
            f"{_agreement(of_dose, 'removal, most first', 'completeness')}, Assumption 4.10 fails "
            "in "
            f"{held.reversed_share + held.no_more_share:.0%} of the pairs of different performance"
        )
    return (
        "Noisy linear imputation, by the strength of the channels that fire on unseen colors "
        "(accuracy; "
        f"agreement: Spearman with true completeness): {'; '.join(parts)}."
    )


def _ranking(metrics: "pd.DataFrame") -> str:
    parts = []
    worst = Condition(REFERENCE.environment, 1.0, LINEAR)
    cases = (("nothing unseen", REFERENCE), ("noisy linear imputation, unseen data", worst))
    for name, condition in cases:
        here = _at(metrics, condition, "accuracy")
        said = []
        for truth, group in here.groupby("truth", sort=False):
            ranked = group.dropna(subset="rank")
            if len(ranked):
                best = ranked.loc[ranked["rank"].idxmax()]
                said.append(
                    f"by {_title(str(truth))} {best.metric} {best['rank']:.2f} "
                    f"({_number(best.low)} to "
                    f"{_number(best.high)})"
                )
        parts.append(f"{name}: {', '.join(said)}")
    return (
        "Which metric ranks attributions best, by accuracy, against each true quality: "
        f"{'; '.join(parts)}. Attributions are a panel, not a sample: intervals say how much hangs "
        "on "
        "which ones it holds."
    )


def _assumption(table: "pd.DataFrame") -> Iterator[str]:
    here = _at(table, REFERENCE)
    said = "; ".join(
        f"{row.indicator}: the better set has less information in {row.reversed_share:.1%}, no "
        "more in "
        f"{row.no_more_share:.1%}; of the pairs of equal performance {row.hidden_share:.0%} differ "
        "in "
        "information"
        for row in here.itertuples()
    )
    yield (
        f"Assumption 4.10 on {here.pairs.iloc[0]:,} pairs of sets of pixels, the others at the "
        "true "
        f"baseline: {said}. {_holds(here)}"
    )
    wrong = (table.reversed_share + table.no_more_share).rename("wrong")
    best = table[wrong == 0]
    worst = table.loc[wrong.idxmax()]
    yield (
        f"Of {len(table)} combinations of condition and indicator it fails for no pair in "
        f"{len(best)}, "
        f"and for {wrong.max():.0%} at worst ({_named(worst)}, {worst.indicator}). Where a trained "
        "network lies between these nobody can check."
    )


def _holds(here: "pd.DataFrame") -> str:
    violated = here.reversed + here.no_more
    exact = list(here[violated == 0].indicator)
    failing = list(here[violated > 0].indicator)
    sentence = ""
    if exact:
        sentence += (
            f"It holds for the {' and the '.join(exact)}, which is the number of kept pixels of "
            "the "
            "label. "
        )
    if failing:
        sentence += (
            f"It fails for {' and '.join(failing)}: pixels of other colors lower them, which phi, "
            "never "
            "negative, cannot say."
        )
    return sentence.strip()


def _counterexamples(table: "pd.DataFrame") -> Iterator[str]:
    linear = [Condition(REFERENCE.environment, s, LINEAR) for s in (0.0, 1.0)]
    cases = [
        (REFERENCE, "accuracy", "the true baseline"),
        (linear[0], "label logit", "noisy linear imputation without unseen data"),
        (linear[1], "accuracy", "noisy linear imputation with unseen data"),
    ]
    for condition, indicator, words in cases:
        here = _at(table, condition, indicator)
        said = [_example(row) for row in here.itertuples()]
        if said:
            yield f"Smallest counterexamples, {words}, {indicator}: {'; '.join(said)}."


def _example(row: "pd.Series") -> str:
    meaning = {
        "reversed": "better with less information",
        "no more": "better with no more",
        "hidden": "equal in spite of more",
    }
    better = f"another {row.better}" if row.better == row.worse else row.better
    return (
        f"{meaning[row.kind]}: {row.worse} gives {row.performance_of_worse:.4g}, {better} "
        f"{row.performance_of_better:.4g}"
    )


def _theorem(table: "pd.DataFrame") -> str:
    here = _at(table, REFERENCE)
    said = "; ".join(
        f"{row.indicator}: {row.theorem:.2f} ({row.minimizer})" for row in here.itertuples()
    )
    return (
        "The proof of Theorem 4.11 takes equal performance for equal information, which the "
        "assumption "
        "does not say. All subsets of a few pixels tried, all attributed alike "
        f"({here.attributed.iloc[0]}, true soundness {here.truth.iloc[0]:.2f}), the theorem's "
        "ratio "
        f"is: {said}."
    )


def _at(
    table: "pd.DataFrame", condition: Condition, indicator: str | None = None
) -> "pd.DataFrame":
    chosen = (table.environment == condition.environment) & (table.strength == condition.strength)
    chosen &= table.imputation == condition.imputation
    if indicator is not None:
        chosen &= table.indicator == indicator
    return table[chosen]


def _agreement(here: "pd.DataFrame", metric: str, truth: str) -> str:
    [value] = here[(here.metric == metric) & (here.truth == truth)]["rank"]
    return _number(value)


def _number(value: float) -> str:
    return "undefined" if value != value else f"{value:.2f}"


def _named(row: "pd.Series") -> str:
    return f"{row.environment}, {row.imputation}, unseen data x {row.strength:g}"


def _title(truth: str) -> str:
    return "F1" if truth == "f1" else truth


def _listed(values: "pd.Series") -> str:
    return ", ".join(f"{each:g}" for each in sorted(set(values)))
