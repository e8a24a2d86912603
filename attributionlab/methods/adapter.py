"""Anything that attributes becomes a `Method`: names, Captum classes, callables, arrays."""

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

import numpy as np
from torch import Tensor, nn

from attributionlab.errors import AttributionLabError, nearest
from attributionlab.methods.captum_guards import guard_captum
from attributionlab.methods.derivation import derived, similar_names
from attributionlab.methods.layers import find_layer
from attributionlab.references import in_one_line, located, place_of, said

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
    reference : str
        How Python names it: a string in quotes, or the name of the object.
    built_in : bool
        Whether it is one of the methods known by name, or what suffixes make of one (`derived`).
    """

    name: str
    attribute: Callable[[Call], Any]
    settings: Mapping[str, Any]
    function: Any
    reference: str = ""
    built_in: bool = False

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
        from captum.attr import GuidedBackprop, GuidedGradCam, InputXGradient, Saliency

        kinds = (Saliency, InputXGradient, GuidedBackprop, GuidedGradCam)
        kind = self.function if isinstance(self.function, type) else type(self.function)
        return getattr(self.function, "gradient", False) or issubclass(kind, kinds)

    @property
    def resolution(self) -> str | None:
        """The environment's layer whose maps it enlarges by default, where it says so."""
        from captum.attr import LayerAttribution

        kind = self.function if isinstance(self.function, type) else type(self.function)
        declared = getattr(self.function, "resolution", None)
        return "gradcam" if issubclass(kind, LayerAttribution) else declared

    @property
    def runs(self) -> int:
        """Of how many runs the lowest and highest stand beside its numbers, where it says so, or 1."""
        return getattr(self.function, "runs", None) or 1

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
        return name in self._declared

    @cached_property
    def _declared(self) -> frozenset[str]:
        declared = {*_parameters(self.function)}
        if isinstance(self.function, type):
            declared |= {*_parameters(getattr(self.function, "attribute", None))}
        return frozenset(declared)


def as_method(
    method: Any, known: Mapping[str, Callable[..., Any]], settings: Mapping[str, Any] | None = None
) -> Method:
    """Adapt whatever attributes.

    Parameters
    ----------
    method : str, class, callable, array or mapping
        A name in `known`, also with suffixes (`derived`); ``path/to/file.py:name`` or ``module:name``;
        the path of a file of attributions (``maps.npy``, ``maps.pt``);
        a Captum class, or one of the same form: constructed with the model, and `layer` where it asks,
        it has ``attribute(inputs, target)``; a Captum instance;
        ``f(model, inputs, targets, **settings)``; an array of attributions, or one for each
        environment's name.
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
    name = _printable(method if isinstance(method, str) else _name(method))
    reference = repr(method) if isinstance(method, str) else name
    if isinstance(method, str):
        found = derived(method, known)
        built_in = found is not None
        hints = {} if built_in else dict.fromkeys(similar_names(method, known))
        method = found if built_in else located(method, hints)
    else:
        built_in = any(method is each for each in known.values())
    if isinstance(method, np.ndarray | Tensor | Mapping):
        if settings:
            raise AttributionLabError(
                f"settings are {settings}: attributions that are computed already take none"
            )
        return Method(name, lambda call: _precomputed(method, call), settings, method, reference)
    from captum.attr import Attribution

    if isinstance(method, type) and issubclass(method, Attribution):
        captum_class: Any = method
        if not hasattr(method, "attribute"):
            raise AttributionLabError(f"{name} is abstract: pass one of Captum's methods")
        _check_settings(name, captum_class.attribute, settings)
        run = partial(_captum, captum_class, settings=settings)
        return Method(name, run, settings, captum_class, reference)
    if isinstance(method, Attribution):
        _check_settings(name, method.attribute, settings)
        run = partial(_captum_instance, method, settings=settings)
        return Method(name, run, settings, method, reference)
    if isinstance(method, type) and callable(getattr(method, "attribute", None)):
        own_class: Any = method
        _check_settings(name, own_class.attribute, settings, _parameters(method))
        run = partial(_own_class, own_class, settings=settings)
        return Method(name, run, settings, own_class, reference)
    if isinstance(method, type) or not callable(method):
        raise AttributionLabError(
            f"{name} is {'a class' if isinstance(method, type) else 'no method'}: pass a "
            "Captum class or instance, a class with __init__(model) and attribute(inputs, target), a "
            "function f(model, inputs, targets), or an array"
        )
    _check_settings(name, method, settings)
    run = partial(_call, method, settings=settings)
    return Method(name, run, settings, method, reference, built_in)


def _name(method: Any) -> str:
    if isinstance(method, np.ndarray | Tensor | Mapping):
        return "precomputed"
    return str(getattr(method, "__name__", type(method).__name__))


def _printable(name: str) -> str:
    """A name for tables and files: control characters, and what is no text in UTF-8, as escapes."""
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in name)
    return shown.encode("utf-8", "backslashreplace").decode()


def _check_settings(
    name: str,
    function: Callable[..., Any],
    settings: Mapping[str, Any],
    also: Mapping[str, inspect.Parameter] = MappingProxyType({}),
) -> None:
    parameters = {**also, **_parameters(function)}
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    for key in settings:
        if key not in parameters:
            given = ("self", "model", "inputs", "targets", "target")
            own = [name for name in parameters if name not in given]
            raise AttributionLabError(f"{name} has no setting {key!r}: {nearest(key, own)}")


def _check_complete(
    name: str, function: Callable[..., Any], by_place: int, given: Iterable[str]
) -> None:
    """Refuse a call that would lack arguments, behind those given by their place."""
    lacking = [
        each.name
        for each in list(_parameters(function).values())[by_place:]
        if each.default is each.empty
        and each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
    ]
    lacking = [each for each in lacking if each not in given]
    if lacking:
        options = " ".join(f"--set {each}=..." for each in lacking)
        python = ", ".join(f"{each!r}: ..." for each in lacking)
        raise AttributionLabError(
            f"{name}: no value for {' and '.join(map(repr, lacking))}: give it by {options}, or in "
            f"Python by settings={{{python}}}"
        )


def _parameters(function: Any) -> Mapping[str, inspect.Parameter]:
    """What a callable takes by name; nothing is known of some built-in ones."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}


