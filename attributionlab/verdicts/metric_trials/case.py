"""One image with many maps, a model's outputs while the image's pixels come and go, and the scores of
metrics that follow from them.

What depends on the maps alone (orders, sums over subsets) is worked out once for all conditions, and
what depends on the condition (curves, effects of random subsets) once for all metrics.

Each function here scores as one of `attributionlab.metrics` does, map by map. For soundness and
completeness the indicator is the image's own output as a share of its way from the replacement (0) to
the image (1), so that predictive levels mean the same for every image, output and condition. Pixels are
replaced, not imputed: to put back the pixels of largest attribution, and to remove those above a
threshold, are then points of the insertion and the deletion curve.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Float64, Int, Int64
from torch import Tensor, nn

from attributionlab import metrics
from attributionlab.metrics import (
    EPSILON,
    NOISE,
    ROAD_FRACTIONS,
    THRESHOLDS,
    Performance,
    Scale,
    above,
    correlated_with_drops,
    informs,
    magnitudes,
    mismatched,
    normalize,
    outputs_along,
    precision_of,
    reaches,
    removal_order,
    step_counts,
)
from attributionlab.metrics.imputation import noisy_linear
from attributionlab.verdicts.faithfulness.setup import Batch
from attributionlab.worlds.truth import Truth, marginal_contributions

POINTS_AT_ONCE = 2**20
"""Points of curves: 20 maps at 224 x 224."""
DRAWS, SIZES = 50, 24
"""For subset metrics: permutations, and subset sizes evenly spaced from 1 to P - 1 (all subsets of P
pixels are the same). All maps and conditions share the draws, so that none is lucky."""


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
        seed=int(np.random.SeedSequence([seed, batch.first, 8]).generate_state(1)[0]),
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
        return self.curves(self.case.image, self.replacement, self.case.orders)

    @cached_property
    def inserted(self) -> Float64[Tensor, "maps counts"]:
        """While pixels are inserted into the replacement, in each map's order."""
        return self.curves(self.replacement, self.case.image, self.case.orders)

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

    def curves(
        self, start: Tensor, end: Tensor, orders: Int[Tensor, "maps pixels"]
    ) -> Float64[Tensor, "maps counts"]:
        """While pixels of one image take the place of another's, in some orders."""
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


LEVELS = (0.2, 0.4, 0.6, 0.8)
"""Predictive levels of Li et al. (2024), as shares of the output's change."""
PERCENT = 100
SIDE = 4
"""Cells of the grid along each side, as in Hesse et al. (2024)."""
STEPS = 32
SHARE = 0.1
"""Of the pixels: the subsets of faithfulness correlation."""

Sees = Literal["maps", "network", "condition"]
"""What scores depend on: the maps alone, the network too, or the replacement as well."""


def soundness_scores(seen: Evaluation) -> Float64[Tensor, " maps"]:
    """`attributionlab.metrics.soundness_at` of what each map says raises the output, mean over levels.

    A level that all attributed pixels of a map together do not reach counts 0: none of what it
    attributes predicts the output to that level. A level that is jumped over counts as what was
    reached. NaN, for all maps, where the output does not rise from the replacement to the image
    (`_shares_of_way`).
    """
    values, counts = seen.case.positive.flatten(1).double(), _included(seen)
    ranked = values.gather(1, seen.case.orders)
    sums = torch.nn.functional.pad(ranked.cumsum(1), (1, 0)).gather(1, counts)
    shares, rounding = _shares_of_way(seen.inserted, seen)
    reached = shares.gather(1, counts)
    start = reached.new_zeros(len(reached), 1)
    informative = informs(reached.diff(dim=1, prepend=start), EPSILON, rounding)
    added = sums.diff(dim=1, prepend=start)
    soundness = (added * informative).cumsum(1) / added.cumsum(1)
    at_levels = []
    for level in LEVELS:
        there = reaches(reached, level, rounding)
        first = there.int().argmax(1, keepdim=True)
        at_levels.append(soundness.gather(1, first)[:, 0].where(there.any(1), 0.0))
    return torch.stack(at_levels).mean(0).where(reached.isfinite().all(1), torch.nan)


def completeness_scores(seen: Evaluation) -> Float64[Tensor, " maps"]:
    """`attributionlab.metrics.completeness_curve` of what each map says raises the output: its mean.

    Thresholds are shares of each map's maximum. NaN where the output does not rise from the replacement
    to the image (`_shares_of_way`).
    """
    values = seen.case.positive.flatten(1)
    most = values.amax(1, keepdim=True)
    parts = values / most.where(most > 0, 1)
    counts = torch.stack([above(parts, t).sum(1) for t in THRESHOLDS], 1)
    left = _shares_of_way(seen.removed, seen)[0].gather(1, counts)
    return (1 - left).mean(1)


