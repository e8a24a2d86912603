"""A small vision transformer (Dosovitskiy et al., 2021)."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

PATCH, FEATURES, HEADS, BLOCKS = 4, 32, 4, 2


class SelfAttention(nn.Module):
    """Several heads of softmax(q k^T / sqrt(d)) v; `weights` is a module, so that hooks see them."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs = nn.Linear(FEATURES, 3 * FEATURES)
        self.weights = nn.Softmax(dim=-1)
        self.output = nn.Linear(FEATURES, FEATURES)

    def forward(
        self, tokens: Float[Tensor, "batch tokens features"]
    ) -> Float[Tensor, "batch tokens features"]:
        batch, number, _ = tokens.shape
        heads = self.inputs(tokens).view(batch, number, 3, HEADS, FEATURES // HEADS)
        query, key, value = heads.permute(2, 0, 3, 1, 4)  # each (B, heads, tokens, d)
        weights = self.weights(query @ key.transpose(2, 3) / math.sqrt(FEATURES // HEADS))
        mixed: Tensor = self.output((weights @ value).transpose(1, 2).flatten(2))
        return mixed


class Block(nn.Module):
    """x -> y = x + attention(norm(x)) -> y + perceptron(norm(y))."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.Sequential(nn.LayerNorm(FEATURES), SelfAttention())
        self.perceptron = nn.Sequential(
            nn.LayerNorm(FEATURES),
            nn.Linear(FEATURES, 2 * FEATURES),
            nn.GELU(),
            nn.Linear(2 * FEATURES, FEATURES),
        )

    def forward(
        self, tokens: Float[Tensor, "batch tokens features"]
    ) -> Float[Tensor, "batch tokens features"]:
        tokens = tokens + self.attention(tokens)
        total: Tensor = tokens + self.perceptron(tokens)
        return total


class AttentionNetwork(nn.Module):
    """Patches of 4 x 4 pixels with learned positions, two blocks, and the mean over all tokens.

    The mean instead of a class token lets every token reach the output, so that GradCAM has maps to
    read: those of the module `maps`.

    Parameters
    ----------
    channels, classes, side : int
        Of the images; the patches divide the side. Weights are drawn from the global generator.
    """

    def __init__(self, channels: int, classes: int, side: int) -> None:
        super().__init__()
        places = side // PATCH
        self.embedding = nn.Conv2d(channels, FEATURES, PATCH, PATCH)
        self.positions = nn.Parameter(0.02 * torch.randn(1, places**2, FEATURES))
        self.blocks = nn.Sequential(*(Block() for _ in range(BLOCKS)), nn.LayerNorm(FEATURES))
        self.maps = nn.Unflatten(2, (places, places))
        self.classifier = nn.Linear(FEATURES, classes)

    def forward(
        self, images: Float[Tensor, "batch channels side side"]
    ) -> Float[Tensor, "batch classes"]:
        tokens = self.embedding(images).flatten(2).transpose(1, 2) + self.positions
        maps = self.maps(self.blocks(tokens).transpose(1, 2))  # (B, features, rows, columns)
        logits: Tensor = self.classifier(maps.mean((2, 3)))
        return logits
