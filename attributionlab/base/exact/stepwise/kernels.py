"""Loops over pixels, compiled by numba when first called and kept in its cache.

What they add up to is checked against one forward pass for each step (tests/oracles.py).
"""

import numpy as np
from numpy.typing import NDArray

from attributionlab.base.compiling import compiled
from attributionlab.base.exact.stepwise.tree import Places
from attributionlab.base.stats.intervals import Numbers


@compiled
def distinct_rows(rows: NDArray[np.uint32]) -> tuple[Places, Places]:
    """For each row (n, words) its kind, and for each kind the first row of it.

    Rows are compared bit by bit, so 0.0 and -0.0 are two kinds of the same value.
    """
    n, words = rows.shape
    size = 4
    while size < 2 * n:
        size *= 2
    table = np.full(size, -1, np.int32)
    kinds, firsts = np.empty(n, np.int32), np.empty(n, np.int32)
    found = 0
    for row in range(n):
        key = np.uint64(0)
        for word in range(words):
            key = (key ^ np.uint64(rows[row, word])) * np.uint64(0x9E3779B97F4A7C15)
            key ^= key >> np.uint64(29)
        place = np.int64(key & np.uint64(size - 1))
        while True:
            kind = table[place]
            if kind < 0:
                table[place] = found
                firsts[found] = row
                kinds[row] = found
                found += 1
                break
            same = True
            for word in range(words):
                if rows[firsts[kind], word] != rows[row, word]:
                    same = False
                    break
            if same:
                kinds[row] = kind
                break
            place = (place + 1) & (size - 1)
    return kinds, firsts[:found].copy()


@compiled
def sums_of_rows(rows: Numbers, kind: Places, weight: Numbers) -> tuple[Numbers, Numbers]:
    """What each row (n, inputs) adds to the outputs of its matrix weight[kind[n]].

    Two arrays (n, outputs): the sums, and the magnitudes added up.
    """
    inputs, outputs = weight.shape[1], weight.shape[2]
    sums, sizes = np.zeros((len(kind), outputs)), np.zeros((len(kind), outputs))
    for row in range(len(kind)):
        matrix = kind[row]
        for i in range(inputs):
            value = rows[row, i]
            if value != 0:
                for o in range(outputs):
                    term = weight[matrix, i, o] * value
                    sums[row, o] += term
                    sizes[row, o] += abs(term)
    return sums, sizes


