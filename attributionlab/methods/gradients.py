r"""Gradient methods, with Captum doing the work.

The networks' relevant pixels sit exactly on kinks of their ReLUs, so every gradient here depends on the
convention ReLU'(0) = 0, which PyTorch follows.
"""

import warnings

from torch import Tensor, nn

from attributionlab.errors import refuse_if
from attributionlab.methods.batching import over_batches
from attributionlab.methods.declaration import declares
from attributionlab.methods.guards import hidden_activations, watched
from attributionlab.validation import boolean_problem

__all__ = ["guided_backprop", "input_x_gradient", "saliency"]


@declares(gradient=True)
def saliency(model: nn.Module, inputs: Tensor, targets: Tensor, *, abs: bool = False) -> Tensor:
    r"""The gradient of the output with respect to each input value.

    .. math:: a_j = \partial f_t(x) / \partial x_j

    Source: Simonyan et al., 2013. Shows how the output would react to tiny changes; says nothing of
    how much of it a pixel accounts for. One forward and one backward pass.

    Parameters
    ----------
    model : nn.Module
        (B, C, H, W) -> (B, K).
    inputs : Tensor, (B, C, H, W)
        Images.
    targets : Tensor, (B,)
        The output to explain in each image.
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


@declares(claim="positive", gradient=True)
def guided_backprop(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    r"""The gradient, of which every ReLU lets only what is positive pass.

    .. math:: g_z = 1[z > 0] \, ReLU(g_{ReLU(z)})

    Source: Springenberg et al., 2015, by Captum. Shows what excites the output, and never what inhibits
    it: hence the claim positive. (Values are negative where the first layer's weights are.) It tends
    to restore the input's edges whatever the output (Nie et al., 2018). It hooks modules: a functional
    ReLU gets its plain gradient, and the guard tells. One forward and one backward pass. Parameters are
    those of `saliency`.

    Returns
    -------
    Tensor, (B, C, H, W)
        Output units per input unit, but no gradient of any function.
    """
    from captum.attr import GuidedBackprop

    def run(images: Tensor, classes: Tensor) -> tuple[Tensor]:
        return (GuidedBackprop(model).attribute(_leaf(images), target=classes),)

    with watched(model, "GuidedBackprop") as found, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Setting backward hooks")
        (attributions,) = over_batches(run, (inputs, targets), "guided-backprop")
    hidden_activations(found, "GuidedBackprop", len(inputs))
    return attributions


def _leaf(inputs: Tensor) -> Tensor:
    # Captum warns where it has to switch gradients on itself.
    return inputs.detach().clone().requires_grad_()
