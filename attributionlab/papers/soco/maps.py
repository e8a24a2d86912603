"""Maps that soundness, completeness and ROAD judge, and the settings of the metrics that judge.

Table 3 of Li et al. (2024): attribution taken from maps and added to them, in three ways.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor, nn

from attributionlab.base import AttributionLabError
from attributionlab.methods import (
    METHODS,
    REDUCTIONS,
    as_method,
    gradcam,
    hand_on_notices,
    integrated_gradients,
    maps_of_samples,
)
from attributionlab.metrics import (
    Indicator,
    Order,
    Performance,
    PerformanceOptions,
    Retraining,
    area_under_curve,
    label_probability,
    magnitudes,
    normalize,
    removal_curve,
    removal_order,
)
from attributionlab.metrics.imputation import constant, noisy_linear, true_baseline
from attributionlab.papers.subjects.networks import gradcam_layer
from attributionlab.papers.subjects.subjects import ATTACHED, Subject, maps_of

Scheme = Literal["constant", "random", "partial"]
Direction = Literal["remove", "introduce"]
SCHEMES: tuple[Scheme, ...] = get_args(Scheme)

SHIFT = 0.6
"""What is taken or added at most, in units of the value range of maps, [0, 1]."""
EMPTIED = (0.6, 0.8)
"""Ranks, as shares of all pixels from the least attributed on, that "partial" sets to 0."""
LIFTED, QUANTILE = 0.4, 0.8
"""Share of pixels, the least attributed ones, that "partial" lifts to a quantile of the map."""

Maps = Float[Tensor, "batch 1 height width"]


def modified(
    maps: Maps,
    scheme: Scheme,
    direction: Direction,
    generator: torch.Generator | None = None,
    *,
    clip: bool = True,
) -> Maps:
    """Take attribution from maps in [0, 1], or add it (Li et al., 2024, appendix G.3).

    "constant" shifts all pixels by 0.6; "random" each by its own number from U(0, 0.6), drawn by
    the generator; "partial" sets pixels of ranks 0.6 to 0.8 (ascending) to 0, or those of ranks 0
    to 0.4 to the map's 0.8 quantile. Of equal values those that come first rank lower; quantiles
    are interpolated linearly. `clip` clamps to [0, 1] afterwards: the paper does not say so, but
    neither its metrics nor the 8 bits of its code have room for other values. Without it shifting
    by a constant leaves the order of pixels as it is; with it pixels become equal.
    """
    if not bool(((maps >= 0) & (maps <= 1)).all()):
        raise AttributionLabError(
            f"maps reach from {float(maps.min()):g} to {float(maps.max()):g}: pass maps in [0, 1], "
            "divided by their maximum for example"
        )
    sign = 1 if direction == "introduce" else -1
    if scheme == "constant":
        changed = maps + sign * SHIFT
    elif scheme == "random":
        if generator is None:
            raise AttributionLabError(
                "random shifts need a generator: pass torch.Generator().manual_seed(0), for example"
            )
        drawn = torch.rand(maps.shape, generator=generator, dtype=torch.float64).to(maps)
        changed = maps + sign * SHIFT * drawn
    elif direction == "remove":
        changed = _at_ranks(maps, EMPTIED, torch.zeros(len(maps), 1).to(maps))
    else:
        changed = _at_ranks(maps, (0, LIFTED), _quantile(maps, QUANTILE))
    return changed.clamp(0, 1) if clip else changed


def _at_ranks(maps: Tensor, shares: tuple[float, float], values: Tensor) -> Tensor:
    """Maps with a value (B, 1) in place of those whose ranks lie between two shares of all."""
    flat = maps.flatten(1)
    first, last = (round(share * flat.shape[1]) for share in shares)
    chosen = flat.argsort(dim=1, stable=True)[:, first:last]
    return flat.scatter(1, chosen, values.expand(-1, last - first)).view(maps.shape)


def _quantile(maps: Tensor, share: float) -> Tensor:
    """(B, 1); torch.quantile refuses more than 2^24 values."""
    ranked = maps.flatten(1).sort(1).values
    place = share * (ranked.shape[1] - 1)
    below = int(place)
    above = min(below + 1, ranked.shape[1] - 1)
    return torch.lerp(ranked[:, below], ranked[:, above], place - below)[:, None]


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
SAMPLES, QUICK_SAMPLES = 20, 4
INDICATORS = ("accuracy", "label probability")
NOISE = 0.01
"""Noise of linear imputation, in units of the value range (Rong et al., 2022)."""
BLACK = partial(constant, value=0.0)
"""What Deletion fills with."""


def scaled(maps: Float[Tensor, "batch 1 height width"]) -> Float64[Tensor, "batch 1 height width"]:
    """What of a map is positive, divided by each map's maximum."""
    return normalize(magnitudes(maps.double(), "positive"))


