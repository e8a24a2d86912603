r"""Networks in which every pixel reaches the outputs along one path.

Such a network is a front that treats each pixel alone, a tree of convolutions whose windows do not
overlap (a position feeds at most one position of the next map), and a head behind the last map, which
has one position. What a change of one pixel does can then be followed from map to map.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.base.exact.chain import Chain, Convolution, Flattening, Layer, Matrix, Relu
from attributionlab.base.stats.intervals import Numbers

Places = NDArray[np.int32]


class UnservedError(Exception):
    """Changes cannot be followed through a model; the message says why, in half a sentence."""


@dataclass(frozen=True)
class Step:
    """One linear layer of the tree, with the ReLU behind it if there is one.

    - `parent`: which place of the next map each place feeds; -1 for none.
    - `kind`: which of the matrices it does so with.
    - `bias`: bias of every place of the next map.
    - `places`: how many places the next map has.
    - `has_relu`: whether a ReLU follows.
    """

    parent: Places
    kind: Places
    weight: Numbers
    bias: Numbers
    places: int
    has_relu: bool


class Pointwise(NamedTuple):
    """A layer that treats each place alone: weight (inputs, outputs) and bias, or a ReLU."""

    matrix: tuple[Tensor, Tensor] | None

    def __call__(self, rows: Tensor) -> Tensor:
        """(n, inputs) -> (n, outputs), in the type of the rows."""
        if self.matrix is None:
            return rows.clamp(min=0)
        weight, bias = self.matrix
        return torch.addmm(bias.to(rows.dtype), rows, weight.to(rows.dtype))


class Tree(NamedTuple):
    """A network cut in three."""

    front: tuple[Pointwise, ...]
    steps: tuple[Step, ...]
    head: tuple[Pointwise, ...]
    has_softmax: bool


def tree_of(chain: Chain, channels: int, shape: tuple[int, int]) -> Tree:
    """Cut a chain of layers, for images of this many channels and (height, width), in three.

    Raises UnservedError if it is no front, tree and head.
    """
    if not _turns_maps_into_rows(chain):
        raise UnservedError("it is not made of convolutions, then nn.Flatten, then linear layers")
    layers = list(chain.layers)
    front: list[Pointwise] = []
    while layers and (pointwise := _pointwise(layers[0])) is not None:
        front.append(pointwise)
        layers.pop(0)
    steps: list[Step] = []
    # Convolutions of a map with one place are steps too: what they make of it may be rounder.
    while layers and (shape != (1, 1) or isinstance(layers[0], Convolution)):
        layer = layers.pop(0)
        if isinstance(layer, Flattening):
            following = layers.pop(0) if layers else None
            if not isinstance(following, Matrix):
                raise UnservedError("its outputs are not reached through one place")
            if following.weight.shape[1] % (shape[0] * shape[1]):
                raise UnservedError("a linear layer does not fit the map before it")
            step, shape = _whole_map(following, shape), (1, 1)
        elif isinstance(layer, Convolution):
            grids = _grids(layer, shape)
            if grids is None:
                raise UnservedError(
                    "windows of its convolutions overlap, so a pixel has more than one path"
                )
            step, shape = _convolution(layer, grids), (grids[0].size, grids[1].size)
        else:
            raise UnservedError(
                f"a layer of the kind {type(layer).__name__} is where a convolution should be"
            )
        if layers and isinstance(layers[0], Relu):
            layers.pop(0)
            step = replace(step, has_relu=True)
        steps.append(step)
    head = [
        Pointwise((layer.weight.T.cpu(), layer.bias.cpu()))
        if isinstance(layer, Matrix)
        else _pointwise(layer)
        for layer in layers
        if not isinstance(layer, Flattening)
    ]
    if shape != (1, 1) or not steps or None in head:
        raise UnservedError(
            "its layers do not end in one place with a head of linear layers behind it"
        )
    tree = Tree(
        tuple(front),
        tuple(steps),
        tuple(layer for layer in head if layer is not None),
        chain.has_softmax,
    )
    if not _fits(tree, channels):
        raise UnservedError(f"it does not take images of {channels} channels")
    return tree


def _turns_maps_into_rows(chain: Chain) -> bool:
    """Whether a flattening parts convolutions, which see maps, from linear layers, which see rows."""
    kinds = [type(layer) for layer in chain.layers]
    if Flattening not in kinds:
        return False
    first = kinds.index(Flattening)
    return Matrix not in kinds[:first] and Convolution not in kinds[first:]


def _fits(tree: Tree, channels: int) -> bool:
    """Whether each layer has as many inputs as the one before has outputs."""
    matrices = [
        *(layer.matrix[0] for layer in tree.front if layer.matrix is not None),
        *(step.weight[0] for step in tree.steps),
        *(layer.matrix[0] for layer in tree.head if layer.matrix is not None),
    ]
    widths = [channels, *(matrix.shape[1] for matrix in matrices)]
    return all(matrix.shape[0] == width for matrix, width in zip(matrices, widths, strict=False))


def _pointwise(layer: Layer) -> Pointwise | None:
    """A ReLU, or a convolution that treats each place alone."""
    if isinstance(layer, Relu):
        return Pointwise(None)
    if isinstance(layer, Convolution) and layer.is_pointwise:
        return Pointwise((_without_groups(layer)[:, :, 0, 0].T.cpu(), layer.bias.cpu()))
    return None


class _Axis(NamedTuple):
    """Along one axis: which window each position lies in (-1: none), and where in that window."""

    size: int
    window: Places
    offset: Places


def _grids(layer: Convolution, shape: tuple[int, int]) -> tuple[_Axis, _Axis] | None:
    axes = [
        _axis(size, kernel, stride, padding, dilation)
        for size, kernel, stride, padding, dilation in zip(
            shape, layer.weight.shape[2:], layer.stride, layer.padding, layer.dilation, strict=True
        )
    ]
    if axes[0] is None or axes[1] is None:
        return None
    return axes[0], axes[1]


def _axis(size: int, kernel: int, stride: int, padding: int, dilation: int) -> _Axis | None:
    """None if windows overlap or there is no window."""
    windows = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    if windows < 1:
        return None
    positions = np.arange(windows)[:, None] * stride - padding + np.arange(kernel) * dilation
    inside = (positions >= 0) & (positions < size)
    if np.bincount(positions[inside], minlength=size).max() > 1:
        return None
    which, offsets = np.nonzero(inside)
    window, offset = np.full(size, -1, np.int32), np.zeros(size, np.int32)
    window[positions[inside]], offset[positions[inside]] = which, offsets
    return _Axis(windows, window, offset)


def _convolution(layer: Convolution, grids: tuple[_Axis, _Axis]) -> Step:
    rows, columns = grids
    parent = np.add.outer(rows.window * columns.size, columns.window)
    parent[(rows.window < 0)[:, None] | (columns.window < 0)[None]] = -1
    kind = np.add.outer(rows.offset * layer.weight.shape[3], columns.offset)
    return Step(
        parent.ravel(),
        kind.ravel(),
        _matrices(_without_groups(layer)),
        _array(layer.bias),
        rows.size * columns.size,
        has_relu=False,
    )


def _whole_map(layer: Matrix, shape: tuple[int, int]) -> Step:
    """A linear layer behind a flattened map: a window as large as the map."""
    places = shape[0] * shape[1]
    weight = layer.weight.reshape(len(layer.weight), -1, *shape)
    return Step(
        np.zeros(places, np.int32),
        np.arange(places, dtype=np.int32),
        _matrices(weight),
        _array(layer.bias),
        places=1,
        has_relu=False,
    )


def _without_groups(layer: Convolution) -> Tensor:
    """Weights (outputs, inputs, kernel, kernel) of all inputs: zeros between groups."""
    if layer.groups == 1:
        return layer.weight
    blocks = layer.weight.chunk(layer.groups)
    inputs = layer.weight.shape[1]
    dense = layer.weight.new_zeros(
        len(layer.weight), inputs * layer.groups, *layer.weight.shape[2:]
    )
    for group, block in enumerate(blocks):
        rows = slice(group * len(block), (group + 1) * len(block))
        dense[rows, group * inputs : (group + 1) * inputs] = block
    return dense


def _matrices(weight: Tensor) -> Numbers:
    """(outputs, inputs, kernel, kernel) -> (kinds, inputs, outputs)"""
    return _array(weight.flatten(2).permute(2, 1, 0).contiguous())


def _array(values: Tensor) -> Numbers:
    array: Numbers = values.cpu().numpy()
    return array
