"""Shapley values of pixels from random permutations, for games without a closed form."""

import math
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import torch
from jaxtyping import Float64, Int, Real
from torch import Tensor, nn

from attributionlab.base import (
    AttributionLabError,
    Positive,
    Replacement,
    Seed,
    Within,
    checked_arguments,
    checked_pair,
    kind_of,
    shown,
)
from attributionlab.base.exact import trajectories

PILOT = 32
"""Pairs after which spread is judged first, and the fewest that an estimate rests on."""
PILOT_SHARE = 8
"""A pilot grows until the estimate takes no more than so many times its pairs."""
NUMBERS_AT_ONCE = 2**20
"""Outputs of the trajectories of one call: some 64 MB with all that is made of them."""


class SampledShapley(NamedTuple):
    """An estimate of Shapley values, and how far off it may be.

    - `values`: one for each pixel, in units of the output; they sum to f(x) - f(b), up to rounding.
    - `standard_errors`: standard error of each value.
    - `permutations`: number of permutations that the values are the mean of; those of the pilot are not
      among them.
    - `reached`: whether no standard error exceeds the required precision.
    """

    values: Float64[Tensor, "1 height width"]
    standard_errors: Float64[Tensor, "1 height width"]
    permutations: int
    reached: bool


@torch.no_grad()
@checked_arguments
def sampled_shapley(
    model: nn.Module,
    image: Real[Tensor, "channels height width"],
    replacement: Replacement,
    readout: Callable[[Tensor], Tensor],
    *,
    precision: Positive,
    most: Annotated[int, Within(least=4)] = 10_000,
    seed: Seed = 0,
) -> SampledShapley:
    r"""Unbiased estimate of the Shapley values of an image's pixels, with standard errors.

    A player is a pixel, all its channels together; absent, it has the replacement's value. With f
    the explained output and x_S the image x with the replacement b outside of S,

    .. math::
        \phi_p = E[f(x_{S \cup p}) - f(x_S)], \qquad S = \text{what follows } p \text{ in } \pi,

    over permutations :math:`\pi` of the players, all equally likely (Castro, Gomez and Tejada, 2009).
    One trajectory from x to b gives a sample of every pixel's value; its samples sum to f(x) - f(b).
    Each permutation is followed by its reverse, in which early players come late: their mean varies
    less where a player's contribution falls or rises with the number of others (antithetic sampling:
    Lomeli, Rowland, Gretton and Ghahramani, 2019; Mitchell, Cooper, Frank and Holmes, 2022).

    A pixel whose image and replacement are equal is no player: its value and its error are exactly 0.

    *Stopping.* Drawing until a sample's standard error is small favors samples that look narrow, and
    their mean is biased where spread and mean go together: a rare, large contribution is missed
    whenever stopping comes before it. So no sample decides about itself. A pilot, 32 pairs that double
    until the estimate would take no more than eight times as many, tells how many pairs the estimate
    takes; the pilot is then thrown away. Given this number the estimate's pairs are independent and
    unused, so the estimate is unbiased whatever the pilot said. A budget too small to spare a pilot
    (less than 256 permutations) is drawn in full: a number fixed in advance, and unbiased too.

    For m pairs in the pilot and its largest standard error e the estimate takes m (e / precision)^2 (1
    + 2 sqrt(2 / m)) pairs. The last factor is for the pilot's own chance: sqrt(2 / m) is the relative
    standard error of a normal sample's variance. It makes it likely, not certain, that the precision is
    reached (see `reached`).

    *Standard errors* are those of the pairs' mean, sd / sqrt(pairs) with ddof = 1. They know nothing of
    contributions so rare that no pair of the sample showed one.

    Source: J. Castro, D. Gomez, J. Tejada, "Polynomial calculation of the Shapley value based on
    sampling", Computers and Operations Research 36 (2009). M. Lomeli, M. Rowland, A. Gretton, Z.
    Ghahramani, "Antithetic and Monte Carlo kernel estimators for partial rankings", Statistics and
    Computing 29 (2019). R. Mitchell, J. Cooper, E. Frank, G. Holmes, "Sampling permutations for Shapley
    value estimation", JMLR 23 (2022).

    Parameters
    ----------
    model : nn.Module
        (B, C, H, W) -> (B, K), as for `attributionlab.exact.trajectories`.
    image : Tensor, (C, H, W)
        x.
    replacement : float or Tensor
        b: a number, (C, H, W), or what broadcasts to it, such as a pixel (C, 1, 1).
    readout : callable
        The explained output, (..., K) -> (...), of the model's outputs, which come in float64 on the
        CPU. So a softmax belongs here, where it is not rounded to float32, and not into the model.
    precision : float
        Largest standard error that is good enough, in units of the output; positive.
    most : int
        Permutations to draw at most, pilot included; at least 4, two pairs.
    seed : int
        Seed for the permutations, 0 to 2^64 - 1.

    Returns
    -------
    SampledShapley
        On the CPU. Where `most` is too small for the precision, `reached` is false.

    Raises
    ------
    AttributionLabError
        For settings out of range, what `trajectories` refuses, and a readout that does not return a
        finite number in float64 for each row of outputs.

    Examples
    --------
    >>> import attributionlab as al
    >>> from attributionlab.worlds.truth import sampled_shapley
    >>> env = al.load("multi-color-sum", image_size=24)
    >>> images, labels = env.batch(1)
    >>> found = sampled_shapley(
    ...     env.model, images[0], 0, lambda outputs: outputs[..., 0], precision=0.5
    ... )
    >>> found.reached, found.values.shape
    (True, torch.Size([1, 24, 24]))
    >>> black, shown = env.model(images * 0)[0, 0], env.model(images)[0, 0]
    >>> abs(float(found.values.sum() - (shown - black).detach())) < 1e-9
    True
    """
    start, end = checked_pair(image[None], replacement, *kind_of(model))
    players = _Players(model, start[0], end[0], readout, torch.Generator().manual_seed(int(seed)))
    sample = _Sample(players.n)
    if players.n:
        sample.draw(_enough(players, float(precision), most // 2), players)
    return SampledShapley(
        players.on_pixels(sample.mean),
        players.on_pixels(sample.standard_errors),
        2 * sample.pairs,
        sample.largest_error <= precision,
    )


@checked_arguments
def marginal_contributions(
    outputs: Float64[Tensor, "draws steps"], orders: Int[Tensor, "draws players"]
) -> Float64[Tensor, "draws players"]:
    """Marginal contribution of each player when it leaves, for each order.

    Parameters
    ----------
    outputs : Tensor of float64, (D, n + 1)
        With all n players, and after each that left.
    orders : Tensor of int64, (D, n)
        In which they leave: permutations of 0 to n - 1.

    Returns
    -------
    Tensor of float64, (D, n)
        By player. The mean over random orders estimates the Shapley values.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.worlds.truth import marginal_contributions
    >>> outputs = torch.tensor([[5.0, 4.0, 0.0]], dtype=torch.float64)
    >>> marginal_contributions(outputs, torch.tensor([[1, 0]])).tolist()
    [[4.0, 1.0]]
    """
    losses = outputs[:, :-1] - outputs[:, 1:]
    return torch.empty_like(losses).scatter_(1, orders, losses)


def _enough(players: "_Players", precision: float, most: int) -> int:
    """How many of at most so many pairs to average, according to a pilot."""
    if most < 4 * PILOT:
        return most
    pilot = _Sample(players.n)
    pilot.draw(PILOT, players)
    while True:
        ratio = pilot.largest_error / precision
        margin = 1 + 2 * math.sqrt(2 / pilot.pairs)
        wanted = pilot.pairs * ratio * ratio * margin
        enough = math.ceil(min(max(wanted, PILOT), most - pilot.pairs))
        if enough <= PILOT_SHARE * pilot.pairs:
            return enough
        pilot.draw(pilot.pairs, players)


class _Players:
    """Pixels that differ from their replacement, and random orders in which they leave.

    `model`, `image`, `replacement`, `readout`: as for `sampled_shapley`, the tensors in the model's
    numbers. `generator`: source of the orders.
    """

    def __init__(
        self,
        model: nn.Module,
        image: Tensor,
        replacement: Tensor,
        readout: Callable[[Tensor], Tensor],
        generator: torch.Generator,
    ) -> None:
        self.model, self.image, self.replacement = model, image, replacement
        self.readout, self.generator = readout, generator
        differ = (image != replacement).any(0).flatten().cpu()
        self.shape = image.shape[1:]
        self.pixels, self.others = differ.nonzero()[:, 0], (~differ).nonzero()[:, 0]
        self.n = len(self.pixels)
        # Those that change nothing leave last, where nobody asks what the model says.
        first = torch.cat([self.pixels, self.others])[None, None]
        outputs = trajectories(model, image[None], replacement[None], first, counts=[0])
        self._explained(outputs)
        self.pairs_at_once = max(
            1, NUMBERS_AT_ONCE // (2 * max(len(first[0, 0]), self.n * outputs.shape[-1]))
        )

    def contributions(self, pairs: int) -> Float64[Tensor, "pairs players"]:
        """Each player's contribution to the output, in the mean of an order and its reverse."""
        orders = torch.stack(
            [torch.randperm(self.n, generator=self.generator, device="cpu") for _ in range(pairs)]
        )
        orders = torch.cat([orders, orders.flip(1)])
        leaving = torch.cat([self.pixels[orders], self.others.expand(2 * pairs, -1)], 1)
        outputs = trajectories(
            self.model,
            self.image[None],
            self.replacement[None],
            leaving[None],
            counts=range(self.n + 1),
        )
        there, back = marginal_contributions(self._explained(outputs[0]), orders).chunk(2)
        return (there + back) / 2

    def on_pixels(self, values: Float64[Tensor, " players"]) -> Float64[Tensor, "1 height width"]:
        """Values of the players, and 0 for all other pixels."""
        image = torch.zeros(self.shape.numel(), dtype=torch.float64, device="cpu")
        image[self.pixels] = values
        return image.reshape(1, *self.shape)

    def _explained(self, outputs: Tensor) -> Tensor:
        rows = outputs.cpu().double()
        explained: Any = self.readout(rows)
        if (
            not isinstance(explained, Tensor)
            or explained.shape != rows.shape[:-1]
            or explained.dtype != torch.float64
        ):
            raise AttributionLabError(
                f"the readout returns {shown(explained)} for {shown(rows)}: return float64 without "
                "the last axis, one number for each row of outputs"
            )
        if not explained.isfinite().all():
            raise AttributionLabError(
                f"the readout returns {float(explained[~explained.isfinite()][0])} for some outputs: "
                "explain one that is finite for every mixture of image and replacement"
            )
        return explained


class _Sample:
    """Pairs of orders: their number, and by player the mean and the sum of squared deviations."""

    def __init__(self, players: int) -> None:
        self.pairs = 0
        self.scale = 1.0
        self._mean = torch.zeros(players, dtype=torch.float64, device="cpu")
        self.squares = torch.zeros(players, dtype=torch.float64, device="cpu")

    def draw(self, pairs: int, players: _Players) -> None:
        """Add so many pairs."""
        while pairs:
            some = players.contributions(min(pairs, players.pairs_at_once))
            if not self.pairs:
                # Squares of very small or large numbers leave float64's range; a power of two is exact.
                self.scale = 2.0 ** (math.frexp(float(some.abs().max()))[1] - 1)
            some /= self.scale
            mean = some.mean(0)
            gap, total = mean - self._mean, self.pairs + len(some)
            self.squares += (some - mean).square().sum(0)
            self.squares += gap.square() * (self.pairs * len(some) / total)
            self._mean += gap * (len(some) / total)
            self.pairs, pairs = total, pairs - len(some)

    @property
    def mean(self) -> Float64[Tensor, " players"]:
        """Mean over the pairs."""
        return self._mean * self.scale

    @property
    def standard_errors(self) -> Float64[Tensor, " players"]:
        """Standard error of the mean; 0 where there is nothing to draw."""
        return (self.squares / max(1, (self.pairs - 1) * self.pairs)).sqrt() * self.scale

    @property
    def largest_error(self) -> float:
        return float(self.standard_errors.max()) if len(self.mean) else 0.0
