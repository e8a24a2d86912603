"""Whole networks: the logits of images against counting their pixels, and those of a rewritten
network (camouflaged, or in another implementation) against the network before.
"""

from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attributionlab.worlds.environment.environment import Environment
from attributionlab.worlds.verification.certificate import Check, Tally, compared
from attributionlab.worlds.verification.execution import equals_rule_on, hand_made, run
from attributionlab.worlds.verification.oracle import Oracle
from attributionlab.worlds.verification.pixels import color_sample

PIXELS, PIXELS_OF_COLOR = 2**21, 2**19
"""In images of chosen counts; a color detector takes a hundred times as long as a sum."""


def camouflage_checks(
    env: Environment,
    oracle: Oracle,
    images: Float[Tensor, "n channels height width"],
    generator: torch.Generator,
) -> list[Check]:
    """Hold a rewritten network against the network before; nothing for any other."""
    if env.network.plain is None:
        return []
    graded = env.network.equal_on == "palette"
    others = (
        "" if graded else ", on images anywhere in the valid box, on colors next to the known ones"
    )
    tally = Tally(
        "camouflage",
        "The logits of the network as rewritten (a camouflage, another implementation) equal those of "
        f"the network before, on samples{others}, and on many counts.",
    )
    groups = {"image": images[equals_rule_on(env, images)]}
    if not graded:
        groups["image of pixel values"] = _images_of_values(env, oracle, generator)
    groups["image of a chosen count"] = torch.stack([*_images_of_counts(env, oracle, generator)])
    for group, shown in groups.items():
        expected = run(hand_made(env), shown)
        tally.compare(run(env.model, shown), expected, group)
    return [tally.check()]


def _images_of_values(
    env: Environment, oracle: Oracle, generator: torch.Generator
) -> Float[Tensor, "images channels height width"]:
    """Every value of a channel, or every color that a detector might take for another."""
    if len(oracle.background) > 1:
        values = color_sample(oracle.values, generator)
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


RANDOM_IMAGES = 4


def output_checks(
    env: Environment,
    oracle: Oracle,
    samples: Float[Tensor, "n channels height width"],
    labels: Int[Tensor, " n"],
    generator: torch.Generator,
) -> list[Check]:
    """Check the logits of samples and of random images, and the labels of the samples."""
    groups = {"sample": samples, "random image": _known_images(env, oracle, generator)}
    values = "known values"
    if not oracle.disturbed and oracle.modulus is None and env.network.equal_on == "integers":
        # Counting holds for any image: other values have no effect.
        groups["image of any values"] = anywhere_in_the_box(env, samples, generator)
        values = "any values"
    logits = Tally(
        "logits",
        f"The logits of samples and of random images of {values} equal counting their pixels"
        + (f", modulo {oracle.modulus}." if oracle.modulus is not None else "."),
    )
    for group, images in groups.items():
        expected = oracle.outputs(oracle.counts(images))
        got = run(env.model, images)
        logits.compare(got, expected, group)
    labels_check = compared(
        "labels",
        "The labels of samples are the winning class (the first of equals), or the one output.",
        labels[:, None].double(),
        torch.tensor(oracle.labels(oracle.counts(samples)))[:, None].double(),
        "label of sample",
    )
    return [logits.check(), labels_check]


def anywhere_in_the_box(
    env: Environment, samples: Float[Tensor, "n channels height width"], generator: torch.Generator
) -> Float[Tensor, "images channels height width"]:
    """Images that nothing was made for: random values, a quarter set to 0, all 0, all the largest."""
    image = samples[0]
    largest = torch.full_like(image, env.max_value)
    random = torch.randint(0, env.max_value + 1, image.shape, generator=generator).float()
    quarter = image.clone()
    half = env.recipe.image_size // 2
    quarter[:, :half, :half] = 0
    return torch.stack([random, quarter, torch.zeros_like(image), largest])


def _known_images(
    env: Environment, oracle: Oracle, generator: torch.Generator
) -> Float[Tensor, "images channels height width"]:
    """Background with known values at random pixels: none, as many as may count, and between."""
    side = env.recipe.image_size
    known = torch.tensor(oracle.known).float()
    most = min(env.network.max_count, side**2)
    between = torch.randint(0, most + 1, (RANDOM_IMAGES - 2,), generator=generator).tolist()
    images = []
    for shown in [0, most, *between]:
        image = torch.tensor(oracle.background).float().repeat(side**2, 1)
        where = torch.randperm(side**2, generator=generator)[:shown]
        # One pixel value is more frequent than the others, or all counts would be alike.
        which = torch.randint(0, len(known), (shown,), generator=generator)
        favorite = torch.randint(0, len(known), (), generator=generator)
        which[: shown // 2] = favorite
        image[where] = known[which]
        images.append(image.T.reshape(-1, side, side))
    return torch.stack(images)
