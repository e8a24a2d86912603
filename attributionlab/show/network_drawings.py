"""A drawing of a small network: every neuron with its bias, every connection with its weight."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from attributionlab.base import AttributionLabError, Count, Whole, checked_arguments
from attributionlab.show.plots import LETTERS
from attributionlab.show.style import LOWERS, RAISES, in_defaults

MOST_NEURONS, MOST_CONNECTIONS, MOST_LAYERS = 32, 100, 16
"""In a layer, in a layer, in all: up to these every number can be read on a wide screen."""
LABELED = 12
"""Connections of a layer up to which each has its weight beside it; of more, the values stand below."""
LARGEST_KERNEL = 5
"""Rows or columns of a kernel up to which all its numbers stand at a line."""
DARK, ARROW = "#444444", " \N{RIGHTWARDS ARROW} "

Weights = tuple[Any, Any]
"""Weight, (outputs, inputs) or (outputs, inputs, height, width), and bias, (outputs,)."""


@in_defaults
def network_drawing(
    layers: Iterable[Weights],
    *,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    title: str = "",
    examples: Mapping[str, Sequence[float]] | None = None,
    into: FigureBase | None = None,
) -> Any:
    """Draw neurons as boxes with their biases, and connections as lines with their weights.

    A convolution is drawn once, with a box for each channel. At the lines stand weights, the numbers of
    kernels of up to 5 x 5, and the range of larger ones. Positive weights are red, negative ones blue,
    and weights of 0 are left out.

    Parameters
    ----------
    layers : iterable of (weight, bias)
        From the input to the output: weights (outputs, inputs) or (outputs, inputs, height, width),
        biases (outputs,).
    inputs, outputs : sequence of str
        What stands beside the first and the last neurons.
    title : str
        Above all.
    examples : mapping of str to sequence of float, optional
        Values of the inputs, by their name: each box then says what its neuron gives for them, with a
        ReLU behind every neuron. Only for weights (outputs, inputs).
    into : FigureBase, optional
        A figure, or a part of one, to draw into; by default a new figure as large as the network needs.

    Returns
    -------
    matplotlib.figure.Figure
        Or the part that was drawn into.

    Raises
    ------
    AttributionLabError
        If there are no layers, layers that are no pairs of arrays or do not follow each other, too many
        layers, neurons or connections to be read, or examples that do not fit.

    Examples
    --------
    >>> from attributionlab import nets
    >>> from attributionlab.show import network_drawing
    >>> figure = network_drawing(nets.number_checker([5]), inputs=["x"], outputs=["x = 5"])
    >>> len(figure.axes[0].lines)  # connections
    9
    """
    if not isinstance(layers, Iterable):
        raise AttributionLabError(f"layers are {layers!r}: give pairs of weights and biases")
    if examples is not None and not isinstance(examples, Mapping):
        raise AttributionLabError(f"examples are {examples!r}: give a dict of names and values")
    shown = [_arrays(place, layer) for place, layer in enumerate(layers, start=1)]
    _check_size(shown)
    sizes = [shown[0][0].shape[1], *(len(weight) for weight, _ in shown)]
    boxes = [["  "] * sizes[0], *([_signed(each) for each in bias] for _, bias in shown)]
    meaning = "box: bias"
    if examples:
        answers = [
            [", ".join(f"{each:g}" for each in neuron) for neuron in values]
            for values in _answers(shown, examples)
        ]
        boxes = [answers[0]] + [
            [bias + ARROW + answer for bias, answer in zip(*both, strict=True)]
            for both in zip(boxes[1:], answers[1:], strict=True)
        ]
        meaning += f"{ARROW}output, after a ReLU, for {', '.join(examples)}"
    tallest, longest = max(sizes), max(len(text) for column in boxes for text in column)
    kernels = any(weight[0, 0].size > 1 for weight, _ in shown)
    row = 0.24 if tallest >= 16 else 0.7 if kernels else 0.5
    across = max(1.6, 0.8 + longest / LETTERS)
    beside = 0.1 + longest / 2 / LETTERS / across
    figure = into or Figure(
        figsize=(2 + across * len(shown), 2.2 + row * tallest), layout="constrained"
    )
    figure.suptitle(title, fontsize=11)
    axis = figure.subplots()
    axis.set_axis_off()
    places = [[tallest * (i + 0.5) / size for i in range(size)] for size in sizes]
    axis.set(xlim=(-0.6, len(shown) + 0.6), ylim=(tallest + 0.2 + 0.06 * tallest, 0))
    for column, (weight, _) in enumerate(shown):
        _connect(axis, column, weight, places[column], places[column + 1], tallest)
    for column, (ys, texts) in enumerate(zip(places, boxes, strict=True)):
        for y, text in zip(ys, texts, strict=True):
            axis.text(
                column, y, text, ha="center", va="center", fontsize=8 if tallest < 16 else 7, zorder=3,
                bbox={"boxstyle": "round,pad=0.3", "facecolor": "white", "edgecolor": DARK},
            )  # fmt: skip
    for y, name in zip(places[0], inputs, strict=False):
        axis.text(-beside, y, name, ha="right", va="center", fontsize=9)
    for y, name in zip(places[-1], outputs, strict=False):
        axis.text(len(shown) + beside, y, name, ha="left", va="center", fontsize=9)
    handles = [
        Line2D([], [], color=RAISES, label="weight above 0 (thicker: larger)"),
        Line2D([], [], color=LOWERS, label="weight below 0"),
        Line2D([], [], color=DARK, marker="s", fillstyle="none", linestyle="", label=meaning),
    ]
    figure.legend(handles=handles, loc="outside lower center", fontsize=8, frameon=False)
    return figure


@checked_arguments
@in_defaults
def place_drawing(grid: Count, places: Mapping[str, Sequence[Whole]], *, title: str = "") -> Figure:
    """Draw which patches of an image each head of a transformer attends to.

    Parameters
    ----------
    grid : int
        Patches in a row, and rows.
    places : mapping of str to sequence of int
        By what is said of a head the numbers of its patches, row by row from 0.
    title : str
        Above all.

    Returns
    -------
    matplotlib.figure.Figure
        A square for each head, its patches dark.

    Raises
    ------
    AttributionLabError
        If there are no heads, or patches outside of the grid.

    Examples
    --------
    >>> from attributionlab.show import place_drawing
    >>> len(place_drawing(2, {"left": [0, 2], "right": [1, 3]}).axes)
    2
    """
    if not places:
        raise AttributionLabError("places are {}: name a head and its patches")
    highest = max((each for patches in places.values() for each in patches), default=0)
    if highest >= grid**2:
        raise AttributionLabError(
            f"places name patch {highest}: take 0 to {grid**2 - 1} in a grid of {grid} x {grid}"
        )
    columns = min(4, len(places))
    rows = -(-len(places) // columns)
    figure = Figure(figsize=(2.6 * columns, 0.5 + 2.7 * rows), layout="constrained")
    figure.suptitle(title, fontsize=11)
    for number, (said, patches) in enumerate(places.items(), start=1):
        axis = figure.add_subplot(rows, columns, number)
        attended = np.zeros(grid**2)
        attended[list(patches)] = 1
        axis.pcolormesh(
            attended.reshape(grid, grid),
            cmap="Greys",
            vmin=0,
            vmax=1.4,
            edgecolors=DARK,
            linewidth=0.4,
        )
        axis.set(aspect="equal", xticks=[], yticks=[], ylim=(grid, 0))
        axis.set_title("\n".join(fill(line, 34) for line in said.splitlines()), fontsize=8)
    return figure


def _numbers(given: Any) -> NDArray[np.float64]:
    """An array, a sequence or a tensor of any kind and place as an array."""
    if hasattr(given, "detach"):
        given = given.detach().cpu().double()
    return np.asarray(given, float)


def _arrays(place: int, layer: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weight and bias of the layer at a place, from 1."""
    expected = (
        "a pair of weights (outputs, inputs), or with height and width, and biases (outputs,)"
    )
    try:
        weight, bias = map(_numbers, layer)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise AttributionLabError(
            f"layer {place} is not a pair of arrays: give {expected}"
        ) from error
    if weight.ndim not in (2, 4) or not weight.size or bias.shape != weight.shape[:1]:
        raise AttributionLabError(
            f"layer {place} has weights {weight.shape} and biases {bias.shape}: give {expected}"
        )
    return weight, bias


