"""Which methods are right on which networks: every cell of the matrix, judged.

A cell is *right* where the map of a network equals that of its counterpart (`small_networks`) and obeys
the laws of the method; *warned* where a warning is issued that a plain network does not give; *refused*
where an `AttributionLabError` says in one line why there is no map. All else is *wrong*.
"""

import inspect
import re
import warnings
from functools import cache

import torch

from attributionlab.base import AttributionLabError, AttributionLabWarning
from attributionlab.methods import METHODS
from methods.test_every_method import OF_TRANSFORMERS, few
from small_networks import KINDS

RIGHT, WARNED, REFUSED, WRONG = "right", "warned", "refused", "wrong"
TARGETS = torch.tensor([2, 0])
BOTH = slice(0, 2)
# Windows and cells for pictures of 4 x 6 pixels.
SMALL = {
    "occlusion": {"window": 2, "stride": 1},
    "rise": {"cells": 2},
    "lime": {"cells": 2},
    "kernel-shap": {"cells": 2},
    "integrated-gradients-exact": {"max_evaluations": 60},
    "input-iba": {"samples": 2, "batch": 2, "feature_steps": 1},
}
# Whose maps sum to f(x) - f(b), or f(x); quadratures and means of gradients do in the limit only.
SUMS = ("deep-", "kernel-shap", "shapley-value-sampling", "lrp")
# What warnings of few samples and steps say, and of features of both signs: of these settings here, and
# not of the kind of network.
OF_SETTINGS = re.compile(
    "larger n_|n_steps|max_evaluations|draw of the masks|identical gradients|reference images|"
    "not negative"
)


# What torch says of a hook of the user's on a module that excitation backprop hands constants to.
OF_USERS_HOOKS = "Full backward hook is firing"


def drawn_batch(shape, seed, images=2):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(images, *shape, generator=generator, dtype=torch.float64)


def takes(name, setting):
    return setting in inspect.signature(METHODS[name]).parameters


def baselines_of(name, kind, shape):
    """Those of the images, or several for all of them; for what is no picture, one number."""
    if name.endswith("-true-baseline") or len(kind.shape) < 3:
        return torch.full((2, *shape), 0.25, dtype=torch.float64)
    return drawn_batch(shape, seed=2)


def called(name, kind, network, layer, inputs, which=BOTH):
    """A method's maps of some of the inputs, and the warnings it issues, numbers aside."""
    method, shape, dtype = METHODS[name], inputs.shape[1:], inputs.dtype
    of_all = getattr(method, "distribution", False)
    starts = baselines_of(name, kind, shape).to(dtype)[BOTH if of_all else which]
    given = {
        "baseline": torch.full((shape[0], *[1] * (len(shape) - 1)), 0.25).to(dtype),
        "baselines": starts if len(kind.shape) == 3 else 0.25,
        "layer": layer,
        "relu": False,  # a map of class activations that is negative everywhere would be 0
        "highest": 1.0,
        "reference_images": drawn_batch(shape, seed=1, images=8).to(dtype),
        "generator": torch.Generator().manual_seed(0),
    }
    settings = {key: value for key, value in given.items() if takes(name, key)} | few(name)
    for family, of_family in SMALL.items():
        settings |= of_family if name.startswith(family) else {}
    if "max_evaluations" in settings and len(kind.shape) == 1:
        settings["max_evaluations"] = 2000  # a table is no chain of layers to follow kink by kink
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        maps = method(network, inputs[which], TARGETS[which], **settings)
    said = {re.sub(r"[0-9]+", "N", str(each.message)): each.category for each in found}
    return maps, {text: each for text, each in said.items() if not OF_SETTINGS.search(text)}


def prepared(name, make):
    """A network; for LRP without biases, which absorb relevance as it is defined."""
    network = make()
    if name in ("lrp", "attnlrp"):
        for key, value in network.state_dict().items():
            if key.endswith(("bias", "running_mean")):
                value.zero_()
    return network


@cache
def of_counterpart(name, counterpart, layer, shape):
    """The maps and, for each image, the sum that they should have, if any.

    `shape` is that of the kind, whose counterpart may take the same as pictures.
    """
    kind = next(each for each in KINDS.values() if each.counterpart is counterpart)
    network, inputs = prepared(name, counterpart), drawn_batch(shape, seed=0)
    maps, _ = called(name, kind, network, layer, inputs.clone())
    if not name.startswith(SUMS):
        return maps, None
    starts = baselines_of(name, kind, shape)
    if name == "lrp":
        starts.zero_()
    with torch.no_grad():
        output, before = network(inputs), network(starts)
    if getattr(METHODS[name], "distribution", False):
        before = before.mean(0, keepdim=True).expand_as(before)
    if name == "lrp" and before.any():  # a network that adds other constants than biases
        return maps, None
    return maps, (output - before)[[0, 1], TARGETS]


