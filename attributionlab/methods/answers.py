"""How a network is asked in a direct call: what it is given, and what of its answer is explained.

Every built-in method calls ``model(x)`` with images (b, C, H, W) and reads rows of outputs (b, K).
Other inputs and answers become that at the network's own call, by two hooks that are there for as long
as the method works. So no method knows of them, nor those of Captum.

Inputs that are no images, as images of one row: vectors, series, volumes.

Methods are written for images (B, C, H, W). What holds for each value or place by itself holds for
(B, F), (B, C, L) and (B, C, D, H, W) too: their places are put in a row, and the network gets them in
their own shape.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from math import prod
from numbers import Integral
from threading import get_ident
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from attributionlab.base import (
    ONE_AT_A_TIME,
    AttributionLabError,
    checked_targets,
    follow,
    modules_in,
    outputs_in,
    reference_images_problem,
    refuse_if,
    shown,
    uncompiled,
    written,
)
from attributionlab.methods.batching import over_batches
from attributionlab.methods.outputs import targets_problem


class AsImages:
    """Inputs of any shape as images of one row; called as a hook in front of a network, it gives them
    their own shape again.
    """

    def __init__(self, shape: torch.Size) -> None:
        self.shape = shape[1:]
        self.places = shape[2:] if len(shape) > 2 else shape[1:]
        self.channels = shape[1] if len(shape) > 2 else 1
        self.thread = get_ident()

    def __deepcopy__(self, _: Any) -> "AsImages":
        return self

    def __call__(self, _: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
        if get_ident() != self.thread:
            return given  # to a call of another thread on the same network
        return tuple(map(self._restored, given))

    def _restored(self, value: Any) -> Any:
        if isinstance(value, tuple):  # as Captum's DeepLift hands over inputs and baselines
            return tuple(map(self._restored, value))
        if isinstance(value, Tensor) and value.shape[1:] == (self.channels, 1, prod(self.places)):
            return value.reshape(-1, *self.shape)
        return value

    def as_images(self, values: Tensor) -> Tensor:
        return values.reshape(-1, self.channels, 1, prod(self.places))

    def as_inputs(self, maps: Tensor) -> Tensor:
        maps = maps.detach()
        if len(self.shape) == 3:
            return maps
        return maps.reshape(len(maps), *(() if len(self.shape) == 1 else (-1,)), *self.places)

    def settings(self, given: Mapping[str, Any], inputs: Tensor) -> dict[str, Any]:
        """Settings that hold images or labels of places, in the shape of the images of one row."""
        given = dict(given)
        if "baselines" in given:
            given["baselines"] = self._baselines(given["baselines"], inputs)
        if "reference_images" in given:
            refuse_if(reference_images_problem(given["reference_images"], inputs, 1))
            given["reference_images"] = self.as_images(given["reference_images"])
        for name in {"segmentation", "patches"} & given.keys():
            given[name] = self._labels(name, given[name], len(inputs))
        return given

    def _baselines(self, baselines: Any, inputs: Tensor) -> Any:
        try:
            values = torch.as_tensor(baselines, dtype=inputs.dtype, device=inputs.device)
        except (TypeError, ValueError, RuntimeError):
            return baselines  # `as_baselines` says what is wrong
        if values.ndim == 0 or (values.ndim == 1 and len(self.shape) > 1):
            return values
        several = values.shape[: values.ndim == inputs.ndim]
        try:
            return self.as_images(values.expand(*several, *self.shape)).reshape(
                *several, self.channels, 1, -1
            )
        except RuntimeError as error:
            raise AttributionLabError(
                f"baselines have shape {tuple(values.shape)}: pass a number, or an array that "
                f"broadcasts to {tuple(inputs.shape)}"
            ) from error

    def _labels(self, name: str, labels: Any, images: int) -> Any:
        shape = tuple(getattr(labels, "shape", ()))
        if labels is None or (isinstance(labels, str) and labels in ("pixels", "patches")):
            return labels
        if shape == self.places:
            return labels.reshape(1, -1)
        if shape == (images, *self.places):
            return labels.reshape(images, 1, -1)
        what = f"label maps of shape {shape}" if shape else repr(labels)
        raise AttributionLabError(
            f"{name} is {what}, but the inputs are not images (B, C, H, W): pass 'pixels', which takes "
            f"each value separately, or integers of shape {tuple(self.places)}"
        )


Model = nn.Module | Callable[[Tensor], Any]
"""A network, or any function of images."""
Targets = Tensor | int | Sequence[int] | Literal["predicted"] | Callable[[Any], Tensor]
"""An index for each image, one for all, each image's largest output, or a score of the outputs."""

