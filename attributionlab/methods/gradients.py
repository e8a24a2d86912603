r"""Gradient methods, plain and with another backward pass for ReLUs.

The networks' relevant pixels sit exactly on kinks of their ReLUs, so every gradient here depends on the
convention ReLU'(0) = 0, which PyTorch follows.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attributionlab.base import AttributionLabError
from attributionlab.methods.batching import over_batches
from attributionlab.methods.declaration import checked, declares
from attributionlab.methods.graph import nonlinear_steps
from attributionlab.methods.guards import Backpropagation, other_rectifiers, unruled
from attributionlab.methods.outputs import target_outputs


@checked
@declares(gradient=True)
def saliency(model: nn.Module, inputs: Tensor, targets: Tensor, *, abs: bool = False) -> Tensor:
    r"""The gradient of the output with respect to each input value.

    .. math:: a_j = \partial f_t(x) / \partial x_j

    Source: Simonyan et al., 2013. Shows how the output responds to tiny changes, not how much of it is
    due to a pixel. One forward and one backward pass.

    Parameters
    ----------
    model : nn.Module or callable
        (B, C, H, W) -> (B, K).
    inputs : Tensor, (B, C, H, W)
        Images; for other shapes see docs/methods.md ("What a call takes").
    targets : Tensor, (B,); int, sequence of int, "predicted" or callable
        The output to explain for each image: indices, one index for all, or the largest output; or a
        function of the network's output that returns a score for each image, (B,).
    show_progress : bool
        Show progress on standard error; every method takes it.
    abs : bool
        Take absolute values, which lose the sign (Captum's default).

    Raises
    ------
    AttributionLabError
        If `abs` is neither True nor False.
    """
    from captum.attr import Saliency

    def run(images: Tensor, classes: Tensor) -> tuple[Tensor]:
        return (Saliency(model).attribute(_leaf(images), target=classes, abs=abs),)

    return over_batches(run, (inputs, targets), "saliency")[0]


@checked
@declares(gradient=True)
def input_x_gradient(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    r"""The gradient times the input.

    .. math:: a_j = x_j \, \partial f_t(x) / \partial x_j

    Source: Shrikumar et al., 2016. Exact if the network is linear between 0 and the input. One forward
    and one backward pass. Parameters are those of `saliency`.
    """
    from captum.attr import InputXGradient

    def run(images: Tensor, classes: Tensor) -> tuple[Tensor]:
        return (InputXGradient(model).attribute(_leaf(images), target=classes).detach(),)

    return over_batches(run, (inputs, targets), "input-x-gradient")[0]


@checked
@declares(claim="overall", gradient=True, images=True)
def gradient_norm(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    r"""The norm of the gradient at each pixel or token, taken over its channels.

    .. math:: a_{hw} = \sqrt{\textstyle\sum_c (\partial f_t(x) / \partial x_{chw})^2}

    Source: Arras et al., 2017, for words, where the gradient is that of a word's embedding; its square.
    A sequence of one-hot rows has a channel for each word, so the norm is over changes to all words.
    One forward and one backward pass. Parameters are those of `saliency`.

    Returns
    -------
    Tensor, (B, 1, H, W)
        At least 0, in output units per input unit.
    """
    gradient = saliency(model, inputs, targets)
    lengths: Tensor = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
    return lengths


@checked
@declares(claim="positive", gradient=True, modules=True)
def guided_backprop(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    r"""The gradient, except that every ReLU with positive input passes back its positive part.

    .. math:: g_z = 1[z > 0] \, ReLU(g_{ReLU(z)})

    Source: Springenberg et al., 2015. Shows what excites the output, and never what inhibits it: hence
    the claim positive. (Values are negative where the first layer's weights are.) It tends to restore
    the input's edges whatever the output (Nie et al., 2018). The rule is for ReLUs, modules and
    functions alike. Other rectifiers (ReLU6, LeakyReLU, clamp ...) get their plain gradient, and the
    guard names them; one that is written as arithmetic, such as x * (x > 0), is not detected. In captum
    0.9.0 GuidedBackprop agrees where all ReLUs are modules and no other layer shares a ReLU's input
    (docs/methods.md, "Where Captum does not do the work"). One forward and one backward pass.
    Parameters are those of `saliency`.

    Returns
    -------
    Tensor, (B, C, H, W)
        Output units per input unit, but not the gradient of any function.

    Raises
    ------
    AttributionLabError
        If a ReLU works in place on a view, such as what `nn.Flatten` returns.
    """
    return _rectified(model, inputs, targets, "guided-backprop", "GuidedBackprop")


@checked
@declares(claim="positive", modules=True)
def deconvolution(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    r"""The gradient, except that every ReLU passes back its positive part, whatever the ReLU's input.

    .. math:: g_z = ReLU(g_{ReLU(z)})

    Source: Zeiler and Fergus, 2014 (DeConvNet), from an output of the network. Only the switches of max
    pooling depend on the image; without them, a network without biases has the same map for all images.
    Shows what excites the output, never what inhibits it: hence the claim positive. (Values are
    negative where the first layer's weights are.) For rectifiers and Captum's Deconvolution see
    `guided_backprop`, whose parameters, result and errors it shares. One forward and one backward pass.
    """
    return _rectified(model, inputs, targets, "deconvolution", "Deconvolution")


def _rectified(
    model: nn.Module, inputs: Tensor, targets: Tensor, who: str, method: Backpropagation
) -> Tensor:
    """The backward pass in which every ReLU hands on the positive part alone: of what it would hand on
    (`guided_backprop`), or of what arrived.
    """

    def rule(
        handed_on: tuple[Tensor | None, ...], arrived: tuple[Tensor | None, ...]
    ) -> tuple[Tensor] | None:
        gradient = (handed_on if method == "GuidedBackprop" else arrived)[0]
        # None comes from a function that hands on no gradient.
        return None if gradient is None else (gradient.clamp(min=0),)

    rectifiers: list[tuple[Counter[str], int]] = []

    def run(images: Tensor, classes: Tensor) -> tuple[Tensor]:
        leaf = _leaf(images)
        with torch.enable_grad(), _InPlace(who):
            value = target_outputs(model(leaf), classes).sum()
        # On nodes of this call's graph: a hook on a module, or on its input as Captum's, would also
        # change what the input hands to other layers, and what other threads compute.
        relus = nonlinear_steps(value, ("Relu",))
        for node in relus:
            node.register_hook(rule)
        rectifiers.append((other_rectifiers(value), len(relus)))
        (gradient,) = torch.autograd.grad(value, leaf)
        return (gradient,)

    (attributions,) = over_batches(run, (inputs, targets), who)
    # All batches went through the same layers: what the last one met holds for all.
    unruled(*rectifiers[-1], method, len(inputs))
    return attributions


class _InPlace(TorchFunctionMode):
    """Refuses a ReLU of which the autograd graph has no node of its own."""

    def __init__(self, who: str) -> None:
        super().__init__()
        self.who = who

    def __torch_function__(
        self, func: Any, _types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.__name__ in ("relu", "relu_") and result._is_view() and result.requires_grad:
            raise AttributionLabError(
                f"{self.who} cannot hook a ReLU that works in place on a view (after nn.Flatten, for "
                "example): use nn.ReLU(inplace=False)"
            )
        return result


def _leaf(inputs: Tensor) -> Tensor:
    # Captum warns where it has to switch gradients on itself.
    return inputs.detach().clone().requires_grad_()
