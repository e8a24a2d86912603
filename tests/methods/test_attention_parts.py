"""Attention taken apart returns what torch computes in one piece."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from attributionlab.errors import AttributionLabError
from attributionlab.methods.attention_matrices import Attending
from attributionlab.methods.attention_parts import scaled_dot_product

# Some dozen float64 products and quotients of numbers of order 1.
CLOSE = {"rtol": 1e-12, "atol": 1e-12}


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
    torch.testing.assert_close(got, expected, **CLOSE)


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
    torch.testing.assert_close(got[:, :, ::2], expected[:, :, ::2], **CLOSE)
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
    torch.testing.assert_close(got[:, ::2], expected[:, ::2], **CLOSE)
    nothing = torch.full((8,), torch.nan).double() if need_weights else attention.out_proj.bias
    torch.testing.assert_close(got[:, 1], nothing.expand(2, 8), equal_nan=True, **CLOSE)


def test_several_heads_may_share_keys_and_values():
    query, key, value = drawn(2, 4, 3, 5), drawn(2, 2, 3, 5, seed=1), drawn(2, 2, 3, 5, seed=2)
    every = (each.repeat_interleave(2, 1) for each in (key, value))
    expected = F.scaled_dot_product_attention(query, *every)  # enable_gqa is of torch 2.5
    got = scaled_dot_product("a method", query, key, value, enable_gqa=True)
    torch.testing.assert_close(got, expected, **CLOSE)


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
    torch.testing.assert_close(got, expected, **CLOSE)
    [matrix] = seen.matrices()
    assert matrix.shape == (2, 4, 3, 3)
    if call.get("need_weights", True):
        alone = call.get("average_attn_weights", True)
        torch.testing.assert_close(matrix.mean(1) if alone else matrix, expected[1], **CLOSE)


def test_true_in_a_mask_of_the_function_is_a_key_that_is_not_attended_to():
    tokens = computed(drawn(3, 2, 8))
    projections = (drawn(24, 8, seed=1), None, None, None, False, 0.0, drawn(8, 8, seed=2), None)
    masks = {"attn_mask": ~BOOLEAN, "key_padding_mask": torch.tensor([[True, False, False]] * 2)}
    given = (tokens, tokens, tokens, 8, 2, *projections)
    expected = F.multi_head_attention_forward(*given, training=False, **masks)
    with Attending("a method", 2):
        got = F.multi_head_attention_forward(*given, training=False, **masks)
    torch.testing.assert_close(got, expected, **CLOSE)


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
    torch.testing.assert_close(got, expected, **CLOSE)
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
