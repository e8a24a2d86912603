"""A metric says which direction is better, what it scores and for which maps, or is refused."""

import pytest

from attributionlab import AttributionLabError
from attributionlab.metric_trials.registry import as_metric
from attributionlab.metrics import metric

WRONG = [
    ({"maps": "bogus"}, "maps is 'bogus': take 'signed' or 'nonnegative' or 'unit'"),
    ({"maps": None}, "maps is None: take 'signed'"),
    ({"maps": ["unit"]}, r"maps is \['unit'\]: take 'signed'"),
    ({"per_sample": "no"}, "per_sample is 'no': take True or False"),
    ({"per_sample": 1}, "per_sample is 1: take True or False"),
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

    assert vars(mine) == {"higher_is_better": False, "per_sample": True, "maps": maps}
