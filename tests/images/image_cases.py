"""Colors and constants that the tests of generators and of `draw` share."""

import pytest

from attributionlab.worlds.images import GENERATORS

RED, GREEN, BLUE, ORANGE, CYAN = (
    (255, 0, 0),
    (0, 255, 0),
    (0, 0, 255),
    (255, 127, 0),
    (0, 255, 255),
)
GRAY = (20, 20, 20)
ALL_SHAPES = ("bezier", "triangle", "square", "circle")

# What each generator needs beside its defaults.
NEEDED = {
    "color-patches": {"image_size": 48, "colors": (RED, GREEN, BLUE), "background": GRAY},
    "binary-patches": {"image_size": 48},
    "number-patches": {"image_size": 48, "values": (40, 90)},
}

generators = pytest.mark.parametrize("generator", sorted(GENERATORS.keys() - {"scenes"}))
"""Those with patches of random sizes; scenes have tests of their own."""


def make(generator, **changes):
    return GENERATORS[generator](**{**NEEDED[generator], **changes})
