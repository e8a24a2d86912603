"""An environment of the user's own: any network, with images and a truth that they state."""

import hashlib
import json
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, NoReturn

import numpy as np
import torch
from jaxtyping import Float, Int, Real
from torch import Tensor, nn

from attributionlab.base import (
    AttributionLabError,
    AttributionLabWarning,
    Dependence,
    Name,
    NotNegative,
    Replacement,
    Seed,
    checked_arguments,
    checked_targets,
    dependence,
    has_gradient,
    integer_problem,
    number_problem,
    own_arithmetic,
    plain_problem,
    refuse_if,
    shown,
)
from attributionlab.worlds.environment.admission import refuse_absent
from attributionlab.worlds.environment.environment import PIXELS_AT_ONCE, Environment
from attributionlab.worlds.environment.own_interventions import (
    LEAST_PASSES,
    MOST_QUESTIONS,
    Intervened,
    intervene,
    outputs_of,
)
from attributionlab.worlds.environment.own_truth import OwnTruth, StatedTruth
from attributionlab.worlds.environment.samples import Sample, SampleDataset
from attributionlab.worlds.environment.spec import EnvironmentSpec
from attributionlab.worlds.truth.masks import Output, Truth

SHOWN_PROBLEMS = 3
"""Images whose truth is refuted that a refusal names."""
MOST_PASSES = 100_000
ABSENT = {
    "network": "a network whose weights are set by hand",
    "recipe": "a recipe for images",
    "counting": "pixels that are counted",
    "admission": "colors that are known",
}
"""What an environment of the laboratory has and a user's own has not."""
REFUSED: Mapping[Dependence, list[str]] = {
    "": [],
    "unseeded": ["the model's outputs differ for the same images: make it deterministic"],
    "batch-mixing": [
        "the model's output for an image depends on the others in its batch (for example after a "
        "BatchNorm without running statistics): let it treat each image alone"
    ],
}
"""What is wrong with a network whose output depends on more than the image."""


def enough_passes(name: str, value: int) -> list[str]:
    """What is wrong with a number of interventions, for its annotation."""
    return integer_problem(name, value, LEAST_PASSES, MOST_PASSES) if value else []


