"""The paper's items by name: where to find what computes each."""

from collections.abc import Callable

from attributionlab.papers.metarank.checkpoints import metarank_checkpoints
from attributionlab.papers.metarank.consistency import metarank_consistency
from attributionlab.papers.metarank.fusion_time import metarank_fusion_time
from attributionlab.papers.metarank.imputed import metarank_road
from attributionlab.papers.metarank.leaderboards import metarank_leaderboard
from attributionlab.papers.metarank.removal import metarank_removal
from attributionlab.papers.reproduction import Reproduction

METARANK_ITEMS: dict[str, Callable[..., Reproduction]] = {
    "metarank-table-2": metarank_checkpoints,
    "metarank-table-3": metarank_road,
    "metarank-table-4": metarank_leaderboard,
    "metarank-figure-2": metarank_removal,
    "metarank-figure-3": metarank_consistency,
    "metarank-figure-4": metarank_fusion_time,
}
