"""What metrics, imputations, rankings and exact values refuse of their arguments."""

import inspect
import math
from typing import get_args, get_type_hints

import numpy as np
import pytest
import torch
from jaxtyping import AbstractArray
from torch import Tensor, nn

from attributionlab.base import AttributionLabError
from odd_calls import Net, parameters
from refusals import refused
from small_networks import Function
from test_odd_calls import FACES, arguments

pytestmark = [
    pytest.mark.usefixtures("without_shape_checks"),
    pytest.mark.filterwarnings("ignore"),
]
AT_LEAST_0, AT_LEAST_1 = "an integer of at least 0", "an integer of at least 1"
POSITIVE, NOT_NEGATIVE = "a number above 0", "a number of at least 0"
SHARE, PORTION = "a number above 0 and of at most 1", "a number of at least 0 and of at most 1"
SIDE, LARGE = "an integer from 1 to 8192", "an integer from 1 to 67108864"
SEED = "an integer from 0 to 18446744073709551615"

WRONG = {
    "batch_size": (0, AT_LEAST_1),
    "bins": (1, "an integer of at least 2"),
    "closeness": (-1, NOT_NEGATIVE),
    "confidence": (1.0, "a number above 0 and below 1"),
    "correlation": (1.1, "a number of at least -1 and of at most 1"),
    "draws": (0, AT_LEAST_1),
    "empty": (math.nan, "a finite number"),
    "epsilon": (-1.0, NOT_NEGATIVE),
    "expansion": ("all", "'attributed' or 'area'"),
    "full": (math.inf, "a finite number"),
    "height": (0, SIDE),
    "high": ("1", "a finite number"),
    "items": (3, "an integer from 4 to 9007199254740992"),
    "level": (0, POSITIVE),
    "low": (math.nan, "a finite number"),
    "magnitude": ("yes", "True or False"),
    "margin": (0.5, "an integer"),
    "max_evaluations": (14, "an integer of at least 15"),
    "max_panels": (0, AT_LEAST_1),
    "measure": ("steps", "'output' or 'changed-steps'"),
    "missing": ("drop", "'refuse' or 'omit'"),
    "most": (3, "an integer of at least 4"),
    "n": (0, AT_LEAST_1),
    "neighbors": (6, "4 or 8"),
    "noise": (-0.1, NOT_NEGATIVE),
    "normalize": ("false", "True or False"),
    "of": ("all", "'kept' or 'image'"),
    "order": ("MoRF", "'morf' or 'lerf'"),
    "output": ("logits", "'logit' or 'probability'"),
    "patches": (True, "an integer"),
    "pixels": (0, LARGE),
    "players": (-1, "an integer from 0 to 9007199254740992"),
    "precision": (0, POSITIVE),
    "radius": (0, POSITIVE),
    "ratio": (1.5, PORTION),
    "reference": (2.5, "an integer"),
    "resamples": (99, "an integer of at least 100"),
    "seed": (-1, SEED),
    "share": (0, SHARE),
    "sigma": (0, "a number above 0 and of at most 8192"),
    "step": (0, AT_LEAST_1),
    "steps": (0, AT_LEAST_1),
    "target": (0.5, "an integer"),
    "temperature": (0, POSITIVE),
    "threshold": (-0.1, NOT_NEGATIVE),
    "ties": ("first", "'stable' or 'random'"),
    "tolerance": (-1, NOT_NEGATIVE),
    "undefined": ("nan", "'zero' or 'exclude'"),
    "value": (math.nan, "a finite number"),
    "variant": ("code", "'paper' or 'released'"),
    "which": ("postive", "one of 'overall', 'positive', 'negative'"),
    "width": (8193, SIDE),
}
"""A value of each setting that is out of range, and what to take."""
OTHERS = {
    ("draws", "sensitivity_n", "sensitivity_n_curve", "subset_effects"): (
        2,
        "an integer of at least 3",
    ),
    (
        "epsilon",
        *(f"relative_{kind}_stability" for kind in ("input", "output", "representation")),
    ): (
        0,
        POSITIVE,
    ),
    ("order", "parameter_randomization", "parameter_randomization_curve"): (
        "up",
        "one of 'top-down', 'bottom-up', 'independent'",
    ),
    ("radius", "parameter_randomization", "parameter_randomization_curve"): (-1, NOT_NEGATIVE),
    ("seed", "meta_rank_fit", "spearman_interval"): (-1, AT_LEAST_0),
    ("share", "patch_deleted"): (1.5, PORTION),
    ("temperature", "softmax_shapley"): (0.0, "a number above 0 and of at most 1e+15"),
    ("tolerance", "noisy_linear"): (0, "a number of at least 1e-12"),
    ("tolerance", "path_integral"): (0, POSITIVE),
}
"""Where functions have other ranges."""
OTHERS = {(name, each): value for (name, *faces), value in OTHERS.items() for each in faces}
IN_WORDS = {
    "attribute": (3, "attribute is 3: pass a function"),
    "explain": (5, "explain is 5: pass a function"),
    "fractions": ([0.5, 1.1], "fractions[1] is 1.1: take a number of at least 0 and of at most 1"),
    "generator": (0, "generator is of type int: pass a torch.Generator"),
    "imputation": ("blur", "imputation is 'blur': pass a function"),
    "indicator": ("auc", "indicator is 'auc': take 'accuracy', or a function"),
    "ratios": ([1.5], "ratios[0] is 1.5: take a number of at least 0 and of at most 1"),
    "readout": (3, "readout is 3: pass a function"),
    ("value", "enumerated_shapley"): (3, "value is 3: pass a function"),
    ("players", "enumerated_shapley"): (-1, "is -1, but all coalitions are evaluated: take 0"),
    **dict.fromkeys(
        (("value_range", each) for each in ("noisy_linear", "noisy_linear_1d")),
        (0, f"value_range is 0: take {POSITIVE}"),
    ),
    "retraining": (3, "retraining is of type int: pass one of the class Retraining"),
    "size": ((-2, 2), "size[0] is -2: take an integer of at least 1"),
    "sizes": ([0, 1], "sizes[0] is 0: take an integer of at least 1"),
    "thresholds": ([-0.1], "thresholds[0] is -0.1: take a number of at least 0"),
    "value_range": ((0, math.inf), "value_range[1] is inf: take a finite number"),
}
"""What is no number and no word."""
UNASKED = {"metrics.sufficiency", "truth.mask"}
"""What has targets because all metrics have them."""
OF_NAN = {"metrics.magnitudes", "metrics.normalize", "metrics.parts_f1"}
"""What gives NaN for NaN."""
SAID_ELSEWHERE = {"counts", "first", "second", "layer", "model", "nothing_kept", "ranks"}


