"""Values, rising and falling parts, and signs of all cells of a game, by the best route for each.

A logit that is a sum is shared out. Its linear part is solved on sight. Of the other terms, those that
no pixel joins are games by themselves: what a pixel adds depends on its own terms only. And values,
unlike their rising and falling parts, are sums over terms even where pixels join them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributionlab.base import Numbers
from attributionlab.worlds.rules.cells import Merged, Place, Unit, cells_of, merged
from attributionlab.worlds.rules.forms import (
    Coefficients,
    Form,
    Node,
    Readout,
    Reducer,
    Tree,
    forms_in,
    value,
)
from attributionlab.worlds.rules.mixtures import OneTree, is_narrow
from attributionlab.worlds.rules.signs import completed, signs, witnessed
from attributionlab.worlds.rules.softmax import separated
from attributionlab.worlds.rules.sums import SumGrid, fits_sums
from attributionlab.worlds.rules.tables import (
    CountGrid,
    Integers,
    Parts,
    fits,
    parts,
)
from attributionlab.worlds.rules.walks import estimate

Route = Literal["table", "sums", "sub-expressions", "estimate"]
"""How a value was had: from a table over all counts, or over sums of counts, exact but for rounding;
from distributions of sub-expressions, with a quadrature that is checked; from random orders."""
WORST = ("table", "sums", "sub-expressions", "estimate")
STANDARD_ERRORS = 3
"""How many of them an estimate is taken to be off at most."""


@dataclass(frozen=True)
class Game:
    """What is computed from the units of an image; equal games have equal values.

    `roots`: integers that the output depends on. `units`: vectors are of `forms_in(roots)`. `readout`:
    the explained output.
    """

    roots: tuple[Tree, ...]
    units: tuple[Unit, ...]
    readout: Readout


@dataclass(frozen=True, eq=False)
class Solved:
    """One entry for each cell, in the order of `cells_of`; for one of its pixels.

    - `values`, `rising`, `falling`: Shapley value, S+ = E max(marginal, 0), and S- = E max(-marginal,
      0): value = S+ - S-.
    - `value_errors`, `part_errors`: how far each may be off: a bound for a table, a check for
      sub-expressions, three standard errors for an estimate. The second is of each of S+ and S-.
    - `value_routes`, `part_routes`: how they were had.
    - `rises`, `falls`, `changes`: whether a pixel ever raises the output, lowers it, changes an integer
      that it depends on: 1 it does, 0 it never does, -1 not decided.
    """

    values: Numbers
    rising: Numbers
    falling: Numbers
    value_errors: Numbers
    part_errors: Numbers
    value_routes: tuple[Route, ...]
    part_routes: tuple[Route, ...]
    rises: NDArray[np.int8]
    falls: NDArray[np.int8]
    changes: NDArray[np.int8]


class Linear(NamedTuple):
    """What a pixel adds to a logit's linear part: always, and as the last of its tile's k."""

    own: int
    bonus: int
    size: int

    @property
    def value(self) -> float:
        return self.own + self.bonus / self.size

    @property
    def parts(self) -> Parts:
        """Rising and falling part of the linear game."""
        alone, last = (self.size - 1) / self.size, 1 / self.size
        ends = (self.own, alone), (self.own + self.bonus, last)
        return Parts(
            sum(max(0, step) * share for step, share in ends),
            sum(max(0, -step) * share for step, share in ends),
        )


class _Cell:
    """What is found of one cell, filled in part by part."""

    def __init__(self, linear: Linear) -> None:
        self.linear = linear
        self.value, self.value_error = linear.value, 2.0**-52 * abs(linear.value)
        self.value_route: Route = "table"
        self.parts, self.part_error = linear.parts, 2.0**-50 * sum(linear.parts)
        self.part_route: Route = "table"
        steps = [linear.own + linear.bonus] + [linear.own] * (linear.size > 1)
        ups, downs = max(steps) > 0, min(steps) < 0
        self.signs: tuple[int, int, int] = int(ups), int(downs), int(ups or downs)

    def add(self, value: float, error: float, route: Route) -> None:
        """Another term's value; the worst route counts."""
        self.value += value
        self.value_error += error
        self.value_route = max(self.value_route, route, key=WORST.index)


