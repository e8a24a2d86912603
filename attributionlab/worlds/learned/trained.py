"""A trained network with its certificate: made, and in a file of float16 weights with a digest."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self, get_type_hints

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from attributionlab.base import (
    AttributionLabError,
    ImageSide,
    Seed,
    argument_problems,
    checked_arguments,
    follow,
    format_error,
    refuse_if,
    write_atomically,
)
from attributionlab.worlds.learned import training
from attributionlab.worlds.learned.architectures import ARCHITECTURES, made, refuse_untrainable
from attributionlab.worlds.learned.examination import (
    HeldOut,
    LearnedCertificate,
    examine,
    held_out,
)
from attributionlab.worlds.learned.pictures import Pictures, World, drawn_pictures
from attributionlab.worlds.nets.accumulator import Channels
from attributionlab.worlds.nets.networks import Network
from attributionlab.worlds.rules.rule import Rule
from attributionlab.worlds.truth.masks import Counting

SUFFIX = ".safetensors"
SCHEMA = "1"
STATED = (
    *("image_size", "background", "colors", "color_names", "distractor_colors", "distractors"),
    *("regions", "modulus", "number"),
)
"""Constants that decide, beside the rule, what a network computes; not how it is written."""


class TrainedNetwork(NamedTuple):
    """A trained network with what is known about it.

    `network`: in eval mode, weights of float16 in float32. `rule`: what it learned, as `stated_rule`
    says it. `digest`: of the weights and all else.
    """

    network: nn.Sequential
    rule: str
    recipe: training.Recipe
    certificate: LearnedCertificate

    @property
    def digest(self) -> str:
        """SHA-256 of weights, rule, recipe and certificate."""
        return _digest(_halves(self.network), self._entries())

    def _entries(self) -> dict[str, str]:
        return {
            "written by": "AttributionLab",
            "schema": SCHEMA,
            "rule": self.rule,
            "recipe": json.dumps(self.recipe._asdict(), sort_keys=True),
            "certificate": self.certificate.to_text(),
        }

    def write(self, path: Path) -> None:
        """Write the file, whole or not at all.

        Raises AttributionLabError if it is not certified, or cannot be written.
        """
        if problems := self.certificate.problems:
            raise AttributionLabError(f"the network is not certified: {'; '.join(problems)}")
        metadata = self._entries() | {"digest": self.digest}
        write_atomically(path, _in_order(save(_halves(self.network), metadata)))

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file.

        Raises AttributionLabError for what is no such file, for another digest than its own, for
        weights that are not those of its architecture, and for a certificate that is not reached.
        """
        tensors, entries = _content(path)
        digest = entries.pop("digest", None)
        parts = {"written by", "schema", "rule", "recipe", "certificate"}
        version = (entries.get("written by"), entries.get("schema"))
        kinds = {value.dtype for value in tensors.values()}
        if (
            version != ("AttributionLab", SCHEMA)
            or entries.keys() != parts
            or not kinds <= {torch.float16, torch.int64}
        ):
            raise AttributionLabError(
                f"{path.name} is not a trained network of this version: write it with "
                "attributionlab train"
            )
        if digest != _digest(tensors, entries):
            raise AttributionLabError(
                f"{path.name} has the digest {str(digest)[:16]!r}, but its content has another: it was "
                "changed after certification; write it again with attributionlab train"
            )
        recipe, sizes, certificate = (
            _stated(path, what, entries[what], read)
            for what, read in (
                ("recipe", _recipe),
                ("rule", _sizes),
                ("certificate", LearnedCertificate.from_text),
            )
        )
        if problems := certificate.problems:
            raise AttributionLabError(f"{path.name} is not certified: {'; '.join(problems)}")
        network = _network(path, tensors, recipe, *sizes)
        return cls(network, entries["rule"], recipe, certificate)


def stated_rule(constants: Mapping[str, Any], counting: Counting | Rule, outputs: int) -> str:
    """What a network computes, as JSON that does not depend on how it is written into weights."""
    rule = counting.text if isinstance(counting, Rule) else ""
    stated = {key: constants[key] for key in STATED if key in constants}
    return json.dumps({**stated, "rule": rule, "outputs": outputs}, sort_keys=True)


def rule_of(env: World) -> str:
    """The same of an environment."""
    return stated_rule(env.spec.constants, env.counting, env.network.classes)


def with_trained(exact: Network, trained: TrainedNetwork) -> Network:
    """A trained network in place of the hand-weighted one of its rule, for an environment.

    It has no redundant channels and no budget: nothing about it is exact.
    """
    maps = trained.network[ARCHITECTURES[trained.recipe.architecture].maps]
    return replace(
        exact,
        model=trained.network,
        layers={"gradcam": maps, "iba": maps},
        budgets=[],
        effective={},
        plain=exact.plain or exact.model,
        moves=(f"trained on the rule's outputs ({trained.recipe.samples:,} images)",),
    )


def _halves(network: nn.Module) -> dict[str, Tensor]:
    """Its weights and buffers, those that are no integers as float16, in the order of their names."""
    state = sorted(network.state_dict().items())
    return {
        name: (value.half() if value.is_floating_point() else value).contiguous()
        for name, value in state
    }