def _answers(
    layers: Sequence[Weights], examples: Mapping[str, Sequence[float]]
) -> list[NDArray[np.float64]]:
    """What each neuron gives for each example: (neurons, examples) of the inputs and of each layer."""
    inputs = layers[0][0].shape[1]
    if any(weight.ndim != 2 for weight, _ in layers):
        raise AttributionLabError(
            "examples are for linear layers, and one here is a convolution: leave them out"
        )
    rows = []
    for name, numbers in examples.items():
        row = np.empty(0)
        with suppress(TypeError, ValueError):
            row = _numbers(numbers)
        rows.append(row)
        if row.shape != (inputs,):
            raise AttributionLabError(
                f"example {name!r} does not have {inputs} values: give one for each input"
            )
    values = [np.stack(rows, axis=1)]
    for weight, bias in layers:
        values.append(np.maximum(weight @ values[-1] + bias[:, None], 0))
    return values


def _connect(
    axis: Axes,
    column: int,
    weight: NDArray[Any],
    left: Sequence[float],
    right: Sequence[float],
    tallest: int,
) -> None:
    """The lines between two columns of neurons, and their weights."""
    kernels = weight.reshape(*weight.shape[:2], -1)  # (outputs, inputs, places in the kernel)
    present = np.argwhere(kernels.any(2))
    largest = np.abs(kernels).max()
    for index, (to, start) in enumerate(present):
        values = kernels[to, start]
        sign = values.sum()
        color = RAISES if sign >= 0 else LOWERS
        strength = 0.6 + 1.6 * np.abs(values).max() / largest
        axis.plot(
            [column, column + 1], [left[start], right[to]], color=color, linewidth=strength,
            alpha=0.8, zorder=1,
        )  # fmt: skip
        if len(present) <= LABELED:
            # Lines that meet at a neuron are farthest apart at their other end.
            text = _kernel(weight[to, start])
            uneven = "\n" in text
            share = 0.6 if uneven else 0.32 + 0.18 * (index % 3)
            axis.text(
                column + share, left[start] + share * (right[to] - left[start]),
                text, color=color, fontsize=7 if uneven else 8, ha="center",
                va="center", zorder=2,
                bbox={"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none"},
            )  # fmt: skip
    below = []
    if weight.ndim == 4 and kernels.shape[2] > 1:
        below.append(f"kernel {weight.shape[2]} x {weight.shape[3]}")
    if len(present) > LABELED:
        values = np.unique(kernels[kernels != 0])
        few = ", ".join(map(_signed, values))
        below.append(f"weights {few if len(values) <= 3 else _range(values)}")
    text = "\n".join(below)
    axis.text(column + 0.5, tallest, text, ha="center", va="top", fontsize=7, color="#444444")


