r"""Half precision: what a network still answers right in float16 and bfloat16, and what is proved.

float16 counts 2^11 grid steps without a gap and bfloat16 2^8, where float32 counts 2^24: few networks
fit. So this is a report and no check.
"""

import copy

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attributionlab.environment import Environment
from attributionlab.verification.certificate import Precision
from attributionlab.verification.execution import run

__all__ = ["half_precisions"]

HALVES = (torch.float16, torch.bfloat16)


def half_precisions(
    env: Environment, images: Float[Tensor, "n channels height width"]
) -> list[Precision]:
    """Compare the logits of images in each type of half precision with those in float32.

    Parameters
    ----------
    env : Environment
        Its network is copied.
    images : Tensor
        Samples and images anywhere in the valid box.
    """
    expected = run(env.model, images)
    precisions = []
    for dtype in HALVES:
        model = copy.deepcopy(env.model).to(dtype)
        logits = run(model, images)
        largest = float((logits - expected).abs().max())
        precisions.append(
            Precision(
                dtype=str(dtype).removeprefix("torch."),
                images=len(images),
                equal=int((logits == expected).all(1).sum()),
                largest_difference=largest if logits.isfinite().all() else None,
                proved=_is_proved(env, model, dtype),
            )
        )
    return precisions


def _is_proved(env: Environment, model: nn.Module, dtype: torch.dtype) -> bool:
    """Whether the type holds every weight, and every partial sum of every layer, without rounding.

    Every partial sum is a multiple of its neuron's grid step and at most so many of them as the type
    counts. Layers without a budget of their own hand numbers on.
    """
    limits = torch.finfo(dtype)
    weights = zip(env.model.parameters(), model.parameters(), strict=True)
    return all(torch.equal(full.double(), half.double()) for full, half in weights) and all(
        budget.steps <= 2 / limits.eps
        and budget.largest_sum <= limits.max
        and budget.finest >= limits.tiny
        for budget in env.network.budgets
    )
