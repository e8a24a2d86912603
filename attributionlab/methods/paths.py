r"""Integrated gradients with the nodes that everybody uses, and without any quadrature error."""

from typing import Literal

import torch
from torch import Tensor, nn

from attributionlab.exact import path_integral
from attributionlab.methods.baselines import Baselines, as_baselines, from_true_baseline
from attributionlab.methods.batching import images_at_once, in_smaller_batches
from attributionlab.methods.findings import Finding, tell
from attributionlab.methods.guards import STATED_SHARE, completeness, explained

__all__ = [
    "integrated_gradients",
    "integrated_gradients_exact",
    "integrated_gradients_exact_true_baseline",
    "integrated_gradients_true_baseline",
]

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

    batch = internal_batch_size or images_at_once(model, inputs)
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


def integrated_gradients_exact(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    baselines: Baselines = 0.0,
    max_panels: int = 10_000,
    max_evaluations: int = 3000,
) -> Tensor:
    r"""Integrated gradients without the error of a quadrature (`attributionlab.exact.path_integral`).

    .. math:: a_j = (x_j - b_j) \int_0^1 \partial_j f_t(b + s (x - b)) \, ds

    Source: Sundararajan et al., 2017. Chains of linear layers and ReLUs, with or without a softmax at
    the end, are integrated piece by piece in float64; other models by adaptive quadrature. What is
    left of the faults of integrated gradients is then its own: the path, straight through pixel (RGB)
    space, and the baseline. One pass forward and back through each layer for each kink before it.

    Parameters
    ----------
    model, inputs, targets
        As for `saliency`.
    baselines : float, sequence of float, ndarray or Tensor
        Where the path starts (`as_baselines`); black by default.
    max_panels, max_evaluations : int
        Limits of the work on each image, as for `path_integral`.

    Returns
    -------
    Tensor of float64, (B, C, H, W)
        In units of the output.
    """
    start = as_baselines(baselines, inputs)
    result = path_integral(
        model, inputs, start, targets, max_panels=max_panels, max_evaluations=max_evaluations
    )
    change = (result.attributions.flatten(1).sum(1) - result.residual).abs()
    share = torch.where(result.error == 0, 0.0, result.error / change)
    coarse = share > STATED_SHARE
    tell(
        Finding(
            "are integrated with an estimated error of up to {worst} of the output change: raise "
            "max_panels or max_evaluations",
            int(coarse.sum()),
            worst=float(share[coarse].max()) if coarse.any() else 0.0,
        )
    )
    gaps = torch.where(result.residual == 0, 0.0, result.residual.abs() / change)
    tell(Finding("", 0, gaps.tolist()))
    return result.attributions


integrated_gradients_exact_true_baseline = from_true_baseline(
    integrated_gradients_exact,
    """Exact integrated gradients from the environment's own background.

    Parameters
    ----------
    baseline : Tensor, (C, 1, 1)
        The true baseline pixel; the environment gives it.
    model, inputs, targets, max_panels, max_evaluations
        As for `integrated_gradients_exact`.
    """,
)
