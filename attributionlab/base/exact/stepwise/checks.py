"""What a trajectory refuses before it asks the model anything."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attributionlab.base.errors import AttributionLabError, refuse_if
from attributionlab.base.validation import broadcast_replacement, plain_problem, shown


def kind_of(model: Any) -> tuple[torch.dtype, torch.device | None]:
    """In which numbers and where a model computes; float32 and anywhere without parameters."""
    if not isinstance(model, nn.Module):
        raise AttributionLabError(f"the model is {shown(model)}: pass an nn.Module")
    for parameter in model.parameters():
        if parameter.is_floating_point():
            return parameter.dtype, parameter.device
    return torch.float32, None


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
    images: Any, replacement: Any, dtype: torch.dtype, device: torch.device | None
) -> tuple[
    Float[Tensor, "batch channels height width"], Float[Tensor, "batch channels height width"]
]:
    """Images and their replacement in the model's numbers, of the same shape."""
    ends = broadcast_replacement(replacement, images)
    converted = []
    for name, values in (("images", images), ("replacement", ends)):
        if values.is_complex() or values.dtype == torch.bool:
            raise AttributionLabError(f"{name}: {values.dtype} is not a type of real numbers")
        if values.device != (device or images.device):
            raise AttributionLabError(
                f"{name}: on {values.device}, but the model is on {device or images.device}; move "
                "all to one device"
            )
        numbers = values.detach().to(dtype)
        if not numbers.isfinite().all():
            where = tuple(int(i) for i in (~numbers.isfinite()).nonzero()[0])
            raise AttributionLabError(
                f"{name}: the value {float(values[where])} at {where} is not a finite {dtype}, the "
                "model's type; pass other numbers"
            )
        converted.append(numbers)
    return converted[0], converted[1]


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
    _check_permutations(checked_orders(orders, len(starts), pixels), pixels)
    return starts, ends, checked_counts(counts, pixels)


def checked_orders(orders: Any, n: int, pixels: int) -> Int[Tensor, "batch draws pixels"]:
    """Orders for each of n images, as far as their type and number tell."""
    if (
        not isinstance(orders, Tensor)
        or orders.ndim != 3
        or len(orders) != n
        or not orders.numel()
        or orders.dtype != torch.int64
    ):
        raise AttributionLabError(
            f"orders are {shown(orders)}: pass a tensor of torch.int64 of shape (B, D, P), here "
            f"({n}, D, {pixels})"
        )
    return orders


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
            f"order {draw} of image {image} omits pixel {pixel} and repeats another one: pass "
            f"permutations of 0 to {pixels - 1}"
        )


def checked_counts(counts: Any, pixels: int) -> Int[Tensor, " counts"]:
    """After how many replacements to evaluate; all numbers of them for None."""
    if counts is None:
        return torch.arange(pixels + 1, device="cpu")
    if isinstance(counts, Tensor):
        refuse_if(plain_problem("counts are", counts))
    try:
        wanted = torch.as_tensor(counts, device="cpu")
    except (TypeError, ValueError, RuntimeError) as error:
        raise AttributionLabError(f"counts are {counts!r}: pass a list of integers") from error
    if (
        wanted.ndim != 1
        or not wanted.numel()
        or wanted.is_floating_point()
        or wanted.is_complex()
        or wanted.dtype == torch.bool
        or wanted[0] < 0
        or wanted[-1] > pixels
        or (wanted.long().diff() <= 0).any()  # unsigned differences would wrap around
    ):
        raise AttributionLabError(
            f"counts are {_few(wanted.flatten().tolist())}: pass increasing numbers of replaced "
            f"pixels, from 0 to {pixels}"
        )
    return wanted.long()


def _few(numbers: Sequence[float]) -> str:
    """A list, without its middle if that is long."""
    shown = [str(number) for number in numbers]
    return ", ".join(shown if len(shown) <= 6 else [*shown[:3], "...", *shown[-2:]]) or "none"
