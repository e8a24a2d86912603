"""What makers of networks, images and worlds refuse: what is wrong, the value, the remedy."""

import math

import numpy as np
import pytest
import torch
from torch import nn

import attributionlab as al
from attributionlab.worlds.images import GENERATORS
from attributionlab.worlds.rules.game import rule_game
from attributionlab.worlds.rules.parsing import parse
from attributionlab.worlds.rules.places import Places
from attributionlab.worlds.truth import CountingGame, sampled_shapley, softmax_shapley
from good_calls import builders
from images.image_cases import CYAN, GRAY, GREEN, NEEDED, RED
from refusals import refused

PLACES = Places({"red": RED, "green": GREEN}, 6, {})
RULE = parse("red", ["red", "green"], [])
CALLS = {
    **builders(),
    **{name: (GENERATORS[name], needed) for name, needed in NEEDED.items()},
    "scenes": (
        GENERATORS["scenes"],
        {**NEEDED["color-patches"], "color_names": ("red", "green", "blue"), "items": ("each",)},
    ),
}
ENV = al.load("multi-color-sum", image_size=8)
COUNTS = al.load("single-color-modulo", image_size=8, modulus=3, max_count=5)
PICTURES, LABELS = ENV.batch(2)


def at(value: float) -> torch.Tensor:
    """The pictures with another value in one place, on the background."""
    images = ENV.baseline.repeat(2, 1, 8, 8)
    images[1, 2, 3, 4] = value
    return images


