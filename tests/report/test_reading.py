"""What a document says in sentences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import page_cases as cases
from attributionlab.report.reading import bounds_text, labels, listed, score_text, sentences


def plain(text):
    return text.replace("\N{NO-BREAK SPACE}", " ")


def test_all_environments_of_one_kind_are_counted_not_named():
    invalid = cases.whole(*(cases.environment(name, "invalid", 0.6) for name in "ab"))
    assert sentences(invalid)[0] == "The method could not be judged in any of the 2 environments."
    first, second = sentences(cases.DOCUMENTS["pass"]())
    assert first == "The method passes in all 3 environments."
    assert plain(second) == (
        "Its lowest score, that in multi-color-sum-distractors, is F1 0.93; its 95 % interval, "
        "0.88 to 0.98, lies wholly at or above gamma = 0.5."
    )


def test_an_open_verdict_says_how_many_images_would_close_it():
    first, second, third = sentences(cases.DOCUMENTS["inconclusive"]())
    assert first == "The method is undecided in multi-color-sum-distractors."
    assert plain(second).startswith(
        "It scores F1 0.49; its 95 % interval, 0.44 to 0.54, lies on both"
    )
    assert third == "About 140 images would decide multi-color-sum-distractors; 32 were used."


@pytest.mark.parametrize(
    ("spread", "said"),
    [
        (0.05, "place would stay undecided with any number of images like these."),
        (None, "In place a part of the claim applies to fewer than two images; take 8 or more."),
    ],
)
def test_where_no_number_of_images_is_known_the_reason_is_said(spread, said):
    result = cases.environment("place", "inconclusive", 0.5, spread=spread, images_to_decide=None)
    assert sentences(cases.whole(result))[-1] == said


def test_without_an_interval_the_mean_alone_is_held_against_gamma():
    for f1, side in ((0.5, "at least"), (0.4, "below")):
        result = cases.environment("place", "inconclusive", f1, spread=None)
        said = plain(sentences(cases.whole(result))[1])
        assert said.startswith(f"It scores F1 {f1:.2f}, {side} gamma = 0.5, without an interval")


def test_an_interval_that_ends_below_gamma_lies_wholly_below_and_one_that_begins_at_it_does_not():
    for interval, said in (
        ([0.3, 0.4999], "wholly below"),
        ([0.5, 0.6], "wholly at or above"),
        ([0.4, 0.5], "on both sides of"),
    ):
        result = cases.environment("place", "fail", 0.5, claim_ci=interval)
        assert f"lies {said} gamma" in plain(sentences(cases.whole(result))[1])


def test_the_environment_with_the_lowest_score_is_named_as_elsewhere_on_the_page():
    document = cases.nine()
    document["environments"][3]["claim_f1"] = document["least"]["claim_f1"] = 0.2
    document["least"]["environment"] = document["environments"][3]["name"]
    assert "that in multi-color-sum (33333333), is F1 0.20" in sentences(document)[1]
    assert len(set(labels(document["environments"]))) == 9


def test_no_more_digits_are_printed_than_that_takes():
    assert [score_text(0.49961234, gamma) for gamma in (0.3, 0.5)] == ["0.50", "0.4996"]


@given(value=st.floats(0, 1), gamma=st.floats(0.01, 1))
def test_a_printed_score_lies_on_its_own_side_of_gamma(value, gamma):
    printed = float(score_text(value, gamma))
    assert (printed >= gamma) == (value >= gamma)
    assert abs(printed - value) <= 0.005 + 1e-12  # half of the last of two digits


@pytest.mark.parametrize(
    ("interval", "said"),
    [
        ([0.0, 0.3], "fails above gamma = 0.30, is inconclusive elsewhere"),
        ([0.7, 1.0], "passes up to gamma = 0.70, is inconclusive elsewhere"),
        ([1.0, 1.0], "passes up to gamma = 1.00"),
        ([0.0, 0.0], "fails above gamma = 0.00"),
        ([0.4, 0.4], "passes up to gamma = 0.40, fails above 0.40"),
    ],
)
def test_gammas_are_said_to_give_the_verdicts_that_an_interval_gives_them(interval, said):
    assert bounds_text(interval, 0.5) == said


def test_words_are_joined_as_in_a_sentence():
    assert [listed(list("abc")[:count]) for count in range(4)] == ["", "a", "a and b", "a, b and c"]
