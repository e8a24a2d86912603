"""What a method declares and takes by name, and what every built-in one refuses before it begins."""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Protocol, TypeVar, cast

import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from attributionlab.device import own_arithmetic
from attributionlab.errors import AttributionLabError, refuse_if
from attributionlab.methods.guards import guarded
from attributionlab.validation import checked_targets, shown


class Attributing(Protocol):
    """An object that attributes, as those of Captum do."""

    @property
    def attribute(self) -> Callable[..., Any]:
        """Inputs, and targets by name -> attributions."""


Maps = Tensor | NDArray[Any]

AttributionMethod = (
    str
    | Attributing
    | Callable[..., Attributing]
    | Callable[..., Maps]
    | Maps
    | Mapping[str, Tensor]
    | Mapping[str, NDArray[Any]]
)
"""What can be tested: a name; a Captum instance or class; ``f(model, inputs, targets, **settings)``;
attributions, or those of each environment."""

Function = TypeVar("Function", bound=Callable[..., Any])


def declares(
    *,
    claim: str | None = None,
    output: str | None = None,
    gradient: bool = False,
    resolution: str | None = None,
    distribution: bool = False,
    runs: int = 1,
) -> Callable[[Function], Function]:
    """State what a method claims to find, and which output it explains where it cannot explain all.

    Parameters
    ----------
    claim : {"signed", "overall", "positive", "positive-smoothed"}, optional
        What it is judged by unless the user asks for something else.
    output : {"probability", "logit"}, optional
        What it explains unless the user asks for something else.
    gradient : bool
        Whether it is the gradient at the input itself, which is a convention on a ReLU's kink.
    resolution : {"gradcam", "iba"}, optional
        The environment's layer whose maps it enlarges, unless told of another one by `layer`.
    distribution : bool
        Whether four-dimensional `baselines` are several for all images, rather than one for each.
    runs : int
        How many runs there are, whose lowest and highest numbers stand beside those of the first. More
        than one for a method that optimizes: it amplifies rounding, so one seed gives other numbers on
        other machines. Runs differ by their seeds; a method that draws nothing takes `nudge`, which is
        0 for the first run.
    """

    def mark(function: Function) -> Function:
        vars(function).update(
            claim=claim,
            output=output,
            gradient=gradient,
            resolution=resolution,
            distribution=distribution,
            runs=runs,
        )
        return function

    return mark


def parameters_of(method: Any) -> Mapping[str, inspect.Parameter]:
    """What a method takes by name; refused with an `AttributionLabError` where that is not known."""
    try:
        return inspect.signature(method).parameters
    except (TypeError, ValueError) as error:
        raise AttributionLabError(
            f"the method is {shown(method)}, whose parameters are not known: pass a function "
            "f(model, inputs, targets, **settings)"
        ) from error


def declared(method: Any, key: str) -> Any:
    """What a method declares, or the one that a partial is of; None for nothing."""
    return getattr(method.func if isinstance(method, partial) else method, key, None)


def name_of(method: Any) -> str:
    """As Python has it; an object goes by its type."""
    return str(declared(method, "__name__") or type(method).__name__)


def kebab(method: Any) -> str:
    """As the command line has it."""
    return name_of(method).replace("_", "-")


def presented(
    function: Callable[..., Tensor],
    name: str,
    docstring: str,
    module: str,
    parameters: Iterable[inspect.Parameter],
) -> Callable[..., Tensor]:
    """A function under a name, with the docstring, module and parameters that `inspect` shows of it."""
    function.__name__ = function.__qualname__ = name
    function.__module__ = module
    function.__doc__ = docstring
    ordered = sorted(parameters, key=lambda parameter: parameter.kind)
    function.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    return function


def stored(maps: Float[Tensor, "..."], dtype: torch.dtype) -> Float[Tensor, "..."]:
    """Maps in a type, or as they are if that cannot hold them: squares reach twice as far."""
    sizes, limits = maps.abs(), torch.finfo(dtype)
    lost = (sizes > limits.max) & sizes.isfinite() | (sizes < limits.tiny) & (sizes > 0)
    return maps if lost.any() else maps.to(dtype)


def checked(method: Function) -> Function:
    """A method that refuses what no attribution follows from, in one line, before it begins.

    `AttributionLabError` for a model that is no `nn.Module`, is scripted, was made in inference mode,
    or holds dropout or batch normalization in training mode; for inputs that are no batch of finite
    floating-point values, or that the model cannot take because its weights have another type or
    device; and for targets that are not one index for each. Targets of any integer type become int64,
    the type by which torch gathers. In inference mode it works on copies outside of it, because nothing
    there has a gradient.
    """

    who = kebab(method)

    @functools.wraps(method)
    def entry(model: nn.Module, inputs: Tensor, targets: Tensor, **settings: Any) -> Any:
        refuse_if(_problems_of_model(model) or _problems_of_inputs(inputs), who)
        refuse_if(_problems_of_targets(targets, len(inputs)), who)
        indices = targets.long()
        call = partial(of_checked, model, inputs, indices, settings)
        return guarded(call, who, model, inputs, indices)

    @own_arithmetic()
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