TABLE = {"roles": 6, "overall": {"roles": 6}}
PRESENT = torch.tensor([[[0, 1, -1]]])
CALLS |= {
    "dataset": (ENV.dataset, {"n": 1}),
    "truth": (ENV.truth, {"images": PICTURES, "targets": LABELS}),
    "truths": (ENV.truths, {"images": PICTURES, "targets": LABELS}),
    "shapley": (ENV.shapley, {"image": PICTURES[0], "target": 0}),
    "truth of counts": (COUNTS.truth, {"images": torch.zeros(1, 1, 8, 8), "targets": [0]}),
    "sampled_shapley": (
        sampled_shapley,
        {"model": ENV.model, "image": PICTURES[0], "replacement": 0, "precision": 0.1}
        | {"readout": lambda outputs: outputs[..., 0], "most": 4},
    ),
    "softmax_shapley": (
        softmax_shapley,
        {"counts": torch.tensor([3, 1]), "target": 0, "temperature": 1.0},
    ),
    "agreement": (ENV.truths(PICTURES, LABELS).agreement, {}),
    "shapley of counts": (COUNTS.shapley, {"target": 0}),
    "explained_model": (ENV.explained_model, {}),
    "verify": (al.verify, {"env": ENV}),
    "mask": (al.truth.mask, {"classes": torch.zeros(1, 1, 2, 2).long(), "targets": LABELS[:1]}),
    "to": (ENV.to, {}),
    "random_worlds": (al.random_worlds, {"n": 2}),
    "camouflaged-environment": (ENV.camouflaged, {}),
    "load": (al.load, {"name": "multi-color-sum", "image_size": 8}),
    "world": (al.world, {"rule": "red > 3", "image_size": 24}),
    "questions": (al.Questions, {"env": ENV}),
    "question": (al.Questions(ENV).question, {}),
    "enumerated_shapley": (
        al.truth.enumerated_shapley,
        {"value": lambda coalitions: coalitions.double().sum(1), "players": 3},
    ),
    "counting game": (
        CountingGame,
        {"present": PRESENT, "absent": torch.full_like(PRESENT, -1), "classes": 2, "target": 0}
        | {"output": "probability", "temperature": 1.0},
    ),
    "rule_game": (
        rule_game,
        {"image": np.zeros((3, 6, 6)), "places": PLACES, "expressions": [RULE]},
    ),
    "asked": (rule_game(np.zeros((3, 6, 6)), PLACES, [RULE]).asked, {}),
}
OUTPUT = "take 'logit' or 'probability'"
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
    ("number_sum", {"accumulator": "even"}, "accumulator is 'even': take 'uniform' or"),
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
    ("camouflaged", {"moves": ["permutations"]}, "moves are 'permutations': did you mean"),
    ("camouflaged", {"moves": []}, "moves are empty: give at least one of mirrored-kernels, "),
    ("camouflaged", {"moves": "permutation"}, "moves are 'permutation': pass a list of texts"),
    ("camouflaged", {"network": nn.Identity()}, "pass one of the class Network"),
    ("equivalent", {"name": "plato"}, "name is 'plato': did you mean 'plateau'?"),
    ("equivalent", {"name": None}, "name is None: pass a text"),
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
    (NUMBERS, {"patch_size": (0.3, 0.2)}, "patch_size is (0.3, 0.2): give the smaller number"),
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
    (IMAGES, {"colors": (RED, GRAY)}, "background is (20, 20, 20) ... colors[1] ... distinct"),
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
    ("dataset", {"n": 0, "seed": 0.5}, "n is 0: take an integer from 1 to 1000000; seed is 0.5:"),
    ("dataset", {"seed": -1}, "seed is -1: take an integer of at least 0"),
    *(
        ("truth", {"images": wrong}, said)
        for wrong, said in (
            (PICTURES[:, :1], "images are (2, 1, 8, 8): multi-color-sum takes a tensor of shape"),
            (PICTURES[..., :7], "images are (2, 3, 8, 7): multi-color-sum takes a tensor"),
            (PICTURES[0], "images are torch.float32 of shape (3, 8, 8): pass a tensor of shape"),
            (PICTURES[:0], "pass a tensor of shape (B, C, H, W), B at least 1"),
            (None, "images are of type NoneType: pass a tensor of shape (B, C, H, W)"),
        )
    ),
    *(
        ("truth", {"targets": wrong}, "pass one integer for each of the 2 images")
        for wrong in ("0", None, ["a", "b"], [0, [1]], LABELS[:1], LABELS[0], LABELS[:, None] > 0)
    ),
    ("truth", {"targets": LABELS.float()}, "targets are torch.float32 of shape (2,): pass one"),
    ("truth", {"targets": [0, 4]}, "target 4 does not exist: multi-color-sum has the outputs"),
    ("truth", {"targets": [0, -1]}, "target -1 does not exist"),
    ("truth", {"output": "logits"}, f"output is 'logits': {OUTPUT}"),
    ("truths", {"output": "log"}, f"output is 'log': {OUTPUT}"),
    ("truths", {"targets": [0, 4]}, "target 4 does not exist: multi-color-sum has the outputs"),
    (
        "truths",
        {"baseline": torch.tensor(-1.0)},
        "the baseline has the value -1 at (): multi-color",
    ),
    ("truths", {"baseline": torch.tensor([0.5])}, "the baseline has the value 0.5 at (0,): multi"),
    ("truths", {"baseline": torch.zeros(2, 1, 1)}, "the shape of the baseline is (2, 1, 1): pass"),
    ("truths", {"baseline": "black"}, "the baseline is of type str: pass a number or a tensor, 0"),
    ("truths", {"precision": 0}, "precision is 0: take a number above 0"),
    ("truths", {"seed": -1}, "seed is -1: take an integer from 0 to 18446744073709551615"),
    *(
        (call, wrong, "take ")
        for word in ("logits", "Probability", "")
        for call, wrong in (
            ("explained_model", {"output": word}),
            ("verify", {"exhaustive": word}),
            ("mask", {"output": word}),
        )
    ),
    ("shapley", {"image": PICTURES[0] / 255}, "not scaled or normalized ones"),
    ("shapley", {"image": PICTURES[0] + 1}, "pixels of colors that multi-color-sum was not made"),
    ("shapley", {"image": PICTURES[0, :1]}, "takes a tensor of shape"),
    ("shapley", {"image": PICTURES}, "image is torch.float32 of shape (2, 3, 8, 8): pass a tensor"),
    ("shapley", {"image": PICTURES[0].numpy()}, "image is of type ndarray: pass a tensor of shape"),
    ("shapley", {"target": 4}, "target 4 does not exist"),
    ("shapley of counts", {"image": torch.ones(1, 8, 8)}, "has 64 counted pixels"),
    ("shapley", {"target": 0.5}, "target is 0.5: take an integer"),
    ("shapley", {"output": "score"}, f"output is 'score': {OUTPUT}"),
    ("camouflaged-environment", {"seed": -1}, "seed is -1: take an integer of at least 0"),
    ("load", {"camouflage_seed": -1}, "camouflage_seed is -1: take an integer of at least 0"),
    ("load", {"implementation": "plato"}, "implementation is 'plato': did you mean 'plateau'?"),
    ("load", {"implementation": 3}, "implementation is 3: pass a text"),
    ("load", {"implementation": "and-two-ways"}, "implementation 'and-two-ways' does not apply,"),
    ("load", {"name": "uniform-accumulator", "implementation": "plateau"}, "that apply are none"),
    (
        "load",
        {"image_size": "32", "fil": 0.5, "accumulator": "unform", "redundant_channels": True}
        | {"colors": [[255, 0]], "temperature": "hot", "modulus": 3},
        "multi-color-sum: unknown constant 'fil' (did you mean 'fill'?) ... constant 'modulus' ... "
        "image_size is '32': take an integer from 8 to 1024 ... redundant_channels is True: take an "
        "integer ... accumulator is 'unform': take 'uniform' or 'nonuniform' ... colors[0] is [255, 0]:"
        " pass a list of 3 integers ... temperature is 'hot': take a finite number",
    ),
    (
        "load",
        {
            "size": 0,
            "seed": -1,
            "image_size": 7,
            "fill": 1.5,
            "smoothing": -0.1,
            "temperature": 3.0,
        },
        "size is 0: take an integer of at least 1 ... seed is -1: take an integer of at least 0 ... "
        "image_size is 7 ... fill is 1.5 ... smoothing is -0.1: take a number above 0 and of at ... "
        "temperature is 3.0: take a power of two, such as 1 or 256",
    ),
    ("world", {"rule": 7}, "rule is 7: pass a text"),
    ("world", {"rule": " "}, "rule is ' ': write a text that is not empty"),
    (
        "world",
        {"rule": {"a": 1, "b": "\n"}},
        "rule['a'] is 1: pass a text; rule['b'] is '\\n': write",
    ),
    ("world", {"rule": {"": "red", 1: "b"}}, "a key of rule is '': write ... a key of rule is 1:"),
    *(
        ("world", {"colors": wrong}, f"colors are {wrong!r}: pass a mapping")
        for wrong in ([RED], "red")
    ),
    *(
        (
            "world",
            {"colors": {"red": wrong}},
            f"colors['red'] is {wrong}: pass a list of 3 integers",
        )
        for wrong in (None, (1, 2))
    ),
    ("world", {"colors": {"red": (1, 2, 0.5)}}, "colors['red'][2] is 0.5: take an integer from 0"),
    ("world", {"colors": {1: RED}}, "a key of colors is 1: pass a text"),
    ("world", {"background": 5}, "background is 5: pass a list of 3 integers"),
    *(
        ("world", {"regions": {"a": wrong}}, f"regions['a'] is {wrong!r}: pass a list of 4 numbers")
        for wrong in ((0, 0, 1), "abcd", None)
    ),
    ("world", {"regions": {"a": (0, 0, 10**400, 1)}}, "regions['a'][2] is beyond the range"),
    ("world", {"regions": "x"}, "regions are 'x': pass a mapping"),
    *(
        ("world", {"name": name}, f"name is {name!r}: give a text of one line")
        for name in ("", "\n")
    ),
    ("world", {"name": 201 * "x"}, "of at most 200 characters"),
    (
        "world",
        {"image_size": 0, "colors": 5, "regions": 5, "name": 3, "seed": -1},
        "image_size is 0 ... colors are 5 ... regions are 5 ... name is 3 ... seed is -1",
    ),
    *(
        ("world", {"rule": "red@left", "hidden": table}, said)
        for table, said in (
            (TABLE | {"roles": 1}, "hidden.roles is 1: take an integer of at least 2"),
            ({"sign": True}, "hidden.sign is True: take an integer of at least 2"),
            ({"colour": 6}, "hidden has no 'colour': did you mean 'color'?"),
            ({"overall": {"sign": 2}}, "hidden.overall has no 'sign': known are color, place,"),
            ({"overall": 6}, "hidden.overall is 6: write a table of roles, place, color"),
            ({"agreed": {"place": 0}}, "hidden.agreed.place is 0: take an integer of at least 2"),
            ({"least_image_size": 0}, "hidden.least_image_size is 0: take an integer"),
            (6, "hidden is 6: pass a mapping"),
        )
    ),
    ("questions", {"seed": -1}, "seed is -1: take an integer of at least 0"),
    ("questions", {"env": "multi-color-sum"}, "env is of type str: pass one of the class"),
    *(
        ("question", {"index": wrong}, f"index is {wrong!r}: take an integer of at least 0")
        for wrong in (-1, "a", 1.5)
    ),
    (
        "enumerated_shapley",
        {"players": 21},
        "players is 21 ... take 0 to 20 ... env.sampled_shapley",
    ),
    ("enumerated_shapley", {"players": -1}, "players is -1 ... take 0 to 20"),
    ("enumerated_shapley", {"players": 2.0}, "players is 2.0: take an integer"),
    ("counting game", {"classes": 0}, "classes is 0: take an integer of at least 1"),
    ("counting game", {"target": 2}, "target is 2: take an integer from 0 to 1"),
    ("counting game", {"output": "softmax"}, f"output is 'softmax': {OUTPUT}"),
    ("counting game", {"temperature": None}, "a probability needs a temperature: pass one"),
    ("counting game", {"temperature": -1.0}, "temperature is -1.0: take a number"),
    ("counting game", {"output": "logit", "modulus": 1}, "modulus is 1: take an integer"),
    ("counting game", {"modulus": 5}, "a probability has no modulus: take output 'logit'"),
    ("counting game", {"present": PRESENT + 1}, "a pixel is of class 2: take -1 to 1"),
    ("counting game", {"absent": PRESENT - 1}, "a pixel is of class -2: take -1 to 1"),
    (
        "counting game",
        {"absent": PRESENT[..., :1]},
        "absent is torch.int64 of shape (1, 1, 1): pass",
    ),
    ("counting game", {"absent": PRESENT.int()}, "absent is torch.int32: pass torch.int64"),
    ("rule_game", {"output": "logits"}, f"output is 'logits': {OUTPUT}"),
    ("rule_game", {"temperature": -1.0}, "temperature is -1.0: take a number of at least 1e-30"),
    (
        "rule_game",
        {"image": np.zeros((3, 4, 4)), "target": 3, "output": "probability"},
        "target is 3 ... needs a temperature ... one output ... the image is (3, 4, 4)",
    ),
    ("asked", {"share": 2, "purity": -1}, "share is 2: take ... purity is -1: take a number"),
    *(
        (
            "truth",
            {"images": at(value)},
            f"the value {shown} at (1, 2, 3, 4) ... integers in [0, 255]",
        )
        for value, shown in (
            (-1, "-1"),
            (256, "256"),
            (0.5, "0.5"),
            (math.nan, "nan"),
            (math.inf, "inf"),
        )
    ),
    ("truth", {"images": at(1)}, "image 1 has 1 pixel ... the first (20, 20, 1) at (3, 4) ... set"),
    ("truth of counts", {"images": torch.full((1, 1, 8, 8), 255.0)}, "images have the value 255"),
    ("truth of counts", {"images": torch.ones(1, 1, 8, 8)}, "64 counted ... up to 6 ... max_count"),
    ("truth of counts", {"targets": [1]}, "target 1 does not exist ... 0 to 0 (a regression's"),
    ("truth of counts", {"output": "probability"}, "only output is 'logit', not 'probability'"),
    *(
        ("to", {"device": wrong}, f"device is {wrong!r}")
        for wrong in ("gpu", "meta", "cuda:99", 3.5)
    ),
    *(
        ("load", {"name": f"random:{rest}"}, said)
        for rest, said in (
            ("0", "n is 0: take an integer from 1 to 1000"),
            ("-3", "n is '-3': take an integer from 1 to 1000"),
            ("3:medum", "difficulty is 'medum': did you mean 'medium'?"),
            ("3:7", "difficulty is '7'"),
            ("3:easy:x", "seed is 'x': take an integer of at least 0"),
            ("3:easy:1:2", "has more than three parts"),
        )
    ),
    ("load", {"name": "random:3", "image_size": 16}, "image_size is 16"),
    (
        "load",
        {"name": "random:3", "image_size": 24, "temperature": 1},
        "temperature is given, but",
    ),
    ("load", {"name": "randm:3"}, "no environment named 'randm:3'"),
    ("random_worlds", {"n": 0, "seed": -1}, "n is 0 ... seed is -1"),
    ("random_worlds", {"n": 1.5}, "n is 1.5"),
    ("random_worlds", {"difficulty": "medum"}, "difficulty is 'medum': did you mean 'medium'?"),
    ("random_worlds", {"difficulty": ["easy"]}, "difficulty is ['easy']"),
    ("random_worlds", {"image_size": 16}, "image_size is 16"),
    *(
        ("world", {"rule": rule}, said)
        for rule, said in (
            ("rde > 3", "column 1 ... 'rde': did you mean 'red'?"),
            ("red@lef + (3 + 4.5)", "column 5 ... 'left' ... column 16 ... 4.5"),
            ("3 > 2", "for every input: let it depend on a color"),
            ({"one": "red"}, "one ... at least two"),
            ({"a": "red +", "b": "blu"}, "'a' ... 'b' ... 'blue'"),
        )
    ),
    *(
        ("world", constants, said)
        for constants, said in (
            ({"image_size": 4}, "image_size is 4"),
            ({"colors": {"left": (1, 2, 3), "red": RED}}, "left ... another name"),
            ({"colors": {"red": GRAY}}, "red ... background"),
            ({"regions": {"left": (0, 0, 1, 1)}}, "left ... another name"),
            ({"items": ["red@nowhere"]}, "nowhere"),
            ({"redundant_channels": 2}, "redundant_channels"),
            ({"patchsize": 2}, "patchsize"),
            *(
                ({"colors": {"red": RED, name: (0, 0, 255)}}, f"a color is named {name!r}")
                for name in ("nothing", "each", "min")
            ),
        )
    ),
    *(
        ("scenes", {"items": (item, "grreen")}, f"{said} ... 'grreen' (did you mean 'green'?)")
        for item, said in (
            ("rde@left", "'rde' (did you mean 'red'?)"),
            ("red@lefft", "'lefft' (did you mean 'left'?)"),
            ("red@left:2", "share[0] is 2.0: take a number"),
            ("red:0.1.2", "not a number"),
            ("red@left@right", "red@left@right"),
            ("strips(red, blue)", "'strips' (did you mean 'stripes'?)"),
            ("stripes(red)", "stripes takes 2 colors"),
            ("", "''"),
        )
    ),
    *(
        ("scenes", wrong, said)
        for wrong, said in (
            ({"shapes": ("hexagon",)}, "hexagon"),
            ({"regions": (("left", 0.0, 0.0, 1.0, 1.0),)}, "left"),
            ({"items": ("each@left",) * 2, "area": (0.3, 0.3)}, "fewer or smaller"),
            ({"items": ("each", "red", "green", "blue")}, "none is left"),
        )
    ),
    *(
        ("sampled_shapley", wrong, said)
        for wrong, said in (
            *(({"precision": x}, f"precision is {x}: take a number above 0") for x in (0, -0.1)),
            *(({"precision": x}, f"precision is {x}: take a") for x in (math.nan, math.inf)),
            *(({"most": x}, f"most is {x}: take an integer") for x in (1, 3, 10.0)),
            ({"seed": 2**64}, "seed is 18446744073709551616: take an integer from 0 to"),
            ({"readout": "logit"}, "readout is 'logit': pass a function"),
            ({"precision": 0, "most": 0}, "precision is 0: take ... ; most is 0: take an integer"),
            ({"image": PICTURES}, "image is torch.float32 of shape (2, 3, 8, 8): pass"),
            (
                {"replacement": torch.ones(2, 1, 1)},
                "the shape of the replacement is (2, 1, 1): pass",
            ),
            (
                {"replacement": math.nan},
                "replacement: the value nan at (0, 0, 0, 0) is not a finite",
            ),
            (
                {"readout": lambda outputs: outputs},
                "returns torch.float64 of shape (1, 1, 1, 4) ... return float64 without the last axis",
            ),
            ({"readout": lambda outputs: outputs.sum()}, "the readout returns torch.float64"),
            ({"readout": lambda outputs: outputs[..., 0].float()}, "readout returns torch.float32"),
            ({"readout": lambda outputs: 3.0}, "the readout returns of type float for"),
            ({"readout": lambda outputs: outputs[..., 0] / 0}, "some outputs: explain one that is"),
        )
    ),
    *(
        ("enumerated_shapley", {"value": value}, f"returned {said}: return a float64 tensor")
        for value, said in (
            (lambda s: s.double(), "torch.float64 of shape (8, 3)"),
            (lambda s: s.double().sum(), "torch.float64 of shape ()"),
            (lambda s: s.float().sum(1), "torch.float32 of shape (8,)"),
            (lambda s: s.sum(1).tolist(), "list"),
        )
    ),
    *(
        ("softmax_shapley", wrong, said)
        for wrong, said in (
            ({"counts": torch.tensor([3, -1])}, "a count is -1: take at least 0"),
            *(({"target": x}, f"target is {x}: take 0 to 1") for x in (2, -1)),
            *(
                ({"temperature": x}, f"temperature is {x}: take a number above 0")
                for x in (0.0, math.inf, math.nan)
            ),
            ({"leaving": torch.ones(3).long()}, "leaving is ... of shape (3,): pass a tensor"),
        )
    ),
    ("agreement", {"names": ["shaply"]}, "no truth named 'shaply' here: ... shapley"),
    ("agreement", {"names": []}, "names is empty"),
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
