"""How noisy a map is, without a truth: how much it varies, and in how many places it is strong."""

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from scipy import ndimage
from torch import Tensor

Maps = Float[Tensor, "batch 1 height width"]
Shares = Float64[Tensor, " batch"]


def total_variation(maps: Maps) -> Shares:
    r"""Mean difference of neighboring pixels, in units of the map's largest value.

    .. math:: \frac{1}{|N| \max_j |a_j|} \sum_{\{j, k\} \in N} |a_j - a_k|

    over all pairs N of pixels that share a side; from 0 to 2. A map of zeros has 0. Of a map that is
    constant on segments it is the length of their borders, weighted by the steps there: few segments
    have little of it, whatever they show.

    Parameters
    ----------
    maps : Tensor, (B, 1, H, W)
        Of either sign.

    Returns
    -------
    Tensor, (B,)

    References
    ----------
    Rudin, Osher and Fatemi (1992): Nonlinear total variation based noise removal algorithms. Physica D.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.papers.attributionlab.map_noise import total_variation
    >>> total_variation(torch.tensor([[[[2.0, 0.0], [2.0, 2.0]]]]))
    tensor([0.5000], dtype=torch.float64)
    """
    values = maps[:, 0].double()
    steps = [values.diff(dim=1).abs().flatten(1), values.diff(dim=2).abs().flatten(1)]
    highest = values.abs().amax((1, 2))
    return torch.cat(steps, 1).mean(1) / torch.where(highest > 0, highest, 1)


def scattered_share(maps: Maps) -> Shares:
    """The share of the positive attribution outside of the map's main region.

    Regions are connected by sides; their pixels have at least half of the map's largest value, and the
    main one has the largest sum. 0 where all positive attribution is in one region; NaN for a map
    without positive values.

    Parameters
    ----------
    maps : Tensor, (B, 1, H, W)
        Of either sign; negative values are left out.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.papers.attributionlab.map_noise import scattered_share
    >>> scattered_share(torch.tensor([[[[3.0, 3.0, 0.0, 2.0]]]]))
    tensor([0.2500], dtype=torch.float64)
    """
    shares = []
    for values in maps[:, 0].double().clamp(min=0).numpy():
        highest = values.max()
        if highest <= 0:
            shares.append(np.nan)
            continue
        regions, count = ndimage.label(values >= highest / 2)
        main = np.max(ndimage.sum_labels(values, regions, np.arange(1, count + 1)))
        shares.append(1 - main / values.sum())
    return torch.tensor(shares, dtype=torch.float64)


def sign_changes(maps: Maps, within: Bool[Tensor, "batch 1 height width"] | None = None) -> Shares:
    """The share of pairs of neighboring pixels whose attributions have opposite signs.

    Parameters
    ----------
    maps : Tensor, (B, 1, H, W)
        Of either sign; a pair with a zero has no opposite signs.
    within : Tensor, (B, 1, H, W), optional
        Only pairs of which both pixels are in here; without it all. NaN without such a pair.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.papers.attributionlab.map_noise import sign_changes
    >>> sign_changes(torch.tensor([[[[1.0, -1.0, -2.0, 0.0, 1.0]]]]))
    tensor([0.2500], dtype=torch.float64)
    """
    signs = maps[:, 0].sign()
    inside = torch.ones_like(signs, dtype=torch.bool) if within is None else within[:, 0]
    opposite, pairs = torch.zeros(len(maps)).double(), torch.zeros(len(maps)).double()
    for dim in (1, 2):
        side = signs.shape[dim]
        one, other = (signs.narrow(dim, start, side - 1) for start in (0, 1))
        both = inside.narrow(dim, 0, side - 1) & inside.narrow(dim, 1, side - 1)
        opposite += ((one * other < 0) & both).sum((1, 2))
        pairs += both.sum((1, 2))
    return opposite / pairs
