r"""Attributions held against known values: order, direction, signs and sum.

Masks say where and with which sign; the truths here say how much (`env.truths`). With attributions a_j
and values v_j of the pixels of one image:

    rank correlation    Spearman's of a and v, equal values sharing the mean of their ranks
    cosine              sum a_j v_j / (|a| |v|)
    sign agreement      share of the pixels with v_j other than 0 for which a_j has its sign
    efficiency gap      |sum a_j - d| / |d|,  d = f(x) - f(b)
    efficiency within   1 where that gap is at most a tolerance, else 0

Nothing is normalized, nothing loses its sign.

Soundness and completeness as they are defined, where the information of every pixel is known.

With :math:`\eta` the attribution and :math:`\phi` the information of pixels, both at least 0, and
:math:`|S|_g = \sum_{j \in S} g_j` (Li et al., 2024, Definition 4.7). Algorithms 1 and 2 estimate these
ratios, or their order, for models with an unknown :math:`\phi`. For the networks of this laboratory it
is known: `env.shapley(image, label).clamp(min=0)`, say.
"""

import torch
from jaxtyping import Bool, Float, Real
from torch import Tensor

from attributionlab.base import AttributionLabError, NotNegative, checked_arguments, shown
from attributionlab.metrics.checked_inputs import (
    above,
    checked_maps,
    exactly_rescaled,
    nonnegative_maps,
)
from attributionlab.metrics.marking import metric
from attributionlab.metrics.ranking.correlations import centered_ranks, row_correlations

Scores = Float[Tensor, " batch"]
Maps = Real[Tensor, "batch 1 height width"]
Masks = Bool[Tensor, "batch 1 height width"]


@metric(higher_is_better=True, per_sample=True, unit="order")
@checked_arguments
def rank_correlation(attributions: Maps, values: Maps | Masks) -> Scores:
    """Spearman's correlation of attributions and values over an image's pixels.

    Parameters
    ----------
    attributions : Tensor, (B, 1, H, W)
        On any scale, summed over channels.
    values : Tensor, (B, 1, H, W)
        The correct values, up to a factor.

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


@metric(higher_is_better=True, per_sample=True, unit="output change", invariances=("scale",))
@checked_arguments
def cosine(attributions: Maps, values: Maps | Masks) -> Scores:
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


@metric(
    higher_is_better=True, per_sample=True, unit="output change", invariances=("scale", "added")
)
@checked_arguments
def sign_agreement(attributions: Maps, values: Maps | Masks) -> Scores:
    """Share of pixels with a nonzero value whose attribution has the same sign; parameters of
    `rank_correlation`.

    Attribution on pixels with value 0 is ignored, unlike by the cosine.

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


