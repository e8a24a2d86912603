"""How well a model still answers when only some pixels of the images are kept.

Soundness, completeness and ROAD share this: `PerformanceOptions` lists the keywords of each.

A performance indicator is a function `(outputs (B, K), targets (B,)) -> (B,)`, higher for better
answers; the performance on a data set is its mean.
"""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Annotated, Any, Literal, TypedDict

import torch
from jaxtyping import Bool, Float, Int, Real
from torch import Tensor, nn

from attributionlab.base import (
    AttributionLabError,
    Count,
    Positive,
    Replacement,
    Seed,
    ascending,
    asked,
    broadcast_replacement,
    checked_arguments,
    checked_targets,
    exact_arithmetic,
    shown,
)
from attributionlab.metrics.imputation.linear import noisy_linear

Images = Float[Tensor, "batch channels height width"]
Targets = Int[Tensor, " batch"]
Outputs = Real[Tensor, "batch outputs"]
Scores = Float[Tensor, " batch"]

NOISE = 0.01
"""Noise of the imputation by default, in units of the value range (Rong et al., 2022)."""

Indicator = Literal["accuracy"] | Callable[[Tensor, Tensor], Tensor]
"""By name, or any function of outputs and targets."""

ROUNDING = 1e-12
"""By which a mean of float64 numbers may be off: 0.61 - 0.6 > 0.01, and 0.3 - 0.2 < 0.1."""
STEPS = 4
"""Units of a coarser type by which its numbers may be off: 2^-21 of a float32."""


@checked_arguments
def accuracy(outputs: Outputs, targets: Targets) -> Scores:
    """1 where the label has the largest output, and 1 / m where it shares it with m - 1 others.

    This is the chance of being right if ties are broken at random: outputs of an image without content
    tie on every class, and no class should win by its index.

    Parameters
    ----------
    outputs : Tensor, (B, K)
        Logits or probabilities, K at least 2.
    targets : Tensor of int, (B,)
        Labels.

    Returns
    -------
    Tensor of float64, (B,)

    Raises
    ------
    AttributionLabError
        For outputs that are NaN, of one class, or not (B, K), and for labels out of range.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import accuracy
    >>> outputs = torch.tensor([[3.0, 1.0], [1.0, 3.0], [2.0, 2.0]])
    >>> accuracy(outputs, torch.tensor([0, 0, 0]))
    tensor([1.0000, 0.0000, 0.5000], dtype=torch.float64)
    """
    _refuse_other_than_classes(outputs, targets)
    best = outputs == outputs.amax(1, keepdim=True)
    right = best.gather(1, targets[:, None].long())[:, 0]
    return right.double() / best.sum(1)


@checked_arguments
def label_probability(outputs: Outputs, targets: Targets, *, temperature: Positive = 1.0) -> Scores:
    r"""Softmax probability of the label, at a temperature at which it is not saturated.

    .. math:: p = e^{z_y / T} / \sum_k e^{z_k / T}

    Parameters
    ----------
    outputs : Tensor, (B, K)
        Logits z (not probabilities), K at least 2.
    targets : Tensor of int, (B,)
        Labels y.
    temperature : float
        T, in units of the logits.

    Returns
    -------
    Tensor of float64, (B,)
        1 / K where all logits are equal.

    Raises
    ------
    AttributionLabError
        For what `accuracy` refuses, infinite outputs, and a temperature that is not above 0.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import label_probability
    >>> label_probability(torch.tensor([[300.0, 0.0]]), torch.tensor([0]), temperature=300)
    tensor([0.7311], dtype=torch.float64)
    """
    _refuse_other_than_classes(outputs, targets)
    logits = outputs.double()
    # Less the largest before the division, which may overflow.
    probabilities = ((logits - logits.amax(1, keepdim=True)) / float(temperature)).softmax(1)
    if bool(probabilities.isnan().any()):
        raise AttributionLabError(
            "outputs of an image are infinite, and their softmax is undefined: pass finite ones"
        )
    return probabilities.gather(1, targets[:, None].long())[:, 0]


def indicator_of(indicator: object) -> Callable[[Tensor, Tensor], Tensor]:
    """The function that an indicator names, or that it is; what it returns is checked."""
    if isinstance(indicator, str) and indicator == "accuracy":
        return accuracy
    if not callable(indicator):
        raise AttributionLabError(
            f"indicator is {indicator!r}: take 'accuracy', or a function of outputs (B, K) and targets "
            "(B,), such as functools.partial(label_probability, temperature=256)"
        )

    def checked(outputs: Tensor, targets: Tensor) -> Tensor:
        values = indicator(outputs, targets)
        if not isinstance(values, Tensor) or values.shape != targets.shape or values.is_complex():
            raise AttributionLabError(
                f"the indicator returned {shown(values)} for {len(targets)} images: return one real "
                "number for each"
            )
        if not bool(values.isfinite().all()):
            raise AttributionLabError(
                "the indicator returned numbers that are NaN or infinite: return finite ones"
            )
        return values

    return checked


