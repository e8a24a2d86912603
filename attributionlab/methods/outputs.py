"""The outputs that are explained, and when two of them are the same."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attributionlab.errors import AttributionLabError
from attributionlab.validation import checked_outputs

ROUNDING = 4
"""Units in the last place by which rounding may move an output; batches of another size do."""


def target_outputs(
    outputs: Float[Tensor, "batch outputs"], targets: Int[Tensor, " batch"]
) -> Float[Tensor, " batch"]:
    """The one output of each image that is explained; refused for outputs that are not (B, K), and if
    there is no such output.
    """
    highest = int(targets.max())
    if highest >= checked_outputs(outputs, len(targets)).shape[1]:
        raise AttributionLabError(
            f"targets go up to {highest}, and the model has {outputs.shape[1]} outputs: pass indices "
            f"from 0 to {outputs.shape[1] - 1}"
        )
    return outputs.gather(1, targets.to(outputs.device)[:, None])[:, 0]


def same_outputs(first: Float[Tensor, "..."], second: Float[Tensor, "..."]) -> Bool[Tensor, "..."]:
    r"""Whether outputs of one shape and type differ by no more than rounding.

    .. math:: |f - g| \le 4 \, \epsilon \, \max(|f|, |g|)

    with epsilon the spacing of the outputs' type at 1.
    """
    f, g = first.detach().double(), second.detach().double()
    limit = ROUNDING * torch.finfo(first.dtype).eps * torch.maximum(f.abs(), g.abs())
    return (f - g).abs() <= limit
