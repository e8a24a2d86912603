r"""Color detectors without kinks at the colors that images show: a plane for each color, and its blend
with random features.

Number checkers answer one exact number, with a kink at every relevant pixel and exact zeros beside it.
Trained networks do not: their answers change gradually between colors, and colors that do not count
have small derivatives too. The detectors here equal the number checkers, bit for bit, on every pixel
of the palette :math:`p_1, \dots, p_K` (colors) and :math:`p_0` (background), and differ elsewhere.
Where a color has shades, warmer and cooler values, the detectors do not see how warm a pixel is.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from attributionlab.base import AttributionLabError, Numbers, grid_step
from attributionlab.worlds.nets.exactness import Signal, stage_budget
from attributionlab.worlds.nets.stage import Stage

Palette = tuple[tuple[int, ...], ...]
"""The colors, each with a channel, and the background as the last."""

MARGIN = 1.0
"""A plane is 1 at its own color and, before rounding, at most minus this at all others."""
PLANE_GRID = 2.0**-14
"""Weights of planes. An integer color times a weight below 1 is then exact in float32."""
FEATURE_GRID = 2.0**-10
"""Weights and offsets of random features."""
READOUT_GRIDS = tuple(2.0**-power for power in (10, 9, 8, 7, 6))
"""Weights by which random features are read out; the finest with which sums stay exact."""
FEATURES = 16
BLEND = 0.3
"""Share of the random features in the answer at colors outside the palette."""
ALL_WEIGHTS = np.eye(3)
NO_WARMTH = np.array([[1.0, -1.0, 0.0], [0.0, 0.0, 1.0]])
"""A basis of the weights whose red and green add up to 0: all shades of a color have one value."""
WARMTH = ", warmth apart, which planes of colors with shades do not see"
SPREAD = 0.01
"""Standard deviation of the weights of random features: colors differ by about a hundred."""


class Part(NamedTuple):
    """One layer of a detector.

    `stage`: its weights. `has_relu`: whether a ReLU follows; none does behind a readout. `signal`: what
    leaves it where a pixel has a color of the palette.
    """

    stage: Stage
    has_relu: bool
    signal: Signal


@lru_cache(maxsize=256)
def plane_weights(palette: Palette, has_shades: bool = False) -> tuple[Numbers, Numbers]:
    r"""The planes of a palette.

    .. math::
        w_k = \arg\min |w|^2 \ \text{subject to}\ w \cdot (p_k - p_j) \ge 2 \ \text{for all}\ j \ne k,
        \qquad b_k = 1 - w_k \cdot p_k

    rounded to multiples of 2^-14. :math:`ReLU(w_k \cdot x + b_k)` is then 1 at :math:`p_k` and 0, with
    room, at every other color of the palette.

    - `palette`: K colors, then the background.
    - `has_shades`: whether a color has warmer and cooler values too: then red and green of each
      :math:`w_k` add up to 0, and the plane is equal at all of them.

    Result: weights (K, 3) and offsets (K,). Raises AttributionLabError if a color is a mixture of
    others, that is no vertex of the palette's convex hull, or too close to one: no plane tells it from
    them.
    """
    points = np.array(palette, dtype=np.float64)
    weights, offsets = [], []
    for index, point in enumerate(points[:-1]):
        weight = _least_weight(point - np.delete(points, index, 0), has_shades)
        offset = 1 - weight @ point
        others = np.delete(points, index, 0) @ weight + offset
        if not (others.max() <= -MARGIN / 2 and np.abs(weight).max() < 1):
            raise AttributionLabError(
                f"color {palette[index]} cannot be separated by one plane from {list(palette)}: "
                f"it is a mixture of other colors or too close to one{WARMTH * has_shades}; take "
                "implementation 'paper', or colors that are farther apart"
            )
        weights.append(weight)
        offsets.append(offset)
    return np.stack(weights), np.array(offsets)


def _least_weight(differences: Numbers, has_shades: bool) -> Numbers:
    """The shortest w with w d >= 1 + margin for all rows d, on the grid of planes."""
    basis = NO_WARMTH if has_shades else ALL_WEIGHTS
    rows = differences @ basis.T / 100  # of size about 1, for the solver
    inner = basis @ basis.T
    found = minimize(
        lambda w: w @ inner @ w,
        rows.mean(0),
        jac=lambda w: 2 * inner @ w,
        method="SLSQP",
        constraints=[
            {"type": "ineq", "fun": lambda w: rows @ w - 1 - MARGIN, "jac": lambda w: rows}
        ],
        options={"maxiter": 500, "ftol": 1e-12},
    )
    # Integer sums of multiples of the grid: red and green that add up to 0 still do.
    weight: Numbers = np.round(found.x / 100 / PLANE_GRID) * PLANE_GRID @ basis
    return weight


def planes(palette: Palette, has_shades: bool = False) -> list[Part]:
    """One plane for each color: 3 -> K."""
    weights, offsets = map(torch.from_numpy, plane_weights(palette, has_shades))
    return _parts([Stage(weights.float(), offsets.float())], _pixels(palette))


def blend(palette: Palette, seed: int, has_shades: bool = False) -> list[Part]:
    r"""Planes and random features: 3 -> K + F -> K.

    .. math::
        \phi_f(x) &= ReLU(v_f \cdot x + c_f) \\
        C_k(x) &= \sum_j M_{kj}\, ReLU(w_j \cdot x + b_j)
            + s\, \sum_f A_{kf}\, (\phi_f(x) - \phi_f(p_0))

    v and c are random; A is the matrix of least norm with which the features alone tell the colors of
    the palette apart, rounded to multiples of 2^-10, or of the finest coarser grid within the exactness
    budget. At color :math:`p_j` the planes are one-hot, so

    .. math:: M_{kj} = 1_{k = j} - s\, \sum_f A_{kf}\, (\phi_f(p_j) - \phi_f(p_0))

    makes the whole exactly one-hot on the palette, whatever the rounding of A was. s = 0.3.

    - `palette`: K colors, then the background. `seed`: of the features. `has_shades`: as in
      `plane_weights`; red and green of each feature add up to 0, too.

    Result: the second stage has no ReLU behind it; its values are negative at some other colors. Raises
    AttributionLabError as `plane_weights`. Where no grid keeps the budget, the coarsest is left for the
    network's own check to refuse.
    """
    weights, offsets = map(torch.from_numpy, plane_weights(palette, has_shades))
    pixels = _pixels(palette)
    features, starts = _random_features(pixels, seed, has_shades)
    seen = torch.relu(pixels @ features.T + starts)  # (K + 1, F)
    told = seen[:-1] - seen[-1]
    # The least norm: told has K rows and more columns.
    readout = torch.linalg.lstsq(told, torch.eye(len(told)).double(), driver="gelsd").solution.T
    first = Stage(torch.cat([weights, features]).float(), torch.cat([offsets, starts]).float())
    [shown] = _parts([first], pixels)
    for grid in READOUT_GRIDS:
        rounded = _rounded(BLEND * readout, grid)
        of_planes = torch.eye(len(told)).double() - (told @ rounded.T).T
        second = Stage(torch.cat([of_planes, rounded], 1).float(), -(rounded @ seen[-1]).float())
        with suppress(AttributionLabError):  # features that hardly tell two colors apart
            stage_budget("readout", second, shown.signal)
            break
    return _parts([first, second], pixels)


def _random_features(pixels: Tensor, seed: int, has_shades: bool) -> tuple[Tensor, Tensor]:
    """Weights (F, 3) and offsets (F,), on their grid; the kinks lie about the palette."""
    drawn = torch.Generator().manual_seed(seed)
    weights = torch.randn(FEATURES, 3, generator=drawn).double() * SPREAD
    if has_shades:
        weights[:, 1] = -weights[:, 0]
    weights = _rounded(weights, FEATURE_GRID)
    offsets = torch.randn(FEATURES, generator=drawn).double() - weights @ pixels.mean(0)
    return weights, _rounded(offsets, FEATURE_GRID)


def _rounded(values: Tensor, grid: float) -> Tensor:
    return torch.round(values / grid) * grid


def _pixels(palette: Palette) -> Tensor:
    return torch.tensor(palette).double()


def _parts(stages: Sequence[Stage], pixels: Tensor) -> list[Part]:
    """Layers with their signals, for each pixel of the palette; a ReLU follows the first."""
    parts, values = list[Part](), pixels
    for index, stage in enumerate(stages):
        has_relu = index == 0
        values = values @ stage.weight.double().T + stage.bias.double()
        values = values.clamp(min=0) if has_relu else values
        parts.append(Part(stage, has_relu, Signal(values.amax(0), grid_step(values).amin(0))))
    return parts
