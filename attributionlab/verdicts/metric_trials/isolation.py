"""A user's metric in a process of its own: it has what it is called with, and nothing else."""

import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, NamedTuple

import torch

from attributionlab.base import AttributionWarning, Numbers
from attributionlab.verdicts import own_process
from attributionlab.verdicts.metric_trials.case import Evaluation
from attributionlab.verdicts.metric_trials.registry import Metric, checked_scores, scored, warned

MOST_TEXTS = 100
"""Of each kind that a process may tell with the scores of a batch."""


@dataclass(frozen=True)
class Apart(Metric):
    """A metric that is called in a process of its own.

    - `sent`: the function as bytes, with the files in which it may stand.
    """

    sent: bytes = field(default=b"", repr=False)
    files: Mapping[str, str] = field(default_factory=dict, repr=False)

    def scores_of(
        self, known: Mapping[str, Any], number: int, seen: Evaluation
    ) -> tuple[Numbers, list[str]]:
        """As `Metric.scores_of`."""
        placed, named = self.asked(known)
        given = {key: known[key] for key in {*placed, *named} - {"model"}}
        request = _Score(
            self.called, placed, named, given, number, seen.case.seed, own_process.torch_state()
        )
        asks_network = "model" in {*placed, *named}
        network: own_process.Network | None = (known["model"], {}) if asks_network else None
        with own_process.asked(
            self.sent, self.files, request, 8 * number + own_process.SLACK, self.called, network
        ) as answer:
            scores = own_process.arrays_in(answer).get("scores")
            for text in _texts(answer.head.get("warned")):
                warnings.warn(text, AttributionWarning, stacklevel=3)
        return checked_scores(scores, number, self.called), _texts(answer.head.get("repaired"))


class _Score(NamedTuple):
    """A request: scores of a batch of maps."""

    name: str
    placed: Sequence[str]
    named: Sequence[str]
    known: Mapping[str, Any]
    """what it is given, by name, without its network, which is sent once"""
    number: int
    seed: int
    state: Mapping[str, Any]

    def answer(self) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
        """In the metric's process: scores, what of the network was restored, and warnings."""
        model = own_process.here.network[0]
        known = {**self.known, "model": model}
        placed = [known[each] for each in self.placed]
        named = {each: known[each] for each in self.named}
        with warned() as told, own_process.as_there(self.state):
            call = partial(own_process.here.function, *placed, **named)
            scores, repaired = scored(call, model, self.seed, self.number, self.name)
        head = {"repaired": repaired[:MOST_TEXTS], "warned": told[:MOST_TEXTS]}
        return head, {"scores": torch.from_numpy(scores)}


def tried_apart(metric: Metric, isolated: bool = True) -> Metric:
    """The metric; a user's is called in a process of its own from now on, unless not `isolated`.

    Raises AttributionLabError for a function that cannot be sent.
    """
    if not isolated or isinstance(metric, Apart) or not is_users(metric):
        return metric
    sent, files = own_process.sent_as(metric.function, metric.name)
    known = {each.name: getattr(metric, each.name) for each in fields(metric)}
    return Apart(**known, sent=sent, files=files)


def is_users(metric: Metric) -> bool:
    """Whether a metric is code that neither this package nor Quantus brings."""
    if metric.shared is not None or metric.has_name:
        return False
    function = metric.function
    kind = function if hasattr(function, "__qualname__") else type(function)
    module = str(kind.__module__)
    there = getattr(sys.modules.get(module), kind.__name__, None) is kind
    return not (there and module.partition(".")[0] in ("attributionlab", "quantus"))


def _texts(told: Any) -> list[str]:
    """What a process tells of: it may be anything."""
    return [str(each) for each in told[:MOST_TEXTS]] if isinstance(told, list) else []