def single_deletion_scores(seen: Evaluation) -> Float64[Tensor, " maps"]:
    """`attributionlab.metrics.sds` with 4 x 4 cells, as equal as the image's size allows."""
    return metrics.judged_by_drops(*_cell_effects(seen)).scores


def faithfulness_correlation_scores(seen: Evaluation) -> Float64[Tensor, " maps"]:
    """`attributionlab.metrics.faithfulness_correlation` at the size nearest to a tenth."""
    sizes = seen.case.sizes
    nearest = min(range(len(sizes)), key=lambda at: abs(sizes[at] - SHARE * seen.case.pixels))
    return sensitivity(seen.case.sums[..., [nearest]], seen.losses[:, [nearest]])


def incremental_deletion_scores(seen: Evaluation) -> Float64[Tensor, " maps"]:
    """`attributionlab.metrics.ids` in 32 steps, on all of an image's pixels if it has fewer."""
    case, pixels = seen.case, seen.case.pixels
    least_first = removal_order(case.maps, order="lerf")
    removed = seen.curves(case.image, seen.replacement, least_first)
    return removed[:, step_counts(pixels, min(STEPS, pixels))].mean(1)


def road_scores(seen: Evaluation) -> Float64[Tensor, " maps"]:
    """`attributionlab.metrics.road` of each map, by the output of the target instead of the accuracy.

    One image is classified rightly or wrongly: by accuracy most maps would be alike.
    """
    case = seen.case
    performance = Performance(
        seen.model,
        case.image.expand(len(case.maps), *case.image.shape),
        case.target.expand(len(case.maps)),
        indicator=lambda outputs, targets: outputs.gather(1, targets[:, None].long())[:, 0],
        value_range=(0, case.highest),
    )
    curves = torch.stack([performance.on(left) for left in case.imputed], 1)
    at = torch.tensor(ROAD_FRACTIONS, dtype=torch.float64, device="cpu")
    return metrics.area_under_curve(curves, at) / (ROAD_FRACTIONS[-1] - ROAD_FRACTIONS[0])


def sensitivity(
    sums: Float64[Tensor, "maps draws sizes"], losses: Float64[Tensor, "draws sizes"]
) -> Float64[Tensor, " maps"]:
    """Pearson's correlation over the draws, mean over the sizes at which the output varies.

    As `attributionlab.metrics.sensitivity_n`: NaN where it varies at none, 0 where only sums are equal.
    """
    varies = losses.amax(0) != losses.amin(0)
    if not varies.any():
        return sums.new_full((len(sums),), torch.nan)
    sums, losses = sums[..., varies], losses[:, varies]
    # Measured from the first draw, equal values leave exact zeros.
    sums, losses = sums - sums[:, :1], losses - losses[:1]
    constant = sums.abs().amax(1) == 0
    sums, losses = sums - sums.mean(1, keepdim=True), losses - losses.mean(0)
    scale = (sums.square().sum(1) * losses.square().sum(0)).sqrt()
    return torch.where(constant, 0.0, (sums * losses).sum(1) / scale).mean(1)


def squared_misfit(
    sums: Float64[Tensor, "maps draws sizes"], losses: Float64[Tensor, "draws sizes"]
) -> Float64[Tensor, " maps"]:
    """Mean square of what the output loses less the summed attributions, at the best scale from 0 up.

    Attributions that are ranked have no common scale, but their sign is theirs. Otherwise as
    `attributionlab.metrics.infidelity` with `normalize=True`, over sizes that are evenly spaced.
    """
    sums, losses = sums.flatten(1), losses.flatten()
    product, square = sums @ losses, sums.square().sum(1)
    factor = torch.where(square > 0, product / square, 0.0).clamp(min=0)
    return (factor[:, None] * sums - losses).square().mean(1)


def _cell_effects(
    seen: Evaluation, magnitude: bool = False
) -> tuple[Float64[Tensor, "maps cells"], Float64[Tensor, "maps cells"]]:
    """Each cell's sum of attributions and what the output loses without it, or both as magnitudes."""
    case = seen.case
    cells = _cells(*case.image.shape[1:])
    drops = metrics.deletion_drops(
        seen.model, case.image[None], case.target, patches=cells, replacement=seen.replacement
    )
    sums = metrics.patch_sums(case.maps.abs() if magnitude else case.maps, cells)
    return sums, (drops.abs() if magnitude else drops).expand(sums.shape)


