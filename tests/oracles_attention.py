"""Transformers and, in plain loops and matrices, what attention methods make of them."""

import math

import torch
from torch import nn
from torch.nn import functional as F

HEADS, FEATURES, HIDDEN, BLOCKS = 2, 6, 8, 2

MAKES = ("products", "einsum", "flat", "fused", "module")


class Attention(nn.Module):
    """The same attention, as different people write it."""

    def __init__(self, make):
        super().__init__()
        self.make = make
        self.query, self.key, self.value, self.out = (nn.Linear(FEATURES, FEATURES) for _ in "qkvo")
        self.drop = nn.Dropout(0.1)

    def forward(self, tokens):
        q, k, v = (
            each(tokens).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for each in (self.query, self.key, self.value)
        )
        scale = (FEATURES // HEADS) ** -0.5
        if self.make == "products":
            mixed = self.drop((q @ k.transpose(-2, -1) * scale).softmax(dim=-1)) @ v
        elif self.make == "einsum":
            scores = torch.einsum("bhid,bhjd->bhij", q, k) * scale
            mixed = torch.einsum("bhij,bhjd->bhid", scores.softmax(-1), v)
        elif self.make == "flat":
            q, k, v = (each.flatten(0, 1) for each in (q, k, v))
            scores = torch.bmm(q, k.transpose(1, 2))
            scores *= scale
            weights = F.softmax(scores, dim=-1, dtype=torch.float64).to(v.dtype)
            mixed = torch.bmm(weights, v).view(-1, HEADS, *v.shape[1:])
        else:
            mixed = F.scaled_dot_product_attention(q, k, v)
        return self.out(mixed.transpose(1, 2).flatten(2))

    def as_module(self, batch_first):
        """The same as torch's own."""
        module = nn.MultiheadAttention(FEATURES, HEADS, batch_first=batch_first)
        inputs = (self.query, self.key, self.value)
        module.in_proj_weight.data = torch.cat([each.weight.data for each in inputs])
        module.in_proj_bias.data = torch.cat([each.bias.data for each in inputs])
        module.out_proj.weight.data = self.out.weight.data
        module.out_proj.bias.data = self.out.bias.data
        return module.to(self.query.weight)


class Block(nn.Module):
    def __init__(self, make):
        super().__init__()
        self.first, self.second = nn.LayerNorm(FEATURES), nn.LayerNorm(FEATURES)
        self.attention = Attention(make)
        self.wide, self.narrow = nn.Linear(FEATURES, HIDDEN), nn.Linear(HIDDEN, FEATURES)

    def forward(self, tokens):
        normed = self.first(tokens)
        if self.attention.make == "module":
            tokens = tokens + self.module(normed, normed, normed)[0]
        else:
            tokens = tokens + self.attention(normed)
        added = self.narrow(F.gelu(self.wide(self.second(tokens))))
        added += tokens
        return added


class Transformer(nn.Module):
    """Patches of 2 x 2 pixels of 4 x 6 images.

    The outputs read the class token ("class"), the mean of all tokens, of which none is a class token
    ("mean"), or the mean of all but the class token ("image").
    """

    def __init__(self, make="products", read="class", batch_first=True, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.read, self.batch_first = read, batch_first
        self.embedding = nn.Conv2d(3, FEATURES, 2, 2)
        self.token = nn.Parameter(torch.randn(1, 1, FEATURES))
        self.positions = nn.Parameter(torch.randn(1, 6 + (read != "mean"), FEATURES))
        self.blocks = nn.Sequential(*(Block(make) for _ in range(BLOCKS)))
        self.norm, self.head = nn.LayerNorm(FEATURES), nn.Linear(FEATURES, 3)
        for each in self.parameters():
            nn.init.normal_(each)
        self.double()
        for block in self.blocks:
            block.module = block.attention.as_module(batch_first)
        self.eval()

    def tokens(self, images):
        tokens = self.embedding(images).flatten(2).transpose(1, 2)
        if self.read != "mean":
            tokens = torch.cat([self.token.expand(len(tokens), -1, -1), tokens], 1)
        return tokens + self.positions

    def forward(self, images):
        tokens = self.tokens(images)
        if self.batch_first:
            tokens = self.blocks(tokens)
        else:
            tokens = self.blocks(tokens.transpose(0, 1)).transpose(0, 1)
        tokens = self.norm(tokens)
        if self.read == "class":
            return self.head(tokens[:, 0])
        return self.head((tokens if self.read == "mean" else tokens[:, 1:]).mean(1))


class Pass:
    """All that a forward pass of one image computes, by name, block by block."""

    def __init__(self, network, image):
        self.network = network
        with torch.enable_grad():
            tokens = network.tokens(image[None])[0].detach()
            self.blocks = []
            for block in network.blocks:
                tokens, seen = self._block(block, tokens)
                self.blocks.append(seen)
            self.behind = tokens
            self.last = network.norm(tokens)
            self.rows = {"class": [0], "mean": range(6), "image": range(1, 7)}[network.read]
            self.pooled = self.last[list(self.rows)].mean(0)
            self.outputs = network.head(self.pooled)

    def _block(self, block, x):
        one, size = block.attention, FEATURES // HEADS
        normed = block.first(x)
        heads, weights = [], []
        q, k, v = one.query(normed), one.key(normed), one.value(normed)
        for h in range(HEADS):
            at = slice(h * size, (h + 1) * size)
            a = torch.softmax(q[:, at] @ k[:, at].T / math.sqrt(size), 1)
            weights.append(a)
            heads.append(a @ v[:, at])
        mixed = torch.cat(heads, 1)
        attended = one.out(mixed)
        middle = x + attended
        second = block.second(middle)
        active = F.gelu(block.wide(second))
        added = block.narrow(active)
        names = "x normed q k v weights heads mixed attended middle second active added"
        local = locals()
        return middle + added, {name: local[name] for name in names.split()}


def rolled_out(network, image, residual):
    """Attention rollout before it is enlarged, (rows, columns)."""
    seen = Pass(network, image)
    product = None
    for block in seen.blocks:
        mean = sum(block["weights"]) / HEADS
        mixing = torch.zeros_like(mean)
        for i in range(len(mean)):
            for j in range(len(mean)):
                mixing[i, j] = residual * (i == j) + (1 - residual) * mean[i, j]
            mixing[i] = mixing[i] / mixing[i].sum()
        product = mixing if product is None else mixing @ product
    return _read(seen, product.detach())


def relevant_attention(network, image, target):
    """Rollout of positive gradient times relevance before it is enlarged, (rows, columns)."""
    seen = Pass(network, image)
    relevance = relevance_of_attention(seen, target)
    product = None
    for block, parts in zip(seen.blocks, relevance, strict=True):
        gradients = torch.autograd.grad(
            seen.outputs[target], block["weights"], retain_graph=True, allow_unused=True
        )
        mixing = torch.eye(len(parts[0])).double()
        for gradient, part in zip(gradients, parts, strict=True):
            mixing = mixing + (gradient * part).clamp(min=0) / HEADS
        product = mixing if product is None else mixing @ product
    return _read(seen, product.detach() - torch.eye(len(product)))


def relevance_of_attention(seen, target):
    """Relevance of the attention matrix of each block and head."""
    network = seen.network
    start = torch.zeros(3).double()
    start[target] = 1
    pooled = through_linear(network.head.weight, seen.pooled[None], start[None])[0]
    relevance = torch.zeros_like(seen.last)
    if network.read == "class":
        relevance[0] = pooled
    else:
        for i in seen.rows:
            parts = seen.last[i].detach() / len(seen.rows)
            relevance[i] = divided(parts * pooled, seen.pooled.detach())
    found = []
    for block, seen_here in zip(reversed(list(network.blocks)), reversed(seen.blocks), strict=True):
        relevance, parts = _through_block(block, seen_here, relevance)
        found.insert(0, parts)
    return found


def _through_block(block, seen, relevance):
    one, size = block.attention, FEATURES // HEADS
    past, added = through_sum(seen["middle"], seen["added"], relevance)
    active = through_linear(block.narrow.weight, seen["active"], added)
    middle = past + through_linear(block.wide.weight, seen["second"], active)
    past, attended = through_sum(seen["x"], seen["attended"], middle)
    mixed = through_linear(one.out.weight, seen["mixed"], attended)
    of_q, of_k, of_v = (torch.zeros_like(seen["q"]) for _ in range(3))
    parts = []
    for h in range(HEADS):
        at = slice(h * size, (h + 1) * size)
        of_weights, of_v[:, at] = through_product(
            seen["weights"][h], seen["v"][:, at], mixed[:, at]
        )
        parts.append(of_weights)
        of_q[:, at], of_keys = through_product(seen["q"][:, at], seen["k"][:, at].T, of_weights)
        of_k[:, at] = of_keys.T
    for layer, part in ((one.query, of_q), (one.key, of_k), (one.value, of_v)):
        past = past + through_linear(layer.weight, seen["normed"], part)
    return past, parts


def through_linear(weight, values, relevance):
    """(tokens, out) -> (tokens, in): shares of sums of those terms x w that are positive."""
    terms = (values[:, None] * weight).detach().clamp(min=0)  # (tokens, out, in)
    return divided(terms * relevance[:, :, None], terms.sum(2, keepdim=True)).sum(1)


def through_product(first, second, relevance):
    """z = first second: a half of each z's relevance to the terms of either, by their share in z."""
    terms = (first[:, :, None] * second).detach()  # (i, m, j)
    parts = divided(terms * relevance[:, None], terms.sum(1, keepdim=True)) / 2
    return parts.sum(2), parts.sum(0)


def through_sum(first, second, relevance):
    """Values in proportion, and then each addend's total by its size."""
    parts = [
        divided(each.detach() * relevance, (first + second).detach()) for each in (first, second)
    ]
    sizes = [abs(part.sum()) for part in parts]
    return [
        part * divided(divided(size, sum(sizes)) * relevance.sum(), part.sum())
        for part, size in zip(parts, sizes, strict=True)
    ]


def divided(amount, by):
    """0 of nothing, and 10^-9 away from 0 otherwise."""
    return torch.where(by == 0, 0.0, amount / (by + 1e-9 * torch.sign(by)))


def _read(seen, product):
    row = sum(product[i] for i in seen.rows) / len(seen.rows)
    return row[-6:].reshape(2, 3).tolist()


def attention_aware(network, image, target, epsilon):
    """AttnLRP of one image, (3, 4, 6): shares of relevance, from results to operands."""
    seen = Pass(network, image)
    start = torch.zeros(3).double()
    start[target] = seen.outputs[target].detach()
    pooled = shared(
        network.head.weight, seen.pooled[None], seen.outputs[None], start[None], epsilon
    )
    relevance = torch.zeros_like(seen.last)
    if network.read == "class":  # which is no sum
        relevance[0] = pooled[0]
    else:
        for i in seen.rows:
            part = seen.last[i] / len(seen.rows)
            relevance[i] = part * pooled[0] / away(seen.pooled, epsilon)
    relevance = through_norm(network.norm, seen.behind, relevance, epsilon)
    for block, here in zip(reversed(list(network.blocks)), reversed(seen.blocks), strict=True):
        relevance = _aware_through_block(block, here, relevance, epsilon)
    with torch.no_grad():
        embedded = network.embedding(image[None])[0].flatten(1).T
        relevance = relevance[-6:] * embedded / network.tokens(image[None])[0, -6:]
        found = torch.zeros_like(image)
        for i in range(6):
            rows, columns = (slice(2 * at, 2 * at + 2) for at in divmod(i, 3))
            patch = image[:, rows, columns]
            weight = network.embedding.weight.flatten(1)
            given = embedded[i : i + 1], relevance[i : i + 1], epsilon
            found[:, rows, columns] = shared(weight, patch.reshape(1, -1), *given).view(3, 2, 2)
    return found.detach()


def _aware_through_block(block, seen, relevance, epsilon):
    one, size = block.attention, FEATURES // HEADS
    behind = (seen["middle"] + seen["added"]).detach()
    of_middle, of_added = (seen[name] * relevance / behind for name in ("middle", "added"))
    active = shared(block.narrow.weight, seen["active"], seen["added"], of_added, epsilon)
    wide = block.wide(seen["second"])  # the activation hands its relevance on unchanged
    second = shared(block.wide.weight, seen["second"], wide, active, epsilon)
    of_middle = of_middle + through_norm(block.second, seen["middle"], second, epsilon)
    of_x, attended = (seen[name] * of_middle / seen["middle"] for name in ("x", "attended"))
    mixed = shared(one.out.weight, seen["mixed"], seen["attended"], attended, epsilon)
    of_q, of_k, of_v = (torch.zeros_like(seen["q"]) for _ in range(3))
    for h in range(HEADS):
        at = slice(h * size, (h + 1) * size)
        weights, v = seen["weights"][h], seen["v"][:, at]
        of_weights, of_v[:, at] = halves(weights, v, mixed[:, at], epsilon)
        q, k = seen["q"][:, at], seen["k"][:, at]
        scores = q @ k.T / math.sqrt(size)
        of_scores = scores * (of_weights - weights * of_weights.sum(1, keepdim=True))
        of_q[:, at], of_keys = halves(q, k.T, of_scores, epsilon)
        of_k[:, at] = of_keys.T
    normed = sum(
        shared(layer.weight, seen["normed"], layer(seen["normed"]), part, epsilon)
        for layer, part in ((one.query, of_q), (one.key, of_k), (one.value, of_v))
    )
    return of_x + through_norm(block.first, seen["x"], normed, epsilon)


def away(z, epsilon):
    return (z + epsilon * torch.where(z >= 0, 1.0, -1.0).to(z)).detach()


def shared(weight, values, results, relevance, epsilon):
    """(tokens, out) -> (tokens, in): the share of each term x w in its result, biases included."""
    terms = (values[:, None] * weight).detach()  # (tokens, out, in)
    return (terms / away(results, epsilon)[:, :, None] * relevance[:, :, None]).sum(1)


def halves(first, second, relevance, epsilon):
    """z = first second: a half of each term's share to either factor."""
    terms = (first[:, :, None] * second).detach()  # (i, m, j)
    parts = terms / away(terms.sum(1), epsilon)[:, None] * relevance[:, None] / 2
    return parts.sum(2), parts.sum(0)


def through_norm(norm, values, relevance, epsilon):
    """Shares of the weights; the division as it arrives; shares of values and their mean."""
    x = values.detach()
    centered = x - x.mean(1, keepdim=True)
    unit = centered / (x.var(1, unbiased=False, keepdim=True) + norm.eps).sqrt()
    parts = (
        unit * norm.weight / away(unit * norm.weight + norm.bias, epsilon)
    ).detach() * relevance
    features = x.shape[1]
    centering = torch.eye(features).double() - 1 / features
    return (x[:, None] * centering / centered[:, :, None] * parts[:, :, None]).sum(1)
