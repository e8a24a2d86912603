"""Suffixes of methods' names, and what each makes of a method; importing them costs nothing."""

from collections.abc import Mapping

SUFFIXES: Mapping[str, str] = {
    "smoothgrad": "SmoothGrad of {}: the mean of its maps of noisy samples.",
    "smoothgrad-squared": (
        "SmoothGrad-squared of {}: the mean of the squares of its maps of noisy samples."
    ),
    "vargrad": "VarGrad of {}: the variance of its maps of noisy samples.",
    "absolute": "The absolute value of the map of {}, summed over channels first.",
    "true-baseline": "The same as {}, from the environment's own background.",
}
"""First line of the docstring of what a suffix makes; the method's name goes into the braces."""


def base_and_suffix(name: str) -> tuple[str, str] | None:
    """A name without its last suffix, and that suffix; None for a name without any.

    Examples
    --------
    >>> from attributionlab.methods.suffixes import base_and_suffix
    >>> base_and_suffix("lime-absolute-smoothgrad-squared")
    ('lime-absolute', 'smoothgrad-squared')
    """
    for suffix in SUFFIXES:
        base = name.removesuffix(f"-{suffix}")
        if base != name:
            return base, suffix
    return None
