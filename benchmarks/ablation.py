"""Every pixel replaced alone: followed through the network and by forward passes, in one process.

One 224 x 224 image and its replacement: 50,176 images that differ from it in one pixel. Rounds of

- `attributionlab.exact.single_replacements`, everything included;
- forward passes of some of the same images, in channels-last layout, in batches of several sizes, of
  which the fastest counts; all images are extrapolated from the passes that were timed.

Rounds follow each other, so that what else the machine does slows both sides alike; seconds are
medians, the ratio is the median of the rounds' ratios. Outputs are compared (==) on random pixels.
Then Shapley values by sampled permutations: seconds, and how precise the estimate is.

    python benchmarks/ablation.py [--environment multi-color-sum] [--rounds 9] [--permutations 100 1000]
"""

import argparse
import resource
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

import attributionlab as al
from attributionlab.worlds.truth import sampled_shapley

BATCHES = (1, 2, 5, 10)
COMPARED = 300


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def singly_replaced(image: Tensor, replacement: Tensor, pixels: Tensor) -> Tensor:
    """One image for each of these pixels, black there."""
    images = image.expand(len(pixels), *image.shape).clone()
    rows = torch.arange(len(pixels))
    values = replacement.broadcast_to(image.shape).flatten(1)
    images.flatten(2)[rows, :, pixels] = values[:, pixels].T
    return images


@torch.no_grad()
def forward_pass(model: nn.Module, image: Tensor, replacement: Tensor, pixels: Tensor) -> float:
    """Seconds for each image, in batches of the fastest size; making the images is not counted."""
    best = float("inf")
    for size in BATCHES:
        images = singly_replaced(image, replacement, pixels[:size])
        images = images.contiguous(memory_format=torch.channels_last)
        model(images)
        best = min(best, seconds(lambda images=images: model(images)) / size)  # type: ignore[misc]
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--environment", default="multi-color-sum")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--permutations", type=int, nargs="*", default=[100, 1000])
    options = parser.parse_args()
    env = al.load(options.environment)
    images, labels = env.batch(1, 0)
    image, black, target = images[0], torch.zeros(1), int(env.targets(labels)[0])
    count = image[0].numel()
    pixels = torch.randperm(count, generator=torch.Generator().manual_seed(0))
    route = al.exact.route_of(env.model, image, black)
    print(f"{env.name}, {image.shape[1]} x {image.shape[2]}, {torch.get_num_threads()} threads")
    print(f"route: {route.name} ({route.reason})")

    outputs, rounds = al.exact.single_replacements(env.model, images, black)[0], []
    for _ in range(options.rounds):
        all_at_once = seconds(lambda: al.exact.single_replacements(env.model, images, black))
        rounds.append((all_at_once, forward_pass(env.model, image, black, pixels)))
    followed, passed = (statistics.median(each) for each in zip(*rounds, strict=True))
    ratio = statistics.median(count * p / f for f, p in rounds)
    print(f"all at once: {1000 * followed:8.1f} ms for {count:,} outputs")
    print(
        f"forward:     {1000 * passed:8.2f} ms a pass, {count * passed:,.0f} s for all "
        f"(extrapolated): {ratio:,.0f} times as long"
    )
    with torch.no_grad():
        some = [
            env.model(singly_replaced(image, black, one))
            for one in torch.split(pixels[:COMPARED], 1)
        ]
    print(
        f"equal at {COMPARED} random pixels: {torch.equal(outputs[pixels[:COMPARED]], torch.cat(some))}"
    )

    readouts: dict[str, Callable[[Tensor], Tensor]] = {"logit": lambda rows: rows[..., target]}
    if env.temperature is not None:
        scale = 1 / env.temperature
        readouts["probability"] = lambda rows: torch.softmax(rows * scale, -1)[..., target]
    with torch.no_grad():
        ends = env.model(torch.stack([image, black.expand_as(image)])).double()
    print("sampled Shapley values: output, permutations, seconds for 100, largest standard error,")
    print("the same as a share of f(x) - f(b), median standard error")
    for output, readout in readouts.items():
        full, empty = readout(ends).tolist()
        for most in options.permutations:
            start = time.perf_counter()
            found = sampled_shapley(env.model, image, black, readout, precision=1e-300, most=most)
            took = time.perf_counter() - start
            largest = float(found.standard_errors.max())
            print(
                f"{output:12} {found.permutations:6} {100 * took / most:6.2f} {largest:9.2g} "
                f"{largest / abs(full - empty):9.2g} {float(found.standard_errors.median()):9.2g}"
            )
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of this process: {used:.0f} MiB")


if __name__ == "__main__":
    main()
