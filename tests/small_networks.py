"""Networks as people write them, small, each beside a counterpart: the same function in plain form.

A counterpart works out of place, with a module for each activation, in float64; on that form the tests
of each method show that it is right. Both draw equal weights, because they make the same layers in the
same order under one seed.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from oracles_attention import Transformer

PICTURE, PATCHES = (3, 8, 8), (3, 4, 6)
CLASSES = 3


def drawn(make, *args, **settings):
    """A network in eval mode and float64, with weights of one seed, whatever was drawn before."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = make(*args, **settings)
        for module in network.modules():
            if isinstance(module, nn.BatchNorm2d) and module.track_running_stats:
                nn.init.normal_(module.running_mean, std=0.3)
                nn.init.uniform_(module.running_var, 0.5, 2)
                nn.init.uniform_(module.weight, 0.5, 1.5)
                nn.init.normal_(module.bias, std=0.3)
    return network.double().eval()


class Function(nn.Module):
    """Any function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Chain(nn.Module):
    """Two convolutions, an activation behind each, and a linear layer."""

    def __init__(self, activation=nn.ReLU, groups=1):
        super().__init__()
        self.first, self.one = nn.Conv2d(3, 6, 3, padding=1), activation()
        self.second, self.two = nn.Conv2d(6, 6, 3, 2, 1, groups=groups), activation()
        self.head = nn.Linear(6 * 4 * 4, CLASSES)

    def forward(self, x):
        return self.head(self.two(self.second(self.one(self.first(x)))).flatten(1))


class FunctionChain(Chain):
    def forward(self, x):
        return self.head(F.relu(self.second(F.relu(self.first(x)))).flatten(1))


class ReusingChain(Chain):
    def forward(self, x):
        return self.head(self.one(self.second(self.one(self.first(x)))).flatten(1))


class GeluChain(Chain):
    def forward(self, x):
        return self.head(F.gelu(self.second(F.gelu(self.first(x)))).flatten(1))


class TwoRectifiers(nn.Module):
    """A piecewise linear activation as the difference of two ReLUs."""

    def __init__(self, factor, bend):
        super().__init__()
        self.factor, self.bend = factor, bend
        self.first, self.second = nn.ReLU(), nn.ReLU()

    def forward(self, x):
        bent = self.second(self.factor * x - self.bend)
        return self.first(1 * x) - abs(self.factor) * bent  # no two modules share an input


def rectified(activation):
    """A chain with a ReLU, and behind it another piecewise linear activation."""
    network = drawn(Chain)
    network.two = activation
    return network


class GroupNormFormula(nn.GroupNorm):
    """One group."""

    def forward(self, x):
        centered = x - x.mean((1, 2, 3), keepdim=True)
        normed = centered / (centered.square().mean((1, 2, 3), keepdim=True) + self.eps).sqrt()
        return normed * self.weight[:, None, None] + self.bias[:, None, None]


class GroupNormalized(Chain):
    def __init__(self, norm=nn.GroupNorm):
        super().__init__()
        self.norm = norm(1, 6)

    def forward(self, x):
        return self.head(self.two(self.second(self.one(self.norm(self.first(x))))).flatten(1))


class Product(Chain):
    """A convolution times another one, as in bilinear layers."""

    def __init__(self, difference=False):
        super().__init__()
        self.difference = difference
        self.other = nn.Conv2d(6, 6, 3, 2, 1)

    def forward(self, x):
        x = self.one(self.first(x))
        a, b = self.second(x), self.other(x)
        product = ((a + b).square() - (a - b).square()) / 4 if self.difference else a * b
        return self.head(product.flatten(1))


class DepthwiseAsDense(Chain):
    """A depthwise convolution as one over all channels, whose other weights are 0."""

    def __init__(self):
        super().__init__(groups=6)
        dense = nn.Conv2d(6, 6, 3, 2, 1)
        dense.weight.data = torch.diag_embed(self.second.weight.data[:, 0].permute(1, 2, 0))
        dense.weight.data = dense.weight.data.permute(2, 3, 0, 1).contiguous()
        dense.bias = self.second.bias
        self.second = dense


class TupleChain(Chain):
    def forward(self, x):
        return super().forward(x), x.mean()


class DictChain(Chain):
    def forward(self, x):
        return {"logits": super().forward(x), "hidden": x}


class InPlaceNormalizingChain(Chain):
    def forward(self, x):
        x -= 0.5
        x /= 0.25
        return super().forward(x)


class NormalizingChain(Chain):
    def forward(self, x):
        return super().forward((x - 0.5) / 0.25)


class Normalized(nn.Module):
    """Batch normalization behind each convolution, or folded into it."""

    def __init__(self, folded=False, statistics=True):
        super().__init__()
        self.first = nn.Conv2d(3, 6, 3, padding=1)
        self.norm = nn.BatchNorm2d(6, track_running_stats=statistics)
        self.one = nn.ReLU()
        self.second, self.norm2 = nn.Conv2d(6, 6, 3, 2, 1, bias=False), nn.BatchNorm2d(6)
        self.two = nn.ReLU()
        self.head = nn.Linear(6 * 4 * 4, CLASSES)

    def forward(self, x):
        x = self.two(self.norm2(self.second(self.one(self.norm(self.first(x))))))
        return self.head(x.flatten(1))


def folded():
    """The same with normalization as part of the convolutions."""
    network = drawn(Normalized)
    for convolution, norm in (("first", "norm"), ("second", "norm2")):
        pair = getattr(network, convolution), getattr(network, norm)
        setattr(network, convolution, nn.utils.fuse_conv_bn_eval(*pair))
        setattr(network, norm, nn.Identity())
    return network


class ResidualSum(nn.Module):
    """x + h(x) without normalization, the sum in place or not."""

    def __init__(self, in_place):
        super().__init__()
        self.stem, self.inner = nn.Conv2d(3, 6, 3, 2, 1), nn.Conv2d(6, 6, 3, padding=1)
        self.relu, self.in_place = nn.ReLU(), in_place
        self.head = nn.Linear(6 * 4 * 4, CLASSES)

    def forward(self, x):
        x = self.stem(x)
        added = self.inner(x)
        if self.in_place:
            added += x
        else:
            added = added + x
        return self.head(self.relu(added).flatten(1))


class Preactivated(nn.Module):
    """x + h(ReLU(x)), where the ReLU shares its input with the sum, or has a copy of its own."""

    def __init__(self, shared):
        super().__init__()
        self.stem, self.relu = nn.Conv2d(3, 6, 3, 2, 1), nn.ReLU()
        self.inner, self.last = nn.Conv2d(6, 6, 3, padding=1), nn.ReLU()
        self.head, self.shared = nn.Linear(6 * 4 * 4, CLASSES), shared

    def forward(self, x):
        x = self.stem(x)
        x = x + self.inner(self.relu(x if self.shared else 1 * x))
        return self.head(self.last(x).flatten(1))


class ResidualBlock(nn.Module):
    """As in a ResNet: two convolutions with normalization, and a shortcut."""

    def __init__(self, channels, outputs, in_place):
        super().__init__()
        stride = 1 if channels == outputs else 2
        self.conv1 = nn.Conv2d(channels, outputs, 3, stride, 1, bias=False)
        self.bn1, self.relu = nn.BatchNorm2d(outputs), nn.ReLU(inplace=in_place)
        self.conv2, self.bn2 = (
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.last, self.in_place = nn.ReLU(inplace=in_place), in_place
        self.downsample = nn.Identity()
        if stride == 2:
            shortcut = nn.Conv2d(channels, outputs, 1, 2, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(outputs))

    def forward(self, x):
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        if self.in_place:
            out += self.downsample(x)
        else:
            out = out + self.downsample(x)
        return self.last(out)


class ResNet(nn.Module):
    """A stem with overlapping max pooling and two blocks, the second of which halves the sides."""

    def __init__(self, in_place):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1, bias=False),
            nn.BatchNorm2d(4),
            nn.ReLU(inplace=in_place),
            nn.MaxPool2d(3, 2, 1),
        )
        self.blocks = nn.Sequential(ResidualBlock(4, 4, in_place), ResidualBlock(4, 6, in_place))
        self.pool, self.head = nn.AdaptiveAvgPool2d(1), nn.Linear(6, CLASSES)

    def forward(self, x):
        return self.head(self.pool(self.blocks(self.stem(x))).flatten(1))


def vgg(in_place):
    return nn.Sequential(
        *(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(in_place), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 6, 3, padding=1), nn.ReLU(in_place), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(24, 8), nn.ReLU(in_place), nn.Dropout(), nn.Linear(8, CLASSES)),
    )


class SqueezeExcitation(nn.Module):
    """Maps times weights between 0 and 1 that a small network makes of their means."""

    def __init__(self, gate=nn.Sigmoid, in_place=True):
        super().__init__()
        self.first, self.one = nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(in_place)
        self.squeeze, self.relu = nn.Conv2d(6, 2, 1), nn.ReLU(in_place)
        self.excite, self.gate = nn.Conv2d(2, 6, 1), gate()
        self.head = nn.Linear(6 * 8 * 8, CLASSES)

    def forward(self, x):
        x = self.one(self.first(x))
        gates = self.gate(self.excite(self.relu(self.squeeze(x.mean((2, 3), keepdim=True)))))
        return self.head((x * gates).flatten(1))


class Logistic(nn.Module):
    """The sigmoid, written out."""

    def forward(self, x):
        return 1 / (1 + torch.exp(-x))


class ClassTokenLast(Transformer):
    """The same function, as attention does not know the order of tokens."""

    def tokens(self, images):
        patches = self.embedding(images).flatten(2).transpose(1, 2)
        last = self.token.expand(len(images), -1, -1)
        positions = torch.cat([self.positions[:, 1:], self.positions[:, :1]], 1)
        return torch.cat([patches, last], 1) + positions

    def forward(self, images):
        return self.head(self.norm(self.blocks(self.tokens(images)))[:, -1])


class Windows(nn.Module):
    """A Swin transformer's pair of blocks on 4 x 6 cells: attention in windows of 2 x 2, then shifted.

    The counterpart attends to all cells, through a mask.
    """

    SIDE, ROWS, COLUMNS, FEATURES = 2, 4, 6, 6

    def __init__(self, masked):
        super().__init__()
        self.masked, size = masked, self.FEATURES
        self.embedding = nn.Conv2d(3, size, 1)
        self.norms = nn.ModuleList(nn.LayerNorm(size) for _ in range(2))
        self.mixers = nn.ModuleList(nn.Linear(size, 3 * size) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(size), nn.Linear(size, CLASSES)
        for each in self.parameters():
            nn.init.normal_(each)

    def windows(self, maps):
        """(B, h, w, c) -> (B, windows, cells, c)."""
        side = self.SIDE
        cut = maps.unflatten(2, (-1, side)).unflatten(1, (-1, side))
        return cut.transpose(2, 3).flatten(3, 4).flatten(1, 2)

    def whole(self, windows):
        side = self.SIDE
        cut = windows.unflatten(2, (side, side)).unflatten(1, (self.ROWS // side, -1))
        return cut.transpose(2, 3).flatten(3, 4).flatten(1, 2)

    def mask(self, shift):
        """Whether two tokens are in one window."""
        number = torch.arange(self.ROWS // 2 * self.COLUMNS // 2).reshape(1, 1, -1, 1, 1)
        number = number.expand(1, 1, -1, 4, 1)[0]
        window = self.whole(number).roll((shift, shift), (1, 2)).flatten()
        return window[:, None] == window

    def forward(self, images):
        x = self.embedding(images).permute(0, 2, 3, 1)
        for shift, norm, mixer in zip((0, 1), self.norms, self.mixers, strict=True):
            y = norm(x)
            y = y.flatten(1, 2) if self.masked else self.windows(y.roll((-shift, -shift), (1, 2)))
            q, k, v = mixer(y).chunk(3, -1)
            scores = q @ k.transpose(-2, -1) * self.FEATURES**-0.5
            if self.masked:
                scores = scores.masked_fill(~self.mask(shift), -torch.inf)
            y = scores.softmax(-1) @ v
            if self.masked:
                x = x + y.unflatten(1, (self.ROWS, self.COLUMNS))
            else:
                x = x + self.whole(y).roll((shift, shift), (1, 2))
        return self.head(self.norm(x).mean((1, 2)))


class Embedded(nn.Module):
    """An encoder of embeddings (B, T, F), as language models take them as `inputs_embeds`."""

    def __init__(self, fused):
        super().__init__()
        self.fused, self.mixer, self.norm = fused, nn.Linear(4, 12), nn.LayerNorm(4)
        self.head = nn.Linear(4, CLASSES)
        for each in self.parameters():
            nn.init.normal_(each)

    def forward(self, inputs_embeds):
        q, k, v = self.mixer(inputs_embeds).chunk(3, -1)
        if self.fused:
            mixed = F.scaled_dot_product_attention(q, k, v)
        else:
            mixed = (q @ k.transpose(-2, -1) * 0.5).softmax(-1) @ v
        return self.head(self.norm(inputs_embeds + mixed).mean(1))


class Signals(nn.Module):
    """Convolutions of signals (B, C, T), or of the same as pictures of one row."""

    def __init__(self, pictures=False):
        super().__init__()
        self.first, self.one = nn.Conv1d(3, 6, 3, padding=1), nn.ReLU()
        self.second, self.two = nn.Conv1d(6, 6, 3, 2, 1), nn.ReLU()
        self.head = nn.Linear(6 * 4, CLASSES)
        if pictures:
            for name in ("first", "second"):
                old = self.get_submodule(name)
                new = nn.Conv2d(old.in_channels, 6, (1, 3), (1, *old.stride), (0, 1))
                new.weight.data, new.bias = old.weight.data[:, :, None], old.bias
                setattr(self, name, new)

    def forward(self, x):
        return self.head(self.two(self.second(self.one(self.first(x)))).flatten(1))


def table():
    """A perceptron of features (B, F), or of a picture of one row and one channel."""
    return nn.Sequential(nn.Flatten(), nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, CLASSES))


class DrawingChain(Chain):
    """Dropout by the function, which does not know of eval mode."""

    def forward(self, x):
        hidden = self.two(self.second(self.one(self.first(x))))
        return self.head(F.dropout(hidden.flatten(1)))


def compiled_in_place():
    network = drawn(Chain)
    network.compile(backend="eager", dynamic=True)
    return network


def hooked():
    """A user watches gradients."""
    network = drawn(Chain)
    for module in (network.one, network.second):
        module.register_full_backward_hook(lambda *_: None)
    return network


def traced():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.jit.trace(drawn(Chain), torch.zeros(1, *PICTURE).double(), check_trace=False)


@dataclass(frozen=True)
class Kind:
    """A kind of network: one of its kind, the counterpart, and a layer of both with maps.

    Without a counterpart, no map of it is right. `share`: how far a map may be off, beside its largest
    value, by rounding alone; an optimization amplifies it. `pictures`: the shape of the same inputs for
    the counterpart.
    """

    title: str
    network: Callable[[], nn.Module]
    counterpart: Callable[[], nn.Module] | None
    layer: str = "second"
    shape: tuple[int, ...] = PICTURE
    dtype: torch.dtype = torch.float64
    share: float = 2.0**-20
    pictures: tuple[int, ...] | None = None


plain = partial(drawn, Chain)
pieces = partial(Kind, shape=PATCHES, layer="blocks.1.first")

KINDS = {
    "plain": Kind("chain of convolutions and `nn.ReLU`", plain, plain),
    "functional": Kind("`F.relu`", partial(drawn, FunctionChain), plain),
    "reused": Kind("one `nn.ReLU` used twice", partial(drawn, ReusingChain), plain),
    "in place": Kind(
        "`nn.ReLU(inplace=True)`", partial(drawn, Chain, partial(nn.ReLU, True)), plain
    ),
    "sum": Kind(
        "residual sum in place, `out += x`",
        partial(drawn, ResidualSum, True),
        partial(drawn, ResidualSum, False),
        "inner",
    ),
    "preactivated": Kind(
        "residual network that activates first, `x + h(relu(x))`",
        partial(drawn, Preactivated, True),
        partial(drawn, Preactivated, False),
        "relu",
    ),
    "ResNet": Kind(
        "ResNet: the two above, batch normalization, overlapping max pooling",
        partial(drawn, ResNet, True),
        partial(drawn, ResNet, False),
        "blocks.0.bn2",
    ),
    "VGG": Kind(
        "VGG: max pooling behind ReLUs", partial(drawn, vgg, True), partial(drawn, vgg, False), "3"
    ),
    "BatchNorm": Kind("batch normalization", partial(drawn, Normalized), folded, "norm"),
    "GroupNorm": Kind(
        "normalization of each image, `nn.GroupNorm`",
        partial(drawn, GroupNormalized),
        partial(drawn, GroupNormalized, GroupNormFormula),
    ),
    "LeakyReLU": Kind(
        "`nn.LeakyReLU` behind an `nn.ReLU`",
        lambda: rectified(nn.LeakyReLU(0.2)),
        lambda: rectified(TwoRectifiers(-(0.2**0.5), 0)),
    ),
    "ReLU6": Kind(
        "`nn.ReLU6` behind an `nn.ReLU`",
        lambda: rectified(nn.ReLU6()),
        lambda: rectified(TwoRectifiers(1, 6)),
    ),
    "product": Kind(
        "product of two layers", partial(drawn, Product), partial(drawn, Product, difference=True)
    ),
    "GELU": Kind(
        "`F.gelu`",
        partial(drawn, GeluChain),
        partial(drawn, Chain, nn.GELU),
    ),
    "SiLU": Kind(
        "`nn.SiLU(inplace=True)`",
        partial(drawn, Chain, partial(nn.SiLU, True)),
        partial(drawn, Chain, nn.SiLU),
    ),
    "SE": Kind(
        "squeeze and excitation",
        partial(drawn, SqueezeExcitation),
        partial(drawn, SqueezeExcitation, Logistic, in_place=False),
        "first",
    ),
    "depthwise": Kind(
        "depthwise convolutions", partial(drawn, Chain, groups=6), partial(drawn, DepthwiseAsDense)
    ),
    "ViT, first": pieces(
        "vision transformer, class token first", partial(Transformer, "module"), Transformer
    ),
    "ViT, last": pieces("class token last", ClassTokenLast, Transformer),
    "ViT, none": pieces(
        "no class token", partial(Transformer, "fused", "mean"), partial(Transformer, read="mean")
    ),
    "Swin": pieces(
        "windows and shifted windows",
        partial(drawn, Windows, False),
        partial(drawn, Windows, True),
        layer="norms.1",
    ),
    "embeddings": Kind(
        "encoder of `inputs_embeds` (B, T, F)",
        partial(drawn, Embedded, True),
        partial(drawn, Embedded, False),
        "norm",
        (5, 4),
    ),
    "signals": Kind(
        "signals (B, C, T)",
        partial(drawn, Signals),
        partial(drawn, Signals, True),
        shape=(3, 8),
        pictures=(3, 1, 8),
    ),
    "table": Kind(
        "tables (B, F)",
        partial(drawn, table),
        partial(drawn, table),
        "1",
        (6,),
        pictures=(1, 1, 6),
    ),
    "float32": Kind(
        "ResNet in float32",
        lambda: drawn(ResNet, True).float(),
        partial(drawn, ResNet, False),
        "blocks.0.bn2",
        dtype=torch.float32,
        share=2.0**-8,
    ),
    "float16": Kind("float16", lambda: plain().half(), plain, dtype=torch.float16, share=0.1),
    "bfloat16": Kind(
        "bfloat16", lambda: plain().bfloat16(), plain, dtype=torch.bfloat16, share=0.4
    ),
    "frozen": Kind("frozen weights", lambda: plain().requires_grad_(False), plain),
    "hooked": Kind("a user's own backward hooks", hooked, plain),
    "channels-last": Kind(
        "channels-last memory", lambda: plain().to(memory_format=torch.channels_last), plain
    ),
    "compile()": Kind("`model.compile()`", compiled_in_place, plain),
    "torch.compile": Kind(
        "`torch.compile(model)`", lambda: torch.compile(plain(), backend="eager"), plain
    ),
    "traced": Kind("`torch.jit.trace`", traced, plain),
    "DataParallel": Kind("`nn.DataParallel`", lambda: nn.DataParallel(plain()), plain),
    "tuple": Kind("a tuple as output", partial(drawn, TupleChain), plain),
    "dict": Kind("a dictionary as output", partial(drawn, DictChain), plain),
    "normalizing": Kind(
        "normalizes its input in place",
        partial(drawn, InPlaceNormalizingChain),
        partial(drawn, NormalizingChain),
    ),
    "batch": Kind(
        "batch normalization without running statistics",
        partial(drawn, Normalized, statistics=False),
        None,
        "second",
    ),
    "dropout": Kind("`F.dropout` in eval mode", partial(drawn, DrawingChain), None),
}


class Squares(nn.Module):
    """Outputs that are polynomials of small integers, so exact in float32."""

    def __init__(self, weights):
        super().__init__()
        self.register_buffer("weights", weights)

    def forward(self, images):
        sums = torch.einsum("bchw,kchw->bk", images, self.weights)
        return sums * sums - 3 * sums


def smooth(seed, layers):
    """A chain of layers that is none of ours, in float64, with normal weights of a seed."""
    generator = torch.Generator().manual_seed(seed)
    model = nn.Sequential(*layers).double()
    for parameter in model.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator).double()
    return model.eval()


def summing(pixels):
    """The sum of an image's values."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(pixels, 1, bias=False)).eval()
    nn.init.ones_(model[1].weight)
    return model


def gradient(model, images, targets):
    """The method that metrics of methods are tried on, (B, C, H, W)."""
    images = images.detach().requires_grad_()
    return torch.autograd.grad(model(images).gather(1, targets[:, None]).sum(), images)[0]
