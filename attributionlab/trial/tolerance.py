"""How far rounding alone may take a method's map, for methods of which that is derived."""

from typing import Any

from jaxtyping import Float64
from torch import Tensor, nn

from attributionlab.exact import path_integral
from attributionlab.exact.rounding import gradient_rounding
from attributionlab.methods import METHODS, Method, as_baselines
from attributionlab.trial.question import Scene, Trial

__all__ = ["rounding_of"]

FLOAT32 = 2.0**-24
LIMITS = ("max_panels", "max_evaluations")


def rounding_of(method: Method, trial: Trial, scene: Scene) -> Float64[Tensor, " batch"] | None:
    """A bound on the Euclidean norm of the error of each image's map, channels summed.

    The gradient and its product with the input: `gradient_rounding`, summed over channels. Exact
    integrated gradients: the error that `path_integral` states, and the rounding of what is returned.

    Returns
    -------
    Tensor of float64, (B,), or None
        None for all other methods: what they compute is no function of the network's function, or
        their forward passes round (any path between images), which no pattern of ReLUs survives surely.
    """
    from captum.attr import InputXGradient, Saliency

    env = trial.env
    model = env.explained_model(trial.output)
    images, targets = scene.images.to(env.device), scene.targets.to(env.device)
    if _is_one_of(method, METHODS["saliency"], Saliency):
        bound = gradient_rounding(model, images, targets)
        return None if bound is None else _norm_of_sums(bound)
    if _is_one_of(method, METHODS["input-x-gradient"], InputXGradient):
        bound = gradient_rounding(model, images, targets)
        return None if bound is None else _norm_of_sums(bound * images.abs())
    if _is_one_of(method, METHODS["integrated-gradients-exact"]):
        return _integral_error(method, model, images, targets, method.settings.get("baselines", 0))
    if _is_one_of(method, METHODS["integrated-gradients-exact-true-baseline"]):
        return _integral_error(method, model, images, targets, env.baseline)
    return None


def _is_one_of(method: Method, *functions: object) -> bool:
    return any(method.function is function for function in functions)


def _norm_of_sums(values: Tensor) -> Tensor:
    norms: Tensor = values.sum(1).flatten(1).norm(dim=1).cpu()
    return norms


def _integral_error(
    method: Method, model: nn.Module, images: Tensor, targets: Tensor, baselines: Any
) -> Tensor:
    limits = {key: method.settings[key] for key in LIMITS if key in method.settings}
    result = path_integral(model, images, as_baselines(baselines, images), targets, **limits)
    written = FLOAT32 * result.attributions.flatten(1).norm(dim=1)
    # A sum of C channels is off by at most sqrt(C) times the norm of what all are off by.
    bound: Tensor = (result.error + written) * images.shape[1] ** 0.5
    return bound.cpu()
