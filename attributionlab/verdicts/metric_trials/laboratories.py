"""Networks of 8 x 8 pixels, or more, on which the exact map is known by hand."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor, nn

SIDE, IMAGES = 8, 4
PIXELS = SIDE * SIDE
SIGNED = 20
"""Of 64 pixels those with a positive weight, and those with a negative one; all others have none."""
STRONGER = 4
"""By how much positive weights are larger where the output rises with the whole image."""
GRID = 16
"""Images and weights are multiples of 1 / 16: each sum of products is exact in float32. Of more than
100 x 100 pixels it is off by some 2^-24 of itself, as any network's is."""
OFFSET = 8.0
EMPTY = "meta"
"""Where layers are made: elsewhere they draw initial weights from torch's global random state."""


@dataclass(frozen=True, eq=False)
class Linear:
    """A linear network: pixel i changes the output by w_i (x_i - b_i), whatever else is there.

    Parameters
    ----------
    weights : Tensor, (2, P)
        Of both outputs.
    pixels : Tensor, (B, P)
        The images.
    target : int
        The explained output.
    background : float
        b, one number for all pixels.
    offset : float
        Added to both outputs.
    dtype, device
        Of everything.
    last : class, optional
        A last layer: `torch.nn.Softmax` or `torch.nn.LogSoftmax`.
    """

    weights: Float64[Tensor, "2 pixels"]
    pixels: Float64[Tensor, "batch pixels"]
    target: int = 0
    background: float = 0.0
    offset: float = OFFSET
    dtype: torch.dtype = torch.float32
    device: str = "cpu"
    last: type[nn.Module] | None = None

    @property
    def model(self) -> nn.Module:
        outputs, pixels = self.weights.shape
        layer = nn.Linear(pixels, outputs, device=EMPTY).to_empty(device="cpu")
        with torch.no_grad():
            layer.weight.copy_(self.weights)
            layer.bias.fill_(self.offset)
        layers = [nn.Flatten(), layer, *([self.last(1)] if self.last else [])]
        return nn.Sequential(*layers).to(self.device, self.dtype).eval()

    @property
    def side(self) -> int:
        return math.isqrt(self.weights.shape[1])

    @property
    def images(self) -> Float[Tensor, "batch 1 side side"]:
        return self._maps(self.pixels)

    @property
    def targets(self) -> Int[Tensor, " batch"]:
        return torch.full((len(self.pixels),), self.target, device=self.device)

    @property
    def replacement(self) -> Float[Tensor, "1 side side"]:
        shape = 1, self.side, self.side
        return torch.full(shape, self.background, dtype=self.dtype, device=self.device)

    @property
    def values(self) -> Float[Tensor, "batch 1 side side"]:
        """Exact Shapley values of the game "present or replaced"."""
        return self._maps(self.weights[self.target] * (self.pixels - self.background))

    @property
    def gradients(self) -> Float[Tensor, "batch 1 side side"]:
        """w, for each image."""
        return self._maps(self.weights[self.target].expand(self.pixels.shape))

    def _maps(self, rows: Tensor) -> Tensor:
        return rows.reshape(-1, 1, self.side, self.side).to(self.device, self.dtype)


def linear(seed: int, *, rising: bool, side: int = SIDE) -> Linear:
    """A linear laboratory of images of this side, 8 at least; where it is `rising`, every output rises
    from the replacement to the image: positive weights are larger, and what does not rise all the same
    is drawn again.
    """
    drawn = np.random.default_rng([seed, int(rising)])
    number = side * side
    signed = SIGNED * number // PIXELS
    sizes = 1 + np.arange(signed) % SIGNED / GRID
    row_of_values = (1 + np.arange(number) % PIXELS) / GRID
    while True:
        pixels = drawn.permuted(np.tile(row_of_values, (IMAGES, 1)), axis=1)
        weights = np.zeros((2, number))
        for row in weights:
            places = drawn.permutation(number)
            row[places[:signed]] = sizes * (STRONGER if rising else 1)
            row[places[signed : 2 * signed]] = -sizes
        # Before a flipped network, and with 1 in place of 0, too: checks ask about these.
        changes = [(pixels - b) @ w.T for b in (0, 1) for w in (weights, weights[:, ::-1])]
        if not rising or min(each.min() for each in changes) > 0:
            return Linear(torch.from_numpy(weights), torch.from_numpy(pixels))


@dataclass(frozen=True, eq=False)
class Counted:
    """Background 0, and as many pixels of value 1 as of value 2: a network that counts them.

    Outputs are the numbers (a, b) of pixels of value 1 and 2 ("count"), or (min(a, b), b)
    ("conjunction"). With r = ReLU, a pixel x in {0, 1, 2} counts for a by r(x) - 2 r(x - 1) and for b
    by r(x - 1), and min(a, b) = r(a) - r(a - b).

    *Shapley values.* Of a: 1 for each of its pixels, since it is their sum. Of min(a, b) with n pixels
    of either kind: exchanging the kinds leaves the game as it is, so all 2 n pixels have the same value
    (symmetry), together n (efficiency): 1/2 each. The background is a null player.
    """

    kinds: Int[Tensor, "batch pixels"]
    rule: Literal["count", "conjunction"]

    @property
    def model(self) -> nn.Module:
        pixel = nn.Conv2d(1, 2, 1, device=EMPTY)
        sums, last = nn.Linear(2 * PIXELS, 3, device=EMPTY), nn.Linear(3, 2, device=EMPTY)
        for layer in (pixel, sums, last):
            layer.to_empty(device="cpu")
        one = torch.ones(PIXELS)
        with torch.no_grad():
            pixel.weight.fill_(1)
            pixel.bias.copy_(torch.tensor([0.0, -1.0]))  # type: ignore[union-attr]
            # a, b and a - b
            rows = [torch.cat([p * one, q * one]) for p, q in ((1, -2), (0, 1), (1, -3))]
            sums.weight.copy_(torch.stack(rows))
            sums.bias.zero_()
            both = float(self.rule == "conjunction")
            last.weight.copy_(torch.tensor([[1, 0, -both], [0, 1, 0]]))
            last.bias.zero_()
        return nn.Sequential(pixel, nn.ReLU(), nn.Flatten(), sums, nn.ReLU(), last).eval()

    @property
    def images(self) -> Float[Tensor, "batch 1 side side"]:
        return self.kinds.reshape(-1, 1, SIDE, SIDE).float()

    @property
    def targets(self) -> Int[Tensor, " batch"]:
        return torch.zeros(len(self.kinds), dtype=torch.int64)

    @property
    def replacement(self) -> Float[Tensor, "1 side side"]:
        return torch.zeros(1, SIDE, SIDE)

    @property
    def values(self) -> Float[Tensor, "batch 1 side side"]:
        return (self.images == 1).float() if self.rule == "count" else (self.images > 0) / 2


Laboratory = Linear | Counted
"""A network, images of one channel, and by how much each pixel changes the explained output."""


def counted(seed: int, rule: Literal["count", "conjunction"]) -> Counted:
    """Images with 12 pixels of either value at random places."""
    drawn = np.random.default_rng([seed, 2])
    row = np.repeat([1, 2, 0], [12, 12, PIXELS - 24])
    return Counted(torch.from_numpy(drawn.permuted(np.tile(row, (IMAGES, 1)), axis=1)), rule)
