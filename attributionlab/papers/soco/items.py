"""The paper's items, and ours, by name: where to find what computes each."""

from collections.abc import Callable
from functools import partial

from attributionlab.papers.reproduction import Reproduction
from attributionlab.papers.soco.methods.experiment import ITEMS as METHODS
from attributionlab.papers.soco.methods.experiment import soco_methods
from attributionlab.papers.soco.modifications.experiment import ITEMS as MODIFICATIONS
from attributionlab.papers.soco.modifications.experiment import soco_modifications
from attributionlab.papers.soco.order_example import soco_order_example
from attributionlab.papers.soco.retraining.experiment import ITEMS as RETRAINING
from attributionlab.papers.soco.retraining.experiment import soco_retraining
from attributionlab.papers.soco.truth.experiment import soundness_truth
from attributionlab.papers.soco.watermarks.experiment import ITEMS as WATERMARKS
from attributionlab.papers.soco.watermarks.experiment import soco_watermarks

SOCO_ITEMS: dict[str, Callable[..., Reproduction]] = {
    **{item: partial(soco_modifications, item) for item in MODIFICATIONS},
    **{item: partial(soco_retraining, item) for item in RETRAINING},
    **{item: partial(soco_watermarks, item) for item in WATERMARKS},
    **{item: partial(soco_methods, item) for item in METHODS},
    "soco-section-3-3": soco_order_example,
    "soundness-truth": soundness_truth,
}
