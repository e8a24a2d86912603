"""Finding the attention matrices of a transformer of any make.

Attention is what a softmax over the last dimension returns, or is made of it entry by entry, and values
are multiplied with. A torch function mode sees both, whatever module or function computes them;
attention that torch computes in one piece is taken apart first (`IN_ONE_PIECE`).
"""

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from attributionlab.base import AttributionLabError


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
    """softmax(q k^T s + mask) v: `torch.nn.functional.scaled_dot_product_attention`.

    True in the mask is a key that is attended to. A query that attends to no key gets 0, as in torch
    2.5 and later; before, torch gives it NaN. Dropout is refused.
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


def multi_head(who: str, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
    """Attention of `nn.MultiheadAttention`: `torch.nn.functional.multi_head_attention_forward`.

    True in a mask is a key that is not attended to. A query that attends to no key gets 0, or NaN where
    weights are needed. Dropout, images without a batch and keys that are no tokens are refused.
    """
    bound = inspect.signature(F.multi_head_attention_forward).bind(*args, **kwargs)
    bound.apply_defaults()
    given = bound.arguments
    if given["training"] and given["dropout_p"] > 0:
        raise _dropout(who, given["dropout_p"])
    query, key, value = (given[each] for each in ("query", "key", "value"))
    extra = (given[each] for each in ("bias_k", "bias_v", "static_k", "static_v"))
    if given["add_zero_attn"] or query.ndim == 2 or any(each is not None for each in extra):
        raise AttributionLabError(
            f"{who}: nn.MultiheadAttention without a batch, or with bias_k, bias_v or add_zero_attn, "
            "has no rollout: its keys are not the tokens of each image"
        )
    bias = given["in_proj_bias"]
    biases = [None] * 3 if bias is None else bias.chunk(3)
    if given["use_separate_proj_weight"]:
        weights = [given[f"{each}_proj_weight"] for each in "qkv"]
    else:
        weights = given["in_proj_weight"].chunk(3)
    # (L, B, E) -> (B, heads, L, d)
    q, k, v = (
        F.linear(each, weight, bias)
        .reshape(*each.shape[:2], given["num_heads"], -1)
        .permute(1, 2, 0, 3)
        for each, weight, bias in zip((query, key, value), weights, biases, strict=True)
    )
    scores = _scores(q, k, _added(q, given["attn_mask"], given["key_padding_mask"]), None)
    attention = scores.softmax(-1) if given["need_weights"] else _softmax_of_attended(scores)
    mixed = (attention @ v).permute(2, 0, 1, 3).flatten(2)
    output = F.linear(mixed, given["out_proj_weight"], given["out_proj_bias"])
    if not given["need_weights"]:
        return output, None
    return output, attention.mean(1) if given["average_attn_weights"] else attention


IN_ONE_PIECE: Mapping[str, Callable[..., Any]] = {
    "multi_head_attention_forward": multi_head,
    "scaled_dot_product_attention": scaled_dot_product,
}
"""By the name of torch's function; each takes whom it is for, and then the function's arguments."""


def _scores(query: Tensor, key: Tensor, mask: Tensor | None, scale: float | None) -> Tensor:
    """Scores of each query for each key; True in a mask is a key that is attended to."""
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


PRODUCTS = ("bmm", "einsum", "matmul")
"""Operations that multiply attention with values."""

SAME_VALUES = (
    *("dropout", "clone", "contiguous", "to", "type", "type_as", "float", "double"),
    *("view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze"),
)
"""Operations behind which attention is still attention."""

ENTRY_BY_ENTRY = ("div", "masked_fill", "mul", "nan_to_num", "where")
"""Operations behind which it still is if they keep its shape, such as the masks of heads."""


@dataclass(eq=False)
class _Softmax:
    """What becomes of a softmax, between `tokens` (0 if it is not a square): whether values are
    multiplied with it, and operations behind which it is not followed.
    """

    tokens: int
    multiplied: bool = False
    passed_to: list[str] = field(default_factory=list)


class Attending(TorchFunctionMode):
    """Notes the attention of a network that runs inside, block by block, for `batch` images.

    `maps` has rows and columns of what the last convolution or pooling in front of all attention
    returns;
    `images_first` says whether the first dimension of all sums of tokens has one entry for each image.
    """

    def __init__(self, who: str, batch: int) -> None:
        super().__init__()
        self.who, self.batch = who, batch
        self.maps: tuple[int, int] | None = None
        self.images_first = True
        # By identity, which is unique for as long as the tensor is kept.
        self._followed: dict[int, tuple[Tensor, _Softmax]] = {}
        self._softmaxes: list[_Softmax] = []
        self._multiplied: list[tuple[Tensor, _Softmax]] = []

    def matrices(self) -> list[Tensor]:
        """The attention of each block as values are multiplied with it, with its gradient.

        (B, heads, N, N) or (B heads, N, N) of N tokens. Refuses if there is none, or some that is not
        seen to be multiplied with values; if it is not between the same N tokens in all blocks, or that
        of a block does not depend on the images or on the block before it.
        """
        for softmax in self._softmaxes:
            if softmax.tokens and not softmax.multiplied:
                raise AttributionLabError(self._hidden(softmax))
        found = [each for each, _ in self._multiplied]
        if not found:
            raise AttributionLabError(
                f"{self.who} needs a network with attention, but this one has no softmax over "
                "the tokens of a batch: take a method for any network"
            )
        sizes = {tuple(each.shape[-2:]) for each in found}
        whole = all(
            len(each) == self.batch
            if each.ndim == 4
            else each.ndim == 3 and len(each) % self.batch == 0
            for each in found
        )
        if len(sizes) > 1 or len(set(found[0].shape[-2:])) > 1 or not whole:
            shapes = dict.fromkeys(str(tuple(each.shape)) for each in found)
            raise AttributionLabError(
                f"{self.who} follows the same tokens through all blocks, but the attention here has "
                f"the shapes {', '.join(shapes)} for {self.batch} images: windows, merged tokens and "
                "cross-attention have no rollout"
            )
        if not all(each.requires_grad for each in found):
            raise AttributionLabError(
                f"{self.who} needs gradients of the attention, but there are none: it does not depend "
                "on the image, or the model switches gradients off"
            )
        self._refuse_branches()
        return found

    def _hidden(self, softmax: _Softmax) -> str:
        text = (
            f"{self.who}: a softmax over {softmax.tokens} tokens has no visible product with values"
        )
        if not softmax.passed_to:
            return text + f": take a network that computes it by {', '.join(PRODUCTS)}"
        names = ", ".join(dict.fromkeys(softmax.passed_to))
        return text + f", because {names} cannot be traced: do without"

    def _refuse_branches(self) -> None:
        for number, (earlier, later) in enumerate(pairwise(self._multiplied), 2):
            if later[1] is earlier[1] or not _depends(later[0], earlier[0]):
                raise AttributionLabError(
                    f"{self.who} follows tokens from block to block, but attention {number} of "
                    f"{len(self._multiplied)} does not depend on what the one before it is multiplied "
                    "with: parallel branches have no rollout"
                )

    def computed(
        self, func: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """What an operation returns; the place for rules of another backward pass."""
        return func(*args, **kwargs)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        # No gradient of parameters is asked for: nothing needs to be kept for one.
        args = tuple(_without_gradient(each) for each in args)
        kwargs = {key: _without_gradient(each) for key, each in (kwargs or {}).items()}
        name = getattr(func, "__name__", str(func))
        if name in IN_ONE_PIECE:
            with self:  # the parts are seen too
                return IN_ONE_PIECE[name](self.who, *args, **kwargs)
        if name in ("batch_norm", "dropout") and kwargs.get("training"):
            raise AttributionLabError(
                f"{self.who}: the model is in training mode: call model.eval()"
            )
        result = self.computed(func, name, args, kwargs)
        given = tensors_among([*args, *kwargs.values()])
        followed = [self._followed[id(each)] for each in given if id(each) in self._followed]
        if followed:
            self._follow(*followed[0], name, result)
        grid = name.endswith(("conv2d", "pool2d")) and result.shape[-2:].numel() > 1
        if grid and not self._multiplied:
            self.maps = (result.shape[-2], result.shape[-1])
        elif name in ("add", "add_") and result.ndim >= 2:
            self.images_first &= len(result) == self.batch
        elif name.endswith("softmax") and result.ndim >= 3:
            self._begin(kwargs.get("dim", args[1] if len(args) > 1 else None), result)
        return result

    def _begin(self, dimension: int | None, result: Tensor) -> None:
        rows, columns = result.shape[-2:]
        softmax = _Softmax(tokens=rows if rows == columns else 0)
        if dimension in (-1, result.ndim - 1):
            self._followed[id(result)] = result, softmax
        elif dimension in (-2, result.ndim - 2):
            softmax.passed_to.append("a softmax over the last dimension but one")
        else:
            return
        self._softmaxes.append(softmax)

    def _follow(self, values: Tensor, softmax: _Softmax, name: str, result: Any) -> None:
        if name in PRODUCTS:
            softmax.multiplied = True
            self._multiplied.append((values, softmax))
        elif isinstance(result, Tensor):
            kept = name in ENTRY_BY_ENTRY and result.shape == values.shape
            if kept or name in SAME_VALUES:
                self._followed[id(result)] = result, softmax
            elif result is not values:
                softmax.passed_to.append(name)


def _without_gradient(value: Any) -> Any:
    leaf = isinstance(value, Tensor) and value.requires_grad and value.grad_fn is None
    return value.detach() if leaf else value


def _depends(later: Tensor, earlier: Tensor) -> bool:
    """Whether one was computed from the other; looks at what was computed between the two."""
    assert earlier.grad_fn is not None  # both are part of the graph
    first, met = earlier.grad_fn._sequence_nr(), set()
    waiting = [later.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is earlier.grad_fn:
            return True
        if node is None or node in met or node._sequence_nr() < first:
            continue
        met.add(node)
        waiting += [each for each, _ in node.next_functions]
    return False


def tensors_among(values: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors among an operation's arguments, those in lists included."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors_among(value)
