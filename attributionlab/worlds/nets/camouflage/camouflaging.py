"""Camouflage a network: moves in a given order, each with random numbers of its own.

- Moves that keep every neuron: other order, other scale, other kind of layer.
- Moves that add layers: some hand their inputs on, others take mirrored kernels together.
- Moves that add neurons which change nothing: copies, pairs that cancel, neurons that never fire. What
  reads a layer is rewritten neuron by neuron: one whose sums would exceed the exactness budget with the
  new terms keeps its old ones, or takes coarser ones.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from attributionlab.base import (
    EXACT_STEPS,
    AttributionLabError,
    Whole,
    checked_arguments,
    grid_step,
    named,
)
from attributionlab.worlds.nets.camouflage.draft import (
    Draft,
    Layer,
    along,
    interval,
    rows_that_fit,
    terms,
)
from attributionlab.worlds.nets.exactness import Signal
from attributionlab.worlds.nets.networks import Network

COPIED_SHARE, MOST_COPIES = 0.25, 8
"""How many of a layer's neurons get a copy."""
PAIRS, PAIRS_OF_NARROW, NARROW = 2, 1, 8
"""How many are added to each hidden layer, and to those of at most so many neurons."""
DEAD_UNITS = 1


def duplicate_neurons(draft: Draft, generator: torch.Generator) -> str:
    r"""Copy neurons and divide what reads them into two dyadic parts, of either sign.

    .. math:: v\, ReLU(w x + b) = (v - u)\, ReLU(w x + b) + u\, ReLU(w x + b)
    """
    copied = 0
    for cut in draft.cuts:
        layer, following = draft.layers[cut], draft.layers[cut + 1]
        count = min(MOST_COPIES, math.ceil(COPIED_SHARE * layer.outputs))
        chosen = torch.randperm(layer.outputs, generator=generator)[:count]
        twins = layer.part(chosen)
        read = following.weight[:, chosen]
        # All readers get a part, also those that had no use for the neuron: u - u is nothing.
        anything = torch.where(
            torch.rand(read.shape, generator=generator) < 0.5,
            read * _quarters(read.shape, generator),
            _comparable(draft, cut, twins.signal) * _quarters(read.shape, generator),
        )
        share = read * torch.randint(1, 4, read.shape, generator=generator) / 4
        tiers = []
        for part in (anything, share, -read, torch.zeros_like(read)):
            divided = following.weight.clone()
            divided[:, chosen] = read - part
            tiers.append(torch.cat([divided, part], dim=1))
        _append(draft, cut, twins, tiers)
        copied += count
    return f"{copied} neurons copied, their outgoing weights divided"


def add_cancelling_pairs(draft: Draft, generator: torch.Generator) -> str:
    r"""Add new neurons twice, read with opposite signs.

    .. math:: u\, ReLU(w x + b) - u\, ReLU(w x + b) = 0
    """
    added = 0
    for cut in draft.cuts:
        pairs = PAIRS if draft.layers[cut].outputs > NARROW else PAIRS_OF_NARROW
        new = _random_neurons(draft, cut, pairs, generator)
        if new is None:
            continue
        twins = new.part(torch.arange(new.outputs).repeat(2))
        following = draft.layers[cut + 1]
        shape = (following.outputs, new.outputs, *following.weight.shape[2:])
        fine = _comparable(draft, cut, new.signal) * _quarters(shape, generator)
        # On the grid that the reading neuron has anyway.
        steps = terms(following, draft.signal_into(cut + 1))[1]
        grid = torch.where(steps.isfinite(), steps, 1.0)[:, None] / new.signal.step
        coarse = grid[:, :, None, None] * _signs(shape, generator)
        tiers = [
            torch.cat([following.weight, part, -part], dim=1)
            for part in (fine, coarse, torch.zeros_like(fine))
        ]
        _append(draft, cut, twins, tiers)
        added += new.outputs
    return f"{added} pairs of neurons added that cancel"


