"""Maps of all methods for one network, and what two removals and the truth say about them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from attributionlab import metrics
from attributionlab.base import AttributionLabError, exact, run_name
from attributionlab.methods import METHODS, as_method
from attributionlab.verdicts.controls import CONTROLS
from attributionlab.verdicts.faithfulness.calls import batch_maps
from attributionlab.verdicts.faithfulness.setup import prepared
from attributionlab.verdicts.leaderboard.cases import PROTOCOLS, RemovedTo
from attributionlab.worlds import Environment
from attributionlab.worlds.truth import Truth

Numbers = NDArray[np.float64]

IndicatorName = Literal["accuracy", "label-probability"]
"""Whether the label has the largest output, which jumps, or its softmax probability."""


class Explained(NamedTuple):
    """Images of one network with a map of each method for each of them."""

    images: Float[Tensor, "images channels height width"]
    targets: Int[Tensor, " images"]
    truth: Truth
    maps: Mapping[str, Tensor]
    """by method, (images, 1, H, W); runs of a method that optimizes beside its first by `run_name`"""
    reasons: Mapping[str, str]
    """of the methods that could not be run, why"""


def explained(methods: Sequence[Any], env: Environment, n: int, seed: int) -> Explained:
    """Attributions of every method that can be run, with the settings that the paper states for it.

    - `methods`: whatever `attributionlab.methods.as_method` takes, with distinct names.
    - `env`: a classification, whose truth is that of the label's probability for every method, also for
      those that explain logits; or a world from a rule.
    """
    resolved = [as_method(each, METHODS | CONTROLS) for each in methods]
    setups = [
        prepared(method, env, None, env.outputs[0], preset="paper", n=n, seed=seed)
        for method in resolved
    ]
    batches = list(setups[0].batches())
    maps: dict[str, Tensor] = {}
    reasons: dict[str, str] = {}
    for method, setup in zip(resolved, setups, strict=True):
        try:
            runs = [batch_maps(setup, batches, repeat) for repeat in range(method.runs)]
        except AttributionLabError as error:
            reasons[method.name] = str(error)
        else:
            maps |= {
                run_name(method.name, index): found.float() for index, found in enumerate(runs)
            }
    return Explained(
        torch.cat([batch.images for batch in batches]),
        torch.cat([batch.targets for batch in batches]),
        Truth.joined([batch.truth for batch in batches]),
        maps,
        reasons,
    )


def indicated(
    outputs: Float[Tensor, "*points classes"],
    target: int,
    name: IndicatorName | None,
    temperature: float,
) -> Float64[Tensor, " *points"]:
    """`attributionlab.metrics.accuracy` or `label_probability` of many outputs for one label.

    - `name`: name of the indicator; None: the output itself, of a regression.
    """
    if name is None:
        return outputs[..., target].double()
    points = outputs.flatten(0, -2)
    targets = torch.full((len(points),), target, device=points.device)
    if name == "accuracy":
        values = metrics.accuracy(points, targets)
    else:
        values = metrics.label_probability(points, targets, temperature=temperature)
    return values.view(outputs.shape[:-1])


def removed_pixel(env: Environment, removed_to: RemovedTo) -> Float[Tensor, "channels 1 1"]:
    """What removed pixels become, where the network is."""
    return env.baseline if removed_to == "true baseline" else env.baseline * 0


def indicator_curves(
    model: nn.Module,
    images: Float[Tensor, "images channels height width"],
    targets: Int[Tensor, " images"],
    orders: Int[Tensor, "images draws pixels"],
    *,
    replacement: Float[Tensor, "channels 1 1"],
    indicator: IndicatorName | None,
    temperature: float,
) -> Iterator[Float64[Tensor, "draws counts"]]:
    """An indicator after 0, 1, ..., P removed pixels, image by image, along each order.

    Networks of the laboratory are followed from pixel to pixel (`attributionlab.exact.trajectories`),
    which equals a forward pass for each point.

    - `indicator`: what the curves show; None: the output itself.
    """
    canvas = replacement.expand(images.shape[1:])[None]
    for image, target, of_image in zip(images, targets, orders, strict=True):
        outputs = exact.trajectories(model, image[None], canvas, of_image[None])[0]
        yield indicated(outputs, int(target), indicator, temperature)


def areas_of(
    seen: Explained, env: Environment, removed_to: RemovedTo, indicator: IndicatorName
) -> dict[str, Numbers]:
    """Area under each image's curve over the fraction removed, by protocol: (methods, images).

    The data set's curve is the mean over images, and so is the area under it.

    - `indicator`: what the curves show; those of a regression show its output.
    """
    orders = [
        torch.stack([metrics.removal_order(maps, order=order) for maps in seen.maps.values()], 1)
        for order in PROTOCOLS.values()
    ]
    curves = indicator_curves(
        env.model,
        seen.images.to(env.device),
        seen.targets,
        torch.cat(orders, 1),
        replacement=removed_pixel(env, removed_to),
        indicator=indicator if env.task == "classification" else None,
        temperature=env.temperature or 1.0,
    )
    fractions = metrics.curve_fractions(seen.images[0, 0].numel())
    areas = np.stack(
        [metrics.area_under_curve(each, fractions).cpu().numpy() for each in curves], 1
    )
    return dict(zip(PROTOCOLS, np.split(areas, len(PROTOCOLS)), strict=True))


def f1_of(seen: Explained) -> dict[metrics.Part, Numbers]:
    """F1 of the maps with each part of the truth, (methods, images); what is not asked is dropped."""
    truth = seen.truth
    found = [
        metrics.parts_f1(maps * truth.asked, truth.signed, truth.mixed)
        for maps in seen.maps.values()
    ]
    return {part: np.stack([each[part].numpy() for each in found]) for part in found[0]}
