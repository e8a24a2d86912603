"""Camouflaged networks: the same answers as the network before, seen colors or not."""

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from attributionlab.environment import Environment
from attributionlab.verification.certificate import Check, Tally
from attributionlab.verification.execution import hand_made, run
from attributionlab.verification.oracle import Oracle
from attributionlab.verification.pixels import color_sample

PIXELS, PIXELS_OF_COLOR = 2**21, 2**19
"""In images of chosen counts; a color detector takes a hundred times as long as a sum."""


def camouflage_checks(
    env: Environment,
    oracle: Oracle,
    images: Float[Tensor, "n channels height width"],
    generator: torch.Generator,
) -> list[Check]:
    """Hold a camouflaged network against the network before; nothing for any other.

    Parameters
    ----------
    env : Environment
        Whose network may be camouflaged.
    oracle : Oracle
        Which pixels count.
    images : Tensor
        Samples and images anywhere in the valid box.
    generator : torch.Generator
        Which other images.
    """
    if env.network.plain is None:
        return []
    tally = Tally(
        "camouflage",
        "The camouflaged network's logits equal those of the network before, on samples, on images "
        "anywhere in the valid box, on colors next to the known ones, and on many counts.",
    )
    groups = {
        "image": images,
        "image of pixel values": _images_of_values(env, oracle, generator),
        "image of a chosen count": torch.stack(list(_images_of_counts(env, oracle, generator))),
    }
    for group, shown in groups.items():
        expected = run(hand_made(env), shown)
        tally.compare(run(env.model, shown), expected, _namer(group))
    return [tally.check()]


def _namer(what: str) -> Callable[[int], str]:
    return lambda i: f"{what} {i}"


def _images_of_values(
    env: Environment, oracle: Oracle, generator: torch.Generator
) -> Float[Tensor, "images channels height width"]:
    """Every value of a channel, or every color that a detector might take for another."""
    if len(oracle.background) > 1:
        values = color_sample(oracle.known, generator)
    else:
        values = torch.arange(env.max_value + 1.0)[:, None]
    values = values[torch.randperm(len(values), generator=generator)]
    side = env.recipe.image_size
    images = -(-len(values) // side**2)
    # The first values again, up to whole images.
    rows = values[torch.arange(images * side**2) % len(values)]
    return rows.reshape(images, side, side, -1).permute(0, 3, 1, 2)


def _images_of_counts(
    env: Environment, oracle: Oracle, generator: torch.Generator
) -> Iterator[Float[Tensor, "channels height width"]]:
    """Background with so many counted pixels: every number of them, or so many evenly spaced ones."""
    side = env.recipe.image_size
    most = (PIXELS if len(oracle.background) == 1 else PIXELS_OF_COLOR) // side**2
    counts = torch.linspace(0, side**2, min(side**2 + 1, max(2, most))).round().int().tolist()
    counted = torch.tensor(oracle.counted).float()
    for count in counts:
        image = torch.tensor(oracle.background).float().repeat(side**2, 1)
        where = torch.randperm(side**2, generator=generator)[:count]
        image[where] = counted[torch.randint(len(counted), (count,), generator=generator)]
        yield image.T.reshape(-1, side, side)
