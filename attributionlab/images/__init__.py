"""Images whose every pixel is accounted for: patch shapes, layouts, generators.

The three generators in `GENERATORS` turn constants into a `Recipe`; `draw` turns a recipe, a seed
and an index into an image and the label map of its patches.
"""

from attributionlab.images.generators import (
    GENERATORS,
    binary_patches,
    color_patches,
    number_patches,
)
from attributionlab.images.recipe import Drawing, Recipe, draw
from attributionlab.images.shapes import SHAPES, bezier, circle, square, triangle

__all__ = [
    "GENERATORS",
    "SHAPES",
    "Drawing",
    "Recipe",
    "bezier",
    "binary_patches",
    "circle",
    "color_patches",
    "draw",
    "number_patches",
    "square",
    "triangle",
]
