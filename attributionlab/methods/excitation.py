r"""Excitation backpropagation: the probability of winning, handed down from an output to its causes."""

from typing import Any

import torch
from torch import Tensor, nn

from attributionlab.errors import AttributionLabError, refuse_if
from attributionlab.methods.batching import over_batches
from attributionlab.methods.declaration import declares
from attributionlab.methods.entry import checked
from attributionlab.methods.findings import Notice, notify
from attributionlab.methods.guards import STATED_SHARE
from attributionlab.methods.layers import find_layer, only_maps, refuse_single_cell
from attributionlab.methods.layout import Layout, channels_first, layout_of
from attributionlab.methods.winners import contrast, winner_take_all
from attributionlab.validation import boolean_problem

WHO = "excitation-backprop"


@checked
@declares(claim="positive", output="logit")
def excitation_backprop(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    layer: str | None = None,
    layout: Layout | None = None,
    contrastive: bool = False,
) -> Tensor:
    r"""The probability with which a random walk from the output, along excitatory weights, ends here.

    .. math::
        p_j = \sum_k \frac{x_j w^+_{jk}}{\sum_i x_i w^+_{ik}} \, p_k, \qquad w^+ = \max(w, 0),

    from p = 1 at the output down to the input, or to a layer; biases get nothing. ReLUs and max pooling
    hand p on as it is, averages and sums are layers with positive weights, and batch normalization is
    part of the layer in front of it.

    Source: Zhang et al., 2018 (marginal winning probability). Takes activations to be at least 0; what
    is below wins nothing here. Probabilities sum to 1 unless a unit wins without an excitatory input,
    by its bias alone: what it has is lost, and the guard tells how much. Says where the evidence for an
    output lies, and never what inhibits it: hence the claim positive. Explains logits; behind a softmax
    it is not defined. The paper's maps are those of a layer in the middle (`layer`), summed over
    channels and, here, enlarged bilinearly. Two forward passes, one of them without inhibition, and one
    backward pass.

    Parameters
    ----------
    model, inputs, targets
        As for `saliency`. Behind the layer may run convolutions, linear layers, batch normalization,
        ReLUs, pooling, sums of layers (residual connections), concatenation and changes of shape.
    layer : str, optional
        Dotted name of a module of the model to stop at (`find_layer`); by default the input.
    layout : {"channels-first", "channels-last"}, optional
        Of what that module returns, as for `gradcam`.
    contrastive : bool
        Subtract the map of the dual output, whose weights in the last layer with any are -w, and keep
        the positive part: what excites this output more than it inhibits it.

    Returns
    -------
    Tensor, (B, 1, H, W)
        Probability per pixel (of a layer: per cell, before its map is enlarged), summed over channels.

    Raises
    ------
    AttributionLabError
        If the network has an operation without a rule behind the layer, or is in training mode; if the
        layer does not exist, does not run exactly once, or returns no maps, maps of a single cell or in
        a layout that is neither stated nor proven; if `contrastive` is neither True nor False, or the
        network has no single last layer with weights.
    """
    refuse_if(boolean_problem("contrastive", contrastive), WHO)
    module, axes = None, layout or "channels-first"
    if layer is not None:
        module = find_layer(model, layer, None, WHO)
        axes = layout_of(model, module, inputs, layout, WHO)

    def run(images: Tensor, classes: Tensor) -> tuple[Tensor]:
        with torch.enable_grad():
            start, outputs = _forward(model, module, images.detach(), axes)
            chosen = torch.zeros_like(outputs).scatter(1, classes.to(outputs.device)[:, None], 1)
            if contrastive:
                contrast(outputs)
            (won,) = torch.autograd.grad(outputs, start, chosen)
        return (channels_first(won, axes).sum(1, keepdim=True),)

    (maps,) = over_batches(run, (inputs, targets), WHO)
    if contrastive:
        maps = maps.clamp(min=0)
    else:
        _tell_lost(maps)
    if module is None:
        return maps
    return nn.functional.interpolate(maps, tuple(inputs.shape[2:]), mode="bilinear")


def _forward(
    model: nn.Module, layer: nn.Module | None, images: Tensor, layout: Layout
) -> tuple[Tensor, Tensor]:
    """What probabilities are handed down to, the images or what the layer returns, and the outputs."""
    start: list[Tensor] = [images.clone().requires_grad_()] if layer is None else []
    returned: list[object] = []

    def begin(_: nn.Module, __: Any, output: object) -> Tensor:
        returned.append(output)
        maps = only_maps([output])
        refuse_single_cell(channels_first(maps, layout), WHO)
        start[:] = [maps.detach().clone().requires_grad_()]
        return start[0].clone()  # a ReLU behind it may work in place

    handles = [] if layer is None else [layer.register_forward_hook(begin)]
    try:
        with winner_take_all(model, start):
            outputs: Tensor = model(images if layer is not None else start[0])
    finally:
        for handle in handles:
            handle.remove()
    if layer is not None:
        only_maps(returned)
    if not outputs.requires_grad:
        source = "input" if layer is None else "layer"
        raise AttributionLabError(f"{WHO}: nothing leads from the {source} to the outputs")
    return start[0], outputs


def _tell_lost(maps: Tensor) -> None:
    lost = 1 - maps.detach().double().flatten(1).sum(1)
    text = (
        "lose up to {worst} of the probability: units that win without an input above 0 that excites "
        "them, by their bias alone for instance, hand nothing on"
    )
    notify(Notice(text, int((lost > STATED_SHARE).sum()), worst=float(lost.max())))
