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


def silently(call, *arguments, **settings):
    """What a method returns, whatever its guards tell."""
    with collect_notices():
        return call(*arguments, **settings)
