"""Attributions of every quality where all information is known, and conditions of estimating ratios.

What a network says about images of which some pixels are kept is computed once for all indicators,
epsilons and metrics, and what is imputed once for all networks.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import pandas as pd
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor, nn
from torch.utils.data import default_collate

from attributionlab.diagnosis.shares import pixel_kinds
from attributionlab.environment import Environment
from attributionlab.environment.catalog import load
from attributionlab.faithfulness.calls import always_offered, attribute_scene
from attributionlab.faithfulness.setup import Scene, Trial
from attributionlab.imputation import nearest_known_color, rounded, true_baseline
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
from attributionlab.metrics.performance import Performance
from attributionlab.papers.soco.maps import BLACK, Remembered, road_imputation, scaled
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
    truths: dict[str, float]
    """by `TRUTHS`, means over images"""


class Condition(NamedTuple):
    """What is varied."""

    environment: str
    strength: float
    """of the channels that fire on unseen colors; 0: there are none"""
    imputation: str


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


class Place:
    """An environment's images and attributions, its networks of several strengths, its imputations.

    The default output is explained; its truth must have positive values. `information` is phi: the
    exact Shapley value of each pixel where it is positive, else 0. It is constant on the pixels of the
    label, so that a mask of them gives an image the same soundness and completeness. `thresholds` are
    those of Algorithm 4, for the true completeness there; a quick place has fewer attributions.
    """

    def __init__(
        self, env: Environment, n: int, seed: int, thresholds: Sequence[float], quick: bool = False
    ) -> None:
        self.env, self.seed, self.most = env, seed, float(env.max_value)
        dataset, output = env.dataset(n, seed), env.checked_output(None)
        self.images, labels, patches = default_collate([dataset[index] for index in range(n)])
        self.targets: Int[Tensor, " batch"] = env.targets(labels)
        values = [
            env.shapley(image, int(target), output)
            for image, target in zip(self.images, self.targets, strict=True)
        ]
        self.information: Float64[Tensor, "batch 1 height width"] = torch.stack(values).clamp(min=0)
        # Of all images: the share of all counted pixels is what the mean over images then is.
        self.counted = float((self.information > 0).sum((1, 2, 3)).double().mean())
        signed = env.truth(self.images, self.targets, output).signed
        scene = Scene(self.images, self.targets, patches, Truth(signed), 0)
        self.entries = [
            Entry(name, kind, scaled(maps), self._truths(scaled(maps), thresholds))
            for kind, found in (
                ("graded", _damaged(env, scene, seed, quick)),
                ("real", _real(env, scene, n, seed, quick)),
            )
            for name, maps in found
        ]
        linear = Remembered(road_imputation(self.most, seed))
        self.imputations = {
            "true-baseline": Remembered(partial(true_baseline, baseline=env.baseline)),
            "nearest-known-color": Remembered(partial(nearest_known_color, imputation=linear)),
            "rounded": Remembered(partial(rounded, low=0.0, high=self.most, imputation=linear)),
            LINEAR: linear,
            "black": Remembered(BLACK),
        }
        self._networks: dict[float, Remembered] = {}

    def network(self, strength: float) -> Remembered:
        """Return the network of a strength, which sees the logits' images."""
        if strength not in self._networks:
            env = self.env
            if "redundant_channels" in env.spec.constants:
                channels = env.spec.constants["redundant_channels"] or 2
                overrides = {"redundant_channels": channels if strength else 0}
                if strength:
                    overrides["redundant_strength"] = strength
                env = load(env.reference, **(env.overrides | overrides))
            self._networks[strength] = Remembered(env.model).eval()
        return self._networks[strength]

    def forget(self) -> None:
        """Drop stored results, which another attribution does not need."""
        for each in (*self.imputations.values(), *self._networks.values()):
            each.known.clear()

    def _truths(self, maps: Tensor, thresholds: Sequence[float]) -> dict[str, float]:
        complete, *of_thresholds = (
            float(true_completeness(maps, self.information, threshold=t).mean())
            for t in (0.0, *thresholds)
        )
        values = (
            float(true_soundness(maps, self.information).nanmean()),
            complete,
            sum(of_thresholds) / len(thresholds),
            float(alignment(maps, (self.information > 0)).f1.mean()),
        )
        return dict(zip(TRUTHS, values, strict=True))


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


class Case(NamedTuple):
    """A place under one condition, by one indicator."""

    place: Place
    condition: Condition
    indicator: str

    @property
    def keys(self) -> dict[str, Any]:
        """What all rows of a case begin with."""
        return {**self.condition._asdict(), "indicator": self.indicator}

    @property
    def given(self) -> tuple[nn.Module, Tensor, Tensor]:
        """Network, images and targets."""
        return self.place.network(self.condition.strength), self.place.images, self.place.targets

    @property
    def setup(self) -> Setup:
        """The keywords of the metrics."""
        return {
            "indicator": self._indicator(),
            "value_range": (0.0, self.place.most),
            "imputation": self.place.imputations[self.condition.imputation],
            "nothing_kept": self.place.env.baseline,
            "seed": self.place.seed,
        }

    @property
    def information(self) -> Float64[Tensor, "batch 1 height width"]:
        """phi as shares of the whole data set's.

        Shapley values of the logit are one for every pixel of the label; those of the probability,
        which stand for accuracy, too, are equal within an image and differ between images.
        """
        phi = self.place.information
        if self.indicator == "label logit":
            phi = (phi > 0).double()
        return phi / phi.sum()

    @property
    def ends(self) -> tuple[float, float]:
        """Performance on images of which nothing, and of which all is kept."""
        measured = Performance(*self.given, **self.setup)
        nothing = measured.on(self.place.env.baseline.expand_as(self.place.images))
        return float(nothing.mean()), float(measured.intact().mean())

    def _indicator(self) -> Indicator:
        """Accuracy, the label's probability, or its logit in units of the label's mean count."""
        if self.indicator == "accuracy":
            return "accuracy"
        if self.indicator == "label probability":
            return partial(label_probability, temperature=self.place.env.temperature or 1.0)
        counted = self.place.counted

        def label_logit(
            outputs: Float[Tensor, "batch outputs"], targets: Int[Tensor, " batch"]
        ) -> Tensor:
            return outputs.double().gather(1, targets[:, None])[:, 0] / counted

        return label_logit
