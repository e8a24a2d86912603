"""What is the user's stays as it was, for every metric: globals, the network, tensors."""

import inspect

import pytest
import torch
from torch import nn

from attributionlab import metrics
from unchanged import nothing_changes

SIDE = 8
SCORES = [name for name in metrics.__all__ if hasattr(getattr(metrics, name), "higher_is_better")]
FEW = {
    "draws": 3,
    "fractions": [0.3, 0.6],
    "level": 0.5,
    "levels": [0.5],
    "closeness": 0.5,
    "radius": 0.05,
    "threshold": 0.5,
    "steps": 2,
    "top": 3,
    "k": 3,
    "patches": 4,
    "value_range": (0.0, 1.0),
    "sizes": [4, 8],
    "step": 16,
}


def network():
    torch.manual_seed(0)
    model = nn.Sequential(
        *(nn.Conv2d(1, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.AvgPool2d(2)),
        *(nn.Flatten(), nn.Linear(48, 2)),
    ).eval()
    model[0].weight.requires_grad_(False)
    model[5].weight.grad = torch.rand_like(model[5].weight)
    return model


def attribute(model, images, targets, **_):
    leaf = images.detach().clone().requires_grad_()
    with torch.enable_grad():
        return torch.autograd.grad(model(leaf)[:, 0].sum(), leaf)[0].detach()


def call(name, model):
    """A metric with what it takes by name, and the tensors among it."""
    metric = getattr(metrics, name)
    maps = torch.rand(4, 1, SIDE, SIDE)
    offered = {
        "model": model,
        "images": torch.rand(4, 1, SIDE, SIDE),
        "targets": torch.tensor([0, 1, 0, 1]),
        "attributions": maps,
        "others": torch.rand(4, 1, SIDE, SIDE),
        "values": torch.rand(4, 1, SIDE, SIDE),
        "truth": maps > 0.5,
        "information": maps / maps.sum(),
        "changes": torch.rand(4),
        "replacement": torch.zeros(1, 1, 1),
        "attribute": attribute,
        "explain": lambda images, targets: attribute(model, images, targets),
        "layer": model[2],
        "tolerance": 0.1,
        **FEW,
    }
    takes = inspect.signature(metric).parameters
    given = {
        key: offered[key]
        for key, each in takes.items()
        if key in offered and (each.default is each.empty or key in ("draws", "explain", "steps"))
    }
    if "setup" in takes:
        given["value_range"] = offered["value_range"]
    if "fractions" in takes:
        given["fractions"] = offered["fractions"]
    return metric, given, [each for each in given.values() if isinstance(each, torch.Tensor)]


@pytest.mark.filterwarnings("ignore::attributionlab.AttributionLabWarning")
@pytest.mark.parametrize("name", SCORES)
def test_a_metric_changes_nothing_of_the_users(name, without_shape_checks):
    model = network()
    metric, given, tensors = call(name, model)
    metric(**given)  # what is imported at the first call sets what it sets
    with nothing_changes(model, *tensors):
        first = metric(**given)
    assert torch.is_tensor(first)
    if "model" not in given:
        return

    def raising(*_):
        raise RuntimeError("the user's own")

    handle = model[5].register_forward_hook(raising)
    with nothing_changes(model, *tensors), pytest.raises(Exception, match=r"own|hooks|incremental"):
        metric(**given)
    handle.remove()
