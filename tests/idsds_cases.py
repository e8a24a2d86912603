"""A small task and networks for it that were never trained."""

import torch
from torch import nn

from attributionlab.papers.idsds.data import Task


def made_up_task(n=4):
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(n, 3, 8, 8, generator=generator)
    labels = torch.arange(n) % 2
    truth = torch.randn(n, 1, 8, 8, generator=generator)
    return Task("made up", images, labels, images, labels, 2, torch.full((3, 1, 1), 0.5), truth)


def made_up_network(seed):
    generator = torch.Generator().manual_seed(seed)
    network = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(256, 2)
    )
    for each in network.parameters():
        each.data = torch.randn(each.shape, generator=generator) / 4
    return network.eval()
