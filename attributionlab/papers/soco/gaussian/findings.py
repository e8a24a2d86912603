"""What the tables of soco-figure-6 say, in sentences."""

from collections.abc import Mapping
from itertools import takewhile
from typing import TYPE_CHECKING

from attributionlab.papers.soco.gaussian.trials import LEVELS, Modification

if TYPE_CHECKING:
    import pandas as pd

TRUTH = "ground truth"
CLOSE = 0.01
"""Completeness that differs by less is called equal: ten rows of a thousand."""
Tables = Mapping[str, "pd.DataFrame"]


def findings_of(tables: Tables, how: Modification, counts: Mapping[str, int]) -> list[str]:
    """Sentences computed from the tables of `soco_figure_6`."""
    return [
        "How the paper modifies maps of 200 features is not published. Both readings are shown: "
        f"single features (Remove empties {how.share:.0%} of the attributed ones, Introduce gives U(0, "
        f"{how.strength:g}) of the largest value to {how.share:.0%} of those without information) and "
        "the random shifts of Table 3. "
        + ", ".join(f"{name}: {count} trials" for name, count in counts.items())
        + ".",
        _sound(tables["soundness"]),
        _introduced(tables["soundness"]),
        _strength(tables["strengths"]),
        _order(tables["completeness"]),
        _jumps(tables["soundness"]),
        *_sweep(tables["sweeps"]),
        _chance(tables["soundness"]),
    ]


def _sound(table: "pd.DataFrame") -> str:
    here = table[table.reading != "silent"]
    lowest = {name: here[here.attribution == name].soundness.min() for name in (TRUTH, "Remove")}
    both = all(value == 1 for value in lowest.values())
    said = (
        "exactly 1 at every level in both readings, as Figure 6a shows"
        if both
        else f"at least {lowest[TRUTH]:.3f} and {lowest['Remove']:.3f}, while Figure 6a shows 1"
    )
    return f"Soundness of ground truth and Remove is {said}; the true ratio is 1 by definition."


def _introduced(table: "pd.DataFrame") -> str:
    parts = []
    for reading in ("features", "shifts"):
        here = table[(table.reading == reading) & (table.attribution == "Introduce")]
        values = ", ".join(
            f"{row.soundness:.2f} ({row.true:.2f}) at {row.level:g}" for row in here.itertuples()
        )
        parts.append(f"{reading}: {values or 'no level was reached'}")
    return (
        f"Soundness of Introduce, and in brackets the true ratio: {'; '.join(parts)}. A step that "
        "raises the accuracy by 0.01 is credited with all that it adds: an estimate above the truth "
        "comes from there."
    )


def _strength(table: "pd.DataFrame") -> str:
    whole = {
        strength: here
        for strength, here in table.groupby("strength")  # rising
        if len(here) == len(LEVELS)
    }
    blind = list(takewhile(lambda each: (whole[each].soundness == 1).all(), whole))
    below = [strength for strength, here in whole.items() if (here.soundness < 1).all()]
    parts = []
    if blind:
        true = min(whole[each].true.min() for each in blind)
        parts.append(
            f"Up to a strength of {max(blind):g} Algorithm 1 gives Introduce 1 at every level, where "
            f"the true ratio falls to {true:.2f}: accuracy is at these levels after the first step"
        )
    else:
        parts.append("At every strength that was tried some level shows a soundness below 1")
    parts.append(
        f"It is below 1 at all four levels at {', '.join(f'{each:g}' for each in below)}: introduced "
        "features must outrank the truth's own before accuracy starts low enough to be graded"
        if below
        else "At none of them is it below 1 at every level"
    )
    return ". ".join(parts) + "."


def _order(table: "pd.DataFrame") -> str:
    wide = table.pivot_table(
        index=["reading", "threshold"], columns="attribution", values="difference"
    )
    parts = []
    for reading in ("features", "shifts", "silent"):
        here = wide.loc[reading]
        counts = {name: _compared(here[name] - here[TRUTH]) for name in ("Remove", "Introduce")}
        parts.append(f"{reading}: Remove is {counts['Remove']}, Introduce {counts['Introduce']}")
    gap = (wide["Remove"] - wide[TRUTH]).loc[["features", "shifts"]].max()
    contrary = (
        "Nowhere does Remove outperform the truth, contrary to the sentence of section 5.1"
        if gap < CLOSE
        else f"Remove outperforms the truth by up to {gap:.2f}"
    )
    return (
        f"Completeness beside the truth's, by thresholds: {'; '.join(parts)}. {contrary}. The theory "
        "(Remove below, Introduce at least equal) holds where Introduce reaches features that the "
        "model does not read or features that speak for the label; features that speak against it "
        "carry no information by definition, yet removing them helps the label, which Assumption 4.10 "
        "excludes."
    )


