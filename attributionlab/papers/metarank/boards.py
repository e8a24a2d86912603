"""Leaderboards of the paper's methods, one for each draw of images and random weights."""

from attributionlab.leaderboard import PAIRS, PAPER_METHODS, Leaderboard, rank_methods
from attributionlab.leaderboard.report import CONTROL
from attributionlab.progress import track


def boards_of(
    item: str,
    n: int,
    size: int,
    seeds: int,
    seed: int,
    device: str | None,
    show_progress: bool,
) -> list[Leaderboard]:
    """Of the same cases, whose images and weights are drawn anew from seed, seed + 1, ...

    Parameters
    ----------
    item : str
        What it is for, for progress.
    n, size : int
        Images of each pair, and their side.
    seeds : int
        How many.
    seed : int
        The first.
    device : str or None
        Where methods compute.
    show_progress : bool
        Show progress on standard error.
    """
    numbers = range(seed, seed + seeds)
    return [
        rank_methods(PAPER_METHODS, n, each, pairs=PAIRS, size=size, device=device)
        for each in track(numbers, seeds, item, show_progress)
    ]


def methods_of(board: Leaderboard) -> list[int]:
    """Rows of the methods, without the control."""
    return [row for row, method in enumerate(board.methods) if method != CONTROL]
