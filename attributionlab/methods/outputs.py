"""The outputs that are explained, and when two of them are the same."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attributionlab.base import checked_outputs, refuse_if

ROUNDING = 4
"""Units in the last place by which rounding may move an output; batches of another size do."""


def target_outputs(
    outputs: Float[Tensor, "batch outputs"], targets: Int[Tensor, " batch"]
) -> Float[Tensor, " batch"]:
    """The one output of each image that is explained; refused for outputs that are not (B, K), and if
    there is no such output.
    """
    refuse_if(targets_problem(int(targets.max()), checked_outputs(outputs, len(targets))))
    return outputs.gather(1, targets.to(outputs.device)[:, None])[:, 0]


def targets_problem(highest: int, outputs: Float[Tensor, "batch outputs"]) -> list[str]:
    """What is wrong with targets, the highest of which is given, for a network of these outputs."""
    count = outputs.shape[1]
    if highest < count:
        return []
    return [
        f"targets go up to {highest}, but the model has {count} outputs: pass indices from 0 to "
        f"{count - 1}"
    ]


def same_outputs(first: Float[Tensor, "..."], second: Float[Tensor, "..."]) -> Bool[Tensor, "..."]:
    r"""Whether outputs of one shape and type differ by no more than rounding.

    .. math:: |f - g| \le 4 \, \epsilon \, \max(|f|, |g|)

    with epsilon the spacing of the outputs' type at 1.
    """
    f, g = first.detach().double(), second.detach().double()
    limit = ROUNDING * torch.finfo(first.dtype).eps * torch.maximum(f.abs(), g.abs())
    return (f - g).abs() <= limit
