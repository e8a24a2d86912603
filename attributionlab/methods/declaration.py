"""What a method declares and takes by name, and what every built-in one refuses before it begins."""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, ParamSpec, Protocol, TypeVar, cast

import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from attributionlab.base import (
    AttributionLabError,
    argument_problems,
    model_problems,
    own_arithmetic,
    plain_arguments,
    plain_problem,
    refuse_if,
    shown,
)
from attributionlab.methods.answers import Function as PlainFunction
from attributionlab.methods.answers import Model, Targets, network_of, posed
from attributionlab.methods.guards import guarded

NO_GRADIENT = ("does not require grad", "appears to not have been used in the graph")
"""What torch says where nothing that is asked for has a gradient."""
NO_GRADIENT_REMEDY = (
    "the gradient of the model's output does not reach the images (detach, a cast to integers or a "
    "constant stops it): fix the model, or take a method that needs no gradient, such as occlusion"
)


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
Settings = ParamSpec("Settings")


SHOW_PROGRESS = inspect.Parameter(
    "show_progress", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=bool
)
"""What every built-in method takes beside its settings."""


class DirectCall(Protocol[Settings]):
    """A built-in method: what `saliency` says of its parameters holds for all of them."""

    def __call__(
        self,
        model: Model,
        inputs: Tensor,
        targets: Targets,
        show_progress: bool = False,
        *args: Settings.args,
        **settings: Settings.kwargs,
    ) -> Tensor:
        """Images -> maps."""


class Written(Protocol[Settings]):
    """A method as it is written: a network of rows of outputs, images, an index for each image."""

    def __call__(
        self,
        model: nn.Module,
        inputs: Tensor,
        targets: Tensor,
        *args: Settings.args,
        **settings: Settings.kwargs,
    ) -> Tensor:
        """Images -> maps."""


