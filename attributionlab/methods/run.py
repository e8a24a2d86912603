r"""One call of a method, with its surroundings kept safe."""

import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn, overrides
from torch.utils import _device, _python_dispatch

from attributionlab.base import ONE_AT_A_TIME, AttributionLabError, users_default
from attributionlab.methods.adapter import Method
from attributionlab.methods.batching import out_of_memory
from attributionlab.methods.calling import Call
from attributionlab.methods.guards import checking, kinks, saturation
from attributionlab.methods.notices import ZEROS, Notice, Shown, notify

GLOBAL_HOOKS = [
    table
    for name, table in vars(torch.nn.modules.module).items()
    if name.startswith("_global_") and isinstance(table, dict)
]
NAMES = {"training": "training mode", "_parameters": "weights", "_modules": "modules"}
"""What the entries of a module's `__dict__` are called; tables of hooks are "hooks"."""


@contextmanager
def restored(model: nn.Module) -> Iterator[list[str]]:
    """Undo all changes that the body makes to a model, even if it raises.

    Everything in a module's `__dict__` is restored: the tables (parameters, buffers, submodules, hooks)
    entry by entry, and the values of parameters and buffers.

    Gradients that a backward pass leaves in the parameters are removed silently; previous ones are
    kept.

    Yields
    ------
    list of str
        Filled on exit with what had to be restored: "training mode", "requires_grad", "weights",
        "hooks", "modules", or the name of another attribute.
    """
    # No other thread's call is to be under way then, whose hooks would be kept.
    with ONE_AT_A_TIME:
        put_back = _kept(model)
    repaired: list[str] = []
    try:
        yield repaired
    finally:
        with ONE_AT_A_TIME:
            put_back(repaired)


def _kept(model: nn.Module) -> Callable[[list[str]], None]:
    """What a model and its modules are now, as a function that makes them so again."""
    modules = list(model.modules())
    kinds = [type(module) for module in modules]
    attributes = [dict(vars(module)) for module in modules]
    tables = [
        {name: dict(value) for name, value in kept.items() if isinstance(value, dict)}
        for kept in attributes
    ]
    tensors = [*model.parameters(), *model.buffers()]
    values = [(tensor.detach().clone(), tensor.requires_grad) for tensor in tensors]
    gradients = [tensor.grad if tensor.is_leaf else None for tensor in tensors]
    accumulated = [None if each is None else each.clone() for each in gradients]
    tensor_hooks = [tensor._backward_hooks for tensor in tensors]
    global_hooks = [dict(table) for table in GLOBAL_HOOKS]

    def put_back(repaired: list[str]) -> None:
        for table, kept_hooks in zip(GLOBAL_HOOKS, global_hooks, strict=True):
            _put_back(table, kept_hooks, "hooks", repaired)
        for module, kind, kept, contents in zip(modules, kinds, attributes, tables, strict=True):
            if type(module) is not kind:
                module.__class__ = kind
                _note("modules", repaired)
            _put_back(vars(module), kept, None, repaired)
            for name, table in contents.items():
                _put_back(kept[name], table, name, repaired)
        for tensor, hooks, (value, requires_grad), gradient, amounts in zip(
            tensors, tensor_hooks, values, gradients, accumulated, strict=True
        ):
            if tensor._backward_hooks is not hooks:
                tensor._backward_hooks = hooks
                _note("hooks", repaired)
            if not _same(tensor.detach(), value):
                tensor.data = value
                _note("weights", repaired)
            if tensor.requires_grad != requires_grad:
                tensor.requires_grad_(requires_grad)
                _note("requires_grad", repaired)
            tensor.grad = gradient
            if gradient is not None and amounts is not None:
                gradient.copy_(amounts)

    return put_back


def _same(tensor: torch.Tensor, value: torch.Tensor) -> bool:
    alike = tensor.device == value.device and tensor.dtype == value.dtype
    return alike and torch.equal(tensor, value)


def _put_back(
    table: dict[str, Any], kept: dict[str, Any], name: str | None, repaired: list[str]
) -> None:
    """Make a table what it was, comparing by identity; note it under its name or its entries'."""
    changed = [key for key in kept | table if table.get(key, table) is not kept.get(key, kept)]
    if not changed and list(table) == list(kept):
        return
    table.clear()
    table.update(kept)
    for entry in [name] if name is not None else changed:
        hooks = "hooks" if "hook" in str(entry) else str(entry)
        _note(NAMES.get(str(entry), hooks), repaired)


def _note(what: str, repaired: list[str]) -> None:
    if what not in repaired:
        repaired.append(what)


