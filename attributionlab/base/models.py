"""A user's network: whether it can be asked, and what it says about images."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from jaxtyping import Float, Real
from torch import Tensor, nn

from attributionlab.base.errors import AttributionLabError
from attributionlab.base.validation import checked_outputs, shown


def modules_in(model: nn.Module) -> list[nn.Module]:
    """Those of `nn.Module.modules`, in its order. Its nested generators take five times as long, and a
    call looks through a network several times.
    """
    found = {model: None}

    def walk(module: nn.Module) -> None:
        for inner in module._modules.values():
            if inner is not None and inner not in found:
                found[inner] = None
                if inner._modules:
                    walk(inner)

    walk(model)
    return [*found]


def weights_in(modules: Iterable[nn.Module]) -> list[Tensor]:
    """The parameters of modules; one that several share, several times."""
    return [each for one in modules for each in one._parameters.values() if each is not None]


def model_problems(model: Any, named: Iterable[tuple[str, nn.Module]] | None = None) -> list[str]:
    """Why nothing that is said about a model would hold, or asking it would change it; `named` are the
    modules of one that hides them.
    """
    if not isinstance(model, nn.Module):
        name = type(model).__name__
        return [f"the model is of type {name}: pass an nn.Module (B, C, H, W) -> (B, K)"]
    modules = modules_in(model)
    if any(weights.is_inference() for weights in weights_in(modules)):
        return [
            "the model was made in torch.inference_mode: make it outside, or nothing has a gradient"
        ]
    if named is None and not any(module.training for module in modules):
        return []  # without a walk for the names
    return [
        f"the model is in training mode ({_kind(module)} {name!r}): call model.eval()"
        for name, module in (model.named_modules() if named is None else named)
        if module.training and _is_another_in_training(module)
    ][:1]


def _kind(module: nn.Module) -> str:
    """The name of its class, which scripting hides."""
    return str(getattr(module, "original_name", type(module).__name__))


def _is_another_in_training(module: nn.Module) -> bool:
    """Whether it draws, takes an image's statistics from those beside it, or changes itself."""
    match module:
        case nn.modules.dropout._DropoutNd():
            return module.p > 0
        case nn.MultiheadAttention() | nn.RNNBase():
            return module.dropout > 0
        case torch.jit.ScriptModule():
            return any(part in _kind(module) for part in ("Dropout", "BatchNorm", "RReLU"))
        case nn.modules.instancenorm._InstanceNorm():
            return module.track_running_stats
        case nn.modules.batchnorm._BatchNorm() | nn.RReLU():
            return True
        case _:
            return _asks_for_its_mode(type(module))


def _asks_for_its_mode(kind: type[nn.Module]) -> bool:
    """Whether somebody's layer reads `self.training`, as one with `F.dropout` does."""
    own = [each for each in kind.__mro__ if not each.__module__.startswith("torch.")]
    functions = [function for each in own for function in vars(each).values()]
    codes = [getattr(function, "__code__", None) for function in functions]
    return any("training" in code.co_names for code in codes if code)


def asked(model: nn.Module, images: Real[Tensor, "batch ..."]) -> Float[Tensor, "batch outputs"]:
    """A row of outputs for each image.

    The model is shown a copy: a layer that works in place would change the images of the caller, and
    of the next question.
    """
    try:
        returned = model(images.clone())
    except RuntimeError as error:
        if "memory" in str(error):
            raise
        cause = (str(error).strip().splitlines() or ["it does not say why"])[0]
        raise AttributionLabError(
            f"{type(model).__name__} fails on images that are {shown(images)} ({cause}): pass images "
            "of the shape and type that it takes, on its device"
        ) from error
    return checked_outputs(outputs_in(returned), len(images))


def outputs_in(returned: Any) -> Any:
    """The outputs in what a model returned, a number for each image as a row of one.

    They are the logits of outputs that go by name, or their only tensor; the first tensor of a
    sequence. What has none is returned as it is, for the caller to refuse.
    """
    found = _tensor_in(returned)
    if found is None:
        return returned
    return found[:, None] if found.ndim == 1 else found


def _tensor_in(returned: Any) -> Tensor | None:
    if isinstance(returned, Tensor):
        return returned
    logits = getattr(returned, "logits", None)
    if isinstance(returned, tuple | list):
        tensors = [each for each in returned if isinstance(each, Tensor)]
        return logits if isinstance(logits, Tensor) else next(iter(tensors), None)
    if isinstance(returned, Mapping):
        logits = returned.get("logits", logits)
        tensors = [each for each in returned.values() if isinstance(each, Tensor)]
        logits = tensors[0] if logits is None and len(tensors) == 1 else logits
    return logits if isinstance(logits, Tensor) else None
