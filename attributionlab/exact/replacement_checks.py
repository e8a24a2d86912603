"""What a trajectory refuses before it asks the model anything."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attributionlab.errors import AttributionLabError
from attributionlab.exact.checks import shown

__all__ = ["checked_image", "checked_order", "checked_pair", "checked_trajectories"]


def checked_image(image: Any) -> None:
    """Refuse what is not one image."""
    if not isinstance(image, Tensor) or image.ndim != 3 or not image.numel():
        raise AttributionLabError(
            f"image is {shown(image)}: pass a tensor of shape (C, H, W), or a batch to trajectories"
        )


def checked_order(order: Any) -> None:
    """Refuse what is not one order; whether it is a permutation shows later."""
    if not isinstance(order, Tensor) or order.ndim != 1:
        raise AttributionLabError(
            f"order is {shown(order)}: pass a tensor of torch.int64 of shape (P,)"
        )


def checked_pair(
    images: Any, replacements: Any, dtype: torch.dtype, device: torch.device | None
) -> tuple[
    Float[Tensor, "batch channels height width"], Float[Tensor, "batch channels height width"]
]:
    """Images and their replacements in the model's numbers, of the same shape."""
    if not isinstance(images, Tensor) or images.ndim != 4 or not images.numel():
        raise AttributionLabError(
            f"images are {shown(images)}: pass a tensor of shape (B, C, H, W), B at least 1"
        )
    if not isinstance(replacements, Tensor):
        raise AttributionLabError(
            f"the replacement is {shown(replacements)}: pass a tensor, torch.zeros(1) for black"
        )
    converted = []
    for name, values in (("images", images), ("replacement", replacements)):
        if values.is_complex() or values.dtype == torch.bool:
            raise AttributionLabError(f"{name}: {values.dtype} is no type of real numbers")
        if values.device != (device or images.device):
            raise AttributionLabError(
                f"{name}: on {values.device}, where the model is on {device or images.device}; move "
                "all to one device"
            )
        numbers = values.detach().to(dtype)
        if not numbers.isfinite().all():
            where = tuple(int(i) for i in (~numbers.isfinite()).nonzero()[0])
            raise AttributionLabError(
                f"{name}: the value {float(values[where])} at {where} is no finite {dtype}, in which "
                "the model computes; pass other numbers"
            )
        converted.append(numbers)
    try:
        ends = torch.broadcast_to(converted[1], images.shape)
    except RuntimeError as error:
        raise AttributionLabError(
            f"the replacement has the shape {tuple(replacements.shape)}: pass one that broadcasts to "
            f"the images' {tuple(images.shape)}, such as (C, 1, 1)"
        ) from error
    return converted[0], ends


def checked_trajectories(
    images: Any,
    replacements: Any,
    orders: Any,
    counts: Any,
    dtype: torch.dtype,
    device: torch.device | None,
) -> tuple[
    Float[Tensor, "batch channels height width"],
    Float[Tensor, "batch channels height width"],
    Int[Tensor, " counts"],
]:
    """Where trajectories start and end, and after how many replacements to evaluate."""
    starts, ends = checked_pair(images, replacements, dtype, device)
    pixels = starts.shape[2] * starts.shape[3]
    if (
        not isinstance(orders, Tensor)
        or orders.ndim != 3
        or len(orders) != len(starts)
        or not orders.numel()
        or orders.dtype != torch.int64
    ):
        raise AttributionLabError(
            f"orders are {shown(orders)}: pass a tensor of torch.int64 of shape (B, D, P), here "
            f"({len(starts)}, D, {pixels})"
        )
    _check_permutations(orders, pixels)
    return starts, ends, _checked_counts(counts, pixels)


def _check_permutations(orders: Tensor, pixels: int) -> None:
    if orders.shape[2] != pixels:
        raise AttributionLabError(
            f"an order has {orders.shape[2]} pixels, the images have {pixels}: pass permutations of "
            f"0 to {pixels - 1}"
        )
    outside = (orders < 0) | (orders >= pixels)
    if outside.any():
        raise AttributionLabError(
            f"an order names pixel {int(orders[outside][0])}: pass permutations of 0 to {pixels - 1}"
        )
    seen = torch.zeros(orders.shape, dtype=torch.bool, device=orders.device)
    seen.scatter_(2, orders, True)
    if not seen.all():
        image, draw, pixel = (int(i) for i in (~seen).nonzero()[0])
        raise AttributionLabError(
            f"order {draw} of image {image} never names pixel {pixel} and another one twice: pass "
            f"permutations of 0 to {pixels - 1}"
        )


def _checked_counts(counts: Any, pixels: int) -> Tensor:
    if counts is None:
        return torch.arange(pixels + 1)
    try:
        asked = torch.as_tensor(counts).cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise AttributionLabError(f"counts are {counts!r}: pass a list of integers") from error
    if (
        asked.ndim != 1
        or not asked.numel()
        or asked.is_floating_point()
        or asked.is_complex()
        or asked.dtype == torch.bool
        or asked[0] < 0
        or asked[-1] > pixels
        or (asked.long().diff() <= 0).any()  # unsigned differences would wrap around
    ):
        raise AttributionLabError(
            f"counts are {_few(asked.flatten().tolist())}: pass increasing numbers of replaced pixels, "
            f"from 0 to {pixels}"
        )
    return asked.long()


def _few(numbers: Sequence[float]) -> str:
    """A list, without its middle if that is long."""
    shown = [str(number) for number in numbers]
    return ", ".join(shown if len(shown) <= 6 else [*shown[:3], "...", *shown[-2:]]) or "none"
