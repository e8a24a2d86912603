"""Linear imputation along a soundness schedule, against a sparse factorization for every mask.

One RGB image in float32, masks of a random smooth map that keep 0.98, 0.97 ... 0.03 of it. Every eighth
mask is also solved by `scipy.sparse.linalg.spsolve` in float64 (all channels by one factorization, its
assembly not counted), from which the time of all is extrapolated; the largest difference is printed,
too. Both sides are timed in turns, and ratios are medians over the turns. Then the cost at other sizes.

    python benchmarks/imputation.py [--side 224] [--every 8] [--tolerance 1e-5] [--repeats 5]
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
from torch import Tensor

from attributionlab.metrics.imputation import noisy_linear

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from oracles_imputation import equations

SHARES = np.arange(98, 2, -1) / 100
SIDES = (112, 224, 448)
THREADS = (1, 2)


def schedule(side: int) -> tuple[Tensor, Tensor]:
    """An image (1, 3, side, side) and masks (96, 1, side, side)."""
    draw = np.random.default_rng(0)
    image = draw.random((1, 3, side, side), dtype=np.float32)
    smooth = gaussian_filter(draw.random((side, side)), side / 28)
    ranks = smooth.ravel().argsort().argsort().reshape(side, side)
    keep = np.stack([ranks < share * side * side for share in SHARES])[:, None]
    return torch.from_numpy(image), torch.from_numpy(keep)


def imputed(image: Tensor, keep: Tensor, tolerance: float, threads: int) -> tuple[Tensor, float]:
    """And the seconds it took."""
    torch.set_num_threads(threads)
    start = time.perf_counter()
    filled = noisy_linear(image, keep, noise=0, tolerance=tolerance)
    return filled, time.perf_counter() - start


def against_spsolve(side: int, every: int, tolerance: float, repeats: int) -> None:
    image, keep = schedule(side)
    checked = range(every // 2, len(keep), every)
    systems = []
    for index in checked:
        matrix, known = equations(~keep[index, 0].numpy())
        systems.append((matrix, known @ image[0].double().numpy().reshape(3, -1).T))
    direct: list[float] = []
    took: dict[int, list[float]] = {threads: [] for threads in THREADS}
    for _ in range(repeats):
        start = time.perf_counter()
        solved = [scipy.sparse.linalg.spsolve(matrix, b).T for matrix, b in systems]
        direct.append((time.perf_counter() - start) * len(keep) / len(checked))
        for threads in THREADS:
            filled, seconds = imputed(image, keep, tolerance, threads)
            took[threads].append(seconds)
    wrong = max(
        float(np.abs(filled[index].numpy()[:, ~keep[index, 0].numpy()] - values).max())
        for index, values in zip(checked, solved, strict=True)
    )
    print(f"{side} x {side}, 3 channels, {len(keep)} masks, tolerance {tolerance:g}")
    print(f"spsolve: {statistics.median(direct):.2f} s, extrapolated from {len(checked)} masks")
    for threads in THREADS:
        ratios = [a / b for a, b in zip(direct, took[threads], strict=True)]
        print(
            f"noisy_linear, {threads} threads: {statistics.median(took[threads]):.2f} s, "
            f"{statistics.median(ratios):.1f} times as fast "
            f"({min(ratios):.1f} to {max(ratios):.1f} in {repeats} turns)"
        )
    print(f"largest difference: {wrong:.1e}")


def by_size(tolerance: float, repeats: int) -> None:
    took: dict[int, list[float]] = {side: [] for side in SIDES}
    schedules = {side: schedule(side) for side in SIDES}
    for _ in range(repeats):
        for side in SIDES:
            took[side].append(imputed(*schedules[side], tolerance, threads=1)[1])
    for side in SIDES:
        each = statistics.median(took[side]) / len(SHARES)
        print(f"{side} x {side}: {1e3 * each:.1f} ms a mask, {1e9 * each / side**2:.0f} ns a pixel")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--every", type=int, default=8)
    parser.add_argument("--tolerance", type=float, default=1e-5)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    image, keep = schedule(options.side)
    imputed(image, keep[:1], options.tolerance, threads=1)  # numba compiles before the clock starts
    against_spsolve(options.side, options.every, options.tolerance, options.repeats)
    by_size(options.tolerance, options.repeats)


if __name__ == "__main__":
    main()
