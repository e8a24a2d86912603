"""Whether a network computes a world's rule: on held-out and changed images, and patch by patch."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64
from torch import Tensor, nn

from attributionlab.base import own_arithmetic, plain_torch
from attributionlab.worlds.learned.pictures import (
    AT_ONCE,
    INTERVENTIONS,
    Pictures,
    RuleAnswers,
    World,
    drawn_pictures,
)
from attributionlab.worlds.rules import expressions
from attributionlab.worlds.rules.rule import Rule

HELD_OUT, HELD_OUT_SEED = 400, 2_000_003
"""Images of a certificate, and their seed: no network is trained on them."""
AGREEMENT, SIGNS = 0.99, 0.95
"""What a certificate takes: agreement with the rule on each kind of images, and the share of right
signs where one patch is removed."""
SHAPLEY, NULL = 0.98, 0.15
"""R^2 of the network's own Shapley values over patches with the rule's, and the largest own value of a
patch that is null in the rule, as a share of the image's largest."""
NO_EFFECT = 0.15
"""Changes below this many standard deviations of the output count as none. A network with R^2 = 0.99 is
off by 0.1 of them."""
BESIDE = 3
"""Pixels: images whose counts lie nearer to a threshold are left out."""
LEAST_ASKED = 0.25
"""The share of the images of a kind that must not be left out."""
SHIFT = 2
"""How far values of pixels are moved beside the world's colors."""
SHAPLEY_IMAGES, PERMUTATIONS = 8, 64


@dataclass(frozen=True)
class LearnedCertificate:
    """How far a network computes a rule.

    - `agreement`: with the rule, by kind of images: R^2 of all outputs together; of a rule whose output
      is 0 or 1 the share of images for which the network's output lies on the right side of 1/2.
    - `asked`: the share of the images of each kind that are not left out for a count beside a
      threshold.
    - `signs`: where one patch is removed, the share of right signs of the change, among patches with no
      effect or among those with one, whichever is lower; 0 if no patch has an effect.
    - `shapley`: R^2 of the network's own Shapley values over patches with the rule's.
    - `null`: the largest own value of a patch whose value in the rule is 0, as a share of the largest
      value in the rule of its image; 0 if there is no such patch.
    """

    agreement: Mapping[str, float]
    asked: Mapping[str, float]
    signs: float
    shapley: float
    null: float

    @property
    def problems(self) -> list[str]:
        """What it lacks, a line each; none if the network is certified."""
        kinds = {name: f"agreement on images of the kind {name!r}" for name in self.agreement}
        least = [
            *((kinds[name], value, AGREEMENT) for name, value in self.agreement.items()),
            *(
                (f"share of {name!r} asked", value, LEAST_ASKED)
                for name, value in self.asked.items()
            ),
            ("share of right signs where a patch is removed", self.signs, SIGNS),
            ("R^2 of its Shapley values over patches with the rule's", self.shapley, SHAPLEY),
        ]
        problems = [
            f"the {what} is {value:.3f}, less than {needed}"
            for what, value, needed in least
            if not value >= needed  # NaN is none
        ]
        if not self.null <= NULL:
            problems.append(
                f"the largest Shapley value of a null patch is {self.null:.3f} of the image's largest, "
                f"more than {NULL}"
            )
        missing = [name for name in (HELD, *INTERVENTIONS, BESIDE_COLORS) if name not in kinds]
        return problems + [f"images of the kind {name!r} are not asked" for name in missing]

    @property
    def passed(self) -> bool:
        """Whether the network is certified."""
        return not self.problems

    def to_text(self) -> str:
        """As JSON, for the metadata of a file."""
        return json.dumps(asdict(self), sort_keys=True, allow_nan=False)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """From what `to_text` wrote; any of several errors for anything else."""
        found = json.loads(text)
        agreement, asked = (
            {str(key): _number(value) for key, value in found[name].items()}
            for name in ("agreement", "asked")
        )
        read = cls(
            agreement, asked, *(_number(found[name]) for name in ("signs", "shapley", "null"))
        )
        if read.to_text() != text:
            raise ValueError(text)
        return read


HELD, BESIDE_COLORS = "held_out", "beside_colors"


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(value)
    return float(value)


class HeldOut(NamedTuple):
    """Images that no network is trained on, with the rule's answers."""

    pictures: Pictures
    answers: RuleAnswers
    asked: Mapping[str, tuple[Tensor, Tensor, Tensor]]
    """images, outputs and whether each is asked, by kind"""
    single: tuple[Tensor, Tensor, Tensor]
    """the same of those held out, without one patch of each that is drawn"""