def add_dead_units(draft: Draft, generator: torch.Generator) -> str:
    """Add neurons that no image of the valid box makes fire, with any outgoing weights."""
    added = 0
    for cut in draft.cuts:
        new = _random_neurons(draft, cut, DEAD_UNITS, generator, dead=True)
        if new is None:
            continue
        following = draft.layers[cut + 1]
        shape = (following.outputs, new.outputs, *following.weight.shape[2:])
        anything = _power_below(following.weight.abs().amax((1, 2, 3)))[:, None, None, None]
        part = anything * _quarters(shape, generator)
        tiers = [
            torch.cat([following.weight, each], dim=1) for each in (part, torch.zeros_like(part))
        ]
        _append(draft, cut, new, tiers)
        added += new.outputs
    return f"{added} dead neurons added"


def _append(draft: Draft, cut: int, new: Layer, tiers: Sequence[Tensor]) -> None:
    """Add neurons to a layer; each neuron of the next takes the first tier of weights that fits it."""
    layer, following = draft.layers[cut], draft.layers[cut + 1]
    uppers = [layer.signal.upper, new.signal.upper]
    signal = Signal(torch.cat(uppers), torch.cat([layer.signal.step, new.signal.step]))
    weight, undecided = tiers[-1].clone(), torch.ones(following.outputs, dtype=torch.bool)
    for tier in tiers[:-1]:
        if not undecided.any():
            break
        fits = rows_that_fit(replace(following, weight=tier), signal) & undecided
        weight[fits] = tier[fits]
        undecided &= ~fits
    draft.layers[cut] = replace(
        layer,
        weight=torch.cat([layer.weight, new.weight]),
        bias=torch.cat([layer.bias, new.bias]),
        signal=signal,
    )
    draft.layers[cut + 1] = replace(following, weight=weight)


def _random_neurons(
    draft: Draft, cut: int, count: int, generator: torch.Generator, *, dead: bool = False
) -> Layer | None:
    """New neurons for a layer, those that fit the budget, with interval bounds; None if none fits."""
    layer, inputs = draft.layers[cut], draft.signal_into(cut)
    shape = (count, *layer.weight.shape[1:])
    # Multiples of a quarter of the inputs' own grids.
    grid = torch.where(inputs.step.isfinite(), inputs.step, 1.0)[:, None, None]
    weight = _quarters(shape, generator) / grid
    weight *= torch.rand(shape, generator=generator) < 0.5
    new = replace(layer, weight=weight, bias=torch.zeros(count).double(), attach=())
    _, steps = terms(new, inputs)
    steps = torch.where(steps.isfinite(), steps, 1.0)
    most = interval(new, inputs).reshape(count, -1).amax(1)
    if dead:
        beyond = torch.randint(0, 8, (count,), generator=generator)
        threshold = most + beyond * steps
    else:
        # Some images make them fire and some do not.
        share = torch.rand(count, generator=generator) / 2
        threshold = (share * most / steps).floor() * steps
    new = replace(new, bias=-threshold)
    upper = interval(new, inputs)
    if upper.ndim < layer.signal.upper.ndim:
        upper = upper[:, None, None].expand(count, *layer.signal.upper.shape[1:])
    # 0 lies on every grid.
    grid = torch.full_like(steps, torch.inf) if dead else torch.minimum(steps, grid_step(threshold))
    new = replace(new, signal=Signal(upper, grid))
    fits = rows_that_fit(new, inputs).nonzero()[:, 0]
    return new.part(fits) if len(fits) else None


def _comparable(draft: Draft, cut: int, signal: Signal) -> Tensor:
    """Weights with which neurons add about as much to each reader's sum as all others together."""
    sums, _ = terms(draft.layers[cut + 1], draft.signal_into(cut + 1))
    upper = signal.upper.reshape(len(signal.step), -1).amax(1)
    ratio = sums[:, None] / torch.where(upper > 0, upper, 1.0)
    return _power_below(ratio)[:, :, None, None]


