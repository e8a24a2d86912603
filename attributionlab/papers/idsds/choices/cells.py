"""Maps of a network held against drops and the truth, cell by cell of the grid."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor, nn

from attributionlab.metrics import deletion_drops, judged_by_drops, patch_sums
from attributionlab.papers.idsds.maps import panel_maps

Cells = Float64[Tensor, "batch cells"]

PATCHES = 16
LOGIT, PROBABILITY, TRUTH = "logit", "probability", "truth"
OUTPUTS = (LOGIT, PROBABILITY)
"""Of the label: what maps are computed for, and whose drops they are held against."""
AFTER = ", after softmax"
"""Ends the name of a setup whose maps explain the probability."""


class CellScores(NamedTuple):
    """How far maps rank the cells of each image as something else does."""

    scores: Float64[np.ndarray, " batch"]
    """Spearman's correlation; 0 for a constant map, NaN where the reference is constant"""
    constant_maps: Bool[np.ndarray, " batch"]
    """all cells of the map have the same sum, those of the reference have not"""

    def of(self, image: int) -> "CellScores":
        """Of one image alone."""
        return CellScores(*(each[image : image + 1] for each in self))


@dataclass(frozen=True, eq=False)
class Explained:
    """A network, and images and labels that maps are computed for.

    Parameters
    ----------
    network : nn.Module
        (B, C, H, W) -> (B, K) logits, in eval mode.
    layer : nn.Module or None
        For rows that explain by a layer, which are left out without.
    images : Tensor, (B, C, H, W)
        In [0, 1].
    labels : Tensor, (B,)
        Whose output is explained.
    baseline : Tensor, (C, 1, 1)
        What deleted pixels become, and where the paths of integrated gradients start.
    truth : Tensor, (B, 1, H, W), or None
        What the data say about each pixel, where it is known.
    """

    network: nn.Module
    layer: nn.Module | None
    images: Float[Tensor, "batch channels height width"]
    labels: Int64[Tensor, " batch"]
    baseline: Float[Tensor, "channels 1 1"]
    truth: Float[Tensor, "batch 1 height width"] | None

    def references(self) -> dict[str, Cells]:
        """What a map can be held against: drops of either output, and the truth where it is known."""
        found = {
            output: deletion_drops(
                self.returning(output),
                self.images,
                self.labels,
                patches=PATCHES,
                replacement=self.baseline,
            )
            for output in OUTPUTS
        }
        return found if self.truth is None else found | {TRUTH: cell_sums(self.truth)}

    def sums(
        self, output: str, methods: Sequence[str], seed: int, *, quick: bool
    ) -> Iterator[tuple[str, Cells]]:
        """Each method's attributions for one output, summed over cells."""
        maps = panel_maps(
            self.returning(output),
            self.images,
            self.labels,
            methods,
            layer=self.layer,
            baselines=self.baseline,
            seed=seed,
            quick=quick,
        )
        for method, of_method in maps.items():
            yield method, cell_sums(of_method)

    def returning(self, output: str) -> nn.Module:
        """The network, or one with a softmax that shares its modules."""
        if output == LOGIT:
            return self.network
        return nn.Sequential(self.network, nn.Softmax(dim=1)).eval()

    def probabilities(self) -> Float[Tensor, " batch"]:
        """Of the labels."""
        with torch.no_grad():
            every: Tensor = self.returning(PROBABILITY)(self.images)
        return every[torch.arange(len(every)), self.labels]


def cell_sums(maps: Float[Tensor, "batch 1 height width"]) -> Cells:
    """Sums over the cells of the grid.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.papers.idsds.choices.cells import cell_sums
    >>> cell_sums(torch.ones(1, 1, 8, 8))[0, :3]
    tensor([4., 4., 4.], dtype=torch.float64)
    """
    return patch_sums(maps.detach().cpu(), PATCHES)


def cell_scores(reference: Cells, sums: Cells) -> CellScores:
    """The scores that `attributionlab.metrics.idsds` has, from drops that many maps share.

    Parameters
    ----------
    reference, sums : Tensor of float64, (B, P)
        Drops, or what else a map is held against, and attributions of each cell.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.papers.idsds.choices.cells import cell_scores
    >>> drops = torch.tensor([[1.0, 0.0, 5.0, 2.0]], dtype=torch.float64)
    >>> cell_scores(drops, drops**2).scores
    array([1.])
    """
    found = judged_by_drops(sums, reference)
    constant = found.constant_maps & ~found.constant_drops
    return CellScores(found.scores.numpy(), constant.numpy())
