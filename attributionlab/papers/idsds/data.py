"""Images, labels and what is known of them, for the networks of `papers.subjects.networks`."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from jaxtyping import Float, Float32, Int64
from torch import Tensor

from attributionlab.environment import Environment
from attributionlab.environment.catalog import load
from attributionlab.errors import AttributionLabError, nearest, refuse_if
from attributionlab.papers.subjects.drawn_pictures import CLASSES, pictures
from attributionlab.validation import integer_problem

ENVIRONMENT = "multi-color-sum-in-distribution"
SIDE = 32


class Task(NamedTuple):
    """What a network learns, and what it is asked afterwards.

    Parameters
    ----------
    name : str
        For tables.
    training_images, images : Tensor, (B, C, H, W)
        In [0, 1].
    training_labels, labels : Tensor, (B,)
        Classes from 0 on.
    classes : int
        How many.
    baseline : Tensor, (C, 1, 1)
        The pixel that stands for nothing.
    truth : Tensor, (B, 1, H, W), or None
        What the data say about each pixel of `images`: 1 speaks for the label, -1 against it, 0 says
        nothing. What a trained network uses is not known.
    """

    name: str
    training_images: Float32[Tensor, "training channels side side"]
    training_labels: Int64[Tensor, " training"]
    images: Float32[Tensor, "batch channels side side"]
    labels: Int64[Tensor, " batch"]
    classes: int
    baseline: Float[Tensor, "channels 1 1"]
    truth: Float[Tensor, "batch 1 side side"] | None


def colors_task(training: int, n: int, seed: int, side: int = SIDE) -> Task:
    """Which of four colors has the most pixels: images of the environment multi-color-sum.

    Parameters
    ----------
    training, n : int
        Images to train on, and to ask about.
    seed : int
        Of the images to train on; the others are of the next seed.
    side : int
        In pixels.

    Returns
    -------
    Task
        Its truth is 1 on the winning color and -1 on the others.

    Examples
    --------
    >>> from attributionlab.papers.idsds.data import colors_task
    >>> task = colors_task(training=3, n=2, seed=0)
    >>> task.training_images.shape, task.images.shape, sorted(set(task.truth.flatten().tolist()))
    (torch.Size([3, 3, 32, 32]), torch.Size([2, 3, 32, 32]), [-1.0, 0.0, 1.0])
    """
    refuse_if([*integer_problem("training", training, 1), *integer_problem("n", n, 1)])
    env = _environment(side)
    learned, learned_labels = env.batch(training, seed)
    asked, labels = env.batch(n, seed + 1)
    return Task(
        "colors",
        learned / env.max_value,
        learned_labels,
        asked / env.max_value,
        labels,
        4,
        env.baseline / env.max_value,
        env.truth(asked, labels, output="probability").signed.float(),
    )


def colors_left(images: Float[Tensor, "batch 3 side side"]) -> Int64[Tensor, "batch 4"]:
    """How many pixels of each color images of the colors task have, whole or not, in class order.

    Parameters
    ----------
    images : Tensor, (B, 3, H, W)
        In [0, 1]; pixels of other colors do not count.
    """
    env = _environment(images.shape[-1])
    with torch.no_grad():
        counts: Tensor = env.model((images * env.max_value).round())
    return counts.round().long()


def _environment(side: int) -> Environment:
    return load(ENVIRONMENT, image_size=side)


def pictures_task(training: int, n: int, seed: int) -> Task:
    """Ten classes of objects on backgrounds that tell a part of the class (`pictures`).

    Parameters
    ----------
    training, n : int
        Images to train on, and to ask about.
    seed : int
        Of the images to train on; the others are of the next seed.

    Returns
    -------
    Task
        Its baseline is the mean color of the images to train on, its truth 1 on the object, which alone
        tells the class for sure.

    Examples
    --------
    >>> from attributionlab.papers.idsds.data import pictures_task
    >>> pictures_task(training=3, n=2, seed=0).truth.shape
    torch.Size([2, 1, 32, 32])
    """
    refuse_if([*integer_problem("training", training, 1), *integer_problem("n", n, 1)])
    learned, asked = pictures(training, seed), pictures(n, seed + 1)
    return Task(
        "pictures",
        learned.images,
        learned.labels,
        asked.images,
        asked.labels,
        CLASSES,
        learned.images.mean((0, 2, 3))[:, None, None],
        asked.objects.float(),
    )


TASKS: Mapping[str, Callable[..., Task]] = {"colors": colors_task, "pictures": pictures_task}
"""By name; each takes the numbers of images to train on and to ask about, and a seed."""


def task_named(name: str) -> Callable[..., Task]:
    """The maker of a task in `TASKS`.

    Raises
    ------
    AttributionLabError
        For an unknown name.
    """
    if name not in TASKS:
        raise AttributionLabError(f"no task named {name!r}: {nearest(name, TASKS)}")
    return TASKS[name]
