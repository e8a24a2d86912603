"""What is the user's stays as it was, for every metric: globals, the network, tensors."""

import pytest
import torch
from torch import nn

from odd_calls import parameters
from small_networks import gradient
from test_odd_calls import FACES, arguments
from unchanged import nothing_changes

SCORES = [face for face, each in FACES.items() if hasattr(each, "higher_is_better")]


def network():
    torch.manual_seed(0)
    model = nn.Sequential(
        *(nn.Conv2d(1, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.AvgPool2d(2)),
        *(nn.Flatten(), nn.Linear(12, 3)),
    ).eval()
    model[0].weight.requires_grad_(False)
    model[5].weight.grad = torch.rand_like(model[5].weight)
    return model


@pytest.mark.filterwarnings("ignore::attributionlab.AttributionLabWarning")
@pytest.mark.parametrize("face", SCORES)
def test_a_metric_changes_nothing_of_the_users(face, without_shape_checks):
    metric, model = FACES[face], network()
    given = arguments(face, *parameters(metric))
    own = {"model": model, "layer": model[2], "attribute": gradient}
    given |= {key: own[key] for key in own if key in given}
    tensors = [each for each in given.values() if isinstance(each, torch.Tensor)]
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
