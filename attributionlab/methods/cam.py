r"""Class activation maps: where a layer's maps speak for the output.

All of them are made from the maps :math:`A^c` of a layer and their gradients
:math:`g^c = \partial f_t(x) / \partial A^c`, which one forward and one backward pass give
(`layer_maps`). They differ in the weights of the sum over maps (`activation_map`):

.. math:: L_{ij} = \sum_c w^c_{ij} \, A^c_{ij}
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from attributionlab.errors import AttributionLabError, refuse_if
from attributionlab.methods.batching import over_batches
from attributionlab.methods.declaration import declares
from attributionlab.methods.entry import checked
from attributionlab.methods.gradients import guided_backprop
from attributionlab.methods.layers import find_layer, only_maps, refuse_single_cell
from attributionlab.methods.layout import Layout, channels_first, layout_of
from attributionlab.methods.outputs import target_outputs
from attributionlab.validation import boolean_problem

Weighting = Callable[[Tensor, Tensor], Tensor]
"""Maps and their gradients, (B, c, h, w) each -> weights of maps, (B, c, 1, 1), or of their cells."""


def layer_maps(
    model: nn.Module,
    layer: nn.Module,
    inputs: Float[Tensor, "batch channels height width"],
    targets: Tensor,
    layout: Layout,
    who: str,
) -> tuple[
    Float[Tensor, "batch maps rows columns"],
    Float[Tensor, "batch maps rows columns"],
]:
    """A layer's maps and their gradients: one forward pass, and a backward pass down to the layer.

    The graph begins at the layer: what runs before it is forgotten, and may do without gradients.

    Parameters
    ----------
    model : nn.Module
        (B, C, H, W) -> (B, K).
    layer : nn.Module
        One of its modules.
    inputs : Tensor, (B, C, H, W)
        Images.
    targets : Tensor, (B,)
        The output to explain in each image.
    layout : {"channels-first", "channels-last"}
        Of what the layer returns.
    who : str
        For the messages.

    Returns
    -------
    tuple of Tensor, (B, c, h, w)
        The maps, and the gradient of the explained output with respect to them.

    Raises
    ------
    AttributionLabError
        If the layer does not run exactly once, returns no maps or maps of a single cell, or the output
        has no gradient there.
    """

    @torch.enable_grad()
    def run(images: Tensor, classes: Tensor) -> tuple[Tensor, Tensor]:
        returned: list[Any] = []

        def cut(_module: nn.Module, _inputs: object, output: object) -> Tensor | None:
            if not isinstance(output, Tensor):
                returned.append(output)
                return None
            returned.append(output.detach().requires_grad_())
            with torch.enable_grad():
                copy: Tensor = returned[-1].clone()  # a following module may work in place
            return copy

        handle = layer.register_forward_hook(cut)
        try:
            outputs = model(images)
        finally:
            handle.remove()
        maps = only_maps(returned)
        refuse_single_cell(channels_first(maps, layout), who)
        gradient = None
        if outputs.requires_grad:
            chosen = target_outputs(outputs, classes).sum()
            (gradient,) = torch.autograd.grad(chosen, maps, allow_unused=True)
        if gradient is None:
            raise AttributionLabError(
                f"{who}: the output has no gradient with respect to the layer: name another one"
            )
        return channels_first(maps.detach(), layout), channels_first(gradient, layout)

    maps, gradients = over_batches(run, (inputs, targets), who)
    return maps, gradients


def weighted_sum(
    weights: Float[Tensor, "batch maps #rows #columns"],
    maps: Float[Tensor, "batch maps rows columns"],
    inputs: Float[Tensor, "batch channels height width"],
    *,
    relu: bool,
) -> Float[Tensor, "batch 1 height width"]:
    """Weighted maps, summed, their positive part if asked for, enlarged bilinearly to the image.

    Parameters
    ----------
    weights : Tensor, (B, c, 1, 1) or (B, c, h, w)
        Of each map, or of each cell.
    maps : Tensor, (B, c, h, w)
        Of the layer.
    inputs : Tensor, (B, C, H, W)
        The images, for their size.
    relu : bool
        Keep the positive part only, before it is enlarged.
    """
    coarse = (weights * maps).sum(1, keepdim=True)
    return F.interpolate(
        coarse.relu() if relu else coarse, tuple(inputs.shape[2:]), mode="bilinear"
    )


def activation_map(
    who: str,
    weighting: Weighting,
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    layers: Mapping[str, nn.Module] | None,
    layer: str | None,
    layout: Layout | None,
    *,
    relu: bool,
) -> Float[Tensor, "batch 1 height width"]:
    """The class activation map of these weights; other parameters and errors are those of `gradcam`.

    Parameters
    ----------
    who : str
        For the messages.
    weighting : callable
        Maps and their gradients -> weights.
    model, inputs, targets, layers, layer, layout, relu
        As for `gradcam`.
    """
    refuse_if(boolean_problem("relu", relu), who)
    module = find_layer(model, layer, layers, "gradcam")
    layout = layout_of(model, module, inputs, layout, who)
    maps, gradients = layer_maps(model, module, inputs, targets, layout, who)
    return weighted_sum(weighting(maps, gradients), maps, inputs, relu=relu)


@checked
@declares(claim="positive", resolution="gradcam")
def gradcam(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    layers: Mapping[str, nn.Module] | None = None,
    layer: str | None = None,
    layout: Layout | None = None,
    relu: bool = True,
) -> Tensor:
    r"""A layer's maps, each weighted by its mean gradient, summed, positive part, enlarged.

    .. math::
        L = ReLU\Big(\sum_c w_c A^c\Big), \qquad
        w_c = \frac{1}{hw} \sum_{ij} \frac{\partial f_t(x)}{\partial A^c_{ij}}

    Source: Selvaraju et al., 2017; enlarged bilinearly to the image. Shows roughly where the evidence
    for an output lies: its grain is that of the layer (25 x 25 cells of 9 pixels for the environments
    at 224), and maps are weighted as a whole, so it is wrong where one map speaks for the output in one
    place and against it in another. Claims the positive truth: what speaks against the output is cut
    off by definition. One forward pass, and a backward pass down to the layer.

    Parameters
    ----------
    model, inputs, targets
        As for `saliency`.
    layers : mapping of str to nn.Module, optional
        The environment gives it; its "gradcam" is attached to.
    layer : str, optional
        Dotted name of another module of the model to attach to (`find_layer`).
    layout : {"channels-first", "channels-last"}, optional
        Whether the layer returns (B, c, h, w) or (B, h, w, c), as in Swin transformers. Without it one
        image passes first, to see which one the operations around the layer prove (`layout_of`).
    relu : bool
        Keep the positive part of the map only, before it is enlarged, as the authors define it.

    Returns
    -------
    Tensor, (B, 1, H, W)
        In units of the output.

    Raises
    ------
    AttributionLabError
        If the layer does not exist, does not run exactly once, returns no maps or maps of a single
        cell, or does not move the output; if its layout is neither stated nor proven; or if `relu` is
        neither True nor False.
    """

    def mean_gradients(_maps: Tensor, gradients: Tensor) -> Tensor:
        return gradients.mean((2, 3), keepdim=True)

    given = (model, inputs, targets, layers, layer, layout)
    return activation_map("gradcam", mean_gradients, *given, relu=relu)


@checked
@declares(claim="positive", gradient=True)
def guided_gradcam(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    layers: Mapping[str, nn.Module] | None = None,
    layer: str | None = None,
    layout: Layout | None = None,
) -> Tensor:
    r"""Guided Backpropagation, times GradCAM's enlarged map.

    .. math:: a_{c,ij} = g_{c,ij} \, L_{ij}

    with g of `guided_backprop` and L of `gradcam`, enlarged bilinearly.

    Source: Selvaraju et al., 2017. The map says where the evidence for the output lies, the gradient
    refines it to pixels. Claims the positive truth, as both do. (Values are negative where the first
    layer's weights are.) Has the limits of both: no gradient, or no map, is no attribution. In captum
    0.9.0 GuidedGradCam enlarges by nearest neighbors by default. Two forward and two backward passes.

    Parameters
    ----------
    model, inputs, targets, layers, layer, layout
        As for `gradcam`.

    Returns
    -------
    Tensor, (B, C, H, W)
        Squared output units per input unit.

    Raises
    ------
    AttributionLabError
        As `gradcam` and `guided_backprop` do.
    """
    coarse = gradcam(model, inputs, targets, layers=layers, layer=layer, layout=layout)
    return coarse * guided_backprop(model, inputs, targets)


@checked
@declares(resolution="gradcam")
def linear_approximation(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    layers: Mapping[str, nn.Module] | None = None,
    layer: str | None = None,
    layout: Layout | None = None,
) -> Tensor:
    r"""A layer's activations times their gradients, summed over maps, enlarged.

    .. math:: a_{ij} = \sum_c A^c_{ij} \, \frac{\partial f_t(x)}{\partial A^c_{ij}}

    Source: so named by TorchRay (Fong et al., 2019) and shown by the Unified study (appendix B.2); the
    change of a linear output if the layer's activations fell to 0. Enlarged bilinearly to the image.
    Unlike `gradcam` it keeps the sign and weighs each place by its own gradient. Before it is enlarged
    it sums to the output where the network behind the layer has ReLUs and no biases. One forward pass,
    and a backward pass down to the layer.

    Parameters
    ----------
    model, inputs, targets, layers, layer, layout
        As for `gradcam`.

    Returns
    -------
    Tensor, (B, 1, H, W)
        In units of the output, per cell of the layer.

    Raises
    ------
    AttributionLabError
        As `gradcam` does of a layer.
    """

    def gradients_themselves(_maps: Tensor, gradients: Tensor) -> Tensor:
        return gradients

    given = (model, inputs, targets, layers, layer, layout)
    return activation_map("linear-approximation", gradients_themselves, *given, relu=False)