def _by_cells(function: Callable[..., Tensor]) -> Callable[[Evaluation], Float64[Tensor, " maps"]]:
    """A metric of regions with 4 x 4 cells, as equal as the image's size allows."""

    def scores(seen: Evaluation) -> Float64[Tensor, " maps"]:
        case = seen.case
        return function(
            seen.model,
            case.image.expand(len(case.maps), *case.image.shape),
            case.target.expand(len(case.maps)),
            case.maps,
            patches=_cells(*case.image.shape[1:]),
            replacement=seen.replacement,
        )

    return scores


def _true_soundness(seen: Evaluation) -> Float64[Tensor, " maps"]:
    """0, where the function has NaN, for a map without attribution: it is ranked beside the others."""
    maps = seen.case.scaled("nonnegative")
    information = seen.case.values.clamp(min=0).expand(maps.shape)
    return metrics.true_soundness(maps, information).nan_to_num(0.0)


def _area(curves: Tensor) -> Float64[Tensor, " maps"]:
    return metrics.area_under_curve(curves, metrics.curve_fractions(curves.shape[1] - 1))


def _included(seen: Evaluation) -> Int[Tensor, "maps steps"]:
    """Pixels put back after each step of a percent of the area; none without attribution."""
    pixels = seen.case.pixels
    attributed = (seen.case.positive.flatten(1) > 0).sum(1, keepdim=True)
    steps = [pixels - round(percent / PERCENT * pixels) for percent in range(PERCENT - 1, -1, -1)]
    return (
        torch.tensor(steps, device=attributed.device)
        .expand(len(attributed), -1)
        .minimum(attributed)
    )


def _shares_of_way(
    outputs: Tensor, seen: Evaluation
) -> tuple[Float64[Tensor, "maps counts"], float]:
    """Outputs with the replacement's at 0 and the image's at 1, and by how much they may be off.

    NaN where the output does not rise by so much that rounding, in the precision of images, is less
    than half of epsilon.
    """
    nothing, everything = (float(seen.inserted[0, end]) for end in (0, -1))
    rounding = precision_of(seen.case.image.dtype) * max(abs(nothing), abs(everything))
    way = everything - nothing
    if way <= 0 or rounding > way * EPSILON / 2:
        return torch.full_like(outputs, torch.nan), 0.0
    return (outputs - nothing) / way, rounding / way


def _cells(height: int, width: int) -> Int64[Tensor, "height width"]:
    down, across = min(SIDE, height), min(SIDE, width)
    rows, columns = torch.arange(height) * down // height, torch.arange(width) * across // width
    return rows[:, None] * across + columns


class Shared(NamedTuple):
    """How a metric scores all maps of an evaluation at once."""

    scores: Callable[[Evaluation], Float64[Tensor, " maps"]]
    sees: Sees = "condition"


SHARED: Mapping[str, Shared] = {
    "insertion": Shared(lambda seen: _area(seen.inserted)),
    "deletion": Shared(lambda seen: _area(seen.removed)),
    "pixel_flipping": Shared(lambda seen: (seen.removed[:, :1] - seen.removed).mean(1)),
    "sensitivity_n": Shared(lambda seen: sensitivity(seen.case.sums, seen.losses)),
    "infidelity": Shared(lambda seen: squared_misfit(seen.case.sums, seen.losses)),
    "soundness_at": Shared(soundness_scores),
    "completeness_at": Shared(completeness_scores),
    "sds": Shared(single_deletion_scores),
    "ids": Shared(incremental_deletion_scores),
    "idsds": Shared(
        lambda seen: single_deletion_scores(
            replace(seen, replacement=seen.case.baseline.expand(seen.case.image.shape))
        ),
        "network",
    ),
    "road": Shared(road_scores, "network"),
    "true_soundness": Shared(_true_soundness, "maps"),
    **{
        each.__name__: Shared(_by_cells(each))
        for each in (metrics.irof, metrics.region_perturbation, metrics.selectivity)
    },
    "faithfulness_correlation": Shared(faithfulness_correlation_scores),
    "faithfulness_estimate": Shared(lambda seen: correlated_with_drops(*_cell_effects(seen))),
    "monotonicity_correlation": Shared(
        lambda seen: metrics.judged_by_drops(*_cell_effects(seen, magnitude=True)).scores
    ),
    "non_sensitivity": Shared(lambda seen: mismatched(*_cell_effects(seen, magnitude=True))),
}
"""By name of the function in `attributionlab.metrics`. Removal goes pixel by pixel, most relevant
first; subsets are drawn `DRAWS` times at `SIZES` sizes; soundness and completeness see what each map
says raises the output; single deletion and others have 4 x 4 cells, and IDSDS deletes them by
the true baseline, which is no unseen data at any dose."""
