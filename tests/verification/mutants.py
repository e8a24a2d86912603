"""Networks with one wrong weight, and arguments that some of these are no wrong networks at all.

Every argument is computed on the mutated network; none takes a construction's word.
"""

import math
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product

import torch
from torch import nn

from attributionlab.worlds import Environment
from attributionlab.worlds.verification.oracle import Oracle
from attributionlab.worlds.verification.sums import head_domain


@dataclass(frozen=True)
class Mutant:
    """One entry of one weight or bias, one grid step up or down."""

    parameter: str
    index: tuple[int, ...]
    step: float

    @property
    def part(self) -> str:
        return self.parameter.split(".")[0]


def parameters(env: Environment) -> dict[str, nn.Parameter]:
    """All weights and biases, the temperature's too."""
    found = dict(env.model.named_parameters())
    if env.softmax_model is not None:
        found["temperature.weight"] = env.softmax_model.get_parameter("temperature.weight")
    return found


def grid_of(weights: torch.Tensor) -> float:
    """The largest power of two that divides all weights, by integers."""
    scale = 2**24
    divisor = math.gcd(*(int(weight * scale) for weight in weights.flatten().tolist() if weight))
    return (divisor & -divisor) / scale if divisor else 1.0


def draw_mutant(env: Environment, rng: random.Random, within: str = "") -> Mutant:
    """A random layer, its weights rather than its biases, and half of the time one that is not 0."""
    known = parameters(env)
    name = rng.choice([n for n in known if n.startswith(within) and n.endswith("weight")])
    bias = name.replace("weight", "bias")
    if bias in known and rng.random() < 0.25:
        name = bias
    entries = known[name].detach()
    present = entries.nonzero().tolist()
    if present and rng.random() < 0.5:
        index = rng.choice(present)
    else:
        index = [rng.randrange(size) for size in entries.shape]
    grid = grid_of(known[name.replace("bias", "weight")].detach())
    return Mutant(name, tuple(index), rng.choice([-grid, grid]))


@contextmanager
def mutated(env: Environment, mutant: Mutant) -> Iterator[None]:
    """The environment with this mutant in it."""
    parameter = parameters(env)[mutant.parameter]
    before = parameter.detach().clone()
    with torch.no_grad():
        parameter[mutant.index] += mutant.step
    try:
        yield
    finally:
        with torch.no_grad():
            parameter.copy_(before)


def equivalence(env: Environment, mutant: Mutant) -> str | None:
    """Why the mutant is no wrong network, or None if nothing shows that it is not."""
    if mutant.part == "head":
        return same_head(env, mutant)
    if mutant.part == "detector":
        return same_colors(env, mutant) or same_checkers(env, mutant)
    if mutant.part == "accumulator" and mutant.parameter.endswith("weight"):
        return redundant(env, mutant) or only_zeros(env, mutant)
    return None


def respond(module: nn.Module, pixels: list[tuple[int, ...]]) -> torch.Tensor:
    """Outputs for each pixel: (pixels, outputs)."""
    with torch.no_grad():
        return module(torch.tensor(pixels).float()[:, :, None, None]).flatten(1)


def same_head(env: Environment, mutant: Mutant) -> str | None:
    """A head that reads one count: all counts are its whole domain."""
    oracle = Oracle.of(env)
    head = env.model.get_submodule("head")
    if oracle.channels != 1:
        return None
    with torch.no_grad():
        [domain] = head_domain(env, oracle, torch.Generator())
        right = head(domain)
        with mutated(env, mutant):
            same = torch.equal(head(domain), right)
    return f"(i) the head's outputs are the same at all {len(domain):,} counts" if same else None


def same_colors(env: Environment, mutant: Mutant) -> str | None:
    """Colors that no number checker tells apart are one color to a detector.

    Where each number checker reads one channel only, 256 values show which values of a channel it
    tells apart, and one value of each kind in each channel stands for all 2^24 colors.
    """
    layers = list(env.model.get_submodule("detector").children())
    detector, checkers = nn.Sequential(*layers), nn.Sequential(*layers[:6])
    channels = layers[0].in_channels
    kinds: list[dict[tuple[float, ...], int]] = []  # per channel: answers -> a value that has them
    reads = channels_read(layers[:6])
    with mutated(env, mutant):
        reads += channels_read(layers[:6])
    if any(len(channels) > 1 for channels in reads):
        return None
    for channel in range(channels):
        values = [tuple(v if c == channel else 0 for c in range(channels)) for v in range(256)]
        answers = respond(checkers, values)
        with mutated(env, mutant):
            answers = torch.cat([answers, respond(checkers, values)], dim=1)
        kinds.append({tuple(answer): value for value, answer in enumerate(answers.tolist())})
    colors = list(product(*(kind.values() for kind in kinds)))
    right = respond(detector, colors)
    with mutated(env, mutant):
        same = torch.equal(respond(detector, colors), right)
    if not same:
        return None
    return (
        f"(i) the detector's outputs are the same on {len(colors)} pixels that stand for all "
        f"256^{channels}"
    )


