"""The guards for results of Captum's own classes, which say nothing themselves."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from attributionlab.methods.findings import Notice, notify
from attributionlab.methods.guards import (
    LRP_REMEDY,
    QUADRATURE_REMEDY,
    Backpropagation,
    completeness,
    deep_lift_remedy,
    hidden_activations,
    watched,
)
from attributionlab.methods.outputs import same_outputs, target_outputs

UNCHANGED = (
    "no perturbation changes the output (choose other baselines, or where a softmax is saturated "
    "explain the logit)"
)
KERNEL_SHAP_CAUSE = f"are zero everywhere, up to rounding, because {UNCHANGED}"
LIME_CAUSE = (
    f"are zero everywhere, up to rounding: either {UNCHANGED}, or the surrogate's penalty outweighs "
    "the range of the output (pass Captum's class with interpretable_model=SkLearnRidge(alpha=...), "
    "or take the built-in lime)"
)


def guard_captum(
    instance: Any,
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    settings: Mapping[str, Any],
    attributions: Any,
) -> None:
    """Tell what is silently wrong with a result of DeepLift, DeepLiftShap, Deconvolution,
    GuidedBackprop, GuidedGradCam, IntegratedGradients, LRP, Lime or KernelShap; nothing about others.

    Costs at most two forward passes and, for the methods that hook modules, one of the first image.

    Parameters
    ----------
    instance : captum.attr.Attribution
        The method.
    model, inputs, targets
        What was explained.
    settings : mapping
        What the method got beside these.
    attributions : object
        What it returned; only one map for each image, of the image's shape, is held against a sum.
    """
    from captum import attr

    hooking: dict[type, Backpropagation] = {
        attr.DeepLift: "DeepLift",
        attr.Deconvolution: "Deconvolution",
        attr.GuidedBackprop: "GuidedBackprop",
        attr.GuidedGradCam: "GuidedBackprop",
    }
    for method in {name for kind, name in hooking.items() if isinstance(instance, kind)}:
        with watched(model, method) as found, torch.enable_grad():
            model(inputs[:1].detach().clone().requires_grad_())
        hidden_activations(found, method, len(inputs))
    maps = isinstance(attributions, Tensor) and attributions.shape == inputs.shape
    if not maps or isinstance(instance, attr.LayerAttribution):
        return
    # Multipliers have no sum to keep, and a function may draw other baselines now than before.
    summable = instance.multiplies_by_inputs and not callable(settings.get("baselines"))
    if isinstance(instance, attr.LRP):
        completeness(attributions, _values(model, inputs, targets), None, LRP_REMEDY)
    elif isinstance(instance, attr.DeepLift | attr.IntegratedGradients) and summable:
        reference = _reference(instance, model, inputs, targets, settings.get("baselines"))
        values = _values(model, inputs, targets)
        if isinstance(instance, attr.DeepLift):
            completeness(attributions, values, reference, deep_lift_remedy(model))
        else:
            completeness(attributions, values, reference, QUADRATURE_REMEDY, "quadrature")
    elif isinstance(instance, attr.LimeBase):
        # A fit to outputs that are all the same leaves rounding of them.
        values = _values(model, inputs, targets)
        largest = attributions.detach().double().abs().flatten(1).amax(1)
        empty = int(same_outputs(values, values.double() + largest).sum())
        # KernelShap is a LimeBase whose surrogate has no penalty, and takes none.
        cause = KERNEL_SHAP_CAUSE if isinstance(instance, attr.KernelShap) else LIME_CAUSE
        notify(Notice(cause, empty, kind="zeros"))


def _values(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    with torch.no_grad():
        return target_outputs(model(inputs), targets)


def _reference(
    instance: Any, model: nn.Module, inputs: Tensor, targets: Tensor, baselines: Any
) -> Tensor:
    """f at the baselines: Captum's default is 0, DeepLiftShap averages over its distribution."""
    from captum.attr import DeepLiftShap

    (start,) = baselines if isinstance(baselines, tuple) else (baselines,)
    if not isinstance(instance, DeepLiftShap):
        filled = torch.zeros_like(inputs) + (0 if start is None else start)
        return _values(model, filled, targets)
    with torch.no_grad():
        outputs: Tensor = model(start).mean(0)
    return outputs[targets]
