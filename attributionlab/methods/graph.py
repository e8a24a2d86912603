"""What a forward pass did, read from its autograd graph."""

import re
from typing import Any

import torch
from torch import Tensor

POOLS = ("AdaptiveMaxPool", "FractionalMaxPool", "MaxPool")
"""Max pooling, whose names go on with the number of dimensions."""

NONLINEAR = (
    *("Relu", "LeakyRelu", "PreluKernel", "Elu", "Celu", "Gelu", "Silu", "Mish", "Softplus"),
    *("Hardtanh", "Hardswish", "Hardsigmoid", "Sigmoid", "LogSigmoid", "Tanh", "Softmax"),
    *("LogSoftmax", "Clamp", "ClampMin", "ClampMax", "Maximum", "Minimum", *POOLS),
)
"""Operations that DeepLift needs a rule for, as `operation` calls them."""


IN_PLACE = "CopySlices"
"""A step that changed a tensor by way of a view of it; the graph does not tell what it computed."""


def operation(step: Any) -> str:
    """What a step of the graph computes, without the number of its signature: MaxPool for
    MaxPool2DWithIndicesBackward0.
    """
    name = re.sub(r"Backward\d*$", "", type(step).__name__)
    return next((pool for pool in POOLS if name.startswith(pool)), name)


def steps_of(output: Tensor) -> list[Any]:
    """All steps that an output came from, beginning with the last."""
    pending: list[Any] = [output.grad_fn]
    seen: dict[Any, None] = {}
    while pending:
        step = pending.pop()
        if step is not None and step not in seen:
            seen[step] = None
            pending += [parent for parent, _ in step.next_functions]
    return list(seen)


def nonlinear_steps(output: Tensor, names: tuple[str, ...] = NONLINEAR) -> list[Any]:
    """The steps that are one of these operations."""
    return [step for step in steps_of(output) if operation(step) in names]


def steps_on_the_way(output: Tensor, leaf: Tensor) -> list[Any]:
    """The steps whose results depend on a leaf, in the order of `steps_of`."""
    steps = steps_of(output)
    followers: dict[Any, list[Any]] = {}
    for step in steps:
        for parent, _ in step.next_functions:
            followers.setdefault(parent, []).append(step)
    pending = [torch.autograd.graph.get_gradient_edge(leaf).node]
    found: set[Any] = set()
    while pending:
        for step in followers.get(pending.pop(), []):
            if step not in found:
                found.add(step)
                pending.append(step)
    return [step for step in steps if step in found]


def step_of(output: Tensor) -> Any:
    """The step in which a module made its output; None where that has no gradient.

    Pooling over one dimension is that over two, of which one is taken away at the end. What works in
    place on a view, such as that of a linear layer with a bias or of `nn.Flatten`, has no step of its
    own, but where the view is of a whole tensor in its order, the `IN_PLACE` step of that is one.
    """
    step: Any = output.grad_fn
    base = output._base
    if step is None or base is None:
        return step
    parent = step.next_functions[0][0]
    whole = base.numel() == output.numel() and base.is_contiguous() and output.is_contiguous()
    return parent if operation(parent) in (*POOLS, *([IN_PLACE] if whole else [])) else step