def described(function):
    """Annotations of all parameters, those of options included."""
    hints, found = get_type_hints(inspect.unwrap(function), include_extras=True), {}
    for name, each in inspect.signature(function).parameters.items():
        if each.kind is not each.VAR_KEYWORD:
            found[name] = hints[name]
        elif options := get_args(hints[name]):
            found |= get_type_hints(options[0], include_extras=True)
    return found


def is_array(hint):
    return inspect.isclass(hint) and issubclass(hint, AbstractArray)


def good(face):
    """Arguments that are right, as few as there may be."""
    return arguments(face, *parameters(FACES[face]))


@pytest.mark.parametrize("face", FACES)
def test_each_setting_has_a_range_and_all_that_is_wrong_is_said_at_once(face):
    name, values, said = face.split(".")[1], {}, []
    for key, hint in described(FACES[face]).items():
        if key in SAID_ELSEWHERE or any(map(is_array, (hint, *get_args(hint)))):
            continue
        text = IN_WORDS.get((key, name)) or IN_WORDS.get(key)
        if text is None:
            values[key], remedy = OTHERS.get((key, name)) or WRONG[key]
            text = f"{key} is {values[key]!r}: take {remedy}"
        else:
            values[key], text = text
        said.append(text)
    for text in said:
        refused(FACES[face], good(face), values, text)


TENSORS = [
    (face, key)
    for face, function in FACES.items()
    for key, hint in described(function).items()
    if is_array(hint)
]