def _compared(gaps: "pd.Series") -> str:
    below, above = int((gaps < -CLOSE).sum()), int((gaps > CLOSE).sum())
    parts = {"below": below, "equal": len(gaps) - below - above, "above": above}
    return ", ".join(f"{word} at {count}" for word, count in parts.items() if count)


def _jumps(table: "pd.DataFrame") -> str:
    here = table[table.reading == "features"].set_index(["attribution", "level"])
    truth = here.loc[TRUTH]
    step = truth[truth.jumped == 1]
    introduced = here.loc["Introduce"].jumped if "Introduce" in here.index else None
    graded = (
        ""
        if introduced is None
        else f" Introduce passes them by more than 0.01 in {introduced.min():.0%} to "
        f"{introduced.max():.0%} of the trials."
    )
    return (
        f"The ground truth jumps over {len(step)} of {len(truth)} levels: with "
        f"{1 - truth.ratio.max():.0%} of the features kept, the largest that speak for the label, all "
        f"others are interpolated between these and the accuracy is {truth.performance.max():g} at "
        "once. A level of 0.2 to 0.8 then means the first step, whichever it is."
        f"{graded}"
    )


def _sweep(table: "pd.DataFrame") -> list[str]:
    rows = {
        (row.imputation, row.indicator): row for row in table[table.variant == "paper"].itertuples()
    }
    linear = rows["noisy linear", "accuracy"]
    graded = rows["noisy linear", "probability"]
    zero = rows["zero", "probability"]
    return [
        f"A full Algorithm 3 sweep gives the ground truth {linear.all_steps:.2f}: its accuracy is "
        f"{linear.first_step:g} at the first step, so that {linear.false_steps} of {linear.steps} "
        "steps raise it by less than 0.01 and their attribution counts as false. Only soundness at a "
        "level stops before.",
        "An unsaturated probability of the label does not help under interpolation "
        f"({graded.first_step:.3f} at the first step, {graded.intact:.3f} on intact rows, "
        f"{graded.all_steps:.2f} after the sweep): the few largest features, spread over the row, "
        "argue for the label more than the whole row does. With removed features set to 0, their mean, "
        f"the same probability rises from {zero.first_step:.3f} to {zero.highest:.3f} while attributed "
        f"features are added, and the sweep gives {zero.all_steps:.2f}.",
        _released(table),
    ]


def _released(table: "pd.DataFrame") -> str:
    """Whether the authors' code would have told anything else."""
    keys = ["imputation", "indicator"]
    wide = table.pivot(index=keys, columns="variant", values=["all_steps", "false_steps"])
    parts = [
        f"{imputation}, {indicator}: {row['all_steps', 'released']:.3f} instead of "
        f"{row['all_steps', 'paper']:.3f} ({row['false_steps', 'released']:.0f} and "
        f"{row['false_steps', 'paper']:.0f} false steps)"
        for (imputation, indicator), row in wide.iterrows()
    ]
    levels = [name for name in table if name.startswith("at_")]
    at = table.set_index([*keys, "variant"])[levels].unstack("variant")
    gap = max(float((at[name].released - at[name].paper).abs().max()) for name in levels)
    return (
        "The released code differs from the text: it rounds maps to 256 levels, judges a step by the "
        "attribution counted before it, takes a rise of exactly 0.01 for none, and counts nothing as "
        f"false up to a performance of 0.04. After the sweep it gives {'; '.join(parts)}; at the four "
        f"levels both differ by at most {gap:.3f}."
    )


def _chance(table: "pd.DataFrame") -> str:
    here = table[(table.reading == "silent") & (table.attribution == "Introduce")]
    first = here.iloc[0]
    return (
        "Control, half of the features silent: at level "
        f"{first.level:g} Introduce has soundness {first.soundness:.2f} where the truth is "
        f"{first.true:.2f}. Features that the model does not read reach an accuracy of "
        f"{first.performance:.2f} by chance, and Algorithm 1 compares the first step with an accuracy "
        "of 0: levels below chance say nothing."
    )
