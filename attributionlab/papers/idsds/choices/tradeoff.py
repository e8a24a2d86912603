"""The best IDSDS of each network over its accuracy: does one fall as the other rises?"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from attributionlab.papers.idsds.maps import CONTROL
from attributionlab.ranking import CorrelationInterval, spearman, spearman_interval
from attributionlab.stats.intervals import mean_interval

if TYPE_CHECKING:
    import pandas as pd


class Tradeoff(NamedTuple):
    """Spearman's correlation of accuracy and best IDSDS."""

    designs: int
    over_designs: CorrelationInterval
    """of means over runs, as the paper has it of one run; the interval is of designs drawn again"""
    by_run: tuple[float, ...]
    """of the networks of each run"""


def best_scores(scores: "pd.DataFrame", networks: "pd.DataFrame", seed: int) -> "pd.DataFrame":
    """Accuracy and the best method of each design, means over the runs that all designs have.

    Parameters
    ----------
    scores, networks : DataFrame
        Of `measured`, held against drops of the logit; the control takes no part.
    seed : int
        Of the intervals over runs, whose ends are NaN for a single one. That of "best" is of the method
        that is best on average, which the choice makes a little too good. A design none of whose maps
        has a score, because all drops are equal, has no row.
    """
    import pandas as pd

    own, known = _shared(scores, networks)
    rows = []
    for setup, here in known.groupby("setup", sort=False):
        by_method = own[own.setup == setup].groupby("method", sort=False).score
        if by_method.mean().isna().all():
            continue
        method = by_method.mean().idxmax()
        row: dict[str, Any] = {"setup": setup, "best_method": method}
        for name, values in (("best", by_method.get_group(method)), ("accuracy", here.accuracy)):
            low, high = mean_interval(values.to_numpy(float), seed) or (np.nan, np.nan)
            row |= {name: values.mean(), f"{name}_low": low, f"{name}_high": high}
        rows.append(row | {"runs": len(here)})
    return pd.DataFrame(rows)


def tradeoff_of(scores: "pd.DataFrame", networks: "pd.DataFrame", seed: int) -> Tradeoff:
    """The correlation over designs, and that of each run.

    Parameters
    ----------
    scores, networks, seed
        As for `best_scores`.
    """
    table = best_scores(scores, networks, seed)
    own, known = _shared(scores, networks)
    both = known.set_index(["run", "setup"])[["accuracy"]]
    both["best"] = own.groupby(["run", "setup"]).score.max()
    return Tradeoff(
        len(table),
        spearman_interval(table.accuracy, table.best, seed=seed),
        tuple(
            spearman(here.accuracy, here.best, missing="omit") for _, here in both.groupby("run")
        ),
    )


def _shared(
    scores: "pd.DataFrame", networks: "pd.DataFrame"
) -> tuple["pd.DataFrame", "pd.DataFrame"]:
    """Of runs that all designs have, and without the control."""
    counts = networks.groupby("run").setup.nunique()
    runs = counts[counts == networks.setup.nunique()].index
    own = scores[scores.run.isin(runs) & (scores.method != CONTROL)]
    return own, networks[networks.run.isin(runs)]