def as_maps(
    attributions: Any, inputs: Tensor, who: str, start: int = 0
) -> Float[Tensor, "batch 1 height width"]:
    """Check attributions and sum them over channels; `notify` what is unusual about them.

    Parameters
    ----------
    attributions : Tensor or ndarray
        (B, C, H, W), (B, 1, H, W) or (B, H, W), or (B, W) of images of one row; any real type.
    inputs : Tensor, (B, C, H, W)
        What was explained.
    who : str
        Method and environment, for messages.
    start : int
        Index of the first image in the test.

    Returns
    -------
    Tensor of float64, (B, 1, H, W)
        On the CPU.

    Raises
    ------
    AttributionLabError
        For other types and shapes, NaN and infinity.
    """
    given = plain_maps(attributions, inputs, who)
    if given.dtype != torch.float32:
        name = str(given.dtype).removeprefix("torch.")
        notify(Notice(f"were {name}, which is accepted; return float32", len(inputs)))
    # In float64 no sum of float32 channels overflows and none vanishes.
    maps = given.double()
    if maps.ndim == 3:
        maps = maps.unsqueeze(1)
    _check_finite(maps, who, start)
    summed: Tensor = maps.sum(1, keepdim=True)
    _check_finite(summed, who, start)
    empty = int((summed == 0).all(dim=3).all(dim=2).sum())
    notify(Notice(ZEROS, empty))
    return summed


def plain_maps(attributions: Any, inputs: Tensor, who: str) -> Tensor:
    """Attributions as a plain tensor on the CPU, of one of the shapes that are accepted for `inputs`;
    errors as of `as_maps`.
    """
    try:
        given = _tensor_of(attributions, who).cpu()
        given.reshape(-1)[:1].double()  # not all types can be read
    except (RuntimeError, NotImplementedError, TypeError) as error:
        kind = f"{type(attributions).__name__} that cannot be read"
        raise AttributionLabError(f"{who} returned a {kind}: return a plain array") from error
    batch, channels, height, width = inputs.shape
    allowed = (batch, channels, height, width), (batch, 1, height, width), (batch, height, width)
    shape = tuple(given.shape)
    if height == 1 and shape == (batch, width):
        return given[:, None]
    if height == 1 and len(shape) == 3 and shape[1] == width:
        raise AttributionLabError(
            f"{who} returned shape {shape}, one value per embedding dimension: sum over these, for "
            f"example by attributions.sum(-1), to ({batch}, {width})"
        )
    if shape not in allowed:
        raise AttributionLabError(
            f"{who} returned shape {shape}: return one of "
            + ", ".join(map(str, dict.fromkeys(allowed)))
        )
    return given


def _tensor_of(attributions: Any, who: str) -> Tensor:
    """A dense, detached tensor of real numbers, from whatever holds them."""
    if isinstance(attributions, tuple) and len(attributions) == 1:
        attributions = attributions[0]
    if isinstance(attributions, np.ndarray):
        if attributions.dtype.kind not in "biuf":
            raise AttributionLabError(
                f"{who} returned an array of {attributions.dtype}: return real numbers"
            )
        if attributions.dtype.itemsize > 8:
            attributions = attributions.astype(np.float64)
        native = attributions.dtype.newbyteorder("=")
        attributions = torch.from_numpy(np.array(attributions, dtype=native))
    if not isinstance(attributions, Tensor):
        raise AttributionLabError(
            f"{who} returned {type(attributions).__name__}: return a torch tensor or a numpy array"
            + " (inputs.grad is None without inputs.requires_grad_())" * (attributions is None)
        )
    for kind in ("meta", "quantized", "nested"):
        if getattr(attributions, f"is_{kind}"):
            raise AttributionLabError(
                f"{who} returned a {kind} tensor: return a plain one, of numbers"
            )
    if attributions.is_complex():
        raise AttributionLabError(f"{who} returned {attributions.dtype}: return real numbers")
    if attributions.layout != torch.strided:
        attributions = attributions.to_dense()
    dense: Tensor = attributions.detach()
    return dense


def _check_finite(maps: Tensor, who: str, start: int) -> None:
    broken = ~maps.isfinite()
    if broken.any():
        where = tuple(int(k) for k in broken.nonzero()[0])
        raise AttributionLabError(
            f"{who} returned {float(maps[where])} for image {start + where[0]} at {where[1:]}: "
            "return finite numbers"
        )


