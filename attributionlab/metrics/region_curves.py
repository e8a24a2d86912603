"""Region perturbation, selectivity and IROF: curves on which one region after the other is removed.

With x_l the image without the first l of R regions, in the order of their mean attribution:

    selectivity          area under f(x_l) over l / R from 0 to 1 (trapezoids)
    IROF                 area over f(x_l) / f(x_0), up to 1
    region perturbation  mean of f(x_0) - f(x_l) over l = 0, ..., R

Regions are the cells of a grid, or those of a label map such as superpixels, which tell the three apart
from `deletion` and `pixel_flipping` of single pixels.
"""

import torch
from torch import nn

from attributionlab.base import Replacement, broadcast_replacement, checked_arguments
from attributionlab.metrics.checked_inputs import checked_maps
from attributionlab.metrics.curves import outputs_along
from attributionlab.metrics.marking import metric
from attributionlab.metrics.orders import Order
from attributionlab.metrics.perturbation import Curves, Images, Maps, Scores, Targets
from attributionlab.metrics.single_deletions import Patches, members, patch_sums


@checked_arguments
def region_curve(
    model: nn.Module,
    images: Images,
    targets: Targets,
    attributions: Maps,
    *,
    replacement: Replacement,
    order: Order = "morf",
    patches: Patches = 16,
) -> Curves:
    """The target's output while regions are removed in the order of their mean attribution.

    Parameters
    ----------
    model, images, targets, replacement
        As for `deletion_curve`.
    attributions : Tensor, (B, 1, H, W)
        Signed, of any scale: only the order of their means over regions counts.
    order : {"morf", "lerf"}
        The region with the highest mean first, or that with the lowest; ties by number.
    patches : int or Tensor of int
        The regions: the number of cells of a square grid, or each pixel's region number, from 0, (H, W)
        or (B, 1, H, W). Pixels with a negative number are never removed.

    Returns
    -------
    Tensor of float64, (B, R + 1)
        f(x_0), f(x_1) ... f(x_R), R the number of the image with the most regions; NaN at the end of
        the row of an image that has fewer.

    Raises
    ------
    AttributionLabError
        For what `deletion_curve` refuses, and a grid that does not divide the images.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import region_curve
    >>> total = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 1, bias=False)).eval()
    >>> _ = torch.nn.init.ones_(total[1].weight)
    >>> image, target = torch.tensor([[[[1.0, 0.0], [5.0, 2.0]]]]), torch.tensor([0])
    >>> region_curve(total, image, target, image, replacement=0.0, patches=4)
    tensor([[8., 3., 1., 0., 0.]], dtype=torch.float64)
    """
    maps = checked_maps(attributions, (len(images), 1, images.shape[2], images.shape[3]))
    ends = broadcast_replacement(replacement, images)
    orders, counts = [], []
    for inside, sums in zip(
        members(patches, images), patch_sums(attributions, patches).to(maps.device), strict=True
    ):
        sizes = inside.flatten(1).sum(1)
        there = sizes > 0
        ranked = (sums / sizes)[there].sort(descending=order == "morf", stable=True).indices
        regions = inside[there][ranked].flatten(1)
        rest = ~regions.any(0)  # behind all regions, where no count reaches
        orders.append(torch.cat([each.nonzero()[:, 0] for each in (*regions, rest)]))
        counts.append([0, *regions.sum(1).cumsum(0).tolist()])
    asked = images, targets, torch.stack(orders)[:, None]
    if all(each == counts[0] for each in counts):
        # What equal images have in common is worked out once.
        return outputs_along(model, *asked, replacement=ends, counts=counts[0])[:, 0]
    rows = [
        outputs_along(
            model, *(each[i : i + 1] for each in asked), replacement=ends[i], counts=some
        )[0, 0]
        for i, some in enumerate(counts)
    ]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=torch.nan)


@metric(
    higher_is_better=False, per_sample=True, unit="order", ties="reading order", neighbors="patches"
)
@checked_arguments
def selectivity(
    model: nn.Module,
    images: Images,
    targets: Targets,
    attributions: Maps,
    *,
    replacement: Replacement,
    patches: Patches = 16,
) -> Scores:
    """Area under `region_curve`, with its parameters and errors, over the share of regions removed.

    In units of the output; lower is better.

    Quantus 0.6.0 returns the curve without its first point, and orders regions by their sum.

    Source: Montavon, Samek and Mueller (2018): Methods for interpreting and understanding deep neural
    networks. Digital Signal Processing 73.
    """
    curves = region_curve(
        model, images, targets, attributions, replacement=replacement, patches=patches
    )
    return _area(curves)


@metric(
    higher_is_better=True, per_sample=True, unit="order", ties="reading order", neighbors="patches"
)
@checked_arguments
def region_perturbation(
    model: nn.Module,
    images: Images,
    targets: Targets,
    attributions: Maps,
    *,
    replacement: Replacement,
    patches: Patches = 16,
) -> Scores:
    """Mean drop of the output over `region_curve`, with its parameters and errors (AOPC).

    In units of the output; higher is better, because what matters most is removed first.

    Quantus 0.6.0 returns the drops one by one, orders regions by their sum and states that lower is
    better.

    Source: Samek, Binder, Montavon, Lapuschkin and Mueller (2017): Evaluating the visualization of what
    a deep neural network has learned. IEEE TNNLS 28, eq. 12.
    """
    curves = region_curve(
        model, images, targets, attributions, replacement=replacement, patches=patches
    )
    return (curves[:, :1] - curves).nanmean(1)


@metric(
    higher_is_better=True,
    per_sample=True,
    unit="order",
    ties="reading order",
    neighbors="patches",
    rising=True,
)
@checked_arguments
def irof(
    model: nn.Module,
    images: Images,
    targets: Targets,
    attributions: Maps,
    *,
    replacement: Replacement,
    patches: Patches = 16,
) -> Scores:
    """Area over `region_curve` as a share of its first point; its parameters and errors.

    Iterative removal of features: for the paper's form, pass superpixels as `patches`, their mean color
    as `replacement`, and a model that returns probabilities.

    Quantus 0.6.0 makes the superpixels itself, has steps of length 1 and leaves out the first.

    Source: Rieger and Hansen (2020): IROF: a low resource evaluation metric for explanation methods.
    ICLR workshop AI for Affordable Healthcare.

    Returns
    -------
    Tensor of float64, (B,)
        At most 1 for outputs of at least 0, higher is better; NaN where f(x_0) is 0.
    """
    curves = region_curve(
        model, images, targets, attributions, replacement=replacement, patches=patches
    )
    shares = 1 - _area(curves) / curves[:, 0]
    return torch.where(curves[:, 0] == 0, torch.nan, shares)


def _area(curves: Curves) -> Scores:
    """Trapezoids of equal width up to each curve's last number."""
    return ((curves[:, 1:] + curves[:, :-1]) / 2).nanmean(1)
