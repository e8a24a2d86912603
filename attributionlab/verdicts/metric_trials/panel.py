"""The attributions of one image that a metric ranks, for one network or for a pair of twins, and what
metrics say of them under every condition: a cell of work.
"""

import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from attributionlab.base import AttributionLabError, AttributionWarning, Numbers, own_arithmetic
from attributionlab.methods import AttributionMethod, as_method, preset_of
from attributionlab.metrics import Part
from attributionlab.runs import Cell, fingerprint
from attributionlab.verdicts.controls import KNOWN
from attributionlab.verdicts.diagnosis.shares import pixel_kinds
from attributionlab.verdicts.faithfulness.calls import batch_maps, computed
from attributionlab.verdicts.faithfulness.setup import Batch, Setup, prepared
from attributionlab.verdicts.metric_trials.agreement import Pair, f1_of_maps
from attributionlab.verdicts.metric_trials.case import Case, Evaluation, case_of
from attributionlab.verdicts.metric_trials.conditions import Condition, without_unseen_data
from attributionlab.verdicts.metric_trials.graded import DISTRACTOR, graded_attributions
from attributionlab.verdicts.metric_trials.registry import METRIC_CONTROLS, Metric, warned
from attributionlab.worlds import Environment, Question, Questions, have_other_roles
from attributionlab.worlds.truth import Output

Made = TypeVar("Made")


class Candidate(NamedTuple):
    """What is known of an attribution before any metric scores it."""

    name: str
    family: str
    """the kind of its damage, the name of a method, or "lure" """
    made_for: str = "own"
    """the network that it is about: "own", "twin", or "none" """


@dataclass(frozen=True, eq=False)
class Panel:
    """One image with its attributions; the last map, exact Shapley values, is not ranked.

    - `weights`: what is added to the weight seed of `env` at every dose.
    - `twin`: the same image before another network, with the same ways to be wrong, and the same
      methods, for that network and its target.
    - `others`: the twin's attributions before this network, and lures, which are right for neither;
      `other_candidates` are theirs.
    - `models`: what is explained, by the setting of a condition (`Asked.evaluation` makes them).
    """

    number: int
    env: Environment
    weights: int
    case: Case
    candidates: list[Candidate]
    twin: "Panel | None" = None
    others: Case | None = None
    other_candidates: Sequence[Candidate] = ()
    models: dict[tuple[int, float] | None, nn.Module] = field(default_factory=dict)


