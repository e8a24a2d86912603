r"""Rules as vision transformers, equal to the network of convolutions bit for bit.

A detector of 1 x 1 convolutions tells colors (and motifs, where a rule has them), a transformer counts
them by place, and the rule's own head computes the rule from the counts. The transformer has a patch
embedding, a class token, position embeddings, one block of attention, and its class token is read out.

**A head is a place**: the class token attends to :math:`2^k` patches. With the class token's query 1
and the keys 0 at these patches and -1024 elsewhere,

.. math::
    a_i = \frac{e^{s_i}}{\sum_j e^{s_j}} = 2^{-k} \ \text{for each of them}, \quad
    a_i = 0 \ \text{elsewhere},

exactly: equal scores give equal exponentials, and :math:`e^{-1024}` is 0 in float32 and float64. The
value of a patch is how many pixels of a color it has, in the part of the patch that the region covers,
and the output projection multiplies the mean of the values by :math:`2^k`. A region of another number
of patches is cut into groups of :math:`2^k`, a head for each. Patches attend to the class token, which
has no pixels, and stay as they are.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from attributionlab.base import checked_arguments
from attributionlab.worlds.nets.camouflage.draft import Draft, Layer, module_of, terms
from attributionlab.worlds.nets.camouflage.equivalents import has_checkers
from attributionlab.worlds.nets.exactness import LayerBudget, Signal, check_budget
from attributionlab.worlds.nets.networks import Network
from attributionlab.worlds.nets.stage import convolution, linear

GAP = 1024.0
"""Between scores of patches that are attended to and of all others; 746 makes exp 0 in float64."""
STEEP = 16.0
"""GELU(16 n) = 16 ReLU(n) for all integers n in float64 too: 1 - erf(16 / sqrt(2)) < 1e-56."""
GRIDS = (8, 9, 7, 10, 6, 11, 5, 12, 4)
"""How many patches a side may have; the first of those that need fewest heads is taken."""
CLASS, PATCH, POSITIONS = 0, 1, 2
"""Entries of a token: 1 in the class token, 1 in each patch, then one for each patch's position."""
TRANSFORMERS = ("transformer", "transformer-sdpa", "transformer-gelu")


class Head(NamedTuple):
    """What a head attends to, and what it moves to the class token.

    - `patches`: 2^k numbers of patches, row by row.
    - `moves`: pairs of an entry of the patches and the count that it is added to.
    - `grid`: patches in a row.
    - `counts`: what the counts are of, such as "azure@top_right".
    """

    patches: tuple[int, ...]
    moves: tuple[tuple[int, int], ...]
    grid: int
    counts: tuple[str, ...]

    @property
    def place(self) -> str:
        """Where the patches are, counted from 1: rows and columns, and how many if not all of them."""
        rows, columns = np.divmod(self.patches, self.grid)
        spans = [f"{a.min() + 1} to {a.max() + 1}" for a in (rows, columns)]
        whole = (np.ptp(rows) + 1) * (np.ptp(columns) + 1)
        some = "" if len(self.patches) == whole else f"{len(self.patches)} patches in "
        return f"{some}rows {spans[0]}, columns {spans[1]}"

    def __str__(self) -> str:
        return f"{self.place}: {', '.join(self.counts)}"


