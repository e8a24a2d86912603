"""A method asked again, about networks that compute the same function in another way."""

from collections.abc import Callable, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.assess import Drift, mean_score
from attributionlab.environment import Environment
from attributionlab.errors import AttributionLabError
from attributionlab.methods import Method, heard
from attributionlab.metrics import normalize
from attributionlab.progress import track
from attributionlab.ranking import spearman
from attributionlab.trial.calls import always_offered, attribute_scene, computed
from attributionlab.trial.probing import shows_integer_images_only
from attributionlab.trial.question import STUDIED_IMAGES, Scene, Trial
from attributionlab.trial.rounding_bounds import maps_with_bound

__all__ = ["camouflage_seeds", "drift_of", "drift_on"]

STREAM = 6
"""Of the seeds of camouflaged networks, apart from those of images and methods."""


def camouflage_seeds(seed: int, networks: int) -> list[int]:
    """Seeds of K camouflaged networks, from a run's seed; the first of them are those of a smaller K.

    Examples
    --------
    >>> from attributionlab.trial.drift import camouflage_seeds
    >>> camouflage_seeds(0, 3)[:2] == camouflage_seeds(0, 2)
    True
    """
    state = np.random.SeedSequence(seed, spawn_key=(STREAM,)).generate_state(networks)
    return [int(each) for each in state]


def drift_of(method: Method, trial: Trial, show_progress: bool = False) -> Drift:
    """How far a method's maps drift between the plain network and `trial.camouflage` camouflaged ones.

    Parameters are those of `drift_on`.
    """
    seeds = camouflage_seeds(trial.seed, trial.camouflage)
    networks = {seed: partial(trial.env.camouflaged, seed) for seed in seeds}
    return drift_on(networks, method, trial, show_progress)


def drift_on(
    networks: Mapping[int, Callable[[], Environment]],
    method: Method,
    trial: Trial,
    show_progress: bool = False,
) -> Drift:
    """How far a method's maps on these networks lie from those on the trial's own.

    The first images of the trial are explained on every network with the same targets, offers and
    seeds; `layers` are those of each network.

    Parameters
    ----------
    networks : mapping of int to callable
        By seed, what makes an environment whose network is functionally equal.
    method : Method
        Computed attributions cannot be asked again, nor can an instance of one of Captum's classes,
        which is bound to its model.
    trial : Trial
        Where, and on which images.
    show_progress : bool
        Show progress on standard error.
    """
    few = replace(trial, n=min(trial.n, STUDIED_IMAGES), seeds=1)
    if reason := _cannot_be_asked(method):
        return Drift(list(networks), few.n, reason)
    scenes = list(few.scenes("", False))
    always = always_offered(method, few)
    title = f"{method.name} on camouflaged {trial.env.name}"
    makers = [lambda: few.env, *networks.values()]
    places: list[Trial] = []
    kept: list[Tensor] = []
    bounds: list[Tensor | None] = []
    for make in track(makers, len(makers), title, show_progress):
        place = replace(few, env=make())
        try:
            maps, bound = _maps_with_bounds(method, place, scenes, always)
        except AttributionLabError as error:
            return Drift(list(networks), few.n, f"the method does not run there: {error}")
        places.append(place)
        kept.append(maps)
        bounds.append(bound)
    plain, *others = kept
    measured = Drift(
        networks=list(networks),
        images=few.n,
        sizes=plain.flatten(1).norm(dim=1).numpy(),
        apart=np.stack([(maps - plain).flatten(1).norm(dim=1).numpy() for maps in others]),
        differences=np.stack([(maps - plain).flatten(1).abs().amax(1).numpy() for maps in others]),
        correlations=np.stack([_correlations(plain, maps) for maps in others]),
        plain_f1=_claim_f1(plain, few, scenes),
        network_f1=[_claim_f1(maps, few, scenes) for maps in others],
        integer_images_only=shows_integer_images_only(method, few, scenes[0], always),
        bounds=_together(bounds),
        samples=torch.stack([maps[0, 0] for maps in kept]).float().numpy(),
    )
    if measured.settled.all():
        return measured
    open_ones = np.flatnonzero(~measured.settled.all(1))
    asked = [places[0], *(places[1 + index] for index in open_ones)]
    found = _in_float64(method, asked, scenes, always)
    if found is None:
        return measured
    first, *left = found
    apart = np.full_like(measured.apart, np.nan)
    apart[open_ones] = [(maps - first).flatten(1).norm(dim=1).numpy() for maps in left]
    sizes = first.flatten(1).norm(dim=1).numpy()
    return replace(measured, sizes_in_float64=sizes, apart_in_float64=apart)


