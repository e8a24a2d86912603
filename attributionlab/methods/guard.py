"""A model comes back from a method as it was: state, weights and hooks."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

__all__ = ["restored"]

HOOK_TABLES = (
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_backward_hooks",
    "_backward_pre_hooks",
)


@contextmanager
def restored(model: nn.Module) -> Iterator[list[str]]:
    """Undo what the body does to a model, whatever happens in it.

    Yields
    ------
    list of str
        Filled on the way out with what had to be restored: "training mode", "requires_grad",
        "weights", "hooks", "modules".

    Notes
    -----
    Gradients that a backward pass leaves in the parameters are dropped without mention.
    """
    modules = list(model.modules())
    parameters = list(model.parameters())
    children = [dict(module._modules) for module in modules]
    training = [module.training for module in modules]
    hooks = [[dict(getattr(module, table)) for table in HOOK_TABLES] for module in modules]
    full_hooks = [module._is_full_backward_hook for module in modules]
    slots = [dict(module._parameters) for module in modules]
    requires_grad = [parameter.requires_grad for parameter in parameters]
    weights = [parameter.detach().clone() for parameter in parameters]
    repaired: list[str] = []
    try:
        yield repaired
    finally:
        for module, kept, mode, tables, full, slot in zip(
            modules, children, training, hooks, full_hooks, slots, strict=True
        ):
            module._is_full_backward_hook = full  # or a hook of the other kind could never come
            _put_back(module._modules, kept, "modules", repaired)
            _put_back(module._parameters, slot, "weights", repaired)
            for name, table in zip(HOOK_TABLES, tables, strict=True):
                _put_back(getattr(module, name), table, "hooks", repaired)
            if module.training != mode:
                module.training = mode
                _note("training mode", repaired)
        for parameter, flag, weight in zip(parameters, requires_grad, weights, strict=True):
            same = parameter.dtype == weight.dtype and torch.equal(parameter.detach(), weight)
            if not same:
                parameter.data = weight
                _note("weights", repaired)
            if parameter.requires_grad != flag:
                parameter.requires_grad_(flag)
                _note("requires_grad", repaired)
            parameter.grad = None


def _put_back(table: Any, kept: dict[Any, Any], what: str, repaired: list[str]) -> None:
    same = list(table) == list(kept) and all(table[key] is kept[key] for key in kept)
    if not same:
        table.clear()
        table.update(kept)
        _note(what, repaired)


def _note(what: str, repaired: list[str]) -> None:
    if what not in repaired:
        repaired.append(what)
