"""Tables of cases that several test files share, and fixtures of environments."""

from typing import Any

import pytest

import attributionlab as al

# The six permutations of (220, 120, 20) and the paper's background (G.1).
BACKGROUND = (20, 20, 20)
FOUR_COLORS = ((220, 120, 20), (220, 20, 120), (120, 220, 20), (20, 220, 120))
TWO_DISTRACTORS = ((120, 20, 220), (20, 120, 220))

# Sets of (colors, background): the paper's figures 4 and 15, the corners of the cube, neighbors that
# differ by one step in one channel, colors that share two channels.
PALETTES = {
    "figure-4": (((255, 127, 0),), BACKGROUND),
    "figure-15": (((255, 255, 255), (255, 127, 0)), BACKGROUND),
    "four-colors": (FOUR_COLORS, BACKGROUND),
    "corners": (((0, 0, 0), (255, 255, 255), (255, 0, 0)), (0, 0, 255)),
    "neighbors": (((7, 7, 7), (7, 7, 8), (7, 8, 7), (8, 7, 7)), (6, 7, 7)),
}

# Numbers at both ends of the gray scale and inside, alone and together.
NUMBERS = ((0,), (1,), (5,), (127,), (254,), (255,), (0, 1, 2), (4, 5, 6, 255))

# One image side per kind of kernel chain: no padding, padding 1 and 2, a first and a later level,
# powers of three and their neighbors.
SIZES = (8, 9, 10, 27, 28, 71, 72, 73, 100)

# All that count, each at a size at which its images still have a truth of every kind.
# (single-color-modulo with a smaller modulus, or there would be few teeth of the sawtooth to see.)
SMALL_ENVIRONMENTS = (
    ("color-detector", {"image_size": 32}),
    ("multi-color-sum", {"image_size": 32}),
    ("multi-color-sum-distractors", {"image_size": 32}),
    ("multi-color-sum-in-distribution", {"image_size": 32}),
    ("multi-color-sum-uniform", {"image_size": 32}),
    ("nonuniform-accumulator", {"image_size": 32}),
    ("number-checker", {"image_size": 32}),
    ("single-color-modulo", {"image_size": 32, "modulus": 7, "max_count": 300}),
    ("single-color-sum", {"image_size": 32}),
    ("uniform-accumulator", {"image_size": 32}),
)
COUNTING = tuple(name for name, _ in SMALL_ENVIRONMENTS)
"""The environments that count colors, numbers or white pixels; all others are worlds from rules."""

SMALL_WORLDS = tuple(
    (name, {"image_size": 48}) for name in al.environments() if name not in COUNTING
)

# (modulus, max_count): a bound that is a multiple of the modulus and one that is not, one block, the
# smallest modulus, counts below the modulus, an odd and an even one.
MODULI = ((2, 1), (2, 9), (3, 3), (5, 10), (7, 50), (30, 29), (30, 31), (64, 500))


def loaded(name: str, **overrides: Any) -> Any:
    """A fixture: an environment, loaded once for the tests of a module."""
    return pytest.fixture(scope="module")(lambda: al.load(name, **overrides))
