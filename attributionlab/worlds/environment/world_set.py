"""Random worlds under one name, such as "random:50:medium:7": one environment that consists of many."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NoReturn, Self

import torch

from attributionlab.base import AttributionLabError, drawn_seed, named, refuse_if
from attributionlab.worlds.environment.environment import Environment
from attributionlab.worlds.environment.hidden import HIDDEN
from attributionlab.worlds.environment.random_worlds import random_worlds, worlds_problems
from attributionlab.worlds.environment.spec import EnvironmentSpec
from attributionlab.worlds.environment.summary import summary_of_worlds
from attributionlab.worlds.environment.worlds import BACKGROUND
from attributionlab.worlds.nets.implementations import IMPLEMENTATIONS, PAPER

FORM, FORM_OF_ONE = "random:N:DIFFICULTY:SEED", "random:1:{}:{}"
DEFAULTS: Mapping[str, Any] = {"n": 20, "difficulty": "medium", "seed": 0}
"""What the parts of such a name are, in their order, and what they are where they are left out."""
SIDE = 48
LACKS = ("model", "layers", "network", "recipe", "counting", "admission")
"""What each world has for itself."""


def named_worlds(name: str, **overrides: Any) -> Environment:
    """The random worlds of a name, which are drawn when they are first needed.

    - `name`: "random:N:DIFFICULTY:SEED", as `attributionlab.random_worlds` takes them; what is left out
      is 20, medium and 0. The seed "fresh" is drawn, and stands in the name of what is returned.
    - `**overrides`: `image_size`, the side of the images, 48 by default, and `implementation`.

    Result: a `WorldSet`; of one world that world itself. Raises AttributionLabError for what is wrong
    with the name, and for other overrides.
    """
    _, *parts = name.split(":")
    given: dict[str, Any] = dict(DEFAULTS)
    for key, text in zip(DEFAULTS, parts, strict=False):
        is_number = key != "difficulty" and text.isdecimal() and text.isascii()
        given[key] = int(text) if is_number else text or DEFAULTS[key]
    given["seed"], _ = drawn_seed(given["seed"])
    side = overrides.get("image_size", SIDE)
    problems = worlds_problems(given["n"], given["seed"], given["difficulty"], side)
    problems += ["it has more than three parts"] if len(parts) > len(DEFAULTS) else []
    refuse_if(problems, f"{name!r} ({FORM})")
    if others := [key for key in overrides if key not in ("image_size", "implementation")]:
        raise AttributionLabError(
            f"{name}: {others[0]} is given, but rules and networks are random: leave it out"
        )
    written = overrides.get("implementation", PAPER)
    refuse_if(named(IMPLEMENTATIONS)("implementation", written), name)
    found = WorldSet(given["n"], given["seed"], given["difficulty"], int(side), written)
    env = found if given["n"] > 1 else found.worlds[0]
    env.maker, env.name, env.overrides = "load", found.name, overrides
    env.reference = found.reference
    return env


class WorldSet(Environment):
    """Random worlds as one environment: question i is asked in world i mod N.

    Each world has a network, a rule and images of its own, so that what an `Environment` has of these
    is refused here: it is had of one of the `worlds`. What all of them hide, the set hides.
    """

    def __init__(
        self, n: int, seed: int, difficulty: str, image_size: int, implementation: str = PAPER
    ) -> None:
        self.drawn_by = n, seed, difficulty, image_size
        self.written = implementation
        self.reference = f"random:{n}:{difficulty}:{seed}"
        self.name = self.reference + f" ({implementation})" * (implementation != PAPER)
        self.classes, self.image_shape, self.max_value = 1, (3, image_size, image_size), 255
        self.softmax_model = self.temperature = None
        self.device = torch.device("cpu")
        self.baseline = torch.tensor(BACKGROUND).float()[:, None, None]

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse what only one world has."""
        if name in LACKS:
            raise AttributionLabError(
                f"{self.name} is {self.drawn_by[0]} worlds, each with its own {name}: name one, like "
                f"{FORM_OF_ONE.format(*self.drawn_by[2:0:-1])}, or take one of the environment's "
                "worlds; leave one_network (--one-network) out, if it is given"
            )
        raise AttributeError(name)

    def __repr__(self) -> str:
        return f"WorldSet({self.name!r}, {self.image_shape[-1]} px)"

    @cached_property
    def worlds(self) -> list[Environment]:
        """The worlds, in the order in which they are drawn."""
        return [env.with_implementation(self.written) for env in random_worlds(*self.drawn_by)]

    @property
    def implementation(self) -> str:
        """How the networks of all worlds are written."""
        return self.written

    @property
    def implementations(self) -> tuple[str, ...]:
        """How all of them can be written; empty where they were rewritten already."""
        if self.written != PAPER:
            return ()
        first, *others = (env.implementations for env in self.worlds)
        return tuple(name for name in first if all(name in each for each in others))

    def with_implementation(self, name: str) -> Environment:
        """The same worlds, whose networks are written in another way."""
        if name == self.written:
            return self
        return named_worlds(self.reference, **{**self.overrides, "implementation": name})

    @cached_property
    def spec(self) -> EnvironmentSpec:  # type: ignore[override]
        """What the worlds are made from: their rules, and what all of them hide."""
        n, seed, difficulty, image_size = self.drawn_by
        tables = [env.spec.hidden for env in self.worlds]
        common = {  # what every world hides, with the fewest alternatives
            thing: min(table[thing] for table in tables)
            for thing in HIDDEN
            if all(thing in table for table in tables)
        }
        return EnvironmentSpec(
            name=self.name,
            claim=f"{n} randomly drawn rules, each in its own world.",
            formula="; ".join(str(env.rule) for env in self.worlds),
            source=f"attributionlab.random_worlds{self.drawn_by}",
            builder="rule",
            generator="scenes",
            constants={
                "image_size": image_size,
                "difficulty": difficulty,
                **({} if self.written == PAPER else {"implementation": self.written}),
                "worlds": [env.spec.digest[:16] for env in self.worlds],
            },
            size=n,
            seed=seed,
            hidden={**common, "overall": dict(common)} if common else {},
        )

    def to(self, device: str | torch.device) -> Self:
        """Move the networks of all worlds to a device, as `Environment.to` does."""
        for env in self.worlds:
            env.to(device)
        self.device = self.worlds[0].device
        self.baseline = self.baseline.to(self.device)
        return self

    def summary(self) -> str:
        """What the worlds are, and the rule of each, as plain text."""
        return summary_of_worlds(self)
