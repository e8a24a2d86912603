"""The check of a metric: what it refuses, its report, and processes of their own."""

import json
import os
import signal
import time
from dataclasses import replace
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attributionlab import AttributionLabError, check_metric
from attributionlab.metrics import metric
from attributionlab.verdicts import as_metric
from attributionlab.verdicts.metric_trials.asking import Counted, Examined, counted, linear
from attributionlab.verdicts.metric_trials.check import checks_of


def total(attributions):
    return attributions.sum((1, 2, 3))


def test_random_maps_are_as_large_as_exact_ones_and_say_nothing_in_sum():
    subject = Examined(as_metric("infidelity"), 0)
    for lab in subject.labs:
        exact, noise = subject.exact(lab), subject.noise(lab, 3)
        # 64 float32 numbers of a size of about 10.
        torch.testing.assert_close(noise.sum((1, 2, 3)), torch.zeros(4), atol=1e-3, rtol=0)
        assert 0.7 < float(noise.square().mean() / exact.square().mean()) < 1.4


@pytest.mark.parametrize(
    ("tested", "options", "message"),
    [
        ("max_sensitivity", {}, "did you mean 'max-sensitivity'"),
        (lambda x_batch, y_batch, model, s_batch, device: 0, {}, "write it as .model, images"),
        (total, {"higher_is_better": None}, "does not say which direction is better"),
        (total, {"only": ["oder"]}, "no check 'oder': did you mean 'order'"),
        (total, {"seed": -1, "time_limit": 0}, "seed is -1.*; time_limit is 0"),
        (total, {"seed": 2**54, "time_limit": 1e30}, f"to {2**53}; time_limit is 1e"),
        (total, {"image_size": 7}, "image_size is 7"),
        (total, {"only": "order"}, "only is 'order': pass a list"),
        (total, {"only": []}, "only is empty"),
        (total, {"only": [["order"]]}, r"only\[0\] is \['order'\]: pass a text"),
        (total, {"higher_is_better": "yes"}, "is 'yes': take True or False"),
        (lambda attributions, *, baseline: 0, {}, "any of information, .*, values"),
        (
            lambda net, images, attribute: 0,
            {},
            r"takes \(net, images, attribute\) .*write it as \(model, images, targets, attribute\)",
        ),
        (
            lambda attributions, others, background: 0,
            {},
            r"missing a required argument: 'background'\): write it as \(attributions, others, ",
        ),
        ("sufficiency", {}, "sufficiency cannot be tested"),
        ("top-rank-agreement", {"only": ["order"]}, "'order', and top-rank-agreement compares the"),
        ("random-logit", {"only": ["order"]}, "names 'order', and random-logit judges methods"),
        (total, {"only": ["varied"]}, "only names 'varied', and total scores maps"),
    ],
)
def test_what_cannot_be_checked_is_refused(tested, options, message):
    direction = {"higher_is_better": None if isinstance(tested, str) else True}
    with pytest.raises(AttributionLabError, match=message):
        check_metric(tested, **(direction | options))


def test_whoever_declares_everything_away_is_told_that_nothing_is_shown():
    @metric(
        higher_is_better=True,
        per_sample=True,
        sampled=True,
        neighbors="imputation",
        invariances=("scale", "sign", "added", "missing"),
    )
    def blind(model, images, targets, attributions):
        sizes = images.sum(1, keepdim=True).square()
        return torch.cosine_similarity(attributions.square().flatten(1), sizes.flatten(1))

    titles = [
        check_metric(tested, only=only, time_limit=None).title
        for tested, only in (
            (blind, ["one-number", "order", "network"]),
            ("deletion", ["order"]),
            ("deletion", ["one-number"]),
        )
    ]
    assert ["leave no check" in each for each in titles] == [True, False, False]


class Fixed:
    def __call__(self, attributions):
        return total(attributions)

    def __reduce__(self):
        raise TypeError("never")


def test_what_cannot_be_sent_to_another_process_is_refused_with_a_remedy():
    with pytest.raises(
        AttributionLabError, match=r"another process \(TypeError: never\): pass time"
    ):
        check_metric(Fixed(), higher_is_better=True)


