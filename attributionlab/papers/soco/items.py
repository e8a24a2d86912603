"""The paper's items, and ours, by name: where to find what computes each."""

from collections.abc import Callable
from functools import partial

from attributionlab.papers.reproduction import Reproduction
from attributionlab.papers.soco.order_example import soco_order_example
from attributionlab.papers.soco.retraining.experiment import ITEMS as RETRAINING
from attributionlab.papers.soco.retraining.experiment import soco_retraining
from attributionlab.papers.soco.watermarks.experiment import ITEMS as WATERMARKS
from attributionlab.papers.soco.watermarks.experiment import soco_watermarks

SOCO_ITEMS: dict[str, Callable[..., Reproduction]] = {
    **{item: partial(soco_retraining, item) for item in RETRAINING},
    **{item: partial(soco_watermarks, item) for item in WATERMARKS},
    "soco-section-3-3": soco_order_example,
}
