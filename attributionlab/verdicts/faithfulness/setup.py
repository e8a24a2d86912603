"""One method in one environment: what is explained, and what its maps are scored against."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.base import follow
from attributionlab.methods import Method, preset_of
from attributionlab.metrics import (
    Alignment,
    Part,
    alignment,
    best_map,
    magnitudes,
    normalize,
    parts_f1,
)
from attributionlab.verdicts.faithfulness.protocol import Also, Request
from attributionlab.worlds import Environment, Question, Questions, flattened
from attributionlab.worlds.nets import TRAINED
from attributionlab.worlds.truth import Output, Truth, smoothed

STUDIED_IMAGES = 8
"""Number of first images for resolutions, likenesses, the runner-up and drift, which decide nothing."""


class Batch(NamedTuple):
    """Images with what is known about them, on the CPU: where they are made, scored and shown.

    `faithfulness.calls` alone brings them to the network's device.
    """

    images: Tensor
    """(B, C, H, W)"""
    targets: Tensor
    """(B,)"""
    patches: Tensor
    """(B, H, W), 0 outside"""
    envs: tuple[Environment, ...]
    """the network of each image, in its environment"""
    truth: Truth
    first: int = 0
    """index of the first of them in the test"""
    agreed: Tensor | None = None
    """(B, 1, H, W) bool, for the claim "agreed": which pixels count"""
    smooth: Tensor | None = None
    """(B, 1, H, W), for the claim "positive-smoothed": the smoothed truth"""
    questions: tuple[Question, ...] = ()
    """the questions that these are, none where all images have the same network"""

    @classmethod
    def of_question(cls, question: Question, output: Output, number: int) -> "Batch":
        """The image of a question, before its network."""
        image, target = question.image[None], torch.tensor([question.target])
        known = image, target, question.patches[None], (question.env,), question.truth(output)
        return cls(*known, number, questions=(question,))

    @classmethod
    def of_image(cls, env: Environment, output: Output, number: int, seed: int) -> "Batch":
        """An image of an environment, before its own network and with its label as target."""
        sample = env.dataset(number + 1, seed)[number]
        image, target = sample.image[None], env.targets(sample.label[None])
        truth = env.truth(image, target, output)
        return cls(image, target, sample.patches[None], (env,), truth, number)

    @property
    def env(self) -> Environment:
        """The network of these images, where all have the same."""
        assert all(env is self.envs[0] for env in self.envs)
        return self.envs[0]

    @property
    def baselines(self) -> Tensor:
        """(B, C, 1, 1), the true baseline of each image, on the CPU."""
        return torch.stack([env.baseline.cpu() for env in self.envs])

    @property
    def flat_images(self) -> Tensor:
        """(B, C, H, W), the images with each color in place of its shades."""
        pairs = zip(self.images, self.envs, strict=True)
        return torch.cat([flattened(env.spec, image[None]) for image, env in pairs])

    @property
    def classes(self) -> Tensor:
        """(B, 1, H, W), for each pixel the class that it counts for, -1 for none."""
        pairs = zip(self.images, self.envs, strict=True)
        return torch.cat([env.counting.classes_of(image[None]) for image, env in pairs])

    @property
    def ideal(self) -> Tensor:
        """The best possible map for the claim; a mixed pixel may have any sign."""
        if self.smooth is not None:
            return best_map(self.smooth)
        return (self.truth.signed + self.truth.mixed).float()

    @property
    def best_f1(self) -> Tensor:
        """(B,), the F1 of the best possible map for the claim; 1 for masks."""
        if self.smooth is None:
            return torch.ones(len(self.images), dtype=torch.float64)
        return alignment(self.ideal, self.smooth).f1  # from the definition and past the oracle

    def counted(self, maps: Tensor) -> Tensor:
        """Maps with nothing on the pixels that are not scored, or do not count.

        Before a trained network, whose truth is about whole patches, their sums over patches.
        """
        if self.envs[0].implementation == TRAINED:
            maps = patch_sums_in_place(maps, self.patches)
        if not self.truth.asked.all():
            maps = maps * self.truth.asked
        return maps if self.agreed is None else maps * self.agreed

    def scaled(self, maps: Tensor) -> Tensor:
        """Maps as they are scored, in [-1, 1].

        float32 halves the memory of what is kept, and is precise enough there.
        """
        return normalize(self.counted(maps)).float()

    def seen(self, maps: Tensor, part: Part) -> Tensor:
        """Scaled maps as a part of the truth is held against them.

        Mixed pixels have no sign: without them the largest value of a sign may be another one.
        """
        mixed = self.truth.mixed
        return maps if part == "overall" or not mixed.any() else normalize(maps * ~mixed)

    def part(self, start: int, stop: int) -> "Batch":
        """Some of the images."""
        chosen = slice(start, stop)
        agreed, smooth = (
            None if each is None else each[chosen] for each in (self.agreed, self.smooth)
        )
        return Batch(
            *(self.images[chosen], self.targets[chosen], self.patches[chosen], self.envs[chosen]),
            self.truth.part(chosen),
            self.first + start,
            agreed,
            smooth,
            self.questions[chosen],
        )

    def single(self) -> Iterator["Batch"]:
        """Each image by itself."""
        for index in range(len(self.images)):
            yield self.part(index, index + 1)

    def by_network(self) -> Iterator["Batch"]:
        """The images of each network together."""
        starts = [at for at, env in enumerate(self.envs) if not at or env is not self.envs[at - 1]]
        for start, stop in pairwise([*starts, len(self.envs)]):
            yield self.part(start, stop)


def _first_pixels(patches: Tensor) -> Tensor:
    """(B, 1, H, W) bool: the first pixel of each patch, which stands for it."""
    labels = patches.flatten(1).long()
    places = torch.arange(labels.shape[1], device=labels.device).expand_as(labels)
    least = torch.full_like(labels, labels.shape[1])  # a patch has fewer labels than pixels
    least = least.scatter_reduce(1, labels, places, "amin").gather(1, labels)
    return ((places == least) & (labels > 0)).view_as(patches)[:, None]


def patch_sums_in_place(maps: Tensor, patches: Tensor) -> Tensor:
    """Maps (B, 1, H, W) with the sum over each patch in its first pixel, and 0 elsewhere.

    `patches`: label maps (B, H, W), 0 outside, whose labels are below the number of pixels.
    """
    labels = patches.flatten(1).long()
    values = maps.flatten(1).double()
    sums = torch.zeros_like(values).scatter_add(1, labels, values).gather(1, labels)
    return sums.view_as(maps) * _first_pixels(patches)


def truth_of_patches(truth: Truth, patches: Tensor) -> Truth:
    """The truth with the sign of each patch in its first pixel, which alone is asked.

    A patch that raises the output in one place and lowers it in another has no sign.
    """

    def anywhere(mask: Tensor) -> Tensor:
        return patch_sums_in_place(mask.float(), patches) > 0

    up, down = anywhere(truth.positive), anywhere(truth.negative)
    signed = up.to(truth.signed.dtype) - down.to(truth.signed.dtype)
    return Truth(signed, anywhere(truth.relevant), anywhere(truth.asked))


def joined(batches: Sequence[Batch]) -> Batch:
    """Several batches as one."""

    def whole(name: str) -> Any:
        parts = [getattr(batch, name) for batch in batches]
        return None if parts[0] is None else torch.cat(parts)

    return Batch(
        *(whole("images"), whole("targets"), whole("patches")),
        tuple(env for batch in batches for env in batch.envs),
        Truth.joined([batch.truth for batch in batches]),
        *(batches[0].first, whole("agreed"), whole("smooth")),
        tuple(question for batch in batches for question in batch.questions),
    )


def on_networks(
    batches: Sequence[Batch], make: Callable[[Environment], Environment]
) -> list[Batch]:
    """The same images, before networks that a function makes of theirs, each made once."""
    made = {env: make(env) for batch in batches for env in batch.envs}
    return [batch._replace(envs=tuple(made[env] for env in batch.envs)) for batch in batches]


ALONE = Also()


@dataclass(frozen=True)
class Setup:
    """A method in an environment, with all that one run of it depends on.

    - `method`, `env`: the method's settings include those of a preset.
    - `output`, `truth_output`: the explained output, and the output that the truth is about.
    - `claim`: what the verdict rests on.
    - `environments`: how many are asked together, of which each may fail by chance.
    - `n`, `seed`: number of images; seed for images and method.
    - `also`: what is asked beside the verdict.
    - `questions`: questions, each with a network of its own; None where all images have the network of
      `env`, and their labels as targets.
    - `options`: the user's options of the test that differ from the defaults, for commands of hints.
    - `drawn`: cache of `faithfulness.calls`, shared with the setups that `dataclasses.replace` makes.
    """

    method: Method
    env: Environment
    output: Output
    truth_output: Output
    claim: str = "signed"
    environments: int = 1
    n: int = 1
    seed: int = 0
    also: Also = ALONE
    questions: Questions | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    drawn: dict[str, Tensor] = field(default_factory=dict, repr=False)

    @property
    def title(self) -> str:
        """The method and the environment, for people who wait."""
        return f"{self.method.name} on {self.env.name}"

    @property
    def plain_claim(self) -> str:
        """The claim without its choice of pixels: "agreed" is "signed" on some of them."""
        return "signed" if self.claim == "agreed" else self.claim

    @property
    def claimed_parts(self) -> tuple[str, ...]:
        """The parts of which the lowest decides."""
        return get_args(Part) if self.plain_claim == "signed" else (self.plain_claim,)

    def scores(self, maps: Tensor, batch: Batch) -> dict[str, Alignment]:
        """Precision, recall and F1 of scaled maps for each part, and for a smoothed claim."""
        scores: dict[str, Alignment] = {
            part: alignment(magnitudes(batch.seen(maps, part), part), getattr(batch.truth, part))
            for part in get_args(Part)
        }
        if batch.smooth is not None:
            scores[self.claim] = alignment(magnitudes(maps, "positive"), batch.smooth)
        return scores

    def claimed_f1(self, maps: Tensor, batch: Batch) -> dict[str, NDArray[np.float64]]:
        """F1 of a method's maps, of any scale, for the parts that the claim rests on, (B,) each."""
        scores = self.scores(batch.scaled(maps), batch)
        return {part: scores[part].f1.double().numpy() for part in self.claimed_parts}

    def control_f1(self, maps: Tensor, batch: Batch) -> dict[str, Tensor]:
        """F1 of a control's maps, of any scale, for the parts that the claim rests on, (B,) each."""
        maps = batch.counted(maps)
        if batch.smooth is not None:
            return {self.claim: alignment(magnitudes(normalize(maps), "positive"), batch.smooth).f1}
        at_once = parts_f1(maps, batch.truth.signed, batch.truth.mixed)
        return {part: f1 for part, f1 in at_once.items() if part in self.claimed_parts}

    def batches(self, title: str = "", show_progress: bool = False) -> Iterator[Batch]:
        """The images in batches of one network, each with its truth."""
        with follow(title, self.n, "images", show=show_progress) as advance:
            for batch in self._batches():
                yield batch
                advance(len(batch.images))

    def _batches(self) -> Iterator[Batch]:
        if self.questions is None:
            first = 0
            for images, labels, patches in self.env.loader(self.n, self.seed):
                yield self._batch(self.env, images, self.env.targets(labels), patches, first)
                first += len(images)
            return
        for index in range(self.n):
            yield self.image(index)

    def image(self, index: int) -> Batch:
        """One image of the test, before its network."""
        if self.questions is None:
            return self._asked(Batch.of_image(self.env, self.truth_output, index, self.seed))
        return self._asked(Batch.of_question(self.questions[index], self.truth_output, index))

    def first_images(self) -> "Setup":
        """The same with the studied images only."""
        return replace(self, n=min(self.n, STUDIED_IMAGES))

    def first_two(self, batch: Batch) -> Batch:
        """The first two images of a batch; of questions the first, and another before its network."""
        if self.questions is None:
            return batch.part(0, 2)
        first = batch.part(0, 1)
        image = self.questions.reference_images(first.questions[0], 1)
        other = self._batch(first.env, image, first.targets, first.patches, first.first + 1)
        return joined([first, other._replace(questions=first.questions)])

    def runner_up(self, batch: Batch) -> Batch:
        """The same images, with the class of the second-most pixels as their target."""
        outputs = batch.env.counting.outputs(batch.images)
        outputs[torch.arange(len(outputs)), batch.targets] = torch.iinfo(outputs.dtype).min
        return self._batch(batch.env, batch.images, outputs.argmax(1), batch.patches, batch.first)

    def _batch(
        self, env: Environment, images: Tensor, targets: Tensor, patches: Tensor, first: int
    ) -> Batch:
        """Images of one network with their truth."""
        truth = env.truth(images, targets, self.truth_output)
        return self._asked(Batch(images, targets, patches, (env,) * len(images), truth, first))

    def _asked(self, batch: Batch) -> Batch:
        """The same with what the claim makes of the truth."""
        truth, agreed, smooth = batch.truth.without_holes(batch.patches), None, None
        if self.claim == "agreed":
            truths = batch.env.truths(batch.images, batch.targets, self.truth_output)
            agreement = truths.agreement()
            truth, agreed = Truth(agreement.signed), agreement.agreed
        if self.claim == "positive-smoothed":
            smooth = smoothed(truth.positive, batch.env.smoothing_sigma)
        if batch.envs[0].implementation == TRAINED:
            truth = truth_of_patches(truth, batch.patches)
        return batch._replace(truth=truth, agreed=agreed, smooth=smooth)


