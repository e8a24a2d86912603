"""What a score and the controls beside it say at every gamma."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attributionlab.faithfulness.verdicts import ClaimScore, control_score
from attributionlab.methods.controls import CONTROLS
from attributionlab.stats.intervals import Interval

shares = st.floats(0, 1).map(lambda share: round(share, 3))


def claim_score(mean=0.6, low=0.5, high=0.7, random=0.1, oracle=1.0, best=1.0, claim="signed"):
    scores = dict.fromkeys(CONTROLS, 0.0) | {"oracle": oracle, "random": random}
    controls = {name: control_score(name, claim, f1, 0.5, {}, 0) for name, f1 in scores.items()}
    return ClaimScore(mean, Interval(low, high), controls, best)


@pytest.mark.parametrize(
    ("gamma", "verdict"),
    [
        (0.05, "invalid"),  # random passes
        (0.1, "invalid"),
        (0.11, "pass"),
        (0.5, "pass"),
        (0.51, "inconclusive"),
        (0.7, "inconclusive"),
        (0.71, "fail"),
        (1.0, "fail"),
    ],
)
def test_the_verdict_follows_the_interval_where_the_controls_are_right(gamma, verdict):
    assert claim_score().verdict(gamma) == verdict


def test_the_bands_are_the_verdicts_of_every_gamma():
    assert [tuple(band) for band in claim_score().bands()] == [
        (0.1, "invalid"),
        (0.5, "pass"),
        (0.7, "inconclusive"),
        (1.0, "fail"),
    ]


@given(shares, shares, shares, shares, shares, st.lists(shares, min_size=1))
def test_every_gamma_lies_in_the_band_of_its_verdict(first, second, random, oracle, best, gammas):
    low, high = sorted((first, second))
    made = claim_score((low + high) / 2, low, high, random, oracle, max(oracle, best))
    bands = made.bands()
    assert bands[-1].up_to == 1
    assert all(
        before.up_to < after.up_to and before.verdict != after.verdict
        for before, after in itertools.pairwise(bands)
    )
    for gamma in [each for each in gammas if each > 0]:
        band = next(band for band in bands if gamma <= band.up_to)
        assert made.verdict(gamma) == band.verdict


def test_above_what_the_best_map_reaches_there_is_no_verdict():
    smoothed = claim_score(0.6, 0.5, 0.65, oracle=0.7, best=0.7)
    assert "even the best possible map scores 0.70" in smoothed.reason(0.8)
    assert smoothed.verdict(0.7) == "fail"
    assert smoothed.bands()[-1] == (1.0, "invalid")


def test_no_score_in_a_reason_is_rounded_across_gamma():
    assert "map scores 0.7996, below gamma 0.8:" in claim_score(oracle=0.7996, best=0.7996).reason(
        0.8
    )
    assert "random, which must fail, scores 0.504: gamma 0.504" in claim_score(random=0.504).reason(
        0.504
    )


def test_an_oracle_below_the_best_map_contradicts_at_every_gamma():
    broken = claim_score(oracle=0.9)
    assert [tuple(band) for band in broken.bands()] == [(1.0, "invalid")]
    assert "contradict each other" in broken.reason(0.5)
    # The tolerance is that of maps in float32.
    assert claim_score(oracle=1 - 5e-7).reason(0.5) == ""


def test_what_a_control_must_do_depends_on_the_claim():
    must = {name: control_score(name, "signed", 0.3, 0.5, {}, 0).must for name in CONTROLS}
    named = {"oracle": "pass", **dict.fromkeys(("random", "constant", "inverted-oracle"), "fail")}
    assert must == dict.fromkeys(CONTROLS) | named
    assert control_score("inverted-oracle", "overall", 1.0, 0.5, {}, 0) == (1.0, True, None, None)


def test_a_blind_control_must_fail_where_its_ceiling_lies_below_gamma_but_for_luck():
    ceilings = {"without-network": 0.38, "without-target": 0.9}
    asked = ("signed", 0.7, 0.5, ceilings)
    assert control_score("wrong-network", *asked, 1000).must == "fail"
    assert control_score("wrong-network", *asked, 1).must is None
    assert control_score("wrong-target", *asked, 1000).must is None


def test_without_an_interval_only_the_controls_decide():
    single = ClaimScore(0.9, None, claim_score().controls, 1.0)
    assert single.verdict(0.5) == "inconclusive"
    assert single.verdict(np.nextafter(0.1, 0)) == "invalid"
