"""AttnLRP is what its rules say, whoever wrote the transformer, and refuses what has none."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import attributionlab as al
import oracles_attention as oracles
from attributionlab.base import AttributionLabError, GuardWarning
from attributionlab.methods import attnlrp, collect_notices, lrp
from oracles_attention import MAKES, Transformer

# Some hundred float64 operations, and sums that lose at most 10^4 of their size; maps are of order 0.1.
CLOSE = {"rtol": 0, "atol": 1e-11}
TARGETS = torch.tensor([1, 0])


def pictures(number=2, seed=0):
    return torch.rand(number, 3, 4, 6, generator=torch.Generator().manual_seed(seed)).double()


def silently(model, images, targets, method=attnlrp, **settings):
    with collect_notices():
        return method(model, images, targets, **settings)


def exactly(model, images):
    """With an epsilon that changes no sum."""
    return silently(model, images, TARGETS, epsilon=1e-30)


@pytest.mark.parametrize("read", ["class", "mean", "image"])
@pytest.mark.parametrize("epsilon", [1e-9, 0.1])
def test_relevance_is_shared_by_the_papers_rules(read, epsilon):
    network, images = Transformer(read=read), pictures()
    got = silently(network, images, TARGETS, epsilon=epsilon)
    for image, target, found in zip(images, TARGETS, got, strict=True):
        expected = oracles.attention_aware(network, image, target, epsilon)
        torch.testing.assert_close(found, expected, **CLOSE)


@pytest.mark.parametrize("make", MAKES)
def test_it_does_not_matter_who_wrote_the_attention(make):
    images = pictures()
    expected = silently(Transformer(), images, TARGETS)
    torch.testing.assert_close(silently(Transformer(make), images, TARGETS), expected, **CLOSE)


def test_it_does_not_matter_whether_images_or_tokens_come_first():
    images = pictures()
    got = silently(Transformer("module", batch_first=False), images, TARGETS)
    torch.testing.assert_close(got, silently(Transformer(), images, TARGETS), **CLOSE)


def test_without_attention_it_is_lrp_and_attention_keeps_a_half():
    env = al.load("quadrants", image_size=24)
    images, _ = env.batch(2)
    targets = torch.tensor([0, 0])
    expected = silently(env.model, images, targets, lrp)
    assert expected.any()
    assert torch.equal(silently(env.model, images, targets), expected)
    # Of 2^k scores that tie, each has the same gradient, which a softmax hands on as 0.
    for name in ("transformer", "transformer-sdpa", "transformer-gelu"):
        got = silently(env.with_implementation(name).model, images, targets)
        assert torch.equal(2 * got, expected)


class Mixed(nn.Module):
    """Rows of an image as tokens, which a function changes; the sum of each feature."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, images):
        return self.function(images[:, 0]).sum(1)


def rms_norm(x):
    return F.rms_norm(x, (4,), eps=1e-6)


def layer_norm(x):
    return F.layer_norm(x, (4,), eps=1e-6)


def by_hand(x):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


def divided(x):
    return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()


def centered(x):
    x = x - x.mean(-1, keepdim=True)
    x /= torch.sqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
    return x


def group_norm(x):
    return F.group_norm(x, 2, torch.arange(4.0).double(), eps=1e-6)


def group_norm_by_hand(x):
    return centered(x.reshape(-1, 2, 8)).view(x.shape) * torch.arange(4.0).double()[:, None]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (by_hand, rms_norm),
        (divided, rms_norm),
        (centered, layer_norm),
        (group_norm_by_hand, group_norm),
    ],
)
def test_normalizations_by_hand_are_those_of_torch(function, expected):
    images = pictures()[..., :4] - 0.5
    got, expected = (exactly(Mixed(each), images) for each in (function, expected))
    assert expected.any()
    torch.testing.assert_close(got, expected, **CLOSE)


@pytest.mark.parametrize(
    ("by_place", "by_name"),
    [
        (
            lambda x: torch.layer_norm(x, [4], None, None, 1e-5, False),
            lambda x: F.layer_norm(x, [4]),
        ),
        (lambda x: torch.group_norm(x, 1, None, None, 1e-5, True), lambda x: F.group_norm(x, 1)),
    ],
)
def test_normalizations_take_all_arguments_of_torch(by_place, by_name):
    images = pictures()[..., :4] - 0.5
    assert torch.equal(*(exactly(Mixed(each), images) for each in (by_place, by_name)))


def test_a_product_without_a_gradient_is_a_constant():
    def gated(x):
        with torch.no_grad():
            held = x * x
        return x * held

    images = pictures()[..., :4] - 0.5
    column = torch.eye(4).double()[TARGETS][:, None]
    got = exactly(Mixed(gated), images)[:, 0]
    torch.testing.assert_close(got, images[:, 0] ** 3 * column, **CLOSE)


