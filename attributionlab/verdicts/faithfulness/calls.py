"""Calls of a method: what it is offered, under which seed, how many images at once."""

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from copy import copy
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Real
from torch import Tensor

from attributionlab.base import (
    AttributionLabError,
    AttributionWarning,
    Tally,
    count_of,
    explained_arguments,
    integer_problem,
    lowest_f1,
    own_arithmetic,
    refuse_if,
)
from attributionlab.methods import (
    Attributed,
    AttributionMethod,
    Call,
    Method,
    Notice,
    as_method,
    collect_notices,
    notify,
    summarized,
)
from attributionlab.metrics import normalize
from attributionlab.verdicts.controls import CONTROLS, KNOWN
from attributionlab.verdicts.faithfulness.isolation import attribute as call_method
from attributionlab.verdicts.faithfulness.setup import Batch, Setup, prepared
from attributionlab.verdicts.faithfulness.verdicts import lowest_mean
from attributionlab.worlds import PIXELS_AT_ONCE, Environment
from attributionlab.worlds.truth import Output, Truth, mask

REFERENCE_IMAGES = 256
"""Number of other images for a method that declares them: enough to set off every neuron of IBA's layer
that a test image sets off, or nearly (16 leave neurons that never vary, which then own the map)."""
SAME = 0.01
"""How far normalized maps may lie apart and count as equal: rounding differs with the batch."""
FAINT = 1e-6
"""Share of the output's change below which a map says nothing: that of one rounding of float32, 2^-24,
is a fifteenth of it."""