@own_arithmetic()
@plain_torch()
def held_out(
    env: World, n: int = HELD_OUT, seed: int = HELD_OUT_SEED, show_progress: bool = False
) -> HeldOut:
    """Ask the rule about images of a world, and about each intervention on them.

    One kind is beside the world's colors: each value of each pixel is moved by up to `SHIFT`. A network
    that is right on the colors alone computes something else beside them.

    Result: what `examine` asks any network.
    """
    pictures = drawn_pictures(env, n, seed, "held-out", show_progress)
    answers = RuleAnswers(env, pictures.colors)
    generator = torch.Generator().manual_seed(seed)
    kinds = {HELD: pictures}
    kinds |= {name: change(pictures, generator) for name, change in INTERVENTIONS.items()}

    def asked(shown: Pictures) -> tuple[Tensor, Tensor, Tensor]:
        return shown.images, answers(shown.shown), ~beside_threshold(env, shown.images)

    found = {name: asked(shown) for name, shown in kinds.items()}
    images, outputs, clear = found[HELD]
    moved = torch.randint(-SHIFT, SHIFT, images.shape, generator=generator)
    moved += moved >= 0  # 0 is no move
    found[BESIDE_COLORS] = ((images + moved).clamp(0, env.network.highest), outputs, clear)
    present = torch.stack([(pictures.patches == k).flatten(1).any(1) for k in range(1, 256)], 1)
    gone = 1 + torch.multinomial(present.float(), 1, generator=generator)[:, :, None]
    alone = pictures._replace(shown=pictures.shown * (pictures.patches != gone))
    return HeldOut(pictures, answers, found, asked(alone))


def beside_threshold(
    env: World, images: Float32[Tensor, "batch channels height width"]
) -> Bool[Tensor, " batch"]:
    """Images in which a comparison of the rule turns over within `BESIDE` pixels, though something that
    it counts is there.

    No network that is continuous is right on both sides of a threshold and beside it.
    """
    rule = env.counting
    if not isinstance(rule, Rule):
        return torch.zeros(len(images), dtype=torch.bool)
    columns = rule.counts(images).numpy()
    counts = {count: columns[:, place] for place, count in enumerate(rule.counts_used)}
    near = np.zeros(len(images), dtype=bool)
    for expression in rule.expressions:
        for comparison in _comparisons(expression):
            left, right = (expressions.evaluate(side, counts) for side in comparison.operands)
            shows = sum(counts[count] for count in expressions.counts_in(comparison)) > 0
            near |= (_distance(comparison.operator, left - right) < BESIDE) & shows
    return torch.from_numpy(near)


def _comparisons(expression: expressions.Expression) -> Iterator[expressions.Operation]:
    if isinstance(expression, expressions.Operation):
        if expression.operator in expressions.COMPARISONS:
            yield expression
        for operand in expression.operands:
            yield from _comparisons(operand)


def _distance(operator: str, difference: Any) -> Any:
    """Pixels between a difference of counts and the half at which a comparison turns over."""
    if operator in (">=", "<"):
        return np.abs(difference + 0.5)
    if operator in (">", "<="):
        return np.abs(difference - 0.5)
    return np.abs(np.abs(difference) - 0.5)


@own_arithmetic()
def outputs_of(
    network: nn.Module, images: Float32[Tensor, "batch channels height width"]
) -> Float32[Tensor, "batch outputs"]:
    """What a network says of images."""
    with torch.no_grad():
        return torch.cat([network(some) for some in torch.split(images, AT_ONCE)])


@own_arithmetic()
def examine(network: nn.Module, questions: HeldOut) -> LearnedCertificate:
    """How far a network computes the rule of the questions.

    Effects of single patches between `NO_EFFECT` and twice that are not asked for their sign.
    """
    exact = {name: outputs for name, (_, outputs, _) in questions.asked.items()}
    yes_or_no = all(bool(((each == 0) | (each == 1)).all()) for each in exact.values())

    def answers(images: Tensor) -> Tensor:
        found = outputs_of(network, images)
        return (found > 0.5).float() if yes_or_no else found

    found = {name: answers(images) for name, (images, _, _) in questions.asked.items()}
    agreement, share = {}, {}
    for name, (_, _, asked) in questions.asked.items():
        own, right = found[name][asked], exact[name][asked]
        share[name] = float(asked.double().mean())
        alike = (own == right).double().mean() if yes_or_no else explained(own, right)
        agreement[name] = float(alike) if asked.any() else 0.0
    images, outputs, asked = questions.single
    asked = asked & questions.asked[HELD][2]
    least = (0 if yes_or_no else NO_EFFECT) * exact[HELD].std(0)
    effect, change = outputs - exact[HELD], answers(images) - found[HELD]
    shapley, null = shapley_over_patches(network, questions)
    return LearnedCertificate(
        agreement, share, _right_signs(effect[asked], change[asked], least), shapley, null
    )


