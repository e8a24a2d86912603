"""Methods' names: what a suffix makes of a method, names in figures; importing them costs nothing."""

import re
from collections.abc import Mapping

SUFFIXES: Mapping[str, str] = {
    "smoothgrad": "SmoothGrad of {}: the mean of its maps over noisy samples.",
    "smoothgrad-squared": "SmoothGrad-squared of {}: the mean of its squared maps over noisy samples.",
    "vargrad": "VarGrad of {}: the variance of its maps over noisy samples.",
    "absolute": "The absolute value of {}, taken after summing over channels.",
    "true-baseline": "The same as {}, with the environment's background as the baseline.",
}
"""First line of the docstring of what a suffix makes; the method's name goes into the braces."""


def base_and_suffix(name: str) -> tuple[str, str] | None:
    """A name without its last suffix, and that suffix; None for a name without any."""
    for suffix in SUFFIXES:
        base = name.removesuffix(f"-{suffix}")
        if base != name:
            return base, suffix
    return None


DISPLAY_NAMES: Mapping[str, str] = {
    "ablationcam": "Ablation-CAM",
    "attnlrp": "AttnLRP",
    "chefer-lrp": "LRP of attention",
    "deep-lift": "DeepLIFT",
    "deep-shap": "DeepSHAP",
    "excitation-backprop": "Excitation Backprop",
    "gradcam": "Grad-CAM",
    "gradcam-plus-plus": "Grad-CAM++",
    "gradient-shap": "GradientSHAP",
    "guided-backprop": "Guided Backprop",
    "guided-gradcam": "Guided Grad-CAM",
    "hirescam": "HiResCAM",
    "iba": "IBA",
    "input-iba": "InputIBA",
    "input-x-gradient": "Input x Gradient",
    "integrated-gradients": "IG",
    "integrated-gradients-blurred": "IG, blurred baseline",
    "integrated-gradients-exact": "IG, exact",
    "integrated-gradients-random": "IG, random baselines",
    "integrated-gradients-uniform": "IG, uniform baselines",
    "kernel-shap": "KernelSHAP",
    "layercam": "LayerCAM",
    "lime": "LIME",
    "lrp": "LRP",
    "rise": "RISE",
    "rise-uniform": "RISE, uniform",
    "scorecam": "Score-CAM",
    "shapley-value-sampling": "Shapley value sampling",
    "smooth-gradcam-plus-plus": "Smooth Grad-CAM++",
    "xgradcam": "XGrad-CAM",
}
"""Methods whose name in figures is not their command name in words."""
_OF_SUFFIXES = {
    "smoothgrad": "SmoothGrad",
    "smoothgrad-squared": "SmoothGrad squared",
    "vargrad": "VarGrad",
}


def display_name(name: str) -> str:
    """A method's name for figures: without the file of one's own function."""
    if ":" in name:
        return name.rpartition(":")[2]
    if name in DISPLAY_NAMES or (split := base_and_suffix(name)) is None:
        return DISPLAY_NAMES.get(name) or f"{name[:1].upper()}{name[1:].replace('-', ' ')}"
    base, suffix = split
    return f"{display_name(base)}, {_OF_SUFFIXES.get(suffix, suffix.replace('-', ' '))}"


def name_label(label: str) -> str:
    """A method as commands name it, without the file of one's own function: one rule for all names of
    a figure of many methods.

    Examples
    --------
    >>> name_label("mine.py:my_method (k=3)"), name_label("deep-lift")
    ('my_method (k=3)', 'deep-lift')
    """
    name, paren, settings = label.partition(" (")
    return name.rpartition(":")[2] + paren + _without_folders(settings)


def _without_folders(settings: str) -> str:
    """Values of settings that are paths."""
    return re.sub(r"[^\s=,]*[/\\]", "", settings)


def figure_label(label: str) -> str:
    """A method as figures name it, beside what a command names it where that is not the same in words.

    `label`: the method's name, which its settings in parentheses may follow.
    """
    name, _, settings = label.removesuffix(")").partition(" (")
    display = display_name(name)
    same = ":" in name or display.lower().replace(",", "").replace(" ", "-") == name
    beside = [] if same else [name]
    beside += [_without_folders(settings)] if settings else []
    return f"{display} ({', '.join(beside)})" if beside else display
