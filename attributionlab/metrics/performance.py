"""How well a model still answers when only some pixels of the images are kept.

What soundness, completeness and ROAD share: `Setup` lists the keywords that each of them takes.
"""

from collections.abc import Callable
from typing import Any, TypedDict

import torch
from jaxtyping import Bool, Float, Int, Real
from torch import Tensor, nn

from attributionlab.errors import AttributionLabError, refuse_if
from attributionlab.imputation import noisy_linear
from attributionlab.metrics.checked_inputs import seed_problem
from attributionlab.metrics.indicators import Indicator, indicator_of
from attributionlab.validation import (
    Replacement,
    broadcast_replacement,
    checked_images,
    checked_outputs,
    checked_targets,
    integer_problem,
    number_problem,
    shown,
)

__all__ = ["Images", "Performance", "Setup", "Targets"]

Images = Real[Tensor, "batch channels height width"]
Targets = Int[Tensor, " batch"]

NOISE = 0.01
"""Of the imputation by default, in units of the value range (Rong et al., 2022)."""


class Setup(TypedDict, total=False):
    """Keywords of every metric that measures a model's performance on a data set.

    Parameters
    ----------
    indicator : "accuracy" or callable
        `(outputs (B, K), targets (B,)) -> (B,)`; the performance is its mean. Accuracy by default.
    value_range : (float, float)
        Least and largest value of images; (0, 1) by default. Images outside of it are refused.
    imputation : callable
        `(images, keep) -> images`: what removed pixels become, such as
        `functools.partial(attributionlab.imputation.constant, value=0.0)`. By default
        `noisy_linear` with noise of 0.01 value ranges, the same noise for every mask.
    nothing_kept : float or Tensor
        What an image becomes of which no pixel is kept: a number, a pixel (C, 1, 1) or an image. By
        default such an image is refused, because nothing is left to impute from.
    seed : int
        Of the noise; 0 by default.
    batch_size : int
        Images in one forward pass; 64 by default.
    """

    indicator: Indicator
    value_range: tuple[float, float]
    imputation: Callable[[Tensor, Tensor], Tensor] | None
    nothing_kept: Replacement | None
    seed: int
    batch_size: int