@checked_arguments
def custom_environment(
    model: nn.Module,
    images: Float[Tensor, "n channels height width"],
    truth: StatedTruth | Callable[[Tensor, Tensor], StatedTruth],
    *,
    targets: Int[Tensor, " n"] | None = None,
    baseline: Replacement | None = None,
    layers: Mapping[str, nn.Module] | None = None,
    name: Name = "custom",
    interventions: Annotated[int, enough_passes] = 1000,
    tolerance: NotNegative = 0.0,
    seed: Seed = 0,
) -> "CustomEnvironment":
    """Make an environment from your own network, images and truth.

    `faithfulness_test`, `compare` and `attribute` take it like any other. With a baseline, the truth is
    first checked by interventions on the network (`worlds.environment.own_interventions`). All images
    share one network, so maps made without it cannot be excluded: on its own, such an environment gives
    "fail" or "inconclusive", and "pass" only with ``one_network=True``.

    Parameters
    ----------
    model : nn.Module
        In eval mode, float32, on the CPU: (B, C, H, W) -> (B, K). Its outputs are explained as they
        are, and called "logit"; K = 1 is a regression. The model is not copied.
    images : Tensor of float32, (N, C, H, W)
        Finite, in the range that the network takes.
    truth : Tensor, array, Truth or callable
        For each pixel +1 if it raises the explained output, -1 if it lowers it, 0 if it is irrelevant,
        NaN if it is not scored: (N, H, W) or (N, 1, H, W) about `targets`, or (N, K, H, W) about each
        class. An `attributionlab.Truth` of shape (N, 1, H, W) can have pixels that are scored for their
        relevance only. A function of (images, targets) returns one of these for its targets.
    targets : Tensor of int, (N,), optional
        The output explained for each image; by default the largest one.
    baseline : number or Tensor, (C, 1, 1), optional
        The value of an absent pixel. Without it there are no checks by interventions, and methods that
        need a baseline get 0.
    layers : dict of str to nn.Module, optional
        "gradcam" and "iba": where map-based methods attach.
    name : str
        Name in reports; one line of at most 200 characters.
    interventions : int
        Number of images that these checks show the network, 64 to 100,000, or 0 for no checks.
    tolerance : float
        Largest change of the output by a replaced pixel that counts as no change, for trained networks,
        in which no pixel is completely irrelevant. Rounding never counts as a change.
    seed : int
        Seed for the checks.

    Raises
    ------
    AttributionLabError
        With all problems of model, images, truth and options; and if a pixel that is irrelevant by the
        truth changes the output.

    Warns
    -----
    AttributionLabWarning
        If relevant pixels never change the output in the coalitions tried, or only against their sign.

    Examples
    --------
    The network adds up the two columns on the left of an image and ignores the others.

    >>> import torch
    >>> import attributionlab as al
    >>> left = torch.nn.Conv2d(1, 1, 8)
    >>> _ = left.weight.data.zero_()[..., :2].fill_(1)
    >>> model = torch.nn.Sequential(left, torch.nn.Flatten()).eval()
    >>> images = 1 + torch.rand(13, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    >>> truth = torch.zeros(13, 8, 8)
    >>> truth[:, :, :2] = 1
    >>> env = al.custom_environment(model, images, truth, baseline=0)
    >>> al.faithfulness_test("input-x-gradient", env, n=13, one_network=True).verdict
    'pass'
    """
    problems = [
        *_model_problems(model),
        *_images_problems(images),
        *_layers_problems(layers, model),
    ]
    problems += _baseline_problems(baseline, images)
    if not problems:
        outputs, problems = _outputs(model, images)
    refuse_if(problems, "custom_environment")
    env = CustomEnvironment(model, images, outputs, truth, targets, baseline, layers, name)
    if baseline is not None and interventions:
        env._check_truth(interventions, tolerance, seed)
    return env


