r"""What attention says about an output: attention rollout, and relevance through attention.

Both take the tokens of all blocks to be those of the image, patch by patch, and follow which tokens a
token of the last block is a mixture of. Each block contributes a matrix (N, N) that mixes the tokens;
in the product of all of them, the last block's first, the rows of those tokens that the output reads
say what it reads of each token at the start.
"""

from collections.abc import Sequence
from typing import Annotated, TypeVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attributionlab.base import AttributionLabError, Grid, Whole, Within
from attributionlab.methods.attention_matrices import Attending
from attributionlab.methods.batching import over_batches
from attributionlab.methods.declaration import checked, declares
from attributionlab.methods.notices import Notice, notify
from attributionlab.methods.outputs import target_outputs
from attributionlab.methods.tokens import tokens_of
from attributionlab.methods.transformer_relevance import Relevance


def read_tokens(
    gradient: Float[Tensor, "batch heads tokens tokens"],
) -> Bool[Tensor, "batch tokens"]:
    """The tokens that an output reads behind the last block: those whose attention it depends on.

    From its gradient there: the class token alone, or all of which the mean is taken.
    """
    return (gradient != 0).any(3).any(1)


@checked
@declares(claim="positive", output="logit", modules=True, images=True)
def attention_rollout(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    residual: Annotated[float, Within(least=0, below=1)] = 0.5,
    grid: Grid | None = None,
    prefix: Whole | None = None,
) -> Tensor:
    r"""Attention rollout: the product of all blocks' attention matrices and residual connections.

    .. math::
        P = \tilde A_L \cdots \tilde A_1, \qquad
        \tilde A_l = rI + (1 - r) \frac{1}{H} \sum_h A_l^h, \qquad
        a_j = \frac{1}{|T|} \sum_{i \in T} P_{ij}

    with the softmax :math:`A_l^h` of head h in block l, the share r of the residual connection, rows of
    :math:`\tilde A_l` normalized to 1, and the tokens T that the output reads after the last block: the
    class token, or all tokens that it averages. The entries of the image's tokens are a grid, upsampled
    bilinearly.

    Source: Abnar and Zuidema, 2020. Shows from where information may reach the output, not what it does
    there: values, perceptrons, signs and the classifier play no role, so the map is the same for every
    class. (The target only determines T: tokens from which it has no gradient are not read.) Claims the
    positive truth: attention has no sign. One forward pass, and a backward pass down to the last
    block's attention.

    Parameters
    ----------
    model, inputs, targets
        As for `saliency`; any vision transformer whose attention is a softmax over tokens, by
        `nn.MultiheadAttention`, `scaled_dot_product_attention` or its own products.
    residual : float
        r, at least 0 and below 1.
    grid : pair of int, optional
        Rows and columns of the image's tokens; by default those of the last convolution before the
        attention, otherwise those of square patches.
    prefix : int, optional
        Tokens before the image's, which then follow row by row. By default found by perturbing parts of
        the first image (`attributionlab.methods.tokens`).

    Returns
    -------
    Tensor, (B, 1, H, W)
        Share of what the output reads, per token, before it is upsampled.

    Raises
    ------
    AttributionLabError
        If there is no attention, if it cannot be traced, or is not between the same tokens in
        consecutive blocks; if the tokens' grid or the positions of other tokens cannot be inferred and
        are not stated; for settings out of range, or a model in training mode.
    """
    who = "attention-rollout"

    embedded: list[tuple[int, int] | None] = []

    def run(images: Tensor, classes: Tensor) -> tuple[Tensor, Tensor]:
        seen, value = _forward(Attending(who, len(images)), model, images, classes)
        matrices = seen.matrices()
        if any(matrix.min() < 0 for matrix in matrices):
            raise AttributionLabError(
                f"{who}: values are multiplied by negative attention: take "
                "chefer-lrp, or a network without it"
            )
        read = read_tokens(_by_heads(_gradients(value, matrices[-1:])[0], len(images)))
        mixing = []
        for matrix in matrices:
            mean = _by_heads(matrix.detach(), len(images)).mean(1)
            mixed = (1 - residual) * mean + residual * _identity(mean)
            # A row of zeros, of a token that takes part in nothing, stays one.
            shares = mixed.sum(2, keepdim=True)
            mixing.append(mixed / torch.where(shares == 0, 1.0, shares))
        row = _rows(read, mixing[0])
        for mixed in reversed(mixing):
            row = row @ mixed
        embedded.append(seen.maps)
        return row[:, 0], read

    shares, read = over_batches(run, (inputs, targets), who)
    tokens = tokens_of(model, inputs, shares.shape[1], embedded[-1], grid, prefix, who)
    maps = tokens.as_map(shares, inputs.shape[2:])
    text = (
        "are zero because the tokens that the output reads attend to no token of the image, like the "
        "first token under causal attention: explain an output that reads a later token"
    )
    _notify_zeros(maps, read, text)
    return maps


