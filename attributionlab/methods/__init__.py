"""Attribution methods by name, and the adapter for everybody else's."""

from collections.abc import Callable
from typing import Any

from attributionlab.methods.adapter import Call, Method, as_method
from attributionlab.methods.baselines import as_baselines
from attributionlab.methods.batching import images_at_once, in_smaller_batches
from attributionlab.methods.declaration import declares
from attributionlab.methods.findings import Finding, heard, summarized, tell
from attributionlab.methods.gradients import input_x_gradient, saliency
from attributionlab.methods.maps import as_maps
from attributionlab.methods.paths import (
    integrated_gradients,
    integrated_gradients_true_baseline,
)
from attributionlab.methods.presets import PRESETS, Preset, preset_of
from attributionlab.methods.restoration import restored
from attributionlab.methods.run import attribute

__all__ = [
    "METHODS",
    "PRESETS",
    "Call",
    "Finding",
    "Method",
    "Preset",
    "as_baselines",
    "as_maps",
    "as_method",
    "attribute",
    "declares",
    "heard",
    "images_at_once",
    "in_smaller_batches",
    "input_x_gradient",
    "integrated_gradients",
    "integrated_gradients_true_baseline",
    "preset_of",
    "restored",
    "saliency",
    "summarized",
    "tell",
]

METHODS: dict[str, Callable[..., Any]] = {
    "input-x-gradient": input_x_gradient,
    "integrated-gradients": integrated_gradients,
    "integrated-gradients-true-baseline": integrated_gradients_true_baseline,
    "saliency": saliency,
}
"""The built-in methods by name."""
