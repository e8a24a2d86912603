"""What is wrong with the constants of a generator: every function returns sentences, never raises.

Each sentence holds the offending value and the remedy, so that a generator can refuse everything at
once.
"""

from collections.abc import Sequence
from numbers import Integral, Real

from attributionlab.base import nearest
from attributionlab.worlds.images.layout import layout_problems
from attributionlab.worlds.images.shapes import SHAPES

SMALLEST_IMAGE, LARGEST_IMAGE = 8, 1024


def image_size_problems(image_size: object) -> list[str]:
    """Problems of the side of an image in pixels."""
    if _is_integer(image_size, SMALLEST_IMAGE, LARGEST_IMAGE):
        return []
    return [
        f"image_size is {image_size!r}; choose an integer from {SMALLEST_IMAGE} to {LARGEST_IMAGE}"
    ]


def geometry_problems(
    *, image_size: int, count: int, shapes: Sequence[str], patch_size: Sequence[float]
) -> list[str]:
    """Problems of the image size, the shapes and the sizes; then of all of them together.

    Whether `count` patches fit is asked only if nothing here is wrong and there is a patch to place;
    a wrong number of patches is for `count_problems` to report.
    """
    problems = image_size_problems(image_size)
    if isinstance(shapes, str):
        problems.append(f"shapes is {shapes!r}; give a list of names, such as [{shapes!r}]")
    else:
        problems += _shape_problems(shapes)
    if not _is_size_range(patch_size):
        problems.append(
            f"patch_size is {patch_size!r}; choose (smallest, largest) as fractions of the image "
            "side with 0 < smallest <= largest <= 1"
        )
    if problems or count_problems("count", count, 1):
        return problems
    return layout_problems(
        image_size=image_size, count=count, shapes=shapes, patch_size=(patch_size[0], patch_size[1])
    )


def count_problems(name: str, value: object, least: int) -> list[str]:
    """Problems of a number of things."""
    if isinstance(value, Integral) and int(value) >= least:
        return []
    return [f"{name} is {value!r}; choose an integer of at least {least}"]


def fill_problems(fill: object) -> list[str]:
    """Problems of the probability that a pixel of a patch has its color."""
    if isinstance(fill, Real) and 0 < float(fill) <= 1:
        return []
    return [f"fill is {fill!r}; choose a probability above 0 and at most 1"]


def gray_problems(*, values: Sequence[int], background: int) -> list[str]:
    """Problems of a range of gray values and of the background it must leave out."""
    problems = []
    if not _is_integer(background, 0, 255):
        problems.append(f"background is {background!r}; choose an integer from 0 to 255")
    if not (_are_integers(values, 2) and values[0] <= values[1]):
        problems.append(
            f"values is {values!r}; choose (lowest, highest), integers with "
            "0 <= lowest <= highest <= 255"
        )
    if not problems and values[0] <= background <= values[1]:
        problems.append(
            f"background {background} lies inside values {tuple(values)}, so a patch could not be "
            "told from it; choose one outside"
        )
    return problems


def color_problems(
    *,
    colors: Sequence[Sequence[int]],
    distractor_colors: Sequence[Sequence[int]],
    background: Sequence[int],
) -> list[str]:
    """Problems of single colors, and of colors that must differ and do not."""
    named = [
        *((f"colors[{k}]", color) for k, color in enumerate(colors)),
        *((f"distractor_colors[{k}]", color) for k, color in enumerate(distractor_colors)),
        ("background", background),
    ]
    problems = [] if colors else ["colors is empty; give at least one color"]
    seen: dict[tuple[int, ...], str] = {}
    for name, color in named:
        if not _are_integers(color, 3):
            problems.append(f"{name} is {color!r}; choose three integers from 0 to 255")
        elif tuple(color) in seen:
            problems.append(
                f"{name} is {tuple(color)}, as is {seen[tuple(color)]}; choose distinct colors"
            )
        else:
            seen[tuple(color)] = name
    return problems


def _shape_problems(shapes: Sequence[str]) -> list[str]:
    if not shapes:
        return [f"shapes is empty; choose from {', '.join(SHAPES)}"]
    problems = []
    for shape in shapes:
        if shape not in SHAPES:
            problems.append(f"unknown shape {shape!r}: {nearest(str(shape), SHAPES)}")
    return problems


def _is_integer(value: object, low: int, high: int) -> bool:
    return isinstance(value, Integral) and low <= int(value) <= high


def _are_integers(values: object, count: int) -> bool:
    return (
        isinstance(values, list | tuple)
        and len(values) == count
        and all(_is_integer(value, 0, 255) for value in values)
    )


def _is_size_range(patch_size: object) -> bool:
    return (
        isinstance(patch_size, list | tuple)
        and len(patch_size) == 2
        and all(isinstance(fraction, Real) for fraction in patch_size)
        and 0 < patch_size[0] <= patch_size[1] <= 1
    )