class Performance:
    """Of one model on one data set, whatever is removed from its images.

    Parameters
    ----------
    model : nn.Module
        (B, C, H, W) -> (B, K), in eval mode.
    images : Tensor, (B, C, H, W)
        Within the value range.
    targets : Tensor of int, (B,)
        Labels.
    **setup
        As `Setup` says.

    Raises
    ------
    AttributionLabError
        For an empty data set, images that are not floating-point or leave the value range, labels that
        the model does not have (if the indicator needs them), outputs that are NaN, and impossible
        settings.
    """

    def __init__(
        self,
        model: nn.Module,
        images: Images,
        targets: Targets,
        *,
        indicator: Indicator = "accuracy",
        value_range: tuple[float, float] = (0.0, 1.0),
        imputation: Callable[[Tensor, Tensor], Tensor] | None = None,
        nothing_kept: Replacement | None = None,
        seed: int = 0,
        batch_size: int = 64,
    ) -> None:
        refuse_if([*seed_problem(seed), *integer_problem("batch_size", batch_size, 1)])
        self.images = checked_images(images).detach()
        if not self.images.is_floating_point():
            raise AttributionLabError(
                f"images are {shown(images)}: pass floating-point ones, images.float() for example"
            )
        checked_targets(targets, len(images))
        _refuse_outside(self.images, *_checked_range(value_range))
        if imputation is not None and not callable(imputation):
            raise AttributionLabError(
                f"imputation is {imputation!r}: pass a function of images and keep, such as "
                "functools.partial(attributionlab.imputation.constant, value=0.0)"
            )
        self.model, self.targets = model, targets.to(images.device)
        self.indicator, self.imputation = indicator_of(indicator), imputation
        self.width = float(value_range[1]) - float(value_range[0])
        self.seed, self.batch_size = seed, batch_size
        self.empty = None if nothing_kept is None else _checked_filling(nothing_kept, self.images)

    @property
    def map_shape(self) -> tuple[int, int, int, int]:
        """Of attributions and masks: (B, 1, H, W)."""
        return (len(self.images), 1, self.images.shape[2], self.images.shape[3])

    def intact(self) -> Float[Tensor, " batch"]:
        """The indicator on the images as they are."""
        return self.on(self.images.clone())  # a layer that works in place spoils a copy

    def keeping(
        self, keep: Bool[Tensor, "batch 1 height width"], model: nn.Module | None = None
    ) -> Float[Tensor, " batch"]:
        """The indicator where only some pixels are kept, of another model if one is given."""
        return self.on(self.imputed(keep), model)

    def imputed(self, keep: Bool[Tensor, "batch 1 height width"]) -> Float[Tensor, "..."]:
        """The images of which only some pixels are kept, the others made up."""
        emptied = ~keep.flatten(1).any(1)
        if not bool(emptied.any()):
            return self._imputed(self.images, keep)
        if self.empty is None:
            raise AttributionLabError(
                f"no pixel of image {int(emptied.nonzero()[0])} is kept ({int(emptied.sum())} of "
                f"{len(keep)} images): nothing is left to impute from; pass nothing_kept=, a number or "
                "a pixel (C, 1, 1) that such images are filled with"
            )
        # One pixel stands in, so that the noise of the other images stays what it is.
        stand_in = keep | emptied[:, None, None, None]
        return torch.where(
            emptied[:, None, None, None], self.empty, self._imputed(self.images, stand_in)
        )

    def on(self, images: Tensor, model: nn.Module | None = None) -> Float[Tensor, " batch"]:
        """The indicator on other images of the same labels."""
        asked, parts = self.model if model is None else model, []
        with torch.no_grad():
            for start in range(0, len(images), self.batch_size):
                part = slice(start, start + self.batch_size)
                labels = self.targets[part]
                outputs = checked_outputs(asked(images[part]), len(labels))
                if bool(outputs.isnan().any()):
                    image = start + int(outputs.isnan().any(1).nonzero()[0])
                    raise AttributionLabError(
                        f"the model's output is NaN for image {image}, or for what is left of it: pass "
                        "another model, value_range or imputation"
                    )
                parts.append(self.indicator(outputs, labels))
        return torch.cat(parts)

    def _imputed(self, images: Tensor, keep: Tensor) -> Tensor:
        if self.imputation is None:
            generator = torch.Generator().manual_seed(self.seed)
            return noisy_linear(
                images, keep, noise=NOISE, value_range=self.width, generator=generator
            )
        made: Any = self.imputation(images.clone(), keep)
        fits = isinstance(made, Tensor) and (made.shape, made.dtype) == (images.shape, images.dtype)
        if not fits or not bool(made.isfinite().all()):
            raise AttributionLabError(
                f"the imputation returned {shown(made)}{' with NaN or infinity' if fits else ''}: "
                f"return finite images, {shown(images)}"
            )
        imputed: Tensor = made.detach()
        return imputed


def _checked_filling(nothing_kept: Any, images: Tensor) -> Tensor:
    filling = broadcast_replacement(nothing_kept, images)
    if filling.is_complex() or not bool(filling.isfinite().all()):
        raise AttributionLabError(
            f"nothing_kept is {nothing_kept!r}: pass a number or a pixel (C, 1, 1) of finite values"
        )
    return filling.detach().to(images)


def _checked_range(value_range: Any) -> tuple[float, float]:
    if not isinstance(value_range, tuple | list) or len(value_range) != 2:
        raise AttributionLabError(
            f"value_range is {value_range!r}: pass the least and largest value, (0, 255) for example"
        )
    low, high = value_range
    refuse_if([*number_problem("the least value", low), *number_problem("the largest value", high)])
    if low >= high:
        raise AttributionLabError(
            f"value_range is ({low:g}, {high:g}): the least value comes first, (0, 255) for example"
        )
    return float(low), float(high)


def _refuse_outside(images: Tensor, low: float, high: float) -> None:
    outside = ~((images >= low) & (images <= high))  # NaN, too
    if bool(outside.any()):
        image = int(outside.flatten(1).any(1).nonzero()[0])
        value = float(images[image][outside[image]][0])
        raise AttributionLabError(
            f"image {image} has the value {value:g}, outside of value_range ({low:g}, {high:g}): pass "
            "the range that the images have, (0, 255) for example"
        )
