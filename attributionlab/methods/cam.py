r"""Class activation maps: where a layer's maps speak for the output.

All of them are made from the maps :math:`A^c` of a layer and their gradients
:math:`g^c = \partial f_t(x) / \partial A^c`, which one forward and one backward pass give
(`layer_maps`; `cam_passes` has the others). They differ in the weights of the sum (`activation_map`):

.. math:: L_{ij} = \sum_c w^c_{ij} \, A^c_{ij}
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attributionlab.base import (
    AttributionLabError,
    Count,
    Grid,
    NotNegative,
    Positive,
    Whole,
    refuse_if,
)
from attributionlab.methods.batching import images_at_once, over_batches
from attributionlab.methods.declaration import DirectCall, checked, declares, kebab, presented
from attributionlab.methods.defaults import seeded, value_range
from attributionlab.methods.ensembles import all_equal, noise_problems, noisy_samples
from attributionlab.methods.gradients import guided_backprop
from attributionlab.methods.layers import (
    Cells,
    Layout,
    Reshape,
    cells_of,
    channels_first,
    find_layer,
    only_output,
    refuse_single_cell,
)
from attributionlab.methods.notices import Notice, notify
from attributionlab.methods.outputs import target_outputs
from attributionlab.methods.tokens import Tokens

NEGATIVE = (
    "are zero because the weighted sum of the layer's maps is nowhere positive, and the ReLU removes "
    "evidence against the output: relu=False shows it"
)
UNREAD = (
    "are zero because the output has no gradient from the image's tokens after this layer: name one "
    "before the last attention, such as the first normalization of the last block"
)


def layer_maps(
    model: nn.Module,
    layer: nn.Module,
    inputs: Float[Tensor, "batch channels height width"],
    targets: Tensor,
    cells: Cells,
    who: str,
) -> tuple[Float[Tensor, "batch maps rows columns"], Float[Tensor, "batch maps rows columns"]]:
    """A layer's maps and the output's gradient there: a forward pass, and one back to the layer.

    The graph begins at the layer: what runs before it is forgotten, and may do without gradients.
    Refuses a layer that does not run exactly once, returns no maps or maps of a single cell, or has no
    gradient.
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
        maps = only_output(returned)
        refuse_single_cell(channels_first(maps, cells), who)
        gradient = None
        if outputs.requires_grad:
            chosen = target_outputs(outputs, classes).sum()
            (gradient,) = torch.autograd.grad(chosen, maps, allow_unused=True)
        if gradient is None:
            raise AttributionLabError(
                f"{who}: the output has no gradient with respect to the layer: name another one"
            )
        return channels_first(maps.detach(), cells), channels_first(gradient, cells)

    maps, gradients = over_batches(run, (inputs, targets), who)
    if isinstance(cells, Tokens):
        notify(Notice(UNREAD, int((gradients == 0).flatten(1).all(1).sum()), kind="zeros"))
    return maps, gradients


def enlarged(
    sums: Float[Tensor, "batch 1 rows columns"],
    inputs: Float[Tensor, "batch channels height width"],
    *,
    relu: bool,
) -> Float[Tensor, "batch 1 height width"]:
    """Weighted sums of maps, cut off at 0 with `relu`, upsampled bilinearly to the images' size."""
    if relu:
        empty = ((sums <= 0) & (sums < 0).any((2, 3), keepdim=True)).flatten(1).all(1)
        notify(Notice(NEGATIVE, int(empty.sum()), kind="zeros"))
        sums = sums.relu()
    return F.interpolate(sums, tuple(inputs.shape[2:]), mode="bilinear")


class Attached(NamedTuple):
    """A question to a network, and the layer whose maps answer it."""

    model: nn.Module
    module: nn.Module
    inputs: Float[Tensor, "batch channels height width"]
    targets: Int[Tensor, " batch"]
    cells: Cells
    who: str


class ActivationMap(Protocol):
    """A class activation map: parameters, result and errors are those of `gradcam`."""

    def __call__(
        self,
        model: nn.Module,
        inputs: Tensor,
        targets: Tensor,
        *,
        layers: Mapping[str, nn.Module] | None = None,
        layer: str | None = None,
        layout: Layout | Reshape | None = None,
        grid: Grid | None = None,
        prefix: Whole | None = None,
        relu: bool = True,
    ) -> Tensor:
        """Images -> maps."""


