"""Tables 2 to 6 of AttributionLab as they are printed, and what follows from the printed ranks."""

from collections.abc import Mapping
from typing import NamedTuple

from attributionlab.metrics import Part
from attributionlab.ranking import spearman

METRICS = ("insertion", "deletion", "sensitivity_n")


class PrintedRanks(NamedTuple):
    """One of the paper's tables of ranks.

    Parameters
    ----------
    item : str
        Its name.
    truth : {"overall", "positive"}
        The masks of its F1.
    ranks : mapping of str to tuple of int
        By method: F1, Insertion, Deletion, Sensitivity-N; 1 is best.
    correlations : tuple of float
        Of the three metrics with F1, as printed.
    """

    item: str
    truth: Part
    ranks: Mapping[str, tuple[int, int, int, int]]
    correlations: tuple[float, float, float]

    def recomputed(self) -> tuple[float, ...]:
        """Spearman correlation of each metric's printed ranks with the printed ranks of F1."""
        truth, *metrics = zip(*self.ranks.values(), strict=True)
        return tuple(spearman(truth, metric) for metric in metrics)

    def between_insertion_and_deletion(self) -> float:
        """Spearman correlation of the printed ranks of Insertion with those of Deletion."""
        return spearman(*([ranks[column] for ranks in self.ranks.values()] for column in (1, 2)))


def attainable(correlation: float, methods: int) -> bool:
    """Whether the Spearman correlation of some two rankings without ties rounds to two given decimals.

    It is 1 - 6 D / (n (n^2 - 1)) for n methods, where D, the sum of squared differences of ranks, is an
    even number.

    Examples
    --------
    >>> from attributionlab.papers.attributionlab.paper_ranks import attainable
    >>> attainable(0.02, 8), attainable(0.47, 8), attainable(0.47, 10)
    (True, False, True)
    """
    scale = methods * (methods**2 - 1)
    # 6 D = 0, 12, 24, ..., 2 scale: from equal to opposite rankings
    return any(round(1 - each / scale, 2) == correlation for each in range(0, 2 * scale + 1, 12))


TABLE_3 = PrintedRanks(
    "table-3",
    "overall",
    {  # printed from 0
        "gradcam": (7, 7, 7, 7),
        "guided-backprop": (5, 6, 6, 5),
        "lrp": (1, 4, 1, 1),
        "extremal-perturbation": (8, 8, 8, 8),
        "occlusion": (6, 5, 5, 6),
        "deep-shap": (2, 1, 2, 2),
        "integrated-gradients": (3, 2, 3, 3),
        "integrated-gradients-true-baseline": (4, 3, 4, 4),
        "iba": (9, 9, 9, 9),
        "random": (11, 11, 10, 11),
        "constant": (10, 10, 11, 10),
    },
    (0.94, 0.98, 1.00),
)
TABLE_5 = PrintedRanks(
    "table-5",
    "positive",
    {
        "gradcam": (8, 4, 6, 3),
        "guided-backprop": (3, 5, 4, 1),
        "lime": (1, 3, 3, 2),
        "extremal-perturbation": (4, 6, 7, 8),
        "occlusion": (6, 2, 5, 5),
        "deep-shap": (5, 8, 2, 6),
        "integrated-gradients": (7, 1, 1, 4),
        "iba": (2, 7, 8, 7),
    },
    (0.02, 0.47, 0.65),
)
TABLE_6 = PrintedRanks(
    "table-6",
    "overall",
    {
        "gradcam": (5, 5, 6, 6),
        "guided-backprop": (6, 6, 4, 1),
        "lime": (1, 4, 3, 4),
        "extremal-perturbation": (7, 8, 7, 8),
        "occlusion": (2, 3, 5, 5),
        "deep-shap": (3, 1, 2, 2),
        "integrated-gradients": (4, 2, 1, 3),
        "iba": (8, 7, 8, 7),
    },
    (0.42, 0.61, 0.81),
)
RANKS = {
    "single-color-modulo": TABLE_3,
    "multi-color-sum": TABLE_5,
    "multi-color-sum-in-distribution": TABLE_6,
    "multi-color-sum-uniform": TABLE_6,
}
"""By environment; appendix I can be read in two ways, so Table 6 stands for two. Table 2 repeats the
correlations of Tables 5 and 6."""
AREAS = {
    "gradcam": (0.8827, 0.1174),
    "guided-backprop": (0.9015, 0.0983),
    "lrp": (0.9754, 0.0246),
    "extremal-perturbation": (0.7845, 0.2157),
    "occlusion": (0.9151, 0.0849),
    "deep-shap": (0.9754, 0.0246),
    "integrated-gradients": (0.9754, 0.0246),
    "integrated-gradients-true-baseline": (0.9754, 0.0246),
    "iba": (0.6458, 0.3526),
    "random": (0.4996, 0.5009),
    "constant": (0.4447, 0.4439),
}
"""Table 4: Insertion and Deletion AUC by method."""
