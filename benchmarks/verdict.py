"""What a verdict costs beyond the method itself, in one process.

For a one-pass gradient method on the default environments:

- bare: images, their truth, the method, its scores, and nothing else, on one network;
- controls: questions with every control and all intervals (`diagnosed=False`);
- all: what `attributionlab test` does, with likely causes and the runner-up class;
- before: the same on one network for all images, in the environments that were the default before
  there were questions.

And the statistics alone: all intervals of a test.

    python benchmarks/verdict.py [--size 224] [--n 32] [--repeats 3]
"""

import argparse
import statistics
import time
import warnings
from collections.abc import Callable

import torch
from passes import BEFORE

import attributionlab as al
from attributionlab.faithfulness.setup import prepared
from attributionlab.faithfulness.test import DEFAULT_ENVIRONMENTS
from attributionlab.methods import METHODS, Call, as_method, attribute
from attributionlab.stats.intervals import mean_interval

METHOD = "input-x-gradient"


def bare(environments: list[al.Environment], n: int) -> None:
    """The method and its scores, by the same parts, without all that surrounds them."""
    method = as_method(METHOD, METHODS)
    for env in environments:
        setup = prepared(method, env, n=n)
        model = env.explained_model(setup.output)
        for batch in setup.batches():
            inputs = batch.images.clone(memory_format=torch.channels_last)
            call = Call(env.name, model, inputs, batch.targets, batch.first, n)
            setup.scores(batch.scaled(attribute(method, call, 0).maps), batch)


def statistics_alone(report: al.FaithfulnessReport) -> None:
    """Every interval of a report, with fresh resamples."""
    seed = 10_000 + time.perf_counter_ns() % 10_000  # none that is kept
    for result in report.environments:
        for scores in result.scores.values():
            for values in scores.values():
                mean_interval(values, seed)


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--n", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    n = arguments.n
    warnings.simplefilter("ignore", al.AttributionLabWarning)
    environments, before = (
        [al.load(name, image_size=arguments.size) for name in names]
        for names in (DEFAULT_ENVIRONMENTS, BEFORE)
    )
    runs: dict[str, Callable[[], object]] = {
        "bare": lambda: bare(environments, n),
        "controls": lambda: al.faithfulness_test(METHOD, environments, n=n, diagnosed=False),
        "all": lambda: al.faithfulness_test(METHOD, environments, n=n),
        "before": lambda: al.faithfulness_test(METHOD, before, n=n, one_network=True),
    }
    report = al.faithfulness_test(METHOD, environments, n=2)  # also warms everything up
    report = al.faithfulness_test(METHOD, environments, n=n, diagnosed=False)
    times: dict[str, list[float]] = {name: [] for name in (*runs, "statistics")}
    for _ in range(arguments.repeats):
        for name, run in runs.items():
            times[name].append(seconds(run))
        times["statistics"].append(seconds(lambda: statistics_alone(report)))
    print(f"{METHOD}, {n} images in each of {len(environments)} environments")
    print(f"{arguments.size} x {arguments.size}")
    print(f"{torch.get_num_threads()} threads; medians of {arguments.repeats}")
    base = statistics.median(times["bare"])
    for name, values in times.items():
        median = statistics.median(values)
        ratios = [value / first for value, first in zip(values, times["bare"], strict=True)]
        print(f"{name:<12}{median:7.2f} s{statistics.median(ratios):8.3f} of bare")
    pairs = zip(times["all"], times["before"], strict=True)
    print(f"all takes {statistics.median(one / other for one, other in pairs):.2f} of before")
    print(
        f"questions, controls and statistics add {statistics.median(times['controls']) / base - 1:.1%}"
    )


if __name__ == "__main__":
    main()
