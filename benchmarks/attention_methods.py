"""Time of attention rollout and Chefer's relevance against their formulas written for one network.

    python benchmarks/attention_methods.py

The formulas know the network, as large as DeiT-Ti, and read attention from its own modules. Relevance
through linear layers takes four products. One thread, medians of alternating runs; prints ratios.

Rollout takes about a tenth more than its formula, by what finds out which tokens the output reads,
which the formula knows: a graph of the forward pass, and a backward pass through the last perceptron.
"""

from collections.abc import Callable

import torch
from side_by_side import side_by_side
from torch import Tensor, nn
from torch.nn import functional as F

from attributionlab.methods import attention_rollout, chefer_lrp

SIDE, PATCH, IMAGES, RUNS = 224, 16, 2, 7
FEATURES, HEADS, BLOCKS, CLASSES = 192, 3, 12, 10


class Attention(nn.Module):
    """softmax(q k^T / sqrt(d)) v of several heads."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs, self.output = nn.Linear(FEATURES, 3 * FEATURES), nn.Linear(FEATURES, FEATURES)
        self.weights = nn.Softmax(dim=-1)

    def heads(self, tokens: Tensor) -> Tensor:
        """Queries, keys and values, (3, B, heads, tokens, d)."""
        return self.inputs(tokens).unflatten(2, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, tokens, features) of both."""
        query, key, value = self.heads(tokens)
        weights = self.weights(query @ key.transpose(2, 3) / (FEATURES // HEADS) ** 0.5)
        mixed: Tensor = self.output((weights @ value).transpose(1, 2).flatten(2))
        return mixed


class Block(nn.Module):
    """Attention and a perceptron, each added to what it normalizes."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.Sequential(nn.LayerNorm(FEATURES), Attention())
        self.perceptron = nn.Sequential(
            nn.LayerNorm(FEATURES),
            nn.Linear(FEATURES, 4 * FEATURES),
            nn.GELU(),
            nn.Linear(4 * FEATURES, FEATURES),
        )

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, tokens, features) of both."""
        tokens = tokens + self.attention(tokens)
        total: Tensor = tokens + self.perceptron(tokens)
        return total


class Network(nn.Module):
    """A vision transformer with a class token."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Conv2d(3, FEATURES, PATCH, PATCH)
        self.token = nn.Parameter(torch.randn(1, 1, FEATURES))
        self.positions = nn.Parameter(torch.randn(1, (SIDE // PATCH) ** 2 + 1, FEATURES))
        self.blocks = nn.Sequential(*(Block() for _ in range(BLOCKS)), nn.LayerNorm(FEATURES))
        self.classifier = nn.Linear(FEATURES, CLASSES)

    def tokens(self, images: Tensor) -> Tensor:
        """What the first block gets."""
        patches = self.embedding(images).flatten(2).transpose(1, 2)
        return torch.cat([self.token.expand(len(images), -1, -1), patches], 1) + self.positions

    def forward(self, images: Tensor) -> Tensor:
        """(B, 3, side, side) -> (B, classes)."""
        logits: Tensor = self.classifier(self.blocks(self.tokens(images))[:, 0])
        return logits


def rollout(network: Network, images: Tensor) -> Tensor:
    """Abnar and Zuidema (2020) with hooks on the softmax modules."""
    found: list[Tensor] = []
    hooks = [
        module.register_forward_hook(lambda _, __, output: found.append(output))
        for module in network.modules()
        if isinstance(module, nn.Softmax)
    ]
    with torch.no_grad():
        network(images)
    for hook in hooks:
        hook.remove()
    product = None
    for weights in found:
        mixing = 0.5 * weights.mean(1) + 0.5 * torch.eye(weights.shape[-1])
        mixing = mixing / mixing.sum(-1, keepdim=True)
        product = mixing if product is None else mixing @ product
    assert product is not None
    return _enlarged(product[:, 0, 1:])


def relevance(network: Network, images: Tensor, targets: Tensor) -> Tensor:
    """Chefer, Gur and Wolf (2021), backwards by hand through `Network`."""
    blocks = [block for block in network.blocks if isinstance(block, Block)]
    tokens = network.tokens(images)
    kept, matrices = [], []
    for block in blocks:
        norm, attention = block.attention
        normed = norm(tokens)
        q, k, v = attention.heads(normed)
        weights = (q @ k.transpose(2, 3) / (FEATURES // HEADS) ** 0.5).softmax(-1)
        mixed = (weights @ v).transpose(1, 2).flatten(2)
        attended = attention.output(mixed)
        middle = tokens + attended
        norm, wide, gelu, narrow = block.perceptron
        second = norm(middle)
        active = gelu(wide(second))
        added = narrow(active)
        kept.append(
            (tokens, normed, q, k, v, weights, mixed, attended, middle, second, active, added)
        )
        matrices.append(weights)
        tokens = middle + added
    last = network.blocks[-1](tokens)
    logits = network.classifier(last[:, 0])
    gradients = torch.autograd.grad(logits.gather(1, targets[:, None]).sum(), matrices)
    with torch.no_grad():
        start = F.one_hot(targets, logits.shape[1]).float()
        handed = torch.zeros_like(last)
        handed[:, 0] = _linear(network.classifier.weight, last[:, 0], start)
        parts = []
        for block, seen in zip(reversed(blocks), reversed(kept), strict=True):
            tokens, normed, q, k, v, weights, mixed, attended, middle, second, active, added = seen
            past, given = _sum(middle, added, handed)
            given = _linear(block.perceptron[3].weight, active, given)
            past, given = _sum(
                tokens, attended, past + _linear(block.perceptron[1].weight, second, given)
            )
            given = _linear(block.attention[1].output.weight, mixed, given)
            share = _over(given.unflatten(2, (HEADS, -1)).transpose(1, 2), weights @ v)
            of_weights = weights * (share @ v.transpose(2, 3)) / 2
            of_v = v * (weights.transpose(2, 3) @ share) / 2
            parts.insert(0, of_weights)
            share = _over(of_weights, q @ k.transpose(2, 3))
            of_q, of_k = q * (share @ k) / 2, k * (share.transpose(2, 3) @ q) / 2
            given = torch.stack([of_q, of_k, of_v]).permute(1, 3, 0, 2, 4).flatten(2)
            handed = past + _linear(block.attention[1].inputs.weight, normed, given)
        product = torch.eye(last.shape[1]).expand(len(images), -1, -1)
        for gradient, part in zip(gradients, parts, strict=True):
            product = product + (gradient * part).clamp(min=0).mean(1) @ product
        return _enlarged(product[:, 0, 1:])


def _linear(weight: Tensor, values: Tensor, given: Tensor) -> Tensor:
    above, below = values.clamp(min=0), values.clamp(max=0)
    positive, negative = weight.clamp(min=0), weight.clamp(max=0)
    share = _over(given, F.linear(above, positive) + F.linear(below, negative))
    return above * (share @ positive) + below * (share @ negative)


def _sum(first: Tensor, second: Tensor, given: Tensor) -> tuple[Tensor, Tensor]:
    share = _over(given, first + second)
    parts = (first * share, second * share)
    sums = [each.flatten(1).sum(1)[:, None, None] for each in parts]
    whole = given.flatten(1).sum(1)[:, None, None]
    size = sums[0].abs() + sums[1].abs()
    one, two = (
        part * _over(_over(each.abs(), size) * whole, each)
        for part, each in zip(parts, sums, strict=True)
    )
    return one, two


def _over(amount: Tensor, divisor: Tensor) -> Tensor:
    return torch.where(divisor == 0, 0.0, amount / (divisor + 1e-9 * divisor.sign()))


def _enlarged(row: Tensor) -> Tensor:
    cells = row.reshape(len(row), 1, SIDE // PATCH, SIDE // PATCH)
    return F.interpolate(cells, (SIDE, SIDE), mode="bilinear")


def main() -> None:
    """Print the ratios."""
    torch.manual_seed(0)
    network = Network().eval()
    images, targets = torch.rand(IMAGES, 3, SIDE, SIDE), torch.arange(IMAGES)
    pairs: dict[str, list[Callable[[], Tensor]]] = {
        "attention-rollout": [
            lambda: attention_rollout(network, images, targets),
            lambda: rollout(network, images),
        ],
        "chefer-lrp": [
            lambda: chefer_lrp(network, images, targets),
            lambda: relevance(network, images, targets),
        ],
    }
    for name, (ours, reference) in pairs.items():
        difference = (ours() - reference()).abs().max() / reference().abs().max()
        mine, theirs, ratio = side_by_side(ours, reference, RUNS)
        print(
            f"{name}: {mine * 1e3:.1f} ms, formula {theirs * 1e3:.1f} ms, ratio {ratio:.2f}, largest "
            f"difference {difference:.1e} of the largest value"
        )


if __name__ == "__main__":
    main()
