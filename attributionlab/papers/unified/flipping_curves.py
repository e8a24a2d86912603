"""Orders in which pixels are masked, what that does to a network, and how isolated the pixels are."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.base import Replacement
from attributionlab.base.exact import trajectories
from attributionlab.metrics import accuracy, pixel_isolation, reference_order, removal_order
from attributionlab.papers.subjects.subjects import Subject
from attributionlab.papers.unified.six_methods import GRADCAM, MAPS, map_of

RANDOM, WINDOW, TRUTH = "Random", "Random window", "Truth"
SEVEN = (*MAPS.values(), RANDOM)
REFERENCES = (0.3, 0.4, 0.5, 0.6)
"""Sizes N of the reference as shares of all pixels: the paper's 15k to 30k of 224 x 224."""
INDICATORS = ("accuracy", "probability", "logit")
Curves = NDArray[np.float64]


class Orders(NamedTuple):
    """Flat pixel indices of each image, an order for each name; and, by map, what shuffling decides.

    `positive` is the share of the pixels at which a map is above 0. A `constant` map has one value
    everywhere, so that its order is a random one.
    """

    names: tuple[str, ...]
    orders: Int[Tensor, "batch draws pixels"]
    positive: Mapping[str, Float64[Tensor, " batch"]]
    constant: Mapping[str, Bool[Tensor, " batch"]]

    def of(self, name: str) -> Int[Tensor, "batch pixels"]:
        return self.orders[:, self.names.index(name)]


def reference_name(share: float) -> str:
    """Name the random order within the first pixels of GradCAM."""
    return f"Random in first {share:.0%}"


def orders_of(subject: Subject, seed: int) -> Orders:
    """Order pixels by each map, most relevant first, and by what knows less.

    Ties are shuffled: where most of a map is zero, reading order would mask connected rows. The seed is
    that of ties, random orders, windows and of what is random in a method.
    """
    generator = torch.Generator().manual_seed(seed)
    found: dict[str, Tensor] = {}
    maps = {name: map_of(subject, method, seed) for method, name in MAPS.items()}
    if subject.information is not None:
        maps[TRUTH] = subject.information
    for name, values in maps.items():
        found[name] = removal_order(values, ties="random", generator=generator)
    batch, _, height, width = subject.images.shape
    constant = torch.zeros(batch, 1, height, width)
    found[RANDOM] = removal_order(constant, ties="random", generator=generator)
    found[WINDOW] = window_orders(batch, (height, width), generator)
    for share in REFERENCES:
        size = round(share * height * width)
        found[reference_name(share)] = reference_order(found[GRADCAM], size, generator)
    flat = {name: values.flatten(1) for name, values in maps.items()}
    return Orders(
        tuple(found),
        torch.stack(list(found.values()), 1),
        {name: (values > 0).double().mean(1) for name, values in flat.items()},
        {name: values.amax(1) == values.amin(1) for name, values in flat.items()},
    )


def window_orders(
    batch: int, size: tuple[int, int], generator: torch.Generator
) -> Int[Tensor, "batch pixels"]:
    """Order pixels around a random center, the nearest first: connected, as uninformed as random ones.

    The image is closed to a torus, and distance is the larger of those in rows and columns, so that
    the first pixels are a square; pixels of one distance are shuffled. As the center is uniform, every
    pixel is among the first n with probability n / P, exactly as in a random order. Whatever adds up
    over pixels therefore loses as much by one as by the other in expectation; only how pixels lie
    differs.
    """
    sides = []
    for length in size:
        center = torch.randint(length, (batch, 1, 1), generator=generator)
        away = (torch.arange(length) - center).remainder(length)
        sides.append(torch.minimum(away, length - away))
    rows, columns = sides
    distance = torch.maximum(rows.mT, columns)
    return removal_order(distance[:, None], order="lerf", ties="random", generator=generator)


class Flipped(NamedTuple):
    """Curves (units, orders, S) of one network, or of several, with one baseline.

    A unit is an image, or the mean over the images of one of several networks; `shares` (S,) of the
    pixels are masked. `captured` is the share of the true information that is masked, NaN where it is
    not known.
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
    """Return numbers of masked pixels in equal steps from none to all, and those of a few shares."""
    every = [step / steps for step in range(steps + 1)]
    return sorted({round(pixels * share) for share in (*every, *shares)})


def baselines_of(subject: Subject, seed: int) -> dict[str, Tensor]:
    """Return what masked pixels become: zeros, or independent uniform noise up to the highest value.

    Noise is a whole image for each image, the same for all orders, in integers where images are.
    """
    generator = torch.Generator().manual_seed(seed)
    noise = subject.highest * torch.rand(subject.images.shape, generator=generator)
    whole = torch.equal(subject.images, subject.images.round())
    return {"zeros": torch.zeros(()), "noise": noise.round() if whole else noise}


def flipped(
    subject: Subject, orders: Orders, replacement: Replacement, counts: Sequence[int]
) -> Flipped:
    """Follow every image along all of its orders; the temperature turns logits into probabilities."""
    batch, draws, pixels = orders.orders.shape
    outputs = trajectories(
        subject.model, subject.images, replacement, orders.orders, counts=counts
    ).double()
    labels = subject.targets.view(-1, 1, 1).expand(batch, draws, len(counts))
    right = accuracy(outputs.flatten(0, 2), labels.flatten()).view(batch, draws, len(counts))
    probabilities = (outputs / subject.temperature).softmax(-1)
    own = labels[..., None]
    _, _, height, width = subject.images.shape
    isolation = pixel_isolation(orders.orders.flatten(0, 1), (height, width), counts=counts)
    return Flipped(
        orders.names,
        np.array(counts) / pixels,
        {
            "accuracy": right.numpy(),
            "probability": probabilities.gather(-1, own)[..., 0].numpy(),
            "logit": outputs.gather(-1, own)[..., 0].numpy(),
        },
        isolation.view(batch, draws, -1).numpy(),
        captured(subject.information, orders, counts),
    )


def captured(
    information: Float[Tensor, "batch 1 height width"] | None, orders: Orders, counts: Sequence[int]
) -> Curves:
    """Return the share of the information that the masked pixels hold, (batch, orders, S)."""
    batch, draws, _ = orders.orders.shape
    if information is None:
        return np.full((batch, draws, len(counts)), np.nan)
    values = information.flatten(1)[:, None].expand(-1, draws, -1).gather(2, orders.orders)
    sums = torch.nn.functional.pad(values.cumsum(2), (1, 0))
    return np.asarray((sums[..., list(counts)] / sums[..., -1:]).numpy())


def pooled(networks: Sequence[Flipped]) -> Flipped:
    """Make each of several networks one unit, the mean over its images; a single one stays as it is."""
    if len(networks) == 1:
        return networks[0]
    first = networks[0]
    return Flipped(
        first.names,
        first.shares,
        {name: np.stack([each.curves[name].mean(0) for each in networks]) for name in INDICATORS},
        np.stack([each.isolation.mean(0) for each in networks]),
        np.stack([each.captured.mean(0) for each in networks]),
    )
