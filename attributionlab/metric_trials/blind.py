"""Metrics that never look at the model: how well they rank attributions is what a panel gives away.

They run beside every tested metric. Their swap contrast is exactly zero, so each is *blind* when it is
tested itself.
"""

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attributionlab.metrics import metric

Images = Float[Tensor, "batch channels height width"]
Maps = Float[Tensor, "batch 1 height width"]
Scores = Float[Tensor, " batch"]


@metric(higher_is_better=True, per_sample=True)
def foreground_share(
    model: object, images: Images, targets: Tensor, attributions: Maps, *, replacement: Tensor
) -> Scores:
    """Share of the attribution, without signs, on pixels that differ from the replacement."""
    return _share(attributions, (images != replacement).any(1, keepdim=True))


@metric(higher_is_better=True, per_sample=True)
def edge_share(model: object, images: Images, targets: Tensor, attributions: Maps) -> Scores:
    """Share of the attribution, without signs, on pixels that differ from a neighbor."""
    edges = torch.zeros_like(attributions, dtype=torch.bool)
    down = (images[:, :, 1:] != images[:, :, :-1]).any(1, keepdim=True)
    across = (images[..., 1:] != images[..., :-1]).any(1, keepdim=True)
    for sides, differ in (
        ((edges[:, :, 1:], edges[:, :, :-1]), down),
        ((edges[..., 1:], edges[..., :-1]), across),
    ):
        for side in sides:
            side |= differ
    return _share(attributions, edges)


@metric(higher_is_better=True, per_sample=True)
def sparsity(attributions: Maps) -> Scores:
    r"""Gini index of the attribution, without signs, as in Chalasani et al. (2020).

    .. math:: G = \sum_i (2 i - P - 1) |a|_{(i)} / (P \sum_i |a|_{(i)})

    for P values in rising order: 0 where all are equal, (P - 1) / P where all but one are 0.
    """
    values = attributions.flatten(1).double().abs().sort(1).values
    pixels = values.shape[1]
    places = 2 * torch.arange(1, pixels + 1, dtype=torch.float64).to(values.device) - pixels - 1
    whole = values.sum(1)
    return (values * places).sum(1) / (pixels * torch.where(whole > 0, whole, 1))


def _share(attributions: Maps, there: Tensor) -> Scores:
    sizes = attributions.double().abs()
    whole = sizes.sum((1, 2, 3))
    return (sizes * there).sum((1, 2, 3)) / torch.where(whole > 0, whole, 1)


BLIND: Mapping[str, Any] = {
    "foreground-share": foreground_share,
    "edge-share": edge_share,
    "sparsity": sparsity,
}
"""By name; `attributionlab metric` takes these names, too."""
