"""Whole networks: the logits of images against counting their pixels."""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attributionlab.environment import Environment
from attributionlab.verification.certificate import Check, Tally
from attributionlab.verification.execution import run
from attributionlab.verification.oracle import Oracle

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
    if not oracle.disturbed and oracle.modulus is None:
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
        logits.compare(got, expected, _namer(group))
    return [logits.check(), _labels_check(oracle, samples, labels)]


def anywhere_in_the_box(
    env: Environment,
    samples: Float[Tensor, "n channels height width"],
    generator: torch.Generator,
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


def _labels_check(
    oracle: Oracle, samples: Float[Tensor, "n channels height width"], labels: Int[Tensor, " n"]
) -> Check:
    tally = Tally(
        "labels",
        "The labels of samples are the winning class (the first of equals), or the one output.",
    )
    expected = torch.tensor(oracle.labels(oracle.counts(samples)))
    tally.compare(labels[:, None].double(), expected[:, None].double(), _namer("label of sample"))
    return tally.check()


def _namer(what: str) -> Callable[[int], str]:
    return lambda i: f"{what} {i}"
