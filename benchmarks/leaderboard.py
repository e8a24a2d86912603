"""Fusing rankings by Meta-Rank beside solving its equations pair by pair, in one process.

python benchmarks/leaderboard.py [--methods 1000] [--by-pairs 64] [--cases 100] [--repeats 5]
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from attributionlab.metrics.ranking import meta_rank
from attributionlab.papers.metarank.fusion_time import pair_by_pair, simulated_ranks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--methods", type=int, default=1000)
    parser.add_argument("--by-pairs", type=int, default=64)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    large = simulated_ranks(options.methods, options.cases, 0)
    small = simulated_ranks(options.by_pairs, options.cases, 0)
    difference = np.abs(meta_rank(small) - pair_by_pair(small)).max()
    runs: dict[str, list[float]] = {"large": [], "ours": [], "pairs": []}
    for _ in range(options.repeats):  # in turn, so that what else runs slows all of them
        runs["large"].append(seconds(meta_rank, large))
        runs["ours"].append(seconds(meta_rank, small))
        runs["pairs"].append(seconds(pair_by_pair, small))
    medians = {name: statistics.median(values) for name, values in runs.items()}
    print(f"{options.methods:,} methods over {options.cases} cases: {medians['large']:.2f} s")
    print(
        f"{options.by_pairs} methods: {1000 * medians['ours']:.2f} ms; an equation for each pair: "
        f"{1000 * medians['pairs']:.1f} ms, {medians['pairs'] / medians['ours']:.0f} times as long "
        f"(median of {options.repeats}); scores differ by {difference:.0e}"
    )


def seconds(fuse: Callable[[Any], Any], ranks: Any) -> float:
    start = time.perf_counter()
    fuse(ranks)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