class Component(NamedTuple):
    """Terms that pixels join.

    `terms`: what is summed up, with weights; the only roots of a probability have weight 1 each.
    `members`: units that feed them.
    """

    terms: tuple[tuple[int, Tree], ...]
    members: tuple[int, ...]


class _Along(NamedTuple):
    """Parts of the differences of a unit, the bound of the error of each, and signs."""

    parts: Parts
    error: float
    signs: tuple[int, int, int]


class _Slope:
    """What one more of a unit does in a table."""

    def __init__(
        self,
        readout: Readout,
        tables: Sequence[Integers],
        outputs: Numbers | Integers,
        grid: CountGrid | SumGrid,
        unit: int,
    ) -> None:
        self.readout, self.grid, self.unit, self.tables = readout, grid, unit, tables
        self.weights = grid.weights(unit)
        self.size = grid.units[unit].size
        self.outputs = outputs
        self._found: dict[int, _Along] = {}

    def beyond(self, step: int) -> _Along:
        """All of it, with so much added to each effect of a logit."""
        if step not in self._found:
            self._found[step] = self._with(step)
        return self._found[step]

    def _with(self, step: int) -> _Along:
        effects = self.grid.differences(self.outputs, self.unit, step)
        rising, falling = parts(effects, self.weights)
        lowest, highest = effects.min(initial=0), effects.max(initial=0)
        error = self.grid.error(rising, falling, float(max(highest, -lowest)))
        if self.readout.temperature is None:
            found = int(highest > 0), int(lowest < 0), int(highest > 0 or lowest < 0)
            return _Along(Parts(rising, falling), error, found)
        steps = [self.grid.differences(table, self.unit) for table in self.tables]
        found = witnessed(steps, effects, self.readout.direction)
        if 0 in found[:2]:  # what never happens is rounding
            rising, falling = max(0.0, rising - falling), max(0.0, falling - rising)
        rounding = 2 * self.readout.error(len(steps)) / self.size
        return _Along(Parts(rising, falling), error + rounding, found)