class CustomEnvironment(Environment):
    """One network of a user's, with their images and the stated truth. Made by `custom_environment`.

    It has what a test needs of an `Environment`, and refuses the rest: other networks, questions, and
    definitions of the truth that follow from counts.

    `images`, `image_targets` (N, C, H, W): the user's images, and the output that is explained in each.
    `intervened`: what interventions found; None where nothing was checked.
    """

    has_roles: ClassVar[bool] = False
    _one_output: ClassVar[str] = "network of the user's"

    def __init__(
        self,
        model: nn.Module,
        images: Tensor,
        outputs: Tensor,
        truth: Any,
        targets: Any,
        baseline: Any,
        layers: Mapping[str, nn.Module] | None,
        name: str,
    ) -> None:
        self.name = self.reference = name
        self.maker = "custom_environment"
        self.overrides = {} if name == "custom" else {"name": name}
        self.model, self.layers = model, dict(layers or {})
        self.softmax_model = self.temperature = None
        self.device = torch.device("cpu")
        self.images = images.detach().clone(memory_format=torch.contiguous_format)
        self.classes = outputs.shape[1]
        self.image_shape = tuple(images.shape[1:])  # type: ignore[assignment]
        # The length of the value range, 0 included: what methods scale noise with.
        length = images.max().clamp(min=0) - images.min().clamp(max=0)
        self.max_value = float(length) or 1.0  # type: ignore[assignment]
        self.image_targets = (
            outputs.argmax(1) if targets is None else self._checked(targets, len(images))
        )
        self.own_truth = OwnTruth(truth, self.images, self.image_targets, self.classes)
        self.baseline = torch.zeros(images.shape[1], 1, 1)
        if baseline is not None:
            value = baseline if isinstance(baseline, Tensor) else torch.tensor(float(baseline))
            self.baseline = self.baseline + value.detach().cpu().float()
        self.intervened: Intervened | None = None
        self.tolerance = 0.0
        self.spec = self._spec()

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse what only an environment of the laboratory has."""
        if name in ABSENT:
            raise AttributionLabError(
                f"{self.name} is a user's own environment without {ABSENT[name]}, which this requires: "
                f"take one of attributionlab.environments() or attributionlab.world"
            )
        raise AttributeError(name)

    def __repr__(self) -> str:
        size = " x ".join(map(str, self.image_shape))
        return f"CustomEnvironment({self.name!r}, {self.task}, {len(self.images)} images of {size})"

    def _spec(self) -> EnvironmentSpec:
        """A specification whose digest is that of weights, images, truth and its checks."""
        weights, data = hashlib.sha256(repr(self.model).encode()), hashlib.sha256()
        for key, values in self.model.state_dict().items():
            weights.update(key.encode())
            if isinstance(values, Tensor):
                weights.update(values.detach().cpu().contiguous().numpy().tobytes())
        masks = [
            part
            for each in self.own_truth.maps
            for part in (each.signed, each.relevant, each.asked)
        ]
        for values in (self.images, self.image_targets, self.baseline, *masks):
            data.update(values.cpu().contiguous().numpy().tobytes())
        _, height, width = self.image_shape
        found = self.intervened
        return EnvironmentSpec(
            name=self.name,
            claim="What the user states.",
            formula="the user's network",
            source="the user's network, images and truth",
            builder="custom",
            generator="custom",
            constants={
                "image_size": height if height == width else [height, width],
                "images": len(self.images),
                "network": weights.hexdigest()[:16],
                "data": data.hexdigest()[:16],
                # For reports: what was checked of the truth.
                "interventions": found.passes if found else 0,
                "tolerance": self.tolerance,
                "unmoved": len(found.unmoved) if found else 0,
                "opposed": len(found.opposed) if found else 0,
            },
            size=len(self.images),
            seed=0,
        )

    def _samples(self, n: int, seed: int) -> SampleDataset:
        """As many of the images, drawn without replacement; labels are the targets."""
        if n > len(self.images):
            raise AttributionLabError(
                f"n is {n}, and there are {len(self.images)} images: take a smaller n, or pass more "
                "images to custom_environment"
            )
        return OwnSamples(self, n, seed)

    @checked_arguments
    @own_arithmetic()
    def truth(
        self,
        images: Real[Tensor, "batch channels height width"],
        targets: Int[Tensor, " batch"] | Sequence[int],
        output: Output | None = None,
    ) -> Truth:
        """The truth that was stated for images and targets, as of `Environment.truth`.

        Raises AttributionLabError for other images or targets than those whose truth was stated. A
        truth that is a function answers for any image.
        """
        self.checked_output(output)
        if images.shape[1:] != self.image_shape:
            wanted = f"(N, {', '.join(map(str, self.image_shape))})"
            raise AttributionLabError(
                f"images are {shown(images)}: pass a tensor of shape {wanted}"
            )
        targets = self._checked(targets, len(images))
        return self.own_truth(images.detach().cpu().float(), targets).to(images.device)

    def _checked(self, targets: Any, n: int) -> Tensor:
        """Targets that the network has."""
        indices = torch.tensor(checked_targets(targets, n))
        refuse_absent(indices, self.classes, self.name)
        return indices

    @own_arithmetic()
    def _check_truth(self, passes: int, tolerance: float, seed: int) -> None:
        """Hold the truth against the network; refuse it, or warn of what does not support it."""
        generator = torch.Generator().manual_seed(seed)
        questions = min(len(self.images), MOST_QUESTIONS, passes // LEAST_PASSES)
        truths = []
        for index in torch.randperm(len(self.images), generator=generator)[:questions].tolist():
            target = self.image_targets[index : index + 1]
            if self.own_truth.has_all_targets:
                target = torch.randint(self.classes, (1,), generator=generator)
            image = self.images[index : index + 1]
            truths.append((index, int(target), self.own_truth(image, target)))
        found = intervene(
            self.model, self.images, truths, self.baseline, passes, tolerance, generator
        )
        if found.wrong:
            listed = "; ".join(found.wrong[:SHOWN_PROBLEMS])
            raise AttributionLabError(
                f"{self.name}: in {len(found.wrong)} of {questions} images checked the truth is wrong. "
                f"{listed}: mark such pixels +1 or -1, or NaN if they are not asked, or state the "
                "baseline that the truth refers to, or a tolerance for negligible changes"
            )
        for notice in found.notices():
            warnings.warn(f"{self.name}: {notice}", AttributionLabWarning, stacklevel=4)
        self.intervened, self.tolerance = found, tolerance
        self.spec = self._spec()

    def summary(self) -> str:
        """What it consists of, and what was checked of the truth, as plain text."""
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        names = {module: path for path, module in self.model.named_modules()}
        maps = "a function of images and targets"
        if self.own_truth.function is None:
            maps = "for every output" if self.own_truth.has_all_targets else "for a target each"
        stated = self.own_truth.maps
        kinds = {
            "positive": sum(int(each.positive.sum()) for each in stated),
            "negative": sum(int(each.negative.sum()) for each in stated),
            "relevant without a sign": sum(int(each.mixed.sum()) for each in stated),
            "not asked": sum(int((~each.asked).sum()) for each in stated),
        }
        pixels = sum(each.signed.numel() for each in stated)
        rows = {
            "network": f"{type(self.model).__name__}, {parameters:,} parameters",
            "task": f"{self.task}, {self.classes} output{'s' * (self.classes > 1)}",
            "images": f"{len(self.images)} of " + " x ".join(map(str, self.image_shape)),
            "truth": f"{maps}; of {pixels:,} pixels: "
            + ", ".join(f"{count:,} {kind}" for kind, count in kinds.items()),
            "baseline": json.dumps(self.baseline.flatten().tolist()),
            "attach": ", ".join(f"{k}: model.{names[layer]}" for k, layer in self.layers.items())
            or "no layers named",
            **self._gradient(),
            **self._checks(),
            "a pass": "does not show that maps depend on the network or the target: no other networks "
            "are available in which pixels have other roles",
            "spec": self.spec.digest[:16],
        }
        return "\n".join([self.name, *(f"  {key:<20} {value}" for key, value in rows.items())])

    def _gradient(self) -> dict[str, str]:
        """That the network has no gradient, where it has none."""
        if has_gradient(self.model, self.images[:1].to(self.device)):
            return {}
        return {"gradient": "none reaches the images: take a method that needs no gradient"}

    def _checks(self) -> dict[str, str]:
        """What interventions found, and what they left out."""
        found = self.intervened
        if found is None:
            return {"interventions": "none: the truth is as stated and not checked"}
        images = ", ".join(map(str, sorted(found.images)))
        precision = str(found.dtype).removeprefix("torch.")
        return {
            "interventions": f"{found.passes:,} forward passes in {precision}, one target each of the "
            f"images {images}",
            "  irrelevant": f"{found.null:,} pixels tried in random sets, of which none changed the "
            "output" + (f" (by more than {self.tolerance:g})" if self.tolerance else ""),
            "  relevant": f"{found.tried:,} pixels tried, of which {len(found.unmoved):,} never "
            f"changed the output and {len(found.opposed):,} only against their sign",
            "  not checked": "other images, targets and coalitions; pixels that are not scored",
        }


class OwnSamples(SampleDataset):
    """Samples 0 to n - 1 of a user's images, in an order that the seed draws."""

    def __init__(self, env: CustomEnvironment, n: int, seed: int) -> None:
        self.env, self.n, self.seed = env, n, seed
        self.order = np.random.default_rng(seed).permutation(len(env.images))

    def _sample(self, index: int) -> Sample:
        row = int(self.order[index])
        image = self.env.images[row].clone()
        patches = torch.zeros(image.shape[1:], dtype=torch.int64)
        return Sample(image, self.env.image_targets[row], patches)


