r"""Integrated gradients of a chain: layer by layer forward with more and more panels, and back.

Let G_p be the gradient of the output by a layer's output, integrated over panel p. A linear layer takes
it to W^T G_p. A ReLU that split a panel into p_1, p_2, ... takes it to the sum of mask(p_i) * G_{p_i}.
So each layer works on the panels that its own input needs, not on those that later layers add.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile

import torch
from jaxtyping import Float
from torch import Tensor

from attributionlab.exact.chain import ROUNDING, Chain, Convolution, Layer, Relu
from attributionlab.exact.integrals.endings import logit_weights, probability_weights
from attributionlab.exact.integrals.panels import Effort, TooManyKinksError, active_share, refine

NUMBERS_AT_ONCE = 2**22
"""How many values of neurons at points of the path are worked on at once, 32 MiB for each array."""
FEW_PIXELS = 256
"""How many different pixels are few enough to tell them apart."""
MOST_FEATURES = 2**10
"""With 3 input channels the tangents of 256 pixels then take 6 MiB for each panel at most."""

Ending = Callable[[Tensor, Tensor], Tensor]


def integrate_chain(
    chain: Chain,
    start: Float[Tensor, "channels height width"],
    end: Float[Tensor, "channels height width"],
    target: int,
    effort: Effort,
) -> Float[Tensor, "channels height width"]:
    """Integrated gradients of one image.

    Raises
    ------
    TooManyKinksError
        If that takes more panels than `effort` allows.
    """
    weights = probability_weights if chain.has_softmax else logit_weights

    def ending(points: Tensor, logits: Tensor) -> Tensor:
        effort.panels += len(points) - 1
        return weights(points, logits, target)

    pointwise = list(takewhile(_is_pointwise, chain.layers))
    pairs = torch.cat([start, end]).flatten(1)  # (2C, HW)
    distinct, kind = torch.unique(pairs, dim=1, return_inverse=True)
    if pointwise and distinct.shape[1] <= FEW_PIXELS:
        first, last = distinct.chunk(2)
        front = _Front(pointwise, first, last, effort)
        behind = chain.layers[len(pointwise) :]
        return front.integrate(behind, kind.reshape(start.shape[1:]), ending, effort)
    points = start.new_tensor([0.0, 1.0])
    values = torch.stack([start, end])
    rounding = ROUNDING * values.abs().amax(0)
    gradients = _integrate(chain.layers, points, values, rounding, ending, effort)
    return gradients[0] * (end - start)


def _is_pointwise(layer: Layer) -> bool:
    """Whether it treats every pixel alone, and so few features that their tangents fit in memory."""
    if isinstance(layer, Convolution):
        return layer.is_pointwise and len(layer.weight) <= MOST_FEATURES
    return isinstance(layer, Relu)


class _Front:
    """The first, pointwise layers on each different pixel: what comes out, and each channel's part.

    `tangents` (panels, features, channels, kinds) are derivatives by s of each feature, one for each
    input channel's own movement from the baseline to the image.
    """

    def __init__(self, layers: Sequence[Layer], start: Tensor, end: Tensor, effort: Effort) -> None:
        self.points = start.new_tensor([0.0, 1.0])
        # Images of one row: 1x1 convolutions do not mind, tangents have one row for each channel.
        self.values = torch.stack([start, end])[:, :, None]  # (points, features, 1, kinds)
        self.tangents = torch.diag_embed((end - start).T).permute(1, 2, 0)[None]
        rounding = ROUNDING * self.values.abs().amax(0)
        for layer in layers:
            if isinstance(layer, Convolution):
                rounding = layer.rounding(self.values.abs().amax(0))
                self.values = layer(self.values)
                self.tangents = layer.without_bias(self.tangents)
                continue
            refinement = refine(self.points, self.values, rounding, effort.gap)
            panels = len(refinement.points) - 1
            effort.check(panels)
            if panels > 1 and panels * self.tangents[0].numel() > 8 * NUMBERS_AT_ONCE:
                raise TooManyKinksError  # they are all in memory at once, 256 MiB
            values = refinement.interpolate(self.values, 0, panels)
            self.points = refinement.points
            self.tangents = self.tangents[refinement.before[:-1]] * active_share(values, rounding)
            self.values = values.relu_()

    def integrate(
        self, layers: Sequence[Layer], kind: Tensor, ending: Ending, effort: Effort
    ) -> Tensor:
        """Attributions (C, H, W) through the layers behind, for pixels of these kinds (H, W)."""
        moving = self.tangents.abs().amax((1, 2)) > 0  # (panels, kinds)
        where = [(kind.flatten() == k).nonzero()[:, 0] for k in range(moving.shape[1])]
        result = self.values.new_zeros(self.tangents.shape[2], kind.numel())
        size = self.values.shape[1] * kind.numel()
        # Where nothing moves every derivative is zero, whatever the layers behind make of it.
        for first, last in _runs(moving.any(1).tolist(), NUMBERS_AT_ONCE // size):
            values = self.values[first : last + 1, :, 0][:, :, kind]  # (points, features, H, W)
            rounding = ROUNDING * values.abs().amax(0)
            points = self.points[first : last + 1]
            gradients = _integrate(layers, points, values, rounding, ending, effort).flatten(2)
            for k in moving[first:last].any(0).nonzero()[:, 0].tolist():
                part = gradients[:, :, where[k]].flatten(0, 1)  # (panels * features, pixels)
                tangents = self.tangents[first:last, :, :, k].flatten(0, 1)
                result[:, where[k]] += tangents.T @ part
        return result.reshape(-1, *kind.shape)


def _integrate(
    layers: Sequence[Layer],
    points: Tensor,
    values: Tensor,
    rounding: Tensor,
    ending: Ending,
    effort: Effort,
) -> Tensor:
    """Gradients by `values` (m + 1, ...), integrated over each panel (m, ...)."""
    if not layers:
        return ending(points, values)
    layer, *rest = layers
    if not isinstance(layer, Relu):
        behind = layer.rounding(values.abs().amax(0))
        size = max(behind.numel(), values[0].numel())
        pieces = []
        for first, last in _runs([True] * (len(points) - 1), NUMBERS_AT_ONCE // size):
            chosen = slice(first, last + 1)
            outputs = layer(values[chosen])
            gradients = _integrate(rest, points[chosen], outputs, behind, ending, effort)
            pieces.append(layer.transpose(gradients, values.shape[1:]))
        return torch.cat(pieces)
    refinement = refine(points, values, rounding, effort.gap)
    panels = len(refinement.points) - 1
    effort.check(panels)
    result = torch.zeros_like(values[1:])
    for first, last in _runs([True] * panels, NUMBERS_AT_ONCE // values[0].numel()):
        inside = refinement.interpolate(values, first, last)
        share = active_share(inside, rounding)
        points = refinement.points[first : last + 1]
        gradients = _integrate(rest, points, inside.relu_(), rounding, ending, effort)
        result.index_add_(0, refinement.before[first:last], share.mul_(gradients))
    return result


def _runs(wanted: Sequence[bool], longest: int) -> Iterator[tuple[int, int]]:
    """Runs of wanted panels, as many as may be worked on at once: (first, one behind the last)."""
    first = None
    for index, want in enumerate([*wanted, False]):
        if first is not None and (not want or index - first >= max(1, longest)):
            yield first, index
            first = None
        if want and first is None:
            first = index
