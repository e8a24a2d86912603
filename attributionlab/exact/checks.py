"""What a path integral refuses before it asks the model anything."""

import math
from numbers import Integral, Real
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attributionlab.errors import AttributionLabError, refuse_if

__all__ = ["checked_path", "checked_targets", "settings_problems", "shown"]


def settings_problems(tolerance: Any, max_panels: Any, max_evaluations: Any) -> list[str]:
    """What is wrong with the numbers that bound error and effort."""
    problems = []
    if not isinstance(tolerance, Real) or not 0 < float(tolerance) < math.inf:
        problems.append(f"tolerance is {tolerance!r}: take a positive number such as 1e-9")
    problems += [
        f"{name} is {value!r}: take an integer of at least {least}"
        for name, value, least in (
            ("max_panels", max_panels, 1),
            ("max_evaluations", max_evaluations, 15),
        )
        if not isinstance(value, Integral) or isinstance(value, bool) or value < least
    ]
    return problems


def checked_path(
    inputs: Any, baselines: Any
) -> tuple[
    Float[Tensor, "batch channels height width"], Float[Tensor, "batch channels height width"]
]:
    """Where the paths of all images start and end, in float64."""
    if not isinstance(inputs, Tensor) or inputs.ndim != 4 or not inputs.numel():
        raise AttributionLabError(
            f"inputs are {shown(inputs)}: pass a tensor of shape (B, C, H, W), B at least 1"
        )
    if not isinstance(baselines, Tensor):
        raise AttributionLabError(
            f"baselines are {shown(baselines)}: pass a tensor, torch.zeros(1) for black"
        )
    refuse_if(
        [
            f"{name} are {values.dtype}: pass real numbers"
            for name, values in (("inputs", inputs), ("baselines", baselines))
            if values.is_complex() or values.dtype == torch.bool
        ]
    )
    try:
        starts = torch.broadcast_to(baselines, inputs.shape)
    except RuntimeError as error:
        raise AttributionLabError(
            f"baselines have the shape {tuple(baselines.shape)}: pass one that broadcasts to the "
            f"inputs' {tuple(inputs.shape)}, such as (C, 1, 1)"
        ) from error
    path = starts.detach().double().contiguous(), inputs.detach().double().contiguous()
    for name, values in zip(("baselines", "inputs"), path, strict=True):
        if not values.isfinite().all():
            where = tuple(int(i) for i in (~values.isfinite()).nonzero()[0])
            raise AttributionLabError(
                f"{name} have the value {float(values[where])} at {where}: pass finite numbers"
            )
    return path


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
    return [int(target) for target in targets]


def shown(value: Any) -> str:
    """A tensor's dtype and shape, or anything else's type."""
    if isinstance(value, Tensor):
        return f"{value.dtype} of shape {tuple(value.shape)}"
    return f"of type {type(value).__name__}"
