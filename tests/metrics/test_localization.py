"""Localization scores are means over all ways to break ties."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import oracles_metrics as oracles
from attributionlab import AttributionLabError
from attributionlab.metrics.localization import (
    pointing_game,
    relevance_mass_accuracy,
    relevance_rank_accuracy,
)

VALUES = [-1.0, 0.0, 0.0, 0.5, 2.0]
CASES = st.lists(
    st.tuples(st.sampled_from(VALUES), st.sampled_from(VALUES), st.booleans(), st.booleans()),
    min_size=1,
    max_size=5,
)


def tensors(case):
    """Two images (2, 1, 1, P) and their masks."""
    first, second, mask, other = (list(column) for column in zip(*case, strict=True))
    maps = torch.tensor([first, second])[:, None, None]
    return maps, torch.tensor([mask, other])[:, None, None]


@given(CASES, st.sampled_from(["pointing", "mass", "rank"]))
def test_scores_are_their_definitions(case, name):
    function, definition = {
        "pointing": (pointing_game, oracles.pointing_game),
        "mass": (relevance_mass_accuracy, oracles.mass_accuracy),
        "rank": (relevance_rank_accuracy, oracles.rank_accuracy),
    }[name]
    maps, masks = tensors(case)
    if name == "mass":
        maps = maps.abs()
    expected = [
        definition(values.flatten().tolist(), mask.flatten().tolist())
        for values, mask in zip(maps, masks, strict=True)
    ]
    expected = [math.nan if score is None else score for score in expected]
    # Ratios of sums of five small numbers, in float64 and in a mean over at most 120 orders.
    assert function(maps, masks).tolist() == pytest.approx(expected, abs=1e-13, nan_ok=True)


def test_the_truth_itself_scores_1_and_a_constant_map_the_share_of_the_truth():
    mask = torch.tensor([[[[True, False, False, True]]]])
    for function in (pointing_game, relevance_mass_accuracy, relevance_rank_accuracy):
        assert function(mask.float(), mask) == 1
        assert function(torch.ones(mask.shape), mask) == 0.5
        assert function.higher_is_better
        assert function.per_sample


@pytest.mark.usefixtures("without_shape_checks")
def test_bad_input_is_refused_with_the_remedy():
    mask = torch.tensor([[[[True, False]]]])
    with pytest.raises(
        AttributionLabError, match=r"fall to -2: a mass has no sign, pass magnitude"
    ):
        relevance_mass_accuracy(torch.tensor([[[[1.0, -2.0]]]]), mask)
    for function in (pointing_game, relevance_mass_accuracy, relevance_rank_accuracy):
        for maps, truth, message in [
            (
                torch.ones(1, 1, 1, 2),
                mask.float(),
                "the truth is torch.float32 of shape .*: pass a mask",
            ),
            (torch.ones(1, 1, 1, 2), [True], "the truth is of type list: pass a mask"),
            (
                torch.ones(1, 2, 1, 2),
                mask.expand(1, 2, 1, 2),
                r"bool of shape \(1, 2, 1, 2\): pass",
            ),
            (torch.ones(0, 1, 1, 2), mask[:0], r"shape \(0, 1, 1, 2\): pass .* at least one pixel"),
            (torch.ones(1, 1, 0, 2), mask[:, :, :0], r"shape \(1, 1, 0, 2\): pass"),
            (mask * 1j, mask, "attributions are torch.complex64: pass real numbers"),
            (
                torch.ones(1, 1, 2, 1),
                mask,
                r"attributions are torch.float32 of shape \(1, 1, 2, 1\): pass",
            ),
            ([1.0, 2.0], mask, "attributions are of type list"),
            (mask, mask, "attributions are torch.bool: pass real numbers"),
            (
                torch.tensor([[[[1.0, math.nan]]]]),
                mask,
                r"the value nan in image 0 at pixel \(0, 1",
            ),
        ]:
            with pytest.raises(AttributionLabError, match=message):
                function(maps, truth)
