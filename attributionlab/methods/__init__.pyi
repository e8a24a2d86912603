from .ablation import feature_ablation as feature_ablation
from .ablation import feature_ablation_true_baseline as feature_ablation_true_baseline
from .ablation import occlusion as occlusion
from .ablation import occlusion_true_baseline as occlusion_true_baseline
from .adapter import Method as Method
from .adapter import as_method as as_method
from .attention import attention_rollout as attention_rollout
from .attention import chefer_lrp as chefer_lrp
from .attention_aware import attnlrp as attnlrp
from .baselines import as_baselines as as_baselines
from .batching import images_at_once as images_at_once
from .batching import in_smaller_batches as in_smaller_batches
from .bottleneck import iba as iba
from .calling import Call as Call
from .cam import gradcam as gradcam
from .cam import gradcam_plus_plus as gradcam_plus_plus
from .cam import guided_gradcam as guided_gradcam
from .cam import hirescam as hirescam
from .cam import layercam as layercam
from .cam import linear_approximation as linear_approximation
from .cam import smooth_gradcam_plus_plus as smooth_gradcam_plus_plus
from .cam import xgradcam as xgradcam
from .cam_passes import ablationcam as ablationcam
from .cam_passes import scorecam as scorecam
from .declaration import AttributionMethod as AttributionMethod
from .declaration import declares as declares
from .derivation import DERIVATIONS as DERIVATIONS
from .derivation import absolute as absolute
from .derivation import derived as derived
from .derivation import input_x_gradient_absolute as input_x_gradient_absolute
from .derivation import input_x_gradient_smoothgrad as input_x_gradient_smoothgrad
from .derivation import input_x_gradient_smoothgrad_absolute as input_x_gradient_smoothgrad_absolute
from .derivation import integrated_gradients_absolute as integrated_gradients_absolute
from .derivation import integrated_gradients_smoothgrad as integrated_gradients_smoothgrad
from .derivation import (
    integrated_gradients_smoothgrad_absolute as integrated_gradients_smoothgrad_absolute,
)
from .derivation import (
    integrated_gradients_smoothgrad_squared as integrated_gradients_smoothgrad_squared,
)
from .derivation import (
    integrated_gradients_uniform_absolute as integrated_gradients_uniform_absolute,
)
from .derivation import integrated_gradients_vargrad as integrated_gradients_vargrad
from .derivation import saliency_absolute as saliency_absolute
from .derivation import saliency_smoothgrad as saliency_smoothgrad
from .ensembles import smoothgrad as smoothgrad
from .ensembles import smoothgrad_squared as smoothgrad_squared
from .ensembles import vargrad as vargrad
from .excitation import excitation_backprop as excitation_backprop
from .extremal import extremal_perturbation as extremal_perturbation
from .gradients import deconvolution as deconvolution
from .gradients import gradient_norm as gradient_norm
from .gradients import guided_backprop as guided_backprop
from .gradients import input_x_gradient as input_x_gradient
from .gradients import saliency as saliency
from .input_bottleneck import input_iba as input_iba
from .layers import observe as observe
from .notices import Notice as Notice
from .notices import Shown as Shown
from .notices import collect_notices as collect_notices
from .notices import notify as notify
from .notices import summarized as summarized
from .paths import gradient_shap as gradient_shap
from .paths import integrated_gradients as integrated_gradients
from .paths import integrated_gradients_blurred as integrated_gradients_blurred
from .paths import integrated_gradients_exact as integrated_gradients_exact
from .paths import (
    integrated_gradients_exact_true_baseline as integrated_gradients_exact_true_baseline,
)
from .paths import integrated_gradients_random as integrated_gradients_random
from .paths import integrated_gradients_true_baseline as integrated_gradients_true_baseline
from .paths import integrated_gradients_uniform as integrated_gradients_uniform
from .random_masks import rise as rise
from .random_masks import rise_uniform as rise_uniform
from .registry import METHODS as METHODS
from .registry import PRESETS as PRESETS
from .registry import Preset as Preset
from .registry import preset_of as preset_of
from .relevance import deep_lift as deep_lift
from .relevance import deep_lift_true_baseline as deep_lift_true_baseline
from .relevance import deep_shap as deep_shap
from .relevance import deep_shap_true_baseline as deep_shap_true_baseline
from .relevance import lrp as lrp
from .run import Attributed as Attributed
from .run import as_maps as as_maps
from .run import attribute as attribute
from .run import restored as restored
from .shapley import kernel_shap as kernel_shap
from .shapley import kernel_shap_true_baseline as kernel_shap_true_baseline
from .shapley import shapley_value_sampling as shapley_value_sampling
from .shapley import shapley_value_sampling_true_baseline as shapley_value_sampling_true_baseline
from .surrogate import lime as lime
from .surrogate import lime_true_baseline as lime_true_baseline

# isort: split
# For the other wings alone.
from .adapter import check_complete as check_complete
from .baselines import Baselines as Baselines
from .calling import call_captum_instance as call_captum_instance
from .calling import call_function as call_function
from .defaults import value_range as value_range
from .ensembles import REDUCTIONS as REDUCTIONS
from .ensembles import maps_of_samples as maps_of_samples
from .explaining import Handed as Handed
from .explaining import SideBySide as SideBySide
from .explaining import by_name as by_name
from .explaining import side_by_side as side_by_side
from .guards import is_checking as is_checking
from .layers import channels_first as channels_first
from .layers import find_layer as find_layer
from .layers import layout_of as layout_of
from .notices import Kind as Kind
from .notices import hand_on_notices as hand_on_notices
from .run import checked_maps as checked_maps
from .run import globals_restored as globals_restored
from .run import plain_maps as plain_maps
from .run import random_states as random_states
from .run import raw_attributions as raw_attributions
from .suffixes import SUFFIXES as SUFFIXES
from .suffixes import base_and_suffix as base_and_suffix
from .suffixes import figure_label as figure_label
from .suffixes import name_label as name_label
