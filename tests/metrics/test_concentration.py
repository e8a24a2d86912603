"""Sparseness and complexity are their definitions."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import oracles_metrics_patches as oracles
from attributionlab.metrics import complexity, sparseness

SCORES = {sparseness: oracles.gini, complexity: oracles.entropy}

values = st.lists(st.one_of(st.just(0.0), st.floats(1e-6, 1e6)), min_size=1, max_size=12)


@pytest.mark.parametrize("score", SCORES, ids=lambda score: score.__name__)
@given(values=values, scale=st.sampled_from([2.0**-900, 1.0, 2.0**900]))
def test_each_score_is_its_definition_on_any_scale(score, values, scale):
    maps = torch.tensor([values, [1.0] * len(values)], dtype=torch.float64)[:, None, None]
    found = score(scale * maps)
    # Sums of 12 float64 numbers, terms of which cancel to a share of 1 / 12 at the least.
    assert found.tolist() == pytest.approx(
        [SCORES[score](values), SCORES[score]([1.0] * len(values))], abs=1e-12, nan_ok=True
    )
    assert found.dtype == torch.float64


def test_their_ranges_are_as_stated():
    one, all_ = torch.zeros(1, 1, 3, 3), torch.full((1, 1, 3, 3), 0.3)
    one[..., 1, 1] = 7
    assert float(sparseness(one)) == pytest.approx(1 - 1 / 9, abs=1e-15)
    assert float(sparseness(all_)) == pytest.approx(0, abs=1e-15)
    assert float(complexity(one)) == 0
    assert float(complexity(all_)) == pytest.approx(math.log(9), abs=1e-14)
    assert sparseness(0 * one).isnan()
    assert complexity(0 * one).isnan()
