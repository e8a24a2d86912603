"""Whether a pixel ever raises the output, and whether it ever lowers it, decided on integers.

What structure excludes never happens: the bounds are sound. What some coalition shows does. Where both
leave it open it is unknown.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributionlab.base import Numbers
from attributionlab.worlds.rules.cells import Unit, Vector, cells_of
from attributionlab.worlds.rules.forms import (
    Coefficients,
    Form,
    Interval,
    Node,
    Readout,
    Reducer,
    Tree,
    forms_in,
    interval,
)
from attributionlab.worlds.rules.mixtures import form_ranges
from attributionlab.worlds.rules.tables import Integers
from attributionlab.worlds.rules.walks import trials

ROUNDING = 2.0**-50
"""More than a difference of two probabilities is off by: each of a few roundings of numbers up to 1."""
DOES, NEVER, UNKNOWN = 1, 0, -1
"""Whether a pixel ever does something."""


class Moves(NamedTuple):
    """What one more pixel does to an integer, in any coalition.

    `rises`, `falls`: whether it may raise, and lower, it.
    """

    rises: bool
    falls: bool

    @property
    def reversed(self) -> "Moves":
        """Those of the integer's negative."""
        return Moves(self.falls, self.rises)

    @classmethod
    def of_any(cls, moves: Sequence["Moves"]) -> "Moves":
        """What any of these may do."""
        return cls(any(each.rises for each in moves), any(each.falls for each in moves))


class Signs(NamedTuple):
    """Signs of each cell, (cells,) arrays of int8: `DOES`, `NEVER` or `UNKNOWN`.

    `rises`, `falls`: whether a pixel ever raises, and lowers, the output. `changes`: whether it ever
    changes an integer that the output depends on: if not, it is a null player.
    """

    rises: NDArray[np.int8]
    falls: NDArray[np.int8]
    changes: NDArray[np.int8]


class Structure:
    """Sound bounds of what a pixel may do to a tree.

    `forms`: what vectors are about. `units`: what feeds them.
    """

    def __init__(self, forms: Sequence[Coefficients], units: Sequence[Unit]) -> None:
        self.index = {form: at for at, form in enumerate(forms)}
        ranges = form_ranges(forms, units)
        self.ranges: Mapping[Coefficients, Interval] = ranges
        self.reducer = Reducer({})

    def moves(self, tree: Tree, steps: Sequence[Vector]) -> Moves:
        """What a pixel may do that adds one of these vectors."""
        low, high = interval(tree, self.ranges)
        if low == high:
            return Moves(False, False)
        if isinstance(tree, Form):
            added = [step[self.index[tree.coefficients]] for step in steps]
            return Moves(any(each > 0 for each in added), any(each < 0 for each in added))
        parts = [self.moves(child, steps) for child in tree.children]
        either = Moves.of_any(parts)
        match tree.kind:
            case "min" | "max" | "step":
                return either
            case "sum":
                pairs = zip(tree.weights, parts, strict=True)
                return Moves.of_any(
                    [each if weight > 0 else each.reversed for weight, each in pairs]
                )
            case "if":
                return self._choice(tree, parts)
        low, high = interval(tree.children[0], self.ranges)
        if tree.kind == "abs" and (low >= 0 or high <= 0):
            return either if low >= 0 else either.reversed
        if tree.kind == "zero" and (low >= 0 or high <= 0):
            return either.reversed if low >= 0 else either
        return Moves(any(either), any(either))

    def _choice(self, tree: Node, parts: Sequence[Moves]) -> Moves:
        """A change of branch adds their difference, whose sign may be known."""
        condition, *branches = parts
        gap = self.reducer.sum([(1, tree.children[1]), (-1, tree.children[2])])
        low, high = self._gap(gap, tree)
        to_then, to_other = Moves(high > 0, low < 0), Moves(low < 0, high > 0)
        taken = [*branches]
        taken += [to_then] * condition.rises + [to_other] * condition.falls
        return Moves.of_any(taken)

    def _gap(self, gap: Tree, tree: Node) -> Interval:
        """Bounds of the difference of two branches; its linear form may be a new one."""
        (low, high), (other_low, other_high) = (
            interval(child, self.ranges) for child in tree.children[1:]
        )
        if all(form in self.ranges for form in forms_in([gap])):
            sharper = interval(gap, self.ranges)
            return max(low - other_high, sharper[0]), min(high - other_low, sharper[1])
        return low - other_high, high - other_low


