"""Baselines: what "absent" means, in any form that a user may write it."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy.ndimage import gaussian_filter
from torch import Tensor

from attributionlab.base import AttributionLabError, plain_problem, refuse_if, written

Baselines = float | Sequence[float] | np.ndarray[Any, Any] | Tensor
"""A number; one number for each channel; or an array that broadcasts to the images."""


def as_baselines(
    baselines: Baselines, inputs: Float[Tensor, "batch channels height width"]
) -> Float[Tensor, "batch channels height width"]:
    """One baseline image for each input.

    Parameters
    ----------
    baselines : float, sequence of float, ndarray or Tensor
        A number for all channels, (C,) one for each channel, (C, 1, 1) a pixel, (C, H, W) an image, or
        (B, C, H, W) an image for each input.
    inputs : Tensor, (B, C, H, W)
        The images, which determine shape, type and device.

    Raises
    ------
    AttributionLabError
        For any other shape, and for values that are not finite.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.methods import as_baselines
    >>> as_baselines((20, 20, 20), torch.zeros(2, 3, 8, 8)).shape
    torch.Size([2, 3, 8, 8])
    """
    channels = inputs.shape[1]
    try:
        # In the images' own type from the start: by way of float32 a float64 would lose digits.
        values = torch.as_tensor(baselines, dtype=inputs.dtype, device=inputs.device)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise AttributionLabError(
            f"baselines are {written(baselines)}: pass a number, {channels} numbers, or an array"
        ) from error
    refuse_if(plain_problem("baselines are", values))
    pixel = values[:, None, None] if values.ndim == 1 else values
    fits = pixel.ndim <= 4 and all(
        have in (1, want)
        for have, want in zip(reversed(pixel.shape), reversed(inputs.shape), strict=False)
    )
    if not fits or not pixel.numel():
        raise AttributionLabError(
            f"baselines have shape {tuple(values.shape)}: pass a number, {channels} numbers, or an "
            f"array that broadcasts to {tuple(inputs.shape)}"
        )
    if not pixel.isfinite().all():
        raise AttributionLabError("baselines hold NaN or infinity: pass finite numbers")
    return pixel.expand_as(inputs)


def as_distribution(
    baselines: Baselines, inputs: Float[Tensor, "batch channels height width"]
) -> Float[Tensor, "baselines channels height width"]:
    """Baselines of which each holds for all inputs: one of `as_baselines`, or N as (N, C, H, W) or
    (N, C, 1, 1); refused if there are none, and as by `as_baselines`.
    """
    several = isinstance(baselines, np.ndarray | Tensor) and baselines.ndim == 4
    each: Sequence[Any] = baselines if several else [baselines]  # type: ignore[assignment]
    if not len(each):
        raise AttributionLabError("baselines are empty: pass at least one")
    return torch.cat([as_baselines(one, inputs[:1]) for one in each])


def blur_pyramid(
    images: Float[Tensor, "batch channels height width"], sigma: float, levels: int
) -> Float[Tensor, "levels batch channels height width"]:
    """Images under Gaussians of sigma 0 to `sigma` pixels in equal steps, the images themselves first.

    Edge pixels continue outside; Gaussians are cut off after 4 sigma.
    """
    values = images.double().cpu().numpy()
    blurs = [values] + [
        gaussian_filter(values, (0, 0, level, level), mode="nearest")
        for level in np.linspace(0, sigma, levels)[1:]
    ]
    return torch.as_tensor(np.stack(blurs)).to(images)


def from_true_baseline(method: Callable[..., Tensor], summary: str) -> Callable[..., Tensor]:
    """The same method from the environment's own background, which it asks for as `baseline`.

    The method has a setting `baselines`, which the result refuses. The summary is the first line of the
    result's docstring.
    """

    def variant(
        model: torch.nn.Module,
        inputs: Tensor,
        targets: Tensor,
        *,
        baseline: Tensor | None = None,
        **settings: Any,
    ) -> Tensor:
        if baseline is None:
            raise AttributionLabError(
                f"{variant.__name__}: no value for 'baseline': pass baseline=, the pixel (C, 1, 1) "
                f"of absent content, such as env.baseline; or take {method.__name__}"
            )
        if "baselines" in settings:
            raise AttributionLabError(
                f"{variant.__name__}: baselines is {settings['baselines']!r}: it starts from the "
                f"environment's background; drop the setting, or take {method.__name__}"
            )
        return method(model, inputs, targets, baselines=baseline, **settings)

    variant.__name__ = variant.__qualname__ = f"{method.__name__}_true_baseline"
    variant.__module__ = method.__module__
    variant.__doc__ = f"""{summary}

Parameters
----------
baseline : Tensor, (C, 1, 1)
    The true baseline pixel, provided by the environment.
model, inputs, targets, and all other settings
    As for `{method.__name__}`.
"""
    vars(variant).update(vars(method))  # what it declares
    signature = inspect.signature(method)
    pixel = inspect.Parameter("baseline", inspect.Parameter.KEYWORD_ONLY, annotation=Tensor)
    kept = [p if p.name != "baselines" else pixel for p in signature.parameters.values()]
    variant.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    return variant
