"""Whatever a metric does when it is called is a result of the checks, never a crash."""

import itertools
import json
import os
import random
import signal
import time

import numpy as np
import pandas as pd
import pytest
import torch

import attributionlab as al
from attributionlab import AttributionLabError, check_metric
from attributionlab.metrics import metric
from attributionlab.verdicts.metric_kit.run import ALL_CHECKS, CHECKS
from attributionlab.verdicts.metric_kit.subject import Subject


def found(function, *only):
    report = check_metric(function, higher_is_better=True, only=only or None, time_limit=None)
    return {row.id: (row.status, row.found) for row in report.checks}


BLOCKING = {"one-number", "repeatable", "arguments-kept", "model-kept"}


def wrong(check):
    """How a check ends that finds something: only errors of the code keep it from its trial."""
    return "fault" if check in BLOCKING else "note"


def test_only_errors_of_the_code_are_faults():
    assert {name for name, check in ALL_CHECKS.items() if check.blocks} == BLOCKING


def raises(attributions):
    raise ZeroDivisionError("no maps")


def one_too_few(attributions):
    return attributions.sum((1, 2, 3))[1:]


def a_text(attributions):
    return "good"


def nothing(attributions):
    return None


def not_a_number(attributions):
    return attributions.sum((1, 2, 3)) * float("nan")


def infinite(attributions):
    return attributions.sum((1, 2, 3)) / 0


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (raises, "raised ZeroDivisionError: no maps (test_check_metric.py, line "),
        (one_too_few, "one_too_few returned the shape (3,) for 4 attributions: return one number"),
        (a_text, "a_text returned str"),
        (nothing, "for 4 attributions"),
        (infinite, "infinite returned "),
    ],
)
def test_what_is_no_score_is_the_first_fault_and_nothing_else_is_asked(function, said):
    results = found(function)
    status, text = results.pop("one-number")
    assert (status, text[: len(said)]) == ("fault", said) or (status == "fault" and said in text)
    assert set(results.values()) == {("not applicable", "not asked: one-number found no number")}


def test_scores_of_nan_are_no_error_of_the_code():
    results = found(not_a_number)
    assert results.pop("one-number") == ("note", "nan, nan, nan ...")
    assert {status for status, _ in results.values()} == {"not applicable"}


def changes_maps(model, images, targets, attributions):
    attributions.zero_()
    return images.sum((1, 2, 3))


def changes_images(model, images, targets, attributions):
    images += 1
    return attributions.sum((1, 2, 3))


def trains(model, images, targets, attributions):
    model.train()
    model[1].weight.data += 1
    return attributions.sum((1, 2, 3))


def goes_back(model, images, targets, attributions):
    model(images.requires_grad_()).sum().backward()
    return attributions.sum((1, 2, 3))


def switches_gradients_off(attributions):
    torch.set_grad_enabled(False)
    return attributions.sum((1, 2, 3))


def computes_in_long_numbers(attributions):
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(torch.get_num_threads() + 1)
    return attributions.sum((1, 2, 3))


def walks_away(attributions):
    os.chdir(os.sep)
    return attributions.sum((1, 2, 3))


@pytest.mark.parametrize(
    ("function", "check", "said"),
    [
        (changes_maps, "arguments-kept", "changed: attributions"),
        (changes_images, "arguments-kept", "changed: images"),
        (trains, "model-kept", "changed: training mode, weights"),
        (goes_back, "gradients-left", "images, 1.weight, 1.bias"),
        (switches_gradients_off, "modes-kept", "changed: grad mode"),
        (computes_in_long_numbers, "modes-kept", "changed: default dtype, threads"),
        (walks_away, "modes-kept", "changed: working directory"),
    ],
)
def test_what_a_call_leaves_behind_is_found(function, check, said):
    assert found(function, check) == {check: (wrong(check), said)}


SEEN = []
KEEPS = {
    "tensors": lambda images: SEEN.append(images),
    "their memory": lambda images: SEEN.append(images.detach()),
    "copies": lambda images: SEEN.append(images.clone()),
    "arrays of their memory": lambda images: SEEN.append(images.numpy()),
    "a cycle": lambda images: SEEN.append([SEEN, images[0]]),
}