def test_each_row_has_a_line_that_repeats_it():
    import attributionlab as al

    report = check_metric("cosine", only=["scale", "order"], time_limit=None)
    assert list(report.to_frame()) == ["id", "status", "expected", "found", "asks", "snippet"]
    assert eval(report.checks[1].snippet, {"al": al}).checks == report.checks[1:]
    of_logits = {"higher_is_better": True, "takes": "logits", "image_size": 12}
    report = check_metric(total, **of_logits, only=["scale"], time_limit=None)
    again = eval(report.checks[0].snippet, {"al": al, "total": total})
    assert again.checks == report.checks


def test_the_report_is_shown_written_and_safe(tmp_path):
    def mine(attributions):
        raise ValueError("<b>bold</b>\x1b[2J")

    mine.__name__ = "<b>mine</b>\x1b[2J"
    report = check_metric(mine, higher_is_better=True, only=["one-number"], time_limit=None)
    assert not report.passed
    assert report.title == "<b>mine</b>\\x1b[2J: faulty (1 fault)"
    assert "<b>" not in report._repr_html_()
    assert "\x1b" not in repr(report) + report.text() + report._repr_html_()
    report.to_json(tmp_path / "a.json")
    document = json.loads((tmp_path / "a.json").read_text())
    assert document["passed"] is False
    pd.testing.assert_frame_equal(pd.DataFrame(document["checks"]), report.to_frame())


def test_a_function_that_numpy_lacks_is_said_and_never_replaced(monkeypatch):
    monkeypatch.delattr(np, "trapz", raising=False)

    def area(attributions):
        return np.trapz(attributions.flatten(1).numpy())  # noqa: NPY201

    [row] = check_metric(area, higher_is_better=True, only=["one-number"], time_limit=None).findings
    assert row.found.startswith("raised AttributeError: module 'numpy' has no attribute 'trapz'")
    assert "test_check.py" in row.found


def never_returns(attributions):
    time.sleep(1000)


def kills_the_process(attributions):
    os.kill(os.getpid(), signal.SIGKILL)


def ends_the_process(attributions):
    os._exit(3)


def hangs_on_constants(attributions):
    if attributions.std() == 0:
        time.sleep(1000)
    return total(attributions)


@pytest.mark.long
def test_a_metric_that_never_returns_is_killed_after_its_time():
    start = time.monotonic()
    report = check_metric(never_returns, higher_is_better=True, time_limit=3)
    assert [row.found for row in report.findings] == ["it took longer than 3 s"]
    assert len(report.checks) == len(checks_of("attributions"))
    assert time.monotonic() - start < 120  # one limit and one process, not one for each check


@pytest.mark.long
def test_only_the_check_that_takes_too_long_is_lost():
    only = ["one-number", "zero-map", "scale", "shift"]
    report = check_metric(hangs_on_constants, higher_is_better=True, time_limit=5, only=only)
    assert [row.id for row in report.checks] == only
    assert report.checks[1].found == "it took longer than 5 s"
    assert [row.status for row in report.checks][2:] == ["not applicable", "not applicable"]
    assert report.checks[3].found.startswith("the metric does not declare this invariance")


@pytest.mark.long
@pytest.mark.parametrize(
    ("function", "said"),
    [
        (ends_the_process, "os._exit(3) would end the whole process"),
        (kills_the_process, "its process died"),
    ],
)
def test_a_metric_that_ends_its_process_is_a_fault(function, said):
    report = check_metric(function, higher_is_better=True)
    assert said in report.findings[0].found
    assert report.faults


@pytest.mark.long
def test_a_process_of_its_own_finds_what_this_one_finds():
    here = check_metric("cosine", time_limit=None)
    assert check_metric("cosine").checks == here.checks


