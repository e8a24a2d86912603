"""What each pixel of one image does to the output of a rule: the game "present or baseline"."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.base import (
    Numbers,
    Portion,
    Within,
    checked_arguments,
    integer_problem,
    refuse_if,
)
from attributionlab.worlds.rules.cells import OUTSIDE, cells, cells_of, hits_of, pixels_of
from attributionlab.worlds.rules.expressions import Count, Expression, evaluate
from attributionlab.worlds.rules.forms import Readout, Reducer, Tree, forms_in, value
from attributionlab.worlds.rules.places import Places
from attributionlab.worlds.rules.solving import Game, Solved, solve
from attributionlab.worlds.truth.games import Solution, with_signs
from attributionlab.worlds.truth.masks import Output, Truth

SHARE = 1 / 4
"""A cell is relevant whose S+ + S- is at least this share of the largest."""
PURITY = 0.8
"""A sign is asked where |phi| / (S+ + S-) is at least this."""


class Asked(NamedTuple):
    """What a test asks of each pixel, or each cell.

    - `signed`: the sign that is asked, 0 where none is.
    - `relevant`: whether it changes the output enough to be asked for.
    - `mixed`: whether it is relevant, and raises and lowers the output too evenly to have a sign.
    - `asked`: whether it is asked for at all: relevant, or irrelevant because it never changes
      anything.
    - `sure`: whether errors leave all of this as it is.
    """

    signed: Any
    relevant: Any
    mixed: Any
    asked: Any
    sure: Any

    def truth(self) -> Truth:
        """As masks of one image, (1, 1, H, W), or of a sequence, (1, 1, 1, T)."""
        parts = map(torch.as_tensor, (self.signed, self.relevant, self.asked))
        return Truth(*(each.reshape(1, 1, -1, each.shape[-1]) for each in parts))


OF_OUTSIDE = Asked(0, False, False, True, True)
"""What is asked of pixels that a rule does not see: nothing, surely."""


def placed(found: Asked, labels: NDArray[np.int64]) -> Asked:
    """Answers of cells at the places that have their labels; elsewhere the label is -1."""
    assert OUTSIDE == -1  # the last entry
    return Asked(
        *(
            np.append(each, other).astype(each.dtype)[labels]
            for each, other in zip(found, OF_OUTSIDE, strict=True)
        )
    )


def asked(
    rising: Numbers,
    falling: Numbers,
    is_null: NDArray[np.bool_],
    errors: Numbers,
    *,
    share: float = SHARE,
    purity: float = PURITY,
) -> Asked:
    """What is asked of cells, of which S+ and S- are known.

    - `errors`: how far S+ and S- may be off, each.
    - `share`: share of the largest S+ + S- from which on a cell is relevant. Below lie weak ones, which
      are neither relevant nor irrelevant, and not asked.
    - `purity`: |S+ - S-| / (S+ + S-) from which on its sign is asked; below, the cell is mixed.
    """
    total, value = rising + falling, rising - falling
    most = total.max(initial=0)
    relevant = ~is_null & (total >= share * most) & (total > 0)
    clear = abs(value) >= purity * total
    signed = np.where(relevant & clear, np.sign(value), 0).astype(np.int8)
    slack = 2 * errors
    near_share = abs(total - share * most) <= slack + share * slack.max(initial=0)
    near_purity = abs(abs(value) - purity * total) <= (1 + purity) * slack
    doubtful = ~is_null & (errors > 0) & (near_share | (relevant & near_purity))
    return Asked(signed, relevant, relevant & ~clear, is_null | relevant, ~doubtful)


def strict(solved: Solved) -> Asked:
    """The strict level: all but null players are relevant, signs are those that nothing contradicts.

    What is not decided follows the estimate, and is not sure.
    """
    seen = solved.rising + solved.falling > 0
    changes = np.where(solved.changes < 0, seen, solved.changes == 1)
    rises = np.where(solved.rises < 0, solved.rising > 0, solved.rises == 1)
    falls = np.where(solved.falls < 0, solved.falling > 0, solved.falls == 1)
    decided = (solved.changes == 0) | (
        (solved.changes == 1) & (solved.rises >= 0) & (solved.falls >= 0)
    )
    signed = np.where(changes, rises.astype(np.int8) - falls.astype(np.int8), 0)
    everywhere = np.ones(len(changes), dtype=bool)
    return Asked(signed.astype(np.int8), changes, changes & (signed == 0), everywhere, decided)


@dataclass(frozen=True, eq=False)
class RuleGame:
    """The game of one image's pixels: present, or absent with the baseline that nothing counts.

    Made by `rule_game`.

    - `expressions`: one an output.
    - `target`: the output explained.
    - `readout`: its logit, or its probability.
    - `hits`: where each count lies, pixels (H, W) or tiles.
    - `labels`: the cell of each pixel, -1 where it feeds nothing: a null player. Cells have equal
      effects.
    - `game`: the cells' game.
    """

    expressions: tuple[Expression, ...]
    target: int
    readout: Readout
    hits: dict[Count, NDArray[np.bool_]]
    labels: NDArray[np.int64]
    game: Game

    @property
    def has_closed_shapley(self) -> bool:
        """Whether Shapley values are no estimate."""
        return self.source != "estimate"

    # What the rule says

    def value(self, present: NDArray[np.bool_]) -> float:
        """The explained output when only these pixels (H, W) are there."""
        counts = {}
        for count, hits in self.hits.items():
            shown = hits & present if not count.motif else hits.copy()
            if count.motif:
                for row, column in np.argwhere(hits):
                    places = pixels_of(count.motif, int(row), int(column))
                    shown[row, column] = all(present[place] for place in places)
            counts[count] = int(shown.sum())
        logits = [int(evaluate(each, counts)) for each in self.expressions]
        own = logits.pop(self.target)
        integers = [own] if self.readout.temperature is None else [each - own for each in logits]
        return float(self.readout([np.array(each) for each in integers]))

    @cached_property
    def full(self) -> float:
        """f(x), the output of the image."""
        return self.value(np.ones(self.labels.shape, dtype=bool))

    @cached_property
    def empty(self) -> float:
        """f(b), that of the baseline."""
        return self.value(np.zeros(self.labels.shape, dtype=bool))

    # What a single pixel does

    def ablation(self) -> Solution:
        """f(x) - f(x without the pixel)."""
        return self._single(1, -1)

    def insertion(self) -> Solution:
        """f(b with the pixel) - f(b)."""
        return self._single(0, 1)

    def _single(self, present: int, sign: int) -> Solution:
        """What a pixel changes that leaves all others (sign -1), or that comes alone (1)."""
        forms, units = forms_in(self.game.roots), self.game.units
        start = np.zeros(len(forms), dtype=np.int64)
        for unit in units:
            start = start + present * unit.number * np.array(unit.whole, dtype=np.int64)
        found = []
        for at, role in cells_of(units):
            step = np.array(units[at].roles[role][0], dtype=np.int64)
            if present:
                step = step + np.array(units[at].bonus, dtype=np.int64)
            found.append(self._change(start, start + sign * step, sign))
        values, errors = np.array(found, dtype=np.float64).reshape(-1, 2).T
        return self._solution(values, errors)

    def _change(
        self, start: NDArray[np.int64], end: NDArray[np.int64], sign: int
    ) -> tuple[float, float]:
        """Effect of a pixel's presence, and its error; its sign is known where integers agree on it."""
        roots, forms = self.game.roots, forms_in(self.game.roots)
        before, after = (
            [value(root, dict(zip(forms, each, strict=True))) for root in roots]
            for each in (start, end)
        )
        effect = sign * float(self.readout(after) - self.readout(before))
        moves = [sign * int(b - a) for a, b in zip(before, after, strict=True)]
        if not any(moves):
            return 0.0, 0.0
        error = 2 * self.readout.error(len(roots))
        ups, downs = max(moves) > 0, min(moves) < 0
        known = 0 if ups and downs else self.readout.direction * (1 if ups else -1)
        if not error:
            return effect, 0.0
        values, errors = with_signs(np.array([effect]), np.array([error]), np.array([known]))
        return float(values[0]), float(errors[0])

    # What a pixel does over all orders

    @cached_property
    def solved(self) -> Solved:
        """Values, parts, signs and their routes by cell."""
        return solve(self.game)

    @property
    def source(self) -> str:
        """How Shapley values were had: "estimate" where any is one, else "closed form"."""
        return "estimate" if "estimate" in self.solved.value_routes else "closed form"

    @property
    def part_source(self) -> str:
        """How S+ and S- were had, likewise."""
        return "estimate" if "estimate" in self.solved.part_routes else "closed form"

    def shapley(self) -> Solution:
        """Shapley values; see `source`. A bound is one, a check, or three standard errors: `Solved`."""
        solved = self.solved
        signs = strict(solved)
        known = np.where(signs.sure, signs.signed, 0).astype(np.int64)
        exact = np.array([route != "estimate" for route in solved.value_routes], dtype=bool)
        values, errors = with_signs(solved.values, solved.value_errors, np.where(exact, known, 0))
        null = solved.changes == 0
        return self._solution(np.where(null, 0.0, values), np.where(null, 0.0, errors))

    def rising(self) -> Solution:
        """S+ = E max(marginal, 0); see `part_source`."""
        return self._solution(self.solved.rising, self.solved.part_errors)

    def falling(self) -> Solution:
        """S- = E max(-marginal, 0)."""
        return self._solution(self.solved.falling, self.solved.part_errors)

    # What is asked

    @checked_arguments
    def asked(self, share: Portion = SHARE, purity: Portion = PURITY) -> Asked:
        """What a test asks of each pixel, tensors (1, H, W); see the function `asked`."""
        return self._maps(asked_of(self.solved, share=share, purity=purity))

    def strict(self) -> Asked:
        """The strict level of each pixel, tensors (1, H, W)."""
        return self._maps(strict(self.solved))

    def _maps(self, found: Asked) -> Asked:
        """Cells' answers on pixels."""
        maps = placed(found, self.labels)
        return Asked(*(torch.from_numpy(each[None]) for each in maps))

    def _solution(self, values: Numbers, errors: Numbers) -> Solution:
        """Cells' values on pixels."""
        assert OUTSIDE == -1  # the last entry
        maps = [
            torch.from_numpy(np.append(each, 0.0)[self.labels][None]) for each in (values, errors)
        ]
        return Solution(*maps)