def _power_below(values: Tensor) -> Tensor:
    """The largest power of two that is not larger; 1 for 0."""
    return torch.where(values > 0, 2.0 ** values.clamp(min=2.0**-60).log2().floor(), 1.0)


def _quarters(shape: Sequence[int], generator: torch.Generator) -> Tensor:
    """Random multiples of 1/4 in [-1, 1] without 0."""
    size = torch.randint(1, 5, tuple(shape), generator=generator).double() / 4
    return size * _signs(shape, generator)


def _signs(shape: Sequence[int], generator: torch.Generator) -> Tensor:
    return torch.randint(0, 2, tuple(shape), generator=generator).double() * 2 - 1


INSERTED = 2
"""How many layers each of these moves adds."""
WIDEST = 64
"""Not behind layers of more neurons: an inserted layer has as many weights as that squared."""


def insert_identity_layers(draft: Draft, generator: torch.Generator) -> str:
    r"""Insert layers that hand on their inputs, mixed so that the next layer can separate them.

    .. math:: v\, x = (v M^{-1})\, ReLU(M x), \quad M = I + N, \quad M^{-1} = I - N

    N adds multiples of some channels to some others, none negative, so that the ReLU, on non-negative
    inputs, does nothing, and N N = 0.
    """
    inserted = mixed = 0
    for turn in range(INSERTED):
        cut = _drawn_cut(draft, turn, generator)
        if cut is None:
            continue
        layer, following = draft.layers[cut], draft.layers[cut + 1]
        mixing = _mixing(layer.signal, generator)
        for density in (1.0, 0.5, 0.25, 0.0):
            kept = mixing * (torch.rand(mixing.shape, generator=generator) < density)
            identity = _pointwise(torch.eye(len(mixing)).double() + kept)
            signal = _mixed(layer.signal, kept)
            undone = following.weight - torch.einsum("orij,rs->osij", following.weight, kept)
            reader = replace(following, weight=undone)
            if rows_that_fit(identity, layer.signal).all() and rows_that_fit(reader, signal).all():
                break
        draft.layers[cut + 1] = reader
        _insert(draft, cut + 1, replace(identity, signal=signal))
        inserted, mixed = inserted + 1, mixed + int((kept != 0).sum())
    return f"{inserted} identity layers inserted, which mix {mixed} pairs of channels"


def mirror_kernels(draft: Draft, generator: torch.Generator) -> str:
    r"""Compute neurons from both sides of a threshold and take the two together in a layer of its own.

    .. math:: ReLU(z) = ReLU(ReLU(z - t) - ReLU(t - z) + t), \quad z = w x + b

    The kernels w and -w are both there; t = 0 is the mirrored kernel alone.
    """
    inserted = mirrored = 0
    for turn in range(INSERTED):
        cut = _drawn_cut(draft, turn, generator)
        if cut is None:
            continue
        layer, inputs = draft.layers[cut], draft.signal_into(cut)
        threshold = _thresholds(layer, generator)
        shifted = replace(layer, bias=layer.bias - threshold)
        opposite = replace(layer, weight=-layer.weight, bias=threshold - layer.bias)
        below = _opposite_signal(layer, opposite, inputs, threshold)
        chosen = torch.rand(layer.outputs, generator=generator) < 0.5
        chosen &= rows_that_fit(shifted, inputs) & rows_that_fit(opposite, inputs)
        step = torch.minimum(layer.signal.step, below.step)
        total = _most(layer.signal) + _most(below) + threshold
        chosen &= total <= EXACT_STEPS * torch.minimum(step, grid_step(threshold))
        threshold = torch.where(chosen, threshold, 0.0)
        where = chosen.nonzero()[:, 0]
        upper = torch.cat(
            [
                (layer.signal.upper - along(threshold, layer.signal.upper)).clamp(min=0),
                below.upper[where],
            ]
        )
        both = replace(
            layer,
            weight=torch.cat([layer.weight, -layer.weight[where]]),
            bias=torch.cat([layer.bias - threshold, opposite.bias[where]]),
            signal=Signal(upper, torch.cat([layer.signal.step, below.step[where]])),
            attach=(),
        )
        each = torch.eye(layer.outputs).double()
        together = replace(
            _pointwise(torch.cat([each, -each[:, where]], dim=1)),
            bias=threshold,
            signal=layer.signal,
            attach=layer.attach,
        )
        draft.layers[cut] = both
        _insert(draft, cut + 1, together)
        inserted, mirrored = inserted + 1, mirrored + len(where)
    return f"{mirrored} kernels mirrored, taken together in {inserted} inserted layers"


