"""DeepLift and LRP on real networks: pooling, sums in place, batch norm, hooks of the user's own."""

import inspect
import math
import sys
from importlib.util import find_spec

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import oracles_relevance as oracles
from attributionlab import AttributionLabError
from attributionlab.methods import deep_lift, deep_shap, lrp
from attributionlab.methods.relevance import ELEMENTWISE
from random_chains import EXACT, silently, told
from small_networks import PICTURE, ResidualBlock, ResNet, drawn, vgg
from torchvision_stand_in import Torchvision, forget

few = settings(max_examples=15)
SIZES = {1: (9,), 2: (6, 5), 3: (4, 4, 3)}
POOLS = {1: nn.MaxPool1d, 2: nn.MaxPool2d, 3: nn.MaxPool3d}
ADAPTIVE = {1: nn.AdaptiveMaxPool1d, 2: nn.AdaptiveMaxPool2d, 3: nn.AdaptiveMaxPool3d}
CONVOLUTIONS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}


def change(model, inputs, baselines, targets):
    with torch.no_grad():
        return (model(inputs) - model(baselines)).gather(1, targets[:, None])[:, 0]


# Max pooling, against the twins


@st.composite
def pooled_chains(draw):
    """A convolution, an overlapping pool with a ReLU before or behind it or none, and linear layers."""
    dimensions = draw(st.integers(1, 3))
    kernel = draw(st.integers(2, 3))
    dilation = draw(st.integers(1, 2)) if kernel == 2 else 1
    pool = POOLS[dimensions](
        kernel,
        stride=draw(st.integers(1, 3)),
        padding=draw(st.integers(0, kernel // 2)),
        dilation=dilation,
        ceil_mode=draw(st.booleans()),
    )
    relu = nn.ReLU(inplace=draw(st.booleans()))
    torch.manual_seed(draw(st.integers(0, 2**31)))
    bias = draw(st.booleans())
    shape = (1, *SIZES[dimensions])
    modules = [nn.Flatten(), nn.Unflatten(1, shape)]
    modules += [CONVOLUTIONS[dimensions](1, 2, 2, padding=1, bias=bias)]
    modules += draw(st.sampled_from([[relu, pool], [pool, relu], [pool]]))
    images = torch.randn(2, 3, 1, 1, math.prod(shape)).double()
    flat = nn.Sequential(*modules)(images[0, :1].float()).numel()
    modules += [nn.Flatten(), nn.Linear(flat, 3, bias=bias), nn.ReLU(), nn.Linear(3, 2, bias=bias)]
    model = nn.Sequential(*modules).double().eval()
    return model, shape, images, torch.tensor([1, 0, 1])


@pytest.mark.long
@few
@given(pooled_chains())
def test_deep_lift_through_max_pooling_is_the_papers(chain):
    model, shape, (inputs, baselines), targets = chain
    got, findings = told(deep_lift, model, inputs, targets, baselines=baselines)
    layers, _ = oracles.layers_of(model[2:], shape)
    expected = [
        oracles.deep_lift(layers, *each) for each in zip(inputs, baselines, targets, strict=True)
    ]
    torch.testing.assert_close(got, torch.stack(expected), **EXACT)
    whole = change(model, inputs, baselines, targets)
    torch.testing.assert_close(got.flatten(1).sum(1), whole, **EXACT)
    assert not findings
    alone = [  # whose maps may be zero everywhere
        told(
            deep_lift,
            model,
            *(each[i : i + 1] for each in (inputs, targets)),
            baselines=baselines[i],
        )[0]
        for i in range(3)
    ]
    torch.testing.assert_close(got, torch.cat(alone), **EXACT)


@pytest.mark.long
@few
@given(pooled_chains(), st.sampled_from([1e-9, 1e-2]))
def test_lrp_through_max_pooling_is_the_papers(chain, epsilon):
    model, shape, (inputs, _), targets = chain
    got, findings = told(lrp, model, inputs, targets, epsilon=epsilon)
    layers, _ = oracles.layers_of(model[2:], shape)
    expected = [oracles.lrp(layers, *each, epsilon) for each in zip(inputs, targets, strict=True)]
    torch.testing.assert_close(got, torch.stack(expected), **EXACT)
    biases = any(name.endswith("bias") for name, _ in model.named_parameters())
    assert all(("biases" in finding.text) == biases for finding in findings)


def test_deep_lift_through_max_pooling_by_hand():
    # The window's maximum is x's first place, 3, and b's second, 4: y* = 4, so that x's place gets
    # 4 - 4 = 0 and b's gets 3 - 4 = -1. In the other image b is 0: all of 3 is x's place's.
    pool = nn.Sequential(nn.MaxPool2d(2), nn.Flatten())
    inputs = torch.tensor([[[[3.0, -1.0], [1.0, 2.0]]]]).repeat(2, 1, 1, 1)
    baselines = torch.tensor([[[[0.5, 4.0], [-2.0, 0.2]]], [[[0.0, 0.0], [0.0, 0.0]]]])
    got = deep_lift(pool, inputs, torch.tensor([0, 0]), baselines=baselines)
    assert got.flatten(1).tolist() == [[0, -1, 0, 0], [3, 0, 0, 0]]
    behind = nn.Sequential(nn.ReLU(), *pool)
    assert torch.equal(deep_lift(behind, inputs, torch.tensor([0, 0]), baselines=baselines), got)


def test_a_place_that_windows_share_gets_the_sum_of_their_parts():
    pool = nn.Sequential(nn.MaxPool2d((1, 2), 1), nn.Flatten(), nn.Linear(3, 1, bias=False))
    pool[2].weight.data = torch.tensor([[1.0, 10.0, 100.0]])
    got = deep_lift(pool, torch.tensor([[[[1.0, 2.0, 0.0, 4.0]]]]), torch.tensor([0]))
    assert got.flatten().tolist() == [0, 22, 0, 400]


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("method", [deep_lift, deep_shap])
def test_adaptive_pooling_and_pools_that_tell_places_have_the_rule(method, dimensions):
    torch.manual_seed(0)

    class Telling(nn.Module):
        def __init__(self):
            super().__init__()
            self.pool = POOLS[dimensions](2, return_indices=True)

        def forward(self, inputs):
            pooled, _ = self.pool(input=inputs.reshape(-1, *shape))
            return pooled.flatten(1)

    shape = (2, *[4] * dimensions)
    start = nn.Flatten(), nn.Unflatten(1, shape)
    inputs, baselines = torch.randn(2, 3, 1, 1, math.prod(shape)).double()
    targets = torch.tensor([0, 1, 2])
    plain = nn.Sequential(*start, POOLS[dimensions](2), nn.Flatten())
    expected = silently(method, plain, inputs, targets, baselines=baselines)
    for model in (nn.Sequential(*start, ADAPTIVE[dimensions](2), nn.Flatten()), Telling()):
        got, findings = told(method, model, inputs, targets, baselines=baselines)
        assert torch.equal(got, expected)
        assert not findings
    uneven = nn.Sequential(
        *start, ADAPTIVE[dimensions](3), nn.Flatten()
    )  # windows of 4 places overlap
    got, findings = told(deep_lift, uneven, inputs, targets, baselines=baselines)
    whole = change(uneven, inputs, baselines, targets)
    torch.testing.assert_close(got.flatten(1).sum(1), whole, **EXACT)


# Sums in place and other structures of real networks


def of_kind(make, shift=False):
    """A network with or without what shifts its layers' outputs."""
    model = drawn(make, True)
    for module in model.modules():
        for name in () if shift else ("bias", "running_mean"):
            if isinstance(getattr(module, name, None), torch.Tensor):
                getattr(module, name).data.zero_()
    return model


class Attending(nn.Module):
    """One block of a vision transformer, class token first."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 2, 2)
        self.token = nn.Parameter(torch.randn(1, 1, 8))
        self.norms = nn.ModuleList(nn.LayerNorm(8) for _ in range(2))
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1)
        q, k, v = self.qkv(self.norms[0](x)).chunk(3, -1)
        x = x + self.out((q @ k.transpose(1, 2)).softmax(-1) @ v)
        return self.head((x + self.mlp(self.norms[1](x)))[:, 0])


def of_images(model):
    torch.manual_seed(1)
    inputs, baselines = torch.randn(2, 2, *PICTURE).double()
    return model.double().eval(), inputs, baselines, torch.tensor([1, 2])


@pytest.mark.parametrize("shift", [False, True])
@pytest.mark.parametrize("network", [ResNet, vgg])
def test_deep_lift_sums_to_the_change_of_real_networks(network, shift):
    model, inputs, baselines, targets = of_images(of_kind(network, shift))
    for method in (deep_lift, deep_shap):
        got, findings = told(method, model, inputs, targets, baselines=baselines[:1])
        whole = change(model, inputs, baselines[:1], targets)
        torch.testing.assert_close(got.flatten(1).sum(1), whole, **EXACT)
        alone, _ = told(method, model, inputs[:1], targets[:1], baselines=baselines[:1])
        torch.testing.assert_close(got[:1], alone, **EXACT)
        assert not findings


@pytest.mark.parametrize("network", [ResNet, vgg])
def test_lrp_sums_to_the_output_of_real_networks_without_biases(network):
    model, inputs, _, targets = of_images(of_kind(network))
    output = model(inputs).detach().gather(1, targets[:, None])[:, 0]
    maps = []
    for how in ({}, {"rule": "gamma", "gamma": 0.0}, {"rule": "gamma"}):
        # 1e-16: the epsilon of 1e-9 absorbs 1e-9 / |z| of a unit, which may be more than rounding.
        got, findings = told(lrp, model, inputs, targets, epsilon=1e-16, **how)
        torch.testing.assert_close(got.flatten(1).sum(1), output, **EXACT)
        assert not findings
        maps.append(got)
    torch.testing.assert_close(maps[0], maps[1], **EXACT)
    assert (maps[0] - maps[2]).abs().max() > 1e-3


@pytest.mark.long
@few
@given(st.integers(0, 2**31))
def test_a_residual_block_is_the_papers(seed):
    torch.manual_seed(seed)
    block = ResidualBlock(2, 2, in_place=True)
    block.bn1 = block.bn2 = nn.Identity()
    model = nn.Sequential(nn.Conv2d(1, 2, 1, bias=False), nn.ReLU(), block, nn.Flatten())
    model = model.append(nn.Linear(32, 2, bias=False)).double()
    first, relu, _, flat, last = model
    chain = [first, relu, [[block.conv1, block.relu, block.conv2], []], block.last, flat, last]
    layers, _ = oracles.layers_of(chain, (1, 4, 4))
    inputs, baselines = torch.randn(2, 2, 1, 4, 4).double()
    targets = torch.tensor([0, 1])
    lifted = silently(deep_lift, model, inputs, targets, baselines=baselines)
    relevance = silently(lrp, model, inputs, targets, epsilon=1e-3)
    for i in range(2):
        expected = oracles.deep_lift(layers, inputs[i], baselines[i], i)
        torch.testing.assert_close(lifted[i], expected, **EXACT)
        expected = oracles.lrp(layers, inputs[i], i, 1e-3)
        torch.testing.assert_close(relevance[i], expected, **EXACT)


def test_lrp_under_a_sum_in_place_by_hand():
    # f(x) = h . (x / 1000 + x): the linear layer's tiny output is overwritten by the sum.
    class InPlaceSum(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.last = nn.Linear(2, 2, bias=False), nn.Linear(2, 1, bias=False)
            self.inner.weight.data = torch.eye(2) / 1000
            self.last.weight.data = torch.tensor([[3.0, -1.0]])

        def forward(self, x):
            y = self.inner(x)
            y += x
            return self.last(y)

    got = lrp(InPlaceSum(), torch.tensor([[1.0, 2.0]]), torch.tensor([0]))
    # Relative errors: an epsilon of 1e-9 beside 1e-3, and a few units of 2^-24.
    torch.testing.assert_close(got, torch.tensor([[3.003, -2.002]]), rtol=2e-6, atol=0)


# Networks of timm, with random weights


@pytest.fixture
def timm(monkeypatch):
    """timm, which uses nothing of torchvision here but wants to import it."""
    if find_spec("torchvision") is None:
        monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Torchvision()])
    yield pytest.importorskip("timm", reason="pip install --no-deps timm")
    if isinstance(sys.meta_path[-1], Torchvision):
        forget({"torchvision", "timm"})


def of_timm(timm, name, biases=True, **options):
    """A network and two pairs of images; without biases, its output is a sum over the pixels."""
    torch.manual_seed(0)
    model = timm.create_model(name, pretrained=False, num_classes=10, **options).double().eval()
    for parameter_name, values in model.named_parameters():
        if parameter_name.endswith("bias"):
            nn.init.normal_(values, std=0.1 if biases else 0.0)
    inputs, baselines = torch.randn(2, 2, 3, 64, 64).double()
    return model, inputs, baselines, torch.tensor([3, 7])


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # of timm
@pytest.mark.parametrize(
    ("name", "options"),
    [("resnet18", {}), ("vgg11", {"mlp_ratio": 1 / 64}), ("vgg11_bn", {"mlp_ratio": 1 / 64})],
)
def test_deep_lift_and_lrp_sum_in_convolutional_networks_of_timm(timm, name, options):
    model, inputs, baselines, targets = of_timm(timm, name, **options)
    got, findings = told(deep_lift, model, inputs, targets, baselines=baselines)
    whole = change(model, inputs, baselines, targets)
    # Rounding of 2^-53 in sums of 12,288 pixels, over some forty layers; changes are above 1e-3.
    torch.testing.assert_close(got.flatten(1).sum(1), whole, rtol=1e-9, atol=0)
    assert not findings
    assert "the layers' biases" in told(lrp, model, inputs, targets)[1][0].text
    model, inputs, _, targets = of_timm(timm, name, biases=False, **options)
    got, findings = told(lrp, model, inputs, targets, epsilon=1e-16)
    output = model(inputs).detach().gather(1, targets[:, None])[:, 0]
    torch.testing.assert_close(got.flatten(1).sum(1), output, rtol=1e-9, atol=0)
    assert not findings


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_a_transformer_of_timm_is_refused_by_lrp_and_told_of_by_deep_lift(timm):
    model, inputs, baselines, targets = of_timm(timm, "vit_tiny_patch16_224", img_size=64)
    with pytest.raises(AttributionLabError, match="lrp has no rule for"):
        lrp(model, inputs, targets)
    got, findings = told(deep_lift, model, inputs, targets, baselines=baselines)
    whole = change(model, inputs, baselines, targets)
    assert ((got.flatten(1).sum(1) - whole).abs() > 0.01 * whole.abs()).any()
    assert any("do not sum" in finding.text for finding in findings)
    assert any("products or normalizations have no rule" in finding.text for finding in findings)


def test_a_transformer_is_refused_by_lrp_and_told_of_by_deep_lift():
    torch.manual_seed(0)
    model, inputs, _, targets = of_images(Attending())
    with pytest.raises(AttributionLabError, match=r"lrp has no rule for (?!Softmax: pass)\w+"):
        lrp(model, inputs, targets)
    _, findings = told(deep_lift, model, inputs, targets)
    assert "1 functional (or unsupported)" in findings[0].text  # the softmax
    assert "(2 Bmm of two activations, 2 NativeLayerNorm)" in findings[1].text
    assert "do not sum" in findings[2].text
    assert "products or normalizations have no rule" in findings[2].text


class Applied(nn.Module):
    """What a function makes of 8 hidden units, between two linear layers."""

    def __init__(self, function):
        super().__init__()
        self.first, self.function = nn.Linear(4, 8, bias=False), function
        self.last = nn.LazyLinear(2, bias=False)

    def forward(self, x):
        return self.last(self.function(self.first(x.flatten(1))).flatten(1))


def applied(function):
    torch.manual_seed(0)
    model, inputs = Applied(function).double().eval(), torch.randn(2, 1, 2, 2).double()
    model(inputs)
    return model, inputs, torch.tensor([0, 1])


def doubled_in_place(z):
    view = (1 * z)[:, :4]
    view *= z[:, 4:]
    return view


WITHOUT_RULE = {
    "Mul of two activations": [
        lambda z: z * z,
        lambda z: z[:, :4] * z[:, 4:],
        lambda z: torch.einsum("bi,bj->bij", z, z),
    ],
    "Div of two activations": [lambda z: z / z.sum(1, keepdim=True)],
    "division by an activation": [lambda z: torch.ones(8) / z],
    "Bmm of two activations": [lambda z: z.reshape(-1, 2, 4) @ z.reshape(-1, 4, 2)],
    "Mm of two activations": [lambda z: z @ z.T],
    "Addcmul": [lambda z: torch.addcmul(z, z, z)],
    "Convolution of two": [lambda z: F.conv1d(z[None], z[:, None], groups=2)[0]],
    "Reciprocal": [lambda z: 1 / z],
    "Pow": [lambda z: z**2],
    "Exp": [torch.exp],
    "Log": [lambda z: (z * 0 + 1).log()],
    "Sqrt": [lambda z: (z - z + 1).sqrt()],
    "NativeLayerNorm": [nn.LayerNorm(8)],
    "NativeGroupNorm": [nn.GroupNorm(2, 8)],
    "a normalization by the statistics of the images themselves": [
        lambda z: F.instance_norm(z[:, None]),
        nn.BatchNorm1d(8, track_running_stats=False),
    ],
    "Gelu": [F.gelu],
    "Hardtanh": [nn.ReLU6()],
    "Clamp": [lambda z: z.clamp(-1, 1)],
    "Softmax": [lambda z: z.softmax(1)],
    "ScaledDotProduct": [
        lambda z: F.scaled_dot_product_attention(
            *z.reshape(1, -1, 1, 2, 4).expand(3, -1, -1, -1, -1)
        )
    ],
    "operations in place on a part": [doubled_in_place],
}


@pytest.mark.parametrize(
    ("problem", "function"),
    [(problem, each) for problem, functions in WITHOUT_RULE.items() for each in functions],
)
def test_lrp_refuses_what_is_no_weighed_sum(problem, function):
    model, inputs, targets = applied(function)
    of_transformers = {"Gelu", "Hardtanh", "NativeLayerNorm", "NativeGroupNorm", "ScaledDotProduct"}
    remedy = "take attnlrp" if problem in of_transformers else "use a network of linear"
    with pytest.raises(AttributionLabError, match=f"lrp has no rule for {problem}.*: {remedy}"):
        lrp(model, inputs, targets)
    assert not any(module._forward_hooks for module in model.modules())


def gathered(z):
    half, other = z.chunk(2, 1)
    joined = torch.cat([torch.stack([half, other], 1).flatten(1), 2 - (2 - z)], 1)
    return F.pad(joined[:, [3, 1, 0, 4, 15]], (1, 1)).roll(1, 1).flip(1)


def resized(z):
    maps = F.interpolate(z.reshape(-1, 2, 2, 2), scale_factor=2, mode="bilinear")
    return F.avg_pool2d(nn.PixelUnshuffle(2)(maps).contiguous(), 2)


WITH_RULE = {
    "constants": lambda z: z * torch.linspace(-1, 1, 8) / 3 - 0.5 * z,
    "parameters": nn.BatchNorm1d(8),
    "a matrix of numbers": lambda z: torch.einsum("bi,ij->bj", z, torch.ones(8, 3).double()),
    "gathered": gathered,
    "resized": resized,
    "a mask": lambda z: torch.where(z > 0, z, 0.2 * z).masked_fill(z > 1, 0),
    "maxima": lambda z: F.adaptive_max_pool1d(z[:, None], 3),
    "rectified in place": lambda z: nn.ReLU(inplace=True)(1 * z).abs(),
    "dropout": nn.Dropout(),
    "weights of weights": lambda z: z @ torch.ones(8, 2).double().requires_grad_().exp(),
}


@pytest.mark.parametrize("function", WITH_RULE.values(), ids=WITH_RULE)
def test_lrp_passes_what_weighs_its_inputs_by_constants(function):
    model, inputs, targets = applied(function)
    got, findings = told(lrp, model, inputs, targets, epsilon=1e-16)
    output = model(inputs).detach().gather(1, targets[:, None])[:, 0]
    torch.testing.assert_close(got.flatten(1).sum(1), output, **EXACT)
    assert not findings


def test_relevance_that_no_bias_absorbs_is_not_blamed_on_one():
    for function, epsilon in ((lambda z: z + 5, 1e-9), (lambda z: z, 10.0)):
        model, inputs, targets = applied(function)
        _, [finding] = told(lrp, model, inputs, targets, epsilon=epsilon)
        assert "epsilon, or constants that" in finding.text
    model.first.bias = nn.Parameter(torch.zeros(8).double())
    assert "epsilon" in told(lrp, model, inputs, targets, epsilon=10.0)[1][0].text
    model.first.bias.data.fill_(1.0)
    assert "the layers' biases" in told(lrp, model, inputs, targets)[1][0].text
    shifted, inputs, targets = applied(nn.BatchNorm1d(8))
    shifted.function.running_mean.fill_(1.0)
    assert "the layers' biases" in told(lrp, shifted, inputs, targets)[1][0].text


# Activations in place, and hooks of the user's


@pytest.mark.parametrize("kind", [nn.ReLU, nn.LeakyReLU])
@pytest.mark.parametrize("method", [deep_lift, lrp])
def test_what_works_in_place_on_a_whole_view_is_seen(method, kind):
    # A linear layer with a bias returns a view for tokens, as nn.Flatten and nn.Unflatten do.
    def explained(in_place):
        torch.manual_seed(0)
        chain = [nn.Unflatten(1, (4, 2)), nn.Linear(2, 3), kind(inplace=in_place)]
        chain += [nn.Linear(3, 2, bias=False), nn.Flatten(), kind(inplace=in_place)]
        return told(method, *applied(nn.Sequential(*chain)))

    got, findings = explained(in_place=True)
    expected, _ = explained(in_place=False)
    torch.testing.assert_close(got, expected, **EXACT)
    assert not any("functional" in finding.text for finding in findings)


@pytest.mark.parametrize("part", [lambda z: z[:, :4], lambda z: z[:1], torch.t])
def test_what_works_in_place_on_a_part_or_in_another_order_is_refused(part):
    class Part(nn.Module):
        def __init__(self):
            super().__init__()
            self.relu = nn.ReLU(inplace=True)

        def forward(self, z):
            z = 1 * z
            self.relu(part(z))
            return z

    model, inputs, targets = applied(Part())
    for method, name in ((deep_lift, "deep-lift"), (deep_shap, "deep-shap")):
        with pytest.raises(AttributionLabError, match=f"{name} cannot hook a ReLU .*=False"):
            method(model, inputs, targets)
    with pytest.raises(AttributionLabError, match="in place on a part of a tensor"):
        lrp(model, inputs, targets)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_images_that_are_not_in_the_first_dimension_are_refused():
    class Turned(nn.Module):
        def __init__(self):
            super().__init__()
            self.relu = nn.ReLU()

        def forward(self, z):
            return self.relu(z.T.reshape(1, -1)).reshape(8, -1).T

    model, inputs, targets = applied(Turned())
    with pytest.raises(AttributionLabError, match=r"ReLU gets \(1, 32\) in a pass of 2 images"):
        deep_lift(model, inputs, targets)


@pytest.mark.parametrize("kind", ELEMENTWISE)
def test_every_activation_of_single_units_has_the_rule(kind):
    # From b to x each hidden unit z adds v (h(z) - h(z')), and z is x itself here.
    model, inputs, targets = applied(kind())
    model.first.weight.data = torch.eye(8).double()[:, :4] * 4
    start = torch.randn(2, 1, 2, 2).double()
    got, findings = told(deep_lift, model, inputs, targets, baselines=start)
    with torch.no_grad():
        moved = model.function(4 * inputs.flatten(1)) - model.function(4 * start.flatten(1))
    expected = (model.last.weight[targets][:, :4] * moved).detach()
    torch.testing.assert_close(got.flatten(1), expected, **EXACT)
    assert not findings
    if "inplace" in inspect.signature(kind).parameters:
        model.function = kind(inplace=True)
        torch.testing.assert_close(
            silently(deep_lift, model, inputs, targets, baselines=start), got, **EXACT
        )


def test_a_forward_hook_of_the_users_acts_behind_the_activation():
    model, inputs, targets = applied(nn.ReLU())
    model.function.register_forward_hook(lambda _, __, output: 3 * output)
    got, findings = told(deep_lift, model, inputs, targets, baselines=0.7)
    whole = change(model, inputs, torch.full_like(inputs, 0.7), targets)
    torch.testing.assert_close(got.flatten(1).sum(1), whole, **EXACT)
    assert not findings
