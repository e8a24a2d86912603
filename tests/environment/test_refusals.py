"""What makers of networks, images and worlds refuse: what is wrong, the value, the remedy."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from attributionlab.worlds import nets
from attributionlab.worlds.images import GENERATORS, bezier, draw
from images.image_cases import CYAN, GRAY, GREEN, NEEDED, RED, make
from refusals import refused

COLORS = {"image_size": 8, "colors": [RED, GREEN], "background": GRAY}
WHITE = nets.white_sum(image_size=9)
RECIPE = make("binary-patches")
GENERATOR = torch.Generator()
CALLS = {
    "kernel_chain": (nets.kernel_chain, {}),
    "uniform_accumulator": (nets.uniform_accumulator, {"image_size": 9, "channels": 1}),
    "redundant_weights": (
        nets.redundant_weights,
        {"channels": 1, "redundant_channels": 1, "strength": 1, "generator": GENERATOR},
    ),
    "layer_at": (nets.layer_at, {"levels": nets.uniform_accumulator(9, 1).levels, "depth": 1}),
    "number_sum": (nets.number_sum, {"image_size": 8, "number": 5}),
    "color_sum": (nets.color_sum, COLORS),
    "modulo_sum": (nets.modulo_sum, {"image_size": 8, "modulus": 5, "max_count": 64}),
    "modulo_mlp": (nets.modulo_mlp, {"modulus": 5, "max_count": 10}),
    "identity_head": (nets.identity_head, {"classes": 2}),
    "with_softmax": (nets.with_softmax, {"model": nn.Identity(), "classes": 2, "temperature": 1}),
    "default_temperature": (nets.default_temperature, {}),
    "number_checker": (nets.number_checker, {"numbers": [5]}),
    "color_detector": (nets.color_detector, {"colors": [RED], "background": GRAY}),
    "camouflaged": (nets.camouflaged, {"network": WHITE, "seed": 0}),
    "equivalent": (nets.equivalent, {"network": WHITE, "form": "plateau"}),
    "draw": (draw, {"recipe": RECIPE, "seed": 0, "index": 0}),
    "bezier": (bezier, {"rng": np.random.default_rng(0), "diameter": 5}),
    **{name: (GENERATORS[name], needed) for name, needed in NEEDED.items()},
    "scenes": (
        GENERATORS["scenes"],
        {**NEEDED["color-patches"], "color_names": ("red", "green", "blue"), "items": ("each",)},
    ),
}
BINARY, IMAGES, NUMBERS = "binary-patches", "color-patches", "number-patches"
ROWS = [
    *(
        (name, {"image_size": wrong}, f"image_size is {wrong}: take an integer from 8 to 1024")
        for name in ("kernel_chain", "uniform_accumulator", "number_sum", BINARY, "scenes")
        for wrong in (-1, 7, 1025, 48.0, None)
    ),
    ("uniform_accumulator", {"channels": 0}, "channels is 0: take an integer from 1 to 1024"),
    (
        "uniform_accumulator",
        {"redundant": torch.zeros(2, 1, 3, 3)},
        "redundant has 2 channels: pass weights for each of 1",
    ),
    ("redundant_weights", {"strength": -1}, "strength is -1: take a number of at least 0"),
    ("redundant_weights", {"generator": 0}, "generator is of type int: pass a torch.Generator"),
    ("layer_at", {"depth": 0}, "depth is 0: take an integer of at least 1"),
    ("layer_at", {"levels": []}, "levels are []: pass those of an accumulator"),
    ("number_sum", {"number": -1}, "number is -1: take an integer from 0 to 255"),
    ("number_sum", {"number": 256}, "number is 256: take an integer from 0 to 255"),
    (
        "number_sum",
        {"accumulator": "even"},
        "accumulator is 'even': take 'uniform' or 'nonuniform'",
    ),
    ("number_sum", {"weight_seed": -1}, "weight_seed is -1: take an integer of at least 0"),
    *(
        (
            "color_sum",
            {"redundant_channels": -1, "redundant_strength": wrong},
            f"redundant_channels is -1: take an integer from 0 to 256; redundant_strength is {wrong}: "
            "take a number of at least 0 and of at most 16777216",
        )
        for wrong in (-0.5, math.nan, math.inf)
    ),
    ("color_sum", {"colors": []}, "colors are empty: give at least one"),
    ("color_sum", {"background": 3}, "background is 3: pass a list of 3 integers"),
    ("modulo_sum", {"modulus": 2.5}, "modulus is 2.5: take an integer from 2 to 16777216"),
    ("modulo_mlp", {"modulus": 1}, "modulus is 1: take an integer from 2 to 16777216"),
    ("modulo_mlp", {"max_count": 0}, "max_count is 0: take an integer from 1 to 16777216"),
    ("identity_head", {"classes": 0}, "classes is 0: take an integer from 1 to 1024"),
    *(
        ("with_softmax", {"temperature": wrong}, f"temperature is {wrong}: take a power of two")
        for wrong in (0.0, -2.0, 3.0, 300.0, 0.3, 2.0 + 2.0**-40, 2.0**-21, 2.0**31)
    ),
    ("with_softmax", {"temperature": math.nan}, "temperature is nan: take a finite number"),
    ("default_temperature", {"largest_gap": 0}, "largest_gap is 0: take an integer from 1"),
    ("number_checker", {"numbers": [5.5]}, "numbers[0] is 5.5: take an integer"),
    ("number_checker", {"numbers": []}, "numbers are empty: give at least one"),
    ("color_detector", {"colors": [(0, 0)]}, "colors[0] is (0, 0): pass a list of 3 integers"),
    ("camouflaged", {"seed": -1}, "seed is -1: take an integer of at least 0"),
    (
        "camouflaged",
        {"moves": ["permutations"]},
        "moves are 'permutations': did you mean 'permutation'?",
    ),
    ("camouflaged", {"moves": []}, "moves are empty: give at least one of mirrored-kernels, "),
    ("camouflaged", {"moves": "permutation"}, "moves are 'permutation': pass a list of texts"),
    ("camouflaged", {"network": nn.Identity()}, "pass one of the class Network"),
    ("equivalent", {"form": "plato"}, "form is 'plato': did you mean 'plateau'?"),
    ("equivalent", {"form": None}, "form is None: pass a text"),
    ("draw", {"seed": -1, "index": "x"}, "seed is -1 ... index is 'x' ... integer of at least 0"),
    ("draw", {"seed": 0.5}, "seed is 0.5: take an integer"),
    ("draw", {"index": -7}, "index is -7: take an integer of at least 0"),
    ("draw", {"recipe": 3}, "recipe is of type int: pass one of the class ImageRecipe"),
    ("bezier", {"rng": 3}, "rng is 3: pass a numpy.random.Generator"),
    ("bezier", {"diameter": 0}, "diameter is 0: take an integer from 1"),
    (BINARY, {"patches": 0}, "patches is 0: take an integer of at least 1"),
    (NUMBERS, {"patches": -2}, "patches is -2: take an integer of at least 1"),
    (BINARY, {"patches": "4"}, "patches is '4': take an integer of at least 1"),
    (BINARY, {"patches": 40000}, "40000 patches ... 1 to 32767"),
    (IMAGES, {"distractors": -1}, "distractors is -1: take an integer of at least 0"),
    (IMAGES, {"patches_per_color": 0}, "patches_per_color is 0: take an integer of at least 1"),
    (
        IMAGES,
        {"distractors": 2},
        "distractors is 2 ... distractor_colors is empty ... at least one distractor color or ... "
        "distractors to 0",
    ),
    *(
        (name, {"fill": wrong}, f"fill is {wrong}: take a number above 0 and of at most 1")
        for name in (BINARY, IMAGES, "scenes")
        for wrong in (0, 1.5, math.nan)
    ),
    (BINARY, {"patch_size": (0.0, 0.2)}, "patch_size[0] is 0.0: take a number above 0"),
    (
        NUMBERS,
        {"patch_size": (0.3, 0.2)},
        "patch_size is (0.3, 0.2): give the smaller number first",
    ),
    (IMAGES, {"patch_size": (0.3, 1.1)}, "patch_size[1] is 1.1 ... at most 1"),
    (BINARY, {"patch_size": (0.2,)}, "patch_size is (0.2,): pass a list of 2 numbers"),
    (BINARY, {"patch_size": 0.2}, "patch_size is 0.2: pass a list of 2 numbers"),
    ("scenes", {"area": (0.3, 0.2)}, "area is (0.3, 0.2): give the smaller number first"),
    ("scenes", {"items": ()}, "items are empty: give at least one"),
    (BINARY, {"shapes": ()}, "shapes are empty ... bezier, triangle, square, circle"),
    (BINARY, {"shapes": ("bezier", "cirle")}, "shapes are 'cirle': did you mean 'circle'?"),
    (BINARY, {"shapes": ("xyz",)}, "shapes are 'xyz': known are bezier, circle, square, triangle"),
    (BINARY, {"shapes": "circle"}, "shapes are 'circle': pass a list of texts"),
    (IMAGES, {"colors": ()}, "colors are empty: give at least one"),
    (IMAGES, {"colors": (RED, (0, 256, 0))}, "colors[1][1] is 256: take an integer from 0 to 255"),
    (IMAGES, {"colors": (RED, (0, 5))}, "colors[1] is (0, 5): pass a list of 3 integers"),
    (IMAGES, {"background": (20, 20, -1)}, "background[2] is -1: take an integer from 0 to 255"),
    (IMAGES, {"colors": (RED, GREEN, RED)}, "colors[2] is (255, 0, 0) ... colors[0] ... distinct"),
    (
        IMAGES,
        {"colors": (RED, GRAY)},
        "background is (20, 20, 20) ... colors[1] ... distinct colors",
    ),
    (
        IMAGES,
        {"distractors": 1, "distractor_colors": (CYAN, GREEN)},
        "distractor_colors[1] is (0, 255, 0) ... colors[1] ... distinct colors",
    ),
    (
        IMAGES,
        {"distractors": 1, "distractor_colors": (GRAY,)},
        "background is (20, 20, 20) ... distractor_colors[0] ... distinct colors",
    ),
    (NUMBERS, {"background": 256}, "background is 256: take an integer from 0 to 255"),
    (NUMBERS, {"values": (90, 40)}, "values are (90, 40): give the smaller number first"),
    (NUMBERS, {"values": (0, 300)}, "values[1] is 300: take an integer from 0 to 255"),
    (NUMBERS, {"background": 40}, "background 40 ... values (40, 90) ... outside"),
    (
        BINARY,
        {"patches": 5, "shapes": ("circle",), "patch_size": (0.9, 1.0)},
        "5 patches ... 43 pixels ... 48 x 48 ... 1 at most ... fewer or smaller patches or a larger",
    ),
    (
        IMAGES,
        {"image_size": 4, "background": (0, 0, 999), "distractors": -1, "shapes": ("sqare",)}
        | {"patch_size": (2, 1), "fill": -0.5, "patches_per_color": 0},
        "image_size is 4 ... background[2] is 999 ... distractors is -1 ... 'square' ... "
        "patch_size[0] is 2 ... fill is -0.5 ... patches_per_color is 0",
    ),
    (
        NUMBERS,
        {"image_size": 4, "values": (5, 1), "background": -1, "patches": 0, "shapes": ("x",)},
        "image_size is 4 ... values are (5, 1) ... background is -1 ... patches is 0 ... 'x'",
    ),
]


@pytest.mark.parametrize(("call", "wrong", "said"), ROWS)
@pytest.mark.usefixtures("without_shape_checks")
def test_what_is_wrong_is_refused_with_its_value_and_the_remedy(call, wrong, said):
    refused(*CALLS[call], wrong, said)


@pytest.mark.parametrize("generator", NEEDED)
def test_a_recipe_that_cannot_place_its_patches_fails_when_it_is_made(generator):
    """Two such patches are not provably impossible: a trial finds out."""
    said = "patches of 46 to 46 pixels do not fit"
    refused(*CALLS[generator], {"patch_size": (0.95, 0.95)}, said)
