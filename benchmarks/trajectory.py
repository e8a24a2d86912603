"""A full curve, pixel by pixel: incremental evaluation, forward passes and Quantus in one process.

One 224 x 224 image, replaced by black pixel by pixel in a random order: 50,177 outputs. Rounds of

- `attributionlab.exact.trajectory`, a whole curve, everything included;
- forward passes of the same network in channels-last layout, in batches of several sizes, of which the
  fastest counts; a curve is extrapolated from the passes that were timed;
- steps of Quantus' PixelFlipping (where it is installed: pip install -e ".[quantus]") with
  `features_in_step=1`. In 0.6.0 a step replaces one channel of a pixel, so a whole curve of a color
  image takes three steps a pixel; the first ratio counts only one.

Rounds follow each other, so that what else the machine does slows all sides alike; figures are
medians, ratios medians of the rounds' ratios. Outputs of all three are compared (==). Then time against
the number of pixels, peak memory, and what compiling costs.

    python benchmarks/trajectory.py [--environment multi-color-sum] [--rounds 9] [--steps 300]
"""

import argparse
import contextlib
import importlib.util
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import attributionlab as al

SIZES = (72, 224, 512, 1024)
BATCHES = (1, 2, 5, 10)


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def median(run: Callable[[], object], repeats: int) -> float:
    run()
    return statistics.median(seconds(run) for _ in range(repeats))


def mixture(image: Tensor, order: Tensor, count: int) -> Tensor:
    """The image with the first pixels of an order black."""
    mixed = image.clone()
    mixed.flatten(1)[:, order[:count]] = 0
    return mixed


@torch.no_grad()
def forward_pass(model: nn.Module, image: Tensor) -> float:
    """Seconds for each image at the best batch size."""
    each = []
    for batch in BATCHES:
        images = image.expand(batch, -1, -1, -1).contiguous(memory_format=torch.channels_last)
        each.append(median(lambda images=images: model(images), 3) / batch)
    return min(each)


class Enough(Exception):
    """Enough steps were timed."""


class Watched(nn.Module):
    """A model that records when it was called and what it said, and stops after some calls."""

    def __init__(self, model: nn.Module, calls: int) -> None:
        super().__init__()
        self.model, self.calls = model, calls
        self.times: list[float] = []
        self.outputs: list[Tensor] = []

    def forward(self, images: Tensor) -> Tensor:
        outputs: Tensor = self.model(images)
        self.times.append(time.perf_counter())
        self.outputs.append(outputs.detach())
        if len(self.times) > self.calls:
            raise Enough
        return outputs


def quantus_step(
    model: nn.Module, image: Tensor, target: int, order: Tensor, steps: int
) -> tuple[float, Tensor]:
    """Seconds for each step of PixelFlipping, and the outputs after each."""
    import quantus

    watched = Watched(model, steps).eval()
    pixels = order.numel()
    # Attributions fall along the order and are equal in all channels of a pixel.
    attributions = torch.empty(pixels).scatter_(0, order, torch.arange(pixels, 0, -1.0))
    maps = attributions.reshape(1, 1, *image.shape[1:]).expand(1, *image.shape).numpy()
    metric = quantus.PixelFlipping(
        features_in_step=1,
        perturb_baseline=0.0,
        abs=False,
        normalise=False,
        disable_warnings=True,
        display_progressbar=False,
    )
    with contextlib.suppress(Enough):
        metric(
            model=watched,
            x_batch=image[None].numpy(),
            y_batch=torch.tensor([target]).numpy(),
            a_batch=maps.copy(),
            softmax=False,
            device="cpu",
        )
    return (watched.times[-1] - watched.times[0]) / steps, torch.cat(watched.outputs)


def compiling() -> tuple[float, float]:
    """Seconds of the first trajectory of a process without numba's cache, and with it."""
    code = (
        "import time, torch, attributionlab as al; env = al.load('multi-color-sum', image_size=24);"
        "image = env.batch(1)[0][0]; order = torch.randperm(576); start = time.perf_counter();"
        "al.exact.trajectory(env.model, image, torch.zeros(1), order);"
        "print(time.perf_counter() - start)"
    )
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"NUMBA_CACHE_DIR": folder}

        def first() -> float:
            command = [sys.executable, "-c", code]
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, check=True
            )
            return float(done.stdout)

        return first(), first()


