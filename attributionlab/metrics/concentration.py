"""Sparseness and complexity: on how few pixels does an attribution lie?

With the values of a map in rising order, 0 <= v_1 <= ... <= v_P, and p_i = v_i / sum of v:

    sparseness  sum of (2 i - P - 1) v_i / (P sum of v)    (Gini index)
    complexity  - sum of p_i ln p_i                        (entropy)

Both look at the map alone: one pixel anywhere has the best score. They are defined for values of at
least 0; how a signed map becomes one is said by whoever calls them.
"""

import torch
from torch import Tensor

from attributionlab.base import checked_arguments
from attributionlab.metrics.checked_inputs import exactly_rescaled, nonnegative_maps
from attributionlab.metrics.marking import metric
from attributionlab.metrics.perturbation import Maps, Scores


@metric(higher_is_better=True, per_sample=True, maps="nonnegative", invariances=("scale",))
@checked_arguments
def sparseness(attributions: Maps) -> Scores:
    """Gini index of an attribution: how unequally it is spread over the pixels.

    Quantus 0.6.0 divides maps by their largest magnitude and adds 1e-7 to every value.

    Source: Chalasani, Chen, Chowdhury, Jha and Wu (2020): Concise explanations of neural networks using
    adversarial training. ICML.

    Parameters
    ----------
    attributions : Tensor, (B, 1, H, W)
        At least 0, on any scale: `magnitudes(attributions, "overall")`, for instance.

    Returns
    -------
    Tensor of float64, (B,)
        In [0, 1 - 1 / P]: 0 for a constant map, the most for a single pixel; NaN for a map of zeros.

    Raises
    ------
    AttributionLabError
        For negative attributions and those that are not finite.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import sparseness
    >>> sparseness(torch.tensor([[[[0.0, 0.0, 0.0, 2.0]]], [[[1.0, 1.0, 1.0, 1.0]]]]))
    tensor([0.7500, 0.0000], dtype=torch.float64)
    """
    values = exactly_rescaled(nonnegative_maps(attributions)).sort(1).values
    pixels = values.shape[1]
    weights = 2 * torch.arange(1, pixels + 1, device=values.device) - pixels - 1
    return (weights * values).sum(1) / (pixels * values.sum(1))


@metric(higher_is_better=False, per_sample=True, maps="nonnegative", invariances=("scale",))
@checked_arguments
def complexity(attributions: Maps) -> Scores:
    """Entropy of an attribution that is scaled to a sum of 1; parameters and errors of `sparseness`.

    Quantus 0.6.0 adds 1e-12 inside the logarithm.

    Source: Bhatt, Weller and Moura (2020): Evaluating and aggregating feature-based model explanations.
    IJCAI.

    Returns
    -------
    Tensor of float64, (B,)
        In nats, in [0, ln P]: 0 for a single pixel, ln P for a constant map; NaN for a map of zeros.
    """
    values = exactly_rescaled(nonnegative_maps(attributions))
    entropy: Tensor = torch.special.entr(values / values.sum(1, keepdim=True)).sum(1)
    return entropy
