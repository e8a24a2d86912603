"""A rule with all that decides its value: expressions, colors, regions, the size of the image."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Int, Real
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.base import AttributionLabError, ImageSide, checked_arguments, refuse_if
from attributionlab.worlds.images.checks import Color
from attributionlab.worlds.images.regions import KNOWN_REGIONS, Rectangle, region_problems
from attributionlab.worlds.images.scenes import EACH, NOTHING
from attributionlab.worlds.images.shades import Shades, Shading, Spread
from attributionlab.worlds.rules.expressions import Count, Expression, counts_in, evaluate, ties
from attributionlab.worlds.rules.game import RuleGame, rule_game
from attributionlab.worlds.rules.parsing import RESERVED, parse
from attributionlab.worlds.rules.places import Places
from attributionlab.worlds.truth.masks import Output, Truth

RuleText = str | tuple[tuple[str, str], ...]
"""The text of one output (a regression), or for each class its name and its text."""
SHARE = re.compile(r"\{(0?\.\d+|0|1)\}")
"""A number of pixels as a share of the image, in the text of a rule."""
RegionEdges = tuple[str, float, float, float, float]
"""A region of one's own: name, then top, left, bottom and right edge as fractions of the side."""


@dataclass(frozen=True, eq=False)
class Rule:
    """What a world computes, as its text states it; made by `read_rule`.

    - `expressions`: one for each output.
    - `names`: the classes; empty for a regression.
    - `places`: colors with their shades, regions and the size of the image.
    - `background`: the true baseline, which nothing counts.
    """

    expressions: tuple[Expression, ...]
    names: tuple[str, ...]
    places: Places
    background: Color

    modulus = None
    """A rule has remainders inside, and none behind everything."""

    @cached_property
    def counts_used(self) -> tuple[Count, ...]:
        """The counts that it reads, each once."""
        return tuple(sorted({count for each in self.expressions for count in counts_in(each)}))

    def counts(
        self, images: Real[Tensor, "batch channels height width"]
    ) -> Int[Tensor, "batch counts"]:
        """The counts that it reads, of each image."""
        rows = [self.places.count(image.cpu().numpy(), self.counts_used) for image in images]
        return torch.tensor([[row[count] for count in self.counts_used] for row in rows])

    def classes_of(
        self, images: Real[Tensor, "batch channels height width"]
    ) -> Int[Tensor, "batch 1 height width"]:
        """0 for each pixel that a count of the rule sees, -1 for all others."""
        masks = [
            np.any([self.places.seen(image.cpu().numpy(), each) for each in self.counts_used], 0)
            for image in images
        ]
        return torch.from_numpy(np.stack(masks)[:, None].astype(np.int64) - 1).to(images.device)

    @property
    def text(self) -> RuleText:
        """The rule as text, as `attributionlab.world` takes it."""
        texts = [str(each) for each in self.expressions]
        return tuple(zip(self.names, texts, strict=True)) if self.names else texts[0]

    def outputs(
        self, images: Real[Tensor, "batch channels height width"]
    ) -> Int[Tensor, "batch outputs"]:
        """The logits, from counting pixels: nothing here knows the network."""
        rows = [self.logits_of(image.cpu().numpy()) for image in images]
        return torch.tensor(rows, dtype=torch.int64).reshape(len(rows), -1)

    def logits_of(self, image: NDArray[Any]) -> list[int]:
        """The logits of one image (C, H, W)."""
        counts = self.places.count(image, self.counts_used)
        return [int(evaluate(each, counts)) for each in self.expressions]

    def ties(self, image: Real[Tensor, "channels height width"]) -> int:
        """How many equal counts decide a minimum or maximum of the first output (`ties`)."""
        counts = self.places.count(image.cpu().numpy(), self.counts_used)
        return ties(self.expressions[0], counts)

    def truth(
        self,
        images: Real[Tensor, "batch channels height width"],
        targets: Int[Tensor, " batch"],
        output: Output,
        temperature: float | None = None,
        *,
        strict: bool = False,
    ) -> Truth:
        """What the network used, as far as it is asked (`worlds.rules.game.asked`), or at the
        strict level (`attributionlab.worlds.rules.game.strict`).
        """
        games = [
            self.game(image, int(target), output, temperature)
            for image, target in zip(images, targets, strict=True)
        ]
        found = [game.strict() if strict else game.asked() for game in games]
        return Truth.joined([each.truth() for each in found]).to(images.device)

    def game(
        self,
        image: Real[Tensor, "channels height width"],
        target: int,
        output: Output,
        temperature: float | None = None,
    ) -> RuleGame:
        """The game of an image's pixels, present or with the true baseline's value."""
        place = None if output == "logit" else temperature
        return rule_game(image, self.places, self.expressions, target, output, place)

    def is_degenerate(self, image: Real[Tensor, "channels height width"]) -> bool:
        """Whether two classes tie for the most, or no pixel is relevant for the one output."""
        logits = sorted(self.logits_of(image.cpu().numpy()))
        if self.names:
            return logits[-1] == logits[-2]
        if logits[0] != int(evaluate(self.expressions[0], dict.fromkeys(self.counts_used, 0))):
            return (
                False  # some pixel changes it on the way to the baseline; the game takes far longer
            )
        return not bool(self.game(image, 0, "logit").asked().relevant.any())

    def labels(self, images: Real[Tensor, "batch channels height width"]) -> Int[Tensor, " batch"]:
        """The winning class (the first of equals), or the one output."""
        outputs = self.outputs(images)
        return outputs.argmax(1) if self.names else outputs[:, 0]


