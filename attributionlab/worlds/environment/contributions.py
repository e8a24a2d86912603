"""What each pixel contributes, answered by one definition after the other."""

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from attributionlab.base.exact import path_integral, single_replacements
from attributionlab.worlds.rules.game import RuleGame
from attributionlab.worlds.rules.rule import Rule
from attributionlab.worlds.truth.definitions import Definition, DefinitionName, Source, Truths
from attributionlab.worlds.truth.games import CountingGame, Solution
from attributionlab.worlds.truth.masks import Output
from attributionlab.worlds.truth.sampling import SampledShapley, sampled_shapley

if TYPE_CHECKING:
    from attributionlab.worlds.environment.environment import Environment

STANDARD_ERRORS = 3
"""How many of them an estimate is taken to be off at most."""
SHARE = 1e-4
"""Standard errors of estimates are to be at most this share of the output's change: an image has some
thousand pixels that share it."""
MOST_PERMUTATIONS = 2_000
"""Some 30 s for an image of 224 x 224 pixels."""
ROUNDING = 2.0**-50
"""A few roundings of float64: logits are exact, what is made of them off by so much of the largest."""

MEANINGS = {
    "mask": "+1 if one more pixel of the kind raises the output, -1 if it lowers it",
    "ablation": "f(x) - f(x with the pixel's value replaced by the baseline's)",
    "insertion": "f(b with the pixel's value of x) - f(b)",
    "shapley": "Shapley value of the pixel, all channels together, in the game of replaced pixels",
    "integrated-gradients": "integrated gradients along the straight line in pixel space (RGB for "
    "color images), summed over channels",
    "count-path": "integrated gradients along the straight line in the space of counts",
}


