r"""Excitation backpropagation: the probability of winning, handed down from an output to its causes.

A forward pass inside `winner_take_all` runs under a torch function mode. That sees whatever the network
computes, by modules or by functions, and gives each operation that weighs or sums its inputs the
backward pass of `_Winners` or `_Sum`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attributionlab.base import AttributionLabError
from attributionlab.methods import layers
from attributionlab.methods.batching import over_batches
from attributionlab.methods.declaration import checked, declares
from attributionlab.methods.guards import STATED_SHARE
from attributionlab.methods.notices import Notice, notify

WHO = "excitation-backprop"

WEIGHTED = {
    "conv2d": ("input", "weight", "bias", "stride", "padding", "dilation", "groups"),
    "linear": ("input", "weight", "bias"),
}
"""Operations with weights, and the names of their arguments."""

TRAINING = {"batch_norm": 5, "dropout": 2, "dropout2d": 2}
"""Operations that are another one in training mode, and the place of the argument that says so."""

AVERAGES = ("adaptive_avg_pool2d", "avg_pool2d", "mean", "sum")
"""Operations whose weights are all positive."""

HANDED_ON = (
    *("relu", "relu_", "dropout", "dropout2d", "clone", "contiguous", "to", "pad", "cat", "concat"),
    *("max_pool2d", "max_pool2d_with_indices", "adaptive_max_pool2d", "split", "chunk", "stack"),
    *(
        "flatten",
        "unflatten",
        "reshape",
        "view",
        "view_as",  # around modules with full backward hooks
        "permute",
        "transpose",
        "squeeze",
        "unsqueeze",
        "__getitem__",
    ),
)
"""Operations that hand each probability on as a whole, to where its activation came from: there the
gradient of the operation is the rule."""

ROUNDING = 16
"""Units in the last place, of an image's largest excitation, which fast convolutions may leave of 0."""


@contextmanager
def _running(model: nn.Module) -> Iterator[list[str]]:
    """The names of the modules that are running, the innermost last."""
    running: list[str] = []

    def begin(name: str, *_: Any) -> None:
        running.append(name)

    def end(*_: Any) -> None:
        running.pop()

    handles = [
        handle
        for name, module in model.named_modules()
        for handle in (
            module.register_forward_pre_hook(partial(begin, name)),
            module.register_forward_hook(end),
        )
    ]
    try:
        yield running
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def winner_take_all(model: nn.Module, start: list[Tensor]) -> Iterator[None]:
    """Let autograd hand down probabilities through what the model computes inside.

    `start` are leaves that require a gradient, to which probabilities are handed down; filled before or
    inside. Refuses, inside, what the model computes from them and there is no rule for.
    """
    with _running(model) as running, _Rules(running, start):
        yield


def contrast(outputs: Tensor) -> None:
    """Let the last layer in front of the outputs subtract what its dual, of weights -w, hands down.

    For outputs computed inside `winner_take_all`; refused if there is not one layer with weights that
    all else in front of the outputs comes from.
    """
    node: Any = outputs.grad_fn
    while not isinstance(getattr(node, "layer", None), _Layer):
        before = [each for each, _ in node.next_functions if each is not None]
        if len(before) != 1 or not before[0].next_functions:
            raise AttributionLabError(
                f"{WHO} cannot be contrastive: the network does not end in a single layer with weights"
            )
        [node] = before
    node.inhibition = node.layer.excitation_by(-node.layer.weight)


@dataclass(frozen=True)
class _Layer:
    """Outputs that are sums of weighted inputs, and biases: operation(inputs, weight, bias, **more)."""

    operation: Callable[..., Tensor]
    inputs: Tensor
    weight: Tensor
    bias: Tensor | None
    more: Mapping[str, Any]

    def outputs(self) -> Tensor:
        """As they are, with the backward pass of `_Winners`."""
        outputs: Any = _Winners.apply(  # type: ignore[no-untyped-call]
            self.inputs,
            lambda values: self.operation(values, self.weight, self.bias, **self.more),
            self.excitation_by(self.weight),
        )
        if outputs.grad_fn is not None:  # there is none where the model switches gradients off
            outputs.grad_fn.layer = self
        return cast(Tensor, outputs)

    def excitation_by(self, weight: Tensor) -> Callable[[Tensor], Tensor]:
        """Sums of inputs by the positive ones of these weights."""
        positive = weight.detach().clamp(min=0)
        return lambda values: self.operation(values, positive, None, **self.more)

    def scaled(self, factor: Tensor, shift: Tensor) -> "_Layer":
        """The same with another step behind it that scales and shifts each output channel."""
        weight = self.weight * factor.reshape(-1, *[1] * (self.weight.ndim - 1))
        bias = shift if self.bias is None else self.bias * factor + shift
        return _Layer(self.operation, self.inputs, weight, bias, self.more)


