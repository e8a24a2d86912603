"""Each of eight wrong twins of a right metric is found by the check that is meant for it; what is only
unusual is not.
"""

import numpy as np
import pytest
import torch

from attributionlab import check_metric
from attributionlab.metrics import metric
from attributionlab.verdicts.metric_trials.registry import METRICS, SHORT_NAMES


def outputs_along(model, image, target, order, replacement):
    """The naive curve: the output after each number of removed pixels, one forward pass for all."""
    canvases = [image.clone()]
    for pixel in order:
        canvases.append(canvases[-1].clone())
        canvases[-1].flatten(1)[:, pixel] = replacement.flatten(1)[:, pixel]
    with torch.no_grad():
        return model(torch.stack(canvases))[:, target]


def deletion(model, images, targets, attributions, *, replacement):
    """The area under the curve while pixels are removed, as its definition says."""
    if attributions.isnan().any():
        raise ValueError("a map has a NaN")
    each = zip(images, targets, attributions, strict=True)
    return torch.stack(
        [
            outputs_along(
                model, image, target, a.flatten().argsort(descending=True, stable=True), replacement
            ).mean()
            for image, target, a in each
        ]
    )


def first_batch_only(model, images, targets, attributions, *, replacement):
    scores = deletion(model, images[:2], targets[:2], attributions[:2], replacement=replacement)
    return torch.cat([scores, scores.mean().expand(max(0, len(images) - 2))])


def hidden_absolute_value(model, images, targets, attributions, *, replacement):
    return deletion(model, images, targets, attributions.abs(), replacement=replacement)


def reversed_order(model, images, targets, attributions, *, replacement):
    return deletion(model, images, targets, -attributions, replacement=replacement)


def off_by_one(model, images, targets, attributions, *, replacement):
    """The most relevant pixel is never removed."""
    orders = [a.flatten().argsort(descending=True, stable=True)[1:] for a in attributions]
    each = zip(images, targets, orders, strict=True)
    return torch.stack([outputs_along(model, *one, replacement).mean() for one in each])


def float_equality(model, images, targets, attributions, *, replacement):
    with torch.no_grad():
        changes = (model(images) - model(replacement[None])).gather(1, targets[:, None])[:, 0]
    return -(attributions.sum((1, 2, 3)) == changes).float()


def ignores_the_baseline(model, images, targets, attributions, *, replacement):
    zeros = torch.zeros_like(replacement)
    return deletion(model, images, targets, attributions, replacement=zeros)


def sampled_effects(model, image, target, a, replacement, subsets):
    """Sums of a map over subsets, and what the output loses with each."""
    left = torch.where(subsets.view(-1, 1, *image.shape[1:]), replacement, image)
    with torch.no_grad():
        losses = (model(image[None]) - model(left))[:, target]
    return (subsets * a.flatten()).sum(1), losses


def drawn_subsets(rng, pixels):
    sizes = rng.integers(1, pixels, 40)
    return torch.from_numpy(rng.random((40, pixels)).argsort(1) < sizes[:, None])


def global_random_state(model, images, targets, attributions, *, replacement):
    scores = []
    for image, target, a in zip(images, targets, attributions, strict=True):
        subsets = torch.from_numpy(np.random.rand(40, a.numel()) < 0.5)
        pair = sampled_effects(model, image, target, a, replacement, subsets)
        scores.append(-torch.corrcoef(torch.stack(pair))[0, 1])
    return torch.stack(scores)


def correlates_across_images(model, images, targets, attributions, *, replacement):
    """One correlation over all images: the trap of a published Sensitivity-N."""
    subsets = drawn_subsets(np.random.default_rng(0), attributions[0].numel())
    each = zip(images, targets, attributions, strict=True)
    pairs = [sampled_effects(model, *one, replacement, subsets) for one in each]
    sums, losses = (torch.stack(side) for side in zip(*pairs, strict=True))
    over_images = [
        torch.corrcoef(torch.stack([s, d]))[0, 1] for s, d in zip(sums.T, losses.T, strict=True)
    ]
    return -torch.stack(over_images).nanmean().expand(len(images))


