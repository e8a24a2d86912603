"""Metrics: plain functions that score attributions."""

from attributionlab.metrics.completeness_curves import (
    CompletenessCurve,
    completeness_at,
    completeness_curve,
)
from attributionlab.metrics.curves import (
    CurveSummary,
    Measure,
    area_under_curve,
    curve_counts,
    curve_fractions,
    outputs_along,
    summarize_curves,
)
from attributionlab.metrics.inclusion import included_pixels
from attributionlab.metrics.indicators import Indicator, accuracy, label_probability
from attributionlab.metrics.localization import (
    pointing_game,
    relevance_mass_accuracy,
    relevance_rank_accuracy,
)
from attributionlab.metrics.marking import metric
from attributionlab.metrics.orders import Order, Ties, removal_order
from attributionlab.metrics.overlap import (
    Alignment,
    Part,
    alignment,
    best_map,
    f1,
    magnitudes,
    normalize,
    parts_f1,
    precision,
    recall,
)
from attributionlab.metrics.performance import Setup
from attributionlab.metrics.perturbation import (
    deletion,
    deletion_curve,
    insertion,
    insertion_curve,
    pixel_flipping,
)
from attributionlab.metrics.removal import Retraining, removal_curve, road
from attributionlab.metrics.robustness import infidelity, max_sensitivity
from attributionlab.metrics.sensitivity import sensitivity_n, sensitivity_n_curve
from attributionlab.metrics.soundness_levels import (
    SoundnessLevel,
    SoundnessSweep,
    soundness_at,
    soundness_sweep,
)
from attributionlab.metrics.subset_sizes import SubsetEffects, subset_effects
from attributionlab.metrics.true_ratios import true_completeness, true_soundness
from attributionlab.metrics.values import (
    cosine,
    efficiency_gap,
    rank_correlation,
    sign_agreement,
)

__all__ = [
    "Alignment",
    "CompletenessCurve",
    "CurveSummary",
    "Indicator",
    "Measure",
    "Order",
    "Part",
    "Retraining",
    "Setup",
    "SoundnessLevel",
    "SoundnessSweep",
    "SubsetEffects",
    "Ties",
    "accuracy",
    "alignment",
    "area_under_curve",
    "best_map",
    "completeness_at",
    "completeness_curve",
    "cosine",
    "curve_counts",
    "curve_fractions",
    "deletion",
    "deletion_curve",
    "efficiency_gap",
    "f1",
    "included_pixels",
    "infidelity",
    "insertion",
    "insertion_curve",
    "label_probability",
    "magnitudes",
    "max_sensitivity",
    "metric",
    "normalize",
    "outputs_along",
    "parts_f1",
    "pixel_flipping",
    "pointing_game",
    "precision",
    "rank_correlation",
    "recall",
    "relevance_mass_accuracy",
    "relevance_rank_accuracy",
    "removal_curve",
    "removal_order",
    "road",
    "sensitivity_n",
    "sensitivity_n_curve",
    "sign_agreement",
    "soundness_at",
    "soundness_sweep",
    "subset_effects",
    "summarize_curves",
    "true_completeness",
    "true_soundness",
]
