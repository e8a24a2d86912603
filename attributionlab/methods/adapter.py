"""Anything that attributes becomes a `Method`: names, classes, callables, arrays."""

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from torch import Tensor, nn

from attributionlab.base import (
    BY_PLACE,
    OFFERED,
    AttributionLabError,
    argument_problems,
    arguments_of,
    boolean_problem,
    format_error,
    in_one_line,
    integer_problem,
    located,
    place_of,
    plain_problem,
    printable,
    refuse_if,
    refuse_incomplete,
    refuse_settings,
)
from attributionlab.methods import calling
from attributionlab.methods.declaration import parameters_of
from attributionlab.methods.derivation import derived, similar_names
from attributionlab.methods.layers import find_layer

DECLARATIONS = ("claim", "output", "gradient", "resolution", "runs")
TEXTS = ("claim", "output", "resolution")
"""Declarations that are texts; the setup and the environment say which claims and outputs exist."""
ATTACHED = ("gradcam", "iba")
"""Keys of an environment's layers."""
MOST_RUNS = 1_000


@dataclass(frozen=True)
class Method:
    """Something that attributes.

    - `name`: for reports.
    - `call`: (function, Call, settings) -> attributions as the method returns them.
    - `settings`: what the user set.
    - `function`: what it was made from.
    - `reference`: its Python expression: a quoted string, or the name of the object.
    - `built_in`: whether it is a method known by name, or derived from one by suffixes (`derived`).
    """

    name: str
    call: Callable[[Any, calling.Call, Mapping[str, Any]], Any]
    settings: Mapping[str, Any]
    function: Any
    reference: str = ""
    built_in: bool = False

    def __post_init__(self) -> None:
        declared = self._declarations
        problems = [
            f"{key} is {value!r}: take a text"
            for key, value in declared.items()
            if key in TEXTS and not isinstance(value, str)
        ]
        layer = declared.get("resolution")
        if isinstance(layer, str) and layer not in ATTACHED:
            problems.append(f"resolution is {layer!r}: take {' or '.join(map(repr, ATTACHED))}")
        problems += boolean_problem("gradient", declared.get("gradient", False))
        problems += integer_problem("runs", declared.get("runs", 1), 1, MOST_RUNS)
        where = f"{self.name} declares by its attributes (rename those that declare nothing)"
        refuse_if(problems, where)

    def attribute(self, call: calling.Call) -> Any:
        """Attributions as the method returns them."""
        return self.call(self.function, call, self.settings)

    @cached_property
    def _declarations(self) -> Mapping[str, Any]:
        """What its function declares (`declares`), read once: a class or an object may have methods of
        these names, and keep results under them.
        """
        read = {key: getattr(self.function, key, None) for key in DECLARATIONS}
        return {
            key: value
            for key, value in read.items()
            if value is not None and (inspect.isfunction(self.function) or not _is_method(value))
        }

    @property
    def claim(self) -> str | None:
        """What the method claims to find, if declared."""
        return self._declarations.get("claim")

    @property
    def output(self) -> str | None:
        """Which output the method explains, if declared."""
        return self._declarations.get("output")

    @property
    def gradient(self) -> bool:
        """Whether the result is the gradient at the input itself."""
        kinds = _of_captum("Saliency", "InputXGradient", "GuidedBackprop", "GuidedGradCam")
        kind = self.function if isinstance(self.function, type) else type(self.function)
        return self._declarations.get("gradient", False) or issubclass(kind, kinds)

    @property
    def resolution(self) -> str | None:
        """The environment's layer whose maps it upsamples by default, if declared."""
        kind = self.function if isinstance(self.function, type) else type(self.function)
        declared = self._declarations.get("resolution")
        return "gradcam" if issubclass(kind, _of_captum("LayerAttribution")) else declared

    @property
    def runs(self) -> int:
        """How many runs it declares (`declares`), or 1."""
        return int(self._declarations.get("runs", 1))

    def enlarged_layer(self, model: nn.Module, layers: Mapping[str, nn.Module]) -> nn.Module | None:
        """The module whose maps it upsamples, if known: that of a Captum instance, that named by the
        user, or that of the environment (errors of `find_layer`).
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
        declared = {*arguments_of(self.function)}
        if isinstance(self.function, type):
            declared |= {*arguments_of(getattr(self.function, "attribute", None))}
        return frozenset(declared)


def check_complete(method: Method) -> None:
    """Refuse a user's method that no environment and no setting gives a value that it needs."""
    given, function = {*method.settings, *OFFERED}, method.function
    if method.call is calling.call_function and not method.built_in:
        name = calling.label_of(function)
        refuse_incomplete(name, arguments_of(function), BY_PLACE, given)
    elif method.call is calling.call_class:
        refuse_incomplete(calling.label_of(function), arguments_of(function), 1, given)


