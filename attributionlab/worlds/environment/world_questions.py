"""Questions in worlds: an image, and a network with the same rule in other roles."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from torch import Tensor

from attributionlab.base import AttributionLabError
from attributionlab.worlds.environment.catalog import network_of
from attributionlab.worlds.environment.environment import Environment
from attributionlab.worlds.environment.roles import Renaming, Roles, renamed_counts
from attributionlab.worlds.rules.game import Asked, placed
from attributionlab.worlds.rules.kinds import Kinds, kinds_of
from attributionlab.worlds.rules.rule import Rule
from attributionlab.worlds.truth.masks import Output, Truth


@dataclass(frozen=True, eq=False)
class WorldRoles:
    """What may be asked about an image of a world.

    - `rule`: of the world as it stands.
    - `kinds`: of the image's pixels, for every role.
    - `renamings`: the roles, equally likely.
    """

    rule: Rule
    kinds: Kinds
    renamings: Sequence[Renaming]
    temperature: float | None

    @cached_property
    def _found(self) -> dict[tuple[int, int, Output], Asked]:
        return {}

    def asked(self, role: int, target: int, output: Output) -> Asked:
        """What is asked of each kind in a role."""
        key = role, target, output
        if key not in self._found:
            self._found[key] = self.kinds.asked(
                self.rule.expressions,
                renamed_counts(self.rule, self.renamings[role]),
                target,
                self.temperature if output == "probability" else None,
            )
        return self._found[key]

    def truth(self, role: int, target: int, output: Output) -> Truth:
        """The truth of the image in a role."""
        return placed(self.asked(role, target, output), self.kinds.labels).truth()


@dataclass(frozen=True, eq=False)
class WorldQuestion:
    """What a question in a world has instead of cells with roles.

    `roles`: all that may be asked. `role`: what was drawn.
    """

    roles: WorldRoles
    role: int


class WorldQuestions:
    """Draws roles and targets for the images of a world."""

    def __init__(self, env: Environment) -> None:
        assert isinstance(env.counting, Rule)
        self.env, self.rule = env, env.counting
        self.space = Roles(self.rule, env.recipe)  # type: ignore[arg-type]
        self._kept: tuple[Any, WorldRoles] | None = None

    def roles_of(self, image: Tensor, looks: np.random.Generator, key: Any) -> WorldRoles:
        """What may be asked about an image; `looks` draws roles where there are too many."""
        if self._kept is None or self._kept[0] != key:  # twins ask about the same image
            renamings = self.space.drawn(looks)
            kinds = kinds_of(image.numpy(), self.rule.places, self.space.counts)
            roles = WorldRoles(self.rule, kinds, renamings, self.env.temperature)
            self._kept = key, roles
        return self._kept[1]

    def drawn(self, roles: WorldRoles, rng: np.random.Generator) -> tuple[int, int]:
        """A role and a target, uniform over those that have a positive truth.

        Where none has, as in a world of parities, uniform over those that have a relevant pixel.
        """
        targets = range(len(self.rule.expressions))
        output = self.env.outputs[0]
        order = rng.permutation(len(roles.renamings) * len(targets)).tolist()
        relevant = None
        for place in order:
            role, target = divmod(place, len(targets))
            found = roles.asked(role, target, output)
            if (found.signed > 0).any():
                return role, target
            if relevant is None and found.relevant.any():
                relevant = role, target
        if relevant is not None:
            return relevant
        raise AttributionLabError(
            f"{self.env.name}: nothing in an image changes an output in any role: change its items "
            "so that every color that the rule counts occurs"
        )

    def environment(self, renaming: Renaming, weight_seed: int) -> Environment:
        """The world with its rule in another role; a natural network draws its features, too."""
        drawn: dict[str, Any] = {"rule": self.space.renamed(renaming).text}
        if self.env.implementation == "natural":
            drawn["weight_seed"] = weight_seed
        return self.env.with_network(network_of(self.env.spec.with_constants(**drawn)), **drawn)