TWINS = {
    "batch-size": first_batch_only,
    "sign": hidden_absolute_value,
    "order": reversed_order,
    "chance": off_by_one,
    "rounding": float_equality,
    "replacement": ignores_the_baseline,
    "global-seed": global_random_state,
}


def faults(function, **options):
    report = check_metric(function, higher_is_better=False, time_limit=None, **options)
    return {row.id: row.found for row in report.findings}


@pytest.mark.long
def test_the_right_metric_has_no_fault_but_the_order_of_equal_values():
    found = faults(deletion)
    assert list(found) == ["relabelled-ties"]
    assert 'declare ties="reading order"' in found["relabelled-ties"]
    marked = metric(higher_is_better=False, per_sample=True, unit="order", ties="reading order")
    assert check_metric(marked(deletion), time_limit=None).passed


@pytest.mark.parametrize("expected", TWINS)
def test_each_wrong_twin_is_found_by_its_check(expected):
    assert expected in faults(TWINS[expected], only=["one-number", expected])
    assert expected not in faults(deletion, only=["one-number", expected])


def test_the_eighth_correlates_across_images():
    assert "batch-size" in faults(correlates_across_images, only=["one-number", "batch-size"])


def test_a_reversed_metric_is_told_how_to_declare_its_direction():
    assert "reversed, pass higher_is_better" in faults(reversed_order, only=["order"])["order"]


def local_infidelity(model, images, targets, attributions, *, replacement):
    """Maps times x - x', as gradients need it: the exact map is w, not w (x - x')."""
    rng, scores = np.random.default_rng(0), []
    for image, target, a in zip(
        images, targets, attributions * (images - replacement), strict=True
    ):
        subsets = drawn_subsets(rng, a.numel())
        sums, losses = sampled_effects(model, image, target, a, replacement, subsets)
        scores.append((sums - losses).square().mean())
    return torch.stack(scores)


@pytest.mark.long
def test_an_infidelity_of_gradients_is_no_fault_once_its_unit_is_declared():
    assert "best" in faults(local_infidelity, only=["best"])
    mark = metric(higher_is_better=False, per_sample=True, unit="local gradient", sampled=True)
    report = check_metric(mark(local_infidelity), time_limit=None)
    assert report.passed, report


def test_a_function_that_numpy_lacks_is_said_and_never_replaced(monkeypatch):
    monkeypatch.delattr(np, "trapz", raising=False)

    def area(attributions):
        return np.trapz(attributions.flatten(1).numpy())  # noqa: NPY201

    [row] = check_metric(area, higher_is_better=True, only=["one-number"], time_limit=None).findings
    assert row.found.startswith("raised AttributeError: module 'numpy' has no attribute 'trapz'")
    assert "test_twins.py" in row.found


def coin(attributions):
    return torch.from_numpy(np.random.default_rng(0).random(len(attributions)))


@pytest.mark.long
@pytest.mark.parametrize(("function", "most"), [(coin, 14), ("edge-share", 10)])
def test_a_coin_and_edges_fail_many_checks(function, most):
    direction = None if isinstance(function, str) else True
    report = check_metric(function, higher_is_better=direction, time_limit=None)
    assert len(report.findings) >= most


NO_ORDER = (
    *("sparseness", "complexity"),  # never look at the network
    *("monotonicity-correlation", "non-sensitivity"),  # take sizes of values and of drops
    "monotonicity",  # 1 if no step goes down, else 0
)
"""Published definitions that do not put the exact map first."""


@pytest.mark.long
@pytest.mark.parametrize("name", NO_ORDER)
def test_definitions_that_do_not_put_the_exact_map_first_are_found(name):
    assert "order" in {row.id for row in check_metric(name, time_limit=None).findings}


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(METRICS.keys() - SHORT_NAMES.keys() - set(NO_ORDER)))
def test_every_metric_here_that_ranks_maps_has_no_fault(name):
    report = check_metric(name, time_limit=None)
    assert report.passed, report
    assert {row.status for row in report.checks} <= {"pass", "by declaration", "not applicable"}
