"""Metrics: plain functions that score attributions."""

from attributionlab.metrics.curves import (
    CurveSummary,
    Measure,
    area_under_curve,
    curve_counts,
    curve_fractions,
    outputs_along,
    summarize_curves,
)
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
from attributionlab.metrics.perturbation import (
    deletion,
    deletion_curve,
    insertion,
    insertion_curve,
    pixel_flipping,
)
from attributionlab.metrics.robustness import infidelity, max_sensitivity
from attributionlab.metrics.sensitivity import sensitivity_n, sensitivity_n_curve
from attributionlab.metrics.subset_sizes import SubsetEffects, subset_effects
from attributionlab.metrics.values import (
    cosine,
    efficiency_gap,
    rank_correlation,
    sign_agreement,
)

__all__ = [
    "Alignment",
    "CurveSummary",
    "Measure",
    "Order",
    "Part",
    "SubsetEffects",
    "Ties",
    "alignment",
    "area_under_curve",
    "best_map",
    "cosine",
    "curve_counts",
    "curve_fractions",
    "deletion",
    "deletion_curve",
    "efficiency_gap",
    "f1",
    "infidelity",
    "insertion",
    "insertion_curve",
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
    "removal_order",
    "sensitivity_n",
    "sensitivity_n_curve",
    "sign_agreement",
    "subset_effects",
    "summarize_curves",
]