def _check_size(layers: Sequence[Weights]) -> None:
    """Refuse what could not be read."""
    if not layers:
        raise AttributionLabError("a network without weights has nothing to draw: give it a layer")
    for place, ((before, _), (after, _)) in enumerate(pairwise(layers), start=2):
        if after.shape[1] != len(before):
            raise AttributionLabError(
                f"layer {place} has {after.shape[1]} inputs, and the one before {len(before)} neurons: "
                "draw a chain of layers, with one value for each channel where linear layers begin"
            )
    counts = [(f"{len(layers)} layers", len(layers), MOST_LAYERS)]
    for place, (weight, _) in enumerate(layers, start=1):
        neurons = max(weight.shape[:2])
        connections = int(weight.reshape(*weight.shape[:2], -1).any(2).sum())
        counts.append((f"{neurons} neurons in layer {place}", neurons, MOST_NEURONS))
        counts.append(
            (f"{connections} connections to layer {place}", connections, MOST_CONNECTIONS)
        )
    beyond = next((what for what, count, most in counts if count > most), None)
    if beyond:
        raise AttributionLabError(
            f"{beyond} cannot be read in a drawing: take one of at most {MOST_LAYERS} layers, each "
            f"of at most {MOST_NEURONS} neurons and {MOST_CONNECTIONS} connections, such as "
            "number-checker, or a world of two colors"
        )


def _signed(value: float) -> str:
    return f"{value:+.4g}" if value else "0"


def _kernel(values: NDArray[Any]) -> str:
    """A weight, or a kernel's: one where all are equal, else row by row, or the range of large ones."""
    if values.ndim != 2 or values.min() == values.max() or max(values.shape) > LARGEST_KERNEL:
        return _range(values)
    return "\n".join("  ".join(f"{each:.3g}" for each in row) for row in values)


def _range(values: NDArray[Any]) -> str:
    low, high = values.min(), values.max()
    return _signed(low) if low == high else f"{_signed(low)} to {_signed(high)}"
