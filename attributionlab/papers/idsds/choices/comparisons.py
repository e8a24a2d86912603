"""Two setups, method by method and run by run: which has more correct attributions?"""

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from attributionlab.papers.idsds.choices.cells import AFTER
from attributionlab.papers.idsds.maps import ABSOLUTE, CONTROL, OF_NO_OUTPUT
from attributionlab.ranking import spearman
from attributionlab.stats.intervals import Difference, mean_interval, paired_difference

if TYPE_CHECKING:
    import pandas as pd

ALL, NOT_ABSOLUTE = "all", "not absolute"
"""Which maps are compared."""
Direction = Literal["higher", "lower"]


class Comparison(NamedTuple):
    """What the paper says of two setups.

    Parameters
    ----------
    part : str
        Of the figure.
    first, second : str
        Names of setups.
    paper : {"higher", "lower"}
        Whether most methods score higher or lower on the second.
    """

    part: str
    first: str
    second: str
    paper: Direction

    @property
    def of_outputs(self) -> bool:
        """Whether both setups are one network, before and after its softmax."""
        return self.second == self.first + AFTER


def summarized(scores: "pd.DataFrame", seed: int) -> "pd.DataFrame":
    """Mean and interval over training runs, and counts, of each setup and method.

    Parameters
    ----------
    scores : DataFrame
        Columns "setup", "run", "method", "score", "constant_maps", "constant_drops" and "images".
    seed : int
        Of the intervals (`mean_interval`), whose ends are NaN for a single run.
    """
    import pandas as pd

    rows = []
    for (setup, method), here in scores.groupby(["setup", "method"], sort=False):
        values = here.score.to_numpy(float)
        low, high = mean_interval(values, seed) or (np.nan, np.nan)
        counts = {
            name: int(here[name].sum()) for name in ("constant_maps", "constant_drops", "images")
        }
        rows.append(
            {"setup": setup, "method": method, "mean": values.mean(), "low": low, "high": high}
            | {"runs": len(here), **counts}
        )
    return pd.DataFrame(rows)


def method_differences(scores: "pd.DataFrame", comparison: Comparison, seed: int) -> "pd.DataFrame":
    """Second minus first for each method that both have, with an interval over training runs.

    Parameters
    ----------
    scores : DataFrame
        As for `summarized`; the control is left out, and of one network's outputs all `OF_NO_OUTPUT`.
    comparison : Comparison
        Of two of its setups.
    seed : int
        Of the intervals (`paired_difference`).
    """
    import pandas as pd

    rows = []
    for method, here in _pairs(scores, comparison).groupby("method", sort=False):
        found = _difference(here, seed)
        rows.append(
            {
                **_named(comparison),
                "method": method,
                "difference": found.mean,
                "low": found.low,
                "high": found.high,
                "runs": found.images,
            }
        )
    return pd.DataFrame(rows)


def compared(
    scores: "pd.DataFrame", comparison: Comparison, seed: int, *, against: str, maps: str = ALL
) -> dict[str, Any]:
    """How many methods score higher on the second setup, and by how much they do on average.

    Parameters
    ----------
    scores : DataFrame
        As for `summarized`.
    comparison : Comparison
        Of two of its setups.
    seed : int
        Of the interval.
    against : str
        What these scores hold maps against.
    maps : {"all", "not absolute"}
        All methods, as in the paper, or only those whose maps are no absolute values or squares.

    Returns
    -------
    dict
        Of how many "methods" the mean over runs is "higher" or "lower" for the second setup; the
        "difference" of means over methods, with its interval over "runs"; the rank correlation of the
        methods' means on both ("rankings"); the `outcome`.
    """
    if maps == NOT_ABSOLUTE:
        scores = scores[[not _absolute(method) for method in scores.method]]
    by_method = method_differences(scores, comparison, seed).difference
    pairs = _pairs(scores, comparison)
    overall = _difference(pairs.groupby("run").mean(), seed)
    ranked = pairs.groupby("method").mean()
    higher, lower = int((by_method > 0).sum()), int((by_method < 0).sum())
    sure: Direction | None = None
    if overall.better is not None:
        sure = "higher" if overall.better == "first" else "lower"  # first of the subtraction
    return {
        **_named(comparison),
        "higher": higher,
        "lower": lower,
        "methods": len(by_method),
        "difference": overall.mean,
        "low": overall.low,
        "high": overall.high,
        "runs": overall.images,
        "rankings": spearman(ranked["first"], ranked.second, missing="omit"),
        "maps": maps,
        "against": against,
        "paper": comparison.paper,
        "outcome": outcome(higher, lower, len(by_method), sure, comparison.paper),
    }


