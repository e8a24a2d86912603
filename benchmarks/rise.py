"""What RISE costs beside its formula at the same number of masked images in a pass, in one process.

Prints the ratio of the processor's seconds, of which other programs take none: medians of alternating
runs. The formula draws its masks beforehand, enlarges them with `interpolate` and cuts each by itself.
"""

import argparse
from functools import partial

import torch
from side_by_side import side_by_side
from torch import Tensor
from torch.nn import functional as F

import attributionlab as al
from attributionlab.methods import collect_notices, images_at_once, rise, rise_uniform

CELLS = 7


def masks_of(n_samples: int, side: int, generator: torch.Generator) -> Tensor:
    cell = -(-side // CELLS)
    coins = (torch.rand((n_samples, 1, CELLS, CELLS), generator=generator) < 0.5).float()
    large = F.interpolate(coins, size=(CELLS + 1) * cell, mode="bilinear")
    places = torch.randint(cell, (n_samples, 2), generator=generator).tolist()
    return torch.stack(
        [each[:, y : y + side, x : x + side] for each, (y, x) in zip(large, places, strict=True)]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environment", default="multi-color-sum")
    parser.add_argument("--side", type=int, default=224, help="pixels a side of the images")
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    env = al.load(options.environment, image_size=options.side)
    model, highest = env.model, float(env.max_value)
    image, labels = env.batch(1)
    targets = env.targets(labels)
    batch = images_at_once(model, image)
    generator = torch.Generator().manual_seed(0)

    @torch.no_grad()
    def formula(noisy: bool) -> None:
        masks, total = masks_of(options.samples, options.side, generator), torch.zeros(())
        for part in masks.split(batch):
            shape = (len(part), *image.shape[1:])
            start = highest * torch.rand(shape, generator=generator) if noisy else 0.0
            outputs = model(part * image + (1 - part) * start)[:, targets]
            total = total + (outputs[:, :, None, None] * part).sum(0) / (0.5 * options.samples)

    def ours(noisy: bool) -> None:
        more = {"highest": highest} if noisy else {}
        method = rise_uniform if noisy else rise
        with collect_notices():
            method(model, image, targets, generator=generator, n_samples=options.samples, **more)

    for noisy in (False, True):
        times = side_by_side(partial(ours, noisy), partial(formula, noisy), options.repeats)
        each_mask, ratio = 1000 * times.ours / options.samples, times.ratio
        name = "rise-uniform" if noisy else "rise"
        print(f"{name:<14}{each_mask:8.2f} ms a mask, {batch} at a time, ratio {ratio:.3f}")


if __name__ == "__main__":
    main()
