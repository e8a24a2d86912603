"""Every built-in method with as few samples and steps as it takes."""

import inspect

import torch
from torch import nn

from attributionlab.methods import METHODS

# As few samples and steps as a method takes: what is asked here does not depend on them.
FEW = {
    "extremal-perturbation": {"iterations": 2},
    "iba": {"steps": 1, "copies": 2, "sigma": 0},
    "input-iba": {"steps": 1, "copies": 2, "sigma": 0, "epochs": 1, "samples": 8},
    "kernel-shap": {"n_samples": 20, "segmentation": "grid"},
    "lime": {"n_samples": 20, "segmentation": "grid"},
    "rise": {"n_samples": 20},
    "shapley-value-sampling": {"n_samples": 2},
    "smoothgrad": {"n_samples": 2},
}
OF_TRANSFORMERS = ("attention-rollout", "chefer-lrp")
VARIANTS = ("-true-baseline", "-absolute", "-smoothgrad-squared", "-smoothgrad", "-vargrad")


def bases(name):
    """The name, and what is left of it without endings that mean the same for every method."""
    names = [name]
    while ending := next((each for each in VARIANTS if names[-1].endswith(each)), None):
        names.append(names[-1].removesuffix(ending))
    return names


def few(name):
    takes = inspect.signature(METHODS[name]).parameters
    of_family = {
        key: value
        for family, settings in FEW.items()
        if any(base.startswith(family) for base in bases(name))
        for key, value in settings.items()
    }
    general = {"n_samples": 2, "n_steps": 3, "n_baselines": 2}
    return {key: value for key, value in (general | of_family).items() if key in takes}


class PatchTransformer(nn.Module):
    """One block on patches behind a token that starts them, for images of any size."""

    def __init__(self, channels, patch, outputs):
        super().__init__()
        self.patches = nn.Conv2d(channels, 16, patch, patch)
        self.start = nn.Parameter(torch.zeros(1, 1, 16))
        layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
        self.blocks, self.classes = nn.TransformerEncoder(layer, 1), nn.Linear(16, outputs)

    def forward(self, images):
        tokens = self.patches(images).flatten(2).mT
        tokens = torch.cat([self.start.expand(len(images), 1, 16), tokens], 1)
        return self.classes(self.blocks(tokens)[:, 0])
