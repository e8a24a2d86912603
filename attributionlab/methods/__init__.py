"""Attribution methods by name, and the adapter for everybody else's.

Where they are, family by family; what a family shares stands behind the colon:

- gradients and relevance: `gradients`, `relevance` (DeepLift, DeepSHAP, LRP), `excitation`: `winners`
- paths: `paths` (integrated gradients), `sampled_paths`, `expected_gradients` (GradientSHAP):
  `baselines`, `sampling_noise`
- superpixels and pixels removed: `perturbation` (occlusion), `ablation`, `surrogate` (LIME),
  `shapley_regression` (KernelSHAP), `shapley_sampling`: `coalitions`
- masks: `random_masks` (RISE), `extremal`: `masking`
- a layer's maps: `cam`, `cam_variants`: `layers`, `layout` (where channels lie)
- information bottlenecks: `bottleneck` (IBA), `input_bottleneck` (InputIBA): `information`,
  `adversarial`
- transformers: `attention` (rollout, Chefer's LRP): `attention_matrices`, `attention_parts`,
  `transformer_relevance`, `tokens`
- made of any method: `ensembles`, `derivation` (suffixes of names): `wrapping`

`entry` is what each asks before it begins, `guards` and `findings` what is said of its result;
`adapter`, `calling` and `run` call methods in a test, `presets` has the papers' settings,
`captum_guards` are the guards of Captum's own classes. Small ones: `batching` (memory), `declaration`
(what a method claims), `maps` (what may come back), `outputs` (the one explained), `restoration` (of
the model).
"""

from collections.abc import Callable
from typing import Any

from attributionlab.methods.ablation import feature_ablation, feature_ablation_true_baseline
from attributionlab.methods.adapter import Call, Method, as_method
from attributionlab.methods.attention import attention_rollout, chefer_lrp
from attributionlab.methods.baselines import as_baselines
from attributionlab.methods.batching import images_at_once, in_smaller_batches
from attributionlab.methods.bottleneck import iba
from attributionlab.methods.cam import gradcam, guided_gradcam, linear_approximation
from attributionlab.methods.cam_variants import (
    gradcam_plus_plus,
    layercam,
    smooth_gradcam_plus_plus,
    xgradcam,
)
from attributionlab.methods.declaration import AttributionMethod, declares
from attributionlab.methods.derivation import (
    DERIVATIONS,
    absolute,
    derived,
    input_x_gradient_absolute,
    input_x_gradient_smoothgrad,
    input_x_gradient_smoothgrad_absolute,
    integrated_gradients_absolute,
    integrated_gradients_smoothgrad,
    integrated_gradients_smoothgrad_absolute,
    integrated_gradients_smoothgrad_squared,
    integrated_gradients_uniform_absolute,
    integrated_gradients_vargrad,
    saliency_absolute,
    saliency_smoothgrad,
)
from attributionlab.methods.ensembles import smoothgrad, smoothgrad_squared, vargrad
from attributionlab.methods.excitation import excitation_backprop
from attributionlab.methods.expected_gradients import gradient_shap
from attributionlab.methods.extremal import extremal_perturbation
from attributionlab.methods.findings import Finding, heard, summarized, tell
from attributionlab.methods.gradients import (
    deconvolution,
    guided_backprop,
    input_x_gradient,
    saliency,
)
from attributionlab.methods.input_bottleneck import input_iba
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
from attributionlab.methods.random_masks import rise, rise_uniform
from attributionlab.methods.relevance import (
    deep_lift,
    deep_lift_true_baseline,
    deep_shap,
    deep_shap_true_baseline,
    lrp,
)
from attributionlab.methods.restoration import restored
from attributionlab.methods.run import Attributed, attribute
from attributionlab.methods.sampled_paths import (
    integrated_gradients_blurred,
    integrated_gradients_random,
    integrated_gradients_uniform,
)
from attributionlab.methods.shapley_regression import kernel_shap, kernel_shap_true_baseline
from attributionlab.methods.shapley_sampling import (
    shapley_value_sampling,
    shapley_value_sampling_true_baseline,
)
from attributionlab.methods.surrogate import lime, lime_true_baseline

