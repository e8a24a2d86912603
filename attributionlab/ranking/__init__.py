"""Rankings: how far they agree, how far curves are apart, and how many become one."""

from attributionlab.ranking.correlations import (
    CorrelationInterval,
    centered_ranks,
    fisher_interval,
    middle,
    row_correlations,
    spearman,
    spearman_interval,
)
from attributionlab.ranking.distances import hausdorff
from attributionlab.ranking.fusion import MetaRankFit, meta_rank, meta_rank_fit

__all__ = [
    "CorrelationInterval",
    "MetaRankFit",
    "centered_ranks",
    "fisher_interval",
    "hausdorff",
    "meta_rank",
    "meta_rank_fit",
    "middle",
    "row_correlations",
    "spearman",
    "spearman_interval",
]
