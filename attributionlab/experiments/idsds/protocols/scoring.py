"""Many maps of one image scored by the same deletions, and the scores of many images together."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from numpy.typing import NDArray
from torch import Tensor, nn

from attributionlab.metrics import grid_patches, single_deletion
from attributionlab.metrics.curves import outputs_along
from attributionlab.metrics.orders import removal_order
from attributionlab.metrics.patches import Patches
from attributionlab.ranking import centered_ranks, row_correlations

__all__ = ["Scored", "by_method", "cell_sums", "drops_of", "fixed_ids", "patch_sums", "rank_scores"]

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


def patch_sums(
    maps: Maps, labels: Int64[Tensor, "height width"]
) -> Float64[Tensor, "maps patches"]:
    """The sum of each map over each patch; pixels with a negative label lie in none.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.experiments.idsds.protocols.scoring import patch_sums
    >>> maps = torch.tensor([[[[1.0, 2.0, 4.0]]]])
    >>> patch_sums(maps, torch.tensor([[0, 1, 1]]))
    tensor([[1., 6.]], dtype=torch.float64)
    """
    inside = labels.flatten() == torch.arange(int(labels.max()) + 1)[:, None]
    return torch.stack([maps.flatten(1).double()[:, patch].sum(1) for patch in inside], 1)


def cell_sums(maps: Maps, patches: int = 16) -> Float64[Tensor, "maps patches"]:
    """`patch_sums` over the cells of a square grid."""
    height, width = maps.shape[2:]
    return patch_sums(maps, grid_patches(height, width, patches))


def drops_of(
    model: nn.Module,
    images: Float[Tensor, "batch channels height width"],
    targets: Int64[Tensor, " batch"],
    patches: Patches,
    replacement: Tensor,
) -> Float64[Tensor, "batch patches"]:
    """What each patch's deletion costs the output: `attributionlab.metrics.single_deletion`."""
    nothing = torch.zeros_like(images[:, :1])  # drops do not depend on a map
    return single_deletion(
        model, images, targets, nothing, patches=patches, replacement=replacement
    ).drops


def rank_scores(
    drops: Float64[Tensor, "rows patches"], sums: Float64[Tensor, "rows patches"]
) -> tuple[Numbers, NDArray[np.bool_]]:
    """Spearman's correlation of drops and sums in each row, and where the sums are constant.

    Returns
    -------
    scores : array, (rows,)
        0 where all sums are equal, NaN where all drops are.
    constant : array of bool, (rows,)

    Examples
    --------
    >>> import torch
    >>> from attributionlab.experiments.idsds.protocols.scoring import rank_scores
    >>> drops = torch.tensor([[1.0, 2.0, 4.0], [1.0, 2.0, 4.0]], dtype=torch.float64)
    >>> sums = torch.tensor([[3.0, 6.0, 5.0], [7.0, 7.0, 7.0]], dtype=torch.float64)
    >>> scores, constant = rank_scores(drops, sums)
    >>> scores.round(1), constant
    (array([0.5, 0. ]), array([False,  True]))
    """
    constant = (sums.amax(1) == sums.amin(1)).numpy()
    undecided = (drops.amax(1) == drops.amin(1)).numpy()
    scores = row_correlations(centered_ranks(sums.numpy()), centered_ranks(drops.numpy()))
    scores = np.where(undecided, np.nan, np.where(constant, 0.0, scores))
    return scores, constant


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
    pixels = orders.shape[1]
    curves = outputs_along(
        model,
        images,
        targets,
        orders[None],
        replacement=replacement,
        counts=[step * pixels // steps for step in range(steps)],
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
