r"""Shapley values of a probability whose logits share no pixel, where the table is too large.

With independent logits, or what they do not have in common, y_0 = -x for the target and y_j for the
others, the probability is a fraction of sums. Because the density of Gumbel's distribution integrates
to 1,

.. math:: \frac{e^{y_0}}{\sum_j e^{y_j}}
    = \int_{-\infty}^\infty e^{y_0 - s} \prod_j \exp(-e^{y_j - s}) \, ds,

whose expectation is a product of expectations of one logit each, at any s. The trapezoidal rule is as
good as exact: for a step h it misses the share 2 |Gamma(1 + 2 pi i / h)| of each integral, 1e-16 for
h = 1/4, and the integrand falls off as e^-s above the largest logit and twice exponentially below.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from attributionlab.worlds.rules.cells import Unit
from attributionlab.worlds.rules.expressions import Count
from attributionlab.worlds.rules.forms import (
    Coefficients,
    Form,
    Node,
    Readout,
    Reducer,
    Tree,
    forms_in,
    interval,
    value,
)
from attributionlab.worlds.rules.mixtures import Extender, ends, form_ranges, shared_units, widest

STEP = 1 / 4
ABOVE, BELOW = 40, 4
"""Beyond the largest logit e^-40 of the integral is left, and 4 below it e^(4 - e^4)."""
MOST_PLACES = 4_000
"""Values of s."""
WIDEST = 2**13
"""Values of a logit."""


class Separated(Extender):
    """A probability whose logits share no unit.

    `logits`: the target's first; each of others minus what all have in common. `forms`, `units`: as for
    `Extender`. `readout`: the probability of the logits' differences.
    """

    largest = 1.0

    def __init__(
        self,
        logits: Sequence[Tree],
        forms: Sequence[Coefficients],
        units: Sequence[Unit],
        readout: Readout,
    ) -> None:
        ranges = form_ranges(forms, units)
        super().__init__(forms, units, (), max(widest(each, ranges) for each in logits))
        assert readout.temperature is not None
        self.logits, self.temperature = logits, readout.temperature
        bounds = [interval(each, ranges) for each in logits]
        low, high = (max(each[end] for each in bounds) / self.temperature for end in (0, 1))
        self.length = high - low + ABOVE + BELOW + math.log(len(logits))
        self.start = low - BELOW
        full, empty = (
            readout([value(each, at) - value(logits[0], at) for each in logits[1:]])
            for at in ends(forms, units)
        )
        self.change = float(full - empty)

    @property
    def is_narrow(self) -> bool:
        """Whether all distributions are small enough, and no unit feeds two operands."""
        uses = [set[int]() for _ in self.logits]
        for used, tree in zip(uses, self.logits, strict=True):
            own = forms_in([tree])
            used |= {
                at
                for at, unit in enumerate(self.units)
                if any(unit.whole[self.index[form]] for form in own)
            }
        apart = len(set[int]().union(*uses)) == sum(map(len, uses))
        alone = not any(shared_units(tree, tuple(self.index), self.units) for tree in self.logits)
        return apart and alone and self.width <= WIDEST and self.length / STEP <= MOST_PLACES

    def expectation(self) -> Tensor:
        places = self.start + STEP * np.arange(math.ceil(self.length / STEP) + 1)
        total = torch.full((1, len(places)), STEP, dtype=torch.float64)
        for at, tree in enumerate(self.logits):
            low, spread = self.distribution(tree)
            heights = np.arange(low, low + spread.shape[-1])[:, None] / self.temperature - places
            with np.errstate(over="ignore"):  # exp(-inf) is 0
                factors = np.exp((heights if at == 0 else 0) - np.exp(heights))
            total = total * (spread[:, 0] @ torch.from_numpy(factors))
        return total.sum(1)


def separated(roots: Sequence[Tree], units: Sequence[Unit], readout: Readout) -> Separated | None:
    """The logits behind a probability's integers d_j = l_j - l_t; None where they cannot be told apart,
    share pixels or are too wide, or units are not pure.

    Terms with the same weight in all d_j are the target's (negative) logit. So are, of the linear
    parts, those of units with the same coefficient in all d_j. A unit with a coefficient in one only
    is of that logit. With other units the logits share pixels.
    """
    if not all(unit.is_pure for unit in units):
        return None
    terms, linear = [], []
    for root in roots:
        is_sum = isinstance(root, Node) and root.kind == "sum"
        parts = list(zip(root.weights, root.children, strict=True)) if is_sum else [(1, root)]  # type: ignore[union-attr]
        last = parts.pop()[1] if isinstance(parts[-1][1], Form) else Form(())
        assert isinstance(last, Form)
        terms.append(parts)
        linear.append(last)
    forms = forms_in(roots)
    common = [each for each in terms[0] if all(each in others for others in terms)]
    columns = [forms.index(each.coefficients) if each.coefficients else None for each in linear]
    extended = []
    for unit in units:
        own = [0 if at is None else unit.whole[at] for at in columns]
        fed = [each for each in own if each]
        if len(fed) == len(own) and len(set(fed)) == 1:
            split = (-fed[0], *(0 for _ in own))
        elif len(fed) <= 1:
            split = (0, *own)
        else:
            return None
        ((vector, size),) = unit.roles
        roles = ((vector + (split if unit.size == 1 else (0,) * len(split)), size),)
        bonus = unit.bonus + (split if unit.size > 1 else (0,) * len(split))
        extended.append(Unit(roles, bonus, unit.number))
    # Linear parts of logits are no forms of the rule: names of their own tell them apart.
    parts_ = [((Count((), "", str(at)), 1),) for at in range(len(roots) + 1)]
    reducer = Reducer({})
    target = reducer.sum([(-weight, tree) for weight, tree in common] + [(1, Form(parts_[0]))])
    others = [
        reducer.sum([*(each for each in own if each not in common), (1, Form(part, last.constant))])
        for own, part, last in zip(terms, parts_[1:], linear, strict=True)
    ]
    found = Separated([target, *others], (*forms, *parts_), extended, readout)
    return found if found.is_narrow else None