def steps_of(units: Sequence[Unit]) -> list[list[Vector]]:
    """For each cell the vectors that one of its pixels may add: its own, or with its tile's bonus."""
    found = []
    for at, role in cells_of(units):
        own, bonus = units[at].roles[role][0], units[at].bonus
        last = tuple(a + b for a, b in zip(own, bonus, strict=True))
        found.append([last] if units[at].size == 1 else [own, last])
    return found


def signs(
    roots: Sequence[Tree], units: Sequence[Unit], readout: Readout, *, seed: int = 0
) -> Signs:
    """Signs of each cell without a table.

    One root is the output itself (a logit). The several, or the one of a probability with two classes,
    are differences of other logits and the target's, and the probability falls where one of them rises
    and none falls.

    - `roots`: what the output depends on.
    - `units`: vectors are of `forms_in(roots)`.
    """
    structure = Structure(forms_in(roots), units)
    found = np.full((3, len(cells_of(units))), UNKNOWN, dtype=np.int8)
    for cell, steps in enumerate(steps_of(units)):
        moves = [structure.moves(root, steps) for root in roots]
        either = Moves.of_any(moves)
        may = either if readout.direction > 0 else either.reversed
        found[:, cell] = [UNKNOWN if each else NEVER for each in (*may, any(may))]
    if (found == UNKNOWN).any():
        for cell, before, after in trials(roots, units, seed=seed):
            moved = [b - a for a, b in zip(before, after, strict=True)]
            seen = witnessed(moved, readout(after) - readout(before), readout.direction)
            found[:, cell] = np.where([each == DOES for each in seen], DOES, found[:, cell])
    return completed(*found)


def completed(rises: NDArray[np.int8], falls: NDArray[np.int8], changes: NDArray[np.int8]) -> Signs:
    """Signs with what follows: who changes something and never does the one does the other."""
    changes = np.where((rises == DOES) | (falls == DOES), DOES, changes)
    active = changes == DOES
    return Signs(
        np.where(active & (falls == NEVER) & (rises == UNKNOWN), DOES, rises).astype(np.int8),
        np.where(active & (rises == NEVER) & (falls == UNKNOWN), DOES, falls).astype(np.int8),
        changes.astype(np.int8),
    )


def witnessed(steps: Sequence[Integers], effects: Numbers, direction: int) -> tuple[int, int, int]:
    """Whether coalitions show that a pixel raises the output, lowers it, changes an integer.

    `steps`: what the pixel does to each integer, by coalition. `effects`: what it does to the output,
    rounded; asked only where integers move both ways. `direction`: 1 where the output rises with its
    integers, -1 where it falls.

    Result: `rises, falls, changes`: `DOES`; `NEVER`, here; or `UNKNOWN`, where effects are smaller than
    rounding.
    """
    least, most = np.minimum.reduce(steps), np.maximum.reduce(steps)
    up, down = bool(((least >= 0) & (most > 0)).any()), bool(((most <= 0) & (least < 0)).any())
    if direction < 0:
        up, down = down, up
    contrary = (least < 0) & (most > 0)
    if not contrary.any():
        return int(up), int(down), int(up or down)
    doubtful = effects[contrary]
    up, down = up or bool((doubtful > ROUNDING).any()), down or bool((doubtful < -ROUNDING).any())
    otherwise = UNKNOWN if (abs(doubtful) <= ROUNDING).any() else NEVER
    return (DOES if up else otherwise), (DOES if down else otherwise), DOES
