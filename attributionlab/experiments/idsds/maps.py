"""The panel of Hesse et al. (2024), Table 2: the methods of it that this package has."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor, nn

from attributionlab.errors import AttributionLabError, nearest
from attributionlab.methods import METHODS, as_maps, heard
from attributionlab.methods.baselines import Baselines
from attributionlab.methods.ensembles import REDUCTIONS, maps_of_samples

__all__ = ["ABSOLUTE", "ATTACHED", "CONTROL", "PANEL", "panel_maps"]

ABSOLUTE = "-absolute"
"""Ends the name of a row whose maps are the absolute values of those of another row."""
ATTACHED = ("gradcam",)
"""Rows that explain by a layer."""
CONTROL = "random"
"""A map of independent uniform numbers, which knows nothing."""

GRADIENT, INTEGRATED = "input-x-gradient", "integrated-gradients"
SIGNED = (
    GRADIENT,
    f"{GRADIENT}-smoothgrad",
    INTEGRATED,
    f"{INTEGRATED}-uniform",
    f"{INTEGRATED}-smoothgrad",
)
PANEL = (
    *SIGNED,
    *(f"{name}{ABSOLUTE}" for name in SIGNED),
    f"{INTEGRATED}-smoothgrad-squared",
    "saliency",
    "gradcam",
    CONTROL,
)
"""The rows in the order of Table 2, and the control."""


@dataclass(frozen=True)
class Effort:
    """Settings that trade time for precision.

    Parameters
    ----------
    nodes : int
        Of the quadrature of integrated gradients.
    samples : int
        Noisy samples of each image.
    starts : int
        Uniformly random baseline images.
    """

    nodes: int
    samples: int
    starts: int


FULL, QUICK = Effort(nodes=32, samples=8, starts=4), Effort(nodes=8, samples=4, starts=2)
"""Public code of the paper: 50 nodes, 4 samples, one baseline image."""


@dataclass(frozen=True, eq=False)
class Asked:
    """What a row of the panel gets."""

    model: nn.Module
    images: Tensor
    targets: Tensor
    layer: nn.Module | str | None
    highest: float
    baselines: Baselines
    seed: int
    effort: Effort

    def generator(self) -> torch.Generator:
        """A fresh one for each row: a row's maps do not depend on which others are asked for."""
        return torch.Generator().manual_seed(self.seed)


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
    """Maps of rows of the panel, in the order in which they are asked for.

    Attributions are summed over channels first, as everywhere in this package, and an absolute value
    is that of the sum; so the two cancel where channels disagree. Public code of the paper does the
    same. The paper counts Saliency among the absolute maps, and so is it here.

    Parameters
    ----------
    model : nn.Module
        (B, C, H, W) -> (B, K); the paper explains logits.
    images, targets : Tensor
        (B, C, H, W) and (B,).
    names : sequence of str
        In `PANEL`.
    layer : nn.Module or str or None
        What `ATTACHED` rows enlarge the maps of, or its dotted name. Without one they are left out.
    highest : float
        Images lie in [0, highest], which scales noise and uniform baselines.
    baselines : float, sequence of float, ndarray or Tensor
        Where the path of integrated gradients starts (`as_baselines`), 0 in the paper. Rows
        "-uniform" start from images of independent U(0, highest) values instead, the same for all
        images (Sturmfels et al., 2020), and are the mean over several of them.
    seed : int
        Of noise, uniform baselines and the control.
    quick : bool
        Fewer nodes, samples and baselines.

    Returns
    -------
    dict of str to Tensor of float64, (B, 1, H, W)
        On the CPU, in units of the output (squared for "-squared").

    Raises
    ------
    AttributionLabError
        For a name that is not in the panel, and as the methods do.

    References
    ----------
    Hesse, Schaub-Meyer and Roth (2024): Benchmarking the attribution quality of vision models.
    NeurIPS. Table 2.

    Examples
    --------
    >>> import torch
    >>> from attributionlab.experiments.idsds.maps import panel_maps
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
    asked = Asked(model, images, targets, layer, highest, baselines, seed, QUICK if quick else FULL)
    rows = [name for name in names if layer is not None or name not in ATTACHED]
    needed = {name.removesuffix(ABSOLUTE) for name in rows}
    raw: dict[str, Tensor] = {}
    with heard():  # what is unusual about a method, faithfulness_test tells
        for name in sorted(needed):
            if name not in raw:
                raw |= {
                    made: as_maps(maps, images, made)
                    for made, maps in _SOURCES[name](asked).items()
                }
    return {
        name: raw[name.removesuffix(ABSOLUTE)].abs() if name.endswith(ABSOLUTE) else raw[name]
        for name in rows
    }


def _gradient(asked: Asked) -> Mapping[str, Tensor]:
    return {GRADIENT: METHODS[GRADIENT](asked.model, asked.images, asked.targets)}


def _saliency(asked: Asked) -> Mapping[str, Tensor]:
    gradient: Tensor = METHODS["saliency"](asked.model, asked.images, asked.targets)
    return {"saliency": gradient.double().sum(1, keepdim=True).abs()}


def _integrated(asked: Asked) -> Mapping[str, Tensor]:
    return {INTEGRATED: _from(asked, asked.baselines)}


def _uniform(asked: Asked) -> Mapping[str, Tensor]:
    shape, generator = asked.images.shape[1:], asked.generator()
    draws = torch.rand((asked.effort.starts, *shape), generator=generator) * asked.highest
    maps = [_from(asked, start).double() for start in draws]
    return {f"{INTEGRATED}-uniform": torch.stack(maps).mean(0)}


def _from(asked: Asked, baselines: Baselines) -> Tensor:
    maps: Tensor = METHODS[INTEGRATED](
        asked.model, asked.images, asked.targets, baselines=baselines, n_steps=asked.effort.nodes
    )
    return maps


def _gradient_ensemble(asked: Asked) -> Mapping[str, Tensor]:
    return _reduced(asked, GRADIENT, ("smoothgrad",), {})


def _integrated_ensembles(asked: Asked) -> Mapping[str, Tensor]:
    settings = {"baselines": asked.baselines, "n_steps": asked.effort.nodes}
    return _reduced(asked, INTEGRATED, ("smoothgrad", "smoothgrad_squared"), settings)


def _reduced(
    asked: Asked, method: str, reductions: Sequence[str], settings: Mapping[str, Any]
) -> Mapping[str, Tensor]:
    """Ensembles of a method, all from the same samples."""
    samples = maps_of_samples(
        METHODS[method],
        asked.model,
        asked.images,
        asked.targets,
        highest=asked.highest,
        generator=asked.generator(),
        n_samples=asked.effort.samples,
        **settings,
    )
    made = [[REDUCTIONS[each](maps.double()) for each in reductions] for maps in samples]
    names = [f"{method}-{each.replace('_', '-')}" for each in reductions]
    return {
        name: torch.stack(maps) for name, maps in zip(names, zip(*made, strict=True), strict=True)
    }


def _gradcam(asked: Asked) -> Mapping[str, Tensor]:
    attached = (
        {"layer": asked.layer}
        if isinstance(asked.layer, str)
        else {"layers": {"gradcam": asked.layer}}
    )
    return {"gradcam": METHODS["gradcam"](asked.model, asked.images, asked.targets, **attached)}


def _random(asked: Asked) -> Mapping[str, Tensor]:
    batch, _, height, width = asked.images.shape
    draws = torch.rand((batch, 1, height, width), generator=asked.generator(), dtype=torch.float64)
    return {CONTROL: draws}


_SOURCES: Mapping[str, Callable[[Asked], Mapping[str, Tensor]]] = {
    GRADIENT: _gradient,
    f"{GRADIENT}-smoothgrad": _gradient_ensemble,
    INTEGRATED: _integrated,
    f"{INTEGRATED}-uniform": _uniform,
    f"{INTEGRATED}-smoothgrad": _integrated_ensembles,
    f"{INTEGRATED}-smoothgrad-squared": _integrated_ensembles,
    "saliency": _saliency,
    "gradcam": _gradcam,
    CONTROL: _random,
}
"""What makes the maps of each row; rows of one source share its samples."""
