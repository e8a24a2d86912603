"""Soundness, completeness, ROAD and Deletion of maps, beside the ratios that they estimate."""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from attributionlab.imputation import constant, noisy_linear, true_baseline
from attributionlab.metrics import (
    Setup,
    completeness_curve,
    included_pixels,
    label_probability,
    removal_curve,
    soundness_sweep,
    true_completeness,
    true_soundness,
)
from attributionlab.metrics.performance import Performance
from attributionlab.papers.subjects.subjects import Subject

INDICATORS = ("accuracy", "label probability")
NOISE = 0.01
"""Of linear imputation, in units of the value range (Rong et al., 2022)."""
LEVELS = tuple(tenth / 10 for tenth in range(1, 10))
"""Predictive levels, from that of an image of which nothing is kept (0) to that of the image (1)."""
THRESHOLDS = tuple(tenth / 10 for tenth in range(1, 10))
FRACTIONS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
RATIOS = tuple(
    1 - kept / 1000 for kept in (*range(1, 20), *range(20, 100, 10), *range(100, 1001, 50))
)
"""Masked shares of the area; steps of a thousandth at first, because patches are that small."""
BLACK = partial(constant, value=0.0)
"""What Deletion fills with."""
REMOVALS = {
    "road-morf": "morf",
    "road-lerf": "lerf",
    "deletion-morf": "morf",
    "deletion-lerf": "lerf",
}


class Measured(NamedTuple):
    """One map of each image, by one indicator and one imputation."""

    levels: list[dict[str, Any]]
    """by level: estimated and true soundness of the pixels that reach it"""
    thresholds: list[dict[str, Any]]
    """by threshold: fall of the performance and true completeness"""
    removals: list[dict[str, Any]]
    """by metric and fraction: mean indicator"""
    curves: Mapping[str, np.ndarray[Any, Any]]
    """(B or 1, points): "soundness", "true soundness", "completeness", ... and those of REMOVALS"""


class Case(NamedTuple):
    """One subject under one imputation, and what was measured there by indicator and method."""

    subject: Subject
    imputation: str
    noise: float
    """of the ensembles' samples, in units of the value range"""
    found: Mapping[str, Mapping[str, Measured]]

    @property
    def name(self) -> str:
        return f"{self.subject.name}, {self.imputation}"


def imputation_of(subject: Subject, name: str, seed: int) -> Callable[[Tensor, Tensor], Tensor]:
    """A function of images and keep, which remembers what it has returned: indicators share it."""
    known: dict[bytes, Tensor] = {}

    def imputed(images: Tensor, keep: Tensor) -> Tensor:
        key = np.packbits(keep.numpy()).tobytes()
        if key not in known:
            if name == "true-baseline":
                known[key] = true_baseline(images, keep, baseline=subject.empty)
            else:
                known[key] = noisy_linear(
                    images,
                    keep,
                    noise=NOISE,
                    value_range=subject.highest,
                    generator=torch.Generator().manual_seed(seed),
                )
        return known[key]

    return imputed


def setups(subject: Subject, imputation: str, seed: int) -> Iterator[tuple[str, Setup]]:
    """By indicator, the keywords of every metric; imputed images are shared between them."""
    impute = imputation_of(subject, imputation, seed)
    for name in INDICATORS:
        indicator: Any = "accuracy"
        if name != "accuracy":
            indicator = partial(label_probability, temperature=subject.temperature)
        yield (
            name,
            Setup(
                indicator=indicator,
                value_range=(0.0, subject.highest),
                nothing_kept=subject.empty,
                imputation=impute,
            ),
        )


def measured(
    subject: Subject, maps: Tensor, imputation: str, seed: int
) -> Iterator[tuple[str, Measured]]:
    """By indicator, what the metrics say of maps (B, 1, H, W) in [0, 1], and what is true."""
    for name, setup in setups(subject, imputation, seed):
        yield name, _of_indicator(subject, maps, setup)


def _of_indicator(subject: Subject, maps: Tensor, setup: Setup) -> Measured:
    given = (subject.model, subject.images, subject.targets, maps)
    phi = subject.information
    performance = Performance(*given[:3], **setup)
    nothing = float(performance.on(subject.empty.expand_as(subject.images)).mean())
    intact = float(performance.intact().mean())
    sweep = soundness_sweep(*given, ratios=RATIOS, expansion="attributed", **setup)
    levels, estimated, true = [], [], []
    for share in LEVELS:
        level = nothing + share * (intact - nothing)
        found = sweep.at(level) if level > 0 and intact > nothing else None
        reached = found is not None and found.reached
        per_image = found.per_sample if found else torch.full((len(maps),), math.nan)
        truth = torch.full((len(maps),), math.nan, dtype=torch.float64)
        if found and reached and phi is not None:
            kept = included_pixels(maps, found.ratio, expansion="attributed")
            truth = true_soundness(maps, phi, included=kept)
        estimated.append(per_image.numpy())
        true.append(truth.numpy())
        levels.append(
            {
                "level": share,
                "performance": found.performance if found else math.nan,
                "reached": reached,
                "jumped": bool(found and found.jumped),
                "kept": 1 - found.ratio if found else math.nan,
                "soundness": found.soundness if found else math.nan,
                "true_soundness": float(truth.nanmean()),
            }
        )
    curve = completeness_curve(*given, thresholds=THRESHOLDS, **setup)
    complete = [
        true_completeness(maps, phi, threshold=t).numpy()
        if phi is not None
        else np.full(len(maps), math.nan)
        for t in THRESHOLDS
    ]
    thresholds = [
        {"threshold": t, "completeness": float(d), "true_completeness": float(c.mean())}
        for t, d, c in zip(THRESHOLDS, curve.differences, complete, strict=True)
    ]
    removed = {}
    for metric, order in REMOVALS.items():
        how: Any = setup | ({"imputation": BLACK} if metric.startswith("deletion") else {})
        removed[metric] = removal_curve(*given, order=order, fractions=FRACTIONS, **how).numpy()  # type: ignore[arg-type]
    removals = [
        {"metric": metric, "fraction": f, "performance": float(value)}
        for metric, of_metric in removed.items()
        for f, value in zip(FRACTIONS, of_metric.mean(0), strict=True)
    ]
    curves = {
        "soundness": np.stack(estimated, 1),
        "true soundness": np.stack(true, 1),
        "completeness": curve.differences.numpy()[None],
        "true completeness": np.stack(complete, 1),
        **removed,
    }
    return Measured(levels, thresholds, removals, curves)
