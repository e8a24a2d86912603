"""What methods explain to be judged by soundness and completeness, and their maps of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor, nn

from attributionlab.environment import Environment
from attributionlab.errors import AttributionLabError
from attributionlab.experiments.soco.truth_panel import scaled
from attributionlab.local_data import images_in, local_model
from attributionlab.methods import METHODS, Call, as_method, attribute, heard
from attributionlab.methods.ensembles import REDUCTIONS, maps_of_samples
from attributionlab.validation import checked_outputs

__all__ = [
    "ENSEMBLES",
    "OTHERS",
    "PLAIN",
    "Subject",
    "ensemble_maps",
    "environment_subject",
    "given_subject",
    "method_maps",
]

PLAIN = "integrated-gradients"
ENSEMBLES = tuple(f"{PLAIN}-{name.replace('_', '-')}" for name in REDUCTIONS)
OTHERS = ("gradcam", "extremal-perturbation", "deep-shap", "iba")
"""Beside integrated gradients. The paper has Input IBA, too, which is not built here."""
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    PLAIN: {"baselines": 0.0},
    "deep-shap": {"baselines": 0.0},
    "extremal-perturbation": {"area": 0.1},
    "iba": {"beta": 20.0},
}
"""Black as baseline: Li et al. (2024), G.2. Areas and beta are those of AttributionLab."""
QUICK: Mapping[str, Mapping[str, Any]] = {"extremal-perturbation": {"iterations": 100}}
SAMPLES, QUICK_SAMPLES = 20, 8
REFERENCE_IMAGES = 128
ATTACHED = {"gradcam", "iba"}
"""Methods that explain by a layer."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A network, images and their labels.

    Parameters
    ----------
    name : str
        For tables.
    model, explained : nn.Module
        What metrics judge by, which returns logits; and what is explained, unless a method explains
        logits alone.
    images, targets : Tensor
        (B, C, H, W) and (B,).
    highest : float
        Images lie in [0, highest].
    empty : Tensor, (C, 1, 1)
        The pixel of an image of which nothing is kept.
    temperature : float
        At which the label's probability is not saturated.
    information : Tensor, (B, 1, H, W), or None
        phi, where it is known.
    offered : mapping
        What methods may declare by name.
    """

    name: str
    model: nn.Module
    explained: nn.Module
    images: Float[Tensor, "batch channels height width"]
    targets: Int[Tensor, " batch"]
    highest: float
    empty: Float[Tensor, "channels 1 1"]
    temperature: float
    information: Float64[Tensor, "batch 1 height width"] | None = None
    offered: Mapping[str, Any] = field(default_factory=dict)

    @property
    def side(self) -> int:
        return self.images.shape[-1]


def environment_subject(env: Environment, n: int, seed: int) -> Subject:
    """Images of a classifier, with phi: what is positive of the exact Shapley values of the label."""
    images, targets = env.batch(n, seed)
    values = [env.shapley(x, int(t)) for x, t in zip(images, targets, strict=True)]
    references = env.batch(REFERENCE_IMAGES, seed + 1)[0]
    assert env.softmax_model is not None
    assert env.temperature is not None
    return Subject(
        env.name,
        env.model,
        env.softmax_model,
        images,
        targets,
        float(env.max_value),
        env.baseline,
        float(env.temperature),
        torch.stack(values).clamp(min=0),
        {"layers": dict(env.layers), "reference_images": references},
    )


def given_subject(
    folder: str | Path, reference: str, n: int, seed: int, size: int, layer: str | None
) -> Subject:
    """A user's classifier and class folders of images; what is true of them nobody knows.

    Parameters
    ----------
    folder : str or Path
        As for `images_in`.
    reference : str
        Of the model, as for `local_model`; it takes images in [0, 1] and returns logits.
    n : int
        Images of each class.
    seed : int
        Of their choice.
    size : int
        Side in pixels.
    layer : str, optional
        Dotted name of the module that GradCAM and IBA attach to; without it they are left out.
    """
    given = images_in(folder, size=size, n=n, seed=seed)
    if not given.classes:
        raise AttributionLabError(
            f"images is {str(folder)!r}, which has no class folders: put the images of each class into "
            "a folder of their own"
        )
    model = local_model(reference)
    with torch.no_grad():
        outputs = checked_outputs(model(given.images), len(given.images))
    if outputs.shape[1] != len(given.classes):
        raise AttributionLabError(
            f"the model has {outputs.shape[1]} outputs for {len(given.classes)} class folders in "
            f"{str(folder)!r}: they must be the same classes in sorted order"
        )
    return Subject(
        Path(folder).name,
        model,
        model,
        given.images,
        given.labels,
        1.0,
        given.images.mean((0, 2, 3))[:, None, None],
        1.0,
        offered={"layer": layer, "reference_images": given.images} if layer else {},
    )


def method_maps(
    subject: Subject, names: Sequence[str], seed: int, *, quick: bool = False
) -> Iterator[tuple[str, Tensor]]:
    """What is positive of the maps of built-in methods, each divided by its maximum: (B, 1, H, W)."""
    for name in names:
        if name in ATTACHED and not subject.offered:
            continue
        settings = {**SETTINGS.get(name, {}), **(QUICK.get(name, {}) if quick else {})}
        method = as_method(name, METHODS, settings)
        model = subject.model if method.output == "logit" else subject.explained
        generator = torch.Generator().manual_seed(seed)
        offered = {**subject.offered, "generator": generator, "highest": subject.highest}
        inputs = subject.images.clone(memory_format=torch.channels_last)
        total = len(inputs)
        call = Call(subject.name, model, inputs, subject.targets.clone(), 0, total, offered)
        with heard():  # what is unusual about a method, faithfulness_test tells
            maps = attribute(method, call, seed).maps
        yield name, scaled(maps)


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