class _Winners(torch.autograd.Function):
    """Any operation forwards; backwards each output's probability is shared out among its inputs in
    proportion to what they add to its excitation."""

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        operation: Callable[[Tensor], Tensor],
        excitation: Callable[[Tensor], Tensor],
    ) -> Tensor:
        ctx.save_for_backward(inputs)
        ctx.excitation, ctx.inhibition = excitation, None
        return operation(inputs)

    @staticmethod
    def backward(ctx: Any, *won: Tensor) -> tuple[Tensor, None, None]:
        (inputs,) = ctx.saved_tensors
        handed_down = _handed_down(won[0], inputs, ctx.excitation)
        if ctx.inhibition is not None:
            handed_down = handed_down - _handed_down(won[0], inputs, ctx.inhibition)
        return handed_down, None, None


class _Sum(torch.autograd.Function):
    """The sum of two layers: a layer with two inputs, of weight 1."""

    @staticmethod
    def forward(ctx: Any, first: Tensor, second: Tensor, in_place: bool) -> Tensor:
        ctx.save_for_backward(first.clamp(min=0), second.clamp(min=0))
        if not in_place:
            return first + second
        ctx.mark_dirty(first)
        return first.add_(second)

    @staticmethod
    def backward(ctx: Any, *won: Tensor) -> tuple[Tensor, Tensor, None]:
        first, second = ctx.saved_tensors
        share = _quotient(won[0], first + second)
        parts = [(share * each).sum_to_size(each.shape) for each in (first, second)]
        return parts[0], parts[1], None


def _handed_down(
    probability: Tensor, inputs: Tensor, excitation: Callable[[Tensor], Tensor]
) -> Tensor:
    """The probability of the inputs, from that of the outputs."""
    active = inputs.detach().clamp(min=0).requires_grad_()
    with torch.enable_grad():
        excited = excitation(active)
    share = _quotient(probability, excited.detach())
    (per_unit,) = torch.autograd.grad(excited, active, share)
    return active.detach() * per_unit


def _quotient(probability: Tensor, excitation: Tensor) -> Tensor:
    """Probability per unit of excitation; nothing is handed on where there is none."""
    of_each_image = [-1, *[1] * (excitation.ndim - 1)]
    largest = excitation.reshape(len(excitation), -1).amax(1).reshape(of_each_image)
    limits = torch.finfo(excitation.dtype)
    excited = excitation > torch.clamp(ROUNDING * limits.eps * largest, min=limits.tiny)
    return torch.where(excited, probability / excitation, 0.0)


