"""Each check finds the wrong twin of a right metric that is meant for it, and none in the right one."""

import itertools
import os
import random

import numpy as np
import pytest
import torch
from torch import cosine_similarity

from attributionlab.verdicts.metric_trials.check import ALL_CHECKS, checks_of
from attributionlab.verdicts.metric_trials.registry import METRICS, SHORT_NAMES
from trials import faults, found

BLOCKING = {"one-number", "repeatable", "arguments-kept", "model-kept"}


def test_only_errors_of_the_code_are_faults():
    assert {name for name, check in ALL_CHECKS.items() if check.blocks} == BLOCKING


def total(attributions):
    return attributions.sum((1, 2, 3))


def like_the_image(model, images, targets, attributions):
    return cosine_similarity(attributions.flatten(1), images.flatten(1))


def by_the_weights_of_a_linear_layer(model, images, targets, attributions):
    return cosine_similarity(attributions.flatten(1), model[1].weight[targets] * images.flatten(1))


def turns_at(threshold):
    def turns(model, images, targets, attributions):
        outputs = model(images).gather(1, targets[:, None])[:, 0]
        return total(attributions) * (outputs - threshold).sign()

    return turns


def changes_images(model, images, targets, attributions):
    images += 1
    return total(attributions)


def trains(model, images, targets, attributions):
    model.train()
    model[1].weight.data += 1
    return total(attributions)


def goes_back(model, images, targets, attributions):
    model(images.requires_grad_()).sum().backward()
    return total(attributions)


def then(act):
    """A metric that does something and scores by the sum."""

    def acts(attributions):
        act(attributions)
        return total(attributions)

    return acts


def computes_in_long_numbers(_):
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(torch.get_num_threads() + 1)


CALLS = itertools.count()
OF_MAPS = {
    "one-number": (lambda a: total(a)[1:], "returned the shape (3,) for 4 attributions"),
    "repeatable": (lambda a: total(a) + 100 * next(CALLS), "differ by up to 100"),
    "arguments-kept": (changes_images, "changed: images"),
    "model-kept": (trains, "changed: training mode, weights"),
    "gradients-left": (goes_back, "images, 1.weight, 1.bias"),
    "modes-kept": (then(computes_in_long_numbers), "changed: default dtype, threads"),
    "batch-order": (lambda a: total(a) * torch.arange(1, len(a) + 1), "differ by"),
    "float64": (lambda a: total(a) + (a.dtype == torch.float64), "differ by up to 1"),
    "nan-map": (lambda a: total(a.nan_to_num()), "for this image"),
    "zero-map": (lambda a: -a.abs().sum((1, 2, 3)), "0 ..., better than exact"),
    "constant-map": (lambda a: -a.flatten(1).std(1), "better than exact"),
    "relabelled": (lambda a: total(a[:, :, :4]), 'declare sampled=True or neighbors="patches"'),
    "counting": (by_the_weights_of_a_linear_layer, "raised"),
    "conjunction": (by_the_weights_of_a_linear_layer, "raised"),
    "best": (total, "above it"),
    "corruption": (like_the_image, ""),
    "extremes": (total, ""),
    "added": (total, ""),
    "missing": (lambda a: -total(a), ""),
    "intensity": (like_the_image, ""),
    "target": (like_the_image, ""),
    "network": (like_the_image, ""),
    "output-scale": (turns_at(100), "pairs turned"),
    "output-constant": (turns_at(30), "pairs turned"),
}


@pytest.mark.parametrize("check", OF_MAPS)
def test_each_check_finds_what_is_wrong_and_nothing_where_nothing_is(check):
    function, said = OF_MAPS[check]
    status, text = found(function, check)[check]
    assert status == ("fault" if check in BLOCKING else "note")
    assert said in text
    assert found("cosine", check)[check][0] == "pass"


def outputs_along(model, image, target, order, replacement):
    """The naive curve: the output after each number of removed pixels, one forward pass for all."""
    canvases = [image.clone()]
    for pixel in order:
        canvases.append(canvases[-1].clone())
        canvases[-1].flatten(1)[:, pixel] = replacement.flatten(1)[:, pixel]
    with torch.no_grad():
        return model(torch.stack(canvases))[:, target]