def summed_maps(sums: Callable[..., Tensor]) -> DirectCall[...]:
    """The method of this name and docstring, from how it sums a layer's maps: parameters, result and
    errors are those of `gradcam`.

    `sums`: what is attached to, and settings of its own by name -> (B, 1, h, w).
    """

    def method(
        model: nn.Module,
        inputs: Tensor,
        targets: Tensor,
        *,
        layers: Mapping[str, nn.Module] | None = None,
        layer: str | None = None,
        layout: Layout | Reshape | None = None,
        grid: Grid | None = None,
        prefix: Whole | None = None,
        relu: bool = True,
        **settings: Any,
    ) -> Tensor:
        who = kebab(sums)
        module = find_layer(model, layer, layers, "gradcam")
        cells = cells_of(model, module, inputs, layout, grid, prefix, who)
        found = sums(Attached(model, module, inputs, targets, cells, who), **settings)
        return enlarged(found, inputs, relu=relu)

    taken = [*inspect.signature(method).parameters.values()][:-1]
    own = [*inspect.signature(sums).parameters.values()][1:]
    presented(method, sums.__name__, sums.__doc__ or "", sums.__module__, [*taken, *own])
    declaration = declares(claim="positive", resolution="gradcam", modules=True, images=True)
    return checked(declaration(method))


def activation_map(weights: Callable[[Tensor, Tensor], Tensor]) -> ActivationMap:
    """The method of this name and docstring, from what its weights are.

    `weights`: maps and their gradients, (B, c, h, w) each -> weights of maps, (B, c, 1, 1), or of their
    cells.
    """

    def sums(at: Attached) -> Tensor:
        maps, gradients = layer_maps(*at)
        return (weights(maps, gradients) * maps).sum(1, keepdim=True)

    named = (weights.__name__, weights.__doc__ or "", weights.__module__)
    presented(sums, *named, inspect.signature(sums).parameters.values())
    return cast(ActivationMap, summed_maps(sums))


@activation_map
def gradcam(_maps: Tensor, gradients: Tensor) -> Tensor:
    r"""Grad-CAM: activation maps weighted by their mean gradients, summed, rectified and upsampled.

    .. math::
        L = ReLU\Big(\sum_c w_c A^c\Big), \qquad
        w_c = \frac{1}{hw} \sum_{ij} \frac{\partial f_t(x)}{\partial A^c_{ij}}

    Source: Selvaraju et al., 2017; upsampled bilinearly to the image. Shows roughly where the evidence
    for an output is: its resolution is that of the layer (25 x 25 cells of 9 pixels for the
    environments at 224). Each map has a single weight, so it is wrong if a map supports the output at
    one position and opposes it at another. Claims the positive truth: evidence against the output is
    removed by definition. One forward pass, and a backward pass down to the layer.

    Parameters
    ----------
    model, inputs, targets
        As for `saliency`.
    layers : mapping of str to nn.Module, optional
        Provided by the environment; the method attaches to its "gradcam".
    layer : str, optional
        Dotted name of another module of the model to attach to (`find_layer`).
    layout : {"channels-first", "channels-last"} or callable, optional
        Whether the layer returns (B, c, h, w) or (B, h, w, c), as in Swin transformers. By default one
        image passes first, to prove the layout by the operations around the layer (`layout_of`), or to
        find that it returns tokens (B, N, c). A function turns the layer's output into (B, c, h, w).
    grid : pair of int, optional
        Rows and columns of the image's tokens, if the layer returns tokens; by default as for
        `attention_rollout`.
    prefix : int, optional
        Tokens before the image's; by default as for `attention_rollout`.
    relu : bool
        Keep the positive part of the map only, before it is upsampled, as the authors define it.

    Returns
    -------
    Tensor, (B, 1, H, W)
        In units of the output.

    Raises
    ------
    AttributionLabError
        If the layer does not exist, does not run exactly once, returns no maps or maps of a single
        cell, or does not affect the output; if its layout, or the positions of its tokens, are neither
        stated nor proven; or if `relu` is neither True nor False.
    """
    return gradients.mean((2, 3), keepdim=True)


