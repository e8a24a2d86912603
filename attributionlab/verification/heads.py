"""Heads: the remainder or the counts themselves, for every count; and the softmax's temperature."""

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attributionlab.environment import Environment
from attributionlab.verification.certificate import Check, Tally
from attributionlab.verification.execution import hand_made, run
from attributionlab.verification.oracle import Oracle


def head_checks(env: Environment, oracle: Oracle, generator: torch.Generator) -> list[Check]:
    """Check the head of an environment, and its temperature if it has one."""
    checks = [_head_check(env, oracle, generator)]
    if env.softmax_model is not None and env.temperature is not None:
        checks.append(_temperature_check(env, env.softmax_model, env.temperature, generator))
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
            "The head hands on every count from 0 to all pixels in each class, whatever the other "
            "classes count, and drops the distractors' counts.",
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


def _temperature_check(
    env: Environment, softmax_model: nn.Module, temperature: float, generator: torch.Generator
) -> Check:
    """The temperature is a power of two, so float32 divides exactly."""
    tally = Tally(
        "temperature",
        f"What enters the softmax is each logit divided by the temperature, {temperature:g}.",
    )
    logits = torch.randint(
        0, env.recipe.image_size**2 + 1, (64, env.network.classes), generator=generator
    ).float()
    expected = logits.double() / temperature
    got = run(softmax_model.get_submodule("temperature"), logits)
    tally.compare(got, expected, _row_namer("logits", logits))
    return tally.check()


def _row_namer(what: str, rows: Float[Tensor, "rows columns"]) -> Callable[[int], str]:
    return lambda i: f"{what} {rows[i].int().tolist()}"
