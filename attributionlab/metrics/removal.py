"""ROAD and Deletion by performance: how well a model answers as pixels are removed in order.

Unlike `deletion_curve`, which follows the model's output pixel by pixel, these ask an indicator such
as accuracy at a few fractions, with any imputation, and may train the model anew at each of them.
"""

from collections.abc import Callable
from typing import NamedTuple, Unpack

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from attributionlab.base import (
    AttributionLabError,
    checked_arguments,
    model_problems,
    refuse_if,
    shown,
)
from attributionlab.metrics.checked_inputs import Rising, checked_maps
from attributionlab.metrics.curves import area_under_curve
from attributionlab.metrics.marking import metric
from attributionlab.metrics.orders import Order, removal_order
from attributionlab.metrics.performance import Images, Performance, PerformanceOptions, Targets
from attributionlab.metrics.soundness_levels import Maps

ROAD_FRACTIONS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9)
"""As in the code of Rong et al."""


class Retraining(NamedTuple):
    """How to retrain a model on images from which pixels have been removed.

    Training images get their own noise: a model could learn labels from the noise of the test images at
    the same positions. If your imputation draws noise, it must not draw the same for both.

    - `images` (N, C, H, W): for training, within the value range.
    - `targets` (N,): their labels.
    - `attributions` (N, 1, H, W): their maps, by the method under test.
    - `fit`: `(images, targets) -> nn.Module`, in eval mode, with its own seed for randomness.
    """

    images: Tensor
    targets: Tensor
    attributions: Tensor
    fit: Callable[[Tensor, Tensor], nn.Module]


@checked_arguments
def removal_curve(
    model: nn.Module,
    images: Images,
    targets: Targets,
    attributions: Maps,
    *,
    order: Order = "morf",
    fractions: Rising = ROAD_FRACTIONS,
    retraining: Retraining | None = None,
    **setup: Unpack[PerformanceOptions],
) -> Float[Tensor, "batch fractions"]:
    """The indicator on each image after a fraction of its pixels has been removed in order.

    With the default imputation these are ROAD's curves, with a constant one Deletion's as in Li et al.
    (2024); with `retraining` they are ROAR's or, imputed, ROAD's with retraining. The data set's curve
    is the mean over images.

    Source: Rong, Leemann, Borisov, Kasneci and Kasneci (2022): A consistent and efficient evaluation
    strategy for attribution methods. ICML. Hooker, Erhan, Kindermans and Kim (2019): A benchmark for
    interpretability methods in deep neural networks. NeurIPS.

    Parameters
    ----------
    model, images, targets
        What is explained: (B, C, H, W) -> (B, K), images, labels.
    attributions : Tensor, (B, 1, H, W)
        With either sign.
    order : {"morf", "lerf"}
        Most or least relevant first. Lower is better for "morf", higher for "lerf".
    fractions : sequence of float
        Shares of pixels REMOVED, in [0, 1], increasing, for both orders (ROAD's code counts kept ones
        for LeRF). A fraction f removes round(f P) of P pixels; equal attributions in reading order.
    retraining : Retraining
        Train a new model at every fraction, on images from which that fraction has been removed.
    **setup
        `PerformanceOptions`: indicator, value_range, imputation, nothing_kept, seed, batch_size.

    Returns
    -------
    Tensor of float64, (B, S)

    Raises
    ------
    AttributionLabError
        For attributions that are not finite, fractions that do not rise within [0, 1], and what
        `Performance` refuses.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import removal_curve
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3, 2, bias=False)).eval()
    >>> _ = model[1].weight.data.copy_(torch.tensor([[1.0, 1, 0], [0, 0, 1]]))
    >>> image, label = torch.tensor([[[[1.0, 0.8, 0.5]]]]), torch.tensor([0])
    >>> black = lambda images, keep: images * keep
    >>> thirds = (0.0, 1 / 3, 2 / 3)
    >>> removal_curve(model, image, label, image, fractions=thirds, imputation=black)
    tensor([[1., 1., 0.]], dtype=torch.float64)
    """
    performance = Performance(model, images, targets, **setup)
    trained_on = None
    if retraining is not None:
        if not isinstance(retraining, Retraining) or not callable(retraining.fit):
            raise AttributionLabError(
                f"retraining is {shown(retraining)}: pass a Retraining, whose fit is a function of "
                "images and targets that returns a model"
            )
        other = PerformanceOptions(**setup)
        other["seed"] = _training_seed(performance.seed)
        trained_on = Performance(model, retraining.images, retraining.targets, **other)
    ranks = _ranks(attributions, images, order)
    training_ranks = None
    if retraining is not None:
        training_ranks = _ranks(retraining.attributions, retraining.images, order)
    values = []
    for fraction in fractions:
        retrained = None
        if trained_on is not None and training_ranks is not None and retraining is not None:
            left = trained_on.imputed(_kept(training_ranks, fraction))
            retrained = retraining.fit(left, trained_on.targets)
            refuse_if(model_problems(retrained), "what retraining.fit returned")
        values.append(performance.keeping(_kept(ranks, fraction), retrained))
    return torch.stack(values, dim=1)


@metric(
    higher_is_better=False,
    per_sample=False,
    unit="order",
    ties="reading order",
    neighbors="imputation",
)
@checked_arguments
def road(
    model: nn.Module,
    images: Images,
    targets: Targets,
    attributions: Maps,
    *,
    order: Order = "morf",
    fractions: Rising = ROAD_FRACTIONS,
    retraining: Retraining | None = None,
    **setup: Unpack[PerformanceOptions],
) -> Float[Tensor, ""]:
    """Mean height of the data set's `removal_curve`, with its parameters and errors.

    The area under the curve by the trapezoid rule, divided by the span of the fractions; in units of
    the indicator. Lower is better for `order="morf"`, higher for `order="lerf"`.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.metrics import road
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3, 2, bias=False)).eval()
    >>> _ = model[1].weight.data.copy_(torch.tensor([[1.0, 1, 0], [0, 0, 1]]))
    >>> image, label = torch.tensor([[[[1.0, 0.8, 0.5]]]]), torch.tensor([0])
    >>> black = lambda images, keep: images * keep
    >>> road(model, image, label, image, fractions=(0.0, 1 / 3, 2 / 3), imputation=black)
    tensor(0.7500, dtype=torch.float64)
    """
    if len(fractions) < 2:
        raise AttributionLabError(
            f"fractions are {list(fractions)}: pass at least two; the area is between them"
        )
    curves = removal_curve(
        model,
        images,
        targets,
        attributions,
        order=order,
        fractions=fractions,
        retraining=retraining,
        **setup,
    )
    at = torch.tensor(fractions, dtype=torch.float64, device="cpu")
    return area_under_curve(curves.mean(0), at) / (fractions[-1] - fractions[0])


def _ranks(attributions: Tensor, images: Tensor, order: Order) -> Tensor:
    """When each pixel is removed, (B, 1, H, W)."""
    checked_maps(attributions, (len(images), 1, images.shape[2], images.shape[3]))
    return removal_order(attributions, order=order).argsort(1).view(attributions.shape)


def _training_seed(seed: int) -> int:
    """A stream for the training images that is not the test images'."""
    return int(np.random.SeedSequence([seed, 1]).generate_state(1, np.uint64)[0])


def _kept(ranks: Tensor, fraction: float) -> Tensor:
    return ranks >= round(fraction * ranks[0].numel())
