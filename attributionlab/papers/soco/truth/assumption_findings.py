"""What the tables say about Assumption 4.10 and the theorems that rest on it, in sentences."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from attributionlab.papers.soco.truth.conditions import LINEAR, REFERENCE, Condition
from attributionlab.papers.soco.truth.summaries import of_condition

if TYPE_CHECKING:
    import pandas as pd


def assumption_sentences(tables: Mapping[str, "pd.DataFrame"]) -> Iterator[str]:
    """Computed from the tables of `soundness_truth`."""
    yield _reference(tables["assumption"], tables["counterexamples"])
    yield _mix(tables["assumption-by-sets"])
    yield _everywhere(tables["assumption"])
    yield from _counterexamples(tables["counterexamples"])
    yield _theorem_11(tables["theorem"])
    yield _theorem_12(tables["thresholds"])


def _reference(assumption: "pd.DataFrame", counterexamples: "pd.DataFrame") -> str:
    here = of_condition(assumption, REFERENCE)
    of_set, of_image = (here[here.performance_of == of] for of in ("data set", "image"))
    said = "; ".join(
        f"{row.indicator}: the better set has less information in {row.reversed_share:.1%}, no more "
        f"in {row.no_more_share:.1%} (of single images in {image.reversed_share:.1%} and "
        f"{image.no_more_share:.1%}); of the pairs of equal performance {row.hidden_share:.0%} differ "
        f"in information ({image.hidden_share:.0%})"
        for row, image in zip(of_set.itertuples(), of_image.itertuples(), strict=True)
    )
    return (
        "Assumption 4.10 is about the performance on a data set. On "
        f"{of_set.pairs.iloc[0]:,} pairs of sets of pixels ({of_image.pairs.iloc[0]:,} where each "
        f"image is a data set of its own), the others at the true baseline: {said}. "
        f"{_holds(of_set, of_condition(counterexamples, REFERENCE))}"
    )


def _holds(here: "pd.DataFrame", counterexamples: "pd.DataFrame") -> str:
    """On the data set; a reason is given only where a counterexample shows it."""
    violated = here.reversed + here.no_more
    exact = list(here[violated == 0].indicator)
    failing = list(here[violated > 0].indicator)
    sentences = []
    if exact:
        sentences.append(f"It holds in all of these pairs for {' and '.join(exact)}.")
    if failing:
        sentences.append(f"It fails in some for {' and '.join(failing)}.")
    rivals = counterexamples[
        counterexamples.kind.isin(["reversed", "no more"])
        & counterexamples.worse.str.contains("rival")
    ]
    lowered = list(dict.fromkeys(rivals.indicator))
    if lowered:
        sentences.append(
            f"Pixels of a color that competes with the label's lower {' and '.join(lowered)}, which "
            "phi, never negative, cannot say."
        )
    return " ".join(sentences)


def _mix(by_sets: "pd.DataFrame") -> str:
    here = of_condition(by_sets, REFERENCE)
    here = here[here.performance_of == "data set"]
    failing = here.reversed_share + here.no_more_share
    said = "; ".join(
        f"{indicator}: "
        + ", ".join(
            f"{kind} {share:.0%}"
            for kind, share in zip(group.sets, failing[group.index], strict=True)
        )
        for indicator, group in here.groupby("indicator", sort=False)
    )
    return (
        "These percentages are of the sets that were tried and depend on their mix. Pairs within one "
        f"kind of sets, share that fails on the data set: {said}."
    )


def _everywhere(table: "pd.DataFrame") -> str:
    table = table[table.performance_of == "data set"]
    wrong = table.reversed_share + table.no_more_share
    worst = table.loc[wrong.idxmax()]
    return (
        f"Of {len(table)} combinations of condition and indicator it fails for no pair in "
        f"{int((wrong == 0).sum())}, and for {wrong.max():.0%} at worst ({worst.environment}, "
        f"{worst.imputation}, unseen data x {worst.strength:g}, {worst.indicator}). Nothing here says "
        "where a trained network lies between these."
    )


def _counterexamples(table: "pd.DataFrame") -> Iterator[str]:
    linear = [Condition(REFERENCE.environment, s, LINEAR) for s in (0.0, 1.0)]
    cases = [
        (REFERENCE, "accuracy", "the true baseline"),
        (linear[0], "label logit", "noisy linear imputation without unseen data"),
        (linear[1], "accuracy", "noisy linear imputation with unseen data"),
    ]
    for condition, indicator, words in cases:
        said = [_example(row) for row in of_condition(table, condition, indicator).itertuples()]
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
        f"{meaning[row.kind]}: {row.worse} gives {row.performance_of_worse:.6g}, {better} "
        f"{row.performance_of_better:.6g}"
    )


def _theorem_11(table: "pd.DataFrame") -> str:
    here = of_condition(table, REFERENCE)
    said = "; ".join(
        f"{row.indicator}: {row.theorem:.2f} ({row.minimizer})" for row in here.itertuples()
    )
    return (
        "The proof of Theorem 4.11 takes equal performance for equal information, which the "
        "assumption does not say. All subsets of a few pixels tried, all attributed alike "
        f"({here.attributed.iloc[0]}, true soundness {here.truth.iloc[0]:.2f}), the theorem's ratio "
        f"is: {said}."
    )


def _theorem_12(thresholds: "pd.DataFrame") -> str:
    cases = (
        ("true baseline", REFERENCE),
        (
            "noisy linear imputation, unseen data",
            Condition(REFERENCE.environment, 1.0, LINEAR),
        ),
    )
    said = []
    for words, condition in cases:
        here = of_condition(thresholds, condition)
        shares = [
            f"{indicator} {_percent(group, 0.1)} ({_percent(group, 0.0)})"
            for indicator, group in here.groupby("indicator", sort=False)
        ]
        said.append(f"{words}: {', '.join(shares)}")
    return (
        "Theorem 4.12: of two attributions, the one that leaves the lower performance is the more "
        "complete. Of the pairs of attributions that leave different performance, the share in which "
        "it is, and not only as complete, at the threshold 0.1 (in brackets at 0, which is Definition "
        f"4.9, on the information of the data set): {'; '.join(said)}."
    )


def _percent(group: "pd.DataFrame", threshold: float) -> str:
    [share] = group[group.threshold == threshold].ordered
    return "no pair" if share != share else f"{share:.0%}"
