r"""Methods that distribute an output, or its change, backwards over the input: DeepLift and LRP."""

import functools
import warnings
from typing import Any

import torch
from torch import Tensor, nn

from attributionlab.errors import AttributionLabError, refuse_if
from attributionlab.methods.baselines import (
    Baselines,
    as_baselines,
    as_distribution,
    from_true_baseline,
)
from attributionlab.methods.batching import over_batches
from attributionlab.methods.declaration import checked, declares
from attributionlab.methods.guards import (
    LRP_REMEDY,
    Activations,
    completeness,
    deep_lift_remedy,
    hidden_activations,
    nonlinear_steps,
    watched,
)
from attributionlab.methods.outputs import target_outputs
from attributionlab.validation import number_problem


@checked
@declares(modules=True)
def deep_lift(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    baselines: Baselines = 0.0,
    eps: float = 1e-10,
) -> Tensor:
    r"""DeepLift with the Rescale rule: the output change is distributed over the input changes.

    .. math::
        a_j = m_j (x_j - b_j), \quad
        m_{ReLU} = \frac{ReLU(z) - ReLU(z')}{z - z'}, \quad
        m_{linear} = w,

    with multipliers chained backwards like gradients; z belongs to x, z' to the baseline b. Where
    |z - z'| < eps the gradient takes the quotient's place.

    Source: Shrikumar et al., 2017, by Captum. Sees past saturated units, and sums to f(x) - f(b) for
    networks of linear layers and elementwise activations. Not behind a softmax: Captum subtracts there
    the mean of the multipliers over the outputs. In captum 0.9.0 it is a mean over the whole batch, so
    that images change each other's attributions (docs/methods.md, "Where Captum does not do the work");
    here it is each image's own. It hooks modules: a functional ReLU gets its plain gradient. The guards
    tell of both. One forward and one backward pass of twice the batch.

    Parameters
    ----------
    model, inputs, targets
        As for `saliency`.
    baselines : float, sequence of float, ndarray or Tensor
        What the input is compared with (`as_baselines`); black by default.
    eps : float
        Smallest change of a unit's input that is divided by; of half precision at least its smallest
        normal number.

    Returns
    -------
    Tensor, (B, C, H, W)
        In units of the output.

    Raises
    ------
    AttributionLabError
        If a module is used twice (make one for each use), or `eps` is no positive number.
    """
    attributions, output, reference, found = _contributions(
        model, inputs, as_baselines(baselines, inputs), targets, eps, "deep-lift"
    )
    hidden_activations(found, "DeepLift", len(inputs))
    completeness(attributions, output, reference, deep_lift_remedy(model))
    return attributions


deep_lift_true_baseline = from_true_baseline(
    deep_lift, "DeepLift from the environment's own background."
)


@checked
@declares(distribution=True, modules=True)
def deep_shap(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    baselines: Baselines = 0.0,
    eps: float = 1e-10,
) -> Tensor:
    r"""DeepLift averaged over a distribution of baselines.

    .. math:: a_j = \frac{1}{N} \sum_{n=1}^N DeepLift_j(x, b_n)

    Source: Lundberg & Lee, 2017. Estimates Shapley values as far as the network is linear. With one
    baseline, as in AttributionLab (all zeros), it *is* DeepLift, with all that `deep_lift` says of it.
    In captum 0.9.0 DeepLiftShap refuses a single one and computes the same for more (docs/methods.md,
    "Where Captum does not do the work"). N times the cost of `deep_lift`.

    Parameters
    ----------
    model, inputs, targets, eps
        As for `deep_lift`.
    baselines : float, sequence of float, ndarray or Tensor
        One baseline (`as_baselines`), or N of them as (N, C, H, W) or (N, C, 1, 1), each for all
        images; black by default.
    """
    each = [
        _contributions(model, inputs, one.expand_as(inputs), targets, eps, "deep-shap")
        for one in as_distribution(baselines, inputs)
    ]
    mean = torch.stack([attributions for attributions, *_ in each]).mean(0)
    reference = torch.stack([before for _, _, before, _ in each]).mean(0)
    _, output, _, found = each[0]
    hidden_activations(found, "DeepLift", len(inputs))
    completeness(mean, output, reference, deep_lift_remedy(model))
    return mean


deep_shap_true_baseline = from_true_baseline(
    deep_shap,
    "DeepSHAP from the environment's own background, which with one baseline is DeepLift from there.",
)


