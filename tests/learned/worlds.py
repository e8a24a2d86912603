"""Small worlds that networks learn in seconds, and what stands for a network that learned them."""

import torch
from torch import nn

import attributionlab as al
from attributionlab.worlds.learned.examination import held_out
from attributionlab.worlds.learned.pictures import RuleAnswers, drawn_pictures
from attributionlab.worlds.learned.trained import Lessons

COLORS = {"red": (255, 0, 0), "blue": (0, 0, 255), "green": (0, 255, 0)}
RULE = "red - blue"


def world(*items, rule=RULE, **how):
    settings = {"colors": COLORS, "area": (0.02, 0.08), "keep_degenerate": True} | how
    return al.world(rule, 16, items=[*items], **settings)


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def lessons_of(env, pictures=160, questions=80):
    return Lessons(drawn_pictures(env, pictures, 1), held_out(env, questions, 2))


class Noisy(nn.Module):
    """A multiple of the exact network, off by the same numbers for the same image."""

    def __init__(self, model, size, scale):
        super().__init__()
        self.model, self.size, self.scale = model, size, scale

    def forward(self, images):
        noise = torch.sin(images.flatten(1).sum(1, keepdim=True))
        return self.scale * self.model(images) + self.size * noise


class Nearest(nn.Module):
    """The exact network, shown the world's nearest color in place of each: right beside the colors."""

    def __init__(self, env, colors):
        super().__init__()
        self.answers, self.colors = RuleAnswers(env, colors), colors

    def forward(self, images):
        away = (images[:, None] - self.colors[None, :, :, None, None]).square().sum(2)
        return self.answers(away.argmin(1).byte())
