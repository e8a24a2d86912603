"""What to say about settings, tensors and models' outputs that are not what a function takes.

About a setting, `..._problem` returns a list of sentences, empty where nothing is wrong, for
`base.errors.refuse_if`, so that a method refuses everything that is wrong at once. NumPy's
numbers count as numbers; truth values and texts do not, because ``True`` as a count and ``"9"`` are
mistakes. About tensors the other functions raise at once: what comes after them needs their shapes.
"""

import math
import secrets
from collections import Counter
from collections.abc import Sequence
from numbers import Integral
from numbers import Real as Number
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float, Real
from torch import Tensor, nn

from attributionlab.base.errors import AttributionLabError, refuse_if

MOST_IMAGES = 1_000_000
"""The largest number of images that anything here takes: a quarter of an hour at a millisecond each."""

MOST_ROUNDS = 10_000_000
"""The largest number of steps, permutations or epochs for one image, which memory does not bound: three
hours at a millisecond each."""

HIGHEST_SEED = 2**64 - 1
"""That `torch.Generator.manual_seed` takes; negative ones would stand for some of the others."""

FRESH_SEEDS = 2**53
"""Seeds that may be drawn, so many that none is guessed, and every one a number of JSON."""

Replacement = Real[Tensor, "..."] | float | int
"""What perturbed pixels become: a number, or a tensor that broadcasts to the images."""


def drawn_seed(seed: Any) -> tuple[Any, bool]:
    """The seed that was given, or one that is drawn where it is "fresh"; and whether it was drawn."""
    drawn = isinstance(seed, str) and seed == "fresh"  # NumPy's == has a bool of its own
    return (secrets.randbelow(FRESH_SEEDS) if drawn else seed), drawn


def integer_problem(
    name: str, value: object, least: int | None = None, most: int | None = None
) -> list[str]:
    """What is wrong with a setting that must be an integer.

    `name`: name of the setting. `value`: what was passed. `least`, `most`: the range, both ends
    included; without `most` it is open above, without either any integer will do.
    """
    if isinstance(value, Integral) and not isinstance(value, bool):
        number = cast(int, value)
        if (least is None or least <= number) and (most is None or number <= most):
            return []
    above = "" if least is None else f" of at least {least}"
    allowed = above if most is None else f" from {least} to {most}"
    return [f"{name} is {written(value)}: take an integer{allowed}"]


def number_problem(
    name: str,
    value: object,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
    below: float | None = None,
) -> list[str]:
    """What is wrong with a setting that must be a finite number, of which a float can be made.

    - `above`, `below`: the number must be larger, smaller.
    - `least`, `most`: the number must be no smaller, no larger.
    """
    fits = (
        isinstance(value, Number)
        and not isinstance(value, bool)
        and -math.inf < (number := cast(float, value)) < math.inf
        and (above is None or number > above)
        and (least is None or number >= least)
        and (most is None or number <= most)
        and (below is None or number < below)
    )
    if fits:
        try:
            float(cast(float, value))
        except OverflowError:  # Python's integers have no end
            return [f"{name} is beyond the range of float64: take a smaller number"]
        return []
    ends = (("above", above), ("of at least", least), ("of at most", most), ("below", below))
    limits = " and ".join(f"{words} {end:.10g}" for words, end in ends if end is not None)
    wanted = f"number {limits}" if limits else "finite number"
    return [f"{name} is {written(value)}: take a {wanted}"]


def boolean_problem(name: str, value: object) -> list[str]:
    """What is wrong with a setting that must be true or false; texts such as "false" are true."""
    if isinstance(value, bool | np.bool_):
        return []
    return [f"{name} is {written(value)}: take True or False"]


def repeated_problem(what: str, names: Sequence[object]) -> list[str]:
    """What is wrong with a list of different names: a sentence for each that is repeated.

    Examples
    --------
    >>> repeated_problem("metrics", ["f1", "road", "f1"])
    ["metrics name 'f1' twice: name each once"]
    """
    repeated = [name for name, count in Counter(names).items() if count > 1]
    return [f"{what} name {name!r} twice: name each once" for name in repeated]


def generator_problem(value: object) -> list[str]:
    """What is wrong with what random numbers are to be drawn from; a seed is no generator.

    Examples
    --------
    >>> generator_problem(0)
    ['generator is of type int: pass a torch.Generator']
    """
    if isinstance(value, torch.Generator):
        return []
    return [f"generator is {shown(value)}: pass a torch.Generator"]


def reference_images_problem(value: object, inputs: Tensor, least: int) -> list[str]:
    """What is wrong with other images of the kind.

    `value`: what was passed as `reference_images`. `inputs` (B, C, H, W): the images to explain.
    `least`: how many others are needed.

    Examples
    --------
    >>> import torch
    >>> reference_images_problem(0, torch.zeros(1, 3, 8, 8), 2)
    ['reference_images are of type int: pass floating-point ones of shape (n, 3, 8, 8), n at least 2']
    """
    fits = (
        isinstance(value, Tensor)
        and value.is_floating_point()
        and value.ndim == inputs.ndim
        and value.shape[1:] == inputs.shape[1:]
        and len(value) >= least
    )
    if not fits:
        shape = ", ".join(map(str, ("n", *inputs.shape[1:])))
        return [
            f"reference_images are {shown(value)}: pass floating-point ones of shape ({shape}), "
            f"n at least {least}"
        ]
    if not cast(Tensor, value).isfinite().all():
        return ["reference_images hold NaN or infinity: pass finite ones"]
    return []


