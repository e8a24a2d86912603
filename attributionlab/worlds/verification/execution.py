"""Running a network for a check: in batches that fit in memory, answers in float64 on the CPU."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attributionlab.worlds.environment.environment import Environment

PIXELS_AT_ONCE = 2**18
"""Larger batches only take memory, but never fewer than two images: one could not influence another."""


def hand_made(env: Environment) -> nn.Module:
    """The network as it was built, with a detector, an accumulator and a head that can be named."""
    return env.model if env.network.plain is None else env.network.plain


def equals_rule_on(
    env: Environment, images: Float[Tensor, "batch channels height width"]
) -> Bool[Tensor, " batch"]:
    """On which of some images a network is to equal its rule: all, or those of known colors alone."""
    if env.network.equal_on == "integers":
        return torch.ones(len(images), dtype=torch.bool)
    return ~env.admission.unseen(images).flatten(1).any(1)


def run(
    module: nn.Module,
    inputs: Float[Tensor, "batch channels *space"],
    layout: torch.memory_format = torch.channels_last,
) -> Float[Tensor, "batch outputs *_"]:
    """Outputs in float64 on the CPU, of inputs moved to the module's device, dtype and layout."""
    like = next(module.parameters())
    if inputs.ndim != 4:
        layout = torch.contiguous_format
    batch = max(2, PIXELS_AT_ONCE // inputs[0, 0].numel())
    with torch.no_grad():
        outputs = [
            module(part.to(like.device, like.dtype).contiguous(memory_format=layout)).double().cpu()
            for part in torch.split(inputs, batch)
        ]
    return torch.cat(outputs)