CUDNN_SWITCHES = ("benchmark", "deterministic", "enabled")
GLOBALS: tuple[tuple[Callable[[], Any], Callable[[Any], Any]], ...] = (
    (random.getstate, random.setstate),
    (np.random.get_state, np.random.set_state),
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.is_grad_enabled, torch.set_grad_enabled),
    (torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    (torch.get_num_threads, torch.set_num_threads),
    (os.getcwd, os.chdir),
)
"""What is global, and how it is set."""


class Attributed(NamedTuple):
    """Attributions of a batch."""

    maps: Float[Tensor, "batch 1 height width"]
    """Summed over channels."""
    random: bool
    """Whether random numbers were drawn for them, from `generator` or from a global state."""


def attribute(method: Method, call: Call, seed: int) -> Attributed:
    """Attributions of a batch, checked and summed over channels; `notify` what is unusual about them.

    Parameters
    ----------
    method : Method
        What attributes.
    call : Call
        What it gets; its inputs may be modified.
    seed : int
        Seed for the global random states, and of `generator` for a method that declares it.

    Raises
    ------
    AttributionLabError
        If the method raises, or its attributions cannot be scored.
    """
    inputs, targets = call.inputs.clone(), call.targets.clone()
    return checked_maps(method, call, inputs, targets, *raw_attributions(method, call, seed))


def raw_attributions(method: Method, call: Call, seed: int) -> tuple[Any, bool]:
    """Attributions of a batch as the method returns them, and whether random numbers were drawn.

    What the method did to the network or to torch is undone; `notify` is told of it.
    """
    inputs, targets = call.inputs.clone(), call.targets.clone()
    default = users_default(inputs.device)
    alone = call.first == 0 and len(call.inputs) == 1  # other images have patches elsewhere
    looked = _shown_values(call) if alone and not method.built_in else nullcontext()
    with looked, restored(call.model) as repaired, default, _seeded(seed):
        before = _random_states(call)
        with _interpreter(), _modes():
            attributions = method.attribute(call)
        drew = _random_states(call) != before
    for what in repaired:
        text = f"came with changed {what} of the model, which have been restored"
        notify(Notice(text, len(inputs)))
    if not torch.equal(call.inputs, inputs):
        text = "came with modified inputs; the truth is about the original ones"
        notify(Notice(text, len(inputs)))
    if not torch.equal(call.targets, targets):
        text = "came with modified targets; the truth is about the original ones"
        notify(Notice(text, len(inputs)))
    return attributions, drew


@contextmanager
def _shown_values(call: Call) -> Iterator[None]:
    """Look at what a method shows the network of the first image; `notify` of kind "values"."""
    image = call.inputs[0].clone().cpu()
    colors, place, counts = torch.unique(
        image.flatten(1), dim=1, return_inverse=True, return_counts=True
    )
    color = colors[:, counts.argmax()]
    where = (place == counts.argmax()).reshape(image.shape[1:])
    low, high = image.clone(), image.clone()
    ends: list[float] = []

    def look(_: nn.Module, given: tuple[Any, ...]) -> None:
        seen = given[0].detach() if given and isinstance(given[0], Tensor) else None
        if seen is None or seen.shape[1:] != image.shape or not len(seen):
            return
        seen = seen.float().cpu()
        ends.extend((float(seen.min()), float(seen.max())))
        torch.minimum(low, seen.amin(0), out=low)
        torch.maximum(high, seen.amax(0), out=high)

    look.keeps_rows = True  # type: ignore[attr-defined]  # `is_ours`: it only looks on
    handle = call.model.register_forward_pre_hook(look)
    try:
        yield
    finally:
        handle.remove()
    if ends:
        pixels = [tuple(each[:, where].median(1).values.tolist()) for each in (low, high)]
        of_image = float(image.min()), float(image.max())
        shown = Shown((min(ends), max(ends)), of_image, tuple(color.tolist()), *pixels)
        notify(Notice("", 0, kind="values", shown=shown))


def checked_maps(
    method: Method, call: Call, inputs: Tensor, targets: Tensor, attributions: Any, drew: bool
) -> Attributed:
    """What a method returned for these inputs and targets, checked and summed over channels."""
    maps = as_maps(attributions, inputs, f"{method.name} on {call.environment}", call.first)
    try:
        with checking():
            saturation(call.model, inputs, targets, maps)
            if method.gradient and call.first == 0:
                kinks(call.model, inputs, targets)
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        text = "were not checked for a saturated softmax and kinks: not enough memory"
        notify(Notice(text, len(inputs)))
    return Attributed(maps, drew)