def plain_problem(subject: str, value: Tensor) -> list[str]:
    """What is wrong with a tensor that does not simply hold numbers; nothing with other types.

    `subject`: how the sentence begins, as "images are". `value`: what was passed.
    """
    if torch._C._functorch.is_functorch_wrapped_tensor(value):
        return [
            f"{subject} inside torch.func.vmap, grad or another of its transforms: call this outside "
            "of them, with the whole batch"
        ]
    if value.is_nested:
        kind = "nested"
    elif value.is_complex():
        kind = str(value.dtype)
    elif value.layout != torch.strided:
        kind = str(value.layout)
    elif value.is_meta:
        kind = "on meta"
    else:
        return []
    return [f"{subject} {kind}: pass a dense tensor of real numbers, with its values in memory"]


def has_gradient(model: nn.Module, images: Tensor) -> bool:
    """Whether a gradient of a model's outputs arrives at images, or cannot be asked for."""
    try:
        with torch.enable_grad():
            leaf = images.detach().clone().requires_grad_()
            total = model(leaf).sum()
            if not total.requires_grad:
                return False
            return torch.autograd.grad(total, leaf, allow_unused=True)[0] is not None
    except (Exception, SystemExit):  # a stranger's code may fail in any way
        return True


def shown(value: object) -> str:
    """A tensor's dtype and shape, or anything else's type."""
    if isinstance(value, Tensor):
        return f"{value.dtype} of shape {tuple(value.shape)}"
    return f"of type {type(value).__name__}"


def written(value: object) -> str:
    """A value as Python writes it where that is a line, and otherwise what `shown` says of it."""
    try:
        text = repr(value)
    except Exception:  # a stranger's object, or an integer of more digits than Python writes
        return shown(value)
    return shown(value) if "\n" in text or isinstance(value, Tensor) else text


def checked_images(
    images: Any, name: str = "images"
) -> Real[Tensor, "batch channels height width"]:
    """Images, if they are a batch that is not empty; `name` is the parameter's, in the plural."""
    if not isinstance(images, Tensor) or images.ndim != 4 or not images.numel():
        raise AttributionLabError(
            f"{name} are {shown(images)}: pass a tensor of shape (B, C, H, W), B at least 1"
        )
    return images


def broadcast_to_images(
    values: Tensor, images: Tensor, *, name: str, images_name: str = "images"
) -> Tensor:
    """Values in the shape of images, without a copy; the names are the parameters'."""
    try:
        return torch.broadcast_to(values, images.shape)
    except RuntimeError as error:
        raise AttributionLabError(
            f"the shape of the {name} is {tuple(values.shape)}: pass one that broadcasts to the "
            f"{images_name}' {tuple(images.shape)}, such as (C, 1, 1)"
        ) from error


def broadcast_replacement(
    replacement: Any, images: Any
) -> Real[Tensor, "batch channels height width"]:
    """What takes the place of images' pixels, in the shape of the images and without a copy.

    `replacement`: a number, which becomes float64 on the images' device, or a tensor that broadcasts.
    `images` (B, C, H, W): whose pixels are replaced.

    Raises AttributionLabError for anything else.
    """
    checked_images(images)
    if isinstance(replacement, Number) and not isinstance(replacement, bool):
        try:
            number = float(replacement)
        except OverflowError as error:
            raise AttributionLabError(
                "the replacement is a number beyond the range of float64: pass one that fits the images"
            ) from error
        replacement = torch.tensor(number, dtype=torch.float64, device=images.device)
    if not isinstance(replacement, Tensor):
        raise AttributionLabError(
            f"the replacement is {shown(replacement)}: pass a number or a tensor, 0 for black"
        )
    return broadcast_to_images(replacement, images, name="replacement")


def checked_targets(targets: Any, n: int) -> list[int]:
    """One class index for each image; the model knows which ones there are."""
    if (
        not isinstance(targets, Tensor)
        or targets.shape != (n,)
        or targets.is_floating_point()
        or targets.is_complex()
        or targets.dtype == torch.bool
    ):
        raise AttributionLabError(
            f"targets are {shown(targets)}: pass a tensor of one integer for each of the {n} images"
        )
    refuse_if(plain_problem("targets are", targets))
    classes: list[int] = targets.tolist()
    return classes


def checked_outputs(outputs: Any, n: int) -> Float[Tensor, "batch outputs"]:
    """What a model returned, if it is a row of real outputs for each of n images."""
    if not isinstance(outputs, Tensor) or outputs.ndim != 2 or len(outputs) != n:
        what = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise AttributionLabError(
            f"the model's output is {what} for {n} images: pass one that returns a tensor of shape "
            "(B, K), one row for each image"
        )
    if outputs.is_complex():
        raise AttributionLabError(
            f"the model's output is {outputs.dtype}: pass one that returns real numbers, .abs() for "
            "example"
        )
    return outputs
