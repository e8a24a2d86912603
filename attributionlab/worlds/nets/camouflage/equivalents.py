r"""Equivalent implementations: the same answers to all integer images, other gradients.

A camouflage hides how a network is written and hardly touches what it does between the integers. An
equivalent implementation changes just that, at one place: gradients, and rules that walk back through
ReLUs, meet another network, and whoever only asks for answers cannot tell.

*Number checkers.* A checker is given by units :math:`u_j(x) = ReLU(s_j (x - N) + o_j)`, comparisons of
them, and an answer. The plain one (`attributionlab.nets.number_checker`) has slopes 1 and offsets 1, 0,
-1, that is ReLU(x - N + 1), ReLU(x - N), ReLU(x - N - 1).

*Heads.* Behind the sums stand the counts of the classes, A_k, and of a distractor color, D, which the
plain head ignores. An implementation adds to each logit a sum that is 0 and reads D.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, NamedTuple

import torch
from torch import Tensor

from attributionlab.base import AttributionLabError, checked_arguments, named
from attributionlab.worlds.nets.camouflage.draft import Draft
from attributionlab.worlds.nets.exactness import Signal, stages_budget
from attributionlab.worlds.nets.networks import Network
from attributionlab.worlds.nets.stage import Stage

GUIDED_STRENGTH = 4.0
"""c of `guided_pair`: the guided gradient of a distractor is 4 times that of a counted color."""
AND_STRENGTH = 512.0
"""c of `and_two_ways`: DeepLift gives c/2 to a distractor and takes c/2 from the counted color, whose
sign it turns where that has fewer than c/2 = 256 pixels."""


class Checker(NamedTuple):
    """How a number checker is written.

    `units`: slope s and offset o of each unit, ReLU(s (x - N) + o). `comparisons`: weights of the
    second layer, which reads the units. `answer`: weights of the third layer, which reads the
    comparisons.
    """

    units: Sequence[tuple[float, float]]
    comparisons: Sequence[Sequence[float]]
    answer: Sequence[float]

    def stages(self, channel_of: Tensor, numbers: Tensor) -> list[Stage]:
        """Several checkers at once.

        `channel_of` (checkers, channels): 1 for the channel that a checker reads, 0 for all others.
        `numbers` (checkers,): the N.
        """
        slopes, offsets = torch.tensor(self.units).T
        each = torch.eye(len(numbers))
        return [
            Stage(
                torch.kron(channel_of, slopes[:, None]),
                (offsets - slopes * numbers[:, None]).flatten(),
            ),
            Stage.of(torch.kron(each, torch.tensor(self.comparisons))),
            Stage.of(torch.kron(each, torch.tensor([self.answer]))),
        ]


PLAIN = Checker(
    ((1.0, 1.0), (1.0, 0.0), (1.0, -1.0)), ((1.0, -1.0, 0.0), (0.0, 1.0, -1.0)), (1.0, -1.0)
)
PLATEAU = Checker(
    ((2.0, 1.5), (2.0, 0.5), (2.0, -0.5), (2.0, -1.5)),
    ((1.0, -1.0, 0.0, 0.0), (0.0, 0.0, 1.0, -1.0)),
    (1.0, -1.0),
)
r"""Each comparison climbs from i + 1/4 to i + 3/4, where the plain one climbs from i to i + 1:

.. math:: I_{>i}(x) = ReLU(ReLU(2 (x - i) - 1/2) - ReLU(2 (x - i) - 3/2))

It is 0 for x <= i + 1/4 and 1 for x >= i + 3/4, and so right for integers. Around every integer the
checker is constant: its gradient is 0 there by calculus, whatever the rule for ReLU'(0).
"""
KINK_SIDE = Checker(((-1.0, 1.0), (-1.0, 0.0), (-1.0, -1.0)), PLAIN.comparisons, PLAIN.answer)
r"""The plain checker in the mirror: ReLU(N + 1 - x), ReLU(N - x), ReLU(N - 1 - x).

The plain checker is the hat :math:`ReLU(1 - |x - N|)`, and so is its mirror image at N: the two are
equal on all reals. At its tip, x = N, ReLU'(0) = 0 gives the plain checker the slope from below, +1,
and this one the slope from above, -1.
"""
BOTH_SIDES = Checker(
    (*PLAIN.units, *KINK_SIDE.units),
    (
        *((*row, 0.0, 0.0, 0.0) for row in PLAIN.comparisons),
        *((0.0, 0.0, 0.0, *row) for row in PLAIN.comparisons),
    ),
    (0.5, -0.5, 0.5, -0.5),
)
r"""The mean of the two, ReLU((left + right) / 2), equal to the plain checker on all reals.

