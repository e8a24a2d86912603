"""The panel of Hesse et al. (2024), Table 2."""

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
    masks : int
        Of RISE.
    """

    nodes: int
    samples: int
    starts: int
    masks: int


FULL = Effort(nodes=32, samples=8, starts=4, masks=1000)
QUICK = Effort(nodes=8, samples=4, starts=2, masks=200)
"""Public code of the paper: 50 nodes, 4 samples, one baseline image. RISE's authors: 8,000 masks."""


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

    def by(self, method: str, **settings: Any) -> Tensor:
        """Maps of a method of the package."""
        maps: Tensor = METHODS[method](self.model, self.images, self.targets, **settings)
        return maps

    @property
    def random(self) -> dict[str, Any]:
        """What methods that draw values of pixels get."""
        return {"highest": self.highest, "generator": self.generator()}

    @property
    def attached(self) -> dict[str, Any]:
        """What methods that explain by a layer get."""
        if isinstance(self.layer, str):
            return {"layer": self.layer}
        return {"layers": {"gradcam": self.layer}}


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
    asked = Asked(model, images, targets, layer, highest, baselines, seed, QUICK if quick else FULL)
    rows = [name for name in names if layer is not None or name not in ATTACHED]
    raw: dict[str, Tensor] = {}
    with heard():  # what is unusual about a method, faithfulness_test tells
        needed = {name.removesuffix(ABSOLUTE) for name in rows}
        for name in sorted(needed):
            if name in raw:
                continue
            try:
                of_source = _SOURCES[name](asked)
            except AttributionLabError:
                if name not in ATTENDED:
                    raise
                continue
            raw |= {made: as_maps(maps, images, made) for made, maps in of_source.items()}
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
    """A sentence for each of the `ATTENDED` rows that `panel_maps` leaves out: why it refuses."""
    said = []
    for name in ATTENDED:
        try:
            with heard():
                METHODS[name](model, images, targets)
        except AttributionLabError as error:
            reason = str(error).removeprefix(name).lstrip(": ")
            said.append(f"{name} is left out: {reason}.")
    return said


def _gradient(asked: Asked) -> Mapping[str, Tensor]:
    return {GRADIENT: asked.by(GRADIENT)}


def _saliency(asked: Asked) -> Mapping[str, Tensor]:
    return {"saliency": asked.by("saliency").double().sum(1, keepdim=True).abs()}


def _integrated(asked: Asked) -> Mapping[str, Tensor]:
    settings = {"baselines": asked.baselines, "n_steps": asked.effort.nodes}
    return {INTEGRATED: asked.by(INTEGRATED, **settings)}


def _uniform(asked: Asked) -> Mapping[str, Tensor]:
    settings = {"n_baselines": asked.effort.starts, "n_steps": asked.effort.nodes}
    return {UNIFORM: asked.by(UNIFORM, **asked.random, **settings)}


def _rise(asked: Asked) -> Mapping[str, Tensor]:
    settings = {"generator": asked.generator(), "baselines": asked.baselines}
    return {"rise": asked.by("rise", n_samples=asked.effort.masks, **settings)}


def _rise_uniform(asked: Asked) -> Mapping[str, Tensor]:
    return {"rise-uniform": asked.by("rise-uniform", n_samples=asked.effort.masks, **asked.random)}


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


def _class_activation(name: str) -> Callable[[Asked], Mapping[str, Tensor]]:
    return lambda asked: {name: asked.by(name, **asked.attached)}


def _smooth_class_activation(asked: Asked) -> Mapping[str, Tensor]:
    name = "smooth-gradcam-plus-plus"
    settings = asked.attached | asked.random
    return {name: asked.by(name, n_samples=asked.effort.samples, **settings)}


def _attention(name: str) -> Callable[[Asked], Mapping[str, Tensor]]:
    return lambda asked: {name: asked.by(name)}


def _random(asked: Asked) -> Mapping[str, Tensor]:
    batch, _, height, width = asked.images.shape
    draws = torch.rand((batch, 1, height, width), generator=asked.generator(), dtype=torch.float64)
    return {CONTROL: draws}


_SOURCES: Mapping[str, Callable[[Asked], Mapping[str, Tensor]]] = {
    GRADIENT: _gradient,
    f"{GRADIENT}-smoothgrad": _gradient_ensemble,
    INTEGRATED: _integrated,
    UNIFORM: _uniform,
    f"{INTEGRATED}-smoothgrad": _integrated_ensembles,
    f"{INTEGRATED}-smoothgrad-squared": _integrated_ensembles,
    "saliency": _saliency,
    "rise": _rise,
    "rise-uniform": _rise_uniform,
    **{name: _class_activation(name) for name in ATTACHED},
    "smooth-gradcam-plus-plus": _smooth_class_activation,
    **{name: _attention(name) for name in ATTENDED},
    CONTROL: _random,
}
"""What makes the maps of each row; rows of one source share its samples."""
