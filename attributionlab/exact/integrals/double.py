"""A model in float64 that leaves the model alone, and what the path integral asks of it."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

from attributionlab.errors import AttributionLabError
from attributionlab.validation import checked_outputs

PIXELS_AT_ONCE = 2 * 224**2
"""Two images of the catalogue's size: a gradient keeps the values of all layers, some 250 MiB each."""


class DoubleCopy:
    """A deep copy of a model in float64; float64 holds every float32 weight exactly."""

    def __init__(self, model: nn.Module) -> None:
        try:
            self.model = copy.deepcopy(model).double().requires_grad_(False)
        except Exception as error:
            raise AttributionLabError(
                f"{type(model).__name__} cannot be copied in float64 ({_first_line(error)}): pass a "
                "module that copy.deepcopy and .double() take"
            ) from error

    def outputs(self, images: Tensor, target: int) -> Tensor:
        """The target's output (B,) for images (B, C, H, W)."""
        with torch.no_grad():
            outputs = self._run(images)
        if not -1 < target < outputs.shape[1]:
            raise AttributionLabError(
                f"target {target} does not exist: the model has the outputs 0 to "
                f"{outputs.shape[1] - 1}"
            )
        chosen = outputs[:, target]
        if not chosen.isfinite().all():
            raise AttributionLabError(
                f"output {target} is {chosen.tolist()} at the baseline and the input: no path "
                "integral leads from there; pass a model that is finite at both"
            )
        return chosen

    def along(
        self, start: Tensor, end: Tensor, target: int
    ) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        """From points of the path to the target's output and the gradient times the whole step."""
        at_once = max(1, PIXELS_AT_ONCE // start[0].numel())

        def evaluate(points: Tensor) -> tuple[Tensor, Tensor]:
            values, densities = [], []
            for some in torch.split(points, at_once):
                images = torch.lerp(start, end, some[:, None, None, None]).requires_grad_()
                with torch.enable_grad():
                    output = self._run(images)[:, target]
                    densities.append(self._gradient(output, images) * (end - start))
                values.append(output.detach())
            return torch.cat(values), torch.cat(densities)

        return evaluate

    def _run(self, images: Tensor) -> Tensor:
        try:
            outputs = self.model(images)
        except Exception as error:
            raise AttributionLabError(
                f"{type(self.model).__name__} fails on float64 images of shape "
                f"{tuple(images.shape)} ({_first_line(error)}): pass a model that runs in float64, "
                "and inputs of the shape and on the device that it takes"
            ) from error
        return checked_outputs(outputs, len(images))

    def _gradient(self, output: Tensor, images: Tensor) -> Tensor:
        try:
            (gradient,) = torch.autograd.grad(output.sum(), images)
        except RuntimeError as error:
            raise AttributionLabError(
                f"{type(self.model).__name__} has no gradient ({_first_line(error)}): pass a model "
                "that is differentiable by its inputs"
            ) from error
        return gradient


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
