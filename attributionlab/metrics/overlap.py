r"""Alignment of attributions with a known truth: soft precision, recall and F1.

Source: AttributionLab, section 4 and eq. 17. With attributions a_j in [-1, 1] and truth g_j in [0, 1],

    Pr = sum |a_j g_j| / sum |a_j|,    Re = sum |a_j g_j| / sum |g_j|,    F1 = 2 Pr Re / (Pr + Re).

Conventions: attributions are summed over channels before they come here. A map without any attribution
scores 0. An image without any truth is "not applicable": NaN, to be left out, never 0 or 1.
"""

from typing import Literal, NamedTuple, get_args

import torch
from jaxtyping import Bool, Float, Float64, Int8
from torch import Tensor
from torch.linalg import vecdot

from attributionlab.base import AttributionLabError, checked_arguments
from attributionlab.metrics.marking import metric

Part = Literal["overall", "positive", "negative"]
"""Which attributions are held against which mask: all, without their sign; the positive ones; the
negative ones."""

Maps = Float[Tensor, "batch 1 height width"]
Masks = Float[Tensor, "batch 1 height width"] | Bool[Tensor, "batch 1 height width"]
Scores = Float[Tensor, " batch"]

FLOOR = 1e-6
"""Share of a map's largest magnitude below which a value is zero: rounding of float32 is no sign, and
each sign is scaled by itself."""


class Alignment(NamedTuple):
    """Scores of a batch, one of each per image, in [0, 1] or NaN where not applicable."""

    precision: Tensor
    recall: Tensor
    f1: Tensor


@checked_arguments
def normalize(attributions: Maps) -> Maps:
    r"""Scale positive values by their maximum and negative ones by their minimum's magnitude.

    Each image by itself (eq. 17); the result lies in [-1, 1]. Signs and zeros are kept; values below
    `FLOOR` of the image's largest magnitude become zero, because rounding alone could otherwise be
    scaled to -1.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import normalize
    >>> normalize(torch.tensor([[[[4.0, 2.0, -1.0, 0.0]]]]))
    tensor([[[[ 1.0000,  0.5000, -1.0000,  0.0000]]]])
    """
    highest = attributions.amax((1, 2, 3), keepdim=True)
    lowest = attributions.amin((1, 2, 3), keepdim=True)
    least = FLOOR * torch.maximum(highest, -lowest)
    attributions = torch.where(attributions.abs() < least, 0.0, attributions)
    highest, lowest = (torch.where(end.abs() < least, 0.0, end) for end in (highest, lowest))
    scaled = torch.where(attributions >= 0, attributions / highest, attributions / -lowest)
    return torch.where(attributions == 0, attributions, scaled)  # 0/0 where a side is empty


@checked_arguments
def magnitudes(attributions: Maps, which: Part) -> Maps:
    """The magnitudes to compare with one part of the truth.

    Parameters
    ----------
    attributions : Tensor, (B, 1, H, W)
        Signed.
    which : {"overall", "positive", "negative"}
        |a|, max(a, 0) or max(-a, 0).
    """
    if which == "overall":
        return attributions.abs()
    return (attributions if which == "positive" else -attributions).clamp(min=0)


@metric(higher_is_better=True, per_sample=True, maps="unit", unit="place", invariances=("missing",))
@checked_arguments
def precision(attributions: Maps, truth: Masks) -> Scores:
    """Share of the attribution that lies on the truth; parameters and errors of `alignment`."""
    return alignment(attributions, truth).precision


@metric(higher_is_better=True, per_sample=True, maps="unit", unit="place", invariances=("added",))
@checked_arguments
def recall(attributions: Maps, truth: Masks) -> Scores:
    """Share of the truth that the attribution covers; parameters and errors of `alignment`."""
    return alignment(attributions, truth).recall


@metric(higher_is_better=True, per_sample=True, maps="unit", unit="place")
@checked_arguments
def f1(attributions: Maps, truth: Masks) -> Scores:
    """Harmonic mean of precision and recall; parameters and errors of `alignment`."""
    return alignment(attributions, truth).f1


@checked_arguments
def alignment(attributions: Maps, truth: Masks) -> Alignment:
    """Soft precision, recall and F1 of each image.

    Parameters
    ----------
    attributions : Tensor, (B, 1, H, W)
        In [-1, 1] (`normalize`).
    truth : Tensor, (B, 1, H, W)
        A mask, or values in [0, 1].

    Returns
    -------
    Alignment
        Float64 tensors (B,): in [0, 1], NaN for an image without any truth.

    Raises
    ------
    AttributionLabError
        For attributions outside [-1, 1] or NaN: recall would exceed 1.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import alignment
    >>> maps = torch.tensor([[[[1.0, 1.0, 0.0, 0.0]]]])
    >>> mask = torch.tensor([[[[True, False, True, False]]]])
    >>> alignment(maps, mask).f1
    tensor([0.5000], dtype=torch.float64)
    """
    magnitude, weight = attributions.double().abs(), truth.double()
    if not (magnitude <= 1).all():
        raise AttributionLabError(
            f"attributions reach {float(magnitude.max()):g}: normalize them to [-1, 1] first"
        )
    hit = (magnitude * weight).sum((1, 2, 3))
    attributed, relevant = magnitude.sum((1, 2, 3)), weight.sum((1, 2, 3))
    precision = torch.where(attributed > 0, hit / attributed, 0.0)
    recall = hit / relevant  # NaN without any truth
    precision = torch.where(relevant > 0, precision, torch.nan)
    f1 = torch.where(hit > 0, 2 * precision * recall / (precision + recall), precision * recall)
    return Alignment(precision, recall, f1)