@checked
@declares(claim="positive", gradient=True, modules=True, images=True)
def guided_gradcam(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    layers: Mapping[str, nn.Module] | None = None,
    layer: str | None = None,
    layout: Layout | Reshape | None = None,
    grid: Grid | None = None,
    prefix: Whole | None = None,
) -> Tensor:
    r"""Guided Backpropagation times the upsampled Grad-CAM map.

    .. math:: a_{c,ij} = g_{c,ij} \, L_{ij}

    with g of `guided_backprop` and L of `gradcam`, upsampled bilinearly.

    Source: Selvaraju et al., 2017. The map shows where the evidence for the output is, the gradient
    refines it to pixels. Claims the positive truth, as both do. (Values are negative where the first
    layer's weights are.) Has the limits of both: without gradient or map there is no attribution. In
    captum 0.9.0, GuidedGradCam upsamples by nearest neighbors by default. Two forward and two backward
    passes.

    Parameters
    ----------
    model, inputs, targets, layers, layer, layout, grid, prefix
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
    coarse = gradcam(
        model, inputs, targets, layers=layers, layer=layer, layout=layout, grid=grid, prefix=prefix
    )
    return coarse * guided_backprop(model, inputs, targets)


@checked
@declares(resolution="gradcam", modules=True, images=True)
def linear_approximation(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    *,
    layers: Mapping[str, nn.Module] | None = None,
    layer: str | None = None,
    layout: Layout | Reshape | None = None,
    grid: Grid | None = None,
    prefix: Whole | None = None,
) -> Tensor:
    r"""A layer's activations times their gradients, summed over channels and upsampled.

    .. math:: a_{ij} = \sum_c A^c_{ij} \, \frac{\partial f_t(x)}{\partial A^c_{ij}}

    Source: so named by TorchRay (Fong et al., 2019) and shown by the Unified study (appendix B.2); the
    change of a linear output if the layer's activations were 0. Upsampled bilinearly to the image.
    Unlike `gradcam` it keeps the sign and weights each position by its own gradient. Before upsampling
    it sums to the output if the network after the layer has ReLUs and no biases. One forward pass, and
    a backward pass down to the layer.

    Parameters
    ----------
    model, inputs, targets, layers, layer, layout, grid, prefix
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
    who = "linear-approximation"
    module = find_layer(model, layer, layers, "gradcam")
    cells = cells_of(model, module, inputs, layout, grid, prefix, who)
    maps, gradients = layer_maps(model, module, inputs, targets, cells, who)
    return enlarged((gradients * maps).sum(1, keepdim=True), inputs, relu=False)


BEYOND = 1.01
"""By how much a weighted mean may leave the range of its values: rounding, generously."""

LARGEST_ALPHA = 1.0
"""Without mention: 1 / (2 + S g) is at most 1/2 where maps are not negative. At twice that, half of the
denominator is gone; where all of it is, the pole lies, and behind it weights have the wrong sign."""

POLE = (
    "rest on weights near a pole or past it (alpha above 1 or below 0 for up to {worst} of positive "
    "gradients), where they are unbounded and can flip the sign of evidence: "
)
NEGATIVE_MAPS = POLE + "name a layer whose maps are not negative, such as one after a ReLU"
MIXED_GRADIENTS = (
    POLE
    + "the samples' gradients there are of both signs, so take less noise, or gradcam-plus-plus"
)
CANCELED = (
    "rest on maps whose values cancel, so that their weights are no longer means of gradients: name "
    "a layer whose maps are not negative, such as one after a ReLU"
)


@activation_map
def gradcam_plus_plus(maps: Tensor, gradients: Tensor) -> Tensor:
    r"""Grad-CAM++: activation maps, each weighted by a weighted sum of its positive gradients.

    .. math::
        w_c = \sum_{ij} \alpha^c_{ij} \, ReLU(g^c_{ij}), \qquad
        \alpha^c_{ij} = \frac{(g^c_{ij})^2}{2 (g^c_{ij})^2 + S_c \, (g^c_{ij})^3}, \qquad
        S_c = \sum_{ab} A^c_{ab}, \qquad
        g^c_{ij} = \frac{\partial f_t(x)}{\partial A^c_{ij}},

    and alpha = 0 where g = 0.

    Source: Chattopadhay et al., 2018, eq. 19. They explain exp(f), whose second and third derivative
    are exp(f) g^2 and exp(f) g^3 behind ReLUs: alpha is that of exp(f). The weights here use the
    gradient of f itself, without the common factor exp(f), which does not change a map's shape and
    exceeds float32 for outputs above 88. In torchcam 0.5.0 alpha is g^2; pytorch-grad-cam 1.5.7 adds
    1e-6 to the denominator, which dominates if gradients are below 0.001.

    Written as alpha = 1 / (2 + S g), the formula shows its effect: if S g is small, the weight is half
    the sum of the positive gradients (Lerma and Lucas, 2022); if it is large, as for outputs that are
    counts, it is the number of cells with a positive gradient divided by S, whatever the size of the
    gradients. The map therefore depends on the unit of the output and on the size of the layer.
    Otherwise as `gradcam`, with the same resolution. Claims the positive truth. One forward pass, and a
    backward pass down to the layer.

    After a ReLU, alpha is at most 1/2. If maps are negative, the denominator can vanish or change its
    sign; a warning says if alpha is above 1 or below 0, and alpha is 0 where the denominator is.

    Parameters, result and errors are those of `gradcam`.
    """
    weights, beyond = _of_moments(maps, gradients[None])
    _notify_of_poles(beyond)
    return weights


