"""Tables of Pixel Flipping: drops, their differences, and what they go with."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attributionlab.papers.unified.flipping.curves import INDICATORS, Flipped
from attributionlab.papers.unified.flipping.orders import (
    RANDOM,
    REFERENCES,
    SEVEN,
    WINDOW,
    Orders,
    reference_name,
)
from attributionlab.papers.unified.six_methods import GRADCAM
from attributionlab.papers.unified.verdicts import ends_of
from attributionlab.ranking import spearman
from attributionlab.stats.intervals import mean_score

if TYPE_CHECKING:
    import pandas as pd

EARLY, MASKED = 0.05, 0.18
"""Shares of the pixels that tables are about: the beginning, and the paper's 9k of 224 x 224."""
RESAMPLES = 2000
Case = tuple[str, str]
"""Of a subject and a baseline."""
Cases = Mapping[Case, Flipped]
Numbers = NDArray[np.float64]


def drops_table(cases: Cases, seed: int) -> "pd.DataFrame":
    """How far each order brings the indicators down, and how isolated its pixels are."""
    import pandas as pd

    return pd.DataFrame(
        {
            **keys,
            "order": name,
            "isolation": float(np.nanmean(case.isolation[:, index, at])),
            **{each: float(case.drop(name, each)[:, at].mean()) for each in INDICATORS},
            **ends_of(case.drop(name, "probability")[:, at], seed),
        }
        for keys, case, at in _points(cases)
        for index, name in enumerate(case.names)
    )


def differences_table(cases: Cases, seed: int) -> "pd.DataFrame":
    """How much further random masking brings indicators down than GradCAM, and than a window."""
    import pandas as pd

    rows = []
    for keys, case, at in _points(cases):
        for against in (GRADCAM, WINDOW):
            for indicator in INDICATORS:
                own, other = (case.drop(name, indicator)[:, at] for name in (RANDOM, against))
                rows.append(
                    {
                        **keys,
                        "against": against,
                        "indicator": indicator,
                        "difference": float((own - other).mean()),
                        **ends_of(own - other, seed),
                    }
                )
    return pd.DataFrame(rows)


def correlations_table(cases: Cases, seed: int) -> "pd.DataFrame":
    """Spearman correlation over seven maps of the drop with isolation, and with true information."""
    import pandas as pd

    rows = []
    for keys, case, at in _points(cases):
        chosen = [case.names.index(name) for name in SEVEN]
        for indicator in ("probability", "logit"):
            drops = case.curves[indicator][:, chosen, 0] - case.curves[indicator][:, chosen, at]
            for quantity, values in (("isolation", case.isolation), ("truth", case.captured)):
                if np.isnan(values[:, chosen, at]).all():
                    continue
                found = np.array(
                    [
                        spearman(drop, value)
                        for drop, value in zip(drops, values[:, chosen, at], strict=True)
                    ]
                )
                rows.append(
                    {
                        **keys,
                        "indicator": indicator,
                        "with": quantity,
                        "correlation": mean_score(found),
                        **ends_of(found, seed),
                    }
                )
    return pd.DataFrame(rows)


def unseen_table(cases: Cases, seed: int, true: str) -> "pd.DataFrame":
    """How much of a drop is due to a color that the network has never seen, order by order.

    The same orders of the same images with zeros minus with the true baseline, which is a known color.

    Parameters
    ----------
    cases : mapping
        Of which those with both baselines count.
    seed : int
        Of the resampling.
    true : str
        Name of the true baseline.
    """
    import pandas as pd

    rows = []
    for keys, case, at in _points(cases):
        other = cases.get((keys["subject"], true))
        if other is None or keys["baseline"] == true:
            continue
        for name in case.names:
            seen = other.drop(name, "probability")[:, at]
            difference = case.drop(name, "probability")[:, at] - seen
            rows.append(
                {
                    "subject": keys["subject"],
                    "masked": keys["masked"],
                    "order": name,
                    "by_true_baseline": float(seen.mean()),
                    "difference": float(difference.mean()),
                    **ends_of(difference, seed),
                }
            )
    return pd.DataFrame(rows)


