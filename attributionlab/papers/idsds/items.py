"""The paper's items by name: where to find what computes each."""

from collections.abc import Callable
from functools import partial

from attributionlab.papers.idsds.alignment.accuracies import idsds_table_3
from attributionlab.papers.idsds.alignment.rankings import ITEMS as RANKINGS
from attributionlab.papers.idsds.alignment.rankings import idsds_rankings
from attributionlab.papers.idsds.alignment.similarity import ITEMS as SIMILARITY
from attributionlab.papers.idsds.alignment.similarity import idsds_similarity
from attributionlab.papers.idsds.choices.experiment import idsds_choices, idsds_softmax
from attributionlab.papers.idsds.choices.studies import STUDIES
from attributionlab.papers.reproduction import Reproduction

SOFTMAX = ("idsds-figure-4", "idsds-figure-9")
"""Studies with a part that a network of one's own can be asked."""

IDSDS_ITEMS: dict[str, Callable[..., Reproduction]] = {
    "idsds-table-3": idsds_table_3,
    **{
        item: partial(idsds_softmax if item in SOFTMAX else idsds_choices, item) for item in STUDIES
    },
    **{item: partial(idsds_rankings, item) for item in RANKINGS},
    **{item: partial(idsds_similarity, item) for item in SIMILARITY},
}
