r"""A user's truth held against their network by interventions: forward passes with pixels replaced.

The game is "present or baseline": pixels of a set S have the baseline's value, and f(S) is the
explained output. For each image and target that is drawn:

- An irrelevant pixel is a null player: f(S + T) = f(S) for every S and every set T of irrelevant
  pixels. Pairs of passes compare the two for all irrelevant pixels T at once, with all others present
  (S empty) and with all others absent, then for random S and T: half of the pixels each. Where they
  differ, bisection finds a pixel: replace the first k pixels of T; the change is within the tolerance
  for k = 0 and beyond it for k = \|T\|, so there is a k at which the next pixel takes it beyond.
- A relevant pixel changes the output in some coalition. Each is replaced alone; then all that are tried
  are put back in random orders, one after the other, before irrelevant pixels that are present and
  others of which half are absent throughout: a pass for each pixel and order.

Passing is no proof: of :math:`2^{HW}` coalitions some are tried. A pixel whose effect shows only in
others is not refuted.
"""

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor, nn

from attributionlab.base import (
    AttributionLabError,
    checked_outputs,
    format_error,
    in_one_line,
    place_of,
    plain_problem,
    refuse_if,
)
from attributionlab.worlds.environment.environment import PIXELS_AT_ONCE
from attributionlab.worlds.truth.masks import Truth

MOST_QUESTIONS = 8
"""Images that share the passes."""
PAIRS = 8
"""Pairs of passes for the irrelevant pixels of an image."""
MOST_ORDERS = 8
LEAST_PASSES = 64
"""With fewer an image has no passes left for its relevant pixels."""
ROUNDING = {torch.float64: 2.0**-30, torch.float32: 2.0**-14}
"""What counts as rounding, as a share of the largest number among outputs, image and baseline: 2^23 and
2^10 times the unit roundoffs 2^-53 and 2^-24, for what a network sums in between."""


@dataclass
class Intervened:
    """What interventions found."""

    images: list[int]
    """which were drawn"""
    dtype: torch.dtype
    passes: int = 0
    wrong: list[str] = field(default_factory=list)
    """irrelevant pixels that change the output, at most one an image"""
    null: int = 0
    """irrelevant pixels, all of those in these images"""
    tried: int = 0
    """relevant pixels that were replaced alone, and in random orders"""
    unmoved: list[tuple[int, int, int]] = field(default_factory=list)
    """image, row, column of those that never changed the output"""
    opposed: list[tuple[int, int, int]] = field(default_factory=list)
    """of those with a sign that changed it in the other direction only"""

    def notices(self) -> list[str]:
        """What does not refute the truth, and does not support it either."""
        found = []
        unmoved = "never changed the output", "mark them 0, or NaN if they are not scored"
        opposed = "changed the output only against their sign", "check their signs"
        for places, (what, remedy) in ((self.unmoved, unmoved), (self.opposed, opposed)):
            if places:
                image, *pixel = places[0]
                found.append(
                    f"{len(places):,} of {self.tried:,} relevant pixels tried {what} (the first: "
                    f"image {image}, pixel {tuple(pixel)}): {remedy}"
                )
        return found


