r"""What an environment hides: what it draws anew for each question, so that a map must be made from it.

A question is *solved* if the lowest F1 of the claim's parts is above g = 2/3.

**Lemma.** No map has F1 > 2/3 against each of two disjoint sets of pixels, whatever their sizes.

*Proof.* A map is scored by magnitudes a >= 0 of at most 1. It has the mass :math:`P = \sum a`, of
which :math:`h = \sum_T a \le |T|` lies on the set T, and

.. math::
    F_1 = \frac{2 h}{P + |T|} > \frac{2}{3}
    \quad\Rightarrow\quad 3 h > P + |T| \ge P + h
    \quad\Rightarrow\quad h > P / 2 .

So more than half of the map lies on T, and two disjoint sets cannot each hold more than half. ∎ A
larger g asks for more, and 2/3 cannot be lowered: a map that is 1 on two disjoint sets of equal
size, and 0 elsewhere, has F1 = 2/3 against both. A score scales maps; "more than half" does not
depend on the scale. What is not asked in a question is dropped from its maps: the lemma needs that
all pixels of both sets are asked in both questions.

**Consequence.** Somebody makes a map without one hidden thing. Let m values of the thing be equally
likely given everything that is seen, with disjoint positive sets. The map solves at most one of the
m truths, so a question is solved with probability at most 1/m. Questions are drawn independently:
of n, k or more are solved with probability at most P(X >= k), X binomial(n, 1/m).

**Why the values are equally likely.** Each thing is a group of exchanges that leaves what is seen,
and how probable it is, as it was:

- *roles*: which color is which for the network. Roles are drawn uniformly and independently of
  image and target. So the drawn roles are as likely as the same with all colors moved on by 1, 2,
  ... places.
- *target*: a class is drawn uniformly, whatever image and network are.
- *place*: where the network counts each color. Quadrants are permuted uniformly, whatever the roles
  of colors are, so the four turns of the quadrants are equally likely.
- *color*: which color a pixel has. The patches of all colors are drawn alike, so an image is as
  likely as the same image with all colors moved on.
- *sign*: whether the network computes a rule or minus that rule. This depends on which of two marks
  it looks for, which is drawn with the roles; all sizes of effects are the same.
- *context*: which of two marks lies at the center. The two change places in half of the images, and
  everything but their two colors stays the same.

The numbers m stand in an environment's design, in the table ``[hidden]``, as far as the positive
sets are disjoint; tests/alternatives.py makes the truths, and tests/environment/test_hidden.py looks
at them in 200 questions of each environment. Other claims have other sets, and tables of their own:

- "overall" asks for relevant pixels: ``[hidden.overall]``. They are the same whatever sign and
  context are, and for all classes of a softmax of counts.
- "agreed" drops the pixels on which definitions disagree, which may be those of another
  alternative: ``[hidden.agreed]``.

For "positive-smoothed" the truths t are blurred masks, and overlap. The table for positive sets
holds as far as no map solves two of them. With weights w and 1 - w, both solved means :math:`3 h >
P + \sum t` for both, so for the mean t' of the two truths :math:`\sum a (3 t' - 1) > \sum t'`, and
the left side is at most :math:`\sum \max(0, 3 t' - 1)`. Where this sum is no larger than
:math:`\sum t'` for some w, no map solves both; the tests look at that as well.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import permutations
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from attributionlab.base import AttributionLabError, Within, nearest
from attributionlab.worlds.environment.roles import Renaming, Roles, renamed_count
from attributionlab.worlds.images.scenes import Scene
from attributionlab.worlds.rules.expressions import Count
from attributionlab.worlds.rules.rule import Rule

if TYPE_CHECKING:
    from attributionlab.worlds.environment.environment import Environment

CLAIMS = ("signed", "overall", "positive", "positive-smoothed", "agreed")
HIDDEN = ("roles", "target", "place", "color", "sign", "context")
"""What an environment may draw anew for each question, in the order of reports."""
OWN_TABLES = {"overall": ("roles", "place", "color"), "agreed": HIDDEN}
"""Claims that have a table of their own in ``[hidden]``, and what they ask."""
LEAST_SIZE = "least_image_size"
"""In ``[hidden]``: the least side of images for which the table holds."""
Alternatives = Annotated[int, Within(least=2)]


def _table(name: str, things: tuple[str, ...], **further: Any) -> Any:
    """What such a table may hold: numbers of alternatives, and further entries."""
    entries = dict.fromkeys(things, Alternatives) | further
    return TypedDict(name, entries, total=False)  # type: ignore[operator]


Hidden = _table(
    "Hidden",
    HIDDEN,
    **{claim: _table(claim, things) for claim, things in OWN_TABLES.items()},
    least_image_size=Annotated[int, Within(least=1)],
)
UNCHANGED = frozenset(
    {
        *("image_size", "size", "seed", "keep_degenerate", "patch_size", "patches_per_color"),
        *("accumulator", "redundant_channels", "redundant_strength", "temperature"),
        *("implementation", "camouflage_seed"),
    }
)
"""Constants of an environment that may be changed and nothing of its table with them."""


def asked_by(claim: str) -> tuple[str, ...]:
    """The hidden things that a claim asks for: without them its truth is not known.

    `claim`: one of `CLAIMS`.
    """
    if claim not in CLAIMS:
        raise AttributionLabError(f"claim is {claim!r}: {nearest(str(claim), CLAIMS)}")
    return OWN_TABLES.get(claim, HIDDEN)


def hidden_in(env: "Environment", claim: str = "signed") -> dict[str, int]:
    """For each thing that an environment hides, and a claim asks, its number m of alternatives.

    Nothing for a custom environment, and where all images have one network nothing holds.
    """
    asked, table = asked_by(claim), env.spec.hidden
    if claim in OWN_TABLES:
        table = table.get(claim, {})
    return {thing: int(table[thing]) for thing in asked if thing in table}


def still_hidden(table: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """A design's table after some constants were changed: whole, or nothing if it may be wrong then."""
    least, size = table.get(LEAST_SIZE, 1), overrides.get("image_size")
    holds = UNCHANGED.issuperset(overrides) and (size is None or size >= least)
    return dict(table) if holds else {}


