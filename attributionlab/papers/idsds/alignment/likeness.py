"""How far two networks answer alike, explain alike, and have channels that are excited alike."""

from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from numpy.typing import NDArray
from torch import Tensor, nn

from attributionlab.methods import METHODS
from attributionlab.methods.layers import find_layer, observe
from attributionlab.methods.layout import channels_first, layout_of

AT_ONCE = 64


class Seen(NamedTuple):
    """What is compared of a network.

    Parameters
    ----------
    probabilities : Tensor, (B,)
        The label's.
    maps : Tensor, (B, 1, H, W), or None
        GradCAM's, of the label's logit, its positive part divided by its maximum; 0 where there is no
        positive part. None without a layer.
    """

    probabilities: Float[Tensor, " batch"]
    maps: Float[Tensor, "batch 1 height width"] | None

    def differences(self, other: "Seen") -> dict[str, NDArray[np.float64]]:
        """Mean absolute differences of each image, "output" and, where both have maps, "map"."""
        found = {"output": (self.probabilities - other.probabilities).abs()}
        if self.maps is not None and other.maps is not None:
            found["map"] = (self.maps - other.maps).abs().mean((1, 2, 3))
        return {name: values.double().numpy() for name, values in found.items()}


def seen(
    network: nn.Module,
    images: Float[Tensor, "batch channels height width"],
    labels: Int64[Tensor, " batch"],
    layer: nn.Module | str | None,
) -> Seen:
    """Ask a network for the label's probability and GradCAM's map.

    Parameters
    ----------
    network : nn.Module
        (B, C, H, W) -> (B, K) logits.
    images, labels : Tensor
        (B, C, H, W) and (B,).
    layer : nn.Module, str or None
        GradCAM's, or its dotted name.
    """
    with torch.no_grad():
        logits = torch.cat([network(part) for part in torch.split(images, AT_ONCE)])
    chosen = logits.softmax(1).gather(1, labels[:, None])[:, 0]
    if layer is None:
        return Seen(chosen, None)
    attached: dict[str, Any] = (
        {"layer": layer} if isinstance(layer, str) else {"layers": {"gradcam": layer}}
    )
    maps = METHODS["gradcam"](network, images, labels, **attached).detach().clamp(min=0)
    most = maps.amax((1, 2, 3), keepdim=True)
    return Seen(chosen, torch.where(most > 0, maps / most, 0.0))


def excitations(
    network: nn.Module,
    images: Float[Tensor, "batch channels height width"],
    layer: nn.Module | str,
) -> Float[Tensor, "batch kernels"]:
    """The largest value of each channel of a layer's maps over all places, for each image."""
    module = find_layer(network, layer, None, "gradcam") if isinstance(layer, str) else layer
    layout = layout_of(network, module, images, None, "excitations")
    maps = (observe(network, module, part)[0] for part in torch.split(images, AT_ONCE))
    return torch.cat([channels_first(each, layout).amax((2, 3)) for each in maps])


def strongest(
    excited: Float[Tensor, "batch kernels"], number: int
) -> Int64[Tensor, "kernels number"]:
    """The images that excite each channel most, in falling order; of equal ones the first."""
    order = excited.argsort(dim=0, descending=True, stable=True)
    return order[:number].T


class Overlap(NamedTuple):
    """Shares of common images among those that excite channels most.

    Parameters
    ----------
    same : array, (channels,)
        Of a channel of one network and the same channel of the other.
    others : array, (channels,)
        Of a channel of one network and all other channels of the other, their mean.
    compared : Tensor, (kernels,)
        Which channels these are: those that some image excites in both networks, and not all alike.
    """

    same: NDArray[np.float64]
    others: NDArray[np.float64]
    compared: Bool[Tensor, " kernels"]


def overlap(
    first: Float[Tensor, "batch kernels"], second: Float[Tensor, "batch kernels"], number: int
) -> Overlap:
    """Whether the same channels of two networks are excited most by the same images.

    Parameters
    ----------
    first, second : Tensor, (B, kernels)
        `excitations` by the same images.
    number : int
        Images that count as exciting a channel most. Two channels that have nothing in common share
        number / B of them in expectation.
    """
    compared = (first.amax(0) > first.amin(0)) & (second.amax(0) > second.amin(0))
    members = []
    for excited in (first, second):
        chosen = strongest(excited[:, compared], number)
        members.append(torch.zeros(len(chosen), len(excited)).scatter_(1, chosen, 1.0))
    shares = (members[0] @ members[1].T / number).double().numpy()  # (channels, channels)
    same = np.diagonal(shares)
    others = (shares.sum(1) - same) / max(1, len(shares) - 1)
    return Overlap(same.copy(), others, compared)
