"""Whole networks: detector, accumulator, head. A catalog entry names one of these builders.

The keyword arguments of a builder are the constants that a design may set. Those that the images must
share (`image_size`, colors, background) come from the data set.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np
import torch
from torch import nn

from attributionlab.base import Byte, ImageSide, Whole, checked_arguments, not_empty
from attributionlab.worlds.nets.accumulator import (
    REDUNDANT_GRID,
    Accumulator,
    Strength,
    layer_at,
    nonuniform_accumulator,
    redundant_weights,
    uniform_accumulator,
)
from attributionlab.worlds.nets.detector import (
    Color,
    Redundant,
    color_detector,
    detector_budget,
    number_checker,
)
from attributionlab.worlds.nets.exactness import LayerBudget, Signal, stages_budget
from attributionlab.worlds.nets.head import (
    Largest,
    Modulus,
    identity_head,
    modulo_bound,
    modulo_budget,
    modulo_mlp,
)
from attributionlab.worlds.nets.stage import to_convolutions, to_linears

Weights = Literal["uniform", "nonuniform"]
EqualOn = Literal["integers", "palette"]
"""On which images an implementation equals its rule: all integers of the valid box, or those whose
pixels have known colors alone."""


@dataclass(frozen=True)
class Network:
    """A hand-weighted network and what is known about it.

    - `model`: parts `detector` (where there is one), `accumulator`, `flatten`, `head`; (B, C, H, W)
      float32 -> (B, K) logits.
    - `layers`: where map-based methods attach: "gradcam", "iba".
    - `classes`: K.
    - `channels`, `highest`: the images that it takes: number of channels, integers from 0 to `highest`.
    - `max_count`: the largest count for which the output is right.
    - `budgets`: what each layer needs of the exactness budget; none of a trained network.
    - `effective`: constants that were snapped to a grid, with the value in force.
    - `plain`: the model before it was rewritten (camouflaged, or in another implementation), of the
      parts named above. A rewritten `model` has the parts `features`, `flatten` and, where layers
      follow, `head`; a transformer `detector`, `transformer` and `head`.
    - `moves`: how it was rewritten, in words, in order.
    - `equal_on`: on which images it equals the rule, and the budgets hold.
    - `palette`: the colors that a detector of pixels knows, the background last; each with its shades,
      itself first. Empty where there is no such detector.
    - `counts`: what the accumulator's sums are of, in words, where a rule says it.
    """

    model: nn.Sequential
    layers: dict[str, nn.Module]
    classes: int
    channels: int
    highest: int
    max_count: int
    budgets: list[LayerBudget] = field(repr=False)
    effective: dict[str, float] = field(default_factory=dict)
    plain: nn.Sequential | None = field(default=None, repr=False)
    moves: tuple[str, ...] = ()
    equal_on: EqualOn = "integers"
    palette: tuple[tuple[Color, ...], ...] = ()
    counts: tuple[str, ...] = ()

    @property
    def exactness(self) -> str:
        """What the layer that needs most of the exactness budget needs; a trained network has none."""
        if not self.budgets:
            return "none: weights are trained, so outputs approximate the rule's"
        tightest = max(self.budgets, key=lambda budget: budget.steps)
        return f"{tightest.layer} needs {tightest.steps:,.0f} of 2^24 grid steps"


@checked_arguments
def number_sum(
    *,
    image_size: ImageSide,
    number: Byte,
    accumulator: Weights = "nonuniform",
    weight_seed: Whole = 0,
) -> Network:
    """Count the pixels of a gray image that equal one number: a number checker, then a sum.

    Parameters
    ----------
    image_size : int
        Side of the image, 8 to 1024.
    number : int
        N, in [0, 255].
    accumulator : {"uniform", "nonuniform"}
        Kernels of ones, or random ones with the same sum.
    weight_seed : int
        Seed of the random weights.
    """
    stages = number_checker([number])
    values = torch.arange(256.0)[:, None]
    signal = Signal(torch.tensor([255.0]).double(), torch.ones(1).double())
    _, budgets = stages_budget("detector layer", stages, signal, values)
    summed = summing(image_size, 1, accumulator, weight_generator(weight_seed))
    detector = to_convolutions(stages)
    return _of_one_channel(summed, budgets + summed.budgets, 255, image_size**2, detector=detector)


@checked_arguments
def white_sum(
    *, image_size: ImageSide, accumulator: Weights = "nonuniform", weight_seed: Whole = 0
) -> Network:
    """Count the white pixels of a binary image: a sum and nothing else.

    Parameters are those of `number_sum`.
    """
    summed = summing(image_size, 1, accumulator, weight_generator(weight_seed))
    return _of_one_channel(summed, summed.budgets, 1, image_size**2)


@checked_arguments
def color_sum(
    *,
    image_size: ImageSide,
    colors: Annotated[Sequence[Color], not_empty],
    background: Color,
    distractor_colors: Sequence[Color] = (),
    redundant_channels: Redundant = 2,
    redundant_strength: Strength = 1.0,
    accumulator: Weights = "nonuniform",
    weight_seed: Whole = 0,
) -> Network:
    """Count the pixels of each color: a color detector, a sum per color, an identity head.

    With several colors the counts are the logits of a classifier (AttributionLab, section 3.1); with
    one color the count is the output of a regression.

    Parameters
    ----------
    image_size : int
        Side of the image, 8 to 1024.
    colors : sequence of Color
        The counted colors, one class each.
    background, distractor_colors : Color, sequence of Color
        Colors that are known and do not count; distractors are summed up and dropped by the head.
    redundant_channels : int
        N_R, 0 to 256: channels that fire on every other color (eqs. 5 and 15).
    redundant_strength : float
        Largest weight by which they enter the sums, snapped to a multiple of 1/4; 0 switches the
        Unseen Data Effect off.
    accumulator, weight_seed
        As for `number_sum`.
    """
    strength = round(redundant_strength / REDUNDANT_GRID) * REDUNDANT_GRID
    channels = len(colors) + len(distractor_colors)
    redundant = redundant_weights(
        channels, redundant_channels, strength, weight_generator(weight_seed, stream=1)
    )
    stages = color_detector([*colors, *distractor_colors], background, redundant_channels)
    _, budgets = detector_budget(stages)
    summed = summing(image_size, channels, accumulator, weight_generator(weight_seed), redundant)
    head = identity_head(len(colors), dropped=len(distractor_colors))
    return Network(
        model=assemble(to_convolutions(stages), summed.module, head),
        layers=layers_behind_detector(summed),
        classes=len(colors),
        channels=3,
        highest=255,
        max_count=image_size**2,
        budgets=budgets + summed.budgets,
        effective={"redundant_strength": strength} if redundant_channels else {},
        palette=tuple((each,) for each in (*colors, *distractor_colors, background)),
    )


@checked_arguments
def modulo_sum(
    *,
    image_size: ImageSide,
    modulus: Modulus,
    max_count: Largest,
    accumulator: Weights = "nonuniform",
    weight_seed: Whole = 0,
) -> Network:
    """Count the white pixels of a binary image and give the remainder (AttributionLab, appendix D).

    Parameters
    ----------
    image_size : int
        Side of the image, 8 to 1024.
    modulus : int
        N.
    max_count : int
        U, the largest count that must be right.
    accumulator, weight_seed
        As for `number_sum`.
    """
    summed = summing(image_size, 1, accumulator, weight_generator(weight_seed))
    stages = modulo_mlp(modulus, max_count)
    _, budgets = modulo_budget(stages, summed.signal)
    largest = min(modulo_bound(stages), image_size**2)
    return _of_one_channel(summed, summed.budgets + budgets, 1, largest, head=to_linears(stages))


def _of_one_channel(
    summed: Accumulator,
    budgets: list[LayerBudget],
    highest: int,
    max_count: int,
    *,
    detector: Sequence[nn.Module] = (),
    head: Sequence[nn.Module] | None = None,
) -> Network:
    """A network of gray or binary images; without a head of its own it hands the count on.

    Map-based methods attach to the hidden maps of the second block and the output of the third (F.2).
    """
    return Network(
        model=assemble(detector, summed.module, identity_head(1) if head is None else head),
        layers={
            "gradcam": layer_at(summed.levels, 2, hidden=True),
            "iba": layer_at(summed.levels, 3),
        },
        classes=1,
        channels=1,
        highest=highest,
        max_count=max_count,
        budgets=budgets,
    )


def summing(
    image_size: int,
    channels: int,
    weights: Weights,
    generator: torch.Generator,
    redundant: torch.Tensor | None = None,
) -> Accumulator:
    """The accumulator with weights of one kind; the generator is for those that are not uniform."""
    if weights == "uniform":
        return uniform_accumulator(image_size, channels, redundant)
    return nonuniform_accumulator(image_size, channels, generator, redundant)


def assemble(
    detector: Sequence[nn.Module], accumulator: nn.Module, head: Sequence[nn.Module]
) -> nn.Sequential:
    """The parts as one model, without a detector where none is needed."""
    parts: OrderedDict[str, nn.Module] = OrderedDict()
    if detector:
        parts["detector"] = nn.Sequential(*detector)
    parts["accumulator"] = accumulator
    parts["flatten"] = nn.Flatten()
    parts["head"] = nn.Sequential(*head)
    model = nn.Sequential(parts).eval()
    # Three times faster on a CPU than the default layout.
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def layers_behind_detector(summed: Accumulator) -> dict[str, nn.Module]:
    """The output of the second step and the hidden maps of the third (G.2)."""
    return {"gradcam": layer_at(summed.levels, 2), "iba": layer_at(summed.levels, 3, hidden=True)}


def weight_generator(seed: int, stream: int = 0) -> torch.Generator:
    """Independent streams: redundant channels do not change the accumulator's weights."""
    state = np.random.SeedSequence([seed, stream]).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(state[0]))


BUILDERS: dict[str, Callable[..., Network]] = {
    "number-sum": number_sum,
    "white-sum": white_sum,
    "color-sum": color_sum,
    "modulo-sum": modulo_sum,
}
