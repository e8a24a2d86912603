"""The loop over rows of features, compiled by numba when first called and kept in its cache."""

import numpy as np
from numpy.typing import NDArray

from attributionlab.compiling import compiled

Rows = NDArray[np.float64]


@compiled
def imputed_sums(features: Rows, noise_sums: Rows, weights: Rows, keep: NDArray[np.bool_]) -> Rows:
    r"""Weighted sums of rows whose removed features are interpolated between kept ones.

    As `attributionlab.imputation.noisy_linear_1d` has it: linear between the nearest kept features, the
    nearest one's value beyond the ends, and noise. Between kept features p < q the sum is

    .. math:: \sum_{p<j<q} w_j \left(x_p + \frac{j - p}{q - p} (x_q - x_p) + \epsilon_j\right),

    so that sums of :math:`w_j`, :math:`j w_j` and :math:`w_j \epsilon_j` over all j up to a place
    suffice.

    Parameters
    ----------
    features : ndarray, (N, D)
        Rows x.
    noise_sums : ndarray, (N, D + 1)
        Of the first j products of weight and noise.
    weights : ndarray, (D,)
        w.
    keep : ndarray of bool, (N, D)
        False where a feature is removed.

    Returns
    -------
    ndarray, (N,)
        0 where nothing is kept.
    """
    rows, size = features.shape
    sums = np.zeros(rows)
    weight_sums, place_sums = np.zeros(size + 1), np.zeros(size + 1)
    for j in range(size):
        weight_sums[j + 1] = weight_sums[j] + weights[j]
        place_sums[j + 1] = place_sums[j] + j * weights[j]
    for row in range(rows):
        last, total = -1, 0.0  # the kept feature before
        value = 0.0
        for here in range(size):
            if keep[row, here]:
                before, value = value, features[row, here]
                total += weights[here] * value
                if here > last + 1:
                    weight = weight_sums[here] - weight_sums[last + 1]
                    if last < 0:
                        total += value * weight
                    else:
                        places = place_sums[here] - place_sums[last + 1] - last * weight
                        total += before * weight + (value - before) / (here - last) * places
                    total += noise_sums[row, here] - noise_sums[row, last + 1]
                last = here
        if last >= 0:
            total += value * (weight_sums[size] - weight_sums[last + 1])
            total += noise_sums[row, size] - noise_sums[row, last + 1]
        sums[row] = total
    return sums
