"""Settings that a paper states for its methods, by the kind of environment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from attributionlab.errors import AttributionLabError, nearest

__all__ = ["PRESETS", "Preset", "preset_of"]


@dataclass(frozen=True)
class Preset:
    """How a paper runs a method.

    Parameters
    ----------
    settings : mapping
        The method's settings.
    output : {"probability", "logit"}, optional
        What is explained, where that is not the output that the truth is about.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    output: str | None = None


_EVERYWHERE = {
    "extremal-perturbation": Preset({"area": 0.1}, output="logit"),
    "gradcam": Preset(),
    "guided-backprop": Preset(),
    "iba": Preset({"beta": 20.0}, output="logit"),
    "deep-shap": Preset({"baselines": 0.0}),
    "integrated-gradients": Preset({"baselines": 0.0}),
    "integrated-gradients-true-baseline": Preset(),
}
_F2 = {
    **_EVERYWHERE,
    "lrp": Preset(),
    "occlusion": Preset({"window": 5, "stride": 3, "baselines": 0.0}),
}
# The output change of Occlusion is measured in front of the softmax; the truth stays that behind it.
_G2 = {
    **_EVERYWHERE,
    "lime": Preset({"segmentation": "quickshift"}),
    "occlusion": Preset({"window": 5, "stride": 3, "baselines": 0.0}, output="logit"),
    "occlusion-true-baseline": Preset({"window": 5, "stride": 3}, output="logit"),
}
PRESETS: Mapping[str, Mapping[str, Mapping[str, Preset]]] = {
    "paper": {"regression": _F2, "classification": _G2}
}
"""By name and task: AttributionLab, F.2 (single-color-modulo) and G.2 (multi-color-sum). Layers are the
environment's (`env.layers`), which F.2 and G.2 state too. What the paper leaves open (the number of
samples of LIME, which output IBA and extremal perturbation explain) keeps the method's own default; the
sigma of 21 of the latter's mask is that default too, and scales with the image."""


def preset_of(name: str | None, task: str, method: str) -> Preset:
    """What a preset says about a method; nothing without a preset, or where it is silent.

    Parameters
    ----------
    name : str, optional
        Of the preset.
    task : {"classification", "regression"}
        Of the environment.
    method : str
        The method's name.
    """
    if name is None:
        return Preset()
    if name not in PRESETS:
        raise AttributionLabError(f"preset is {name!r}: {nearest(name, PRESETS)}")
    return PRESETS[name][task].get(method, Preset())