@activation_map
def xgradcam(maps: Tensor, gradients: Tensor) -> Tensor:
    r"""XGrad-CAM: activation maps, each weighted by its activation-weighted mean gradient.

    .. math::
        w_c = \frac{\sum_{ij} A^c_{ij} \, g^c_{ij}}{\sum_{ij} A^c_{ij}}, \qquad
        g^c_{ij} = \frac{\partial f_t(x)}{\partial A^c_{ij}},

    and w = 0 where the maps sum to 0.

    Source: Fu et al., 2020. Made to conserve: before the positive part is taken and upsampled, the map
    has the sum of `linear_approximation`, which is the output if the network after the layer has ReLUs
    and no biases. As in `gradcam`, a map has one weight for all positions, with the same resolution.
    Claims the positive truth. One forward pass, and a backward pass down to the layer.

    If a map has values of both signs, their sum can be small and the weight larger than any gradient
    (with a warning). pytorch-grad-cam 1.5.7 and torchcam 0.5.0 add 1e-7 and 1e-8 to the sum.

    Parameters, result and errors are those of `gradcam`.
    """
    sums = maps.sum((2, 3), keepdim=True)
    products = (maps * gradients).sum((2, 3), keepdim=True)
    weights = torch.where(sums == 0, 0, products / sums)
    largest = gradients.abs().amax((2, 3), keepdim=True)
    canceled = (weights.abs() > BEYOND * largest) | (sums == 0) & (products != 0)
    notify(Notice(CANCELED, int(canceled.flatten(1).any(1).sum())))
    return weights


@activation_map
def layercam(_maps: Tensor, gradients: Tensor) -> Tensor:
    r"""LayerCAM: activation maps, each cell weighted by its own gradient if positive.

    .. math::
        L = ReLU\Big(\sum_c ReLU(g^c) \, A^c\Big), \qquad
        g^c_{ij} = \frac{\partial f_t(x)}{\partial A^c_{ij}}

    Source: Jiang et al., 2021. Made for layers of any depth, including those with small cells: unlike
    in `gradcam`, weights differ between positions. It is `linear_approximation` without the gradients
    against the output, and does not sum to it. The authors also scale and combine maps of several
    layers, which is left to the user. Claims the positive truth. One forward pass, and a backward pass
    down to the layer.

    Parameters, result (per cell of the layer) and errors are those of `gradcam`.
    """
    return gradients.relu()


@activation_map
def hirescam(_maps: Tensor, gradients: Tensor) -> Tensor:
    r"""HiResCAM: activation maps, each cell weighted by its own gradient.

    .. math::
        L = ReLU\Big(\sum_c g^c \odot A^c\Big), \qquad
        g^c_{ij} = \frac{\partial f_t(x)}{\partial A^c_{ij}}

    Source: Draelos and Carin, 2020. Corrects an error of `gradcam`: a mean of gradients shows positions
    that the network did not use. The proven property, that the cells sum to the output except for its
    bias if a single linear layer follows, holds for the sum itself (`relu=False`), which is
    `linear_approximation`. Unlike in `layercam`, gradients against the output count. Claims the
    positive truth. One forward pass, and a backward pass down to the layer.

    Parameters, result (per cell of the layer) and errors are those of `gradcam`.
    """
    return gradients


