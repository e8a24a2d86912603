r"""RISE: what the output is on average where a pixel is seen through random masks."""

import math
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attributionlab.base import Count, Positive, Within, integer_problem, refuse_if
from attributionlab.methods.baselines import Baselines, as_baselines
from attributionlab.methods.batching import drawn_in_memory, in_smaller_batches, passes_at_once
from attributionlab.methods.declaration import checked, declares
from attributionlab.methods.defaults import seeded, value_range
from attributionlab.methods.guards import STATED_NOISE, noise_share
from attributionlab.methods.notices import Notice, notify
from attributionlab.methods.outputs import same_outputs, target_outputs

Samples = Annotated[int, Within(least=2)]
Chance = Annotated[float, Within(above=0, below=1)]
"""At 0 or 1 no mask shows, or hides, anything."""

CELLS = 7
"""Coins along each side of an image."""
Start = Callable[[int], Tensor]
"""Number of masks -> what images show where they are masked, (that many or 1, C, H, W)."""


@checked
@declares(claim="positive", images=True)
def rise(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    generator: torch.Generator | None = None,
    baselines: Baselines = 0.0,
    n_samples: Samples = 1000,
    cells: Samples | None = None,
    probability: Chance = 0.5,
    perturbations_per_eval: Count | None = None,
) -> Tensor:
    r"""RISE: the mean output over random masks, each weighted by how visible the pixel is.

    .. math:: a_j = \frac{1}{N p} \sum_{i=1}^N f_t\big(M_i x + (1 - M_i) b\big) \, M_{ij}

    A mask M is drawn as `cells` x `cells` coins, each 1 with probability p, upsampled bilinearly to one
    cell more than the image, and cropped to the image at a random position (`Masks`). If the masks do
    not change the output by more than rounding, or each of them shows all of the image or nothing,
    every pixel has the mean output.

    Source: Petsiuk et al., 2018, who take N = 4,000 (VGG-16) and 8,000 (ResNet-50), for a black
    baseline. An estimate of the mean output given that the pixel is visible: an irrelevant pixel has
    the mean output over all masks, not 0, so only differences within a map are meaningful. Sampling
    noise is proportional to the mean output: :math:`f \sqrt{(1/p - 1) / N}`; a warning says if it is
    more than half of the map's variance. The resolution is that of the cells. Half-transparent masks
    mix image and baseline, and most of these colors are in neither. Claims the positive truth. Masks
    are drawn anew for each image (the authors take the same for all). `n_samples` forward passes for
    each image, and one more for all.

    Parameters
    ----------
    model, inputs, targets
        As for `saliency`.
    generator : torch.Generator, optional
        Generator for the masks, image after image, on its own device; by default one with seed 0.
    baselines : float, sequence of float, ndarray or Tensor
        Value of masked pixels (`as_baselines`); black by default.
    n_samples : int
        N, at least 2.
    cells : int, optional
        Coins along each side; the image has as many cells along each side, of whole pixels. 7 by
        default; in images of one row (tokens), one coin per token.
    probability : float
        p in (0, 1).
    perturbations_per_eval : int, optional
        Masked images per pass; by default as many as fit the memory budget.

    Returns
    -------
    Tensor, (B, 1, H, W)
        In units of the output.

    Raises
    ------
    AttributionLabError
        For settings out of range, such as more cells than the image has pixels along its shorter side
        or more samples than fit in memory.
    """
    options = (n_samples, cells, probability, perturbations_per_eval)
    _refuse_cells(cells, inputs, "rise")
    starts = as_baselines(baselines, inputs)

    def start(image: int) -> Start:
        return lambda masks: starts[image : image + 1]

    return _of_each_image("rise", model, inputs, targets, seeded(generator), start, *options)


@checked
@declares(claim="positive", images=True)
def rise_uniform(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    highest: Positive | None = None,
    generator: torch.Generator | None = None,
    n_samples: Samples = 1000,
    cells: Samples | None = None,
    probability: Chance = 0.5,
    perturbations_per_eval: Count | None = None,
) -> Tensor:
    r"""RISE that replaces masked pixels by uniform noise instead of black.

    .. math:: a_j = \frac{1}{N p} \sum_{i=1}^N f_t\big(M_i x + (1 - M_i) b_i\big) \, M_{ij}, \qquad
              b_{icj} \sim U(0, h)

    for each value, with h = `highest` the largest value of a pixel: as for `feature_ablation`.

    Source: RISE-U of Hesse et al., 2024, who do not state whether the noise is drawn once; here it is
    drawn anew for each mask, so that no single draw determines the map. Claims the positive truth.
    Otherwise as `rise`, cost (`n_samples` forward passes for each image), parameters, result and errors
    included.
    """
    options = (n_samples, cells, probability, perturbations_per_eval)
    _refuse_cells(cells, inputs, "rise-uniform")
    drawing, length = seeded(generator), value_range(highest, inputs, "rise-uniform")

    def start(_: int) -> Start:
        def drawn(masks: int) -> Tensor:
            # One by one: so a mask's noise does not depend on how many are passed at once.
            draws = [
                torch.rand(inputs.shape[1:], generator=drawing, device=drawing.device)
                for _ in range(masks)
            ]
            return length * torch.stack(draws).to(inputs)

        return drawn

    return _of_each_image("rise-uniform", model, inputs, targets, drawing, start, *options)