def same_checkers(env: Environment, mutant: Mutant) -> str | None:
    """The number checkers on their whole domain, where one reads two channels."""
    layers = list(env.model.get_submodule("detector").children())[:6]
    checkers, channels = nn.Sequential(*layers), range(layers[0].in_channels)
    reads = channels_read(layers)
    with mutated(env, mutant):
        reads = [a | b for a, b in zip(reads, channels_read(layers), strict=True)]
    if max(map(len, reads)) > 2 or mutant.parameter.split(".")[1] not in ("0", "2", "4"):
        return None
    for domain in set(map(frozenset, reads)):
        # A channel that these checkers do not read may as well be 0.
        pixels = list(product(*(range(256) if c in domain else (0,) for c in channels)))
        units = [unit for unit, read in enumerate(reads) if read == domain]
        right = respond(checkers, pixels)[:, units]
        with mutated(env, mutant):
            if not torch.equal(respond(checkers, pixels)[:, units], right):
                return None
    return "(i) each number checker answers the same at all values of the channels it reads"


def channels_read(layers: list[nn.Module]) -> list[set[int]]:
    """The input channels from which a path of weights other than 0 leads to each output."""
    reads = [{channel} for channel in range(layers[0].in_channels)]
    for layer in layers:
        if isinstance(layer, nn.Conv2d):
            weights = layer.weight.flatten(1)
            reads = [
                set().union(*(reads[i] for i in row.nonzero()[:, 0].tolist())) for row in weights
            ]
    return reads


def redundant(env: Environment, mutant: Mutant) -> str | None:
    """Any weight on the grid within the strength is a legitimate Unseen Data Effect."""
    oracle = Oracle.of(env)
    if mutant.parameter != "accumulator.0.weight" or mutant.index[1] < oracle.channels:
        return None
    strength = env.network.effective["redundant_strength"]
    with mutated(env, mutant):
        weight = float(parameters(env)[mutant.parameter].detach()[mutant.index])
        outputs = respond(env.model.get_submodule("detector"), list(oracle.known))
    silent = not outputs[:, oracle.channels :].any()
    if not silent or abs(weight) > strength or weight % 0.25:
        return None
    return "(iii) a redundant weight on its grid and within the strength, silent on known colors"


def only_zeros(env: Environment, mutant: Mutant) -> str | None:
    """Follow which places of each map any pixel can reach by weights other than 0."""
    name = mutant.parameter.removesuffix(".weight")
    side = env.recipe.image_size
    first = env.model.get_submodule("accumulator.0")
    inside = torch.ones(1, 1, side, side)  # 1 where a map is, 0 in the padding
    reached = torch.ones(1, first.in_channels, side, side)
    for number, layer in env.model.get_submodule("accumulator").named_children():
        if not isinstance(layer, nn.Conv2d):
            continue
        if name == f"accumulator.{number}":
            _, channel, y, x = mutant.index
            kernel = (layer.kernel_size, 1, layer.padding, layer.stride)
            seen = nn.functional.unfold(reached, *kernel)  # (1, in * k * k, positions)
            row = (channel * layer.kernel_size[0] + y) * layer.kernel_size[1] + x
            geometry = nn.functional.unfold(inside, *kernel)
            if not geometry[0, y * layer.kernel_size[1] + x].any():
                return "(ii) the kernel position sees padding only"
            return None if seen[0, row].any() else "(iv) the weight reads a unit that is always 0"
        leads = (layer.weight.detach() != 0).float()
        reached = (
            nn.functional.conv2d(reached, leads, None, layer.stride, layer.padding) > 0
        ) * 1.0
        covers = torch.ones(1, 1, *layer.kernel_size)
        inside = (nn.functional.conv2d(inside, covers, None, layer.stride, layer.padding) > 0) * 1.0
    return None
