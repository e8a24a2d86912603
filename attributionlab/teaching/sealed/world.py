"""The world that a secret key names: colors, a rule, a camouflaged network, images, right answers."""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.base import AttributionLabError, plain_torch
from attributionlab.teaching.sealed import questions
from attributionlab.worlds import (
    AREA,
    PALETTE,
    QUADRANTS,
    Count,
    Environment,
    Rectangle,
    Rule,
    WorldDrawing,
    world,
)
from attributionlab.worlds.images import Color

MOST_DRAWN = 100
"""Worlds that are drawn until each part has one sign in all images, some parts act together, and no
dose and no cause would be right for everything that is asked."""
LEAST_DISTANCE = 24
"""Gray levels by which colors differ in at least one channel, so that one can tell them apart."""
GRAYS = {"black": (0, 0, 0), "gray": (127, 127, 127), "white": (255, 255, 255)}
"""Colors that papers take as baselines: candidates in every laboratory."""
ALIKE: Mapping[str, int] = {"easy": 1, "medium": 1, "hard": 2}
"""How many colors have each role: the network adds their pixels up. An image shows one of them in a
place."""
JITTER = 0.04
"""How far borders of places lie from halves and thirds at most, as a share of the image side."""


class World(NamedTuple):
    """What a key names."""

    env: Environment
    """camouflaged"""
    rule: Rule
    places: dict[str, tuple[float, ...]]
    """What is said of each: its top, left, bottom and right edge, or on hard worlds a point in it."""
    images: Tensor
    """(n, 3, H, W) float32"""
    signed: NDArray[np.int8]
    """(n, 1, H, W)"""
    chosen: NDArray[np.bool_]
    """(doses, H, W): which pixels get a color; those that do at a dose do at larger ones"""
    answers: dict[str, Any]
    """The right ones, in the form of a student's answers.json."""


def derived(key: bytes, purpose: str) -> int:
    """A number of 256 bits that says nothing about the key, or about those for other purposes."""
    return int.from_bytes(hashlib.sha256(key + purpose.encode()).digest(), "big")


def drawn_colors(key: bytes, alike: int = 1) -> tuple[dict[str, Color], Color]:
    """The colors of a laboratory, sorted, and its background; `alike` of them have the same role.

    Black and white are among the colors by a toss of a coin each: no usual baseline is safe as such.
    """
    rng = np.random.default_rng(derived(key, "colors"))
    drawn: list[Color] = []
    for gray in (GRAYS["black"], GRAYS["white"]):
        drawn += [gray] if rng.random() < 0.5 else []
    while len(drawn) <= alike * len(PALETTE):
        color: Color = tuple(rng.integers(0, 256, 3).tolist())
        apart = (max(map(abs, np.subtract(color, each))) for each in (*drawn, *GRAYS.values()))
        drawn += [color] if min(apart) >= LEAST_DISTANCE else []
    background = drawn.pop()
    return dict(zip("abcdefghijkl", sorted(drawn), strict=False)), background


def drawn_places(rng: np.random.Generator) -> dict[str, Rectangle]:
    """Five places that share out an image as bricks do, two on one side and three on the other.

    None is a union of quadrants, and each quadrant has parts of two places or more.
    """
    cut, half, *thirds = (
        round(at + rng.uniform(-JITTER, JITTER), 2) for at in (2 / 5, 1 / 2, 1 / 3, 2 / 3)
    )
    bricks = [(0.0, left, cut, right) for left, right in pairwise((0.0, half, 1.0))]
    bricks += [(cut, left, 1.0, right) for left, right in pairwise((0.0, *thirds, 1.0))]
    if rng.random() < 0.5:  # upside down
        bricks = [
            (round(1 - bottom, 2), left, round(1 - top, 2), right)
            for top, left, bottom, right in bricks
        ]
    if rng.random() < 0.5:  # rows as columns
        bricks = [(left, top, right, bottom) for top, left, bottom, right in bricks]
    return {f"r{k}": brick for k, brick in enumerate(sorted(bricks))}


def _point(edges: Rectangle, rng: np.random.Generator) -> tuple[float, float]:
    """Row and column of a point well inside a place, as shares of the side."""
    top, left, bottom, right = edges
    row, column = rng.uniform(0.35, 0.65, 2)
    return round(top + row * (bottom - top), 2), round(left + column * (right - left), 2)


