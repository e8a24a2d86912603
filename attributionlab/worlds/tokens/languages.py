r"""Languages: what a world of tokens computes of a sequence, how sequences are drawn, and its network.

A language knows *roles*: role r of a token is an integer from 1, and 0 is [PAD], an absent token at its
place. Which word of the vocabulary plays which role is drawn elsewhere. The rule is computed for many
sequences at once, since the truth asks it about every coalition of tokens.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from attributionlab.base import AttributionLabError, refuse_if
from attributionlab.worlds.nets.transformers import GAP
from attributionlab.worlds.rules.compiling import compiled
from attributionlab.worlds.rules.expressions import Count, Expression, counts_in, evaluate
from attributionlab.worlds.rules.parsing import parse
from attributionlab.worlds.tokens.transformer import (
    Head,
    Maker,
    Neuron,
    Pairs,
    Row,
    TokenTransformer,
    pairs,
)

Roles = NDArray[np.int64]
"""(N, T), roles of tokens."""
LENGTHS = (7, 15, 31)
"""Lengths of sequences: with the start token powers of two."""
REGIONS: Mapping[str, tuple[int, int]] = {
    "first_half": (0, 4),
    "second_half": (4, 8),
    "first_quarter": (0, 2),
    "second_quarter": (2, 4),
    "third_quarter": (4, 6),
    "fourth_quarter": (6, 8),
}
"""Regions of a sequence in eighths of the start token and all tokens."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Language:
    """A rule about sequences, with all that makes a world of it.

    - `name`, `claim`, `formula`: for reports.
    - `roles`: names of the roles 1, 2, ...
    - `groups`: roles that may change places: sequences are drawn alike after that.
    - `rule`: outputs (N, K) of sequences (N, T), integers.
    - `draw`: draws a sequence of a length.
    - `build`: adds heads and neurons to a `Maker`.
    - `hidden`: what is drawn anew for a question, with the number of alternatives.
    - `turns`: for a hidden thing, a permutation of roles whose powers are the alternatives, by pairs.
    - `reads_last`: whether outputs are read from the last token, as of a causal model.
    - `classes`: names of the outputs of a classification; empty for a regression.
    - `active`: (T,) bool, which tokens of a sequence (T,) can change an output at all, whatever others
      are absent.
    """

    name: str
    claim: str
    formula: str
    roles: Sequence[str]
    groups: Sequence[Sequence[int]]
    rule: Callable[[Roles], Roles]
    draw: Callable[[np.random.Generator, int], Sequence[int]]
    build: Callable[[Maker], None]
    hidden: Mapping[str, int] = field(default_factory=dict)
    turns: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    reads_last: bool = False
    has_registers: bool = False
    classes: Sequence[str] = ()
    active: Callable[[Roles], NDArray[np.bool_]]

    def network(self, length: int) -> TokenTransformer:
        """The transformer, whose id r is role r."""
        return self._built(length).network(read=length if self.reads_last else 0)

    def heads(self, length: int) -> dict[str, str]:
        """What each head of it attends to, and which words it carries from there."""
        return self._built(length).heads(self.roles)

    def _built(self, length: int) -> Maker:
        maker = Maker(len(self.roles), length, length + 1 if self.has_registers else 0)
        self.build(maker)
        return maker


