"""Seconds for the exact Shapley values of a 224 x 224 image's counts, by temperature.

    python benchmarks/shapley.py --counts 12544 12543 12542 12541

Medians; OMP_NUM_THREADS sets the number of cores. By default the counts of the first image of
multi-color-sum. The aim is less than 2 s at every temperature.
"""

import argparse
import statistics
import time

import torch

import attributionlab as al
from attributionlab.worlds.truth import softmax_shapley

TEMPERATURES = (2.0**-20, 2.0**-5, 1.0, 16.0, 256.0, 2.0**30)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--counts", type=int, nargs="+")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    if options.counts is None:
        env = al.load("multi-color-sum")
        counts = env.counting.counts(env.batch(1)[0])[0]
    else:
        counts = torch.tensor(options.counts)
    print(f"counts {counts.tolist()}, {torch.get_num_threads()} threads")
    for temperature in TEMPERATURES:
        seconds = []
        for _ in range(options.repeats):
            start = time.perf_counter()
            error = softmax_shapley(counts, 0, temperature).error
            seconds.append(time.perf_counter() - start)
        print(
            f"temperature {temperature:<12.6g}{statistics.median(seconds):8.2f} s"
            f"   error {error:.0e}"
        )


if __name__ == "__main__":
    main()