class Contributions:
    """Images, the output to explain, and what an absent pixel has instead of its value.

    Its arguments are those of `Environment.truths`. Of its attributes:

    - `place`: where the answers shall lie.
    - `images`, `baselines` (B, C, H, W): in the valid box, of the network's type and on its device.
    - `is_counting`: whether no mixture of an image and its baseline has a color that disturbs the
      counts.

    Raises AttributionLabError for what the environment does not take.
    """

    def __init__(
        self,
        env: "Environment",
        images: Any,
        targets: Any,
        output: Output | None,
        baseline: Any,
        precision: float | None = None,
        seed: int = 0,
    ) -> None:
        self.counting, self.temperature = env.counting, env.temperature
        self.precision, self.seed = precision, seed
        self.output = env.checked_output(output)
        self.model, self.explained = env.model, env.explained_model(self.output)
        admission = env.admission
        images = admission.images(images)
        self.place, images = images.device, images.to(env.device)
        self.targets = admission.targets(targets, len(images)).to(env.device)
        baselines = admission.baselines(env.baseline if baseline is None else baseline, images)
        admission.check_counts(images, baselines)
        disturbed = admission.unseen(images).any() or admission.unseen(baselines).any()
        if env.rule:  # a rule's game is known for baselines that it does not count
            disturbed |= (self.counting.classes_of(baselines) >= 0).any()
        self.is_counting = not disturbed
        self.images, self.baselines = images.float(), baselines.float()

    @cached_property
    def games(self) -> list[CountingGame] | list[RuleGame]:
        """For each image the game in which absent pixels have the baseline's color."""
        if isinstance(self.counting, Rule):
            return [
                self.counting.game(image.cpu(), int(target), self.output, self.temperature)
                for image, target in zip(self.images, self.targets, strict=True)
            ]
        present, absent = (
            self.counting.classes_of(values).cpu() for values in (self.images, self.baselines)
        )
        return [
            CountingGame(
                *(present[index], absent[index], len(self.counting.values), int(target)),
                output=self.output,
                temperature=self.temperature if self.output == "probability" else None,
                modulus=self.counting.modulus,
            )
            for index, target in enumerate(self.targets)
        ]

    @cached_property
    def changes(self) -> Float64[Tensor, " batch"]:
        """f(x) - f(b) of each image."""
        if self.is_counting:
            ends = [game.full - game.empty for game in self.games]
            return torch.tensor(ends, dtype=torch.float64, device=self.images.device)
        full, empty = (self._logits(values) for values in (self.images, self.baselines))
        return torch.stack(
            [
                self.read_out(full[index], index) - self.read_out(empty[index], index)
                for index in range(len(full))
            ]
        )

    @cached_property
    def samples(self) -> list[SampledShapley]:
        """For each image Shapley values from permutations."""
        precision = self.precision
        if precision is None:
            precision = SHARE * (float(self.changes.abs().max()) or 1.0)
        return [
            sampled_shapley(
                self.model,
                self.images[index],
                self.baselines[index],
                partial(self.read_out, index=index),
                precision=precision,
                most=MOST_PERMUTATIONS,
                seed=self.seed,
            )
            for index in range(len(self.images))
        ]

    def read_out(self, logits: Tensor, index: int) -> Float64[Tensor, "*_"]:
        """The explained output of image `index` in float64, from logits (..., K) that are exact."""
        logits = logits.double()
        if self.output == "probability":
            assert self.temperature is not None  # only classifiers have probabilities
            logits = torch.softmax(logits / self.temperature, dim=-1)
        return logits[..., int(self.targets[index])]

    def truths(self) -> Truths:
        """All definitions that there are for this question, in the order of `DefinitionName`."""
        return Truths(
            {definition.name: definition for definition in self._definitions()},
            self.targets.to(self.place),
            self.output,
            self.changes.to(self.place),
        )

    def shapley(self) -> Definition:
        """Shapley values, in closed form where there is one and sampled where there is none."""
        if self.has_closed_shapley:
            return self._solved("shapley", [game.shapley() for game in self.games])
        values = torch.stack([each.values for each in self.samples])
        errors = torch.stack([each.standard_errors for each in self.samples])
        return self._defined("shapley", values, STANDARD_ERRORS * errors, "estimate")

    @property
    def has_closed_shapley(self) -> bool:
        """Whether Shapley values of all images have a closed form."""
        return self.is_counting and all(game.has_closed_shapley for game in self.games)

    def _definitions(self) -> Iterator[Definition]:
        if self.is_counting:
            if not (self.counting.classes_of(self.baselines) >= 0).any():  # else signs differ
                asked = self.images, self.targets, self.output, self.temperature
                signed = self.counting.truth(*asked).signed.double()
                yield self._defined("mask", signed, torch.zeros_like(signed), "closed form")
            yield self._solved("ablation", [game.ablation() for game in self.games])
            yield self._solved("insertion", [game.insertion() for game in self.games])
        else:
            yield self._evaluated("ablation")
            yield self._evaluated("insertion")
        yield self.shapley()
        yield self._path_integral()
        paths = [game for game in self.games if isinstance(game, CountingGame)]
        if self.is_counting and paths and all(game.has_closed_count_path for game in paths):
            yield self._solved("count-path", [game.count_path() for game in paths])

    def _evaluated(self, name: DefinitionName) -> Definition:
        """Ablation or insertion from the network's outputs after each single replacement."""
        start, end = self.images, self.baselines
        if name == "insertion":
            start, end = end, start
        logits = single_replacements(self.model, start.contiguous(), end)  # (B, P, K)
        unchanged = self._logits(start)
        rows = []
        for index in range(len(logits)):
            after = self.read_out(logits[index], index)
            before = self.read_out(unchanged[index], index)
            effect = before - after if name == "ablation" else after - before
            largest = max(float(after.abs().max()), float(before.abs()))
            rows.append((effect, torch.full_like(effect, ROUNDING * largest)))
        shape = (len(logits), 1, *self.images.shape[2:])
        values, errors = (torch.stack(each).reshape(shape) for each in zip(*rows, strict=True))
        return self._defined(name, values, errors, "evaluation")

    def _path_integral(self) -> Definition:
        """Exact integrated gradients; a sum over channels errs at most sqrt(C) times as much."""
        found = path_integral(self.explained, self.images, self.baselines, self.targets)
        values = found.attributions.sum(1, keepdim=True)
        each = (self.images.shape[1] ** 0.5 * found.error)[:, None, None, None]
        errors = torch.where((self.images != self.baselines).any(1, keepdim=True), each, 0.0)
        return self._defined("integrated-gradients", values, errors, "path integral")

    def _solved(self, name: DefinitionName, solutions: Sequence[Solution]) -> Definition:
        values = torch.stack([solution.values for solution in solutions])
        errors = torch.stack([solution.bounds for solution in solutions])
        return self._defined(name, values, errors, "closed form")

    def _defined(
        self, name: DefinitionName, values: Tensor, errors: Tensor, source: Source
    ) -> Definition:
        placed = values.to(self.place), errors.to(self.place)
        return Definition(name, MEANINGS[name], *placed, source)

    @torch.no_grad()
    def _logits(self, images: Tensor) -> Float[Tensor, "batch classes"]:
        logits: Tensor = self.model(images.contiguous())
        return logits
