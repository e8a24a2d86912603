"""Calls that need very many forward passes are warned of, once, with the reason and the remedy."""

import pytest
import torch
from torch import nn

from attributionlab import AttributionLabWarning, metrics
from small_networks import summing

SLOW = nn.Sequential(nn.AvgPool2d(1), nn.Flatten())  # not one of the layers that are followed
IMAGES, TARGETS = torch.ones(2, 1, 2, 2), torch.tensor([0, 0])


@pytest.mark.parametrize(
    ("measure", "remedy"),
    [
        ("output", "pass a larger step=, or fewer counts="),
        ("changed-steps", 'measure="changed-steps" needs every step: pass fewer images or orders'),
    ],
)
def test_many_forward_passes_are_warned_of_with_reason_and_remedy(monkeypatch, measure, remedy):
    images, orders = torch.ones(2, 1, 1, 2), torch.arange(2).expand(2, 5, 2)
    settings = {"replacement": 0, "measure": measure}
    monkeypatch.setattr(metrics.checked_inputs, "MANY_PASSES", 29)
    with pytest.warns(AttributionLabWarning) as caught:
        metrics.outputs_along(SLOW, images, TARGETS, orders, **settings)
    assert [str(each.message) for each in caught] == [
        "30 forward passes are needed, because the model cannot be evaluated incrementally (it is not "
        "a sequence of nn.Conv2d, nn.Linear, nn.ReLU and nn.Flatten without hooks); " + remedy
    ]
    # Warnings are errors: these calls say nothing.
    metrics.outputs_along(SLOW, images, TARGETS, orders[:, :-1], **settings)
    metrics.outputs_along(summing(2), images, TARGETS, orders, **settings)


def warned(monkeypatch, passes, call):
    """The only warning of a call that needs this many passes, and not one more."""
    monkeypatch.setattr(metrics.checked_inputs, "MANY_PASSES", passes)
    call()
    monkeypatch.setattr(metrics.checked_inputs, "MANY_PASSES", passes - 1)
    with pytest.warns(AttributionLabWarning) as caught:
        call()
    (warning,) = caught
    assert str(warning.message).startswith(f"{passes} forward passes are needed")
    return str(warning.message)


@pytest.mark.parametrize(
    "function", [metrics.deletion, metrics.insertion_curve, metrics.pixel_flipping]
)
@pytest.mark.parametrize(
    ("settings", "passes"),
    [({}, 2 * 5), ({"step": 3}, 2 * 3), ({"step": 3, "measure": "changed-steps"}, 2 * 5)],
)
def test_curves_are_warned_of_once(function, settings, passes, monkeypatch):
    warned(
        monkeypatch,
        passes,
        lambda: function(SLOW, IMAGES, TARGETS, IMAGES, replacement=0, **settings),
    )


@pytest.mark.parametrize(
    ("settings", "passes", "remedy"),
    [
        ({}, 2 * 3 * 5, "pass fewer sizes=, or fewer draws="),
        ({"sizes": [2, 4]}, 2 * 3 * 3, "pass fewer sizes=, or fewer draws="),
        (
            {"sizes": [3], "measure": "changed-steps"},
            2 * 3 * 4,
            "needs every step: pass a smaller largest of sizes=, or fewer draws=",
        ),
    ],
)
def test_sensitivity_n_is_warned_of_once_with_what_makes_it_cheaper(
    settings, passes, remedy, monkeypatch
):
    settings = {"replacement": 0, "draws": 3, **settings}
    for call in (
        lambda: metrics.subset_effects(SLOW, IMAGES, TARGETS, **settings),
        lambda: metrics.sensitivity_n(SLOW, IMAGES, TARGETS, IMAGES, **settings),
    ):
        message = warned(monkeypatch, passes, call)
        assert "(it is not a sequence of nn.Conv2d" in message
        assert message.endswith(remedy)
    metrics.subset_effects(summing(4), IMAGES, TARGETS, **settings)
