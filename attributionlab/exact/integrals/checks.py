"""What a path integral refuses before it asks the model anything."""

import math
from numbers import Integral, Real
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from attributionlab.errors import AttributionLabError, refuse_if
from attributionlab.validation import broadcast_to_images, checked_images, shown

__all__ = ["checked_path", "settings_problems"]


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
    checked_images(inputs, "inputs")
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
    starts = broadcast_to_images(baselines, inputs, name="baselines", images_name="inputs")
    path = starts.detach().double().contiguous(), inputs.detach().double().contiguous()
    for name, values in zip(("baselines", "inputs"), path, strict=True):
        if not values.isfinite().all():
            where = tuple(int(i) for i in (~values.isfinite()).nonzero()[0])
            raise AttributionLabError(
                f"{name} have the value {float(values[where])} at {where}: pass finite numbers"
            )
    return path
