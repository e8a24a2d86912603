r"""Integrated gradients with the nodes that everybody uses, and without any quadrature error."""

from typing import Literal

import torch
from torch import Tensor, nn

from attributionlab.methods.baselines import Baselines, as_baselines, from_true_baseline
from attributionlab.methods.batching import images_at_once, in_smaller_batches
from attributionlab.methods.guards import completeness, explained

__all__ = ["integrated_gradients", "integrated_gradients_true_baseline"]

Quadrature = Literal[
    "gausslegendre", "riemann_left", "riemann_right", "riemann_middle", "riemann_trapezoid"
]


def integrated_gradients(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    baselines: Baselines = 0.0,
    n_steps: int = 50,
    method: Quadrature = "gausslegendre",
    internal_batch_size: int | None = None,
) -> Tensor:
    r"""The gradient integrated along the straight line from a baseline to the input.

    .. math:: a_j = (x_j - b_j) \int_0^1 \partial_j f_t(b + s (x - b)) \, ds

    Source: Sundararajan et al., 2017. The path runs through pixel (RGB) space. The attributions sum to
    f(x) - f(b) if the quadrature is fine enough, which the few nodes here are not for networks with
    steep steps; a guard says how much is missing. `n_steps` forward and backward passes, and two more
    forward passes.

    Parameters
    ----------
    model, inputs, targets
        As for `saliency`.
    baselines : float, sequence of float, ndarray or Tensor
        Where the path starts (`as_baselines`); black by default.
    n_steps : int
        Nodes of the quadrature (Captum's default).
    method : str
        Captum's name of the quadrature rule.
    internal_batch_size : int, optional
        Images times nodes in one pass, raised to the batch size where that is larger; by default what
        fits the memory budget.
    """
    from captum.attr import IntegratedGradients

    # A node needs its activations and as much again for their gradients.
    batch = internal_batch_size or images_at_once(model, inputs) // 2
    start = as_baselines(baselines, inputs)

    def integrate(batch: int) -> Tensor:
        attributions: Tensor = IntegratedGradients(model).attribute(
            inputs,
            baselines=start,
            target=targets,
            n_steps=n_steps,
            method=method,
            internal_batch_size=max(batch, len(inputs)),
        )
        return attributions

    attributions = in_smaller_batches(integrate, max(batch, len(inputs)), "integrated-gradients")
    with torch.no_grad():
        output, reference = (explained(model(ends), targets) for ends in (inputs, start))
    remedy = "take a larger n_steps, or the exact integral of integrated-gradients-exact"
    completeness(attributions, output, reference, remedy)
    return attributions


integrated_gradients_true_baseline = from_true_baseline(
    integrated_gradients,
    """Integrated gradients from the environment's own background (IG* in AttributionLab).

    Parameters
    ----------
    baseline : Tensor, (C, 1, 1)
        The true baseline pixel; the environment gives it.
    model, inputs, targets, n_steps, method, internal_batch_size
        As for `integrated_gradients`.
    """,
)
