r"""Localization: does the most important lie where the truth is?

Four scores of a map a against a mask G of n pixels (g_j = 1 on it), all in [0, 1], higher is better:

    pointing game            is a pixel with the largest a_j in G, or near it?
    relevance mass accuracy  sum a_j g_j / sum a_j, for a_j >= 0
    relevance rank accuracy  share of G among the n pixels with the largest a_j
    top-k intersection       share of G among the k pixels with the largest a_j

Ties are broken at random on average: the score is its expectation over all orders of equal values. A
constant map scores the mask's share of the image everywhere. An image whose mask is empty is "not
applicable": NaN. Where objects are annotated by boxes instead of outlines, `bounding_boxes` makes them.
"""

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Real
from scipy.ndimage import distance_transform_edt
from torch import Tensor

from attributionlab.base import (
    AttributionLabError,
    NotNegative,
    Share,
    checked_arguments,
    integer_problem,
    refuse_if,
)
from attributionlab.metrics.checked_inputs import checked_maps, pixels_of_share
from attributionlab.metrics.marking import metric

Maps = Real[Tensor, "batch 1 height width"]
Masks = Bool[Tensor, "batch 1 height width"]
Scores = Float[Tensor, " batch"]


@metric(
    higher_is_better=True, per_sample=True, unit="place", invariances=("scale", "shift", "missing")
)
@checked_arguments
def pointing_game(attributions: Maps, truth: Masks, *, tolerance: NotNegative = 0.0) -> Scores:
    """Whether the largest attribution lies on the truth; parameters of `relevance_rank_accuracy`.

    If several pixels share the maximum: the share of them that hits.

    Source: Zhang, Bargal, Lin, Brandt, Shen and Sclaroff (2018): Top-down neural attention by
    excitation backprop. International Journal of Computer Vision 126.

    Parameters
    ----------
    tolerance : float
        Distance in pixels (Euclidean, between centers of pixels) up to which a pixel beside the truth
        hits. 0 by default: only the truth itself. It compensates for maps that were upsampled (15
        pixels for photographs in Zhang et al., 2018). The distance is that to the nearest pixel of the
        truth; Wang and Wang (2022, appendix C) print the maximum over the truth, by which no pixel
        could hit an object larger than the tolerance.

    Raises
    ------
    AttributionLabError
        Also for a tolerance that is negative or not finite.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import pointing_game
    >>> truth = torch.tensor([[[[True, False, True]]]])
    >>> pointing_game(torch.tensor([[[[3.0, 2.0, 1.0]]]]), truth)
    tensor([1.], dtype=torch.float64)
    >>> pointing_game(torch.tensor([[[[3.0, 3.0, 1.0]]]]), truth)
    tensor([0.5000], dtype=torch.float64)
    >>> pointing_game(torch.tensor([[[[3.0, 3.0, 1.0]]]]), truth, tolerance=1)
    tensor([1.], dtype=torch.float64)
    """
    values, mask = _checked(attributions, truth)
    # No two pixels are as far apart as this sum.
    distance = float(min(tolerance, sum(truth.shape[2:])))
    near = _widened(truth, distance).flatten(1) if tolerance else mask
    highest = values == values.amax(1, keepdim=True)
    share = (highest & near).sum(1).double() / highest.sum(1)
    return torch.where(mask.any(1), share, torch.nan)


@checked_arguments
def bounding_boxes(masks: Masks, *, margin: int = 0) -> Masks:
    """The smallest box around each mask, edges parallel to the image's.

    Source: Wang and Wang (2022): A unified study of machine learning explanation evaluation metrics.

    Parameters
    ----------
    masks : Tensor of bool, (B, 1, H, W)
        Such as `images > 0` for digits on an empty background.
    margin : int
        Pixels by which the box is wider on each side, within the image; narrower if negative. 0: the
        box ends with the mask's outermost pixels. This is the area strictly within the boxes of Wang
        and Wang (2022, appendix D), whose edges are drawn on the pixels next to the outermost ones;
        with these edges, it is 1. Of boxes drawn on the outermost pixels, the area strictly within is
        -1.

    Returns
    -------
    Tensor of bool, (B, 1, H, W)
        Empty for an empty mask, and for one that a negative margin leaves nothing of.

    Raises
    ------
    AttributionLabError
        For an invalid mask, and a margin that is not an integer.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics.localization import bounding_boxes
    >>> corners = torch.tensor([[[[0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]]]).bool()
    >>> bounding_boxes(corners).int()[0, 0]
    tensor([[0, 0, 0, 0],
            [0, 1, 1, 0],
            [0, 1, 1, 0]], dtype=torch.int32)
    """
    refuse_if(integer_problem("margin", margin, -max(masks.shape[2:])))
    boxes = torch.zeros_like(masks)
    for mask, box in zip(masks[:, 0], boxes[:, 0], strict=True):
        rows, columns = mask.any(1).nonzero()[:, 0], mask.any(0).nonzero()[:, 0]
        if len(rows):
            top, left = (max(0, int(line[0]) - margin) for line in (rows, columns))
            bottom, right = (max(0, int(line[-1]) + 1 + margin) for line in (rows, columns))
            box[top:bottom, left:right] = True
    return boxes


