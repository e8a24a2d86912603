"""How far rounding alone may take a method's map, for methods of which that is derived."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from attributionlab.exact import PathIntegral, path_integral
from attributionlab.exact.rounding import UNIT, gradient_rounding
from attributionlab.faithfulness.calls import attribute_scene
from attributionlab.faithfulness.setup import Scene, Trial
from attributionlab.methods import METHODS, Call, Method, as_baselines

LIMITS = ("max_panels", "max_evaluations")


def maps_with_bound(
    method: Method, trial: Trial, scene: Scene, always: Mapping[str, Any]
) -> tuple[Float[Tensor, "batch 1 height width"], Float64[Tensor, " batch"] | None]:
    """A method's maps, channels summed, with a bound on the Euclidean norm of each one's error.

    The gradient and its product with the input: `gradient_rounding`, summed over channels. Exact
    integrated gradients: the error that `path_integral` states, and the rounding of what is returned;
    the integral is computed once for both.

    Returns
    -------
    maps : Tensor, (B, 1, H, W)
    bound : Tensor of float64, (B,), or None
        None for all other methods: what they compute is no function of the network's function, or
        their forward passes round (any path between images), which no pattern of ReLUs survives surely.
    """
    if _is_one_of(method, METHODS["integrated-gradients-exact"]):
        baselines = method.settings.get("baselines", 0)
        return _integrals(method, trial, scene, always, baselines)
    if _is_one_of(method, METHODS["integrated-gradients-exact-true-baseline"]):
        return _integrals(method, trial, scene, always, trial.env.baseline)
    return attribute_scene(method, trial, scene, always).maps, _of_gradient(method, trial, scene)


def _of_gradient(method: Method, trial: Trial, scene: Scene) -> Tensor | None:
    from captum.attr import InputXGradient, Saliency

    times_input = _is_one_of(method, METHODS["input-x-gradient"], InputXGradient)
    if not times_input and not _is_one_of(method, METHODS["saliency"], Saliency):
        return None
    model, device = trial.env.explained_model(trial.output), trial.env.device
    images = scene.images.to(device)
    bound = gradient_rounding(model, images, scene.targets.to(device))
    if bound is None:
        return None
    norms: Tensor = (bound * images.abs() if times_input else bound).sum(1).flatten(1).norm(dim=1)
    return norms.cpu()


def _is_one_of(method: Method, *functions: object) -> bool:
    return any(method.function is function for function in functions)


def _integrals(
    method: Method, trial: Trial, scene: Scene, always: Mapping[str, Any], baselines: Any
) -> tuple[Tensor, Tensor]:
    limits = {key: method.settings[key] for key in LIMITS if key in method.settings}
    stated: list[Tensor] = []

    def attribute(call: Call) -> Tensor:
        inputs = call.inputs
        result = path_integral(
            call.model, inputs, as_baselines(baselines, inputs), call.targets, **limits
        )
        stated.append(_stated_error(result))
        return result.attributions.to(inputs.dtype)

    maps = attribute_scene(replace(method, attribute=attribute), trial, scene, always).maps
    return maps, torch.cat(stated)


def _stated_error(result: PathIntegral) -> Tensor:
    attributions = result.attributions
    written = UNIT * attributions.flatten(1).norm(dim=1)
    # A sum of C channels is off by at most sqrt(C) times the norm of what all are off by.
    bound: Tensor = (result.error + written) * attributions.shape[1] ** 0.5
    return bound.cpu()