def _model_problems(model: nn.Module) -> list[str]:
    """What a test of its own network needs beside what any call needs."""
    tensors = [*model.named_parameters(), *model.named_buffers()]
    double = [
        f"{name} is {values.dtype}: call model.float()"
        for name, values in tensors
        if values.is_floating_point() and values.dtype != torch.float32
    ]
    away = [
        f"{name} is on {values.device}: call model.cpu(), and env.to(...) later"
        for name, values in tensors
        if values.device.type != "cpu"
    ]
    return [*double[:1], *away[:1]]


def _images_problems(images: Tensor) -> list[str]:
    """What is wrong with images beside their shape."""
    if not images.numel():
        return [f"images are {shown(images)}: pass a tensor (N, C, H, W) that is not empty"]
    problems = []
    if images.dtype != torch.float32:
        problems.append(f"images are {images.dtype}: pass images.float()")
    if images.device.type != "cpu":
        problems.append(f"images are on {images.device}: pass images.cpu()")
    wrong = ~images.isfinite()
    if wrong.any():
        image, channel, y, x = (int(place) for place in wrong.nonzero()[0])
        problems.append(
            f"images have {int(wrong.sum())} values that are NaN or infinite, the first in image "
            f"{image}, channel {channel}, pixel {(y, x)}: pass finite ones"
        )
    return problems


