"""What metrics make of a user's network: which ones they refuse, and that they leave it alone.

A metric says which direction is better, what it scores and for which maps, or is refused.
"""

import inspect
from collections import namedtuple

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._pytree import tree_leaves

import attributionlab as al
from attributionlab import AttributionLabError
from attributionlab.base import asked, model_problems, outputs_in
from attributionlab.metrics import metric
from attributionlab.verdicts import as_metric
from odd_calls import parameters
from test_odd_calls import FACES, arguments

ASKING = [
    face
    for face, function in FACES.items()
    if face.startswith(("metrics.", "exact.")) and "model" in inspect.signature(function).parameters
]


class Normalizing(nn.Module):
    """Subtracts and divides in place, before a linear layer."""

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(2)
        self.weight = nn.Parameter(torch.randn(16, 3, generator=generator), requires_grad=False)

    def reset_parameters(self):
        nn.init.normal_(self.weight)

    def forward(self, images):
        images -= 0.5
        images /= 0.25
        return images.flatten(1) @ self.weight


class Copying(Normalizing):
    def forward(self, images):
        return super().forward(images.clone())


class Functional(nn.Module):
    """Dropout in a function, as many networks have it."""

    def forward(self, images):
        return self.dropped(images).flatten(1)

    def dropped(self, images):
        return F.dropout(images, training=self.training)


def given(face, model):
    """Arguments for a function that asks a model, in good order."""
    good = arguments(face, *parameters(FACES[face]))
    return good | {key: model for key in ("model", "layer") if key in good}


def with_norm():
    layers = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 3)
    return nn.Sequential(*layers)


@pytest.mark.parametrize("face", ASKING)
def test_a_network_in_training_mode_is_refused_and_stays_as_it_is(face):
    model = with_norm()
    before = model[1].running_mean.clone()
    with pytest.raises(al.AttributionLabError, match=r"training mode.*call model.eval\(\)") as no:
        FACES[face](**given(face, model))
    assert "\n" not in str(no.value)
    assert torch.equal(model[1].running_mean, before)


@pytest.mark.filterwarnings("ignore::attributionlab.AttributionLabWarning")
@pytest.mark.parametrize("face", ASKING)
def test_a_network_that_works_in_place_gets_the_scores_of_one_that_copies(face):
    found = []
    for model in (Normalizing().eval(), Copying().eval()):
        asked_of = given(face, model)
        tensors = {k: v for k, v in asked_of.items() if isinstance(v, torch.Tensor)}
        copies = {key: value.clone() for key, value in tensors.items()}
        found.append(tree_leaves(FACES[face](**asked_of)))
        assert all(torch.equal(tensors[key], copies[key]) for key in copies)
    for first, second in zip(*found, strict=True):
        assert str(first) == str(second)
        if isinstance(first, torch.Tensor):
            torch.testing.assert_close(first, second, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    ("model", "problem"),
    [
        (None, "of type NoneType: pass an nn.Module"),
        (nn.Sequential(nn.Dropout(0.0)), ""),
        (nn.Sequential(nn.Dropout()), "training mode (Dropout '0')"),
        (Functional(), "training mode (Functional '')"),
        (Functional().eval(), ""),
        (nn.Sequential(nn.Conv2d(1, 1, 1), nn.ReLU(), nn.Flatten()), ""),
    ],
)
def test_what_matters_in_training_mode_is_refused(model, problem):
    found = model_problems(model)
    assert problem in found[0] if problem else not found


Output = namedtuple("Output", ["loss", "logits"])
ROWS = torch.eye(2)


@pytest.mark.parametrize(
    "returned",
    [
        ROWS,
        (ROWS, None),
        [ROWS],
        {"loss": None, "logits": ROWS},
        {"out": ROWS},
        Output(None, ROWS),
    ],
)
def test_outputs_are_found_in_what_a_model_returns(returned):
    assert outputs_in(returned) is ROWS


def test_one_number_an_image_is_a_row_of_one():
    assert outputs_in(torch.tensor([1.0, 2.0])).tolist() == [[1], [2]]


