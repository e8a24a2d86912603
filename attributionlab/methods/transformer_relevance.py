r"""Relevance through the operations of a transformer (Chefer, Gur and Wolf, 2021).

A forward pass inside `Relevance` runs under a torch function mode that gives each operation a second
backward pass, which hands down relevance in place of gradients:

- linear layers and convolutions by alpha = 1, beta = 0, without their biases,

  .. math::
      R_j = \sum_k \frac{x_j^+ w_{jk}^+ + x_j^- w_{jk}^-}{\sum_i x_i^+ w_{ik}^+ + x_i^- w_{ik}^-} R_k;

- products z of two operands, half of it to each, by :math:`R_a = \frac12 a \, (\partial z / \partial
  a)^T (R / z)`, and averages, all of it, in the same way;
- sums of two operands by :math:`R_a = a R / z`, and then each is rescaled so that of each image's
  relevance the operands have shares in proportion to :math:`|\sum R_a|` and :math:`|\sum R_b|`;
- activations, normalizations, softmax, changes of sign, powers, and sums and products with constants:
  unchanged;
- changes of shape: as the gradient.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attributionlab.base import AttributionLabError
from attributionlab.methods.attention_matrices import PRODUCTS, Attending, tensors_among

STABILIZER = 1e-9
"""Added to what relevance is divided by, away from 0; of a 0 nothing is handed down."""

WEIGHTED = ("conv1d", "conv2d", "linear")
"""Operations on an input, a weight and a bias."""

AVERAGES = ("adaptive_avg_pool1d", "adaptive_avg_pool2d", "avg_pool1d", "avg_pool2d", "mean", "sum")
"""Operations that hand down relevance in proportion to their operand's values."""

SCALED = ("add", "div", "mul", "pow", "sub")
"""Operations that hand down relevance unchanged to what is their first operand, or the only one."""

ACTIVATIONS = (
    *("dropout", "gelu", "relu", "leaky_relu", "elu", "silu", "tanh", "sigmoid", "hardswish"),
    *("mish", "softplus", "softmax", "log_softmax", "nan_to_num", "neg"),
    *("batch_norm", "group_norm", "instance_norm", "layer_norm", "rms_norm"),
)
"""Operations that hand down relevance unchanged."""

CHANGES_OF_SHAPE = (
    *("__get__", "__getitem__", "expand", "expand_as", "flatten", "movedim", "permute", "reshape"),
    *("squeeze", "t", "transpose", "unflatten", "unsqueeze", "view", "roll", "pad"),
    *("cat", "concat", "stack", "chunk", "split", "unbind", "index_select", "select"),
    *("clone", "contiguous", "double", "float", "to", "type", "type_as"),
    *("repeat", "repeat_interleave", "masked_fill", "where"),
)
"""Operations that put values elsewhere, to where their gradient hands relevance down."""

Operation = Callable[..., Tensor]
Rule = Callable[[Tensor, Sequence[Tensor], Tensor], Sequence[Tensor]]
"""(relevance of the result, operands, the result computed from them) -> relevance of each operand."""


@dataclass
class Backward:
    """Whether backward passes hand down relevance; by itself, so that no operation holds all others in
    memory.
    """

    who: str
    of_relevance: bool = False


class Ruled(Attending):
    """Gives each operation between the images and an output a backward pass of its own (`by_rule`).

    What has no history is constant: the images need one.
    """

    def computed(
        self, func: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """What an operation returns, with its rule as its backward pass."""
        given = list(tensors_among([*args, *kwargs.values()]))
        if not given:  # such as switching gradients off
            return func(*args, **kwargs)
        depending = [each for each in given if each.grad_fn is not None]
        if not depending:
            with torch.no_grad():
                return func(*args, **kwargs)
        if name.endswith("_") and callable(getattr(Tensor, name[:-1], None)):  # in place
            parts = (args[0].clone(), *args[1:])
            return args[0].copy_(
                self.computed(getattr(Tensor, name[:-1]), name[:-1], parts, kwargs)
            )
        kwargs = {key: each for key, each in kwargs.items() if key != "inplace"}
        return self.by_rule(func, name, args, kwargs, depending)

    def by_rule(
        self,
        func: Operation,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        depending: list[Tensor],
    ) -> Any:
        """The same of an operation, not in place, that depends on the images by these operands."""
        raise NotImplementedError


class Relevance(Ruled):
    """Lets autograd hand down gradients, or relevance once `backward` says so, through a network.

    Relevance is refused where it arrives at an operation without a rule.
    """

    def __init__(self, who: str, batch: int) -> None:
        super().__init__(who, batch)
        self.backward = Backward(who)

    def by_rule(
        self,
        func: Operation,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        depending: list[Tensor],
    ) -> Any:
        """What an operation returns, with its rule as its backward pass."""
        rule = _rule(func, name, args, kwargs, self.batch)
        if rule is not None:
            operation = _of_operands(_has_history, func, args, kwargs)
            return _Ruled.apply(self.backward, operation, rule, *depending)  # type: ignore[no-untyped-call]
        result = func(*args, **kwargs)
        if name not in CHANGES_OF_SHAPE:
            for each in tensors_among([result]):
                if each.requires_grad:
                    each.register_hook(partial(_refuse, self.backward, name))  # type: ignore[no-untyped-call]
        return result


class _Ruled(torch.autograd.Function):
    """Any operation on its operands forwards, its gradient or a rule backwards."""

    @staticmethod
    def forward(
        ctx: Any, handed: Backward, operation: Operation, rule: Rule, *operands: Tensor
    ) -> Tensor:
        ctx.handed, ctx.rule = handed, rule
        ctx.operands = [each.detach().requires_grad_() for each in operands]
        with torch.enable_grad():
            ctx.result = operation(*ctx.operands)
        result: Tensor = ctx.result.detach()
        # The network may change a product in place, and its rule needs the product.
        return result.clone() if rule is _proportional else result

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.handed.of_relevance:
            return None, None, None, *ctx.rule(given[0], ctx.operands, ctx.result)
        return None, None, None, *_through(ctx.result, ctx.operands, given[0])


def _rule(
    func: Operation, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], batch: int
) -> Rule | None:
    """Rule for an operation of which at least one operand has a history; None if there is no rule."""
    tensors = list(tensors_among([*args, *kwargs.values()]))
    histories = [_has_history(each) for each in tensors]
    first = histories[0] and args and args[0] is tensors[0]
    if sum(histories) == 2:
        if name in (*PRODUCTS, "mul"):
            return _proportional
        return partial(_total, batch) if name == "add" and "alpha" not in kwargs else None
    if sum(histories) > 2:
        return None
    if name in WEIGHTED and first:
        rest = {key: each for key, each in kwargs.items() if key not in ("weight", "bias")}
        return partial(_weighted, lambda x, w: func(x, w, None, *args[3:], **rest), tensors[1])
    if name in PRODUCTS:
        operation = _of_operands(_is_tensor, func, args, kwargs)
        if histories[0]:
            return partial(_weighted, operation, tensors[1])
        return partial(_weighted, lambda x, w: operation(w, x), tensors[0])
    if name in AVERAGES and first:
        return _proportional
    if name in ACTIVATIONS or (name in SCALED and (first or name in ("add", "mul"))):
        return _unchanged
    return None


