"""Findings are collected by a test, and become warnings for everybody else."""

import warnings

import pytest
import torch

from attributionlab import GuardWarning, methods
from attributionlab.methods import Notice, collect_notices, notify, summarized


def test_without_a_listener_a_finding_warns():
    with pytest.warns(GuardWarning, match="attributions of 3 images are odd, by up to 25%"):
        notify(Notice("are odd, by up to {worst}", 3, worst=0.25))


def test_a_finding_about_no_image_says_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        notify(Notice("are odd", 0, gaps=(0.1,)))


def test_a_listener_hears_instead_of_warning_and_only_inside():
    with collect_notices() as findings:
        notify(Notice("are odd", 1))
        notify(Notice("are even", 0, gaps=(0.5,)))
    assert [finding.text for finding in findings] == ["are odd", "are even"]
    with pytest.warns(GuardWarning):
        notify(Notice("are odd", 1))
    assert len(findings) == 2


def test_the_inner_of_two_listeners_hears():
    with collect_notices() as outer, collect_notices() as inner:
        notify(Notice("are odd", 1))
    assert (len(outer), len(inner)) == (0, 1)


def test_one_sentence_for_each_kind_with_the_sum_of_images_and_the_worst_value():
    findings = [
        Notice("miss {worst}", 2, worst=0.1),
        Notice("are odd", 1),
        Notice("miss {worst}", 3, worst=0.4),
        Notice("miss {worst}", 0, worst=0.2),
        Notice("are fine", 0),
    ]
    assert summarized(findings) == [
        "attributions of 5 images miss 40%",
        "attributions of 1 image are odd",
    ]


def test_braces_in_a_text_are_left_alone():
    assert summarized([Notice("need {'a': 1}", 1)]) == ["attributions of 1 image need {'a': 1}"]


def test_label_maps_are_handed_on_and_never_said():
    labels = torch.zeros(2, 3, 4, dtype=torch.int64)
    with collect_notices() as findings:
        notify(Notice("are odd", 2, regions=labels))
    assert findings[0].regions is labels
    assert findings == [Notice("are odd", 2)]  # what is said is the same
    assert summarized(findings) == ["attributions of 2 images are odd"]
    assert Notice("are odd", 2).regions is None


def test_findings_say_their_kind_and_none_needs_one():
    assert Notice("are odd", 1).kind == ""
    assert Notice("are odd", 1, kind="zeros").kind == "zeros"


def test_a_warning_names_the_line_that_called_the_method():
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 1))  # without a ReLU
    given = model, torch.ones(1, 1, 2, 2), torch.tensor([0])
    for method in (methods.guided_backprop, methods.absolute(methods.guided_backprop)):
        with pytest.warns(GuardWarning, match="the network has no ReLU") as warned:
            method(*given)
        assert [each.filename for each in warned] == [__file__]
