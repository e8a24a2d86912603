"""How values vary over pixels of one color: smooth, by chance, or in the pattern of the first kernel.

Equal pixels of an image, of one color, have equal truths. Where a method gives them unequal values, it
matters how: noise differs from pixel to pixel; what comes from the first convolution, whose kernels are
three pixels wide and meet without overlap, recurs every three pixels.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Float, Int, Int8
from torch import Tensor
from torch.nn import functional

STRIDE = 3
"""Width and stride of every environment's first convolution, in pixels."""


class Texture(NamedTuple):
    """How values vary over equal pixels."""

    unevenness: float
    """Variance of relevant pixels within a color, over their mean square, in [0, 1]."""
    recurrence: float
    """Correlation of relevant pixels of one color that lie three pixels apart; 0 where it is no
    larger than chance."""
    smoothness: float
    """As `recurrence`, of neighbors."""
    background_level: float
    """Mean magnitude on the background far from all patches over that on relevant pixels."""
    background_reach: float
    """Mean magnitude on the background far from all patches over that on the background near them:
    about 1 where the background as such gets attribution, less where it leaks out of patches."""
    background_recurrence: float
    """As `recurrence`, of the background far from all patches."""
    background_smoothness: float
    """As `smoothness`, of the background far from all patches."""


def texture_of(
    maps: Float[Tensor, "batch 1 height width"],
    signed: Int8[Tensor, "batch 1 height width"],
    images: Float[Tensor, "batch channels height width"],
    patches: Int[Tensor, "batch height width"],
) -> Texture:
    """How values vary over the relevant pixels of one color, and over the background.

    Background is near where a patch lies within a 16th of the image's side, and far where none lies
    within an eighth.
    """
    side, inside = maps.shape[-1], (patches > 0)[:, None]
    near = grown(inside, max(1, side // 16)) & ~inside
    far = ~grown(inside, max(2, side // 8))
    relevant = signed != 0
    colors = color_codes(images)
    values = maps.double()
    within = torch.zeros_like(values)
    for image, color, where, left in zip(values, colors, relevant, within, strict=True):
        present, index = torch.unique(color[where], return_inverse=True)
        count = torch.bincount(index, minlength=len(present))
        means = torch.zeros(len(present), dtype=torch.float64).index_add(0, index, image[where])
        left[where] = image[where] - (means / count)[index]
    at_far = torch.where(far, values, 0.0)
    mean = at_far.sum((1, 2, 3), keepdim=True) / far.sum((1, 2, 3), keepdim=True).clamp(min=1)
    ripple = torch.where(far, values - mean, 0.0)
    same_color, background = torch.where(relevant, colors, -1), far.long() - 1
    level = _mean(values.abs(), far)
    return Texture(
        _ratio(within.square().sum(), values[relevant].square().sum()),
        _correlation(within, same_color, STRIDE),
        _correlation(within, same_color, 1),
        _ratio(level, _mean(values.abs(), relevant)),
        _ratio(level, _mean(values.abs(), near)),
        _correlation(ripple, background, STRIDE),
        _correlation(ripple, background, 1),
    )


def grown(inside: Tensor, reach: int) -> Tensor:
    """Where something lies within a square of that reach."""
    grown = inside.float()
    for window, padding in (((2 * reach + 1, 1), (reach, 0)), ((1, 2 * reach + 1), (0, reach))):
        grown = functional.max_pool2d(grown, window, 1, padding)
    return grown > 0


def color_codes(images: Tensor) -> Tensor:
    """One number for each color, (B, 1, H, W)."""
    code = torch.zeros_like(images[:, :1], dtype=torch.int64)
    for channel in images.long().unbind(1):
        code = 256 * code + channel[:, None]
    return code


def apart(lag: int, *maps: Tensor) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """Of each map the values of any two pixels that lie a lag apart, along columns and along rows."""
    for axis in (2, 3):
        length = maps[0].shape[axis] - lag
        yield [(each.narrow(axis, 0, length), each.narrow(axis, lag, length)) for each in maps]


def _correlation(residuals: Tensor, labels: Tensor, lag: int) -> float:
    """Correlation of pixels of one label that lie a lag apart; labels of -1 are left out."""
    products = squares = pairs = 0.0
    for (one, other), (label, beside) in apart(lag, residuals, labels):
        same = (label == beside) & (label >= 0)
        products += float((one * other * same).sum())
        squares += float(((one.square() + other.square()) / 2 * same).sum())
        pairs += int(same.sum())
    # Beside rounding of float32 maps, in [-1, 1], there must be something.
    r = products / squares if squares > 1e-12 * pairs else 0.0
    # Of independent values r has a standard deviation of 1 / sqrt(pairs).
    return r if abs(r) * pairs**0.5 > 3 else 0.0


def _mean(values: Tensor, where: Tensor) -> Tensor:
    return values[where].mean() if where.any() else values.new_zeros(())


def _ratio(part: Tensor, whole: Tensor) -> float:
    return float(part / whole) if whole > 0 else 0.0
