"""Networks and what becomes of them when they are fine-tuned on images without a patch."""

import copy
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from jaxtyping import Float32, Int64
from torch import Tensor, nn

from attributionlab.errors import refuse_if
from attributionlab.metrics import patch_deleted
from attributionlab.papers.idsds.data import Task
from attributionlab.papers.subjects.networks import Design, network_of
from attributionlab.papers.subjects.small_network import fit_with
from attributionlab.validation import Replacement, integer_problem, number_problem

EPOCHS, FINE_TUNING_EPOCHS, BATCH_SIZE = 10, 6, 32
LEARNING_RATE = 2e-3
FINE_TUNING_RATE, MOMENTUM, WEIGHT_DECAY = 0.005, 0.9, 1e-4
FINE_TUNING_RATES: Mapping[str, float] = {"b-cos": 0.0005}
"""Of families that forget what they have learned at the usual rate."""
DROPS, DROP = 3, 0.1
"""The paper's schedule: the rate is multiplied by DROP after each third of the epochs, rounded down,
but not before the first is over."""

Filling = Replacement | Callable[[Tensor, torch.Generator], Tensor]
"""What deleted pixels become: a number or a tensor, or (images, generator) -> tensor, drawn anew for
every batch."""


class Pair(NamedTuple):
    """A trained network, and a copy of it that has seen images without a patch; both in eval mode."""

    original: nn.Module
    fine_tuned: nn.Module


def trained_pair(
    design: Design,
    task: Task,
    *,
    seed: int,
    patches: int = 16,
    replacement: Filling = 0.0,
    epochs: int = EPOCHS,
    learning_rate: float = LEARNING_RATE,
    fine_tuning_epochs: int = FINE_TUNING_EPOCHS,
    fine_tuning_rate: float | None = None,
) -> Pair:
    """Train a network on a task by Adam, then fine-tune a copy of it (`fine_tuned`).

    Adam's learning rate falls to 0 along a cosine (Loshchilov and Hutter, 2017). `patches`,
    `replacement` and what begins with `fine_tuning` are those of `fine_tuned`; without a rate it is
    0.005, or a tenth of that for B-cos networks. The seed is that of the weights, of the order of the
    images, and of what is deleted.

    Examples
    --------
    >>> from attributionlab.papers.idsds.data import colors_task
    >>> from attributionlab.papers.subjects.networks import Design
    >>> from attributionlab.papers.idsds.training import trained_pair
    >>> task = colors_task(training=8, n=2, seed=0)
    >>> pair = trained_pair(Design(width=2), task, seed=0, epochs=1, fine_tuning_epochs=1)
    >>> pair.fine_tuned(task.images).shape
    torch.Size([2, 4])
    """
    _refuse(epochs, learning_rate)
    images, labels = task.training_images, task.training_labels
    _, channels, side, _ = images.shape
    network = network_of(design, channels, task.classes, side, seed)
    optimizer = torch.optim.Adam(network.parameters(), lr=learning_rate, weight_decay=WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    fit_with(
        *(optimizer, network, images, labels),
        seed=seed,
        epochs=epochs,
        batch_size=BATCH_SIZE,
        schedule=schedule,
    )
    tuned = fine_tuned(
        *(network, images, labels),
        seed=seed,
        patches=patches,
        replacement=replacement,
        epochs=fine_tuning_epochs,
        learning_rate=(
            FINE_TUNING_RATES.get(design.family, FINE_TUNING_RATE)
            if fine_tuning_rate is None
            else fine_tuning_rate
        ),
    )
    return Pair(network, tuned)


def fine_tuned(
    network: nn.Module,
    images: Float32[Tensor, "batch channels height width"],
    labels: Int64[Tensor, " batch"],
    *,
    seed: int,
    patches: int = 16,
    replacement: Filling = 0.0,
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
    _refuse(epochs, learning_rate)

    def lacking(batch: Tensor, generator: torch.Generator) -> Tensor:
        filling = replacement(batch, generator) if callable(replacement) else replacement
        return patch_deleted(batch, patches, filling, generator=generator)

    tuned = copy.deepcopy(network)
    optimizer = torch.optim.SGD(
        tuned.parameters(), lr=learning_rate, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY
    )
    milestones = [max(1, epochs * third // DROPS) for third in range(1, DROPS)]
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones, DROP)
    fit_with(
        *(optimizer, tuned, images, labels),
        seed=seed,
        epochs=epochs,
        batch_size=BATCH_SIZE,
        augmentation=lacking,
        schedule=schedule,
    )
    return tuned


def _refuse(epochs: int, learning_rate: float) -> None:
    rate = number_problem("learning_rate", learning_rate, above=0)
    refuse_if([*integer_problem("epochs", epochs, 1), *rate])
