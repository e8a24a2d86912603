"""What comparisons of designs say, in sentences."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from attributionlab.papers.idsds.choices.cells import AFTER, LOGIT, OUTPUTS, PROBABILITY, TRUTH
from attributionlab.papers.idsds.choices.comparisons import ALL, NOT_ABSOLUTE
from attributionlab.papers.idsds.choices.tradeoff import Tradeoff
from attributionlab.papers.idsds.maps import ATTENDED, CONTROL, OF_NO_OUTPUT

if TYPE_CHECKING:
    import pandas as pd

FEWEST = 6
"""Runs from which an interval of their mean holds what it should (`mean_interval`)."""


def network_findings(networks: "pd.DataFrame", scores: "pd.DataFrame") -> Iterator[str]:
    """How good the networks are, and what the control scores."""
    by_design = networks.groupby("setup", sort=False)
    runs = sorted(set(by_design.size()))
    idsds = scores[scores.against == LOGIT]
    images = int((idsds.images + idsds.constant_drops).max())
    flat = idsds.groupby(["setup", "run"]).constant_drops.max()
    yield (
        f"{_counted(len(by_design), 'design')}, {' or '.join(map(str, runs))} training "
        f"{'run' if runs == [1] else 'runs'} of each, {images} images explained in each run. Accuracy "
        f"after fine-tuning, mean over runs: {_listed(by_design.accuracy.mean())}."
        + (
            f" In {int(flat.sum())} images all drops are equal; they are left out."
            if flat.any()
            else ""
        )
    )
    control = idsds[idsds.method == CONTROL].score
    if len(control):
        yield (
            f"The control, maps of random numbers, scores {control.mean():.3f} on average, "
            f"{control.min():.3f} to {control.max():.3f} in single networks."
        )
    if networks.network_truth.notna().any():
        yield (
            "Rank correlation of a network's own drops of the logit with what the data say of each "
            f"cell: {_listed(by_design.network_truth.mean())}. That is about the networks, whatever "
            "explains them; IDSDS holds maps against the drops, be they right or wrong about the data."
        )


def comparison_findings(
    comparisons: "pd.DataFrame", changes: "pd.DataFrame", unit: str
) -> Iterator[str]:
    """A sentence for each comparison: what the paper has, what is found here, whether they agree.

    Parameters
    ----------
    comparisons : DataFrame
        Rows of `compared`.
    changes : DataFrame
        Rows of `network_changes`, of some of them.
    unit : str
        What intervals are over: "training run" or "image".
    """
    here = comparisons[comparisons.against == LOGIT]
    others = {
        (row["first"], row["second"]): row
        for row in here[here.maps == NOT_ABSOLUTE].to_dict("records")
    }
    of_networks = {(row["first"], row["second"]): row for row in changes.to_dict("records")}
    for row in here[here.maps == ALL].to_dict("records"):
        key = (row["first"], row["second"])
        if not row["runs"]:
            yield (
                f"{row['part']}: {row['first']} and {row['second']} cannot be compared, since in each "
                f"{unit} all drops of one of them are equal."
            )
            continue
        yield (
            f"{row['part']}: the paper has most methods {row['paper']} on {row['second']} than on "
            f"{row['first']}. Here {_counts(row)}: {_verdict(row)}; "
            f"the rankings of methods correlate by {row['rankings']:.2f}. "
            f"Without absolute values and squares, {_counts(others[key])}: {_verdict(others[key])}."
            + _network(of_networks.get(key), row["runs"])
        )
    runs = here.runs[here.runs > 0]
    if (runs < FEWEST).any():
        few = _counted(int(runs.min()), unit)
        yield (
            f"Differences are of {few}, fewer than {FEWEST}: "
            + (
                "between single networks they say nothing of designs. Set runs, or leave out --quick."
                if unit == "training run"
                else "set n, the images of each class."
            )
        )


def _counts(row: dict[str, Any]) -> str:
    return (
        f"{row['higher']} of {row['methods']} methods score higher and {row['lower']} lower, by "
        f"{_change(row)} on average"
    )


def _change(row: dict[str, Any], name: str = "") -> str:
    """A difference and its interval, where it has one."""
    prefix = f"{name}_" if name else ""
    low, high = row[f"{prefix}low"], row[f"{prefix}high"]
    interval = "" if np.isnan(low) else f" ({low:+.3f} to {high:+.3f})"
    return f"{row[f'{prefix}difference']:+.3f}{interval}"


def _verdict(row: dict[str, Any]) -> str:
    unsure = "too few to tell" if row["runs"] < FEWEST else "but the interval does not exclude 0"
    return {
        "agrees": "agrees",
        "agrees (not sure)": f"the majority agrees, {unsure}",
        "disagrees": "disagrees",
        "disagrees (not sure)": f"the majority disagrees, {unsure}",
        "undecided": "undecided, since no majority has the mean difference on its side",
    }[row["outcome"]]


def _network(row: dict[str, Any] | None, runs: int) -> str:
    """Whether the design changed the network itself, and not only how well maps explain it."""
    if row is None:
        return ""
    said = f" Accuracy changes by {_change(row, 'accuracy')}"
    if not np.isnan(row["truth_difference"]):
        said += f", how far the network's own drops agree with the data by {_change(row, 'truth')}"
    if runs < FEWEST:
        return f"{said}."
    changed = any(row[f"{of}_low"] > 0 or row[f"{of}_high"] < 0 for of in ("accuracy", "truth"))
    return said + (
        ": the networks themselves differ, not only how well maps explain them."
        if changed
        else ": no difference of the networks themselves is seen."
    )


def attention_findings(methods: "pd.DataFrame") -> Iterator[str]:
    """Where methods for attention alone stand among all methods, for each setup that has them.

    Parameters
    ----------
    methods : DataFrame
        Rows of `summarized`, with what they are held "against".
    """
    here = methods[(methods.against == LOGIT) & (methods.method != CONTROL)]
    for setup, rows in here.groupby("setup", sort=False):
        own = rows[rows.method.isin(ATTENDED)]
        if not len(own):
            continue
        ranks = rows["mean"].rank(ascending=False, method="min").astype(int)
        parts = []
        for index, row in own.iterrows():
            interval = "" if np.isnan(row.low) else f" ({row.low:+.3f} to {row.high:+.3f})"
            parts.append(
                f"{row.method} {row['mean']:+.3f}{interval}, rank {ranks[index]} of {len(rows)}"
            )
        best = rows.loc[rows["mean"].idxmax()]
        yield (
            f"{setup}: methods for attention alone score {'; '.join(parts)}; {best.method} is best "
            f"({best['mean']:+.3f}). The paper has Rollout in the middle, and CheferLRP and IG-U best."
        )


def softmax_findings(
    scores: "pd.DataFrame", networks: "pd.DataFrame", comparisons: "pd.DataFrame"
) -> Iterator[str]:
    """By which drops maps of the probability win or lose, and why."""
    after = comparisons[
        (comparisons.second == comparisons["first"] + AFTER) & (comparisons.maps == ALL)
    ]
    for name, rows in after.groupby("first", sort=False):
        by_goal = {row["against"]: row for row in rows.to_dict("records")}
        flat = [output for output in OUTPUTS if not by_goal[output]["runs"]]
        if flat:
            yield (
                f"{name}: all drops of the {' and '.join(flat)} are equal in each image, so that maps "
                "before and after the softmax are not held against them. The label's probability "
                f"rounds to 1 in {networks[networks.setup == name].saturated.mean():.1%} of the images."
            )
            continue
        here = scores[scores.setup.isin([name, f"{name}{AFTER}"]) & (scores.method != CONTROL)]
        unmoved = here.method.isin(OF_NO_OUTPUT)
        for method in here.method[unmoved].unique():
            yield f"{method} is not compared: its maps are the same before and after the softmax."
        own = here[~unmoved]
        means = own.groupby(["setup", "against"]).score.mean().unstack("against")
        for output, setup in zip(OUTPUTS, (name, f"{name}{AFTER}"), strict=True):
            yield (
                f"{name}, maps of the {output}, mean over methods, held against drops of the logit "
                f"{means.loc[setup, LOGIT]:.3f}, drops of the probability "
                f"{means.loc[setup, PROBABILITY]:.3f}"
                + (f", the data's truth {means.loc[setup, TRUTH]:.3f}." if TRUTH in means else ".")
            )
        yield (
            "Held against drops of the probability, the output that such maps explain, "
            f"{_counts(by_goal[PROBABILITY])} after the softmax: {_goals(by_goal)}."
        )
        yield _saturation(own, networks[networks.setup == name], str(name))


def _goals(by_goal: dict[str, dict[str, Any]]) -> str:
    """Whether the drop decides which maps score higher."""
    logit, probability = (by_goal[output] for output in OUTPUTS)
    equal = [output for output in OUTPUTS if by_goal[output]["difference"] == 0]
    if equal:
        return (
            f"the means are equal by drops of the {' and '.join(equal)}, so that the goal is not told "
            "from other reasons"
        )
    sure = all(row["low"] > 0 or row["high"] < 0 for row in (logit, probability))
    hedge = (
        ""
        if sure and logit["runs"] >= FEWEST
        else "the means say, though the intervals do not, that "
    )
    if logit["difference"] < 0 < probability["difference"]:
        return hedge + (
            "each kind of map is ahead by the drops of the output that it explains, so that the "
            "paper's comparison asks maps of the probability for what they do not claim"
        )
    if logit["difference"] < 0:
        return (
            hedge + "maps of the logit are ahead by either drop, so that the goal is not the reason"
        )
    if probability["difference"] > 0:
        return hedge + "maps of the probability are ahead by either drop"
    return hedge + "each kind of map is ahead by the drops of the other output"


def _saturation(own: "pd.DataFrame", facts: "pd.DataFrame", name: str) -> str:
    here = own[own.against == LOGIT].groupby("setup")[["constant_maps", "images"]].sum()
    before, after = (here.loc[setup] for setup in (name, f"{name}{AFTER}"))
    return (
        f"Drops of logit and probability correlate by {facts.drops_agree.mean():.2f} over the cells of "
        "an image: without a cell of another class the probability changes even where the label's "
        f"logit does not. The label's probability is {facts.probability.mean():.2f} on average and "
        f"rounds to 1 in {facts.saturated.mean():.1%} of the images. {int(before.constant_maps)} of "
        f"{int(before.images)} maps of the logit and {int(after.constant_maps)} of "
        f"{int(after.images)} of the probability are constant and score 0."
    )


def tradeoff_finding(found: Tradeoff) -> str:
    """The correlation, its interval, and of how many designs it is."""
    value, low, high = found.over_designs
    if np.isnan(value):
        return (
            "Accuracies or best scores of all designs are equal, so that no correlation is defined."
        )
    paper = "the paper, which has them anticorrelated"
    outcome = (
        f"That agrees with {paper}"
        if high < 0
        else f"That disagrees with {paper}"
        if low > 0
        else f"The sign is {'that' if value < 0 else 'not that'} of {paper}, but the interval holds 0"
    )
    runs = ", ".join(f"{each:+.2f}" for each in found.by_run)
    return (
        f"Accuracy and best IDSDS of {found.designs} designs have a rank correlation of {value:+.2f} "
        f"(95 % interval {low:+.2f} to {high:+.2f}, designs drawn again), in single runs {runs}. "
        f"{outcome}. Designs are variants of each other and no sample, "
        "so that the interval is too narrow, if anything."
    )


def _listed(values: "pd.Series[float]") -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in values.items())


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
