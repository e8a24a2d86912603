"""A user's method in a process of its own: it has what it declares, and neither truth nor scores.

Built-in methods, Captum's own and computed maps need no such care.

A `Watch` looks on while a network runs, here or there: what it is shown, and what is wanted from it.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, get_args

import numpy as np
import torch
from torch import Tensor, nn

from attributionlab.base import (
    AttributionLabError,
    Code,
    Ended,
    attributes,
    code_named,
    format_error,
    is_ours,
    place_of,
    printable,
)
from attributionlab.methods import (
    Attributed,
    AttributionMethod,
    Call,
    Kind,
    Method,
    Notice,
    Shown,
    as_method,
    call_captum_instance,
    call_function,
    check_complete,
    checked_maps,
    collect_notices,
    derived,
    images_at_once,
    notify,
    plain_maps,
    raw_attributions,
)
from attributionlab.methods import attribute as attribute_here
from attributionlab.runs import Fingerprint, digest_of, fingerprint
from attributionlab.verdicts import own_process
from attributionlab.verdicts.controls import KNOWN

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class EnoughError(BaseException):
    """More than outputs was used, and the rest need not be seen; no `except Exception` stops it."""


class Watch:
    """Looks on while a network runs."""

    def __init__(self, shape: torch.Size, highest: int) -> None:
        self.shape, self.highest = shape, highest
        self.passes = 0
        self.saw_more = False
        self.running = False

    def around(self, called: Callable[..., Any]) -> Callable[..., Any]:
        """A method's `call`, with this looking on."""

        def call(function: Any, call: Call, settings: Any) -> Any:
            with self.over(call.model):
                return called(function, call, settings)

        return call

    def __deepcopy__(self, _: Any) -> "Watch":
        return self  # a copy of a model that is watched is watched too

    @contextmanager
    def over(self, model: nn.Module) -> Iterator[None]:
        """Inside, each pass of the network is looked at."""
        layers = [module for module in model.modules() if module is not model]
        handles = [
            model.register_forward_pre_hook(self._begin),
            model.register_forward_hook(self._finish),
            *(layer.register_forward_pre_hook(self._look) for layer in layers),
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _begin(self, model: nn.Module, given: tuple[Any, ...]) -> None:
        self.running = True
        self.passes += 1
        images = given[0] if len(given) == 1 else None
        if not isinstance(images, Tensor) or images.shape[1:] != self.shape:
            self._stop()
        if images.requires_grad or not (images == images.round()).all():
            self._stop()
        if images.min() < 0 or images.max() > self.highest:
            self._stop()
        if any(self._is_foreign(hook) for module in model.modules() for hook in _hooks(module)):
            self._stop()

    def _finish(self, _: nn.Module, __: Any, outputs: Any) -> None:
        self.running = False
        if isinstance(outputs, Tensor) and outputs.requires_grad:
            outputs.register_hook(self._stop)  # type: ignore[no-untyped-call]

    def _look(self, *_: Any) -> None:
        if not self.running:  # a layer alone, not as a part of the network
            self._stop()

    def _stop(self, *_: Any) -> NoReturn:
        self.saw_more = True
        raise EnoughError

    def _is_foreign(self, hook: Any) -> bool:
        """Whether it is the method's; what every call and the search for memory hook looks on only."""
        of_memory = getattr(hook, "__module__", "") == images_at_once.__module__
        return getattr(hook, "__self__", None) is not self and not of_memory and not is_ours(hook)


def _hooks(module: nn.Module) -> Iterator[Any]:
    for table in HOOKS:
        yield from getattr(module, table).values()


PLACE = "{environment}"
"""What the process calls every environment: the name is put in here."""
FILES = (".npy", ".npz", ".pt", ".pth", ".safetensors")
"""Of computed maps."""
MOST_NOTICES = 1_000


@dataclass(frozen=True)
class Apart(Method):
    """A method that runs in a process of its own.

    - `sent`: its reference, or the function as bytes, with the files in which it may stand.
    - `watch`: what looks on in the process, if anything does.
    """

    sent: str | bytes = field(default=b"", repr=False)
    files: Mapping[str, str] = field(default_factory=dict, repr=False)
    watch: Watch | None = field(default=None, repr=False)


class Described:
    """What a process tells of a method that this one has not loaded: what it declares and takes."""

    def __init__(self, reference: str, told: Mapping[str, Any]) -> None:
        self.claim, self.output, self.resolution = (
            _text(told, key) for key in ("claim", "output", "resolution")
        )
        self.gradient, self.runs = bool(told.get("gradient")), told.get("runs", 1)
        names = [str(each) for each in told.get("takes", ()) if str(each).isidentifier()]
        self.__signature__ = Signature(
            [Parameter(each, Parameter.KEYWORD_ONLY) for each in dict.fromkeys(names)]
        )
        place, _, name = reference.rpartition(":")
        found = code_named(place)
        # Not what the process could tell: whoever chooses it chooses the seed that is bound to it.
        self.file: str | None
        self.file, code = found or (None, Code(reference, frozenset()))
        self.code = Fingerprint(digest_of([name, code.digest]))
        self.code.files = code.files

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        """It is called in its own process only."""
        raise AssertionError


def _text(told: Mapping[str, Any], key: str) -> str | None:
    return None if told.get(key) is None else str(told[key])


def fingerprint_of(method: Method) -> Fingerprint:
    """`runs.cells.fingerprint` of a method's function, wherever it is loaded."""
    function = method.function
    return function.code if isinstance(function, Described) else fingerprint(function)


def as_tested(
    method: AttributionMethod, settings: Mapping[str, Any] | None = None, isolated: bool = True
) -> Method:
    """The method that a name, a reference or an object stands for, which runs alone if it is a user's.

    A file or module of the user's is loaded in the process of the method only.

    `method`, `settings`: as for `faithfulness_test`. `isolated`: whether a user's method runs in a
    process of its own. Raises AttributionLabError if there is no such method, it does not take these
    settings, or it cannot be sent.
    """
    if isolated and isinstance(method, str) and _names_users_code(method):
        return _met(method, settings)
    found = as_method(method, KNOWN, settings)
    check_complete(found)
    if not isolated or not is_users(found):
        return found
    if found.call is call_captum_instance:
        raise AttributionLabError(
            f"{found.name} holds a network, which an isolated process would copy: pass the class, "
            f"{own_process.REMEDY}"
        )
    sent, files = own_process.sent_as(found.function, found.name)
    known = attributes(found, "name", "call", "settings", "function", "reference", "built_in")
    return Apart(**known, sent=sent, files=files)


def is_users(method: Method) -> bool:
    """Whether a method is code that neither this package nor Captum brings, and no computed maps."""
    function = method.function
    if method.built_in or isinstance(function, np.ndarray | Tensor | Mapping):
        return False
    kind = function if isinstance(function, type) else type(function)
    package = kind.__module__.partition(".")[0]
    there = getattr(sys.modules.get(kind.__module__), kind.__name__, None) is kind
    return not (package == "captum" and there)


def _names_users_code(reference: str) -> bool:
    place, _, name = reference.rpartition(":")
    if not (place and name) or Path(reference).suffix in FILES or reference.endswith(".py"):
        return False
    return place.partition(".")[0] != "captum" and derived(reference, KNOWN) is None


class _Meet(NamedTuple):
    """A request: what a test asks of a method before it calls it."""

    settings: Mapping[str, Any]

    def answer(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """In the method's process."""
        method = as_method(_method().function, {}, self.settings)
        check_complete(method)
        told = attributes(method, "claim", "output", "resolution", "runs", "gradient")
        return {**told, "takes": sorted(method._declared)}, {}


class _Attribute(NamedTuple):
    """A request: attributions of a batch."""

    call: Call
    """without its network and layers, which are sent once, and without the environment's name"""
    name: str
    settings: Mapping[str, Any]
    seed: int
    watched: tuple[tuple[int, ...], int] | None
    state: Mapping[str, Any]

    def answer(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """In the method's process: maps, whether random numbers were drawn for them, notices."""
        model, layers = own_process.here.network
        offered = {**self.call.offered, "layers": dict(layers)}
        if "generator" in offered:
            offered["generator"] = torch.Generator().manual_seed(offered["generator"])
        call = replace(self.call, model=model, offered=offered)
        method = replace(_method(), name=self.name, settings=self.settings)
        watch = (
            None if self.watched is None else Watch(torch.Size(self.watched[0]), self.watched[1])
        )
        if watch is not None:
            method = replace(method, call=watch.around(method.call))
        inputs, head, arrays = call.inputs.clone(), dict[str, Any](), dict[str, Tensor]()
        with collect_notices() as notices, own_process.as_there(self.state):
            try:
                attributions, head["random"] = raw_attributions(method, call, self.seed)
                maps = plain_maps(attributions, inputs, f"{self.name} on {PLACE}")
                arrays["maps"] = maps
            except (AttributionLabError, EnoughError):
                if watch is None or not watch.saw_more:
                    raise
            except KeyboardInterrupt as error:  # nobody's Ctrl-C comes here
                raise AttributionLabError(
                    f"{self.name} raised {format_error(error)} on {PLACE}{place_of(error)}"
                ) from error
        if watch is not None:
            head |= {"passes": watch.passes, "saw_more": watch.saw_more}
        head["notices"] = [self._told(each, arrays) for each in notices]
        return head, arrays

    def _told(self, notice: Notice, arrays: dict[str, Tensor]) -> list[Any]:
        """What `_notices_in` reads of a notice."""
        regions = None
        if notice.regions is not None:
            regions = str(len(arrays))
            arrays[regions] = notice.regions
        gaps = [float(each) for each in notice.gaps]
        return [
            notice.text,
            int(notice.images),
            gaps,
            float(notice.worst),
            regions,
            notice.kind,
            notice.shown and [list(each) for each in notice.shown],
        ]


@cache
def _method() -> Method:
    """The method of this process, without settings."""
    return (
        as_method(own_process.here.sent, KNOWN)
        if isinstance(own_process.here.sent, str)
        else as_method(own_process.here.function, {})
    )


# ---- In this process ------------------------------------------------------------------------------


def _met(reference: str, settings: Mapping[str, Any] | None) -> Apart:
    """A method by its reference, which a process of its own loads and describes."""
    if not isinstance(settings, Mapping | None):
        raise AttributionLabError(f"settings are {settings!r}: pass a dict")
    given = dict(settings or {})
    with own_process.asked(reference, {}, _Meet(given), own_process.SLACK, reference) as found:
        described = Described(reference, found.head)
    return Apart(
        printable(reference), call_function, given, described, repr(reference), sent=reference
    )


def attribute(method: Method, call: Call, seed: int) -> Attributed:
    """`attributionlab.methods.attribute`, in a process of its own for a method that runs apart: with
    the same maps and notices.
    """
    if not isinstance(method, Apart):
        return attribute_here(method, call, seed)
    layers = call.offered.get("layers", {})
    offered = {key: value for key, value in call.offered.items() if key != "layers"}
    if "generator" in offered:
        offered["generator"] = offered["generator"].initial_seed()
    watch = method.watch
    request = _Attribute(
        Call(PLACE, nn.Identity(), call.inputs, call.targets, 0, 1, offered),
        *(method.name, method.settings, seed),
        None if watch is None else (tuple(watch.shape), watch.highest),
        own_process.torch_state(),
    )
    most, who = 16 * call.inputs.numel() + own_process.SLACK, f"{method.name} on {call.environment}"
    try:
        with own_process.asked(
            method.sent, method.files, request, most, who, (call.model, layers)
        ) as found:
            head, arrays = found.head, own_process.arrays_in(found)
            if watch is not None:
                passes = head.get("passes")
                watch.passes = int(isinstance(passes, int) and passes > 0)
                watch.saw_more = bool(head.get("saw_more"))
                if watch.saw_more:
                    raise EnoughError
            if "maps" not in arrays:
                raise Ended("its process wrote no maps: return an array")
            for notice in _notices_in(head.get("notices"), arrays):
                notify(notice)
    except AttributionLabError as error:
        raise AttributionLabError(str(error).replace(PLACE, call.environment)) from None
    random = bool(head.get("random"))
    return checked_maps(method, call, call.inputs, call.targets, arrays["maps"], random)


def _shown(values: Any, of_image: Any, *pixels: Any) -> Shown:
    """What a process says that it showed the network."""
    (low, high), (least, most) = values, of_image
    color, lowest, highest = (tuple(float(each) for each in one) for one in pixels)
    if not len(color) == len(lowest) == len(highest):
        raise ValueError(pixels)
    ends = (float(low), float(high)), (float(least), float(most))
    return Shown(*ends, color, lowest, highest)


def _notices_in(told: Any, arrays: Mapping[str, Tensor]) -> list[Notice]:
    """What a process says of the maps, and the label maps that some have."""
    try:
        if len(told) > MOST_NOTICES:
            raise ValueError(len(told))
        found = []
        for text, images, gaps, worst, regions, kind, shown in told:
            if kind not in get_args(Kind):
                raise ValueError(kind)
            labels = None if regions is None else arrays[regions]
            numbers = tuple(float(each) for each in gaps)
            seen = _shown(*shown) if shown else None
            found.append(Notice(str(text), int(images), numbers, float(worst), labels, kind, seen))
        return found
    except (TypeError, ValueError, OverflowError, KeyError) as error:
        raise Ended("its process did not describe its maps readably: return an array") from error
