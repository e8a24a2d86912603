"""Scores of two images, and a small task with networks for it that were never trained."""

from functools import cache

import torch
from torch import nn

from attributionlab.papers.idsds.protocol_scores import environment_scores
from attributionlab.papers.idsds.training import Task


@cache
def sum_scores():
    """Computed once: a copy is to be changed."""
    return environment_scores("multi-color-sum", "logit", 2, 0, quick=True)


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
