r"""Performance indicators: how well a model's outputs answer the question of the label.

A function `(outputs (B, K), targets (B,)) -> (B,)`, higher for better answers; the performance on a
data set is its mean. Soundness, completeness and ROAD see a model through nothing else.
"""

from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Float, Int, Real
from torch import Tensor

from attributionlab.errors import AttributionLabError, refuse_if
from attributionlab.validation import checked_targets, number_problem, shown

Indicator = Literal["accuracy"] | Callable[[Tensor, Tensor], Tensor]
"""By name, or any function of outputs and targets."""

ROUNDING = 1e-12
"""By which a mean of float64 numbers may be off: 0.61 - 0.6 > 0.01, and 0.3 - 0.2 < 0.1."""
STEPS = 4
"""Of a coarser type, by which its numbers may be off: 2^-21 of a float32."""

Outputs = Real[Tensor, "batch outputs"]
Targets = Int[Tensor, " batch"]
Scores = Float[Tensor, " batch"]


def accuracy(outputs: Outputs, targets: Targets) -> Scores:
    """1 where the label has the largest output, and 1 / m where it shares it with m - 1 others.

    Which is the chance of being right if ties are broken at random: outputs of an image without
    content tie on every class, and no class should win by its index.

    Parameters
    ----------
    outputs : Tensor, (B, K)
        Logits or probabilities, K at least 2.
    targets : Tensor of int, (B,)
        Labels.

    Returns
    -------
    Tensor of float64, (B,)

    Raises
    ------
    AttributionLabError
        For outputs that are NaN, of one class, or not (B, K), and for labels that they do not have.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import accuracy
    >>> outputs = torch.tensor([[3.0, 1.0], [1.0, 3.0], [2.0, 2.0]])
    >>> accuracy(outputs, torch.tensor([0, 0, 0]))
    tensor([1.0000, 0.0000, 0.5000], dtype=torch.float64)
    """
    _refuse_other_than_classes(outputs, targets)
    best = outputs == outputs.amax(1, keepdim=True)
    right = best.gather(1, targets[:, None].long())[:, 0]
    return right.double() / best.sum(1)


def label_probability(outputs: Outputs, targets: Targets, *, temperature: float = 1.0) -> Scores:
    r"""Softmax probability of the label, at a temperature at which it is not saturated.

    .. math:: p = e^{z_y / T} / \sum_k e^{z_k / T}

    Parameters
    ----------
    outputs : Tensor, (B, K)
        Logits z (not probabilities), K at least 2.
    targets : Tensor of int, (B,)
        Labels y.
    temperature : float
        T, in units of the logits.

    Returns
    -------
    Tensor of float64, (B,)
        1 / K where all logits are equal.

    Raises
    ------
    AttributionLabError
        For what `accuracy` refuses, infinite outputs, and a temperature that is not above 0.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import label_probability
    >>> label_probability(torch.tensor([[300.0, 0.0]]), torch.tensor([0]), temperature=300)
    tensor([0.7311], dtype=torch.float64)
    """
    refuse_if(number_problem("temperature", temperature, above=0))
    _refuse_other_than_classes(outputs, targets)
    logits = outputs.double()
    # Less the largest before the division, which may overflow.
    probabilities = ((logits - logits.amax(1, keepdim=True)) / float(temperature)).softmax(1)
    if bool(probabilities.isnan().any()):
        raise AttributionLabError(
            "outputs of an image are infinite: a softmax has no answer, pass finite ones"
        )
    return probabilities.gather(1, targets[:, None].long())[:, 0]


def indicator_of(indicator: object) -> Callable[[Tensor, Tensor], Tensor]:
    """The function that an indicator names, or that it is; what it returns is checked."""
    if isinstance(indicator, str) and indicator == "accuracy":
        return accuracy
    if not callable(indicator):
        raise AttributionLabError(
            f"indicator is {indicator!r}: take 'accuracy', or a function of outputs (B, K) and targets "
            "(B,), such as functools.partial(label_probability, temperature=256)"
        )

    def checked(outputs: Tensor, targets: Tensor) -> Tensor:
        values = indicator(outputs, targets)
        if not isinstance(values, Tensor) or values.shape != targets.shape or values.is_complex():
            raise AttributionLabError(
                f"the indicator returned {shown(values)} for {len(targets)} images: return one real "
                "number for each"
            )
        if not bool(values.isfinite().all()):
            raise AttributionLabError(
                "the indicator returned numbers that are NaN or infinite: return finite ones"
            )
        return values

    return checked


def precision_of(dtype: torch.dtype) -> float:
    """By which share of themselves numbers of a type, and means of them, may be off."""
    return max(ROUNDING, STEPS * torch.finfo(dtype).eps) if dtype.is_floating_point else ROUNDING


def _refuse_other_than_classes(outputs: Tensor, targets: Tensor) -> None:
    if not isinstance(outputs, Tensor) or outputs.ndim != 2 or outputs.is_complex():
        raise AttributionLabError(
            f"outputs are {shown(outputs)}: pass real numbers of shape (B, K), a row for each image"
        )
    labels, classes = checked_targets(targets, len(outputs)), outputs.shape[1]
    if classes < 2:
        raise AttributionLabError(
            f"outputs are {shown(outputs)}: this indicator compares classes; pass indicator=, a "
            "function of outputs (B, K) and targets (B,)"
        )
    for label in labels:
        if not 0 <= label < classes:
            raise AttributionLabError(
                f"a target is {label}: the model has {classes} outputs, pass 0 to {classes - 1}"
            )
    if bool(outputs.isnan().any()):
        raise AttributionLabError("outputs of an image are NaN: no class is the largest of them")
