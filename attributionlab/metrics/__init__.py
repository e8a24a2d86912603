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
from attributionlab.metrics.incremental_deletion import Explain, ids, ids_curve
from attributionlab.metrics.indicators import Indicator, accuracy, label_probability
from attributionlab.metrics.isolation import Neighbors, pixel_isolation
from attributionlab.metrics.localization import (
    bounding_boxes,
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
from attributionlab.metrics.patches import Patches, grid_patches, patch_deleted, patch_sums
from attributionlab.metrics.performance import Setup
from attributionlab.metrics.perturbation import (
    deletion,
    deletion_curve,
    insertion,
    insertion_curve,
    pixel_flipping,
)
from attributionlab.metrics.reference_masking import dice, expected_dice, reference_order
from attributionlab.metrics.removal import Retraining, removal_curve, road
from attributionlab.metrics.robustness import infidelity, max_sensitivity
from attributionlab.metrics.sensitivity import sensitivity_n, sensitivity_n_curve
from attributionlab.metrics.single_deletions import (
    SingleDeletion,
    Undefined,
    deletion_drops,
    idsds,
    judged_by_drops,
    sds,
    single_deletion,
)
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
    "Explain",
    "Indicator",
    "Measure",
    "Neighbors",
    "Order",
    "Part",
    "Patches",
    "Retraining",
    "Setup",
    "SingleDeletion",
    "SoundnessLevel",
    "SoundnessSweep",
    "SubsetEffects",
    "Ties",
    "Undefined",
    "accuracy",
    "alignment",
    "area_under_curve",
    "best_map",
    "bounding_boxes",
    "completeness_at",
    "completeness_curve",
    "cosine",
    "curve_counts",
    "curve_fractions",
    "deletion",
    "deletion_curve",
    "deletion_drops",
    "dice",
    "efficiency_gap",
    "expected_dice",
    "f1",
    "grid_patches",
    "ids",
    "ids_curve",
    "idsds",
    "included_pixels",
    "infidelity",
    "insertion",
    "insertion_curve",
    "judged_by_drops",
    "label_probability",
    "magnitudes",
    "max_sensitivity",
    "metric",
    "normalize",
    "outputs_along",
    "parts_f1",
    "patch_deleted",
    "patch_sums",
    "pixel_flipping",
    "pixel_isolation",
    "pointing_game",
    "precision",
    "rank_correlation",
    "recall",
    "reference_order",
    "relevance_mass_accuracy",
    "relevance_rank_accuracy",
    "removal_curve",
    "removal_order",
    "road",
    "sds",
    "sensitivity_n",
    "sensitivity_n_curve",
    "sign_agreement",
    "single_deletion",
    "soundness_at",
    "soundness_sweep",
    "subset_effects",
    "summarize_curves",
    "true_completeness",
    "true_soundness",
]