class Masks(NamedTuple):
    """Random masks, before they are upsampled to the size of the image.

    `coins` say whether a cell is seen, and `shifts` where in the enlarged coins the image begins, in
    pixels: down and to the right.
    """

    coins: Bool[Tensor, "masks rows cells"]
    shifts: Int[Tensor, "masks 2"]

    def flat(self) -> bool:
        """Whether each of them shows all of the image, or nothing."""
        return bool((self.coins == self.coins[:, :1, :1]).all())

    def enlarged(
        self, first: int, last: int, image: Float[Tensor, "1 channels height width"]
    ) -> Float[Tensor, "batch 1 height width"]:
        """The masks from one to another, as large as the image and of its type.

        A cell has an n-th of the image's height and width, rounded up to whole pixels. Coins are
        upsampled bilinearly to n + 1 of those a side, and the image is cut out.
        """
        coins = self.coins[first:last].to(image)
        if coins.shape[1] == 1:  # a coin for each token of a row
            return coins[:, None]
        shifts = self.shifts[first:last].to(image.device)
        sides = []
        for axis, length in enumerate(image.shape[2:]):
            unit = torch.eye(coins.shape[1], dtype=image.dtype, device=image.device)[None]
            pixels = (coins.shape[1] + 1) * _cell(length, coins.shape[1])
            [shares] = F.interpolate(unit, size=pixels, mode="linear")  # (n, pixels): of each cell
            places = shifts[:, axis, None] + torch.arange(length, device=image.device)
            sides.append(shares.T[places])  # (batch, length, n)
        down, right = sides
        masks: Tensor = (down @ coins @ right.transpose(1, 2))[:, None]
        return masks


def _refuse_cells(cells: int | None, inputs: Tensor, who: str) -> None:
    """Refuse more cells than the image has pixels along its shorter side, or its one row."""
    height, width = inputs.shape[2:]
    most = max(2, width if height == 1 else min(height, width))
    refuse_if(integer_problem("cells", CELLS if cells is None else cells, 2, most), who)


def _cell(length: int, cells: int) -> int:
    """Pixels of a cell along a side of this length."""
    return -(-length // cells)


def _of_each_image(
    who: str,
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    generator: torch.Generator,
    start: Callable[[int], Start],
    n_samples: int,
    cells: int | None,
    probability: float,
    perturbations_per_eval: int | None,
) -> Float[Tensor, "batch 1 height width"]:
    batch = min(passes_at_once(model, inputs, perturbations_per_eval), n_samples)
    on: dict[str, Any] = {"generator": generator, "device": generator.device}
    maps, shares, still, flat = [], [0.0], 0, 0
    size = (cells or CELLS,) * 2
    if cells is None and inputs.shape[2] == 1:
        size = (1, inputs.shape[3])
    for k, target in enumerate(targets):
        with drawn_in_memory(
            who, "n_samples", n_samples, 6 * math.prod(size) + 64, generator.device
        ):
            coins = torch.rand((n_samples, *size), **on)
            shifts = [
                torch.randint(_cell(length, each), (n_samples,), **on)
                for length, each in zip(inputs.shape[2:], size, strict=True)
            ]
            masks = Masks(coins < probability, torch.stack(shifts, 1))
        # A run that does not fit in memory begins again: with the same noise.
        given = (model, inputs[k : k + 1], target, masks, start(k))
        run = partial(_through_masks, *given, generator, generator.get_state())
        outputs, total, squares = in_smaller_batches(run, batch, who)
        same = bool(same_outputs(outputs.min(), outputs.max()))
        flat += masks.flat()
        still += same and not masks.flat()
        if same or masks.flat():
            maps.append(torch.full_like(total, float(outputs.mean())))
        else:
            shares.append(noise_share(total - total.mean(), squares, n_samples))
            maps.append(total / (n_samples * probability))
    text = (
        "have one value for all pixels, because no mask changes the output: choose other baselines, or "
        "a higher temperature"
    )
    notify(Notice(text, still))
    text = (
        "have one value for all pixels, because each mask shows all of the image or nothing: take a "
        "probability closer to 0.5, or a larger n_samples"
    )
    notify(Notice(text, flat))
    text = "owe up to {worst} of their variance to the draw of the masks: take a larger n_samples"
    noisy = sum(share > STATED_NOISE for share in shares)
    notify(Notice(text, noisy, worst=min(1.0, max(shares))))
    return torch.stack(maps)[:, None].to(inputs)


@torch.no_grad()
def _through_masks(
    model: nn.Module,
    image: Float[Tensor, "1 channels height width"],
    target: Int[Tensor, ""],
    masks: Masks,
    start: Start,
    generator: torch.Generator,
    state: Tensor,
    batch: int,
) -> tuple[Float[Tensor, " masks"], Float[Tensor, "height width"], Float[Tensor, "height width"]]:
    """Outputs f, the sum of f M, and the sum of (f M)^2 where each f M is less its mean over pixels.

    Sums are in float64: the probabilities of a saturated softmax have no square in float32.
    """
    generator.set_state(state)
    total = image.new_zeros(image.shape[2:], dtype=torch.float64)
    outputs, squares = [], torch.zeros_like(total)
    for first in range(0, len(masks.coins), batch):
        seen = masks.enlarged(first, first + batch, image)
        # Exact where a mask is 0 or 1: networks may know exact values only.
        mixed = torch.lerp(start(len(seen)), image, seen)
        mixed = mixed.contiguous(memory_format=torch.channels_last)  # twice as fast on a CPU
        found = target_outputs(model(mixed), target.expand(len(seen)))
        weights, flat = found.double(), seen.flatten(1).double()
        total += (weights @ flat).view_as(total)
        flat -= flat.mean(1, keepdim=True)
        squares += (weights.square() @ flat.square()).view_as(total)
        outputs.append(found)
    return torch.cat(outputs), total, squares