def declares(
    *,
    claim: str | None = None,
    output: str | None = None,
    gradient: bool = False,
    resolution: str | None = None,
    distribution: bool = False,
    modules: bool = False,
    images: bool = False,
    runs: int = 1,
) -> Callable[[Function], Function]:
    """Declare what a method claims to find, and which output it explains if it cannot explain all.

    Parameters
    ----------
    claim : {"signed", "overall", "positive", "positive-smoothed"}, optional
        The claim to test it by, unless the user chooses another.
    output : {"probability", "logit"}, optional
        The output it explains, unless the user chooses another.
    gradient : bool
        Whether it is the gradient at the input itself, which is a convention on a ReLU's kink.
    resolution : {"gradcam", "iba"}, optional
        The environment's layer whose maps it upsamples, unless `layer` names another one.
    distribution : bool
        Whether four-dimensional `baselines` are a distribution for all images, not one per image.
    modules : bool
        Whether it needs the network's modules, so that a function is not enough.
    images : bool
        Whether it uses rows and columns, so that inputs must be images.
    runs : int
        Number of runs, whose lowest and highest scores are reported with those of the first. More than
        one for a method that optimizes: it amplifies rounding, so the same seed gives different numbers
        on other machines. Runs differ in their seeds; a deterministic method takes `nudge`, which is 0
        for the first run.
    """

    def mark(function: Function) -> Function:
        vars(function).update(
            claim=claim,
            output=output,
            gradient=gradient,
            resolution=resolution,
            distribution=distribution,
            modules=modules,
            images=images,
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


def checked(method: Written[Settings]) -> DirectCall[Settings]:
    """A method that refuses what no attribution follows from, in one line, before it begins.

    `AttributionLabError` for a model that is no network, was made in inference mode, or holds dropout
    or batch normalization in training mode, and for a function where the method needs modules; for
    inputs that are no batch of finite floating-point values, are no images where the method needs
    these, or that the model cannot take because its weights have another type or device; where no
    gradient arrives that the method needs; and for what `posed` refuses.
    """

    who, own = kebab(method), segmentation_of(method)
    parameters = parameters_of(method)
    annotations = {key: each.annotation for key, each in parameters.items()}
    annotations["show_progress"] = bool
    written: Callable[..., Tensor] = method

    @functools.wraps(method)
    def entry(
        model: Model,
        inputs: Tensor,
        targets: Targets,
        *,
        show_progress: bool = False,
        **settings: Any,
    ) -> Any:
        network = network_of(model)
        problems = problems_of_form(method, network, inputs)
        problems += argument_problems({"show_progress": show_progress, **settings}, annotations)
        refuse_if(problems, who)
        settings = plain_arguments(settings, annotations)
        question = posed(who, network, inputs, targets, own | settings, show_progress)
        try:
            with own_arithmetic(), question as (network, images, classes, given, shaped):
                call = partial(written, network, images, classes, **given)
                return shaped(guarded(call, who, network, images, classes))
        except AttributionLabError:
            raise
        except Exception as error:
            if isinstance(error, RuntimeError) and (
                cause := _problems_of_pass(error, network, inputs)
            ):
                raise AttributionLabError(f"{who}: {cause}") from error
            raise

    presented(
        *(entry, name_of(method), method.__doc__ or "", method.__module__),
        [*parameters.values(), SHOW_PROGRESS],
    )
    return cast(DirectCall[Settings], entry)


def segmentation_of(method: Any) -> dict[str, Any]:
    """A method's segmentation unless the user asks for another one, if it has one."""
    taken = parameters_of(method).get("segmentation")
    return {} if taken is None else {"segmentation": taken.default}


def problems_of_form(method: Any, network: Any, inputs: Any) -> list[str]:
    """What is wrong with a network (`network_of`) and inputs, for any method or for this one."""
    problems = _problems_of_model(network) or _problems_of_inputs(inputs)
    if not problems and isinstance(network, PlainFunction) and declared(method, "modules"):
        function = shown(network.function)
        problems.append(
            f"the model is {function}, but its modules are needed: pass the nn.Module that it was made "
            "from"
        )
    if not problems and inputs.ndim != 4 and declared(method, "images"):
        problems.append(
            f"inputs have shape {tuple(inputs.shape)}, and it looks at the rows and columns of "
            "images: pass a tensor of shape (B, C, H, W)"
        )
    return problems


def _problems_of_model(model: Any) -> list[str]:
    if not isinstance(model, nn.Module):
        return [
            f"the model is {shown(model)}: pass an nn.Module, or a function, (B, C, H, W) -> (B, K)"
        ]
    return model_problems(model, model.within() if isinstance(model, PlainFunction) else None)


def _problems_of_inputs(inputs: Any) -> list[str]:
    if not isinstance(inputs, Tensor) or inputs.ndim < 2 or not inputs.numel():
        return [f"inputs are {shown(inputs)}: pass a tensor of shape (B, C, H, W), B at least 1"]
    if problems := plain_problem("inputs are", inputs):
        return problems
    if not inputs.is_floating_point() or inputs.dtype.itemsize < 2:
        return [f"inputs are {shown(inputs)}: pass floating-point images, such as inputs.float()"]
    # A sum holds NaN and infinity, too, and takes no memory; one that overflows is looked at again.
    if not inputs.detach().sum().isfinite() and not inputs.isfinite().all():
        return ["inputs hold NaN or infinity: pass finite images"]
    return []


def _problems_of_pass(error: RuntimeError, model: nn.Module, inputs: Tensor) -> str:
    """What may have stopped a pass through the network, if it is one of the usual causes."""
    text = str(error)
    if any(words in text for words in NO_GRADIENT):
        return NO_GRADIENT_REMEDY
    if "use_reentrant=True" in text:
        return (
            "the model recomputes activations by torch.utils.checkpoint with use_reentrant=True, which "
            "passes no gradient to the inputs: set use_reentrant=False, or switch it off"
        )
    if "modified by an inplace operation" in text:
        return (
            "the model changes in place a tensor that its gradient needs (a hook that writes into an "
            "output, or a layer with inplace=True after one that keeps its output): let it return a "
            "new tensor"
        )
    # Not beforehand: a model may bring images to its own type and device.
    about = any(word in text for word in ("type", "device"))
    problems = _differences(model, inputs) if about else ""
    if problems or "same dtype" not in text:
        return problems
    return (
        f"one operation mixes two types ({text.splitlines()[0]}): give the network one type, and no "
        "autocast within its forward if a method has its own rules for operations"
    )


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
