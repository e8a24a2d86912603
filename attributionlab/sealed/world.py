"""The world that a secret key names: colors, a rule, a camouflaged network, images, right answers."""

import hashlib
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.device import plain_torch
from attributionlab.environment import Environment
from attributionlab.environment.worlds import PALETTE, world
from attributionlab.errors import AttributionLabError
from attributionlab.exams.worlds import AREA, WorldDrawing
from attributionlab.images.regions import QUADRANTS
from attributionlab.rules.places import Color
from attributionlab.rules.rule import Rule
from attributionlab.sealed.questions import (
    DOSES,
    breaking_doses,
    causes,
    contexts,
    safe_baselines,
    signs_of_parts,
)

MOST_DRAWN = 100
"""Worlds that are drawn until each part has one sign in all images, some parts act together, and no
dose and no cause would be right for everything that is asked."""
LEAST_DISTANCE = 24
"""Gray levels by which colors differ in at least one channel, so that one can tell them apart."""
GRAYS = {"black": (0, 0, 0), "gray": (127, 127, 127), "white": (255, 255, 255)}
"""Colors that papers take as baselines: candidates in every laboratory."""


class World(NamedTuple):
    """What a key names."""

    env: Environment
    """camouflaged"""
    rule: Rule
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


def drawn_colors(key: bytes) -> tuple[dict[str, Color], Color]:
    """The colors of a laboratory, sorted, and its background.

    Black and white are among the colors by a toss of a coin each: no usual baseline is safe as such.
    """
    rng = np.random.default_rng(derived(key, "colors"))
    drawn: list[Color] = []
    for gray in (GRAYS["black"], GRAYS["white"]):
        drawn += [gray] if rng.random() < 0.5 else []
    while len(drawn) <= len(PALETTE):
        color: Color = tuple(rng.integers(0, 256, 3).tolist())
        apart = (max(map(abs, np.subtract(color, each))) for each in (*drawn, *GRAYS.values()))
        drawn += [color] if min(apart) >= LEAST_DISTANCE else []
    background = drawn.pop()
    return dict(zip("abcdef", sorted(drawn), strict=True)), background


@plain_torch()
def drawn_world(key: bytes, difficulty: str, image_size: int, n: int) -> World:
    """The world of a key: a rule over colors in quadrants, a camouflaged network, n images."""
    colors, background = drawn_colors(key)
    chances = np.random.default_rng(derived(key, "doses")).random((image_size, image_size))
    chosen = np.stack([chances < dose for dose in DOSES])
    seed = derived(key, "rule")
    for index in range(seed % MOST_DRAWN, MOST_DRAWN + seed % MOST_DRAWN):
        drawing = WorldDrawing(seed, difficulty, image_size, index)
        if drawing.textured or drawing.wanted == "linear":  # in a sum no parts act together
            continue
        try:
            expression, _ = drawing.found(set(), Counter())
        except AttributionLabError:  # in small images no rule of a kind may be fair
            continue
        text = str(expression)
        for usual, name in zip(PALETTE, colors, strict=True):
            text = text.replace(f"{usual}@", f"{name}@")
        env = world(
            text,
            image_size,
            colors=colors,
            background=background,
            items=[f"each@{place}" for place in QUADRANTS],
            area=AREA,
            equal_areas=True,
        )
        rule = env.counting
        assert isinstance(rule, Rule)
        images, labels = env.batch(n, derived(key, "images"))
        truth = env.truth(images, env.targets(labels))
        signed, asked = truth.signed.numpy(), (truth.asked & ~truth.mixed).numpy()
        pixels = images.numpy().astype(np.int64)
        signs = signs_of_parts(rule, pixels, signed, asked)
        together = contexts(rule, pixels)
        if signs is None or not together:
            continue
        doses = breaking_doses(rule, pixels, signed, chosen)
        if len(set(doses.values())) == 1:
            continue
        env = env.camouflaged(derived(key, "camouflage"))
        methods = causes(env, images, truth.signed)
        if len(set(methods.values())) < 2:  # all pass, or all fail for the same reason
            continue
        answers = {
            "parts": {name: sign for name, sign in signs.items() if sign},
            "contexts": together,
            "baselines": safe_baselines(rule, candidates(rule)),
            "methods": methods,
            "doses": doses,
        }
        return World(env, rule, images, signed, chosen, answers)
    raise AttributionLabError(
        f"none of {MOST_DRAWN} {difficulty} worlds can be asked at an image size of {image_size}: seal "
        "again, or take larger images"
    )


def candidates(rule: Rule) -> dict[str, Color]:
    """Colors that may be baselines, lettered in their order: all that images show, and the usual."""
    colors = {tuple(rule.background), *rule.places.colors.values(), *GRAYS.values()}
    return {f"p{k}": (color[0], color[1], color[2]) for k, color in enumerate(sorted(colors))}
