r"""Attributions that are wrong by a known amount, in known ways at known doses: what metrics rank.

`graded_attributions` are the truth, damaged; how right each of them is, is known.

A `DefinitionPanel` asks which definition of the truth a metric estimates. Four definitions of what a
pixel contributes (docs/which-truth.md) give four maps of one image. Each is damaged in the same ways,
and every two are mixed, so that the panel prefers none of them; one that is like a definition before it
has no maps of its own. How near a map is to the mask is its lowest F1, as in every test; how near it is
to values is their cosine. A rank correlation would let the pixels without value decide, which are most
of them and tie: noise far below every value puts them in an order. Two definitions are *told apart* by
an image where the cosine of their own maps is below `ALIKE`.

A metric that scores by nearness to a definition T correlates with it by exactly 1. By the panel's
symmetry that alone says little about a metric which likes all right maps; what counts is by how much
it correlates more with T than with another definition, on images that tell the two apart.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Float32, Int8
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.base import Numbers, lowest_f1
from attributionlab.metrics import cosine
from attributionlab.metrics.ranking import centered_ranks, row_correlations
from attributionlab.verdicts.diagnosis.likeness import blurred, translated
from attributionlab.verdicts.diagnosis.shares import PIXEL_KINDS
from attributionlab.verdicts.metric_trials.agreement import (
    f1_of_maps,
    mean_over_images,
    without_rounding,
)
from attributionlab.worlds.truth import Truth, Truths

Maps = Float[Tensor, "batch 1 height width"]

BACKGROUND, INSIDE, DISTRACTOR, _ = range(len(PIXEL_KINDS))


class Graded(NamedTuple):
    """The truth, damaged in one way or several."""

    name: str
    """the damage and its dose, such as "blur 0.02" """
    kind: str
    """a key of `DAMAGES`, "exact" or "mixture" """
    dose: float
    """as in `DAMAGES`; 0 for "exact", the number of the level, 1 or 2, for mixtures"""
    maps: Maps
    """on any scale"""


@dataclass(frozen=True)
class Material:
    """Places of damages, and random numbers that all doses of a damage share."""

    signed: Int8[Tensor, "batch 1 height width"]
    kinds: Int8[Tensor, "batch 1 height width"]
    seed: int
    first: int

    @property
    def side(self) -> int:
        return int(self.signed.shape[-1])

    def uniform(self, stream: int, *, whole: bool = False) -> Tensor:
        """On [0, 1): a number for each pixel, or one for each image."""
        shape = (1, 1, 1) if whole else tuple(self.signed.shape[1:])
        drawn = [
            # Each image has a stream of its own, whatever images are beside it.
            np.random.default_rng([self.seed, self.first + index, stream]).random(shape, np.float32)
            for index in range(len(self.signed))
        ]
        return torch.from_numpy(np.stack(drawn))

    @cached_property
    def noise(self) -> Tensor:
        """Standard normal."""
        # The largest uniform number below 1 in float32 keeps the logarithm finite.
        radius = (-2 * torch.log1p(-self.uniform(5))).sqrt()
        return radius * torch.cos(2 * torch.pi * self.uniform(6))


def _drop_top(maps: Maps, dose: float, given: Material) -> Maps:
    before = (given.signed != 0).flatten(1).cumsum(1)
    dropped = (before <= dose * before[:, -1:]).reshape(maps.shape)
    return torch.where(dropped, 0.0, maps)


def _shift(maps: Maps, dose: float, given: Material) -> Maps:
    pixels = max(1, round(dose * given.side))
    return translated(maps, pixels, pixels)


def _leak_here_and_there(maps: Maps, dose: float, given: Material) -> Maps:
    where = (given.signed == 0) & (given.uniform(4) < dose)
    return torch.where(where, maps + 1, maps)


class Damage(NamedTuple):
    """A way to be wrong: what is done to a map, at which doses, and what a dose does to the truth."""

    act: Callable[[Tensor, float, Material], Tensor]
    doses: Sequence[float]
    words: str


# In the order in which mixtures undergo them: what is attributed changes before it spreads.
DAMAGES: Mapping[str, Damage] = {
    "missing pixels": Damage(
        lambda maps, dose, given: torch.where(given.uniform(2) < dose, 0.0, maps),
        (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.95),
        "with {:.0%} of its pixels set to 0",
    ),
    "missing top": Damage(
        _drop_top, (0.1, 0.25, 0.5, 0.75), "without the top {:.0%} of its relevant pixels"
    ),
    "missing positive": Damage(
        lambda maps, dose, given: torch.where(maps > 0, (1 - dose) * maps, maps),
        (0.5, 1.0),
        "with positive values lowered by {:.0%}",
    ),
    "missing negative": Damage(
        lambda maps, dose, given: torch.where(maps < 0, (1 - dose) * maps, maps),
        (0.5, 1.0),
        "with negative values lowered by {:.0%}",
    ),
    "uneven": Damage(
        lambda maps, dose, given: maps * (1 - given.uniform(3)) ** dose,
        (0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
        "times a random factor, uniform on (0, 1], to the power {:g}",
    ),
    "signs": Damage(
        lambda maps, dose, given: torch.where(given.uniform(0) < dose, -maps, maps),
        (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0),
        "with the wrong sign on {:.0%} of the pixels",
    ),
    "image signs": Damage(
        lambda maps, dose, given: torch.where(given.uniform(1, whole=True) < dose, -maps, maps),
        (0.1, 0.25, 0.5, 0.75),
        "with all signs reversed in {:.0%} of the images",
    ),
    "shift": Damage(
        _shift,
        (1 / 72, 2 / 72, 4 / 72, 6 / 72, 9 / 72, 14 / 72),
        "shifted down and right by {:.1%} of the side, at least one pixel",
    ),
    "blur": Damage(
        lambda maps, dose, given: blurred(maps, dose * given.side),
        (0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2),
        "blurred with a standard deviation of {:.1%} of the side",
    ),
    "background": Damage(
        lambda maps, dose, given: torch.where(given.kinds == BACKGROUND, maps + dose, maps),
        (0.02, 0.05, 0.1, 0.2, 0.5, 1.0),
        "with {:g} on every background pixel",
    ),
    "specks": Damage(
        _leak_here_and_there,
        (0.005, 0.02, 0.05, 0.1, 0.2, 0.5),
        "with 1 added on {:.1%} of the irrelevant pixels",
    ),
    "gaps": Damage(
        lambda maps, dose, given: torch.where(given.kinds == INSIDE, maps + dose, maps),
        (0.1, 0.25, 0.5, 0.75, 1.0),
        "with {:g} on background pixels inside patches",
    ),
    "distractors": Damage(
        lambda maps, dose, given: torch.where(given.kinds == DISTRACTOR, maps + dose, maps),
        (0.25, 0.5, 1.0),
        "with {:g} on distractors and on colors that do not count here",
    ),
    "noise": Damage(
        lambda maps, dose, given: maps + dose * given.noise,
        (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0),
        "with noise whose standard deviation is {:g} times the relevant values",
    ),
}
"""Each way to be wrong with its doses; attributions of the truth are +1, -1 and 0."""

MIXED: Mapping[str, tuple[float, float]] = {
    "missing pixels": (0.2, 0.6),
    "uneven": (0.5, 2.0),
    "signs": (0.1, 0.3),
    "shift": (1 / 72, 4 / 72),
    "blur": (0.01, 0.04),
    "background": (0.05, 0.3),
    "noise": (0.2, 0.75),
}
"""Doses of the damages that are mixed in pairs: both at the first, or both at the second level."""


def graded_attributions(
    signed: Int8[Tensor, "batch 1 height width"],
    kinds: Int8[Tensor, "..."],
    *,
    distractors: bool = False,
    seed: int = 0,
    first: int = 0,
) -> list[Graded]:
    """The truth, and 118 attributions made of it that are wrong in known ways at known doses.

    Doses of a damage share their random numbers: the pixels that are flipped at a dose of 0.1 are
    flipped at 0.2 too. The maps of an image depend on the image, `seed` and its number alone.

    - `kinds`: what each pixel is (`attributionlab.verdicts.diagnosis.shares.pixel_kinds`).
    - `distractors`: whether images have pixels of colors that do not count: then three more leak onto
      them.

    Result: the exact one first, then each kind of `DAMAGES` by rising dose, then mixtures of two.
    """
    truth, given = signed.float(), Material(signed, kinds, seed, first)
    result = [Graded("exact", "exact", 0.0, truth)]
    for kind, damage in DAMAGES.items():
        if kind == "distractors" and not distractors:
            continue
        for dose in damage.doses:
            result.append(Graded(f"{kind} {dose:.3g}", kind, dose, damage.act(truth, dose, given)))
    for level in (0, 1):
        for pair in combinations(MIXED, 2):
            maps = truth
            for kind in pair:
                maps = DAMAGES[kind].act(maps, MIXED[kind][level], given)
            name = " + ".join(f"{kind} {MIXED[kind][level]:.3g}" for kind in pair)
            result.append(Graded(name, "mixture", level + 1.0, maps))
    return result


def in_words(name: str) -> str:
    """An attribution's name as a phrase, if it is that of a damaged truth; else the name.

    Examples
    --------
    >>> in_words("signs 0.2")
    'the truth with the wrong sign on 20% of the pixels'
    """
    parts = [each.rpartition(" ") for each in name.split(" + ")]
    if not all(kind in DAMAGES for kind, _, _ in parts):
        return name
    return "the truth " + " and ".join(
        DAMAGES[kind].words.format(float(dose)) for kind, _, dose in parts
    )


DEFINITIONS = ("mask", "shapley", "ablation", "insertion")
"""Names in `Truths`; the first has signs, the others values."""
DOSES = {
    "missing pixels": (0.1, 0.4),
    "uneven": (0.5, 2.0),
    "signs": (0.05, 0.2),
    "noise": (0.1, 0.3, 0.75),
}
"""Doses of those damages of `DAMAGES` that know nothing of the mask."""
SHARES = (0.25, 0.5, 0.75)
"""Of one definition's map in a mixture with another's."""
ALIKE = 0.999


class DefinitionPanel(NamedTuple):
    """Maps of one image, and how near each is to each definition.

    A definition without any value in the image (ablation where the output is saturated) has no map of
    its own and nothing is near to it.
    """

    maps: Float32[Tensor, "maps 1 height width"]
    nearness: Numbers
    """(maps, definitions), NaN where a definition has no value"""
    apart: NDArray[np.bool_]
    """(definitions, definitions), whether the image tells them apart"""


def definition_panel(truths: Truths, truth: Truth, seed: int, number: int) -> DefinitionPanel:
    """The panel of one image, whose number and `seed` decide on the random numbers of its damages."""
    values = torch.cat([truths[name].certain for name in DEFINITIONS])  # (definitions, 1, H, W)
    alike = torch.stack([cosine(values, each.expand_as(values)) for each in values])  # NaN: none
    there = values.flatten(1).any(1)
    kept: list[int] = []
    for place in range(len(values)):
        if there[place] and not bool((alike[kept, place] >= ALIKE).any()):
            kept.append(place)
    # Of equal size, so that doses mean the same for all.
    distinct = [each / each[each != 0].square().mean().sqrt() for each in values[kept]]
    # None of these damages asks what kind of pixel it changes.
    given = Material(truth.signed, torch.zeros_like(truth.signed), seed, number)
    maps = list(distinct)
    for each in distinct:
        for kind, doses in DOSES.items():
            maps += [DAMAGES[kind].act(each[None], dose, given)[0] for dose in doses]
    for first, second in combinations(distinct, 2):
        maps += [share * first + (1 - share) * second for share in SHARES]
    panel = torch.stack(maps)
    near = [cosine(panel, each.expand_as(panel)).numpy() for each in values]
    if there[0]:
        near[0] = lowest_f1(f1_of_maps(panel, truth))
    apart = (alike < ALIKE) & there[:, None] & there
    return DefinitionPanel(panel.float(), np.stack(near, 1), apart.numpy())


def definition_correlations(scores: Numbers, panel: DefinitionPanel) -> Numbers:
    """Spearman's correlation of a metric's scores, the higher the better, with nearness to each
    definition: (definitions,), NaN where one has no values or the scores are NaN or all alike.
    """
    ranked = np.broadcast_to(scores, (len(DEFINITIONS), len(scores)))
    return row_correlations(
        *(centered_ranks(without_rounding(each)) for each in (ranked, panel.nearness.T))
    )


def compared(correlations: Numbers, apart: NDArray[np.bool_]) -> tuple[Numbers, Numbers]:
    """Means over the questions of a world: correlation with each definition, and that with the first
    less that with the second, over the questions that tell the two apart. NaN where there is none.
    """
    difference = np.where(apart, correlations[:, :, None] - correlations[:, None, :], np.nan)
    size = correlations.shape[1]
    means = mean_over_images(difference.reshape(-1, size * size).T)
    return mean_over_images(correlations.T), means.reshape(size, size)
