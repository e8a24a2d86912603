"""The panel of Hesse et al. (2024), Table 2."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor, nn

from attributionlab.errors import AttributionLabError, nearest
from attributionlab.methods import METHODS, as_maps, collect_notices
from attributionlab.methods.baselines import Baselines
from attributionlab.methods.ensembles import REDUCTIONS, maps_of_samples

ABSOLUTE = "-absolute"
"""Ends the name of a row whose maps are the absolute values of those of another row."""
ATTACHED = ("gradcam", "gradcam-plus-plus", "smooth-gradcam-plus-plus", "xgradcam", "layercam")
"""Rows that explain by a layer."""
ATTENDED = ("attention-rollout", "chefer-lrp")
"""Rows that explain by the attention of a network that has it."""
CONTROL = "random"
"""A map of independent uniform numbers, which knows nothing."""
OF_NO_OUTPUT = ("attention-rollout", CONTROL)
"""Rows whose maps are the same whatever of a network is explained."""

GRADIENT, INTEGRATED = "input-x-gradient", "integrated-gradients"
UNIFORM = f"{INTEGRATED}-uniform"
SIGNED = (
    *(GRADIENT, f"{GRADIENT}-smoothgrad"),
    *(INTEGRATED, UNIFORM, f"{INTEGRATED}-smoothgrad"),
)
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


class Effort(NamedTuple):
    """Settings that trade time for precision.

    Nodes of the quadrature of integrated gradients, noisy samples of each image, uniformly random
    baseline images, and masks of RISE.
    """

    nodes: int
    samples: int
    starts: int
    masks: int


FULL = Effort(nodes=32, samples=8, starts=4, masks=1000)
QUICK = Effort(nodes=8, samples=4, starts=2, masks=200)
"""Public code of the paper: 50 nodes, 4 samples, one baseline image. RISE's authors: 8,000 masks."""


def panel_maps(
    model: nn.Module,
    images: Float[Tensor, "batch channels height width"],
    targets: Int64[Tensor, " batch"],
    names: Sequence[str] = PANEL,
    *,
    layer: nn.Module | str | None,
    highest: float = 1.0,
    baselines: Baselines = 0.0,
    seed: int,
    quick: bool,
) -> dict[str, Float64[Tensor, "batch 1 height width"]]:
    """Compute maps of rows of the panel, in the order of `names`.

    Attributions are summed over channels first, as everywhere in this package, and an absolute value
    is that of the sum; so the two cancel where channels disagree. Public code of the paper does the
    same. The paper counts Saliency among the absolute maps, and so is it here.

    Parameters
    ----------
    model, images, targets
        The paper explains logits.
    names : sequence of str
        In `PANEL`. Each of the `ATTENDED` is left out where it refuses the network (`refused_rows`).
    layer : nn.Module or str or None
        What `ATTACHED` rows enlarge the maps of, or its dotted name. Without one they are left out.
    highest : float
        Images lie in [0, highest], which scales noise and uniform baselines.
    baselines : float, sequence of float, ndarray or Tensor
        Where the path of integrated gradients starts (`as_baselines`), and what RISE's masks show, 0
        in the paper. Rows "-uniform" have independent U(0, highest) values instead.
    seed : int
        Of noise, uniform baselines, masks and the control.
    quick : bool
        Fewer nodes, samples, baselines and masks.

    Returns
    -------
    dict of str to Tensor of float64, (B, 1, H, W)
        On the CPU, in units of the output (squared for "-squared").

    References
    ----------
    Hesse, Schaub-Meyer and Roth (2024): Benchmarking the attribution quality of vision models.
    NeurIPS. Table 2.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.papers.idsds.maps import panel_maps
    >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2, bias=False))
    >>> images, targets = torch.ones(1, 1, 2, 2), torch.zeros(1, dtype=torch.int64)
    >>> names = ("input-x-gradient", "input-x-gradient-absolute")
    >>> signed, absolute = panel_maps(
    ...     model, images, targets, names, layer=None, seed=0, quick=True
    ... ).values()
    >>> bool((absolute == signed.abs()).all())
    True
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
            settings = _settings(name, QUICK if quick else FULL, baselines, drawn)
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


def refused_rows(
    model: nn.Module,
    images: Float[Tensor, "batch channels height width"],
    targets: Int64[Tensor, " batch"],
) -> list[str]:
    """Return for each of the `ATTENDED` rows that `panel_maps` leaves out a sentence that says why."""
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
    name: str, effort: Effort, baselines: Baselines, drawn: dict[str, Any]
) -> dict[str, Any]:
    """Return what a row's method gets beside the network and its images; `drawn` if it is random."""
    path = {"baselines": baselines, "n_steps": effort.nodes}
    if "-smoothgrad" in name:
        sampled = drawn | {"n_samples": effort.samples}
        return sampled | path if name.startswith(INTEGRATED) else sampled
    return {
        INTEGRATED: path,
        UNIFORM: drawn | {"n_baselines": effort.starts, "n_steps": effort.nodes},
        "rise": {
            "generator": drawn["generator"],
            "baselines": baselines,
            "n_samples": effort.masks,
        },
        "rise-uniform": drawn | {"n_samples": effort.masks},
        "smooth-gradcam-plus-plus": drawn | {"n_samples": effort.samples},
        CONTROL: {"generator": drawn["generator"]},
    }.get(name, {})


def _made(
    name: str, explained: tuple[nn.Module, Tensor, Tensor], settings: Mapping[str, Any]
) -> dict[str, Tensor]:
    """Return maps of a row, and of those that share its samples."""
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
