"""What a count of solved questions says beside the controls on the same questions."""

import pytest

from attributionlab.base import Interval, Tally
from attributionlab.verdicts import CONTROLS
from attributionlab.verdicts.controls import BLIND
from attributionlab.verdicts.faithfulness.verdicts import ClaimScore, control_score

HIDDEN = {"roles": 6, "target": 4, "color": 6}


def claim_score(solved=31, mean=0.9, environments=1, claim="signed", hidden=HIDDEN, **controls):
    """Of 32 questions; every control but the oracle solves none, unless it is said."""
    counts = dict.fromkeys(CONTROLS, 0) | {"oracle": 32} | controls
    made = {
        name.replace("_", "-"): control_score(
            name.replace("_", "-"), claim, 0.5, Tally(solved, 32), hidden
        )
        for name, solved in counts.items()
    }
    return ClaimScore(
        count=Tally(solved, 32),
        claim_f1=mean,
        claim_interval=Interval(0.8, 1.0),
        controls=made,
        environments=environments,
    )


@pytest.mark.parametrize(
    ("solved", "verdict"),
    [(32, "pass"), (30, "pass"), (29, "inconclusive"), (19, "inconclusive"), (18, "fail")],
)
def test_the_verdict_is_that_of_the_count_where_the_controls_are_right(solved, verdict):
    # 3/4 gives 18 or fewer of 32 in 1.5 %, 19 or fewer in 3.4 %.
    assert claim_score(solved).verdict == verdict
    assert claim_score(solved).reason == ""


def test_several_environments_share_the_chance_to_fail_and_none_to_pass():
    assert [claim_score(18, environments=k).verdict for k in (1, 4)] == ["fail", "inconclusive"]
    assert claim_score(30, environments=100).verdict == "pass"


def test_the_mean_decides_nothing_and_is_held_against_the_papers_criterion():
    assert claim_score(31, mean=0.1).verdict == "pass"
    assert claim_score(3, mean=0.99).verdict == "fail"
    assert [claim_score(mean=mean).reaches_gamma for mean in (0.49, 0.5)] == [False, True]


def test_an_oracle_that_misses_one_question_contradicts():
    broken = claim_score(oracle=31)
    assert broken.verdict == "invalid"
    assert "the oracle solves 31 of 32 questions and must solve all" in broken.reason


def test_an_oracle_that_solves_all_of_few_questions_does_what_it_must():
    for solved, passes in ((2, True), (1, False)):
        oracle = control_score("oracle", "signed", 0.9, Tally(solved, 2), HIDDEN)
        assert oracle.passes == passes
    assert not control_score("random", "signed", 0.9, Tally(2, 2), HIDDEN).passes


@pytest.mark.parametrize("name", ["random", "constant", "inverted-oracle"])
def test_a_control_that_must_fail_may_solve_some_but_not_pass(name):
    assert claim_score(**{name: 29}).verdict == "pass"
    passing = claim_score(**{name: 30})
    assert passing.verdict == "invalid"
    assert f"the control {name}, which must fail, solves 30 of 32 questions" in passing.reason


def test_a_negated_map_may_pass_where_signs_do_not_count():
    assert claim_score(**{"inverted-oracle": 32}, claim="overall").verdict == "pass"


@pytest.mark.parametrize(("name", "thing"), BLIND.items())
def test_a_blind_control_must_fail_where_the_environment_hides_what_it_does_not_see(name, thing):
    assert claim_score(**{name: 32}, hidden={thing: 2}).verdict == "invalid"
    others = {other: 2 for other in ("roles", "target") if other != thing}
    assert claim_score(**{name: 32}, hidden=others).verdict == "pass"
    assert claim_score(**{name: 32}, hidden={}).verdict == "pass"


def test_what_a_control_must_do_depends_on_its_name():
    must = {name: control_score(name, "signed", 0.3, Tally(1, 32), {}).must for name in CONTROLS}
    named = {"oracle": "pass", **dict.fromkeys(("random", "constant", "inverted-oracle"), "fail")}
    assert must == dict.fromkeys(CONTROLS) | named


def test_a_control_is_written_with_its_count():
    written = control_score("sobel", "signed", None, Tally(3, 32), HIDDEN).to_dict()
    counted = {"solved": 3, "asked": 32, "passes": False}
    assert written == {"claim_f1": None, **counted, "must": None}
