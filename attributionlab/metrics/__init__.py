"""Metrics: plain functions that score attributions."""

from attributionlab.metrics.alignment import (
    Alignment,
    Part,
    alignment,
    f1,
    normalize,
    part,
    precision,
    recall,
)
from attributionlab.metrics.metric import metric

__all__ = [
    "Alignment",
    "Part",
    "alignment",
    "f1",
    "metric",
    "normalize",
    "part",
    "precision",
    "recall",
]
