r"""Shapley values of superpixels or pixels: by regression over coalitions, and from random orders."""

import math
from collections.abc import Sequence
from functools import partial
from itertools import combinations
from typing import Annotated, Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor, nn

from attributionlab.base import MOST_ROUNDS, Count, Positive, Rounds, Within
from attributionlab.base.exact import trajectories
from attributionlab.base.segmentation import Segmentation
from attributionlab.methods.baselines import Baselines, as_baselines, from_true_baseline
from attributionlab.methods.batching import drawn_in_memory
from attributionlab.methods.coalitions import (
    MASKING_SETTINGS,
    Coalitions,
    Game,
    coalition_outputs,
    drawn,
    followed_pixels,
    games_of,
    notify_superpixels,
    notify_unmoved,
)
from attributionlab.methods.declaration import checked
from attributionlab.methods.defaults import seeded, superpixels
from attributionlab.methods.guards import notify_of_noise, share_of_errors
from attributionlab.methods.notices import Notice, notify
from attributionlab.methods.outputs import same_outputs


@checked
def kernel_shap(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    highest: Positive | None = None,
    generator: torch.Generator | None = None,
    segmentation: Segmentation = "quickshift",
    n_samples: Annotated[int, Within(least=2, most=MOST_ROUNDS)] = 1000,
    baselines: Baselines = 0.0,
    patches: Tensor | None = None,
    perturbations_per_eval: Count | None = None,
    **segmentation_settings: Any,
) -> Tensor:
    r"""KernelSHAP: Shapley values of superpixels from a linear regression over random coalitions.

    .. math::
        \min_\phi \sum_i w_i \Bigl( f_t(x_{z_i}) - f_t(b) - \sum_{j=1}^M z_{ij} \phi_j \Bigr)^2
        \quad \text{with} \quad \sum_{j=1}^M \phi_j = f_t(x) - f_t(b),
        \qquad p(z) \propto \frac{M - 1}{\binom{M}{|z|} \, |z| \, (M - |z|)}

    where x_z has the baseline b where z in {0, 1}^M is 0, and p is the Shapley kernel. Coalitions are
    evaluated in pairs, each with its complement, which removes even terms in z from the estimate; no
    pair occurs twice; and the number of each size is proportional to its kernel mass, so that the
    smallest and largest sizes are evaluated completely. The weight w of a coalition is the kernel's
    mass of its size over the expected number of coalitions of that size: p(z) if the size is evaluated
    completely, and one constant for the others. If `n_samples` covers all 2^M - 2 coalitions, the
    result is exact. The pixels of a superpixel share its value equally, so that the map sums to f(x) -
    f(b).

    Source: Lundberg and Lee, 2017, who prove that the minimum over all coalitions is the Shapley value;
    pairs: Covert and Lee, 2021. captum 0.9.0's KernelShap draws coalitions one by one and with
    repetition, sizes from the kernel; enforces the sum by two samples of weight 1,000,000; and gives
    every pixel the whole value of its superpixel. At equal passes its draws leave a multiple of the
    error here (`benchmarks/kernel_shap.py`). Claims signs. The error falls as 1 / sqrt(n_samples),
    faster as it approaches all coalitions; the map is constant within a superpixel, so the segmentation
    limits what it can find. Two guards report too few samples: if coefficients are undetermined, in
    which case the minimum-norm solution is used (always with fewer than 2 M - 2; with exactly as many,
    the noise is largest), and if sampling noise is more than half of the map. The noise is estimated
    from the residuals, allowing for their unequal variance (MacKinnon and White, 1985, HC2) and for the
    share of a size's pairs that is not evaluated. At most `n_samples` + 2 forward passes and one
    segmentation for each image; take several times more samples than superpixels.

    Parameters
    ----------
    model, inputs, targets
        As for `saliency`.
    generator : torch.Generator, optional
        The source of z, image after image; by default one with seed 0.
    segmentation : str, callable, object with `generate`, or label map
        The superpixels (`attributionlab.segmentation.segment`), as for `lime`. Those that equal the
        baseline are not players, and have 0.
    n_samples : int
        Coalitions for each image, at least 2; odd numbers are reduced by one.
    highest, baselines, patches, perturbations_per_eval, **segmentation_settings
        As for `feature_ablation`.

    Returns
    -------
    Tensor, (B, 1, H, W)
        As of `feature_ablation`.

    Raises
    ------
    AttributionLabError
        For settings out of range or unknown.
    """
    start = as_baselines(baselines, inputs)
    generator, others = seeded(generator), (*MASKING_SETTINGS, "n_samples")
    labels = superpixels(
        inputs, segmentation, highest, patches, segmentation_settings, others, "kernel-shap"
    )
    maps, shares, unmoved, undetermined = [], [], 0, 0
    for game in games_of(inputs, start, labels, targets):
        # Of what is drawn, or there is if that is less, some six matrices in float64 at once.
        each, most = 48 * game.players + 128, 2**game.players
        with drawn_in_memory("kernel-shap", "n_samples", n_samples, each, most=most):
            pairs = _pairs(game.players, n_samples // 2, generator)
        everybody = torch.ones(1, game.players, dtype=torch.bool)
        rows = drawn(torch.cat([~everybody, everybody, pairs.kept, ~pairs.kept]))
        [outputs] = coalition_outputs(model, [game], [rows], perturbations_per_eval, "kernel-shap")
        if same_outputs(outputs.min(), outputs.max()):
            # Solving would leave rounding, which a normalization blows up to a full-scale map.
            nothing = torch.zeros(game.players, dtype=torch.float64)
            fit, unmoved = _Fit(nothing, nothing, True), unmoved + 1
        else:
            fit = _fit(pairs, outputs.double())
        undetermined += not fit.is_determined
        maps.append(game.shared(fit.values))
        shares.append(share_of_errors(maps[-1], game.shared(fit.standard_errors)))
    notify_superpixels(labels)
    notify_unmoved(unmoved)
    text = (
        "are not determined, because there are too few samples for the superpixels: set n_samples to "
        "several times their number, or take fewer superpixels"
    )
    notify(Notice(text, undetermined))
    notify_of_noise(shares, "take a larger n_samples")
    return torch.stack(maps)


kernel_shap_true_baseline = from_true_baseline(
    kernel_shap, "KernelSHAP that replaces absent superpixels by the environment's background."
)


class _Fit(NamedTuple):
    """Values and their standard errors, (M,), and whether the samples leave no choice of them."""

    values: Float64[Tensor, " players"]
    standard_errors: Float64[Tensor, " players"]
    is_determined: bool


class _Pairs(NamedTuple):
    """Coalitions, each with its complement: what is asked, and how much it says."""

    kept: Bool[Tensor, "n players"]
    """the smaller of two, or one of two equals"""
    weights: Float64[Tensor, " n"]
    """of the regression: the kernel's mass of its size, for each expected pair of that size"""
    unknown: Float64[Tensor, " n"]
    """which share of the pairs of its size is not asked"""


def _pairs(players: int, n: int, generator: torch.Generator) -> _Pairs:
    r"""Draw n pairs without repetition, in proportion to the kernel; all there are if they are no more.

    Sizes are strata. A size k has :math:`N_k = \binom{M}{k}` pairs (half of that for k = M / 2), and
    the kernel's mass :math:`p_k \propto 1 / (k (M - k))`. Each gets a share of n in proportion to its
    mass, but no more than it has: what is left goes to the others. So the smallest sizes are asked
    completely first. Shares are rounded at random, with one number for all, so that their means are
    right.
    """
    sizes = range(1, players // 2 + 1)
    there, masses, subsets = [], [], 1.0
    for k in sizes:
        subsets *= (players - k + 1) / k  # inf where they are beyond all counting
        halves = 1 + (2 * k == players)
        there.append(round(subsets / halves) if subsets < 2**53 else math.inf)
        masses.append(1 / (k * (players - k) * halves))
    place = generator.device
    total = float(torch.rand(1, generator=generator, dtype=torch.float64, device=place))
    kept, weights, unknown = [torch.empty(0, players, dtype=torch.bool)], [], []
    for k, mass, most, share in zip(sizes, masses, there, _filled(masses, there, n), strict=True):
        before, total = total, total + share
        count = int(most) if share == most else math.floor(total) - math.floor(before)
        if count:
            kept.append(_subsets(players, k, count, most, generator))
            weights += [mass / share] * count
            unknown += [1 - share / most] * count
    shares = (torch.tensor(each, dtype=torch.float64) for each in (weights, unknown))
    return _Pairs(torch.cat(kept), *shares)


def _filled(masses: Sequence[float], most: Sequence[float], n: int) -> list[float]:
    """n in proportion to masses, but of each no more than there is."""
    shares, wanting, left = [0.0] * len(masses), set(range(len(masses))), n
    while wanting:
        unit = left / sum(masses[k] for k in wanting)
        full = {k for k in wanting if masses[k] * unit >= most[k]}
        for k in full or wanting:
            shares[k] = float(most[k]) if full else masses[k] * unit
        wanting = wanting - full if full else set()
        left -= sum(int(most[k]) for k in full)
    return shares


def _subsets(
    players: int, size: int, count: int, there: float, generator: torch.Generator
) -> Bool[Tensor, "count players"]:
    """Draw different subsets of one size; of half the players, those with the first one."""
    place, fixed = generator.device, int(2 * size == players)
    if there <= 4 * count:  # draw from the list of all
        every = torch.tensor(
            list(combinations(range(fixed, players), size - fixed)), dtype=torch.int64
        )
        chosen = torch.randperm(int(there), generator=generator, device=place)[:count].cpu()
        found = torch.zeros(count, players, dtype=torch.bool)
        found[:, :fixed] = True
        return found.scatter_(1, every[chosen], True)
    found = torch.empty(0, players, dtype=torch.bool)
    while len(found) < count:
        shape = count - len(found), players
        marks = torch.rand(shape, generator=generator, dtype=torch.float64, device=place)
        marks[:, :fixed] = -1.0
        drawn_now = (marks.argsort(1).argsort(1) < size).cpu()
        found = torch.unique(torch.cat([found, drawn_now]), dim=0)
    return found


def _fit(pairs: _Pairs, outputs: Float64[Tensor, " outputs"]) -> _Fit:
    r"""Least squares with the sum of coefficients given.

    `outputs` are those of nobody, of everybody, of `pairs.kept` and of the complements. Coefficients
    are :math:`\Delta / M + \gamma`, where :math:`\Delta` is the change of the output and
    :math:`\gamma` sums to 0. A coalition z says
    :math:`f(x_z) - f(b) - |z| \Delta / M = \sum_j (z_j - |z| / M) \gamma_j`; its complement says the
    same of the negative sum, so of the two the half difference is left:

    .. math:: (f(x_z) - f(x_{\bar z}) + \Delta) / 2 - |z| \Delta / M = \sum_j (z_j - |z| / M) \gamma_j,

    whose least squares solution of least norm sums to 0 by itself: each row of its matrix does.
    """
    present, players = pairs.kept.double(), pairs.kept.shape[1]
    change = outputs[1] - outputs[0]
    even = (change / max(1, players)).expand(players)
    if not len(present):
        return _Fit(even, torch.zeros_like(even), players < 2)
    shown, hidden = outputs[2:].reshape(2, -1)
    wanted = (shown - hidden + change) / 2 - present @ even
    matrix = present - present.mean(1, keepdim=True)
    scale = pairs.weights.sqrt()
    left, sizes, right = torch.linalg.svd(matrix * scale[:, None], full_matrices=False)
    limit = float(sizes[0]) * max(matrix.shape) * torch.finfo(torch.float64).eps
    rank = int((sizes > limit).sum())
    inverse = right[:rank].T / sizes[:rank] @ left[:, :rank].T * scale  # (M, n)
    gamma = inverse @ wanted
    if rank < players - 1:  # residuals of 0 would look like certainty
        return _Fit(even + gamma, torch.zeros_like(gamma), False)
    # What is left of a pair's own error in its residual, as a share of the variance.
    spare = 1 - left[:, :rank].square().sum(1)
    if bool((pairs.unknown == 0).all()):
        variances = torch.zeros_like(gamma)
    elif spare[pairs.unknown > 0].min() > limit / float(sizes[0]):
        residuals = wanted - matrix @ gamma
        sure = pairs.unknown == 0
        noise = torch.where(sure, 0.0, residuals.square() * pairs.unknown / spare)
        variances = inverse.square() @ noise
    else:  # some coefficient rests on one pair alone
        variances = torch.full_like(gamma, math.inf)
    return _Fit(even + gamma, variances.sqrt(), True)


OUTPUTS_AT_ONCE = 2**22
"""Outputs of the orders that are followed together; some 100 MB with all that is made of them."""


@checked
def shapley_value_sampling(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    highest: Positive | None = None,
    generator: torch.Generator | None = None,
    segmentation: Segmentation = "pixels",
    n_samples: Rounds = 25,
    baselines: Baselines = 0.0,
    patches: Tensor | None = None,
    perturbations_per_eval: Count | None = None,
    **segmentation_settings: Any,
) -> Tensor:
    r"""Shapley values estimated from random permutations of the pixels or superpixels.

    .. math::
        a_j = \frac{1}{|S_j|} \, \frac{1}{n} \sum_{\pi}
              \left( f_t(x_{z(\pi, j) \cup S_j}) - f_t(x_{z(\pi, j)}) \right)

    with S_j the superpixel of pixel j, z(pi, j) what leaves the image after S_j in the order pi, and
    x_z the image with the baseline outside of z. The pixels of a superpixel share its value equally,
    so that the map sums to f(x) - f(b) whatever the number of samples.

    Source: Castro et al., 2009; Štrumbelj and Kononenko, 2010; Captum's ShapleyValueSampling, which
    gives every pixel the whole value of its group. Each permutation starts from the image and ends at
    the baseline. Claims signs. The expectation is the Shapley value exactly; the error of `n_samples`
    permutations falls as 1 / sqrt(n_samples), and a guard reports maps that are mostly such noise, as
    is common for many pixels and a steep softmax. `env.sampled_shapley` draws until a precision is
    reached; `env.shapley` has a counting network's values in closed form.

    n_samples (M - 1) + 2 forward passes for M superpixels that differ from the baseline. Single pixels
    need none if the network sums without rounding and every pixel has one path to the outputs: they are
    traced through the network (`attributionlab.exact.trajectories`), with equal results.

    Parameters
    ----------
    model, inputs, targets
        As for `saliency`.
    generator : torch.Generator, optional
        The source of the permutations, image after image; by default one with seed 0.
    segmentation : str, callable, object with `generate`, or label map
        The players (`attributionlab.segmentation.segment`); by default single pixels.
    n_samples : int
        Permutations for each image (Captum's default).
    highest, baselines, patches, perturbations_per_eval, **segmentation_settings
        As for `feature_ablation`.

    Returns
    -------
    Tensor, (B, 1, H, W)
        As of `feature_ablation`; the map sums to f(x) - f(b).

    Raises
    ------
    AttributionLabError
        For settings out of range or unknown.
    """
    start = as_baselines(baselines, inputs)
    generator, others = seeded(generator), (*MASKING_SETTINGS, "n_samples")
    labels = superpixels(
        inputs,
        segmentation,
        highest,
        patches,
        segmentation_settings,
        others,
        "shapley-value-sampling",
    )
    maps, shares, unmoved = [], [], 0
    for game in games_of(inputs, start, labels, targets):
        estimate = _Estimate(game.players)
        estimate.draw(model, game, n_samples, generator, perturbations_per_eval)
        unmoved += not estimate.moved
        maps.append(game.shared(estimate.mean))
        shares.append(share_of_errors(maps[-1], game.shared(estimate.standard_errors)))
    notify_superpixels(labels)
    notify_unmoved(unmoved)
    notify_of_noise(shares, "take a larger n_samples")
    return torch.stack(maps)


shapley_value_sampling_true_baseline = from_true_baseline(
    shapley_value_sampling,
    "Sampled Shapley values that replace absent pixels by the environment's background.",
)


class _Estimate:
    """Means over permutations of what each player takes along, and how far they may be off."""

    def __init__(self, players: int) -> None:
        self.count = 0
        self.moved = False
        self.mean = torch.zeros(players, dtype=torch.float64)
        self.squares = torch.zeros(players, dtype=torch.float64)

    def draw(
        self,
        model: nn.Module,
        game: Game,
        n_samples: int,
        generator: torch.Generator,
        batch: int | None,
    ) -> None:
        """Take so many permutations of this game's players."""
        if not game.players:
            return
        pixels = followed_pixels(model, game)
        at_once = max(1, OUTPUTS_AT_ONCE // (game.owners.numel() + 1))
        lowest, highest = [], []
        for first in range(0, n_samples, at_once):
            orders = torch.stack(
                [
                    torch.randperm(game.players, generator=generator, device=generator.device)
                    for _ in range(first, min(first + at_once, n_samples))
                ]
            ).cpu()
            outputs = _outputs(model, game, orders, pixels, batch)
            self._add(outputs.double(), orders)
            lowest.append(outputs.min())
            highest.append(outputs.max())
        self.moved = not same_outputs(torch.stack(lowest).min(), torch.stack(highest).max())
        if not self.moved:
            # What is left is rounding, which a normalization blows up to a full-scale map.
            self.mean.zero_()

    def _add(self, outputs: Float64[Tensor, "orders steps"], orders: Tensor) -> None:
        losses = outputs[:, :-1] - outputs[:, 1:]
        some = torch.empty_like(losses).scatter_(1, orders, losses)  # (orders, players)
        mean, total = some.mean(0), self.count + len(some)
        gap = mean - self.mean
        self.squares += (some - mean).square().sum(0)
        self.squares += gap.square() * (self.count * len(some) / total)
        self.mean += gap * (len(some) / total)
        self.count = total

    @property
    def standard_errors(self) -> Float64[Tensor, " players"]:
        """Standard error of the mean; infinite for a single permutation, unless it leaves no choice."""
        if len(self.mean) == 1:
            return torch.zeros_like(self.mean)
        if self.count == 1:
            return torch.full_like(self.mean, torch.inf)
        return (self.squares / (self.count * (self.count - 1))).sqrt()


def _outputs(
    model: nn.Module,
    game: Game,
    orders: Int[Tensor, "orders players"],
    pixels: Int[Tensor, " players"] | None,
    batch: int | None,
) -> Float[Tensor, "orders steps"]:
    """Outputs with all players, and after each that left; no passes for pixels that are followed."""
    if pixels is not None:
        # Pixels that change nothing leave last, where nobody asks what the model says.
        others = (game.owners.flatten() < 0).nonzero()[:, 0]
        leaving = torch.cat([pixels[orders], others.expand(len(orders), -1)], 1)
        ends, counts = (game.image[None], game.baseline[None]), range(game.players + 1)
        outputs = trajectories(model, *ends, leaving[None], counts=counts)
        return outputs[0, :, :, int(game.target)].cpu()
    between = game.players - 1
    coalitions = Coalitions(2 + len(orders) * between, partial(_staying, orders.argsort(1)))
    [outputs] = coalition_outputs(model, [game], [coalitions], batch, "shapley-value-sampling")
    shown, hidden = outputs[:2].expand(len(orders), 2).chunk(2, dim=1)
    return torch.cat([shown, outputs[2:].reshape(len(orders), between), hidden], 1)


def _staying(
    places: Int[Tensor, "orders players"], numbers: Int[Tensor, " n"]
) -> Bool[Tensor, "n players"]:
    """Coalition 0 is everybody, 1 nobody; then those left by the first 1, 2, ... M - 1 of each order.

    `places` says when each player leaves, and `numbers` which coalitions are wanted.
    """
    players = places.shape[1]
    between = max(1, players - 1)
    order = (numbers - 2).clamp(min=0) // between
    gone = torch.where(numbers < 2, numbers * players, (numbers - 2) % between + 1)
    return places[order] >= gone[:, None]
