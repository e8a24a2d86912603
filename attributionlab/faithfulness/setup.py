"""What is asked of a method in one environment."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from attributionlab.environment import Environment
from attributionlab.methods import Preset
from attributionlab.metrics import (
    Alignment,
    Part,
    alignment,
    best_map,
    magnitudes,
    normalize,
    parts_f1,
)
from attributionlab.progress import follow
from attributionlab.truth import Output, Truth, smoothed

Claim = Literal["signed", "overall", "positive", "positive-smoothed", "agreed"]
"""What a verdict may rest on. "agreed" is "signed" on the pixels to which all definitions of the truth
give the same sign; nothing is asked about the others."""


STUDIED_IMAGES = 8
"""On how many images ceilings, likenesses, the runner-up and drift are looked at, which decide
nothing."""


class Scene(NamedTuple):
    """Images with what is known about them, on the CPU: where they are made, scored and shown.

    `faithfulness.calls` alone brings them to the network's device.
    """

    images: Tensor
    """(B, C, H, W)"""
    targets: Tensor
    """(B,)"""
    patches: Tensor
    """(B, H, W), 0 outside"""
    truth: Truth
    first: int
    """index of the first of them in the test"""
    agreed: Tensor | None = None
    """(B, 1, H, W) bool, which pixels are asked about; all of them without it"""

    def asked(self, maps: Tensor) -> Tensor:
        """Maps with nothing on the pixels that are not asked about."""
        return maps if self.agreed is None else maps * self.agreed

    def part(self, start: int, stop: int) -> "Scene":
        """Some of the images."""
        chosen = slice(start, stop)
        return Scene(
            self.images[chosen],
            self.targets[chosen],
            self.patches[chosen],
            Truth(self.truth.signed[chosen]),
            self.first + start,
            None if self.agreed is None else self.agreed[chosen],
        )

    def single(self) -> Iterator["Scene"]:
        """Each image by itself."""
        for index in range(len(self.images)):
            yield self.part(index, index + 1)


def joined(scenes: Sequence[Scene]) -> Scene:
    """Several batches as one."""
    agreed = [scene.agreed for scene in scenes if scene.agreed is not None]
    return Scene(
        torch.cat([scene.images for scene in scenes]),
        torch.cat([scene.targets for scene in scenes]),
        torch.cat([scene.patches for scene in scenes]),
        Truth(torch.cat([scene.truth.signed for scene in scenes])),
        scenes[0].first,
        torch.cat(agreed) if agreed else None,
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
    truths : bool
        Whether to score maps against every definition of the truth, too.
    camouflage : int
        On how many camouflaged networks the method is asked again; 0 for none.
    options : mapping
        What the user asked for beyond the defaults, for commands that ask the same.
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
    truths: bool = False
    camouflage: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def form(self) -> str:
        """What is made of the truth, whichever pixels it is about: "agreed" is "signed" on some."""
        return "signed" if self.claim == "agreed" else self.claim

    @property
    def claimed_parts(self) -> tuple[str, ...]:
        """The parts of which the lowest decides."""
        return get_args(Part) if self.form == "signed" else (self.form,)

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

    def control_f1(self, maps: Tensor, truth: Truth, claimed: Tensor) -> dict[str, Tensor]:
        """F1 of a control's maps, of any scale, for the parts that the claim rests on, (B,) each."""
        if self.claim == "positive-smoothed":
            smoothed_f1 = alignment(magnitudes(normalize(maps), "positive"), claimed).f1
            return {self.claim: smoothed_f1}
        at_once = parts_f1(maps, truth.signed)
        return {part: f1 for part, f1 in at_once.items() if part in self.claimed_parts}

    def scenes(self, title: str, show_progress: bool) -> Iterator[Scene]:
        """The images in batches, each with its truth."""
        loader, first = self.env.loader(self.n, self.seed), 0
        with follow(title, self.n, "images", show=show_progress) as advance:
            for images, labels, patches in loader:
                targets = self.env.targets(labels)
                truth, agreed = self._truth(images, targets)
                yield Scene(images, targets, patches, truth, first, agreed)
                first += len(images)
                advance(len(images))

    def runner_up(self, scene: Scene) -> Scene:
        """The same images, with the class of the second-most pixels as their target."""
        counts = self.env.counting.counts(scene.images)
        counts[torch.arange(len(counts)), scene.targets] = -1
        targets = counts.argmax(1)
        truth, agreed = self._truth(scene.images, targets)
        return scene._replace(targets=targets, truth=truth, agreed=agreed)

    def _truth(self, images: Tensor, targets: Tensor) -> tuple[Truth, Tensor | None]:
        """The masks, and where all definitions agree if the claim asks for that."""
        truth = self.env.truth(images, targets, self.truth_output)
        if self.claim != "agreed":
            return truth, None
        agreement = self.env.truths(images, targets, self.truth_output).agreement()
        return Truth(agreement.signed), agreement.agreed


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
