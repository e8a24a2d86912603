"""What is asked of a method in one environment."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from attributionlab.environment import Environment
from attributionlab.methods import Preset
from attributionlab.metrics import Alignment, Part, alignment, best_map, magnitudes
from attributionlab.progress import track
from attributionlab.truth import Output, Truth, smoothed

__all__ = ["Claim", "Scene", "Trial", "chosen_outputs"]

Claim = Literal["signed", "overall", "positive", "positive-smoothed"]


class Scene(NamedTuple):
    """Images with what is known about them."""

    images: Tensor
    """(B, C, H, W)"""
    targets: Tensor
    """(B,)"""
    patches: Tensor
    """(B, H, W), 0 outside"""
    truth: Truth
    first: int
    """index of the first of them in the test"""

    def head(self, count: int) -> "Scene":
        """The first images only."""
        truth = Truth(self.truth.signed[:count])
        return Scene(
            self.images[:count], self.targets[:count], self.patches[:count], truth, self.first
        )


@dataclass(frozen=True)
class Trial:
    """What is asked of a method in one environment.

    Parameters
    ----------
    env : Environment
        Where.
    output, truth_output : {"probability", "logit"}
        Which output is explained, and which one the truth is about.
    claim : str
        What the verdict rests on.
    gamma : float
        The F1 that must be reached.
    n, seed : int
        How many images, and which.
    seeds : int
        How often a method that draws random numbers is run on each image.
    diagnosed : bool
        Whether to ask beyond the verdict: ceilings, a class that lost, what is missing and why.
    """

    env: Environment
    output: Output
    truth_output: Output
    claim: Claim
    gamma: float
    n: int
    seed: int
    seeds: int = 1
    diagnosed: bool = True

    @property
    def claimed_parts(self) -> tuple[str, ...]:
        """The parts of which the lowest decides."""
        return get_args(Part) if self.claim == "signed" else (self.claim,)

    def claimed(self, truth: Truth) -> Tensor:
        """The truth that the claim is about, with its signs."""
        if self.claim == "positive-smoothed":
            return smoothed(truth.positive, self.env.smoothing_sigma)
        return truth.signed.float()

    def ideal(self, truth: Truth) -> Tensor:
        """The best possible map for the claim."""
        claimed = self.claimed(truth)
        return best_map(claimed) if self.claim == "positive-smoothed" else claimed

    def scores(self, maps: Tensor, truth: Truth, claimed: Tensor) -> dict[str, Alignment]:
        """Precision, recall and F1 of normalized maps for each part, and for a smoothed claim."""
        scores: dict[str, Alignment] = {
            which: alignment(magnitudes(maps, which), getattr(truth, which))
            for which in get_args(Part)
        }
        if self.claim == "positive-smoothed":
            scores[self.claim] = alignment(magnitudes(maps, "positive"), claimed)
        return scores

    def scenes(self, title: str, show_progress: bool) -> Iterator[Scene]:
        """The images in batches, each with its truth."""
        loader, first = self.env.loader(self.n, self.seed), 0
        for images, labels, patches in track(loader, len(loader), title, show_progress):
            targets = self.env.targets(labels)
            truth = self.env.truth(images, targets, self.truth_output)
            yield Scene(images, targets, patches, truth, first)
            first += len(images)

    def runner_up(self, scene: Scene) -> Scene:
        """The same images, with the class of the second-most pixels as their target."""
        counts = self.env.counting.counts(scene.images)
        counts[torch.arange(len(counts)), scene.targets] = -1
        targets = counts.argmax(1)
        truth = self.env.truth(scene.images, targets, self.truth_output)
        return scene._replace(targets=targets, truth=truth)


def chosen_outputs(
    env: Environment,
    output: Output | None,
    truth_output: Output | None,
    preset: Preset,
    of_method: str | None,
) -> tuple[Output, Output]:
    """Which output is explained and which the truth is about: the same, unless the user or a preset
    asks for another. What the user asks for comes first, then the preset, then the method.
    """
    if env.task == "regression":
        return env.outputs[0], env.outputs[0]
    explained = env.checked_output(output or preset.output or of_method)
    of_preset = None if output else preset.truth_output
    return explained, env.checked_output(truth_output or of_preset or explained)
