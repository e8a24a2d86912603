"""What a method returns, checked and brought into one form."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from attributionlab.errors import AttributionLabError
from attributionlab.methods.findings import Notice, notify


def as_maps(
    attributions: Any, inputs: Tensor, who: str, start: int = 0
) -> Float[Tensor, "batch 1 height width"]:
    """Check attributions and sum them over channels; `notify` what is unusual about them.

    Parameters
    ----------
    attributions : Tensor or ndarray
        (B, C, H, W), (B, 1, H, W) or (B, H, W), any real type.
    inputs : Tensor, (B, C, H, W)
        What was explained.
    who : str
        Method and environment, for messages.
    start : int
        Index of the first image in the test.

    Returns
    -------
    Tensor of float64, (B, 1, H, W)
        On the CPU.

    Raises
    ------
    AttributionLabError
        For other types and shapes, NaN and infinity.
    """
    try:
        given, count = _tensor_of(attributions, who), len(inputs)
        # In float64 no sum of float32 channels overflows and none vanishes.
        maps = given.cpu().double()
    except (RuntimeError, NotImplementedError, TypeError) as error:
        kind = f"{type(attributions).__name__} that cannot be read"
        raise AttributionLabError(f"{who} returned a {kind}: return a plain array") from error
    if given.dtype != torch.float32:
        name = str(given.dtype).removeprefix("torch.")
        notify(Notice(f"were {name}, which is accepted; return float32", count))
    batch, channels, height, width = inputs.shape
    allowed = {
        (batch, channels, height, width): maps,
        (batch, 1, height, width): maps,
        (batch, height, width): maps.unsqueeze(1) if maps.ndim == 3 else maps,
    }
    shape = tuple(maps.shape)
    if shape not in allowed:
        raise AttributionLabError(
            f"{who} returned shape {shape}: return one of " + ", ".join(map(str, allowed))
        )
    maps = allowed[shape]
    _check_finite(maps, who, start)
    summed: Tensor = maps.sum(1, keepdim=True)
    _check_finite(summed, who, start)
    empty = int((summed == 0).all(dim=3).all(dim=2).sum())
    notify(Notice("are zero everywhere and score 0", empty))
    return summed


def _tensor_of(attributions: Any, who: str) -> Tensor:
    """A dense, detached tensor of real numbers, from whatever holds them."""
    if isinstance(attributions, tuple) and len(attributions) == 1:
        attributions = attributions[0]
    if isinstance(attributions, np.ndarray):
        if attributions.dtype.kind not in "biuf":
            raise AttributionLabError(
                f"{who} returned an array of {attributions.dtype}: return real numbers"
            )
        if attributions.dtype.itemsize > 8:
            attributions = attributions.astype(np.float64)
        native = attributions.dtype.newbyteorder("=")
        attributions = torch.from_numpy(np.array(attributions, dtype=native))
    if not isinstance(attributions, Tensor):
        raise AttributionLabError(
            f"{who} returned {type(attributions).__name__}: return a torch tensor or a numpy array"
        )
    for kind in ("meta", "quantized", "nested"):
        if getattr(attributions, f"is_{kind}"):
            raise AttributionLabError(
                f"{who} returned a {kind} tensor: return a plain one, of numbers"
            )
    if attributions.is_complex():
        raise AttributionLabError(f"{who} returned {attributions.dtype}: return real numbers")
    if attributions.layout != torch.strided:
        attributions = attributions.to_dense()
    dense: Tensor = attributions.detach()
    return dense


def _check_finite(maps: Tensor, who: str, start: int) -> None:
    broken = ~maps.isfinite()
    if broken.any():
        where = tuple(int(k) for k in broken.nonzero()[0])
        raise AttributionLabError(
            f"{who} returned {float(maps[where])} for image {start + where[0]} at {where[1:]}: "
            "return finite numbers"
        )