def places(region: str, length: int) -> range:
    """Places of a region, from -1, which is the start token."""
    if not region:
        return range(-1, length)
    low, high = (edge * (length + 1) // 8 - 1 for edge in REGIONS[region])
    return range(low, high)


# Counts: rules of the grammar


def counting(
    name: str, rule: str | Mapping[str, str], words: Sequence[str], **known: object
) -> Language:
    """The language of a rule over counts of words, as "min(a, b@first_half)".

    Each word occurs in every half. Raises AttributionLabError for what is wrong with the rule.
    """
    texts = {"": rule} if isinstance(rule, str) else dict(rule)
    expressions, problems = list[Expression](), list[str]()
    for title, text in texts.items():
        try:
            example = f"{words[0]}@{next(iter(REGIONS))}"
            expressions.append(parse(text, words, REGIONS, kind="word", example=example))
        except AttributionLabError as error:
            problems.append(f"class {title!r}: {error}" if title else str(error))
    used = sorted({count for each in expressions for count in counts_in(each)})
    problems += [f"{each} counts tiles of images: count words" for each in used if each.motif]
    if not isinstance(rule, str) and len(texts) < 2:
        problems.append(f"rule has the classes {[*texts]}: give one text, or at least two classes")
    refuse_if(problems, "the rule")
    number = {word: index for index, word in enumerate(words, start=1)}
    counted = {number[each.colors[0]] for each in used}
    formula = rule if isinstance(rule, str) else "; ".join(f"{k}: {v}" for k, v in texts.items())

    return Language(
        name=name,
        formula=formula,
        roles=words,
        groups=(range(1, len(words) + 1),),
        rule=partial(_count_outputs, expressions, used, number),
        draw=partial(_draw_everywhere, len(words)),
        build=partial(_build_counts, expressions, used, number),
        classes=tuple(texts) if len(texts) > 1 else (),
        active=partial(np.isin, test_elements=sorted(counted)),
        **known,  # type: ignore[arg-type]
    )


def _count_outputs(
    expressions: Sequence[Expression],
    used: Sequence[Count],
    number: Mapping[str, int],
    roles: Roles,
) -> Roles:
    counts = {}
    for each in used:
        inside = roles[:, [at for at in places(each.region, roles.shape[1]) if at >= 0]]
        counts[each] = (inside == number[each.colors[0]]).sum(1)
    found = [np.broadcast_to(evaluate(each, counts), len(roles)) for each in expressions]
    return np.stack(found, 1)


def _draw_everywhere(words: int, rng: np.random.Generator, length: int) -> list[int]:
    """Each word once in each half, or as often as halves have room; the rest as it comes."""
    halves = []
    for name in ("first_half", "second_half"):
        room = sum(at >= 0 for at in places(name, length))
        each = rng.permutation(words)[:room] + 1
        rest = rng.integers(1, words + 1, room - len(each))
        halves += rng.permutation([*each, *rest]).tolist()
    return halves


def _build_counts(
    expressions: Sequence[Expression],
    used: Sequence[Count],
    number: Mapping[str, int],
    maker: Maker,
) -> None:
    """A head for each region, whose sums go through the neurons of the rule."""
    inside = [[at for at in places(each.region, maker.length) if at >= 0] for each in used]
    entry = dict(enumerate(maker.add(*map(str, used))))
    heads = []
    for region in dict.fromkeys(each.region for each in used):
        values: list[tuple[Row, Row]] = [
            ({maker.word[number[each.colors[0]] - 1]: 1.0}, {entry[index]: 1.0})
            for index, each in enumerate(used)
            if each.region == region
        ]
        heads.append(maker.counting(places(region, maker.length), values))
    neurons, outputs = compiled(expressions, used, [len(each) for each in inside])
    for index in range(len(used), len(neurons.upper)):
        entry[index] = maker.add(f"neuron {index}")[0]
    made = list(enumerate(neurons.made_of))
    for level in range(1, max(neurons.level) + 1):
        here = [
            Neuron(
                {entry[read]: float(weight) for read, weight in value.weights.items()},
                float(value.offset),
                {entry[index]: 1.0},
            )
            for index, value in made
            if value is not None and neurons.level[index] == level
        ]
        maker.layer(*(heads if level == 1 else ()), neurons=here)
    if not max(neurons.level):
        maker.layer(*heads)
    for value in outputs:
        row = {entry[read]: float(weight) for read, weight in value.weights.items()}
        maker.output(row, float(value.offset))


# Polarity: good words count +1, bad ones -1

GOOD, BAD = (1, 2), (3, 4)
POLARITY = ("good", "fine", "bad", "poor")
TURNED = {1: 3, 3: 1, 2: 4, 4: 2}
"""Good words become bad ones: all signs change."""


def _polarity(roles: Roles) -> Roles:
    return np.isin(roles, GOOD).astype(np.int64) - np.isin(roles, BAD)


def _values(maker: Maker) -> Pairs:
    """Polarities to be handed on."""
    return pairs(maker.word[: len(POLARITY)], ["good"] * len(GOOD) + ["bad"] * len(BAD))


def _polar(maker: Maker, roles: Sequence[int], **others: float) -> Row:
    """What neurons read: 1 for some words, and other entries."""
    return {**{maker.word[role - 1]: 1.0 for role in roles}, **others}


def _summed(maker: Maker) -> None:
    """The output: a sum of what tokens have for it less what they have against it."""
    maker.add("sum for", "sum against")
    values = pairs(["for", "against"], ["sum for", "sum against"])
    maker.layer(maker.counting(places("", maker.length), values))
    maker.output({"sum for": 1.0, "sum against": -1.0})


def _everywhere(roles: Roles) -> NDArray[np.bool_]:
    return np.ones(roles.shape, dtype=bool)


def _last(roles: Roles) -> Roles:
    there = roles[:, ::-1] != 0
    last = np.take_along_axis(roles[:, ::-1], there.argmax(1)[:, None], 1)
    return _polarity(last)  # [PAD], which has none, where nothing is there


def _build_last(maker: Maker) -> None:
    maker.add("good", "bad")
    there = dict.fromkeys(maker.word, 1.0)
    values = _values(maker)
    maker.layer(maker.latest([({"token": 1.0}, there)], values, "the last token present"))
    maker.output({"good": 1.0, "bad": -1.0})


def _any(words: int, rng: np.random.Generator, length: int) -> list[int]:
    return rng.integers(1, words + 1, length).tolist()  # type: ignore[no-any-return]


KEYS = tuple(range(5, 21))


def _draw_pairs(rng: np.random.Generator, length: int) -> list[int]:
    """Pairs of a key and a polar word, all keys different, then one of the keys as the query."""
    keys = rng.permutation(KEYS)[: length // 2]
    words = rng.integers(1, len(POLARITY) + 1, len(keys))
    return [*np.stack([keys, words], 1).flatten().tolist(), int(rng.choice(keys))]


def _behind_copies(matched: Sequence[int], roles: Roles) -> NDArray[np.bool_]:
    """(N, T), the tokens right behind an earlier copy of the last token."""
    query = np.where(np.isin(roles[:, -1:], matched), roles[:, -1:], -1)
    return np.pad(roles[:, :-1] == query, ((0, 0), (1, 0)))


def _matched(matched: Sequence[int], roles: Roles) -> NDArray[np.bool_]:
    """The last token, its earlier copies, and what is right behind them."""
    behind = _behind_copies(matched, roles[None])[0]
    return behind | np.append(behind[1:], True)  # type: ignore[no-any-return]


def _latest_behind(matched: Sequence[int], roles: Roles) -> Roles:
    behind = _behind_copies(matched, roles)
    at = np.where(behind, np.arange(roles.shape[1]), 0).max(1)[:, None]
    return _polarity(np.take_along_axis(roles, at, 1)) * behind.any(1, keepdims=True)


def _all_behind(roles: Roles) -> Roles:
    return (_polarity(roles) * _behind_copies(KEYS, roles)).sum(1, keepdims=True)  # type: ignore[no-any-return]


def _build_matching(matched: Sequence[int], maker: Maker) -> None:
    """The last token attends to the token behind its latest earlier copy: a gate in scores."""
    before = maker.add(*(f"behind {role}" for role in matched))
    maker.add("good", "bad")
    words = [maker.word[role - 1] for role in matched]
    copies = pairs(words, before)
    maker.layer(maker.previous(copies))
    attends = "the latest token after a copy of this one"
    maker.layer(maker.latest(copies, _values(maker), attends))
    maker.output({"good": 1.0, "bad": -1.0})


def _build_by_values(maker: Maker) -> None:
    """All tokens are told the query, and neurons compare: a gate in values."""
    before = maker.add(*(f"behind {role}" for role in KEYS))
    told = maker.add(*(f"asked for {role}" for role in KEYS))
    maker.add("match", "for", "against")
    words = [maker.word[role - 1] for role in KEYS]
    maker.layer(
        maker.previous(pairs(words, before)),
        Head([({"token": 1.0}, {maker.place[-1]: GAP})], pairs(words, told), "the last token"),
        neurons=[
            Neuron({entry: 1.0, asked: 1.0}, -1.0, {"match": 1.0})
            for entry, asked in zip(before, told, strict=True)
        ],
    )
    maker.layer(
        neurons=[
            Neuron(_polar(maker, GOOD, match=1.0), -1.0, {"for": 1.0}),
            Neuron(_polar(maker, BAD, match=1.0), -1.0, {"against": 1.0}),
        ]
    )
    _summed(maker)


INDUCED = tuple(range(1, 11))


def _draw_repeated(rng: np.random.Generator, length: int) -> list[int]:
    found = _any(len(INDUCED), rng, length)
    return [*found[:-1], found[int(rng.integers(length - 2))]]


NOT = 5


def _negation(roles: Roles) -> Roles:
    turned = np.pad(roles[:, :-1] == NOT, ((0, 0), (1, 0)))
    return (_polarity(roles) * np.where(turned, -1, 1)).sum(1, keepdims=True)  # type: ignore[no-any-return]


def _build_negation(maker: Maker) -> None:
    maker.add("behind not", "for", "against")
    kept, turned = {"behind not": -1.0}, {"behind not": 1.0}
    maker.layer(
        maker.previous(pairs([maker.word[NOT - 1]], ["behind not"])),
        neurons=[
            Neuron(_polar(maker, GOOD, **kept), 0.0, {"for": 1.0}),
            Neuron(_polar(maker, BAD, **turned), -1.0, {"for": 1.0}),
            Neuron(_polar(maker, BAD, **kept), 0.0, {"against": 1.0}),
            Neuron(_polar(maker, GOOD, **turned), -1.0, {"against": 1.0}),
        ],
    )
    _summed(maker)


def _draw_negated(rng: np.random.Generator, length: int) -> list[int]:
    fillers = 1 if length <= 15 else 5  # few enough others that their coalitions can be enumerated
    weights = np.array([1, 1, 1, 1, 3, fillers, fillers])
    return (rng.choice(7, length, p=weights / weights.sum()) + 1).tolist()  # type: ignore[no-any-return]


MARK = 5


def _after(roles: Roles) -> Roles:
    seen = np.maximum.accumulate(roles == MARK, 1)
    return (_polarity(roles) * seen).sum(1, keepdims=True)  # type: ignore[no-any-return]


def _draw_marked(rng: np.random.Generator, length: int) -> list[int]:
    found = [each + (each >= MARK) for each in _any(8, rng, length)]
    found[int(rng.integers(length // 4, length - length // 4))] = MARK
    return found


def _build_after(maker: Maker) -> None:
    maker.add("seen", "for", "against")
    place, mark = maker.place, maker.word[MARK - 1]
    earlier: list[tuple[Row, Row]] = [
        ({place[at]: 1.0}, dict.fromkeys(place[:at], 1.0)) for at in range(1, maker.length)
    ]
    marked: tuple[Row, Row] = {"token": 1.0}, {mark: 1.0}
    seen = pairs([mark], ["seen"])
    look = maker.latest([*earlier, marked], seen, "the latest marker before", needed=2)
    neurons = [
        Neuron(_polar(maker, GOOD, seen=1.0), -1.0, {"for": 1.0}),
        Neuron(_polar(maker, BAD, seen=1.0), -1.0, {"against": 1.0}),
    ]
    maker.layer(look, neurons=neurons)
    _summed(maker)


# Nesting

OPEN, CLOSE = 1, 2
OTHER_BRACKETS = {OPEN: 3, 3: OPEN, CLOSE: 4, 4: CLOSE}
"""The two other words become brackets."""


def _deepest(roles: Roles) -> Roles:
    depth = ((roles == OPEN).astype(np.int64) - (roles == CLOSE)).cumsum(1)
    return np.maximum(depth.max(1, keepdims=True), 0)  # type: ignore[no-any-return]


def _build_deepest(maker: Maker) -> None:
    """Depths as sums over the tokens so far, made up to T + 1 by registers; then the deepest token.

    Its score is depth (T + 2) GAP + (i + 1) GAP at place i; the start token has depth 0.
    """
    maker.add("depth", "deepest")
    length, place, register = maker.length, maker.place, maker.register
    scores: list[tuple[Row, Row]] = [
        ({here: 1.0}, dict.fromkeys([*place[: at + 1], *register[: length - at]], GAP))
        for at, here in enumerate(place)
    ]
    scores.append((dict.fromkeys([*register, "start"], 1.0), {"start": GAP}))
    opened, closed = (maker.word[role - 1] for role in (OPEN, CLOSE))
    total = float(length + 1)
    sums: list[tuple[Row, Row]] = [
        ({opened: 1.0}, {"depth": total}),
        ({closed: 1.0}, {"depth": -total}),
    ]
    maker.layer(Head(scores, sums, "all tokens up to this one"))
    step = (length + 2) * GAP
    keys = {"depth": step, **{each: (at + 1) * GAP for at, each in enumerate(place)}}
    keys |= dict.fromkeys(register, -step)
    deepest = pairs(["depth"], ["deepest"])
    maker.layer(Head([({"start": 1.0}, keys)], deepest, "the deepest token"))
    maker.output({"deepest": 1.0})


def _draw_nested(rng: np.random.Generator, length: int) -> list[int]:
    """Each of the four words at least once in each half."""
    return _draw_everywhere(4, rng, length)


LETTERS = ("a", "b", "c", "d", "e", "f")
SHIFTED = {1: 3, 3: 5, 5: 1, 2: 4, 4: 6, 6: 2}
"""Two words on: neither of a and b stays."""
SWAPPED = {1: 2, 2: 1}
MOVED_ON = {1: 2, 2: 3, 3: 4, 4: 5, 5: 6, 6: 1}
_OF_RETRIEVING = {
    "roles": [*POLARITY, *(f"key{index}" for index in range(len(KEYS)))],
    "groups": ((*GOOD, *BAD), KEYS),
    "draw": _draw_pairs,
    "active": partial(_matched, KEYS),
    "hidden": {"sign": 2, "context": 3},
    "turns": {"sign": TURNED},
    "formula": "polarity of the word after the query's earlier occurrence",
}

LANGUAGES: Mapping[str, Language] = {
    each.name: each
    for each in (
        counting(
            "fewer-of-two",
            "min(a, b)",
            LETTERS,
            claim="The smaller of two words' counts.",
            hidden={"roles": 3, "color": 3},
            turns={"roles": SHIFTED, "color": SHIFTED},
        ),
        counting(
            "halves",
            "min(a@first_half, b@second_half)",
            LETTERS,
            claim="The smaller of two counts: one word in the first half, another in the second.",
            hidden={"roles": 3, "place": 2, "color": 3},
            turns={"roles": SHIFTED, "place": SWAPPED, "color": SHIFTED},
        ),
        counting(
            "word-counts",
            {each: each for each in LETTERS[:4]},
            LETTERS,
            claim="The counts of four words, one output each.",
            hidden={"roles": 6, "target": 4, "color": 6},
            turns={"roles": MOVED_ON, "color": MOVED_ON},
        ),
        counting(
            "more-words",
            "2 if a > b else 0",
            LETTERS,
            claim="2 if one word occurs more often than another, else 0.",
            hidden={"roles": 3, "color": 3, "sign": 2},
            turns={"roles": SHIFTED, "color": SHIFTED, "sign": SWAPPED},
        ),
        Language(
            name="last",
            claim="The polarity of the last token present.",
            formula="polarity(last)",
            roles=[*POLARITY, *(f"filler{index}" for index in range(6))],
            groups=(range(1, 11),),
            rule=_last,
            active=_everywhere,
            draw=partial(_any, 10),
            build=_build_last,
            hidden={"sign": 2},
            turns={"sign": TURNED},
        ),
        Language(
            name="retrieve-scores",
            claim="The polarity after the query's last earlier occurrence, found by attention scores.",
            rule=partial(_latest_behind, KEYS),
            build=partial(_build_matching, KEYS),
            reads_last=True,
            **_OF_RETRIEVING,  # type: ignore[arg-type]
        ),
        Language(
            name="retrieve-values",
            claim="The polarity after the query's earlier occurrence, found by comparing values.",
            rule=_all_behind,
            build=_build_by_values,
            **_OF_RETRIEVING,  # type: ignore[arg-type]
        ),
        Language(
            name="induction",
            claim="The polarity after the last earlier occurrence of the final token, whatever it is.",
            formula="A B ... A: polarity(B)",
            roles=[*POLARITY, *(f"filler{index}" for index in range(6))],
            groups=(INDUCED,),
            rule=partial(_latest_behind, INDUCED),
            active=partial(_matched, INDUCED),
            draw=_draw_repeated,
            build=partial(_build_matching, INDUCED),
            reads_last=True,
            hidden={"sign": 2},
            turns={"sign": TURNED},
        ),
        Language(
            name="negation",
            claim="The sum of the words' polarities, each negated by a 'not' directly before it.",
            formula="sum of polarity(word) * (-1 after a 'not')",
            roles=[*POLARITY, "not", "filler0", "filler1"],
            groups=((*GOOD, *BAD), (6, 7)),
            rule=_negation,
            draw=_draw_negated,
            build=_build_negation,
            hidden={"sign": 2},
            turns={"sign": TURNED},
            active=partial(np.isin, test_elements=range(1, 6)),
        ),
        Language(
            name="after-marker",
            claim="The sum of the polarities after the first marker.",
            formula="sum of polarity(word) after the first marker",
            roles=[*POLARITY, "marker", *(f"filler{index}" for index in range(4))],
            groups=((*GOOD, *BAD, 6, 7, 8, 9),),
            rule=_after,
            draw=_draw_marked,
            build=_build_after,
            hidden={"sign": 2},
            turns={"sign": TURNED},
            active=partial(np.isin, test_elements=range(1, 6)),
        ),
        Language(
            name="deepest",
            claim="The maximum nesting depth of brackets.",
            formula="maximum over tokens of the number of '(' minus ')' so far",
            roles=("(", ")", "x", "y"),
            groups=(range(1, 5),),
            rule=_deepest,
            draw=_draw_nested,
            build=_build_deepest,
            has_registers=True,
            hidden={"roles": 2, "color": 2},
            turns={"roles": OTHER_BRACKETS, "color": OTHER_BRACKETS},
            active=partial(np.isin, test_elements=(OPEN, CLOSE)),
        ),
    )
}
"""The catalog's worlds of tokens by name."""