class _Solver:
    """A game and its parts."""

    def __init__(self, game: Game, seed: int) -> None:
        self.game, self.seed, self.all = game, seed, tuple(range(len(game.units)))
        self.forms = forms_in(game.roots)
        self.index = {form: at for at, form in enumerate(self.forms)}
        self.is_logit = game.readout.temperature is None
        self.linear: Coefficients = ()
        if not self.is_logit:
            roots = tuple((1, each) for each in game.roots)
            self.components = [Component(roots, self.all)] if game.units else []
            return
        (root,) = game.roots
        is_sum = isinstance(root, Node) and root.kind == "sum"
        terms = list(zip(root.weights, root.children, strict=True)) if is_sum else [(1, root)]  # type: ignore[union-attr]
        if isinstance(terms[-1][1], Form):
            self.linear = terms.pop()[1].coefficients  # type: ignore[union-attr]
        self.components = list(self._components(terms))

    def _components(self, terms: Sequence[tuple[int, Tree]]) -> Iterator[Component]:
        """Terms in groups that share no unit."""
        groups: list[tuple[list[tuple[int, Tree]], set[int]]] = []
        for term in terms:
            members = {at for at, _ in self.part([term[1]], self.all).places}
            joined = [group for group in groups if group[1] & members]
            groups = [group for group in groups if not group[1] & members]
            both = [each for group in joined for each in group[0]]
            groups.append(([*both, term], members.union(*(group[1] for group in joined))))
        for some, members in groups:
            if members:  # a form may be constant although its counts are not
                yield Component(tuple(some), tuple(sorted(members)))

    def part(self, trees: Sequence[Tree], members: Sequence[int]) -> Merged:
        """Units that feed trees, of some members only."""
        chosen = [self.index[form] for form in forms_in(trees)]
        found = merged([self.game.units[at] for at in members], chosen)
        places = {(members[at], role): new for (at, role), new in found.places.items()}
        return Merged(found.units, places)

    def grid(self, part: Merged) -> tuple[CountGrid | SumGrid | None, Route]:
        """The table of a part, and what kind it is; None where all are too large."""
        if fits(part.units):
            return CountGrid(part.units), "table"
        return (SumGrid(part.units), "sums") if fits_sums(part.units) else (None, "estimate")

    def table(self, trees: Sequence[Tree], grid: CountGrid | SumGrid) -> list[Integers]:
        """Values of trees in a table."""
        forms = dict(zip(forms_in(trees), grid.forms(), strict=True))
        return [np.broadcast_to(value(tree, forms), grid.shape) for tree in trees]

    def solve(self) -> Solved:
        found = {}
        at_linear = self.index.get(self.linear)
        for at, role in cells_of(self.game.units):
            unit = self.game.units[at]
            both = (unit.roles[role][0], unit.bonus)
            own, bonus = (each[at_linear] if at_linear is not None else 0 for each in both)
            found[at, role] = _Cell(Linear(own, bonus, unit.size if bonus else 1))
        for component in self.components:
            self._component(component, found)
        cells = list(found.values())
        solved = Solved(
            np.array([cell.value for cell in cells]),
            np.array([cell.parts.rising for cell in cells]),
            np.array([cell.parts.falling for cell in cells]),
            np.array([cell.value_error for cell in cells]),
            np.array([cell.part_error for cell in cells]),
            tuple(cell.value_route for cell in cells),
            tuple(cell.part_route for cell in cells),
            *(np.array([cell.signs[at] for cell in cells], dtype=np.int8) for at in range(3)),
        )
        for each in vars(solved).values():
            if isinstance(each, np.ndarray):
                each.flags.writeable = False  # equal games share it
        return solved

    def _component(self, component: Component, found: dict[Place, _Cell]) -> None:
        trees = [tree for _, tree in component.terms]
        part = self.part(trees, component.members)
        open_cells = set(part.places)
        grid, route = self.grid(part)
        if grid:
            open_cells = self._by_table(component, part, grid, route, found)
        else:
            self._values_by_term(component, found)
        if open_cells:
            self._by_orders(component, open_cells, found)

    def _by_table(
        self,
        component: Component,
        part: Merged,
        grid: CountGrid | SumGrid,
        route: Route,
        found: dict[Place, _Cell],
    ) -> set[Place]:
        """Everything from one table; returns the cells whose parts it does not give."""
        tables = self.table([tree for _, tree in component.terms], grid)
        if self.is_logit:
            weighted = zip(component.terms, tables, strict=True)
            tables = [np.asarray(sum(weight * each for (weight, _), each in weighted))]
        outputs = tables[0] if self.is_logit else self.game.readout(tables)
        left = set()
        by_unit: dict[int, list[Place]] = {}
        for cell, (unit, _) in part.places.items():
            by_unit.setdefault(unit, []).append(cell)
        for unit, cells in by_unit.items():
            slope = _Slope(self.game.readout, tables, outputs, grid, unit)
            size = part.units[unit].size
            plain = slope.beyond(0)
            for cell in cells:
                linear, one = found[cell].linear, found[cell]
                one.add(plain.parts.rising - plain.parts.falling, plain.error, route)
                if linear.bonus and size == 1:
                    left.add(cell)
                    continue
                shifted = slope.beyond(linear.own + linear.bonus)
                early = (size - 1) / size * linear.own  # before its tile is complete
                ups, downs, changes = shifted.signs
                one.parts = Parts(
                    shifted.parts.rising + max(0.0, early), shifted.parts.falling + max(0.0, -early)
                )
                one.part_error = shifted.error + 2.0**-50 * abs(early)
                one.part_route = route
                one.signs = (
                    1 if early > 0 else ups,
                    1 if early < 0 else downs,
                    1 if early else changes,
                )
        return left

    def _values_by_term(self, component: Component, found: dict[Place, _Cell]) -> None:
        """Shapley values where parts have no table: a logit's term by term, as far as possible."""
        # All roots of a probability at once.
        whole = [(1, tuple(tree for _, tree in component.terms))]
        groups = [(weight, (tree,)) for weight, tree in component.terms]
        for scale, trees in groups if self.is_logit else whole:
            part = self.part(trees, component.members)
            values = errors = np.zeros(len(part.units))
            grid, route = self.grid(part)
            if grid:
                tables = self.table(trees, grid)
                outputs = tables[0] if self.is_logit else self.game.readout(tables)
                slopes = [
                    _Slope(self.game.readout, tables, outputs, grid, unit).beyond(0)
                    for unit in range(len(part.units))
                ]
                values = np.array([each.parts.rising - each.parts.falling for each in slopes])
                errors = np.array([each.error for each in slopes])
            elif len(trees) == 1 and is_narrow(trees[0], part.units):
                values, errors = OneTree(trees[0], part.units, self.game.readout).extension()
                route = "sub-expressions"
            elif not self.is_logit:
                logits = separated(trees, part.units, self.game.readout)
                if logits:
                    values, errors = logits.extension()
                    route = "sub-expressions"
            for cell, (unit, _) in part.places.items():
                found[cell].add(scale * values[unit], abs(scale) * errors[unit], route)

    def _by_orders(
        self, component: Component, open_cells: set[Place], found: dict[Place, _Cell]
    ) -> None:
        """Parts, and values without another route, from random orders; signs by structure."""
        readout = self.game.readout
        trees = [tree for _, tree in component.terms]
        if self.is_logit:
            whole = [*component.terms, (1, Form(self.linear))]
            trees = [Reducer({}).sum(whole)]
        part = self.part(trees, component.members)
        bounds = signs(trees, part.units, readout, seed=self.seed)
        label = {place: at for at, place in enumerate(cells_of(part.units))}
        for cell in set(open_cells):
            one, at = found[cell], label[part.places[cell]]
            one.signs = int(bounds.rises[at]), int(bounds.falls[at]), int(bounds.changes[at])
            if one.value_route != "estimate" and 0 in one.signs[:2]:  # all of its value is one part
                one.parts = Parts(max(0.0, one.value), max(0.0, -one.value))
                one.part_error, one.part_route = one.value_error, one.value_route
                open_cells = open_cells - {cell}
        if not open_cells:
            return
        sample = estimate(trees, part.units, readout, seed=self.seed)
        rounding = 0.0 if self.is_logit else 2 * readout.error(len(trees))
        seen = completed(
            np.where(sample.rising > rounding, np.int8(1), bounds.rises),
            np.where(sample.falling > rounding, np.int8(1), bounds.falls),
            bounds.changes,
        )
        for cell in open_cells:
            one, at = found[cell], label[part.places[cell]]
            if one.value_route == "estimate":
                one.value = float(sample.values[at])
                one.value_error = float(STANDARD_ERRORS * sample.value_errors[at])
            one.parts = Parts(float(sample.rising[at]), float(sample.falling[at]))
            errors = max(sample.rising_errors[at], sample.falling_errors[at])
            one.part_error, one.part_route = float(STANDARD_ERRORS * errors), "estimate"
            one.signs = int(seen.rises[at]), int(seen.falls[at]), int(seen.changes[at])


@lru_cache(maxsize=512)
def solve(game: Game, seed: int = 0) -> Solved:
    """Values, parts and signs of all cells.

    `seed`: seed for estimates and for coalitions that are tried as witnesses.
    """
    return _Solver(game, seed).solve()
