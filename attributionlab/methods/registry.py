"""The built-in methods by name, and the settings that papers state for them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from attributionlab.base import AttributionLabError, nearest
from attributionlab.methods import (
    ablation,
    attention,
    attention_aware,
    bottleneck,
    cam,
    cam_passes,
    derivation,
    excitation,
    extremal,
    gradients,
    input_bottleneck,
    paths,
    random_masks,
    relevance,
    shapley,
    surrogate,
)
from attributionlab.methods.declaration import kebab
from attributionlab.methods.derivation import DERIVATIONS
from attributionlab.methods.suffixes import base_and_suffix

METHODS: dict[str, Callable[..., Any]] = {
    kebab(method): method
    for method in (
        cam_passes.ablationcam,
        attention.attention_rollout,
        attention_aware.attnlrp,
        attention.chefer_lrp,
        gradients.deconvolution,
        relevance.deep_lift,
        relevance.deep_lift_true_baseline,
        relevance.deep_shap,
        relevance.deep_shap_true_baseline,
        excitation.excitation_backprop,
        extremal.extremal_perturbation,
        ablation.feature_ablation,
        ablation.feature_ablation_true_baseline,
        cam.gradcam,
        cam.gradcam_plus_plus,
        gradients.gradient_norm,
        paths.gradient_shap,
        gradients.guided_backprop,
        cam.guided_gradcam,
        cam.hirescam,
        bottleneck.iba,
        input_bottleneck.input_iba,
        gradients.input_x_gradient,
        derivation.input_x_gradient_absolute,
        derivation.input_x_gradient_smoothgrad,
        derivation.input_x_gradient_smoothgrad_absolute,
        paths.integrated_gradients,
        derivation.integrated_gradients_absolute,
        paths.integrated_gradients_blurred,
        paths.integrated_gradients_exact,
        paths.integrated_gradients_exact_true_baseline,
        paths.integrated_gradients_random,
        derivation.integrated_gradients_smoothgrad,
        derivation.integrated_gradients_smoothgrad_absolute,
        derivation.integrated_gradients_smoothgrad_squared,
        paths.integrated_gradients_true_baseline,
        paths.integrated_gradients_uniform,
        derivation.integrated_gradients_uniform_absolute,
        derivation.integrated_gradients_vargrad,
        shapley.kernel_shap,
        shapley.kernel_shap_true_baseline,
        cam.layercam,
        surrogate.lime,
        surrogate.lime_true_baseline,
        cam.linear_approximation,
        relevance.lrp,
        ablation.occlusion,
        ablation.occlusion_true_baseline,
        random_masks.rise,
        random_masks.rise_uniform,
        gradients.saliency,
        derivation.saliency_absolute,
        derivation.saliency_smoothgrad,
        cam_passes.scorecam,
        shapley.shapley_value_sampling,
        shapley.shapley_value_sampling_true_baseline,
        cam.smooth_gradcam_plus_plus,
        cam.xgradcam,
    )
}
"""Others follow from these by suffixes (`derived`)."""


@dataclass(frozen=True)
class Preset:
    """How a paper runs a method.

    `settings`: the method's settings. `output`, `truth_output`: which output is explained, and that of
    the truth, if they differ.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    output: str | None = None
    truth_output: str | None = None


def _before_the_softmax(**settings: Any) -> Preset:
    """Explained in front of the softmax, and held against the truth behind it like all others."""
    return Preset(settings, output="logit", truth_output="probability")


_SAMPLES = {"baselines": 0.0, "n_samples": 20, "noise": 0.124}
_F2 = {
    "deep-shap": Preset({"baselines": 0.0}),
    "extremal-perturbation": Preset({"area": 0.1}),
    "iba": Preset({"beta": 20.0}),
    "input-iba": Preset({"beta": 20.0}),
    "integrated-gradients": Preset({"baselines": 0.0}),
    "integrated-gradients-smoothgrad": Preset(_SAMPLES),
    "integrated-gradients-smoothgrad-squared": Preset(_SAMPLES),
    "integrated-gradients-vargrad": Preset(_SAMPLES),
    "occlusion": Preset({"window": 5, "stride": 3, "baselines": 0.0}),
}
_G2 = {
    **_F2,
    "extremal-perturbation": _before_the_softmax(area=0.1),
    "iba": _before_the_softmax(beta=20.0),
    "input-iba": _before_the_softmax(beta=20.0),
    "lime": Preset({"segmentation": "quickshift"}),
    "occlusion": _before_the_softmax(window=5, stride=3, baselines=0.0),
    "occlusion-true-baseline": _before_the_softmax(window=5, stride=3),
}
PRESETS: Mapping[str, Mapping[str, Mapping[str, Preset]]] = {
    "paper": {"regression": _F2, "classification": _G2}
}
"""By name and task: AttributionLab, F.2 (single-color-modulo) and G.2 (multi-color-sum). Layers are the
environment's (`env.layers`), which F.2 and G.2 state too. Only Occlusion is said to be explained in
front of the softmax; IBA and extremal perturbation are by our choice, and InputIBA, which the paper
does not test, is set up like IBA. What else the paper leaves open
(the number of samples of LIME, say) keeps the method's own default; the sigma of 21 of extremal
perturbation's mask is that default, and scales with the image.

The ensembles are those of Li et al. (2024), G.4: 20 samples with noise N(0, 0.3 I), a black baseline.
On what scale is not said. Ours: that of VGG16's inputs, which are divided by a standard deviation of
0.226 of the value range (mean over channels), so that the noise has sqrt(0.3) x 0.226 = 0.124 of it,
which is within what Smilkov et al. (2017) recommend."""


def preset_of(name: str | None, task: str, method: str) -> Preset:
    """A preset's settings for a method; empty without a preset, or if it has none for the method.

    Methods with a suffix (`derived`) get the settings of the method without it, except those of the
    suffix itself: ``occlusion-absolute`` is set up like ``occlusion``.

    Parameters
    ----------
    name : str, optional
        Name of the preset; None for none.
    task : {"classification", "regression"}
        Task of the environment.
    method : str
        The method's name.
    """
    if name is None:
        return Preset()
    if not isinstance(name, str) or name not in PRESETS:
        raise AttributionLabError(f"preset is {name!r}: {nearest(name, PRESETS)}")
    stated = PRESETS[name][task].get(method)
    if stated is not None:
        return stated
    split = base_and_suffix(method)
    if split is None:
        return Preset()
    of_base, own = preset_of(name, task, split[0]), DERIVATIONS[split[1]].own
    kept = {key: value for key, value in of_base.settings.items() if key not in own}
    return replace(of_base, settings=kept)
