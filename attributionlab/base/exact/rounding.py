"""How far rounding may take a gradient that float32 computes from the exact one."""

from collections.abc import Callable
from dataclasses import replace

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor, nn

from attributionlab.base.exact.chain import (
    Chain,
    Convolution,
    Layer,
    LinearMap,
    Matrix,
    Relu,
    chain_of,
)

UNIT = 2.0**-24
"""Largest relative error of one operation of float32."""
MORE_STEPS = 4
"""Beside the sums of the layers: a product with the input, and room for float64's own rounding."""


def gradient_rounding(
    model: nn.Module,
    inputs: Float[Tensor, "batch channels height width"],
    targets: Int[Tensor, " batch"],
) -> Float64[Tensor, "batch channels height width"] | None:
    r"""A bound on the rounding error of float32's gradient, in a network whose forward pass is exact.

    .. math:: |\hat g - g| \le \gamma_N \, |W_1|^T D_1 |W_2|^T D_2 \cdots |W_L|^T |s|,
              \qquad \gamma_N = \frac{N u}{1 - N u}, \quad u = 2^{-24}

    D are the ReLUs' patterns (1 where the input is above 0, as in PyTorch), which are known because the
    forward pass is exact, s is the gradient at the outputs, and N the sum over layers of the most terms
    that are added up for one of its inputs. It holds for sums in any order (Higham, Accuracy and
    Stability of Numerical Algorithms, 2002, section 3.1), with fused multiply-adds or without, but not
    for convolutions that transform their inputs (Winograd). Behind a softmax s is what float32 makes of
    its gradient: networks with equal outputs begin with the same s. The bound leaves room for one
    product with the input. It knows of no cancellation between weights, and so grows with every layer
    of a network that rests on it.

    `model`: (B, C, H, W) -> (B, K). `inputs`: images for which it computes without rounding. `targets`:
    the output whose gradient is taken.

    Result: in output units per input unit; None if the model is no chain of standard layers.
    """
    chain = chain_of(model)
    if chain is None:
        return None
    values, entered = inputs.detach().double(), []
    for layer in chain.layers:
        entered.append(values)
        values = values.relu() if isinstance(layer, Relu) else layer(values)
    gradient = _at_the_outputs(chain, values, targets).abs()
    steps = MORE_STEPS
    for layer, values in zip(reversed(chain.layers), reversed(entered), strict=True):
        if isinstance(layer, Relu):
            gradient = gradient * (values > 0)
            continue
        steps += _most_terms(layer, values, gradient)
        gradient = _with_weight(layer, torch.abs).transpose(gradient, values.shape[1:])
    return steps * UNIT / (1 - steps * UNIT) * gradient


def _at_the_outputs(chain: Chain, outputs: Tensor, targets: Tensor) -> Tensor:
    """The gradient at the chain's end, with float32's rounding where there is a softmax."""
    chosen = nn.functional.one_hot(targets, outputs.shape[1])
    if not chain.has_softmax:
        return chosen.double()
    with torch.enable_grad():
        ends = outputs.float().requires_grad_()
        (gradient,) = torch.autograd.grad((ends.softmax(1) * chosen).sum(), ends)
    return gradient.double()


def _most_terms(layer: Layer, values: Tensor, gradient: Tensor) -> int:
    """How many products at most are added up for one of a layer's inputs on the way back."""
    if not isinstance(layer, Convolution | Matrix):
        return 0
    ones = torch.ones_like(gradient[:1])
    counts = _with_weight(layer, lambda weight: (weight != 0).double())
    return round(float(counts.transpose(ones, values.shape[1:]).max()))


def _with_weight(layer: LinearMap, change: Callable[[Tensor], Tensor]) -> LinearMap:
    """The same layer with other weights."""
    if isinstance(layer, Convolution | Matrix):
        return replace(layer, weight=change(layer.weight))
    return layer
