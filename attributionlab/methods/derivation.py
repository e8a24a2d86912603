r"""Methods that are made of another one, by name: ensembles, absolute values, the true baseline.

A suffix of a method's name says what is made of it, and suffixes follow each other:
``input-x-gradient-smoothgrad-absolute`` is the absolute value of SmoothGrad's mean of inputs times
gradients, ``integrated-gradients-absolute-vargrad`` the variance of absolute values.
"""

import dataclasses
import difflib
import functools
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from torch import Tensor, nn

from attributionlab.base import AttributionLabError, checked_images
from attributionlab.methods.baselines import from_true_baseline
from attributionlab.methods.declaration import (
    declared,
    declares,
    kebab,
    name_of,
    parameters_of,
    presented,
    stored,
)
from attributionlab.methods.ensembles import SAMPLES, smoothgrad, smoothgrad_squared, vargrad
from attributionlab.methods.gradients import input_x_gradient, saliency
from attributionlab.methods.guards import guarded
from attributionlab.methods.notices import collect_notices, notify
from attributionlab.methods.paths import integrated_gradients, integrated_gradients_uniform
from attributionlab.methods.suffixes import SUFFIXES, base_and_suffix


def absolute(method: Callable[..., Tensor]) -> Callable[..., Tensor]:
    r"""The absolute value of a method's map.

    .. math:: a_{ij} = \Big| \sum_c A_{c,ij} \Big|

    Source: common practice; compared with signed maps by Smilkov et al., 2017, and Hesse et al., 2024.
    Channels are summed first, so that the map is the absolute value of the one whose signs are tested;
    Simonyan et al., 2013, take the largest absolute value over channels instead. Shows how much a pixel
    matters, not in which direction: claims the overall truth.

    Parameters
    ----------
    method : callable
        ``f(model, inputs, targets, **settings)`` -> (B, C, H, W).

    Returns
    -------
    callable
        The same with maps of (B, 1, H, W), at the same cost. It repeats the method's warnings about the
        signed maps; sums are computed in float64 and returned in the inputs' type, or in float64 if
        that type cannot hold them. Errors are those of the method, and `AttributionLabError` for maps
        of another shape.

    Raises
    ------
    AttributionLabError
        If the method cannot be called with settings by name.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.methods import absolute, saliency
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(2, 1))
    >>> _ = torch.nn.init.constant_(model[1].weight, -3.0)
    >>> absolute(saliency)(model, torch.ones(1, 2, 1, 1), torch.tensor([0])).item()
    6.0
    """
    parameters = parameters_of(method)

    def magnitudes(model: nn.Module, inputs: Tensor, targets: Tensor, **settings: Any) -> Tensor:
        call = partial(of_signed, model, inputs, targets, settings)
        return guarded(call, f"{kebab(method)}-absolute", model, inputs, targets)

    def of_signed(
        model: nn.Module, inputs: Tensor, targets: Tensor, settings: dict[str, Any]
    ) -> Tensor:
        with collect_notices() as collected:
            maps = method(model, inputs, targets, **settings)
        for each in collected:
            # A sum is that of the signed map: `gaps` is left out.
            text = f"are absolute values of maps that {each.text}"
            notify(dataclasses.replace(each, text=text, gaps=()))
        if inputs.ndim == 4 or not isinstance(maps, Tensor):
            maps = checked_images(maps, f"absolute values of {kebab(method)}: maps")
        # The features of (B, F) are no channels.
        signed = maps.double() if inputs.ndim == 2 else maps.double().sum(1, keepdim=True)
        return stored(signed.abs(), inputs.dtype)

    doc = (
        f"{SUFFIXES['absolute'].format(kebab(method))}\n\n"
        f"Takes the settings of `{name_of(method)}`."
    )
    presented(magnitudes, f"{name_of(method)}_absolute", doc, __name__, parameters.values())
    kept = ("output", "gradient", "resolution", "distribution", "modules", "images", "runs")
    return declares(claim="overall", **{key: declared(method, key) for key in kept})(magnitudes)


class Derivation(NamedTuple):
    """What a suffix makes of a method, and settings (`own`) whose value that method does not get."""

    make: Callable[[Callable[..., Tensor]], Callable[..., Tensor]]
    own: frozenset[str] = frozenset()


