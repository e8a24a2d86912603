r"""Transformers with weights set by hand: a residual stream whose entries have names.

A head states what its queries and keys multiply and what it hands on; a neuron what it reads and
writes. Everything is exact:

- **Attention.** Scores of tokens that are attended to tie, all others lie `GAP` below, where exp is 0
  even in float64. The softmax is then 1/n on n tokens, and n is a power of two. Sums of values are
  multiples of 1/n, which the output projection takes back.
- **Scores.** They are divided by :math:`\sqrt{d}`; d, the size of a head, is a power of 4, so that
  queries take it back exactly.
- **Perceptrons** have integer weights, as those of rules (`worlds.rules.compiling`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attributionlab.base import AttributionLabError
from attributionlab.worlds.nets.transformers import GAP, Attention

SIZES = (4, 16, 64)
"""Sizes of heads: powers of 4."""
Row = Mapping[str, float]
"""Weights by the name of an entry of the stream."""
Pairs = Sequence[tuple[Row, Row]]
"""Weights of a query and a key, or of what is read and what it is written to."""


def pairs(first: Iterable[str], second: Iterable[str]) -> Pairs:
    """An entry and another one, each with weight 1: what is read and written, or asked and known."""
    return [({one: 1.0}, {other: 1.0}) for one, other in zip(first, second, strict=True)]


@dataclass(frozen=True)
class Head:
    """One head of attention.

    - `scores`: pairs of a query's and a key's weights; the score is the sum of their products.
    - `values`: pairs of what is read of the tokens attended to, and what it is written to.
    - `attends`: to which tokens, in words.
    """

    scores: Pairs
    values: Pairs
    attends: str


@dataclass(frozen=True)
class Neuron:
    """ReLU(reads + bias), written to the stream."""

    reads: Row
    bias: float
    writes: Row


@dataclass(frozen=True)
class Layer:
    """Heads side by side, then neurons side by side."""

    heads: Sequence[Head] = ()
    neurons: Sequence[Neuron] = ()


class Block(nn.Module):
    """x + attention(x), then x + perceptron(x). There is no normalization, which would not be exact."""

    def __init__(self, width: int, heads: int, size: int, hidden: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads, size, fused=False)
        self.inner, self.relu = nn.Linear(width, hidden), nn.ReLU()
        self.outer = nn.Linear(hidden, width)

    def forward(
        self, x: Float[Tensor, "batch tokens width"]
    ) -> Float[Tensor, "batch tokens width"]:
        """The stream behind this block."""
        x = x + self.attention(x)
        return x + self.outer(self.relu(self.inner(x)))  # type: ignore[no-any-return]


class TokenTransformer(nn.Module):
    """A transformer over tokens, with a start token in front; each output is read from one token.

    It takes what the libraries of its users have: ids, embeddings, or one-hot "images" for functions
    that know images.

    - `embedding`: nn.Embedding; id 0 is [PAD], whose row is 0.
    - `start`: (S, D), the start token and registers, in front of all others.
    - `position`: (T, D).
    """

    def __init__(
        self,
        embedding: Float[Tensor, "words width"],
        start: Float[Tensor, "start width"],
        position: Float[Tensor, "tokens width"],
        blocks: Sequence[Block],
        head: nn.Linear,
        read: int,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(embedding), embedding.shape[1], padding_idx=0)
        self.embedding.weight.data = embedding
        self.start, self.position = nn.Parameter(start), nn.Parameter(position)
        self.blocks, self.head = nn.Sequential(*blocks), head
        self.read = read  # behind the start token and registers, or 0 for the start token

    def forward(
        self, input_ids: Tensor | None = None, *, inputs_embeds: Tensor | None = None
    ) -> Float[Tensor, "batch outputs"]:
        """Outputs for ids (B, T), embeddings (B, T, D), or one-hot images (B, V, 1, T).

        All pass by place, or ids and embeddings by their names in the transformers library. Raises
        AttributionLabError for both.
        """
        if input_ids is not None and inputs_embeds is not None:
            raise AttributionLabError(
                "input_ids and inputs_embeds are both given, each a whole input: pass one of them"
            )
        x = self.embedded(input_ids if inputs_embeds is None else inputs_embeds)
        ahead = self.start.expand(len(x), -1, -1)
        x = torch.cat([ahead, x + self.position], dim=1)
        return self.head(self.blocks(x)[:, self.read])  # type: ignore[no-any-return]

    def embedded(self, inputs: Tensor | None) -> Float[Tensor, "batch tokens width"]:
        """Embeddings of whatever the network takes, without positions.

        Raises AttributionLabError for another shape or type, and for ids out of range.
        """
        words, width = self.embedding.weight.shape
        tokens = len(self.position)
        shape = tuple(inputs.shape) if isinstance(inputs, Tensor) else ()
        fits = shape[1:] in ((tokens,), (tokens, width), (words, 1, tokens))
        if not isinstance(inputs, Tensor) or not fits:
            found = f"have the shape {shape}" if shape else f"are of type {type(inputs).__name__}"
            raise AttributionLabError(
                f"inputs {found}: pass a tensor of ids (B, {tokens}), embeddings (B, {tokens}, "
                f"{width}), or one-hot images (B, {words}, 1, {tokens})"
            )
        if len(shape) > 2 and inputs.dtype != (known := self.embedding.weight.dtype):
            raise AttributionLabError(
                f"inputs of the shape {shape} are {inputs.dtype} and the network is {known}: convert "
                f"them by inputs.to({known})"
            )
        if len(shape) == 4:
            return inputs[:, :, 0].transpose(1, 2) @ self.embedding.weight
        if len(shape) == 3:
            return inputs
        return self.embedding(checked_ids(inputs, words))  # type: ignore[no-any-return]


def checked_ids(ids: Tensor, words: int) -> Int[Tensor, "batch tokens"]:
    """Ids below a number of words, [PAD] included. Raises AttributionLabError for others."""
    if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        raise AttributionLabError(
            f"ids are {ids.dtype}: pass integers; there is nothing between two ids, so a method that "
            "interpolates inputs needs embeddings or one-hot images"
        )
    wrong = (ids < 0) | (ids >= words)
    if wrong.any():
        raise AttributionLabError(
            f"ids hold {int(ids[wrong][0])}: take ids from 0, which is [PAD], to {words - 1}"
        )
    return ids.long()


class Maker:
    """Builds a transformer layer by layer, by names of entries of its stream.

    - `words`: number of words, without [PAD]; word w has the entry ``word[w - 1]``.
    - `length`: T; T + 1 is a power of two, so that attention to all tokens and the start token is
      exact.
    - `registers`: further tokens behind the start token.
    """

    def __init__(self, words: int, length: int, registers: int = 0) -> None:
        self.entries: dict[str, int] = {}
        self.length, self.layers = length, list[Layer]()
        self.word = self.add(*(f"word {index + 1}" for index in range(words)))
        self.place = self.add(*(f"place {index}" for index in range(length)))
        self.register = self.add(*(f"register {index}" for index in range(registers)))
        self.add("token", "start")  # every token but registers has the first
        self.outputs: list[tuple[Row, float]] = []

    def add(self, *names: str) -> list[str]:
        """New entries of the stream."""
        for name in names:
            assert name not in self.entries
            self.entries[name] = len(self.entries)
        return list(names)

    def layer(self, *heads: Head, neurons: Sequence[Neuron] = ()) -> None:
        """A layer behind those that are there."""
        self.layers.append(Layer(heads, neurons))

    # Heads

    def counting(self, region: Sequence[int], values: Pairs) -> Head:
        """Sums over the tokens of a region, at every token; a region may hold the start token, as -1.

        It is attended to evenly, and its size is a power of two.
        """
        size = len(region)
        assert size & (size - 1) == 0
        names = ["start" if place < 0 else self.place[place] for place in region]
        scores = [({"token": 1.0}, dict.fromkeys(names, GAP))]
        inside = [place + 1 for place in region if place >= 0]
        whole = len(inside) == self.length
        attends = "all tokens" if whole else f"tokens {inside[0]} to {inside[-1]}"
        return Head(scores, [(read, _scaled(write, size)) for read, write in values], attends)

    def previous(self, values: Pairs) -> Head:
        """What the token before has; the first one reads the start token."""
        pairs = zip(self.place[1:], self.place[:-1], strict=True)
        scores: list[tuple[Row, Row]] = [({here: 1.0}, {before: 2 * GAP}) for here, before in pairs]
        return Head([*scores, ({"token": 1.0}, {"start": GAP})], values, "the token before")

    def latest(
        self,
        matches: Pairs,
        values: Pairs,
        attends: str,
        needed: int = 1,
    ) -> Head:
        """What the latest token has for which `needed` of the pairs (query, key) are 1, else nothing.

        Score of the token at place i, for m matches: m (T + 2) GAP + (i + 1) GAP. The start token's
        lies between that of the last token for `needed` - 1 matches and of the first for `needed`.
        """
        full = (self.length + 2) * GAP
        scores: list[tuple[Row, Row]] = [(_scaled(query, full), key) for query, key in matches]
        places = {place: (index + 1) * GAP for index, place in enumerate(self.place)}
        scores.append(({"token": 1.0}, places))
        floor = (needed - 1) * full + (self.length + 1) * GAP
        return Head([*scores, ({"token": 1.0}, {"start": floor})], values, attends)

    # The whole

    def output(self, row: Row, offset: float = 0.0) -> None:
        """A further output of the network."""
        self.outputs.append((row, offset))

    def heads(self, roles: Sequence[str]) -> dict[str, str]:
        """What each head attends to and what it carries, by the names of the words' roles."""
        named = dict(zip(self.word, roles, strict=True))
        found = {}
        for block, layer in enumerate(self.layers, start=1):
            for number, head in enumerate(layer.heads, start=1):
                carried = [named.get(entry, entry) for reads, _ in head.values for entry in reads]
                if len(carried) > 6:
                    carried = [f"{carried[0]} to {carried[-1]}"]
                said = f"of {head.attends}: {', '.join(carried)}"
                found[f"block {block}, head {number}"] = said
        return found

    def network(self, read: int = 0) -> TokenTransformer:
        """The transformer, in eval mode; outputs are read from the token at place `read` - 1, or the
        start token for 0.
        """
        width = len(self.entries)
        embedding = [self._row({}), *(self._row({word: 1.0}) for word in self.word)]
        start = [self._row({"token": 1.0, "start": 1.0})]
        start += [self._row({register: 1.0}) for register in self.register]
        position = [self._row({"token": 1.0, place: 1.0}) for place in self.place]
        head = nn.Linear(width, len(self.outputs))
        head.weight.data = torch.stack([self._row(row) for row, _ in self.outputs])
        head.bias.data = torch.tensor([offset for _, offset in self.outputs])
        return TokenTransformer(
            *(torch.stack(embedding), torch.stack(start), torch.stack(position)),
            *([self._block(layer) for layer in self.layers], head),
            read=read + len(self.register) if read else 0,
        ).eval()

    def _row(self, row: Row) -> Float[Tensor, " width"]:
        found = torch.zeros(len(self.entries))
        for name, weight in row.items():
            found[self.entries[name]] = weight
        return found

    def _block(self, layer: Layer) -> Block:
        """The weights of a layer; where it lacks heads or neurons, one that adds nothing."""
        heads = list(layer.heads) or [Head([({"token": 1.0}, {"start": GAP})], [], "nothing")]
        needed = max(len(part) for head in heads for part in (head.scores, head.values))
        size = next(size for size in SIZES if size >= needed)
        block = Block(len(self.entries), len(heads), size, max(1, len(layer.neurons)))
        for parameter in block.parameters():
            parameter.data.zero_()
        attention, inner, outer = block.attention, block.inner, block.outer
        for index, head in enumerate(heads):
            for at, (query, key) in enumerate(head.scores, start=index * size):
                attention.query.weight.data[at] = self._row(query) * size**0.5
                attention.key.weight.data[at] = self._row(key)
            for at, (reads, writes) in enumerate(head.values, start=index * size):
                attention.value.weight.data[at] = self._row(reads)
                attention.projection.weight.data[:, at] = self._row(writes)
        for at, neuron in enumerate(layer.neurons):
            inner.weight.data[at], inner.bias.data[at] = self._row(neuron.reads), neuron.bias
            outer.weight.data[:, at] = self._row(neuron.writes)
        return block


def _scaled(row: Row, factor: float) -> Row:
    return {name: factor * weight for name, weight in row.items()}
