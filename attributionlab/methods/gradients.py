r"""Gradient methods, plain and with another backward pass for ReLUs.

The networks' relevant pixels sit exactly on kinks of their ReLUs, so every gradient here depends on the
convention ReLU'(0) = 0, which PyTorch follows.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from attributionlab.errors import AttributionLabError, refuse_if
from attributionlab.methods.batching import over_batches
from attributionlab.methods.declaration import checked, declares
from attributionlab.methods.guards import Backpropagation, hidden_activations, watched
from attributionlab.methods.outputs import target_outputs
from attributionlab.validation import boolean_problem


@checked
@declares(gradient=True)
def saliency(model: nn.Module, inputs: Tensor, targets: Tensor, *, abs: bool = False) -> Tensor:
    r"""The gradient of the output with respect to each input value.

    .. math:: a_j = \partial f_t(x) / \partial x_j

    Source: Simonyan et al., 2013. Shows how the output would react to tiny changes; says nothing of
    how much of it a pixel accounts for. One forward and one backward pass.

    Parameters
    ----------
    model : nn.Module or callable
        (B, C, H, W) -> (B, K).
    inputs : Tensor, (B, C, H, W)
        Images; other shapes as docs/methods.md says ("What a call takes").
    targets : Tensor, (B,); int, sequence of int, "predicted" or callable
        The output to explain in each image: its index, one index for all, the largest output; or a
        function of the network's output that returns a score for each image, (B,).
    show_progress : bool
        Show on standard error how many images have passed through the network; every method takes it.
    abs : bool
        Take absolute values, which loses the sign (Captum's own default).

    Raises
    ------
    AttributionLabError
        If `abs` is neither True nor False.
    """
    from captum.attr import Saliency

    refuse_if(boolean_problem("abs", abs), "saliency")

    def run(images: Tensor, classes: Tensor) -> tuple[Tensor]:
        return (Saliency(model).attribute(_leaf(images), target=classes, abs=abs),)

    return over_batches(run, (inputs, targets), "saliency")[0]


@checked
@declares(gradient=True)
def input_x_gradient(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    r"""The gradient times the input.

    .. math:: a_j = x_j \, \partial f_t(x) / \partial x_j

    Source: Shrikumar et al., 2016. Exact where the network is linear between 0 and the input. One
    forward and one backward pass. Parameters are those of `saliency`.
    """
    from captum.attr import InputXGradient

    def run(images: Tensor, classes: Tensor) -> tuple[Tensor]:
        return (InputXGradient(model).attribute(_leaf(images), target=classes).detach(),)

    return over_batches(run, (inputs, targets), "input-x-gradient")[0]


@checked
@declares(claim="positive", gradient=True, modules=True)
def guided_backprop(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    r"""The gradient, of which every ReLU with positive input passes back the positive part.

    .. math:: g_z = 1[z > 0] \, ReLU(g_{ReLU(z)})

    Source: Springenberg et al., 2015. Shows what excites the output, and never what inhibits it:
    hence the claim positive. (Values are negative where the first layer's weights are.) It tends to
    restore the input's edges whatever the output (Nie et al., 2018). It hooks modules: a functional
    ReLU gets its plain gradient, and the guard tells. In captum 0.9.0 GuidedBackprop agrees where no
    other layer shares a ReLU's input (docs/methods.md, "Where Captum does not do the work"). One
    forward and one backward pass. Parameters are those of `saliency`.

    Returns
    -------
    Tensor, (B, C, H, W)
        Output units per input unit, but no gradient of any function.

    Raises
    ------
    AttributionLabError
        If a ReLU works in place on a view, such as what `nn.Flatten` returns.
    """
    return _rectified(model, inputs, targets, "guided-backprop", "GuidedBackprop")


@checked
@declares(claim="positive", modules=True)
def deconvolution(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    r"""The gradient, of which every ReLU passes back the positive part, whatever its own input was.

    .. math:: g_z = ReLU(g_{ReLU(z)})

    Source: Zeiler and Fergus, 2014 (DeConvNet), from an output of the network. Only the switches of max
    pooling know the image; without any, a network without biases has the same map for all images. Shows
    what excites the output, and never what inhibits it: hence the claim positive. (Values are negative
    where the first layer's weights are.) It hooks modules: a functional ReLU gets its plain gradient,
    and the guard tells. In captum 0.9.0 Deconvolution agrees where no other layer shares a ReLU's input
    (docs/methods.md, "Where Captum does not do the work"). One forward and one backward pass.
    Parameters, result and errors are those of `guided_backprop`.
    """
    return _rectified(model, inputs, targets, "deconvolution", "Deconvolution")


def _rectified(
    model: nn.Module, inputs: Tensor, targets: Tensor, who: str, method: Backpropagation
) -> Tensor:
    """The backward pass in which every ReLU hands on the positive part alone: of what it would hand on
    (`guided_backprop`), or of what arrived.
    """

    def rule(handed_on: tuple[Tensor, ...], arrived: tuple[Tensor, ...]) -> tuple[Tensor]:
        return ((handed_on if method == "GuidedBackprop" else arrived)[0].clamp(min=0),)

    def run(images: Tensor, classes: Tensor) -> tuple[Tensor]:
        leaf = _leaf(images)
        with torch.enable_grad(), _ruled(model, who, rule):
            value = target_outputs(model(leaf), classes).sum()
        (gradient,) = torch.autograd.grad(value, leaf)
        return (gradient,)

    with watched(model, method) as found:
        (attributions,) = over_batches(run, (inputs, targets), who)
    hidden_activations(found, method, len(inputs))
    return attributions


@contextmanager
def _ruled(model: nn.Module, who: str, rule: Callable[..., tuple[Tensor]]) -> Iterator[None]:
    """Give the nodes that `nn.ReLU` modules add to the autograd graph another backward pass.

    A hook on a node sees what passes through this call of this module. One on a module or on its input,
    as Captum's, would also change what the input hands to other layers.
    """

    def note(module: nn.Module, _: Any, output: Tensor) -> None:
        node = output.grad_fn
        if node is None:
            return
        if not type(node).__name__.startswith("Relu"):
            raise AttributionLabError(
                f"{who} cannot see a ReLU that works in place on a view (behind nn.Flatten, say): "
                "use nn.ReLU(inplace=False)"
            )
        node.register_hook(rule)

    handles = [
        module.register_forward_hook(note)
        for module in model.modules()
        if isinstance(module, nn.ReLU)
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _leaf(inputs: Tensor) -> Tensor:
    # Captum warns where it has to switch gradients on itself.
    return inputs.detach().clone().requires_grad_()