@pytest.mark.parametrize(("face", "key"), TENSORS)
def test_tensors_are_tensors_of_real_numbers_in_the_shape_that_is_stated(face, key):
    hint = described(FACES[face])[key]
    what = "a tensor" if hint.array_type is Tensor else "an array"
    refused(FACES[face], good(face), {key: [1.0]}, f"{key} ... of type list: pass {what}")
    if what == "a tensor":
        for wrong, kind in ((1j, "torch.complex"), ("sparse", "torch.sparse_coo")):
            value = good(face)[key]
            value = value.to_sparse() if wrong == "sparse" else value * wrong
            refused(FACES[face], good(face), {key: value}, f"{key} ... {kind} ... : pass")
    if hint.index_variadic is None:
        more = good(face)[key][None]
        refused(FACES[face], good(face), {key: more}, f"{key} ... : pass {what} of ")


ONES = torch.ones(2, 1, 4, 4)
ROWS = [
    *(
        (face, {"targets": torch.tensor([0, wrong])}, f"target ... {wrong}")
        for face in FACES
        for wrong in (7, -1)
        if "targets" in good(face) and "attribute" not in good(face) and face not in UNASKED
    ),
    *(
        (face, {key: wrong}, said)
        for face in FACES
        for key in ("replacement", "replacements")
        if key in good(face)
        for wrong, said in (
            ("black", "the replacement is of type str"),
            (True, "the replacement is of type bool"),
            (10**400, "the replacement is a number beyond the range of float64: pass"),
            (math.nan, "the value nan at"),
            (torch.zeros(5, 1, 1), "the shape of the replacement is (5, 1, 1)"),
            (torch.ones(1) * 1j, "torch.complex64"),
            (torch.ones(1).bool(), "torch.bool"),
        )
    ),
    *(
        (face, {"attributions": torch.full((2, 1, 4, 4), math.nan)}, "attribution")
        for face in FACES
        if "attributions" in good(face) and face not in OF_NAN
    ),
    *((face, {"model": nn.Dropout()}, "training mode") for face in FACES if "model" in good(face)),
    *(
        (face, {"attribute": lambda *call, make=make: make(call[1])}, said)
        for face in FACES
        if "attribute" in good(face)
        for make, said in (
            (lambda images: images[:, :, :1], "pass a tensor of shape ("),
            (lambda images: images * math.nan, "the value nan"),
            (lambda images: None, "attributions are of type NoneType"),
            (lambda images: images * 1j, "attributions are torch.complex64: pass real"),
            (lambda images: images > 0, "attributions are torch.bool: pass real"),
        )
    ),
]


@pytest.mark.parametrize(("face", "wrong", "said"), ROWS)
def test_what_cannot_be_asked_is_refused_by_all(face, wrong, said):
    refused(FACES[face], good(face), wrong, said)


class Returning(nn.Module):
    """Outputs that are made of the first pixels."""

    def __init__(self, make):
        super().__init__()
        self.make, self.layer = make, nn.Linear(16, 3)

    def forward(self, images):
        return self.make(self.layer(images.flatten(1)))


ASKING = [face for face in FACES if "model" in good(face) and face.startswith("metrics.")]
SHOWN = {"metrics.parameter_randomization_curve", "metrics.parameter_randomization"} | {
    *("metrics.efficient_parameter_randomization", "metrics.local_lipschitz"),
    *("metrics.max_sensitivity", "metrics.random_logit"),
}
"""What leaves it to the method to ask the model."""


@pytest.mark.parametrize("face", [face for face in ASKING if face not in SHOWN])
def test_outputs_that_are_no_finite_real_numbers_are_refused(face):
    for make, said in (
        (lambda rows: rows * math.nan, "(not finite|NaN)"),
        (lambda rows: rows * 1j, "torch.complex64"),
        (lambda rows: rows[:, 0].sum(), r"(output is|outputs are) .*\(\)"),
    ):
        model = Returning(make).eval()
        wrong = {"model": model} | ({"layer": model.layer} if "layer" in good(face) else {})
        with pytest.raises(AttributionLabError, match=said):
            FACES[face](**{**good(face), **wrong})


class Uncopied(nn.Module):
    """A model with a mind of its own."""

    def __deepcopy__(self, memo):
        raise RuntimeError("no copies\nof me")


