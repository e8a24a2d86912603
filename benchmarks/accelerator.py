"""Seconds on the CPU and on CUDA, and their ratio: forward passes, methods, metrics.

Medians of several runs after one that is not counted; a run ends when the device has finished. Refuses
where there is no CUDA device.

What gains is what passes many images at once. Two methods hardly do:

- "extremal-perturbation" computes its smooth masks by a few shifts at a time, so that what is at hand
  fits a processor's cache, and adds them one by one: at 224 pixels 137 shifts, forward and back, 800
  times for an image. These are far more operations than the network has, and each is small.
- "integrated-gradients-exact" follows the pieces of the path in float64 layer by layer, and asks after
  each layer which units cross their kinks: `nonzero` and `tolist` wait for the device every time.

(That is read off the code; nobody has profiled it on a GPU.)

Built-in metrics of the laboratory's networks follow removal pixel by pixel on the CPU, whatever the
device (`attributionlab.exact.trajectories`).
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import torch

import attributionlab as al
from attributionlab.methods import METHODS, as_method, collect_notices
from attributionlab.verdicts import CONTROLS, attribute_batch, prepared

METRICS = ("deletion", "infidelity", "insertion", "sensitivity_n", "single_deletion")


def seconds(run: Callable[[], object], repeats: int) -> float:
    """Median of several runs."""
    found = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        found.append(time.perf_counter() - start)
    return statistics.median(found[1:])


def runs_on(device: str, options: argparse.Namespace) -> dict[str, Callable[[], object]]:
    """What is measured, by name."""
    with al.exact_arithmetic():
        env = al.load(options.environment, image_size=options.side).to(device)
    images, labels = env.batch(options.images)
    images, targets = images.to(device), env.targets(labels).to(device)
    maps = images.sum(1, keepdim=True)

    def forward() -> object:
        with al.exact_arithmetic(), torch.no_grad():
            return env.model(images)

    def method(name: str) -> object:
        setup = prepared(as_method(name, METHODS | CONTROLS), env)
        with collect_notices():
            [batch] = setup.batches()
            return attribute_batch(setup, batch)

    def metric(name: str) -> object:
        function = getattr(al.metrics, name)
        return function(env.model, images, targets, maps, replacement=env.baseline)

    return {
        f"forward pass of {options.images} images": forward,
        **{name: lambda name=name: method(name) for name in options.methods},
        **{name: lambda name=name: metric(name) for name in METRICS},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("methods", nargs="*", default=["saliency", "occlusion", "rise", "lime"])
    parser.add_argument("--environment", default="multi-color-sum")
    parser.add_argument("--side", type=int, default=224, help="pixels a side of the images")
    parser.add_argument("--images", type=int, default=4, help="of forward passes and metrics")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("accelerator.py: no CUDA device is there to compare with")
    print(f"{torch.cuda.get_device_name()}, {torch.get_num_threads()} threads on the CPU")
    on_cpu, on_cuda = (runs_on(device, options) for device in ("cpu", "cuda"))
    print(f"{'':36}{'CPU, s':>10}{'CUDA, s':>10}{'ratio':>8}")
    for name, run in on_cpu.items():
        here, there = seconds(run, options.repeats), seconds(on_cuda[name], options.repeats)
        print(f"{name:36}{here:10.3f}{there:10.3f}{here / there:8.1f}")


if __name__ == "__main__":
    main()
