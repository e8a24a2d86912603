"""How far two curves are apart."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import directed_hausdorff

from attributionlab.base import AttributionLabError


def hausdorff(first: Any, second: Any) -> float:
    r"""Hausdorff distance of two curves, each given by its points: where they are farthest apart.

    .. math:: \max\{\max_a \min_b \|a - b\|, \; \max_b \min_a \|a - b\|\}

    Source: Hausdorff (1914): Grundzüge der Mengenlehre.

    Parameters
    ----------
    first, second : array of real numbers, (points, dimensions)
        Such as (x, y) of a curve, at least one point each. Distances are Euclidean: scale the axes so
        that they can be compared.

    Returns
    -------
    float
        0 where both have the same points; 1 at most for curves in a unit square whose x agree.

    Raises
    ------
    AttributionLabError
        For what are no finite points, and different dimensions.

    Examples
    --------
    >>> from attributionlab.metrics.ranking import hausdorff
    >>> hausdorff([[0, 0], [1, 0]], [[0, 0], [1, 0.5]])
    0.5
    """
    one, other = _points("first", first), _points("second", second)
    if one.shape[1] != other.shape[1]:
        raise AttributionLabError(
            f"first has points of {one.shape[1]} coordinates and second of {other.shape[1]}: pass "
            "curves of the same dimension"
        )
    return float(max(directed_hausdorff(one, other)[0], directed_hausdorff(other, one)[0]))


def _points(name: str, values: Any) -> NDArray[np.float64]:
    try:
        given = np.asarray(values)
        if given.dtype.kind not in "biuf":
            raise TypeError
        points = given.astype(np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise AttributionLabError(
            f"{name} has no real numbers: pass an array (points, dimensions), detached and in float64"
        ) from error
    if points.ndim != 2 or not points.size:
        raise AttributionLabError(
            f"{name} has the shape {points.shape}: pass an array (points, dimensions), not empty"
        )
    if not np.isfinite(points).all():
        raise AttributionLabError(
            f"{name} has values that are NaN or infinite: leave these points out"
        )
    return points
