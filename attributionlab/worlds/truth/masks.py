"""Ground truth as masks: what a network counts (compare, count, remainder, without the network), where
its answer comes from, and with which sign.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Int8, Real
from scipy import ndimage
from torch import Tensor

from attributionlab.base import AttributionLabError, Sigma, as_device, checked_arguments

Output = Literal["logit", "probability"]
"""Which output is explained: the truths of the two differ."""


@dataclass(frozen=True)
class Counting:
    """Which pixels count, for which class, and what the counts are turned into.

    Parameters
    ----------
    values : tuple of tuple of int
        For each class its pixel value, one integer per channel.
    modulus : int, optional
        The label is the count mod this; without it, the count (one class) or the class with the
        largest count (several).

    Examples
    --------
    >>> import torch
    >>> from attributionlab.worlds.truth import Counting
    >>> image = torch.tensor([[[[5.0, 5.0, 3.0]]]])  # (1, 1, 1, 3)
    >>> Counting(((5,), (3,))).counts(image)
    tensor([[2, 1]])
    """

    values: tuple[tuple[int, ...], ...]
    modulus: int | None = None

    def classes_of(
        self, images: Real[Tensor, "batch channels height width"]
    ) -> Int[Tensor, "batch 1 height width"]:
        """For each pixel the class that it counts for, -1 for none."""
        classes = torch.full_like(images[:, :1], -1, dtype=torch.int64)
        for index, value in enumerate(self.values):
            color = torch.tensor(value, dtype=images.dtype, device=images.device)
            equal = (images == color[:, None, None]).all(1, keepdim=True)
            classes[equal] = index
        return classes

    def counts(
        self, images: Real[Tensor, "batch channels height width"]
    ) -> Int[Tensor, "batch classes"]:
        """How many pixels count for each class."""
        classes = self.classes_of(images)
        return torch.stack(
            [(classes == index).sum((1, 2, 3)) for index in range(len(self.values))], dim=1
        )

    def truth(
        self,
        images: Real[Tensor, "batch channels height width"],
        targets: Int[Tensor, " batch"],
        output: "Output",
        temperature: float | None = None,
    ) -> "Truth":
        """What the network used, as `mask`; a temperature changes no sign."""
        return mask(self.classes_of(images), targets, output)

    def outputs(
        self, images: Real[Tensor, "batch channels height width"]
    ) -> Int[Tensor, "batch classes"]:
        """The logits: counts, or their remainders."""
        counts = self.counts(images)
        return counts if self.modulus is None else counts % self.modulus

    def labels(self, images: Real[Tensor, "batch channels height width"]) -> Int[Tensor, " batch"]:
        """The right answer: the winning class (the first of equals), the count, or its remainder."""
        outputs = self.outputs(images)
        return outputs.argmax(1) if len(self.values) > 1 else outputs[:, 0]

    def is_degenerate(self, image: Real[Tensor, "channels height width"]) -> bool:
        """Whether the truth is empty, two colors tie for the most, or the remainder is 0."""
        counts = self.counts(image[None])[0]
        if self.modulus is not None:
            return int(counts[0]) % self.modulus == 0
        most = counts.max()
        return int(most) == 0 or int((counts == most).sum()) > 1


@checked_arguments
@dataclass(frozen=True)
class Truth:
    """Ground truth masks of a batch of images, with one target each.

    Parameters
    ----------
    signed : Tensor of int8, (B, 1, H, W)
        +1 if a pixel raises the explained output, -1 if it lowers it, 0 if it does neither or its sign
        is not scored. Signs, not sizes.
    relevant : Tensor of bool, (B, 1, H, W), optional
        Pixels that change the output, including those whose sign is not scored; by default those with a
        sign.
    asked : Tensor of bool, (B, 1, H, W), optional
        Pixels that are scored; by default all. The others are removed from attributions before
        normalization.
    """

    signed: Int8[Tensor, "batch 1 height width"]
    relevant: Bool[Tensor, "batch 1 height width"] = None  # type: ignore[assignment]
    asked: Bool[Tensor, "batch 1 height width"] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.relevant is None:
            object.__setattr__(self, "relevant", self.signed != 0)
        if self.asked is None:
            object.__setattr__(self, "asked", torch.ones_like(self.signed, dtype=torch.bool))

    @property
    def positive(self) -> Bool[Tensor, "batch 1 height width"]:
        """Pixels that raise the output."""
        return self.signed > 0

    @property
    def negative(self) -> Bool[Tensor, "batch 1 height width"]:
        """Pixels that lower the output."""
        return self.signed < 0

    @property
    def overall(self) -> Bool[Tensor, "batch 1 height width"]:
        """Pixels that change the output, whatever their sign: `relevant`."""
        return self.relevant

    @property
    def mixed(self) -> Bool[Tensor, "batch 1 height width"]:
        """Pixels that are scored for their relevance only: they both raise and lower the output."""
        return self.relevant & (self.signed == 0)

    def without_holes(self, patches: Int[Tensor, "batch height width"]) -> "Truth":
        """The same, without scoring the holes of patches that are not scored.

        A map that is constant on patches cannot be right both on such holes and around them. `patches`:
        label maps, 0 outside.
        """
        if self.asked.all():
            return self
        asked = self.asked.clone()
        for index, labels in enumerate(patches):
            left_out = labels[~self.asked[index, 0] & (labels > 0)].unique()
            if len(left_out):
                asked[index, 0] &= ~torch.isin(labels, left_out) | self.relevant[index, 0]
        return Truth(self.signed, self.relevant, asked)

    @checked_arguments
    def part(self, chosen: slice) -> "Truth":
        """The truth of some of the images."""
        return Truth(self.signed[chosen], self.relevant[chosen], self.asked[chosen])

    def to(self, device: str | torch.device) -> "Truth":
        """The same on a device."""
        device = device if isinstance(device, torch.device) else as_device(device)
        return Truth(self.signed.to(device), self.relevant.to(device), self.asked.to(device))

    @classmethod
    @checked_arguments
    def joined(cls, truths: Sequence["Truth"]) -> "Truth":
        """The truths of several batches, at least one, as one."""
        parts = [(each.signed, each.relevant, each.asked) for each in truths]
        if not parts:
            raise AttributionLabError("truths is []: pass a list of at least one Truth")
        return cls(*(torch.cat(each) for each in zip(*parts, strict=True)))


@checked_arguments
def mask(
    classes: Int[Tensor, "batch 1 height width"], targets: Int[Tensor, " batch"], output: Output
) -> Truth:
    """Truth of networks whose logits are counts (AttributionLab, F.1 and G.1).

    One more pixel of the target's class raises its logit by one and no other logit; it raises the
    target's probability, which one more pixel of any other counted class lowers.

    Parameters
    ----------
    classes : Tensor
        For each pixel the class that it counts for, -1 for none.
    targets : Tensor
        The class to explain in each image.
    output : {"logit", "probability"}
        Logit: the target's pixels +1, all else 0. Probability: also the other classes' pixels -1.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.worlds.truth import mask
    >>> classes = torch.tensor([[[[0, 1, -1]]]])
    >>> mask(classes, torch.tensor([0]), "probability").signed
    tensor([[[[ 1, -1,  0]]]], dtype=torch.int8)
    """
    target = targets[:, None, None, None].to(classes.device)
    signed = (classes == target).to(torch.int8)
    if output == "probability":
        signed -= ((classes >= 0) & (classes != target)).to(torch.int8)
    return Truth(signed)


@checked_arguments
def smoothed(
    positive: Bool[Tensor, "batch 1 height width"], sigma: Sigma
) -> Float[Tensor, "batch 1 height width"]:
    r"""The positive mask under a Gaussian, scaled to a maximum of 1 in each image.

    A truth for methods that are coarse by design (AttributionLab, 4.4, without its sigma). As a map it
    scores a precision, recall and F1 of sum g^2 / sum g, which is not the most: see `best_map`.

    Parameters
    ----------
    positive : Tensor
        The mask; nothing lies beyond the image's edge.
    sigma : float
        Standard deviation in pixels.
    """
    blurred = [
        ndimage.gaussian_filter(image, sigma, mode="constant")
        for image in positive.cpu()[:, 0].double().numpy()
    ]
    maps = torch.from_numpy(np.stack(blurred))[:, None]
    highest = maps.amax((1, 2, 3), keepdim=True)
    return torch.where(highest > 0, maps / highest, maps).float().to(positive.device)
