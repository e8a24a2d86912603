"""Scores of environments' maps are those of the metrics, and out of domain is what is out of it."""

import numpy as np
import pytest

import attributionlab as al
from attributionlab.papers.idsds.environment_scores import (
    ALIGNED_IDS,
    BLURRED,
    EXACT,
    IDS,
    IDSDS,
    MASK,
    PARTS,
    RANDOM,
    SDS,
    SPECKLED,
    STRENGTHS,
    UPDATED,
    UPDATED_IDS,
    Setting,
    dosed,
)
from attributionlab.papers.idsds.maps import ATTENDED, PANEL
from idsds_cases import sum_scores


@pytest.fixture(scope="module")
def found():
    return sum_scores()


@pytest.fixture(scope="module")
def scores(found):
    return found[0].set_index(["protocol", "method", "image"]).sort_index()


def test_the_exact_map_and_the_mask_are_right_by_every_truth(scores):
    for name in (EXACT, MASK):
        rows = scores.loc[[IDSDS, PARTS]].xs(name, level="method")
        assert rows.score.tolist() == rows.f1.tolist() == [1.0] * 4
        # Pearson's correlation of equal sums, by sums of squares of 16 numbers.
        assert np.allclose(rows.cells, 1, rtol=0, atol=1e-14)


def test_in_domain_nothing_fires_and_drops_are_counts(found):
    table = found[1].set_index("protocol")
    assert table.exact_drops[IDSDS].tolist() == [1.0, 1.0]
    assert table.exact_drops.drop(IDSDS).isna().all()
    assert table.unseen.loc[[IDSDS, PARTS, ALIGNED_IDS]].tolist() == [0.0] * 6
    assert table.unseen[SDS].mean() > 0
    assert table.unseen[IDS].mean() > 0


def test_equally_black_cells_leave_the_ranking_of_logits_alone(scores):
    """Redundant channels take the same from each drop; where they are half black they do not."""
    assert scores.score[IDSDS].equals(scores.score[SDS])
    assert not scores.score[IDSDS].equals(scores.score[dosed(STRENGTHS[-1])])


def test_scores_of_an_image_are_those_of_its_own_network(scores):
    sample = al.load("multi-color-sum", image_size=36).dataset(2, 0)[1]
    asked = sample.image[None], sample.label[None]
    setting = Setting("multi-color-sum", sample, 1, "logit", 0, True)
    maps = {name: each.double() for name, each in setting.candidates().items()}
    noise = next(name for name in maps if name.startswith("noise"))
    filling = setting.replacements
    for protocol, strength, replacement in (
        (IDSDS, 1.0, filling[IDSDS]),
        (RANDOM, 1.0, filling[RANDOM]),
        (dosed(1.0), 1.0, filling[SPECKLED]),
        (dosed(4.0), 4.0, filling[SPECKLED]),
    ):
        env = al.load("multi-color-sum", image_size=36, weight_seed=1, redundant_strength=strength)
        for name in (EXACT, noise):
            expected = al.metrics.sds(env.model, *asked, maps[name], replacement=replacement)
            assert scores.score[protocol, name, 1] == expected.item()
    parts = al.metrics.sds(
        *(setting.env.model, *asked, maps[noise]),
        patches=(sample.patches - 1)[None, None],
        replacement=setting.env.baseline,
    )
    assert scores.score[PARTS, noise, 1] == parts.item()
    black = al.metrics.ids(setting.env.softmax_model, *asked, maps[noise], replacement=0.0, steps=8)
    assert scores.score[IDS, noise, 1] == black.item()
    speckled = (filling[SPECKLED] == 0).double().mean()
    # 1,296 draws with probability 1/2: six standard deviations.
    assert abs(float(speckled) - 0.5) < 6 * 0.5 / 36


def test_every_map_has_a_score_by_every_protocol_but_updated_ids(found):
    table = found[0].groupby("protocol").score.apply(lambda each: each.notna().all())
    assert set(table.index[table]) == {
        *(IDSDS, SDS, RANDOM, BLURRED, PARTS, IDS, ALIGNED_IDS),
        *(dosed(strength) for strength in STRENGTHS),
    }
    updated = found[0][found[0].protocol == UPDATED_IDS].dropna(subset="score")
    assert set(updated.method) == set(UPDATED)
    names, convolutional = set(found[0].method), set(PANEL) - set(ATTENDED)
    assert names > convolutional
    assert len(names) > len(convolutional) + 12


def test_updating_the_truth_leaves_its_order_of_a_sum_alone(scores):
    """What pixels contribute to a logit does not depend on which others are there."""
    aligned, updated = (scores.score[each, MASK] for each in (ALIGNED_IDS, UPDATED_IDS))
    # Probabilities in float32: a softmax of four is off by a few units of 2^-24.
    assert updated.tolist() == pytest.approx(aligned.tolist(), abs=2**-20)


def test_constant_maps_score_nothing(found):
    table = found[0]
    assert table[table.constant.astype(bool)].score.eq(0).all()
    assert table.constant.any()
    assert not table[table.method == EXACT].constant.any()
