"""The attributions that a metric ranks: of one image, for one network or for a pair of twins."""

import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from attributionlab.base import AttributionLabError, AttributionWarning
from attributionlab.methods import METHODS, AttributionMethod, as_method, preset_of
from attributionlab.verdicts.controls import CONTROLS
from attributionlab.verdicts.diagnosis.shares import pixel_kinds
from attributionlab.verdicts.faithfulness.calls import explain
from attributionlab.verdicts.faithfulness.setup import Batch, Setup, prepared
from attributionlab.verdicts.metric_trials.case import Case, case_of
from attributionlab.verdicts.metric_trials.graded import DISTRACTOR, graded_attributions
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
    - `lures`: further attributions, which are right for neither, by name.
    """

    number: int
    env: Environment
    weights: int
    case: Case
    candidates: list[Candidate]
    twin: "Panel | None" = None
    lures: Mapping[str, Tensor] = field(default_factory=dict)

    @cached_property
    def others(self) -> Case:
        """The twin's attributions and the lures before this network."""
        assert self.twin is not None
        maps = [self.twin.case.maps[:-1], *self.lures.values()]
        return replace(self.case, maps=torch.cat([each.to(maps[0]) for each in maps]))

    @property
    def other_candidates(self) -> list[Candidate]:
        """Those of `others`."""
        assert self.twin is not None
        made = [each._replace(made_for="twin") for each in self.twin.candidates]
        return made + [Candidate(name, "lure", "none") for name in self.lures]

    def before_twin(self, case: Case) -> Case:
        """The maps of a case before the twin's network."""
        assert self.twin is not None
        there = self.twin.case
        return case.before(there.target, there.truth, there.values)


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
        sample = self.env.dataset(number + 1, self.seed)[number]
        image, targets = sample.image[None], self.env.targets(sample.label[None])
        panel, _ = self._of(self._batch(number, self.env, image, targets, sample.patches[None]))
        return replace(panel, weights=number)

    __iter__ = None

    def _pair(self, number: int, own: Question, twin: Question) -> Panel:
        """A question's panel, with its twin."""
        refuse_equal_twins(own, twin)
        first, second = (
            self._batch(
                *(number, each.env, each.image[None], torch.tensor([each.target])),
                *(each.patches[None], (each,)),
            )
            for each in (own, twin)
        )
        (panel, kinds), (other, _) = self._of(first), self._of(second)
        return replace(panel, twin=other, lures=self._lures(first, kinds))

    def _batch(
        self,
        number: int,
        env: Environment,
        image: Tensor,
        target: Tensor,
        patches: Tensor,
        questions: tuple[Question, ...] = (),
    ) -> Batch:
        truth = env.truth(image, target, self.output)
        return Batch(image, target, patches, (env,), truth, number, questions=questions)

    def _of(self, batch: Batch) -> tuple[Panel, Tensor]:
        """The panel of an image before a network, and what kind each pixel is."""
        env, truth = batch.env, batch.truth
        kinds = pixel_kinds(batch.images, batch.patches, batch.classes, env.baseline.cpu())
        constants = env.spec.constants
        leaks = bool(constants.get("distractors", 0) or env.rule) or self.output == "logit"
        graded = graded_attributions(
            batch.ideal.to(torch.int8), kinds, distractors=leaks, seed=self.seed, first=batch.first
        )
        real = [explain(setup, [batch]).float() for setup in self.setups]
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
            "foreground": (own.images != env.baseline.cpu()).any(1, keepdim=True).float(),
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
            f"twins {what} ({first}, and {second}): a swap contrast would say nothing; take "
            "Questions.twin"
        )


def _setup(method: AttributionMethod, env: Environment, output: Output, n: int, seed: int) -> Setup:
    """A real method with the paper's settings; one that explains logits only is given logits."""
    resolved = as_method(method, METHODS | CONTROLS)
    preset = preset_of("paper", env.task, resolved.name if resolved.built_in else "")
    own = preset.output or resolved.output or output
    return prepared(resolved, env, env.checked_output(own), output, preset="paper", n=n, seed=seed)
