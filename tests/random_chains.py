"""Small random networks in float64, which methods and their rules in matrix form agree on."""

import torch
from torch import nn

from attributionlab.methods import collect_notices

SHAPE = (2, 5, 5)
# Some thousand float64 operations on numbers of order 1, divided by differences of the order 1e-3.
EXACT = {"rtol": 0, "atol": 1e-9}


def random_chain(seed, bias=True):
    """A small convolutional network, with two images and their targets."""
    torch.manual_seed(seed)
    modules = [
        nn.Conv2d(2, 3, 3, padding=1, bias=bias),
        nn.ReLU(),
        nn.Conv2d(3, 2, 3, stride=2, bias=bias),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(8, 4, bias=bias),
        nn.ReLU(),
        nn.Linear(4, 3, bias=bias),
    ]
    model = nn.Sequential(*modules).double().eval()
    return model, torch.randn(2, *SHAPE).double(), torch.tensor([2, 0])


def softplus_chain(seed=0):
    """Maps of 7 x 7 cells, of both signs at "0" and positive at "1", with gradients that vary."""
    torch.manual_seed(seed)
    return nn.Sequential(
        *(nn.Conv2d(1, 3, 2), nn.Softplus(), nn.Conv2d(3, 2, 3), nn.Tanh()),
        *(nn.Flatten(), nn.Linear(50, 3)),
    ).double()


INPUTS = torch.tensor([[[[1.0, 2.0], [0.0, 4.0]]], [[[3.0, -1.0], [1.0, 0.0]]]])
WEIGHTS = torch.tensor([1.0, -2.0, 3.0, 0.5]).reshape(1, 1, 2, 2)
TARGETS = torch.tensor([0, 1])


class Square(nn.Module):
    """f(x) = (sum of w x)^2 in two outputs of opposite sign: gradients are 2 (w x) w."""

    def forward(self, inputs):
        value = (inputs.flatten(1) * WEIGHTS.flatten().to(inputs)).sum(1) ** 2
        return torch.stack([value, -value], dim=1)

    @staticmethod
    def gradient(inputs):
        sign = torch.tensor([1.0, -1.0]).reshape(2, 1, 1, 1)
        return sign * 2 * (WEIGHTS * inputs).sum((1, 2, 3), keepdim=True) * WEIGHTS


class Between(nn.Module):
    """Three linear layers in float64, with rectifiers or other functions between them."""

    def __init__(self, first, second, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.linear = nn.ModuleList([nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 2)]).double()
        self.first, self.second = first, second

    def forward(self, inputs):
        hidden = self.first(self.linear[0](inputs.flatten(1)))
        return self.linear[2](self.second(self.linear[1](hidden)))


FUNCTIONS = {
    "F.relu": nn.functional.relu,
    "torch.relu": torch.relu,
    "Tensor.relu": lambda z: z.relu(),
    "in place": lambda z: (z * 1).relu_(),
    "F.relu in place": lambda z: nn.functional.relu(z * 1, inplace=True),
}
"""Ways to rectify that no module stands for."""


def tanh_network(values):
    """Two smooth outputs of images of so many values, with the same weights in every call."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = nn.Flatten(), nn.Linear(values, 3), nn.Tanh(), nn.Linear(3, 2)
        return nn.Sequential(*layers).double()


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def told(call, *arguments, **settings):
    """What a method returns, and what its guards tell beside that all is well."""
    with collect_notices() as findings:
        found = call(*arguments, **settings)
    return found, [finding for finding in findings if finding.images]


def silently(call, *arguments, **settings):
    """What a method returns, whatever its guards tell."""
    with collect_notices():
        return call(*arguments, **settings)
