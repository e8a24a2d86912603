"""A leaderboard of methods: rankings of many cases made one, and held against the truth."""

from attributionlab.leaderboard.cases import PAIRS, PROTOCOLS, Pair
from attributionlab.leaderboard.report import CaseScores, Leaderboard
from attributionlab.leaderboard.study import DEFAULT_METHODS, PAPER_METHODS, rank_methods

__all__ = [
    "DEFAULT_METHODS",
    "PAIRS",
    "PAPER_METHODS",
    "PROTOCOLS",
    "CaseScores",
    "Leaderboard",
    "Pair",
    "rank_methods",
]
