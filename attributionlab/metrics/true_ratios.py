r"""Soundness and completeness as they are defined, where the information of every pixel is known.

With :math:`\eta` the attribution and :math:`\phi` the information of pixels, both at least 0, and
:math:`|S|_g = \sum_{j \in S} g_j` (Li et al., 2024, Definition 4.7). Algorithms 1 and 2 estimate these
ratios, or their order, for models whose :math:`\phi` nobody knows. Here it is known:
`env.shapley(image, label).clamp(min=0)`, say.
"""

import torch
from jaxtyping import Bool, Float, Real
from torch import Tensor

from attributionlab.errors import AttributionLabError, refuse_if
from attributionlab.metrics.checked_inputs import above, exactly_rescaled, nonnegative_maps
from attributionlab.metrics.marking import metric
from attributionlab.validation import number_problem, shown

Maps = Real[Tensor, "batch 1 height width"]
Masks = Bool[Tensor, "batch 1 height width"]
Ratios = Float[Tensor, " batch"]


@metric(higher_is_better=True, per_sample=True, maps="nonnegative")
def true_soundness(
    attributions: Maps, information: Maps, *, included: Masks | None = None
) -> Ratios:
    r"""Share of the attribution that lies on pixels of information.

    .. math:: |A \cap I|_\eta \, / \, |A|_\eta, \qquad A = \{\eta > 0\}, \quad I = \{\phi > 0\}

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
        In [0, 1]; NaN for an image whose pixels have no attribution.

    Raises
    ------
    AttributionLabError
        For negative values and shapes that do not fit.

    References
    ----------
    Li, Zhang, Kawaguchi, Khakzar, Bischl and Rezaei (2024): A dual-perspective approach to evaluating
    feature attribution methods. TMLR. Definition 4.8.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import true_soundness
    >>> attributions = torch.tensor([[[[3.0, 1.0, 0.0]]]])
    >>> true_soundness(attributions, torch.tensor([[[[0.2, 0.0, 0.8]]]]))
    tensor([0.7500], dtype=torch.float64)
    """
    eta, phi = _checked(attributions, information)
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


@metric(higher_is_better=True, per_sample=True, maps="nonnegative")
def true_completeness(attributions: Maps, information: Maps, *, threshold: float = 0.0) -> Ratios:
    r"""Share of the information that lies on attributed pixels.

    .. math:: |A \cap I|_\phi \, / \, |I|_\phi, \qquad A = \{\eta > t\}, \quad I = \{\phi > 0\}

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

    References
    ----------
    Li et al. (2024), Definition 4.9.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import true_completeness
    >>> attributions = torch.tensor([[[[3.0, 1.0, 0.0]]]])
    >>> true_completeness(attributions, torch.tensor([[[[0.25, 0.0, 0.75]]]]))
    tensor([0.2500], dtype=torch.float64)
    """
    refuse_if(number_problem("threshold", threshold, least=0))
    _, phi = _checked(attributions, information)
    return (phi * above(attributions, threshold).flatten(1)).sum(1) / phi.sum(1)


def _checked(attributions: Tensor, information: Tensor) -> tuple[Tensor, Tensor]:
    """Both as rows of pixels, each on a scale on which its sums are finite."""
    eta = nonnegative_maps(attributions)
    phi = nonnegative_maps(information, (*attributions.shape,), "information values")
    return exactly_rescaled(eta), exactly_rescaled(phi)
