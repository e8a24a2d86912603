"""Table 3 of Li et al. (2024): attribution taken from maps and added to them, in three ways."""

from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from attributionlab.base import AttributionLabError

Scheme = Literal["constant", "random", "partial"]
Direction = Literal["remove", "introduce"]
SCHEMES: tuple[Scheme, ...] = get_args(Scheme)

SHIFT = 0.6
"""What is taken or added at most, in units of the value range of maps, [0, 1]."""
EMPTIED = (0.6, 0.8)
"""Ranks, as shares of all pixels from the least attributed on, that "partial" sets to 0."""
LIFTED, QUANTILE = 0.4, 0.8
"""Share of pixels, the least attributed ones, that "partial" lifts to a quantile of the map."""

Maps = Float[Tensor, "batch 1 height width"]


def modified(
    maps: Maps,
    scheme: Scheme,
    direction: Direction,
    generator: torch.Generator | None = None,
    *,
    clip: bool = True,
) -> Maps:
    """Take attribution from maps in [0, 1], or add it (Li et al., 2024, appendix G.3).

    "constant" shifts all pixels by 0.6; "random" each by its own number from U(0, 0.6), drawn by
    the generator; "partial" sets pixels of ranks 0.6 to 0.8 (ascending) to 0, or those of ranks 0
    to 0.4 to the map's 0.8 quantile. Of equal values those that come first rank lower; quantiles
    are interpolated linearly. `clip` clamps to [0, 1] afterwards: the paper does not say so, but
    neither its metrics nor the 8 bits of its code have room for other values. Without it shifting
    by a constant leaves the order of pixels as it is; with it pixels become equal.
    """
    if not bool(((maps >= 0) & (maps <= 1)).all()):
        raise AttributionLabError(
            f"maps reach from {float(maps.min()):g} to {float(maps.max()):g}: pass maps in [0, 1], "
            "divided by their maximum for example"
        )
    sign = 1 if direction == "introduce" else -1
    if scheme == "constant":
        changed = maps + sign * SHIFT
    elif scheme == "random":
        if generator is None:
            raise AttributionLabError(
                "random shifts need a generator: pass torch.Generator().manual_seed(0), for example"
            )
        drawn = torch.rand(maps.shape, generator=generator, dtype=torch.float64).to(maps)
        changed = maps + sign * SHIFT * drawn
    elif direction == "remove":
        changed = _at_ranks(maps, EMPTIED, torch.zeros(len(maps), 1).to(maps))
    else:
        changed = _at_ranks(maps, (0, LIFTED), _quantile(maps, QUANTILE))
    return changed.clamp(0, 1) if clip else changed


def _at_ranks(maps: Tensor, shares: tuple[float, float], values: Tensor) -> Tensor:
    """Maps with a value (B, 1) in place of those whose ranks lie between two shares of all."""
    flat = maps.flatten(1)
    first, last = (round(share * flat.shape[1]) for share in shares)
    chosen = flat.argsort(dim=1, stable=True)[:, first:last]
    return flat.scatter(1, chosen, values.expand(-1, last - first)).view(maps.shape)


def _quantile(maps: Tensor, share: float) -> Tensor:
    """(B, 1); torch.quantile refuses more than 2^24 values."""
    ranked = maps.flatten(1).sort(1).values
    place = share * (ranked.shape[1] - 1)
    below = int(place)
    above = min(below + 1, ranked.shape[1] - 1)
    return torch.lerp(ranked[:, below], ranked[:, above], place - below)[:, None]