def _drawn_cut(draft: Draft, turn: int, generator: torch.Generator) -> int | None:
    """At first anywhere, then in the later half, where maps are small and layers cost little."""
    later = draft.cuts[len(draft.cuts) // 2 if turn else 0 :]
    narrow = [cut for cut in later if draft.layers[cut].outputs <= WIDEST]
    if not narrow:
        return None
    return narrow[int(torch.randint(len(narrow), (), generator=generator))]


def _insert(draft: Draft, index: int, layer: Layer) -> None:
    """Put a pointwise layer there; before the flattening it stays a convolution."""
    draft.layers.insert(index, layer)
    if index <= draft.flatten:
        draft.flatten += 1


def _pointwise(matrix: Tensor) -> Layer:
    nothing = Signal(torch.zeros(len(matrix)).double(), torch.ones(len(matrix)).double())
    return Layer(matrix[:, :, None, None], torch.zeros(len(matrix)).double(), 1, 0, True, nothing)


def _mixing(signal: Signal, generator: torch.Generator) -> Tensor:
    """N: rows that receive and columns that give are different channels, so that N N = 0."""
    channels = len(signal.step)
    gives = torch.rand(channels, generator=generator) < 0.5
    times = torch.randint(0, 4, (channels, channels), generator=generator).double()
    # Multiples of the receiver's grid.
    step = torch.where(signal.step.isfinite(), signal.step, 1.0)
    return times * step[:, None] / step * (~gives[:, None] & gives)


def _mixed(signal: Signal, mixing: Tensor) -> Signal:
    upper = signal.upper + torch.einsum("rs,s...->r...", mixing, signal.upper)
    given = (grid_step(mixing) * signal.step).amin(1)
    return Signal(upper, torch.minimum(signal.step, given))


def _thresholds(layer: Layer, generator: torch.Generator) -> Tensor:
    """Multiples of the neurons' own grids between 0 and their bounds."""
    step = torch.where(layer.signal.step.isfinite(), layer.signal.step, 1.0)
    share = torch.rand(layer.outputs, generator=generator)
    return (share * _most(layer.signal) / step).floor() * step


def _opposite_signal(layer: Layer, opposite: Layer, inputs: Signal, threshold: Tensor) -> Signal:
    """What ReLU(t - z) can be; where z is never negative, it lies on the grid of ReLU(z)."""
    upper = interval(opposite, inputs)
    if upper.ndim < layer.signal.upper.ndim:
        upper = upper[:, None, None].expand(-1, *layer.signal.upper.shape[1:])
    never_negative = (layer.weight >= 0).all(3).all(2).all(1) & (layer.bias >= 0)
    step = torch.where(
        never_negative,
        torch.minimum(layer.signal.step, grid_step(threshold)),
        terms(opposite, inputs)[1],
    )
    return Signal(upper, step)


def _most(signal: Signal) -> Tensor:
    return signal.upper.reshape(len(signal.step), -1).amax(1)


LARGEST_EXPONENT = 3
"""A neuron is scaled by 1/8 to 8."""


def permute_channels(draft: Draft, generator: torch.Generator) -> str:
    """Put the neurons of each hidden layer into a random order; the next layer reads them so."""
    for cut in draft.cuts:
        layer, following = draft.layers[cut], draft.layers[cut + 1]
        order = torch.randperm(layer.outputs, generator=generator)
        draft.layers[cut] = layer.part(order)
        draft.layers[cut + 1] = replace(following, weight=following.weight[:, order])
    return f"the channels of {len(draft.cuts)} hidden layers permuted"


def rescale_channels(draft: Draft, generator: torch.Generator) -> str:
    r"""Scale each hidden neuron by a random power of two, and what reads it by its inverse.

    .. math:: v\, ReLU(w x + b) = (v / s)\, ReLU(s w x + s b), \quad s = 2^k

    Both sums and grid steps are scaled, so the exactness budget does not change.
    """
    rescaled = 0
    for cut in draft.cuts:
        layer, following = draft.layers[cut], draft.layers[cut + 1]
        shape = (layer.outputs,)
        exponents = torch.randint(
            -LARGEST_EXPONENT, LARGEST_EXPONENT + 1, shape, generator=generator
        )
        # Beyond the range in which float32 is safe a neuron keeps its scale.
        scaled = _scaled(layer, 2.0 ** exponents.double())
        fits = rows_that_fit(scaled, draft.signal_into(cut))
        scale = torch.where(fits, 2.0 ** exponents.double(), 1.0)
        read = replace(following, weight=following.weight / scale[:, None, None])
        scaled = _scaled(layer, scale)
        if not rows_that_fit(read, scaled.signal).all():
            continue
        draft.layers[cut], draft.layers[cut + 1] = scaled, read
        rescaled += int((scale != 1).sum())
    return f"{rescaled} channels rescaled by powers of two"


def _scaled(layer: Layer, scale: Tensor) -> Layer:
    upper = layer.signal.upper
    return replace(
        layer,
        weight=layer.weight * scale[:, None, None, None],
        bias=layer.bias * scale,
        signal=Signal(upper * along(scale, upper), layer.signal.step * scale),
    )


def convert_layers(draft: Draft, generator: torch.Generator) -> str:
    """Flatten the map at another layer: convolutions that cover their whole map are linear layers."""
    first = len(draft.layers)
    while first > 0 and (covering := _covering(draft, first - 1)) is not None:
        first -= 1
        draft.layers[first] = covering
    places = torch.arange(first, len(draft.layers) + 1)
    # Somewhere else than now.
    places = places[places != draft.flatten]
    before = draft.flatten
    draft.flatten = int(places[torch.randint(len(places), (), generator=generator)])
    turned = abs(draft.flatten - before)
    if draft.flatten < before:
        return f"{turned} convolutions turned into linear layers"
    return f"{turned} linear layers turned into convolutions"


def _covering(draft: Draft, index: int) -> Layer | None:
    """A layer as a kernel that covers its whole map and no padding; None if it does not cover it."""
    layer, before = draft.layers[index], draft.signal_into(index).upper
    if layer.signal.upper.shape[1:] != (1, 1):
        return None
    inside = slice(layer.padding, layer.padding + before.shape[1])
    weight = layer.weight[:, :, inside, inside]
    if weight.shape[2:] != before.shape[1:]:
        return None
    return replace(layer, weight=weight.contiguous(), stride=1, padding=0)


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
    """The same function with different weights.

    Parameters
    ----------
    network : Network
        The network to camouflage, which is not changed; it may already be camouflaged.
    seed : int
        Seed for the random numbers, non-negative.
    moves : sequence of str, optional
        Names of `MOVES`, made in this order, repetitions too; by default each of them once.

    Returns
    -------
    Network
        Equal outputs (``==``) for every integer image of the valid box, including unseen colors: every
        layer is checked against the exactness budget again. `plain` is the model before the first
        camouflage, `moves` says in words what was done. A forward pass takes longer, all moves together
        mostly 1.5 to 4 times as long.

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
