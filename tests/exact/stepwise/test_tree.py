"""Which networks have one path from each pixel to the outputs; all others are shown the images."""

import pytest
import torch
from torch import nn

from attributionlab.base.exact import route_of, trajectory
from exact.stepwise.small_networks import by_passes, followed, given, linear, pair, pointwise, sums


class Scaled(nn.Conv2d):
    """A subclass that computes something else."""

    def forward(self, images):
        return 2 * super().forward(images)


class Functional(nn.Module):
    """A ReLU that no layer stands for."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, images):
        return self.layer(images).relu().flatten(1)


def _hooked():
    model = pair([[1.0, 2.0]])
    model[0].register_forward_hook(lambda module, inputs, output: -output)
    return model


def _normalized():
    layer = nn.BatchNorm2d(1, eps=0.5)  # torch 2.10 refuses 0
    layer.running_var.fill_(0.5)
    return nn.Sequential(pair([[1.0, 2.0]])[0], layer, nn.Flatten()).eval()


KINDS = "it is not a sequence of nn.Conv2d, nn.Linear, nn.ReLU and nn.Flatten without hooks"
OVERLAP = "windows of its convolutions overlap, so a pixel has more than one path"
ORDER = "it is not made of convolutions, then nn.Flatten, then linear layers"
UNSERVED = {
    "hook": (_hooked(), KINDS),
    "subclass": (
        nn.Sequential(given(Scaled(1, 1, (1, 2), bias=False), [1.0, 2.0]), nn.Flatten()),
        KINDS,
    ),
    "pooling": (nn.Sequential(nn.MaxPool2d((1, 2)), nn.Flatten()), KINDS),
    "average": (nn.Sequential(nn.AvgPool2d((1, 2)), nn.Flatten()), KINDS),
    "normalization": (_normalized(), KINDS),
    "functional": (Functional(pair([[1.0, 2.0]])[0]), KINDS),
    "softmax inside": (nn.Sequential(*pair([[1.0, 2.0]]), nn.Softmax(1), nn.ReLU()), KINDS),
    "softmax over pixels": (nn.Sequential(nn.Softmax(-1), *pair([[1.0, 2.0]])), KINDS),
    "circular padding": (
        nn.Sequential(
            given(
                nn.Conv2d(1, 1, (1, 2), 2, (0, 1), padding_mode="circular", bias=False), [1.0, 2.0]
            ),
            nn.Flatten(),
        ),
        KINDS,
    ),
    "overlap": (
        nn.Sequential(
            given(nn.Conv2d(1, 1, (1, 2), padding=(0, 1), bias=False), [1.0, 2.0]), nn.Flatten()
        ),
        OVERLAP,
    ),
    "no one place": (
        nn.Sequential(pointwise(2, [1.0, 2.0]), nn.Flatten()),
        "its outputs are not reached through one place",
    ),
    "no layers but pixels": (
        nn.Sequential(nn.Flatten()),
        "its outputs are not reached through one place",
    ),
}


@pytest.mark.parametrize(("model", "reason"), UNSERVED.values(), ids=UNSERVED)
def test_other_models_are_shown_the_images(model, reason, generator):
    image = torch.randint(-4, 5, (1, 1, 2), generator=generator).float()
    order = torch.tensor([1, 0])
    route = route_of(model, image, torch.ones(1))
    assert route == ("forward", reason)
    outputs = trajectory(model, image, torch.ones(1), order)
    assert outputs.tolist() == by_passes(model, image, torch.ones(1), order)


@pytest.mark.parametrize(
    ("layers", "reason"),
    [
        ([nn.Conv2d(1, 1, (1, 2))], ORDER),
        ([nn.Conv2d(1, 1, (1, 2)), nn.Linear(1, 2)], ORDER),
        ([nn.Linear(2, 2), nn.Flatten()], ORDER),
        ([nn.Flatten(), nn.Linear(2, 1), nn.Conv2d(1, 1, 1)], ORDER),
        ([nn.ReLU()], ORDER),
        ([], ORDER),
        ([nn.Conv2d(3, 1, (1, 2)), nn.Flatten()], "it does not take images of 1 channels"),
        ([nn.Conv2d(1, 2, (1, 2)), nn.Flatten(), nn.Linear(3, 1)], "it does not take images of 1"),
        ([nn.Flatten(), nn.Linear(3, 1)], "a linear layer does not fit the map before it"),
        ([nn.Conv2d(1, 1, (1, 3)), nn.Flatten()], OVERLAP),
        ([nn.Conv2d(1, 2, 1, (1, 2)), nn.ReLU(), nn.Conv2d(2, 2, 3), nn.Flatten()], OVERLAP),
    ],
)
def test_what_takes_no_images_or_returns_no_rows_is_left_to_say_so(layers, reason):
    route = route_of(nn.Sequential(*layers), torch.ones(1, 1, 2), torch.zeros(1))
    assert route.name == "forward"
    assert route.reason.startswith(reason)


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Flatten(), linear(1, [1.0, 2.0])),
        nn.Sequential(nn.ReLU(), *pair([[1.0, 2.0]]), nn.ReLU()),
        nn.Sequential(nn.Sequential(*pair([[1.0, 2.0]])), nn.Flatten(), nn.Softmax(dim=1)),
        nn.Sequential(sums(), nn.ReLU(), nn.ReLU(), pointwise(1, [2.0]), nn.Flatten()),
        nn.Sequential(pointwise(1, [2.0]), nn.ReLU(), nn.ReLU(), sums(), nn.ReLU(), nn.Flatten()),
        nn.Sequential(given(nn.Conv2d(1, 1, 1, (1, 2), bias=False), [3.0]), nn.Flatten()),
    ],
    ids=str,
)
def test_pixels_that_have_one_path_each_are_followed(model, generator):
    image = torch.randint(-4, 5, (1, 1, 2), generator=generator).float()
    order = torch.tensor([1, 0])
    expected = by_passes(model, image, torch.ones(1), order)
    assert followed(model, image, torch.ones(1), order).tolist() == expected