def intervene(
    model: nn.Module,
    images: Float[Tensor, "batch channels height width"],
    truths: Sequence[tuple[int, int, Truth]],
    baseline: Float[Tensor, "channels 1 1"],
    passes: int,
    tolerance: float,
    generator: torch.Generator,
) -> Intervened:
    """Hold truths against a network.

    - `truths`: image, target, and the truth of the two, (1, 1, H, W), at most `MOST_QUESTIONS`.
    - `passes`: how many images the network may be shown, at least `LEAST_PASSES` for each truth;
      bisections of wrong pixels come on top.
    - `tolerance`: change of the output that counts as none, beside rounding.
    """
    model, dtype = _precise(model, images[:1])
    found = Intervened([image for image, _, _ in truths], dtype)
    for index, target, truth in truths:
        game = _Game(model, images[index].to(dtype), index, baseline.to(dtype), target, tolerance)
        asked, relevant, signed = (
            each.flatten() for each in (truth.asked, truth.relevant & truth.asked, truth.signed)
        )
        null = asked & ~relevant
        found.null += int(null.sum())
        if null.any():
            found.wrong += _wrong_null(game, null, generator)
        _try_relevant(found, game, relevant, null, signed, passes // len(truths), generator)
        found.passes += game.passes
    return found


@torch.no_grad()
def outputs_of(
    model: nn.Module, images: Float[Tensor, "batch channels height width"]
) -> Float[Tensor, "batch outputs"]:
    """The outputs of a user's network, which may raise anything and must leave the images alone."""
    given = images.clone()
    with in_one_line(
        lambda error: (
            f"model raised {format_error(error)}, given images {tuple(images.shape)}"
            f"{place_of(error)}: repair it"
        )
    ):
        outputs = model(given)
    if isinstance(outputs, Tensor):
        refuse_if(plain_problem("the model's output is", outputs))
    rows = checked_outputs(outputs, len(images))
    if not rows.numel():
        raise AttributionLabError(
            f"the model's output is {tuple(outputs.shape)}: pass one with at least one output"
        )
    if not torch.equal(given, images):
        raise AttributionLabError(
            "the model changes its input: let it work on images.clone(), and its first layer without "
            "inplace=True"
        )
    return rows


class _Game:
    """The output of one image with pixels replaced."""

    def __init__(
        self,
        model: nn.Module,
        image: Tensor,
        index: int,
        baseline: Tensor,
        target: int,
        tolerance: float,
    ) -> None:
        self.model, self.image, self.index, self.target = model, image, index, target
        self.baseline = baseline.expand_as(image)
        self.passes, self.least = 0, tolerance
        self.largest = float(torch.maximum(image.abs(), self.baseline.abs()).max())

    def __call__(self, absent: Bool[Tensor, "sets pixels"]) -> Float64[Tensor, " sets"]:
        """The output of each set of absent pixels."""
        shape = self.image.shape[1:]
        at_once = max(1, PIXELS_AT_ONCE // math.prod(shape))
        outputs = []
        for start in range(0, len(absent), at_once):
            masks = absent[start : start + at_once].reshape(-1, 1, *shape)
            images = torch.where(masks, self.baseline, self.image)
            outputs.append(outputs_of(self.model, images)[:, self.target])
        self.passes += len(absent)
        values = torch.cat(outputs).double()
        wrong = values[~values.isfinite()]
        if len(wrong):
            raise AttributionLabError(
                f"image {self.index}: output {self.target} of the model is {float(wrong[0])} where "
                "pixels have the baseline's value: state a baseline that it accepts, or fix the model"
            )
        self.largest = max(self.largest, float(values.abs().max()))
        return values

    @property
    def tolerance(self) -> float:
        """The largest change that is none."""
        return max(self.least, ROUNDING[self.image.dtype] * self.largest)


def _precise(model: nn.Module, image: Tensor) -> tuple[nn.Module, torch.dtype]:
    """A copy of the network in float64, where rounding hides least; itself if it does not run so."""
    try:
        double = deepcopy(model).double()
        with torch.no_grad():
            if double(image.double()).dtype == torch.float64:
                return double, torch.float64
    except (Exception, SystemExit):  # a stranger's code may fail in any way
        pass
    return model, torch.float32


def _wrong_null(game: _Game, null: Tensor, generator: torch.Generator) -> list[str]:
    """A pixel called irrelevant that changes the output, in a sentence; nothing without any."""
    others = torch.rand(PAIRS, len(null), generator=generator) < 0.5
    replaced = torch.rand(PAIRS, len(null), generator=generator) < 0.5
    others[0], others[1], replaced[:2] = False, True, True
    others, replaced = others & ~null, replaced & null
    before, after = game(torch.cat([others, others | replaced])).chunk(2)
    changed = ((after - before).abs() > game.tolerance).nonzero()
    if not len(changed):
        return []
    pair = int(changed[0])
    order = replaced[pair].nonzero().flatten()
    outputs = {0: float(before[pair]), len(order): float(after[pair])}
    low, high = 0, len(order)
    while high - low > 1:
        middle = (low + high) // 2
        absent = others[pair].clone()
        absent[order[:middle]] = True
        outputs[middle] = float(game(absent[None])[0])
        if abs(outputs[middle] - outputs[0]) > game.tolerance:
            high = middle
        else:
            low = middle
    width = game.image.shape[2]
    pixel = divmod(int(order[high - 1]), width)
    beside = int(others[pair].sum()) + low
    with_others = f" (with {beside:,} other pixels replaced)" if beside else ""
    return [
        f"image {game.index}, pixel {pixel}: irrelevant by the truth, but the baseline's value there "
        f"changes output {game.target} from {outputs[low]:.7g} to {outputs[high]:.7g}{with_others}"
    ]


def _try_relevant(
    found: Intervened,
    game: _Game,
    relevant: Tensor,
    null: Tensor,
    signed: Tensor,
    passes: int,
    generator: torch.Generator,
) -> None:
    """Add what relevant pixels change, alone and in random orders."""
    pixels = relevant.nonzero().flatten()
    left = passes - game.passes
    most = max(1, left // 2 - 1)  # one pass alone and one in an order
    pixels = pixels[torch.randperm(len(pixels), generator=generator)[:most]].sort().values
    count = len(pixels)
    if not count:
        return
    alone = torch.zeros(count + 1, len(relevant), dtype=torch.bool)
    alone[torch.arange(count), pixels] = True
    outputs = game(alone)
    changes = [outputs[-1] - outputs[:-1]]
    for _ in range(min(MOST_ORDERS, max(1, (left - count - 1) // (count + 1)))):
        order = torch.randperm(count, generator=generator)
        arrives = torch.empty(count, dtype=torch.int64)
        arrives[order] = torch.arange(count)
        steps = (torch.rand(len(relevant), generator=generator) < 0.5) & ~null
        absent = steps.repeat(count + 1, 1)  # of those not tried half are absent throughout
        absent[:, pixels] = torch.arange(count + 1)[:, None] <= arrives
        outputs = game(absent)
        changes.append((outputs[1:] - outputs[:-1])[arrives])
    effects = torch.stack(changes)  # (coalitions, P), of the output as the pixel comes
    up, down = ((sign * effects > game.tolerance).any(0).tolist() for sign in (1, -1))
    found.tried += count
    for pixel, raised, lowered in zip(pixels.tolist(), up, down, strict=True):
        place = (game.index, *divmod(pixel, game.image.shape[2]))
        sign = int(signed[pixel])
        if not (raised or lowered):
            found.unmoved.append(place)
        elif sign and not (raised if sign > 0 else lowered):
            found.opposed.append(place)
