"""What metrics say of one image's attributions under every condition: a cell of work."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from attributionlab.base import AttributionWarning, own_arithmetic
from attributionlab.metrics import Part
from attributionlab.runs import Cell, fingerprint
from attributionlab.verdicts.faithfulness.calls import computed
from attributionlab.verdicts.metric_trials.agreement import Pair, f1_of_maps
from attributionlab.verdicts.metric_trials.blind import CONTROLS
from attributionlab.verdicts.metric_trials.case import Evaluation
from attributionlab.verdicts.metric_trials.conditions import Condition, without_unseen_data
from attributionlab.verdicts.metric_trials.panel import Candidate, Panel, Panels
from attributionlab.verdicts.metric_trials.registry import Metric, as_metric

Numbers = NDArray[np.float64]
NAMED = 6
"""Metrics whose names the title of their work has."""
Key = tuple[str, tuple[float, ...]]
"""Name of a metric, and key of a condition."""


class Answers(NamedTuple):
    """Scores of one image's attributions."""

    candidates: list[Candidate]
    """the attributions that are ranked"""
    f1: dict[Part, Numbers]
    """(candidates,) for each part of the truth"""
    scores: dict[Key, Numbers]
    """(candidates and more,): behind the ranked ones those of exact Shapley values, and in a test
    without twins those of the replacement's game"""
    warned: list[str]
    """what metrics did that had to be repaired"""
    others: list[Candidate]
    """the attributions that are made for the twin, and lures; none in a test without twins"""
    swapped: dict[str, Pair]
    """by metric, controls among them: (candidates and others,) before both networks"""
    swapped_f1: dict[Part, Pair]
    """the same against both truths"""


@dataclass(frozen=True)
class Asked:
    """What is asked about every image.

    `panels`: images with their attributions. `metrics`: what scores them. `conditions`: under which.
    `no_twins`: why images have no twins; "" where they have.
    """

    panels: Panels
    metrics: Sequence[Metric]
    conditions: Sequence[Condition]
    no_twins: str = ""

    @cached_property
    def clean(self) -> Condition:
        """The condition without unseen data; without twins the one with least of it."""
        if self.panels.questions is None and self.conditions:
            return min(self.conditions, key=lambda each: each.unseen)
        return without_unseen_data(self.panels.env)

    @cached_property
    def controls(self) -> list[Metric]:
        """What every metric is held against."""
        return [replace(as_metric(each), name=name) for name, each in CONTROLS.items()]

    def evaluation(
        self,
        panel: Panel,
        condition: Condition,
        models: dict[tuple[int, float] | None, nn.Module] | None = None,
    ) -> Evaluation:
        """A panel's maps before its network under a condition; `models` are networks by setting."""
        known = {} if models is None else models

        def made() -> Evaluation:
            here = condition.of(panel.env)
            if here.setting not in known:
                network = here.network(panel.weights)
                known[here.setting] = network.explained_model(self.panels.output)
            canvas = here.canvas(panel.number, self.panels.seed).to(panel.case.image.device)
            return Evaluation(panel.case, known[here.setting], canvas)

        return self.panels.shared((panel.number, condition.key), made)

    def cells(self, n: int) -> list[Cell]:
        """A cell of work for each of the first `n` images, whose answers do not depend on `n`."""
        panels, env = self.panels, self.panels.env
        methods = [setup.method for setup in panels.setups]
        names = [metric.name for metric in self.metrics]
        if len(names) > NAMED:
            names = [*names[:NAMED], f"{len(names) - NAMED} more"]
        place = {"metric": ", ".join(names), "environment": env.name, "spec": env.spec.digest[:8]}
        inputs = {
            "metrics": [
                (each.name, each.higher_is_better, fingerprint(each.function), each.takes)
                for each in self.metrics
            ],
            "environment": env.spec.digest,
            "seed": panels.seed,
            "output": panels.output,
            "one_network": panels.questions is None,
            "doses": [(each.axis, each.dose) for each in self.conditions],
            "methods": [
                (each.name, each.built_in or fingerprint(each.function), dict(each.settings))
                for each in methods
            ],
            # Ready maps are refused where they are not as many as images.
            "maps": n if any(computed(each) for each in methods) else None,
            "device": str(env.device),
        }
        return [
            Cell("metric", {**place, "question": number}, inputs, partial(_answers, self, number))
            for number in range(n)
        ]