@cache
def usual_warnings(name):
    """What a plain network is warned of, such as biases and maps that cancel."""
    kind = KINDS["ViT, first" if name in OF_TRANSFORMERS else "plain"]
    images = drawn_batch(kind.shape, seed=0)
    return called(name, kind, kind.counterpart(), kind.layer, images)[1].keys()


def judged(name, kind):
    """The verdict of a cell, and why."""
    network, inputs = prepared(name, kind.network), drawn_batch(kind.shape, seed=0).to(kind.dtype)
    state, before = state_of(network), inputs.clone()
    try:
        maps, said = called(name, kind, network, kind.layer, inputs)
        refusal = None
    except AttributionLabError as error:
        refusal = str(error)
    except Exception as error:
        return WRONG, f"{type(error).__name__}: {error}".splitlines()[0]
    if not torch.equal(inputs, before):
        return WRONG, "the caller's images are changed"
    if any(not torch.equal(value, state[key]) for key, value in state_of(network).items()):
        return WRONG, "the network is changed"
    if refusal is not None:
        return (WRONG if "\n" in refusal else REFUSED), refusal
    if foreign := [
        text
        for text, kind_ in said.items()
        if not issubclass(kind_, AttributionLabWarning) and OF_USERS_HOOKS not in text
    ]:
        return WRONG, f"a warning that is not ours: {foreign[0]}"
    if new := [text for text in said if text not in usual_warnings(name)]:
        return WARNED, new[0]
    problem = fault(name, kind, network, maps, inputs)
    return (WRONG, problem) if problem else (RIGHT, "")


def state_of(network):
    """Weights and what else a method must leave as it was."""
    modules = list(network.modules())
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return {
        **{key: value.clone() for key, value in network.state_dict().items()},
        "training": torch.tensor([each.training for each in modules]),
        "hooks": torch.tensor([len(getattr(each, key)) for each in modules for key in hooks]),
        "attributes": torch.tensor([len(vars(each)) for each in modules]),
        "gradients": torch.tensor([each.grad is not None for each in network.parameters()]),
        "require": torch.tensor([each.requires_grad for each in network.parameters()]),
    }


def fault(name, kind, network, maps, inputs):
    """What is wrong with maps that nothing warns of, if anything is."""
    if kind.counterpart is None:
        return "no map of it is right"
    shape, layer = kind.pictures or kind.shape, kind.layer
    try:
        right, total = of_counterpart(name, kind.counterpart, layer, shape)
    except AttributionLabError as error:
        return f"the counterpart is refused: {error}"
    if maps.numel() != right.numel():
        return f"the shape is {tuple(maps.shape)}, the counterpart's {tuple(right.shape)}"
    right = right.reshape(maps.shape).double()
    size = float(right.abs().max())
    if not 0 < size < torch.inf:
        return f"the largest value of the counterpart's map is {size}"
    if off := beyond(kind.share, maps - right, size):
        return f"differs from the counterpart's map by {off}"
    if total is not None and (off := beyond(kind.share, maps.flatten(1).sum(1) - total, size)):
        return f"misses the sum by {off}"
    for i in range(1 if takes(name, "generator") else 2):
        alone, _ = called(name, kind, network, kind.layer, inputs, slice(i, i + 1))
        if off := beyond(kind.share, alone[0] - maps[i], size):
            return f"an image's map alone and in a batch differ by {off}"
    return None


def beyond(share, errors, size):
    """How large errors are beside the largest value of a map, if that is more than rounding."""
    worst = float(errors.abs().max()) / size
    return None if worst <= share else f"{worst:.1e} of the largest value"


TABLES = {
    "written": (
        *("plain", "functional", "reused", "in place", "sum", "preactivated", "normalizing"),
        *(
            "frozen",
            "hooked",
            "tuple",
            "dict",
            "DataParallel",
            "compile()",
            "torch.compile",
            "traced",
        ),
    ),
    "architecture": (
        *("ResNet", "VGG", "BatchNorm", "GroupNorm", "LeakyReLU", "ReLU6", "GELU", "SiLU", "SE"),
        *("product", "depthwise", "ViT, first", "ViT, last", "ViT, none", "Swin"),
    ),
    "inputs": (
        *("float32", "float16", "bfloat16", "channels-last", "embeddings", "signals", "table"),
        *("batch", "dropout"),
    ),
}
"""The kinds of each table of the page: how networks are written, made of what, and what they take."""

SYMBOLS = {RIGHT: "✓", WARNED: "!", REFUSED: "—", WRONG: "✗"}
