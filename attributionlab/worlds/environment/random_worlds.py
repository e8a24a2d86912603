"""Random worlds: rules from the grammar, kept where a fair question can be asked about them."""

import logging
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.base import (
    LARGEST_IMAGE,
    AttributionLabError,
    integer_problem,
    nearest,
    plain_torch,
    refuse_if,
)
from attributionlab.metrics import best_choice, parts_f1
from attributionlab.worlds.environment.environment import Environment
from attributionlab.worlds.environment.hidden import hidden_by_rule
from attributionlab.worlds.environment.random_rules import (
    DIFFICULTIES,
    FEATURES,
    RuleDrawing,
    canonical,
    features_of,
    has_idle_part,
    is_linear,
)
from attributionlab.worlds.environment.worlds import BACKGROUND, PALETTE, world
from attributionlab.worlds.images.recipe import draw
from attributionlab.worlds.images.regions import QUADRANTS
from attributionlab.worlds.images.scenes import Scene, scenes
from attributionlab.worlds.rules.expressions import Count, Expression, counts_in
from attributionlab.worlds.rules.game import rule_game
from attributionlab.worlds.rules.places import Places
from attributionlab.worlds.rules.rule import Rule

SMALLEST = 24
"""Side of the smallest image in which 24 patches of several pixels find room."""
MOST_WORLDS = 1_000
AREA = (0.004, 0.008)
"""Pixels of each patch as shares of the image, one number for all patches of an image."""
MOTIF_COLORS = ("red", "blue")
MOTIFS = ("stripes", "checks")
STUDIED = 3
"""Images on which a rule is tried."""
SOLVABLE = 0.8
"""F1 that exact Shapley values must reach on what is asked."""
MOST_WITHOUT = 0.45
"""Mean F1 below which maps without place, or without color, stay."""
LINEAR = 5
"""Every so many worlds that need no more than one feature there is one whose rule is a weighted sum."""
TEXTURED = 0.3
"""Share of hard worlds with motifs beside those that must have them."""
MOST_RULES = 20_000
"""Rules that are tried for a world."""
LOGGER = logging.getLogger("attributionlab")

REJECTED = (
    "too many counts",
    "lacks the features",
    "linear",
    "a part changes nothing",
    "not exact",
    "constant",
    "a count changes nothing",
    "a count changes too little",
    "a count has no sign",
    "nothing raises the output",
    "Shapley values do not find it",
    "a map without place suffices",
    "a map without color suffices",
    "drawn before",
)
"""Why rules are not kept, in the order in which it is looked at."""


def worlds_problems(
    n: object, seed: object, difficulty: object, image_size: object, least: int = 1
) -> list[str]:
    """What is wrong with what names random worlds, of which there are at least `least`."""
    problems = [
        *integer_problem("n", n, least, MOST_WORLDS),
        *integer_problem("seed", seed, 0),
        *integer_problem("image_size", image_size, SMALLEST, LARGEST_IMAGE),
    ]
    if not isinstance(difficulty, str) or difficulty not in DIFFICULTIES:
        problems.append(f"difficulty is {difficulty!r}: {nearest(str(difficulty), DIFFICULTIES)}")
    return problems


@plain_torch()
def random_worlds(
    n: int, seed: int = 0, difficulty: str = "medium", image_size: int = 48
) -> list[Environment]:
    """Draw random worlds: rules over colors in quadrants, each with its network and truth.

    Every image shows every color in every quadrant, in patches of equal size, which differs between
    images. World i is a function of (seed, difficulty, image_size, i) alone. A rule is kept if none of
    its operations is redundant and, on its first three images,

    - each count that it reads is relevant and has a sign: S+ + S- is at least a quarter of the largest,
      |S+ - S-| at least 0.8 of S+ + S-; all other pixels change nothing, and some raise the output;
    - exact Shapley values, from a closed form, score an F1 of at least 0.8;
    - no map without positions (constant on each color) or without colors (constant on each quadrant)
      reaches a mean F1 of 0.45, by the best of such maps (`metrics.overlap.best_choice`).

    No two worlds of a draw have rules that differ only in colors, quadrants, motifs or limits. Every
    fifth easy or medium world is a weighted sum. The others are not sums; they take turns in having a
    feature (`FEATURES` of `attributionlab.worlds.environment.random_rules`) of their difficulty:

    - *easy*: ``min``, ``max``, ``relu``, a number as limit, or if-else with one comparison, of sums; at
      most 4 counts. In turn: place, conjunction, saturation.
    - *medium*: two such operations, nested; also ``abs``, and conditions joined by ``and``, ``or``,
      ``not``, ``xor``; at most 6 counts. In turn: place, conjunction, negation, xor, texture,
      saturation.
    - *hard*: three nested operations, and three or more of these features in each world; also ``%``,
      and counts that occur in a rule several times; at most 6 counts.

    Parameters
    ----------
    n : int
        How many, 1 to 1000. A smaller n gives the first of the same worlds.
    seed : int
        Non-negative; together with n, difficulty and image_size it determines the worlds.
    difficulty : {"easy", "medium", "hard"}
        The part of the grammar to draw from.
    image_size : int
        Side of the images in pixels, 24 to 1024.

    Returns
    -------
    list of Environment
        With the names "random-world-SEED-I-DIFFICULTY" and with `features`. The log states how many
        rules were discarded, and why. ``worlds.environment.catalog.load_call`` gives the call of
        ``attributionlab.world`` for each.

    Raises
    ------
    AttributionLabError
        For arguments outside these ranges.

    Examples
    --------
    >>> import attributionlab as al
    >>> worlds = al.random_worlds(2, seed=7, difficulty="easy", image_size=24)
    >>> [env.name for env in worlds]
    ['random-world-7-0-easy', 'random-world-7-1-easy']
    """
    refuse_if(worlds_problems(n, seed, difficulty, image_size), "random_worlds")
    worlds, known, rejected = list[Environment](), set[str](), Counter[str]()
    for index in range(n):
        drawing = WorldDrawing(int(seed), difficulty, int(image_size), index)
        expression, features = drawing.found(known, rejected)
        env = drawing.environment(expression)
        env.features = tuple(each for each in FEATURES if each in features)
        worlds.append(env)
    LOGGER.info("random_worlds: %d kept, not kept: %s", n, dict(rejected))
    return worlds


