"""What every built-in method asks of a model, images and targets before it begins."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from attributionlab.device import own_arithmetic
from attributionlab.errors import AttributionLabError, refuse_if
from attributionlab.validation import checked_targets, shown

Function = TypeVar("Function", bound=Callable[..., Any])


def checked(method: Function) -> Function:
    """A method that refuses what no attribution follows from, in one line, before it begins.

    In inference mode it works on copies outside of it, because nothing there has a gradient.

    Parameters
    ----------
    method : callable
        ``f(model, inputs, targets, **settings)``.

    Returns
    -------
    callable
        The same, which raises `AttributionLabError` for a model that is no `nn.Module`, is scripted,
        was made in inference mode, or holds dropout or batch normalization in training mode; for
        inputs that are no batch of finite floating-point values, or that the model cannot take because
        its weights have another type or device; and for targets that are not one index for each.
    """

    who = method.__name__.replace("_", "-")

    @functools.wraps(method)
    def entry(model: nn.Module, inputs: Tensor, targets: Tensor, **settings: Any) -> Any:
        refuse_if(_problems_of_model(model) or _problems_of_inputs(inputs), who)
        refuse_if(_problems_of_targets(targets, len(inputs)), who)
        with own_arithmetic():
            return of_checked(model, inputs, targets, settings)

    def of_checked(
        model: nn.Module, inputs: Tensor, targets: Tensor, settings: dict[str, Any]
    ) -> Any:
        try:
            if not torch.is_inference_mode_enabled() and not inputs.is_inference():
                return method(model, inputs, targets, **settings)
            with torch.inference_mode(False):
                return method(model, inputs.clone(), targets.clone(), **settings)
        except RuntimeError as error:
            # Not beforehand: a model may bring images to its own type and device.
            about = any(word in str(error) for word in ("type", "device"))
            if about and (problems := _differences(model, inputs)):
                raise AttributionLabError(f"{who}: {problems}") from error
            raise

    return cast(Function, entry)


def _problems_of_model(model: Any) -> list[str]:
    if not isinstance(model, nn.Module):
        name = type(model).__name__
        return [f"the model is of type {name}: pass an nn.Module (B, C, H, W) -> (B, K)"]
    if any(isinstance(module, torch.jit.ScriptModule) for module in model.modules()):
        return ["the model is scripted, and has no hooks: pass the nn.Module that it was made from"]
    if any(weights.is_inference() for weights in model.parameters()):
        return [
            "the model was made in torch.inference_mode: make it outside, or nothing has a gradient"
        ]
    return [
        f"the model is in training mode ({type(module).__name__} {name!r}): call model.eval()"
        for name, module in model.named_modules()
        if module.training and _is_another_in_training(module)
    ][:1]


def _is_another_in_training(module: nn.Module) -> bool:
    """Whether it draws, takes an image's statistics from those beside it, or changes itself."""
    match module:
        case nn.modules.dropout._DropoutNd():
            return module.p > 0
        case nn.MultiheadAttention() | nn.RNNBase():
            return module.dropout > 0
        case nn.modules.instancenorm._InstanceNorm():
            return module.track_running_stats
        case _:
            return isinstance(module, nn.modules.batchnorm._BatchNorm | nn.RReLU)


def _problems_of_inputs(inputs: Any) -> list[str]:
    if not isinstance(inputs, Tensor) or inputs.ndim < 2 or not inputs.numel():
        return [f"inputs are {shown(inputs)}: pass a tensor of shape (B, C, H, W), B at least 1"]
    if not inputs.is_floating_point():
        return [f"inputs are {shown(inputs)}: pass floating-point images, such as inputs.float()"]
    if not inputs.isfinite().all():
        return ["inputs hold NaN or infinity: pass finite images"]
    return []


def _problems_of_targets(targets: Any, images: int) -> list[str]:
    lowest = min(checked_targets(targets, images))
    if lowest >= 0:
        return []
    return [f"targets go down to {lowest}: pass indices of the model's outputs, from 0 on"]


def _differences(model: nn.Module, inputs: Tensor) -> str:
    """What may have stopped a forward pass: no weights have the images' type and device."""
    weights = [each for each in model.parameters() if each.is_floating_point()]
    kinds = {(each.dtype, each.device) for each in weights}
    if not kinds or (inputs.dtype, inputs.device) in kinds:
        return ""
    dtype, device = weights[0].dtype, weights[0].device
    return (
        f"inputs are {inputs.dtype} on {inputs.device}, the model's weights {dtype} on {device}: move "
        "one of them with .to(...)"
    )
