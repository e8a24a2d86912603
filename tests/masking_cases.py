"""Images, superpixels and a network that methods which remove superpixels are tried on."""

import torch
from torch import nn

LABELS = torch.tensor([[0, 0, 1, 1, 1], [0, 2, 2, 3, 3], [4, 4, 2, 3, 3]])
IMAGES = torch.arange(2 * 3 * 3 * 5).reshape(2, 3, 3, 5).float() % 4
IMAGES[0][:, LABELS == 3] = 1  # as the baseline: no player
TARGETS = torch.tensor([1, 0])
BASELINES = torch.ones(2, 3, 3, 5)
WEIGHTS = (torch.arange(45).reshape(3, 3, 5) % 5 - 2).float()


class Curved(nn.Module):
    """Two outputs that are integers and not linear in the image."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, inputs):
        self.seen.append(len(inputs))
        value = (inputs * WEIGHTS.to(inputs)).sum((1, 2, 3))
        return torch.stack([value**2 - 3 * value, (value % 7) * value], dim=1)


class Constant(nn.Module):
    """Two outputs that differ by one unit in the last place at most."""

    def __init__(self, value, wobble):
        super().__init__()
        self.value, self.wobble = value, wobble

    def forward(self, inputs):
        outputs = torch.full((len(inputs), 2), self.value)
        outputs[::2] *= 1 + self.wobble * 2**-23
        return outputs


def value_of(target):
    """The explained output of an image that is given as lists."""
    model = Curved()
    return lambda image: float(model(torch.tensor([image]))[0, target])


def seeded(seed=3):
    return torch.Generator().manual_seed(seed)
