"""Cells: pixels of an image that no rule can tell apart, and the units in which they count."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributionlab.worlds.images.regions import MOTIFS, TILE
from attributionlab.worlds.rules.expressions import Count, Expression, counts_in
from attributionlab.worlds.rules.forms import Coefficients
from attributionlab.worlds.rules.places import Places

Vector = tuple[int, ...]
"""What something adds to each linear form of a game."""
OUTSIDE = -1
"""The label of pixels that feed no form."""


@dataclass(frozen=True, order=True)
class Unit:
    """Pixels that count together: one alone, or the k pixels of a complete tile.

    `roles`: what a pixel adds by itself, and how many pixels of the unit add the same. `bonus`: what
    the unit adds while all its pixels are there; zeros for a single pixel. `number`: how many such
    units the image has.
    """

    roles: tuple[tuple[Vector, int], ...]
    bonus: Vector
    number: int

    @property
    def size(self) -> int:
        """k, its pixels."""
        return sum(pixels for _, pixels in self.roles)

    @property
    def is_pure(self) -> bool:
        """Whether it counts as a whole or not at all: a pixel, or a tile whose pixels add nothing."""
        return self.size == 1 or not any(any(vector) for vector, _ in self.roles)

    @property
    def whole(self) -> Vector:
        """What it adds when all its pixels are there."""
        total = np.array(self.bonus, dtype=object)
        for vector, pixels in self.roles:
            total = total + pixels * np.array(vector, dtype=object)
        return tuple(map(int, total))


Place = tuple[int, int]
"""A cell: index of a unit, and of a role in it."""


def cells_of(units: Sequence[Unit]) -> list[Place]:
    """All cells, in the order of their labels."""
    return [(at, role) for at, unit in enumerate(units) for role in range(len(unit.roles))]


class Merged(NamedTuple):
    """Units under a choice of forms.

    `units`: those that feed a chosen form; vectors are of the chosen forms. `places`: where each old
    cell went; a cell that feeds no chosen form is not there.
    """

    units: tuple[Unit, ...]
    places: dict[Place, Place]


def merged(units: Sequence[Unit], chosen: Sequence[int]) -> Merged:
    """Units that are equal in the chosen forms become one.

    Pixels with equal coefficients in all forms are exchangeable. Pixels of a tile whose bonus is 0 in
    the chosen forms are players by themselves.
    """
    numbers: dict[tuple[tuple[tuple[Vector, int], ...], Vector], int] = {}
    went = {}
    nothing = (0,) * len(chosen)
    for at, unit in enumerate(units):
        vectors = [tuple(vector[form] for form in chosen) for vector, _ in unit.roles]
        bonus = tuple(unit.bonus[form] for form in chosen)
        if any(bonus):
            pixels = dict.fromkeys(vectors, 0)
            for vector, (_, each) in zip(vectors, unit.roles, strict=True):
                pixels[vector] += each
            key = tuple(sorted(pixels.items())), bonus
            numbers[key] = numbers.get(key, 0) + unit.number
            for role, vector in enumerate(vectors):
                went[at, role] = key, vector
            continue
        for role, (vector, (_, each)) in enumerate(zip(vectors, unit.roles, strict=True)):
            if any(vector):
                key = ((vector, 1),), nothing
                numbers[key] = numbers.get(key, 0) + unit.number * each
                went[at, role] = key, vector
    order = {key: at for at, key in enumerate(sorted(numbers))}
    places = {
        old: (order[key], [each for each, _ in key[0]].index(vector))
        for old, (key, vector) in went.items()
    }
    return Merged(tuple(Unit(*key, numbers[key]) for key in order), places)


Hits = Mapping[Count, NDArray[np.bool_]]
"""Pixels (H, W), or tiles (H // 2, W // 2), of each count in an image."""


def hits_of(image: NDArray[Any], places: Places, expressions: Sequence[Expression]) -> Hits:
    """Where the counts of expressions lie in an image (C, H, W)."""
    counts = dict.fromkeys(count for each in expressions for count in counts_in(each))
    return {count: places.hits(image, count) for count in counts}


def cells(
    hits: Hits, forms: Sequence[Coefficients], shape: tuple[int, int]
) -> tuple[tuple[Unit, ...], NDArray[np.int64]]:
    """Units of an image that feed the linear forms of a game, and the cell of each pixel, an index of
    `cells_of(units)`; -1 where a pixel feeds no form.

    A player is a pixel. Alone it feeds the counts of its color in the regions where it lies; the
    pixels of a tile that shows a motif in the image feed the motif's counts together. Any other tile
    shows no motif, whatever is absent. A tile shows one motif at most: any two of `MOTIFS`, or one
    with other colors, need different colors at one pixel.

    `hits`: where the counts lie. `forms`: linear forms of the counts. `shape`: H and W.
    """
    raw: dict[tuple[tuple[tuple[Vector, int], ...], Vector], list[list[int]]] = {}
    own = _vectors(hits, forms, [c for c in hits if not c.motif], shape)
    motifs = [count for count in hits if count.motif]
    tiles = _vectors(hits, forms, motifs, (shape[0] // TILE, shape[1] // TILE))
    free = np.ones(shape[0] * shape[1], dtype=bool)
    nothing = (0,) * len(forms)
    for row, column in np.argwhere(tiles.any(-1)).tolist():
        motif = next(count.motif for count in motifs if hits[count][row, column])
        pixels = [y * shape[1] + x for y, x in pixels_of(motif, row, column)]
        free[pixels] = False
        by_role: dict[Vector, list[int]] = {}
        for pixel in pixels:
            by_role.setdefault(tuple(own.reshape(-1, len(forms))[pixel].tolist()), []).append(pixel)
        roles = tuple((vector, len(by_role[vector])) for vector in sorted(by_role))
        members = raw.setdefault((roles, tuple(tiles[row, column].tolist())), [[] for _ in roles])
        for member, vector in zip(members, sorted(by_role), strict=True):
            member += by_role[vector]
    flat = own.reshape(-1, len(forms)) if forms else np.zeros((free.size, 0), dtype=np.int64)
    feeding = np.flatnonzero(free & flat.any(-1))
    kinds, which = np.unique(flat[feeding], axis=0, return_inverse=True)
    for at, kind in enumerate(kinds.tolist()):
        raw[((tuple(kind), 1),), nothing] = [feeding[which.ravel() == at].tolist()]
    labels = np.full(free.size, OUTSIDE, dtype=np.int64)
    units, label = [], 0
    for roles, bonus in sorted(raw):
        members = raw[roles, bonus]
        units.append(Unit(roles, bonus, len(members[0]) // roles[0][1]))
        for member in members:
            labels[member] = label
            label += 1
    return tuple(units), labels.reshape(shape)


def pixels_of(motif: str, row: int, column: int) -> Iterator[tuple[int, int]]:
    """Pixels of a tile in which a motif asks for a color."""
    for y, places in enumerate(MOTIFS[motif]):
        for x, place in enumerate(places):
            if place is not None:
                yield TILE * row + y, TILE * column + x


def _vectors(
    hits: Hits, forms: Sequence[Coefficients], counts: Sequence[Count], shape: tuple[int, int]
) -> NDArray[np.int64]:
    """What each pixel, or tile, adds to each form, (*shape, forms)."""
    weights: list[Mapping[Count, int]] = [dict(form) for form in forms]
    vectors = np.zeros((*shape, len(forms)), dtype=np.int64)
    for count in counts:
        coefficients = [each.get(count, 0) for each in weights]
        if any(coefficients):
            vectors[hits[count]] += np.array(coefficients, dtype=np.int64)
    return vectors
