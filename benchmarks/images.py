"""Images per second of each generator on one core, and the gain over its naive twin.

    python benchmarks/images.py --image-size 224 --images 200 --repetitions 5

The twin (tests/oracles_images.py) draws the same images pixel by pixel in plain Python.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from attributionlab.worlds.images import GENERATORS, draw
from oracles_images import naive_drawing

COLORS = ((255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 0))
BACKGROUND = (20, 20, 20)

# Per generator: what the recipe needs beside its defaults, and the same for the twin.
CONTENT = {
    "color-patches": (
        {"colors": COLORS, "background": BACKGROUND},
        {"colors": COLORS, "background": BACKGROUND, "fill": 0.5},
    ),
    "binary-patches": ({}, {"colors": ((1,),) * 4, "background": (0,), "fill": 0.5}),
    "number-patches": ({"values": (1, 255)}, {"values": (1, 255), "background": (0,)}),
}


def images_per_second(draw_one: Callable[[int], object], images: int, repetitions: int) -> float:
    """Median rate over repetitions, each of which draws the same samples 0, 1, ..."""
    rates = []
    for _ in range(repetitions):
        start = time.perf_counter()
        for index in range(images):
            draw_one(index)
        rates.append(images / (time.perf_counter() - start))
    return statistics.median(rates)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--images", type=int, default=200, help="per repetition")
    parser.add_argument("--naive-images", type=int, default=3, help="of the twin, per repetition")
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    for name, (needed, twin) in CONTENT.items():
        recipe = GENERATORS[name](image_size=options.image_size, **needed)
        canvas = {
            "image_size": recipe.image_size,
            "count": recipe.patches,
            "shapes": recipe.shapes,
            "patch_size": recipe.patch_size,
        }
        fast = images_per_second(
            lambda index, recipe=recipe: draw(recipe, 0, index),
            options.images,
            options.repetitions,
        )
        naive = images_per_second(
            lambda index, canvas=canvas, twin=twin: naive_drawing(0, index, **canvas, **twin),
            options.naive_images,
            options.repetitions,
        )
        print(
            f"{name:15} {fast:7.0f} images/s at {options.image_size}, "
            f"{fast / naive:6.0f} times its naive twin ({naive:.1f} images/s)"
        )


if __name__ == "__main__":
    main()