def precision_of(dtype: torch.dtype) -> float:
    """By which share of themselves numbers of a type, and means of them, may be off."""
    return max(ROUNDING, STEPS * torch.finfo(dtype).eps) if dtype.is_floating_point else ROUNDING


class PerformanceOptions(TypedDict, total=False):
    """Keywords of every metric that measures a model's performance on a data set.

    Parameters
    ----------
    indicator : "accuracy" or callable
        `(outputs (B, K), targets (B,)) -> (B,)`; the performance is its mean. Accuracy by default.
    value_range : (float, float)
        Least and largest value of images; (0, 1) by default. Images outside of it are refused.
    imputation : callable
        `(images, keep) -> images`: what removed pixels become, such as
        `functools.partial(attributionlab.imputation.constant, value=0.0)`. It gets all images at once.
        By default `noisy_linear` with noise of 0.01 value ranges, the same noise for every mask.
    nothing_kept : float or Tensor
        Replacement for an image without kept pixels: a number, a pixel (C, 1, 1) or an image, within
        the value range. By default such an image is refused, because there is nothing to impute from.
    seed : int
        Seed for the noise; 0 by default.
    batch_size : int
        Images in one forward pass; 64 by default.
    """

    indicator: Indicator
    value_range: Annotated[tuple[float, float], ascending]
    imputation: Callable[[Tensor, Tensor], Tensor] | None
    nothing_kept: Replacement | None
    seed: Seed
    batch_size: Count


class Performance:
    """Performance of one model on one data set, whatever is removed from its images.

    - `model`: (B, C, H, W) -> (B, K), in eval mode.
    - `images`: within the value range.
    - `**setup`: `PerformanceOptions`.

    Raises AttributionLabError for a model in training mode, an empty data set, images that are not
    floating-point or leave the value range, labels that the model does not have (if the indicator needs
    them), outputs that are NaN, and impossible settings.

    `precision`: by which share of themselves the indicator's numbers so far may be off, because of
    their type. `empty` (B, C, H, W): what images become of which nothing is kept.
    """

    @checked_arguments
    def __init__(
        self,
        model: nn.Module,
        images: Images,
        targets: Targets,
        *,
        indicator: Indicator = "accuracy",
        value_range: Annotated[tuple[float, float], ascending] = (0.0, 1.0),
        imputation: Callable[[Tensor, Tensor], Tensor] | None = None,
        nothing_kept: Replacement | None = None,
        seed: Seed = 0,
        batch_size: Count = 64,
    ) -> None:
        self.images = images.detach()
        low, high = value_range
        _refuse_outside(self.images, low, high)
        self.model, self.targets = model, targets.to(images.device)
        self.indicator, self.imputation = indicator_of(indicator), imputation
        self.width, self.seed, self.batch_size = high - low, seed, batch_size
        self.empty = None
        if nothing_kept is not None:
            self.empty = _checked_filling(nothing_kept, self.images, low, high)
        self.precision = 0.0

    @property
    def map_shape(self) -> tuple[int, int, int, int]:
        """Shape of attributions and masks: (B, 1, H, W)."""
        return (len(self.images), 1, self.images.shape[2], self.images.shape[3])

    def intact(self) -> Float[Tensor, " batch"]:
        """The indicator on the images as they are."""
        return self.on(self.images)

    def keeping(
        self, keep: Bool[Tensor, "batch 1 height width"], model: nn.Module | None = None
    ) -> Float[Tensor, " batch"]:
        """The indicator where only some pixels are kept, of another model if one is given."""
        return self._scored(self._left(keep), model)

    def imputed(self, keep: Bool[Tensor, "batch 1 height width"]) -> Float[Tensor, "..."]:
        """The images of which only some pixels are kept, the others made up."""
        left = self._left(keep)
        return torch.cat([left(part) for part in self._parts()])

    def on(self, images: Tensor) -> Float[Tensor, " batch"]:
        """The indicator on other images of the same labels."""
        return self._scored(lambda part: images[part], None)

    def _parts(self) -> Iterator[slice]:
        """Parts of the data set, a batch each."""
        for start in range(0, len(self.images), self.batch_size):
            yield slice(start, start + self.batch_size)

    def _scored(self, shown_of: Callable[[slice], Tensor], model: nn.Module | None) -> Tensor:
        evaluated, found = self.model if model is None else model, []
        with torch.no_grad(), exact_arithmetic():
            for part in self._parts():
                labels = self.targets[part]
                outputs = asked(evaluated, shown_of(part))
                if bool(outputs.isnan().any()):
                    image = part.start + int(outputs.isnan().any(1).nonzero()[0])
                    raise AttributionLabError(
                        f"the model's output is NaN for image {image}, or for what is left of it: pass "
                        "another model, value_range or imputation"
                    )
                values = self.indicator(outputs, labels)
                self.precision = max(self.precision, precision_of(values.dtype))
                found.append(values.double())
        return torch.cat(found)

    def _left(self, keep: Tensor) -> Callable[[slice], Tensor]:
        """What is left of a part of the data set, interpolated when it is needed."""
        emptied = ~keep.flatten(1).any(1)
        if self.empty is None and bool(emptied.any()):
            raise AttributionLabError(
                f"no pixel of image {int(emptied.nonzero()[0])} is kept ({int(emptied.sum())} of "
                f"{len(keep)} images): imputation needs at least one pixel; pass nothing_kept=, "
                "a number or a pixel (C, 1, 1) that fills such images"
            )
        emptied = emptied[:, None, None, None]
        solvable = keep | emptied
        made = None if self.imputation is None else self._made(self.imputation, solvable)

        def left(part: slice) -> Tensor:
            some = self._interpolated(part, solvable[part]) if made is None else made[part]
            return (
                some if self.empty is None else torch.where(emptied[part], self.empty[part], some)
            )

        return left

    def _interpolated(self, part: slice, keep: Tensor) -> Tensor:
        images = self.images[part]
        linear = noisy_linear(images, keep, noise=0, value_range=self.width)
        return torch.where(keep, images, linear + self._noise[part])

    @cached_property
    def _noise(self) -> Tensor:
        """One draw for all images, so that it depends on neither the mask nor the batch size."""
        generator = torch.Generator().manual_seed(self.seed)
        drawn = torch.randn(
            self.images.shape, generator=generator, dtype=torch.float64, device="cpu"
        )
        return drawn.mul_(NOISE * self.width).to(self.images)

    def _made(self, imputation: Callable[[Tensor, Tensor], Tensor], keep: Tensor) -> Tensor:
        """All images by somebody's imputation, which may hold something for each of them."""
        images = self.images
        made: Any = imputation(images.clone(), keep)
        fits = isinstance(made, Tensor) and (made.shape, made.dtype) == (images.shape, images.dtype)
        if not fits or not bool(made.isfinite().all()):
            raise AttributionLabError(
                f"the imputation returned {shown(made)}{' with NaN or infinity' if fits else ''}: "
                f"return finite images, {shown(images)}"
            )
        imputed: Tensor = made.detach()
        return imputed


