"""What a method shows a network, and what it wants from it, seen in a run of its own.

The run that is measured has no hooks: `attributionlab.exact` reads a network with hooks as one whose
layers are unknown.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from attributionlab.errors import AttributionLabError
from attributionlab.faithfulness.calls import attribute_batch
from attributionlab.faithfulness.setup import Batch, Setup
from attributionlab.methods import Call, collect_notices, images_at_once
from attributionlab.passes import is_ours

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def shows_integer_images_only(setup: Setup, batch: Batch) -> bool:
    """Whether a method learns of a network nothing but its outputs for integer images of the valid box.

    The method explains the first image of the batch while hooks look on: whether each image that it
    shows the network consists of integers in [0, highest], whether a gradient is taken, and whether
    layers are called alone or watched by hooks of the method. Reading weights leaves no trace. False
    also if the network was shown no image at all.
    """
    watch = _Watch(batch.images.shape[1:], setup.env.max_value)

    called = setup.method.call

    def call(function: Any, call: Call, settings: Any) -> Any:
        with watch.over(call.model):
            return called(function, call, settings)

    setup = replace(setup, method=replace(setup.method, call=call))
    try:
        with collect_notices():
            attribute_batch(setup, batch.part(0, 1))
    except (AttributionLabError, _EnoughError):
        if not watch.saw_more:
            raise
    return watch.passes > 0 and not watch.saw_more


class _EnoughError(BaseException):
    """More than outputs was used, and the rest need not be seen; no `except Exception` stops it."""


class _Watch:
    """Looks on while a network runs."""

    def __init__(self, shape: torch.Size, highest: int) -> None:
        self.shape, self.highest = shape, highest
        self.passes = 0
        self.saw_more = False
        self.running = False

    def __deepcopy__(self, _: Any) -> "_Watch":
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
        raise _EnoughError

    def _is_foreign(self, hook: Any) -> bool:
        """Whether it is the method's; what every call and the search for memory hook looks on only."""
        of_memory = getattr(hook, "__module__", "") == images_at_once.__module__
        return getattr(hook, "__self__", None) is not self and not of_memory and not is_ours(hook)


def _hooks(module: nn.Module) -> Iterator[Any]:
    for table in HOOKS:
        yield from getattr(module, table).values()
