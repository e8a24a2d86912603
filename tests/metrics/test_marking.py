"""A metric says which direction is better, what it scores and for which maps, or is refused."""

import pytest

from attributionlab import AttributionLabError
from attributionlab.metrics import metric
from attributionlab.verdicts import as_metric

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
