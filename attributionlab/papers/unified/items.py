"""The paper's items by name: where to find what computes each."""

from collections.abc import Callable
from functools import partial

from attributionlab.papers.reproduction import Reproduction
from attributionlab.papers.unified.enhancement.accuracies import unified_table_2
from attributionlab.papers.unified.enhancement.maps import ITEMS as MAPS
from attributionlab.papers.unified.enhancement.maps import unified_enhanced_maps
from attributionlab.papers.unified.flipping.experiment import ITEMS as FLIPPING
from attributionlab.papers.unified.flipping.experiment import unified_flipping
from attributionlab.papers.unified.linear.accuracy_indicator import accuracy_counterexample
from attributionlab.papers.unified.linear.manipulated_model import ITEMS as MANIPULATED
from attributionlab.papers.unified.linear.manipulated_model import sparse_linear_model
from attributionlab.papers.unified.linear.plausibility import plausible_and_faithful
from attributionlab.papers.unified.linear.reference_overlap import expected_overlap

UNIFIED_ITEMS: dict[str, Callable[..., Reproduction]] = {
    "unified-table-1": plausible_and_faithful,
    "unified-table-2": unified_table_2,
    **{item: partial(sparse_linear_model, item) for item in MANIPULATED},
    **{item: partial(unified_flipping, item) for item in FLIPPING},
    **{item: partial(unified_enhanced_maps, item) for item in MAPS},
    "unified-proposition-1": expected_overlap,
    "unified-appendix-e": accuracy_counterexample,
}