@pytest.mark.parametrize("what", KEEPS)
def test_what_is_kept_of_every_call_is_found(what):
    def keeps(model, images, targets, attributions):
        KEEPS[what](images)
        return attributions.sum((1, 2, 3))

    try:
        status, said = found(keeps, "memory-kept")["memory-kept"]
    finally:
        SEEN.clear()
    assert status == "note"
    assert int(said.split()[0].replace(",", "")) >= 256  # a float32 image of 8 x 8 pixels


def test_what_is_kept_of_the_last_call_only_is_no_growth():
    def remembers(model, images, targets, attributions):
        SEEN[:] = [images]
        return attributions.sum((1, 2, 3))

    try:
        assert found(remembers, "memory-kept")["memory-kept"][0] == "pass"
    finally:
        SEEN.clear()


DRAWS = {
    "random": random.random,
    "numpy.random": lambda: np.random.rand(),
    "torch": lambda: torch.rand(1).item(),
}


@pytest.mark.parametrize("source", DRAWS)
def test_a_draw_from_any_global_state_is_found_and_ours_is_as_before(source):
    def draws(attributions):
        return attributions.sum((1, 2, 3)) + DRAWS[source]()

    before = random.getstate(), np.random.get_state()[1].tobytes(), torch.get_rng_state().tolist()
    results = found(draws, "repeatable", "global-seed", "random-states-kept")
    after = random.getstate(), np.random.get_state()[1].tobytes(), torch.get_rng_state().tolist()
    assert results["repeatable"][0] == "pass"
    assert results["global-seed"][0] == "note"
    assert results["random-states-kept"] == ("note", f"changed: {source}")
    assert before == after


def test_a_generator_of_its_own_is_no_fault():
    def draws(attributions):
        return attributions.sum((1, 2, 3)) + np.random.default_rng(0).random()

    checks = "repeatable", "global-seed", "random-states-kept"
    assert {status for status, _ in found(draws, *checks).values()} == {"pass"}


CALLS = itertools.count()


def counts_its_calls(attributions):
    return attributions.sum((1, 2, 3)) + 100 * next(CALLS)


def by_place_in_the_batch(attributions):
    return attributions.sum((1, 2, 3)) * torch.arange(1, len(attributions) + 1)


def total(attributions):
    return attributions.sum((1, 2, 3))


def little(attributions):
    return -total(attributions)


def even(attributions):
    return -attributions.flatten(1).std(1)


def like_the_image(model, images, targets, attributions):
    return torch.cosine_similarity(attributions.flatten(1), images.flatten(1))


def turns_at(threshold):
    def turns(model, images, targets, attributions):
        outputs = model(images).gather(1, targets[:, None])[:, 0]
        return total(attributions) * (outputs - threshold).sign()

    return turns


def by_the_weights_of_a_linear_layer(model, images, targets, attributions):
    values = model[1].weight[targets] * images.flatten(1)
    return torch.cosine_similarity(attributions.flatten(1), values)


WRONG = {
    "repeatable": counts_its_calls,
    "batch-order": by_place_in_the_batch,
    "counting": by_the_weights_of_a_linear_layer,
    "conjunction": by_the_weights_of_a_linear_layer,
    "best": total,
    "corruption": like_the_image,
    "extremes": total,
    "added": total,
    "missing": little,
    "constant-map": even,
    "intensity": like_the_image,
    "target": like_the_image,
    "network": like_the_image,
    "output-scale": turns_at(100),
    "output-constant": turns_at(30),
}


@pytest.mark.parametrize("check", WRONG)
def test_each_check_finds_what_is_wrong_and_nothing_where_nothing_is(check):
    assert found(WRONG[check], check)[check][0] == wrong(check)
    [row] = check_metric("cosine", only=[check], time_limit=None).checks
    assert row.status == "pass"


def test_every_check_has_a_metric_that_it_finds_wrong():
    elsewhere = {"one-number", "arguments-kept", "model-kept", "global-seed", "random-states-kept"}
    elsewhere |= {"gradients-left", "modes-kept", "memory-kept"}
    elsewhere |= {"nan-map", "zero-map", "float64", "scale", "shift", "relabelled"}
    twins = {"batch-size", "sign", "order", "chance", "rounding", "replacement", "relabelled-ties"}
    elsewhere |= {"own-softmax"}  # test_takes.py
    assert set(CHECKS) - {"cuda"} == elsewhere | twins | WRONG.keys()


