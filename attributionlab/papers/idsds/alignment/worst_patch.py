"""What a network answers on whole images and without each patch, and what the data say then."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from numpy.typing import NDArray
from torch import Tensor, nn

from attributionlab.metrics import grid_patches
from attributionlab.papers.idsds.data import colors_left
from attributionlab.validation import Replacement, broadcast_replacement

Rights = dict[str, NDArray[np.float64]]
"""By what is asked, 1 for each image on which the network is right, 0 for the others."""


class Answers(NamedTuple):
    """The classes that a network names."""

    whole: Int64[Tensor, " batch"]
    deleted: Int64[Tensor, "batch patches"]


class LeftTruth(NamedTuple):
    """What is true of images without a patch, one column for each patch.

    Parameters
    ----------
    winner : Tensor, (B, P)
        The color that has the most pixels then; -1 where two have.
    same : Tensor, (B, P)
        Whether that still is the label of the whole image.
    """

    winner: Int64[Tensor, "batch patches"]
    same: Bool[Tensor, "batch patches"]


def answers(
    network: nn.Module,
    images: Float[Tensor, "batch channels height width"],
    patches: int,
    replacement: Replacement,
) -> Answers:
    """Ask a network about images, whole and without each patch of a grid (`grid_patches`)."""
    with torch.no_grad():
        columns = [network(each).argmax(1) for each in _without_each(images, patches, replacement)]
        return Answers(network(images).argmax(1), torch.stack(columns, 1))


def left_truth(
    images: Float[Tensor, "batch 3 height width"],
    labels: Int64[Tensor, " batch"],
    patches: int,
    replacement: Replacement,
) -> LeftTruth:
    """The winning color of images of the colors task without each patch."""
    deleted = torch.cat(_without_each(images, patches, replacement))
    pixels, colors = colors_left(deleted).topk(2, dim=1)
    sole = torch.where(pixels[:, 0] > pixels[:, 1], colors[:, 0], -1)
    winner = sole.view(patches, len(images)).T
    return LeftTruth(winner, winner == labels[:, None])


def _without_each(images: Tensor, patches: int, replacement: Replacement) -> list[Tensor]:
    filling = broadcast_replacement(replacement, images).to(images)
    _, _, height, width = images.shape
    cells = grid_patches(height, width, patches).to(images.device)
    return [torch.where(cells == cell, filling, images) for cell in range(patches)]


def rights(
    found: Answers, labels: Int64[Tensor, " batch"], truth: LeftTruth | None = None
) -> Rights:
    """Where a network is right, in up to four ways.

    Parameters
    ----------
    found : Answers
        Of the network.
    labels : Tensor, (B,)
        Of the whole images.
    truth : LeftTruth, optional
        For the last two.

    Returns
    -------
    dict of str to array, (B,)
        "whole": on the image. "worst": without whichever patch, so on the image without the worst one
        (the paper's accuracy on corrupted images). "same": without whichever patch of those that leave
        the label the truth. "left": without whichever patch, held against the color that wins then;
        ties are left out.
    """
    named = found.deleted == labels[:, None]
    right = {"whole": found.whole == labels, "worst": named.all(1)}
    if truth is not None:
        right["same"] = (named | ~truth.same).all(1)
        right["left"] = ((found.deleted == truth.winner) | (truth.winner < 0)).all(1)
    return {name: each.double().cpu().numpy() for name, each in right.items()}
