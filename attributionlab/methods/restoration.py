"""A model comes back from a method as it was: state, weights, hooks and attributes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

GLOBAL_HOOKS = [
    table
    for name, table in vars(torch.nn.modules.module).items()
    if name.startswith("_global_") and isinstance(table, dict)
]
NAMES = {"training": "training mode", "_parameters": "weights", "_modules": "modules"}
"""What the entries of a module's `__dict__` are called; tables of hooks are "hooks"."""


@contextmanager
def restored(model: nn.Module) -> Iterator[list[str]]:
    """Undo what the body does to a model, whatever happens in it.

    Everything a module keeps in its `__dict__` is put back, the tables it holds there (parameters,
    buffers, submodules, hooks) entry by entry, and the values of parameters and buffers.

    Yields
    ------
    list of str
        Filled on the way out with what had to be restored: "training mode", "requires_grad",
        "weights", "hooks", "modules", or the name of another attribute.

    Notes
    -----
    Gradients that a backward pass leaves in the parameters are dropped without mention.
    """
    modules = list(model.modules())
    kinds = [type(module) for module in modules]
    attributes = [dict(vars(module)) for module in modules]
    tables = [
        {name: dict(value) for name, value in kept.items() if isinstance(value, dict)}
        for kept in attributes
    ]
    tensors = [*model.parameters(), *model.buffers()]
    values = [(tensor.detach().clone(), tensor.requires_grad) for tensor in tensors]
    tensor_hooks = [tensor._backward_hooks for tensor in tensors]
    global_hooks = [dict(table) for table in GLOBAL_HOOKS]
    repaired: list[str] = []
    try:
        yield repaired
    finally:
        for table, kept_hooks in zip(GLOBAL_HOOKS, global_hooks, strict=True):
            _put_back(table, kept_hooks, "hooks", repaired)
        for module, kind, kept, contents in zip(modules, kinds, attributes, tables, strict=True):
            if type(module) is not kind:
                module.__class__ = kind
                _note("modules", repaired)
            _put_back(vars(module), kept, None, repaired)
            for name, table in contents.items():
                _put_back(kept[name], table, name, repaired)
        for tensor, hooks, (value, requires_grad) in zip(
            tensors, tensor_hooks, values, strict=True
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
            tensor.grad = None


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
