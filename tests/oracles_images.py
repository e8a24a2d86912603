"""The images a second time: plain Python over single pixels, written from the definitions.

A twin takes its random numbers from the same stream in the same order as the laboratory, so both
must agree exactly. Nothing here imports the laboratory.
"""

import math
from itertools import pairwise

import numpy as np


def naive_drawing(
    seed, index, *, image_size, background, count, shapes, patch_size, colors=(), fill=1, values=()
):
    """The image, (C, H, W) nested lists, and the label map of one sample.

    Either `colors` (one per patch) and `fill` or `values` (lowest, highest) say what is in a patch.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(index,)))
    labels = naive_layout(
        rng, image_size=image_size, count=count, shapes=shapes, patch_size=patch_size
    )
    inside = [(i, j) for i in range(image_size) for j in range(image_size) if labels[i][j]]
    if values:
        numbers = rng.integers(values[0], values[1] + 1, size=(1, len(inside)), dtype=np.uint8)
        content = [(int(number),) for number in numbers[0]]
    else:
        content = [
            colors[labels[i][j] - 1] if rng.random() < fill else background for i, j in inside
        ]
    image = [[[value] * image_size for _ in range(image_size)] for value in background]
    for (i, j), color in zip(inside, content, strict=True):
        for channel, value in enumerate(color):
            image[channel][i][j] = value
    return image, labels


def naive_layout(rng, *, image_size, count, shapes, patch_size):
    """The label map, nested lists: patches placed largest first, at random, until all have room."""
    while True:
        labels = [[0] * image_size for _ in range(image_size)]
        patches, pixels = [], 0
        while len(patches) < count and pixels <= image_size**2:
            shape = NAIVE_SHAPES[shapes[rng.integers(len(shapes))]]
            fraction = patch_size[0] + (patch_size[1] - patch_size[0]) * rng.random()
            patches.append(shape(rng, max(1, round(image_size * fraction))))
            pixels += sum(map(sum, patches[-1]))
        lots = [rng.random() for _ in patches]
        order = sorted(range(len(patches)), key=lambda k: (-sum(map(sum, patches[k])), lots[k]))
        if all(naive_place(rng, labels, patches[k], k + 1) for k in order) and (
            len(patches) == count
        ):
            return labels


def naive_place(rng, labels, patch, label):
    """Write a patch at the first of 100 positions where every pixel is free."""
    height, width, size = len(patch), len(patch[0]), len(labels)
    tops = rng.integers(0, size - height + 1, size=100)
    lefts = rng.integers(0, size - width + 1, size=100)
    cells = [(i, j) for i in range(height) for j in range(width) if patch[i][j]]
    for top, left in zip(tops, lefts, strict=True):
        if all(labels[top + i][left + j] == 0 for i, j in cells):
            for i, j in cells:
                labels[top + i][left + j] = label
            return True
    return False


def naive_bezier(rng, diameter):
    """Anchors around the origin, joined by cubics whose tangents are their neighbors' chords."""
    n = int(rng.integers(5, 9))
    strays = [0.4 * rng.random() - 0.2 for _ in range(n)]
    radii = [0.5 + 0.5 * rng.random() for _ in range(n)]
    turn = rng.random()
    anchors = []
    for k in range(n):
        angle = 2 * math.pi * ((k + strays[k]) / n + turn)
        anchors.append((radii[k] * math.sin(angle), radii[k] * math.cos(angle)))
    outline = []
    for k in range(n):
        before, start, end, after = (anchors[(k + step) % n] for step in (-1, 0, 1, 2))
        points = [
            start,
            tuple(s + (e - b) / 6 for s, e, b in zip(start, end, before, strict=True)),
            tuple(e - (a - s) / 6 for e, a, s in zip(end, after, start, strict=True)),
            end,
        ]
        outline += [de_casteljau(points, piece / 12) for piece in range(12)]
    return naive_fill(outline, diameter)


def de_casteljau(points, t):
    """A point of a Bezier curve by repeated linear interpolation."""
    while len(points) > 1:
        points = [
            tuple((1 - t) * p + t * q for p, q in zip(left, right, strict=True))
            for left, right in pairwise(points)
        ]
    return points[0]


def naive_triangle(rng, diameter):
    """Three corners on a circle, at least 80 degrees apart, in a random orientation."""
    cuts = sorted([rng.random(), rng.random()])
    turn = rng.random()
    degrees = [0, 80 + 120 * cuts[0], 160 + 120 * cuts[1]]
    return naive_fill([on_circle(degree / 360 + turn) for degree in degrees], diameter)


def naive_square(rng, diameter):
    """Four corners a quarter turn apart, in a random orientation."""
    turn = rng.random()
    return naive_fill([on_circle(k / 4 + turn) for k in range(4)], diameter)


def naive_circle(rng, diameter):
    """Pixels whose centers are less than a radius from the center; in integers, doubled."""
    return [
        [
            (2 * i + 1 - diameter) ** 2 + (2 * j + 1 - diameter) ** 2 < diameter**2
            for j in range(diameter)
        ]
        for i in range(diameter)
    ]


def on_circle(turns):
    return (math.sin(2 * math.pi * turns), math.cos(2 * math.pi * turns))


def naive_fill(outline, diameter):
    """Scale an outline to `diameter` pixels and ask of every pixel center whether it is inside."""
    lows = [min(point[axis] for point in outline) for axis in (0, 1)]
    highs = [max(point[axis] for point in outline) for axis in (0, 1)]
    scale = diameter / max(high - low for low, high in zip(lows, highs, strict=True))
    scaled = [tuple((p[axis] - lows[axis]) * scale for axis in (0, 1)) for p in outline]
    inside = [
        [is_inside(scaled, i + 0.5, j + 0.5) for j in range(diameter)] for i in range(diameter)
    ]
    rows = [i for i in range(diameter) if any(inside[i])]
    columns = [j for j in range(diameter) if any(inside[i][j] for i in range(diameter))]
    if not rows:
        return [[True]]
    return [
        [inside[i][j] for j in range(columns[0], columns[-1] + 1)]
        for i in range(rows[0], rows[-1] + 1)
    ]


def is_inside(outline, row, column):
    """Whether a ray from the point to the right crosses the outline an odd number of times."""
    crossings = 0
    for (r0, c0), (r1, c1) in zip(outline, outline[1:] + outline[:1], strict=True):
        if (r0 > row) != (r1 > row) and column < c0 + (row - r0) * (c1 - c0) / (r1 - r0):
            crossings += 1
    return crossings % 2 == 1


NAIVE_SHAPES = {
    "bezier": naive_bezier,
    "triangle": naive_triangle,
    "square": naive_square,
    "circle": naive_circle,
}