def hidden_by_rule(rule: Rule, scene: Scene) -> dict[str, Any]:
    """A table ``[hidden]`` for a rule of one output, from the counts that it reads.

    The scene is one in which every color lies in every quadrant, with equal areas: as of
    `attributionlab.random_worlds`. All pixels that a count sees may be relevant, so the table holds for
    "overall", too. Of a rule that reads many counts it may state less than is hidden.
    """
    space, table = Roles(rule, scene), dict[str, Any]()
    for thing in OWN_TABLES["overall"]:
        number = len(turns(rule.counts_used, rule.counts_used, exchanges(space, thing)))
        table |= {thing: number} if number > 1 else {}
    return {**table, "overall": dict(table)} if table else {}


def exchanges(space: Roles, thing: str) -> Iterator[Renaming]:
    """Exchanges of names that are equally likely for who does not see roles, color or place."""
    if thing != "place":
        for group, _ in space.colors:
            yield {old: group[place - 1] for place, old in enumerate(group)}  # a turn of all
            yield from (dict(zip(group, each, strict=True)) for each in permutations(group))
    if thing != "color":
        yield from space.regions


def turns(
    counts: Collection[Count], taken: Collection[Count], candidates: Iterable[Renaming]
) -> list[Renaming]:
    """The most powers of one exchange that put counts where none is taken, the first of no names.

    Each of the powers is as likely as any other; their number is the order of the exchange.
    """
    best: list[Renaming] = [{}]
    for exchange in candidates:
        powers, power = [dict[str, str]()], exchange
        while any(old != new for old, new in power.items()):
            powers.append(power)
            power = {old: exchange[new] for old, new in power.items()}
        moved = ({renamed_count(count, each) for count in counts} for each in powers[1:])
        if len(powers) > len(best) and all(each.isdisjoint(taken) for each in moved):
            best = powers
    return best