def network_changes(networks: "pd.DataFrame", comparison: Comparison, seed: int) -> dict[str, Any]:
    """How the second design's networks differ from the first's, whatever explains them.

    Parameters
    ----------
    networks : DataFrame
        Columns "setup", "run", "accuracy" and "network_truth".
    comparison : Comparison
        Of two of their designs.
    seed : int
        Of the intervals over runs.

    Returns
    -------
    dict
        Differences, second minus first, of how far drops agree with the data ("truth_...") and of
        accuracies ("accuracy_...").
    """
    row: dict[str, Any] = _named(comparison)
    for prefix, column in (("truth", "network_truth"), ("accuracy", "accuracy")):
        found = _difference(_beside(networks, comparison, column, ["run"]), seed)
        row |= {
            f"{prefix}_difference": found.mean,
            f"{prefix}_low": found.low,
            f"{prefix}_high": found.high,
        }
    return row


def outcome(higher: int, lower: int, methods: int, sure: Direction | None, paper: Direction) -> str:
    """Whether the paper's direction is found again.

    Parameters
    ----------
    higher, lower, methods : int
        How many methods score higher or lower, of how many. More than half are a majority.
    sure : {"higher", "lower"} or None
        On which side of 0 the interval of the mean difference lies; None where it holds 0 or there
        are too few runs to tell.
    paper : {"higher", "lower"}
        The direction that the paper finds.

    Returns
    -------
    str
        "agrees" or "disagrees" where majority and interval say so, with "(not sure)" where the majority
        alone does; else "undecided".

    Examples
    --------
    >>> from attributionlab.papers.idsds.choices.comparisons import outcome
    >>> outcome(3, 9, 12, None, "lower")
    'agrees (not sure)'
    """
    majority: Direction | None
    majority = "higher" if 2 * higher > methods else "lower" if 2 * lower > methods else None
    if majority is None or sure not in (majority, None):
        return "undecided"
    word = "agrees" if majority == paper else "disagrees"
    return word if sure else f"{word} (not sure)"


def _absolute(method: str) -> bool:
    """A square is one, too, and Saliency by itself."""
    return method.endswith((ABSOLUTE, "-squared")) or method == "saliency"


def _named(comparison: Comparison) -> dict[str, str]:
    return {"part": comparison.part, "first": comparison.first, "second": comparison.second}


def _pairs(scores: "pd.DataFrame", comparison: Comparison) -> "pd.DataFrame":
    """Scores of both setups beside each other, by method and run, for methods that both have."""
    left_out = OF_NO_OUTPUT if comparison.of_outputs else (CONTROL,)
    return _beside(scores[~scores.method.isin(left_out)], comparison, "score", ["method", "run"])


def _beside(
    table: "pd.DataFrame", comparison: Comparison, column: str, keys: list[str]
) -> "pd.DataFrame":
    sides = [
        table[table.setup == setup].set_index(keys)[column].rename(side)
        for side, setup in (("first", comparison.first), ("second", comparison.second))
    ]
    return sides[0].to_frame().join(sides[1], how="inner").astype(float)


def _difference(pairs: "pd.DataFrame", seed: int) -> Difference:
    """Second minus first."""
    return paired_difference(pairs["second"].to_numpy(), pairs["first"].to_numpy(), seed)
