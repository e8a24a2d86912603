"""Anything that attributes becomes a `Method`: names, Captum classes, callables, arrays."""

import importlib
import importlib.util
import inspect
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from attributionlab.errors import AttributionLabError, nearest
from attributionlab.methods.captum_guards import guard_captum
from attributionlab.methods.layers import find_layer

__all__ = ["Call", "Method", "as_method"]


@dataclass(frozen=True)
class Call:
    """One call of a method.

    Parameters
    ----------
    environment : str
        Where it takes place.
    model : nn.Module
        The network to explain.
    inputs : Tensor, (B, C, H, W)
        A fresh copy of the images.
    targets : Tensor, (B,)
        The outputs to explain.
    first, total : int
        Index of the first image in the test, and how many images that has.
    offered : mapping
        Arguments for methods that declare them by name: baseline, layers, patches, generator,
        reference_images, highest.
    """

    environment: str
    model: nn.Module
    inputs: Tensor
    targets: Tensor
    first: int = 0
    total: int = 1
    offered: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Method:
    """Something that attributes.

    Parameters
    ----------
    name : str
        For reports.
    attribute : callable
        Call -> attributions as the method returns them.
    settings : mapping
        What the user set.
    function : object
        What it was made from.
    """

    name: str
    attribute: Callable[[Call], Any]
    settings: Mapping[str, Any]
    function: Any

    @property
    def claim(self) -> str | None:
        """What the method claims to find, where it says so."""
        return getattr(self.function, "claim", None)

    @property
    def output(self) -> str | None:
        """Which output the method explains, where it says so."""
        return getattr(self.function, "output", None)

    @property
    def gradient(self) -> bool:
        """Whether the result is the gradient at the input itself."""
        from captum.attr import Deconvolution, GuidedBackprop, InputXGradient, Saliency

        kinds = (Saliency, InputXGradient, GuidedBackprop, Deconvolution)
        kind = self.function if isinstance(self.function, type) else type(self.function)
        return getattr(self.function, "gradient", False) or issubclass(kind, kinds)

    @property
    def resolution(self) -> str | None:
        """The environment's layer whose maps it enlarges by default, where it says so."""
        from captum.attr import LayerAttribution

        kind = self.function if isinstance(self.function, type) else type(self.function)
        declared = getattr(self.function, "resolution", None)
        return "gradcam" if issubclass(kind, LayerAttribution) else declared

    def enlarged_layer(self, model: nn.Module, layers: Mapping[str, nn.Module]) -> nn.Module | None:
        """The module whose maps it enlarges, as far as is known: that of a Captum instance, that which
        the user named, or that of the environment (errors of `find_layer`).
        """
        if self.resolution is None:
            return None
        own = getattr(self.function, "layer", None)
        if isinstance(own, nn.Module):
            return own
        return find_layer(model, self.settings.get("layer"), layers, self.resolution)

    def asks_for(self, name: str) -> bool:
        """Whether it declares an argument of that name."""
        return name in _parameters(self.function)


def as_method(
    method: Any, known: Mapping[str, Callable[..., Any]], settings: Mapping[str, Any] | None = None
) -> Method:
    """Adapt whatever attributes.

    Parameters
    ----------
    method : str, class, callable, array or mapping
        A name in `known`, ``path/to/file.py:name`` or ``module:name``; a Captum class (constructed with
        the model, and `layer` where it asks) or instance; ``f(model, inputs, targets, **settings)``; an
        array of attributions, or one for each environment's name.
    known : mapping of str to callable
        The names.
    settings : mapping, optional
        Passed to every call.

    Raises
    ------
    AttributionLabError
        If there is no such method, or it does not take these settings.
    """
    if not isinstance(settings, Mapping | None):
        raise AttributionLabError(f"settings are {settings!r}: pass a dict")
    settings = dict(settings or {})
    name = method if isinstance(method, str) else _name(method)
    if isinstance(method, str):
        method = known[method] if method in known else _locate(method, known)
    if isinstance(method, np.ndarray | Tensor | Mapping):
        if settings:
            raise AttributionLabError(
                f"settings are {settings}: attributions that are computed already take none"
            )
        return Method(name, lambda call: _precomputed(method, call), settings, method)
    from captum.attr import Attribution

    if isinstance(method, type) and issubclass(method, Attribution):
        captum_class: Any = method
        if not hasattr(method, "attribute"):
            raise AttributionLabError(f"{name} is abstract: pass one of Captum's methods")
        _check_settings(name, captum_class.attribute, settings)
        return Method(name, lambda o: _captum(captum_class, o, settings), settings, captum_class)
    if isinstance(method, Attribution):
        _check_settings(name, method.attribute, settings)
        return Method(name, lambda o: _captum_instance(method, o, settings), settings, method)
    if isinstance(method, type) or not callable(method):
        raise AttributionLabError(
            f"{name} is {'a class' if isinstance(method, type) else 'no method'}: pass a "
            "Captum class or instance, a function f(model, inputs, targets), or an array"
        )
    _check_settings(name, method, settings)
    return Method(name, lambda o: _call(method, o, settings), settings, method)


def _name(method: Any) -> str:
    if isinstance(method, np.ndarray | Tensor | Mapping):
        return "precomputed"
    return getattr(method, "__name__", type(method).__name__)