@checked_arguments
def parts_f1(
    attributions: Maps,
    signed: Int8[Tensor, "batch 1 height width"],
    mixed: Bool[Tensor, "batch 1 height width"] | None = None,
) -> dict[Part, Scores]:
    """F1 of every part at once: `normalize`, `magnitudes` and `alignment` in one.

    Positive and negative values are scaled separately (eq. 17), so their sums can be scaled instead of
    the values, with a quarter of the passes over the map.

    Parameters
    ----------
    attributions : Tensor, (B, 1, H, W)
        On any scale.
    signed : Tensor of int8, (B, 1, H, W)
        The truth: +1, -1 or 0.
    mixed : Tensor of bool, (B, 1, H, W), optional
        Pixels that are relevant without a sign: they are part of "overall", and are dropped from the
        map for the two others.

    Returns
    -------
    dict of str to Tensor of float64, (B,)
        By part; NaN for an image without that truth.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import parts_f1
    >>> maps = torch.tensor([[[[4.0, 0.0, -1.0, 0.0]]]])
    >>> truth = torch.tensor([[[[1, 1, -1, 0]]]], dtype=torch.int8)
    >>> {part: round(float(f1), 2) for part, f1 in parts_f1(maps, truth).items()}
    {'overall': 0.8, 'positive': 0.67, 'negative': 1.0}
    """
    if mixed is not None and mixed.any():
        # The overall part of all relevant pixels, each with any sign; the others without the mixed.
        overall = parts_f1(attributions, torch.where(mixed, 1, signed).to(torch.int8))["overall"]
        return {**parts_f1(attributions * ~mixed, signed), "overall": overall}
    values, signs = attributions.double().flatten(1), signed.flatten(1)
    largest = values.abs().amax(1, keepdim=True)
    values = torch.where(values.abs() < FLOOR * largest, 0.0, values)
    masks = (signs > 0).double(), (signs < 0).double()
    sides = values.clamp(min=0), -values.clamp(max=0)  # what raises, what lowers: (B, P) each
    scales = [torch.where(side.amax(1) > 0, side.amax(1), 1) for side in sides]  # eq. 17
    hit = [
        [vecdot(side, mask) / scale for mask in masks]
        for side, scale in zip(sides, scales, strict=True)
    ]
    attributed = [side.sum(1) / scale for side, scale in zip(sides, scales, strict=True)]
    relevant = [mask.sum(1) for mask in masks]
    hits = {
        "overall": hit[0][0] + hit[0][1] + hit[1][0] + hit[1][1],
        "positive": hit[0][0],
        "negative": hit[1][1],
    }
    there = {"overall": relevant[0] + relevant[1], "positive": relevant[0], "negative": relevant[1]}
    given = {
        "overall": attributed[0] + attributed[1],
        "positive": attributed[0],
        "negative": attributed[1],
    }
    return {
        part: torch.where(there[part] > 0, 2 * hits[part] / (given[part] + there[part]), torch.nan)
        for part in get_args(Part)
    }


@checked_arguments
def best_map(truth: Masks) -> Maps:
    r"""The map in [0, 1] with the largest possible F1 against a truth, image by image.

    F1 = 2 sum a g / (sum a + sum g) grows with a_j where g_j > F1 / 2, and falls with it elsewhere. So
    the best map is 1 on the largest values of the truth and 0 on the others; for a mask it is the mask;
    for values in between it differs from them.

    Parameters
    ----------
    truth : Tensor, (B, 1, H, W)
        A mask, or values in [0, 1].

    Returns
    -------
    Tensor of float32, (B, 1, H, W)
        Values 0 and 1.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import best_map
    >>> best_map(torch.tensor([[[[1.0, 0.8, 0.3, 0.1]]]]))
    tensor([[[[1., 1., 0., 0.]]]])
    """
    values = truth.double().flatten(1)
    chosen, _ = best_choice(values, torch.ones_like(values), values.sum(1))
    return chosen.reshape(truth.shape).float()


def best_choice(
    hits: Float64[Tensor, "batch places"],
    sizes: Float64[Tensor, "batch places"],
    total: Float64[Tensor, " batch"],
) -> tuple[Bool[Tensor, "batch places"], Float64[Tensor, " batch"]]:
    r"""The set S with the largest :math:`2 \sum_S hits / (\sum_S sizes + total)`, and that value."""
    means = torch.where(sizes > 0, hits / sizes, 0.0)  # labels that only other images have
    order = means.argsort(dim=1, descending=True, stable=True)
    ranked = hits.gather(1, order)
    scores = 2 * ranked.cumsum(1) / (sizes.gather(1, order).cumsum(1) + total[:, None])
    place = torch.arange(hits.shape[1], device=hits.device)
    taken = (place <= scores.argmax(1, keepdim=True)) & (ranked > 0)
    return torch.zeros_like(taken).scatter(1, order, taken), scores.amax(1)