def _right_signs(effect: Tensor, change: Tensor, least: Tensor) -> float:
    """The lower share of right signs, among changes of 0 and among those that are not small."""
    none, some = effect == 0, (effect != 0) & (effect.abs() >= 2 * least)
    if not some.any():
        return 0.0
    sign = change.sign() * (change.abs() > least)
    right = (sign == effect.sign()).double()
    return min(float(right[asked].mean()) for asked in (none, some) if asked.any())


def explained(found: Tensor, exact: Tensor) -> float:
    """R^2: 1 less the squared error's share of the exact outputs' variance; below -1e6 it is that."""
    error, spread = (found - exact).double(), (exact - exact.mean(0)).double()
    share = error.square().sum() / spread.square().sum().clamp(min=torch.finfo(torch.float64).tiny)
    return float(1 - share.clamp(max=1e6))


Player = Callable[[Tensor], Tensor]
"""A network, or a rule: outputs for indices of colors."""


@own_arithmetic()
def shapley_over_patches(network: nn.Module, questions: HeldOut) -> tuple[float, float]:
    """R^2 of a network's own Shapley values over patches with the rule's, and the largest null patch.

    Both are estimated from the same permutations, so that they differ for the network's sake.
    """
    pictures = questions.pictures.part(slice(SHAPLEY_IMAGES))
    players = playing(network, pictures), questions.answers
    found, exact, largest = [], [], []
    for mine, rules in patch_shapley(pictures, players):
        found.append(mine)
        exact.append(rules)
        largest.append(rules.abs().max().expand(rules.shape))
    own_values, rule_values, most = torch.cat(found), torch.cat(exact), torch.cat(largest)
    none = rule_values == 0
    # An image in which nothing has a value is held against the largest of all.
    most = torch.where(most > 0, most, most.max())
    if not most.max() > 0:
        return 0.0, 1.0
    null = float((own_values.abs() / most)[none].max()) if none.any() else 0.0
    return explained(own_values, rule_values), null


def playing(network: nn.Module, pictures: Pictures) -> Player:
    """What a network says of pictures in these colors."""

    def outputs(shown: Tensor) -> Tensor:
        return outputs_of(network, pictures._replace(shown=shown).images)

    return outputs


@own_arithmetic()
def patch_shapley(
    pictures: Pictures, players: Sequence[Player]
) -> Iterator[tuple[Float64[Tensor, "patches outputs"], ...]]:
    """Shapley values over the patches of each picture, in the order of their labels, of each player.

    A patch that is absent has the background's color. All players are asked along the same 64
    permutations, in pairs of opposite order.
    """
    generator = torch.Generator().manual_seed(0)
    for index in range(len(pictures.shown)):
        picture = pictures.part(slice(index, index + 1))
        orders = _orders(picture, generator)
        yield tuple(_values(play, picture, orders) for play in players)


def _orders(picture: Pictures, generator: torch.Generator) -> Tensor:
    """Permutations (P, m) of a picture's patches, each beside its reverse."""
    patches = torch.unique(picture.patches).long()
    patches = patches[patches > 0]
    drawn = [
        patches[torch.randperm(len(patches), generator=generator)] for _ in range(PERMUTATIONS // 2)
    ]
    return torch.stack([order for each in drawn for order in (each, each.flip(0))])


def _values(play: Player, picture: Pictures, orders: Tensor) -> Float64[Tensor, "patches outputs"]:
    """Mean contributions of each patch, in the order of their labels, over some permutations."""
    permutations, players = orders.shape
    rank = torch.zeros(permutations, 256, dtype=torch.int64)  # 0 for the background
    rank.scatter_(1, orders, torch.arange(1, players + 1).expand(permutations, players))
    of_pixel = rank[:, picture.patches[0].long()]  # (P, H, W)
    present = torch.arange(players + 1)[None, :, None, None] >= of_pixel[:, None]
    shown = picture.shown * present.flatten(0, 1)
    outputs = play(shown).double().view(permutations, players + 1, -1)
    steps = outputs.diff(dim=1)  # (P, m, K), in each permutation's own order
    by_label = steps.gather(1, orders.argsort(1)[:, :, None].expand_as(steps))
    means: Tensor = by_label.mean(0)
    return means
