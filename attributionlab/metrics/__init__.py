"""Metrics: plain functions that score attributions."""

from attributionlab.metrics.marking import metric
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

__all__ = [
    "Alignment",
    "Part",
    "alignment",
    "best_map",
    "f1",
    "magnitudes",
    "metric",
    "normalize",
    "parts_f1",
    "precision",
    "recall",
]