@metric(higher_is_better=False, per_sample=True, unit="output change")
@checked_arguments
def efficiency_gap(attributions: Maps, changes: Real[Tensor, " batch"]) -> Scores:
    """Difference between the attributions' sum and the output's change, relative to the change.

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
    maps = checked_maps(attributions, tuple(attributions.shape))  # type: ignore[arg-type]
    change = changes.detach().to(maps.device).double()
    missed = (maps.sum(1) - change).abs()
    return torch.where(change == 0, torch.nan, missed / change.abs())


@metric(higher_is_better=True, per_sample=True)
@checked_arguments
def efficiency_within(
    attributions: Maps, changes: Real[Tensor, " batch"], *, tolerance: NotNegative
) -> Scores:
    """Whether the attributions sum to the output's change, as the completeness axiom requires.

    1 where `efficiency_gap`, with its parameters and errors, is at most a tolerance, otherwise 0.

    Quantus 0.6.0 (Completeness) compares both with ==.

    Source: Sundararajan, Taly and Yan (2017): Axiomatic attribution for deep networks. ICML.

    Parameters
    ----------
    tolerance : float
        As a share of the change, at least 0. Rounding alone leaves about 1e-6 for sums in float32.

    Returns
    -------
    Tensor of float64, (B,)
        0 or 1; NaN where the output does not change.
    """
    gaps = efficiency_gap(attributions, changes)
    return torch.where(gaps.isnan(), gaps, (gaps <= tolerance).double())


def _pair(attributions: Maps, values: Maps | Masks) -> tuple[Float[Tensor, "batch pixels"], ...]:
    """Attributions and values in float64, one row for each image."""
    shape = tuple(attributions.shape)
    if not values.isfinite().all():
        raise AttributionLabError("the values hold NaN or infinity: pass finite numbers")
    truth = values.detach().to(attributions.device).double().flatten(1)
    return checked_maps(attributions, shape), truth  # type: ignore[arg-type]


def _largest(rows: Float[Tensor, "batch pixels"]) -> Float[Tensor, "batch 1"]:
    largest = rows.abs().amax(1, keepdim=True)
    return torch.where(largest > 0, largest, 1)


@metric(
    higher_is_better=True,
    per_sample=True,
    maps="nonnegative",
    unit="place",
    invariances=("scale", "missing"),
)
@checked_arguments
def true_soundness(
    attributions: Maps, information: Maps, *, included: Masks | None = None
) -> Scores:
    r"""Share of the attribution that lies on pixels of information.

    .. math:: |A \cap I|_\eta \, / \, |A|_\eta, \qquad A = \{\eta > 0\}, \quad I = \{\phi > 0\}

    Source: Li, Zhang, Kawaguchi, Khakzar, Bischl and Rezaei (2024): A dual-perspective approach to
    evaluating feature attribution methods. TMLR. Definition 4.8.

    Parameters
    ----------
    attributions : Tensor, (B, 1, H, W)
        :math:`\eta`, at least 0.
    information : Tensor, (B, 1, H, W)
        :math:`\phi`, at least 0; only its support matters.
    included : Tensor of bool, (B, 1, H, W)
        Pixels that A is restricted to, such as `included_pixels` of a predictive level; all by default.

    Returns
    -------
    Tensor of float64, (B,)
        In [0, 1]; NaN for an image without attribution.

    Raises
    ------
    AttributionLabError
        For negative values and shapes that do not fit.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import true_soundness
    >>> attributions = torch.tensor([[[[3.0, 1.0, 0.0]]]])
    >>> true_soundness(attributions, torch.tensor([[[[0.2, 0.0, 0.8]]]]))
    tensor([0.7500], dtype=torch.float64)
    """
    eta, phi = _information_pair(attributions, information)
    if included is not None:
        if (
            not isinstance(included, Tensor)
            or included.dtype != torch.bool
            or included.shape != attributions.shape
        ):
            raise AttributionLabError(
                f"included is {shown(included)}: pass a tensor of torch.bool of shape "
                f"{tuple(attributions.shape)}"
            )
        eta = torch.where(included.flatten(1), eta, 0)
    return (eta * (phi > 0)).sum(1) / eta.sum(1)


@metric(
    higher_is_better=True,
    per_sample=True,
    maps="nonnegative",
    unit="place",
    invariances=("scale", "added"),
)
@checked_arguments
def true_completeness(
    attributions: Maps, information: Maps, *, threshold: NotNegative = 0.0
) -> Scores:
    r"""Share of the information that lies on attributed pixels.

    .. math:: |A \cap I|_\phi \, / \, |I|_\phi, \qquad A = \{\eta > t\}, \quad I = \{\phi > 0\}

    Source: Li et al. (2024), Definition 4.9.

    Parameters
    ----------
    attributions, information
        As for `true_soundness`.
    threshold : float
        t, in units of the attribution; 0 is the definition.

    Returns
    -------
    Tensor of float64, (B,)
        In [0, 1]; NaN for an image without information.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import true_completeness
    >>> attributions = torch.tensor([[[[3.0, 1.0, 0.0]]]])
    >>> true_completeness(attributions, torch.tensor([[[[0.25, 0.0, 0.75]]]]))
    tensor([0.2500], dtype=torch.float64)
    """
    _, phi = _information_pair(attributions, information)
    return (phi * above(attributions, threshold).flatten(1)).sum(1) / phi.sum(1)


def _information_pair(attributions: Tensor, information: Tensor) -> tuple[Tensor, Tensor]:
    """Both as rows of pixels, each on a scale on which its sums are finite."""
    eta = nonnegative_maps(attributions)
    phi = nonnegative_maps(information, (*attributions.shape,), "information values")
    return exactly_rescaled(eta), exactly_rescaled(phi)