def _cannot_be_asked(method: Method) -> str:
    """Why there is nothing to compare, empty if there is."""
    if computed(method):
        return "attributions that are computed already cannot be asked about another network"
    from captum.attr import Attribution

    if isinstance(method.function, Attribution):
        return "an instance is bound to its model: pass the class instead"
    return ""


def _maps_with_bounds(
    method: Method, trial: Trial, scenes: Sequence[Scene], always: Mapping[str, Any]
) -> tuple[Tensor, Tensor | None]:
    """Maps as the method returned them, channels summed, (B, 1, H, W), and their bounds, (B,)."""
    offered = {**always, "layers": dict(trial.env.layers)}
    with heard():  # what there is to say has been said of the run that is judged
        found = [maps_with_bound(method, trial, scene, offered) for scene in scenes]
    bounds = [bound for _, bound in found if bound is not None]
    return torch.cat([maps for maps, _ in found]), torch.cat(bounds) if bounds else None


def _together(bounds: Sequence[Tensor | None]) -> NDArray[np.float64] | None:
    """How far apart rounding can take two maps: each may be off by its own bound, (networks, B)."""
    known = [bound for bound in bounds if bound is not None]
    if len(known) < len(bounds):
        return None
    first, *others = known
    return np.stack([(first + bound).numpy() for bound in others])


def _in_float64(
    method: Method, places: Sequence[Trial], scenes: Sequence[Scene], always: Mapping[str, Any]
) -> list[Tensor] | None:
    """The maps on each network in float64, (B, 1, H, W), None if the method does not run so."""
    images = [scene._replace(images=scene.images.double()) for scene in scenes]
    offered = {
        name: value.double() if isinstance(value, Tensor) else value
        for name, value in always.items()
    }
    found = []
    for place in places:
        double = _doubled(place.env)  # one copy at a time
        offered["layers"] = dict(double.layers)
        asked = replace(place, env=double)
        try:
            with heard():
                maps = [attribute_scene(method, asked, scene, offered).maps for scene in images]
        except AttributionLabError:
            return None
        found.append(torch.cat(maps))
    return found


def _doubled(env: Environment) -> Environment:
    """The same environment with float64 copies of its networks."""
    double = copy(env)
    networks = (env.model, env.softmax_model, env.layers)
    double.model, double.softmax_model, double.layers = deepcopy(
        networks
    )  # layers stay parts of them
    (double.softmax_model or double.model).double()
    return double


def _correlations(plain: Tensor, others: Tensor) -> NDArray[np.float64]:
    """Of each image's pixels, (B,)."""
    pairs = zip(plain.flatten(1).numpy(), others.flatten(1).numpy(), strict=True)
    return np.array([spearman(first, second) for first, second in pairs])


def _claim_f1(maps: Tensor, trial: Trial, scenes: Sequence[Scene]) -> float | None:
    """The lowest mean F1 of the parts that the claim rests on, None without any truth."""
    start = 0
    found: dict[str, list[Tensor]] = {part: [] for part in trial.claimed_parts}
    for scene in scenes:
        these = maps[start : start + len(scene.images)]
        scaled = normalize(scene.asked(these)).float()
        scores = trial.scores(scaled, scene.truth, trial.claimed(scene.truth))
        start += len(scene.images)
        for part, parts in found.items():
            parts.append(scores[part].f1)
    means = [mean_score(torch.cat(parts).numpy()) for parts in found.values()]
    return min((mean for mean in means if not np.isnan(mean)), default=None)
