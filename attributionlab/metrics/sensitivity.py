r"""Sensitivity-N: do sums of attributions follow what the output loses?

For subsets S of N pixels, drawn uniformly, Sensitivity-N is Pearson's correlation over the draws

    corr( sum of a_j over j in S,   f(x) - f(x without S) )

where x without S has the replacement's values at S. Sources: Ancona, Ceolini, Oztireli and Gross, 2018;
AttributionLab, F.5 and G.5 (100 draws, every N, the mean over N).

Undefined correlations: where all draws change the output alike, N says nothing (not applicable, NaN,
left out of the mean over N); so does N = P, where every draw is the same subset. Where the outputs vary
and the sums do not, the attributions explain nothing: 0.

Draws of different N are nested, hence not independent. A curve over N is smooth, and its mean is not as
certain as that of independent correlations: near 0 a single one varies by 1 / sqrt(D).
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int, Real
from torch import Tensor, nn

from attributionlab.metrics.checked_inputs import checked_maps
from attributionlab.metrics.curves import Measure
from attributionlab.metrics.marking import metric
from attributionlab.metrics.subset_sizes import each_effects
from attributionlab.validation import Replacement

Images = Real[Tensor, "batch channels height width"]
Maps = Real[Tensor, "batch 1 height width"]


def sensitivity_n_curve(
    model: nn.Module,
    images: Images,
    targets: Int[Tensor, " batch"],
    attributions: Maps,
    *,
    replacement: Replacement,
    sizes: Sequence[int] | None = None,
    draws: int = 100,
    seed: int = 0,
    measure: Measure = "output",
) -> Float[Tensor, "batch sizes"]:
    """Sensitivity-N at each size; holds the subsets of one image at a time.

    To score several attributions of the same images, evaluate the model once with `subset_effects`,
    which has these parameters, errors and warnings, and ask it for `correlations`.

    Returns
    -------
    Tensor of float64, (B, S)
        In [-1, 1], higher is better; NaN where N says nothing, always so at N = P.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import sensitivity_n_curve
    >>> image = torch.tensor([[[[3.0, 1.0], [0.0, 2.0]]]])
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 1, bias=False))
    >>> _ = model[1].weight.data.fill_(1)
    >>> target, black = torch.tensor([0]), torch.zeros(1)
    >>> sensitivity_n_curve(model, image, target, image, replacement=black, sizes=[1, 2], draws=10)
    tensor([[1., 1.]], dtype=torch.float64)
    """
    each = each_effects(
        model,
        images,
        targets,
        replacement=replacement,
        sizes=sizes,
        draws=draws,
        seed=seed,
        measure=measure,
    )
    checked_maps(attributions, (len(images), 1, *images.shape[2:]))  # before any evaluation
    curves = [effects.correlations(attributions[i : i + 1]) for i, effects in enumerate(each)]
    return torch.cat(curves)


@metric(higher_is_better=True, per_sample=True)
def sensitivity_n(
    model: nn.Module,
    images: Images,
    targets: Int[Tensor, " batch"],
    attributions: Maps,
    *,
    replacement: Replacement,
    sizes: Sequence[int] | None = None,
    draws: int = 100,
    seed: int = 0,
    measure: Measure = "output",
) -> Float[Tensor, " batch"]:
    """Mean of `sensitivity_n_curve` over the sizes at which it is defined (AttributionLab, G.5).

    Parameters, errors and warnings of `subset_effects`. An image's subsets, and with them its score,
    depend on its place in the batch: pass all images in one call, or another seed with each batch.

    Returns
    -------
    Tensor of float64, (B,)
        In [-1, 1], higher is better; NaN for an image that no subset changes.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import sensitivity_n
    >>> image = torch.tensor([[[[3.0, 1.0], [0.0, 2.0]]]])
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 1, bias=False))
    >>> _ = model[1].weight.data.fill_(1)
    >>> sensitivity_n(model, image, torch.tensor([0]), image, replacement=torch.zeros(1), draws=10)
    tensor([1.], dtype=torch.float64)
    """
    return sensitivity_n_curve(
        model,
        images,
        targets,
        attributions,
        replacement=replacement,
        sizes=sizes,
        draws=draws,
        seed=seed,
        measure=measure,
    ).nanmean(dim=1)