def _guarded(name: str, call: Callable[[], Any], environment: str) -> Any:
    """Run a method; what it raises is told with the environment and the place in its code."""
    with in_one_line(
        lambda error: f"{name} raised {said(error)} on {environment}{place_of(error)}"
    ):
        return call()


def _call(function: Callable[..., Any], call: Call, settings: Mapping[str, Any]) -> Any:
    declared = _parameters(function)
    offered = {key: value for key, value in call.offered.items() if key in declared}
    given = offered | _fresh(settings)
    _check_complete(_name(function), function, 3, given)
    return _guarded(
        _name(function),
        lambda: function(call.model, call.inputs, call.targets, **given),
        call.environment,
    )


def _fresh(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings in which a call can change no container of the user's."""
    return {
        key: copy(value) if isinstance(value, list | dict | set) else value
        for key, value in settings.items()
    }


def _captum(kind: type[Any], call: Call, settings: Mapping[str, Any]) -> Any:
    def run() -> Any:
        arguments = [call.model]
        if "layer" in inspect.signature(kind).parameters:
            arguments.append(call.offered["layers"]["gradcam"])
        return _attribute(kind(*arguments), call, settings)

    return _guarded(kind.__name__, run, call.environment)


def _own_class(kind: type[Any], call: Call, settings: Mapping[str, Any]) -> Any:
    """A class in the form of Captum's, which gets by name what it declares, as a function does."""
    constructor = _parameters(kind)
    given = {**call.offered, **_fresh(settings)}
    if "layer" in constructor:
        layers = call.offered["layers"]
        given["layer"] = find_layer(call.model, settings.get("layer"), layers, "gradcam")
    made_with = {key: value for key, value in given.items() if key in constructor}

    def run() -> Any:
        _check_complete(kind.__name__, kind, 1, made_with)
        attribute = kind(call.model, **made_with).attribute
        declared = _parameters(attribute)
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
        _check_complete(f"{kind.__name__}.attribute", attribute, len(where), named)
        return attribute(*where, **named)

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
    _check_complete(_name(instance), instance.attribute, 1, {"target", *settings})
    with warnings.catch_warnings():
        # Inputs come without requires_grad, by contract; Captum switches it on and says so.
        warnings.filterwarnings("ignore", ".*required_grads has been set automatically.*")
        maps = instance.attribute(inputs, target=call.targets, **_fresh(settings))
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