class Panels:
    """The panels of images 0, 1, ... of an environment; each depends on its number and on what stands
    below, not on `n`.

    - `env`: of the images.
    - `n`, `seed`: how many, which methods with ready maps are told; and which.
    - `output`: what is explained.
    - `methods`: real methods, ranked beside the graded attributions.
    - `one_network`: all images have the roles of `env`, and their labels as targets; without twins.
    - `keep`: whether panels, and what networks answer, stay in memory for the next metric (`shared`).
    """

    def __init__(
        self,
        env: Environment,
        n: int,
        seed: int,
        output: Output,
        methods: Sequence[AttributionMethod],
        *,
        one_network: bool,
        keep: bool = False,
    ) -> None:
        self._kept: dict[Hashable, Any] | None = {} if keep else None
        self.env, self.seed, self.output = env, seed, output
        self.questions = None if one_network else Questions(env, seed)
        self.setups = [
            replace(_setup(each, env, output, n, seed), questions=self.questions)
            for each in methods
        ]

    def shared(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """What `make` returns; of panels that are kept it is made once for each key."""
        if self._kept is None:
            return make()
        if key not in self._kept:
            self._kept[key] = make()
        found: Made = self._kept[key]
        return found

    def __getitem__(self, number: int) -> Panel:
        """The panel of an image, 0 or more; there is no last one."""
        return self.shared(number, lambda: self._made(number))

    def _made(self, number: int) -> Panel:
        if self.questions is not None:
            return self._pair(number, self.questions[number], self.questions.twin(number))
        batch = Batch.of_image(self.env, self.output, number, self.seed)
        return replace(self._of(batch)[0], weights=number)

    __iter__ = None

    def _pair(self, number: int, own: Question, twin: Question) -> Panel:
        """A question's panel, with its twin."""
        refuse_equal_twins(own, twin)
        first, second = (Batch.of_question(each, self.output, number) for each in (own, twin))
        (panel, kinds), (other, _) = self._of(first), self._of(second)
        lures = self._lures(first, kinds)
        maps = [each.to(other.case.maps) for each in lures.values()]
        return replace(
            panel,
            twin=other,
            others=replace(panel.case, maps=torch.cat([other.case.maps[:-1], *maps])),
            other_candidates=[
                *(each._replace(made_for="twin") for each in other.candidates),
                *(Candidate(name, "lure", "none") for name in lures),
            ],
        )

    def _of(self, batch: Batch) -> tuple[Panel, Tensor]:
        """The panel of an image before a network, and what kind each pixel is."""
        env, truth = batch.env, batch.truth
        kinds = pixel_kinds(batch.flat_images, batch.patches, batch.classes, env.baseline.cpu())
        constants = env.spec.constants
        leaks = bool(constants.get("distractors", 0) or env.rule) or self.output == "logit"
        graded = graded_attributions(
            batch.ideal.to(torch.int8), kinds, distractors=leaks, seed=self.seed, first=batch.first
        )
        real = [batch_maps(setup, [batch]).float() for setup in self.setups]
        values = self._shapley(env, batch.images[0], int(batch.targets[0]))[None].float()
        names = [setup.method.name for setup in self.setups]
        candidates = [Candidate(each.name, each.kind) for each in graded]
        candidates += [Candidate(name, name) for name in names]
        # Graded ones say nothing of what is not asked, or no grade would be right.
        maps = torch.cat([*(each.maps * truth.asked for each in graded), *real, values])
        case = case_of(batch, maps, values, self.seed)
        return Panel(batch.first, env, 0, case, candidates), kinds

    def _shapley(self, env: Environment, image: Tensor, target: int) -> Tensor:
        """Shapley values of an image, (1, H, W); of some rules there are estimates only."""
        if not env.rule:
            return env.shapley(image, target, self.output)
        found = env.truths(image[None], torch.tensor([target]), self.output)["shapley"]
        if found.source == "estimate":
            warnings.warn(
                f"Shapley values of {self.env.name}, which metrics are given as values and "
                "information, are estimates from random orders",
                AttributionWarning,
                stacklevel=2,
            )
        return found.values[0]

    def _lures(self, own: Batch, kinds: Tensor) -> dict[str, Tensor]:
        """Attributions that a metric may mistake for right ones: exact for the next class of the same
        network, all of the foreground, the distractors at full strength (if there are any).
        """
        env, classes = own.env, own.env.network.classes
        other = env.truth(own.images, (own.targets + 1) % classes, self.output)
        lures = {
            **({"other target": other.signed.float()} if classes > 1 else {}),
            "foreground": (own.flat_images != env.baseline.cpu()).any(1, keepdim=True).float(),
            "distractors": (kinds == DISTRACTOR).float(),
        }
        if env.rule:  # the same ones for all images, whatever each shows
            return lures
        return {name: maps for name, maps in lures.items() if bool(maps.any())}


def refuse_equal_twins(own: Question, twin: Question) -> None:
    """Refuse two questions of which the truth is the same, or which show two images."""
    alike = not have_other_roles(own, twin)
    if alike or not torch.equal(own.image, twin.image):
        what = "count the same pixels for their targets" if alike else "show two images"
        first, second = (
            f"roles {each.env.rule or each.roles}, target {each.target}" for each in (own, twin)
        )
        raise AttributionLabError(
            f"a question and its counterpart {what} ({first}, and {second}): a swap contrast would "
            "say nothing; take Questions.twin"
        )


def _setup(method: AttributionMethod, env: Environment, output: Output, n: int, seed: int) -> Setup:
    """A real method with the paper's settings; one that explains logits only is given logits."""
    resolved = as_method(method, KNOWN)
    preset = preset_of("paper", env.task, resolved.name if resolved.built_in else "")
    own = preset.output or resolved.output or output
    return prepared(resolved, env, env.checked_output(own), output, preset="paper", n=n, seed=seed)


NAMED = 6
"""Metrics whose names the title of their work has."""


class Answers(NamedTuple):
    """Scores of one image's attributions before its own network and, if there is a twin, the twin's."""

    candidates: list[Candidate]
    """the attributions that are ranked, and behind them those for the twin, and lures"""
    f1: dict[Part, Numbers]
    """(networks, candidates) for each part of the truth"""
    clean: dict[str, Numbers]
    """(networks, candidates) without unseen data, by metric, controls of twins among them"""
    scores: dict[tuple[str, tuple[float, ...]], Numbers]
    """(ranked and more,) before the own network, by metric and key of a condition: behind the ranked
    ones those of exact Shapley values, and in a test without twins those of the replacement's game"""
    warned: list[str]
    """what metrics did that had to be repaired"""


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

    def evaluation(self, panel: Panel, condition: Condition) -> Evaluation:
        """A panel's maps before its network under a condition."""

        def made() -> Evaluation:
            setting, env = condition.setting, panel.env
            if setting not in panel.models:
                network = condition.network(env, panel.weights)
                panel.models[setting] = network.explained_model(self.panels.output)
            canvas = condition.canvas(env, panel.number, self.panels.seed)
            return Evaluation(panel.case, panel.models[setting], canvas.to(panel.case.image.device))

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
    with warned() as told:
        found = _scored(asked, asked.panels[number])
    return found._replace(warned=told)


def _scored(asked: Asked, panel: Panel) -> Answers:
    """Score one image's attributions under every condition, each distinct one once."""
    shared = dict[Any, Numbers]()
    f1 = asked.panels.shared((panel.number, "f1"), partial(_f1_of, panel))
    answers = Answers([*panel.candidates, *panel.other_candidates], f1, {}, {}, [])
    for each in {each.key: each for each in (asked.clean, *asked.conditions)}.values():
        seen = asked.evaluation(panel, each)
        keys = {"maps": (), "network": each.setting, "condition": each.key}
        if panel.twin is not None and each.key == asked.clean.key:
            # First of all: how often a network was shown would tell which is the question's own.
            exchange = asked.panels.shared(
                (panel.number, "twin"), partial(Exchange, asked, panel, seen)
            )
            for metric in asked.metrics:
                pair, own = exchange.pair(metric)
                answers.clean[metric.name] = pair
                shared[metric.name, keys[metric.sees]] = own
            answers.clean.update(exchange.controls)
        for metric in asked.metrics:
            known = metric.name, keys[metric.sees]
            if known not in shared:
                shared[known] = metric.scores(seen)
            found = shared[known]
            if panel.twin is None:
                if each.key == asked.clean.key:
                    answers.clean[metric.name] = found[None, :-1]
                game = replace(panel.case, maps=seen.shapley[None].float())
                found = np.concatenate([found, metric.scores(replace(seen, case=game))])
            answers.scores[metric.name, each.key] = found
    return answers


def _f1_of(panel: Panel) -> dict[Part, Numbers]:
    """As `Answers.f1`."""
    cases = [each for each in (panel.case, panel.others) if each is not None]
    maps = torch.cat([panel.case.maps[:-1], *(each.maps for each in cases[1:])])
    truths = [each.case.truth for each in (panel, panel.twin) if each is not None]
    found = [f1_of_maps(maps, each) for each in truths]
    return {part: np.stack([each[part] for each in found]) for part in found[0]}


class Exchange:
    """A panel and its twin before both networks, without unseen data, and what no metric changes.

    `own`: the panel before its own network.
    """

    def __init__(self, asked: Asked, panel: Panel, own: Evaluation) -> None:
        assert panel.twin is not None
        assert panel.others is not None
        network = asked.clean.network(panel.twin.env, 0)
        model, there = network.explained_model(asked.panels.output), panel.twin.case
        self._seen = {(0, 0): own, (0, 1): replace(own, case=panel.others)}
        for which, case in enumerate((panel.case, panel.others)):
            exchanged = case.before(there.target, there.truth, there.values)
            self._seen[1, which] = replace(own, case=exchanged, model=model)
        # What comes first says nothing of whose it is.
        drawn = np.random.default_rng([asked.panels.seed, panel.number, 12])
        self._order = [
            (side, which) for side in drawn.permutation(2) for which in drawn.permutation(2)
        ]
        self.controls = {each.name: self.pair(each)[0] for each in METRIC_CONTROLS}

    def pair(self, metric: Metric) -> tuple[Pair, Numbers]:
        """Scores before both networks, and all those of the question's panel before its own."""
        found = {at: metric.scores(self._seen[at]) for at in self._order}
        pair = [np.concatenate([found[side, 0][:-1], found[side, 1]]) for side in (0, 1)]
        return np.stack(pair), found[0, 0]
