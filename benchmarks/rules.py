"""CPU seconds from a rule of ten operations to its network, its certificate and the truth of an image.

    python benchmarks/rules.py [--size 72] [--repeats 3]

The goal is two seconds for the three together. The last column says how the Shapley values are had.
"""

import argparse
import statistics
import time
from itertools import pairwise

import torch

import attributionlab as al

RULES = {
    "places": "min(red@left, blue@right) + relu(red - 2*green) + 3*(yellow@top > 10) - cyan@bottom",
    "gates": (
        "(red if (blue > 10 and not green@top > 9) else yellow) + max(cyan, magenta@left) - 2*red"
    ),
    "logic": "xor(red > 10, blue@left > 5) or (green > 9 and yellow > 9 and not cyan@top > 20)",
    "absolute": (
        "abs(red - blue) + abs(green@left - yellow@right) + min(cyan, magenta, 40) - 2*relu(red - 30)"
    ),
}
GOAL = 2.0
"""Seconds."""


def timed(rule: str, size: int, seed: int) -> tuple[float, float, float, str]:
    """Seconds of compiling, verifying, and of the truth of an image that nobody asked about."""
    clock = [time.process_time()]
    env = al.world(rule, image_size=size, seed=seed)
    clock.append(time.process_time())
    assert al.verify(env).passed
    clock.append(time.process_time())
    images, labels = env.batch(1, seed)
    clock.append(time.process_time())
    truths = env.truths(images, env.targets(labels))
    env.truth(images, env.targets(labels))
    clock.append(time.process_time())
    compiled, verified, _, known = (b - a for a, b in pairwise(clock))
    return compiled, verified, known, truths["shapley"].source


def main() -> None:
    """Print one line for each rule."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=72)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    timed(RULES["places"], args.size, args.repeats)  # loads and compiles what is shared
    print(
        f"{'rule':<12}{'compile':>9}{'verify':>9}{'truths':>9}{'sum':>9}   of {GOAL:g} s   Shapley"
    )
    for name, rule in RULES.items():
        runs = [timed(rule, args.size, seed) for seed in range(args.repeats)]
        parts = [statistics.median(each) for each in list(zip(*runs, strict=True))[:3]]
        cells = "".join(f"{each:9.3f}" for each in (*parts, sum(parts)))
        print(f"{name:<12}{cells}{sum(parts) / GOAL:10.0%}   {runs[0][3]}")


if __name__ == "__main__":
    main()
