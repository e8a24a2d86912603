"""Scores of a network's maps, patch by patch: by what deleting a patch changes, and by the data."""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Float64, Int64
from numpy.typing import NDArray
from torch import Tensor, nn

from attributionlab.methods.baselines import Baselines
from attributionlab.metrics import deletion_drops, judged_by_drops, patch_sums
from attributionlab.papers.idsds.maps import panel_maps
from attributionlab.stats.intervals import FEWEST_FOR_ORDER, mean_interval
from attributionlab.validation import Replacement

Images = Float[Tensor, "batch channels height width"]
Labels = Int64[Tensor, " batch"]
Patches = Float64[Tensor, "batch patches"]
Scores = NDArray[np.float64]

LOGIT, PROBABILITY, TRUTH = "logit", "probability", "truth"
OUTPUTS = (LOGIT, PROBABILITY)
"""Of the label: what maps explain, and whose drops they are held against."""


def returning(network: nn.Module, output: str) -> nn.Module:
    """Return the network, or one with a softmax behind it that shares its modules."""
    return network if output == LOGIT else nn.Sequential(network, nn.Softmax(dim=1)).eval()


def references(
    network: nn.Module,
    images: Images,
    labels: Labels,
    truth: Float[Tensor, "batch 1 height width"] | None,
    *,
    outputs: Sequence[str] = OUTPUTS,
    patches: int,
    replacement: Replacement,
) -> dict[str, Patches]:
    """Return what maps can be held against: drops of outputs, and what the data say, if known."""
    found = {
        output: deletion_drops(
            *(returning(network, output), images, labels), patches=patches, replacement=replacement
        )
        for output in outputs
    }
    return found if truth is None else found | {TRUTH: patch_sums(truth.detach().cpu(), patches)}


def panel_scores(
    network: nn.Module,
    images: Images,
    labels: Labels,
    held: Mapping[str, Patches],
    methods: Sequence[str],
    *,
    outputs: Sequence[str] = (LOGIT,),
    patches: int,
    layer: nn.Module | None,
    baselines: Baselines = 0.0,
    seed: int,
    quick: bool,
) -> pd.DataFrame:
    """Explain outputs by the panel's methods and correlate the ranks of each map's patches.

    Returns
    -------
    DataFrame
        A row for each output, method, what its maps are held `against`, and image. `score`: Spearman's
        correlation, NaN where the other side is constant (`constant_drops`), else 0 where the map is
        (`constant_maps`).
    """
    how: dict[str, Any] = {"layer": layer, "baselines": baselines, "seed": seed, "quick": quick}
    parts = []
    for output in outputs:
        maps = panel_maps(returning(network, output), images, labels, methods, **how)
        for (method, of_method), against in product(maps.items(), held):
            sums = patch_sums(of_method.detach().cpu(), patches)
            found = judged_by_drops(sums, held[against])
            columns = {
                "score": found.scores.numpy(),
                "constant_maps": (found.constant_maps & ~found.constant_drops).numpy(),
                "constant_drops": found.scores.isnan().numpy(),
            }
            key = {"output": output, "method": method, "against": against}
            parts.append(pd.DataFrame(key | {"image": range(len(sums))} | columns))
    return pd.concat(parts, ignore_index=True)


def correlations(sums: Patches, reference: Patches) -> Scores:
    """Return Spearman's correlation over the patches of each image, NaN for a constant reference."""
    return np.asarray(judged_by_drops(sums, reference).scores.numpy())


def interval_over_images(values: Scores, seed: int) -> tuple[float, float]:
    """Return the ends of `mean_interval`, NaN with fewer than six images to which a score applies."""
    enough = np.count_nonzero(~np.isnan(values)) >= FEWEST_FOR_ORDER
    return (mean_interval(values, seed) if enough else None) or (math.nan, math.nan)