def _weighted(
    operation: Operation,
    weight: Tensor,
    relevance: Tensor,
    operands: Sequence[Tensor],
    result: Tensor,
) -> list[Tensor]:
    """Alpha = 1, beta = 0: shares of the sum of positive terms, from factors of either sign."""
    values, weight = operands[0].detach(), weight.detach()
    above = values.clamp(min=0).requires_grad_()
    below = values.clamp(max=0).requires_grad_()
    with torch.enable_grad():
        terms = (operation(above, weight.clamp(min=0)), operation(below, weight.clamp(max=0)))
    share = _quotient(relevance, terms[0].detach().add_(terms[1].detach()))
    per_unit = torch.autograd.grad(terms, (above, below), (share, share))
    return [torch.addcmul(above.detach() * per_unit[0], below.detach(), per_unit[1])]


def _proportional(relevance: Tensor, operands: Sequence[Tensor], result: Tensor) -> list[Tensor]:
    """In proportion to the values; equal parts to each operand."""
    gradients = _through(result, operands, _quotient(relevance, result.detach()))
    return [
        each.detach() * gradient / len(operands)
        for each, gradient in zip(operands, gradients, strict=True)
    ]


def _total(
    batch: int, relevance: Tensor, operands: Sequence[Tensor], result: Tensor
) -> list[Tensor]:
    """Each image's relevance by itself: the first dimension is the images', or there is one alone."""
    first, second = (each.detach() for each in operands)
    share = _quotient(relevance, first + second)
    parts = [each * share for each in (first, second)]
    of_each_image = [-1, *[1] * (relevance.ndim - 1)]
    sums = [each.reshape(batch, -1).sum(1) for each in parts]
    whole = relevance.reshape(batch, -1).sum(1)
    sizes = sums[0].abs() + sums[1].abs()
    factors = [_quotient(_quotient(each.abs(), sizes) * whole, each) for each in sums]
    return [
        (part * factor.reshape(of_each_image)).sum_to_size(operand.shape)
        for part, factor, operand in zip(parts, factors, operands, strict=True)
    ]


def _unchanged(relevance: Tensor, operands: Sequence[Tensor], result: Tensor) -> list[Tensor]:
    return [relevance.sum_to_size(operands[0].shape)]


def _through(result: Tensor, operands: Sequence[Tensor], given: Tensor) -> tuple[Tensor, ...]:
    """The gradient of the operands; a second pass may follow."""
    return torch.autograd.grad(result, operands, given, retain_graph=True)


def _quotient(amount: Tensor, divisor: Tensor) -> Tensor:
    # In place: new memory for each step costs more than the step.
    stable = divisor.sign().mul_(STABILIZER).add_(divisor)
    return torch.div(amount, stable, out=stable).masked_fill_(divisor == 0, 0.0)


def _of_operands(
    chosen: Callable[[Any], bool], func: Operation, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Operation:
    """The operation as a function of those of its arguments that are chosen, in their order."""

    def operation(*values: Tensor | None) -> Tensor:
        rest = iter(values)
        placed = [next(rest) if chosen(each) else each for each in args]
        named = {key: next(rest) if chosen(each) else each for key, each in kwargs.items()}
        return func(*placed, **named)

    return operation


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def _has_history(value: Any) -> bool:
    return isinstance(value, Tensor) and value.grad_fn is not None


def _refuse(backward: Backward, name: str, _: Tensor) -> None:
    if backward.of_relevance:
        raise AttributionLabError(
            f"{backward.who} has no rule for {name!r}: take a transformer of linear layers, attention, "
            "activations, normalizations and residual sums, or attention-rollout"
        )
