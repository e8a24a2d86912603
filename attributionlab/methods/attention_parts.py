"""Attention that torch computes in one piece, part by part: the same numbers by visible operations."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from attributionlab.errors import AttributionLabError


def scaled_dot_product(
    who: str,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    r"""softmax(q k^T s + mask) v: `torch.nn.functional.scaled_dot_product_attention`.

    Parameters
    ----------
    who : str
        For messages.
    query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa
        Those of the function; True in the mask is a key that is attended to. A query that attends to
        no key gets 0, as in torch 2.5 and later; before, torch gives it NaN. Dropout is refused.
    """
    if dropout_p > 0:
        raise _dropout(who, dropout_p)
    if enable_gqa:  # several heads of the query share one of key and value
        sharing = query.shape[-3] // key.shape[-3]
        key, value = (each.repeat_interleave(sharing, -3) for each in (key, value))
    if is_causal:
        shape = (query.shape[-2], key.shape[-2])
        attn_mask = torch.ones(shape, dtype=torch.bool, device=query.device).tril()
    scores = _scores(query, key, attn_mask, scale)
    weights = scores.softmax(-1) if attn_mask is None else _softmax_of_attended(scores)
    return weights @ value


def multi_head(
    who: str,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    average_attn_weights: bool = True,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    **separate: Any,
) -> tuple[Tensor, Tensor | None]:
    """Attention of `nn.MultiheadAttention`: `torch.nn.functional.multi_head_attention_forward`.

    Parameters
    ----------
    who : str
        For messages.
    query, key, value : Tensor, (L, B, E), (S, B, E), (S, B, E)
    embed_dim_to_check, num_heads, ..., separate
        Those of the function; True in a mask is a key that is not attended to. A query that attends to
        no key gets 0, or NaN where weights are needed. Dropout, images without a batch and keys that
        are no tokens are refused.

    Returns
    -------
    tuple of Tensor, (L, B, E), and Tensor or None, (B, L, S) or (B, heads, L, S)
        The second are the weights, where they are needed.
    """
    if training and dropout_p > 0:
        raise _dropout(who, dropout_p)
    extra = (bias_k, bias_v, static_k, static_v, *([query] if query.ndim == 2 else []))
    if add_zero_attn or any(each is not None for each in extra):
        raise AttributionLabError(
            f"{who}: nn.MultiheadAttention without a batch, or with bias_k, bias_v or add_zero_attn, "
            "has no rollout: its keys are not the tokens of each image"
        )
    biases = [None] * 3 if in_proj_bias is None else in_proj_bias.chunk(3)
    if separate.get("use_separate_proj_weight"):
        weights = [separate[f"{each}_proj_weight"] for each in "qkv"]
    else:
        assert in_proj_weight is not None  # there is one or the other
        weights = list(in_proj_weight.chunk(3))
    # (L, B, E) -> (B, heads, L, d)
    q, k, v = (
        F.linear(each, weight, bias).reshape(*each.shape[:2], num_heads, -1).permute(1, 2, 0, 3)
        for each, weight, bias in zip((query, key, value), weights, biases, strict=True)
    )
    scores = _scores(q, k, _added(q, attn_mask, key_padding_mask), None)
    attention = scores.softmax(-1) if need_weights else _softmax_of_attended(scores)
    mixed = (attention @ v).permute(2, 0, 1, 3).flatten(2)
    output = F.linear(mixed, out_proj_weight, out_proj_bias)
    if not need_weights:
        return output, None
    return output, attention.mean(1) if average_attn_weights else attention


IN_ONE_PIECE: Mapping[str, Callable[..., Any]] = {
    "multi_head_attention_forward": multi_head,
    "scaled_dot_product_attention": scaled_dot_product,
}
"""By the name of torch's function; each takes whom it is for, and then the function's arguments."""


def _scores(query: Tensor, key: Tensor, mask: Tensor | None, scale: float | None) -> Tensor:
    """Of each query for each key; True in a mask is a key that is attended to."""
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = query @ key.transpose(-2, -1) * factor
    if mask is not None and mask.dtype == torch.bool:
        scores = scores.masked_fill(~mask, -math.inf)
    elif mask is not None:
        scores = scores + mask
    return scores


def _softmax_of_attended(scores: Tensor) -> Tensor:
    """Softmax over keys, which is 0 for a query that attends to none."""
    none = (scores == -math.inf).all(-1, keepdim=True)
    return scores.masked_fill(none, 0.0).softmax(-1).masked_fill(none, 0.0)


def _added(
    query: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None
) -> Tensor | None:
    """Both masks as numbers to add to scores (B, heads, L, S)."""
    batch, heads = query.shape[:2]
    masks = []
    if attn_mask is not None:
        alone = attn_mask.ndim == 2
        masks.append(attn_mask if alone else attn_mask.reshape(batch, heads, *attn_mask.shape[1:]))
    if key_padding_mask is not None:
        masks.append(key_padding_mask[:, None, None, :])
    numbers = [
        torch.zeros_like(mask, dtype=query.dtype).masked_fill(mask, -math.inf)
        if mask.dtype == torch.bool
        else mask
        for mask in masks
    ]
    return sum(numbers[1:], numbers[0]) if numbers else None


def _dropout(who: str, probability: float) -> AttributionLabError:
    return AttributionLabError(
        f"{who}: attention is dropped with probability {probability:g}: call model.eval()"
    )
