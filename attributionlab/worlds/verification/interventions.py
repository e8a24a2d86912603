"""Propositions 3.1 and 3.2, and the masks, by changing one pixel at a time (AttributionLab, section 3).

Every change is a forward pass of its own. What it should do to the logits follows from the counts of
the unchanged image, and what the masks should say follows from what it did.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attributionlab.worlds.environment.environment import Environment
from attributionlab.worlds.verification.certificate import Check, Tally
from attributionlab.worlds.verification.execution import run
from attributionlab.worlds.verification.oracle import BACKGROUND, IRRELEVANT, Oracle, Pixel

Kind = Literal["removal", "insertion", "irrelevant"]

CLAIMS: dict[Kind, str] = {
    "removal": "Setting any counted pixel to the background lowers the count of its class by exactly 1 "
    "and changes nothing else (Propositions 3.1 and 3.2).",
    "insertion": "Setting any background pixel to a counted value raises the count of its class by "
    "exactly 1 and changes nothing else (Propositions 3.1 and 3.2).",
    "irrelevant": "Replacing irrelevant pixels by the background, or the background by irrelevant "
    "pixels, changes nothing.",
}


@dataclass(frozen=True)
class Move:
    """One pixel takes another value: where, which, and by how much the counts should change."""

    kind: Kind
    position: int
    pixel: Pixel
    change: tuple[int, ...]


def intervention_checks(
    env: Environment,
    oracle: Oracle,
    samples: Float[Tensor, "n channels height width"],
    moves_per_kind: int,
    generator: torch.Generator,
) -> list[Check]:
    """Check the logits after single changes, and the masks against what the changes did.

    - `moves_per_kind`: how many pixels of each sample to change in each way; all where there are fewer.
    """
    tallies = {kind: Tally(kind, claim) for kind, claim in CLAIMS.items()}
    masks = Tally(
        "masks",
        "At every pixel tried, the masks of each target and output have the "
        + ("support" if oracle.modulus is not None else "sign")
        + " of the pixel's effect on that output, compared with the background.",
    )
    for index, sample in enumerate(samples):
        [counts] = oracle.counts(sample[None])
        kinds = oracle.kinds(sample)
        moves = _moves(env, oracle, kinds, max(counts), moves_per_kind, generator)
        before = run(env.model, sample[None])[0]
        changed_images = sample.flatten(1).repeat(len(moves), 1, 1)  # (moves, C, H * W)
        for row, move in zip(changed_images, moves, strict=True):
            row[:, move.position] = torch.tensor(move.pixel).float()
        after = run(env.model, changed_images.reshape(-1, *sample.shape))
        for kind, tally in tallies.items():
            chosen = [i for i, move in enumerate(moves) if move.kind == kind]
            changed = [
                [n + d for n, d in zip(counts, moves[i].change, strict=True)] for i in chosen
            ]
            if chosen:
                names = [f"sample {index}, pixel {moves[i].position}" for i in chosen]
                tally.compare(after[chosen], oracle.outputs(changed), names.__getitem__)
        _hold_masks(masks, env, oracle, sample, _effects(kinds, moves, before, after))
    return [tally.check() for tally in (*tallies.values(), masks) if tally.tested]


def _moves(
    env: Environment,
    oracle: Oracle,
    kinds: Int[Tensor, " pixels"],
    count: int,
    moves_per_kind: int,
    generator: torch.Generator,
) -> list[Move]:
    def sample(where: Tensor) -> list[int]:
        found = where.nonzero()[:, 0]
        order = torch.randperm(len(found), generator=generator)[:moves_per_kind]
        chosen: list[int] = found[order].tolist()
        return chosen

    classes = range(len(oracle.counted))
    unit = [tuple(int(index == other) for other in classes) for index in classes]
    nothing = (0,) * len(classes)
    moves = []
    for position in sample(kinds >= 0):
        loss = tuple(-one for one in unit[int(kinds[position])])
        moves.append(Move("removal", position, oracle.background, loss))
    if count < env.network.max_count:
        for i, position in enumerate(sample(kinds == BACKGROUND)):
            index = i % len(classes)
            moves.append(Move("insertion", position, oracle.counted[index], unit[index]))
    if oracle.irrelevant:
        for position in sample(kinds == IRRELEVANT):
            moves.append(Move("irrelevant", position, oracle.background, nothing))
        for i, position in enumerate(sample(kinds == BACKGROUND)):
            pixel = oracle.irrelevant[i % len(oracle.irrelevant)]
            moves.append(Move("irrelevant", position, pixel, nothing))
    return moves


def _effects(
    kinds: Int[Tensor, " pixels"],
    moves: list[Move],
    before: Float[Tensor, " outputs"],
    after: Float[Tensor, "moves outputs"],
) -> dict[int, Float[Tensor, " outputs"]]:
    """For each pixel tried, what its value does to the logits in place of the background."""
    effects = {}
    for move, logits in zip(moves, after, strict=True):
        if kinds[move.position] == BACKGROUND:
            effects[move.position] = torch.zeros_like(before)
        else:
            effects[move.position] = before - logits
    return effects


def _hold_masks(
    tally: Tally,
    env: Environment,
    oracle: Oracle,
    sample: Float[Tensor, "channels height width"],
    effects: dict[int, Float[Tensor, " outputs"]],
) -> None:
    positions = list(effects)
    for output in env.outputs:
        for target in range(env.network.classes):
            signed = env.truth(sample[None], torch.tensor([target]), output).signed
            stated = signed.flatten()[positions].int().tolist()
            done = [_sign(effect, target, output) for effect in effects.values()]
            if oracle.modulus is not None:  # wraps around, so that only the support has a meaning
                stated, done = [abs(sign) for sign in stated], [abs(sign) for sign in done]
            rows = list(zip(positions, stated, done, strict=True))
            names = [
                f"target {target}, {output}, pixel {position}: got {said}, expected {did}"
                for position, said, did in rows
            ]
            agrees = torch.tensor([said == did for _, said, did in rows])
            tally.record(agrees, names.__getitem__)


MIXED = 2
"""No sign: what a pixel does to a probability cannot be told from the logits alone."""


def _sign(effect: Float[Tensor, " outputs"], target: int, output: str) -> int:
    """Sign of a change of the explained output, from the changes of the logits.

    The target's probability is 1 / (1 + sum of exp((other logit - its logit) / T)). It rises if no gap
    to another logit widens and one narrows; deciding so needs no rounded exponentials.
    """
    if output == "logit":
        return int(effect[target].sign())
    narrowed = {int(sign) for sign in (effect[target] - effect).sign().tolist()} - {0}
    if len(narrowed) > 1:
        return MIXED
    return narrowed.pop() if narrowed else 0
