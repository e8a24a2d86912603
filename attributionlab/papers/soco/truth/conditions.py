"""Under what conditions the ratios are estimated: environment, unseen data, imputation, indicator.

What a network says about images of which some pixels are kept is worked out once for all indicators,
epsilons and metrics, and what is imputed once for all networks.
"""

import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor, nn

from attributionlab.environment.catalog import load
from attributionlab.imputation import (
    constant,
    nearest_known_color,
    noisy_linear,
    rounded,
    true_baseline,
)
from attributionlab.metrics import Indicator, Setup, label_probability
from attributionlab.papers.soco.truth.panel import Panel

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


class Place:
    """One environment with its attributions, where networks of several strengths are asked.

    Parameters
    ----------
    panel : Panel
        Images and attributions.
    seed : int
        Of the noise of imputation.
    """

    def __init__(self, panel: Panel, seed: int) -> None:
        self.panel, self.seed = panel, seed
        env = panel.env
        self.env, self.most = env, float(env.max_value)
        linear = _Remembered(self._linear)
        self._imputations: dict[str, _Remembered] = {
            "true-baseline": _Remembered(partial(true_baseline, baseline=env.baseline)),
            "nearest-known-color": _Remembered(partial(nearest_known_color, imputation=linear)),
            "rounded": _Remembered(partial(rounded, low=0.0, high=self.most, imputation=linear)),
            LINEAR: linear,
            "black": _Remembered(partial(constant, value=0.0)),
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
        """What was worked out, which another attribution does not ask for."""
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


class _Remembered:
    """An imputation that does nothing twice."""

    def __init__(self, impute: Callable[[Tensor, Tensor], Tensor]) -> None:
        self.impute, self.known = impute, dict[tuple[bytes, bytes], Tensor]()

    def __call__(self, images: Tensor, keep: Tensor) -> Tensor:
        key = _digest(images), _digest(keep)
        if key not in self.known:
            self.known[key] = self.impute(images, keep)
        return self.known[key]


class _Answers(nn.Module):
    """A network that is asked nothing twice."""

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