def _of_captum(*names: str) -> tuple[type, ...]:
    """Captum's classes of these names; none where nothing has loaded Captum, since no method is one of
    them then. Loading it takes half a second, which a process of a method's own would spend, too.
    """
    captum = sys.modules.get("captum.attr")
    return () if captum is None else tuple(getattr(captum, name) for name in names)


def _is_method(value: object) -> bool:
    return inspect.isroutine(value) or isinstance(value, property)


def as_method(
    method: Any, known: Mapping[str, Callable[..., Any]], settings: Mapping[str, Any] | None = None
) -> Method:
    """Make a `Method` of anything that attributes.

    Parameters
    ----------
    method : str, class, callable, array or mapping
        A name in `known`, also with suffixes (`derived`); ``path/to/file.py:name`` or ``module:name``;
        the path of a file of attributions (``maps.npy``, ``maps.pt``, ``maps.safetensors``); a Captum
        class, or a class of the same form: constructed with the model (and `layer` if it takes one),
        with ``attribute(inputs, target)``; a Captum instance; ``f(model, inputs, targets,
        **settings)``; an array of attributions, or one for each environment's name.
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
    kind = type(method).__name__
    with in_one_line(
        lambda error: (
            f"while inspected, an object of type {printable(kind)} raised {format_error(error)}"
            f"{place_of(error)}: let its attributes raise AttributeError only"
        )
    ):
        return _adapted(method, known, dict(settings or {}))


def _adapted(
    method: Any,
    known: Mapping[str, Callable[..., Any]],
    settings: Mapping[str, Any],
) -> Method:
    name = printable(method if isinstance(method, str) else calling.label_of(method))
    reference = repr(method) if isinstance(method, str) else name
    if isinstance(method, str):
        found = derived(method, known)
        built_in = found is not None
        hints = {} if built_in else dict.fromkeys(similar_names(method, known))
        method = found if built_in else located(method, hints)
    else:
        built_in = any(method is each for each in known.values())
    captums = _of_captum("Attribution")  # now that what the reference names is loaded
    of_captum = isinstance(method, type) and issubclass(method, captums)
    call: Callable[..., Any]
    if isinstance(method, np.ndarray | Tensor | Mapping):
        if settings:
            raise AttributionLabError(
                f"settings are {settings}: precomputed attributions have no settings"
            )
        if isinstance(method, Mapping) and not method:
            raise AttributionLabError(
                f"the attributions are {method!r}, which is empty: pass {{env.name: array}}, or an "
                "array for one environment"
            )
        for each in method.values() if isinstance(method, Mapping) else [method]:
            if isinstance(each, Tensor):
                refuse_if(plain_problem("the attributions are", each))
        call = calling.pick_precomputed
    elif of_captum and not hasattr(method, "attribute"):
        raise AttributionLabError(f"{name} is abstract: pass one of Captum's methods")
    elif of_captum or isinstance(method, captums):
        refuse_settings(name, arguments_of(method.attribute), settings)
        call = calling.call_captum_class if of_captum else calling.call_captum_instance
    elif isinstance(method, type) and callable(getattr(method, "attribute", None)):
        own_class: Any = method
        refuse_settings(name, arguments_of(own_class.attribute), settings, arguments_of(method))
        call = calling.call_class
    elif isinstance(method, type) or not callable(method):
        raise AttributionLabError(
            f"{name} is {'a class' if isinstance(method, type) else 'not a method'}: pass a "
            "Captum class or instance, a class with __init__(model) and attribute(inputs, target), a "
            "function f(model, inputs, targets), or an array"
        )
    else:
        refuse_settings(name, arguments_of(method), settings)
        if built_in:  # it would refuse them itself, once per call
            hints = {key: each.annotation for key, each in parameters_of(method).items()}
            refuse_if(argument_problems(settings, hints), name)
        call = calling.call_function
    return Method(
        name, call, settings, method, reference, built_in and call is calling.call_function
    )