class _Studied(NamedTuple):
    """An image on which rules are tried."""

    image: NDArray[np.uint8]
    places: NDArray[np.intp]
    """a pixel of each patch, flat"""
    sizes: NDArray[np.float64]
    """pixels of each patch"""


@lru_cache(maxsize=8)
def _scene(image_size: int, textured: bool) -> Scene:
    """The images of random worlds, with motifs or without."""
    return scenes(
        image_size=image_size,
        colors=tuple(PALETTE.values()),
        color_names=tuple(PALETTE),
        background=BACKGROUND,
        items=_items(textured),
        area=AREA,
        equal_areas=True,
    )


def _items(textured: bool) -> tuple[str, ...]:
    """A patch of every color in every quadrant; of two colors in motifs where there are some."""
    own = [f"{motif}({', '.join(MOTIF_COLORS)})" for motif in MOTIFS] if textured else []
    return tuple(f"{what}@{place}" for place in QUADRANTS for what in (*own, "each"))


@lru_cache(maxsize=2)
def _counted(textured: bool) -> tuple[Count, ...]:
    """What the patches of `_items` show, in their order."""
    plain = [(color,) for color in PALETTE if not textured or color not in MOTIF_COLORS]
    return tuple(
        Count(colors, motif, place)
        for place in QUADRANTS
        for colors, motif in [
            *((MOTIF_COLORS, motif) for motif in MOTIFS if textured),
            *((colors, "") for colors in plain),
        ]
    )


