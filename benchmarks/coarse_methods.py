"""What the information bottleneck and extremal perturbations cost, in one process.

Seconds for one image, with the parts of an iteration of the latter.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

import attributionlab as al
from attributionlab.methods import extremal_perturbation, iba
from attributionlab.methods.baselines import blur_pyramid
from attributionlab.methods.extremal import (
    BLUR_SIGMA,
    CELLS_PER_SIGMA,
    LEVELS,
    MASK_SIGMA,
    SIDE,
    SmoothMask,
    area_gap,
    blurred,
)


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


@contextmanager
def counted(model: torch.nn.Module) -> Iterator[list[int]]:
    """How many images pass the network in each call of it."""
    images: list[int] = []
    handle = model.register_forward_hook(lambda _m, inputs, _o: images.append(len(inputs[0])))
    try:
        yield images
    finally:
        handle.remove()


def parts_of_an_iteration(model: torch.nn.Module, image: Tensor) -> dict[str, float]:
    """Median seconds, forward and backward, of what an iteration of extremal perturbations does."""
    scale = min(image.shape[2:]) / SIDE
    smooth = SmoothMask(
        image, MASK_SIGMA * scale, max(1, round(MASK_SIGMA * scale / CELLS_PER_SIGMA)), True
    )
    pyramid = blur_pyramid(image, BLUR_SIGMA * scale, LEVELS)
    cells = torch.full((1, *smooth.grid), 0.9)
    mask = smooth(cells)

    def both_ways(function: Callable[[Tensor], Tensor], at: Tensor) -> float:
        def run() -> None:
            start = at.clone().requires_grad_()
            torch.autograd.grad(function(start).sum(), start)

        return statistics.median(seconds(run) for _ in range(9))

    return {
        "network": both_ways(model, blurred(pyramid, mask)),
        "smooth mask": both_ways(smooth, cells),
        "blur": both_ways(lambda m: blurred(pyramid, m), mask),
        "area": both_ways(lambda m: area_gap(m, 0.1), mask),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environment", default="multi-color-sum")
    parser.add_argument("--side", type=int, default=224, help="pixels a side of the images")
    parser.add_argument("--references", type=int, default=64)
    parser.add_argument("--iterations", type=int, default=100, help="of extremal perturbations")
    options = parser.parse_args()
    env = al.load(options.environment, image_size=options.side)
    model = env.model
    one, labels = env.batch(1)
    target = env.targets(labels)
    references, _ = env.batch(options.references, seed=1)
    generator = torch.Generator().manual_seed(0)
    with counted(model) as passed:
        for call in ("first", "again"):
            passed.clear()
            spent = seconds(
                lambda: iba(
                    model,
                    one,
                    target,
                    reference_images=references,
                    generator=generator,
                    layers=env.layers,
                )
            )
            through = f"{sum(passed)} images through the whole network"
            print(f"iba, {call}           {spent:8.2f} s, {through}")
    spent = seconds(
        lambda: extremal_perturbation(model, one, target, iterations=options.iterations)
    )
    print(f"extremal-perturbation{800 / options.iterations * spent:8.2f} s at 800 iterations")
    for name, part in parts_of_an_iteration(model, one).items():
        print(f"    {name:<16} {1000 * part:8.2f} ms, {options.iterations * part / spent:4.0%}")


if __name__ == "__main__":
    main()
