r"""Localization: does the most important lie where the truth is?

Three scores of a map a against a mask G of n pixels (g_j = 1 on it), all in [0, 1], higher is better:

    pointing game            is a pixel with the largest a_j in G?
    relevance mass accuracy  sum a_j g_j / sum a_j, for a_j >= 0
    relevance rank accuracy  share of G among the n pixels with the largest a_j

Ties are broken at random on average: the score is its expectation over all orders of equal values. A
constant map scores the mask's share of the image everywhere. An image whose mask is empty is "not
applicable": NaN.
"""

import torch
from jaxtyping import Bool, Float, Real
from torch import Tensor

from attributionlab.errors import AttributionLabError
from attributionlab.metrics.checked_inputs import checked_maps
from attributionlab.metrics.marking import metric
from attributionlab.validation import shown

__all__ = ["pointing_game", "relevance_mass_accuracy", "relevance_rank_accuracy"]

Maps = Real[Tensor, "batch 1 height width"]
Masks = Bool[Tensor, "batch 1 height width"]
Scores = Float[Tensor, " batch"]


@metric(higher_is_better=True, per_sample=True)
def pointing_game(attributions: Maps, truth: Masks) -> Scores:
    """Whether the largest attribution lies on the truth; parameters of `relevance_rank_accuracy`.

    Where several pixels share the maximum: the share of them that lies on the truth. There is no
    tolerance around the truth; widen the mask for one (Zhang et al. allow 15 pixels on photographs).

    References
    ----------
    Zhang, Bargal, Lin, Brandt, Shen and Sclaroff (2018): Top-down neural attention by excitation
    backprop. International Journal of Computer Vision 126.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import pointing_game
    >>> truth = torch.tensor([[[[True, False, True]]]])
    >>> pointing_game(torch.tensor([[[[3.0, 2.0, 1.0]]]]), truth)
    tensor([1.], dtype=torch.float64)
    >>> pointing_game(torch.tensor([[[[3.0, 3.0, 1.0]]]]), truth)
    tensor([0.5000], dtype=torch.float64)
    """
    values, mask = _checked(attributions, truth)
    highest = values == values.amax(1, keepdim=True)
    share = (highest & mask).sum(1).double() / highest.sum(1)
    return torch.where(mask.any(1), share, torch.nan)


@metric(higher_is_better=True, per_sample=True)
def relevance_mass_accuracy(attributions: Maps, truth: Masks) -> Scores:
    """Share of the attribution that lies on the truth; parameters of `relevance_rank_accuracy`.

    For maps without negative values: which part of a signed map is meant must be said, by
    `magnitudes(attributions, "overall")` or `"positive"`. A map of zeros scores 0. Zhou et al. (2022)
    call it Attr%, with the pixels that a data set was manipulated at for a mask.

    Raises
    ------
    AttributionLabError
        For negative attributions, too.

    References
    ----------
    Arras, Osman and Samek (2022): CLEVR-XAI: a benchmark dataset for the ground truth evaluation of
    neural network explanations. Information Fusion 81. Zhou, Booth, Ribeiro and Shah (2022): Do feature
    attribution methods correctly attribute features? AAAI.

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
            f"attributions fall to {lowest:g}: a mass has no sign, pass magnitudes(attributions, "
            f"'overall') or magnitudes(attributions, 'positive')"
        )
    total = values.sum(1)
    share = (values * mask).sum(1) / torch.where(total > 0, total, 1)
    return torch.where(mask.any(1), share, torch.nan)


@metric(higher_is_better=True, per_sample=True)
def relevance_rank_accuracy(attributions: Maps, truth: Masks) -> Scores:
    """Share of the truth's n pixels among the n pixels with the largest attributions.

    Where equal values straddle the n-th place, the places left go to them in equal shares.

    Parameters
    ----------
    attributions : Tensor, (B, 1, H, W)
        Of any scale; ranked with their signs.
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

    References
    ----------
    Arras, Osman and Samek (2022), as for `relevance_mass_accuracy`.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import relevance_rank_accuracy
    >>> truth = torch.tensor([[[[True, False, True, False]]]])
    >>> relevance_rank_accuracy(torch.tensor([[[[4.0, 3.0, 2.0, 1.0]]]]), truth)
    tensor([0.5000], dtype=torch.float64)
    """
    values, mask = _checked(attributions, truth)
    relevant = mask.sum(1)
    places = (relevant - 1).clamp(min=0)[:, None]
    last = values.sort(dim=1, descending=True).values.gather(1, places)  # the n-th largest value
    above, equal = values > last, values == last
    left = relevant - above.sum(1)
    hits = (above & mask).sum(1) + left * (equal & mask).sum(1).double() / equal.sum(1)
    return torch.where(relevant > 0, hits / relevant.clamp(min=1), torch.nan)


def _checked(
    attributions: Tensor, truth: Tensor
) -> tuple[Float[Tensor, "batch pixels"], Bool[Tensor, "batch pixels"]]:
    if (
        not isinstance(truth, Tensor)
        or truth.dtype != torch.bool
        or truth.ndim != 4
        or truth.shape[1] != 1
        or not truth.numel()
    ):
        raise AttributionLabError(
            f"the truth is {shown(truth)}: pass a mask, a tensor of torch.bool of shape (B, 1, H, W) "
            "with at least one pixel"
        )
    batch, _, height, width = truth.shape
    return checked_maps(attributions, (batch, 1, height, width)), truth.flatten(1)