class _Cast(NamedTuple):
    """Who plays which part: a rule over six colors in quadrants becomes one of the laboratory's."""

    roles: dict[str, list[str]]
    """For each color of `PALETTE` those that stand for it."""
    places: dict[str, Rectangle]
    at: dict[str, str]
    """For each quadrant its place."""

    @property
    def groups(self) -> list[list[Count]]:
        """Parts that count alike: colors of one role in one place. An image shows one of each."""
        return [
            [Count((color,), "", place) for color in role]
            for place in self.places
            for role in self.roles.values()
        ]

    def rule(self, text: str) -> str:
        """The same game: where a rule counts a color, the pixels of all colors of its role add up."""

        def counted(found: re.Match[str]) -> str:
            role, quadrant = found.groups()
            parts = [f"{color}@{self.at[quadrant]}" for color in self.roles[role]]
            return parts[0] if len(parts) == 1 else f"({' + '.join(parts)})"

        return re.sub(r"(\w+)@(\w+)", counted, text)


def _cast(difficulty: str, names: list[str], rng: np.random.Generator) -> _Cast:
    """Places and roles; on harder worlds four of five places, drawn, stand for the quadrants, and
    nothing counts in the fifth.
    """
    places, at, alike = dict(QUADRANTS), list(QUADRANTS), ALIKE[difficulty]
    if difficulty != "easy":
        places = drawn_places(rng)
        at = rng.permutation(list(places)).tolist()
    if alike > 1:  # else it is a toss of the colors already
        names = rng.permutation(names).tolist()
    roles = [sorted(names[k :: len(PALETTE)]) for k in range(len(PALETTE))]
    return _Cast(
        dict(zip(PALETTE, roles, strict=True)), places, dict(zip(QUADRANTS, at, strict=False))
    )


@plain_torch()
def drawn_world(key: bytes, difficulty: str, image_size: int, n: int) -> World:
    """The world of a key: a rule over colors in places, a camouflaged network, n images."""
    colors, background = drawn_colors(key, ALIKE[difficulty])
    chances = np.random.default_rng(derived(key, "doses")).random((image_size, image_size))
    chosen = np.stack([chances < dose for dose in questions.DOSES])
    casting = np.random.default_rng(derived(key, "places"))
    seed = derived(key, "rule")
    for index in range(seed % MOST_DRAWN, MOST_DRAWN + seed % MOST_DRAWN):
        drawing = WorldDrawing(seed, difficulty, image_size, index)
        if drawing.textured or drawing.wanted == "linear":  # in a sum no parts act together
            continue
        cast = _cast(difficulty, list(colors), casting)
        try:
            expression, _ = drawing.found(set(), Counter())
            env = world(
                cast.rule(str(expression)),
                image_size,
                colors=colors,
                regions={name: cast.places[name] for name in cast.places if name not in QUADRANTS},
                background=background,
                items=["|".join(map(str, group)) for group in cast.groups],
                area=AREA,
                equal_areas=True,
            )
            images, labels = env.batch(n, derived(key, "images"))
        except AttributionLabError:  # in small images no rule may be fair, or patches find no room
            continue
        rule = env.counting
        assert isinstance(rule, Rule)
        truth = env.truth(images, env.targets(labels))
        signed, asked = truth.signed.numpy(), (truth.asked & ~truth.mixed).numpy()
        pixels = images.numpy().astype(np.int64)
        signs = questions.signs_of_parts(rule, cast.groups, pixels, signed, asked)
        together = questions.contexts(rule, pixels)
        if signs is None or not together:
            continue
        doses = questions.breaking_doses(rule, pixels, signed, chosen)
        if len(set(doses.values())) == 1:
            continue
        env = env.camouflaged(derived(key, "camouflage"))
        methods = questions.causes(env, images, truth.signed)
        if len(set(methods.values())) < 2:  # all pass, or all fail for the same reason
            continue
        answers = {
            "parts": {name: sign for name, sign in signs.items() if sign},
            "contexts": together,
            "baselines": questions.safe_baselines(rule, candidates(rule)),
            "methods": methods,
            "doses": doses,
        }
        places: dict[str, tuple[float, ...]] = dict(cast.places)
        if difficulty == "hard":
            places = {name: _point(edges, casting) for name, edges in cast.places.items()}
        return World(env, rule, places, images, signed, chosen, answers)
    raise AttributionLabError(
        f"none of {MOST_DRAWN} {difficulty} worlds can be used at an image size of {image_size}: seal "
        "again, or take larger images"
    )


def candidates(rule: Rule) -> dict[str, Color]:
    """Colors that may be baselines, lettered in their order: all that images show, and the usual."""
    colors = {tuple(rule.background), *rule.places.colors.values(), *GRAYS.values()}
    return {f"p{k}": (color[0], color[1], color[2]) for k, color in enumerate(sorted(colors))}