@checked
@declares(claim="positive", output="logit", modules=True, images=True)
def chefer_lrp(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    grid: Grid | None = None,
    prefix: Whole | None = None,
) -> Tensor:
    r"""Chefer's LRP: rollout of attention relevance times gradient, with negative values set to 0.

    .. math::
        P = \tilde A_L \cdots \tilde A_1, \qquad
        \tilde A_l = I + \frac{1}{H} \sum_h
            \Big(\frac{\partial f_t(x)}{\partial A_l^h} \odot R_l^h\Big)^+, \qquad
        a_j = \frac{1}{|T|} \sum_{i \in T} (P - I)_{ij}

    with the softmax :math:`A_l^h` of head h in block l, its relevance :math:`R_l^h` for the target t
    (from R = 1 at that output; `attributionlab.methods.transformer_relevance` has the rules), and the
    tokens T that the output reads after the last block: the class token, or all tokens that it
    averages. The entries of the image's tokens are a grid, upsampled bilinearly.

    Source: Chefer, Gur and Wolf, 2021, and from the authors' public code which rules it applies. Unlike
    `attention_rollout` it depends on the target: attention counts if more of it would raise the output
    and if it has relevance. Claims the positive truth: what lowers the output is removed by definition.
    Products, sums and averages divide by values of either sign. Where these nearly cancel, the
    relevance passed down is large, has an arbitrary sign and is dominated by rounding: in float32 a map
    may have few correct digits. Compare with a model and images in float64.

    Differences from the public code: sums distribute the relevance of each image, not of the whole
    batch; tokens are read if the output has a gradient from them, not always the first; I is
    subtracted, which changes nothing in the class token's row, but would give other tokens that are
    read a constant that drowns the rest; and a product with a constant passes down all of its
    relevance.

    One forward pass, one backward pass, and one of relevance, in which linear layers cost two forward
    and two backward passes. Images pass one by one if it is unclear which dimension of the tokens is
    the batch.

    Parameters
    ----------
    model, inputs, targets, grid, prefix
        As for `attention_rollout`. Between the first attention and the outputs may be linear layers,
        convolutions, averages, products, sums, activations, normalizations and changes of shape.

    Returns
    -------
    Tensor, (B, 1, H, W)
        Output units times relevance, per token, before it is upsampled.

    Raises
    ------
    AttributionLabError
        As for `attention_rollout`, or for an operation without a rule.
    """
    who = "chefer-lrp"

    embedded: list[tuple[int, int] | None] = []

    def run(images: Tensor, classes: Tensor) -> tuple[Tensor, Tensor]:
        seen, value = _forward(Relevance(who, len(images)), model, images, classes)
        matrices = seen.matrices()
        # Nowhere must the dimension of the tokens be taken for that of the images.
        told_apart = seen.images_first and len(images) != matrices[0].shape[-1]
        if len(images) > 1 and not told_apart:
            ones = zip(torch.split(images, 1), torch.split(classes, 1), strict=True)
            parts = [run(*each) for each in ones]
            return torch.cat([row for row, _ in parts]), torch.cat([read for _, read in parts])
        gradients = _gradients(value, matrices, again=True)
        seen.backward.of_relevance = True
        relevance = _gradients(value, matrices)
        read = read_tokens(_by_heads(gradients[-1], len(images)))
        start = _rows(read, gradients[-1])
        row = torch.zeros_like(start)  # without I, beside which the rest would be lost in rounding
        for gradient, part in reversed(list(zip(gradients, relevance, strict=True))):
            positive = (gradient * part).clamp(min=0)
            row = row + (start + row) @ _by_heads(positive, len(images)).mean(1)
        embedded.append(seen.maps)
        return row[:, 0], read

    found, read = over_batches(run, (inputs, targets), who)
    tokens = tokens_of(model, inputs, found.shape[1], embedded[-1], grid, prefix, who)
    maps = tokens.as_map(found, inputs.shape[2:])
    text = (
        "are zero because no attention weight that counts has a gradient and relevance of the same "
        "sign (nothing supports the output, or relevance was lost on the way): take attnlrp"
    )
    _notify_zeros(maps, read, text)
    return maps


Seen = TypeVar("Seen", bound=Attending)


def _forward(
    seen: Seen, model: nn.Module, images: Tensor, classes: Tensor
) -> tuple[Seen, Float[Tensor, ""]]:
    """What is seen of a forward pass, and the sum of the outputs explained."""
    with torch.enable_grad():
        # A copy, which a model may change in place as no leaf may be.
        start = images.detach().requires_grad_().clone()
        with seen:
            outputs = model(start)
        return seen, target_outputs(outputs, classes).sum()


def _gradients(
    value: Float[Tensor, ""], matrices: Sequence[Tensor], again: bool = False
) -> tuple[Tensor, ...]:
    """What is handed down to the attention, which is 0 where nothing is; `again` if more follows."""
    return torch.autograd.grad(value, matrices, retain_graph=again, materialize_grads=True)


def _by_heads(matrix: Tensor, batch: int) -> Float[Tensor, "batch heads tokens tokens"]:
    return matrix.reshape(batch, -1, *matrix.shape[-2:])


def _identity(matrices: Float[Tensor, "batch tokens tokens"]) -> Float[Tensor, "tokens tokens"]:
    return torch.eye(matrices.shape[-1], dtype=matrices.dtype, device=matrices.device)


def _rows(read: Bool[Tensor, "batch tokens"], like: Tensor) -> Float[Tensor, "batch 1 tokens"]:
    """Takes the mean over the rows of the tokens read from what it is multiplied with."""
    return (read.to(like) / read.sum(1, keepdim=True).clamp(min=1))[:, None]


def _notify_zeros(
    maps: Float[Tensor, "batch 1 height width"], read: Bool[Tensor, "batch tokens"], text: str
) -> None:
    """That nothing is read, or else what makes maps zero all the same."""
    unread = (
        "are zero because the output has no gradient from the last block's attention: explain the "
        "logit (explain='logit') if a softmax is saturated"
    )
    empty = (maps == 0).flatten(1).all(1)
    notify(Notice(unread, int((~read.any(1)).sum()), kind="zeros"))
    notify(Notice(text, int((empty & read.any(1)).sum()), kind="zeros"))
