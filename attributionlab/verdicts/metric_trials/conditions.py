"""Conditions under which a metric is tested: how strongly the network reacts to unseen colors, and how
many pixels of such colors the metric shows it.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from attributionlab.base import AttributionLabError, nearest, number_problem, plain_torch, refuse_if
from attributionlab.worlds import Environment, known_colors, network_of
from attributionlab.worlds.truth import Counting

REFERENCE_DISTANCE = 20
"""Gray levels from the true baseline to the replacement where that is not what varies: black, the usual
replacement, for the catalog's background (20, 20, 20)."""
REFERENCE_CHANNELS, REFERENCE_STRENGTH = 2, 1.0
"""For an environment without the Unseen Data Effect."""
NOTHING_UNSEEN = (0.0, 0.0, 0.0, 0.0)


class Axis(NamedTuple):
    """Something of which there can be more or less."""

    meaning: str
    doses: Sequence[float]


AXES: Mapping[str, Axis] = {
    "strength": Axis("largest weight of a redundant channel", (0, 0.25, 0.5, 1, 2, 4)),
    "channels": Axis("number of redundant channels", (0, 1, 2, 4, 8)),
    "distance": Axis("gray levels from true baseline to replacement", (0, 1, 2, 5, 10, 20)),
    "share": Axis("share of replaced pixels with an unseen color", (0, 0.05, 0.1, 0.25, 0.5, 1)),
}
"""What is varied, one at a time, and at which doses by default; the dose 0 has no unseen data."""


QUICK_DOSES: Mapping[str, Sequence[float]] = {"strength": (0, 1)}
"""Of a quick run: nothing unseen, and as much as all other axes have where they do not vary."""


def quick_doses(env: Environment) -> Mapping[str, Sequence[float]] | None:
    """Doses of a quick run; None where nothing can be unseen."""
    return QUICK_DOSES if "redundant_channels" in env.spec.constants else None


class Condition(NamedTuple):
    """One dose on one axis."""

    axis: str
    dose: float
    setting: tuple[int, float] | None
    """number of redundant channels, and their strength; None: the network is as it is"""
    distance: float
    """gray levels from the true baseline to the color of replaced pixels"""
    share: float
    """share of the replaced pixels that have it; the others have the true baseline"""

    @property
    def key(self) -> tuple[float, ...]:
        """Channels, strength, distance, share: equal where the answers are.

        Where nothing unseen is put in, replacements answer alike, and networks without redundant
        channels as well. A network that has them answers colors that a metric imputes by itself, as
        ROAD does. What is no dose has a key of its own (`without_unseen_data`).
        """
        if self.setting is None or not self.axis:
            return 0.0, *NOTHING_UNSEEN
        at = *map(float, self.setting), float(self.distance), float(self.share)
        if all(at):
            return at
        return (*at[:2], 0.0, 0.0) if all(self.setting) else NOTHING_UNSEEN

    @property
    def unseen(self) -> float:
        """Share of the replaced pixels that set off redundant channels."""
        return self.key[-1]

    @plain_torch()
    def network(self, env: Environment, number: int) -> Environment:
        """An environment, such as that of a question, with the network for image `number`.

        Each image has random weights of its own, the same ones at every dose: otherwise what one draw
        of redundant weights happens to do would pass for what a dose does. The network of a question
        has them already: its number is 0.
        """
        if self.setting is None:
            return env
        channels, strength = self.setting
        seed = env.spec.constants.get("weight_seed", 0) + number
        drawn = {
            "redundant_channels": channels,
            "redundant_strength": strength,
            "weight_seed": seed,
        }
        return env.with_network(network_of(env.spec.with_constants(**drawn)), **drawn)

    def canvas(
        self, env: Environment, number: int, seed: int
    ) -> Float[Tensor, "channels height width"]:
        """What replaces the pixels of image `number` there: what is unseen at a small share is so at a
        larger one.
        """
        side = env.recipe.image_size
        drawn = np.random.default_rng([seed, number, 7]).random((1, side, side))
        chosen = torch.from_numpy(drawn < self.share)
        color = replacement_of(env, self.distance)
        return torch.where(chosen, color, env.baseline.cpu())