class WorldDrawing:
    """One world: its images are drawn first, then rules, until one is kept."""

    def __init__(self, seed: int, difficulty: str, image_size: int, index: int) -> None:
        key = list(DIFFICULTIES).index(difficulty), image_size, index
        stream = np.random.SeedSequence(seed, spawn_key=key)
        self.name = f"random-world-{seed}-{index}-{difficulty}"
        self.seed = int(stream.generate_state(1)[0])
        self.rng = np.random.default_rng(stream)
        self.difficulty, self.side = DIFFICULTIES[difficulty], image_size
        in_turn, least = self.difficulty.features, self.difficulty.least_features
        is_sum = least < 2 and index % LINEAR == LINEAR - 1
        sums_before = index // LINEAR if least < 2 else 0
        self.wanted = "linear" if is_sum else in_turn[(index - sums_before) % len(in_turn)]
        may_have_motifs = "texture" in in_turn and least > 1
        self.textured = self.wanted == "texture" or (
            may_have_motifs and self.rng.random() < TEXTURED
        )
        self.counts = _counted(self.textured)
        self.places = Places(PALETTE, image_size, {})
        scene = _scene(image_size, self.textured)
        studied = (self._studied(scene, k) for k in range(STUDIED))
        # What is wrong is found sooner where there are fewer pixels.
        self.studied = sorted(studied, key=lambda each: float(each.sizes.sum()))

    def _studied(self, scene: Scene, index: int) -> _Studied:
        image, patches = draw(scene, self.seed, index)
        shown = np.where((image != np.array(BACKGROUND)[:, None, None]).any(0), patches, 0)
        labels, places, sizes = np.unique(shown, return_index=True, return_counts=True)
        assert labels.tolist() == list(range(1 + len(self.counts)))
        return _Studied(image, places[1:], sizes[1:].astype(np.float64))

    def found(self, known: set[str], rejected: Counter[str]) -> tuple[Expression, frozenset[str]]:
        """The first rule that is kept, with its features; `known` are those of other worlds."""
        fewest = round(AREA[0] * self.side**2)
        drawing = RuleDrawing(self.rng, self.difficulty, self.counts, fewest, self.wanted)
        for _ in range(MOST_RULES):
            expression = drawing.rule()
            reason = self._text_reason(expression)
            if not reason:
                reason, features = self.effect_reason(expression)
            if not reason and (text := canonical(expression)) in known:
                reason = "drawn before"
            if not reason:
                known.add(text)
                return expression, features
            rejected[reason] += 1
        raise AttributionLabError(
            f"{self.name}: none of {MOST_RULES:,} drawn rules can be used: take another seed"
        )

    def _text_reason(self, expression: Expression) -> str:
        """Why a rule's text is not wanted."""
        if len(set(counts_in(expression))) > self.difficulty.most_counts:
            return "too many counts"
        # Whether it has "place" is seen in its effect only.
        features = {*features_of(expression), "place"}
        if is_linear(expression):
            return "" if self.wanted == "linear" else "linear"
        enough = len(features) >= self.difficulty.least_features
        if self.wanted not in features or not enough:
            return "lacks the features"
        most = round(AREA[1] * self.side**2)
        return "a part changes nothing" if has_idle_part(expression, most, self.rng) else ""

    def effect_reason(self, expression: Expression) -> tuple[str, frozenset[str]]:
        """Why a rule cannot be asked on the first images, and its features."""
        counts = {*counts_in(expression)}
        read = np.array([count in counts for count in self.counts])
        maps, truths, signs = [], [], []
        for each in self.studied:
            game = rule_game(each.image, self.places, [expression])
            if "estimate" in (game.source, game.part_source):
                return "not exact", frozenset()
            asked = game.asked()
            signed, relevant, mixed, decided = (
                getattr(asked, name).numpy().ravel()[each.places]
                for name in ("signed", "relevant", "mixed", "asked")
            )
            if not relevant.any():
                return "constant", frozenset()
            for wrong, reason in (
                (~relevant & decided & read, "a count changes nothing"),
                (~decided, "a count changes too little"),
                (mixed, "a count has no sign"),
                (not (signed > 0).any(), "nothing raises the output"),
            ):
                if np.any(wrong):
                    return reason, frozenset()
            maps.append(game.shapley().values)
            truths.append(asked.signed)
            signs.append(signed)
        colors = self._group("colors")
        raised, lowered = colors[signs[0] > 0], colors[signs[0] < 0]
        features = features_of(expression) | (
            {"place"} if np.isin(raised, lowered).any() else set()
        )
        enough = self.wanted == "linear" or len(features) >= self.difficulty.least_features
        if self.wanted not in (*features, "linear") or not enough:
            return "lacks the features", features
        if least_f1(torch.stack(maps), torch.stack(truths)) < SOLVABLE:
            return "Shapley values do not find it", features
        for without, key in (("place", "colors"), ("color", "region")):
            if self._most_of(signs, self._group(key)) >= MOST_WITHOUT:
                return f"a map without {without} suffices", features
        return "", features

    def _group(self, key: str) -> NDArray[np.int64]:
        """Numbers of patches with the same colors, or in the same quadrant."""
        names = [getattr(count, key) for count in self.counts]
        return np.array([names.index(name) for name in names])

    def _most_of(self, signs: Sequence[NDArray[np.int8]], groups: NDArray[np.int64]) -> float:
        """The lowest mean F1 of the parts that maps reach with one value for each group of patches."""
        means = []
        for part in (1, -1, 0):
            found = []
            for signed, each in zip(signs, self.studied, strict=True):
                mask = signed != 0 if part == 0 else signed == part
                hits, sizes = (
                    torch.from_numpy(np.bincount(groups, weights))[None]
                    for weights in (each.sizes * mask, each.sizes)
                )
                best = best_choice(hits, sizes, hits.sum(1))[1]
                found.append(float(best) if mask.any() else np.nan)
            if not np.isnan(found).all():
                means.append(float(np.nanmean(found)))
        return min(means)

    def environment(self, expression: Expression) -> Environment:
        """The world of a rule."""
        rule = Rule((expression,), (), self.places, BACKGROUND)
        return world(
            str(expression),
            self.side,
            self.seed,
            name=self.name,
            items=list(_items(self.textured)),
            area=AREA,
            equal_areas=True,
            hidden=hidden_by_rule(rule, _scene(self.side, self.textured)),
        )


def least_f1(maps: Tensor, signed: Tensor) -> float:
    """The lowest mean F1 of the parts that images have."""
    found = parts_f1(maps, signed)
    return min(float(each.nanmean()) for each in found.values() if not bool(each.isnan().all()))
