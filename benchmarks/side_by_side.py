"""Two sides of a benchmark in one process."""

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import torch

__all__ = ["Sides", "side_by_side"]


class Sides(NamedTuple):
    """Median seconds of both sides, and the median ratio of runs beside each other."""

    ours: float
    theirs: float
    ratio: float


def side_by_side(ours: Callable[[], object], theirs: Callable[[], object], repeats: int) -> Sides:
    """Run both sides in turn on one thread, in the process's own time: other work changes it less.

    Which of the two goes first changes from pair to pair: what the first leaves in the caches and in
    the allocator is worth up to a third of a short run to the second. The first pair warms up.
    """
    torch.set_num_threads(1)
    pairs = [_pair(ours, theirs, ours_first=bool(turn % 2)) for turn in range(repeats + 1)][1:]
    our, their = (statistics.median(each) for each in zip(*pairs, strict=True))
    return Sides(our, their, statistics.median(one / other for one, other in pairs))


def _pair(
    ours: Callable[[], object], theirs: Callable[[], object], *, ours_first: bool
) -> tuple[float, float]:
    if ours_first:
        our, their = _seconds(ours), _seconds(theirs)
    else:
        their, our = _seconds(theirs), _seconds(ours)
    return our, their


def _seconds(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start
