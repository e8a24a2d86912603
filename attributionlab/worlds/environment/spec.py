"""What an environment is made from, and what follows from that without looking at the network."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from jaxtyping import Real
from torch import Tensor

from attributionlab.worlds.images.shades import Shading
from attributionlab.worlds.rules.rule import Rule, read_rule
from attributionlab.worlds.truth.masks import Counting

RULE_CONSTANTS = (
    *("rule", "image_size", "colors", "color_names", "background", "regions"),
    *Shading._fields,
)
"""Constants that say what a rule means; those of shades need not be there."""
SENTENCES = {"claim", "formula", "source"}
"""Fields of a specification that are for readers: better words make no other environment."""


@dataclass(frozen=True)
class EnvironmentSpec:
    """Everything an environment is made from, as the catalog or a user's TOML states it.

    - `name`, `claim`, `formula`, `source`: what it is called, what it computes in a sentence and as a
      formula, and where that stands.
    - `builder`, `generator`: which network and which images.
    - `constants`: constants of the two, keys unique over both.
    - `size`, `seed`: how many samples `Environment.dataset` has and from which seed, unless said
      otherwise.
    - `hidden`: what each question draws anew, see `attributionlab.worlds.environment.hidden`.
    """

    name: str
    claim: str
    formula: str
    source: str
    builder: str
    generator: str
    constants: Mapping[str, Any] = field(hash=False)
    size: int
    seed: int
    hidden: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def digest(self) -> str:
        """SHA-256 of all of it except for the sentences about it, the same on every machine."""
        decisive = {key: value for key, value in asdict(self).items() if key not in SENTENCES}
        text = json.dumps(decisive, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def is_trained(self) -> bool:
        """Whether the network is a trained one, near to the rule; the truth is the rule's."""
        return "trained" in self.constants

    def with_constants(self, **changed: Any) -> Self:
        """The same with some other constants."""
        return replace(self, constants=dict(sorted({**self.constants, **changed}.items())))


def known_colors(spec: EnvironmentSpec) -> tuple[tuple[int, ...], ...]:
    """Values on which no redundant channel fires: of counted colors, distractors, the background."""
    constants = spec.constants
    colors = (*constants["colors"], *shown_distractors(constants), constants["background"])
    return tuple(shade for color in colors for shade in shading_of(spec).of(color))


def shading_of(spec: EnvironmentSpec) -> Shading:
    """Which values stand for each color."""
    stated = {key: spec.constants[key] for key in Shading._fields if key in spec.constants}
    return Shading(**stated)


def flattened(
    spec: EnvironmentSpec, images: Real[Tensor, "batch channels height width"]
) -> Real[Tensor, "batch channels height width"]:
    """Images with each color in place of its shades; in most environments a color has no others."""
    shading = shading_of(spec)
    if shading.shades == 1:
        return images
    return shading.flattened(images, [*spec.constants["colors"], spec.constants["background"]])


def shown_distractors(constants: Mapping[str, Any]) -> tuple[tuple[int, ...], ...]:
    """The distractor colors that the images show: each distractor patch takes the next one."""
    colors: tuple[tuple[int, ...], ...] = constants.get("distractor_colors", ())
    return colors[: constants.get("distractors", 0)]


def counting_of(spec: EnvironmentSpec) -> Counting | Rule:
    """What counts, from the constants alone and not from the network: two independent parts."""
    constants = spec.constants
    if spec.builder == "rule":
        return read_rule(**{key: constants[key] for key in RULE_CONSTANTS if key in constants})
    if "colors" in constants:
        return Counting(tuple(constants["colors"]))
    if "number" in constants:
        return Counting(((constants["number"],),))
    return Counting(((1,),), constants.get("modulus"))
