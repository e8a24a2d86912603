"""Naive twins of imputations, each reading like its definition."""

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from numpy.typing import NDArray


def equations(
    removed: NDArray[np.bool_],
) -> tuple[scipy.sparse.csc_matrix, scipy.sparse.csc_matrix]:
    """A (n, n) and K (n, H W): removed pixels x solve A x = K k, k being all pixels of the image."""
    height, width = removed.shape
    places = np.flatnonzero(removed)
    number = {place: n for n, place in enumerate(places)}
    a = scipy.sparse.lil_matrix((len(places), len(places)))
    k = scipy.sparse.lil_matrix((len(places), removed.size))
    for n, place in enumerate(places):
        y, x = divmod(int(place), width)
        a[n, n] = 1.0
        for down in (-1, 0, 1):
            for right in (-1, 0, 1):
                if down == right == 0:
                    continue
                weight = 1 / 6 if down == 0 or right == 0 else 1 / 12
                i, j = y + down, x + right
                if not (0 <= i < height and 0 <= j < width):
                    a[n, n] -= weight
                elif removed[i, j]:
                    a[n, number[i * width + j]] = -weight
                else:
                    k[n, i * width + j] = weight
    return a.tocsc(), k.tocsc()


def linear_imputation(
    image: NDArray[np.float64], removed: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """An image (C, H, W) whose removed pixels (H, W) are solved for by a dense factorization."""
    if not removed.any():
        return image.copy()
    a, k = equations(removed)
    filled = image.copy()
    filled[:, removed] = np.linalg.solve(a.toarray(), k @ image.reshape(len(image), -1).T).T
    return filled


def sparse_imputation(
    image: NDArray[np.float64], removed: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """The same, by one sparse factorization for all channels."""
    a, k = equations(removed)
    filled = image.copy()
    right_hand = k @ image.reshape(len(image), -1).T
    filled[:, removed] = scipy.sparse.linalg.spsolve(a, right_hand).reshape(-1, len(image)).T
    return filled


def nearest(color: list[float], known: list[list[float]]) -> list[float]:
    """The first of the known colors that no other is nearer to."""
    return min(known, key=lambda k: sum((a - b) ** 2 for a, b in zip(color, k, strict=True)))
