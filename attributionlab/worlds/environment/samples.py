"""Samples: an image with its right answer, and which images a data set keeps."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset

from attributionlab.base import own_arithmetic
from attributionlab.worlds.images.recipe import ImageRecipe, draw
from attributionlab.worlds.rules.rule import Rule
from attributionlab.worlds.truth.masks import Counting


class Sample(NamedTuple):
    """One image with its right answer; batches collate field by field."""

    image: Tensor
    """(C, H, W) float32, integers in the valid box."""
    label: Tensor
    """() int64: the winning class, or the exact output of a regression."""
    patches: Tensor
    """(H, W) int64 label map: 0 is background, 1, 2, ... the patches."""


@dataclass(frozen=True)
class Accept:
    """Which images a data set keeps: a truth that is there, and a count the network can handle."""

    counting: Counting | Rule
    max_count: int
    keep_degenerate: bool

    def __str__(self) -> str:
        truth = "" if self.keep_degenerate else "no empty or tied truth, and "
        return f"the data set ({truth}at most {self.max_count:,} counted pixels)"

    def __call__(self, image: Any) -> bool:
        tensor = torch.from_numpy(image).float()
        if int(self.counting.counts(tensor[None]).max()) > self.max_count:
            return False
        return self.keep_degenerate or not self.counting.is_degenerate(tensor)


class SampleDataset(Dataset[Sample]):
    """Samples 0 to n - 1 of an environment; each depends on (recipe, seed, index) alone."""

    def __init__(self, recipe: ImageRecipe, accept: Accept, n: int, seed: int) -> None:
        self.recipe, self.accept, self.n, self.seed = recipe, accept, n, seed

    def __len__(self) -> int:
        return self.n

    @own_arithmetic()
    def __getitem__(self, index: int) -> Sample:
        if not -self.n <= index < self.n:
            raise IndexError(f"sample {index} of {self.n}")
        return self._sample(index % self.n)

    def _sample(self, index: int) -> Sample:
        drawing = draw(self.recipe, self.seed, index, self.accept)
        image = torch.from_numpy(drawing.image).float()
        label = self.accept.counting.labels(image[None])[0]
        return Sample(image, label, torch.from_numpy(drawing.patches).long())
