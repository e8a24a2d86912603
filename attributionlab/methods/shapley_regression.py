r"""KernelSHAP: Shapley values as the coefficients of a weighted linear regression over coalitions."""

import math
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float64
from torch import Tensor, nn

from attributionlab.errors import refuse_if
from attributionlab.methods.baselines import Baselines, as_baselines, from_true_baseline
from attributionlab.methods.batching import drawn_in_memory
from attributionlab.methods.coalitions import (
    MASKING_SETTINGS,
    coalition_outputs,
    drawn,
    games_of,
    masking_problems,
    tell_superpixels,
    tell_unmoved,
)
from attributionlab.methods.entry import checked
from attributionlab.methods.findings import Notice, notify
from attributionlab.methods.outputs import same_outputs
from attributionlab.methods.sampling_noise import share_of_errors, tell_of_noise
from attributionlab.segmentation import Segmentation, segment
from attributionlab.validation import generator_problem, integer_problem


@checked
def kernel_shap(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    highest: float,
    generator: torch.Generator,
    segmentation: Segmentation = "quickshift",
    n_samples: int = 1000,
    baselines: Baselines = 0.0,
    patches: Tensor | None = None,
    perturbations_per_eval: int | None = None,
    **segmentation_settings: Any,
) -> Tensor:
    r"""Shapley values of superpixels from a linear regression over random coalitions.

    .. math::
        \min_\phi \sum_i \Bigl( f_t(x_{z_i}) - f_t(b) - \sum_{j=1}^M z_{ij} \phi_j \Bigr)^2
        \quad \text{with} \quad \sum_{j=1}^M \phi_j = f_t(x) - f_t(b),
        \qquad p(z) \propto \frac{M - 1}{\binom{M}{|z|} \, |z| \, (M - |z|)}

    where z_i in {0, 1}^M is drawn from the Shapley kernel p, which is to say its size k with
    probability proportional to (M - 1) / (k (M - k)) and then its members evenly, and x_z has the
    baseline b where z is 0. Where all 2^M - 2 coalitions are no more than `n_samples`, each is asked
    once and weighted by p, and the result is exact. The pixels of a superpixel share its value equally,
    so that the map sums to f(x) - f(b).

    Source: Lundberg and Lee, 2017, who prove that the minimum over all coalitions is the Shapley value.
    Their public code draws coalitions in pairs with their complements and asks all coalitions of the
    smallest and largest sizes first; captum 0.9.0's KernelShap draws as it is done here, holds the sum
    by two samples of weight 1,000,000, and gives every pixel the whole value of its superpixel. Claims
    signs. The error falls as 1 / sqrt(n_samples); within a superpixel the map says nothing, so the
    segmentation bounds what it can find. Two guards tell of too few samples: those that leave
    coefficients undetermined, of which the solution of least norm is taken, and those of which
    sampling noise is more than half of the map (estimated from the residuals, allowing for their
    unequal variance: MacKinnon and White, 1985, HC2). With 12 superpixels, the mean estimate was right
    to 5 % from 24 samples on; for 13 to 18 it was a fifth to a half too large, either side of the limit
    was missed at times, and many games had none, which the result says. `n_samples` + 2 forward passes
    and one segmentation for each image; take several times more samples than superpixels.

    Parameters
    ----------
    model, inputs, targets
        As for `saliency`.
    generator : torch.Generator
        The source of z, image after image.
    segmentation : str, callable, object with `generate`, or label map
        Where superpixels come from (`attributionlab.segmentation.segment`); as for `lime`. Those that
        look like the baseline are no players, and have 0.
    n_samples : int
        Coalitions for each image.
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
    problems = masking_problems(highest, perturbations_per_eval)
    problems += integer_problem("n_samples", n_samples, 1) + generator_problem(generator)
    refuse_if(problems, "kernel-shap")
    start = as_baselines(baselines, inputs)
    labels = segment(
        inputs,
        segmentation,
        highest=highest,
        patches=patches,
        settings=segmentation_settings,
        others=(*MASKING_SETTINGS, "n_samples"),
    )
    maps, shares, unmoved, undetermined = [], [], 0, 0
    for game in games_of(inputs, start, labels, targets):
        # Of what is drawn, or there is if that is less, some six matrices in float64 at once.
        each, most = 48 * game.players + 128, 2**game.players
        with drawn_in_memory("kernel-shap", "n_samples", n_samples, each, most=most):
            kept, weights = _coalitions(game.players, n_samples, generator)
        everybody = torch.ones(1, game.players, dtype=torch.bool)
        asked = drawn(torch.cat([~everybody, everybody, kept]))
        [outputs] = coalition_outputs(model, [game], [asked], perturbations_per_eval, "kernel-shap")
        if same_outputs(outputs.min(), outputs.max()):
            # Solving would leave rounding, which a normalization blows up to a full-scale map.
            nothing = torch.zeros(game.players, dtype=torch.float64)
            fit, unmoved = _Fit(nothing, nothing, True), unmoved + 1
        else:
            fit = _fit(kept, outputs.double(), weights)
        undetermined += not fit.is_determined
        maps.append(game.shared(fit.values))
        shares.append(share_of_errors(maps[-1], game.shared(fit.standard_errors)))
    tell_superpixels(labels)
    tell_unmoved(unmoved)
    text = (
        "are not determined by the samples, which are too few for the superpixels: take n_samples of "
        "several times their number, or fewer superpixels"
    )
    notify(Notice(text, undetermined))
    tell_of_noise(shares, "take a larger n_samples")
    return torch.stack(maps)


kernel_shap_true_baseline = from_true_baseline(
    kernel_shap,
    """KernelSHAP, absent superpixels having the environment's own background.

    Parameters
    ----------
    baseline : Tensor, (C, 1, 1)
        The true baseline pixel; the environment gives it.
    model, inputs, targets, and all other settings
        As for `kernel_shap`.
    """,
)


class _Fit(NamedTuple):
    """Values and their standard errors, (M,), and whether the samples leave no choice of them."""

    values: Float64[Tensor, " players"]
    standard_errors: Float64[Tensor, " players"]
    is_determined: bool


def _coalitions(
    players: int, n_samples: int, generator: torch.Generator
) -> tuple[Bool[Tensor, "n players"], Float64[Tensor, " n"] | None]:
    """Coalitions, neither nobody nor everybody: drawn from the kernel; or all of them and weights."""
    if players < 2:  # nothing to draw: the sum alone decides
        return torch.empty(0, players, dtype=torch.bool), None
    if 2**players - 2 <= n_samples:
        numbers = torch.arange(1, 2**players - 1)
        every = (numbers[:, None] >> torch.arange(players) & 1).bool()
        kernel = [1 / (math.comb(players, k) * k * (players - k)) for k in every.sum(1).tolist()]
        return every, torch.tensor(kernel, dtype=torch.float64)
    sizes = torch.arange(1, players, dtype=torch.float64)
    place = generator.device
    chances = (1 / (sizes * (players - sizes))).to(place)
    chosen = 1 + torch.multinomial(chances, n_samples, replacement=True, generator=generator)
    marks = torch.rand((n_samples, players), generator=generator, dtype=torch.float64, device=place)
    ranks = marks.argsort(1).argsort(1)
    return (ranks < chosen[:, None]).cpu(), None


def _fit(
    kept: Bool[Tensor, "n players"],
    outputs: Float64[Tensor, " n_and_two"],
    weights: Float64[Tensor, " n"] | None,
) -> _Fit:
    r"""Least squares with the sum of coefficients given.

    Coefficients are :math:`\Delta / M + \gamma`, where :math:`\Delta` is the change of the output and
    :math:`\gamma` sums to 0, so that

    .. math:: f(x_z) - f(b) - |z| \Delta / M = \sum_j (z_j - |z| / M) \gamma_j,

    whose least squares solution of least norm sums to 0 by itself: each row of its matrix does.

    Parameters
    ----------
    kept : Tensor, (n, M)
        Coalitions.
    outputs : Tensor, (n + 2,)
        Of nobody, of everybody, and of these.
    weights : Tensor, (n,), optional
        Of the coalitions, if these are all there are.
    """
    players = kept.shape[1]
    nobody, everybody, rest = outputs[0], outputs[1], outputs[2:]
    even = ((everybody - nobody) / max(1, players)).expand(players)
    if players < 2:
        return _Fit(even, torch.zeros_like(even), True)
    present = kept.double()
    matrix = present - present.mean(1, keepdim=True)
    wanted = rest - nobody - present @ even
    scale = torch.ones_like(rest) if weights is None else weights.sqrt()
    left, sizes, right = torch.linalg.svd(matrix * scale[:, None], full_matrices=False)
    limit = float(sizes[0]) * max(matrix.shape) * torch.finfo(torch.float64).eps
    rank = int((sizes > limit).sum())
    inverse = right[:rank].T / sizes[:rank] @ left[:, :rank].T  # (M, n)
    gamma = inverse @ (wanted * scale)
    if weights is not None:
        return _Fit(even + gamma, torch.zeros_like(gamma), True)
    if rank < players - 1:  # residuals of 0 would look like certainty
        return _Fit(even + gamma, torch.zeros_like(gamma), False)
    # What is left of a sample's own error in its residual, as a share of the variance.
    spare = 1 - left[:, :rank].square().sum(1)
    if spare.min() > limit / float(sizes[0]):
        residuals = wanted - matrix @ gamma
        variances = inverse.square() @ (residuals.square() / spare)
    else:  # some coefficient rests on one sample alone
        variances = torch.full_like(gamma, math.inf)
    return _Fit(even + gamma, variances.sqrt(), True)
