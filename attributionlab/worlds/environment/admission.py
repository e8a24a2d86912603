"""What an environment takes: images of its box, targets that it has, counts up to its bound."""

from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Int, Real
from torch import Tensor

from attributionlab.base import (
    AttributionLabError,
    broadcast_to_images,
    number_problem,
    plain_problem,
    refuse_if,
    shown,
)
from attributionlab.worlds.environment.spec import known_colors
from attributionlab.worlds.truth.masks import Counting

if TYPE_CHECKING:
    from attributionlab.worlds.environment.environment import Environment


def refuse_absent(targets: Int[Tensor, " batch"], classes: int, name: str) -> None:
    """Refuse targets that a network does not have."""
    outside = targets[(targets < 0) | (targets >= classes)]
    if len(outside):
        raise AttributionLabError(
            f"target {int(outside[0])} does not exist: {name} has the outputs 0 to {classes - 1}"
            + (" (a regression's targets are zeros)" if classes == 1 else "")
        )


class Admission:
    """The checks of one environment."""

    def __init__(self, env: "Environment") -> None:
        self.env = env

    def images(self, images: Any) -> Real[Tensor, "batch channels height width"]:
        """Images, if they are integers in the valid box."""
        side, channels = self.env.recipe.image_size, self.env.recipe.channels
        shape_is_right = isinstance(images, Tensor) and images.shape[1:] == (channels, side, side)
        if not shape_is_right or not len(images):
            shape = tuple(images.shape) if isinstance(images, Tensor) else type(images).__name__
            raise AttributionLabError(
                f"images are {shape}: {self.env.spec.name} takes a tensor of shape (B, {channels}, "
                f"{side}, {side}), B at least 1"
            )
        checked: Tensor = images
        self._check_box(checked, "images")
        return checked

    def baselines(
        self, baseline: Any, images: Real[Tensor, "batch channels height width"]
    ) -> Real[Tensor, "batch channels height width"]:
        """A baseline, if it is integers in the valid box, in the images' shape."""
        if isinstance(baseline, int | float) and not isinstance(baseline, bool):
            refuse_if(number_problem("the baseline", baseline))
            baseline = torch.tensor(float(baseline))
        if not isinstance(baseline, Tensor):
            raise AttributionLabError(
                f"the baseline is {shown(baseline)}: pass a number or a tensor, 0 for black"
            )
        refuse_if(plain_problem("the baseline is", baseline))
        self._check_box(baseline, "the baseline")
        values = baseline.to(images.device, images.dtype)
        return broadcast_to_images(values, images, name="baseline")

    def targets(self, targets: Any, n: int) -> Int[Tensor, " batch"]:
        """One class index for each of n images."""
        try:
            targets = torch.as_tensor(targets)
        except (TypeError, ValueError, RuntimeError) as error:
            raise AttributionLabError(
                f"targets are {targets!r}: pass one integer for each of the {n} images"
            ) from error
        if targets.shape != (n,) or targets.is_floating_point() or targets.dtype == torch.bool:
            raise AttributionLabError(
                f"targets are {targets.dtype} of shape {tuple(targets.shape)}: pass one integer for "
                f"each of the {n} images"
            )
        indices: Tensor = targets.long()
        refuse_absent(indices, self.env.network.classes, self.env.spec.name)
        return indices

    def check_counts(
        self,
        images: Real[Tensor, "batch channels height width"],
        baselines: Real[Tensor, "batch channels height width"] | None = None,
    ) -> None:
        """Refuse images with more counted pixels than the network is right for.

        With baselines no mixture of an image and its baseline may have more.
        """
        if self.env.network.max_count >= self.env.recipe.image_size**2:
            return
        if baselines is None:
            most = int(self.env.counting.counts(images).max())
        else:
            counted, absent = (self.env.counting.classes_of(each) for each in (images, baselines))
            most = max(
                int(((counted == index) | (absent == index)).sum((1, 2, 3)).max())
                for index in range(self.env.network.classes)
            )
        if most > self.env.network.max_count:
            what = "an image" if baselines is None else "an image mixed with its baseline"
            raise AttributionLabError(
                f"{self.env.spec.name}: {what} has {most} counted pixels, but the network is exact up "
                f"to {self.env.network.max_count}: use smaller patches or a larger max_count"
            )

    def unseen(
        self, images: Real[Tensor, "batch channels height width"]
    ) -> Bool[Tensor, "batch 1 height width"]:
        """Pixels whose colors the network was not made for, where they change what it counts.

        They set off redundant channels, or graded detectors answer them; none where they count for
        nothing.
        """
        is_graded = self.env.network.equal_on == "palette"
        if not is_graded and not self.env.network.effective.get("redundant_strength"):
            return torch.zeros_like(images[:, :1], dtype=torch.bool)
        return Counting(known_colors(self.env.spec)).classes_of(images) < 0

    def check_colors(
        self, images: Real[Tensor, "batch channels height width"], remedy: str = ""
    ) -> None:
        """Refuse images with colors that change what the network counts though they should not."""
        unseen = self.unseen(images)
        if unseen.any():
            i, _, y, x = (int(k) for k in unseen.nonzero()[0])
            color = tuple(int(value) for value in images[i, :, y, x])
            what = remedy or (
                "no mask holds there; use the environment's own images"
                if self.env.network.equal_on == "palette"
                else "no mask holds there; set redundant_strength=0 or use the environment's own images"
            )
            raise AttributionLabError(
                f"image {i} has {int(unseen[i].sum())} pixels of colors that {self.env.spec.name} was "
                f"not made for, the first {color} at {(y, x)}: {what}"
            )

    def _check_box(self, values: Tensor, name: str) -> None:
        verb, have = ("is", "has") if name.startswith("the ") else ("are", "have")
        if values.is_complex() or values.dtype == torch.bool:
            raise AttributionLabError(f"{name} {verb} {values.dtype}: pass float32 numbers")
        top = self.env.network.highest
        outside = ~((values >= 0) & (values <= top) & (values == values.round()))
        if outside.any():
            where = tuple(int(i) for i in outside.nonzero()[0])
            raise AttributionLabError(
                f"{name} {have} the value {float(values[where]):g} at {where}: {self.env.spec.name} "
                f"takes integers in [0, {top}], not scaled or normalized ones"
            )
