r"""Attributions held against known values: order, direction, signs and sum.

Masks say where and with which sign; the truths here say how much (`env.truths`). With attributions a_j
and values v_j of the pixels of one image:

    rank correlation    Spearman's of a and v, equal values sharing the mean of their ranks
    cosine              sum a_j v_j / (|a| |v|)
    sign agreement      share of the pixels with v_j other than 0 for which a_j has its sign
    efficiency gap      |sum a_j - d| / |d|,  d = f(x) - f(b)

Nothing is normalized, nothing loses its sign.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attributionlab.errors import AttributionLabError
from attributionlab.metrics.checked_inputs import checked_maps, refuse_other_than_maps
from attributionlab.metrics.marking import metric
from attributionlab.ranking import centered_ranks, row_correlations
from attributionlab.validation import shown

Scores = Float[Tensor, " batch"]


@metric(higher_is_better=True, per_sample=True)
def rank_correlation(attributions: Tensor, values: Tensor) -> Scores:
    """Spearman's correlation of attributions and values over an image's pixels.

    Parameters
    ----------
    attributions : Tensor, (B, 1, H, W)
        Of any scale, summed over channels.
    values : Tensor, (B, 1, H, W)
        What they should be, up to a factor.

    Returns
    -------
    Tensor of float64, (B,)
        In [-1, 1]; NaN where the values are all equal, 0 where only the attributions are.

    Raises
    ------
    AttributionLabError
        For shapes that differ and for NaN.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import rank_correlation
    >>> values = torch.tensor([[[[3.0, 2.0, 0.0, -1.0]]]])
    >>> rank_correlation(values**3, values)
    tensor([1.], dtype=torch.float64)
    """
    maps, truth = _pair(attributions, values)
    ranks = [centered_ranks(each.cpu().numpy()) for each in (maps, truth)]
    found = torch.from_numpy(row_correlations(ranks[0], ranks[1])).to(maps.device)
    ordered = truth.amax(1) > truth.amin(1)
    return torch.where(ordered, torch.nan_to_num(found, nan=0.0), torch.nan)


@metric(higher_is_better=True, per_sample=True)
def cosine(attributions: Tensor, values: Tensor) -> Scores:
    """Cosine of the angle between attributions and values; parameters of `rank_correlation`.

    Returns
    -------
    Tensor of float64, (B,)
        In [-1, 1]; NaN where the values are all 0, 0 where only the attributions are.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import cosine
    >>> cosine(torch.tensor([[[[1.0, 1.0]]]]), torch.tensor([[[[2.0, 0.0]]]]))
    tensor([0.7071], dtype=torch.float64)
    """
    maps, truth = _pair(attributions, values)
    # Scaled to 1 first, so that squares neither vanish nor overflow.
    maps, truth = (each / _largest(each) for each in (maps, truth))
    size = maps.norm(dim=1) * truth.norm(dim=1)
    found = (maps * truth).sum(1) / torch.where(size > 0, size, 1)
    return torch.where((truth != 0).any(1), found.clamp(-1, 1), torch.nan)


@metric(higher_is_better=True, per_sample=True)
def sign_agreement(attributions: Tensor, values: Tensor) -> Scores:
    """Share of the pixels with a value for which the attribution has its sign; parameters of
    `rank_correlation`.

    What lies on pixels whose value is 0 does not count here; the cosine sees it.

    Returns
    -------
    Tensor of float64, (B,)
        In [0, 1]; NaN where the values are all 0.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import sign_agreement
    >>> sign_agreement(torch.tensor([[[[0.1, 5.0, 0.0]]]]), torch.tensor([[[[9.0, -1.0, 0.0]]]]))
    tensor([0.5000], dtype=torch.float64)
    """
    maps, truth = _pair(attributions, values)
    there = truth != 0
    same = there & (maps.sign() == truth.sign())
    shares = same.sum(1).double() / there.sum(1).clamp(min=1)
    return torch.where(there.any(1), shares, torch.nan)


@metric(higher_is_better=False, per_sample=True)
def efficiency_gap(attributions: Tensor, changes: Tensor) -> Scores:
    """By how much the attributions' sum misses the output's change, as a share of it.

    Parameters
    ----------
    attributions : Tensor, (B, 1, H, W)
        In units of the output, summed over channels.
    changes : Tensor, (B,)
        f(x) - f(b), b the baseline (`env.truths(...).changes`).

    Returns
    -------
    Tensor of float64, (B,)
        0 for an efficient (complete) attribution; NaN where the output does not change.

    Raises
    ------
    AttributionLabError
        For shapes that do not fit and for NaN.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import efficiency_gap
    >>> efficiency_gap(torch.tensor([[[[3.0, -1.0]]]]), torch.tensor([4.0]))
    tensor([0.5000], dtype=torch.float64)
    """
    refuse_other_than_maps(attributions)
    maps = checked_maps(attributions, tuple(attributions.shape))  # type: ignore[arg-type]
    if not isinstance(changes, Tensor) or changes.shape != (len(maps),):
        raise AttributionLabError(
            f"changes are {shown(changes)}: pass a tensor of one number for each of the {len(maps)} "
            "images"
        )
    change = changes.to(maps.device).double()
    missed = (maps.sum(1) - change).abs()
    return torch.where(change == 0, torch.nan, missed / change.abs())


def _pair(attributions: Any, values: Any) -> tuple[Float[Tensor, "batch pixels"], ...]:
    """Attributions and values in float64, one row for each image."""
    refuse_other_than_maps(attributions)
    shape = tuple(attributions.shape)
    if not isinstance(values, Tensor) or values.shape != shape or not values.isfinite().all():
        raise AttributionLabError(
            f"the values are {shown(values)}: pass a tensor of finite numbers of the attributions' "
            f"shape, {shape}"
        )
    truth = values.to(attributions.device).double().flatten(1)
    return checked_maps(attributions, shape), truth  # type: ignore[arg-type]


def _largest(rows: Float[Tensor, "batch pixels"]) -> Float[Tensor, "batch 1"]:
    largest = rows.abs().amax(1, keepdim=True)
    return torch.where(largest > 0, largest, 1)