def label_maps(
    network: nn.Sequential,
    images: Float[Tensor, "batch channels height width"],
    labels: Int[Tensor, " batch"],
) -> dict[str, Float64[Tensor, "batch 1 height width"]]:
    """Maps of the label's logit, of either sign, summed over channels.

    GradCAM looks at the last ReLU before the linear layer, IG starts from black.
    """
    methods: dict[str, Callable[..., Tensor]] = {
        "GradCAM": partial(gradcam, layers={"gradcam": gradcam_layer(network)}),
        "IG": integrated_gradients,
    }
    found = {}
    for name, method in methods.items():
        with hand_on_notices(name):
            maps = method(network, images, labels)
        found[name] = maps.detach().double().sum(1, keepdim=True)
    return found


def method_maps(
    subject: Subject, names: Sequence[str], seed: int, *, quick: bool = False, repeat: int = 0
) -> Iterator[tuple[str, Tensor]]:
    """Names and maps (B, 1, H, W): what is positive, divided by each map's maximum.

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
    """Maps of the ensembles, as `method_maps` does, from the same samples.

    `noise` is a standard deviation in units of the value range; `images`: of the first so many.
    """
    generator = torch.Generator().manual_seed(seed)
    with hand_on_notices(f"{PLAIN} at noisy samples"):
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


def road_imputation(value_range: float, seed: int) -> Callable[[Tensor, Tensor], Tensor]:
    """Noisy linear imputation, with the same noise for every mask."""

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


def indicators_of(subject: Subject) -> dict[str, Indicator]:
    """By `INDICATORS`; the probability is at the temperature, at which it does not saturate."""
    probability = partial(label_probability, temperature=subject.temperature)
    return dict(zip(INDICATORS, ("accuracy", probability), strict=True))


def setup_of(
    subject: Subject, imputation: Callable[[Tensor, Tensor], Tensor], indicator: Indicator
) -> PerformanceOptions:
    """The keywords of every metric; of an image of which nothing is kept `empty` is left."""
    return {
        "indicator": indicator,
        "value_range": (0.0, subject.highest),
        "imputation": imputation,
        "nothing_kept": subject.empty,
    }


def ends_of(
    network: nn.Module, images: Tensor, targets: Tensor, empty: Tensor, setup: PerformanceOptions
) -> tuple[float, float]:
    """The mean performance on images of which nothing, and of which all is kept."""
    performance = Performance(network, images, targets, **setup)
    nothing = performance.on(empty.expand_as(images)).mean()
    return float(nothing), float(performance.intact().mean())


def setups(
    subject: Subject, imputation: str, seed: int
) -> Iterator[tuple[str, PerformanceOptions]]:
    """Yield, by indicator, the keywords of every metric; both share imputed images."""
    filled: Callable[[Tensor, Tensor], Tensor] = road_imputation(subject.highest, seed)
    if imputation == "true-baseline":
        filled = partial(true_baseline, baseline=subject.empty)
    shared = Remembered(filled)
    for name, indicator in indicators_of(subject).items():
        yield name, setup_of(subject, shared, indicator)


def road_curve(
    network: nn.Module,
    images: Float[Tensor, "batch channels height width"],
    labels: Int[Tensor, " batch"],
    maps: Float[Tensor, "batch 1 height width"],
    *,
    fractions: Sequence[float],
    seed: int,
    order: Order = "morf",
    retraining: Retraining | None = None,
) -> tuple[list[float], float]:
    """ROAD's accuracy at each fraction removed, and its mean height, from one pass.

    Parameters are those of `attributionlab.metrics.removal_curve`. The seed is that of the noise, and
    of the random order in which equal attributions are removed.
    """
    if retraining is not None:
        # Not the test images' order among equals: that would be the same place for both.
        retraining = retraining._replace(attributions=untied(retraining.attributions, seed + 1))
    curve = removal_curve(
        *(network, images, labels, untied(maps, seed)),
        order=order,
        fractions=fractions,
        retraining=retraining,
        seed=seed,
    ).mean(0)
    return curve.tolist(), mean_height(curve, fractions)


def mean_height(curve: Tensor, fractions: Sequence[float]) -> float:
    """The mean of a curve over its fractions, as `attributionlab.metrics.road` has it."""
    area = area_under_curve(curve, torch.tensor(fractions, dtype=torch.float64))
    return float(area) / (fractions[-1] - fractions[0])


def untied(
    maps: Float[Tensor, "batch 1 height width"], seed: int
) -> Float64[Tensor, "batch 1 height width"]:
    """The ranks of the pixels by attribution, equal ones in random order: 0 is the least.

    A map of zeros and ones has two ranks for a thousand pixels, and reading order would remove those
    at the top of the image first.
    """
    generator = torch.Generator().manual_seed(seed)
    order = removal_order(maps, order="lerf", ties="random", generator=generator)
    return order.argsort(1).view(maps.shape).double()