def _contributions(
    model: nn.Module, inputs: Tensor, baselines: Tensor, targets: Tensor, eps: float, who: str
) -> tuple[Tensor, Tensor, Tensor, Activations]:
    """DeepLift's contributions, f(x), f(b) and what the forward pass did."""
    refuse_if(number_problem("eps", eps, above=0), who)
    # An expanded baseline would cost the concatenation the layout of the inputs.
    references = torch.empty_like(inputs).copy_(baselines)
    eps = max(eps, torch.finfo(inputs.dtype).tiny)  # which is no 0 beside changes of this type
    kept = [(module, set(vars(module))) for module in model.modules()]

    found = Activations()

    def run(x: Tensor, b: Tensor, t: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        nonlocal found
        with watched(model, "DeepLift") as found, warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Setting forward, backward hooks")
            leaf = x.detach().clone().requires_grad_()
            attributions = _deep_lift_of_captum()(model, eps=eps).attribute(leaf, b, target=t)
        output, reference = target_outputs(found.output, t.repeat(2)).chunk(2)
        return attributions.detach(), output, reference

    try:
        attributions, output, reference = over_batches(run, (inputs, references, targets), who)
    except RuntimeError as error:
        if "used more than once" not in str(error):
            raise
        raise AttributionLabError(
            f"{who} cannot explain a network that calls one activation module several times: "
            "use a separate nn.ReLU for each"
        ) from error
    finally:
        # Captum leaves what its hooks noted on modules that no gradient reaches.
        for module, names in kept:
            for name in {"input", "output"} - names:
                vars(module).pop(name, None)
    return attributions, output, reference, found


@functools.cache
def _deep_lift_of_captum() -> Any:
    """Captum's DeepLift, made only when needed, with a softmax rule that keeps images apart."""
    from captum.attr import DeepLift

    class SeparateDeepLift(DeepLift):  # type: ignore[misc]
        def _backward_hook(self, module: Any, grad_input: Any, grad_output: Any) -> Any:
            if type(module) is not nn.Softmax or not self.satisfies_attribute_criteria(module):
                return super()._backward_hook(module, grad_input, grad_output)
            noted: list[Any] = [module.input, module.output]
            change_in, change_out = (
                (each[0] - each[1]).repeat(2, *[1] * (each.ndim - 2))
                for each in map(_halves, noted)
            )
            del module.input, module.output
            multipliers = torch.where(
                change_in.abs() < self.eps, grad_input, grad_output * change_out / change_in
            )
            pairs = _halves(multipliers)
            image = [0, *range(2, pairs.ndim)]
            return (pairs - pairs.mean(image, keepdim=True)).flatten(0, 1)

    return SeparateDeepLift


def _halves(batch: Tensor) -> Tensor:
    """(2 B, ...), inputs before baselines, as (2, B, ...)."""
    return batch.reshape(2, -1, *batch.shape[1:])


LINEAR = (nn.Linear, nn.modules.conv._ConvNd, nn.modules.batchnorm._BatchNorm, nn.AvgPool2d)
"""Layers whose outputs are weighted sums of their inputs and a bias."""

RESCALING = ("Relu", "LeakyRelu", "PreluKernel", "MaxPool")
"""Operations that multiply each input they pass on by a number, which is also their gradient."""


@checked
@declares(output="logit", modules=True)
def lrp(model: nn.Module, inputs: Tensor, targets: Tensor, *, epsilon: float = 1e-9) -> Tensor:
    r"""Layer-wise relevance propagation with the epsilon rule.

    .. math::
        R_j = \sum_k \frac{x_j w_{jk}}{z_k + \epsilon \, sign(z_k)} R_k, \quad
        z_k = \sum_j x_j w_{jk} + b_k,

    with sign(0) = 1, from R = f_t(x) at the output back to the input; an activation hands its relevance
    on unchanged.

    Source: Bach et al., 2015. Explains logits; behind a softmax it is not defined. Each bias b_k
    absorbs its share, so relevance sums to the output only in networks without biases (the guard says
    how much is missing, relative to f(x)). For epsilon -> 0 and ReLU it is the input times the gradient
    (Ancona et al., 2018), since an inactive unit has no relevance to hand on. That is also how it is
    computed: the input times a gradient that each layer multiplies by z / (z + epsilon sign z).
    In captum 0.9.0 LRP agrees on chains of layers, in two forward passes; but it raises on
    `nn.Flatten`, is wrong at skip connections, and leaves activations on the model, and where it raises
    its rules too (docs/methods.md, "Where Captum does not do the work"). One forward and one backward
    pass.

    Parameters
    ----------
    model, inputs, targets
        As for `saliency`. Layers called as functions go without epsilon.
    epsilon : float
        Positive, in units of the layers' outputs; larger ones let weak, contradicting relevance vanish.

    Returns
    -------
    Tensor, (B, C, H, W)
        In units of the output.

    Raises
    ------
    AttributionLabError
        If the network has a softmax or another activation that does not multiply its input by a number
        for each unit, or `epsilon` is no positive number.
    """
    refuse_if(number_problem("epsilon", epsilon, above=0), "lrp")
    layers = [module for module in model.modules() if isinstance(module, LINEAR)]

    def stabilize(_: nn.Module, __: Any, output: Tensor) -> None:
        z = output.detach()
        stable = z + epsilon * torch.where(z >= 0, 1.0, -1.0).to(z)
        if not torch.equal(stable, z) and output.requires_grad:
            output.register_hook(lambda gradient: gradient * (z / stable))  # type: ignore[no-untyped-call]

    def run(images: Tensor, classes: Tensor) -> tuple[Tensor, Tensor]:
        leaf = images.detach().clone().requires_grad_()
        handles = [layer.register_forward_hook(stabilize) for layer in layers]
        with torch.enable_grad():
            try:
                output = model(leaf)
            finally:
                for handle in handles:
                    handle.remove()
            _refuse_other_activations(output)
            value = target_outputs(output, classes)
            (gradient,) = torch.autograd.grad(value.sum(), leaf)
        return leaf.detach() * gradient, value.detach()

    relevance, value = over_batches(run, (inputs, targets), "lrp")
    completeness(relevance, value, None, LRP_REMEDY)
    return relevance


def _refuse_other_activations(output: Tensor) -> None:
    for step in nonlinear_steps(output):
        kind = type(step).__name__.partition("Backward")[0]
        if kind.endswith("Softmax"):
            raise AttributionLabError(
                "lrp explains logits and this network has a softmax: pass output='logit'"
            )
        if not kind.startswith(RESCALING):
            raise AttributionLabError(
                f"lrp has no rule for {kind}: use a network of linear layers and ReLUs"
            )