def _baseline_problems(baseline: Any, images: Tensor) -> list[str]:
    """What is wrong with the value of absent pixels."""
    if baseline is None:
        return []
    if not isinstance(baseline, Tensor):
        most = torch.finfo(torch.float32).max
        return number_problem("baseline", baseline) or number_problem(
            "baseline", baseline, least=-most, most=most
        )
    if plain_problem("baseline is", baseline):
        return plain_problem("baseline is", baseline)
    shape = (images.shape[1], 1, 1)
    shape_fits = baseline.shape in (torch.Size(shape), torch.Size([]))
    if not shape_fits or not baseline.float().isfinite().all():
        return [
            f"baseline is {shown(baseline)}: pass a number, or finite ones of shape {shape}, a value "
            "for each channel, within the range of float32"
        ]
    return []


def _layers_problems(layers: Mapping[str, nn.Module] | None, model: nn.Module) -> list[str]:
    """What is wrong with layers to attach to."""
    own = set(model.modules())
    return [
        f"layers[{key!r}] is {shown(layer)}, not a module of the model: pass one of model.modules()"
        for key, layer in (layers or {}).items()
        if layer not in own
    ]


@own_arithmetic()
def _outputs(model: nn.Module, images: Tensor) -> tuple[Tensor, list[str]]:
    """The network's outputs for all images, and what is wrong with them."""
    at_once = max(1, PIXELS_AT_ONCE // math.prod(images.shape[2:]))
    try:
        outputs = [outputs_of(model, some) for some in torch.split(images, at_once)]
        again = outputs_of(model, images[:at_once])
    except AttributionLabError as error:
        return images, [str(error)]
    if len({each.shape[1] for each in outputs}) > 1:
        return images, ["the number of the model's outputs depends on the images: return (B, K)"]
    found = torch.cat(outputs)
    if not found.is_floating_point():
        return images, [
            f"the model's outputs are {found.dtype}: return floating-point numbers, outputs.float() "
            "for example; integers have no gradient"
        ]
    if not found.isfinite().all():
        image = int((~found.isfinite()).nonzero()[0, 0])
        return images, [f"the model's output for image {image} is NaN or infinite: fix the model"]
    kind = "unseeded" if not torch.equal(again, outputs[0]) else dependence(model, images)
    return found, REFUSED[kind]
