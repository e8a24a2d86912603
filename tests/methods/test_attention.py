"""Attention rollout and Chefer's relevance are what they are defined to be, in any transformer."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import attributionlab as al
import oracles_attention as oracles
import oracles_methods
from attributionlab.base import AttributionLabError, GuardWarning
from attributionlab.methods import attention_rollout, chefer_lrp, collect_notices
from attributionlab.methods.attention import read_tokens
from attributionlab.methods.attention_matrices import Attending, scaled_dot_product
from attributionlab.methods.tokens import grid_of
from oracles_attention import MAKES, Transformer
from small_networks import Function


@pytest.mark.parametrize(
    ("number", "size", "maps", "expected"),
    [
        (16, (16, 16), None, (4, 4)),
        (17, (16, 16), None, (4, 4)),
        (21, (16, 16), None, (4, 4)),  # registers
        (33, (16, 32), None, (4, 8)),
        (197, (224, 224), (14, 14), (14, 14)),
        (13, (24, 24), (3, 4), (3, 4)),  # patches that are not square
        (17, (16, 16), (2, 2), (4, 4)),
        (32, (1, 15), None, (1, 15)),  # a sequence, and more registers than tokens
    ],
)
def test_the_grid_is_inferred(number, size, maps, expected):
    assert grid_of(number, size, maps, None, None) == expected


def test_the_grid_that_the_user_states_comes_first():
    assert grid_of(17, (16, 16), (4, 4), [2, 8], None) == (2, 8)
    assert grid_of(17, (16, 16), (4, 4), (4, 4), 0) == (4, 4)
    assert grid_of(16, (16, 16), (3, 5), None, 0) == (4, 4)


@pytest.mark.parametrize("number", [10, 2, 600])
def test_tokens_that_are_no_grid_are_refused(number):
    with pytest.raises(
        AttributionLabError, match=f"{number} tokens do not form a grid .* 16 x 16 pixels"
    ):
        grid_of(number, (16, 16), None, None, None)


def test_tokens_with_a_gradient_in_any_head_are_read():
    gradient = torch.zeros(2, 2, 3, 3)
    gradient[0, 1, 0, 2] = -1
    assert read_tokens(gradient).tolist() == [[True, False, False], [False] * 3]


# Some hundred float64 products, sums and quotients; the quotients' divisors lose at most 10^4 of their
# size in sums of either sign here, and entries are at most of order 1.
CLOSE = {"rtol": 1e-9, "atol": 1e-11}
TARGETS = torch.tensor([1, 0])
BOTH = pytest.mark.parametrize("method", [attention_rollout, chefer_lrp])


def pictures(number=2, seed=0):
    return torch.rand(number, 3, 4, 6, generator=torch.Generator().manual_seed(seed)).double()


def enlarged(rows):
    return torch.tensor(oracles_methods.enlarge(rows, 4, 6), dtype=torch.float64)


def close(got, expected):
    torch.testing.assert_close(got, expected, **CLOSE)


@pytest.mark.parametrize("read", ["class", "mean", "image"])
@pytest.mark.parametrize("residual", [0.5, 0, 0.9])
def test_rollout_is_the_product_of_the_blocks_mixtures(read, residual):
    network, images = Transformer(read=read), pictures()
    got = attention_rollout(network, images, TARGETS, residual=residual)
    assert got.shape == (2, 1, 4, 6)
    for image, found in zip(images, got, strict=True):
        close(found[0], enlarged(oracles.rolled_out(network, image, residual)))


@pytest.mark.parametrize("read", ["class", "mean", "image"])
@pytest.mark.parametrize("seed", [0, 1])
def test_relevance_is_handed_down_by_its_rules(read, seed):
    network, images = Transformer(read=read, seed=seed), pictures(seed=seed)
    got = chefer_lrp(network, images, TARGETS)
    for image, target, found in zip(images, TARGETS, got, strict=True):
        close(found[0], enlarged(oracles.relevant_attention(network, image, target)))
    assert got.std() > 0


@BOTH
@pytest.mark.parametrize("make", MAKES)
def test_it_does_not_matter_who_wrote_the_attention(method, make):
    images = pictures()
    expected = method(Transformer(), images, TARGETS)
    close(method(Transformer(make), images, TARGETS), expected)


@BOTH
def test_it_does_not_matter_whether_images_or_tokens_come_first(method):
    images = pictures()
    expected = method(Transformer(), images, TARGETS)
    close(method(Transformer("module", batch_first=False), images, TARGETS), expected)


class OneBlock(nn.Module):
    """A class token that attends to all pixels alike and counts those of each of two colors."""

    def __init__(self, classes=2):
        super().__init__()
        self.head = nn.Linear(2, classes, bias=False)
        self.head.weight.data = torch.eye(2)

    def forward(self, images):
        tokens = images.flatten(2).transpose(1, 2)  # (B, pixels, 2)
        tokens = torch.cat([torch.zeros_like(tokens[:, :1]), tokens], 1)
        weights = (0 * tokens @ tokens.transpose(1, 2)).softmax(-1)
        return self.head((tokens + weights @ tokens)[:, 0])


def two_colors():
    """2 x 2 pixels: the first has color 0, the last color 1."""
    images = torch.zeros(1, 2, 2, 2)
    images[0, 0, 0, 0] = images[0, 1, 1, 1] = 1
    return images


def test_relevance_lies_on_the_evidence_for_its_class_and_rollout_on_all_tokens():
    images = two_colors()
    rollout = attention_rollout(OneBlock(), images, torch.tensor([0]), grid=(2, 2))
    # Half of a fifth for each; the products are exact but for the rounding of 1 / 5.
    torch.testing.assert_close(rollout, torch.full((1, 1, 2, 2), 0.1), rtol=1e-6, atol=0)
    for target, place in ((0, (0, 0)), (1, (1, 1))):
        got = chefer_lrp(OneBlock(), images, torch.tensor([target]), grid=(2, 2))
        expected = torch.zeros(1, 1, 2, 2)
        expected[0, 0][place] = 0.5  # gradient 1 and half of a relevance of 1, of one head
        torch.testing.assert_close(got, expected, rtol=1e-6, atol=0)


@BOTH
def test_an_output_that_reads_no_attention_is_told(method):
    network, images = Transformer(), pictures()
    network.head.weight.data[1] = 0
    with collect_notices() as findings:
        got = method(network, images, torch.tensor([1, 0]))
    assert not got[0].any()
    assert got[1].any()
    [finding] = [each for each in findings if each.images]
    assert finding.images == 1
    assert finding.kind == "zeros"
    assert "no gradient from the last block's attention" in finding.text


def test_a_map_without_positive_relevance_is_told():
    """Color 0 speaks against this class: relevance finds no positive product to be shared out by."""
    network = OneBlock()
    network.head.weight.data[0, 0] = -1.0
    with pytest.warns(GuardWarning, match="attributions of 1 image are zero because no attention"):
        got = chefer_lrp(network, two_colors(), torch.tensor([0]), grid=(2, 2))
    assert not got.any()


class Changed(OneBlock):
    """One that computes something else before or behind its attention."""

    def __init__(self, before=None, behind=None):
        super().__init__()
        self.before, self.behind = before or nn.Identity(), behind or nn.Identity()

    def forward(self, images):
        tokens = self.before(images.flatten(2).transpose(1, 2))
        tokens = torch.cat([torch.zeros_like(tokens[:, :1]), tokens], 1)
        weights = (0 * tokens @ tokens.transpose(1, 2)).softmax(-1)
        return self.head(self.behind(tokens + weights @ tokens)[:, 0])


@pytest.mark.parametrize(
    "unchanged",
    [
        lambda x: x / 4,
        lambda x: 2 + x,
        lambda x: x - 0.125,
        lambda x: torch.relu(x),
        lambda x: nn.functional.relu(x, inplace=True),
        lambda x: x.clone().mul_(3),
        lambda x: x * torch.full((2,), 3.0),
        lambda x: x @ torch.eye(2),
        lambda x: torch.einsum("ij,...j->...i", torch.eye(2), x),
        lambda x: nn.functional.linear(x, torch.eye(2), torch.ones(2)),
        lambda x: x + x * x,
        lambda x: torch.neg(-x),
        lambda x: x**2,
    ],
)
def test_operations_hand_relevance_on(unchanged):
    """Each of these hands the relevance of its result down to one operand that is not below 0."""
    images, target = two_colors(), torch.tensor([0])
    plain = chefer_lrp(OneBlock(), images, target, grid=(2, 2))
    network = Changed(behind=Function(unchanged))
    got = chefer_lrp(network, images, target, grid=(2, 2))
    value = (images.flatten(2).mean(2) * 0.8).requires_grad_()  # of the class token: 1 of 5 pixels
    slope = torch.autograd.grad(unchanged(1 * value)[0, 0], value)[0][0, 0]
    # The gradient is that of the operation, the relevance is what it was, to some roundings and 1e-9
    # beside an amount of 0.2.
    torch.testing.assert_close(got, slope * plain, rtol=1e-5, atol=0)


def test_an_operation_without_a_rule_is_refused_where_relevance_arrives_at_it():
    images, target = two_colors(), torch.tensor([0])
    expected = chefer_lrp(OneBlock(), images, target, grid=(2, 2))
    # One that mixes images, so that where tokens lie is not seen.
    before = Changed(before=Function(lambda x: x.cumsum(0)))
    assert torch.equal(chefer_lrp(before, images, target, grid=(2, 2), prefix=1), expected)
    odd_ones = (
        torch.exp,
        lambda x: 2**x,
        lambda x: x.cumsum(0),
        lambda x: torch.add(x, x, alpha=2),
    )
    for odd in odd_ones:
        with pytest.raises(AttributionLabError, match="chefer-lrp has no rule for"):
            chefer_lrp(Changed(behind=Function(odd)), images, target, grid=(2, 2))
        attention_rollout(Changed(behind=Function(odd)), images, target, grid=(2, 2))


def test_tokens_that_are_turned_by_their_positions_are_followed():
    """Rotary embeddings swap the halves of a token, with a sign."""

    def turned(x):
        return x + torch.cat([-x[..., 1:], x[..., :1]], -1) / 8

    images = two_colors()
    got = chefer_lrp(Changed(behind=Function(turned)), images, torch.tensor([0]), grid=(2, 2))
    assert got[0, 0, 0, 0] > 0


def weights_of(tokens):
    return (tokens @ tokens.transpose(1, 2)).softmax(-1)


class TwoBlocks(OneBlock):
    """Pixels as tokens and the mean of all; what the first block adds to them is given."""

    def __init__(self, added):
        super().__init__()
        self.added = added

    def forward(self, images):
        tokens = images.flatten(2).transpose(1, 2)  # (B, pixels, 2)
        tokens = tokens + self.added(tokens)
        return self.head((tokens + weights_of(tokens) @ tokens).mean(1))


@BOTH
@pytest.mark.parametrize(
    "unchanged",
    [
        lambda a: a * 1.0,
        lambda a: torch.ones(4) * a,
        lambda a: a / 1.0,
        lambda a: torch.nan_to_num(a),
        lambda a: a.masked_fill(a < 0, 0.0),
        lambda a: torch.where(a > 0, a, 0.0),
        lambda a: (a.clone() * 2.0).div_(2.0),
    ],
)
def test_attention_is_followed_to_where_values_are_multiplied_with_it(method, unchanged):
    images, target = two_colors(), torch.tensor([0])
    expected = method(TwoBlocks(lambda x: weights_of(x) @ x), images, target)
    got = method(TwoBlocks(lambda x: unchanged(weights_of(x)) @ x), images, target)
    torch.testing.assert_close(
        got, expected, rtol=1e-5, atol=0
    )  # some roundings, and 1e-9 beside 1


@BOTH
@pytest.mark.parametrize(
    ("added", "said"),
    [
        (lambda x: weights_of(x).transpose(1, 2) @ x, "transpose cannot be traced: do"),
        (lambda x: weights_of(x).mT @ x, "__get__ cannot be traced"),
        (lambda x: (weights_of(x) + 0.0) @ x, "add cannot be traced"),
        (lambda x: weights_of(x).detach() @ x, "detach cannot be traced"),
        (lambda x: weights_of(x).sqrt().pow(2) @ x, "sqrt cannot be traced"),
        (lambda x: (weights_of(x) * torch.ones(2, 1, 4, 4)).sum(0) @ x, "mul cannot be traced"),
        (
            lambda x: (weights_of(x)[..., None] * x[:, None]).sum(2),
            "__getitem__ cannot be traced",
        ),
        (lambda x: torch.baddbmm(x, weights_of(x), x), "baddbmm cannot be traced"),
        (
            lambda x: x + 0 * len(weights_of(x)),
            "take a network that computes it by bmm, einsum, matmul",
        ),
        (lambda x: (x @ x.mT).softmax(1) @ x, "a softmax over the last dimension but one"),
    ],
)
def test_attention_that_is_lost_on_its_way_is_refused(method, added, said):
    with pytest.raises(AttributionLabError, match=f"softmax over 4 tokens has .*{said}") as raised:
        method(TwoBlocks(added), two_colors(), torch.tensor([0]))
    assert "\n" not in str(raised.value)
    assert method.__name__.replace("_", "-") in str(raised.value)


def side_by_side(tokens):
    return weights_of(tokens) @ tokens + weights_of(3 * tokens) @ tokens


def used_twice(tokens):
    weights = weights_of(tokens)
    return weights @ tokens + weights @ (tokens - 1)


@BOTH
@pytest.mark.parametrize("added", [side_by_side, used_twice])
def test_branches_side_by_side_are_refused(method, added):
    said = "attention 2 of 3 does not depend on what the one before it is multiplied with"
    with pytest.raises(AttributionLabError, match=said):
        method(TwoBlocks(added), two_colors(), torch.tensor([0]))


def test_negative_attention_has_no_rollout():
    network = TwoBlocks(lambda x: (weights_of(x) * -1.0) @ x)
    with pytest.raises(AttributionLabError, match=r"attention-rollout: .* negative attention"):
        attention_rollout(network, two_colors(), torch.tensor([0]))


class Patches(OneBlock):
    """4 x 4 patches of 8 x 8 pixels in windows of 4, or averaged to 2 x 2 in a single window."""

    def __init__(self, window=(4,), pool=None):
        super().__init__()
        self.window, self.pool = window, pool or nn.Identity()
        self.embedding = nn.Conv2d(2, 2, 2, 2)

    def forward(self, images):
        tokens = self.pool(self.embedding(images)).flatten(2).transpose(1, 2)
        tokens = tokens.reshape(-1, *self.window, 2)
        mixed = (tokens @ tokens.transpose(-2, -1)).softmax(-1) @ tokens
        return self.head(mixed.reshape(len(images), -1, 2).mean(1))


@BOTH
@pytest.mark.parametrize("window", [(4,), (4, 4)])
def test_windows_are_not_taken_for_heads(method, window):
    torch.manual_seed(0)
    images, target = torch.rand(1, 2, 8, 8), torch.tensor([0])
    with pytest.raises(AttributionLabError, match="between 4 tokens, fewer than the 4 x 4 cells"):
        method(Patches(window), images, target)
    for pool in (nn.AvgPool2d(2), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(2)):
        with collect_notices():
            assert method(Patches(pool=pool), images, target).shape == (1, 1, 8, 8)


def test_attention_to_earlier_tokens_alone_is_told_at_the_first():
    class Causal(OneBlock):
        def forward(self, images):
            tokens = images.flatten(2).transpose(1, 2)
            tokens = torch.cat([torch.ones_like(tokens[:, :1]), tokens], 1)
            mixed = nn.functional.scaled_dot_product_attention(*[tokens] * 3, is_causal=True)
            return self.head(mixed[:, 0])

    with pytest.warns(GuardWarning, match="1 image are zero because the tokens .* attend to no"):
        got = attention_rollout(Causal(), two_colors(), torch.tensor([0]))
    assert not got.any()


def test_a_token_that_attends_to_none_has_no_share():
    mask = torch.ones(4, 4, dtype=torch.bool)
    mask[1] = False
    network = TwoBlocks(
        lambda x: nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=mask)
    )
    got = attention_rollout(network, two_colors(), torch.tensor([0]), residual=0)
    assert got.isfinite().all()
    assert got.any()


class Windows(OneBlock):
    """Attention of shape (B windows, heads, 2, 2) within rows of pixels, or to the first row alone."""

    def __init__(self, cross=False):
        super().__init__()
        self.cross = cross

    def forward(self, images):
        rows = images.permute(0, 2, 3, 1)  # (B, rows, columns, 2)
        keys = rows[:, :1] if self.cross else rows.transpose(0, 1)
        queries = rows.reshape(1, 1, 4, 2) if self.cross else keys
        mixed = (queries @ keys.transpose(2, 3)).softmax(-1) @ keys
        return self.head(mixed.reshape(len(images), -1, 2).mean(1))


class Switched(OneBlock):
    def forward(self, images):
        with torch.no_grad():
            return super().forward(images)


@BOTH
@pytest.mark.parametrize(
    ("network", "settings", "said"),
    [
        (nn.Sequential(nn.Flatten(), nn.Linear(8, 2)), {}, "needs a network with attention"),
        (Windows(), {}, r"shapes \(2, 1, 2, 2\) for 1 images: windows"),
        (Windows(cross=True), {}, r"shapes \(1, 1, 4, 2\) for 1 images"),
        (Switched(), {}, "needs gradients of the attention"),
        (OneBlock(), {"grid": (2, 3)}, r"grid is \(2, 3\): the network has only 5 tokens"),
        (OneBlock(), {"grid": (2, 2), "prefix": 2}, r"grid is \(2, 2\) behind 2 others: .* take"),
        (OneBlock(), {"grid": (2, 2.5)}, r"grid\[1\] is 2.5: take an integer of at least 1"),
        (OneBlock(), {"grid": 4}, "grid is 4: pass a list of 2 integers"),
        (OneBlock(), {"prefix": -1}, "prefix is -1: take an integer"),
        (OneBlock(), {"prefix": 2}, "5 tokens behind a prefix of 2 do not .* grid .* 2 x 2 pixels"),
        (
            Changed(behind=nn.Dropout()).train(),
            {},
            r"in training mode \(Dropout .*: call model.eval",
        ),
    ],
)
def test_what_has_no_rollout_is_refused_in_one_line(
    method, network, settings, said, without_shape_checks
):
    with pytest.raises(AttributionLabError, match=said) as raised:
        method(network, two_colors(), torch.tensor([0]), **settings)
    assert "\n" not in str(raised.value)
    assert method.__name__.replace("_", "-") in str(raised.value) or settings


@pytest.mark.parametrize("name", ["attention-rollout", "chefer-lrp"])
def test_an_environment_without_attention_is_listed_with_the_reason(name):
    env = al.load("multi-color-sum", image_size=8)
    with pytest.raises(AttributionLabError, match=f"{name} needs a network with attention"):
        al.faithfulness_test(name, env, n=1)


# Some dozen float64 products and quotients of numbers of order 1.
CLOSE_PARTS = {"rtol": 1e-12, "atol": 1e-12}


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()


def computed(values):
    """As if from an image: with a history."""
    return values.requires_grad_().clone()


BOOLEAN = drawn(3, 3, seed=5) > -1
BOOLEAN.fill_diagonal_(True)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"scale": 0.3},
        {"is_causal": True},
        {"attn_mask": BOOLEAN},
        {"attn_mask": drawn(2, 4, 3, 3)},
    ],
)
def test_scaled_dot_products(settings):
    query, key, value = (drawn(2, 4, 3, 5, seed=seed) for seed in range(3))
    expected = F.scaled_dot_product_attention(query, key, value, **settings)
    got = scaled_dot_product("a method", query, key, value, **settings)
    torch.testing.assert_close(got, expected, **CLOSE_PARTS)


NOBODY = torch.tensor([[True, False, True], [False] * 3, [True] * 3])
"""True is a key that is attended to: the second query attends to none."""


@pytest.mark.parametrize(
    "mask", [NOBODY, torch.zeros(3, 3).double().masked_fill(~NOBODY, -torch.inf)]
)
def test_a_query_that_attends_to_no_key_gets_nothing(mask):
    given = [computed(drawn(2, 4, 3, 5, seed=seed)) for seed in range(3)]
    expected = F.scaled_dot_product_attention(*given, mask)
    with Attending("a method", 2) as seen:
        got = F.scaled_dot_product_attention(*given, mask)
    torch.testing.assert_close(got[:, :, ::2], expected[:, :, ::2], **CLOSE_PARTS)
    assert not got[:, :, 1].any()  # so does torch from 2.5 on; before it gives NaN
    assert not seen.matrices()[0][:, :, 1].any()
    for each in torch.autograd.grad(got.sum(), given):
        assert each.isfinite().all()


@pytest.mark.parametrize("need_weights", [True, False])
def test_a_query_that_attends_to_no_key_gets_nan_in_the_module_with_weights(need_weights):
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(8, 4, batch_first=True).double().eval()
    tokens = computed(drawn(2, 3, 8))
    settings = {"attn_mask": ~NOBODY, "need_weights": need_weights}
    expected = attention(tokens, tokens, tokens, **settings)[0]
    with Attending("a method", 2):
        got = attention(tokens, tokens, tokens, **settings)[0]
    torch.testing.assert_close(got[:, ::2], expected[:, ::2], **CLOSE_PARTS)
    nothing = torch.full((8,), torch.nan).double() if need_weights else attention.out_proj.bias
    torch.testing.assert_close(got[:, 1], nothing.expand(2, 8), equal_nan=True, **CLOSE_PARTS)


def test_several_heads_may_share_keys_and_values():
    query, key, value = drawn(2, 4, 3, 5), drawn(2, 2, 3, 5, seed=1), drawn(2, 2, 3, 5, seed=2)
    every = (each.repeat_interleave(2, 1) for each in (key, value))
    expected = F.scaled_dot_product_attention(query, *every)  # enable_gqa is of torch 2.5
    got = scaled_dot_product("a method", query, key, value, enable_gqa=True)
    torch.testing.assert_close(got, expected, **CLOSE_PARTS)


@pytest.mark.parametrize(
    ("module", "call"),
    [
        ({}, {}),
        ({"bias": False}, {"need_weights": False}),
        ({"kdim": 3, "vdim": 5}, {"average_attn_weights": False}),
        ({}, {"attn_mask": ~BOOLEAN}),
        ({}, {"attn_mask": drawn(8, 3, 3)}),
        ({}, {"key_padding_mask": torch.tensor([[False, True, False], [False, False, True]])}),
        (
            {},
            {
                "key_padding_mask": torch.tensor([[False, True, False], [False, False, True]]),
                "attn_mask": torch.tensor([[False] * 3, [True, False, False], [False] * 3]),
            },
        ),
    ],
)
@pytest.mark.parametrize("batch_first", [True, False])
def test_the_module_of_torch(module, call, batch_first):
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(8, 4, batch_first=batch_first, **module).double().eval()
    sides = (8, module.get("kdim", 8), module.get("vdim", 8))
    tokens = [computed(drawn(2, 3, side, seed=side)) for side in sides]
    tokens = [each if batch_first else each.transpose(0, 1) for each in tokens]
    expected = attention(*tokens, **call)
    with Attending("a method", 2) as seen:
        got = attention(*tokens, **call)
    torch.testing.assert_close(got, expected, **CLOSE_PARTS)
    [matrix] = seen.matrices()
    assert matrix.shape == (2, 4, 3, 3)
    if call.get("need_weights", True):
        alone = call.get("average_attn_weights", True)
        torch.testing.assert_close(matrix.mean(1) if alone else matrix, expected[1], **CLOSE_PARTS)


def test_true_in_a_mask_of_the_function_is_a_key_that_is_not_attended_to():
    tokens = computed(drawn(3, 2, 8))
    projections = (drawn(24, 8, seed=1), None, None, None, False, 0.0, drawn(8, 8, seed=2), None)
    masks = {"attn_mask": ~BOOLEAN, "key_padding_mask": torch.tensor([[True, False, False]] * 2)}
    given = (tokens, tokens, tokens, 8, 2, *projections)
    expected = F.multi_head_attention_forward(*given, training=False, **masks)
    with Attending("a method", 2):
        got = F.multi_head_attention_forward(*given, training=False, **masks)
    torch.testing.assert_close(got, expected, **CLOSE_PARTS)


def test_the_fast_path_of_inference_is_seen_too():
    torch.manual_seed(0)
    block = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).double().eval()
    tokens = drawn(2, 3, 8)
    for each in block.parameters():
        each.requires_grad_(False)
    with torch.no_grad():
        expected = block(tokens)
    tokens = computed(tokens)
    with Attending("a method", 2) as seen:
        got = block(tokens)
    torch.testing.assert_close(got, expected, **CLOSE_PARTS)
    assert seen.matrices()[0].shape == (2, 2, 3, 3)


@pytest.mark.parametrize(
    ("attention", "tokens", "said"),
    [
        (nn.MultiheadAttention(4, 2, dropout=0.1), (3, 2, 4), "probability 0.1: call model.eval"),
        (nn.MultiheadAttention(4, 2, add_bias_kv=True), (3, 2, 4), "bias_k"),
        (nn.MultiheadAttention(4, 2, add_zero_attn=True), (3, 2, 4), "add_zero_attn"),
        (nn.MultiheadAttention(4, 2), (3, 4), "without a batch"),
    ],
)
def test_what_has_no_rollout_is_refused(attention, tokens, said):
    given = torch.rand(*tokens)
    with Attending("a method", 2), pytest.raises(AttributionLabError, match=f"a method: .*{said}"):
        attention(given, given, given)


def test_dropped_attention_is_refused():
    query = drawn(1, 1, 2, 2)
    with pytest.raises(AttributionLabError, match="a method: attention is dropped"):
        scaled_dot_product("a method", query, query, query, dropout_p=0.5)
