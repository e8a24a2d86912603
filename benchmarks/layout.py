"""How much faster the channels-last layout is than the default one, in one process.

Forward passes, and forward with backward passes, of multi-color-sum; medians of alternating runs.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch

import attributionlab as al


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    fast = al.load("multi-color-sum")
    slow = al.load("multi-color-sum").model.to(memory_format=torch.contiguous_format)
    images, _ = fast.batch(options.batch)
    plain = images.contiguous()

    def forward(model: torch.nn.Module, inputs: torch.Tensor) -> None:
        with torch.no_grad():
            model(inputs)

    def backward(model: torch.nn.Module, inputs: torch.Tensor) -> None:
        inputs = inputs.detach().requires_grad_()
        torch.autograd.grad(model(inputs).sum(), inputs)

    for name, run in (("forward", forward), ("forward and backward", backward)):
        times: dict[str, list[float]] = {"channels last": [], "default": []}
        for _ in range(options.repeats + 1):  # the first round warms up
            times["channels last"].append(seconds(lambda run=run: run(fast.model, images)))
            times["default"].append(seconds(lambda run=run: run(slow, plain)))
        medians = {layout: statistics.median(each[1:]) for layout, each in times.items()}
        for layout, median in medians.items():
            print(f"{name:<22}{layout:<15}{1000 * median / options.batch:8.2f} ms an image")
        print(f"{name:<22}ratio          {medians['default'] / medians['channels last']:8.2f}")


if __name__ == "__main__":
    main()