def random_states() -> dict[str, Any]:
    """The global random states on the processor, in a form that can be compared."""
    numpy_state: Any = np.random.get_state(legacy=False)
    key = numpy_state["state"].pop("key").tobytes()
    return {
        "random": random.getstate(),
        "numpy.random": (key, numpy_state),
        "torch": torch.get_rng_state().numpy().tobytes(),
    }


def _random_states(call: Call) -> tuple[Any, ...]:
    """All that a method can draw random numbers from, in a form that can be compared."""
    states = []
    if call.inputs.is_cuda:
        states.append(torch.cuda.get_rng_state(call.inputs.device))
    if "generator" in call.offered:
        states.append(call.offered["generator"].get_state())
    return random_states(), *(state.numpy().tobytes() for state in states)


@contextmanager
def globals_restored(seed: int) -> Iterator[None]:
    """Run somebody's code: what is global is seeded inside, and put back outside."""
    with _seeded(seed), _interpreter(), _modes():
        yield


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Global random states set from a seed inside; these and what else is global restored outside."""
    kept = [(put_back, get()) for get, put_back in GLOBALS]
    deterministic = torch.are_deterministic_algorithms_enabled()
    casts = {kind: torch.is_autocast_enabled(kind) for kind in ("cpu", "cuda")}
    switches = {name: getattr(torch.backends.cudnn, name) for name in CUDNN_SWITCHES}
    with torch.random.fork_rng(), np.errstate(), warnings.catch_warnings():
        _seed_torch(seed)
        random.seed(seed)
        np.random.seed(seed)
        try:
            yield
        finally:
            for put_back, value in kept:
                put_back(value)
            for kind, casting in casts.items():
                torch.set_autocast_enabled(kind, casting)
            for name, switch in switches.items():
                setattr(torch.backends.cudnn, name, switch)
            if torch.are_deterministic_algorithms_enabled() != deterministic:  # setting it is slow
                torch.use_deterministic_algorithms(deterministic)


def _seed_torch(seed: int) -> None:
    """Seed torch's generators; where there is no accelerator, that of the CPU without the others.

    `torch.manual_seed` keeps for each kind of accelerator that has not begun a formatted stack.
    """
    if torch.cuda.is_available() or torch.backends.mps.is_available() or torch.xpu.is_available():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


@contextmanager
def _interpreter() -> Iterator[None]:
    """Where imports look, variables of the environment, streams and answers to signals restored
    outside; the process is not ended inside, and no copy of it comes back.
    """
    path, entries, modules = sys.path, list(sys.path), dict(sys.modules)
    variables, limit = dict(os.environ), sys.getrecursionlimit()
    streams = sys.stdin, sys.stdout, sys.stderr
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    own, thread, leave, inside = os.getpid(), threading.get_ident(), os._exit, True

    def refuse(status: int) -> NoReturn:
        # Processes that the code starts end by it, and so do timeouts in threads of others.
        if inside and (os.getpid(), threading.get_ident()) == (own, thread):
            raise RuntimeError(f"os._exit({status}) would end the whole process: return or raise")
        leave(status)

    os._exit = refuse
    try:
        yield
    finally:
        inside, os._exit = False, leave
        if os.getpid() != own:  # made by os.fork; it would do all that follows a second time
            os._exit(1)
        sys.setrecursionlimit(limit)
        sys.path, sys.path[:] = path, entries
        sys.modules.update(modules)
        sys.stdin, sys.stdout, sys.stderr = streams
        if dict(os.environ) != variables:
            os.environ.clear()
            os.environ.update(variables)
        for number, handler in handlers.items():
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler)


@contextmanager
def _modes() -> Iterator[None]:
    """Modes that change what torch's functions do restored outside, a default device among them: a
    method may enter one and never leave it.
    """
    functions: Any = overrides
    operations: Any = _python_dispatch
    default: Any = torch._GLOBAL_DEVICE_CONTEXT
    entered, device = getattr(default, "device_context", None), _device.CURRENT_DEVICE
    of_functions = functions._get_current_function_mode_stack()
    of_operations = operations._get_current_dispatch_mode_stack()
    try:
        yield
    finally:
        for mode in reversed(operations._get_current_dispatch_mode_stack()):
            if not any(mode is each for each in of_operations):
                operations.TorchDispatchMode.__exit__(mode, None, None, None)
        # Not by their own exits, which take whichever is on top, or at the bottom for a device.
        for _ in functions._get_current_function_mode_stack():
            functions._pop_mode()
        for mode in of_functions:
            functions._push_mode(mode)
        default.device_context, _device.CURRENT_DEVICE = entered, device
