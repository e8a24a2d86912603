"""What methods are ranked on: pairs of images and network, each with pixels removed in two orders."""

import zlib
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from attributionlab.base import AttributionLabError, refuse_if
from attributionlab.metrics import Order
from attributionlab.verdicts.metric_trials.agreement import RankedBy
from attributionlab.worlds import Environment, known_colors, load, names_random_worlds
from attributionlab.worlds.truth import Counting

RemovedTo = Literal["black", "true baseline"]
"""What removed pixels become: (0, 0, 0), as in the paper, or the background's color."""

PROTOCOLS: Mapping[str, Order] = {"MoRF": "morf", "LeRF": "lerf"}
"""Most and least relevant first (Samek et al., 2017). A good method has a small area under the first
curve, and a large one under the second."""

TWO_COLORS = [[220, 120, 20], [220, 20, 120]]
SHAPES = ["triangle", "square", "circle"]


class Pair(NamedTuple):
    """Images and a network for them: a case of the paper without its protocol."""

    environment: str | Environment
    """name in the catalog or of random worlds, path of a TOML file, or a world from a rule as it is"""
    dose: float | None = None
    """how strongly redundant channels weigh unseen colors, a multiple of 0.25 (0: none are weighed);
    None: as the environment says"""
    removed_to: RemovedTo = "black"
    changes: Mapping[str, Any] = {}
    """other constants of the environment that are overridden"""
    label: str = ""
    """what to call the images; the environment's name by default"""

    def in_worlds(self, size: int | None) -> "list[Pair]":
        """A pair for each of the random worlds that the environment's name stands for, or itself."""
        if not names_random_worlds(self.environment):
            return [self]
        drawn = load(self.environment, **({} if size is None else {"image_size": size}))
        return [self._replace(environment=env) for env in drawn.worlds]

    @property
    def data(self) -> str:
        """The images."""
        if isinstance(self.environment, Environment):
            return self.label or self.environment.name
        return self.label or PurePath(self.environment).stem

    @property
    def network(self) -> str:
        """The network, and where it sees no black, what it sees instead."""
        dose = "as it is" if self.dose is None else f"dose {self.dose:g}"
        return dose if self.removed_to == "black" else f"{dose}, {self.removed_to}"

    @property
    def name(self) -> str:
        """Names of the data and of the network."""
        return f"{self.data}, {self.network}"

    def load(self, size: int | None, seed: int) -> Environment:
        """The environment, whose random weights depend on the seed and on what the images are called.

        So networks of the same images differ in their dose alone, and what one draw of weights happens
        to do is not found in all cases. `size`: side of the images, the environment's own without.

        Raises AttributionLabError for what `attributionlab.load` refuses, a regression that is no
        world, an unknown replacement and a dose that is no multiple of 0.25; for a world whose pixels
        become black, or that has images of another size.
        """
        if self.removed_to not in get_args(RemovedTo):
            raise AttributionLabError(
                f"removed_to is {self.removed_to!r}: take 'black' or 'true baseline'"
            )
        dose = self.dose
        if dose is not None and (not isinstance(dose, int | float) or not (4 * dose) % 1 == 0):
            raise AttributionLabError(f"dose is {dose!r}: take a multiple of 0.25, such as 0.5")
        overrides = dict(self.changes)
        overrides |= {} if size is None else {"image_size": size}
        overrides |= {} if dose is None else {"redundant_strength": float(dose)}
        if isinstance(self.environment, Environment):
            return self._world(self.environment, size)
        env = load(self.environment, **overrides)
        if env.rule:
            return self._world(env, size)
        if env.task != "classification":
            raise AttributionLabError(
                f"{env.name} is a regression, which has no accuracy: name a classification, "
                "such as multi-color-sum, or a world from a rule"
            )
        stream = np.random.SeedSequence([seed, zlib.crc32(self.data.encode())])
        weight_seed = int(stream.generate_state(1)[0])
        return load(self.environment, **{"weight_seed": weight_seed, **overrides})

    def _world(self, env: Environment, size: int | None) -> Environment:
        """A world, if it can be ranked in."""
        side, problems = env.recipe.image_size, []
        if not env.rule:
            problems.append(
                f"{env.name} is not a world from a rule: pass its name, not the environment"
            )
        if self.removed_to == "black":
            problems.append(
                f"removed_to is 'black', but {env.name} has no unseen data: take 'true baseline'"
            )
        if size not in (None, side):
            problems.append(
                f"images of {env.name} have {side} pixels a side, not {size}: pass size={side}"
            )
        refuse_if(problems)
        return env

    def shows_unseen_data(self, env: Environment) -> bool:
        """Whether removed pixels have a color that sets off redundant channels of this network."""
        if env.rule:
            return False
        constants = env.spec.constants
        fires = constants.get("redundant_channels") and constants.get("redundant_strength")
        black = env.baseline.cpu() * 0
        unknown = Counting(known_colors(env.spec)).classes_of(black[None]) < 0
        return self.removed_to == "black" and bool(fires) and bool(unknown.any())


def _of(label: str, environment: str, doses: tuple[float, ...], **changes: Any) -> tuple[Pair, ...]:
    return tuple(Pair(environment, dose, changes=changes, label=label) for dose in doses)


PAIRS: tuple[Pair, ...] = (
    *_of("four colors", "multi-color-sum", (0, 0.5, 1, 4)),
    Pair("multi-color-sum", 1, "true baseline", label="four colors"),
    *_of("distractors", "multi-color-sum-distractors", (0, 1, 4)),
    *_of("shapes", "multi-color-sum-uniform", (0, 1, 4), shapes=SHAPES),
    *_of("two colors", "multi-color-sum", (0, 1), colors=TWO_COLORS),
)
"""13, as in the paper: the images of one environment with up to five networks. Without redundant
channels (dose 0) it makes no difference whether pixels become black or background."""


ALL = "all cases"


class CaseScores(NamedTuple):
    """What every method reached in one case."""

    pair: int
    """both protocols of a pair have its number"""
    data: str
    network: str
    protocol: str
    unseen: bool
    """whether removed pixels have colors that the network has not seen, and reacts to"""
    areas: Mapping[str, float]
    """under the data set's curve, by method; the oracle's and other runs' (`run_name`), too"""
    truth: Mapping[str, Mapping[RankedBy, float]]
    """by method and part of the truth: mean F1 on all, on positives, the lowest of all ("signed")"""
    reasons: Mapping[str, str]
    """why a method is missing"""
    in_world: bool = False
    """whether the environment is a world from a rule"""
    features: tuple[str, ...] | None = None
    """what a random world asks; None elsewhere"""

    @property
    def name(self) -> str:
        """Images, network and protocol."""
        return f"{self.data}, {self.network}, {self.protocol}"

    @property
    def lower_is_better(self) -> bool:
        """Whether smaller areas are better."""
        return PROTOCOLS[self.protocol] == "morf"


SUBSETS: Mapping[str, Callable[[CaseScores], bool]] = {
    ALL: lambda case: True,
    "no unseen data": lambda case: not case.unseen,
    "unseen data": lambda case: case.unseen,
    "MoRF": lambda case: case.protocol == "MoRF",
    "LeRF": lambda case: case.protocol == "LeRF",
}
