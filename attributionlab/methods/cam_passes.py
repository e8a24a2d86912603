r"""Class activation maps whose weights come from forward passes: Score-CAM and Ablation-CAM.

The weight of a layer's map is not read from gradients, as in `attributionlab.methods.cam`, but from
what the output does with the map alone, or without it. That takes a forward pass for each map.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from attributionlab.base import AttributionLabError
from attributionlab.methods import layers
from attributionlab.methods.baselines import Baselines, as_baselines
from attributionlab.methods.batching import images_at_once, in_smaller_batches
from attributionlab.methods.cam import Attached, summed_maps
from attributionlab.methods.notices import Notice, notify
from attributionlab.methods.outputs import target_outputs

AT_ZERO = (
    "are zero because Ablation-CAM divides by the output, which is 0: explain the probability "
    "(explain='probability'), or another target"
)
BELOW_ZERO = (
    "have reversed signs because Ablation-CAM divides by the output, which is negative: explain "
    "the probability (explain='probability'), or another target"
)


class _Pass(NamedTuple):
    """One image's pass: what the layer returned, the maps in it, and the output explained."""

    output: Float[Tensor, "1 ..."]
    maps: Float[Tensor, "maps rows columns"]
    value: Float[Tensor, "1"]


@torch.no_grad()
def _weighted_by_passes(
    at: Attached,
    outputs: Callable[[int, _Pass, Tensor], Float[Tensor, "chosen outputs"]],
    weights: Callable[[_Pass, Tensor], Float[Tensor, " maps"]],
) -> Float[Tensor, "batch 1 rows columns"]:
    """Sums of maps by weights that are made from outputs, one for each map.

    `outputs` has what the network returns for some maps (image, pass and their numbers -> (n, K)), and
    `weights` makes weights of the outputs explained.
    """
    at_once, sums = images_at_once(at.model, at.inputs), []
    for number, target in enumerate(at.targets):
        whole, value = layers.returned_output(at.model, at.module, at.inputs[number : number + 1])
        maps = layers.channels_first(whole, at.cells)
        layers.refuse_single_cell(maps, at.who)
        seen = _Pass(whole, maps[0], target_outputs(value, target[None]))

        def run(batch: int, number: int = number, seen: _Pass = seen) -> Tensor:
            chosen = torch.split(torch.arange(len(seen.maps), device=at.inputs.device), batch)
            label = at.targets[number]
            return torch.cat(
                [target_outputs(outputs(number, seen, k), label.expand(len(k))) for k in chosen]
            )

        weight = weights(seen, in_smaller_batches(run, at_once, at.who))
        sums.append((weight[:, None, None] * seen.maps).sum(0)[None, None])
    return torch.cat(sums)


@summed_maps
def scorecam(at: Attached, *, baselines: Baselines = 0.0) -> Tensor:
    r"""Score-CAM: activation maps, each weighted by the output for the image masked with it.

    .. math::
        L = ReLU\Big(\sum_c w_c A^c\Big), \qquad
        w_c = \frac{\exp s_c}{\sum_d \exp s_d}, \qquad
        s_c = f_t\big(x \odot M^c + b \odot (1 - M^c)\big), \qquad
        M^c = \frac{U^c - \min U^c}{\max U^c - \min U^c},

    with :math:`U^c` the map :math:`A^c`, upsampled bilinearly to the image.

    Source: Wang et al., 2020, with black for b. Their score is the increase of confidence, :math:`s_c -
    f_t(b)`; the softmax over the maps removes what all scores share, so f(b) needs no pass. A constant
    map shows nothing and has no weight.

    The softmax determines the weights: they are positive, so no map counts against the output. For a
    probability they differ by a factor of at most e, so the result is close to the mean of the maps;
    for counts, the map with the highest score has nearly all the weight. Mixtures of image and baseline
    may have unseen colors. Has the resolution of the layer, as `gradcam`. Claims the positive truth.
    One forward pass, and one for each map of the layer; no gradient.

    Parameters
    ----------
    model, inputs, targets, layers, layer, layout, grid, prefix, relu
        As for `gradcam`.
    baselines : float, sequence of float, ndarray or Tensor
        Value of pixels that a map hides (`as_baselines`); black by default.

    Returns
    -------
    Tensor, (B, 1, H, W)
        In units of the layer.

    Raises
    ------
    AttributionLabError
        As `gradcam` does, except about gradients, and for baselines that do not fit.
    """
    inputs = at.inputs
    start = as_baselines(baselines, inputs)

    def shown(number: int, seen: _Pass, chosen: Tensor) -> Tensor:
        masks = F.interpolate(seen.maps[chosen, None], tuple(inputs.shape[2:]), mode="bilinear")
        low, high = masks.amin((2, 3), keepdim=True), masks.amax((2, 3), keepdim=True)
        masks = (masks - low) / torch.where(high > low, high - low, 1.0)
        outputs: Tensor = at.model(inputs[number] * masks + start[number] * (1 - masks))
        return outputs

    def weights(seen: _Pass, scores: Tensor) -> Tensor:
        flat = seen.maps.amax((1, 2)) == seen.maps.amin((1, 2))
        # Zeros where all maps are flat, of which the softmax is not defined.
        return scores.masked_fill(flat, -torch.inf).softmax(0).masked_fill(flat, 0.0)

    return _weighted_by_passes(at, shown, weights)


