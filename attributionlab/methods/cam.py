"""Class activation maps: where a layer's maps speak for the output."""

from collections.abc import Mapping

from torch import Tensor, nn

from attributionlab.errors import refuse_if
from attributionlab.methods.batching import over_batches
from attributionlab.methods.declaration import declares
from attributionlab.methods.gradients import guided_backprop
from attributionlab.methods.layers import find_layer, observe
from attributionlab.validation import boolean_problem

__all__ = ["gradcam", "guided_gradcam", "linear_approximation"]


@declares(claim="positive", resolution="gradcam")
def gradcam(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    layers: Mapping[str, nn.Module] | None = None,
    layer: str | None = None,
    relu: bool = True,
) -> Tensor:
    r"""A layer's maps, each weighted by its mean gradient, summed, positive part, enlarged.

    .. math::
        L = ReLU\Big(\sum_c w_c A^c\Big), \qquad
        w_c = \frac{1}{hw} \sum_{ij} \frac{\partial f_t(x)}{\partial A^c_{ij}}

    Source: Selvaraju et al., 2017, with Captum's `LayerGradCam`; enlarged bilinearly to the image.
    Shows roughly where the evidence for an output lies: its grain is that of the layer (25 x 25 cells
    of 9 pixels for the environments at 224), and maps are weighted as a whole, so it is wrong where
    one map speaks for the output in one place and against it in another. Claims the positive truth:
    what speaks against the output is cut off by definition. One forward pass, and a backward pass down
    to the layer.

    Parameters
    ----------
    model, inputs, targets
        As for `saliency`.
    layers : mapping of str to nn.Module, optional
        The environment gives it; its "gradcam" is attached to.
    layer : str, optional
        Dotted name of another module of the model to attach to (`find_layer`).
    relu : bool
        Keep the positive part of the map only, before it is enlarged, as the authors define it.

    Returns
    -------
    Tensor, (B, 1, H, W)
        In units of the output.

    Raises
    ------
    AttributionLabError
        If the layer does not exist, does not run exactly once or returns no maps, or `relu` is neither
        True nor False.
    """
    from captum.attr import LayerAttribution, LayerGradCam

    refuse_if(boolean_problem("relu", relu), "gradcam")
    module = find_layer(model, layer, layers, "gradcam")
    if layer is not None:  # the environment's own is known to be one that works
        observe(model, module, inputs[:1])

    def run(images: Tensor, classes: Tensor) -> tuple[Tensor]:
        leaf = images.detach().clone().requires_grad_()
        maps = LayerGradCam(model, module).attribute(leaf, classes, relu_attributions=relu)
        return (maps.detach(),)

    (coarse,) = over_batches(run, (inputs, targets), "gradcam")
    enlarged: Tensor = LayerAttribution.interpolate(
        coarse, tuple(inputs.shape[2:]), interpolate_mode="bilinear"
    )
    return enlarged


@declares(claim="positive", gradient=True)
def guided_gradcam(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    layers: Mapping[str, nn.Module] | None = None,
    layer: str | None = None,
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
    model, inputs, targets, layers, layer
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
    coarse = gradcam(model, inputs, targets, layers=layers, layer=layer)
    return coarse * guided_backprop(model, inputs, targets)


@declares(resolution="gradcam")
def linear_approximation(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    layers: Mapping[str, nn.Module] | None = None,
    layer: str | None = None,
) -> Tensor:
    r"""A layer's activations times their gradients, summed over maps, enlarged.

    .. math:: a_{ij} = \sum_c A^c_{ij} \, \frac{\partial f_t(x)}{\partial A^c_{ij}}

    Source: so named by TorchRay (Fong et al., 2019) and shown by the Unified study (appendix B.2); the
    change of a linear output if the layer's activations fell to 0. With Captum's class
    `LayerGradientXActivation`, enlarged bilinearly to the image. Unlike `gradcam` it keeps the sign
    and weighs each place by its own gradient. Before it is enlarged it sums to the output where the
    network behind the layer has ReLUs and no biases. One forward pass, and a backward pass down to the
    layer.

    Parameters
    ----------
    model, inputs, targets, layers, layer
        As for `gradcam`.

    Returns
    -------
    Tensor, (B, 1, H, W)
        In units of the output, per cell of the layer.

    Raises
    ------
    AttributionLabError
        If the layer does not exist, does not run exactly once or returns no maps.
    """
    from captum.attr import LayerAttribution, LayerGradientXActivation

    module = find_layer(model, layer, layers, "gradcam")
    if layer is not None:  # the environment's own is known to be one that works
        observe(model, module, inputs[:1])

    def run(images: Tensor, classes: Tensor) -> tuple[Tensor]:
        leaf = images.detach().clone().requires_grad_()
        maps = LayerGradientXActivation(model, module).attribute(leaf, classes)
        return (maps.detach().sum(1, keepdim=True),)

    (coarse,) = over_batches(run, (inputs, targets), "linear-approximation")
    enlarged: Tensor = LayerAttribution.interpolate(
        coarse, tuple(inputs.shape[2:]), interpolate_mode="bilinear"
    )
    return enlarged
