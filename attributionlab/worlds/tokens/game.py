r"""What each token of a sequence does to an output: the game "present, or [PAD] at its own place".

Of t active tokens all :math:`2^t` coalitions are asked, by the rule and never by the network. With
:math:`\Delta_i(S) = v(S \cup i) - v(S)` and Shapley's weights w, each token has

.. math:: S^+_i = \sum_S w(S) \max(0, \Delta_i(S)), \qquad
          S^-_i = \sum_S w(S) \max(0, -\Delta_i(S)),

and its Shapley value is their difference. Tokens that are not active are null players, which change no
weight of the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Int, Real
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.base import AttributionLabError, Numbers
from attributionlab.worlds.rules.game import Asked, asked
from attributionlab.worlds.tokens.languages import Language, Roles
from attributionlab.worlds.truth.masks import Output, Truth
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


@lru_cache(maxsize=4096)
def _asked(language: Language, sequence: tuple[int, ...], target: int) -> Asked:
    return asked_of(language, np.array(sequence), target)


@dataclass(frozen=True, eq=False)
class Meaning:
    """A language over a vocabulary: `roles[id]` is the role of each id, 0 of [PAD].

    It answers what an environment asks of what counts.
    """

    language: Language
    roles: tuple[int, ...]

    modulus = None

    def of(self, images: Real[Tensor, "batch words 1 tokens"]) -> NDArray[np.int64]:
        """Roles (B, T) of one-hot images."""
        found: NDArray[np.int64] = np.array(self.roles)[images[:, :, 0].argmax(1).cpu().numpy()]
        return found

    def outputs(self, images: Real[Tensor, "batch words 1 tokens"]) -> Int[Tensor, "batch outputs"]:
        """The outputs by the rule: nothing here knows the network."""
        return torch.from_numpy(self.language.rule(self.of(images)))

    def labels(self, images: Real[Tensor, "batch words 1 tokens"]) -> Int[Tensor, " batch"]:
        """The largest output of a classification (the first of equals), or the one output."""
        outputs = self.outputs(images)
        return outputs.argmax(1) if self.language.classes else outputs[:, 0]

    def classes_of(
        self, images: Real[Tensor, "batch words 1 tokens"]
    ) -> Int[Tensor, "batch 1 1 tokens"]:
        """0 for each token that can change an output, -1 for all others."""
        active = np.stack([self.language.active(row) & (row != 0) for row in self.of(images)])
        return torch.from_numpy(active[:, None, None].astype(np.int64) - 1).to(images.device)

    def truth(self, images: Tensor, targets: Sequence[int]) -> Truth:
        """What is asked of each token."""
        rows = zip(self.of(images), targets, strict=True)
        found = [_asked(self.language, tuple(row.tolist()), target) for row, target in rows]
        return Truth.joined([each.truth() for each in found]).to(images.device)


@dataclass(frozen=True, eq=False)
class TokenRoles:
    """What may be asked about a sequence: `WorldRoles` of tokens.

    - `ids`: (T,), the sequence.
    - `renamings`: the role of each id, by number; the first is that of the question.
    """

    language: Language
    ids: NDArray[np.int64]
    renamings: Sequence[tuple[int, ...]]

    def truth(self, role: int, target: int, output: Output) -> Truth:
        """The truth of the sequence in a role."""
        sequence = np.array(self.renamings[role])[self.ids]
        return _asked(self.language, tuple(sequence.tolist()), target).truth()
