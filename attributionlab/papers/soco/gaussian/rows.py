"""The validation data of Li et al. (2024), appendix G.1: rows of Gaussian features and a linear model.

A thousand trials modify all maps. The metrics for images take more than twenty times as long as these
algorithms for rows of features, and give the same numbers.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from attributionlab.imputation import noisy_linear_1d

Rows = NDArray[np.float64]
Masks = NDArray[np.bool_]

NOISE = 0.01
"""Standard deviation of what is added to imputed features, in units of the features'."""
RATIOS = tuple(percent / 100 for percent in range(98, -1, -1))
"""Masked shares of the soundness schedule: appendix E begins with 0.98."""


class GaussianRows(NamedTuple):
    """Rows of independent standard normal features, labelled by the sign of a weighted sum.

    Parameters
    ----------
    features, noise : ndarray, (N, D)
        The data, and what is added to features that are imputed.
    weights : ndarray, (D,)
        1 where the model reads a feature, 0 where it does not.
    signs : ndarray, (N,)
        1 where the weighted sum is positive, else -1.
    contributions : ndarray, (N, D)
        Shapley values for the label (baseline 0, the features' mean).
    truth : ndarray, (N, D)
        Their positive parts, in units of the row's largest.
    noise_sums : ndarray, (N, D + 1)
        Of the first j products of weight and noise.
    """

    features: Rows
    noise: Rows
    weights: Rows
    signs: Rows
    contributions: Rows
    truth: Rows
    noise_sums: Rows

    @property
    def images(self) -> Tensor:
        """(N, 1, 1, D)"""
        return torch.from_numpy(self.features)[:, None, None]

    @property
    def targets(self) -> Tensor:
        """Label 1 for a positive sum, else 0."""
        return torch.from_numpy((self.signs > 0).astype(np.int64))

    def model(self) -> nn.Module:
        """Images (B, 1, 1, D) to two outputs, of which the sum's sign makes one the largest."""
        linear = nn.Linear(len(self.weights), 2, bias=False).double()
        weights = torch.from_numpy(self.weights)
        linear.weight = nn.Parameter(torch.stack([-weights, weights]), requires_grad=False)
        return nn.Sequential(nn.Flatten(), linear).eval()

    def imputation(self, images: Tensor, keep: Tensor) -> Tensor:
        """Interpolation between kept features of all rows and noise, for `attributionlab.metrics`."""
        features, kept = images[:, 0, 0], keep[:, 0, 0]
        linear = noisy_linear_1d(features, kept, noise=0)
        return torch.where(kept, features, linear + torch.from_numpy(self.noise))[:, None, None]

    def accuracy(self, keep: Masks) -> float:
        """Of the model where only some features are kept; an empty row is 0 and right by half."""
        from attributionlab.papers.soco.gaussian.loops import imputed_sums

        margins = self.signs * imputed_sums(self.features, self.noise_sums, self.weights, keep)
        return float(((margins > 0) + 0.5 * (margins == 0)).mean())


def gaussian_rows(n: int, size: int, seed: int, *, silent: float = 0.0) -> GaussianRows:
    """The data set of appendix G.1.

    Parameters
    ----------
    n, size : int
        Rows, and features of each.
    seed : int
        Of features, noise, and which are silent.
    silent : float
        Share of the features that the model does not read. In the paper it reads all.
    """
    generator = np.random.default_rng(seed)
    features, noise = generator.standard_normal((2, n, size))
    weights = np.ones(size)
    weights[generator.permutation(size)[: round(silent * size)]] = 0
    signs = np.where(features @ weights > 0, 1.0, -1.0)
    contributions = features * weights * signs[:, None]
    truth = np.maximum(contributions, 0)
    truth /= truth.max(1, keepdims=True)
    noise *= NOISE
    noise_sums = np.pad((noise * weights).cumsum(1), ((0, 0), (1, 0)))
    return GaussianRows(features, noise, weights, signs, contributions, truth, noise_sums)


class Reached(NamedTuple):
    """Where Algorithm 1 first reached a level; without a row for a level, it did not."""

    level: float
    ratio: float
    """masked share of the features"""
    performance: float
    jumped: bool
    """passed by more than epsilon"""
    soundness: float
    true: float
    """Definition 4.8 of the included features, predictive: those that speak for the label"""
    true_of_all: float
    """the same, predictive: all features that the model reads"""


def soundness_of(
    rows: GaussianRows, maps: Rows, levels: Sequence[float], epsilon: float = 0.01
) -> Iterator[Reached]:
    """Algorithm 1 at rising levels, by accuracy.

    Parameters
    ----------
    rows : GaussianRows
        The data.
    maps : ndarray, (N, D)
        Attributions, at least 0; of equal ones the first come first.
    levels : sequence of float
        Rising.
    epsilon : float
        Least rise of the accuracy that shows information.
    """
    size = maps.shape[1]
    order = np.argsort(-maps, axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(size)[None], axis=1)
    # Of the first k features in that order, (N, D + 1)
    totals = np.pad(np.take_along_axis(maps, order, axis=1).cumsum(1), ((0, 0), (1, 0)))
    attributed = (maps > 0).sum(1)
    before, included = 0.0, np.zeros(len(maps))
    sound = np.zeros(len(maps))
    todo = list(levels)
    for ratio in RATIOS:
        counts = np.minimum(size - round(ratio * size), attributed)[:, None]
        keep = rank < counts
        performance = rows.accuracy(keep)
        total = np.take_along_axis(totals, counts, axis=1)[:, 0]
        if performance - before >= epsilon:
            sound += total - included
        before, included = performance, total
        while todo and performance >= todo[0]:
            level = todo.pop(0)
            jumped = performance - level > epsilon
            within = np.where(keep, maps, 0.0)
            parts = (sound, *((within * each).sum(1) for each in _predictive(rows)))
            found = (_mean_ratio(part, total) for part in parts)
            yield Reached(level, ratio, performance, jumped, *found)
        if not todo:
            return


class Completed(NamedTuple):
    """Algorithm 2 at one threshold."""

    threshold: float
    difference: float
    """of the accuracy before and after"""
    true: float
    """Definition 4.9 of the features above the threshold, predictive: those that speak for the label"""
    true_of_all: float
    """the same, predictive: all features that the model reads, by the size of their contribution"""


def completeness_of(
    rows: GaussianRows, maps: Rows, thresholds: Sequence[float]
) -> Iterator[Completed]:
    """Algorithm 2, by accuracy; thresholds are in units of the truth's largest value in each row."""
    intact = rows.accuracy(np.ones(maps.shape, dtype=bool))
    information = (rows.truth, np.abs(rows.contributions))
    for threshold in thresholds:
        removed = maps > threshold
        true = (_mean_ratio((each * removed).sum(1), each.sum(1)) for each in information)
        yield Completed(threshold, intact - rows.accuracy(~removed), *true)


def _predictive(rows: GaussianRows) -> tuple[Masks, Masks]:
    """By the truth's sign, and by whether the model reads a feature at all."""
    return rows.truth > 0, np.broadcast_to(rows.weights > 0, rows.truth.shape)


def _mean_ratio(parts: Rows, wholes: Rows) -> float:
    """Over the rows whose whole is not 0."""
    known = wholes != 0
    return float((parts[known] / wholes[known]).mean()) if known.any() else float("nan")
