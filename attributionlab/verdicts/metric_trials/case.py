"""One image with many maps, and a model's outputs while the image's pixels come and go.

What depends on the maps alone (orders, sums over subsets) is worked out once for all conditions, and
what depends on the condition (curves, effects of random subsets) once for all metrics.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor, nn

from attributionlab.metrics import (
    NOISE,
    ROAD_FRACTIONS,
    Scale,
    magnitudes,
    normalize,
    outputs_along,
    removal_order,
)
from attributionlab.metrics.imputation import noisy_linear
from attributionlab.verdicts.faithfulness.setup import Batch
from attributionlab.worlds.truth import Truth, marginal_contributions

POINTS_AT_ONCE = 2**20
"""Points of curves: 20 maps at 224 x 224."""
DRAWS, SIZES = 50, 24
"""For subset metrics: permutations, and subset sizes evenly spaced from 1 to P - 1 (all subsets of P
pixels are the same). All maps and conditions share the draws, so that none is lucky."""


def case_seed(seed: int, number: int) -> int:
    """Return the seed for the random subsets of image `number`, the same for all maps of it."""
    return int(np.random.SeedSequence([seed, number, 8]).generate_state(1)[0])


@dataclass(frozen=True, eq=False)
class Case:
    """One image with the maps that are to be scored.

    - `truth`: signs of the one image.
    - `values`: exact Shapley values.
    - `baseline`: the true baseline, which no network reacts to.
    - `highest`: largest value that images may have; the least is 0.
    - `seed`: seed for random subsets and for the noise of imputations.
    """

    image: Float[Tensor, "channels height width"]
    target: Int[Tensor, " one"]
    maps: Float[Tensor, "maps 1 height width"]
    truth: Truth
    values: Float[Tensor, "1 1 height width"]
    baseline: Float[Tensor, "channels 1 1"]
    highest: float
    seed: int

    def before(
        self, target: Int[Tensor, " one"], truth: Truth, values: Float[Tensor, "1 1 height width"]
    ) -> "Case":
        """The same image and maps before another network, with what was worked out of them."""
        other = replace(self, target=target, truth=truth, values=values)
        # Orders, sums and imputations depend on neither target nor truth.
        names = {each for each, value in vars(Case).items() if isinstance(value, cached_property)}
        vars(other).update({each: vars(self)[each] for each in names & vars(self).keys()})
        return other

    @property
    def pixels(self) -> int:
        """P"""
        return self.maps[0].numel()

    @property
    def positive(self) -> Float[Tensor, "maps 1 height width"]:
        """What raises the output, according to each map."""
        return magnitudes(self.maps, "positive")

    def scaled(self, scale: Scale) -> Float[Tensor, "maps 1 height width"]:
        """The maps for a metric that is marked so: as they are, or their positive values."""
        if scale == "signed":
            return self.maps
        return normalize(self.positive) if scale == "unit" else self.positive

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
        """Sizes of the subsets: how many of the first pixels of each permutation."""
        return sorted({round(size) for size in np.linspace(1, self.pixels - 1, SIZES).tolist()})

    @cached_property
    def sums(self) -> Float64[Tensor, "maps draws sizes"]:
        """Sum of every map over every subset, in units of the map's largest magnitude; exact, so that
        equal sums are equal.
        """
        values = self.maps.flatten(1).double()
        largest = values.abs().amax(1, keepdim=True)
        units = 2.0 ** (52 - self.pixels.bit_length())  # so that sums stay within 2^52
        rounded = (values / torch.where(largest > 0, largest, 1) * units).round()
        last = torch.tensor(self.sizes) - 1
        return torch.stack([rounded[:, draw].cumsum(1)[:, last] for draw in self.draws], 1) / units

    @cached_property
    def imputed(self) -> Float[Tensor, "fractions maps channels height width"]:
        """The image after each of ROAD's fractions of each map's pixels, with one noise for all.

        It depends on no network, and solving for it takes longer than all networks' answers.
        """
        generator = torch.Generator().manual_seed(self.seed)
        noise = torch.randn(self.image.shape, generator=generator, dtype=torch.float64)
        noise = noise.mul_(NOISE * self.highest).to(self.image)
        ranks = self.orders.argsort(1).view(self.maps.shape)
        left = []
        for fraction in ROAD_FRACTIONS:
            keep = ranks >= round(fraction * self.pixels)
            masks, which = torch.unique(
                keep, dim=0, return_inverse=True
            )  # maps often agree on a share
            solved = noisy_linear(self.image[None], masks, noise=0, value_range=self.highest)
            linear = solved[which]
            left.append(torch.where(keep, self.image, linear + noise))
        return torch.stack(left)


def case_of(batch: Batch, maps: Tensor, values: Tensor, seed: int) -> Case:
    """Maps of a batch of one image, on the network's device; `values` are exact Shapley values."""
    env, device = batch.env, batch.env.device
    return Case(
        image=batch.images[0].to(device),
        target=batch.targets.to(device),
        maps=maps.to(device),
        truth=batch.truth.to(device),
        values=values.to(device),
        baseline=env.baseline,
        highest=env.max_value,
        seed=case_seed(seed, batch.first),
    )


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A case under one condition: what a model returns, each curve worked out once.

    `case`: image and maps. `model`: (B, C, H, W) -> (B, K) `replacement`: what takes the place of
    removed pixels.
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
            self.model, start[None], self.case.target, orders[None], replacement=end, counts=counts
        )[0]
