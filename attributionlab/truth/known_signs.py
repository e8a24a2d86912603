"""Computed values whose exact signs are known, and bounds of their errors that do not hide them."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["UNDERFLOW", "with_signs"]

Numbers = NDArray[np.float64]

UNDERFLOW = 2.0**-1021
"""Twice the smallest normal number: more than what all roundings below that number may add up to."""


def with_signs(
    values: Numbers, errors: Numbers, signs: NDArray[np.int64]
) -> tuple[Numbers, Numbers]:
    """Values whose signs are known where a sign is not 0, and bounds that leave no doubt of it.

    Where the error alone would leave the sign open, the exact value is between 0, exclusive, and the
    far end of what the error allows. The middle of that is off by less than itself.
    """
    unclear = (abs(values) <= errors) & (signs != 0)
    middle = (signs * values + errors) / 2
    below = np.nextafter(middle, 0.0)
    return np.where(unclear, signs * middle, values), np.where(unclear, below, errors)
