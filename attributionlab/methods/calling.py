r"""One call of whatever attributes: a function, a class or an instance of Captum's form, saved maps."""

import inspect
import warnings
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attributionlab.base import (
    BY_PLACE,
    AttributionLabError,
    arguments_of,
    format_error,
    has_gradient,
    in_one_line,
    place_of,
    refuse_incomplete,
)
from attributionlab.methods import guards
from attributionlab.methods.declaration import NO_GRADIENT, NO_GRADIENT_REMEDY
from attributionlab.methods.layers import find_layer
from attributionlab.methods.notices import Notice, notify
from attributionlab.methods.outputs import same_outputs, target_outputs

EMBEDDING = "embedding"
"""A method that declares it is given the network's embedding, and ids in place of one-hot images."""
ASK_FOR_GRADIENT = "inputs come without requires_grad: call inputs.requires_grad_() first"
UNCHANGED = (
    "no perturbation changes the output (choose other baselines, or where a softmax is saturated "
    "explain the logit)"
)
CAPTUM_LRP_CAUSE = (
    "Captum's LRP follows chains of layers (the built-in lrp also sums at skip connections)"
)
CAPTUM_DEEP_LIFT_CAUSE = (
    "some activations have no rule, share their input, or are next to max pooling, where Captum's "
    "rule misses a part (the built-in deep-lift does not)"
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
    """Report what is silently wrong with a result of DeepLift, DeepLiftShap, Deconvolution,
    GuidedBackprop, GuidedGradCam, IntegratedGradients, LRP, Lime or KernelShap; nothing about others.

    Costs at most two forward passes and, for the methods that hook modules, one of the first image.
    Only attributions with one map for each image, of the image's shape, are held against a sum.
    """
    from captum import attr

    hooking: dict[type, guards.Backpropagation] = {
        attr.DeepLift: "DeepLift",
        attr.Deconvolution: "Deconvolution",
        attr.GuidedBackprop: "GuidedBackprop",
        attr.GuidedGradCam: "GuidedBackprop",
    }
    for method in {name for kind, name in hooking.items() if isinstance(instance, kind)}:
        with guards.watched(model, method) as found, torch.enable_grad():
            model(inputs[:1].detach().clone().requires_grad_())
        guards.hidden_activations(found, method, len(inputs))
    maps = isinstance(attributions, Tensor) and attributions.shape == inputs.shape
    if not maps or isinstance(instance, attr.LayerAttribution):
        return
    # Multipliers have no sum to keep, and a function may draw other baselines now than before.
    summable = instance.multiplies_by_inputs and not callable(settings.get("baselines"))
    if isinstance(instance, attr.LRP):
        remedy = guards.lrp_remedy(model, CAPTUM_LRP_CAUSE)
        guards.completeness(attributions, _values(model, inputs, targets), None, remedy)
    elif isinstance(instance, attr.DeepLift | attr.IntegratedGradients) and summable:
        reference = _reference(instance, model, inputs, targets, settings.get("baselines"))
        values = _values(model, inputs, targets)
        if isinstance(instance, attr.DeepLift):
            remedy = guards.deep_lift_remedy(model, CAPTUM_DEEP_LIFT_CAUSE)
            guards.completeness(attributions, values, reference, remedy)
        else:
            guards.completeness(
                attributions, values, reference, guards.QUADRATURE_REMEDY, "quadrature"
            )
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


@dataclass(frozen=True)
class Call:
    """One call of a method.

    - `environment`: name of the environment.
    - `model`: the network to explain.
    - `inputs` (B, C, H, W): a fresh copy of the images.
    - `targets` (B,): the outputs to explain.
    - `first`, `total`: index of the first image in the test, and how many images that has.
    - `offered`: arguments for methods that declare them by name: baseline, layers, patches, generator,
      reference_images, highest.
    """

    environment: str
    model: nn.Module
    inputs: Tensor
    targets: Tensor
    first: int = 0
    total: int = 1
    offered: Mapping[str, Any] = field(default_factory=dict)


def label_of(method: Any) -> str:
    if isinstance(method, np.ndarray | Tensor | Mapping):
        return "precomputed"
    return str(getattr(method, "__name__", type(method).__name__))


def _guarded(name: str, run: Callable[[], Any], call: Call) -> Any:
    """Run a method; what it raises is reported with the environment and the place in its code."""

    def describe(error: BaseException) -> str:
        said = f"{name} raised {format_error(error)} on {call.environment}{place_of(error)}"
        stopped = any(words in said for words in NO_GRADIENT)
        if stopped and not has_gradient(call.model, call.inputs[:1]):
            return f"{said}; {NO_GRADIENT_REMEDY}"
        if (stopped or "'NoneType'" in said) and not call.inputs.requires_grad:
            return f"{said}; {ASK_FOR_GRADIENT}"
        if "but 3 were given" in said and not place_of(error):  # none of its lines has run
            return f"{said}; write {name}(model, inputs, targets)"
        return said

    with in_one_line(describe):
        return run()


def call_function(function: Callable[..., Any], call: Call, settings: Mapping[str, Any]) -> Any:
    declared, inputs = arguments_of(function), call.inputs
    offered = {key: value for key, value in call.offered.items() if key in declared}
    embedding = getattr(call.model, EMBEDDING, None)
    if EMBEDDING in declared and isinstance(embedding, nn.Embedding):
        inputs, offered[EMBEDDING] = ids_of(inputs), embedding
    given = offered | _fresh(settings)
    refuse_incomplete(label_of(function), arguments_of(function), BY_PLACE, given)
    return _guarded(
        label_of(function), lambda: function(call.model, inputs, call.targets, **given), call
    )


def ids_of(images: Tensor) -> Tensor:
    """Ids (B, T) of one-hot images (B, V, 1, T): what an embedding takes."""
    return images[:, :, 0].argmax(1)


def _fresh(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings in which a call can change no container of the user's."""
    return {
        key: copy(value) if isinstance(value, list | dict | set) else value
        for key, value in settings.items()
    }


def call_captum_class(kind: type[Any], call: Call, settings: Mapping[str, Any]) -> Any:
    def run() -> Any:
        arguments = [call.model]
        if "layer" in inspect.signature(kind).parameters:
            layers = call.offered["layers"]
            key = EMBEDDING if EMBEDDING in layers else "gradcam"
            arguments.append(find_layer(call.model, None, layers, key))
        return _attribute(kind(*arguments), call, settings)

    return _guarded(kind.__name__, run, call)


def call_class(kind: type[Any], call: Call, settings: Mapping[str, Any]) -> Any:
    """A class in the form of Captum's, which gets by name what it declares, as a function does."""
    constructor = arguments_of(kind)
    given = {**call.offered, **_fresh(settings)}
    if "layer" in constructor:
        layers = call.offered["layers"]
        given["layer"] = find_layer(call.model, settings.get("layer"), layers, "gradcam")
    made_with = {key: value for key, value in given.items() if key in constructor}

    def run() -> Any:
        refuse_incomplete(kind.__name__, arguments_of(kind), 1, made_with)
        attribute = kind(call.model, **made_with).attribute
        declared = arguments_of(attribute)
        named = {
            key: value
            for key, value in given.items()
            if key in declared or (key in settings and key not in constructor)
        }
        where = [call.inputs]
        if "target" in declared:
            named["target"] = call.targets
        else:
            where.append(call.targets)
        refuse_incomplete(f"{kind.__name__}.attribute", arguments_of(attribute), len(where), named)
        return attribute(*where, **named)

    return _guarded(kind.__name__, run, call)


def call_captum_instance(instance: Any, call: Call, settings: Mapping[str, Any]) -> Any:
    # Most of Captum keeps the model as forward_func, DeepLift and its kin as model.
    bound = getattr(instance, "forward_func", None) or getattr(instance, "model", None)
    if bound is not call.model:
        raise AttributionLabError(
            f"this {label_of(instance)} explains another model than that of {call.environment}: pass "
            f"the class {label_of(instance)}, or construct it with this environment's model "
            "(softmax_model for output 'probability')"
        )
    return _guarded(label_of(instance), lambda: _attribute(instance, call, settings), call)


def _attribute(instance: Any, call: Call, settings: Mapping[str, Any]) -> Any:
    from captum.attr import LayerAttribution

    of_embedding = isinstance(getattr(instance, "layer", None), nn.Embedding)
    inputs = ids_of(call.inputs) if of_embedding else call.inputs
    refuse_incomplete(
        label_of(instance), arguments_of(instance.attribute), 1, {"target", *settings}
    )
    with warnings.catch_warnings():
        # Inputs come without requires_grad, by contract; Captum switches it on and says so.
        warnings.filterwarnings("ignore", ".*required_grads has been set automatically.*")
        maps = instance.attribute(inputs, target=call.targets, **_fresh(settings))
    if of_embedding:
        return maps.sum(-1)  # (B, T, D): what a token's embedding contributes
    guard_captum(instance, call.model, inputs, call.targets, settings, maps)
    if isinstance(instance, LayerAttribution) and isinstance(maps, Tensor):
        # A layer's map is coarser than the image: channels are summed, then it is upsampled.
        return LayerAttribution.interpolate(
            maps.sum(1, keepdim=True), tuple(inputs.shape[2:]), interpolate_mode="bilinear"
        )
    return maps


def pick_precomputed(arrays: Any, call: Call, settings: Mapping[str, Any]) -> Any:
    """Attributions of the call's images; computed ones have no settings."""
    if isinstance(arrays, Mapping):
        if call.environment not in arrays:
            raise AttributionLabError(
                f"there are attributions for {', '.join(map(repr, arrays))}, but none for "
                f"{call.environment!r}: add them, or test those environments only"
            )
        arrays = arrays[call.environment]
    if isinstance(arrays, Tensor) and arrays.is_nested:
        raise AttributionLabError(
            f"the attributions for {call.environment} are a nested tensor: pass a plain one"
        )
    shape = tuple(getattr(arrays, "shape", ()))
    if len(shape) < 3 or shape[0] != call.total:
        raise AttributionLabError(
            f"the attributions for {call.environment} have shape {shape}: pass one map for each of "
            f"the {call.total} images of env.batch({call.total}, seed)"
        )
    if isinstance(arrays, Tensor) and arrays.layout != torch.strided:
        arrays = arrays.to_dense()  # sparse ones have no slices
    return arrays[call.first : call.first + len(call.inputs)]
