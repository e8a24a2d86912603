"""Calls of a method: what it is offered, under which seed, how many images at once."""

from collections.abc import Mapping
from copy import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attributionlab.faithfulness.setup import Batch, Setup
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
from attributionlab.truth import Truth, mask

REFERENCE_IMAGES = 256
"""Number of other images for a method that declares them: enough to set off every neuron of IBA's layer
that a test image sets off, or nearly (16 leave neurons that never vary, which then own the map)."""
SAME = 0.01
"""How far normalized maps may lie apart and count as equal: rounding differs with the batch."""


def attribute_batch(setup: Setup, batch: Batch, repeat: int = 0) -> Attributed:
    """Attributions of a batch; each image of a method that draws random numbers has a seed of its own.

    Images that share what was drawn would vary together, and the interval over images would not know.
    """
    several = len(batch.images) > 1
    if several and setup.method.asks_for("generator"):
        return _one_by_one(setup, batch, repeat)
    with collect_notices() as notices:
        call = _call(setup, batch, repeat)
        attributed = attribute(setup.method, call, _seed(setup, batch, repeat))
    if several and attributed.random:  # it drew from a global state
        return _one_by_one(setup, batch, repeat)
    for notice in notices:
        notify(notice)
    return attributed


def _one_by_one(setup: Setup, batch: Batch, repeat: int) -> Attributed:
    each = [attribute_batch(setup, image, repeat) for image in batch.single()]
    maps = torch.cat([attributed.maps for attributed in each])
    return Attributed(maps, any(attributed.random for attributed in each))


def control_maps(control: Setup, batch: Batch) -> Tensor:
    """A control's maps, without the care that strangers' code needs."""
    if control.method.asks_for("generator") and len(batch.images) > 1:
        return torch.cat([control_maps(control, image) for image in batch.single()])
    maps: Tensor = control.method.attribute(_call(control, batch, 0))
    return maps.cpu()


def computed(method: Method) -> bool:
    """Whether the attributions are there already, so that no others can be computed."""
    return isinstance(method.function, np.ndarray | Tensor | Mapping)


def bound_to_one_network(method: Method) -> str:
    """Why a method has no maps on other networks, empty if it has."""
    if computed(method):
        return "attributions that are computed already cannot be asked about another network"
    from captum.attr import Attribution

    if isinstance(method.function, Attribution):
        return "an instance is bound to its model: pass the class instead"
    return ""


def peculiarities(setup: Setup, batch: Batch) -> list[Notice]:
    """Whether an image's map depends on what no seed sets, or on the images beside it.

    The built-in methods are known for neither.
    """
    if computed(setup.method) or setup.method.built_in:
        return []
    both = setup.first_two(batch)
    first, second = both.part(0, 1), both.part(1, 2)
    with collect_notices():
        alone, again = (attribute_batch(setup, first) for _ in range(2))
        if not _same(alone.maps, again.maps):
            text = (
                "change when the method is run again under the same seed: it draws random numbers "
                "that no seed sets; draw from torch's, numpy's or Python's global generator, or "
                "declare `generator`"
            )
            return [Notice(text, 1, kind="unseeded")]
        if alone.random or len(both.images) < 2:
            return []  # each image of a method that draws has a call of its own
        other, together = (attribute_batch(setup, each) for each in (second, both))
    if _same(together.maps, torch.cat([alone.maps, other.maps])):
        return []
    text = "change when two images are in one batch: the method mixes the images of a batch"
    return [Notice(text, 1, kind="batch-mixing")]


def _same(first: Tensor, second: Tensor) -> bool:
    return bool((normalize(first) - normalize(second)).abs().max() <= SAME)


def _stream(*path: int) -> int:
    return int(np.random.SeedSequence(path).generate_state(1)[0])


def _seed(setup: Setup, batch: Batch, repeat: int) -> int:
    """Return the seed for one batch; the first repetition has that of a run without any."""
    return _stream(setup.seed, batch.first, *([repeat] if repeat else []))


def _call(setup: Setup, batch: Batch, repeat: int) -> Call:
    """A call of a method: the one place that brings images, and what is known about them, to the
    network's device.
    """
    env, device = batch.env, batch.env.device
    # Copies of its own: the controls look at the same images afterwards.
    inputs = batch.images.to(device, copy=True, memory_format=torch.channels_last)
    targets = batch.targets.to(device, copy=True)
    offered = _offered(setup, batch, repeat)
    model = env.explained_model(setup.output)
    return Call(env.name, model, inputs, targets, batch.first, setup.n, offered)


def _offered(setup: Setup, batch: Batch, repeat: int) -> dict[str, Any]:
    """What a method may declare by name, on the network's device; the truth is for controls."""
    env, method = batch.env, setup.method

    def fresh(value: Any) -> Any:
        """A copy for every call: what one changes in place, no other sees."""
        if not isinstance(value, Tensor):
            return copy(value)
        dtype = batch.images.dtype if value.is_floating_point() else value.dtype
        return value.to(env.device, dtype, copy=True)

    offered: dict[str, Any] = {
        "layers": dict(env.layers)
    }  # Captum's classes get them without asking
    values = {"baseline": env.baseline, "highest": env.max_value, "patches": batch.patches}
    offered |= {name: fresh(value) for name, value in values.items() if method.asks_for(name)}
    if method.asks_for("reference_images"):
        offered["reference_images"] = fresh(_reference_images(setup, batch))
    if method.asks_for("generator"):
        seed = _seed(setup, batch, repeat)
        offered["generator"] = torch.Generator().manual_seed(seed)
    if method.runs > 1 and method.asks_for("nudge"):
        offered["nudge"] = repeat
    if any(method.function is control for control in CONTROLS.values()):
        if method.asks_for("truth"):
            offered["truth"] = Truth(batch.truth.signed.to(env.device))
        if method.asks_for("ideal"):
            offered["ideal"] = batch.ideal.to(env.device)
        if method.asks_for("other_target"):
            others = (batch.targets + 1) % env.network.classes
            offered["other_target"] = mask(batch.classes, others, setup.truth_output)
        if method.asks_for("other_network"):
            offered["other_network"] = mask(
                _other_classes(batch), batch.targets, setup.truth_output
            )
    return offered


def _other_classes(batch: Batch) -> Tensor:
    """The class of each pixel if every cell had the role of the one before it, (B, 1, H, W)."""
    if not batch.questions:  # the colors that count are all that is known to differ
        classes = batch.classes
        return torch.where(classes >= 0, (classes + 1) % batch.env.network.classes, -1)
    found = []
    for question in batch.questions:
        table = torch.full((len(question.values) + 1,), -1)
        for index, cell in enumerate(question.roles):
            table[1 + (cell + 1) % len(question.values)] = index
        found.append(table[question.cells + 1])
    return torch.stack(found)[:, None]


def _reference_images(setup: Setup, batch: Batch) -> Tensor:
    """Images that are not tested: drawn once for all setups of a test where all have one network."""
    if batch.questions:
        assert setup.questions is not None
        images = setup.questions.reference_images(batch.questions[0], REFERENCE_IMAGES)
        return images.to(batch.env.device)
    if "reference_images" not in setup.drawn:
        stream = _stream(setup.seed, 1)
        images = setup.env.batch(REFERENCE_IMAGES, stream)[0].to(setup.env.device)
        setup.drawn["reference_images"] = images
    return setup.drawn["reference_images"]
