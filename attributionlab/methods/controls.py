"""Controls: attributions whose verdict is known before the test.

They have the form of a method, and they alone may declare `truth`, and `ideal` (the best map for
the claim), by name and be given them.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy import ndimage
from torch import Tensor, nn

from attributionlab.truth import Truth


def oracle(model: nn.Module, inputs: Tensor, targets: Tensor, *, ideal: Tensor) -> Tensor:
    """The best map for the claim (`ideal`): the signed truth, for a smoothed one `best_map`."""
    return ideal


def inverted_oracle(model: nn.Module, inputs: Tensor, targets: Tensor, *, truth: Truth) -> Tensor:
    """The truth with every sign wrong. It must fail where signs count."""
    return -truth.signed.float()


def random(
    model: nn.Module, inputs: Tensor, targets: Tensor, *, generator: torch.Generator
) -> Tensor:
    """Uniform on [0, 1) for every pixel (AttributionLab, F.2). It must fail."""
    batch, _, height, width = inputs.shape
    return torch.rand(
        *(batch, 1, height, width),
        generator=generator,
        device=generator.device,
        dtype=torch.float32,  # whatever the user's default is
    )


def constant(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """1 for every pixel (AttributionLab, F.2). It must fail."""
    return torch.ones_like(inputs[:, :1])


def baseline_distance(
    model: nn.Module, inputs: Tensor, targets: Tensor, *, baseline: Tensor
) -> Tensor:
    """|x - baseline|, summed over channels: looks at the input only."""
    return (inputs - baseline).abs().sum(1, keepdim=True)


def non_background(
    model: nn.Module, inputs: Tensor, targets: Tensor, *, baseline: Tensor
) -> Tensor:
    """1 for every pixel that is not background: looks at the input only."""
    return (inputs != baseline).any(1, keepdim=True).float()


def filled_patches(model: nn.Module, inputs: Tensor, targets: Tensor, *, patches: Tensor) -> Tensor:
    """1 inside every patch, filled pixels or not: knows where the patches are, and nothing else."""
    return (patches > 0).float()[:, None]


def sobel(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Magnitude of the Sobel gradient of the channels' sum: an edge detector."""
    gray = inputs.sum(1).cpu().numpy()
    edges = [np.hypot(ndimage.sobel(image, 0), ndimage.sobel(image, 1)) for image in gray]
    return torch.from_numpy(np.stack(edges)).float()[:, None]


CONTROLS: dict[str, Callable[..., Any]] = {
    "baseline-distance": baseline_distance,
    "constant": constant,
    "filled-patches": filled_patches,
    "inverted-oracle": inverted_oracle,
    "non-background": non_background,
    "oracle": oracle,
    "random": random,
    "sobel": sobel,
}
"""The controls by name."""
MUST_FAIL = ("random", "constant", "inverted-oracle")
"""Controls whose passing invalidates a test; the last one where the claim is about signs."""
INPUT_ONLY = ("baseline-distance", "filled-patches", "non-background", "sobel")
"""Controls that see nothing of the network: what they reach is the bar that an environment sets."""
