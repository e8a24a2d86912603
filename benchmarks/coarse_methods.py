"""What the map- and mask-based methods cost, in one process.

GradCAM beside Captum's own calls (medians of alternating runs); seconds of the information bottleneck
and of extremal perturbations for one image, with the parts of an iteration of the latter.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from captum.attr import LayerAttribution, LayerGradCam
from torch import Tensor

import attributionlab as al
from attributionlab.methods.bottleneck import iba
from attributionlab.methods.cam import gradcam
from attributionlab.methods.extremal import (
    BLUR_SIGMA,
    CELLS_PER_SIGMA,
    LEVELS,
    MASK_SIGMA,
    SIDE,
    extremal_perturbation,
)
from attributionlab.methods.masking import SmoothMask, area_gap, blur_pyramid, blurred


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
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--references", type=int, default=64)
    parser.add_argument("--iterations", type=int, default=100, help="of extremal perturbations")
    options = parser.parse_args()
    env = al.load(options.environment, image_size=options.side)
    model = env.model
    images, labels = env.batch(options.batch)
    targets, layer = env.targets(labels), env.layers["gradcam"]

    def captum() -> None:
        coarse = LayerGradCam(model, layer).attribute(
            images.clone().requires_grad_(), target=targets, relu_attributions=True
        )
        LayerAttribution.interpolate(coarse, tuple(images.shape[2:]), "bilinear")

    runs: dict[str, Callable[[], object]] = {
        "ours": lambda: gradcam(model, images, targets, layers=env.layers),
        "reference": captum,
    }
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(options.repeats + 1):  # the first round warms up
        for name, run in runs.items():
            times[name].append(seconds(run))
    medians = {name: statistics.median(each[1:]) for name, each in times.items()}
    for name, median in medians.items():
        print(f"gradcam, {name:<12}{1000 * median / options.batch:8.2f} ms an image")
    print(f"gradcam, ratio       {medians['ours'] / medians['reference']:8.3f}")

    one, target = images[:1], targets[:1]
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