@metric(
    higher_is_better=True,
    per_sample=True,
    maps="nonnegative",
    unit="place",
    invariances=("scale", "missing"),
)
@checked_arguments
def relevance_mass_accuracy(attributions: Maps, truth: Masks) -> Scores:
    """Share of the attribution that lies on the truth; parameters of `relevance_rank_accuracy`.

    For maps without negative values; choose the part of a signed map by `magnitudes(attributions,
    "overall")` or `"positive"`. A map of zeros scores 0. Zhou et al. (2022) call it Attr%, with the
    manipulated pixels of a data set as the mask.

    Source: Arras, Osman and Samek (2022): CLEVR-XAI: a benchmark dataset for the ground truth
    evaluation of neural network explanations. Information Fusion 81. Zhou, Booth, Ribeiro and Shah
    (2022): Do feature attribution methods correctly attribute features? AAAI.

    Raises
    ------
    AttributionLabError
        For negative attributions, too.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import relevance_mass_accuracy
    >>> truth = torch.tensor([[[[True, False, True]]]])
    >>> relevance_mass_accuracy(torch.tensor([[[[2.0, 1.0, 1.0]]]]), truth)
    tensor([0.7500], dtype=torch.float64)
    """
    values, mask = _checked(attributions, truth)
    lowest = float(values.amin())
    if lowest < 0:
        raise AttributionLabError(
            f"attributions have the value {lowest:g}: a mass must be nonnegative; pass "
            "magnitudes(attributions, 'overall') or magnitudes(attributions, 'positive')"
        )
    total = values.sum(1)
    share = (values * mask).sum(1) / torch.where(total > 0, total, 1)
    return torch.where(mask.any(1), share, torch.nan)


@metric(higher_is_better=True, per_sample=True, unit="place", invariances=("scale", "shift"))
@checked_arguments
def relevance_rank_accuracy(attributions: Maps, truth: Masks) -> Scores:
    """Share of the truth's n pixels among the n pixels with the largest attributions.

    If equal values straddle the n-th rank, they share the remaining ranks equally.

    Source: Arras, Osman and Samek (2022), as for `relevance_mass_accuracy`.

    Parameters
    ----------
    attributions : Tensor, (B, 1, H, W)
        On any scale; ranked with their signs.
    truth : Tensor of bool, (B, 1, H, W)
        The mask: `env.truth(...).overall`, for instance.

    Returns
    -------
    Tensor of float64, (B,)
        In [0, 1]; NaN for an image whose mask is empty.

    Raises
    ------
    AttributionLabError
        For attributions with NaN, a mask that is not of type bool, has several channels or no pixel,
        and shapes that differ.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import relevance_rank_accuracy
    >>> truth = torch.tensor([[[[True, False, True, False]]]])
    >>> relevance_rank_accuracy(torch.tensor([[[[4.0, 3.0, 2.0, 1.0]]]]), truth)
    tensor([0.5000], dtype=torch.float64)
    """
    values, mask = _checked(attributions, truth)
    return _share_of_first(values, mask, mask.sum(1))


@metric(
    higher_is_better=True, per_sample=True, unit="place", invariances=("scale", "shift", "missing")
)
@checked_arguments
def top_k_intersection(attributions: Maps, truth: Masks, *, share: Share = 0.1) -> Scores:
    """Share of the k pixels with the largest attributions that lie on the truth.

    Parameters, ties and errors of `relevance_rank_accuracy`, which has k = n.

    Quantus 0.6.0 has k itself, 1000 by default, and an option that multiplies the score by P / n.

    Source: Theiner, Mueller-Budack and Ewerth (2022): Interpretable semantic photo geolocation. WACV.

    Parameters
    ----------
    share : float
        k as a share of the P pixels, above 0 and at most 1: k = round(share P), at least 1. If k is
        above n, the score is below 1 for every map.
    """
    values, mask = _checked(attributions, truth)
    k = pixels_of_share(share, values.shape[1])
    shares = _share_of_first(values, mask, torch.full((len(mask),), k, device=mask.device))
    return torch.where(mask.any(1), shares, torch.nan)


def _share_of_first(
    values: Float[Tensor, "batch pixels"],
    mask: Bool[Tensor, "batch pixels"],
    first: Int[Tensor, " batch"],
) -> Scores:
    """Expected share of the mask among so many of the largest values; NaN for none."""
    places = (first - 1).clamp(min=0)[:, None]
    last = values.sort(dim=1, descending=True).values.gather(1, places)
    above, equal = values > last, values == last
    left = first - above.sum(1)
    hits = (above & mask).sum(1) + left * (equal & mask).sum(1).double() / equal.sum(1)
    return torch.where(first > 0, hits / first.clamp(min=1), torch.nan)


def _checked(
    attributions: Tensor, truth: Tensor
) -> tuple[Float[Tensor, "batch pixels"], Bool[Tensor, "batch pixels"]]:
    batch, _, height, width = truth.shape
    return checked_maps(attributions, (batch, 1, height, width)), truth.flatten(1)


def _widened(masks: Tensor, distance: float) -> Tensor:
    """Pixels no farther than a distance from the nearest one of each mask; of an empty one, none."""
    # A root of an integer, correctly rounded: a distance that equals the tolerance is not lost.
    wider = [
        distance_transform_edt(~mask) <= distance if mask.any() else mask
        for mask in masks[:, 0].cpu().numpy()
    ]
    return torch.from_numpy(np.stack(wider))[:, None].to(masks.device)
