"""Moves that add neurons which change nothing: copies, pairs that cancel, neurons that never fire.

What reads a layer is rewritten neuron by neuron: one whose sums would exceed the exactness budget with
the new terms keeps its old ones, or takes coarser ones.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from attributionlab.base import grid_step
from attributionlab.worlds.nets.camouflage.draft import Draft, Layer, interval, rows_that_fit, terms
from attributionlab.worlds.nets.exactness import Signal

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
        twins = _picked(layer, chosen)
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
        twins = _picked(new, torch.arange(new.outputs).repeat(2))
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


def _picked(layer: Layer, rows: Tensor) -> Layer:
    signal = Signal(layer.signal.upper[rows], layer.signal.step[rows])
    return replace(layer, weight=layer.weight[rows], bias=layer.bias[rows], signal=signal)


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
    return _picked(new, fits) if len(fits) else None


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
