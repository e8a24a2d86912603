"""Tasks, the networks trained on them, and what becomes of these by fine-tuning without a patch."""

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple, Unpack

import torch
from jaxtyping import Float, Float32, Int64
from torch import Tensor, nn

from attributionlab.base import (
    AttributionLabError,
    Replacement,
    broadcast_replacement,
    nearest,
    number_problem,
    refuse_if,
)
from attributionlab.metrics import grid_patches, patch_deleted
from attributionlab.papers.catalog import Run
from attributionlab.papers.subjects.drawn_pictures import CLASSES, pictures
from attributionlab.papers.subjects.networks import Design, fit_network, network_of
from attributionlab.papers.subjects.subjects import OwnNetwork, Subject, chosen_subject, mean_color
from attributionlab.worlds import load

ENVIRONMENT, SIDE = "multi-color-sum-in-distribution", 32
PATCHES, BLACK = 16, 0.0
"""What deleted pixels become; no image that networks are trained on first has it."""
FINE_TUNING_EPOCHS, BATCH_SIZE = 6, 32
LEARNING_RATE = 2e-3
FINE_TUNING_RATE, MOMENTUM, WEIGHT_DECAY = 0.005, 0.9, 1e-4
FINE_TUNING_RATES: Mapping[str, float] = {"b-cos": 0.0005}
"""Rates of families that forget what they have learned at the usual rate."""
DROPS, DROP = 3, 0.1
"""The paper's schedule: the rate is multiplied by DROP after each third of the epochs, rounded down,
but not before the first is over."""

Images = Float[Tensor, "batch channels height width"]
Labels = Int64[Tensor, " batch"]
Filling = Replacement | Callable[[Tensor, torch.Generator], Tensor]
"""What deleted pixels become: a number or a tensor, or (images, generator) -> tensor, drawn anew for
every batch."""