def _checked_filling(nothing_kept: Any, images: Tensor, low: float, high: float) -> Tensor:
    filling = broadcast_replacement(nothing_kept, images)
    if filling.is_complex():
        raise AttributionLabError(f"nothing_kept is {shown(nothing_kept)}: pass real numbers")
    outside = ~((filling >= low) & (filling <= high))  # NaN, too
    if bool(outside.any()):
        raise AttributionLabError(
            f"nothing_kept has the value {float(filling[outside][0]):g}: pass a number or a pixel "
            f"(C, 1, 1) within value_range ({low:g}, {high:g})"
        )
    return filling.detach().to(images)


def _refuse_outside(images: Tensor, low: float, high: float) -> None:
    outside = ~((images >= low) & (images <= high))  # NaN, too
    if bool(outside.any()):
        image = int(outside.flatten(1).any(1).nonzero()[0])
        value = float(images[image][outside[image]][0])
        raise AttributionLabError(
            f"image {image} has the value {value:g}, outside of value_range ({low:g}, {high:g}): pass "
            "the range that the images have, (0, 255) for example"
        )


def _refuse_other_than_classes(outputs: Tensor, targets: Tensor) -> None:
    if not isinstance(outputs, Tensor) or outputs.ndim != 2 or outputs.is_complex():
        raise AttributionLabError(
            f"outputs are {shown(outputs)}: pass real numbers of shape (B, K), a row for each image"
        )
    labels, classes = checked_targets(targets, len(outputs)), outputs.shape[1]
    if classes < 2:
        raise AttributionLabError(
            f"outputs are {shown(outputs)}: this indicator compares classes; pass indicator=, a "
            "function of outputs (B, K) and targets (B,)"
        )
    for label in labels:
        if not 0 <= label < classes:
            raise AttributionLabError(
                f"a target is {label}: the model has {classes} outputs, pass 0 to {classes - 1}"
            )
    if bool(outputs.isnan().any()):
        raise AttributionLabError("outputs of an image are NaN: there is no largest class")