@compiled
def spread_pairs(
    pairs: Places,
    first: Numbers,
    last: Numbers,
    first_size: Numbers,
    last_size: Numbers,
    parent: Places,
    bias: Numbers,
    places: int,
) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Sums of the first map: at the start, at least, at most, and of magnitudes at most.

    Each pixel adds what its pair does at the start or at the end (`sums_of_rows`).
    """
    outputs = len(bias)
    now, least = np.empty((places, outputs)), np.empty((places, outputs))
    most, size = np.empty((places, outputs)), np.empty((places, outputs))
    for place in range(places):
        for o in range(outputs):
            now[place, o] = least[place, o] = most[place, o] = bias[o]
            size[place, o] = abs(bias[o])
    for pixel in range(len(pairs)):
        above, pair = parent[pixel], pairs[pixel]
        if above >= 0:
            for o in range(outputs):
                now[above, o] += first[pair, o]
                least[above, o] += min(first[pair, o], last[pair, o])
                most[above, o] += max(first[pair, o], last[pair, o])
                size[above, o] += max(first_size[pair, o], last_size[pair, o])
    return now, least, most, size


@compiled
def spread_ranges(
    low: Numbers,
    high: Numbers,
    parent: Places,
    kind: Places,
    weight: Numbers,
    bias: Numbers,
    places: int,
) -> tuple[Numbers, Numbers, Numbers]:
    """Sums of a later map: at least, at most, and of magnitudes at most, for inputs in [low, high]."""
    inputs, outputs = weight.shape[1], weight.shape[2]
    least, most = np.empty((places, outputs)), np.empty((places, outputs))
    size = np.empty((places, outputs))
    for place in range(places):
        for o in range(outputs):
            least[place, o] = most[place, o] = bias[o]
            size[place, o] = abs(bias[o])
    for place in range(len(parent)):
        above = parent[place]
        if above < 0:
            continue
        matrix = kind[place]
        for i in range(inputs):
            lower, upper = low[place, i], high[place, i]
            for o in range(outputs):
                factor = weight[matrix, i, o]
                if factor > 0:
                    least[above, o] += factor * lower
                    most[above, o] += factor * upper
                elif factor < 0:
                    least[above, o] += factor * upper
                    most[above, o] += factor * lower
                size[above, o] += abs(factor) * max(abs(lower), abs(upper))
    return least, most, size


@compiled
def _climb(
    pixel: int,
    keeps: bool,
    levels: NDArray[np.int64],
    parents: Places,
    kinds: Places,
    weights: Numbers,
    state: Numbers,
    change: Numbers,
    further: Numbers,
    reached: Numbers,
) -> None:
    """Follow the replacement of one pixel from map to map, until it changes nothing or is on top.

    - `keeps`: whether `state` becomes that of the image with the pixel replaced, or stays as it is.
    - `levels`, `parents`, `kinds`, `weights`, `state`: as for `follow`.
    - `change`, `further`: room for the widest level.
    - `reached`: becomes the last map's sums, before their ReLU, if the change gets there.
    """
    last = len(levels) - 1
    place = np.int64(pixel)
    change[0] = 1.0
    for level in range(last + 1):
        above = parents[levels[level, 0] + place]
        if above < 0:
            break
        width_in, width_out = levels[level, 3], levels[level, 4]
        matrix = levels[level, 1] + kinds[levels[level, 0] + place] * width_in * width_out
        sums = levels[level, 2] + above * width_out
        for o in range(width_out):
            further[o] = 0.0
        for i in range(width_in):
            if change[i] != 0:
                for o in range(width_out):
                    further[o] += weights[matrix + i * width_out + o] * change[i]
        moved = False
        for o in range(width_out):
            if further[o] != 0:
                before = state[sums + o]
                after = before + further[o]
                if keeps:
                    state[sums + o] = after
                if level == last:
                    reached[o] = after
                if levels[level, 5]:
                    further[o] = max(after, 0.0) - max(before, 0.0)
                moved |= further[o] != 0
        if not moved:
            break
        change, further = further, change
        place = np.int64(above)


@compiled
def follow(
    order: NDArray[np.int64],
    counts: NDArray[np.int64],
    levels: NDArray[np.int64],
    parents: Places,
    kinds: Places,
    weights: Numbers,
    state: Numbers,
) -> Numbers:
    """Values of the last map after each of the increasing counts of replacements: (counts, outputs).

    - `order`: pixels in the order of their replacement.
    - `counts`: after how many of them to evaluate.
    - `levels`: for each: where its entries of `parents` and `kinds`, of `weights` and of `state` begin;
      its inputs and outputs; whether a ReLU follows that can switch.
    - `parents`, `kinds`, `weights`: as in `Step`, of all levels, one after the other. The first level
      has one input, which a replacement changes by 1: its matrices are what each pair of pixels
      changes.
    - `state`: sums of all levels, (places, outputs) each, before their ReLU. It is changed.
    """
    widest = max(levels[:, 3].max(), levels[:, 4].max())
    change, further = np.empty(widest), np.empty(widest)
    last = len(levels) - 1
    outputs, root = levels[last, 4], levels[last, 2]
    reached = state[root : root + outputs].copy()
    result = np.empty((len(counts), outputs))
    filled = 0
    for step in range(len(order) + 1):
        if step > 0:
            pixel = order[step - 1]
            _climb(pixel, True, levels, parents, kinds, weights, state, change, further, reached)
        while filled < len(counts) and counts[filled] == step:
            for o in range(outputs):
                result[filled, o] = max(reached[o], 0.0) if levels[last, 5] else reached[o]
            filled += 1
        if filled == len(counts):
            break
    return result


@compiled
def follow_each(
    pixels: int,
    levels: NDArray[np.int64],
    parents: Places,
    kinds: Places,
    weights: Numbers,
    state: Numbers,
) -> Numbers:
    """Values of the last map where one pixel alone is replaced, for each pixel: (pixels, outputs).

    `pixels`: P. `levels`, `parents`, `kinds`, `weights`, `state`: as for `follow`; here `state` is left
    as it is.
    """
    widest = max(levels[:, 3].max(), levels[:, 4].max())
    change, further = np.empty(widest), np.empty(widest)
    last = len(levels) - 1
    outputs, root = levels[last, 4], levels[last, 2]
    result = np.empty((pixels, outputs))
    for pixel in range(pixels):
        result[pixel] = state[root : root + outputs]
        reached = result[pixel]
        _climb(pixel, False, levels, parents, kinds, weights, state, change, further, reached)
        if levels[last, 5]:
            for o in range(outputs):
                reached[o] = max(reached[o], 0.0)
    return result
