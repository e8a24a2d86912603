"""Attributions of every quality where all information is known, and conditions of estimating ratios.

What a network says about images of which some pixels are kept is computed once for all indicators,
epsilons and metrics, and what is imputed once for all networks.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import pandas as pd
import torch
from jaxtyping import Float, Float32, Float64, Int
from torch import Tensor, nn
from torch.utils.data import default_collate

from attributionlab.diagnosis.shares import pixel_kinds
from attributionlab.environment import Environment
from attributionlab.environment.catalog import load
from attributionlab.faithfulness.calls import always_offered, attribute_scene
from attributionlab.faithfulness.setup import Scene, Trial
from attributionlab.imputation import (
    constant,
    nearest_known_color,
    noisy_linear,
    rounded,
    true_baseline,
)
from attributionlab.methods import METHODS, as_method, collect_notices, preset_of
from attributionlab.methods.controls import CONTROLS
from attributionlab.metric_trials.graded import graded_attributions
from attributionlab.metrics import (
    Indicator,
    Setup,
    alignment,
    label_probability,
    true_completeness,
    true_soundness,
)
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
"""What attributions are ranked by: Definitions 4.8 and 4.9, the latter also at Algorithm 4's
thresholds, and the field's usual score."""
NOISE = 0.01
"""Of linear imputation, in units of the value range (Rong et al., 2022)."""
MAIN, DISTRACTORS, COUNT = "multi-color-sum", "multi-color-sum-distractors", "color-detector"
STRENGTHS = (0.0, 0.25, 1.0, 4.0)
"""Of redundant channels, under noisy linear imputation; others have none, and the environment's 1."""
LINEAR = "noisy-linear"
SEEN, UNSEEN = ("true-baseline", "nearest-known-color"), ("rounded", "black")
"""Imputations whose colors every network has seen, and those that, like `LINEAR`, make up others."""
INDICATORS: Mapping[str, tuple[str, ...]] = {
    "classification": ("accuracy", "label probability", "label logit"),
    "regression": ("label logit",),
}
"""By task. The probability is at the environment's temperature, at which it does not saturate."""


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
    """Images of an environment with the output that is explained, their information, and attributions.

    `information` is phi: the exact Shapley value of each pixel where it is positive, else 0. It is
    constant on the pixels of the label, so that a mask of them gives an image the same soundness and
    completeness.
    """

    env: Environment
    images: Float32[Tensor, "batch channels height width"]
    targets: Int[Tensor, " batch"]
    information: Float64[Tensor, "batch 1 height width"]
    entries: Sequence[Entry]


class Condition(NamedTuple):
    """What is varied."""

    environment: str
    strength: float
    """of the channels that fire on unseen colors; 0: there are none"""
    imputation: str

    @property
    def keys(self) -> dict[str, Any]:
        """What all rows of a condition begin with."""
        return self._asdict()


REFERENCE = Condition(MAIN, 1.0, "true-baseline")
"""Where nothing is unseen and what removed pixels become says nothing: the best case."""


def conditions_of(quick: bool) -> list[Condition]:
    """All imputations, doses of unseen data, and other environments.

    The true baseline and colors that an image has are seen by every network: their answers do not
    depend on the strength, of which one is enough.
    """
    seen = [Condition(MAIN, 1.0, name) for name in SEEN]
    if quick:
        return [*seen, *(Condition(MAIN, strength, LINEAR) for strength in (0.0, 1.0))]
    unseen = [Condition(MAIN, strength, name) for name in UNSEEN for strength in (0.0, 1.0)]
    doses = [Condition(MAIN, strength, LINEAR) for strength in STRENGTHS]
    others = [
        Condition(name, strength, imputation)
        for name, strength in ((DISTRACTORS, 1.0), (COUNT, 0.0))
        for imputation in (*SEEN, LINEAR)
    ]
    return [*seen, *unseen, *doses, *others]


def of_condition(
    table: pd.DataFrame, condition: Condition, indicator: str | None = None
) -> pd.DataFrame:
    """Return the rows of a condition."""
    chosen = (table.environment == condition.environment) & (table.strength == condition.strength)
    chosen &= table.imputation == condition.imputation
    if indicator is not None:
        chosen &= table.indicator == indicator
    return table[chosen]


