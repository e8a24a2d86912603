"""Maps of several methods for one network and its images, with what is silently wrong with each."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attributionlab.base import (
    AttributionLabError,
    format_error,
    in_one_line,
    own_arithmetic,
    place_of,
    refuse_if,
    shown,
    track,
    written,
)
from attributionlab.methods.adapter import Method, as_method
from attributionlab.methods.answers import Model, Targets, network_of, posed
from attributionlab.methods.batching import over_batches
from attributionlab.methods.calling import Call
from attributionlab.methods.declaration import AttributionMethod, problems_of_form
from attributionlab.methods.guards import finite_and_not_empty
from attributionlab.methods.layers import find_layer
from attributionlab.methods.notices import collect_notices, summarized
from attributionlab.methods.outputs import target_outputs
from attributionlab.methods.registry import METHODS
from attributionlab.methods.run import as_maps, raw_attributions

MOST_METHODS = 100
PLACE = "this model"


class SideBySide(NamedTuple):
    """Maps by the names of their methods, and what they are of.

    - `maps`: (B, 1, H, W) each, float64 on the CPU, summed over channels.
    - `warnings`: what the guards say of each method's maps; empty for most.
    - `refused`: why a method has no maps.
    - `targets`, `outputs` (B,): which output of the network is explained, and its value.
    - `layer`: name of the module that class activation maps attach to, where there is one.
    """

    maps: dict[str, Float[Tensor, "batch 1 height width"]]
    warnings: dict[str, list[str]]
    refused: dict[str, str]
    targets: Int[Tensor, " batch"]
    outputs: Float[Tensor, " batch"]
    layer: str | None


class Handed(NamedTuple):
    """What methods that ask for it get; None where they have a default of their own."""

    layer: str | None
    highest: float | None
    reference_images: Tensor | None
    seed: int


def side_by_side(
    model: Model,
    images: Float[Tensor, "batch channels height width"],
    methods: Iterable[AttributionMethod | tuple[AttributionMethod, Mapping[str, Any]]],
    targets: Targets,
    given: Handed,
    show_progress: bool = False,
) -> SideBySide:
    """Maps of all methods that have some; refused where no method could have any.

    Each method is called as a user calls it, with all guards; what it does to the network is undone.
    """
    network = network_of(model)
    problems = problems_of_form(None, network, images)
    if not problems and images.ndim != 4:
        problems = [f"images have shape {tuple(images.shape)}: pass a tensor (B, C, H, W)"]
    if callable(targets):
        problems.append(f"targets are {shown(targets)}: pass indices of outputs, or 'predicted'")
    refuse_if(problems, "explain")
    named = by_name(methods)
    of_model = in_one_line(
        lambda error: (
            f"explain: asked about images {shown(images)}, the model raised "
            f"{format_error(error)}{place_of(error)}: pass images as it takes them"
        )
    )
    with own_arithmetic(), of_model, posed("explain", network, images, targets, {}) as question:

        @torch.no_grad()
        def run(some: Tensor, classes: Tensor) -> tuple[Tensor]:
            return (target_outputs(question.model(some), classes),)

        [outputs] = over_batches(run, (question.inputs, question.targets), "explain")
        chosen = question.targets
        name, layers = _attached(network, question.inputs[:1], given.layer)
    found = SideBySide({}, {}, {}, chosen.cpu(), outputs.cpu(), name)
    steps = track(named.items(), len(named), "explain", show_progress, "methods")
    for label, method in steps:
        offered: dict[str, Any] = {"layers": layers}
        values = {"highest": given.highest, "reference_images": given.reference_images}
        offered |= {key: value for key, value in values.items() if value is not None}
        if method.asks_for("generator"):
            offered["generator"] = torch.Generator().manual_seed(given.seed)
        inputs = images.detach().clone()
        call = Call(PLACE, network, inputs, chosen.clone(), 0, len(images), offered)
        try:
            found.maps[label], said = _maps(label, method, call, given.seed)
        except AttributionLabError as error:
            found.refused[label] = str(error).removeprefix(f"{method.name}: ")
        else:
            found.warnings[label] = said
    if not found.maps:
        raise AttributionLabError(
            "explain: no method has maps of this model: "
            + "; ".join(f"{label}: {why}" for label, why in found.refused.items())
        )
    return found


def by_name(
    methods: Iterable[AttributionMethod | tuple[AttributionMethod, Mapping[str, Any]]],
) -> dict[str, Method]:
    """Methods by their names, with their settings where a name comes twice."""
    if isinstance(methods, str) or not isinstance(methods, Sequence):
        methods = [methods]  # type: ignore[list-item]
    pairs = [each if isinstance(each, tuple) else (each, {}) for each in methods]
    if not 0 < len(pairs) <= MOST_METHODS:
        raise AttributionLabError(f"methods are {len(pairs)}: give 1 to {MOST_METHODS} of them")
    for pair in pairs:
        if len(pair) != 2:
            raise AttributionLabError(
                f"a method is {written(pair)}: pass a method, or a pair (method, settings)"
            )
    adapted = [as_method(method, METHODS, settings) for method, settings in pairs]
    names = [method.name for method in adapted]
    labels = [
        f"{method.name} ({', '.join(f'{k}={v!r}' for k, v in method.settings.items())})"
        if names.count(method.name) > 1 and method.settings
        else method.name
        for method in adapted
    ]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise AttributionLabError(
            f"methods have {twice!r} twice: give each once, or other settings"
        )
    return dict(zip(labels, adapted, strict=True))


def _maps(label: str, method: Method, call: Call, seed: int) -> tuple[Tensor, list[str]]:
    """A method's maps, and what is silently wrong with them."""
    inputs, targets = call.inputs.clone(), call.targets.clone()
    with collect_notices(of_a_users_call=True) as notices:
        attributions, _ = raw_attributions(method, call, seed)
        with collect_notices():  # those of zeros are guards'
            maps = as_maps(attributions, inputs, label)
        if not method.built_in:  # a built-in method has looked itself
            on_device = maps.to(inputs.device)
            finite_and_not_empty(call.model, inputs, targets, on_device, label, notices)
    return maps, summarized(notices)


def _attached(
    network: nn.Module, image: Tensor, layer: str | None
) -> tuple[str | None, dict[str, nn.Module]]:
    """The layer named, or else the convolution that runs last of those with more than one cell, by the
    keys of an environment's layers.

    None in networks with attention: their convolution embeds patches, long before the last layer.
    """
    if layer is not None:
        module = find_layer(network, layer, None, "gradcam")
    else:
        if any("attention" in type(each).__name__.lower() for each in network.modules()):
            return None, {}
        names = {module: name for name, module in network.named_modules()}
        ran: list[nn.Module] = []

        def note(module: nn.Module, _: Any, output: Tensor) -> None:
            if output.shape[2:].numel() > 1:
                ran.append(module)

        convolutions = [each for each in names if isinstance(each, nn.Conv2d)]
        handles = [each.register_forward_hook(note) for each in convolutions]
        try:
            with torch.no_grad():
                network(image)
        finally:
            for handle in handles:
                handle.remove()
        once = [each for each in ran if ran.count(each) == 1]
        if not once:
            return None, {}
        module, layer = once[-1], names[once[-1]]
    return layer, {"gradcam": module, "iba": module}
