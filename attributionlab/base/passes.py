"""Passes through a network that is not ours: one call at a time, on copies, and watched.

Methods and metrics hook a user's modules, and hand tensors of the user's to code of the user's. Inside
`borrowed` no other thread does the same, and no network reaches the tensors that it is handed.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal
from weakref import WeakKeyDictionary, ref

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attributionlab.base.models import modules_in, weights_in

PACKAGE = __name__.partition(".")[0]
ONE_AT_A_TIME = threading.RLock()
"""Held while a network is borrowed, whichever it is. Two networks may share modules, as those before
and behind a softmax do: with a lock for each, hooks of one call would see passes of another. The type
and precision that calls compute in are the whole process's, too. Re-entrant, because methods call
methods. No test holds it while it runs somebody else's method: that may wait for threads of its own,
which call methods."""

LARGEST_SHARE = 2.0**-4
ROUNDINGS = 2**9
"""Units in the last place of the largest output by which rounding may move outputs in a batch of
another size: sums of thousands of terms are added in another order, layer after layer, and an output
is often smaller than what it was added up from. In float32 that is 2^-14, as for interventions
(`environment.own_interventions`); in half precision, which has few digits, 2^-4 at most."""
REPEATS = 8
"""Passes of a network that draws random numbers: in some of them units drop, however few do."""

Dependence = Literal["", "batch-mixing", "unseeded"]
Known = tuple[list["ref[Any]"], list[Any], Dependence]
_found: WeakKeyDictionary[nn.Module, Known] = WeakKeyDictionary()
PLAIN = frozenset((bool, int, float, str, type(None)))
"""Attributes of a user's layer that are compared; of others nobody knows whether they are settings."""


class Passes:
    """What was seen of the passes of a borrowed network.

    `largest`: the most rows of outputs of one pass. `finite`: whether all outputs were finite numbers.
    """

    def __init__(self) -> None:
        self.largest = 0
        self._sum: Tensor | float = 0.0

    def __deepcopy__(self, _: Any) -> "Passes":
        return self  # passes of a copy of the network are passes of the network

    def _look(self, _: nn.Module, __: Any, outputs: Any) -> None:
        if isinstance(outputs, Tensor) and outputs.ndim and outputs.is_floating_point():
            self.largest = max(self.largest, len(outputs))
            # Modes that follow a network's operations are not to follow these. NaN and infinity stay in
            # a sum, which nobody waits for on an accelerator; one that overflows is looked at again.
            with torch._C.DisableTorchFunction(), torch.no_grad():
                self._sum = outputs.detach().sum().float() + self._sum

    @property
    def finite(self) -> bool:
        return bool(torch.as_tensor(self._sum).isfinite())


def is_ours(hook: Any) -> bool:
    """Whether a hook is one of `borrowed`, or of a direct call, that changes nothing of what a network
    computes.
    """
    return getattr(hook, "__module__", "") == __name__ or getattr(hook, "keeps_rows", False)


@contextmanager
def borrowed(model: Any) -> Iterator[Passes]:
    """Have a network for oneself: hand it copies of tensors, and watch what it returns.

    A network may work in place on what it is handed, as one that begins with ``x -= mean`` does. It
    overwrites neither the caller's images nor those of the next pass, and a leaf that requires a
    gradient may be written to. What is no `nn.Module` gets no copies, and is not watched.
    """
    passes = Passes()
    with ONE_AT_A_TIME:
        handles = []
        if isinstance(model, nn.Module):
            # In front of the user's own hooks, which may work in place too.
            copies = model.register_forward_pre_hook(_copies, prepend=True, with_kwargs=True)
            handles = [copies, model.register_forward_hook(passes._look)]
        try:
            yield passes
        finally:
            for handle in handles:
                handle.remove()


@contextmanager
def uncompiled(model: nn.Module) -> Iterator[None]:
    """Let what `torch.compile` compiled run as it is written, where hooks see it."""
    changed: list[tuple[nn.Module, str, Any]] = []
    for module in modules_in(model):
        own = vars(module)
        if own.get("_compiled_call_impl") is not None:
            changed.append((module, "_compiled_call_impl", own["_compiled_call_impl"]))
            own["_compiled_call_impl"] = None
        if "_orig_mod" in module._modules:
            changed.append((module, "forward", own["forward"]))
            own["forward"] = module._modules["_orig_mod"]
    try:
        yield
    finally:
        for module, name, value in changed:
            vars(module)[name] = value


