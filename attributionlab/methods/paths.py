r"""Integrated gradients with the nodes that everybody uses, and without any quadrature error."""

from typing import Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attributionlab.errors import nearest, refuse_if
from attributionlab.exact import path_integral
from attributionlab.exact.integrals.double import DoubleCopy
from attributionlab.memory import refuse_beyond_memory
from attributionlab.methods.baselines import Baselines, as_baselines, from_true_baseline
from attributionlab.methods.batching import in_smaller_batches, passes_at_once
from attributionlab.methods.entry import checked
from attributionlab.methods.findings import Notice, notify
from attributionlab.methods.guards import (
    QUADRATURE_REMEDY,
    STATED_SHARE,
    completeness,
    shares_of_change,
)
from attributionlab.methods.outputs import target_outputs
from attributionlab.validation import MOST_ROUNDS, integer_problem

Quadrature = Literal[
    "gausslegendre", "riemann_left", "riemann_right", "riemann_middle", "riemann_trapezoid"
]


@checked
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
        Nodes of the quadrature (Captum's default); at least 2 for a Riemann sum.
    method : str
        Captum's name of the quadrature rule.
    internal_batch_size : int, optional
        Images times nodes in one pass; by default what fits the memory budget. Where there are more
        images than that, they are explained one part after the other.

    Raises
    ------
    AttributionLabError
        For settings out of range and an unknown quadrature.
    """
    refuse_if(quadrature_problems(n_steps, method, internal_batch_size), "integrated-gradients")
    start = as_baselines(baselines, inputs)
    batch = nodes_at_once(model, inputs, internal_batch_size)
    attributions, output, reference = straight_paths(
        *(model, inputs, start, targets, n_steps, method, batch), "integrated-gradients"
    )
    completeness(attributions, output, reference, QUADRATURE_REMEDY, "quadrature")
    return attributions.to(inputs.dtype)  # Captum's nodes are float32 or more


def quadrature_problems(n_steps: object, method: object, internal_batch_size: object) -> list[str]:
    """What is wrong with these settings of `integrated_gradients`."""
    # A Riemann sum of a single node is none that Captum takes.
    problems = integer_problem(
        "n_steps", n_steps, 1 if method == "gausslegendre" else 2, MOST_ROUNDS
    )
    if internal_batch_size is not None:
        problems += integer_problem("internal_batch_size", internal_batch_size, 1)
    if method not in get_args(Quadrature):
        problems.append(f"method is {method!r}: {nearest(str(method), get_args(Quadrature))}")
    return problems


def nodes_at_once(model: nn.Module, inputs: Tensor, asked: int | None = None) -> int:
    """How many nodes pass at once: what a user asked for, or what fits the memory budget."""
    fitting = passes_at_once(model, inputs, asked)
    # A node needs its activations and as much again for their gradients.
    return fitting if asked else max(1, fitting // 2)


def straight_paths(
    model: nn.Module,
    inputs: Float[Tensor, "batch channels height width"],
    start: Float[Tensor, "batch channels height width"],
    targets: Int[Tensor, " batch"],
    n_steps: int,
    method: Quadrature,
    batch: int,
    who: str,
) -> tuple[
    Float[Tensor, "batch channels height width"], Float[Tensor, " batch"], Float[Tensor, " batch"]
]:
    """Attributions by quadrature, f(x) and f(b).

    Parameters
    ----------
    model, inputs, targets
        As for `saliency`.
    start : Tensor, (B, C, H, W)
        b of each input.
    n_steps, method
        As for `integrated_gradients`.
    batch : int
        Images times nodes in one pass.
    who : str
        For messages.
    """
    from captum.attr import IntegratedGradients

    # Gauss's nodes are the eigenvalues of a matrix; others are listed, with their weights.
    needed = 16 * int(n_steps) ** 2 if method == "gausslegendre" else 128 * int(n_steps)
    what = f"{who}: n_steps is {n_steps}: finding the nodes"
    refuse_beyond_memory(needed, what, "take fewer, or a Riemann sum as the method")

    def integrate(batch: int) -> tuple[Tensor, Tensor, Tensor]:
        parts = []
        for x, b, t in zip(
            *(torch.split(each, batch) for each in (inputs, start, targets)), strict=True
        ):
            attributions = IntegratedGradients(model).attribute(
                x, b, t, n_steps=n_steps, method=method, internal_batch_size=batch
            )
            with torch.no_grad():
                output, reference = (target_outputs(model(ends), t) for ends in (x, b))
            parts.append((attributions.detach(), output, reference))
        attributions, output, reference = (torch.cat(part) for part in zip(*parts, strict=True))
        return attributions, output, reference

    return in_smaller_batches(integrate, min(batch, len(inputs) * n_steps), who)


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


@checked
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
    space, and the baseline. One pass forward and back through each layer for each kink before it, and
    two forward passes more.

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
    Tensor, (B, C, H, W)
        In units of the output, rounded to the type of the inputs; `path_integral` has all digits.

    Raises
    ------
    AttributionLabError
        As `path_integral`.
    """
    start = as_baselines(baselines, inputs)
    result = path_integral(
        model, inputs, start, targets, max_panels=max_panels, max_evaluations=max_evaluations
    )
    double = DoubleCopy(model)
    ends = [
        double.outputs(torch.stack([b, x]).double(), int(t))
        for b, x, t in zip(start, inputs, targets, strict=True)
    ]
    reference, output = torch.stack(ends, 1)
    remedy = "raise max_panels or max_evaluations"
    completeness(result.attributions, output, reference, remedy)
    shares = shares_of_change(result.error, result.attributions, output, reference)
    coarse = shares.isfinite() & (shares > STATED_SHARE)
    notify(
        Notice(
            f"are integrated with an estimated error of up to {{worst}} of the output change: {remedy}",
            int(coarse.sum()),
            worst=float(shares[coarse].max()) if coarse.any() else 0.0,
            kind="error",
        )
    )
    unknown = int((~shares.isfinite()).sum())
    text = f"are integrated with an error that nothing bounds: {remedy}"
    notify(Notice(text, unknown, kind="error"))
    return result.attributions.to(inputs.dtype)


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
