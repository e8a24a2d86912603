"""Maps held against the truth of their images: views, scores, and truths spread over more pixels."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_args

from torch import Tensor
from torch.nn import functional

from attributionlab.assess.moves import blurred
from attributionlab.metrics import Part, alignment, magnitudes, normalize
from attributionlab.truth import Truth

__all__ = ["ComparedMaps", "among_those"]

STRIDE = 3
"""Width and stride of every environment's first convolution, in pixels."""


@dataclass(frozen=True)
class ComparedMaps:
    """Maps and what they are held against, of images that have a truth."""

    maps: Tensor
    signed: Tensor
    numbers: Tensor
    """of the images, in the order given"""
    claim: str
    claimed: Tensor | None
    among: str
    """which images these are, of those that were tested"""

    def view(self, maps: Tensor) -> Tensor:
        """What of a map the claim is about."""
        if self.claim == "signed":
            return maps
        return magnitudes(maps, "overall" if self.claim == "overall" else "positive")

    def blurred(self, sigma: float, never_negative: bool) -> Iterator[Tensor]:
        """What a blurred truth may look like: signs blurred together, or only the positive ones."""
        positive, negative = (blurred((self.signed == sign).float(), sigma) for sign in (1, -1))
        yield self.view(normalize(positive - negative))
        if never_negative or self.claim != "signed":
            yield positive
        if self.claim == "overall":
            yield positive + negative

    def dense(self) -> Iterator[Tensor]:
        """A truth in which each window of the first layer that holds relevant pixels is filled."""
        for start in range(STRIDE):
            positive, negative = (
                _windows_filled((self.signed == sign).float(), start) for sign in (1, -1)
            )
            yield self.view(positive - negative)

    def f1(self, maps: Tensor) -> float:
        """The claim's mean F1."""
        if self.claimed is not None:
            return float(alignment(magnitudes(maps, "positive"), self.claimed).f1.nanmean())
        truth = Truth(self.signed)
        means = [
            alignment(magnitudes(maps, part), getattr(truth, part)).f1.nanmean()
            for part in get_args(Part)
            if self.claim in ("signed", part)
        ]
        return min(float(mean) for mean in means if not mean.isnan())

    def count(self, some: Tensor) -> str:
        """How many of the images."""
        return f"{int(some.sum())} of the {self.among}"

    def which(self, wrong: Tensor) -> str:
        """In how many images, and in which if not in all."""
        if wrong.all():
            return f"each of the {self.among}"
        numbers = ", ".join(str(int(number)) for number in self.numbers[wrong])
        return f"{self.count(wrong)} ({numbers})"


def _windows_filled(places: Tensor, start: int) -> Tensor:
    """Windows without overlap, the first of which begins `start` pixels before the image."""
    height, width = places.shape[2:]
    padded = functional.pad(places, (start, STRIDE, start, STRIDE))
    highest = functional.max_pool2d(padded, STRIDE)
    enlarged = highest.repeat_interleave(STRIDE, 2).repeat_interleave(STRIDE, 3)
    return enlarged[..., start : start + height, start : start + width]


def among_those(there: int, given: int, tested: int, without_zeros: bool = False) -> str:
    """Which images those with a truth are, of those given, the first of those tested."""
    if there < given:
        nonzero = " and a map that is not zero" * without_zeros
        return f"{there} images with such a truth{nonzero}" + f" among the first {given}" * (
            tested > given
        )
    return f"{'first ' * (tested > given)}{given} images"
