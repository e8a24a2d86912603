"""Linear imputation along a soundness schedule, against a sparse factorization for every mask.

One RGB image, masks of a random smooth map that keep 0.98, 0.97 ... 0.03 of it. Every eighth mask is
also solved by `scipy.sparse.linalg.spsolve` (all channels by one factorization, its assembly not
counted), from which the time of all is extrapolated; the largest difference is printed, too.

    python benchmarks/imputation.py [--side 224] [--every 8] [--tolerance 1e-5] [--repeats 3]
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import scipy.sparse.linalg
import torch
from scipy.ndimage import gaussian_filter

from attributionlab.imputation import noisy_linear

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from oracles_imputation import equations


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--every", type=int, default=8)
    parser.add_argument("--tolerance", type=float, default=1e-5)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    draw, side = np.random.default_rng(0), options.side
    image = draw.random((3, side, side))
    smooth = gaussian_filter(draw.random((side, side)), side / 28)
    ranks = smooth.ravel().argsort().argsort().reshape(side, side)
    shares = np.arange(98, 2, -1) / 100
    keep = torch.from_numpy(np.stack([ranks < share * side * side for share in shares]))[:, None]
    batch = torch.from_numpy(image)[None]
    noisy_linear(batch, keep[:1], noise=0)  # numba compiles before the clock starts

    checked = range(options.every // 2, len(keep), options.every)
    solved, seconds = {}, []
    for index in checked:
        removed = ~keep[index, 0].numpy()
        matrix, known = equations(removed)
        right_hand = known @ image.reshape(3, -1).T
        start = time.perf_counter()
        solved[index] = scipy.sparse.linalg.spsolve(matrix, right_hand).T
        seconds.append(time.perf_counter() - start)
    direct = statistics.mean(seconds) * len(keep)
    print(f"{side} x {side}, 3 channels, {len(keep)} masks, tolerance {options.tolerance:g}")
    print(
        f"spsolve: {direct:.2f} s, extrapolated from {len(seconds)} masks of "
        f"{1000 * min(seconds):.0f} to {1000 * max(seconds):.0f} ms"
    )
    for threads in (1, 2):
        torch.set_num_threads(threads)
        times = []
        for _ in range(options.repeats):
            start = time.perf_counter()
            filled = noisy_linear(batch, keep, noise=0, tolerance=options.tolerance)
            times.append(time.perf_counter() - start)
        took = statistics.median(times)
        wrong = max(
            float(np.abs(filled[i].numpy()[:, ~keep[i, 0].numpy()] - solved[i]).max())
            for i in checked
        )
        print(
            f"noisy_linear, {threads} threads: {took:.2f} s (median of {options.repeats}), "
            f"{direct / took:.1f} times as fast; largest difference {wrong:.1e}"
        )


if __name__ == "__main__":
    main()
