"""Accumulators and heads: that each channel is added up exactly, for every count and every arrangement,
and what heads make of every count; and the temperature of the softmax.

All weights of an accumulator are non-negative and all biases 0, so on non-negative inputs no ReLU cuts
anything off and the accumulator is linear; its slopes are then its whole behavior, and they are 1 for
every pixel of the own channel and 0 for every other.
"""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attributionlab.worlds.environment.environment import Environment
from attributionlab.worlds.verification.certificate import Check, Tally, compared
from attributionlab.worlds.verification.execution import hand_made, run
from attributionlab.worlds.verification.oracle import Oracle


def head_checks(env: Environment, oracle: Oracle, generator: torch.Generator) -> list[Check]:
    """Check the head of an environment, and its temperature if it has one."""
    checks = [_head_check(env, oracle, generator)]
    if env.softmax_model is not None and env.temperature is not None:
        # The temperature is a power of two, so float32 divides exactly.
        most = env.recipe.image_size**2
        logits = torch.randint(0, most + 1, (64, env.network.classes), generator=generator).float()
        checks.append(
            compared(
                "temperature",
                f"The softmax receives each logit divided by the temperature, {env.temperature:g}.",
                run(env.softmax_model.get_submodule("temperature"), logits),
                logits.double() / env.temperature,
                _row_namer("logits", logits),
            )
        )
    return checks


def head_domain(
    env: Environment, oracle: Oracle, generator: torch.Generator
) -> Iterator[Float[Tensor, "rows channels"]]:
    """Every count that a head must handle.

    For a remainder all counts up to the stated bound, and up to the one that the network claims; for
    classes every count of each class up to the whole image, alone and beside random counts of all
    other channels.
    """
    pixels = env.recipe.image_size**2
    if oracle.modulus is not None:
        bound = max(env.spec.constants["max_count"], env.network.max_count)
        yield torch.arange(bound + 1.0)[:, None]
        return
    each = torch.arange(pixels + 1.0)
    for index in range(len(oracle.counted)):
        counts = torch.zeros(pixels + 1, oracle.channels)
        counts[:, index] = each
        yield counts
        if oracle.channels > 1:
            others = torch.randint(0, pixels + 1, counts.shape, generator=generator).float()
            others[:, index] = each
            yield others


def _head_check(env: Environment, oracle: Oracle, generator: torch.Generator) -> Check:
    if oracle.modulus is None:
        tally = Tally(
            "identity",
            "The head passes on every count of each class, from 0 to all pixels, whatever the other "
            "counts are, and drops the distractors' counts.",
        )
    else:
        tally = Tally(
            "remainder",
            f"The head's output is x % {oracle.modulus} for every count x up to the stated bound.",
        )
    head = hand_made(env).get_submodule("head")
    for counts in head_domain(env, oracle, generator):
        expected = counts[:, : len(oracle.counted)].double()
        if oracle.modulus is not None:
            remainders = [x % oracle.modulus for x in range(len(counts))]
            expected = torch.tensor(remainders).double()[:, None]
        tally.compare(run(head, counts), expected, _row_namer("counts", counts))
    return tally.check()


def _row_namer(what: str, rows: Float[Tensor, "rows columns"]) -> Callable[[int], str]:
    return lambda i: f"{what} {rows[i].int().tolist()}"


REDUNDANT_GRID = 0.25
"""Redundant weights are multiples of this, and so is their strength."""
RANDOM_SUBSETS = 8


def sum_checks(env: Environment, oracle: Oracle, generator: torch.Generator) -> list[Check]:
    """Check the accumulator of an environment."""
    accumulator = hand_made(env).get_submodule("accumulator")
    side = env.recipe.image_size
    checks = [
        _weights_check(accumulator, oracle.channels),
        _slopes_check(accumulator, oracle, side),
        _subsets_check(accumulator, oracle, side, generator),
    ]
    if oracle.redundant_channels:
        checks.append(_redundant_check(env, accumulator, oracle.channels))
    return checks


def _weights_check(accumulator: nn.Module, channels: int) -> Check:
    tally = Tally(
        "sum-weights",
        "After the detector there are only convolutions and ReLUs, with non-negative weights on the "
        "summed channels and biases of 0: no ReLU clips anything, and the sums are linear.",
    )
    for name, layer in accumulator.named_children():
        standard = torch.tensor([isinstance(layer, nn.Conv2d | nn.ReLU)])
        tally.record(standard, lambda _, said=f"accumulator.{name} is {layer}": said)  # type: ignore[misc]
    for name, parameter in accumulator.named_parameters():
        if name.endswith("bias"):
            allowed = parameter == 0
        else:
            summed = parameter[:, :channels] if name == "0.weight" else parameter
            allowed = summed >= 0
        tally.record(allowed.flatten().cpu(), _weight_namer(name, parameter.detach(), allowed))
    return tally.check()


