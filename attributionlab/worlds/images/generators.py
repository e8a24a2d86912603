"""The generators: their keyword-only signatures are the schema of the files in datasets/.

Each one checks all its constants at once and returns a `Recipe`; `draw` makes images of it. The
defaults of shape and size are shared: four Bezier patches that show a mean of about 2,469 white
pixels at 224 x 224 and fill 1/2, which is what Table 4 of the paper implies (deletion AUC 0.0246 is
half the mean share of white pixels).

Which colors an image has is chosen in `environment/questions.py`; `recipe.py` and `scenes.py` paint
them, `shades.py` varies them from pixel to pixel.
"""

from collections.abc import Callable
from typing import Annotated

from attributionlab.base import (
    Byte,
    Count,
    ImageSide,
    Share,
    Whole,
    checked_arguments,
    not_empty,
    refuse_if,
)
from attributionlab.worlds.images.checks import Color, Range, Shapes, Values, equal_colors
from attributionlab.worlds.images.layout import layout_problems
from attributionlab.worlds.images.recipe import BernoulliInk, ImageRecipe, Recipe, UniformInk
from attributionlab.worlds.images.scenes import scenes

DEFAULT_SHAPES = ("bezier",)
DEFAULT_PATCH_SIZE = (0.14, 0.245)


@checked_arguments
def color_patches(
    *,
    image_size: ImageSide,
    colors: Annotated[tuple[Color, ...], not_empty],
    background: Color,
    distractor_colors: tuple[Color, ...] = (),
    distractors: Whole = 0,
    shapes: Shapes = DEFAULT_SHAPES,
    patch_size: Range = DEFAULT_PATCH_SIZE,
    fill: Share = 0.5,
    patches_per_color: Count = 1,
) -> Recipe:
    """Color images (RGB) with patches of every color, and patches that do not matter.

    Patches 1 to len(colors) * patches_per_color take the colors in turn; the `distractors` patches
    after them take the distractor colors in turn. The paper's setting (section G.1) has four
    colors, one patch each, no distractors, and the shapes triangle, square and circle.

    Parameters
    ----------
    image_size : int
        Side of the image in pixels, 8 to 1024.
    colors : tuple of (int, int, int)
        Colors with values in 0..255, all distinct.
    background : (int, int, int)
        Color of all else; none of the other colors.
    distractor_colors : tuple of (int, int, int)
        Colors of the distractor patches, distinct from all others.
    distractors : int
        Number of distractor patches.
    shapes : tuple of str
        Names from `SHAPES`; each patch draws one of them uniformly.
    patch_size : (float, float)
        Smallest and largest diameter as fractions of the image side,
        0 < smallest <= largest <= 1.
    fill : float
        Probability in (0, 1] that a pixel of a patch has the patch's color; else it is background.
    patches_per_color : int
        Number of patches in each color, at least 1.

    Raises
    ------
    AttributionLabError
        With all problems of the constants, or if the patches do not fit.
    """
    count = len(colors) * patches_per_color + distractors
    problems = equal_colors(colors, distractor_colors, background)
    problems += layout_problems(
        image_size=image_size, count=count, shapes=shapes, patch_size=patch_size
    )
    if distractors and not distractor_colors:
        problems.append(
            f"distractors is {distractors} but distractor_colors is empty; give at least one "
            "distractor color or set distractors to 0"
        )
    refuse_if(problems, "color-patches")
    inks = colors * patches_per_color
    inks += tuple(distractor_colors[k % len(distractor_colors)] for k in range(distractors))
    return Recipe(
        image_size=image_size,
        background=background,
        patches=count,
        ink=BernoulliInk(colors=inks, fill=fill),
        shapes=shapes,
        patch_size=patch_size,
    )


@checked_arguments
def binary_patches(
    *,
    image_size: ImageSide,
    patches: Count = 4,
    shapes: Shapes = DEFAULT_SHAPES,
    patch_size: Range = DEFAULT_PATCH_SIZE,
    fill: Share = 0.5,
) -> Recipe:
    """Binary images (one channel, values 0 and 1): white pixels in patches on black.

    The paper's setting (sections D and F.1) is the default at an image size of 224: each pixel of
    four Bezier patches is 1 with probability 1/2.

    Parameters
    ----------
    image_size : int
        Side of the image in pixels, 8 to 1024.
    patches : int
        Number of patches, at least 1.
    shapes, patch_size, fill
        As in `color_patches`.

    Raises
    ------
    AttributionLabError
        With all problems of the constants, or if the patches do not fit.
    """
    refuse_if(
        layout_problems(image_size=image_size, count=patches, shapes=shapes, patch_size=patch_size),
        "binary-patches",
    )
    return Recipe(
        image_size=image_size,
        background=(0,),
        patches=patches,
        ink=BernoulliInk(colors=((1,),) * patches, fill=fill),
        shapes=shapes,
        patch_size=patch_size,
    )


@checked_arguments
def number_patches(
    *,
    image_size: ImageSide,
    values: Values,
    background: Byte = 0,
    patches: Count = 4,
    shapes: Shapes = DEFAULT_SHAPES,
    patch_size: Range = DEFAULT_PATCH_SIZE,
) -> Recipe:
    """Gray images (one channel): every pixel of a patch is a random integer.

    Parameters
    ----------
    image_size : int
        Side of the image in pixels, 8 to 1024.
    values : (int, int)
        Lowest and highest value of a patch pixel, both included, in 0..255; each pixel draws its
        own uniformly.
    background : int
        Value of all other pixels, in 0..255 and outside `values`.
    patches : int
        Number of patches, at least 1.
    shapes, patch_size
        As in `color_patches`.

    Raises
    ------
    AttributionLabError
        With all problems of the constants, or if the patches do not fit.
    """
    problems = layout_problems(
        image_size=image_size, count=patches, shapes=shapes, patch_size=patch_size
    )
    if values[0] <= background <= values[1]:
        problems.append(
            f"background {background} lies inside values {values}, so a patch could not be told from "
            "it; choose one outside"
        )
    refuse_if(problems, "number-patches")
    return Recipe(
        image_size=image_size,
        background=(background,),
        patches=patches,
        ink=UniformInk(low=values[0], high=values[1]),
        shapes=shapes,
        patch_size=patch_size,
    )


GENERATORS: dict[str, Callable[..., ImageRecipe]] = {
    "color-patches": color_patches,
    "binary-patches": binary_patches,
    "number-patches": number_patches,
    "scenes": scenes,
}
