"""Moves that add layers: some hand their inputs on, others take mirrored kernels together."""

from dataclasses import replace

import torch
from torch import Tensor

from attributionlab.base import EXACT_STEPS, grid_step
from attributionlab.worlds.nets.camouflage.draft import (
    Draft,
    Layer,
    along,
    interval,
    rows_that_fit,
    terms,
)
from attributionlab.worlds.nets.exactness import Signal

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
