"""Attribution methods by name, and the adapter for everybody else's."""

from collections.abc import Callable
from typing import Any

from attributionlab.methods.adapter import Call, Method, as_method
from attributionlab.methods.gradients import (
    input_x_gradient,
    integrated_gradients,
    integrated_gradients_true_baseline,
    saliency,
)
from attributionlab.methods.guard import restored
from attributionlab.methods.maps import as_maps
from attributionlab.methods.run import attribute

__all__ = [
    "METHODS",
    "Call",
    "Method",
    "as_maps",
    "as_method",
    "attribute",
    "input_x_gradient",
    "integrated_gradients",
    "integrated_gradients_true_baseline",
    "restored",
    "saliency",
]

METHODS: dict[str, Callable[..., Any]] = {
    "input-x-gradient": input_x_gradient,
    "integrated-gradients": integrated_gradients,
    "integrated-gradients-true-baseline": integrated_gradients_true_baseline,
    "saliency": saliency,
}
"""The built-in methods by name."""
