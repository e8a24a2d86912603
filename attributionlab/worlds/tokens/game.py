r"""What each token of a sequence does to an output: the game "present, or [PAD] at its own place".

Of t active tokens all :math:`2^t` coalitions are asked, by the rule and never by the network. With
:math:`\Delta_i(S) = v(S \cup i) - v(S)` and Shapley's weights w, each token has

.. math:: S^+_i = \sum_S w(S) \max(0, \Delta_i(S)), \qquad
          S^-_i = \sum_S w(S) \max(0, -\Delta_i(S)),

and its Shapley value is their difference. Tokens that are not active are null players, which change no
weight of the others.
"""

import numpy as np
from numpy.typing import NDArray

from attributionlab.base import AttributionLabError, Numbers
from attributionlab.worlds.rules.game import Asked, asked
from attributionlab.worlds.tokens.languages import Language, Roles
from attributionlab.worlds.truth.shapley import changes, coalition_weights

MOST_ACTIVE = 16
"""Tokens of a sequence that may change an output: 65,536 coalitions."""


def contributions(
    language: Language, sequence: Roles, output: int = 0
) -> tuple[Numbers, Numbers, NDArray[np.bool_]]:
    """S+, S- and whether it is a null player of each token of a sequence (T,) of roles.

    Raises AttributionLabError where more than `MOST_ACTIVE` tokens are active.
    """
    rising, falling = np.zeros((2, len(sequence)))
    null = np.ones(len(sequence), dtype=bool)
    active = np.flatnonzero(language.active(sequence) & (sequence != 0))
    if len(active) > MOST_ACTIVE:
        raise AttributionLabError(
            f"{len(active)} tokens of a sequence of {language.name} can change its output: the "
            f"truth can only be computed for up to {MOST_ACTIVE}; take a shorter sequence"
        )
    members = np.arange(2 ** len(active))[:, None] >> np.arange(len(active)) & 1
    coalitions = np.zeros((len(members), len(sequence)), dtype=np.int64)
    coalitions[:, active] = members * sequence[active]
    values = language.rule(coalitions)[:, output].astype(float)
    weights = coalition_weights(len(active))
    for at, token in enumerate(active):
        change = changes(values, at)
        rising[token] = weights @ change.clip(min=0)
        falling[token] = weights @ -change.clip(max=0)
        null[token] = not change.any()
    return rising, falling, null


def moves(language: Language, sequence: Roles, output: int = 0) -> bool:
    """Whether some token of a sequence is relevant; most often a few coalitions tell."""
    few = np.concatenate([np.diag(sequence), sequence * (1 - np.eye(len(sequence), dtype=int))])
    told = language.rule(np.stack([sequence, 0 * sequence, *few]))[:, output]
    return bool((told != told[0]).any()) or not contributions(language, sequence, output)[2].all()


def asked_of(language: Language, sequence: Roles, output: int = 0) -> Asked:
    """What a test asks of each token, (T,): as of pixels (`worlds.rules.game.asked`).

    A token is relevant from a quarter of the largest S+ + S- on, and its sign is asked where S+ and S-
    lie apart; weaker ones that are no null players are not asked.
    """
    rising, falling, null = contributions(language, sequence, output)
    return asked(rising, falling, null, np.zeros(len(null)))
