"""Camouflage a network: moves in a given order, each with random numbers of its own."""

from collections.abc import Callable, Sequence
from typing import Annotated

import numpy as np
import torch

from attributionlab.base import AttributionLabError, Whole, checked_arguments, named
from attributionlab.worlds.nets.camouflage.deepening import insert_identity_layers, mirror_kernels
from attributionlab.worlds.nets.camouflage.draft import Draft
from attributionlab.worlds.nets.camouflage.rearranging import (
    convert_layers,
    permute_channels,
    rescale_channels,
)
from attributionlab.worlds.nets.camouflage.widening import (
    add_cancelling_pairs,
    add_dead_units,
    duplicate_neurons,
)
from attributionlab.worlds.nets.networks import Network

MOVES: dict[str, Callable[[Draft, torch.Generator], str]] = {
    "mirrored-kernels": mirror_kernels,
    "identity-layers": insert_identity_layers,
    "duplication": duplicate_neurons,
    "cancelling-pairs": add_cancelling_pairs,
    "dead-units": add_dead_units,
    "convolution-linear": convert_layers,
    "rescaling": rescale_channels,
    "permutation": permute_channels,
}
"""In the order in which all of them are made: what adds neurons first, what hides them last."""


@checked_arguments
def camouflaged(
    network: Network, seed: Whole, *, moves: Annotated[Sequence[str], named(MOVES)] | None = None
) -> Network:
    """The same function by other weights.

    Parameters
    ----------
    network : Network
        What to camouflage; it is left as it is. It may be camouflaged already.
    seed : int
        Seed for the random numbers, non-negative.
    moves : sequence of str, optional
        Names of `MOVES`, made in this order, repetitions too; by default each of them once.

    Returns
    -------
    Network
        Equal outputs (``==``) for every integer image of the valid box, unseen colors included: every
        layer is held against the exactness budget again. `plain` is the model before the first
        camouflage, `moves` says in words what was done. A forward pass takes longer, all moves
        together mostly 1.5 to 4 times as long.

    Raises
    ------
    AttributionLabError
        For a negative seed, unknown moves, and a network that equals its rule on colors of its palette
        alone (`attributionlab.nets.IMPLEMENTATIONS`).

    Examples
    --------
    >>> import torch
    >>> from attributionlab.worlds.nets import camouflaged, white_sum
    >>> network = white_sum(image_size=9)
    >>> other = camouflaged(network, seed=0)
    >>> images = torch.ones(1, 1, 9, 9)
    >>> network.model(images).item(), other.model(images).item()
    (81.0, 81.0)
    """
    if network.equal_on == "palette":
        raise AttributionLabError(
            f"no camouflage of a network with {network.moves[-1]}: camouflage preserves outputs "
            "for all integers, but this network equals its rule only on the colors of its "
            "palette; camouflage the original network"
        )
    names = list(MOVES) if moves is None else moves
    draft = Draft.of(network)
    descriptions = []
    for index, name in enumerate(names):
        state = np.random.SeedSequence([int(seed), index]).generate_state(1, np.uint64)
        descriptions.append(MOVES[name](draft, torch.Generator().manual_seed(int(state[0]))))
    return draft.finished(network, *descriptions)
