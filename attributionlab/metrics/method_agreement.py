"""Agreement between methods: do two attributions name the same pixels?

With T(a) the k first pixels of an attribution a, agreement is the share of k that is in T(a) and T(b),
with no further condition (features), in the same place of both (ranks), with the same sign (signs), or
with both (signed ranks). No truth is involved: two methods may agree and both be wrong.

Source: Krishna, Han, Gu, Wu, Jabbari and Lakkaraju (2024): The disagreement problem in explainable
machine learning: a practitioner's perspective. TMLR. Quantus 0.6.0 has none of the four.
"""

from typing import TypedDict, Unpack

import torch

from attributionlab.base import Share, checked_arguments
from attributionlab.metrics.checked_inputs import checked_maps, pixels_of_share
from attributionlab.metrics.marking import metric
from attributionlab.metrics.orders import removal_order
from attributionlab.metrics.perturbation import Maps, Scores


class TopOptions(TypedDict, total=False):
    """Keywords of every agreement.

    Parameters
    ----------
    share : float
        k as a share of the P pixels, above 0 and at most 1: k = round(share P), at least 1; 0.1 by
        default.
    magnitude : bool
        Whether the first pixels are those of the largest magnitude (Krishna et al.; by default) or of
        the largest value. Equal ones are taken in reading order.
    """

    share: Share
    magnitude: bool


@metric(
    higher_is_better=True,
    per_sample=True,
    ties="reading order",
    invariances=("scale", "sign", "exchange"),
    unchanged=1,
)
@checked_arguments
def top_feature_agreement(
    attributions: Maps, others: Maps, **options: Unpack[TopOptions]
) -> Scores:
    """Share of the top k pixels that two attributions have in common.

    Parameters
    ----------
    attributions, others : Tensor, (B, 1, H, W)
        Of two methods, each on any scale.
    **options
        As `TopOptions` says: share, magnitude.

    Returns
    -------
    Tensor of float64, (B,)
        In [0, 1], symmetric; NaN if either map has no top pixels because all its values (or magnitudes)
        are equal.

    Raises
    ------
    AttributionLabError
        For maps of different shapes or that are not finite, and a share outside (0, 1].

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import top_feature_agreement
    >>> one, two = torch.tensor([[[[5.0, -4.0, 1.0, 0.0]]]]), torch.tensor([[[[3.0, 1.0, 0.0, -2.0]]]])
    >>> top_feature_agreement(one, two, share=0.5)  # {0, 1} and {0, 3}
    tensor([0.5000], dtype=torch.float64)
    """
    return _agreement(attributions, others, ranks=False, signs=False, **options)


@metric(
    higher_is_better=True,
    per_sample=True,
    ties="reading order",
    invariances=("scale", "sign", "exchange"),
    unchanged=1,
)
@checked_arguments
def top_rank_agreement(attributions: Maps, others: Maps, **options: Unpack[TopOptions]) -> Scores:
    """Share of the top k ranks that have the same pixel; as `top_feature_agreement`."""
    return _agreement(attributions, others, ranks=True, signs=False, **options)


@metric(
    higher_is_better=True,
    per_sample=True,
    ties="reading order",
    invariances=("scale", "exchange"),
    unchanged=1,
)
@checked_arguments
def top_sign_agreement(attributions: Maps, others: Maps, **options: Unpack[TopOptions]) -> Scores:
    """Share of the top k pixels in common with the same sign; as `top_feature_agreement`."""
    return _agreement(attributions, others, ranks=False, signs=True, **options)


@metric(
    higher_is_better=True,
    per_sample=True,
    ties="reading order",
    invariances=("scale", "exchange"),
    unchanged=1,
)
@checked_arguments
def top_signed_rank_agreement(
    attributions: Maps, others: Maps, **options: Unpack[TopOptions]
) -> Scores:
    """Share of the top k ranks with the same pixel and sign; as `top_feature_agreement`."""
    return _agreement(attributions, others, ranks=True, signs=True, **options)


def _agreement(
    attributions: Maps,
    others: Maps,
    *,
    ranks: bool,
    signs: bool,
    share: float = 0.1,
    magnitude: bool = True,
) -> Scores:
    shape = tuple(attributions.shape)
    maps = [
        checked_maps(each, shape, name)  # type: ignore[arg-type]
        for each, name in ((attributions, "attributions"), (others, "others"))
    ]
    k = pixels_of_share(share, maps[0].shape[1])
    keys = [each.abs() if magnitude else each for each in maps]
    first, second = (removal_order(key.view(shape)).argsort(1) for key in keys)
    agreed = (first < k) & (second < k)
    if ranks:
        agreed &= first == second
    if signs:
        agreed &= maps[0].sign() == maps[1].sign()
    ordered = [key.amax(1) > key.amin(1) for key in keys]
    return torch.where(ordered[0] & ordered[1], agreed.sum(1).double() / k, torch.nan)