def _locate(reference: str, known: Mapping[str, Any]) -> Any:
    """The object behind ``file.py:name`` or ``module:name``; split from the right (C:\\x.py:name)."""
    place, _, name = reference.rpartition(":")
    if reference.endswith(".py"):
        raise AttributionLabError(f"{reference!r} names no function: write {reference}:name")
    if not place:
        raise AttributionLabError(
            f"no method named {reference!r}: {nearest(reference, known)} "
            "(or path/to/file.py:name, or module:name)"
        )
    module = _load_file(Path(place)) if place.endswith(".py") else _import(place)
    if not hasattr(module, name):
        public = [key for key in vars(module) if not key.startswith("_")]
        raise AttributionLabError(f"{place} has no {name!r}: {nearest(name, public)}")
    return getattr(module, name)


def _load_file(path: Path) -> Any:
    if not os.path.isfile(path):  # unlike Path.is_file, also answers for impossible names
        raise AttributionLabError(f"no file at {str(path)!r}: check the path")
    # A name of its own: the file may be called like a module that is in use.
    spec = importlib.util.spec_from_file_location(f"attributionlab_user_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise AttributionLabError(f"{str(path)!r} cannot be loaded as Python: check the file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look themselves up there
    folder = str(path.parent)
    sys.path.insert(0, folder)  # its neighbors are found, as when Python runs it
    try:
        with _in_one_line(lambda error: f"{path} raised {_say(error)} while it was loaded"):
            spec.loader.exec_module(module)
    finally:
        if folder in sys.path:  # the file may have changed the path itself
            sys.path.remove(folder)
    return module


def _import(name: str) -> Any:
    with _in_one_line(lambda error: f"module {name!r} cannot be imported: {_say(error)}"):
        return importlib.import_module(name)


def _say(error: BaseException) -> str:
    """An exception in one line."""
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:  # its own __str__ fails
        text = type(error).__name__
    return " ".join(text.split())


def _place(error: BaseException) -> str:
    """Where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""


def _check_settings(name: str, function: Callable[..., Any], settings: Mapping[str, Any]) -> None:
    parameters = _parameters(function)
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    for key in settings:
        if key not in parameters:
            given = ("self", "model", "inputs", "targets", "target")
            own = [name for name in parameters if name not in given]
            raise AttributionLabError(f"{name} has no setting {key!r}: {nearest(key, own)}")


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """What a callable takes by name; nothing is known of some built-in ones."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}


@contextmanager
def _in_one_line(describe: Callable[[BaseException], str]) -> Iterator[None]:
    """Run somebody's code; what it raises becomes a refusal, said in one line."""
    try:
        yield
    except (AttributionLabError, KeyboardInterrupt):
        raise
    except BaseException as error:  # an exit of theirs is no verdict of ours
        raise AttributionLabError(describe(error)) from error


def _guarded(name: str, call: Callable[[], Any], environment: str) -> Any:
    """Run a method; what it raises is told with the environment and the place in its code."""
    with _in_one_line(lambda error: f"{name} raised {_say(error)} on {environment}{_place(error)}"):
        return call()


def _call(function: Callable[..., Any], call: Call, settings: Mapping[str, Any]) -> Any:
    declared = _parameters(function)
    offered = {key: value for key, value in call.offered.items() if key in declared}
    return _guarded(
        _name(function),
        lambda: function(call.model, call.inputs, call.targets, **(offered | dict(settings))),
        call.environment,
    )


def _captum(kind: type[Any], call: Call, settings: Mapping[str, Any]) -> Any:
    def run() -> Any:
        arguments = [call.model]
        if "layer" in inspect.signature(kind).parameters:
            arguments.append(call.offered["layers"]["gradcam"])
        return _attribute(kind(*arguments), call, settings)

    return _guarded(kind.__name__, run, call.environment)


def _captum_instance(instance: Any, call: Call, settings: Mapping[str, Any]) -> Any:
    # Most of Captum keeps the model as forward_func, DeepLift and its kin as model.
    bound = getattr(instance, "forward_func", None) or getattr(instance, "model", None)
    if bound is not call.model:
        raise AttributionLabError(
            f"this {_name(instance)} explains another model than that of {call.environment}: pass "
            f"the class {_name(instance)}, or construct it with this environment's model "
            "(softmax_model for output 'probability')"
        )
    return _guarded(_name(instance), lambda: _attribute(instance, call, settings), call.environment)


def _attribute(instance: Any, call: Call, settings: Mapping[str, Any]) -> Any:
    from captum.attr import LayerAttribution

    inputs = call.inputs
    with warnings.catch_warnings():
        # Inputs come without requires_grad, by contract; Captum switches it on and says so.
        warnings.filterwarnings("ignore", ".*required_grads has been set automatically.*")
        maps = instance.attribute(inputs, target=call.targets, **settings)
    guard_captum(instance, call.model, inputs, call.targets, settings, maps)
    if isinstance(instance, LayerAttribution) and isinstance(maps, Tensor):
        # A layer's map is coarser than the image: channels are summed, then it is enlarged.
        return LayerAttribution.interpolate(
            maps.sum(1, keepdim=True), tuple(inputs.shape[2:]), interpolate_mode="bilinear"
        )
    return maps


def _precomputed(arrays: Any, call: Call) -> Any:
    if isinstance(arrays, Mapping):
        if call.environment not in arrays:
            raise AttributionLabError(
                f"there are attributions for {', '.join(map(repr, arrays))}, none for "
                f"{call.environment!r}: add them, or test those environments only"
            )
        arrays = arrays[call.environment]
    shape = tuple(getattr(arrays, "shape", ()))
    if len(shape) < 3 or shape[0] != call.total:
        raise AttributionLabError(
            f"the attributions for {call.environment} have shape {shape}: pass one map for each of "
            f"the {call.total} images of env.batch({call.total}, seed)"
        )
    return arrays[call.first : call.first + len(call.inputs)]