@checked_arguments
def read_rule(
    rule: RuleText,
    *,
    image_size: ImageSide,
    colors: Sequence[Color],
    color_names: Sequence[str],
    background: Color,
    regions: Sequence[RegionEdges] = (),
    shades: Shades = 1,
    spread: Spread = 0,
) -> Rule:
    """Read a rule for images of one size.

    - `rule`: an expression as `worlds.rules.parsing.parse` takes it, or name and expression of
      each class. "{0.02}" is 2 % of the image's pixels, rounded.
    - `colors`, `color_names`: the colors that the detector knows, and their names.
    - `background`: the true baseline.
    - `regions`: regions of one's own: name, then top, left, bottom and right edge as fractions of the
      side.
    - `shades`, `spread`: which values stand for each color (`worlds.images.shades.Shading`).

    Raises AttributionLabError with all that is wrong with it.
    """
    own: dict[str, Rectangle] = {region[0]: region[1:] for region in regions}
    problems = region_problems(own, image_size)
    problems += _name_problems(color_names, own)
    if len(colors) != len(color_names):
        problems.append(f"color_names is {tuple(color_names)} for {len(colors)} colors")
    problems += [
        f"{name} has the background's color {color}: take another"
        for name, color in zip(color_names, colors, strict=False)
        if tuple(color) == tuple(background)
    ]
    shading = Shading(shades, spread)
    problems += shading.problems(
        dict(zip(color_names, colors, strict=False)) | {"background": background}
    )
    texts = [("", rule)] if isinstance(rule, str) else list(rule)
    names = tuple(name for name, _ in texts if name)
    if not isinstance(rule, str) and (len(texts) < 2 or len(set(names)) < len(texts)):
        problems.append(
            f"rule has the classes {list(names)}: give at least two, each with a name of its own, or "
            "one text for a regression"
        )
    expressions = []
    for name, text in texts:
        try:
            text = SHARE.sub(lambda share: str(round(float(share[1]) * image_size**2)), text)
            expressions.append(parse(text, color_names, (*KNOWN_REGIONS, *own)))
        except AttributionLabError as error:
            problems.append(f"class {name!r}: {error}" if name else str(error))
    refuse_if(problems)
    places = Places(dict(zip(color_names, colors, strict=True)), image_size, own, shading)
    return Rule(tuple(expressions), names, places, background)


def _name_problems(color_names: Sequence[str], regions: Mapping[str, Rectangle]) -> list[str]:
    """Names that expressions could not tell apart."""
    problems = []
    for name in color_names:
        if not name.isidentifier() or name in (*RESERVED, EACH, NOTHING):
            problems.append(f"a color is named {name!r}: take another name, of letters and _")
        elif name in (*KNOWN_REGIONS, *regions):
            problems.append(f"a color is named {name!r}, like a region: take another name")
    return problems
