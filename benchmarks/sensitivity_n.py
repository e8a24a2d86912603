"""Sensitivity-N for every N from 1 to P, 100 draws, eleven methods that share the evaluations.

One 224 x 224 image. Beside it what forward passes would take, extrapolated from some that are timed.

    python benchmarks/sensitivity_n.py [--methods 11] [--draws 100] [--repeats 3]
"""

import argparse
import statistics
import time

import torch

import attributionlab as al
from attributionlab.metrics import subset_effects


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--environment", default="multi-color-sum")
    parser.add_argument("--methods", type=int, default=11)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    env = al.load(options.environment)
    images, labels = env.batch(1, 0)
    targets = env.targets(labels)
    model = env.explained_model(env.outputs[0])
    generator = torch.Generator().manual_seed(0)
    side = images.shape[-1]
    maps = [torch.randn(1, 1, side, side, generator=generator) for _ in range(options.methods)]
    small = al.load(options.environment, image_size=24)  # numba compiles before the clock starts
    first, label = small.batch(1, 0)
    subset_effects(small.model, first, small.targets(label), replacement=0, draws=3)
    evaluating, correlating = [], []
    for _ in range(options.repeats):
        start = time.perf_counter()
        effects = subset_effects(model, images, targets, replacement=0, draws=options.draws)
        middle = time.perf_counter()
        for each in maps:
            effects.correlations(each)
        evaluating.append(middle - start)
        correlating.append(time.perf_counter() - middle)
    together = statistics.median(map(sum, zip(evaluating, correlating, strict=True)))
    with torch.no_grad():
        passes = []
        for _ in range(20):
            start = time.perf_counter()
            model(images)
            passes.append(time.perf_counter() - start)
    forward = statistics.median(passes) * options.draws * side * side
    print(f"{env.name}, {side} x {side}, {torch.get_num_threads()} threads")
    print(
        f"{options.draws} draws of all {side * side:,} sizes: {statistics.median(evaluating):.1f} s"
    )
    print(
        f"correlations of {options.methods} methods: {statistics.median(correlating):.1f} s, "
        f"{1000 * statistics.median(correlating) / options.methods:.0f} ms each"
    )
    print(f"together {together:.1f} s (median of {options.repeats})")
    print(
        f"forward passes alone: {forward / 3600:.1f} hours, extrapolated from {len(passes)}; "
        f"{forward / together:,.0f} times as long"
    )


if __name__ == "__main__":
    main()
