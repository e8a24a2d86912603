"""Figure 4: both ways to fuse give the same scores, and both are timed."""

import pandas as pd
import pytest

import attributionlab as al
from attributionlab.metrics.ranking import meta_rank
from attributionlab.papers import reproduce
from attributionlab.papers.catalog import Run
from attributionlab.papers.metarank import fusion_time


def test_pair_by_pair_has_the_same_scores():
    ranks = fusion_time.simulated_ranks(7, 9, 0)
    assert all(sorted(each) == [1, 2, 3, 4, 5, 6, 7] for each in ranks.T.tolist())
    assert len(set(map(tuple, ranks.T))) == 9  # of 5,040 rankings
    ranks[1] = ranks[0]  # ties
    # A least-squares solution of 22 equations in float64.
    assert fusion_time.pair_by_pair(ranks) == pytest.approx(meta_rank(ranks), abs=1e-12)


def test_seconds_are_measured_for_every_number_of_methods(monkeypatch):
    monkeypatch.setattr(fusion_time, "METHODS", (4, 8))
    found = fusion_time.fusion_seconds(Run("metarank-figure-4", n=3), largest_by_pairs=4)
    table = found.tables["seconds"]
    assert table.cases.tolist() == [3, 3, 26, 26]
    assert table.methods.tolist() == [4, 8, 4, 8]
    assert (table.ours > 0).all()
    assert table.by_pairs.isna().tolist() == [False, True] * 2
    assert fusion_time.closed_form_is_exact(found.tables) is True
    assert len(found.figures["seconds"].axes[0].lines) == 4
    alone = fusion_time.fusion_seconds(Run("metarank-figure-4", n=26), largest_by_pairs=0)
    assert alone.tables["seconds"].cases.tolist() == [26, 26]
    assert fusion_time.closed_form_is_exact(alone.tables) is None
    other = {"seconds": pd.DataFrame({"difference": [0.0, 0.1]})}
    assert fusion_time.closed_form_is_exact(other) is False
    with pytest.raises(al.AttributionLabError, match="n is 1"):
        reproduce("metarank-figure-4", n=1)