NO_ROWS = [
    Function(lambda x: x),
    Function(lambda x: x.sum()),
    Function(lambda x: [x]),
    nn.Conv2d(1, 2, 2),
]
NO_NUMBERS = [None, [[0, "a"]], [[0, 1], [0]], [["0", "1"]], [[0, 1j]]]
NO_NUMBERS.append(torch.ones(1, 2, requires_grad=True))
COUNTS = (
    ([], "counts are none"),
    ([0, 17], "counts are 0, 17"),
    ([-1, 2], "counts are -1, 2"),
    ([2, 1], "counts are 2, 1"),
    ([1, 1], "counts are 1, 1"),
    (torch.tensor([3, 1], dtype=torch.uint8), "counts are 3, 1"),
    ([*range(9, 0, -1)], "counts are 9, 8, 7, ..., 2, 1"),
)
DRAWS = torch.arange(16).expand(2, 1, 16)
NAN, ORDERS = ONES * math.nan, torch.arange(16).expand(2, 16)
OWN = {
    "metrics.removal_order": [
        ({"ties": "random", "generator": None}, "ties='random' needs a generator: pass"),
    ],
    "metrics.reference_order": [
        ({"reference": each}, f"reference is {each}: take an integer from 0 to 16")
        for each in (17, -1)
    ],
    "metrics.dice": [
        ({"second": torch.tensor([1, 7, 7])}, "the second set of pixels holds 7 more than once"),
        ({"first": torch.ones(2)}, "first ... pass integers"),
    ],
    "metrics.expected_dice": [({"n": 3, "reference": 2}, "reference is 2: take an integer")],
    "metrics.pixel_isolation": [
        ({"orders": ORDERS * (ORDERS < 9)}, "order 0 is not a permutation"),
        ({"size": (2, 3)}, "an order has 16 pixels and the size is 2 x 3"),
        ({"orders": torch.tensor([[0]]), "size": (1, 1)}, "at least two pixels"),
        ({"counts": [17]}, "counts are 17"),
    ],
    "metrics.outputs_along": [
        ({"orders": ORDERS[0].expand(3, 1, 16)}, "orders are torch.int64 of shape (3, 1, 16)"),
        ({"orders": ORDERS[:, None, :15]}, "an order has 15 pixels, the images have 16"),
    ],
    "metrics.area_under_curve": [
        ({"fractions": torch.ones(4)}, "fractions are ... (4,): pass 5, one for each point"),
    ],
    "metrics.subset_effects": [
        ({"sizes": [1, 17]}, "sizes contain 17"),
        ({"sizes": [2, 1]}, "sizes are (2, 1): pass rising numbers"),
        ({"sizes": [2, 2]}, "pass rising numbers"),
    ],
    "metrics.soundness_sweep": [
        (
            {"variant": "released", "attributions": 5 * ONES},
            "attributions reach 5, but variant='re",
        ),
    ],
    "metrics.completeness_at": [
        (
            {"variant": "released", "attributions": 2 * ONES},
            "attributions reach 2, but variant='re",
        ),
    ],
    "metrics.included_pixels": [({"attributions": -ONES}, "have the value -1 in image 0")],
    "metrics.road": [
        ({"fractions": [0.5]}, "fractions are [0.5]: pass at least two"),
        *(
            (
                {"nothing_kept": each},
                f"nothing_kept has the value {float(each)}: pass a number or a pi",
            )
            for each in (math.nan, torch.tensor(math.inf))
        ),
        (
            {"nothing_kept": torch.tensor(1j)},
            "nothing_kept is torch.complex64 of shape (): pass re",
        ),
        ({"nothing_kept": 1.5}, "nothing_kept has the value 1.5 ... within value_range (0, 1)"),
        ({"nothing_kept": torch.zeros(7)}, "shape of the replacement is (7,)"),
        ({"nothing_kept": "black"}, "the replacement is of type str"),
    ],
    "metrics.single_deletion": [({"patches": 9}, "does not divide 4 x 4")],
    "metrics.grid_patches": [
        *(
            ({"patches": each}, f"patches is {each}: take a square number of at least 4")
            for each in (15, 1, -4)
        ),
        *(
            (
                {"patches": 16, "height": h, "width": w},
                f"4 x 4, which does not divide {h} x {w} pix",
            )
            for h, w in ((8, 10), (10, 8))
        ),
    ],
    "metrics.patch_deleted": [
        *(
            ({"patches": torch.zeros(*size, dtype=dtype)}, "pass a label map of integers")
            for size, dtype in (((4, 4), torch.float32), ((3, 4), torch.int64))
        ),
        ({"patches": torch.zeros(4, 4).long()}, "numbered up to 0"),
        ({"patches": torch.full((4, 4), 10**9)}, "numbered up to 1000000000"),
        ({"patches": 25}, "does not divide 4 x 4"),
        ({"patches": np.zeros((4, 4), dtype=int)}, "of type ndarray"),
        ({"images": ONES.byte()}, "images.float"),
    ],
    "metrics.ids_curve": [
        ({"steps": 17}, "steps is 17: take at most 16"),
        ({"explain": lambda *_: torch.zeros(3)}, "the updated attributions are"),
        ({"explain": lambda images, _: images * math.nan}, "NaN"),
    ],
    "metrics.relevance_mass_accuracy": [
        ({"attributions": -2 * ONES}, "the value -2: a mass must be nonnegative; pass magnitude"),
    ],
    "metrics.relative_representation_stability": [
        ({"layer": nn.Tanh()}, "layer is of type Tanh: pass a layer of the model"),
    ],
    "metrics.parameter_randomization": [
        ({"model": nn.Flatten()}, "the model has no layer with weights"),
    ],
    "metrics.random_logit": [
        (
            {
                "model": nn.Sequential(nn.Flatten(), nn.Linear(16, 1)),
                "targets": torch.zeros(2).long(),
            },
            "the model has one output",
        ),
    ],
    "metrics.max_sensitivity": [({"radius": 10**400}, "radius is ")],
    "metrics.efficiency_gap": [
        ({"changes": torch.zeros(3)}, "changes are ... (3,): pass a tensor of one number for each"),
    ],
    "metrics.true_soundness": [
        ({"included": ONES}, "included is ... : pass torch.bool"),
        ({"included": ONES[..., :1] > 0}, "included is ... : pass a tensor of shape"),
    ],
    "exact.trajectories": [
        (
            {"images": NAN},
            "images: the value nan at (0, 0, 0, 0) is not a finite torch.float32",
        ),
        (
            {"images": ONES.double() * 1e39},
            "the value 1e+39 at (0, 0, 0, 0) is not a finite torch.fl",
        ),
        ({"images": ONES > 0}, "images are torch.bool: pass real numbers"),
        ({"images": ONES.to("meta")}, "images are on meta: pass a dense tensor"),
        ({"model": Net().eval().to("meta")}, "images: on cpu, but the model is on meta"),
        ({"replacements": 1e39}, "replacement: the value 1e+39 at (0, 0, 0, 0) is not a finite"),
        ({"replacements": -1 / torch.zeros(1)}, "replacement: the value -inf at (0, 0, 0, 0)"),
        ({"replacements": ONES.to("meta")}, "replacements are on meta: pass a dense tensor"),
        ({"replacements": ONES[None]}, "the shape of the replacement is (1, 2, 1, 4, 4)"),
        ({"orders": DRAWS.int()}, "of shape (B, D, P), here (2, D, 16)"),
        ({"orders": DRAWS[:, :0]}, "orders are torch.int64 of shape (2, 0, 16): pass a tensor"),
        ({"orders": DRAWS[..., :15]}, "an order has 15 pixels, the images have 16: pass permut"),
        ({"orders": DRAWS + 1}, "an order names pixel 16: pass permutations of 0 to 15"),
        ({"orders": DRAWS - 1}, "an order names pixel -1: pass permutations of 0 to 15"),
        (
            {"orders": torch.stack([DRAWS[0], DRAWS[0] - (DRAWS[0] == 9).long()])},
            "order 0 of image 1 omits pixel 9 and repeats another one: pass permutations of",
        ),
        *(({"counts": each}, f"{said}: pass increasing") for each, said in COUNTS),
        *(({"counts": [each]}, f"counts[0] is {each}: take an integer") for each in (0.5, 0j, [1])),
        ({"counts": [False, True]}, "counts[0] is False: take an integer"),
        ({"counts": 3}, "counts are 3: pass a list of integers"),
        ({"counts": "all"}, "counts are 'all': pass a list of integers"),
        ({"counts": [2**70]}, "counts are (1180591620717411303424,): pass a list of integers"),
    ],
    "exact.trajectory": [
        ({"order": torch.arange(2)}, "an order has 2 pixels, the images have 16"),
        *(
            ({"model": model}, "the model's output is ( ... images: pass one that returns a tensor")
            for model in NO_ROWS
        ),
        ({"model": len}, "the model is of type builtin_function_or_method: pass an nn.Module"),
    ],
    "exact.single_replacements": [
        ({"model": nn.Identity()}, "the model's output is ("),
        ({"model": torch.sum}, "pass an nn.Module"),
    ],
    "exact.path_integral": [
        ({"inputs": ONES / 0}, "inputs have the value inf at (0, 0, 0, 0): pass finite numbers"),
        ({"inputs": ONES > 0}, "inputs are torch.bool: pass real numbers"),
        ({"baselines": torch.zeros(1) / 0}, "baselines have the value nan at (0, 0, 0, 0): pass"),
        ({"baselines": torch.zeros(3, 1, 1)}, "the shape of the baselines is (3, 1, 1): pass one"),
        ({"model": Uncopied()}, "Uncopied cannot be copied in float64 (no copies): pass a module"),
        ({"model": len}, "the model is of type builtin_function_or_method: pass an nn.Module"),
        (
            {"model": nn.Sequential(nn.Flatten(), nn.Linear(5, 2)).eval()},
            "Sequential fails on float64 images of",
        ),
        (
            {"model": Function(lambda x: x @ torch.ones(4, 2))},
            "Function fails on float64 images of shape (2, 1",
        ),
        *(({"model": model}, "the model's output is ( ... for 2 images") for model in NO_ROWS),
        ({"model": Function(lambda x: (x / 0).flatten(1))}, "output 0 is ... inf] at the baseline"),
        (
            {"model": Function(lambda x: x.flatten(1).round().detach())},
            "Function has no gradient (element 0 of",
        ),
    ],
    "imputation.noisy_linear": [
        (
            {"images": torch.cat([ONES[:1], NAN[:1]])},
            "images have 16 values that are NaN, infinite",
        ),
        ({"images": ONES.double() * 2e150}, "images have 32 values that are ... beyond 1e+150: pa"),
        ({"keep": ONES[..., :3] > 0}, "keep is torch.bool of shape (2, 1, 4, 3)"),
        ({"keep": torch.cat([ONES, ONES[:1]]) > 0}, "keep is torch.bool of shape (3, 1, 4, 4)"),
        ({"keep": torch.cat([ONES[:1], 0 * ONES[:1]]) > 0}, "no True at batch index 1 (1 of 2 mas"),
        ({"noise": 0.01, "generator": None}, "generator is None where noise is 0.01"),
        ({"start": ONES[..., :3]}, "start is torch.float32 of shape (2, 1, 4, 3)"),
        ({"start": NAN}, "start is torch.float32"),
    ],
    "imputation.noisy_linear_1d": [
        ({"keep": ONES > 0}, "keep is torch.bool of shape (2, 1, 4, 4)"),
        ({"keep": torch.zeros(2, 5) > 0}, "keep has no True at batch index 0 (2 of 2"),
        ({"noise": 0.5, "generator": None}, "generator is None"),
    ],
    "imputation.rounded": [
        ({"low": 3, "high": 2}, "the box is [3, 2]: take integers for low and high"),
        ({"low": 0.5, "high": 2}, "the box is [0.5, 2]: take integers"),
    ],
    "imputation.true_baseline": [
        ({"baseline": torch.ones(2, 1, 1)}, "the shape of the replacement"),
    ],
    "imputation.mean": [({"keep": ONES < 0}, "keep has no True at batch index 0")],
    "imputation.nearest_known_color": [
        ({"keep": ONES < 0}, "keep has no True at batch index 0"),
        ({"colors": torch.ones(4, 2)}, "colors are torch.float32"),
    ],
    "ranking.spearman": [
        ({"first": [1, 2], "second": [1, 2, 3]}, "first has 2 items, second 3"),
        ({"first": [[1, 2]], "second": [1, 2]}, "first has the shape (1, 2)"),
        ({"first": ["a"], "second": [1]}, "first is list: pass one real number for each item"),
        ({"second": [1, math.nan, 3]}, "second is NaN at 1: pass missing='omit'"),
    ],
    "ranking.hausdorff": [
        *(
            ({"first": each, "second": [[0, 1]]}, "first has no real numbers")
            for each in NO_NUMBERS
        ),
        (
            {"first": [[0, 1]], "second": [[0, 1, 2]]},
            "points of 2 coordinates and second of 3: pass",
        ),
        ({"first": [0, 1]}, "first has the shape (2,): pass an array (points, dimensions)"),
        ({"second": []}, "second has the shape (0,): pass"),
        ({"first": [[0, math.nan]]}, "first has values that are NaN or infinite: leave these poin"),
        ({"second": [[0, math.inf]]}, "second has values that are NaN or infinite"),
    ],
}
SHARED = {
    ("accuracy", "label_probability"): [
        ({"outputs": torch.ones(2, 1), "targets": torch.zeros(2).long()}, "compares classes; pass"),
        ({"outputs": torch.full((2, 3), math.nan)}, "an image are NaN"),
    ],
    ("label_probability",): [
        ({"outputs": torch.full((2, 3), math.inf)}, "outputs of an image are infinite"),
    ],
    ("ranking.meta_rank", "ranking.meta_rank_fit"): [
        ({"ranks": [[1, 2]]}, "shape (1, 2): pass (methods, cases), at least two of each"),
        ({"ranks": [[1], [2]]}, "shape (2, 1)"),
        ({"ranks": [1, 2]}, "shape (2,)"),
        (
            {"ranks": [[1, math.inf], [2, 1]]},
            "rank of method 0 in case 1 is infinite: pass NaN",
        ),
        (
            {"ranks": [[1, 2], [math.nan, math.nan]]},
            "method 1 is ranked in no case (1 such methods): leave it out",
        ),
        (
            {"ranks": [[1, math.nan], [math.nan, 1]]},
            "no chain of common cases connects methods 0 and 1: rank them in one",
        ),
        *(({"ranks": each}, "ranks are not real numbers") for each in NO_NUMBERS[:3]),
    ],
    ("precision", "recall", "f1", "alignment"): [
        ({"attributions": 1.5 * ONES}, "normalize them to [-1, 1] first"),
    ],
    ("pointing_game", "relevance_mass_accuracy", "relevance_rank_accuracy"): [
        ({"truth": ONES}, "truth is torch.float32: pass torch.bool, such as truth > 0"),
        (
            {"truth": ONES[:1] > 0},
            "truth is torch.bool of shape ... : pass a tensor of shape (2, 1",
        ),
        ({"attributions": ONES > 0}, "attributions are torch.bool: pass real numbers"),
    ],
    ("rank_correlation", "cosine", "sign_agreement"): [
        ({"values": ONES[:1]}, "values are ... (2, 1, 4, 4)"),
        ({"values": NAN}, "values hold NaN"),
    ],
    ("true_soundness", "true_completeness"): [
        ({"attributions": -ONES}, "attributions have the value -1 in image 0 ... x.clamp(min=0)"),
        ({"information": -ONES}, "information values have the value -1 in ... (-x).clamp(min=0)"),
        ({"information": ONES * math.inf}, "information values have the value inf in image 0"),
    ],
    ("sparseness", "complexity"): [
        ({"attributions": -ONES}, "the value -1 in image 0 ... x.abs() for both"),
    ],
}
ALONE = [(face, *row) for face, rows in OWN.items() for row in rows] + [
    (name if "." in name else f"metrics.{name}", *row)
    for names, rows in SHARED.items()
    for name in names
    for row in rows
]


@pytest.mark.parametrize(("face", "wrong", "said"), ALONE)
def test_what_one_cannot_do_is_refused(face, wrong, said):
    refused(FACES[face], good(face), wrong, said)
