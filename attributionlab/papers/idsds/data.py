"""Images, labels and what is known of them, for networks that are trained."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from jaxtyping import Float, Float32, Int64
from torch import Tensor

from attributionlab.environment.catalog import load
from attributionlab.errors import AttributionLabError, nearest, refuse_if
from attributionlab.papers.subjects.drawn_pictures import CLASSES, pictures
from attributionlab.validation import integer_problem

ENVIRONMENT = "multi-color-sum-in-distribution"
SIDE = 32


class Task(NamedTuple):
    """What a network learns, and what it is asked afterwards.

    Images, (B, C, H, W), lie in [0, 1]; `baseline`, (C, 1, 1), is the pixel that stands for nothing.
    `truth`, (B, 1, H, W), is what the data say about each pixel of `images`: 1 speaks for the label, -1
    against it, 0 says nothing. What a trained network uses is not known.
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
    """Make images of multi-color-sum: which of four colors has the most pixels.

    `training` images to learn are of the seed, `n` others of the next one. The truth is 1 on the
    winning color and -1 on the others.

    Examples
    --------
    >>> from attributionlab.papers.idsds.data import colors_task
    >>> task = colors_task(training=3, n=2, seed=0)
    >>> task.training_images.shape, task.images.shape, sorted(set(task.truth.flatten().tolist()))
    (torch.Size([3, 3, 32, 32]), torch.Size([2, 3, 32, 32]), [-1.0, 0.0, 1.0])
    """
    refuse_if([*integer_problem("training", training, 1), *integer_problem("n", n, 1)])
    env = load(ENVIRONMENT, image_size=side)
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
    """Count the pixels of each color in images of the colors task, whole or not, in class order."""
    env = load(ENVIRONMENT, image_size=images.shape[-1])
    with torch.no_grad():
        counts: Tensor = env.model((images * env.max_value).round())
    return counts.round().long()


def pictures_task(training: int, n: int, seed: int) -> Task:
    """Make ten classes of objects on backgrounds that tell a part of the class (`pictures`).

    Seeds are those of `colors_task`. The baseline is the mean color of the images to train on, the
    truth 1 on the object, which alone tells the class for sure.

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
    """Return the maker of a task in `TASKS`, or refuse an unknown name."""
    if name not in TASKS:
        raise AttributionLabError(f"no task named {name!r}: {nearest(name, TASKS)}")
    return TASKS[name]