WRAPPED = ("_orig_mod", "module")
"""Where `torch.compile` and data-parallel modules keep the network that was given to them."""


class Function(nn.Module):
    """A function, or a module that takes no hooks, as a module without any inside."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function: Callable[..., Any]
        vars(self)["function"] = function  # not as a submodule, which would be hooked

    def forward(self, images: Tensor) -> Any:
        return self.function(images)

    def within(self) -> list[tuple[str, nn.Module]]:
        """The modules of a scripted network, or of that of which the function is a method, by name."""
        owner = getattr(self.function, "__self__", self.function)
        return [*owner.named_modules()] if isinstance(owner, nn.Module) else []


def network_of(model: Any) -> Any:
    """The network behind `torch.compile`, a data-parallel module or a function; all else as it is."""
    while isinstance(model, nn.Module) and _is_wrapped(model):
        model = next(vars(model)["_modules"][name] for name in WRAPPED if name in model._modules)
    if isinstance(model, nn.Module):
        scripted = any(isinstance(each, torch.jit.ScriptModule) for each in modules_in(model))
        return Function(model) if scripted else model
    return Function(model) if callable(model) and not isinstance(model, type) else model


def _is_wrapped(module: nn.Module) -> bool:
    if module._forward_hooks or module._forward_pre_hooks:  # which belong to the network, too
        return False
    parallel = (nn.DataParallel, nn.parallel.DistributedDataParallel)
    return "_orig_mod" in module._modules or isinstance(module, parallel)


class Question(NamedTuple):
    """What a method gets: a network of images (B, C, H, W) and rows of outputs, and one index of these
    for each image. Settings that hold images have their shape; `shaped` gives maps that of the inputs.
    """

    model: nn.Module
    inputs: Tensor
    targets: Tensor
    settings: dict[str, Any]
    shaped: Callable[[Tensor], Tensor]


@contextmanager
def posed(
    who: str,
    model: nn.Module,
    inputs: Tensor,
    targets: Any,
    settings: Mapping[str, Any],
    show_progress: bool = False,
) -> Iterator[Question]:
    """A method's question in the form that all methods take, for as long as the method works on it.

    Gradients are on inside and autocast is off; inputs are detached. Refuses targets that are none, and
    later whatever the network returns that is no row of outputs for each image.
    """
    score = targets if callable(targets) else None
    given, layout, answer = dict(settings), AsImages(inputs.shape), _Answer(who, score)
    with ExitStack() as stack:
        stack.enter_context(ONE_AT_A_TIME)
        stack.enter_context(uncompiled(model))
        if torch.is_inference_mode_enabled() or inputs.is_inference():
            # On copies outside of it, because nothing there has a gradient.
            stack.enter_context(torch.inference_mode(False))
            inputs = inputs.clone()
        stack.enter_context(torch.enable_grad())
        inputs = inputs.detach()
        classes = _classes(targets if score is None else 0, inputs)
        for kind in {"cpu", "cuda", inputs.device.type}:
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        if inputs.ndim != 4:
            given = layout.settings(given, inputs)
            inputs = layout.as_images(inputs)
            stack.callback(model.register_forward_pre_hook(layout).remove)
        answer.advance = stack.enter_context(follow(who, unit="images", show=show_progress))
        stack.callback(model.register_forward_hook(answer).remove)
        if classes is None:
            with torch.no_grad():
                passed = over_batches(lambda some: (model(some).argmax(1),), (inputs,), who)
            classes = passed[0].to(inputs.device)
        answer.highest = int(classes.max())
        yield Question(model, inputs, classes, given, layout.as_inputs)


def _classes(targets: Any, inputs: Tensor) -> Tensor | None:
    """Indices of outputs as a tensor; None for those that the network has yet to predict."""
    if isinstance(targets, str) and targets == "predicted":
        return None
    images = len(inputs)
    if isinstance(targets, np.ndarray):
        targets = targets.tolist()
    if isinstance(targets, Tensor) and targets.ndim == 0:
        targets = targets.expand(images)
    if isinstance(targets, Integral) and not isinstance(targets, bool):
        targets = [targets] * images
    if not isinstance(targets, Tensor):
        integers = isinstance(targets, Sequence) and all(
            isinstance(each, Integral) and not isinstance(each, bool) for each in targets
        )
        if not integers or len(targets) != images:
            what = written(targets) if isinstance(targets, Sequence) else shown(targets)
            raise AttributionLabError(
                f"targets are {what}: pass an integer for all images or one for each of the {images}, "
                "'predicted', or a function of the network's output"
            )
        try:
            targets = torch.tensor([int(each) for each in targets])
        except (RuntimeError, ValueError) as error:
            raise AttributionLabError(
                f"a target is {max(targets, key=abs)}, beyond int64: pass indices of outputs"
            ) from error
    lowest = min(checked_targets(targets, images))
    if lowest < 0:
        raise AttributionLabError(
            f"the smallest target is {lowest}: pass indices of the model's outputs, at least 0"
        )
    # A copy, which is none of inference mode.
    classes: Tensor = targets.to(inputs.device, torch.int64, copy=True)
    return classes


class _Answer:
    """A hook behind the network that makes rows (B, K) of what it returns, and counts the images."""

    def __init__(self, who: str, score: Callable[[Any], Tensor] | None) -> None:
        self.who, self.score, self.highest = who, score, 0
        self.asking, self.keeps_rows = False, score is None
        """Whether rows (B, K) stay as they are."""
        self.advance: Callable[..., None] = lambda _: None
        self.thread = get_ident()

    def __deepcopy__(self, _: Any) -> "_Answer":
        return self  # a copy of the network in float64 answers as the network does

    def __call__(self, _: nn.Module, given: tuple[Any, ...], output: Any) -> Any:
        if get_ident() != self.thread or self.asking:
            return output  # to a call of another thread on the same network, or of the score itself
        images = len(given[0]) if given and isinstance(given[0], Tensor) else None
        if images is not None:
            self.advance(images)
        rows = _rows(output) if self.score is None else self._scored(self.score, output)
        if isinstance(rows, str):
            raise AttributionLabError(f"{self.who}: {rows}")
        if images is not None and len(rows) != images:
            what = "the model's output" if self.score is None else "what targets(outputs) returns"
            raise AttributionLabError(
                f"{self.who}: {what} has {len(rows)} rows for {images} images: return one for "
                "each image"
            )
        refuse_if(targets_problem(self.highest, rows), self.who)
        return rows

    def _scored(self, score: Callable[[Any], Tensor], output: Any) -> Tensor | str:
        """A score may ask the network, which then answers as it does outside of the call."""
        self.asking = True
        try:
            return _scores(score(output))
        finally:
            self.asking = False


def answered(model: nn.Module, output: Any) -> Tensor:
    """What `posed` makes of the output of a network whose parts were called one by one."""
    hooks = [hook for hook in model._forward_hooks.values() if isinstance(hook, _Answer)]
    for hook in hooks:
        output = hook(model, (), output)
    rows: Tensor = output
    return rows


def _scores(scores: Any) -> Tensor | str:
    """Scores as rows of one output, or what is wrong with them."""
    if isinstance(scores, Tensor) and scores.ndim == 1 and scores.is_floating_point():
        return scores.unsqueeze(1)
    return (
        f"targets(outputs) returns {shown(scores)}: return one floating-point score for each image, a "
        "tensor (B,)"
    )


def _rows(output: Any) -> Tensor | str:
    """A network's output as rows, or what is wrong with it."""
    rows = outputs_in(output)
    if isinstance(rows, Tensor) and rows.is_floating_point() and rows.ndim in (0, 2):
        return rows.reshape(-1, 1) if rows.ndim == 0 else rows  # of one image, squeezed
    if isinstance(output, Mapping):
        what = f"a {type(output).__name__} of {', '.join(map(repr, output))}"
    else:
        what = shown(rows)
    return (
        f"the model's output is {what}: pass a model that returns floating-point rows (B, K), or as "
        "targets a function of its output, such as targets=lambda outputs: outputs[:, 0].mean((1, 2))"
    )