def test_faults_are_looked_for_at_the_size_of_the_trial():
    def of_large_patches(model, images, targets, attributions):
        return torch.nn.functional.avg_pool2d(attributions, 12).amax((1, 2, 3))

    def good_at_eight(model, images, targets, attributions):
        if images.shape[-1] != 8:
            attributions.zero_()
        return total(attributions)

    for function, size, expected in (
        (of_large_patches, 8, {"one-number"}),
        (of_large_patches, 12, set()),
        (good_at_eight, 8, set()),
        (good_at_eight, 12, {"arguments-kept"}),
    ):
        blocking = ["one-number", "repeatable", "arguments-kept", "model-kept"]
        options = {"image_size": size, "only": blocking, "time_limit": None}
        report = check_metric(function, higher_is_better=True, **options)
        assert {row.id for row in report.faults} == expected


def shapley(lab, image, players):
    """The mean contribution over all orders of the players; the other pixels stay replaced."""
    orders = list(permutations(players))
    canvases = []
    for order in orders:
        canvas = lab.replacement.clone().flatten()
        canvases.append(canvas.clone())
        for pixel in order:
            canvas[pixel] = image.flatten()[pixel]
            canvases.append(canvas.clone())
    with torch.no_grad():
        outputs = lab.model(torch.stack(canvases).view(-1, 1, 8, 8))[:, int(lab.targets[0])]
    steps = outputs.view(len(orders), -1).diff(dim=1)
    values = torch.zeros(64)
    for order, row in zip(orders, steps, strict=True):
        values[list(order)] += row / len(orders)
    return values


@pytest.mark.parametrize("rule", ["count", "conjunction"])
def test_counted_pixels_have_their_shapley_values(rule):
    kinds = torch.zeros(1, 64, dtype=torch.int64)
    kinds[0, [3, 40]], kinds[0, [9, 33]] = 1, 2
    lab = Counted(kinds, rule)
    # Sums of 24 multiples of 1 / 24 in float32.
    found = shapley(lab, lab.images[0], [3, 40, 9, 33])
    torch.testing.assert_close(found, lab.values[0].flatten(), atol=1e-5, rtol=0)


@given(st.lists(st.integers(0, 2), min_size=64, max_size=64))
@settings(max_examples=30, deadline=None)
def test_the_networks_count(pixels):
    ones, twos = pixels.count(1), pixels.count(2)
    for rule, first in (("count", ones), ("conjunction", min(ones, twos))):
        lab = Counted(torch.tensor([pixels]), rule)
        with torch.no_grad():
            assert lab.model(lab.images).tolist() == [[first, twos]]


def test_there_are_as_many_pixels_of_either_kind():
    kinds = counted(0, "conjunction").kinds
    assert ((kinds == 1).sum(1) == 12).all()
    assert ((kinds == 2).sum(1) == 12).all()


@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([0.0, 1.0]), st.integers(0, 1))
@settings(max_examples=20, deadline=None)
def test_a_linear_map_sums_exactly_to_the_change_of_its_output(seed, rising, background, target):
    lab = replace(linear(seed, rising=rising), background=background, target=target)
    with torch.no_grad():
        changes = lab.model(lab.images) - lab.model(lab.replacement[None])
    assert torch.equal(lab.values.sum((1, 2, 3)), changes[:, target])
    assert torch.equal(lab.gradients * (lab.images - background), lab.values)


def test_outputs_rise_from_either_replacement_before_either_network():
    for seed in range(300):  # some of which are drawn again
        lab = linear(seed, rising=True)
        for weights in (lab.weights, lab.weights.flip(1)):
            assert bool((weights @ lab.pixels.T > 0).all())
            assert bool((weights @ (lab.pixels - 1).T > 0).all())


@pytest.mark.parametrize("side", [8, 12, 25])
@pytest.mark.parametrize("rising", [False, True])
def test_each_pixel_changes_the_output_by_its_value_at_any_size(side, rising):
    lab = linear(3, rising=rising, side=side)
    assert lab.images.shape == (4, 1, side, side)
    signs = lab.weights.sign()
    assert (signs > 0).sum(1).tolist() == (signs < 0).sum(1).tolist() == [20 * side**2 // 64] * 2
    before = lab.model(lab.images)[:, 0]
    for place in (0, side * side // 2, side * side - 1):
        without = lab.images.flatten(1)
        without[:, place] = 0
        changed = before - lab.model(without.view_as(lab.images))[:, 0]
        assert changed.tolist() == lab.values.flatten(1)[:, place].tolist()  # exact in float32
