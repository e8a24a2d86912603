r"""Which definition of the truth a metric estimates: maps that tell definitions apart, ranked by both.

Four definitions of what a pixel contributes (docs/which-truth.md) give four maps of one image. Each is
damaged in the same ways, and every two are mixed, so that the panel prefers none of them; one that is
like a definition before it has no maps of its own. How near a map is to the mask is its lowest F1, as
in every test; how near it is to values is their cosine. A rank correlation would let the pixels without
value decide, which are most of them and tie: noise far below every value puts them in an order. Two
definitions are *told apart* by an image where the cosine of their own maps is below `ALIKE`.

A metric that scores by nearness to a definition T correlates with it by exactly 1. By the panel's
symmetry that alone says little about a metric which likes all right maps; what counts is by how much
it correlates more with T than with another definition, on images that tell the two apart.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float32
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.metrics import cosine
from attributionlab.metrics.ranking import centered_ranks, row_correlations
from attributionlab.verdicts.metric_trials.agreement import (
    lowest_part,
    mean_over_images,
    without_rounding,
)
from attributionlab.verdicts.metric_trials.answers import f1_of_maps
from attributionlab.verdicts.metric_trials.graded import DAMAGES, Material
from attributionlab.worlds.truth import Truth, Truths

Numbers = NDArray[np.float64]

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
    """The panel of one image.

    `truths`: what each pixel of one image contributes, by every definition. `truth`: the mask, for F1.
    `seed`, `number`: seed of the damages, and number of the image: others have other random numbers.
    """
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
        near[0] = lowest_part(f1_of_maps(panel, truth))
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
    """Means over the questions of a world.

    `correlations`: `definition_correlations` of each question. `apart`: `DefinitionPanel.apart` of
    each.

    Result: mean correlation with each definition, NaN where no question has one; correlation with the
    first less that with the second, mean over the questions that tell the two apart; NaN where none
    does.
    """
    difference = np.where(apart, correlations[:, :, None] - correlations[:, None, :], np.nan)
    size = correlations.shape[1]
    means = mean_over_images(difference.reshape(-1, size * size).T)
    return mean_over_images(correlations.T), means.reshape(size, size)