class Returns(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.value = value

    def forward(self, images):
        return self.value


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ({"a": ROWS, "b": ROWS}, "dict"),
        ((), "tuple"),
        (None, "NoneType"),
        (("a",), "tuple"),
        (ROWS[:1], "1, 2"),
    ],
)
def test_what_holds_no_outputs_is_refused_with_how_to_wrap_it(value, what):
    with pytest.raises(
        al.AttributionLabError, match=rf"output is .*{what}.*: pass one that returns"
    ):
        asked(Returns(value), torch.zeros(2, 1, 4, 4))


def test_what_a_network_says_of_images_that_it_cannot_take_is_passed_on():
    model = nn.Sequential(nn.Flatten(), nn.Linear(5, 2)).eval()
    with pytest.raises(
        al.AttributionLabError, match=r"shape \(2, 1, 4, 4\) \(mat1 .*: pass images"
    ):
        asked(model, torch.zeros(2, 1, 4, 4))


def test_running_out_of_memory_is_nothing_that_images_could_mend():
    class Greedy(nn.Module):
        def forward(self, images):
            raise torch.OutOfMemoryError("out of memory")

    with pytest.raises(torch.OutOfMemoryError):
        asked(Greedy(), torch.zeros(2, 1, 4, 4))


WRONG = [
    ({"maps": "bogus"}, "maps is 'bogus': take 'signed' or 'nonnegative' or 'unit'"),
    ({"maps": None}, "maps is None: take 'signed'"),
    ({"maps": ["unit"]}, r"maps is \['unit'\]: take 'signed'"),
    ({"per_sample": "no"}, "per_sample is 'no': take True or False"),
    ({"per_sample": 1}, "per_sample is 1: take True or False"),
    ({"unit": "pixels"}, "unit is 'pixels': take None or 'output change' or 'local gradient' or"),
    ({"ties": "random"}, "ties is 'random': take 'expected' or 'reading order'"),
    ({"neighbors": True}, "neighbors is True: take 'none' or 'patches' or 'imputation'"),
    ({"sampled": 0}, "sampled is 0: take True or False"),
    ({"rising": None}, "rising is None: take True or False"),
    ({"varies": "layers"}, "varies is 'layers': take None or 'weights'"),
    ({"unchanged": "one"}, "unchanged is 'one': take a finite number"),
    ({"unchanged": float("nan")}, "unchanged is nan: take"),
    ({"invariances": "scale"}, "invariances is 'scale': take a tuple of 'scale', 'shift', 'sign'"),
    ({"invariances": ["scale"]}, r"invariances is \['scale'\]: take a tuple of 'scale', 'shift'"),
    ({"invariances": ("size",)}, r"invariances is \('size',\): take a tuple of 'scale'"),
]


@pytest.mark.parametrize(
    ("stated", "message"),
    [*WRONG, ({"higher_is_better": None}, "higher_is_better is None: take True or False")],
)
def test_other_values_are_refused_where_they_are_declared(stated, message):
    with pytest.raises(AttributionLabError, match=f"^{message}"):
        metric(**({"higher_is_better": True, "per_sample": True} | stated))


@pytest.mark.parametrize(("stated", "message"), WRONG)
def test_a_function_that_carries_such_a_value_cannot_be_tested(stated, message):
    def mine(attributions):
        return attributions.sum((1, 2, 3))

    vars(mine).update(stated)
    with pytest.raises(AttributionLabError, match=f"^mine: {message}"):
        as_metric(mine, higher_is_better=True)


@pytest.mark.parametrize("maps", ["signed", "nonnegative", "unit"])
def test_what_is_stated_is_an_attribute(maps):
    @metric(higher_is_better=False, per_sample=True, maps=maps)
    def mine(attributions):
        return attributions.sum((1, 2, 3))

    stated = {"higher_is_better": False, "per_sample": True, "maps": maps}
    assert vars(mine) == stated | {
        "unit": None,
        "sampled": False,
        "ties": "expected",
        "invariances": (),
        "neighbors": "none",
        "rising": False,
        "varies": None,
        "unchanged": None,
        "takes": None,
    }
