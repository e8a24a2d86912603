"""Networks and what they see: a user's own with photographs, or trained ones with drawn pictures."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from jaxtyping import Bool
from torch import Tensor, nn

from attributionlab.papers.subjects.drawn_pictures import CLASSES, SIDE, pictures
from attributionlab.papers.subjects.networks import Design, network_of
from attributionlab.papers.subjects.small_network import (
    accuracy_of,
    fit_network,
    trained_small_network,
)
from attributionlab.papers.subjects.subjects import Subject, chosen_subject

CONVOLUTIONS_EPOCHS, ATTENTION_EPOCHS = 5, 10
TRAINING, QUICK_TRAINING = 1000, 500
SEEDS, QUICK_SEEDS = 3, 1
"""Networks to train: what holds for one says little about training."""
IMAGES, QUICK_IMAGES = 12, 6
TESTED = 500


@dataclass(frozen=True)
class Own:
    """What a user gives: a folder of photographs, and a network for them (`given_subject`).

    Without class folders the class that the network predicts is explained.
    """

    images: str | None = None
    model: str | None = None
    weights: str | None = None
    classes: str | None = None
    size: int = 224


class Pictured(NamedTuple):
    """A subject, and where the objects are that tell the classes, if that is known.

    Parameters
    ----------
    subject : Subject
        A network, images and what is explained of them.
    objects : Tensor, (B, 1, H, W), or None
        Not all that a network uses: a drawn picture's background tells its class, too.
    """

    subject: Subject
    objects: Bool[Tensor, "batch 1 height width"] | None


def _convolutions(images: Tensor, labels: Tensor, seed: int) -> nn.Module:
    return trained_small_network(
        images, labels, classes=CLASSES, seed=seed, epochs=CONVOLUTIONS_EPOCHS
    )


def _attention(images: Tensor, labels: Tensor, seed: int) -> nn.Module:
    network = network_of(Design("attention"), images.shape[1], CLASSES, SIDE, seed)
    fit_network(network, images, labels, seed=seed, epochs=ATTENTION_EPOCHS)
    return network


NETWORKS: dict[str, Callable[[Tensor, Tensor, int], nn.Module]] = {
    "convolutions": _convolutions,
    "attention": _attention,
}
"""What stands for VGG16 and for ViT-B-16: trained on images and labels, with a seed."""


def pictured_by(network: str, own: Own, n: int | None, quick: bool, seed: int) -> list[Pictured]:
    """A user's network and photographs; without them networks trained on drawn pictures.

    Parameters
    ----------
    network : str
        In `NETWORKS`, for drawn pictures.
    own : Own
        What a user gives, if anything.
    n : int, optional
        Photographs of each class folder (of a folder without: in all), by default 1; drawn pictures
        for each network, by default 12, or 6 in a quick run.
    quick : bool
        One network instead of three, and half of the pictures to train on.
    seed : int
        Of the photographs' choice; of the first network, the next ones have those that follow.
    """
    given = chosen_subject(
        *(own.images, own.model, 1 if n is None else n, seed),
        size=own.size,
        layer=None,
        classes=own.classes,
        weights=own.weights,
        predicted=True,
    )
    if given is not None:  # nothing here explains by a layer, so the note on layers is left out
        return [Pictured(replace(given, notes=given.notes[:1]), None)]
    asked = n if n is not None else QUICK_IMAGES if quick else IMAGES
    seeds = range(seed, seed + (QUICK_SEEDS if quick else SEEDS))
    training = QUICK_TRAINING if quick else TRAINING
    return [_drawn(network, asked, training, each) for each in seeds]


def _drawn(network: str, n: int, training: int, seed: int) -> Pictured:
    """A trained network, and n drawn pictures that it was not trained on."""
    learned, asked = pictures(training, seed), pictures(n, seed + 1)
    tested = pictures(TESTED, seed + 2)
    model = NETWORKS[network](learned.images, learned.labels, seed)
    right = accuracy_of(model, tested.images, tested.labels)
    subject = Subject(
        f"{network}, seed {seed}",
        model,
        model,
        asked.images,
        asked.labels,
        1.0,
        learned.images.mean((0, 2, 3))[:, None, None],
        1.0,
        notes=(f"{network}, seed {seed}: right on {right:.0%} of {TESTED} other drawn pictures.",),
    )
    return Pictured(subject, asked.objects)