def peak_memory(name: str) -> float:
    """How many MiB a trajectory adds to the peak of a fresh process."""
    code = (
        "import resource, sys, torch, attributionlab as al;"
        f"env = al.load({name!r}); image = env.batch(1)[0][0];"
        "order = torch.randperm(image[0].numel());"
        "small = al.load('multi-color-sum', image_size=24); first = small.batch(1)[0][0];"
        "al.exact.trajectory(small.model, first, torch.zeros(1), torch.randperm(576));"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss;"
        "before = peak(); al.exact.trajectory(env.model, image, torch.zeros(1), order);"
        "print((peak() - before) / 1024)"
    )
    command = [sys.executable, "-c", code]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--environment", default="multi-color-sum")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=300, help="of Quantus, in all rounds together")
    options = parser.parse_args()
    env = al.load(options.environment)
    images, labels = env.batch(1, 0)
    image, black, target = images[0], torch.zeros(1), int(env.targets(labels)[0])
    pixels = image[0].numel()
    order = torch.randperm(pixels, generator=torch.Generator().manual_seed(0))
    route = al.exact.route_of(env.model, image, black)
    print(f"{env.name}, {image.shape[1]} x {image.shape[2]}, {torch.get_num_threads()} threads")
    print(f"route: {route.name} ({route.reason})")
    has_quantus = importlib.util.find_spec("quantus") is not None
    steps = -(-options.steps // options.rounds)

    def curve() -> Tensor:
        return al.exact.trajectory(env.model, image, black, order)

    outputs, said, rounds = curve(), torch.empty(0, 0), []
    for _ in range(options.rounds):
        incremental = median(curve, 3)
        forward = forward_pass(env.model, image)
        step = float("nan")
        if has_quantus:
            step, said = quantus_step(env.model, image, target, order, steps)
        rounds.append((incremental, forward, step))
    incremental, forward, step = (statistics.median(each) for each in zip(*rounds, strict=True))
    print(f"incremental: {1000 * incremental:8.1f} ms for {pixels + 1:,} outputs")
    ratio = statistics.median((pixels + 1) * f / i for i, f, _ in rounds)
    print(
        f"forward:     {1000 * forward:8.2f} ms a pass, {(pixels + 1) * forward:,.0f} s for all "
        f"(extrapolated): {ratio:,.0f} times as long"
    )
    counts = torch.randperm(pixels + 1, generator=torch.Generator().manual_seed(1))[:300].tolist()
    with torch.no_grad():
        passes = torch.cat([env.model(mixture(image, order, count)[None]) for count in counts])
    print(f"equal at 300 random steps: {torch.equal(outputs[counts], passes)}")
    if has_quantus:
        ratio = statistics.median(pixels * q / i for i, _, q in rounds)
        print(
            f"Quantus:     {1000 * step:8.2f} ms a step, {pixels * step:,.0f} s for {pixels:,} steps "
            f"(extrapolated from {steps * options.rounds}): {ratio:,.0f} times as long"
        )
        whole = said[len(image) - 1 :: len(image)]
        same = torch.equal(whole, outputs[1 : len(whole) + 1])
        print(f"equal at its first {len(whole)} whole pixels: {same}")
        print(f"all {pixels * len(image):,} steps of it: {ratio * len(image):,.0f} times as long")
    print("pixels a side, ms for a curve, ns a pixel")
    for size in SIZES:
        sized = al.load("multi-color-sum-uniform", image_size=size)
        shown = sized.batch(1, 0)[0][0]
        along = torch.randperm(size * size, generator=torch.Generator().manual_seed(0))

        def run(model: Any = sized.model, shown: Tensor = shown, along: Tensor = along) -> object:
            return al.exact.trajectory(model, shown, black, along)

        took = median(run, options.rounds)
        print(f"{size:5} {1000 * took:8.1f} {1e9 * took / size**2:8.0f}")
    print(f"peak memory added by a curve: {peak_memory(options.environment):.0f} MiB")
    cold, warm = compiling()
    print(f"first curve of a process: {cold:.1f} s compiling, {warm:.2f} s from numba's cache")
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of this process: {used:.0f} MiB")


if __name__ == "__main__":
    main()