At x = N the slopes +1 and -1 cancel. At every other integer the answer is 0 and its ReLU off, as in the
plain checker. So the gradient is 0 at all integers.
"""
CHECKERS = {"plateau": PLATEAU, "kink-side": KINK_SIDE, "both-sides-averaged": BOTH_SIDES}


def guided_pair(draft: Draft, classes: int) -> None:
    r"""Add the distractor's count to each logit and take it away again.

    .. math:: logit_k = A_k + c\, u_k - c\, u'_k, \quad u_k = u'_k = ReLU(D)

    Every derivative is as before, :math:`c - c = 0`. Guided backprop keeps the positive part of what
    comes back to each ReLU, c at u_k and nothing at u'_k. Each logit has a pair of its own: behind a
    softmax the gradients of the logits sum to 0, and one pair for all of them would get that sum.
    """
    each = torch.eye(classes).double()
    _hand_on(draft, [*range(classes), *[classes] * (2 * classes)])
    _set_last(draft, torch.cat([each, GUIDED_STRENGTH * each, -GUIDED_STRENGTH * each], dim=1))


def and_two_ways(draft: Draft, classes: int) -> None:
    r"""Add "the color and the distractor are there" to each logit and take it away again.

    .. math:: logit_k = A_k + c\, (ReLU(a_k + b - 1) - a_k + ReLU(a_k - b))

    With a_k and b in {0, 1}, ReLU(a_k + b - 1) is a_k AND b, and :math:`a_k - ReLU(a_k - b)` is so,
    too. Both are 1 for a count that is not 0:

    .. math:: a_k = \min(A_k, g) / g = (ReLU(A_k) - ReLU(A_k - g)) / g

    and b likewise with D. Counts are multiples of g, their grid step: 1 without redundant channels, 1/4
    with them, since unseen colors add multiples of that. With g = 1 the two sides would differ where
    both counts are fractions (0.5 + 0.5 - 1 = 0, but 0.5 - ReLU(0.5 - 0.5) = 0.5).

    Three linear layers: (A_k, A_k - g, D, D - g), (A_k, a_k, a_k + b - 1, a_k - b), the logits.
    """
    counts = draft.signal_into(len(draft.layers) - 2)
    rows = [*range(classes), *range(classes), classes, classes]
    grid = counts.step[rows]
    is_reduced = torch.tensor([False] * classes + [True] * classes + [False, True])
    _hand_on(draft, rows, -torch.where(is_reduced, grid, 0.0))

    each, none = torch.eye(classes).double(), torch.zeros(classes, classes).double()
    minimum = 1 / grid * torch.where(is_reduced, -1.0, 1.0)  # (ReLU(x) - ReLU(x - g)) / g
    a = torch.cat([each, each, torch.zeros(classes, 2).double()], dim=1) * minimum
    b = torch.cat([none, none, torch.ones(classes, 2).double()], dim=1) * minimum
    count = torch.cat([each, none, torch.zeros(classes, 2).double()], dim=1)
    weight = torch.cat([count, a, a + b, a - b])
    bias = torch.cat([torch.zeros(2 * classes), -torch.ones(classes), torch.zeros(classes)])
    # Bounds of its terms do not know that a and b are 0 or 1.
    counted = counts.upper[:classes]
    upper = torch.cat([counted, *[torch.ones_like(counted)] * 3])
    step = torch.cat([counts.step[:classes], torch.ones(3 * classes).double()])
    middle = replace(
        draft.layers[-1],
        weight=weight[:, :, None, None],
        bias=bias.double(),
        has_relu=True,
        signal=Signal(upper, step),
    )
    draft.layers.insert(-1, middle)
    strength = AND_STRENGTH * each
    _set_last(draft, torch.cat([each, -strength, strength, strength], dim=1))


HEADS: dict[str, Callable[[Draft, int], None]] = {
    "guided-pair": guided_pair,
    "and-two-ways": and_two_ways,
}
EQUIVALENT = (*CHECKERS, *HEADS)
"""Names of all equivalent implementations, those of number checkers first."""


@checked_arguments
def equivalents_of(network: Network) -> tuple[str, ...]:
    """Names of the equivalent implementations that a network can be written as.

    Parameters
    ----------
    network : Network
        Any network.

    Returns
    -------
    tuple of str
        Those of number checkers where one reads each pixel; those of heads where sums of distractor
        colors are dropped; none for a network that was rewritten already.

    Examples
    --------
    >>> from attributionlab.worlds.nets import equivalents_of, number_sum
    >>> equivalents_of(number_sum(image_size=9, number=5))
    ('plateau', 'kink-side', 'both-sides-averaged')
    """
    if network.plain is not None:
        return ()
    draft = Draft.of(network)
    checkers = CHECKERS if has_checkers(draft) else ()
    heads = HEADS if _has_ignored_count(draft, network.classes) else ()
    return (*checkers, *heads)


@checked_arguments
def equivalent(network: Network, name: Annotated[str, named(EQUIVALENT)]) -> Network:
    """The same function on all integer images, with different gradients.

    Parameters
    ----------
    network : Network
        The network to rewrite, in its original implementation; it is not changed.
    name : str
        One of `equivalents_of(network)`.

    Returns
    -------
    Network
        Equal outputs (``==``) for every integer image of the valid box, including unseen colors; every
        layer is checked against the exactness budget again. `plain` is the model before, `moves` says
        in words what was done.

    Raises
    ------
    AttributionLabError
        For an unknown implementation, for one that does not apply to the network, and where a layer
        would leave the exactness budget.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.worlds.nets import equivalent, number_sum
    >>> network = number_sum(image_size=9, number=5)
    >>> other = equivalent(network, "plateau")
    >>> images = torch.full((1, 1, 9, 9), 5.0).requires_grad_()
    >>> network.model(images).item(), other.model(images).item()
    (81.0, 81.0)
    >>> [float(torch.autograd.grad(each.model(images), images)[0].max()) for each in (network, other)]
    [1.0, 0.0]
    """
    _refuse_where_it_does_not_apply(network, name)
    draft = Draft.of(network)
    if name in CHECKERS:
        _rewrite_checkers(draft, CHECKERS[name])
    else:
        HEADS[name](draft, network.classes)
    return draft.finished(network, f"{'number checkers' if name in CHECKERS else 'head'} as {name}")


def _refuse_where_it_does_not_apply(network: Network, name: str) -> None:
    applicable = equivalents_of(network)
    if name in applicable:
        return
    if network.plain is not None:
        raise AttributionLabError(
            f"implementation {name!r} is for original networks, but this one was rewritten "
            f"({network.moves[-1]}): pass the plain network"
        )
    lacks = (
        "number checkers that read the pixels"
        if name in CHECKERS
        else "a distractor color that it sums and drops"
    )
    raise AttributionLabError(
        f"implementation {name!r} does not apply, the network lacks {lacks}: "
        f"equivalent implementations that apply are {', '.join(applicable) or 'none'}"
    )


def _read_checkers(draft: Draft) -> tuple[Tensor, Tensor]:
    """Channels (checkers, channels) and numbers (checkers,), if the first layers are plain checkers."""
    first = draft.layers[0]
    # The unit with offset 0 is the second of each three.
    return first.weight[1::3, :, 0, 0].float(), -first.bias[1::3].float()


def has_checkers(draft: Draft) -> bool:
    """Whether the first three layers are plain number checkers."""
    plain = PLAIN.stages(*_read_checkers(draft))
    return all(
        torch.equal(layer.weight, stage.weight.double()[:, :, None, None])
        and torch.equal(layer.bias, stage.bias.double())
        for layer, stage in zip(draft.layers, plain, strict=False)
    )


def _rewrite_checkers(draft: Draft, checker: Checker) -> None:
    """Write the three layers of plain number checkers anew; what leaves the third is as before."""
    stages = checker.stages(*_read_checkers(draft))
    # Every checker reads one channel, so that these give each neuron's exact range.
    most = int(draft.inputs.upper.max())
    values = torch.arange(most + 1.0)[:, None].expand(-1, len(draft.inputs.upper))
    answers = draft.layers[2].signal
    _, budgets = stages_budget("layer", stages, draft.inputs, values)
    for index, (stage, budget) in enumerate(zip(stages, budgets, strict=True)):
        assert budget.signal is not None
        draft.layers[index] = replace(
            draft.layers[index],
            weight=stage.weight.double()[:, :, None, None],
            bias=stage.bias.double(),
            signal=budget.signal if index < 2 else answers,
        )


def _has_ignored_count(draft: Draft, classes: int) -> bool:
    """Whether the last two layers hand on the counts of the classes and drop at least one other."""
    select, last = draft.layers[-2:]
    counts = select.weight.shape[1]
    return (
        counts > classes
        and torch.equal(select.weight, torch.eye(classes, counts).double()[:, :, None, None])
        and torch.equal(last.weight, torch.eye(classes).double()[:, :, None, None])
        and not select.bias.any()
        and not last.bias.any()
    )


def _hand_on(draft: Draft, rows: list[int], bias: Tensor | None = None) -> None:
    """Let the last layer but one hand on these counts, one a neuron, behind a bias of its own."""
    layer, counts = draft.layers[-2], draft.signal_into(len(draft.layers) - 2)
    draft.layers[-2] = replace(
        layer,
        weight=torch.eye(len(counts.step)).double()[rows][:, :, None, None],
        bias=torch.zeros(len(rows)).double() if bias is None else bias,
        signal=Signal(counts.upper[rows], counts.step[rows]),
    )


def _set_last(draft: Draft, weight: Tensor) -> None:
    """Other weights for the last layer; the logits are as before."""
    draft.layers[-1] = replace(draft.layers[-1], weight=weight[:, :, None, None])