def panel_of(
    env: Environment, n: int, seed: int, thresholds: Sequence[float], *, quick: bool = False
) -> Panel:
    """Rate the attributions of an environment's images; the default output is explained.

    Its truth must have positive values. `thresholds` are those of Algorithm 4, for the true
    completeness there; a quick panel has fewer attributions.
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
        with collect_notices():  # what is unusual about a method, faithfulness_test tells
            attributed = attribute_scene(method, trial, scene, always_offered(method, trial))
        yield name, attributed.maps.detach().cpu()


class Place:
    """One environment's panel with its networks of several strengths and its imputations."""

    def __init__(self, panel: Panel, seed: int) -> None:
        self.panel, self.seed = panel, seed
        env = panel.env
        self.env, self.most = env, float(env.max_value)
        linear = _Stored(self._linear)
        self._imputations: dict[str, _Stored] = {
            "true-baseline": _Stored(partial(true_baseline, baseline=env.baseline)),
            "nearest-known-color": _Stored(partial(nearest_known_color, imputation=linear)),
            "rounded": _Stored(partial(rounded, low=0.0, high=self.most, imputation=linear)),
            LINEAR: linear,
            "black": _Stored(partial(constant, value=0.0)),
        }
        self._networks: dict[float, _Answers] = {}
        # Of all images: the share of all counted pixels is what the mean over images then is.
        self._counted = float((panel.information > 0).sum((1, 2, 3)).double().mean())

    def network(self, strength: float) -> "_Answers":
        """The network of a strength, which sees the logits' images."""
        if strength not in self._networks:
            env = self.env
            if "redundant_channels" in env.spec.constants:
                channels = env.spec.constants["redundant_channels"] or 2
                overrides = {"redundant_channels": channels if strength else 0}
                if strength:
                    overrides["redundant_strength"] = strength
                env = load(env.reference, **(env.overrides | overrides))
            self._networks[strength] = _Answers(env.model).eval()
        return self._networks[strength]

    def imputation(self, name: str) -> Callable[[Tensor, Tensor], Tensor]:
        """`(images, keep) -> images`."""
        return self._imputations[name]

    def indicator(self, name: str) -> Indicator:
        """Accuracy, the label's probability, or its logit in units of the label's mean count."""
        if name == "accuracy":
            return "accuracy"
        if name == "label probability":
            return partial(label_probability, temperature=self.env.temperature or 1.0)
        return self._label_logit

    def information(self, indicator: str) -> Float64[Tensor, "batch 1 height width"]:
        """phi as shares of the whole data set's.

        Shapley values of the logit are one for every pixel of the label; those of the probability,
        which stand for accuracy, too, are equal within an image and differ between images.
        """
        phi = self.panel.information
        if indicator == "label logit":
            phi = (phi > 0).double()
        return phi / phi.sum()

    def setup(self, condition: Condition, indicator: str) -> Setup:
        """The keywords of the metrics."""
        return {
            "indicator": self.indicator(indicator),
            "value_range": (0.0, self.most),
            "imputation": self.imputation(condition.imputation),
            "nothing_kept": self.env.baseline,
            "seed": self.seed,
        }

    def forget(self) -> None:
        """Drop stored results, which another attribution does not need."""
        for imputation in self._imputations.values():
            imputation.known.clear()
        for network in self._networks.values():
            network.known.clear()

    def _linear(self, images: Tensor, keep: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(self.seed)
        return noisy_linear(images, keep, noise=NOISE, value_range=self.most, generator=generator)

    def _label_logit(
        self, outputs: Float[Tensor, "batch outputs"], targets: Int[Tensor, " batch"]
    ) -> Tensor:
        return outputs.double().gather(1, targets[:, None])[:, 0] / self._counted


class _Stored:
    """An imputation that computes nothing twice."""

    def __init__(self, impute: Callable[[Tensor, Tensor], Tensor]) -> None:
        self.impute, self.known = impute, dict[tuple[bytes, bytes], Tensor]()

    def __call__(self, images: Tensor, keep: Tensor) -> Tensor:
        key = _digest(images), _digest(keep)
        if key not in self.known:
            self.known[key] = self.impute(images, keep)
        return self.known[key]


class _Answers(nn.Module):
    """A network that computes nothing twice."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.known = model, dict[bytes, Tensor]()

    def forward(self, images: Tensor) -> Tensor:
        key = _digest(images)
        if key not in self.known:
            self.known[key] = self.model(images)
        return self.known[key]


def _digest(values: Tensor) -> bytes:
    return hashlib.blake2b(values.contiguous().numpy().tobytes(), digest_size=16).digest()