__all__ = [
    "DERIVATIONS",
    "METHODS",
    "PRESETS",
    "Attributed",
    "AttributionMethod",
    "Call",
    "Finding",
    "Method",
    "Preset",
    "absolute",
    "as_baselines",
    "as_maps",
    "as_method",
    "attention_rollout",
    "attribute",
    "chefer_lrp",
    "declares",
    "deconvolution",
    "deep_lift",
    "deep_lift_true_baseline",
    "deep_shap",
    "deep_shap_true_baseline",
    "derived",
    "excitation_backprop",
    "extremal_perturbation",
    "feature_ablation",
    "feature_ablation_true_baseline",
    "gradcam",
    "gradcam_plus_plus",
    "gradient_shap",
    "guided_backprop",
    "guided_gradcam",
    "heard",
    "iba",
    "images_at_once",
    "in_smaller_batches",
    "input_iba",
    "input_x_gradient",
    "input_x_gradient_absolute",
    "input_x_gradient_smoothgrad",
    "input_x_gradient_smoothgrad_absolute",
    "integrated_gradients",
    "integrated_gradients_absolute",
    "integrated_gradients_blurred",
    "integrated_gradients_exact",
    "integrated_gradients_exact_true_baseline",
    "integrated_gradients_random",
    "integrated_gradients_smoothgrad",
    "integrated_gradients_smoothgrad_absolute",
    "integrated_gradients_smoothgrad_squared",
    "integrated_gradients_true_baseline",
    "integrated_gradients_uniform",
    "integrated_gradients_uniform_absolute",
    "integrated_gradients_vargrad",
    "kernel_shap",
    "kernel_shap_true_baseline",
    "layercam",
    "lime",
    "lime_true_baseline",
    "linear_approximation",
    "lrp",
    "observe",
    "occlusion",
    "occlusion_true_baseline",
    "preset_of",
    "restored",
    "rise",
    "rise_uniform",
    "saliency",
    "saliency_absolute",
    "saliency_smoothgrad",
    "shapley_value_sampling",
    "shapley_value_sampling_true_baseline",
    "smooth_gradcam_plus_plus",
    "smoothgrad",
    "smoothgrad_squared",
    "summarized",
    "tell",
    "vargrad",
    "xgradcam",
]

METHODS: dict[str, Callable[..., Any]] = {
    "attention-rollout": attention_rollout,
    "chefer-lrp": chefer_lrp,
    "deconvolution": deconvolution,
    "deep-lift": deep_lift,
    "deep-lift-true-baseline": deep_lift_true_baseline,
    "deep-shap": deep_shap,
    "deep-shap-true-baseline": deep_shap_true_baseline,
    "excitation-backprop": excitation_backprop,
    "extremal-perturbation": extremal_perturbation,
    "feature-ablation": feature_ablation,
    "feature-ablation-true-baseline": feature_ablation_true_baseline,
    "gradcam": gradcam,
    "gradcam-plus-plus": gradcam_plus_plus,
    "gradient-shap": gradient_shap,
    "guided-backprop": guided_backprop,
    "guided-gradcam": guided_gradcam,
    "iba": iba,
    "input-iba": input_iba,
    "input-x-gradient": input_x_gradient,
    "input-x-gradient-absolute": input_x_gradient_absolute,
    "input-x-gradient-smoothgrad": input_x_gradient_smoothgrad,
    "input-x-gradient-smoothgrad-absolute": input_x_gradient_smoothgrad_absolute,
    "integrated-gradients": integrated_gradients,
    "integrated-gradients-absolute": integrated_gradients_absolute,
    "integrated-gradients-blurred": integrated_gradients_blurred,
    "integrated-gradients-exact": integrated_gradients_exact,
    "integrated-gradients-exact-true-baseline": integrated_gradients_exact_true_baseline,
    "integrated-gradients-random": integrated_gradients_random,
    "integrated-gradients-smoothgrad": integrated_gradients_smoothgrad,
    "integrated-gradients-smoothgrad-absolute": integrated_gradients_smoothgrad_absolute,
    "integrated-gradients-smoothgrad-squared": integrated_gradients_smoothgrad_squared,
    "integrated-gradients-true-baseline": integrated_gradients_true_baseline,
    "integrated-gradients-uniform": integrated_gradients_uniform,
    "integrated-gradients-uniform-absolute": integrated_gradients_uniform_absolute,
    "integrated-gradients-vargrad": integrated_gradients_vargrad,
    "kernel-shap": kernel_shap,
    "kernel-shap-true-baseline": kernel_shap_true_baseline,
    "layercam": layercam,
    "lime": lime,
    "lime-true-baseline": lime_true_baseline,
    "linear-approximation": linear_approximation,
    "lrp": lrp,
    "occlusion": occlusion,
    "occlusion-true-baseline": occlusion_true_baseline,
    "rise": rise,
    "rise-uniform": rise_uniform,
    "saliency": saliency,
    "saliency-absolute": saliency_absolute,
    "saliency-smoothgrad": saliency_smoothgrad,
    "shapley-value-sampling": shapley_value_sampling,
    "shapley-value-sampling-true-baseline": shapley_value_sampling_true_baseline,
    "smooth-gradcam-plus-plus": smooth_gradcam_plus_plus,
    "xgradcam": xgradcam,
}
"""The built-in methods by name. Others follow from these by suffixes (`derived`)."""