@explained_arguments
@own_arithmetic()
def attribute(
    method: AttributionMethod,
    env: Environment,
    images: Real[Tensor, "batch channels height width"],
    targets: Int[Tensor, " batch"],
    *,
    settings: Mapping[str, Any] | None = None,
    explain: Output | None = None,
    seed: int = 0,
    patches: Int[Tensor, "batch height width"] | None = None,
) -> Float[Tensor, "batch 1 height width"]:
    """Compute a method's attributions with the arguments and seeds of `faithfulness_test`.

    The method gets copies, the arguments that it declares by name (baseline, layers, generator, ...)
    and seeded random states. Its changes to the network or to torch are undone.

    Parameters
    ----------
    method : str, class or callable
        What `faithfulness_test` takes.
    env : Environment
        Whose network is explained.
    images : Tensor, (B, C, H, W)
        Integers in the valid box, of colors that the network knows.
    targets : Tensor of int, (B,)
        Class indices; zeros for regression.
    settings : mapping, optional
        Passed to the method.
    explain : {"probability", "logit"}, optional
        Which output of a classifier is explained; the method's own choice, or the probability, by
        default.
    seed : int
        Seed for a method that draws random numbers: image i has the same map as in a test with this
        seed.
    patches : Tensor of int, (B, H, W), optional
        Label map, 0 outside, for a method that declares `patches`.

    Returns
    -------
    Tensor of float64, (B, 1, H, W)
        Summed over channels, as the method scaled them.

    Raises
    ------
    AttributionLabError
        For an unknown method or setting, images that `env.truth` refuses, and for maps that cannot be
        scored.

    Examples
    --------
    >>> import attributionlab as al
    >>> env = al.load("multi-color-sum", image_size=24)
    >>> images, labels = env.batch(2)
    >>> al.attribute("gradcam", env, images, labels).shape
    torch.Size([2, 1, 24, 24])
    """
    resolved = as_method(method, KNOWN, settings)
    if not isinstance(env, Environment):
        raise AttributionLabError(f"env is {env!r}: pass an environment, as of attributionlab.load")
    refuse_if(integer_problem("seed", seed, 0))
    if patches is None:
        chosen = resolved.settings.get("segmentation") == "patches"
        segmented = chosen or not resolved.asks_for("segmentation")
        if resolved.asks_for("patches") and segmented:
            raise AttributionLabError(
                f"{resolved.name} explains patches: pass patches (B, H, W), as of env.dataset"
            )
        patches = torch.zeros(images[:, 0].shape, dtype=torch.int64)
    setup = prepared(resolved, env, explain, n=len(images), seed=int(seed))
    truth = env.truth(images, targets, setup.truth_output)
    whole = Batch(images.cpu(), targets.cpu(), patches.cpu(), (env,) * len(images), truth)
    at_once = max(1, PIXELS_AT_ONCE // math.prod(env.image_shape[1:]))
    with collect_notices() as notices:
        maps = [
            attribute_batch(setup, whole.part(start, start + at_once)).maps
            for start in range(0, len(images), at_once)
        ]
    for sentence in summarized(notices):
        warnings.warn(f"{resolved.name}: {sentence}", AttributionWarning, stacklevel=4)
    return torch.cat(maps)


def attribute_batch(setup: Setup, batch: Batch, repeat: int = 0) -> Attributed:
    """Attributions of a batch; each image of a method that draws random numbers has a seed of its own.

    Images that share what was drawn would vary together, and the interval over images would not know.
    """
    several = len(batch.images) > 1
    if several and setup.method.asks_for("generator"):
        return _one_by_one(setup, batch, repeat)
    with collect_notices() as notices:
        call = _call(setup, batch, repeat)
        attributed = call_method(setup.method, call, _seed(setup, batch, repeat))
    if several and attributed.random:  # it drew from a global state
        return _one_by_one(setup, batch, repeat)
    for notice in notices:
        notify(notice)
    return attributed


def batch_maps(setup: Setup, batches: Iterable[Batch], repeat: int = 0) -> Tensor:
    """Maps of all images of some batches, (B, 1, H, W); what is unusual about them is not told, as the
    run of `faithfulness_test` that decides tells it.
    """
    with collect_notices():
        return torch.cat([attribute_batch(setup, batch, repeat).maps for batch in batches])


def claim_score(setup: Setup, batches: Iterable[Batch]) -> tuple[float | None, Tally]:
    """The mean F1 of the claim's lowest part in some batches, None without any truth, and how many of
    their images the maps solve.
    """
    found = [
        (setup.claimed_f1(batch_maps(setup, [each]), each), each.best_f1.numpy())
        for each in batches
    ]
    f1 = {part: np.concatenate([each[part] for each, _ in found]) for part in setup.claimed_parts}
    return lowest_mean(f1)[1], count_of(lowest_f1(f1), np.concatenate([best for _, best in found]))


def _one_by_one(setup: Setup, batch: Batch, repeat: int) -> Attributed:
    each = [attribute_batch(setup, image, repeat) for image in batch.single()]
    maps = torch.cat([attributed.maps for attributed in each])
    return Attributed(maps, any(attributed.random for attributed in each))


def says_nothing(maps: Tensor, setup: Setup, batch: Batch) -> Tensor:
    """Whether each map (B, 1, H, W) is too small to say anything, (B,): its largest magnitude is
    less than `FAINT` of how far the output changes from the true baseline to the image, or 0.
    """
    largest = maps.flatten(1).abs().amax(1).double().cpu()
    if setup.output == "probability" and bool((largest >= FAINT).all()):
        return torch.zeros_like(largest, dtype=torch.bool)  # no probability changes by more than 1
    changes = []
    with torch.no_grad():
        for part in batch.by_network():
            model, device = part.env.explained_model(setup.output), part.env.baseline.device
            images, targets = part.images.to(device), part.targets.to(device)[:, None]
            baselines = part.env.baseline.expand_as(images)
            difference = model(images) - model(baselines)
            changes.append(difference.gather(1, targets)[:, 0].abs().double().cpu())
    return (largest < FAINT * torch.cat(changes)) | (largest == 0)


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
        return "precomputed attributions cannot explain another network"
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
    first = both.part(0, 1)
    with collect_notices() as noticed:
        alone, again = (attribute_batch(setup, first) for _ in range(2))
        told = [each for each in noticed if each.kind == "values"][:1]
        told += _independent(setup, first, alone.maps)
        if not _same(alone.maps, again.maps):
            text = (
                "change when the method is run again with the same seed: it draws random numbers "
                "that no seed sets; draw from torch's, numpy's or Python's global generator, or "
                "declare `generator`"
            )
            return [*told, Notice(text, 1, kind="unseeded")]
        if alone.random or len(both.images) < 2:
            return told  # each image of a method that draws has a call of its own
        other, together = (attribute_batch(setup, each) for each in (both.part(1, 2), both))
    if _same(together.maps, torch.cat([alone.maps, other.maps])):
        return told
    text = "change when two images share a batch: the method mixes the images of a batch"
    return [*told, Notice(text, 1, kind="batch-mixing")]


def _independent(setup: Setup, first: Batch, maps: Tensor) -> list[Notice]:
    """Whether the first image has the same map before a network with other roles, and for another
    target; maps of zeros say nothing.
    """
    told: list[Notice] = []
    if not maps.any():
        return told
    if setup.questions is not None:
        with suppress(AttributionLabError):  # there may be no network with other roles
            other = first._replace(envs=(setup.questions.twin(first.first).env,))
            if torch.equal(attribute_batch(setup, other).maps, maps):
                told.append(Notice("", 0, kind="image-only"))  # the report's causes say it
    if first.env.has_roles and first.env.classes > 1:
        other = first._replace(targets=(first.targets + 1) % first.env.classes)
        if torch.equal(attribute_batch(setup, other).maps, maps):
            told.append(Notice("", 0, kind="target"))
    return told


def _same(first: Tensor, second: Tensor) -> bool:
    return bool((normalize(first) - normalize(second)).abs().max() <= SAME)


def _stream(*path: int) -> int:
    return int(np.random.SeedSequence(path).generate_state(1)[0])


def _seed(setup: Setup, batch: Batch, repeat: int) -> int:
    """The seed for one batch; the first repetition has that of a run without any."""
    return _stream(setup.seed, batch.first, *([repeat] if repeat else []))


def _call(setup: Setup, batch: Batch, repeat: int) -> Call:
    """A call of a method: the one place that brings images, and what is known about them, to the
    network's device.
    """
    env, device = batch.env, batch.env.device
    # Copies of its own: the controls look at the same images afterwards.
    shown = batch.flat_images if _is_control(setup.method) else batch.images
    inputs = shown.to(device, copy=True, memory_format=torch.channels_last)
    targets = batch.targets.to(device, copy=True)
    offered = _offered(setup, batch, repeat)
    model = env.explained_model(setup.output)
    return Call(env.name, model, inputs, targets, batch.first, setup.n, offered)


def _is_control(method: Method) -> bool:
    """Whether it may look at the truth, and at images in which each color is one value."""
    return any(method.function is control for control in CONTROLS.values())


def _offered(setup: Setup, batch: Batch, repeat: int) -> dict[str, Any]:
    """What a method may declare by name, on the network's device; the truth is for controls."""
    env, method = batch.env, setup.method

    def fresh(value: Any) -> Any:
        """A copy for every call: what one changes in place, no other sees."""
        if not isinstance(value, Tensor):
            return copy(value)
        dtype = batch.images.dtype if value.is_floating_point() else value.dtype
        return value.to(env.device, dtype, copy=True)

    any_control = _is_control(method)
    offered: dict[str, Any] = {
        "layers": dict(env.layers)
    }  # Captum's classes get them without asking
    values = {"baseline": env.baseline, "highest": env.max_value}
    if any_control or batch.patches.any():  # a user's own images have none
        values["patches"] = batch.patches
    offered |= {name: fresh(value) for name, value in values.items() if method.asks_for(name)}
    if method.asks_for("reference_images"):
        offered["reference_images"] = fresh(_reference_images(setup, batch))
    if method.asks_for("generator"):
        seed = _seed(setup, batch, repeat)
        offered["generator"] = torch.Generator().manual_seed(seed)
    if method.runs > 1 and method.asks_for("nudge"):
        offered["nudge"] = repeat
    if any_control:
        truths: dict[str, Callable[[], Any]] = {
            "truth": lambda: batch.truth.to(env.device),
            "ideal": lambda: batch.ideal.to(env.device),
            "other_target": lambda: _other_target(batch, setup.truth_output),
            "other_network": lambda: _other_network(batch, setup.truth_output),
        }
        offered |= {name: make() for name, make in truths.items() if method.asks_for(name)}
    return offered


def _other_target(batch: Batch, output: Output) -> Truth:
    """The truth of the next class; nothing where a user may have stated it for one target only."""
    if not batch.env.has_roles:
        return Truth(torch.zeros_like(batch.truth.signed))
    if batch.env.classes == 1:
        return batch.truth  # there is no other target
    others = (batch.targets + 1) % batch.env.classes
    return batch.env.truth(batch.images, others, output)


def _other_network(batch: Batch, output: Output) -> Truth:
    """The truth before a network with other roles; nothing in worlds that have no others."""
    if batch.env.rule or not batch.env.has_roles:
        others = [each.other_network(output) for each in batch.questions]
        if batch.questions and all(each is not None for each in others):
            return Truth.joined([each for each in others if each is not None])
        return Truth(torch.zeros_like(batch.truth.signed))
    return mask(_other_classes(batch), batch.targets, output)


def _other_classes(batch: Batch) -> Tensor:
    """The class of each pixel if every cell had the role of the one before it, (B, 1, H, W)."""
    if not batch.questions:  # the colors that count are all that is known to differ
        classes = batch.classes
        return torch.where(classes >= 0, (classes + 1) % batch.env.classes, -1)
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
        # A user's own images have no others beside them: all of them, the tested ones among them.
        n = REFERENCE_IMAGES if setup.env.has_roles else min(REFERENCE_IMAGES, setup.env.spec.size)
        images = setup.env.batch(n, stream)[0].to(setup.env.device)
        setup.drawn["reference_images"] = images
    return setup.drawn["reference_images"]
