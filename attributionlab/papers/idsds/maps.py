"""The panel of Hesse et al. (2024), Table 2: maps of its rows."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from attributionlab.base import AttributionLabError, nearest
from attributionlab.methods import (
    METHODS,
    REDUCTIONS,
    Baselines,
    as_maps,
    collect_notices,
    maps_of_samples,
)
from attributionlab.papers.idsds.training import Images, Labels

ABSOLUTE = "-absolute"
"""Ends the name of a row whose maps are the absolute values of those of another row."""
ATTACHED = ("gradcam", "gradcam-plus-plus", "smooth-gradcam-plus-plus", "xgradcam", "layercam")
"""Rows that explain by a layer."""
ATTENDED = ("attention-rollout", "chefer-lrp")
"""Rows that explain by the attention of a network that has it."""
CONTROL = "random"
"""A map of independent uniform numbers, which knows nothing."""

GRADIENT, INTEGRATED = "input-x-gradient", "integrated-gradients"
UNIFORM = f"{INTEGRATED}-uniform"
SIGNED = (*(GRADIENT, f"{GRADIENT}-smoothgrad"), *(INTEGRATED, UNIFORM, f"{INTEGRATED}-smoothgrad"))
PANEL = (
    *SIGNED,
    *(f"{name}{ABSOLUTE}" for name in SIGNED),
    f"{INTEGRATED}-smoothgrad-squared",
    *("saliency", "rise", "rise-uniform"),
    *ATTACHED,
    *ATTENDED,
    CONTROL,
)
"""The rows in the order of Table 2, and the control."""


FULL, QUICK = (32, 8, 4, 1000), (8, 4, 2, 200)
"""Nodes of the quadrature of integrated gradients, noisy samples of each image, uniformly random
baseline images, and masks of RISE. Public code of the paper: 50 nodes, 4 samples, one baseline image.
RISE's authors: 8,000 masks."""


def panel_maps(
    model: nn.Module,
    images: Images,
    targets: Labels,
    names: Sequence[str] = PANEL,
    *,
    layer: nn.Module | str | None,
    highest: float = 1.0,
    baselines: Baselines = 0.0,
    seed: int,
    quick: bool,
) -> dict[str, Float64[Tensor, "batch 1 height width"]]:
    """Compute maps (B, 1, H, W) of rows of the panel, in the order of `names`, in units of the output.

    Attributions are summed over channels first, as everywhere in this package, and an absolute
    value is that of the sum; so the two cancel where channels disagree. Public code of the paper
    does the same. The paper explains logits, and counts Saliency among the absolute maps, as is
    done here.

    Each of the `ATTENDED` rows is left out where it refuses the network (`refused_rows`). `layer`
    is what `ATTACHED` rows enlarge the maps of, or its dotted name; without one they are left out.
    Images lie in [0, highest], which scales noise and uniform baselines. `baselines` are where the
    path of integrated gradients starts, and what RISE's masks show, 0 in the paper; rows "-uniform"
    have independent U(0, highest) values instead. The seed is that of all that is random; a `quick`
    call takes fewer nodes, samples, baselines and masks.
    """
    for name in names:
        if name not in PANEL:
            raise AttributionLabError(f"{name!r} is not in the panel: {nearest(name, PANEL)}")
    rows = [name for name in names if layer is not None or name not in ATTACHED]
    attached = {"layer": layer} if isinstance(layer, str) else {"layers": {"gradcam": layer}}
    raw: dict[str, Tensor] = {}
    with collect_notices():  # what is unusual about a method, faithfulness_test tells
        for name in sorted({name.removesuffix(ABSOLUTE) for name in rows}):
            if name in raw:
                continue
            # Of its own: a row's maps do not depend on which others there are.
            drawn = {"highest": highest, "generator": torch.Generator().manual_seed(seed)}
            settings = _settings(name, quick, baselines, drawn)
            settings |= attached if name in ATTACHED else {}
            try:
                found = _made(name, (model, images, targets), settings)
            except AttributionLabError:
                if name not in ATTENDED:
                    raise
                continue
            raw |= {made: as_maps(maps, images, made) for made, maps in found.items()}
    return {
        name: raw[name.removesuffix(ABSOLUTE)].abs() if name.endswith(ABSOLUTE) else raw[name]
        for name in rows
        if name.removesuffix(ABSOLUTE) in raw
    }


def refused_rows(model: nn.Module, images: Images, targets: Labels) -> list[str]:
    """For each of the `ATTENDED` rows that `panel_maps` leaves out a sentence that says why."""
    said = []
    for name in ATTENDED:
        try:
            with collect_notices():
                METHODS[name](model, images, targets)
        except AttributionLabError as error:
            reason = str(error).removeprefix(name).lstrip(": ")
            said.append(f"{name} is left out: {reason}.")
    return said


def _settings(
    name: str, quick: bool, baselines: Baselines, drawn: dict[str, Any]
) -> dict[str, Any]:
    """What a row's method gets beside the network and its images; `drawn` if it is random."""
    nodes, samples, starts, masks = QUICK if quick else FULL
    generator = {"generator": drawn["generator"]}
    path, sampled = {"baselines": baselines, "n_steps": nodes}, drawn | {"n_samples": samples}
    if "-smoothgrad" in name:
        return sampled | path if name.startswith(INTEGRATED) else sampled
    return {
        INTEGRATED: path,
        UNIFORM: drawn | {"n_baselines": starts, "n_steps": nodes},
        "rise": generator | {"baselines": baselines, "n_samples": masks},
        "rise-uniform": drawn | {"n_samples": masks},
        "smooth-gradcam-plus-plus": sampled,
        CONTROL: generator,
    }.get(name, {})


def _made(
    name: str, explained: tuple[nn.Module, Tensor, Tensor], settings: Mapping[str, Any]
) -> dict[str, Tensor]:
    """Maps of a row, and of those that share its samples."""
    if name == CONTROL:
        batch, _, height, width = explained[1].shape
        return {name: torch.rand((batch, 1, height, width), dtype=torch.float64, **settings)}
    method, smoothed, _ = name.partition("-smoothgrad")
    if smoothed:
        squared = ("smoothgrad_squared",) if method == INTEGRATED else ()
        reductions = ("smoothgrad", *squared)
        samples = maps_of_samples(METHODS[method], *explained, **settings)
        made = [[REDUCTIONS[each](maps.double()) for each in reductions] for maps in samples]
        rows = [f"{method}-{each.replace('_', '-')}" for each in reductions]
        return dict(zip(rows, map(torch.stack, zip(*made, strict=True)), strict=True))
    maps = METHODS[name](*explained, **settings)
    return {name: maps.double().sum(1, keepdim=True).abs() if name == "saliency" else maps}


def probable(network: nn.Module) -> nn.Module:
    """The network with a softmax behind it, which shares its modules."""
    return nn.Sequential(network, nn.Softmax(dim=1)).eval()
