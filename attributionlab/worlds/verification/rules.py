"""Rule worlds: counts against counting by numpy, heads and whole networks against the rule in integers.

Nothing here knows a weight, nor an order of counts. The twin of the truth is tests/oracles_games.py.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from attributionlab.worlds.environment.environment import Environment
from attributionlab.worlds.images.regions import MOTIFS, TILE
from attributionlab.worlds.rules.expressions import Count, Expression, counts_in, evaluate
from attributionlab.worlds.rules.places import Places
from attributionlab.worlds.verification.certificate import Check, Tally, compared
from attributionlab.worlds.verification.execution import equals_rule_on, hand_made, run

NOISE, MOSAICS = 8, 4
"""Images of palette noise, and mosaics of tiles for each motif."""
SWEEPS = 3
"""How often each count goes through all its values, beside other values of all other counts."""

Color = Sequence[int]


def rule_checks(
    env: Environment, expressions: Sequence[Expression], places: Places, generator: torch.Generator
) -> list[Check]:
    """Hold an environment against its rule.

    Result: "rule-counts", "rule-head", "rule-logits".
    """
    mentioned = list(dict.fromkeys(each for rule in expressions for each in counts_in(rule)))
    shown = _images(mentioned, places, env.recipe.background, generator)
    images = torch.stack(list(shown))
    # What the network may add up besides what the rule mentions.
    known = list(dict.fromkeys([*mentioned, *(Count((name,)) for name in places.colors)]))
    rows = [places.count(image.numpy().astype(np.int64), known) for image in images]
    counted = {count: np.array([row[count] for row in rows]) for count in known}
    counts_check, channels = _counts_check(env, images, counted)
    exact = equals_rule_on(env, images)
    kinds = "extreme, single-color and random images, palette noise and mosaics"
    logits_check = compared(
        "rule-logits",
        f"The logits of {kinds if exact.all() else 'single-color images, palette noise and mosaics'} "
        "equal the rule's values, computed in integers from counts by numpy.",
        run(env.model, images[exact]),
        _expected(expressions, counted)[exact],
        "image",
    )
    head_check = _head_check(env, expressions, places, channels, mentioned, generator)
    return [counts_check, head_check, logits_check]


def irrelevance_checks(
    env: Environment,
    samples: Float[Tensor, "n channels height width"],
    pixels: int,
    generator: torch.Generator,
) -> list[Check]:
    """Take away pixels that the truth calls irrelevant, whatever else is there.

    - `pixels`: how many pixels of each sample and target, each in a coalition of its own.
    """
    tally = Tally(
        "irrelevance",
        "Removing a pixel that is irrelevant by the truth never changes the target's logit or, where "
        "probabilities are explained, any difference to it, whatever the other pixels are.",
    )
    side = env.recipe.image_size
    for index, sample in enumerate(samples):
        for output in env.outputs:
            for target in range(env.network.classes):
                truth = env.truth(sample[None], torch.tensor([target]), output)
                known = (sample != env.baseline).any(0, keepdim=True)[None]
                free = (truth.asked & ~truth.relevant & known).flatten().nonzero()[:, 0]
                chosen = free[torch.randperm(len(free), generator=generator)[:pixels]]
                if not len(chosen):
                    continue
                share = torch.rand(len(chosen), 1, generator=generator)
                present = torch.rand(len(chosen), side * side, generator=generator) < share
                shown = []
                for there in (True, False):
                    present[torch.arange(len(chosen)), chosen] = there
                    mask = present.reshape(-1, 1, side, side)
                    shown.append(run(env.model, torch.where(mask, sample, env.baseline)).double())
                values = [
                    each[:, target, None] - (each if output == "probability" else 0)
                    for each in shown
                ]
                name = f"sample {index}, target {target}, {output}, pixel "
                names = [f"{name}{int(pixel)}" for pixel in chosen]
                tally.compare(values[0], values[1], names.__getitem__)
    return [tally.check()] if tally.tested else []


def _images(
    mentioned: Sequence[Count], places: Places, background: Color, generator: torch.Generator
) -> Iterator[Float[Tensor, "channels height width"]]:
    """Extreme images, single colors, random values, palette noise, mosaics, colors near known ones."""
    side = places.side
    background_shades = places.shading.of(background)
    shades = [shade for each in places.shades.values() for shade in each]
    palette = torch.tensor([*shades, *background_shades]).float()
    for color in [*torch.tensor([[0.0] * 3, [255.0] * 3]), *palette]:
        yield color[:, None, None].repeat(1, side, side)
    yield torch.randint(0, 256, (3, side, side), generator=generator).float()

    # Each pixel shows each color of the palette once.
    first = torch.randint(len(palette), (side, side), generator=generator)
    for turn in range(len(palette)):
        yield palette[(first + turn) % len(palette)].permute(2, 0, 1)
    for _ in range(NOISE):  # some colors are more frequent than others, some are not there
        share = torch.rand(len(palette), generator=generator) ** 4 + 1e-6
        drawn = torch.multinomial(share, side**2, replacement=True, generator=generator)
        yield palette[drawn].T.reshape(3, side, side)
    near = palette[first] + torch.randint(-1, 2, (side, side, 3), generator=generator)
    yield near.clamp(0, 255).permute(2, 0, 1)
    names = list(places.colors)
    for count in (count for count in mentioned if count.motif):
        colors = [places.shading.shades * names.index(name) for name in count.colors]
        for mosaic in _mosaics(count.motif, colors, len(palette), side, generator):
            yield palette[mosaic].permute(2, 0, 1)


def _mosaics(
    motif: str, colors: Sequence[int], palette: int, side: int, generator: torch.Generator
) -> Iterator[Int[Tensor, "height width"]]:
    """Colors of images that a motif fills, and of mosaics of it and all that differs in one pixel."""
    background = palette - 1
    pattern = torch.tensor(
        [background if place is None else colors[place] for row in MOTIFS[motif] for place in row]
    )
    changed = pattern.repeat(len(pattern) * palette, 1)
    place = torch.arange(len(changed))
    changed[place, place // palette] = place % palette
    tiles = torch.cat([pattern[None], changed]).reshape(-1, TILE, TILE)
    rows = -(-side // TILE)
    kinds = torch.arange(MOSAICS * rows**2) % len(tiles)
    kinds = kinds[torch.randperm(len(kinds), generator=generator)].reshape(MOSAICS, rows, rows)
    for chosen in [torch.zeros(rows, rows, dtype=torch.long), *kinds]:
        # Row of tiles, row in it, column of tiles, column in it.
        mosaic = tiles[chosen].transpose(1, 2)
        yield mosaic.reshape(rows * TILE, rows * TILE)[:side, :side]


def _counts_check(
    env: Environment,
    images: Float[Tensor, "n channels height width"],
    counted: dict[Count, np.ndarray],
) -> tuple[Check, list[Count | None]]:
    """Each sum of the network is one of the counts on all images; and which one."""
    tally = Tally(
        "rule-counts",
        "Each sum after the detector is one of the rule's counts, or counts a color of the palette: "
        "on extreme, single-color and random images, palette noise and mosaics.",
    )
    parts = [hand_made(env).get_submodule(name) for name in ("detector", "accumulator")]
    sums = run(torch.nn.Sequential(*parts), images).flatten(1)  # (n, sums)
    channels: list[Count | None] = []
    for index, got in enumerate(sums.T):
        expected = {count: torch.from_numpy(values).double() for count, values in counted.items()}
        # The one that agrees most often, of equals one that no other sum is.
        count = max(
            expected, key=lambda each: (int((expected[each] == got).sum()), each not in channels)
        )
        tally.compare(got[:, None], expected[count][:, None], f"sum {index}, {count}, image")
        channels.append(count if torch.equal(got, expected[count]) else None)
    return tally.check(), channels


def _head_check(
    env: Environment,
    expressions: Sequence[Expression],
    places: Places,
    channels: Sequence[Count | None],
    mentioned: Sequence[Count],
    generator: torch.Generator,
) -> Check:
    """Every value of each count, beside others of all other counts."""
    tally = Tally(
        "rule-head",
        "The head computes the rule for every value of each count, with zeros and random values of all "
        "other counts.",
    )
    head = hand_made(env).get_submodule("head")
    everything = list(dict.fromkeys([*mentioned, *(each for each in channels if each is not None)]))
    most = torch.tensor([places.most(count) for count in everything])
    for index in range(len(everything)):
        for sweep in range(SWEEPS):
            # Nothing else, little else, anything else.
            limit = [0 * most, most.clamp(max=9), most][sweep]
            drawn = torch.rand(len(everything), generator=generator).double()
            counts = (drawn * (limit + 1)).long().repeat(int(most[index]) + 1, 1)
            counts[:, index] = torch.arange(len(counts))
            values = dict(zip(everything, counts.T.numpy(), strict=True))
            shown = torch.stack(
                [
                    torch.from_numpy(values[each]) if each in values else 0 * counts[:, 0]
                    for each in channels
                ],
                dim=1,
            )
            names = [f"{each} = {{}}" for each in everything]
            tally.compare(
                run(head, shown.float()), _expected(expressions, values), _row_namer(names, counts)
            )
    return tally.check()


def _expected(
    expressions: Sequence[Expression], counts: dict[Count, np.ndarray]
) -> Float[Tensor, "rows outputs"]:
    """The rule's values for counts that are arrays of one length."""
    length = len(next(iter(counts.values())))
    values = [np.broadcast_to(evaluate(each, counts), length) for each in expressions]
    return torch.from_numpy(np.stack(values, axis=1)).double()


def _row_namer(names: Sequence[str], counts: Tensor) -> Callable[[int], str]:
    """Which counts a row has."""
    return lambda i: (
        "counts "
        + ", ".join(
            name.format(value) for name, value in zip(names, counts[i].tolist(), strict=True)
        )
    )