def references_table(cases: Cases, seed: int) -> "pd.DataFrame":
    """Where masking within a reference is furthest below masking by GradCAM, and how far.

    ``at`` is the number of masked pixels there as a share of the reference. The differences are those
    of the mean probability, half of the reference masked: from GradCAM and from random masking.
    """
    import pandas as pd

    rows = []
    for (subject, baseline), case in cases.items():
        for share in REFERENCES:
            name = reference_name(share)
            if name not in case.names:
                continue
            own = case.of(name, "probability")
            below = own - case.of(GRADCAM, "probability")
            inside = case.shares <= share
            point = lowest_point(below[:, inside], case.shares[inside] / share, seed)
            half = case.at(share / 2)
            by_random = own[:, half] - case.of(RANDOM, "probability")[:, half]
            rows.append(
                {
                    "subject": subject,
                    "baseline": baseline,
                    "reference": share,
                    "at": point[0],
                    "at_low": point[1],
                    "at_high": point[2],
                    **_difference("gradcam", below[:, half], seed),
                    **_difference("random", by_random, seed),
                }
            )
    return pd.DataFrame(rows)


def lowest_point(
    differences: Numbers, places: Numbers, seed: int, resamples: int = RESAMPLES
) -> tuple[float, float, float]:
    """Where the mean of curves is lowest, with a 95 % bootstrap interval over the curves.

    Parameters
    ----------
    differences : ndarray, (units, S)
        Curves of units, which are drawn again with replacement.
    places : ndarray, (S,)
        Where they are known.
    seed : int
        Of the resampling.
    resamples : int
        How often.

    Returns
    -------
    tuple of float
        Place, low, high; the first of equals. The interval is NaN for a single curve.

    Examples
    --------
    >>> import numpy as np
    >>> from attributionlab.papers.unified.flipping.tables import lowest_point
    >>> curves = np.array([[0.0, -1.0, -2.0, 0.0], [0.0, -3.0, -2.0, 0.0]])
    >>> lowest_point(curves, np.array([0.0, 0.25, 0.5, 1.0]), seed=0)
    (0.25, 0.25, 0.5)
    """
    place = float(places[differences.mean(0).argmin()])
    units = len(differences)
    if units < 2:
        return place, np.nan, np.nan
    drawn = np.random.default_rng(seed).multinomial(
        units, np.full(units, 1 / units), size=resamples
    )
    found = places[(drawn @ differences).argmin(1)]
    low, high = np.quantile(found, [0.025, 0.975], method="inverted_cdf")
    return place, float(low), float(high)


def ties_table(explained: Mapping[str, Sequence[Orders]]) -> "pd.DataFrame":
    """Of how many maps chance decides what is masked, or the order among negative values and zeros.

    Parameters
    ----------
    explained : mapping of str to sequence of Orders
        By subject, one for each of its networks.
    """
    import pandas as pd

    rows = []
    for subject, networks in explained.items():
        for name in networks[0].positive:
            positive = np.concatenate([each.positive[name].numpy() for each in networks])
            constant = np.concatenate([each.constant[name].numpy() for each in networks])
            rows.append(
                {
                    "subject": subject,
                    "map": name,
                    "constant": int(constant.sum()),
                    **{
                        f"fewer than {share:.0%} positive": int((positive < share).sum())
                        for share in (EARLY, MASKED)
                    },
                    "maps": len(positive),
                }
            )
    return pd.DataFrame(rows)


def curves_table(cases: Cases) -> "pd.DataFrame":
    """Means over units at every share of masked pixels."""
    import pandas as pd

    return pd.DataFrame(
        {
            "subject": subject,
            "baseline": baseline,
            "order": name,
            "masked": share,
            **{each: float(case.of(name, each)[:, at].mean()) for each in INDICATORS},
            "isolation": float(case.isolation[:, index, at].mean()),
        }
        for (subject, baseline), case in cases.items()
        for index, name in enumerate(case.names)
        for at, share in enumerate(case.shares)
    )


def _points(cases: Cases) -> Iterator[tuple[dict[str, Any], Flipped, int]]:
    for (subject, baseline), case in cases.items():
        for share in (EARLY, MASKED):
            at = case.at(share)
            masked = round(float(case.shares[at]), 3)
            yield {"subject": subject, "baseline": baseline, "masked": masked}, case, at


def _difference(name: str, values: Sequence[float] | Numbers, seed: int) -> dict[str, float]:
    ends = ends_of(np.asarray(values), seed)
    return {
        f"minus_{name}": float(np.mean(values)),
        **{f"{name}_{end}": value for end, value in ends.items()},
    }
