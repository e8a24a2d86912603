"""What a direct call of a method costs beside Captum's own class, both sides in one process.

    python benchmarks/direct_calls.py [--images 4] [--repeats 15] [SIDE ...]

One row for each method and side of the images: the ratio of processor seconds and the milliseconds
beyond Captum's, medians of alternating runs (`side_by_side`). Ours include the guards. What only the
first call for a network costs (does it mix images, is it random?) is in the last column.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from captum import attr
from side_by_side import side_by_side
from torch import Tensor, nn

import attributionlab as al

WINDOWS = 4
"""Of occlusion, along each side."""


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        *(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, padding=1), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(256, 10)),
    ).eval()


def of_captum(kind: Any, model: nn.Module, images: Tensor, targets: Tensor, **more: Any) -> Any:
    return kind(model).attribute(images.clone().requires_grad_(), target=targets, **more)


def pairs(
    images: Tensor, targets: Tensor
) -> Iterator[tuple[str, Callable[..., Any], Callable[..., Any]]]:
    """Name, ours and theirs at equal settings, each a function of a model."""
    size = images.shape[2] // WINDOWS
    windows = {"sliding_window_shapes": (3, size, size), "strides": (3, size, size)}
    settings: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
        "saliency": (attr.Saliency, {}, {"abs": False}),
        "deep_lift": (attr.DeepLift, {}, {}),
        "integrated_gradients": (attr.IntegratedGradients, {}, {}),
        "occlusion": (attr.Occlusion, {"window": size, "stride": size}, windows),
    }
    for name, (kind, own, captums) in settings.items():
        method = getattr(al.methods, name)
        ours = partial(method, inputs=images, targets=targets, **own)
        theirs = partial(of_captum, kind, images=images, targets=targets, **captums)
        yield name, ours, theirs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sides", type=int, nargs="*", default=[16, 48, 224])
    parser.add_argument("--images", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    row = "{:<22} {:>5} {:>8} {:>8} {:>7} {:>8} {:>7}"
    print(row.format("method", "side", "ours ms", "captum", "ratio", "+ ms", "first"))
    for side in options.sides:
        images = torch.rand(options.images, 3, side, side)
        targets = torch.arange(options.images)
        for name, ours, theirs in pairs(images, targets):
            model = network()
            ours(network())  # what torch does at its first call for a size is nobody's
            times = side_by_side(partial(ours, model), partial(theirs, model), options.repeats)
            start = time.process_time()
            ours(network())
            first = time.process_time() - start - times.ours
            figures = times.ours, times.theirs, times.ours - times.theirs, first
            our, their, more, once = (f"{1000 * each:.2f}" for each in figures)
            print(row.format(name, side, our, their, f"{times.ratio:.2f}", more, once), flush=True)


if __name__ == "__main__":
    main()