def deletion(model, images, targets, attributions, *, replacement, skip=0):
    """The area under the curve while pixels are removed, as its definition says."""
    if attributions.isnan().any():
        raise ValueError("a map has a NaN")
    orders = [a.flatten().argsort(descending=True, stable=True)[skip:] for a in attributions]
    each = zip(images, targets, orders, strict=True)
    return torch.stack([outputs_along(model, *one, replacement).mean() for one in each])


def by_the_first_batch(model, images, targets, attributions, *, replacement):
    scores = deletion(model, images[:2], targets[:2], attributions[:2], replacement=replacement)
    return torch.cat([scores, scores.mean().expand(max(0, len(images) - 2))])


def by_equality_of_floats(model, images, targets, attributions, *, replacement):
    with torch.no_grad():
        changes = (model(images) - model(replacement[None])).gather(1, targets[:, None])[:, 0]
    return -(total(attributions) == changes).float()


def changed_deletion(change):
    """Deletion of changed maps, or with another replacement."""

    def changed(model, images, targets, attributions, *, replacement):
        maps, options = change(attributions, replacement)
        return deletion(model, images, targets, maps, **{"replacement": replacement, **options})

    return changed


def sampled_effects(model, image, target, a, replacement, subsets):
    """Sums of a map over subsets, and what the output loses with each."""
    left = torch.where(subsets.view(-1, 1, *image.shape[1:]), replacement, image)
    with torch.no_grad():
        losses = (model(image[None]) - model(left))[:, target]
    return (subsets * a.flatten()).sum(1), losses


def drawn_subsets(rng, pixels):
    sizes = rng.integers(1, pixels, 40)
    return torch.from_numpy(rng.random((40, pixels)).argsort(1) < sizes[:, None])


def by_global_draws(model, images, targets, attributions, *, replacement):
    scores = []
    for image, target, a in zip(images, targets, attributions, strict=True):
        subsets = torch.from_numpy(np.random.rand(40, a.numel()) < 0.5)
        pair = sampled_effects(model, image, target, a, replacement, subsets)
        scores.append(-torch.corrcoef(torch.stack(pair))[0, 1])
    return torch.stack(scores)


def across_images(model, images, targets, attributions, *, replacement):
    """One correlation over all images: the trap of a published Sensitivity-N."""
    subsets = drawn_subsets(np.random.default_rng(0), attributions[0].numel())
    each = zip(images, targets, attributions, strict=True)
    pairs = [sampled_effects(model, *one, replacement, subsets) for one in each]
    sums, losses = (torch.stack(side) for side in zip(*pairs, strict=True))
    over = [torch.corrcoef(torch.stack(pair))[0, 1] for pair in zip(sums.T, losses.T, strict=True)]
    return -torch.stack(over).nanmean().expand(len(images))


OF_DELETION = [
    ("batch-size", by_the_first_batch),
    ("batch-size", across_images),
    ("sign", changed_deletion(lambda a, x: (a.abs(), {}))),
    ("order", changed_deletion(lambda a, x: (-a, {}))),
    ("chance", changed_deletion(lambda a, x: (a, {"skip": 1}))),  # the most relevant one stays
    ("rounding", by_equality_of_floats),
    ("replacement", changed_deletion(lambda a, x: (a, {"replacement": torch.zeros_like(x)}))),
    ("global-seed", by_global_draws),
]


@pytest.mark.parametrize(("expected", "function"), OF_DELETION)
def test_each_wrong_deletion_is_found_by_its_check(expected, function):
    asked = {"higher_is_better": False}
    wrong = faults(function, "one-number", expected, **asked)
    assert expected in wrong
    assert ("reversed (pass the opposite higher_is_better)" in wrong[expected]) == (
        expected == "order"
    )
    assert expected not in faults(deletion, "one-number", expected, **asked)


