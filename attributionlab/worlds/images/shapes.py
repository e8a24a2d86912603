"""Patch shapes: each function draws one random mask of at most `diameter` pixels a side.

A shape is an outline in the plane, scaled so that the longer side of its bounding box is `diameter`
pixels long; a pixel belongs to the patch if its center lies inside the outline. The mask is cropped
to its bounding box, and a shape too small to hold any pixel center becomes a single pixel.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from skimage.draw import disk, polygon

from attributionlab.base import Side, checked_arguments

Mask = NDArray[np.bool_]
Outline = NDArray[np.float64]

# Anchors of a Bezier patch: their number, how far each strays from even spacing (in spacings), and
# the range of their radii. Fewer or wilder anchors give spikes, more give a wrinkled rim.
ANCHORS = (5, 8)
STRAY = 0.2
RADII = (0.5, 1.0)

# Straight pieces per Bezier segment: they then stay within 0.25 % of the diameter of the curve
# (measured over 3,000 outlines), which is 0.14 pixels for the largest default patch at 224.
PIECES = 12
_T = np.arange(PIECES) / PIECES
# (PIECES, 4): the cubic Bernstein polynomials at t = 0, 1/12, ..., 11/12.
BERNSTEIN = np.stack([(1 - _T) ** 3, 3 * (1 - _T) ** 2 * _T, 3 * (1 - _T) * _T**2, _T**3], axis=1)

# Smallest arc between two corners of a triangle, in degrees; the sharpest angle is half of it.
LEAST_ARC = 80.0


@checked_arguments
def bezier(rng: np.random.Generator, diameter: Side) -> Mask:
    r"""Draw a closed smooth blob bounded by cubic Bezier segments.

    The curve passes through n anchors, n uniform on 5..8, drawn around the origin:

    .. math:: P_k = r_k (\sin \theta_k, \cos \theta_k), \qquad
              \theta_k = 2 \pi (k + s_k) / n + \theta_0,

    with radius r_k uniform on [1/2, 1], stray s_k uniform on [-0.2, 0.2] and a uniform rotation
    theta_0. Segment k runs from P_k to P_{k+1} (indices modulo n):

    .. math:: B_k(t) = (1-t)^3 P_k + 3 (1-t)^2 t\, Q_k + 3 (1-t) t^2 R_k + t^3 P_{k+1},

    .. math:: Q_k = P_k + (P_{k+1} - P_{k-1}) / 6, \qquad R_k = P_{k+1} - (P_{k+2} - P_k) / 6.

    Neighboring segments share their first derivative at the anchor, (P_{k+1} - P_{k-1}) / 2, so the
    outline has no corner.

    The paper (section F.1) bounds its patches by Bezier curves and does not say which; this
    construction is our choice. The handles are those of a Catmull-Rom spline.

    Parameters
    ----------
    rng : numpy.random.Generator
        The source of the shape.
    diameter : int
        Longer side of the outline's bounding box in pixels, at least 1.

    Returns
    -------
    ndarray of bool, shape (h, w)
        The mask, 1 <= h, w <= `diameter`; its first and last rows and columns are not empty.

    Examples
    --------
    >>> import numpy as np
    >>> mask = bezier(np.random.default_rng(0), 20)
    >>> max(mask.shape) <= 20
    True
    """
    least, most = ANCHORS
    count = int(rng.integers(least, most, endpoint=True))
    stray, radius, turn = np.split(rng.random(2 * count + 1), [count, 2 * count])
    angle = 2 * np.pi * ((np.arange(count) + STRAY * (2 * stray - 1)) / count + turn)
    radius = RADII[0] + (RADII[1] - RADII[0]) * radius
    anchor = radius[:, None] * np.stack([np.sin(angle), np.cos(angle)], axis=1)  # (n, 2)
    after = np.roll(anchor, -1, axis=0)
    handle = (after - np.roll(anchor, 1, axis=0)) / 6
    control = np.stack([anchor, anchor + handle, after - np.roll(handle, -1, axis=0), after], 1)
    outline = BERNSTEIN @ control  # (PIECES, 4) @ (n, 4, 2) -> (n, PIECES, 2)
    return _fill(outline.reshape(-1, 2), diameter)


@checked_arguments
def triangle(rng: np.random.Generator, diameter: Side) -> Mask:
    """Draw a triangle of random form and orientation, with no angle under 40 degrees.

    Its corners lie on a circle and cut it into three arcs 80 + 120 x_i degrees long, where
    (x_1, x_2, x_3) divides 1 uniformly; an inscribed angle is half of its arc. Parameters and
    return value are those of `bezier`.
    """
    first, second, turn = rng.random(3)
    low, high = min(first, second), max(first, second)
    spare = 360 - 3 * LEAST_ARC
    corner = np.array([0.0, LEAST_ARC + spare * low, 2 * LEAST_ARC + spare * high])
    return _fill(_on_circle(corner / 360 + turn), diameter)


@checked_arguments
def square(rng: np.random.Generator, diameter: Side) -> Mask:
    """Draw a square in a random orientation.

    `diameter` is the side of its upright bounding box, so its own side is between
    diameter / sqrt(2) and diameter. Parameters and return value are those of `bezier`.
    """
    return _fill(_on_circle(np.arange(4) / 4 + rng.random()), diameter)


@checked_arguments
def circle(rng: np.random.Generator, diameter: Side) -> Mask:
    """Draw a disk: the one shape with nothing to vary but its size.

    `rng` is not used; it is there because all shapes are called alike. Parameters and return value
    are those of `bezier`.
    """
    mask = np.zeros((diameter, diameter), dtype=np.bool_)
    center = (diameter - 1) / 2
    # scikit-image has no annotations, here and below.
    pixels = disk((center, center), diameter / 2, shape=mask.shape)  # type: ignore[no-untyped-call]
    mask[pixels] = True
    return mask


def _on_circle(turns: NDArray[np.float64]) -> Outline:
    """Points on the unit circle, their angles in full turns."""
    angle = 2 * np.pi * turns
    return np.stack([np.sin(angle), np.cos(angle)], axis=1)


def _fill(outline: Outline, diameter: int) -> Mask:
    """Scale a closed outline (V, 2) to `diameter` pixels and mark the pixel centers inside it."""
    low, high = outline.min(axis=0), outline.max(axis=0)
    scale = diameter / (high - low).max()
    # The outline starts at -1/2, where the first pixel starts. Centered in the mask instead, the
    # longest side of most triangles would run through the center of the middle pixel, and rounding
    # errors would decide whether that pixel belongs to the patch.
    rows, columns = ((outline - low) * scale - 1 / 2).T
    mask = np.zeros((diameter, diameter), dtype=np.bool_)
    mask[polygon(rows, columns, shape=mask.shape)] = True  # type: ignore[no-untyped-call]
    filled_rows, filled_columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if filled_rows.size == 0:
        return np.ones((1, 1), dtype=np.bool_)
    return mask[
        filled_rows[0] : filled_rows[-1] + 1, filled_columns[0] : filled_columns[-1] + 1
    ].copy()


SHAPES: dict[str, Callable[[np.random.Generator, int], Mask]] = {
    "bezier": bezier,
    "triangle": triangle,
    "square": square,
    "circle": circle,
}

# Side of an upright square that surely fits into the shape, as a share of its diameter: a mask
# holds a block of floor(share * diameter) pixels a side. An inscribed disk of diameter e holds an
# upright square of side e / sqrt(2).
# circle: e = d.
# square: its side s >= d / sqrt(2), and e = s.
# triangle: e = 2 R (cos A + cos B + cos C - 1) >= 2 R * 0.358 for angles of at least 40 degrees
#   (at 40, 40, 100), and d <= 2 R.
# bezier: a segment lies in the hull of its control points. Along the bisector of its two anchors,
#   at most 1.4 * 72 degrees apart, an anchor is at least 0.5 cos(50.4 deg) = 0.318 from the origin,
#   a handle's end farther still, so e >= 0.637; no control point is farther than
#   1 + 2 / 6, so d <= 8 / 3.
LEAST_SIDE = {"bezier": 1 / 6, "triangle": 1 / 4, "square": 1 / 2, "circle": 1 / 2**0.5}
