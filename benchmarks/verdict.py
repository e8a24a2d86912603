"""What the default test of a one-pass method costs, in CPU seconds, and where they go.

    python benchmarks/verdict.py [--sizes 72 224] [--n 32] [--method input-x-gradient]

For each size of images, in one process with one thread:

- questions: networks and images, and nothing else;
- method: the method alone, seconds by the clock, as the report states them;
- verdict: questions, method, controls and counts (`also=None`);
- all: what `attributionlab test` does, with likely causes too.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

import attributionlab as al
from attributionlab.base import QUESTIONS
from attributionlab.verdicts import DEFAULT_ENVIRONMENTS, DEFAULT_IMPLEMENTATIONS


def questions(environments: list[al.Environment], n: int) -> None:
    """Draw the questions of a test."""
    for env in environments:
        drawn = al.Questions(env, 0)
        for index in range(n):
            drawn[index]


def cpu_seconds(run: Callable[[], Any]) -> tuple[float, Any]:
    """CPU time of this process while something runs, and what it returns."""
    start = time.process_time()
    result = run()
    return time.process_time() - start, result


def main() -> None:
    """Print a row for each size."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[72, 224])
    parser.add_argument("--n", type=int, default=QUESTIONS)
    parser.add_argument("--method", default="input-x-gradient")
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", al.AttributionLabWarning)
    print(
        f"{given.method}, {given.n} questions in each of {len(DEFAULT_ENVIRONMENTS)} environments and "
        "in each implementation"
    )
    print("  ".join(f"{name:>9}" for name in ("pixels", "questions", "method", "verdict", "all")))
    for size in given.sizes:
        plain = [al.load(name, image_size=size) for name in DEFAULT_ENVIRONMENTS]
        environments = [
            env.with_implementation(each)
            for env in plain
            for each in DEFAULT_IMPLEMENTATIONS
            if each in env.implementations
        ]
        al.faithfulness_test(given.method, environments, n=1, jobs=1)  # loads and compiles
        test = partial(al.faithfulness_test, given.method, environments, n=given.n, jobs=1)
        drawn, _ = cpu_seconds(partial(questions, environments, given.n))
        verdict, _ = cpu_seconds(partial(test, also=None))
        everything, report = cpu_seconds(test)
        method = given.n * sum(each.seconds for each in report.environments)
        row = (drawn, method, verdict, everything)
        print(f"{size:>9}  " + "  ".join(f"{seconds:7.1f} s" for seconds in row), flush=True)


if __name__ == "__main__":
    main()
