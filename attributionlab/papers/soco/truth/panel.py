"""Attributions of every quality, on images whose information is known pixel by pixel."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float32, Float64, Int
from torch import Tensor
from torch.utils.data import default_collate

from attributionlab.diagnosis.shares import pixel_kinds
from attributionlab.environment import Environment
from attributionlab.faithfulness.calls import always_offered, attribute_scene
from attributionlab.faithfulness.setup import Scene, Trial
from attributionlab.methods import METHODS, as_method, heard, preset_of
from attributionlab.methods.controls import CONTROLS
from attributionlab.metric_trials.graded import graded_attributions
from attributionlab.metrics import alignment, true_completeness, true_soundness
from attributionlab.papers.soco.scaling import scaled
from attributionlab.truth import Truth

REAL = (
    "saliency",
    "input-x-gradient",
    "guided-backprop",
    "integrated-gradients",
    "integrated-gradients-true-baseline",
    "deep-shap-true-baseline",
    "lrp",
    "gradcam",
    "sobel",
    "non-background",
    "random",
)
"""Methods, and controls that see nothing of the network."""
DAMAGED = (
    *("exact", "missing pixels 0.2", "missing pixels 0.6", "missing pixels 0.95"),
    *("missing top 0.25", "missing top 0.75", "uneven 1", "uneven 4"),
    *("signs 0.1", "signs 0.3", "signs 0.6", "shift 0.0139", "shift 0.0556", "shift 0.125"),
    *("blur 0.01", "blur 0.03", "blur 0.08", "background 0.05", "background 0.5"),
    *("specks 0.005", "specks 0.05", "specks 0.2", "gaps 0.25", "gaps 1", "distractors 1"),
    *("noise 0.2", "noise 0.75", "noise 2"),
    "missing pixels 0.2 + background 0.05",
    "missing pixels 0.6 + noise 0.75",
)
"""Of `graded_attributions`: each way of being wrong that touches what raises the output, at a low, a
middle and a high dose where it has them."""
QUICK_REAL = ("guided-backprop", "integrated-gradients-true-baseline", "gradcam", "random")
QUICK_DAMAGED = DAMAGED[::2]
TRUTHS = ("soundness", "completeness", "completeness of thresholds", "f1")
"""What attributions are ranked by: Definitions 4.8 and 4.9, the latter also as Algorithm 4 asks for it,
and the field's usual score."""


class Entry(NamedTuple):
    """One attribution of all images, and how good it is in truth."""

    name: str
    kind: str
    """"graded" or "real" """
    maps: Float64[Tensor, "batch 1 height width"]
    """what raises the output, each map divided by its maximum: in [0, 1]"""
    soundness: float
    """Definition 4.8 of all that is attributed, mean over images with attribution"""
    completeness: float
    """Definition 4.9: of what has any attribution; mean over images"""
    completeness_of_thresholds: float
    """of what exceeds Algorithm 4's thresholds, mean over them and over images"""
    f1: float
    """against the pixels of information, mean over images"""

    @property
    def truths(self) -> dict[str, float]:
        """By the names of `TRUTHS`."""
        values = self.soundness, self.completeness, self.completeness_of_thresholds, self.f1
        return dict(zip(TRUTHS, values, strict=True))


@dataclass(frozen=True, eq=False)
class Panel:
    """Images of an environment with their information and attributions.

    Parameters
    ----------
    env : Environment
        Where.
    images : Tensor, (B, C, H, W)
        The images.
    targets : Tensor of int, (B,)
        The output that is explained: the label's, or 0 for a regression.
    information : Tensor, (B, 1, H, W)
        phi: the exact Shapley value of each pixel where it is positive, else 0. It is constant on
        the pixels of the label, so that a mask of them gives the same soundness and completeness of
        an image: how Definition 4.9 weighs pixels makes no difference here.
    entries : sequence of Entry
        The attributions.
    """

    env: Environment
    images: Float32[Tensor, "batch channels height width"]
    targets: Int[Tensor, " batch"]
    information: Float64[Tensor, "batch 1 height width"]
    entries: Sequence[Entry]


def panel_of(
    env: Environment,
    n: int,
    seed: int,
    thresholds: Sequence[float],
    *,
    quick: bool = False,
) -> Panel:
    """The attributions of an environment's images; the default output is explained.

    Parameters
    ----------
    env : Environment
        One whose truth has positive values.
    n, seed : int
        How many images, which, and what noise.
    thresholds : sequence of float
        Of Algorithm 4, for the true completeness that it asks for.
    quick : bool
        Fewer attributions.
    """
    dataset = env.dataset(n, seed)
    images, labels, patches = default_collate([dataset[index] for index in range(n)])
    targets = env.targets(labels)
    output = env.checked_output(None)
    information = torch.stack(
        [
            env.shapley(image, int(target), output)
            for image, target in zip(images, targets, strict=True)
        ]
    ).clamp(min=0)
    signed = env.truth(images, targets, output).signed
    scene = Scene(images, targets, patches, Truth(signed), 0)
    entries = []
    found = [("graded", *each) for each in _damaged(env, scene, seed, quick)]
    found += [("real", *each) for each in _real(env, scene, n, seed, quick)]
    for kind, name, maps in found:
        maps = scaled(maps)
        complete = [
            float(true_completeness(maps, information, threshold=t).mean())
            for t in (0.0, *thresholds)
        ]
        entries.append(
            Entry(
                name,
                kind,
                maps,
                float(true_soundness(maps, information).nanmean()),
                complete[0],
                sum(complete[1:]) / len(thresholds),
                float(alignment(maps, (information > 0)).f1.mean()),
            )
        )
    return Panel(env, images, targets, information, entries)


def _damaged(
    env: Environment, scene: Scene, seed: int, quick: bool
) -> Iterator[tuple[str, Tensor]]:
    kinds = pixel_kinds(
        scene.images, scene.patches, env.counting.classes_of(scene.images), env.baseline
    )
    has_distractors = bool(env.spec.constants.get("distractors", 0))
    graded = graded_attributions(scene.truth.signed, kinds, distractors=has_distractors, seed=seed)
    chosen = QUICK_DAMAGED if quick else DAMAGED
    yield from ((each.name, each.maps) for each in graded if each.name in chosen)


def _real(
    env: Environment, scene: Scene, n: int, seed: int, quick: bool
) -> Iterator[tuple[str, Tensor]]:
    explained = env.checked_output(None)
    for name in QUICK_REAL if quick else REAL:
        preset = preset_of("paper", env.task, name)
        method = as_method(name, METHODS | CONTROLS, preset.settings)
        own = env.checked_output(preset.output or method.output or explained)
        trial = Trial(env, own, explained, "signed", 0.5, n, seed, diagnosed=False)
        with heard():  # what is unusual about a method, faithfulness_test tells
            attributed = attribute_scene(method, trial, scene, always_offered(method, trial))
        yield name, attributed.maps.detach().cpu()
