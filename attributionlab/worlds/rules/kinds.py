"""Kinds of pixels: what rules of other counts see in an image, without a look at each pixel again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from attributionlab.worlds.rules.cells import OUTSIDE, Unit
from attributionlab.worlds.rules.expressions import Count, Expression, with_counts
from attributionlab.worlds.rules.forms import forms_in
from attributionlab.worlds.rules.game import (
    OF_OUTSIDE,
    Asked,
    asked_of,
    placed,
    roots_of,
    rule_game,
)
from attributionlab.worlds.rules.places import Places
from attributionlab.worlds.rules.solving import Game, solve


@dataclass(frozen=True, eq=False)
class Kinds:
    """Pixels that are seen by the same counts; made by `kinds_of`.

    - `image` (C, H, W): integers.
    - `places`: colors and regions.
    - `labels`: the kind of each pixel, -1 where no count sees it.
    - `sees`: which kinds each count sees.
    - `sizes`: pixels of each kind.
    """

    image: NDArray[Any]
    places: Places
    labels: NDArray[np.int64]
    sees: Mapping[Count, NDArray[np.bool_]]
    sizes: NDArray[np.int64]
    _known: dict[Any, Asked] = field(default_factory=dict, init=False, repr=False)

    def asked(
        self,
        expressions: Sequence[Expression],
        renamed: Mapping[Count, Count],
        target: int,
        temperature: float | None,
    ) -> Asked:
        """What a test asks of each kind, (m,), of expressions with other counts.

        Games whose counts are equal are equal, whatever the counts are called: most renamings of a rule
        about patches of equal areas have the game of the rule itself, which is solved once.

        - `renamed`: the count in place of each of theirs; all are among those that the kinds are about.
        - `temperature`: T of the softmax; None for a logit.
        """
        if any(count.motif for count in renamed):  # tiles are more than their pixels
            output: Literal["logit", "probability"] = (
                "logit" if temperature is None else "probability"
            )
            rules = [with_counts(each, renamed) for each in expressions]
            whole = rule_game(self.image, self.places, rules, target, output, temperature)
            first = [int(np.argmax(self.labels.ravel() == kind)) for kind in range(len(self.sizes))]
            return Asked(*(each.numpy().ravel()[first] for each in whole.asked()))
        hits = {old: self.sees[new] for old, new in renamed.items()}
        most = tuple((count, int(self.sizes[seen].sum())) for count, seen in hits.items())
        game = most, tuple(expressions), target, temperature
        if np.stack(list(hits.values())).sum(0).max() > 1:
            return self._solved(hits, *game)
        # Each kind is seen by one count at most: its answer is that of the count.
        if game not in self._known:
            found = self._solved(hits, *game)
            places = [int(np.argmax(seen)) for seen in hits.values()]
            self._known[game] = Asked(*(each[places] for each in found))
        maps = []
        for answer, other in zip(self._known[game], OF_OUTSIDE, strict=True):
            maps.append(np.full(len(self.sizes), other, dtype=answer.dtype))
            for seen, value in zip(hits.values(), answer, strict=True):
                maps[-1][seen] = value
        return Asked(*maps)

    def _solved(
        self,
        hits: Mapping[Count, NDArray[np.bool_]],
        most: tuple[tuple[Count, int], ...],
        expressions: tuple[Expression, ...],
        target: int,
        temperature: float | None,
    ) -> Asked:
        """The same, from the kinds that each count sees."""
        roots, readout = roots_of(most, expressions, target, temperature)
        forms = [dict(form) for form in forms_in(roots)]
        vectors = np.zeros((len(self.sizes), len(forms)), dtype=np.int64)
        for count, seen in hits.items():
            vectors[seen] += np.array([form.get(count, 0) for form in forms], dtype=np.int64)
        rows, which = np.unique(vectors, axis=0, return_inverse=True)
        feeding = [at for at, row in enumerate(rows) if row.any()]
        units = tuple(
            Unit(
                ((tuple(rows[at].tolist()), 1),),
                (0,) * len(forms),
                int(self.sizes[which.reshape(-1) == at].sum()),
            )
            for at in feeding
        )
        cell = np.full(len(rows), OUTSIDE)
        cell[feeding] = np.arange(len(feeding))
        found = asked_of(solve(Game(roots, units, readout)))
        return placed(found, cell[which.reshape(-1)])


def kinds_of(image: NDArray[Any], places: Places, counts: Sequence[Count]) -> Kinds:
    """Kinds of the pixels of an image (C, H, W) for counts."""
    seen = np.stack([places.seen(image, count).ravel() for count in counts])  # (counts, pixels)
    inside = np.flatnonzero(seen.any(0))
    # One number a pixel instead of a row: unique numbers are found ten times as fast.
    codes = np.zeros(len(inside), dtype=np.int64)
    for row in seen[:, inside]:
        codes = np.unique(2 * codes + row, return_inverse=True)[1].reshape(-1)
    _, first, sizes = np.unique(codes, return_index=True, return_counts=True)
    labels = np.full(seen.shape[1], OUTSIDE, dtype=np.int64)
    labels[inside] = codes
    sees = {count: row[inside[first]] for count, row in zip(counts, seen, strict=True)}
    return Kinds(image, places, labels.reshape(image.shape[1:]), sees, sizes)