def test_an_activation_hands_its_relevance_on_and_a_gate_halves_it():
    images = pictures()[..., :4] - 0.5
    images[0, 0, 0] = 0  # where a quotient would be 0 / 0
    silu = exactly(Mixed(F.silu), images)
    column = torch.eye(4).double()[TARGETS][:, None]
    torch.testing.assert_close(silu[:, 0], F.silu(images[:, 0]) * column, **CLOSE)
    weight = torch.randn(4, 4, generator=torch.Generator().manual_seed(1)).double()

    def gated(x):
        return F.silu(x) * F.linear(x, weight)

    x = images[:, 0]
    whole = gated(x) * column
    value = (x[:, :, None] * weight).mul(whole[..., None] / F.linear(x, weight)[..., None]).sum(2)
    value[0, 0] = 0
    got = exactly(Mixed(gated), images)[:, 0]
    torch.testing.assert_close(got, (whole + value) / 2, **CLOSE)


@pytest.mark.parametrize("function", [lambda x: x**2, torch.square])
def test_a_power_is_the_product_that_it_stands_for(function):
    images = pictures()[..., :4] - 0.5
    expected = exactly(Mixed(lambda x: x * x), images)
    torch.testing.assert_close(exactly(Mixed(function), images), expected, **CLOSE)


class GatedBlock(nn.Module):
    """As decoders of today: root mean square by hand, keys that heads share, a gate of SiLU."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.q, self.kv = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
        self.gate, self.up, self.down = nn.Linear(4, 6), nn.Linear(4, 6), nn.Linear(6, 4)
        self.double()

    def forward(self, images):
        x = images[:, 0]
        normed = by_hand(x)
        q = self.q(normed).unflatten(2, (2, 2)).transpose(1, 2)
        k, v = (each[:, None].expand(-1, 2, -1, -1) for each in self.kv(normed).chunk(2, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + mixed.transpose(1, 2).flatten(2)
        normed = by_hand(x)
        return (x + self.down(F.silu(self.gate(normed)) * self.up(normed)))[:, -1]


def test_a_block_as_decoders_have_it_has_rules_for_all_of_it():
    model, images = GatedBlock().eval(), pictures()[..., :4]
    together = exactly(model, images)
    assert together.isfinite().all()
    alone = [silently(model, images[i : i + 1], TARGETS[i : i + 1], epsilon=1e-30) for i in (0, 1)]
    torch.testing.assert_close(together, torch.cat(alone), **CLOSE)
    # The last token sees all rows; the first ones only by way of attention.
    assert together[:, 0].ne(0).any(2).all()


def test_no_value_of_the_network_changes():
    seen = []
    model = Transformer()
    model.register_forward_hook(lambda _, __, output: seen.append(output.detach()))
    silently(model, pictures(), TARGETS)
    assert torch.equal(seen[0], Transformer()(pictures()))


@pytest.mark.filterwarnings("ignore::attributionlab.AttributionLabWarning")
def test_what_a_saturated_softmax_selects_by_has_no_relevance():
    """As for gradients: a gate in scores is not seen, one in values is."""
    found = []
    for way in ("scores", "values"):
        env = al.load(f"retrieve-{way}")
        images, labels = env.batch(4)
        truth = env.truth(images, env.targets(labels)).relevant
        found.append(
            al.attribute("attnlrp", env, images, torch.zeros(4).long())[truth].view(4, 3) != 0
        )
    key, value, query = range(3)
    assert found[0][:, value].all()
    assert not found[0][:, [key, query]].any()
    assert found[1].all()


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (
            Mixed(torch.sigmoid),
            "attnlrp has no rule for 'sigmoid': take a .* or integrated-gradients",
        ),
        (Mixed(torch.exp), "no rule for 'exp'"),
        (Mixed(lambda x: 1 / (1 + x)), "no rule for '__rdiv__'"),
        (Mixed(nn.Hardtanh(1, 2)), "no rule for 'hardtanh'"),
        (Mixed(lambda x: torch.einsum("bij,bij,bij->bij", x, x, x)), "no rule for 'einsum'"),
        (nn.Sequential(Mixed(F.relu), nn.Softmax(1)), "has a softmax: pass explain='logit'"),
        (nn.Sequential(Mixed(F.relu), nn.LogSoftmax(1)), "has a softmax: pass explain='logit'"),
    ],
)
def test_what_has_no_rule_is_refused_by_its_name(model, said):
    with pytest.raises(AttributionLabError, match=said) as refused:
        attnlrp(model, pictures()[..., :4], TARGETS)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (F.gelu, "Gelu"),
        (F.silu, "Silu"),
        (layer_norm, "NativeLayerNorm"),
        (lambda x: (x @ x.mT).softmax(-1) @ x, "Bmm of two activations"),
        (lambda x: F.scaled_dot_product_attention(x, x, x), "two activations"),
        (lambda x: F.scaled_dot_product_attention(x, x, x) * x, "Mul of two activations"),
    ],
)
def test_lrp_points_to_it(function, named):
    model, images = Mixed(function), pictures()[..., :4]
    with pytest.raises(AttributionLabError, match=f"lrp has no rule for .*{named}.*: take attnlrp"):
        lrp(model, images, TARGETS)
    silently(model, images, TARGETS)


def test_it_is_told_how_much_of_the_output_is_missing():
    with pytest.warns(GuardWarning, match="do not sum to the output .* biases absorb relevance"):
        attnlrp(Transformer(), pictures(), TARGETS)
