"""How an environment answers what each pixel contributes, by one definition after the other."""

import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from attributionlab.device import without_tf32
from attributionlab.errors import AttributionLabWarning
from attributionlab.exact import path_integral, single_replacements
from attributionlab.truth import (
    CountingGame,
    Definition,
    DefinitionName,
    Output,
    SampledShapley,
    Solution,
    Source,
    Truths,
    mask,
    sampled_shapley,
)

if TYPE_CHECKING:
    from attributionlab.environment.known import KnownTruths

__all__ = ["Question"]

STANDARD_ERRORS = 3
"""How many of them an estimate is taken to be off at most."""
MOST_PERMUTATIONS = 2_000
"""Some 30 s for an image of 224 x 224 pixels."""
ROUNDING = 2.0**-50
"""A few roundings of float64: logits are exact, what is made of them off by so much of the largest."""

MEANINGS = {
    "mask": "+1 where one more pixel of the kind raises the output, -1 where it lowers it",
    "ablation": "f(x) - f(x with the pixel's value replaced by the baseline's)",
    "insertion": "f(b with the pixel's value of x) - f(b)",
    "shapley": "Shapley value of the pixel, all channels together, in the game of replaced pixels",
    "integrated-gradients": "integrated gradients along the straight line in pixel space (RGB for "
    "color images), summed over channels",
    "count-path": "integrated gradients along the straight line in the space of counts",
}


class Question(NamedTuple):
    """Images, what is asked about them, and what an absent pixel has instead of its value."""

    env: "KnownTruths"
    images: Tensor
    """(B, C, H, W), in the valid box"""
    targets: Int[Tensor, " batch"]
    output: Output
    baselines: Tensor
    """(B, C, H, W), in the valid box"""
    precision: float
    """largest standard error of an estimate, in units of the output"""
    seed: int

    @property
    def is_counting(self) -> bool:
        """Whether no mixture of an image and its baseline has a color that disturbs the counts."""
        unseen = self.env.admission.unseen
        return not bool(unseen(self.images).any() or unseen(self.baselines).any())

    @property
    def counts_nothing_absent(self) -> bool:
        """Whether no pixel of the baselines counts: then the mask holds."""
        return not bool((self.env.counting.classes_of(self.baselines) >= 0).any())

    def game(self, index: int) -> CountingGame:
        """The game of one image, in which absent pixels have the baseline's color."""
        chosen = slice(index, index + 1)
        counting = self.env.counting
        return CountingGame(
            present=counting.classes_of(self.images[chosen])[0].cpu(),
            absent=counting.classes_of(self.baselines[chosen])[0].cpu(),
            classes=self.env.network.classes,
            target=int(self.targets[index]),
            output=self.output,
            temperature=self.env.temperature if self.output == "probability" else None,
            modulus=counting.modulus,
        )

    def read_out(self, logits: Tensor, index: int) -> Float64[Tensor, "*_"]:
        """The explained output of image `index` in float64, from logits (..., K) that are exact."""
        logits = logits.double()
        if self.output == "probability":
            assert self.env.temperature is not None  # only classifiers have probabilities
            logits = torch.softmax(logits / self.env.temperature, dim=-1)
        return logits[..., int(self.targets[index])]

    def truths(self) -> Truths:
        """All definitions that there are for this question, in the order of `DefinitionName`."""
        return Truths(
            {definition.name: definition for definition in self._definitions()},
            self.targets,
            self.output,
            self.changes(),
        )

    def changes(self) -> Float64[Tensor, " batch"]:
        """f(x) - f(b) of each image, from the network's own logits."""
        with torch.no_grad(), without_tf32():
            logits = self.env.model(self.images), self.env.model(self.baselines.contiguous())
        ends = [
            torch.stack([self.read_out(each[i], i) for i in range(len(self.images))])
            for each in logits
        ]
        return ends[0] - ends[1]

    def shapley(self) -> Definition:
        """Shapley values, in closed form where there is one and sampled where there is none."""
        if self.is_counting:
            games = [self.game(index) for index in range(len(self.images))]
            if all(game.has_closed_shapley for game in games):
                return self._solved("shapley", [game.shapley() for game in games])
        sampled = [self.sampled_shapley(index) for index in range(len(self.images))]
        errors = torch.stack([each.standard_errors for each in sampled])
        values = torch.stack([each.values for each in sampled])
        return self._defined("shapley", values, STANDARD_ERRORS * errors, "estimate")

    def sampled_shapley(self, index: int) -> SampledShapley:
        """Shapley values of image `index` from permutations."""
        found = sampled_shapley(
            self.env.model,
            self.images[index],
            self.baselines[index],
            lambda logits: self.read_out(logits, index),
            precision=self.precision,
            most=MOST_PERMUTATIONS,
            seed=self.seed,
        )
        if not found.reached:
            warnings.warn(
                f"Shapley values of image {index} have standard errors up to "
                f"{float(found.standard_errors.max()):.2g} after {MOST_PERMUTATIONS:,} permutations, "
                f"{self.precision:.2g} were asked for: take a larger precision, or call "
                "attributionlab.truth.sampled_shapley with a larger `most`",
                AttributionLabWarning,
                stacklevel=4,
            )
        return found

    def _definitions(self) -> Iterator[Definition]:
        closed = self.is_counting
        games = [self.game(index) for index in range(len(self.images))] if closed else []
        if closed and self.counts_nothing_absent:
            classes = self.env.counting.classes_of(self.images)
            signed = mask(classes, self.targets, self.output).signed.double()
            yield self._defined("mask", signed, torch.zeros_like(signed), "closed form")
        if closed:
            yield self._solved("ablation", [game.ablation() for game in games])
            yield self._solved("insertion", [game.insertion() for game in games])
        else:
            yield self._evaluated("ablation")
            yield self._evaluated("insertion")
        yield self.shapley()
        yield self._path_integral()
        if closed and all(game.has_closed_count_path for game in games):
            yield self._solved("count-path", [game.count_path() for game in games])

    def _evaluated(self, name: DefinitionName) -> Definition:
        """Ablation or insertion from the network's outputs after each single replacement."""
        start, end = self.images, self.baselines
        if name == "insertion":
            start, end = end, start
        logits = single_replacements(self.env.model, start.contiguous(), end)  # (B, P, K)
        with torch.no_grad(), without_tf32():
            unchanged = self.env.model(start.contiguous())  # (B, K)
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
        model = self.env.explained_model(self.output)
        found = path_integral(model, self.images, self.baselines, self.targets)
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
        place = self.images.device
        return Definition(name, MEANINGS[name], values.to(place), errors.to(place), source)