_OF_SAMPLES = frozenset({"n_samples", "noise"})
DERIVATIONS: Mapping[str, Derivation] = {
    "smoothgrad": Derivation(smoothgrad, _OF_SAMPLES),
    "smoothgrad-squared": Derivation(smoothgrad_squared, _OF_SAMPLES),
    "vargrad": Derivation(vargrad, _OF_SAMPLES),
    "absolute": Derivation(absolute),
    "true-baseline": Derivation(
        lambda method: from_true_baseline(method, SUFFIXES["true-baseline"].format(kebab(method))),
        frozenset({"baselines"}),
    ),
}
"""By suffix."""
_OF_CONTROLS = frozenset({"truth", "ideal"})
"""Arguments that only controls are given."""
MOST_ENSEMBLES = 2
"""Most ensembles of one another in one name."""


def derived(name: str, known: Mapping[str, Callable[..., Any]]) -> Callable[..., Any] | None:
    """The method of a name: a known one, or one derived from it by the name's suffixes.

    Parameters
    ----------
    name : str
        Such as ``saliency`` or ``saliency-smoothgrad-absolute``.
    known : mapping of str to callable
        Methods by name.

    Returns
    -------
    callable, or None
        The same object for the same name; None if no known name is left without suffixes.

    Raises
    ------
    AttributionLabError
        For the true baseline of a method without the setting `baselines`, for a control made from the
        truth, and for more than `MOST_ENSEMBLES` suffixes that draw samples.

    Examples
    --------
    >>> from attributionlab.methods import METHODS
    >>> from attributionlab.methods.derivation import derived
    >>> derived("lime-vargrad", METHODS).__name__
    'lime_vargrad'
    """
    if name in known:
        return known[name]
    if (ensembles := _ensembles_in(name)) > MOST_ENSEMBLES:
        raise AttributionLabError(
            f"{name}: {ensembles} suffixes of {SAMPLES} samples each are {SAMPLES**ensembles:,} runs "
            f"of the method for an image: take at most {MOST_ENSEMBLES} of them"
        )
    split = base_and_suffix(name)
    base = split and derived(split[0], known)
    if split is None or base is None:
        return None
    if given := _OF_CONTROLS & parameters_of(base).keys():
        raise AttributionLabError(
            f"{name}: {split[0]} is made from the truth ({', '.join(sorted(given))}), which "
            f"methods with a suffix do not get: take {split[0]}"
        )
    if not _applies(split[1], base):
        raise AttributionLabError(
            f"{name}: {split[0]} has no setting 'baselines', and so no true baseline: take {split[0]}"
        )
    return _made(split[1], base)


def _ensembles_in(name: str) -> int:
    """How many suffixes draw samples, each of them for every sample of the next."""
    split = base_and_suffix(name)
    if split is None:
        return 0
    return _ensembles_in(split[0]) + (DERIVATIONS[split[1]].own == _OF_SAMPLES)


@functools.cache
def _made(suffix: str, method: Callable[..., Tensor]) -> Callable[..., Tensor]:
    # One object for each method, so that it can be told from a user's function of the same name.
    return DERIVATIONS[suffix].make(method)


def _applies(suffix: str, method: Callable[..., Tensor]) -> bool:
    return suffix != "true-baseline" or "baselines" in parameters_of(method)


def similar_names(name: str, known: Mapping[str, Callable[..., Any]]) -> Iterable[str]:
    """What a typing error may stand for: the nearest of known and derived names, or else all known.

    A suffix that is spelled right stays; what stands in front of it is looked for by itself.
    """
    split = base_and_suffix(name)
    if split is not None:
        near = similar_names(split[0], known)
        return near if near is known else [f"{each}-{split[1]}" for each in near]
    names = [*known]
    for each, method in known.items():
        names += [f"{each}-{suffix}" for suffix in DERIVATIONS if _applies(suffix, method)]
    near = difflib.get_close_matches(name, [*names, *DERIVATIONS], n=1)
    if near and near[0] in DERIVATIONS:  # a suffix alone
        base = "saliency" if _applies(near[0], known["saliency"]) else "integrated-gradients"
        return [f"{base}-{near[0]}"]
    return near or known


input_x_gradient_absolute = absolute(input_x_gradient)
input_x_gradient_smoothgrad = smoothgrad(input_x_gradient)
input_x_gradient_smoothgrad_absolute = absolute(input_x_gradient_smoothgrad)
integrated_gradients_absolute = absolute(integrated_gradients)
integrated_gradients_smoothgrad = smoothgrad(integrated_gradients)
integrated_gradients_smoothgrad_absolute = absolute(integrated_gradients_smoothgrad)
integrated_gradients_smoothgrad_squared = smoothgrad_squared(integrated_gradients)
integrated_gradients_uniform_absolute = absolute(integrated_gradients_uniform)
integrated_gradients_vargrad = vargrad(integrated_gradients)
saliency_absolute = absolute(saliency)
saliency_smoothgrad = smoothgrad(saliency)