def test_a_nan_that_is_scored_as_a_number_is_found():
    def forgives(attributions):
        return attributions.nan_to_num().sum((1, 2, 3))

    assert found(forgives, "nan-map")["nan-map"][0] == "note"
    assert (
        found(lambda attributions: attributions.sum((1, 2, 3)), "nan-map")["nan-map"][0] == "pass"
    )
    spreads = found(
        lambda attributions: attributions.sum() + attributions.sum((1, 2, 3)), "nan-map"
    )
    assert spreads["nan-map"] == ("note", "NaN in other places")


def test_a_map_of_nothing_is_not_the_best():
    def emptiness(attributions):
        return -attributions.abs().sum((1, 2, 3))

    results = found(emptiness, "zero-map", "constant-map")
    assert results["zero-map"] == ("note", "0 ..., better than exact")


def test_an_image_of_another_type_is_found_where_it_matters():
    def by_type(attributions):
        return attributions.sum((1, 2, 3)) + (attributions.dtype == torch.float64)

    assert found(by_type, "float64")["float64"][0] == "note"


def test_declared_invariances_are_held_against_the_scores():
    @al.metrics.metric(higher_is_better=True, per_sample=True, invariances=("scale",))
    def declares_wrongly(attributions):
        return attributions.sum((1, 2, 3))

    report = check_metric(declares_wrongly, only=["scale", "shift"], time_limit=None)
    assert [row.status for row in report.checks] == ["note", "not applicable"]
    declares_wrongly.invariances = ("shift",)
    report = check_metric(declares_wrongly, only=["scale", "shift"], time_limit=None)
    assert [row.status for row in report.checks] == ["not applicable", "note"]


def test_what_takes_the_truth_is_about_places_unless_it_says_otherwise():
    def covered(attributions, *, truth):
        return torch.cosine_similarity(attributions.flatten(1).clamp(min=0), truth.flatten(1))

    assert found(covered, "chance")["chance"][0] == "by declaration"
    assert found(covered, "one-number")["one-number"] == ("pass", "1, 1, 1 ...")


def test_random_maps_are_as_large_as_exact_ones_and_say_nothing_in_sum():
    subject = Subject("infidelity", None, 0)
    for lab in subject.labs:
        exact, noise = subject.exact(lab), subject.noise(lab, 3)
        # 64 float32 numbers of a size of about 10.
        torch.testing.assert_close(noise.sum((1, 2, 3)), torch.zeros(4), atol=1e-3, rtol=0)
        assert 0.7 < float(noise.square().mean() / exact.square().mean()) < 1.4


def test_where_pixels_lie_is_found_unless_it_is_declared():
    def upper_half(attributions):
        return attributions[:, :, :4].sum((1, 2, 3))

    status, text = found(upper_half, "relabelled")["relabelled"]
    assert status == "note"
    assert 'declare sampled=True or neighbors="patches"' in text
    upper_half.neighbors = "patches"
    assert found(upper_half, "relabelled")["relabelled"][0] == "by declaration"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"metric": "insertions"}, "no metric named 'insertions': did you mean 'insertion'"),
        ({"metric": 3}, "metric is 3: pass a name or a function"),
        (
            {"metric": lambda x_batch, y_batch, model, s_batch, device: 0},
            "write it as .model, images",
        ),
        ({"metric": total, "higher_is_better": None}, "does not say which direction is better"),
        ({"metric": total, "only": ["oder"]}, "no check 'oder': did you mean 'order'"),
        ({"metric": total, "seed": -1, "time_limit": 0}, "seed is -1.*; time_limit is 0"),
        ({"metric": total, "seed": 2**54, "time_limit": 1e30}, f"to {2**53}; time_limit is 1e"),
        ({"metric": total, "only": "order"}, "only is 'order': give a list"),
        ({"metric": total, "only": []}, "only is .*: give a list"),
        ({"metric": total, "only": [["order"]]}, r"no check \['order'\]"),
        ({"metric": total, "higher_is_better": "yes"}, "is 'yes': take True or False"),
        ({"metric": "max_sensitivity"}, "did you mean 'max-sensitivity'"),
        ({"metric": lambda attributions, *, baseline: 0}, "any of information, .*, values"),
        (
            {"metric": lambda net, images, attribute: 0},
            r"takes \(net, images, attribute\) .*write it as \(model, images, targets, attribute\)",
        ),
        (
            {"metric": lambda attributions, others, background: 0},
            r"missing a required argument: 'background'\): write it as \(attributions, others, ",
        ),
        ({"metric": "sufficiency", "higher_is_better": None}, "sufficiency cannot be tested"),
        (
            {"metric": "top-rank-agreement", "higher_is_better": None, "only": ["order"]},
            "only names 'order', and top-rank-agreement compares the maps of two methods",
        ),
        (
            {"metric": "random-logit", "higher_is_better": None, "only": ["order"]},
            "only names 'order', and random-logit judges methods",
        ),
        ({"metric": total, "only": ["varied"]}, "only names 'varied', and total scores maps"),
    ],
)
def test_what_cannot_be_checked_is_refused(arguments, message):
    options = {"higher_is_better": None if isinstance(arguments["metric"], str) else True}
    with pytest.raises(AttributionLabError, match=message):
        check_metric(**(options | arguments))


