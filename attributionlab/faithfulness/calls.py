"""How a method is called in a trial: what it is offered, under which seed, how many images at once."""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attributionlab.faithfulness.setup import Scene, Trial, joined
from attributionlab.methods import (
    Attributed,
    Call,
    Method,
    Notice,
    attribute,
    collect_notices,
    notify,
)
from attributionlab.methods.controls import CONTROLS
from attributionlab.metrics import normalize
from attributionlab.truth import Truth

REFERENCE_IMAGES = 256
"""How many other images a method gets that asks for some: enough to set off every neuron of IBA's layer
that a test image sets off, or nearly (16 leave neurons that never vary, which then own the map)."""
SAME = 0.01
"""How far normalized maps may lie apart and count as equal: rounding differs with the batch."""


def always_offered(method: Method, trial: Trial) -> dict[str, Any]:
    """What a method may declare by name that is the same for every batch."""
    env = trial.env
    offered = {
        "baseline": env.baseline,
        "layers": dict(env.layers),
        "highest": env.max_value,
    }
    if method.asks_for("reference_images"):
        # A stream of its own: none of them is tested.
        stream = int(np.random.SeedSequence([trial.seed, 1]).generate_state(1)[0])
        offered["reference_images"] = env.batch(REFERENCE_IMAGES, stream)[0].to(env.device)
    return offered


def attribute_scene(
    method: Method, trial: Trial, scene: Scene, always: Mapping[str, Any], repeat: int = 0
) -> Attributed:
    """Attributions of a batch; each image of a method that draws random numbers has a seed of its own.

    Images that share what was drawn would vary together, and the interval over images would not know.
    """
    if method.asks_for("generator") and len(scene.images) > 1:
        return _one_by_one(method, trial, scene, always, repeat)
    with collect_notices() as findings:
        call = _call(method, trial, scene, always, repeat)
        attributed = attribute(method, call, _seed(trial, scene, repeat))
    if attributed.random and len(scene.images) > 1:  # it drew from a global state
        return _one_by_one(method, trial, scene, always, repeat)
    for finding in findings:
        notify(finding)
    return attributed


def _one_by_one(
    method: Method, trial: Trial, scene: Scene, always: Mapping[str, Any], repeat: int
) -> Attributed:
    each = [attribute_scene(method, trial, image, always, repeat) for image in scene.single()]
    maps = torch.cat([attributed.maps for attributed in each])
    return Attributed(maps, any(attributed.random for attributed in each))


def control_maps(control: Method, trial: Trial, scene: Scene, always: Mapping[str, Any]) -> Tensor:
    """A control's maps, without the care that strangers' code needs."""
    if control.asks_for("generator") and len(scene.images) > 1:
        return torch.cat([control_maps(control, trial, image, always) for image in scene.single()])
    maps: Tensor = control.attribute(_call(control, trial, scene, always, 0))
    return maps.cpu()


def computed(method: Method) -> bool:
    """Whether the attributions are there already, and nobody can be asked for others."""
    return isinstance(method.function, np.ndarray | Tensor | Mapping)


def peculiarities(
    method: Method, trial: Trial, scenes: Sequence[Scene], always: Mapping[str, Any]
) -> list[Notice]:
    """Whether an image's map depends on what no seed sets, or on the images beside it.

    The built-in methods are known for neither.
    """
    if not scenes or computed(method) or method.built_in:
        return []
    few = joined(scenes).part(0, 2)
    with collect_notices():
        alone, again = (attribute_scene(method, trial, few.part(0, 1), always) for _ in range(2))
        if not _same(alone.maps, again.maps):
            text = (
                "change when the method is run again under the same seed: it draws random numbers "
                "that no seed sets; draw from torch's, numpy's or Python's global generator, or "
                "declare `generator`"
            )
            return [Notice(text, 1, kind="unseeded")]
        if alone.random or len(few.images) < 2:
            return []  # each image of a method that draws has a call of its own
        other = attribute_scene(method, trial, few.part(1, 2), always)
        together = attribute_scene(method, trial, few, always)
    if _same(together.maps, torch.cat([alone.maps, other.maps])):
        return []
    text = "change when two images are in one batch: the method mixes the images of a batch"
    return [Notice(text, 1, kind="batch-mixing")]


def _same(first: Tensor, second: Tensor) -> bool:
    return bool((normalize(first) - normalize(second)).abs().max() <= SAME)


def _seed(trial: Trial, scene: Scene, repeat: int) -> int:
    """Of one batch; the first repetition has that of a run without any."""
    stream = [trial.seed, scene.first, repeat] if repeat else [trial.seed, scene.first]
    return int(np.random.SeedSequence(stream).generate_state(1)[0])


def _call(
    method: Method, trial: Trial, scene: Scene, always: Mapping[str, Any], repeat: int
) -> Call:
    """A call of a method: the one place that brings images, and what is known about them, to the
    network's device.
    """
    env, device = trial.env, trial.env.device
    # Copies of its own: the controls look at the same images afterwards.
    inputs = scene.images.to(device, copy=True, memory_format=torch.channels_last)
    targets = scene.targets.to(device, copy=True)
    offered = _offered(method, trial, scene, always, repeat)
    model = env.explained_model(trial.output)
    return Call(env.name, model, inputs, targets, scene.first, trial.n, offered)


def _offered(
    method: Method, trial: Trial, scene: Scene, always: Mapping[str, Any], repeat: int
) -> dict[str, Any]:
    """What a method may declare by name, on the network's device; the truth is for controls."""
    device = trial.env.device
    values = {**always, "patches": scene.patches}
    # Copies for every call: what one changes in place, no other sees.
    offered = {
        name: value.to(device, copy=True) if isinstance(value, Tensor) else copy(value)
        for name, value in values.items()
        if method.asks_for(name) or name == "layers"  # Captum's classes get theirs without asking
    }
    if method.asks_for("generator"):
        offered["generator"] = torch.Generator().manual_seed(_seed(trial, scene, repeat))
    if method.runs > 1 and method.asks_for("nudge"):
        offered["nudge"] = repeat
    if any(method.function is control for control in CONTROLS.values()):
        if method.asks_for("truth"):
            offered["truth"] = Truth(scene.truth.signed.to(device))
        if method.asks_for("ideal"):
            offered["ideal"] = trial.ideal(scene.truth).to(device)
    return offered