def _digest(tensors: Mapping[str, Tensor], entries: Mapping[str, str]) -> str:
    """SHA-256 of tensors and texts with their names."""
    content = hashlib.sha256()
    for name, value in sorted(tensors.items()):
        content.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        content.update(value.contiguous().numpy().tobytes())
    for name, text in sorted(entries.items()):
        content.update(json.dumps([name, text]).encode())
    return content.hexdigest()


def _in_order(file: bytes) -> bytes:
    """A safetensors file whose metadata are in the order of their names; the library has none, so that
    equal content would make files that differ.

    Source: the format's description, https://huggingface.co/docs/safetensors: the header's length in
    eight bytes, the header in JSON, the numbers.
    """
    start = 8 + int.from_bytes(file[:8], "little")
    header = json.loads(file[8:start])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the numbers begin at a multiple of eight
    return len(text).to_bytes(8, "little") + text + file[start:]


def _content(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return tensors, dict(file.metadata() or {})
    except (SafetensorError, OSError) as error:
        raise AttributionLabError(
            f"{str(path)!r} is truncated or not a safetensors file ({format_error(error)}): "
            "write it again with attributionlab train"
        ) from error


def _stated(path: Path, what: str, text: str, read: Callable[[str], Any]) -> Any:
    """What a file says, or one line for what is not as `TrainedNetwork.write` would write it."""
    try:
        return read(text)
    except (
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        raise AttributionLabError(
            f"{path.name} has the {what} {text[:60]!r}, which this version does not know: write it "
            "again with attributionlab train"
        ) from error


def _in_canon(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    if json.dumps(found, sort_keys=True) != text:
        raise ValueError(text)
    return found


def _recipe(text: str) -> training.Recipe:
    found = _in_canon(text)
    refuse_if(argument_problems(found, get_type_hints(training.Recipe, include_extras=True)))
    return training.Recipe(**found)


def _sizes(rule: str) -> tuple[int, int]:
    """Outputs and side of the images."""
    found = _in_canon(rule)
    sizes = {"outputs": found["outputs"], "image_size": found["image_size"]}
    refuse_if(argument_problems(sizes, {"outputs": Channels, "image_size": ImageSide}))
    return sizes["outputs"], sizes["image_size"]


def _network(
    path: Path, tensors: Mapping[str, Tensor], recipe: training.Recipe, outputs: int, side: int
) -> nn.Sequential:
    """The architecture with a file's weights."""
    with torch.random.fork_rng(devices=[]):
        network = made(recipe.architecture, outputs, side)
    wanted = {name: tuple(value.shape) for name, value in network.state_dict().items()}
    found = {name: tuple(value.shape) for name, value in tensors.items()}
    for name in sorted(wanted.keys() | found.keys()):
        if wanted.get(name) != found.get(name):
            raise AttributionLabError(
                f"{path.name}: {name} has the shape {found.get(name)}, and a {recipe.architecture} for "
                f"this rule has {wanted.get(name)} there: write it again with attributionlab train"
            )
    if faulty := [name for name, value in sorted(tensors.items()) if not value.isfinite().all()]:
        raise AttributionLabError(
            f"{path.name}: {faulty[0]} has NaN or infinite weights: write it again with attributionlab "
            "train"
        )
    network.load_state_dict(
        {name: value.to(network.state_dict()[name].dtype) for name, value in tensors.items()}
    )
    return network.eval()


class Lessons(NamedTuple):
    """What networks learn from in a world, and what they are asked."""

    pictures: Pictures
    questions: HeldOut


def lessons_of(env: World, show_progress: bool = False) -> Lessons:
    """Those of a world; they take longer to draw than the smallest network to train."""
    drawn = training.BASE_IMAGES, training.IMAGES_SEED
    return Lessons(
        drawn_pictures(env, *drawn, "training", show_progress),
        held_out(env, show_progress=show_progress),
    )


@checked_arguments
def make_trained(
    env: World,
    architecture: str,
    *,
    seed: Seed = 0,
    samples: training.Samples | None = None,
    lessons: Lessons | None = None,
    show_progress: bool = False,
) -> TrainedNetwork:
    """Train a network on the rule of a world and examine it; whether it is certified, it says.

    Parameters
    ----------
    env, architecture, seed, show_progress
        As for `train_network`.
    samples : int, optional
        How many images it sees; by default `SAMPLES`, or what `SAMPLES_OF` says of the world.
    lessons : Lessons, optional
        What it learns from and what it is asked; drawn by default, the same for all networks of a
        world.

    Returns
    -------
    TrainedNetwork
        With its certificate, passed or not; `TrainedNetwork.write` writes it if it is.
    """
    samples = (
        training.SAMPLES_OF.get(env.spec.name, training.SAMPLES) if samples is None else samples
    )
    recipe = training.Recipe(architecture, seed, samples)
    refuse_untrainable(architecture, env.recipe.image_size)  # before images are drawn
    pictures, questions = lessons_of(env, show_progress) if lessons is None else lessons
    network = training.train_network(
        env, architecture, pictures, seed=seed, samples=samples, show_progress=show_progress
    )
    with follow(f"examining the network of {env.name}", show=show_progress):
        certificate = examine(network, questions)
    return TrainedNetwork(network, rule_of(env), recipe, certificate)