@summed_maps
def smooth_gradcam_plus_plus(
    at: Attached,
    *,
    highest: Positive | None = None,
    generator: torch.Generator | None = None,
    n_samples: Count = 20,
    noise: NotNegative = 0.15,
) -> Tensor:
    r"""Smooth Grad-CAM++: Grad-CAM++ with powers of gradients averaged over noisy samples.

    .. math::
        w_c = \sum_{ij} \alpha^c_{ij} \, ReLU\big(\langle g^c_{ij} \rangle\big), \qquad
        \alpha^c_{ij} = \frac{\langle (g^c_{ij})^2 \rangle}
            {2 \langle (g^c_{ij})^2 \rangle + S_c \langle (g^c_{ij})^3 \rangle}, \qquad
        S_c = \sum_{ab} A^c_{ab},

    where the means are over S samples :math:`x + \sigma h e_s`, :math:`e_s \sim N(0, 1)` for each value
    with h the length of the value range, the maps A are those of the image itself, and alpha is 0 where
    all gradients are.

    Source: Omeiza et al., 2019. In torchcam 0.5.0, ReLU is taken of the last sample's gradient instead
    of the mean. Means of gradients, not of maps: nothing is upsampled twice, and noise that does not
    affect gradients changes nothing (with a warning). Noise also shows the network unseen data. Has the
    resolution of `gradcam` and the limits of `gradcam_plus_plus`, and one more: even after a ReLU the
    denominator can vanish or change its sign, if gradients of both signs have a positive mean and a
    negative mean cube (with a warning). Claims the positive truth. `n_samples` + 1 forward passes, and
    as many backward passes down to the layer; one forward pass more for all images.

    Parameters
    ----------
    model, inputs, targets, layers, layer, layout, grid, prefix, relu
        As for `gradcam`.
    highest : float, optional
        The length of the inputs' value range, as for `integrated_gradients_uniform`.
    generator : torch.Generator, optional
        Draws the noise, on its own device, image after image; by default one with seed 0.
    n_samples : int
        S. The image itself is not one of them.
    noise : float
        Standard deviation of the noise in units of `highest`. Noisy values may leave the value range.

    Returns
    -------
    Tensor, (B, 1, H, W)
        In units of the output.

    Raises
    ------
    AttributionLabError
        For settings out of range, an invalid generator, more samples than fit in memory, and as
        `gradcam` does.
    """
    inputs, who = at.inputs, at.who
    generator, highest = seeded(generator), value_range(highest, inputs, who)
    refuse_if(noise_problems(noise, highest, inputs.dtype), who)
    batch = images_at_once(at.model, inputs)
    sums, shares, equal = [], [], 0
    for image, target in zip(torch.split(inputs, 1), at.targets, strict=True):
        samples = noisy_samples(who, image[0], generator, n_samples, noise * highest)
        # The image comes first.
        both = torch.cat([image.contiguous(memory_format=torch.channels_last), samples])
        parts = [
            layer_maps(*at._replace(inputs=part, targets=target.expand(len(part))))
            for part in torch.split(both, batch)
        ]
        maps, gradients = parts[0][0][:1], torch.cat([part for _, part in parts])[1:, None]
        weights, beyond = _of_moments(maps, gradients)
        shares.append(beyond)
        equal += all_equal(gradients)
        sums.append((weights * maps).sum(1, keepdim=True))
    _notify_of_poles(torch.cat(shares, 1))
    text = (
        f"are made from identical gradients of all samples (noise {noise:g}, n_samples {n_samples}), "
        "so their mean adds nothing: change the noise and take more samples"
    )
    notify(Notice(text, equal))
    return torch.cat(sums)


def _of_moments(
    maps: Float[Tensor, "batch maps rows columns"],
    gradients: Float[Tensor, "samples batch maps rows columns"],
) -> tuple[Float[Tensor, "batch maps 1 1"], Float[Tensor, "2 batch"]]:
    """Weights of Grad-CAM++, and of the positive gradients the share whose alpha is beyond its range.

    The first row counts those for negative maps' sake, the second those for negative cubes'.
    """
    # In units of an image's largest gradient, whose powers would underflow behind a softmax.
    unit = gradients.abs().amax((0, 2, 3, 4)).clamp(min=torch.finfo(gradients.dtype).tiny)
    unit = unit[:, None, None, None]
    first, second, third = ((gradients / unit).pow(power).mean(0) for power in (1, 2, 3))
    sums = maps.sum((2, 3), keepdim=True)
    denominator = 2 * second + sums * unit * third
    alpha = torch.where((second == 0) | (denominator == 0), 0, second / denominator)
    positive = first > 0
    beyond = positive & (LARGEST_ALPHA * denominator < second)
    counts = torch.stack([(beyond & cause).flatten(1).sum(1) for cause in (sums < 0, sums > 0)])
    shares = counts / positive.flatten(1).sum(1).clamp(min=1)
    return unit * (alpha * first.relu()).sum((2, 3), keepdim=True), shares.to(maps)


def _notify_of_poles(shares: Float[Tensor, "2 batch"]) -> None:
    for text, each in zip((NEGATIVE_MAPS, MIXED_GRADIENTS), shares, strict=True):
        notify(Notice(text, int((each > 0).sum()), worst=float(each.max())))
