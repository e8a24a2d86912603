r"""Gradient methods, with Captum doing the work.

The networks' relevant pixels sit exactly on kinks of their ReLUs, so every gradient here depends on the
convention ReLU'(0) = 0, which PyTorch follows.
"""

from typing import Literal

import torch
from torch import Tensor, nn

__all__ = [
    "input_x_gradient",
    "integrated_gradients",
    "integrated_gradients_true_baseline",
    "saliency",
]

Quadrature = Literal[
    "gausslegendre", "riemann_left", "riemann_right", "riemann_middle", "riemann_trapezoid"
]


def saliency(model: nn.Module, inputs: Tensor, targets: Tensor, *, abs: bool = False) -> Tensor:
    r"""The gradient of the output with respect to each input value.

    .. math:: a_j = \partial f_t(x) / \partial x_j

    Source: Simonyan et al., 2013. Shows how the output would react to tiny changes; says nothing of
    how much of it a pixel accounts for. One forward and one backward pass.

    Parameters
    ----------
    model : nn.Module
        (B, C, H, W) -> (B, K).
    inputs : Tensor, (B, C, H, W)
        Images.
    targets : Tensor, (B,)
        The output to explain in each image.
    abs : bool
        Take absolute values, which loses the sign (Captum's own default).
    """
    from captum.attr import Saliency

    attributions: Tensor = Saliency(model).attribute(_leaf(inputs), target=targets, abs=abs)
    return attributions


def input_x_gradient(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    r"""The gradient times the input.

    .. math:: a_j = x_j \, \partial f_t(x) / \partial x_j

    Source: Shrikumar et al., 2016. Exact where the network is linear between 0 and the input. One
    forward and one backward pass. Parameters are those of `saliency`.
    """
    from captum.attr import InputXGradient

    attributions: Tensor = InputXGradient(model).attribute(_leaf(inputs), target=targets)
    return attributions


def integrated_gradients(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    n_steps: int = 50,
    method: Quadrature = "gausslegendre",
    internal_batch_size: int = 5,
) -> Tensor:
    r"""The gradient integrated along the straight line from an all-zero baseline to the input.

    .. math:: a_j = (x_j - b_j) \int_0^1 \partial_j f_t(b + s (x - b)) \, ds

    Source: Sundararajan et al., 2017. The attributions sum to f(x) - f(b) if the quadrature is fine
    enough, which the few nodes here are not for networks with steep steps. `n_steps` forward and
    backward passes.

    Parameters
    ----------
    model, inputs, targets
        As for `saliency`.
    n_steps : int
        Nodes of the quadrature (Captum's default).
    method : str
        Captum's name of the quadrature rule.
    internal_batch_size : int
        Images times nodes in one pass; raised to the batch size where that is larger.
    """
    zero = torch.zeros_like(inputs)
    return _integrate(model, inputs, targets, zero, n_steps, method, internal_batch_size)


def integrated_gradients_true_baseline(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    baseline: Tensor,
    n_steps: int = 50,
    method: Quadrature = "gausslegendre",
    internal_batch_size: int = 5,
) -> Tensor:
    """Integrated gradients from the environment's own background (IG* in AttributionLab).

    Parameters
    ----------
    baseline : Tensor, (C, 1, 1)
        The true baseline pixel; the environment gives it.
    model, inputs, targets, n_steps, method, internal_batch_size
        As for `integrated_gradients`.
    """
    background = baseline.expand_as(inputs)
    return _integrate(model, inputs, targets, background, n_steps, method, internal_batch_size)


def _integrate(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    baseline: Tensor,
    n_steps: int,
    method: str,
    batch: int,
) -> Tensor:
    from captum.attr import IntegratedGradients

    attributions: Tensor = IntegratedGradients(model).attribute(
        inputs,
        baselines=baseline,
        target=targets,
        n_steps=n_steps,
        method=method,
        internal_batch_size=max(batch, len(inputs)),
    )
    return attributions


def _leaf(inputs: Tensor) -> Tensor:
    # Captum warns where it has to switch gradients on itself.
    return inputs.detach().clone().requires_grad_()
