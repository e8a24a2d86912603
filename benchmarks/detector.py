"""Time the exhaustive check of one color detector: all 2^24 colors.

Run: python benchmarks/detector.py [ENVIRONMENT] (multi-color-sum by default). OMP_NUM_THREADS sets the
number of cores. The aim is less than 60 s on two.
"""

import sys
import time

import torch

import attributionlab as al
from attributionlab.worlds.verification.oracle import Oracle
from attributionlab.worlds.verification.pixels import color_check, every_color


def main(name: str = "multi-color-sum") -> None:
    """Check the detector of one environment and print how long that took."""
    env = al.load(name, image_size=8)  # a detector does not depend on the size
    start = time.perf_counter()
    detector = env.model.get_submodule("detector")
    check = color_check(detector, Oracle.of(env), every_color(), "all 2^24 colors")
    seconds = time.perf_counter() - start
    print(f"{name}: {check.detail} in {seconds:.1f} s on {torch.get_num_threads()} threads")


if __name__ == "__main__":
    main(*sys.argv[1:])