@summed_maps
def ablationcam(at: Attached) -> Tensor:
    r"""Ablation-CAM: activation maps, each weighted by the relative output drop when it is ablated.

    .. math::
        L = ReLU\Big(\sum_c w_c A^c\Big), \qquad w_c = \frac{y - y_c}{y},

    with y the explained output and :math:`y_c` the same output if the map :math:`A^c` of the layer is
    set to 0.

    Source: Desai and Ramaswamy, 2020. Unlike a gradient, a drop is not blind to saturated outputs; but
    redundant maps have none. The division turns weights into shares of the output and does not change a
    map's shape if y is positive. If y is negative it reverses all signs, so that what raises the output
    is removed; if y is 0 it is undefined and the map is 0. Both cases give a warning. Has the
    resolution of the layer, as `gradcam`. Claims the positive truth. One forward pass, and one for each
    map of the layer (in a chain of modules, only through those after it); no gradient.

    Parameters
    ----------
    model, inputs, targets, layers, layer, layout, grid, prefix, relu
        As for `gradcam`. With tokens, only those of the image are ablated; a function as `layout` must
        return the layer's own values.

    Returns
    -------
    Tensor, (B, 1, H, W)
        In units of the layer.

    Raises
    ------
    AttributionLabError
        As `gradcam` does, except about gradients, and for a `layout` that changes values.
    """

    def without(number: int, seen: _Pass, chosen: Tensor) -> Tensor:
        values = seen.output.flatten(1).expand(len(chosen), -1).clone()
        values.scatter_(1, _places(seen, at.cells, at.who)[chosen], 0.0)
        left = values.reshape(len(chosen), *seen.output.shape[1:])
        return layers.resume(at.model, at.module, at.inputs[number : number + 1], left)

    explained = []

    def weights(seen: _Pass, ablated: Tensor) -> Tensor:
        explained.append(seen.value)
        return torch.where(seen.value == 0, 0.0, (seen.value - ablated) / seen.value)

    sums = _weighted_by_passes(at, without, weights)
    notify(Notice(AT_ZERO, int((torch.cat(explained) == 0).sum()), kind="zeros"))
    notify(Notice(BELOW_ZERO, int((torch.cat(explained) < 0).sum())))
    return sums


def _places(seen: _Pass, cells: layers.Cells, who: str) -> Int[Tensor, "maps cells"]:
    """Where the values of each map are in what a layer returns, counted through."""
    output = seen.output
    numbers = torch.arange(output.numel(), dtype=torch.float64, device=output.device)
    places = layers.channels_first(numbers.reshape(output.shape), cells)[0].flatten(1).long()
    if not torch.equal(output.flatten()[places.clamp(0, output.numel() - 1)], seen.maps.flatten(1)):
        raise AttributionLabError(
            f"{who}: layout changes the values that the layer returns: only change their "
            "shape, so that single maps can be set to 0"
        )
    return places
