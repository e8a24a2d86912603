"""Maps of an untrained network, of the same on enhanced images, and of its trained twin."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from attributionlab.metrics import magnitudes, pointing_game, relevance_mass_accuracy
from attributionlab.papers.unified.enhancement.projected_descent import enhanced
from attributionlab.papers.unified.enhancement.twins import Twins
from attributionlab.papers.unified.six_methods import MAPS, map_of
from attributionlab.ranking import spearman

CONDITIONS = RAW, ENHANCED, TRAINED = ("untrained, raw", "untrained, enhanced", "trained, raw")
"""The rows of the paper's figures, from top to bottom."""
SIMILARITY, CONSTANT = "similarity", "constant map"
PLAUSIBILITY = POINTING, MASS = ("pointing game", "mass on the object")
STEPS_ACROSS = 10
"""Steps from the middle of the box to its side: epsilon / alpha of the paper."""


class TwinMaps(NamedTuple):
    """What both networks say about the same images.

    Parameters
    ----------
    images : mapping of str to Tensor, (B, C, H, W)
        By condition.
    right : mapping of str to Tensor of bool, (B,)
        Whether the network is right, by condition.
    maps : mapping of str to mapping of str to Tensor, (B, 1, H, W)
        By method and condition; all explain the label.
    """

    images: Mapping[str, Tensor]
    right: Mapping[str, Bool[Tensor, " batch"]]
    maps: Mapping[str, Mapping[str, Tensor]]

    def typical(self) -> Bool[Tensor, " batch"]:
        """Wrong in the untrained network until they are enhanced, and right in the trained one."""
        return ~self.right[RAW] & self.right[ENHANCED] & self.right[TRAINED]


def twin_maps(twins: Twins, epsilon: float, steps: int, seed: int) -> TwinMaps:
    """Enhance the images for the untrained network and explain all.

    Parameters
    ----------
    twins : Twins
        Networks and images in [0, 1].
    epsilon : float
        Half of the side of the box.
    steps : int
        Of the descent, each epsilon / 10 long.
    seed : int
        Of what is random in a method.
    """
    better = enhanced(
        *(twins.untrained, twins.images, twins.labels),
        epsilon=epsilon,
        alpha=epsilon / STEPS_ACROSS,
        steps=steps,
        low=0.0,
        high=1.0,
    )
    untrained, trained = twins.subjects()
    subjects = {RAW: untrained, ENHANCED: replace(untrained, images=better), TRAINED: trained}
    return TwinMaps(
        {name: subject.images for name, subject in subjects.items()},
        {
            name: _right(subject.model, subject.images, subject.targets)
            for name, subject in subjects.items()
        },
        {
            method: {name: map_of(subject, method, seed) for name, subject in subjects.items()}
            for method in MAPS
        },
    )


def rows_of(twins: Twins, found: TwinMaps) -> Iterator[dict[str, Any]]:
    """A row for each method, image and pair of conditions (similarity) or condition (the others).

    A constant map points nowhere: it has neither a similarity nor a plausibility, but is counted.
    Without a positive value there is no mass to be on the object.
    """
    typical = found.typical().tolist()

    def rows(method: str, what: str, of: str, values: Iterable[float]) -> Iterator[dict[str, Any]]:
        for index, (kept, value) in enumerate(zip(typical, values, strict=True)):
            yield {
                "method": MAPS[method],
                "image": index,
                "typical": kept,
                "what": what,
                "of": of,
                "value": float(value),
            }

    for method, by_condition in found.maps.items():
        flat = {name: maps.flatten(1).double().numpy() for name, maps in by_condition.items()}
        for first, second in combinations(CONDITIONS, 2):
            alike = [spearman(*pair) for pair in zip(flat[first], flat[second], strict=True)]
            yield from rows(method, SIMILARITY, pair_name(first, second), alike)
        for name, maps in by_condition.items():
            constant = maps.flatten(1).amax(1) == maps.flatten(1).amin(1)
            yield from rows(method, CONSTANT, name, constant.double())
            if twins.objects is None:
                continue
            positive = magnitudes(maps, "positive")
            undefined = constant | ~positive.flatten(1).any(1)
            hits = pointing_game(maps, twins.objects).masked_fill(constant, torch.nan)
            mass = relevance_mass_accuracy(positive, twins.objects)
            yield from rows(method, POINTING, name, hits)
            yield from rows(method, MASS, name, mass.masked_fill(undefined, torch.nan))


def pair_name(first: str, second: str) -> str:
    """Of two conditions."""
    return f"{first} - {second}"


def _right(model: nn.Module, images: Tensor, labels: Tensor) -> Bool[Tensor, " batch"]:
    with torch.no_grad():
        outputs = torch.cat([model(part) for part in torch.split(images, 64)])
    return outputs.argmax(1) == labels
