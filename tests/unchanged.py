"""What a call must leave as it was: everything that is not the laboratory's, in one snapshot."""

import contextlib
import copy
import os
import random
import sys
import warnings
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch
from torch import nn

GLOBAL_HOOKS = {
    name: table
    for name, table in vars(torch.nn.modules.module).items()
    if name.startswith("_global_") and isinstance(table, dict)
}


def of_process() -> dict[str, Any]:
    """What is global, in a form that can be compared."""
    numpy_state: Any = np.random.get_state(legacy=False)
    backends: Any = torch.backends
    return {
        "random state of Python": random.getstate(),
        "random state of numpy": repr(numpy_state),
        "random state of torch": torch.get_rng_state().tolist(),
        "gradient mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "anomaly mode": torch.is_anomaly_enabled(),
        "autocast": [torch.is_autocast_enabled(kind) for kind in ("cpu", "cuda")],
        "autocast type": [torch.get_autocast_dtype(kind) for kind in ("cpu", "cuda")],
        "threads": torch.get_num_threads(),
        "default type": torch.get_default_dtype(),
        "default device": str(torch.empty(0).device),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "cudnn": [
            getattr(backends.cudnn, name)
            for name in ("benchmark", "deterministic", "enabled", "allow_tf32")
        ],
        "precision": torch.get_float32_matmul_precision(),
        "default print": str(torch.tensor([1 / 3])),
        "function modes": len(torch.overrides._get_current_function_mode_stack()),
        "global hooks": {name: dict(table) for name, table in GLOBAL_HOOKS.items()},
        "warnings": list(warnings.filters),
        "numpy errors": np.geterr(),
        "path of imports": list(sys.path),
        "folder": os.getcwd(),
        "environment": dict(os.environ),
        "matplotlib": dict(matplotlib.rcParams),
    }


def of_tensor(tensor: torch.Tensor) -> dict[str, Any]:
    """Values, kept by content, and what hangs on a tensor, by identity."""
    gradient = tensor.grad if tensor.is_leaf else None
    return {
        "is": id(tensor),
        "storage": tensor.data_ptr(),
        "values": tensor.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes(),
        "layout": (tensor.shape, tensor.stride(), tensor.dtype, tensor.device),
        "requires grad": tensor.requires_grad,
        "gradient": None if gradient is None else (id(gradient), gradient.tolist()),
        "hooks": None if not tensor._backward_hooks else dict(tensor._backward_hooks),
    }


def of_model(model: nn.Module) -> dict[str, Any]:
    """Weights bit for bit, gradients, hooks, flags and attributes of a network."""
    found: dict[str, Any] = {}
    for name, module in model.named_modules():
        kept = {
            key: list(value.items()) if isinstance(value, dict) else value
            for key, value in vars(module).items()
        }
        found[f"module {name}"] = type(module), kept
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        found[f"tensor {name}"] = of_tensor(tensor)
    return found


def snapshot(model: nn.Module, *tensors: torch.Tensor) -> dict[str, Any]:
    """All of these, for a network and a caller's own tensors."""
    of_tensors = {f"argument {place}": of_tensor(each) for place, each in enumerate(tensors)}
    return copy.copy(of_process()) | of_model(model) | of_tensors


def changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The names of what is another now."""
    return [name for name in before | after if not _same(before.get(name), after.get(name))]


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) or isinstance(other, torch.Tensor):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


@contextlib.contextmanager
def nothing_changes(model: nn.Module, *tensors: torch.Tensor):
    """Fails where the body leaves something changed, also where it raises."""
    before = snapshot(model, *tensors)
    try:
        yield
    finally:
        left = changed(before, snapshot(model, *tensors))
        assert not left, left


def tree(folder: Path) -> dict[str, Any]:
    """What is in a folder: files by content and time, without what Python compiles."""
    return {
        path.relative_to(folder).as_posix(): path.is_dir()
        or (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.name != "__pycache__" and path.parent.name != "__pycache__"
    }
