"""What the constants of generators are, in annotations, and what is wrong with several of them."""

from collections.abc import Sequence
from typing import Annotated

from attributionlab.base import Byte, Share, named, rising
from attributionlab.worlds.images.shapes import SHAPES

Color = tuple[Byte, Byte, Byte]
Range = Annotated[tuple[Share, Share], rising]
"""Smallest and largest, as fractions."""
Values = Annotated[tuple[Byte, Byte], rising]
Shapes = Annotated[tuple[str, ...], named(SHAPES)]


def equal_colors(
    colors: Sequence[Color], distractor_colors: Sequence[Color], background: Color
) -> list[str]:
    """Problems of colors that must differ and do not."""
    problems = []
    named = [
        *((f"colors[{k}]", color) for k, color in enumerate(colors)),
        *((f"distractor_colors[{k}]", color) for k, color in enumerate(distractor_colors)),
        ("background", background),
    ]
    seen: dict[Color, str] = {}
    for name, color in named:
        if color in seen:
            problems.append(f"{name} is {color}, as is {seen[color]}; choose distinct colors")
        seen.setdefault(color, name)
    return problems
