"""Trials of Figure 6 of Li et al. (2024): modify all maps at random, and measure both properties."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from attributionlab.metrics.completeness_curves import THRESHOLDS
from attributionlab.papers.soco.gaussian.rows import (
    GaussianRows,
    completeness_of,
    gaussian_rows,
    soundness_of,
)
from attributionlab.papers.soco.modified_maps import Direction, modified

LEVELS = (0.2, 0.4, 0.6, 0.8)
SILENT = 0.5
"""Share of silent features in the control."""

Maps = NDArray[np.float64]


class Modification(NamedTuple):
    """How much is modified.

    Parameters
    ----------
    share : float
        Of the attributed features that Remove sets to 0, and of the features without information
        that Introduce gives attribution to.
    strength : float
        Introduced attributions are drawn from U(0, strength), in units of the map's largest value.
    """

    share: float
    strength: float


Modify = Callable[[GaussianRows, Direction, Modification, np.random.Generator], Maps]


class Reading(NamedTuple):
    """One reading of "randomly add and remove attribution"."""

    meaning: str
    modify: Modify
    silent: float = 0.0

    def rows(self, n: int, size: int, seed: int) -> GaussianRows:
        """Its data."""
        return gaussian_rows(n, size, seed, silent=self.silent)


def single_features(
    rows: GaussianRows,
    direction: Direction,
    how: Modification,
    generator: np.random.Generator,
) -> Maps:
    """Attribution taken from some attributed features, or given to some without information."""
    return _at_features(rows, direction, how, generator, rows.truth == 0)


def silent_features(
    rows: GaussianRows,
    direction: Direction,
    how: Modification,
    generator: np.random.Generator,
) -> Maps:
    """The same, but attribution is given to features that the model does not read."""
    return _at_features(rows, direction, how, generator, rows.weights == 0)


def random_shifts(
    rows: GaussianRows,
    direction: Direction,
    how: Modification,
    generator: np.random.Generator,
) -> Maps:
    """The scheme "random" of Table 3 on every feature; the others of that table are not random."""
    drawing = torch.Generator().manual_seed(int(generator.integers(2**63)))
    maps = torch.from_numpy(rows.truth)[:, None, None]
    return np.asarray(modified(maps, "random", direction, drawing)[:, 0, 0].numpy())


def _at_features(
    rows: GaussianRows,
    direction: Direction,
    how: Modification,
    generator: np.random.Generator,
    empty: NDArray[np.bool_],
) -> Maps:
    chosen = generator.random(rows.truth.shape) < how.share
    if direction == "remove":
        return np.where(chosen, 0.0, rows.truth)
    given = generator.uniform(0, how.strength, rows.truth.shape)
    return np.where(chosen & empty, given, rows.truth)


READINGS: Mapping[str, Reading] = {
    "features": Reading("single features, as section 5.1 says", single_features),
    "shifts": Reading("random shifts of all features, as in Table 3", random_shifts),
    "silent": Reading(
        "control: half of the features are silent, and Introduce gives to these alone",
        silent_features,
        SILENT,
    ),
}
"""Readings of the paper's sentence by name, and a control on other data."""


def trial_rows(
    reading: Reading, rows: GaussianRows, how: Modification, seed: int, trial: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Pairs of "soundness" or "completeness" and a row of its table, of one trial.

    The ground truth is not modified: it has rows in trial 0 only.
    """
    generator = np.random.default_rng((seed, trial))
    maps = {} if trial else {"ground truth": rows.truth}
    maps["Remove"] = reading.modify(rows, "remove", how, generator)
    maps["Introduce"] = reading.modify(rows, "introduce", how, generator)
    for name, of_name in maps.items():
        keys = {"attribution": name, "trial": trial}
        for reached in soundness_of(rows, of_name, LEVELS):
            yield "soundness", keys | reached._asdict()
        for completed in completeness_of(rows, of_name, THRESHOLDS):
            yield "completeness", keys | completed._asdict()
