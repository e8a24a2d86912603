r"""AttnLRP (Achtibat et al., 2024): relevance through attention, as the input times a gradient.

A forward pass inside `AttentionAware` runs under a torch function mode that changes no value, and gives
each operation the gradient g of its rule. The result z of an operation then has the relevance
:math:`R_z = z \, g_z`:

- weighted sums (linear layers, convolutions, averages) hand it down by the epsilon rule: their
  gradient, times :math:`z / (z + \epsilon \, sign(z))`; residual sums by their gradient;
- products of two activations, :math:`z = \sum_m a_m b_m`, hand a half of each term's share to either
  operand: half of their gradient, and epsilon where terms are added;
- a softmax s of x hands down :math:`R_{x_i} = x_i (R_{s_i} - s_i \sum_j R_{s_j})`, which for
  :math:`R_{s_i} = s_i g_i` is x times its gradient;
- activations hand it on unchanged: in place of their gradient stands f(x) / x, and 0 for x = 0;
- normalizations, too: what they divide by is a constant, and what remains a weighted sum.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attributionlab.base import AttributionLabError, Positive
from attributionlab.methods.attention_matrices import PRODUCTS, tensors_among
from attributionlab.methods.batching import over_batches
from attributionlab.methods.declaration import checked, declares
from attributionlab.methods.graph import operation
from attributionlab.methods.guards import completeness, lrp_remedy
from attributionlab.methods.outputs import target_outputs
from attributionlab.methods.transformer_relevance import (
    AVERAGES,
    CHANGES_OF_SHAPE,
    WEIGHTED,
    Operation,
    Ruled,
)

CAUSE = "a softmax, epsilon and constants of the network absorb relevance, as AttnLRP is defined"

AFFINE = (*WEIGHTED, *AVERAGES, "addmm", "baddbmm", "batch_norm", "conv3d", "conv_transpose2d")
"""Operations that are a weighted sum of each of their operands, and a constant."""

PLAIN = (
    *("add", "sub", "__rsub__", "neg", "softmax", "dropout"),
    *("max_pool1d", "max_pool2d", "adaptive_max_pool2d"),
)
"""Operations whose rule is their gradient."""

UNCHANGED = (
    *("relu", "leaky_relu", "prelu", "elu", "selu", "celu", "gelu", "silu", "mish", "tanh"),
    *("hardswish", "hardtanh", "square", "normalize", "rms_norm"),
)
"""Operations of each unit by itself that are 0 at 0, but for a divisor which is held constant."""

HELD = ("rsqrt",)
"""Operations that return what others are divided by."""


class AttentionAware(Ruled):
    """Gives each operation the gradient of its rule; refuses where relevance meets one without any."""

    def __init__(self, who: str, batch: int, epsilon: float) -> None:
        super().__init__(who, batch)
        self.epsilon = epsilon

    def by_rule(
        self,
        func: Operation,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        depending: list[Tensor],
    ) -> Any:
        """What an operation returns, with the gradient of its rule."""
        if name in HELD:
            with torch.no_grad():
                return func(*args, **kwargs)
        first = bool(args) and isinstance(args[0], Tensor) and args[0].grad_fn is not None
        if name == "div" and first:  # by a constant, as what a normalization divides by
            return func(args[0], *map(_constant, args[1:]), **kwargs)
        result = func(*args, **kwargs)
        if name in (*CHANGES_OF_SHAPE, *PLAIN) or (name == "mul" and len(depending) == 1):
            return result
        powered = name == "pow" and isinstance(args[-1], int | float) and args[-1] > 0
        unchanged = powered or name in UNCHANGED
        if name == "hardtanh" and first:  # its bounds say whether it is 0 at 0
            unchanged = not func(args[0].detach().new_zeros(1), *args[1:], **kwargs).any()
        if unchanged and first and len(depending) == 1:
            return _with_gradient_of(result, args[0] * _quotient(result, args[0]))
        if name in NORMALIZATIONS and first and len(depending) == 1:
            normalized = NORMALIZATIONS[name](*args, **kwargs)
            return self._weighted(_with_gradient_of(result, normalized))
        if name in (*AFFINE, *PRODUCTS) and len(depending) == 1:
            return self._weighted(result)
        if name in (*PRODUCTS, "mul") and len(depending) == 2:
            if result.requires_grad:
                result.register_hook(lambda gradient: gradient / 2)  # type: ignore[no-untyped-call]
            return result if name == "mul" else self._weighted(result)
        for each in tensors_among([result]):
            if each.requires_grad:
                each.register_hook(partial(_refuse, self.who, name))  # type: ignore[no-untyped-call]
        return result

    def _weighted(self, result: Tensor) -> Tensor:
        """The epsilon rule."""
        z = result.detach()
        stable = z + self.epsilon * torch.where(z >= 0, 1.0, -1.0).to(z)
        if result.requires_grad and not torch.equal(stable, z):
            kept = z / stable
            result.register_hook(lambda gradient: gradient * kept)  # type: ignore[no-untyped-call]
        return result


def _constant(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value


def _with_gradient_of(result: Tensor, other: Tensor) -> Tensor:
    """The values of one tensor with the gradient of another."""
    return result.detach() + (other - other.detach())


def _quotient(result: Tensor, operand: Tensor) -> Tensor:
    """f(x) / x, and 0 for x = 0."""
    x = operand.detach()
    return torch.where(x == 0, 0.0, result.detach() / torch.where(x == 0, 1.0, x))


def _layer_norm(
    values: Float[Tensor, "..."],
    normalized_shape: tuple[int, ...],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,  # as torch.layer_norm
) -> Float[Tensor, "..."]:
    normalized = _normalized(values, range(-len(normalized_shape), 0), eps)
    return normalized if weight is None else normalized * weight


def _group_norm(
    values: Float[Tensor, "batch channels ..."],
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,  # as torch.group_norm
) -> Float[Tensor, "batch channels ..."]:
    groups = values.reshape(len(values), num_groups, -1)
    normalized = _normalized(groups, [2], eps).view(values.shape)
    return normalized if weight is None else normalized * weight.view(-1, *[1] * (values.ndim - 2))


def _normalized(
    values: Float[Tensor, "..."], dimensions: Iterable[int], eps: float
) -> Float[Tensor, "..."]:
    """Values less their mean, divided by a constant."""
    over = tuple(dimensions)
    centered = values - values.mean(over, keepdim=True)
    return centered * (centered.detach().square().mean(over, keepdim=True) + eps).rsqrt()


NORMALIZATIONS: Mapping[str, Operation] = {"layer_norm": _layer_norm, "group_norm": _group_norm}
"""Without their biases, of which no relevance comes."""


def _refuse(who: str, name: str, _: Tensor) -> None:
    raise AttributionLabError(
        f"{who} has no rule for {name!r}: take a network of linear layers, attention, activations that "
        "are 0 at 0, normalizations, products of two and sums, or integrated-gradients"
    )


@checked
@declares(output="logit", modules=True)
def attnlrp(
    model: nn.Module, inputs: Tensor, targets: Tensor, *, epsilon: Positive = 1e-9
) -> Tensor:
    r"""AttnLRP: layer-wise relevance propagation with rules for attention.

    .. math::
        z = \sum_m a_m b_m: \ R_{a_m} = \frac{a_m b_m}{2 z} R_z, \qquad
        s = softmax(x): \ R_{x_i} = x_i \Big(R_{s_i} - s_i \sum_j R_{s_j}\Big),

    and the epsilon rule of `lrp` for weighted sums, those of products of two activations included.
    Activations and normalizations pass their relevance on unchanged. It starts from R = f_t(x) at the
    output and ends at the input.

    Source: Achtibat et al., 2024. Computed as the input times a gradient in which each operation has
    that of its rule (`attributionlab.methods.attention_aware`); without attention, normalizations and
    smooth activations it is `lrp`. Differences from the paper: its vision transformers use the gamma
    rule in linear layers, here all use epsilon; the mean that a LayerNorm subtracts is a weighted sum.
    Relevance does not sum to the output: softmaxes and biases absorb some, and position embeddings keep
    their own. A saturated softmax passes none to queries and keys, because x times its gradient is 0.
    One forward and one backward pass.

    Parameters
    ----------
    model, inputs, targets
        As for `saliency`. Any kind of attention: `nn.MultiheadAttention`,
        `scaled_dot_product_attention`, or your own products with a softmax.
    epsilon : float
        As for `lrp`.

    Returns
    -------
    Tensor, (B, C, H, W)
        In units of the output.

    Raises
    ------
    AttributionLabError
        If the network ends in a softmax, or relevance reaches an operation without a rule, such as a
        sigmoid, which is not 0 at 0; for a model in training mode, or if `epsilon` is not a positive
        number.
    """
    who = "attnlrp"

    def run(images: Tensor, classes: Tensor) -> tuple[Tensor, Tensor]:
        leaf = images.detach().clone().requires_grad_()
        with torch.enable_grad():
            start = leaf.clone()  # which a model may change in place
            with AttentionAware(who, len(images), epsilon):
                output = model(start)
            if operation(output.grad_fn).endswith("Softmax"):
                raise AttributionLabError(
                    f"{who} explains logits, but this network has a softmax: pass explain='logit'"
                )
            value = target_outputs(output, classes)
            (gradient,) = torch.autograd.grad(value.sum(), leaf)
        return leaf.detach() * gradient, value.detach()

    relevance, value = over_batches(run, (inputs, targets), who)
    completeness(relevance, value, None, lrp_remedy(model, CAUSE))
    return relevance