def conditions_of(
    env: Environment, doses: Mapping[str, Sequence[float]] | None = None
) -> list[Condition]:
    """The conditions of every axis by rising dose; none where nothing can be unseen.

    Strength, channels and share are varied with a replacement that is 20 gray levels from the true
    baseline; all but the axis itself is as in the environment (without any Unseen Data Effect: two
    channels of strength 1).

    `env`: one without redundant channels, as a world from a rule, has no conditions. `doses`: which
    axes of `AXES`, at which doses; all of `AXES` by default.

    Raises AttributionLabError for doses in an environment that cannot have redundant channels, an
    unknown axis, and impossible doses.
    """
    constants = env.spec.constants
    if "redundant_channels" not in constants:
        if doses is None:
            return []
        raise AttributionLabError(
            f"doses are {doses!r}, but {env.name} has no redundant channels, so it has no unseen "
            "colors: leave doses out, or take multi-color-sum"
        )
    wanted = wanted_doses(doses, tuple(AXES))
    usual = {
        "channels": constants["redundant_channels"] or REFERENCE_CHANNELS,
        "strength": constants["redundant_strength"] or REFERENCE_STRENGTH,
        "distance": REFERENCE_DISTANCE,
        "share": 1.0,
    }
    found = []
    for axis, values in wanted.items():
        for dose in sorted(values):
            at = usual | {axis: dose}
            replacement_of(env, at["distance"])  # impossible ones are refused before the work
            setting = int(at["channels"]), float(at["strength"])
            condition = Condition(axis, float(dose), setting, at["distance"], at["share"])
            found.append(condition)
    return found


AS_IT_IS = Condition("", 0.0, None, 0.0, 0.0)
"""The network of an environment, and its true baseline for a replacement."""


def without_unseen_data(env: Environment) -> Condition:
    """A network without redundant channels, and the true baseline for a replacement.

    It has a key of its own: at the other doses 0 a metric that looks at the replacement itself may see
    another color.
    """
    if not conditions_of(env):
        return AS_IT_IS
    [condition] = conditions_of(env, {"strength": [0]})
    return condition._replace(axis="", distance=0.0)


def replacement_of(env: Environment, distance: float) -> Float[Tensor, "channels 1 1"]:
    """The color at a distance from the true baseline, toward black where there is room for it."""
    baseline = env.baseline.cpu()
    if not distance:
        return baseline
    way = -1 if float(baseline.min()) >= distance else 1
    color = baseline + way * distance
    if float(color.max()) > env.max_value:
        raise AttributionLabError(
            f"distance {distance:g} from {baseline.flatten().tolist()} leads outside of "
            f"[0, {env.max_value}]: take a smaller one"
        )
    known = Counting(known_colors(env.spec)).classes_of(color[None]) >= 0
    if bool(known.any()):
        raise AttributionLabError(
            f"distance {distance:g} leads to {color.flatten().tolist()}, a color that {env.name} "
            "knows: take another"
        )
    return color


def wanted_doses(
    doses: Mapping[str, Sequence[float]] | None, axes: Sequence[str]
) -> Mapping[str, Sequence[float]]:
    """Doses by axis as a user gives them, or the default ones of some axes. Raises AttributionLabError
    for all that is wrong with them.
    """
    wanted = {axis: AXES[axis].doses for axis in axes} if doses is None else doses
    if not isinstance(wanted, Mapping) or not wanted:
        raise AttributionLabError(
            f"doses are {doses!r}: pass a list of doses for each axis, such as {{{axes[-1]!r}: [0, 1]}}"
        )
    refuse_if([problem for axis in wanted for problem in _problems(axis, wanted[axis])])
    return wanted


def _problems(axis: str, doses: Sequence[float]) -> list[str]:
    if axis not in AXES:
        return [f"no axis named {axis!r}: {nearest(str(axis), AXES)}"]
    if isinstance(doses, str) or not isinstance(doses, Sequence) or not len(doses):
        return [f"doses of {axis} are {doses!r}: give a list of numbers"]
    most = {"share": 1, "channels": 256, "distance": 255}.get(axis)
    problems = [each for dose in doses for each in number_problem(axis, dose, least=0, most=most)]
    if not problems and axis == "strength":
        fine = [dose for dose in doses if dose * 4 != round(dose * 4)]
        problems = [f"strength is {dose!r}: take a multiple of 0.25" for dose in fine]
    if problems:
        return problems
    whole = [dose for dose in doses if axis in ("channels", "distance") and dose != round(dose)]
    return [f"{axis} is {dose!r}: take an integer" for dose in whole]
