r"""Shapley values of pixels or superpixels from random orders in which they leave the image."""

from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor, nn

from attributionlab.errors import refuse_if
from attributionlab.exact import trajectories
from attributionlab.methods.baselines import Baselines, as_baselines, from_true_baseline
from attributionlab.methods.coalitions import (
    MASKING_SETTINGS,
    Coalitions,
    Game,
    coalition_outputs,
    followed_pixels,
    games_of,
    masking_problems,
    tell_superpixels,
    tell_unmoved,
)
from attributionlab.methods.entry import checked
from attributionlab.methods.outputs import same_outputs
from attributionlab.methods.sampling_noise import share_of_errors, tell_of_noise
from attributionlab.segmentation import Segmentation, segment
from attributionlab.validation import MOST_ROUNDS, generator_problem, integer_problem

OUTPUTS_AT_ONCE = 2**22
"""Of the orders that are followed together; some 100 MB with all that is made of them."""


@checked
def shapley_value_sampling(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    highest: float,
    generator: torch.Generator,
    segmentation: Segmentation = "pixels",
    n_samples: int = 25,
    baselines: Baselines = 0.0,
    patches: Tensor | None = None,
    perturbations_per_eval: int | None = None,
    **segmentation_settings: Any,
) -> Tensor:
    r"""Shapley values, estimated from permutations of the pixels or superpixels.

    .. math::
        a_j = \frac{1}{|S_j|} \, \frac{1}{n} \sum_{\pi}
              \left( f_t(x_{z(\pi, j) \cup S_j}) - f_t(x_{z(\pi, j)}) \right)

    with S_j the superpixel of pixel j, z(pi, j) what leaves the image after S_j in the order pi, and
    x_z the image with the baseline outside of z. The pixels of a superpixel share its value equally,
    so that the map sums to f(x) - f(b) whatever the number of samples.

    Source: Castro et al., 2009; Štrumbelj and Kononenko, 2010; Captum's ShapleyValueSampling, which
    gives every pixel the whole value of its group. Each permutation starts from the image and ends at
    the baseline. Claims signs. The expectation is the Shapley value exactly; the error of `n_samples`
    permutations falls as 1 / sqrt(n_samples), and a guard tells of maps that are mostly such noise, as
    those of many pixels are behind a steep softmax. `env.sampled_shapley` draws until a precision is
    reached; `env.shapley` has a counting network's values in closed form.

    n_samples (M - 1) + 2 forward passes for M superpixels that differ from the baseline. Single pixels
    need none where the network adds up without rounding and every pixel has one path to the outputs:
    they are followed through the network (`attributionlab.exact.trajectories`), with equal results.

    Parameters
    ----------
    model, inputs, targets
        As for `saliency`.
    generator : torch.Generator
        The source of the permutations, image after image.
    segmentation : str, callable, object with `generate`, or label map
        Who plays (`attributionlab.segmentation.segment`); each pixel by itself by default.
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
    problems = masking_problems(highest, perturbations_per_eval)
    problems += integer_problem("n_samples", n_samples, 1, MOST_ROUNDS) + generator_problem(
        generator
    )
    refuse_if(problems, "shapley-value-sampling")
    start = as_baselines(baselines, inputs)
    labels = segment(
        inputs,
        segmentation,
        highest=highest,
        patches=patches,
        settings=segmentation_settings,
        others=(*MASKING_SETTINGS, "n_samples"),
    )
    maps, shares, unmoved = [], [], 0
    for game in games_of(inputs, start, labels, targets):
        estimate = _Estimate(game.players)
        estimate.draw(model, game, n_samples, generator, perturbations_per_eval)
        unmoved += not estimate.moved
        maps.append(game.shared(estimate.mean))
        shares.append(share_of_errors(maps[-1], game.shared(estimate.standard_errors)))
    tell_superpixels(labels)
    tell_unmoved(unmoved)
    tell_of_noise(shares, "take a larger n_samples")
    return torch.stack(maps)


shapley_value_sampling_true_baseline = from_true_baseline(
    shapley_value_sampling,
    """Sampled Shapley values, absent pixels having the environment's own background.

    Parameters
    ----------
    baseline : Tensor, (C, 1, 1)
        The true baseline pixel; the environment gives it.
    model, inputs, targets, and all other settings
        As for `shapley_value_sampling`.
    """,
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
            if pixels is None:
                outputs = _by_passes(model, game, orders, batch)
            else:
                outputs = _followed(model, game, orders, pixels)
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
        """Of the mean; infinite for a single permutation, unless it leaves no choice."""
        if len(self.mean) == 1:
            return torch.zeros_like(self.mean)
        if self.count == 1:
            return torch.full_like(self.mean, torch.inf)
        return (self.squares / (self.count * (self.count - 1))).sqrt()


def _by_passes(
    model: nn.Module, game: Game, orders: Int[Tensor, "orders players"], batch: int | None
) -> Float[Tensor, "orders steps"]:
    """Outputs with all players, and after each that left, by forward passes."""
    between = game.players - 1
    members = partial(_staying, orders.argsort(1))
    outputs = coalition_outputs(
        model,
        [game],
        [Coalitions(2 + len(orders) * between, members)],
        batch,
        "shapley-value-sampling",
    )[0]
    shown, hidden = outputs[:2].expand(len(orders), 2).chunk(2, dim=1)
    return torch.cat([shown, outputs[2:].reshape(len(orders), between), hidden], 1)


def _staying(
    places: Int[Tensor, "orders players"], numbers: Int[Tensor, " n"]
) -> Bool[Tensor, "n players"]:
    """Coalition 0 is everybody, 1 nobody; then those left by the first 1, 2, ... M - 1 of each order.

    Parameters
    ----------
    places : Tensor, (orders, M)
        When each player leaves.
    numbers : Tensor, (n,)
        Of coalitions.
    """
    players = places.shape[1]
    between = max(1, players - 1)
    order = (numbers - 2).clamp(min=0) // between
    gone = torch.where(numbers < 2, numbers * players, (numbers - 2) % between + 1)
    return places[order] >= gone[:, None]


def _followed(
    model: nn.Module,
    game: Game,
    orders: Int[Tensor, "orders players"],
    pixels: Int[Tensor, " players"],
) -> Float[Tensor, "orders steps"]:
    """The same, for players that are pixels, without forward passes."""
    # Pixels that change nothing leave last, where nobody asks what the model says.
    others = (game.owners.flatten() < 0).nonzero()[:, 0]
    leaving = torch.cat([pixels[orders], others.expand(len(orders), -1)], 1)
    outputs = trajectories(
        model,
        game.image[None],
        game.baseline[None],
        leaving[None],
        counts=range(game.players + 1),
    )
    return outputs[0, :, :, int(game.target)].cpu()
