"""What metrics, imputations, rankings and exact values refuse of their arguments."""

import inspect
import math
from typing import get_args, get_type_hints

import pytest
import torch
from jaxtyping import AbstractArray
from torch import Tensor, nn

from odd_calls import parameters
from refusals import refused
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
    ("players", "enumerated_shapley"): (-1, "players is -1, and all coalitions are asked: take 0"),
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


MASK = torch.ones(2, 1, 4, 4) > 0
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
]


@pytest.mark.parametrize(("face", "wrong", "said"), ROWS)
def test_what_cannot_be_asked_is_refused_by_all(face, wrong, said):
    refused(FACES[face], good(face), wrong, said)
