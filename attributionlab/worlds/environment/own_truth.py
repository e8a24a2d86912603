"""A truth of the user's own: read from tensors or asked of a function, and looked up by image."""

import hashlib
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from attributionlab.base import (
    AttributionLabError,
    format_error,
    in_one_line,
    place_of,
    plain_problem,
    refuse_if,
    shown,
)
from attributionlab.worlds.truth.masks import Truth

StatedTruth = Tensor | np.ndarray[Any, Any] | Truth
"""Maps of -1, 0, +1 and NaN, (N, H, W), (N, 1, H, W) or one a class (N, K, H, W); or masks."""


class OwnTruth:
    """A user's truth of N images.

    `stated`: as `custom_environment` takes it. `images`, `targets` (N, C, H, W): what it is about.
    `classes`: number of outputs, K.

    Raises AttributionLabError with all that is wrong with it.
    """

    def __init__(self, stated: Any, images: Tensor, targets: Tensor, classes: int) -> None:
        self.images, self.targets, self.classes = images, targets, classes
        self.function: Callable[[Tensor, Tensor], Any] | None = None
        if callable(stated):
            self.function = stated
            self.maps = [self._asked_of_function(images, targets)]
        else:
            self.maps = read_truth(stated, images, classes)
        # A target of its own for each image, or all of them.
        self.has_all_targets = self.function is not None or len(self.maps) == classes
        # The row of each image, which equal images share, if their truths are equal.
        self.rows: dict[tuple[bytes, int], int] = {}
        for row, (image, target) in enumerate(zip(images, targets, strict=True)):
            key = _name_of(image), self._known_target(int(target))
            first = self.rows.setdefault(key, row)
            for truth, part in product(self.maps, ("signed", "relevant", "asked")):
                masks = getattr(truth, part)
                if not torch.equal(masks[first], masks[row]):
                    raise AttributionLabError(
                        f"images {first} and {row} are equal, but their truths differ: the truth "
                        "must be a function of image and target; leave one of the images out"
                    )

    def _known_target(self, target: int) -> int:
        return -1 if self.has_all_targets else target

    def __call__(
        self, images: Float[Tensor, "batch channels height width"], targets: Int[Tensor, " batch"]
    ) -> Truth:
        """The truth of some images, in any order; of other images if the truth is a function."""
        if self.function is not None:
            return self._asked_of_function(images, targets)
        found = []
        for index, (image, target) in enumerate(zip(images, targets.tolist(), strict=True)):
            name = _name_of(image)
            row = self.rows.get((name, self._known_target(target)))
            if row is None:
                raise AttributionLabError(self._unknown(index, name, target))
            found.append(self.maps[target if len(self.maps) > 1 else 0].part(slice(row, row + 1)))
        return Truth.joined(found)

    def _unknown(self, index: int, name: bytes, target: int) -> str:
        """Why there is no truth for image `index`."""
        known = [own for key, own in self.rows if key == name]
        if known:
            return (
                f"the truth of image {index} is stated for target {known[0]}, not {target}: state one "
                f"map a class, (N, {self.classes}, H, W), or a function"
            )
        return (
            f"image {index} is not among the {len(self.images)} whose truth is stated: take images of "
            "env.batch, or state the truth as a function of images and targets"
        )

    def _asked_of_function(self, images: Tensor, targets: Tensor) -> Truth:
        assert self.function is not None
        with in_one_line(
            lambda error: (
                f"the truth, a function, raised {format_error(error)}{place_of(error)}: it takes "
                f"images {tuple(images.shape)} and targets {tuple(targets.shape)}"
            )
        ):
            stated = self.function(images.clone(), targets.clone())
        return read_truth(stated, images, 1)[0]


def read_truth(stated: Any, images: Tensor, classes: int) -> list[Truth]:
    """Masks of images, one for each class or one for all; refuses what states none."""
    n, _, height, width = images.shape
    if isinstance(stated, Truth):
        refuse_if(_problems_of_masks(stated, (n, 1, height, width)), "the truth")
        return [stated.to(torch.device("cpu"))]
    if isinstance(stated, np.ndarray) and stated.dtype.kind in "biuf":
        stated = torch.from_numpy(stated.astype(np.float64))  # any strides and order of bytes
    if isinstance(stated, Tensor):
        refuse_if(plain_problem("the truth is", stated))
    sizes = dict.fromkeys([1, classes])
    shapes = [(n, height, width), *((n, maps, height, width) for maps in sizes)]
    if not isinstance(stated, Tensor) or tuple(stated.shape) not in shapes:
        raise AttributionLabError(
            f"the truth is {shown(stated)}: pass numbers of shape "
            f"{' or '.join(map(str, shapes))}, an attributionlab.Truth, or a function"
        )
    values = stated.detach().cpu().double().reshape(n, -1, height, width)
    asked = ~values.isnan()
    signed = values.nan_to_num(0.0, posinf=torch.inf, neginf=-torch.inf)
    wrong = ~torch.isin(signed, torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64))
    if wrong.any():
        image, _, y, x = (int(place) for place in wrong.nonzero()[0])
        raise AttributionLabError(
            f"the truth has {int(wrong.sum())} values other than -1, 0, +1 and NaN, the first "
            f"{float(signed[wrong][0]):g} in image {image} at pixel {(y, x)}: state signs, and NaN "
            "where a pixel is not scored; for sizes, pass np.sign(sizes)"
        )
    return [
        Truth(signed[:, place].to(torch.int8), asked=asked[:, place])
        for place in (slice(at, at + 1) for at in range(values.shape[1]))
    ]


def _problems_of_masks(truth: Truth, shape: Sequence[int]) -> list[str]:
    """What is wrong with masks that the user has made, which have one shape and the right types."""
    if truth.signed.shape != torch.Size(shape):
        return [f"signed is {shown(truth.signed)}: pass torch.int8 of shape {tuple(shape)}"]
    problems = []
    if not torch.isin(truth.signed, torch.tensor([-1, 0, 1]).to(truth.signed)).all():
        problems.append("signed has values other than -1, 0 and +1: state signs")
    if ((truth.signed != 0) & ~truth.relevant).any():
        problems.append("pixels that have a sign are not relevant: set relevant there")
    return problems


def _name_of(image: Tensor) -> bytes:
    """What tells an image from others, wherever it lies in memory; -0 is 0."""
    values = (image.detach().cpu().float() + 0.0).contiguous().numpy()
    return hashlib.sha256(values.tobytes()).digest()
