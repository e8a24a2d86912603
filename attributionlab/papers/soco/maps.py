"""Maps that soundness and completeness judge, and the settings of the metrics that judge them."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from attributionlab.imputation import constant, noisy_linear, true_baseline
from attributionlab.methods import METHODS, as_method, collect_notices
from attributionlab.methods.ensembles import REDUCTIONS, maps_of_samples
from attributionlab.metrics import Setup, label_probability, magnitudes, normalize
from attributionlab.papers.subjects.subjects import ATTACHED, Subject, maps_of

PLAIN = "integrated-gradients"
ENSEMBLES = tuple(f"{PLAIN}-{name.replace('_', '-')}" for name in REDUCTIONS)
OTHERS = ("gradcam", "extremal-perturbation", "deep-shap", "iba", "input-iba")
"""Beside integrated gradients."""
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    PLAIN: {"baselines": 0.0},
    "deep-shap": {"baselines": 0.0},
    "extremal-perturbation": {"area": 0.1},
    "iba": {"beta": 20.0},
    "input-iba": {"beta": 20.0},
}
"""Black as baseline: Li et al. (2024), G.2. Areas and beta are those of AttributionLab."""
QUICK: Mapping[str, Mapping[str, Any]] = {
    "extremal-perturbation": {"iterations": 100},
    "input-iba": {"epochs": 1, "samples": 40, "steps": 10},
}
SAMPLES, QUICK_SAMPLES = 20, 8
INDICATORS = ("accuracy", "label probability")
NOISE = 0.01
"""Of linear imputation, in units of the value range (Rong et al., 2022)."""
BLACK = partial(constant, value=0.0)
"""What Deletion fills with."""


def scaled(maps: Float[Tensor, "batch 1 height width"]) -> Float64[Tensor, "batch 1 height width"]:
    """Return what of a map is positive, divided by each map's maximum."""
    return normalize(magnitudes(maps.double(), "positive"))


def method_maps(
    subject: Subject, names: Sequence[str], seed: int, *, quick: bool = False, repeat: int = 0
) -> Iterator[tuple[str, Tensor]]:
    """Yield names and maps (B, 1, H, W): what is positive, divided by each map's maximum.

    With `repeat`, those of methods that have so many runs beside the first.
    """
    for name in names:
        if name in (*ATTACHED, "input-iba") and not subject.offered:
            continue
        if repeat >= as_method(name, METHODS).runs:
            continue
        settings = {**SETTINGS.get(name, {}), **(QUICK.get(name, {}) if quick else {})}
        yield name, scaled(maps_of(subject, name, seed, settings, repeat))


def ensemble_maps(
    subject: Subject, noise: float, seed: int, *, images: int | None = None, quick: bool = False
) -> dict[str, Tensor]:
    """Return maps of the ensembles, as `method_maps` does, from the same samples.

    `noise` is a standard deviation in units of the value range; `images`: of the first so many.
    """
    generator = torch.Generator().manual_seed(seed)
    with collect_notices():
        samples = maps_of_samples(
            METHODS[PLAIN],
            subject.explained,
            subject.images[:images],
            subject.targets[:images],
            highest=subject.highest,
            generator=generator,
            n_samples=QUICK_SAMPLES if quick else SAMPLES,
            noise=noise,
            **SETTINGS[PLAIN],
        )
        reduced = [[reduce(maps.double()) for reduce in REDUCTIONS.values()] for maps in samples]
    return {
        name: scaled(torch.stack(maps).sum(1, keepdim=True))
        for name, maps in zip(ENSEMBLES, zip(*reduced, strict=True), strict=True)
    }


def imputation_of(subject: Subject, name: str, seed: int) -> "Remembered":
    """Return a function of images and keep that stores its results: indicators share them."""
    if name == "true-baseline":
        return Remembered(partial(true_baseline, baseline=subject.empty))
    return Remembered(road_imputation(subject.highest, seed))


def road_imputation(value_range: float, seed: int) -> Callable[[Tensor, Tensor], Tensor]:
    """Return noisy linear imputation, with the same noise for every mask."""

    def imputed(images: Tensor, keep: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        return noisy_linear(images, keep, noise=NOISE, value_range=value_range, generator=generator)

    return imputed


class Remembered(nn.Module):
    """A network, or another function of tensors, that computes nothing twice."""

    def __init__(self, compute: Callable[..., Tensor]) -> None:
        super().__init__()
        self.compute, self.known = compute, dict[tuple[bytes, ...], Tensor]()

    def forward(self, *given: Tensor) -> Tensor:
        key = tuple(
            hashlib.blake2b(each.contiguous().numpy().tobytes(), digest_size=16).digest()
            for each in given
        )
        if key not in self.known:
            self.known[key] = self.compute(*given)
        return self.known[key]


def setups(subject: Subject, imputation: str, seed: int) -> Iterator[tuple[str, Setup]]:
    """Yield, by indicator, the keywords of every metric; both share imputed images."""
    shared: Setup = {
        "value_range": (0.0, subject.highest),
        "nothing_kept": subject.empty,
        "imputation": imputation_of(subject, imputation, seed),
    }
    probability = partial(label_probability, temperature=subject.temperature)
    for name, indicator in zip(INDICATORS, ("accuracy", probability), strict=True):
        yield name, {**shared, "indicator": indicator}