class _Rules(TorchFunctionMode):
    """Each operation on what depends on the input follows its rule, or is refused."""

    def __init__(self, running: list[str], start: list[Tensor]) -> None:
        super().__init__()
        self.running, self.start = running, start

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        tensors = list(_tensors([*args, *kwargs.values()]))
        # Nothing else has a history, because what does not depend on them is computed without one.
        depending = [
            each
            for each in tensors
            if each.grad_fn is not None or any(each is leaf for leaf in self.start)
        ]
        if not tensors:  # such as switching gradients off
            return func(*args, **kwargs)
        if not depending:
            with torch.no_grad():
                return func(*args, **kwargs)
        name = getattr(func, "__name__", str(func))
        if name in TRAINING and (kwargs.get("training") or True in args[TRAINING[name] :][:1]):
            raise AttributionLabError(
                f"{WHO}: {self._place()} is in training mode: call model.eval()"
            )
        if name in WEIGHTED:
            given = dict(zip(WEIGHTED[name], args, strict=False)) | kwargs
            weight, bias = given.pop("weight"), given.pop("bias", None)
            if len(depending) == 1 and depending[0] is given["input"]:
                return _Layer(func, given.pop("input"), weight, bias, given).outputs()
        if func is nn.functional.batch_norm:  # that of torch has another order of arguments
            return _normalized(*args, **kwargs)
        if name in AVERAGES and args:

            def average(values: Tensor) -> Tensor:
                return cast(Tensor, func(values, *args[1:], **kwargs))

            return _Winners.apply(args[0], average, average)  # type: ignore[no-untyped-call]
        if name in ("add", "add_") and not kwargs:
            if len(depending) == 2:
                return _Sum.apply(*args, name == "add_")  # type: ignore[no-untyped-call]
            return func(*args)  # a constant is a bias, which gets nothing
        result = func(*args, **kwargs)
        if name in HANDED_ON or not list(_tensors([result])):
            return result
        if name.endswith("softmax"):
            raise AttributionLabError(
                f"{WHO} explains logits, but this network has a softmax: pass explain='logit'"
            )
        raise AttributionLabError(
            f"{WHO} has no rule for {name!r} in {self._place()}: take a network of convolutions, "
            "linear layers, ReLUs and pooling, or name a later layer as `layer`"
        )

    def _place(self) -> str:
        return f"module {self.running[-1]!r}" if any(self.running) else "the network"


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _normalized(
    inputs: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Batch normalization as part of the layer in front of it, or else a layer of one weight each."""
    factor = (running_var + eps).rsqrt()
    if weight is not None:
        factor = factor * weight.detach()
    shift = -running_mean * factor
    if bias is not None:
        shift = shift + bias.detach()
    before = getattr(inputs.grad_fn, "layer", None)
    if isinstance(before, _Layer):
        return before.scaled(factor, shift).outputs()
    return _Layer(_scaled, inputs, factor, shift, {}).outputs()


def _scaled(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Each channel by itself."""
    channel = [1, -1, *[1] * (inputs.ndim - 2)]
    outputs = inputs * weight.reshape(channel)
    return outputs if bias is None else outputs + bias.reshape(channel)


@checked
@declares(claim="positive", output="logit", modules=True)
def excitation_backprop(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    layer: str | None = None,
    layout: layers.Layout | None = None,
    contrastive: bool = False,
) -> Tensor:
    r"""The probability that a random walk from the output along positive weights ends at the pixel.

    .. math::
        p_j = \sum_k \frac{x_j w^+_{jk}}{\sum_i x_i w^+_{ik}} \, p_k, \qquad w^+ = \max(w, 0),

    from p = 1 at the output down to the input, or to a layer; biases get nothing. ReLUs and max pooling
    pass p on unchanged, averages and sums are layers with positive weights, and batch normalization is
    part of the layer before it.

    Source: Zhang et al., 2018 (marginal winning probability). Assumes activations of at least 0;
    negative ones win nothing here. Probabilities sum to 1 unless a unit wins without an excitatory
    input, by its bias alone: its probability is lost, and a guard reports how much. Shows the evidence
    for an output, never what inhibits it: hence the claim positive. Explains logits; after a softmax it
    is undefined. The paper's maps are those of a layer in the middle (`layer`), summed over channels
    and, here, upsampled bilinearly. Two forward passes, one without inhibition, and one backward pass.

    Parameters
    ----------
    model, inputs, targets
        As for `saliency`. The layer may be followed by convolutions, linear layers, batch
        normalization, ReLUs, pooling, sums of layers (residual connections), concatenation and changes
        of shape.
    layer : str, optional
        Dotted name of a module of the model to stop at (`find_layer`); by default the input.
    layout : {"channels-first", "channels-last"}, optional
        Layout of what that module returns, as for `gradcam`.
    contrastive : bool
        Subtract the map of the dual output, with the negated weights of the last layer, and keep the
        positive part: what excites this output more than it inhibits it.

    Returns
    -------
    Tensor, (B, 1, H, W)
        Probability per pixel (of a layer: per cell, before its map is upsampled), summed over channels.

    Raises
    ------
    AttributionLabError
        If the network has an operation without a rule after the layer, or is in training mode; if the
        layer does not exist, does not run exactly once, or returns no maps, maps of a single cell or in
        a layout that is neither stated nor proven; if `contrastive` is neither True nor False, or the
        network has no single last layer with weights.
    """
    module, axes = None, layout or "channels-first"
    if layer is not None:
        module = layers.find_layer(model, layer, None, WHO)
        axes = layers.layout_of(model, module, inputs, layout, WHO)

    def run(images: Tensor, classes: Tensor) -> tuple[Tensor]:
        with torch.enable_grad():
            start, outputs = _forward(model, module, images.detach(), axes)
            chosen = torch.zeros_like(outputs).scatter(1, classes.to(outputs.device)[:, None], 1)
            if contrastive:
                contrast(outputs)
            (won,) = torch.autograd.grad(outputs, start, chosen)
        return (layers.channels_first(won, axes).sum(1, keepdim=True),)

    (maps,) = over_batches(run, (inputs, targets), WHO)
    if contrastive:
        maps = maps.clamp(min=0)
    else:
        _notify_lost(maps)
    if module is None:
        return maps
    return nn.functional.interpolate(maps, tuple(inputs.shape[2:]), mode="bilinear")


def _forward(
    model: nn.Module, layer: nn.Module | None, images: Tensor, layout: layers.Layout
) -> tuple[Tensor, Tensor]:
    """What probabilities are handed down to, the images or what the layer returns, and the outputs."""
    start: list[Tensor] = [images.clone().requires_grad_()] if layer is None else []
    returned: list[object] = []

    def begin(_: nn.Module, __: Any, output: object) -> Tensor:
        returned.append(output)
        maps = layers.only_maps([output])
        layers.refuse_single_cell(layers.channels_first(maps, layout), WHO)
        start[:] = [maps.detach().clone().requires_grad_()]
        return start[0].clone()  # a ReLU behind it may work in place

    handles = [] if layer is None else [layer.register_forward_hook(begin)]
    try:
        with winner_take_all(model, start):
            outputs: Tensor = model(images if layer is not None else start[0])
    finally:
        for handle in handles:
            handle.remove()
    if layer is not None:
        layers.only_maps(returned)
    if not outputs.requires_grad:
        source = "input" if layer is None else "layer"
        raise AttributionLabError(f"{WHO}: no path leads from the {source} to the outputs")
    return start[0], outputs


def _notify_lost(maps: Tensor) -> None:
    lost = 1 - maps.detach().double().flatten(1).sum(1)
    text = (
        "lose up to {worst} of the probability: units that win without a positive excitatory input, by "
        "their bias alone for example, pass nothing on"
    )
    notify(Notice(text, int((lost > STATED_SHARE).sum()), worst=float(lost.max())))
