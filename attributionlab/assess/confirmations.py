"""What would confirm that maps are what they look like."""

from attributionlab.assess.evidence import Evidence
from attributionlab.assess.likeness import LookAlike

__all__ = ["confirmation"]

DISTRACTORS = "multi-color-sum-distractors"

SEEN_BY = {
    "foreground": "non-background",
    "filled-patches": "filled-patches",
    "baseline-distance": "baseline-distance",
    "edges": "sobel",
    "constant": "constant",
}
"""The control that makes the same map."""

UNDO = {
    "shift": "shift the maps back and test again; look for padding, cropping and resizing",
    "wrong-class": "compare the index that you differentiate with targets",
    "offset": "subtract the background's value and test again; look for a min-max normalization",
    "orientation": "undo it and test again; look for swapped axes",
    "outliers": "clip the maps at their 99 % quantile before they are returned, and test again",
    "stray-signs": "set values within rounding of 0 to 0, or all of the sign that cannot occur, and "
    "test again",
    "noise-floor": "set values below half of the largest to 0, and test again",
    "sizes": "replace values by their signs, and test again; masks state signs, not sizes, so that "
    "exact Shapley values may lose some F1 too",
}
"""How to undo a failure that can be."""


def confirmation(e: Evidence, best: LookAlike) -> str:
    """The experiment that would confirm that the maps are what they look like."""
    if best.cause == "sign-flips":
        shared = "" if best.throughout else ", and for what these images share"
        look_for = "a division by what may be negative"
        if e.sawtooth:  # whose slope along any way has the wrong sign where it falls to 0
            look_for = "points or noise across a wrap of the modulo"
        return f"flip the maps of these images and test again; look for {look_for}{shared}"
    if best.cause in SEEN_BY:
        control = f"compare with the control {SEEN_BY[best.cause]}"
        if best.cause in ("edges", "constant"):
            return f"{control}, which sees nothing of the network"
        if e.environment == DISTRACTORS or e.share("distractors"):
            return control
        return f"`{e.test(environment=DISTRACTORS)}`, where that is not the truth; {control}"
    if best.cause == "positive-only":
        return f"`{e.test(claim='positive')}`, or keep negative values: look for a clamp"
    if best.cause == "unsigned":
        return f"`{e.test(claim='overall')}`, or keep the signs (no absolute value, no square)"
    if best.cause == "blur":
        less = e.claim != "positive-smoothed"
        smoothed = f", or ask for less: `{e.test(claim='positive-smoothed')}`"
        return "leave out smoothing and enlarging" + smoothed * less
    if best.cause == "gradient-without-input":
        multiply = "multiply by input minus baseline"
        if e.built_in:
            multiply += f": `{e.test(method='input-x-gradient')}`"
        return f"{multiply}; confirmed if empty pixels then get nothing"
    return UNDO[best.cause]
