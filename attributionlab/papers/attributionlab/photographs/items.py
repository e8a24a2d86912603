"""The figures of AttributionLab that show photographs, by name."""

from collections.abc import Callable
from functools import partial

from attributionlab.papers.attributionlab.photographs.figures import figure_5, figure_6, figure_7
from attributionlab.papers.attributionlab.photographs.lime_items import ITEMS, lime_on_photographs
from attributionlab.papers.reproduction import Reproduction

PHOTOGRAPH_ITEMS: dict[str, Callable[..., Reproduction]] = {
    "figure-5": figure_5,
    "figure-6": figure_6,
    "figure-7": figure_7,
    **{item: partial(lime_on_photographs, item) for item in ITEMS},
}