def test_every_check_has_a_metric_that_it_finds_wrong():
    elsewhere = {"random-states-kept", "memory-kept", "scale", "shift", "relabelled-ties"}
    found_here = {*OF_MAPS, *(check for check, _ in OF_DELETION), *elsewhere, "own-softmax"}
    assert checks_of("attributions").keys() - {"cuda"} == found_here


@pytest.mark.long
def test_the_right_metric_has_no_fault_but_the_order_of_equal_values():
    wrong = faults(deletion, higher_is_better=False)
    assert list(wrong) == ["relabelled-ties"]
    assert 'declare ties="reading order"' in wrong["relabelled-ties"]
    declared = {"unit": "order", "ties": "reading order"}
    assert not faults(copied(deletion), higher_is_better=False, **declared)


def copied(function):
    """A function of its own, whose marks no other test sees."""

    def mine(model, images, targets, attributions, *, replacement):
        return function(model, images, targets, attributions, replacement=replacement)

    return mine


def local_infidelity(model, images, targets, attributions, *, replacement):
    """Maps times x - x', as gradients need it: the exact map is w, not w (x - x')."""
    rng, scores = np.random.default_rng(0), []
    maps = attributions * (images - replacement)
    for image, target, a in zip(images, targets, maps, strict=True):
        subsets = drawn_subsets(rng, a.numel())
        sums, losses = sampled_effects(model, image, target, a, replacement, subsets)
        scores.append((sums - losses).square().mean())
    return torch.stack(scores)


@pytest.mark.long
def test_an_infidelity_of_gradients_is_no_fault_once_its_unit_is_declared():
    lower = {"higher_is_better": False}
    assert "best" in faults(local_infidelity, "best", **lower)
    assert not faults(copied(local_infidelity), unit="local gradient", sampled=True, **lower)


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (
            lambda a: 1 / 0,
            "raised ZeroDivisionError: division by zero (test_checks_of_maps.py, line ",
        ),
        (lambda a: "good", "returned str"),
        (lambda a: None, "for 4 attributions"),
        (lambda a: total(a) / 0, "returned inf"),
    ],
    ids=["error", "text", "nothing", "infinite"],
)
def test_what_is_no_score_is_the_first_fault_and_nothing_else_is_asked(returned, said):
    results = found(returned)
    status, text = results.pop("one-number")
    assert status == "fault"
    assert said in text.replace("-inf", "inf")
    assert set(results.values()) == {("not applicable", "not run: one-number found no number")}


def test_scores_of_nan_are_no_error_of_the_code():
    results = found(lambda a: total(a) * float("nan"))
    assert results.pop("one-number") == ("note", "nan, nan, nan ...")
    assert {status for status, _ in results.values()} == {"not applicable"}


SEEN = []
KEEPS = {
    "tensors": lambda images: SEEN.append(images),
    "their memory": lambda images: SEEN.append(images.detach()),
    "copies": lambda images: SEEN.append(images.clone()),
    "arrays of their memory": lambda images: SEEN.append(images.numpy()),
    "a cycle": lambda images: SEEN.append([SEEN, images[0]]),
    "the last call's only": lambda images: SEEN.__setitem__(slice(None), [images]),
}


@pytest.mark.parametrize("what", KEEPS)
def test_what_is_kept_of_every_call_is_found(what):
    def keeps(model, images, targets, attributions):
        KEEPS[what](images)
        return total(attributions)

    try:
        status, said = found(keeps, "memory-kept")["memory-kept"]
    finally:
        SEEN.clear()
    if what == "the last call's only":  # no growth
        assert status == "pass"
    else:
        assert status == "note"
        assert int(said.split()[0].replace(",", "")) >= 256  # a float32 image of 8 x 8 pixels


@pytest.mark.parametrize(
    ("act", "check", "said"),
    [
        (lambda a: a.zero_(), "arguments-kept", "changed: attributions"),
        (lambda a: torch.set_grad_enabled(False), "modes-kept", "changed: grad mode"),
        (lambda a: os.chdir(os.sep), "modes-kept", "changed: working directory"),
    ],
)
def test_what_a_call_leaves_behind_is_found(act, check, said):
    assert faults(then(act), check) == {check: said}


