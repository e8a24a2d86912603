"""The paper's items by name: where to find what computes each."""

from collections.abc import Callable
from functools import partial

from attributionlab.papers.reproduction import Reproduction
from attributionlab.papers.unified.flipping.experiment import ITEMS as FLIPPING
from attributionlab.papers.unified.flipping.experiment import unified_flipping

UNIFIED_ITEMS: dict[str, Callable[..., Reproduction]] = {
    item: partial(unified_flipping, item) for item in FLIPPING
}
"""Items that are not yet in items.toml."""