@pytest.mark.long
def test_an_invariance_is_suggested_only_where_scores_are_alike():
    def of_the_answer(model, images, targets, attributions):
        """Of the class that wins, not of the target: better for some, worse for others."""
        winners = model(images).argmax(1)
        gradients = torch.autograd.functional.jacobian(
            lambda x: model(x).gather(1, winners[:, None]).sum(), images
        )
        return (gradients * images * attributions).sum((1, 2, 3))

    report = check_metric(of_the_answer, higher_is_better=True, time_limit=None)
    mixed = [row for row in report.findings if "better on" in row.found]
    assert mixed
    for row in mixed:
        assert ("invariances" in row.found) == (
            "better on 0, worse on 0" in row.found and "invariances" in CHECKS[row.id].declared
        )


@pytest.mark.long
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

    assert "nothing shows" in check_metric(blind, time_limit=None).title
    assert "nothing shows" not in check_metric("deletion", only=["order"], time_limit=None).title
    assert (
        "nothing shows" not in check_metric("deletion", only=["one-number"], time_limit=None).title
    )


def test_what_cannot_be_sent_to_another_process_is_refused_with_a_remedy():
    class Fixed:
        def __call__(self, attributions):
            return attributions.sum((1, 2, 3))

        def __reduce__(self):
            raise TypeError("never")

    with pytest.raises(
        AttributionLabError, match=r"another process \(TypeError: never\): pass time"
    ):
        check_metric(Fixed(), higher_is_better=True)


def test_each_row_has_a_line_that_repeats_it():
    report = check_metric("cosine", only=["scale", "order"], time_limit=None)
    assert list(report.to_frame()) == ["id", "status", "expected", "found", "asks", "snippet"]
    again = eval(report.checks[1].snippet, {"al": al})
    assert again.checks == report.checks[1:]
    report = check_metric(total, higher_is_better=True, only=["scale"], time_limit=None)
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
    with pytest.raises(AttributionLabError, match="is a folder"):
        report.to_json(tmp_path)


def never_returns(attributions):
    time.sleep(1000)


def kills_the_process(attributions):
    os.kill(os.getpid(), signal.SIGKILL)


def ends_the_process(attributions):
    os._exit(3)


def hangs_on_constants(attributions):
    if attributions.std() == 0:
        time.sleep(1000)
    return attributions.sum((1, 2, 3))


@pytest.mark.long
def test_a_metric_that_never_returns_is_killed_after_its_time():
    start = time.monotonic()
    report = check_metric(never_returns, higher_is_better=True, time_limit=3)
    assert [row.found for row in report.findings] == ["it took longer than 3 s"]
    assert len(report.checks) == len(CHECKS)
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
def test_a_metric_that_ends_its_process_is_a_fault():
    report = check_metric(ends_the_process, higher_is_better=True)
    assert "os._exit(3) would end the whole process" in report.findings[0].found
    report = check_metric(kills_the_process, higher_is_better=True)
    assert "its process died" in report.findings[0].found


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
        return attributions.sum((1, 2, 3))

    def ids(function, size):
        report = check_metric(
            function, higher_is_better=True, image_size=size, only=sorted(BLOCKING), time_limit=None
        )
        return {row.id for row in report.faults}

    assert "one-number" in ids(of_large_patches, 8)
    assert not ids(of_large_patches, 12)
    assert not ids(good_at_eight, 8)
    assert ids(good_at_eight, 12) == {"arguments-kept"}
    with pytest.raises(AttributionLabError, match="image_size is 7"):
        check_metric(good_at_eight, higher_is_better=True, image_size=7)
