"""Inputs that are no images, as images of one row: vectors, series, volumes.

Methods are written for images (B, C, H, W). What holds for each value or place by itself holds for
(B, F), (B, C, L) and (B, C, D, H, W) too: their places are put in a row, and the network gets them in
their own shape.
"""

from collections.abc import Mapping
from math import prod
from threading import get_ident
from typing import Any

import torch
from torch import Tensor, nn

from attributionlab.base import AttributionLabError, reference_images_problem, refuse_if


class AsImages:
    """Inputs of any shape as images of one row; called as a hook in front of a network, it gives them
    their own shape again.
    """

    def __init__(self, shape: torch.Size) -> None:
        self.shape = shape[1:]
        self.places = shape[2:] if len(shape) > 2 else shape[1:]
        self.channels = shape[1] if len(shape) > 2 else 1
        self.thread = get_ident()

    def __deepcopy__(self, _: Any) -> "AsImages":
        return self

    def __call__(self, _: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
        if get_ident() != self.thread:
            return given  # to a call of another thread on the same network
        return tuple(map(self._restored, given))

    def _restored(self, value: Any) -> Any:
        if isinstance(value, tuple):  # as Captum's DeepLift hands over inputs and baselines
            return tuple(map(self._restored, value))
        if isinstance(value, Tensor) and value.shape[1:] == (self.channels, 1, prod(self.places)):
            return value.reshape(-1, *self.shape)
        return value

    def as_images(self, values: Tensor) -> Tensor:
        return values.reshape(-1, self.channels, 1, prod(self.places))

    def as_inputs(self, maps: Tensor) -> Tensor:
        maps = maps.detach()
        if len(self.shape) == 3:
            return maps
        return maps.reshape(len(maps), *(() if len(self.shape) == 1 else (-1,)), *self.places)

    def settings(self, given: Mapping[str, Any], inputs: Tensor) -> dict[str, Any]:
        """Settings that hold images or labels of places, in the shape of the images of one row."""
        given = dict(given)
        if "baselines" in given:
            given["baselines"] = self._baselines(given["baselines"], inputs)
        if "reference_images" in given:
            refuse_if(reference_images_problem(given["reference_images"], inputs, 1))
            given["reference_images"] = self.as_images(given["reference_images"])
        for name in {"segmentation", "patches"} & given.keys():
            given[name] = self._labels(name, given[name], len(inputs))
        return given

    def _baselines(self, baselines: Any, inputs: Tensor) -> Any:
        try:
            values = torch.as_tensor(baselines, dtype=inputs.dtype, device=inputs.device)
        except (TypeError, ValueError, RuntimeError):
            return baselines  # `as_baselines` says what is wrong
        if values.ndim == 0 or (values.ndim == 1 and len(self.shape) > 1):
            return values
        several = values.shape[: values.ndim == inputs.ndim]
        try:
            return self.as_images(values.expand(*several, *self.shape)).reshape(
                *several, self.channels, 1, -1
            )
        except RuntimeError as error:
            raise AttributionLabError(
                f"baselines have shape {tuple(values.shape)}: pass a number, or an array that "
                f"broadcasts to {tuple(inputs.shape)}"
            ) from error

    def _labels(self, name: str, labels: Any, images: int) -> Any:
        shape = tuple(getattr(labels, "shape", ()))
        if labels is None or (isinstance(labels, str) and labels in ("pixels", "patches")):
            return labels
        if shape == self.places:
            return labels.reshape(1, -1)
        if shape == (images, *self.places):
            return labels.reshape(images, 1, -1)
        what = f"label maps of shape {shape}" if shape else repr(labels)
        raise AttributionLabError(
            f"{name} is {what}, but the inputs are not images (B, C, H, W): pass 'pixels', which takes "
            f"each value separately, or integers of shape {tuple(self.places)}"
        )
