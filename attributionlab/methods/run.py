"""One call of a method, with its surroundings kept safe."""

import os
import random
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, overrides
from torch.utils import _device, _python_dispatch

from attributionlab.device import users_default
from attributionlab.methods.adapter import Method
from attributionlab.methods.batching import out_of_memory
from attributionlab.methods.calling import Call
from attributionlab.methods.findings import Notice, notify
from attributionlab.methods.guards import kinks, saturation
from attributionlab.methods.maps import as_maps
from attributionlab.methods.restoration import restored

CUDNN_SWITCHES = ("benchmark", "deterministic", "enabled")


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
        Of the global random states, and of `generator` for a method that declares it.

    Raises
    ------
    AttributionLabError
        If the method raises, or returns what cannot be scored.
    """
    inputs, targets = call.inputs.clone(), call.targets.clone()
    default = users_default(inputs.device)
    with restored(call.model) as repaired, default, _seeded(seed):
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
    maps = as_maps(attributions, inputs, f"{method.name} on {call.environment}", call.first)
    try:
        saturation(call.model, inputs, targets, maps)
        if method.gradient and call.first == 0:
            kinks(call.model, inputs, targets)
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        text = "were not looked at for a saturated softmax and kinks: the memory did not suffice"
        notify(Notice(text, len(inputs)))
    return Attributed(maps, drew)


def _random_states(call: Call) -> tuple[Any, ...]:
    """All that a method can draw random numbers from, in a form that can be compared."""
    numpy_state: Any = np.random.get_state(legacy=False)
    key = numpy_state["state"].pop("key").tobytes()
    states = [torch.get_rng_state()]
    if call.inputs.is_cuda:
        states.append(torch.cuda.get_rng_state(call.inputs.device))
    if "generator" in call.offered:
        states.append(call.offered["generator"].get_state())
    return key, numpy_state, random.getstate(), *(state.numpy().tobytes() for state in states)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Global random states set from a seed inside; these and what else is global restored outside."""
    states = random.getstate(), np.random.get_state()
    dtype, gradients = torch.get_default_dtype(), torch.is_grad_enabled()
    threads, folder = torch.get_num_threads(), os.getcwd()
    deterministic = torch.are_deterministic_algorithms_enabled()
    anomaly, precision = torch.is_anomaly_enabled(), torch.get_float32_matmul_precision()
    casts = {kind: torch.is_autocast_enabled(kind) for kind in ("cpu", "cuda")}
    switches = {name: getattr(torch.backends.cudnn, name) for name in CUDNN_SWITCHES}
    with torch.random.fork_rng(), np.errstate(), warnings.catch_warnings():
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])
            torch.set_default_dtype(dtype)
            torch.set_grad_enabled(gradients)
            torch.autograd.set_detect_anomaly(anomaly)
            torch.set_float32_matmul_precision(precision)
            for kind, casting in casts.items():
                torch.set_autocast_enabled(kind, casting)
            for name, switch in switches.items():
                setattr(torch.backends.cudnn, name, switch)
            torch.set_num_threads(threads)
            if torch.are_deterministic_algorithms_enabled() != deterministic:  # setting it is slow
                torch.use_deterministic_algorithms(deterministic)
            os.chdir(folder)


@contextmanager
def _interpreter() -> Iterator[None]:
    """Where imports look, variables of the environment, streams and Ctrl-C restored outside."""
    path, entries, modules = sys.path, list(sys.path), dict(sys.modules)
    variables, limit = dict(os.environ), sys.getrecursionlimit()
    streams = sys.stdin, sys.stdout, sys.stderr
    interrupt = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
        sys.path, sys.path[:] = path, entries
        sys.modules.update(modules)
        sys.stdin, sys.stdout, sys.stderr = streams
        if dict(os.environ) != variables:
            os.environ.clear()
            os.environ.update(variables)
        if signal.getsignal(signal.SIGINT) is not interrupt:
            signal.signal(signal.SIGINT, interrupt)


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
