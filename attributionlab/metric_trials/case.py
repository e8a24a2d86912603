"""One image with many maps, and what a model says while the image's pixels come and go.

What depends on the maps alone (orders, sums over subsets) is worked out once for all conditions, and
what depends on the condition (curves, effects of random subsets) once for all metrics.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor, nn

from attributionlab.metrics import magnitudes
from attributionlab.metrics.curves import outputs_along
from attributionlab.metrics.orders import removal_order
from attributionlab.truth import Truth, marginal_contributions

POINTS_AT_ONCE = 2**20
"""Of curves: 20 maps at 224 x 224."""
DRAWS, SIZES = 50, 24
"""Of subset metrics: permutations, and subset sizes evenly spaced from 1 to P - 1 (all subsets of P
pixels are the same). All maps and conditions share the draws, so that none is lucky."""


@dataclass(frozen=True, eq=False)
class Case:
    """One image with the maps that are to be scored.

    Parameters
    ----------
    image : Tensor, (C, H, W)
        What was explained.
    target : Tensor of int, (1,)
        Its output.
    maps : Tensor, (M, 1, H, W)
        Attributions.
    truth : Truth
        Of the one image.
    seed : int
        Of random subsets.
    """

    image: Float[Tensor, "channels height width"]
    target: Int[Tensor, " one"]
    maps: Float[Tensor, "maps 1 height width"]
    truth: Truth
    seed: int

    @property
    def pixels(self) -> int:
        """P"""
        return self.maps[0].numel()

    @property
    def positive(self) -> Float[Tensor, "maps 1 height width"]:
        """What raises the output, according to each map."""
        return magnitudes(self.maps, "positive")

    @cached_property
    def orders(self) -> Int[Tensor, "maps pixels"]:
        """Most relevant first."""
        return removal_order(self.maps)

    @cached_property
    def least_first(self) -> Int[Tensor, "maps pixels"]:
        """Least relevant first."""
        return removal_order(self.maps, order="lerf")

    @cached_property
    def draws(self) -> Int[Tensor, "draws pixels"]:
        """Random permutations, those of `attributionlab.metrics.sensitivity_n` with the same seed."""
        generator = torch.Generator().manual_seed(self.seed)
        draws = [torch.randperm(self.pixels, generator=generator) for _ in range(DRAWS)]
        return torch.stack(draws).to(self.image.device)

    @cached_property
    def sizes(self) -> list[int]:
        """Of the subsets: how many of the first pixels of each permutation."""
        return sorted({round(size) for size in np.linspace(1, self.pixels - 1, SIZES).tolist()})

    @cached_property
    def sums(self) -> Float64[Tensor, "maps draws sizes"]:
        """Of every map over every subset, in units of the map's largest magnitude; exact, so that equal
        sums are equal.
        """
        values = self.maps.flatten(1).double()
        largest = values.abs().amax(1, keepdim=True)
        units = 2.0 ** (52 - self.pixels.bit_length())  # so that sums stay within 2^52
        rounded = (values / torch.where(largest > 0, largest, 1) * units).round()
        last = torch.tensor(self.sizes) - 1
        return torch.stack([rounded[:, draw].cumsum(1)[:, last] for draw in self.draws], 1) / units


@dataclass(frozen=True, eq=False)
class Seen:
    """A case under one condition.

    Parameters
    ----------
    case : Case
        Image and maps.
    model : nn.Module
        (B, C, H, W) -> (B, K)
    replacement : Tensor, (C, H, W)
        What takes the place of removed pixels.
    """

    case: Case
    model: nn.Module
    replacement: Float[Tensor, "channels height width"]

    @cached_property
    def removed(self) -> Float64[Tensor, "maps counts"]:
        """While pixels are removed from the image, in each map's order."""
        return self._curves(self.case.image, self.replacement, self.case.orders)

    @cached_property
    def removed_least(self) -> Float64[Tensor, "maps counts"]:
        """While pixels are removed from the image, least relevant first."""
        return self._curves(self.case.image, self.replacement, self.case.least_first)

    @cached_property
    def inserted(self) -> Float64[Tensor, "maps counts"]:
        """While pixels are inserted into the replacement, in each map's order."""
        return self._curves(self.replacement, self.case.image, self.case.orders)

    @cached_property
    def losses(self) -> Float64[Tensor, "draws sizes"]:
        """What the output loses with each subset."""
        return self._along_draws[:, :1] - self._along_draws[:, self.case.sizes]

    @cached_property
    def shapley(self) -> Float64[Tensor, "1 height width"]:
        """Shapley values of the pixels where absent ones are the replacement's, sampled: the mean of
        what each contributes in `DRAWS` random orders (Castro, Gomez and Tejada, 2009).
        """
        values = marginal_contributions(self._along_draws, self.case.draws).mean(0)
        return values.reshape(1, *self.case.image.shape[1:])

    @cached_property
    def _along_draws(self) -> Float64[Tensor, "draws counts"]:
        every = range(self.case.pixels + 1)
        return self._outputs(self.case.image, self.replacement, self.case.draws, every)

    def _curves(
        self, start: Tensor, end: Tensor, orders: Int[Tensor, "maps pixels"]
    ) -> Float64[Tensor, "maps counts"]:
        every = range(self.case.pixels + 1)
        at_once = max(1, POINTS_AT_ONCE // self.case.pixels)
        parts = torch.split(orders, at_once)
        return torch.cat([self._outputs(start, end, each, every) for each in parts])

    def _outputs(
        self, start: Tensor, end: Tensor, orders: Tensor, counts: range
    ) -> Float64[Tensor, "orders counts"]:
        return outputs_along(
            self.model,
            start[None],
            self.case.target,
            orders[None],
            replacement=end,
            counts=counts,
        )[0]
