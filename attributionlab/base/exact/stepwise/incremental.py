r"""Trajectories by following changes through a tree: one pass for all steps.

A replaced pixel changes one place of each map. So all P + 1 outputs cost one walk from pixel to head
for each pixel, which changes sums that are kept, instead of P + 1 forward passes. Where no mixture of
image and replacement switches a ReLU, it is the identity, and the layers around it are one.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.base.exact.stepwise import kernels
from attributionlab.base.exact.stepwise.certified import Proof, finest, fits_exactly, grid_of_sums
from attributionlab.base.exact.stepwise.tree import Places, Pointwise, Step, Tree
from attributionlab.base.stats.intervals import Numbers

MOST_VALUES = 2**16
"""If the last map has one channel with so few possible values, the head is a table of them."""


@dataclass(frozen=True)
class Mixture:
    """An image and its replacement, ready to be followed along any order of pixels.

    `levels`, `parents`, `kinds`, `weights`, `state`: as for `follow`. `head`: what the last map
    becomes. `pixels`: P.
    """

    levels: NDArray[np.int64]
    parents: Places
    kinds: Places
    weights: Numbers
    state: Numbers
    head: "Head"
    pixels: int

    def outputs(self, orders: NDArray[np.int64], counts: NDArray[np.int64]) -> Tensor:
        """Outputs (D, S, K) after so many replacements along each order (D, P)."""
        static = (counts, self.levels, self.parents, self.kinds, self.weights)
        roots = np.stack([kernels.follow(order, *static, self.state.copy()) for order in orders])
        outputs = self.head.outputs(roots.reshape(-1, roots.shape[2]))
        return outputs.reshape(*roots.shape[:2], -1)

    def single_outputs(self) -> Tensor:
        """Outputs (P, K) where one pixel alone is replaced."""
        roots = kernels.follow_each(
            self.pixels, self.levels, self.parents, self.kinds, self.weights, self.state
        )
        return self.head.outputs(roots)


class Head(NamedTuple):
    """Layers behind the last map, or a table of what they make of each of its values."""

    layers: tuple[Pointwise, ...]
    has_softmax: bool
    dtype: torch.dtype
    table: Tensor | None = None
    lowest: float = 0.0
    step: float = 1.0

    def outputs(self, roots: Numbers) -> Tensor:
        """(n, channels of the last map) -> (n, K)"""
        if self.table is not None:
            index = ((roots[:, 0] - self.lowest) / self.step).astype(np.int64)
            return self.table[torch.from_numpy(index)]
        # Most steps change nothing: the background is replaced, or by its own color.
        changed = np.ones(len(roots), dtype=bool)
        np.any(roots[1:] != roots[:-1], axis=1, out=changed[1:])
        rows = torch.from_numpy(roots[changed]).to(self.dtype)
        for layer in self.layers:
            rows = layer(rows)
        rows = torch.softmax(rows, 1) if self.has_softmax else rows
        return rows[torch.from_numpy(changed.cumsum() - 1)]


def mixture_of(tree: Tree, image: Tensor, replacement: Tensor) -> Mixture:
    """Prepare an image (C, H, W) and its replacement, both on the CPU and of the network's type.

    Raises UnservedError if a sum of some mixture of the two may be rounded.
    """
    proof = Proof(image.dtype)
    rows = torch.cat([image, replacement]).flatten(1).T  # (P, 2C)
    rows = rows.clone(memory_format=torch.contiguous_format)
    words = rows.view(torch.int32).numpy().view(np.uint32)  # numpy has no bfloat16
    # Pixels with the same values in the same place of their window do the same.
    below = tree.steps[0]
    pairs, firsts = kernels.distinct_rows(np.column_stack([words, below.kind.view(np.uint32)]))
    both = torch.cat(rows[torch.from_numpy(firsts)].chunk(2, dim=1))
    features, grid = proof.rows(tree.front, both)
    start, end = features.double().numpy().reshape(2, len(firsts), -1)
    kinds = below.kind[firsts]
    first, first_size = kernels.sums_of_rows(start, kinds, below.weight)
    last, last_size = kernels.sums_of_rows(end, kinds, below.weight)
    sums = first, last, first_size, last_size
    walk = _Walk(proof, grid)
    walk.enter(below, kernels.spread_pairs(pairs, *sums, below.parent, below.bias, below.places))
    for step in tree.steps[1:]:
        walk.climb(step)
    # To `follow`, a replacement is what it changes of the first map.
    changes = replace(below, kind=pairs, weight=(last - first)[:, None])
    walk.levels[0] = walk.levels[0]._replace(step=changes)
    return Mixture(*_packed(walk.levels), _head(tree, walk, image.dtype), len(rows))


class _Level(NamedTuple):
    """Steps as one: its sums (places, outputs) at the start, and whether its ReLU can switch.

    `finest` divides all its weights; `changes` (1, inputs) bounds what replacements change of its
    inputs, and `grid` divides those changes.
    """

    step: Step
    sums: Numbers
    switches: bool
    finest: float
    changes: Numbers
    grid: float


class _Walk:
    """What any mixture can make of each map, from the first to the last.

    `low`, `high` and `now` (places, channels) bound a map's values and give them at the start; `grid`
    divides them.

    `behind` (matrices, and the grid of what they multiply) is the last step with a window times the
    1x1 steps since, as long as no ReLU between them can switch. It is there because products may be
    rounder than their factors: kernels of 1/4 and 3/4 that the next step adds up are together a
    kernel of 1, so integers leave the pair as integers, though not its first half.
    """

    def __init__(self, proof: Proof, grid: Tensor) -> None:
        self.proof, self.grid = proof, grid
        self.levels: list[_Level] = []

    def enter(self, step: Step, found: tuple[Numbers, Numbers, Numbers, Numbers]) -> None:
        """Add the first step, of which sums, their ranges and sizes are known."""
        now, low, high, sizes = found
        self.behind: tuple[Numbers, Tensor] | None = None
        self._hold(step, sizes)
        switches = self._leave(step, now, low, high)
        none = np.empty((0, step.weight.shape[1]))  # of changes: no level is joined with the first
        self.levels.append(_Level(step, now, switches, finest(step.weight), none, math.inf))

    def climb(self, step: Step) -> None:
        """Add a later step; it becomes one with the last level if no ReLU can switch between them."""
        linear = _linear(step)
        now, _, _ = kernels.spread_ranges(self.now, self.now, *linear)
        low, high, sizes = kernels.spread_ranges(self.low, self.high, *linear)
        changes, grid = (self.high - self.low).max(0, keepdims=True), float(self.grid.min())
        self._hold(step, sizes)
        switches = self._leave(step, now, low, high)
        level = _Level(step, now, switches, finest(step.weight), changes, grid)
        # The first level is left alone: its places are pixels, and their matrices would fill memory.
        below = self.levels[-1] if len(self.levels) > 1 else None
        joined = _joined(below, level) if below and not below.switches else None
        if joined is not None:
            self.levels[-1] = joined
        else:
            self.levels.append(level)

    def _hold(self, step: Step, sizes: Numbers) -> None:
        """Check a step, and find the grid of its sums."""
        weight, bias = torch.from_numpy(step.weight), torch.from_numpy(step.bias)
        before = self.grid
        self.grid = self.proof.hold(torch.from_numpy(sizes.max(0)), weight, bias, before)
        # A bias is the weight of a further input, which is always 1.
        matrices = np.concatenate([step.weight, np.tile(step.bias, (len(step.weight), 1, 1))], 1)
        # A place that sees padding alone holds the bias, whatever the products of weights are.
        seen = np.count_nonzero(step.parent >= 0) == step.places
        if self.behind is not None and len(matrices) == 1 and seen:
            first, grid = self.behind
            one = np.eye(first.shape[1])[None, :, -1:].repeat(len(first), axis=0)
            first = np.concatenate([first, one], axis=2)
            if fits_exactly(first, matrices, finest(first) * finest(matrices)):
                product = first @ matrices[0]
                self.behind = (product, grid)
                weight, bias = torch.from_numpy(product[:, :-1]), torch.from_numpy(product[0, -1])
                self.grid = torch.maximum(self.grid, grid_of_sums(weight, bias, grid))
                return
        self.behind = (matrices, before)

    def _leave(self, step: Step, now: Numbers, low: Numbers, high: Numbers) -> bool:
        """Keep what leaves a step, behind its ReLU; whether that can switch."""
        switches = bool(step.has_relu and low.min() < 0)
        if switches:
            self.behind = None
            now, low, high = (values.clip(min=0) for values in (now, low, high))
        self.now, self.low, self.high = now, low, high
        return switches


def _linear(step: Step) -> tuple[Places, Places, Numbers, Numbers, int]:
    return step.parent, step.kind, step.weight, step.bias, step.places


def _joined(lower: _Level, upper: _Level) -> _Level | None:
    """Two levels without a ReLU between them as one, unless float64 would round its weights or sums.

    The layers' own sums prove nothing about those: where one layer cancels fine parts that the one
    before made, all layers are exact, and what the merged weights make of a change is not.

    Levels that no place feeds (of padding alone) stay two.
    """
    below, above = lower.step, upper.step
    grid = lower.finest * upper.finest
    fed = below.parent >= 0
    if not fed.any() or not fits_exactly(below.weight, above.weight, grid):
        return None
    between = below.parent[fed]
    kinds = np.column_stack([below.kind[fed], above.kind[between]])
    which, firsts = kernels.distinct_rows(kinds.view(np.uint32))
    first, second = kinds[firsts].T
    weight = below.weight[first] @ above.weight[second]
    # Few products differ where blocks of kernels add up to ones; fewer matrices stay in the cache.
    same, firsts = kernels.distinct_rows(weight.reshape(len(weight), -1).view(np.uint32))
    weight = weight[firsts]
    if not fits_exactly(lower.changes, weight, lower.grid * grid):
        return None
    parent, kind = np.full_like(below.parent, -1), np.zeros_like(below.kind)
    parent[fed], kind[fed] = above.parent[between], same[which]
    step = replace(above, parent=parent, kind=kind, weight=weight)
    return upper._replace(step=step, finest=grid, changes=lower.changes, grid=lower.grid)


def _packed(levels: list[_Level]) -> tuple[NDArray[np.int64], Places, Places, Numbers, Numbers]:
    """Levels as flat arrays, one after the other, for `follow`."""
    rows, first_place, first_weight, first_sum = [], 0, 0, 0
    for level in levels:
        _, inputs, outputs = level.step.weight.shape
        rows.append([first_place, first_weight, first_sum, inputs, outputs, level.switches])
        first_place += level.step.parent.size
        first_weight += level.step.weight.size
        first_sum += level.sums.size
    steps = [level.step for level in levels]
    return (
        np.array(rows, np.int64),
        np.concatenate([step.parent for step in steps]),
        np.concatenate([step.kind for step in steps]),
        np.concatenate([step.weight.ravel() for step in steps]),
        np.concatenate([level.sums.ravel() for level in levels]),
    )


def _head(tree: Tree, walk: _Walk, dtype: torch.dtype) -> Head:
    """Check the head for everything that the last map can hold."""
    low, high = (torch.from_numpy(values[0]) for values in (walk.low, walk.high))
    if len(low) == 1:
        step = float(walk.grid[0]) if walk.grid.isfinite() else 1.0  # 0 lies on every grid
        # Bounds may lie off the grid: they are sums of bounds, which need not be reached together.
        first, last = math.ceil(float(low) / step), math.floor(float(high) / step)
        if last - first < MOST_VALUES:
            rows = step * torch.arange(first, last + 1, dtype=torch.float64, device="cpu")[:, None]
            table, _ = walk.proof.rows(tree.head, rows.to(dtype))
            if tree.has_softmax:
                table = torch.softmax(table, 1)
            return Head((), False, dtype, table, first * step, step)
    walk.proof.ranges(tree.head, low, high, walk.grid)
    return Head(tree.head, tree.has_softmax, dtype)