DRAWS = {
    "random": random.random,
    "numpy.random": lambda: np.random.rand(),
    "torch": lambda: torch.rand(1).item(),
    "": lambda: np.random.default_rng(0).random(),  # a generator of its own is no fault
}


@pytest.mark.parametrize("source", DRAWS)
def test_a_draw_from_any_global_state_is_found_and_ours_is_as_before(source):
    def states():
        return random.getstate(), np.random.get_state()[1].tobytes(), torch.get_rng_state().tolist()

    before = states()
    checks = "repeatable", "global-seed", "random-states-kept"
    results = found(lambda a: total(a) + DRAWS[source](), *checks)
    assert results["repeatable"][0] == "pass"
    assert results["global-seed"][0] == ("note" if source else "pass")
    kept = ("note", f"changed: {source}") if source else ("pass", "as before")
    assert results["random-states-kept"] == kept
    assert before == states()


def test_a_nan_goes_to_no_other_image():
    assert found(total, "nan-map")["nan-map"][0] == "pass"
    spreads = found(lambda a: a.sum() + total(a), "nan-map")
    assert spreads["nan-map"] == ("note", "NaN in other places")


@pytest.mark.parametrize(
    ("declared", "ends"),
    [("scale", ["note", "not applicable"]), ("shift", ["not applicable", "note"])],
)
def test_declared_invariances_are_held_against_the_scores(declared, ends):
    results = found(lambda a: total(a), "scale", "shift", invariances=(declared,))
    assert [status for status, _ in results.values()] == ends


def test_what_takes_the_truth_is_about_places_unless_it_says_otherwise():
    def covered(attributions, *, truth):
        return cosine_similarity(attributions.flatten(1).clamp(min=0), truth.flatten(1))

    assert found(covered, "chance")["chance"][0] == "by declaration"
    assert found(covered, "one-number")["one-number"] == ("pass", "1, 1, 1 ...")


def test_where_pixels_lie_is_no_matter_where_it_is_declared():
    upper = found(lambda a: total(a[:, :, :4]), "relabelled", neighbors="patches")
    assert upper["relabelled"][0] == "by declaration"


@pytest.mark.long
def test_an_invariance_is_suggested_only_where_scores_are_alike():
    def of_the_answer(model, images, targets, attributions):
        """Of the class that wins, not of the target: better for some, worse for others."""
        winners = model(images).argmax(1)
        gradients = torch.autograd.functional.jacobian(
            lambda x: model(x).gather(1, winners[:, None]).sum(), images
        )
        return (gradients * images * attributions).sum((1, 2, 3))

    wrong = faults(of_the_answer)
    mixed = {check: text for check, text in wrong.items() if "better on" in text}
    assert mixed
    for check, text in mixed.items():
        alike = "better on 0, worse on 0" in text
        assert ("invariances" in text) == (alike and "invariances" in ALL_CHECKS[check].declared)


@pytest.mark.long
@pytest.mark.parametrize(
    ("function", "most"),
    [(lambda a: torch.from_numpy(np.random.default_rng(0).random(len(a))), 14), ("edge-share", 10)],
    ids=["coin", "edges"],
)
def test_a_coin_and_edges_fail_many_checks(function, most):
    assert len(faults(function)) >= most


NO_ORDER = (
    *("sparseness", "complexity"),  # never look at the network
    *("monotonicity-correlation", "non-sensitivity"),  # take sizes of values and of drops
    "monotonicity",  # 1 if no step goes down, else 0
)
"""Published definitions that do not put the exact map first."""


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(METRICS.keys() - SHORT_NAMES.keys()))
def test_no_metric_here_has_a_fault_but_definitions_without_the_exact_map_first(name):
    results = found(name)
    if name in NO_ORDER:
        assert results["order"][0] == "note"
    else:
        assert {each for each, _ in results.values()} <= {
            "pass",
            "by declaration",
            "not applicable",
        }
