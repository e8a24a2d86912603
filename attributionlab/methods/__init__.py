"""Attribution methods by name, and the adapter for everybody else's."""

from collections.abc import Callable
from typing import Any

from attributionlab.methods.adapter import Call, Method, as_method
from attributionlab.methods.baselines import as_baselines
from attributionlab.methods.batching import images_at_once, in_smaller_batches
from attributionlab.methods.bottleneck import iba
from attributionlab.methods.cam import gradcam, guided_gradcam, linear_approximation
from attributionlab.methods.declaration import declares
from attributionlab.methods.ensembles import (
    integrated_gradients_smoothgrad,
    integrated_gradients_smoothgrad_squared,
    integrated_gradients_vargrad,
    smoothgrad,
    smoothgrad_squared,
    vargrad,
)
from attributionlab.methods.excitation import excitation_backprop
from attributionlab.methods.extremal import extremal_perturbation
from attributionlab.methods.findings import Finding, heard, summarized, tell
from attributionlab.methods.gradients import (
    deconvolution,
    guided_backprop,
    input_x_gradient,
    saliency,
)
from attributionlab.methods.layers import observe
from attributionlab.methods.maps import as_maps
from attributionlab.methods.paths import (
    integrated_gradients,
    integrated_gradients_exact,
    integrated_gradients_exact_true_baseline,
    integrated_gradients_true_baseline,
)
from attributionlab.methods.perturbation import occlusion, occlusion_true_baseline
from attributionlab.methods.presets import PRESETS, Preset, preset_of
from attributionlab.methods.relevance import (
    deep_lift,
    deep_lift_true_baseline,
    deep_shap,
    deep_shap_true_baseline,
    lrp,
)
from attributionlab.methods.restoration import restored
from attributionlab.methods.run import Attributed, attribute
from attributionlab.methods.surrogate import lime, lime_true_baseline

__all__ = [
    "METHODS",
    "PRESETS",
    "Attributed",
    "Call",
    "Finding",
    "Method",
    "Preset",
    "as_baselines",
    "as_maps",
    "as_method",
    "attribute",
    "declares",
    "deconvolution",
    "deep_lift",
    "deep_lift_true_baseline",
    "deep_shap",
    "deep_shap_true_baseline",
    "excitation_backprop",
    "extremal_perturbation",
    "gradcam",
    "guided_backprop",
    "guided_gradcam",
    "heard",
    "iba",
    "images_at_once",
    "in_smaller_batches",
    "input_x_gradient",
    "integrated_gradients",
    "integrated_gradients_exact",
    "integrated_gradients_exact_true_baseline",
    "integrated_gradients_smoothgrad",
    "integrated_gradients_smoothgrad_squared",
    "integrated_gradients_true_baseline",
    "integrated_gradients_vargrad",
    "lime",
    "lime_true_baseline",
    "linear_approximation",
    "lrp",
    "observe",
    "occlusion",
    "occlusion_true_baseline",
    "preset_of",
    "restored",
    "saliency",
    "smoothgrad",
    "smoothgrad_squared",
    "summarized",
    "tell",
    "vargrad",
]

METHODS: dict[str, Callable[..., Any]] = {
    "deconvolution": deconvolution,
    "deep-lift": deep_lift,
    "deep-lift-true-baseline": deep_lift_true_baseline,
    "deep-shap": deep_shap,
    "deep-shap-true-baseline": deep_shap_true_baseline,
    "excitation-backprop": excitation_backprop,
    "extremal-perturbation": extremal_perturbation,
    "gradcam": gradcam,
    "guided-backprop": guided_backprop,
    "guided-gradcam": guided_gradcam,
    "iba": iba,
    "input-x-gradient": input_x_gradient,
    "integrated-gradients": integrated_gradients,
    "integrated-gradients-exact": integrated_gradients_exact,
    "integrated-gradients-exact-true-baseline": integrated_gradients_exact_true_baseline,
    "integrated-gradients-smoothgrad": integrated_gradients_smoothgrad,
    "integrated-gradients-smoothgrad-squared": integrated_gradients_smoothgrad_squared,
    "integrated-gradients-true-baseline": integrated_gradients_true_baseline,
    "integrated-gradients-vargrad": integrated_gradients_vargrad,
    "lime": lime,
    "lime-true-baseline": lime_true_baseline,
    "linear-approximation": linear_approximation,
    "lrp": lrp,
    "occlusion": occlusion,
    "occlusion-true-baseline": occlusion_true_baseline,
    "saliency": saliency,
}
"""The built-in methods by name."""
