"""Constants that no generator can use: each is refused by value and remedy, all at once."""

import re

import pytest

from attributionlab.base import AttributionLabError
from images.image_cases import CYAN, GRAY, GREEN, RED, generators, make

SIZES = "... (smallest, largest) ... 0 < smallest <= largest <= 1"
COLORS, BINARY, NUMBERS = "color-patches", "binary-patches", "number-patches"


@pytest.mark.parametrize(
    ("generator", "changes", "message"),
    [
        (BINARY, {"image_size": 7}, "image_size is 7 ... integer from 8 to 1024"),
        (BINARY, {"image_size": 1025}, "image_size is 1025 ... integer from 8 to 1024"),
        (BINARY, {"image_size": 48.0}, "image_size is 48.0 ... integer from 8 to 1024"),
        (BINARY, {"patches": 0}, "patches is 0 ... integer of at least 1"),
        (NUMBERS, {"patches": -2}, "patches is -2 ... integer of at least 1"),
        (BINARY, {"patches": "4"}, "patches is '4' ... integer of at least 1"),
        (COLORS, {"distractors": -1}, "distractors is -1 ... integer of at least 0"),
        (COLORS, {"patches_per_color": 0}, "patches_per_color is 0 ... integer of at least 1"),
        (
            COLORS,
            {"distractors": 2},
            "distractors is 2 ... distractor_colors is empty ... at least one distractor color "
            "or ... distractors to 0",
        ),
        (BINARY, {"fill": 0}, "fill is 0 ... above 0 and at most 1"),
        (COLORS, {"fill": 1.5}, "fill is 1.5 ... above 0 and at most 1"),
        (BINARY, {"fill": float("nan")}, "fill is nan ... above 0 and at most 1"),
        (BINARY, {"patch_size": (0.0, 0.2)}, f"patch_size is (0.0, 0.2) {SIZES}"),
        (NUMBERS, {"patch_size": (0.3, 0.2)}, f"patch_size is (0.3, 0.2) {SIZES}"),
        (COLORS, {"patch_size": (0.3, 1.1)}, f"patch_size is (0.3, 1.1) {SIZES}"),
        (BINARY, {"patch_size": (0.2,)}, f"patch_size is (0.2,) {SIZES}"),
        (BINARY, {"patch_size": 0.2}, f"patch_size is 0.2 {SIZES}"),
        (BINARY, {"shapes": ()}, "shapes is empty ... bezier, triangle, square, circle"),
        (BINARY, {"shapes": ("bezier", "cirle")}, "shape 'cirle' ... 'circle'"),
        (BINARY, {"shapes": ("xyz",)}, "shape 'xyz' ... bezier, circle, square, triangle"),
        (BINARY, {"shapes": "circle"}, "shapes is 'circle' ... ['circle']"),
        (COLORS, {"colors": ()}, "colors is empty ... at least one color"),
        (
            COLORS,
            {"colors": (RED, (0, 256, 0))},
            "colors[1] is (0, 256, 0) ... three integers from 0 to 255",
        ),
        (COLORS, {"colors": (RED, (0, 5))}, "colors[1] is (0, 5) ... three integers from 0 to 255"),
        (
            COLORS,
            {"background": (20, 20, -1)},
            "background is (20, 20, -1) ... three integers from 0 to 255",
        ),
        (
            COLORS,
            {"colors": (RED, GREEN, RED)},
            "colors[2] is (255, 0, 0) ... colors[0] ... distinct colors",
        ),
        (
            COLORS,
            {"colors": (RED, GRAY)},
            "background is (20, 20, 20) ... colors[1] ... distinct colors",
        ),
        (
            COLORS,
            {"distractors": 1, "distractor_colors": (CYAN, GREEN)},
            "distractor_colors[1] is (0, 255, 0) ... colors[1] ... distinct colors",
        ),
        (
            COLORS,
            {"distractors": 1, "distractor_colors": (GRAY,)},
            "background is (20, 20, 20) ... distractor_colors[0] ... distinct colors",
        ),
        (NUMBERS, {"background": 256}, "background is 256 ... integer from 0 to 255"),
        (
            NUMBERS,
            {"values": (90, 40)},
            "values is (90, 40) ... (lowest, highest), integers ... 0 <= lowest <= highest <= 255",
        ),
        (
            NUMBERS,
            {"values": (0, 300)},
            "values is (0, 300) ... (lowest, highest), integers ... 0 <= lowest <= highest <= 255",
        ),
        (NUMBERS, {"background": 40}, "background 40 ... values (40, 90) ... outside"),
        (
            BINARY,
            {"patches": 5, "shapes": ("circle",), "patch_size": (0.9, 1.0)},
            "5 patches ... 43 pixels ... 48 x 48 ... 1 at most ... "
            "fewer or smaller patches or a larger image",
        ),
        (BINARY, {"patches": 40000}, "40000 patches ... 1 to 32767"),
    ],
)
def test_a_wrong_constant_is_refused_with_its_value_and_the_remedy(generator, changes, message):
    told = ".*".join(map(re.escape, message.split(" ... ")))
    with pytest.raises(AttributionLabError, match=f"^{generator}.*{told}"):
        make(generator, **changes)


@pytest.mark.parametrize(
    ("generator", "changes", "fragments"),
    [
        (
            COLORS,
            {
                "image_size": 4,
                "colors": (RED, RED),
                "background": (0, 0, 999),
                "distractors": -1,
                "patches_per_color": 0,
                "shapes": ("sqare",),
                "patch_size": (2, 1),
                "fill": -0.5,
            },
            [
                "image_size is 4",
                "colors[1] is (255, 0, 0)",
                "background is (0, 0, 999)",
                "distractors is -1",
                "patches_per_color is 0",
                "'square'",
                "patch_size is (2, 1)",
                "fill is -0.5",
            ],
        ),
        (
            BINARY,
            {"image_size": 4, "patches": 0, "shapes": (), "patch_size": (0, 1), "fill": 2},
            ["image_size is 4", "patches is 0", "shapes is empty", "patch_size is", "fill is 2"],
        ),
        (
            BINARY,
            {"patches": 70, "shapes": ("square",), "patch_size": (0.9, 0.9), "fill": 2},
            ["fill is 2", "70 patches"],
        ),
        (
            NUMBERS,
            {"image_size": 4, "patches": 0, "values": (5, 1), "background": -1, "shapes": ("x",)},
            ["image_size is 4", "patches is 0", "values is (5, 1)", "background is -1", "'x'"],
        ),
    ],
)
def test_all_wrong_constants_are_refused_at_once(generator, changes, fragments):
    with pytest.raises(AttributionLabError) as refusal:
        make(generator, **changes)
    for fragment in fragments:
        assert fragment in str(refusal.value)


@generators
def test_a_recipe_that_cannot_place_its_patches_fails_when_it_is_made(generator):
    """Two such patches are not provably impossible: a trial finds out."""
    changes = {"patch_size": (0.95, 0.95)}
    with pytest.raises(AttributionLabError, match=r"patches of 46 to 46 pixels do not fit"):
        make(generator, **changes)
