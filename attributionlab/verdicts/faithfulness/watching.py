"""Looks on while a network runs: what it is shown, and what is wanted from it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from attributionlab.base import is_ours
from attributionlab.methods import Call, images_at_once

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
