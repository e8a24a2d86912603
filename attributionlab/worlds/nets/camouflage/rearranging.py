"""Moves that keep every neuron: other order, other scale, other kind of layer."""

from dataclasses import replace

import torch
from torch import Tensor

from attributionlab.worlds.nets.camouflage.draft import Draft, Layer, along, rows_that_fit
from attributionlab.worlds.nets.exactness import Signal

LARGEST_EXPONENT = 3
"""A neuron is scaled by 1/8 to 8."""


def permute_channels(draft: Draft, generator: torch.Generator) -> str:
    """Put the neurons of each hidden layer into a random order; the next layer reads them so."""
    for cut in draft.cuts:
        layer, following = draft.layers[cut], draft.layers[cut + 1]
        order = torch.randperm(layer.outputs, generator=generator)
        signal = Signal(layer.signal.upper[order], layer.signal.step[order])
        draft.layers[cut] = replace(
            layer, weight=layer.weight[order], bias=layer.bias[order], signal=signal
        )
        draft.layers[cut + 1] = replace(following, weight=following.weight[:, order])
    return f"the channels of {len(draft.cuts)} hidden layers permuted"


def rescale_channels(draft: Draft, generator: torch.Generator) -> str:
    r"""Scale each hidden neuron by a random power of two, and what reads it by its inverse.

    .. math:: v\, ReLU(w x + b) = (v / s)\, ReLU(s w x + s b), \quad s = 2^k

    Both sums and grid steps are scaled, so the exactness budget does not change.
    """
    rescaled = 0
    for cut in draft.cuts:
        layer, following = draft.layers[cut], draft.layers[cut + 1]
        shape = (layer.outputs,)
        exponents = torch.randint(
            -LARGEST_EXPONENT, LARGEST_EXPONENT + 1, shape, generator=generator
        )
        # Beyond the range in which float32 is safe a neuron keeps its scale.
        scaled = _scaled(layer, 2.0 ** exponents.double())
        fits = rows_that_fit(scaled, draft.signal_into(cut))
        scale = torch.where(fits, 2.0 ** exponents.double(), 1.0)
        read = replace(following, weight=following.weight / scale[:, None, None])
        scaled = _scaled(layer, scale)
        if not rows_that_fit(read, scaled.signal).all():
            continue
        draft.layers[cut], draft.layers[cut + 1] = scaled, read
        rescaled += int((scale != 1).sum())
    return f"{rescaled} channels rescaled by powers of two"


def _scaled(layer: Layer, scale: Tensor) -> Layer:
    upper = layer.signal.upper
    return replace(
        layer,
        weight=layer.weight * scale[:, None, None, None],
        bias=layer.bias * scale,
        signal=Signal(upper * along(scale, upper), layer.signal.step * scale),
    )


def convert_layers(draft: Draft, generator: torch.Generator) -> str:
    """Flatten the map at another layer: convolutions that cover their whole map are linear layers."""
    first = len(draft.layers)
    while first > 0 and (covering := _covering(draft, first - 1)) is not None:
        first -= 1
        draft.layers[first] = covering
    places = torch.arange(first, len(draft.layers) + 1)
    # Somewhere else than now.
    places = places[places != draft.flatten]
    before = draft.flatten
    draft.flatten = int(places[torch.randint(len(places), (), generator=generator)])
    turned = abs(draft.flatten - before)
    if draft.flatten < before:
        return f"{turned} convolutions turned into linear layers"
    return f"{turned} linear layers turned into convolutions"


def _covering(draft: Draft, index: int) -> Layer | None:
    """A layer as a kernel that covers its whole map and no padding; None if it does not cover it."""
    layer, before = draft.layers[index], draft.signal_into(index).upper
    if layer.signal.upper.shape[1:] != (1, 1):
        return None
    inside = slice(layer.padding, layer.padding + before.shape[1])
    weight = layer.weight[:, :, inside, inside]
    if weight.shape[2:] != before.shape[1:]:
        return None
    return replace(layer, weight=weight.contiguous(), stride=1, padding=0)
