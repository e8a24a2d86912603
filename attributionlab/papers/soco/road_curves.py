"""ROAD of one network and one method: its curve on a data set, and the curve's mean height."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from attributionlab.metrics import Retraining, area_under_curve, removal_curve
from attributionlab.metrics.orders import Order, removal_order

Maps = Float[Tensor, "batch 1 height width"]


class RoadCurve(NamedTuple):
    """Accuracy at each fraction of the pixels removed (S,), and `attributionlab.metrics.road`."""

    accuracy: NDArray[np.float64]
    height: float


def road_curve(
    network: nn.Module,
    images: Float[Tensor, "batch channels height width"],
    labels: Int[Tensor, " batch"],
    maps: Maps,
    *,
    fractions: Sequence[float],
    seed: int,
    order: Order = "morf",
    retraining: Retraining | None = None,
) -> RoadCurve:
    """ROAD with its curve from one pass; equal attributions are removed in random order.

    Parameters
    ----------
    network, images, labels, fractions, order, retraining
        As in `attributionlab.metrics.removal_curve`.
    maps : Tensor, (B, 1, H, W)
        Of either sign.
    seed : int
        Of the noise on imputed pixels and of the order among equals.
    """
    if retraining is not None:
        # Not the test images' order among equals: that would be the same place for both.
        retraining = retraining._replace(attributions=untied(retraining.attributions, seed + 1))
    curve = removal_curve(
        *(network, images, labels, untied(maps, seed)),
        order=order,
        fractions=fractions,
        retraining=retraining,
        seed=seed,
    ).mean(0)
    at = torch.tensor(fractions, dtype=torch.float64)
    span = fractions[-1] - fractions[0]
    return RoadCurve(curve.numpy(), float(area_under_curve(curve, at)) / span)


def untied(maps: Maps, seed: int) -> Maps:
    """The ranks of the pixels by attribution, equal ones in random order: 0 is the least.

    A map of zeros and ones has two ranks for a thousand pixels, and reading order would remove those
    at the top of the image first.
    """
    generator = torch.Generator().manual_seed(seed)
    order = removal_order(maps, order="lerf", ties="random", generator=generator)
    return order.argsort(1).view(maps.shape).double()