class Attention(nn.Module):
    """Attention of several heads; with `softmax`, or by torch's scaled_dot_product_attention."""

    def __init__(self, width: int, heads: int, size: int, *, fused: bool) -> None:
        super().__init__()
        self.heads, self.size = heads, size
        inner = heads * size
        zeros, none = torch.zeros(inner, width), torch.zeros(inner)
        self.query, self.key, self.value = (linear(zeros, none) for _ in range(3))
        self.softmax = None if fused else nn.Softmax(dim=-1)
        self.projection = linear(zeros.T, torch.zeros(width))

    def forward(
        self, tokens: Float[Tensor, "batch tokens entries"]
    ) -> Float[Tensor, "batch tokens entries"]:
        """Mixtures of the tokens' values, added up over the heads."""
        batch, number, _ = tokens.shape
        query, key, value = (
            each(tokens).reshape(batch, number, self.heads, self.size).transpose(1, 2)
            for each in (self.query, self.key, self.value)
        )
        if self.softmax is None:
            mixed = nn.functional.scaled_dot_product_attention(query, key, value)
        else:
            scores = query @ key.transpose(-2, -1) * self.size**-0.5
            mixed = self.softmax(scores) @ value
        return self.projection(mixed.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


class Block(nn.Module):
    """A residual block of attention alone."""

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention

    def forward(
        self, tokens: Float[Tensor, "batch tokens entries"]
    ) -> Float[Tensor, "batch tokens entries"]:
        """The tokens and what attention adds to them."""
        return tokens + self.attention(tokens)  # type: ignore[no-any-return]


class CountingTransformer(nn.Module):
    """A vision transformer that counts: maps (B, C, H, W) -> its class token (B, entries).

    `heads`: what each of them does.
    """

    def __init__(
        self, patch_embed: nn.Conv2d, grid: int, attention: Attention, heads: Sequence[Head]
    ) -> None:
        super().__init__()
        width = patch_embed.out_channels
        self.heads = tuple(heads)
        self.patch_embed = patch_embed
        self.cls_token = nn.Parameter(torch.eye(1, width)[None])
        positions = torch.zeros(1, 1 + grid**2, width)
        positions[0, 1:, PATCH] = 1
        positions[0, 1:, POSITIONS : POSITIONS + grid**2] = torch.eye(grid**2)
        self.pos_embed = nn.Parameter(positions)
        self.blocks = nn.Sequential(Block(attention))

    def forward(
        self, maps: Float[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch entries"]:
        """The class token behind the last block."""
        patches = self.patch_embed(maps).flatten(2).transpose(1, 2)
        first = self.cls_token.expand(len(patches), -1, -1)
        tokens = torch.cat([first, patches], 1) + self.pos_embed
        return self.blocks(tokens)[:, 0]  # type: ignore[no-any-return]


class Patches(NamedTuple):
    """Kernels as large as a map, cut into patches.

    - `grid`, `side`, `padding`: patches in a row, pixels in a row of a patch, zeros before the map.
    - `entries`: what a patch tells, as weights (E, C, side, side).
    - `heads`: patches, and which entry of them is added to which count.
    """

    grid: int
    side: int
    padding: int
    entries: NDArray[np.float32]
    heads: dict[tuple[int, ...], list[tuple[int, int]]]


def in_patches(kernels: NDArray[np.float32]) -> Patches:
    """The kernels (K, C, S, S) of K counts in patches, with as few heads as the grids allow."""
    sides = dict.fromkeys(-(-kernels.shape[-1] // grid) for grid in GRIDS)
    return min((_in_patches_of(kernels, side) for side in sides), key=lambda each: len(each.heads))


def _in_patches_of(kernels: NDArray[np.float32], side: int) -> Patches:
    counts, channels, size, _ = kernels.shape
    grid = -(-size // side)
    padding = grid * side - size
    # Zeros before the map count for nothing: with the edge's weights more patches are alike.
    whole = np.pad(kernels, [(0, 0), (0, 0), (padding, 0), (padding, 0)], mode="edge")
    patches = whole.reshape(counts, channels, grid, side, grid, side)
    patches = patches.transpose(0, 2, 4, 1, 3, 5).reshape(counts, grid**2, -1)
    entries: dict[bytes, int] = {}
    heads: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for count, parts in enumerate(patches):
        alike: dict[bytes, list[int]] = {}
        for place in np.flatnonzero(parts.any(1)).tolist():
            alike.setdefault(parts[place].tobytes(), []).append(place)
        for pattern, places in alike.items():
            entry = entries.setdefault(pattern, len(entries))
            for group in groups(places):
                heads.setdefault(group, []).append((entry, count))
    told = np.frombuffer(b"".join(entries), np.float32).reshape(-1, channels, side, side)
    return Patches(grid, side, padding, told, heads)


def groups(members: Sequence[int]) -> list[tuple[int, ...]]:
    """Members in groups of 2^k, the largest first."""
    found, start = [], 0
    while rest := len(members) - start:
        size = 1 << (rest.bit_length() - 1)
        found.append(tuple(members[start : start + size]))
        start += size
    return found


@checked_arguments
def heads_of(model: nn.Module) -> tuple[Head, ...]:
    """What each head of a model does; none if it is not one of the vision transformers made here."""
    return next((m.heads for m in model.modules() if isinstance(m, CountingTransformer)), ())


def counts_first(network: Network) -> bool:
    """Whether a network, as it was built, adds a map up before it computes: all of the catalog do."""
    return network.plain is None and "accumulator" in dict(network.model.named_children())


def as_transformer(network: Network, name: str) -> Network:
    """A network that `counts_first`, as the transformer of a name.

    Redundant channels are left out: where there were some, it equals the network on known colors alone.
    Raises AttributionLabError where a layer would leave the exactness budget.
    """
    draft = Draft.of(network)
    first, has_redundant = _behind_detector(network, draft)
    kernels = _kernels(draft.layers[first : draft.flatten])
    most = kernels.flatten(1).sum(1).double()
    front, scale = draft.layers[:first], torch.ones(kernels.shape[1]).double()
    head = draft.layers[draft.flatten :]
    signal = front[-1].signal if front else draft.inputs
    counted = Signal(most, torch.ones_like(most))
    if name == "transformer-gelu":
        if has_checkers(draft):
            front = _joined_checkers(front)
        front, scale = _smooth(front, draft.inputs) if front else (front, scale)
        head = _smooth_head(head, counted)
    transformer, budgets = _counting(kernels, signal, scale, network.counts, name)
    read = torch.zeros(head[0].outputs, transformer.patch_embed.out_channels, 1, 1).double()
    read[:, -len(most) :] = head[0].weight
    activation = nn.GELU if name == "transformer-gelu" else nn.ReLU
    parts = OrderedDict[str, nn.Module]()
    if front:
        parts["detector"] = _modules(front, activation, is_linear=False)
    parts["transformer"] = transformer
    parts["head"] = _modules([replace(head[0], weight=read), *head[1:]], activation, is_linear=True)
    model = nn.Sequential(parts).eval()
    attach = list(parts["detector"].children())[-1] if front else transformer.patch_embed
    return replace(
        network,
        model=model.to(memory_format=torch.channels_last),  # type: ignore[call-overload]
        layers={"gradcam": attach, "iba": attach},
        budgets=[
            *Draft(front, len(front), draft.inputs).budgets(),
            *budgets,
            *Draft(head, 0, counted).budgets(),
        ],
        plain=network.model,
        moves=(f"counted by a {name}, heads: {len(transformer.heads)}",),
        equal_on="palette" if has_redundant else "integers",
    )


def _behind_detector(network: Network, draft: Draft) -> tuple[int, bool]:
    """The first layer that adds up, and whether redundant channels were dropped from the draft."""
    parts = dict(network.model.named_children())
    weighted = [m for m in parts.get("detector", nn.Sequential()).modules() if hasattr(m, "weight")]
    first = len(weighted)
    has_redundant = False
    if first:
        last, reader = draft.layers[first - 1], draft.layers[first]
        known = last.bias == 0  # a redundant channel is 1 less all colors
        has_redundant = not bool(known.all())
        draft.layers[first - 1] = last.part(known)
        draft.layers[first] = replace(reader, weight=reader.weight[:, known])
    while any(
        each.bias.any() or each.weight.min() < 0 for each in draft.layers[first : draft.flatten]
    ):
        first += 1  # a layer of tiles
    return first, has_redundant


def _kernels(sums: Sequence[Layer]) -> Float[Tensor, "counts channels side side"]:
    """Layers that only add up, as one kernel for each count. Each is as wide as its stride."""
    side = 1
    for layer in reversed(sums):
        side = layer.weight.shape[-1] * side - layer.padding
    maps = torch.ones(1, sums[0].weight.shape[1], side, side).requires_grad_()
    found: Tensor = maps
    for layer in sums:
        weight = layer.weight.float()
        found = nn.functional.conv2d(found, weight, None, layer.stride, layer.padding)
    totals = found.flatten()
    return torch.cat([torch.autograd.grad(each, maps, retain_graph=True)[0] for each in totals])


def _joined_checkers(front: Sequence[Layer]) -> list[Layer]:
    """Number checkers in two layers: comparisons are never negative, and need no ReLU of their own.

    So each is a tent of three units, whose slopes at its top cancel where the activation is smooth.
    """
    units, comparisons, answers, *rest = front
    weight = (answers.weight[:, :, 0, 0] @ comparisons.weight[:, :, 0, 0])[:, :, None, None]
    return [units, replace(answers, weight=weight), *rest]


def _smooth(
    layers: Sequence[Layer], signal: Signal
) -> tuple[list[Layer], Float[Tensor, " outputs"]]:
    """Layers for GELU, whose neurons add up multiples of 16, and how much larger the outputs are so.

    `signal`: what the first receives.
    """
    found, scale = [], torch.ones_like(signal.step)
    for layer in layers:
        _, steps = terms(layer, signal)
        grow = STEEP / torch.where(steps.isinf(), 1.0, steps)
        grow = grow if layer.has_relu else torch.ones_like(grow)
        signal = layer.signal
        upper = signal.upper * grow.reshape(-1, *[1] * (signal.upper.ndim - 1))
        weight = layer.weight * grow[:, None, None, None] / scale[None, :, None, None]
        larger = Signal(upper, signal.step * grow)
        found.append(replace(layer, weight=weight, bias=layer.bias * grow, signal=larger))
        scale = grow
    return found, scale


def _smooth_head(layers: Sequence[Layer], signal: Signal) -> list[Layer]:
    """Layers for GELU whose outputs are as they were, by a layer that divides where a ReLU is last."""
    found, scale = _smooth(layers, signal)
    last = layers[-1]
    if last.has_relu:
        weight = torch.diag(1 / scale)[:, :, None, None]
        found.append(replace(last, weight=weight, bias=torch.zeros_like(scale), has_relu=False))
    return found


def _modules(
    layers: Sequence[Layer], activation: type[nn.Module], *, is_linear: bool
) -> nn.Sequential:
    modules: list[nn.Module] = []
    for layer in layers:
        modules.append(module_of(layer, is_linear=is_linear))
        if layer.has_relu:
            modules.append(activation())
    return nn.Sequential(*modules)


def _counting(
    kernels: Tensor, signal: Signal, scale: Tensor, names: Sequence[str], kind: str
) -> tuple[CountingTransformer, list[LayerBudget]]:
    """The transformer of some kernels, and its budgets.

    `signal`: what it counts. `scale`: by how much its inputs are larger than that. `names`: of the
    counts.
    """
    plan = in_patches(kernels.numpy())
    entries = torch.from_numpy(plan.entries.copy()).double()
    start = POSITIONS + plan.grid**2
    width = start + len(entries) + len(kernels)
    weight = torch.zeros(width, *entries.shape[1:]).double()
    weight[start : start + len(entries)] = entries / scale[:, None, None]
    embed = convolution(weight, torch.zeros(width), plan.side, plan.padding)
    size = 4
    while size < max(len(moves) for moves in plan.heads.values()):
        size *= 4  # a power of 4, whose root is a power of 2
    attention = Attention(width, len(plan.heads), size, fused=kind == "transformer-sdpa")
    heads, values = [], torch.zeros(len(kernels)).double()
    upper = (entries.abs().sum((2, 3)) * signal.upper.reshape(len(scale), -1).amax(1)).sum(1)
    for head, (patches, moves) in enumerate(plan.heads.items()):
        _attend(attention, head * size, patches, plan.grid)
        for row, (entry, count) in enumerate(moves, start=head * size):
            attention.value.weight.data[row, start + entry] = 1
            attention.projection.weight.data[start + len(entries) + count, row] = len(patches)
            values[count] += len(patches) * upper[entry]
        named = [names[count] if names else f"count {count + 1}" for _, count in moves]
        heads.append(Head(patches, tuple(moves), plan.grid, tuple(named)))
    steps = signal.step.amin().expand(len(entries))
    score = torch.tensor([GAP * size**0.5]).double()
    largest = max(map(len, plan.heads))
    budgets = [
        check_budget("patch embedding", upper, steps),
        check_budget("attention scores", score, score),
        check_budget("attention", upper, steps / largest),
        check_budget("sums over heads", values, steps[:1].expand(len(values))),
    ]
    return CountingTransformer(embed, plan.grid, attention, heads), budgets


def _attend(attention: Attention, row: int, patches: Sequence[int], grid: int) -> None:
    """Let the class token attend to patches, and patches to the class token, in the head at a row."""
    query, key = attention.query.weight.data, attention.key.weight.data
    query[row, CLASS] = query[row + 1, PATCH] = attention.size**0.5  # attention divides by it
    # 0 where attention is, so that backward passes by log sum exp round as little as may be.
    others = set(range(grid**2)) - set(patches)
    key[row, [CLASS, *(POSITIONS + each for each in others)]] = -GAP
    key[row + 1, PATCH] = -GAP
