r"""Completeness: how much information is left when what is attributed has been taken away.

Pixels whose attribution exceeds a threshold are removed; the more the performance falls, the more
complete they were (Li et al., 2024, Theorem 4.12, Algorithms 2 and 4). It compares methods; it is not
the share of information itself, which `true_completeness` is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Unpack

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attributionlab.base import NotNegative, checked_arguments, not_empty
from attributionlab.metrics.checked_inputs import above, nonnegative_maps
from attributionlab.metrics.marking import metric
from attributionlab.metrics.performance import Images, Performance, PerformanceOptions, Targets
from attributionlab.metrics.soundness_levels import Maps, Variant, eight_bit

THRESHOLDS = tuple(tenth / 10 for tenth in range(9, 0, -1))
"""Algorithm 4: 0.9, 0.8 ... 0.1."""
DECIMALS = 9
"""To which the product of a threshold and a level is exact: 0.7 x 90 is below 63 in float64."""


@dataclass(frozen=True, eq=False)
class CompletenessCurve:
    """The effect on performance of removing all pixels above a threshold.

    - `thresholds`: as they were given.
    - `differences`: performance on the intact images minus that on the remaining pixels; higher is more
      complete.
    - `intact`: performance on the images as they are.
    - `performance`: performance on the remaining pixels.
    - `removed`: mean share of pixels that are removed.
    - `emptied`: images without remaining pixels.
    """

    thresholds: Float[Tensor, " thresholds"]
    differences: Float[Tensor, " thresholds"]
    intact: float
    performance: Float[Tensor, " thresholds"]
    removed: Float[Tensor, " thresholds"]
    emptied: Int[Tensor, " thresholds"]


@checked_arguments
def completeness_curve(
    model: nn.Module,
    images: Images,
    targets: Targets,
    attributions: Maps,
    *,
    thresholds: Annotated[Sequence[NotNegative], not_empty] | None = None,
    variant: Variant = "paper",
    **setup: Unpack[PerformanceOptions],
) -> CompletenessCurve:
    r"""Fall of the performance when all pixels of an attribution above t are removed (Algorithm 4).

    .. math:: \Delta s_t = s(F) - s(F \setminus \{j : \eta_j > t\})

    Source: Li, Zhang, Kawaguchi, Khakzar, Bischl and Rezaei (2024): A dual-perspective approach to
    evaluating feature attribution methods. TMLR. Algorithm 4.

    Parameters
    ----------
    model, images, targets
        What is explained: (B, C, H, W) -> (B, K), images, labels.
    attributions : Tensor, (B, 1, H, W)
        :math:`\eta`, at least 0; thresholds are in its units. For the paper's thresholds scale maps to
        [0, 1], for example each by its maximum; then the shapes of maps are compared.
    thresholds : sequence of float
        At least 0; by default 0.9, 0.8 ... 0.1.
    variant : {"paper", "released"}
        "released" is the authors' code: maps in [0, 1] are rounded to 256 levels, and a threshold is a
        share of each map's own maximum, so that a map of zeros loses nothing. A level equal to this
        share is not above it.
    **setup
        `PerformanceOptions`: indicator, value_range, imputation, nothing_kept, seed, batch_size.

    Raises
    ------
    AttributionLabError
        For negative attributions and thresholds, and what `Performance` refuses: if a map is above a
        threshold everywhere, no pixel remains, which requires `nothing_kept`.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import completeness_curve
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3, 2, bias=False)).eval()
    >>> _ = model[1].weight.data.copy_(torch.tensor([[1.0, 1, 0], [0, 0, 1]]))
    >>> image, label = torch.tensor([[[[1.0, 1.0, 0.5]]]]), torch.tensor([0])
    >>> black = lambda images, keep: images * keep
    >>> curve = completeness_curve(
    ...     model, image, label, image, thresholds=(0.9, 0.4), imputation=black, nothing_kept=0.0
    ... )
    >>> curve.differences, curve.emptied  # wrong without the two; nothing is left: a tie
    (tensor([1.0000, 0.5000], dtype=torch.float64), tensor([0, 1]))
    """
    chosen = THRESHOLDS if thresholds is None else thresholds
    performance = Performance(model, images, targets, **setup)
    maps = nonnegative_maps(attributions, performance.map_shape)
    most = None
    if variant == "released":
        maps = eight_bit(maps)
        most = maps.amax(1, keepdim=True)
    intact = float(performance.intact().mean())
    left, removed, emptied = [], [], []
    for threshold in chosen:
        if most is None:
            keep = ~above(attributions, threshold).flatten(1)
        else:
            keep = maps <= (threshold * most).round(decimals=DECIMALS)
        left.append(float(performance.keeping(keep.view(performance.map_shape)).mean()))
        removed.append(float((~keep).double().mean()))
        emptied.append(int((~keep.any(1)).sum()))
    on_the_rest = torch.tensor(left, dtype=torch.float64, device="cpu")
    return CompletenessCurve(
        torch.tensor(chosen, dtype=torch.float64, device="cpu"),
        intact - on_the_rest,
        intact,
        on_the_rest,
        torch.tensor(removed, dtype=torch.float64, device="cpu"),
        torch.tensor(emptied, device="cpu"),
    )


@metric(
    higher_is_better=True,
    per_sample=False,
    maps="nonnegative",
    unit="place",
    invariances=("scale", "added"),
    rising=True,
)
@checked_arguments
def completeness_at(
    model: nn.Module,
    images: Images,
    targets: Targets,
    attributions: Maps,
    *,
    threshold: NotNegative,
    variant: Variant = "paper",
    **setup: Unpack[PerformanceOptions],
) -> Float[Tensor, ""]:
    """Drop in performance when all pixels with an attribution above a threshold are removed.

    Algorithm 2; one point of `completeness_curve`, with its parameters and errors.

    Returns
    -------
    Tensor of float64, ()
        In units of the indicator; negative if the model does better without these pixels.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import completeness_at
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3, 2, bias=False)).eval()
    >>> _ = model[1].weight.data.copy_(torch.tensor([[1.0, 1, 0], [0, 0, 1]]))
    >>> image, label = torch.tensor([[[[1.0, 1.0, 0.5]]]]), torch.tensor([0])
    >>> black = lambda images, keep: images * keep
    >>> completeness_at(model, image, label, image, threshold=0.9, imputation=black)
    tensor(1., dtype=torch.float64)
    """
    curve = completeness_curve(
        model, images, targets, attributions, thresholds=(threshold,), variant=variant, **setup
    )
    return curve.differences[0]
