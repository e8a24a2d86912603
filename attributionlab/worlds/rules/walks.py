r"""Random orders in which an image's pixels arrive: an unbiased estimate, and witnesses of signs.

Only the counts are followed. An order of n pixels has n + 1 vectors of forms, and each step is the
marginal contribution of one pixel; all pixels of a cell share the mean of theirs. Each order is
followed by its reverse, as in `attributionlab.truth.sampling`, and standard errors are of pairs.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributionlab.base import Numbers
from attributionlab.worlds.rules.cells import Unit, cells_of
from attributionlab.worlds.rules.forms import Readout, Tree, forms_in, value
from attributionlab.worlds.rules.tables import Integers

ARRIVALS = 2**20
"""Pixels that arrive in one estimate."""
FEWEST_PAIRS = 32
AT_ONCE = 2**18
"""Pixels that arrive in orders followed at once."""
TRIALS = 600
"""Coalitions in which each cell's pixel is tried for witnesses."""


class Estimate(NamedTuple):
    """Means over orders, and their standard errors, (cells,) each.

    `values`, `rising`, `falling`: Shapley value of one pixel of each cell, S+, and S-. `value_errors`,
    `rising_errors`, `falling_errors`: standard errors.
    """

    values: Numbers
    rising: Numbers
    falling: Numbers
    value_errors: Numbers
    rising_errors: Numbers
    falling_errors: Numbers


class Pixels:
    """All pixels of some units, one after the other.

    `roots`: what is computed from the forms. `units`: vectors are of `forms_in(roots)`.
    """

    def __init__(self, roots: Sequence[Tree], units: Sequence[Unit]) -> None:
        self.roots, self.forms = roots, forms_in(roots)
        self.places = cells_of(units)
        label = {place: at for at, place in enumerate(self.places)}
        cells: list[int] = []
        own: list[tuple[int, ...]] = []
        self.tiles: list[tuple[NDArray[np.int64], Integers]] = []
        for at, unit in enumerate(units):
            start = len(cells)
            for _ in range(unit.number):
                for role, (vector, pixels) in enumerate(unit.roles):
                    cells += [label[at, role]] * pixels
                    own += [vector] * pixels
            if any(unit.bonus):
                members = np.arange(start, len(cells)).reshape(unit.number, unit.size)
                self.tiles.append((members, np.array(unit.bonus, dtype=np.int64)))
        self.cells = np.array(cells, dtype=np.int64)
        self.own = np.array(own, dtype=np.int64).reshape(len(cells), len(self.forms))
        self.sizes = np.bincount(self.cells, minlength=len(self.places))

    def roots_of(self, forms: Integers) -> list[Integers]:
        """Values of the roots, for forms (..., F)."""
        by_form = {form: forms[..., at] for at, form in enumerate(self.forms)}
        shape = forms.shape[:-1]
        return [np.broadcast_to(value(root, by_form), shape) for root in self.roots]

    def arriving(self, orders: NDArray[np.int64]) -> Integers:
        """Forms after each arrival, (orders, pixels + 1, F)."""
        added = self.own[orders]
        position = np.argsort(orders, axis=1)
        rows = np.arange(len(orders))[:, None]
        for members, bonus in self.tiles:
            last = position[:, members].max(-1)  # (orders, tiles)
            added[rows, last] += bonus
        forms = np.zeros((len(orders), orders.shape[1] + 1, len(self.forms)), dtype=np.int64)
        np.cumsum(added, axis=1, out=forms[:, 1:])
        return forms

    def present(self, there: NDArray[np.bool_]) -> Integers:
        """Forms of coalitions (trials, pixels), (trials, F)."""
        forms = (there.astype(np.float64) @ self.own.astype(np.float64)).astype(np.int64)
        for members, bonus in self.tiles:
            forms += there[:, members].all(-1).sum(1)[:, None] * bonus
        return forms


def estimate(
    roots: Sequence[Tree], units: Sequence[Unit], readout: Readout, *, seed: int = 0
) -> Estimate:
    r"""Shapley values, S+ and S- from random orders.

    .. math:: S^+ = E[\max(f(x_{S \cup i}) - f(x_S), 0)], \qquad \phi = S^+ - S^-,

    over permutations, S what comes before i. The number of orders is fixed in advance, so the means
    are unbiased.

    `roots`, `units`: as for `Pixels`. Each order is taken with its reverse; there are as many as
    `ARRIVALS` allows, at least 32 pairs.
    """
    pixels = Pixels(roots, units)
    n, cells = len(pixels.cells), len(pixels.places)
    pairs = max(FEWEST_PAIRS, ARRIVALS // (2 * n))
    generator = np.random.default_rng(seed)
    rows: list[Numbers] = []
    at_once = max(1, AT_ONCE // (2 * n))
    for start in range(0, pairs, at_once):
        some = min(at_once, pairs - start)
        orders = generator.permuted(np.tile(np.arange(n), (some, 1)), axis=1)
        both = [_contributions(pixels, readout, each) for each in (orders, orders[:, ::-1])]
        rows.append((both[0] + both[1]) / 2)
    samples = np.concatenate(rows)  # (pairs, value and S+ and S-, cells)
    means = samples.mean(0)
    errors = samples.std(0, ddof=1) / np.sqrt(pairs)
    errors += 2.0**-52 * pairs * abs(samples).mean(0)  # a sum of so many is rounded
    assert means.shape == (3, cells)
    return Estimate(*means, *errors)


def _contributions(pixels: Pixels, readout: Readout, orders: NDArray[np.int64]) -> Numbers:
    """Means over each cell's pixels, (orders, value and S+ and S-, cells)."""
    outputs = readout(pixels.roots_of(pixels.arriving(orders)))
    marginals = np.diff(outputs, axis=1)
    cells = len(pixels.places)
    slots = (np.arange(len(orders))[:, None] * cells + pixels.cells[orders]).ravel()
    sums = [
        np.bincount(slots, weights=each.ravel(), minlength=len(orders) * cells)
        for each in (marginals, np.maximum(marginals, 0), np.maximum(-marginals, 0))
    ]
    return np.stack(sums, axis=1).reshape(len(orders), cells, 3).swapaxes(1, 2) / pixels.sizes


def trials(
    roots: Sequence[Tree], units: Sequence[Unit], *, seed: int = 0
) -> Iterator[tuple[int, list[Integers], list[Integers]]]:
    """The roots without and with a pixel of each cell, in random coalitions of all densities.

    Each cell has a density of its own in each coalition, none or all of it in a quarter each.

    Yields: `cell`: in the order of `cells_of`; `before, after`: the roots' values, (trials,) each.
    """
    pixels = Pixels(roots, units)
    generator = np.random.default_rng(seed)
    density = generator.random((TRIALS, len(pixels.places)))
    density[generator.random(density.shape) < 0.25] = 0
    density[generator.random(density.shape) < 0.25] = 1
    there = generator.random((TRIALS, len(pixels.cells))) < density[:, pixels.cells]
    for cell in range(len(pixels.places)):
        one = there.copy()
        player = int(np.argmax(pixels.cells == cell))
        for members, _ in pixels.tiles:
            tile = members[(members == player).any(1)].ravel()
            one[: TRIALS // 2, tile] = True  # else tiles are seldom complete but for one pixel
        one[:, player] = False
        before = pixels.present(one)
        one[:, player] = True
        yield cell, pixels.roots_of(before), pixels.roots_of(pixels.present(one))
