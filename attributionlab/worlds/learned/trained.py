"""A trained network with its certificate: made, and in a file of float16 weights with a digest."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from attributionlab.base import (
    AttributionLabError,
    Count,
    Seed,
    checked_arguments,
    format_error,
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
        parts = ("rule", "recipe", "certificate")
        version = (entries.get("written by"), entries.get("schema"))
        if version != ("AttributionLab", SCHEMA) or not set(parts) <= entries.keys():
            raise AttributionLabError(
                f"{path.name} is not a trained network of this version: write it with "
                "attributionlab train"
            )
        if digest != _digest(tensors, entries):
            raise AttributionLabError(
                f"{path.name} has the digest {str(digest)[:16]!r}, but its content has another: it was "
                "changed after certification; write it again with attributionlab train"
            )
        recipe = _recipe(path, entries["recipe"])
        certificate = LearnedCertificate.from_text(entries["certificate"])
        if problems := certificate.problems:
            raise AttributionLabError(f"{path.name} is not certified: {'; '.join(problems)}")
        network = _network(path, tensors, recipe, entries["rule"])
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


def _recipe(path: Path, text: str) -> training.Recipe:
    try:
        recipe = training.Recipe(**json.loads(text))
    except (ValueError, TypeError) as error:
        raise AttributionLabError(
            f"{path.name} has the recipe {text[:60]!r}, which this version does not know: write "
            "it again with attributionlab train"
        ) from error
    return recipe


def _network(
    path: Path, tensors: Mapping[str, Tensor], recipe: training.Recipe, rule: str
) -> nn.Sequential:
    """The architecture with a file's weights."""
    try:
        outputs, side = (int(json.loads(rule)[key]) for key in ("outputs", "image_size"))
    except (ValueError, TypeError, KeyError) as error:
        raise AttributionLabError(
            f"{path.name} has the rule {rule[:60]!r}, which this version does not know: write it again "
            "with attributionlab train"
        ) from error
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
    network.load_state_dict(
        {name: value.to(network.state_dict()[name].dtype) for name, value in tensors.items()}
    )
    return network.eval()


class Lessons(NamedTuple):
    """What networks learn from in a world, and what they are asked."""

    pictures: Pictures
    questions: HeldOut


def lessons_of(env: World) -> Lessons:
    """Those of a world; they take longer to draw than the smallest network to train."""
    return Lessons(drawn_pictures(env, training.BASE_IMAGES, training.IMAGES_SEED), held_out(env))


@checked_arguments
def make_trained(
    env: World,
    architecture: str,
    *,
    seed: Seed = 0,
    samples: Count | None = None,
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
    pictures, questions = lessons_of(env) if lessons is None else lessons
    network = training.train_network(
        *(env, architecture, pictures),
        seed=seed,
        samples=samples,
        show_progress=show_progress,
    )
    certificate = examine(network, questions)
    return TrainedNetwork(network, rule_of(env), recipe, certificate)
