"""Maps of the methods that soundness and completeness judge, as their thresholds need them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from attributionlab.methods import METHODS, as_method, heard
from attributionlab.methods.ensembles import REDUCTIONS, maps_of_samples
from attributionlab.papers.soco.scaling import scaled
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


def method_maps(
    subject: Subject, names: Sequence[str], seed: int, *, quick: bool = False, repeat: int = 0
) -> Iterator[tuple[str, Tensor]]:
    """What is positive of the maps of built-in methods, each divided by its maximum: (B, 1, H, W); with
    `repeat` those of methods that have so many runs beside the first.
    """
    for name in names:
        if name in (*ATTACHED, "input-iba") and not subject.offered:
            continue
        if repeat >= as_method(name, METHODS).runs:
            continue
        settings = {**SETTINGS.get(name, {}), **(QUICK.get(name, {}) if quick else {})}
        yield name, scaled(maps_of(subject, name, seed, settings, repeat))


def ensemble_maps(
    subject: Subject,
    noise: float,
    seed: int,
    *,
    images: int | None = None,
    quick: bool = False,
) -> dict[str, Tensor]:
    """What is positive of the maps of the ensembles, from the same samples.

    Parameters
    ----------
    noise : float
        Standard deviation in units of the value range.
    images : int, optional
        Of how many images; all by default.
    quick : bool
        Fewer samples.
    """
    generator = torch.Generator().manual_seed(seed)
    with heard():
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
