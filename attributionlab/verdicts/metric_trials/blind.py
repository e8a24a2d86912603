"""Controls that run beside every tested metric: how well they rank attributions is no merit.

Those that never look at the model show what a panel gives away. Their swap contrast is exactly zero, so
each is *blind* when it is tested itself. One looks at a single pixel of each map and shows what the
least look at a network gains.
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


@metric(higher_is_better=True, per_sample=True)
def one_pixel(
    model: Any, images: Images, targets: Tensor, attributions: Maps, *, replacement: Tensor
) -> Scores:
    """What the output loses when the pixel of the highest attribution is replaced, the first of equals.

    All images of a call are the same one, as in a trial.
    """
    best, which = torch.unique(attributions.flatten(1).argmax(1), return_inverse=True)
    changed = images[:1].repeat(len(best), 1, 1, 1).flatten(2)
    rows = torch.arange(len(best), device=images.device)
    changed[rows, :, best] = replacement.to(images).flatten(1)[:, best].T
    with torch.no_grad():
        before, after = (
            model(each)[:, targets[0]].double()
            for each in (images[:1], changed.view(-1, *images.shape[1:]))
        )
    scores: Tensor = (before - after)[which]
    return scores


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
CONTROLS: Mapping[str, Any] = {
    **{f"{name} (blind)": function for name, function in BLIND.items()},
    "one-pixel": one_pixel,
}
"""All controls, by the name that a report shows."""