class Task(NamedTuple):
    """Images to learn and images to explain.

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
    truth: Float[Tensor, "batch 1 side side"]


def colors_task(training: int, n: int, seed: int) -> Task:
    """Make images of multi-color-sum: which of four colors has the most pixels.

    `training` images to learn are of the seed, `n` others of the next one. The truth is 1 on the
    winning color and -1 on the others.
    """
    env = load(ENVIRONMENT, image_size=SIDE)
    (learned, learned_labels), (shown, labels) = env.batch(training, seed), env.batch(n, seed + 1)
    truth = env.truth(shown, labels, output="probability").signed.float()
    highest = env.max_value
    return Task(
        *("colors", learned / highest, learned_labels, shown / highest, labels, 4),
        *(env.baseline / highest, truth),
    )


def pictures_task(training: int, n: int, seed: int) -> Task:
    """Make ten classes of objects on backgrounds that tell a part of the class (`pictures`).

    Seeds are those of `colors_task`. The baseline is the mean color of the images to train on, the
    truth 1 on the object, which alone tells the class for sure.
    """
    learned, shown = pictures(training, seed), pictures(n, seed + 1)
    return Task(
        *("pictures", learned.images, learned.labels, shown.images, shown.labels, CLASSES),
        *(mean_color(learned.images), shown.objects.float()),
    )


TASKS: Mapping[str, Callable[..., Task]] = {"colors": colors_task, "pictures": pictures_task}
"""By name; each takes the numbers of images to train on and to explain, and a seed."""


def task_named(name: str) -> Callable[..., Task]:
    """The maker of a task in `TASKS`, or refuse an unknown name."""
    if name not in TASKS:
        raise AttributionLabError(f"no task named {name!r}: {nearest(name, TASKS)}")
    return TASKS[name]


class Pair(NamedTuple):
    """A trained network, and a copy of it that has seen images without a patch; both in eval mode."""

    original: nn.Module
    fine_tuned: nn.Module


def trained_pair(
    design: Design,
    task: Task,
    *,
    seed: int,
    epochs: int,
    fine_tuning: int,
    patches: int = PATCHES,
    replacement: Filling = BLACK,
) -> Pair:
    """Train a network on a task by Adam, then fine-tune a copy of it (`fine_tuned`).

    Adam's learning rate falls to 0 along a cosine (Loshchilov and Hutter, 2017). The fine-tuning has
    `fine_tuning` epochs and a rate of 0.005, or a tenth of that for B-cos networks. The seed is that of
    the weights, of the order of the images, and of what is deleted.
    """
    images, labels = task.training_images, task.training_labels
    _, channels, side, _ = images.shape
    network = network_of(design, channels, task.classes, side, seed)
    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    how: dict[str, Any] = {"seed": seed, "epochs": epochs, "batch_size": BATCH_SIZE}
    fit_network(network, images, labels, **how, optimizer=optimizer, schedule=schedule)
    tuned = fine_tuned(
        *(network, images, labels),
        seed=seed,
        patches=patches,
        replacement=replacement,
        epochs=fine_tuning,
        learning_rate=FINE_TUNING_RATES.get(design.family, FINE_TUNING_RATE),
    )
    return Pair(network, tuned)


def fine_tuned(
    network: nn.Module,
    images: Images,
    labels: Labels,
    *,
    seed: int,
    patches: int = PATCHES,
    replacement: Filling = BLACK,
    epochs: int = FINE_TUNING_EPOCHS,
    learning_rate: float = FINE_TUNING_RATE,
) -> nn.Module:
    """Train a copy of a trained network on with images of which half lack one patch.

    Stochastic gradient descent with momentum 0.9 and weight decay 0.0001; the learning rate is
    multiplied by 0.1 after each third of the epochs, rounded down (Hesse et al., 2024, section 4 and
    appendix E, with 30 epochs from 0.001 on). What each image lacks is drawn anew in each epoch.

    The network, (B, C, H, W) -> (B, K) logits, is left as it is. The seed is that of the order of the
    images, and of what they lack.
    """
    refuse_if(number_problem("learning_rate", learning_rate, above=0))

    def lacking(batch: Tensor, generator: torch.Generator) -> Tensor:
        filling = replacement(batch, generator) if callable(replacement) else replacement
        return patch_deleted(batch, patches, filling, generator=generator)

    tuned = copy.deepcopy(network)
    optimizer = torch.optim.SGD(
        tuned.parameters(), lr=learning_rate, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY
    )
    milestones = [max(1, epochs * third // DROPS) for third in range(1, DROPS)]
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones, DROP)
    fit_network(
        *(tuned, images, labels),
        seed=seed,
        optimizer=optimizer,
        epochs=epochs,
        batch_size=BATCH_SIZE,
        augmentation=lacking,
        schedule=schedule,
    )
    return tuned


def without_each(images: Images, patches: int, replacement: Replacement) -> list[Images]:
    """The images without the first patch, without the second, and so on."""
    filling = broadcast_replacement(replacement, images).to(images)
    _, _, height, width = images.shape
    cells = grid_patches(height, width, patches).to(images.device)
    return [torch.where(cells == cell, filling, images) for cell in range(patches)]


def trained_pairs(
    run: Run, designs: Mapping[str, Design], task: Task, *, runs: int, epochs: int, fine_tuning: int
) -> Iterator[tuple[str, int, Pair]]:
    """The name of each design, the number of each of its runs, and the pair of that run."""
    for name, repeat in run.track(product(designs, range(runs))):
        seed = run.seed + repeat
        how = {"seed": seed, "epochs": epochs, "fine_tuning": fine_tuning}
        yield name, repeat, trained_pair(designs[name], task, **how)


def given_pair(
    run: Run,
    fine_tuned: str | None,
    layer: str | None = None,
    *,
    both: bool = True,
    **own: Unpack[OwnNetwork],
) -> tuple[Subject, nn.Module | None] | None:
    """A `chosen_subject`, and its network with the weights of `fine_tuned`; None without images.

    Its notes are of both networks. Without `both` a network that is not fine-tuned is taken, too.
    """
    subject = chosen_subject(run.n, run.seed, layer=layer, **own)
    if subject is None:
        if fine_tuned is not None:
            raise AttributionLabError(
                f"fine_tuned is {fine_tuned!r} without images and model: pass both, too"
            )
        return None
    if fine_tuned is None:
        if both:
            raise AttributionLabError(
                f"model is {own['model']!r} without fine_tuned: pass the weights of that network after "
                "training on images without a patch (attributionlab.papers.idsds.training.fine_tuned)"
            )
        missing = "fine_tuned is not given: there is no IDSDS."
        return replace(subject, notes=(*subject.notes, missing)), None
    own["weights"] = fine_tuned
    tuned = chosen_subject(run.n, run.seed, layer=layer, **own)
    assert tuned is not None
    right, *others = subject.notes
    return replace(subject, notes=(right, tuned.notes[0], *others)), tuned.model