def _copies(
    _: nn.Module, given: tuple[Any, ...], by_name: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return tuple(map(_copy, given)), {key: _copy(each) for key, each in by_name.items()}


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


def dependence(model: nn.Module, images: Float[Tensor, "batch ..."]) -> Dependence:
    """What an image's output depends on beside the image: the others in its batch ("batch-mixing"), or
    chance, so that two passes differ ("unseeded"); empty for nothing, and for a network that is not
    known to take two images.

    The first image and its half pass alone and together: its half, so that the answer is the same
    whatever else is in the batch, and both, since a batch may be divided by its largest value, or its
    first image be added to all. It is remembered for a network until `_state_of` is another. What is
    written through ``weight.data``, or into an object that a layer holds, no version tells. Random
    states are left as they were.
    """
    parts, settings = _state_of(model)
    known = _found.get(model)
    if known is not None and known[1] == settings and len(known[0]) == len(parts):
        same = [before() is now for before, now in zip(known[0], parts, strict=True)]
        if all(same):
            return known[2]
    found = _dependence(model, images[:1].detach())
    # Weakly: by its address alone, a part that is gone may be taken for a new one.
    _found[model] = [ref(each) for each in parts], settings, found
    return found


def _state_of(model: nn.Module) -> tuple[list[Any], list[Any]]:
    """What decides which operations a network consists of, as far as its modules say so: these, their
    weights and buffers; and settings, a user's hooks, and the tensors' versions, which count what
    is done in place: a weight that was 0 may have hidden what mixes.

    Settings of torch's own modules are left out: in eval mode none makes one mix or draw.
    """
    modules = modules_in(model)
    parts: list[Any] = [*modules]
    settings: list[Any] = []
    for module in modules:
        own = vars(module)
        held = [*module._parameters.values(), *module._buffers.values()]
        tensors = [each for each in held if each is not None]
        parts += tensors
        if "forward" in own:
            parts.append(own["forward"])
        versions = [0 if each.is_inference() else each._version for each in tensors]
        settings += [module.training, *versions]
        if not type(module).__module__.startswith("torch."):
            settings += [each for each in own.values() if type(each) in PLAIN]
        for hooks in (module._forward_pre_hooks, module._forward_hooks):
            if hooks:
                settings += [key for key, hook in hooks.items() if not _is_of_package(hook)]
    return parts, settings


def _is_of_package(hook: Any) -> bool:
    return str(getattr(hook, "__module__", "")).startswith(f"{PACKAGE}.")


def _dependence(model: nn.Module, image: Tensor) -> Dependence:
    other = image / 2 if image.any() else image + 1
    devices = [image.device] if image.is_cuda else []
    with borrowed(model), torch.no_grad(), torch.random.fork_rng(devices):
        try:
            before = torch.get_rng_state()
            alone, together = model(image), model(torch.cat([image, other]))
            both = torch.cat([alone, model(other)])
            drew = not torch.equal(torch.get_rng_state(), before)
            limit = _rounding(model, torch.cat([both, together]))
            mixed = bool(((together - both).abs() > limit).any())
            again = [model(image) for _ in range(REPEATS if drew else int(mixed))]
            if any(((each - alone).abs() > limit).any() for each in again):
                return "unseeded"
        except (
            Exception,
            SystemExit,
        ):  # a network of single images, or anything else of a stranger's
            return ""
    return "batch-mixing" if mixed else ""


def _rounding(model: nn.Module, outputs: Tensor) -> Tensor:
    """By how much rounding may change outputs: `ROUNDINGS` units of the coarsest type that computes."""
    kinds = {
        each.dtype for each in (outputs, *weights_in(modules_in(model))) if each.is_floating_point()
    }
    if torch.is_autocast_enabled(outputs.device.type):
        kinds.add(torch.get_autocast_dtype(outputs.device.type))
    share = max(min(ROUNDINGS * torch.finfo(kind).eps, LARGEST_SHARE) for kind in kinds)
    return share * outputs.abs().nan_to_num(posinf=0.0).max()