@lru_cache(maxsize=512)
def roots_of(
    most: tuple[tuple[Count, int], ...],
    expressions: tuple[Expression, ...],
    target: int,
    temperature: float | None,
) -> tuple[tuple[Tree, ...], Readout]:
    """Integers that the explained output depends on, and how.

    `most` is the number of each count in the image; a logit has no temperature.
    """
    reducer = Reducer(dict(most))
    own = reducer.tree(expressions[target])
    if temperature is None:
        return (own,), Readout()
    differences = (
        reducer.sum([(1, reducer.tree(each)), (-1, own)])
        for at, each in enumerate(expressions)
        if at != target
    )
    return tuple(differences), Readout(float(temperature))


def asked_of(solved: Solved, *, share: float = SHARE, purity: float = PURITY) -> Asked:
    """What a test asks of the cells of a game; see `asked`."""
    level = strict(solved)
    found = asked(
        solved.rising,
        solved.falling,
        ~level.relevant,
        solved.part_errors,
        share=share,
        purity=purity,
    )
    return found._replace(sure=found.sure & (level.sure | (solved.changes == 1)))


@checked_arguments
def rule_game(
    image: NDArray[Any] | Tensor,
    places: Places,
    expressions: Sequence[Expression],
    target: int = 0,
    output: Output = "logit",
    temperature: Annotated[float, Within(least=1e-30, most=1e30)] | None = None,
) -> RuleGame:
    """The game of an image's pixels.

    - `temperature`: T from 1e-30 to 1e30, for probabilities.

    Raises AttributionLabError for a game that does not exist.
    """
    problems = integer_problem("target", target, 0, len(expressions) - 1)
    if output == "probability":
        if temperature is None:
            problems.append("a probability needs a temperature: pass one")
        if len(expressions) < 2:
            problems.append("a rule with one output has no probability: take output 'logit'")
    pixels = np.asarray(image.detach().cpu().numpy() if isinstance(image, Tensor) else image)
    if pixels.ndim != 3 or pixels.shape[1:] != (places.side, places.side):
        problems.append(
            f"the image is {pixels.shape}: pass (C, {places.side}, {places.side}) for these places"
        )
    refuse_if(problems, "rule_game")
    hits = hits_of(pixels, places, expressions)
    most = tuple((count, int(each.sum())) for count, each in hits.items())
    softened = temperature if output == "probability" else None
    roots, readout = roots_of(most, tuple(expressions), target, softened)
    units, labels = cells(hits, forms_in(roots), (places.side, places.side))
    game = Game(roots, units, readout)
    return RuleGame(tuple(expressions), target, readout, dict(hits), labels, game)