def prepared(
    method: Method,
    env: Environment,
    output: Output | None = None,
    truth_output: Output | None = None,
    *,
    preset: str | None = None,
    **options: Any,
) -> Setup:
    """Set a method up in an environment, with what a preset states for it there.

    The explained output and that of the truth are the same, unless the user or the preset wants another
    one: the user comes first, then the preset, then the method. `options` are those of `Setup`.
    """
    # A preset is of the built-in method, not of anybody's function with the same name.
    stated = preset_of(preset, env.task, method.name if method.built_in else "")
    if stated.settings:
        method = replace(method, settings={**stated.settings, **method.settings})
    if len(env.outputs) == 1:
        if env.task == "classification":  # a user's own: only he can ask for what it has not
            env.checked_output(output)
            env.checked_output(truth_output)
        return Setup(method, env, env.outputs[0], env.outputs[0], **options)
    own = stated.output or method.output
    explained = env.checked_output(own if output is None else output)
    stated_truth = stated.truth_output if output is None else None
    about = env.checked_output(truth_output or stated_truth or explained)
    return Setup(method, env, explained, about, **options)


def asked(method: Method, env: Environment, request: Request, environments: int = 1) -> Setup:
    """Set a method up for what is asked of it in an environment, one of so many."""
    several = env.has_roles and not request.one_network
    claim = request.claim or method.claim or "signed"
    return prepared(
        *(method, env, *request.outputs),
        preset=request.preset,
        claim=claim,
        environments=environments,
        n=request.n,
        seed=request.seed,
        also=request.also,
        questions=Questions(env, request.seed) if several else None,
        options=request.options,
    )
