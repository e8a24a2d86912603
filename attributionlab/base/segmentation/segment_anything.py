"""Superpixels from masks that overlap and leave gaps, such as those of Segment Anything (SAM)."""

import importlib
import importlib.util
import os
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from attributionlab.base.arguments import Count, Positive, checked_arguments
from attributionlab.base.errors import AttributionLabError
from attributionlab.base.references import tensors_in
from attributionlab.base.segmentation.superpixels import Image, Labels, as_rgb, contiguous

EMBEDDING = {768: "vit_b", 1024: "vit_l", 1280: "vit_h"}
"""The image encoder's width tells the three published architectures apart."""
PATCHES = "segmentation='patches' needs no weights"


@runtime_checkable
class MaskGenerator(Protocol):
    """Anything that finds masks, as `SamAutomaticMaskGenerator` does."""

    def generate(self, image: NDArray[np.uint8]) -> list[dict[str, Any]]:
        """(H, W, 3) in [0, 255] -> dicts whose entry "segmentation" is a bool mask (H, W)."""


@checked_arguments
def partition(masks: MaskGenerator, image: Image, highest: Positive) -> Labels:
    """Assign each pixel to the smallest mask that contains it; the rest is one more superpixel.

    Parameters
    ----------
    masks : MaskGenerator
        Generator of the masks; of masks equal in size the later one wins.
    image, highest
        As for `quickshift`.

    Raises
    ------
    AttributionLabError
        If a mask has another shape than the image.
    """
    pixels = np.rint(255 * as_rgb(image, highest)).astype(np.uint8)
    found = [np.asarray(record["segmentation"], dtype=bool) for record in masks.generate(pixels)]
    labels = np.zeros(pixels.shape[:2], dtype=np.int64)
    for mask in found:
        if mask.shape != labels.shape:
            raise AttributionLabError(
                f"{type(masks).__name__}.generate returned a mask of shape {mask.shape} for an image "
                f"of {labels.shape}: return bool masks of the image's size (output_mode='binary_mask')"
            )
    for number, mask in enumerate(sorted(found, key=np.sum, reverse=True), start=1):
        labels[mask] = number
    return contiguous(labels, image)


@checked_arguments
def sam(
    image: Image,
    highest: Positive,
    *,
    weights: str | os.PathLike[str] | None = None,
    model_type: Literal["vit_b", "vit_l", "vit_h"] | None = None,
    points_per_side: Count = 32,
    pred_iou_thresh: float = 0.88,
    stability_score_thresh: float = 0.95,
    box_nms_thresh: float = 0.7,
) -> Labels:
    """Segment Anything's automatic masks, made a partition (`partition`).

    Source: Kirillov et al., 2023. Needs the extra `sam` and a file of weights, which is read as plain
    tensors only. The model is kept for the next image. Settings are the library's own defaults;
    AttributionLab states none. Another generator of masks is passed to `lime` as an object with
    `generate`.

    Parameters
    ----------
    image, highest
        As for `quickshift`.
    weights : path
        A state dict of one of the three published architectures.
    model_type : {"vit_b", "vit_l", "vit_h"}, optional
        The architecture; read off the weights by default.
    points_per_side : int
        Prompts along each side; their square is the number of decoder passes.
    pred_iou_thresh, stability_score_thresh, box_nms_thresh : float
        Which masks are kept: predicted quality, stability, and overlap with better ones.

    Raises
    ------
    AttributionLabError
        Without weights, for an invalid file, and if a required library is missing.
    """
    if weights is None:
        raise AttributionLabError(
            "segmentation 'sam' has no weights: download a checkpoint of Segment Anything and pass "
            f"weights=PATH; {PATCHES}"
        )
    path = Path(weights)
    if not os.path.isfile(path):  # unlike Path.is_file, also answers for impossible names
        raise AttributionLabError(
            f"no file of SAM weights at {str(path)!r}: check the path; {PATCHES}"
        )
    model = _load(path.resolve(), path.stat().st_mtime_ns, model_type).to(image.device)
    masks = _library().SamAutomaticMaskGenerator(
        model,
        points_per_side=points_per_side,
        pred_iou_thresh=pred_iou_thresh,
        stability_score_thresh=stability_score_thresh,
        box_nms_thresh=box_nms_thresh,
    )
    return partition(masks, image, highest)


def _library() -> Any:
    """segment-anything, or a refusal with the remedy for what is missing."""
    if importlib.util.find_spec("segment_anything") is None:
        raise AttributionLabError(
            "segment-anything is not installed: pip install 'attributionlab[sam]'"
        )
    try:
        importlib.import_module("torchvision")
    except ModuleNotFoundError as error:
        raise AttributionLabError(
            "segment-anything needs torchvision, which is not installed: pip install torchvision"
        ) from error
    except (RuntimeError, ImportError, OSError) as error:
        # Its compiled operators belong to one release of torch.
        raise AttributionLabError(
            f"torchvision is installed but does not match torch {torch.__version__}: install the "
            "release made for it (pip install --upgrade torch torchvision together)"
        ) from error
    return importlib.import_module("segment_anything")


@lru_cache(maxsize=1)
def _load(path: Path, modified: int, model_type: str | None) -> nn.Module:
    """The model with its weights; `modified` makes a changed file another one."""
    library = _library()
    state = _state_dict(path)
    width = state.get("image_encoder.pos_embed", torch.empty(0)).shape[-1]
    kind = model_type or EMBEDDING.get(width)
    if kind is None:
        raise AttributionLabError(
            f"{str(path)!r} does not hold weights of SAM's vit_b, vit_l or vit_h: pass one of the "
            "published checkpoints"
        )
    with torch.random.fork_rng(devices=[]):  # initial weights draw from the global state
        model: nn.Module = library.sam_model_registry[kind]()
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        raise AttributionLabError(
            f"{str(path)!r} does not fit the architecture {kind}: pass the model_type that it was "
            "made for, or none"
        ) from error
    return model.eval()


def _state_dict(path: Path) -> dict[str, torch.Tensor]:
    """Tensors by name; nothing in the file is executed."""
    try:
        state = tensors_in(path)
    except Exception as error:  # torch, pickle and zipfile each have exceptions of their own
        raise AttributionLabError(
            f"{str(path)!r} is not a state dict that torch can load safely: pass a published checkpoint"
        ) from error
    if not isinstance(state, dict) or not all(isinstance(v, torch.Tensor) for v in state.values()):
        raise AttributionLabError(
            f"{str(path)!r} holds {type(state).__name__}, not tensors by name: pass a state dict"
        )
    return state
