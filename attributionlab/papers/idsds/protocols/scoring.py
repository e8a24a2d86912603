"""Many maps of one image scored by the same deletions, and the scores of many images together."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float64, Int64
from numpy.typing import NDArray
from torch import Tensor, nn

from attributionlab.metrics import judged_by_drops
from attributionlab.metrics.curves import outputs_along
from attributionlab.metrics.incremental_deletion import step_counts
from attributionlab.metrics.orders import removal_order

Numbers = NDArray[np.float64]
Maps = Float[Tensor, "maps 1 height width"]


class Scored(NamedTuple):
    """What a protocol says of a method's maps of one network's images.

    Parameters
    ----------
    place : str
        Images and networks.
    network : int
        Which of the networks there.
    protocol, method : str
        Names of `protocols.names`.
    values : array, (images,)
        NaN for images that no map can be judged on.
    constant_maps : int
        Images whose map says nothing: all patches have the same sum. They score 0.
    """

    place: str
    network: int
    protocol: str
    method: str
    values: Numbers
    constant_maps: int


def rank_scores(
    drops: Float64[Tensor, "rows patches"], sums: Float64[Tensor, "rows patches"]
) -> tuple[Numbers, NDArray[np.bool_]]:
    """`attributionlab.metrics.judged_by_drops`: scores, and where a map's sums are all equal."""
    found = judged_by_drops(sums, drops)
    return found.scores.numpy(), found.constant_maps.numpy()


def fixed_ids(
    model: nn.Module,
    images: Float[Tensor, "1 channels height width"],
    targets: Int64[Tensor, " 1"],
    maps: Maps,
    replacement: Tensor,
    steps: int,
) -> Numbers:
    """`attributionlab.metrics.ids` of many maps of one image, whose orders are evaluated together."""
    orders = removal_order(maps, order="lerf")
    curves = outputs_along(
        model,
        images,
        targets,
        orders[None],
        replacement=replacement,
        counts=step_counts(orders.shape[1], steps),
    )
    means: Numbers = curves[0].double().mean(1).numpy()
    return means


def by_method(
    place: str,
    protocol: str,
    names: Sequence[str],
    columns: Sequence[tuple[Numbers, NDArray[np.bool_]]],
    network: int = 0,
) -> list[Scored]:
    """Scores of images (each (maps,)) as records of methods."""
    values = np.stack([scores for scores, _ in columns], 1)
    constant = np.stack([flags for _, flags in columns], 1).sum(1)
    return [
        Scored(place, network, protocol, method, values[index], int(constant[index]))
        for index, method in enumerate(names)
    ]