def _weight_namer(name: str, parameter: Tensor, allowed: Tensor) -> Callable[[int], str]:
    def describe(_: int) -> str:
        place = (~allowed).nonzero()[0].tolist()
        return f"accumulator.{name}{place} is {float(parameter[tuple(place)]):g}"

    return describe


def _slopes_check(accumulator: nn.Module, oracle: Oracle, side: int) -> Check:
    tally = Tally(
        "sum-slopes",
        "Each sum rises by exactly 1 with every pixel of its own channel and by 0 with every pixel of "
        "another, at all positions.",
    )
    channels, like = oracle.channels, next(accumulator.parameters())
    inputs = torch.zeros(channels, channels + oracle.redundant_channels, side, side)
    inputs[:, :channels] = 1
    inputs = inputs.to(like.device, like.dtype, memory_format=torch.channels_last)
    with torch.enable_grad():
        inputs.requires_grad_()
        # Image k asks for the slopes of sum k: one backward pass serves them all.
        own = accumulator(inputs).flatten(1).diagonal().sum()
        (slopes,) = torch.autograd.grad(own, inputs)
    slopes = slopes[:, :channels].cpu()
    expected = torch.eye(channels, dtype=slopes.dtype)[:, :, None, None].expand_as(slopes)

    def describe(i: int) -> str:
        total, channel, y, x = (int(k) for k in np.unravel_index(i, slopes.shape))
        place = (total, channel, y, x)
        return (
            f"sum {total}, channel {channel}, pixel {(y, x)}: got {float(slopes[place]):g}, "
            f"expected {float(expected[place]):g}"
        )

    tally.record((slopes == expected).flatten(), describe)
    return tally.check()


def _subsets_check(
    accumulator: nn.Module, oracle: Oracle, side: int, generator: torch.Generator
) -> Check:
    tally = Tally(
        "sum-subsets",
        "The sums equal the numbers of pixels of random subsets, one pixel, no pixel, and the whole "
        "image of each channel.",
    )
    channels = oracle.channels
    for subset in _subsets(channels, side, generator):
        # No pixel fires the redundant channels, which follow the summed ones.
        inputs = torch.stack(
            [subset == channel for channel in range(channels + oracle.redundant_channels)]
        )
        fired = subset.flatten().tolist()
        counts = [fired.count(channel) for channel in range(channels)]
        got = run(accumulator, inputs[None].float()).flatten(1)
        name = f"{counts} pixels of the channels"
        tally.compare(got, torch.tensor([counts]).double(), lambda _, said=name: said)  # type: ignore[misc]
    return tally.check()


def _subsets(
    channels: int, side: int, generator: torch.Generator
) -> Iterator[Int[Tensor, "height width"]]:
    """For each pixel the channel that it fires, -1 for none."""
    nothing = torch.full((side, side), -1)
    yield nothing
    for channel in range(channels):
        yield torch.full((side, side), channel)
    corners = [(0, 0), (0, side - 1), (side - 1, 0), (side - 1, side - 1)]
    inside = torch.randint(0, side, (4, 2), generator=generator).tolist()
    for index, (y, x) in enumerate([*corners, *inside]):
        single = nothing.clone()
        single[y, x] = index % channels
        yield single
    for _ in range(RANDOM_SUBSETS):
        density = torch.rand((), generator=generator)
        chosen = torch.rand(side, side, generator=generator) < density
        which = torch.randint(0, channels, (side, side), generator=generator)
        yield torch.where(chosen, which, nothing)


def _redundant_check(env: Environment, accumulator: nn.Module, channels: int) -> Check:
    """Their values are free; that the channels are silent on known colors is the detector's part."""
    stated = env.spec.constants["redundant_strength"]
    strength = env.network.effective["redundant_strength"]
    tally = Tally(
        "redundant-weights",
        f"The strength in force, {strength:g}, is the multiple of 1/4 nearest to the stated "
        f"{stated:g}; redundant weights are multiples of 1/4 and no larger.",
    )
    nearest = strength % REDUNDANT_GRID == 0 and abs(strength - stated) <= REDUNDANT_GRID / 2
    tally.record(torch.tensor([nearest]), lambda _: f"strength {strength:g} for {stated:g}")
    weights = accumulator.get_parameter("0.weight")[:, channels:].detach().flatten().cpu()
    allowed = (weights % REDUNDANT_GRID == 0) & (weights.abs() <= strength)
    tally.record(allowed, lambda i: f"weight {i} of the redundant channels: {float(weights[i]):g}")
    return tally.check()
