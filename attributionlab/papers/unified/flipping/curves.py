"""What masking does to accuracy, probability and score, and how isolated the masked pixels are."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.exact import trajectories
from attributionlab.metrics import accuracy
from attributionlab.metrics.isolation import pixel_isolation
from attributionlab.papers.subjects.subjects import Subject
from attributionlab.papers.unified.flipping.orders import Orders
from attributionlab.validation import Replacement

INDICATORS = ("accuracy", "probability", "logit")
Curves = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Flipped:
    """Curves of one network, or of several, with one baseline.

    Parameters
    ----------
    names : tuple of str
        Of the orders.
    shares : ndarray, (S,)
        Of the pixels that are masked, from 0 to 1.
    curves : mapping of str to ndarray, (units, orders, S)
        By indicator; a unit is an image, or the mean over the images of one of several networks.
    isolation, captured : ndarray, (units, orders, S)
        `pixel_isolation`, and the share of the true information that is masked (NaN where it is not
        known).
    """

    names: tuple[str, ...]
    shares: Curves
    curves: dict[str, Curves]
    isolation: Curves
    captured: Curves

    def of(self, name: str, indicator: str) -> Curves:
        """(units, S)"""
        return self.curves[indicator][:, self.names.index(name)]

    def drop(self, name: str, indicator: str) -> Curves:
        """By how much the indicator has fallen, (units, S); a logit in units of its mean unmasked."""
        curves = self.of(name, indicator)
        fallen: Curves = curves[:, :1] - curves
        return fallen / abs(curves[:, 0].mean()) if indicator == "logit" else fallen

    def at(self, share: float) -> int:
        """The index of the nearest share."""
        return int(np.abs(self.shares - share).argmin())


def mask_counts(pixels: int, steps: int, shares: Sequence[float] = ()) -> list[int]:
    """Numbers of masked pixels in equal steps from none to all, and those of a few shares.

    Examples
    --------
    >>> from attributionlab.papers.unified.flipping.curves import mask_counts
    >>> mask_counts(10, 4, [0.1])
    [0, 1, 2, 5, 8, 10]
    """
    every = [step / steps for step in range(steps + 1)]
    return sorted({round(pixels * share) for share in (*every, *shares)})


def baselines_of(subject: Subject, seed: int) -> dict[str, Tensor]:
    """What masked pixels become: zeros, or independent uniform noise from 0 to the highest value.

    Noise is a whole image for each image, the same for all orders, in integers where images are.
    """
    generator = torch.Generator().manual_seed(seed)
    noise = subject.highest * torch.rand(subject.images.shape, generator=generator)
    whole = torch.equal(subject.images, subject.images.round())
    return {"zeros": torch.zeros(()), "noise": noise.round() if whole else noise}


def flipped(
    subject: Subject, orders: Orders, replacement: Replacement, counts: Sequence[int]
) -> Flipped:
    """Curves of every image, along all of its orders.

    Parameters
    ----------
    subject : Subject
        Its temperature turns logits into probabilities.
    orders : Orders
        Of its images.
    replacement : Tensor or float
        What masked pixels become.
    counts : sequence of int
        Numbers of masked pixels.
    """
    batch, draws, pixels = orders.orders.shape
    outputs = trajectories(
        subject.model, subject.images, replacement, orders.orders, counts=counts
    ).double()
    labels = subject.targets.view(-1, 1, 1).expand(batch, draws, len(counts))
    right = accuracy(outputs.flatten(0, 2), labels.flatten()).view(batch, draws, len(counts))
    probabilities = (outputs / subject.temperature).softmax(-1)
    own = labels[..., None]
    return Flipped(
        orders.names,
        np.array(counts) / pixels,
        {
            "accuracy": right.numpy(),
            "probability": probabilities.gather(-1, own)[..., 0].numpy(),
            "logit": outputs.gather(-1, own)[..., 0].numpy(),
        },
        isolations(subject, orders, counts),
        captured(subject.information, orders, counts),
    )


def isolations(subject: Subject, orders: Orders, counts: Sequence[int]) -> Curves:
    """(batch, orders, S); NaN where nothing is masked."""
    _, _, height, width = subject.images.shape
    batch, draws, _ = orders.orders.shape
    flat = pixel_isolation(orders.orders.flatten(0, 1), (height, width), counts=counts)
    return np.asarray(flat.view(batch, draws, -1).numpy())


def captured(
    information: Float[Tensor, "batch 1 height width"] | None,
    orders: Orders,
    counts: Sequence[int],
) -> Curves:
    """The share of the information that the masked pixels hold, (batch, orders, S)."""
    batch, draws, _ = orders.orders.shape
    if information is None:
        return np.full((batch, draws, len(counts)), np.nan)
    values = information.flatten(1)[:, None].expand(-1, draws, -1).gather(2, orders.orders)
    sums = torch.nn.functional.pad(values.cumsum(2), (1, 0))
    return np.asarray((sums[..., list(counts)] / sums[..., -1:]).numpy())


def pooled(networks: Sequence[Flipped]) -> Flipped:
    """Several networks, each the mean over its images; a single one stays as it is."""
    if len(networks) == 1:
        return networks[0]

    def means(arrays: Iterator[Curves]) -> Curves:
        return np.stack([array.mean(0) for array in arrays])

    first = networks[0]
    return Flipped(
        first.names,
        first.shares,
        {each: means(one.curves[each] for one in networks) for each in INDICATORS},
        means(one.isolation for one in networks),
        means(one.captured for one in networks),
    )
