"""What a counting network counts, said without the network: compare, count, remainder."""

from dataclasses import dataclass

import torch
from jaxtyping import Int, Real
from torch import Tensor


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
    >>> from attributionlab.truth import Counting
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

    def labels(self, images: Real[Tensor, "batch channels height width"]) -> Int[Tensor, " batch"]:
        """The right answer: the winning class (the first of equals), the count, or its remainder."""
        counts = self.counts(images)
        if len(self.values) > 1:
            return counts.argmax(1)
        return counts[:, 0] if self.modulus is None else counts[:, 0] % self.modulus

    def is_degenerate(self, image: Real[Tensor, "channels height width"]) -> bool:
        """Whether the truth is empty, two colors tie for the most, or the remainder is 0."""
        counts = self.counts(image[None])[0]
        if self.modulus is not None:
            return int(counts[0]) % self.modulus == 0
        most = counts.max()
        return int(most) == 0 or int((counts == most).sum()) > 1