@own_arithmetic()
def _answers(asked: Asked, number: int, device: str | None) -> Answers:
    """Score one image's attributions; what metrics are warned of stands in the answers."""
    if device is not None:
        asked.panels.env.to(device)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", AttributionWarning)
        found = _scored(asked, asked.panels[number])
    for each in caught:
        if issubclass(each.category, AttributionWarning):
            found.warned.append(str(each.message))
        else:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    return found


def _scored(asked: Asked, panel: Panel) -> Answers:
    """Score one image's attributions under every condition, each distinct one once."""
    shared, models = dict[Any, Numbers](), dict[Any, nn.Module]()
    f1 = asked.panels.shared(
        (panel.number, "f1"), lambda: f1_of_maps(panel.case.maps[:-1], panel.case.truth)
    )
    answers = Answers(panel.candidates, f1, {}, [], [], {}, {})
    for each in {each.key: each for each in (asked.clean, *asked.conditions)}.values():
        seen = asked.evaluation(panel, each, models)
        keys = {"maps": (), "network": each.setting, "condition": each.key}
        if panel.twin is not None and each.key == asked.clean.key:
            # First of all: how often a network was shown would tell which is the question's own.
            exchange = asked.panels.shared(
                (panel.number, "twin"), partial(Exchange, asked, panel, seen)
            )
            answers.others.extend(panel.other_candidates)
            answers.swapped_f1.update(exchange.f1)
            for metric in asked.metrics:
                pair, own = exchange.pair(metric)
                answers.swapped[metric.name] = pair
                shared[metric.name, keys[metric.sees]] = own
            answers.swapped.update(exchange.controls)
        for metric in asked.metrics:
            known = metric.name, keys[metric.sees]
            if known not in shared:
                shared[known] = metric.scores(seen)
            found = shared[known]
            if panel.twin is None:
                game = replace(panel.case, maps=seen.shapley[None].float())
                found = np.concatenate([found, metric.scores(replace(seen, case=game))])
            answers.scores[metric.name, each.key] = found
    return answers


class Exchange:
    """A panel and its twin before both networks, without unseen data, and what no metric changes.

    `own`: the panel before its own network.
    """

    def __init__(self, asked: Asked, panel: Panel, own: Evaluation) -> None:
        assert panel.twin is not None
        network = asked.clean.of(panel.twin.env).network(0)
        model = network.explained_model(asked.panels.output)
        cases = panel.case, panel.others
        self._seen = {
            **{(0, which): replace(own, case=each) for which, each in enumerate(cases)},
            **{
                (1, which): replace(own, case=panel.before_twin(each), model=model)
                for which, each in enumerate(cases)
            },
        }
        self._seen[0, 0] = own
        # What comes first says nothing of whose it is.
        drawn = np.random.default_rng([asked.panels.seed, panel.number, 12])
        self._order = [
            (side, which) for side in drawn.permutation(2) for which in drawn.permutation(2)
        ]
        self.controls = {each.name: self.pair(each)[0] for each in asked.controls}
        maps = torch.cat([panel.case.maps[:-1], panel.others.maps])
        truths = panel.case.truth, panel.twin.case.truth
        first, second = (f1_of_maps(maps, each) for each in truths)
        self.f1: dict[Part, Pair] = {part: (first[part], second[part]) for part in first}

    def pair(self, metric: Metric) -> tuple[Pair, Numbers]:
        """Scores before both networks, and all those of the question's panel before its own."""
        found = {at: metric.scores(self._seen[at]) for at in self._order}
        own, twin = (np.concatenate([found[side, 0][:-1], found[side, 1]]) for side in (0, 1))
        return (own, twin), found[0, 0]
