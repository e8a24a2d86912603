"""What the maps of one environment look like, in words, and the experiment that would confirm it."""

from attributionlab.base import SOLVED_ABOVE, score_text
from attributionlab.verdicts.diagnosis.evidence import Evidence
from attributionlab.verdicts.diagnosis.likeness import UNIFORM_NOISE, LookAlike

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
    "stray-signs": "set values within rounding of 0 to 0, or all values with the impossible sign, "
    "and test again",
    "color-values": "compare the values of one color in two regions of an image: look for a mean or a "
    "table over colors",
    "coarse": "take smaller pieces, or none; confirmed if F1 then rises",
    "one-part": "look for an argmax, a largest component or a quantile threshold that keeps only some "
    "parts; confirmed if the other parts then get values",
    "random-signs": "compare the signs of two pixels of one part; look for a random sign, a principal "
    "component or a factor with an arbitrary sign",
    "noise-floor": "set values below half of the largest to 0, and test again",
    "sizes": "replace values by their signs, and test again; masks state signs, not sizes, so that "
    "exact Shapley values may lose some F1 too",
}
"""How to undo a failure that can be."""


def resemblance(e: Evidence, best: LookAlike) -> str:
    """What the maps look like, and how much so."""
    maps = "the maps that are not zero" if e.likeness.without_zeros else "the maps"
    if best.cause == "wrong-class":
        return f"{maps} are {best.looks} (r = {best.similarity:.2f})"
    if best.cause == "gradient-without-input":
        return (
            f"empty pixels inside patches have the same values as filled ones: {maps} look like "
            f"{best.looks} (r = {best.similarity:.2f}; with the truth itself {e.likeness.truth:.2f}), "
            "like a gradient that is not multiplied by the input"
        )
    if best.cause == "constant":
        return (
            f"{maps} are nearly constant: their mean magnitude is {best.similarity:.2f} of the root "
            f"mean square, where a constant has 1 and uniform noise {UNIFORM_NOISE:.2f}"
        )
    if best.cause in ("color-values", "coarse"):
        return f"{maps} have {best.looks}" + e.computes * (best.cause == "color-values")
    undone = ""
    if best.f1 is not None:
        before, after = (score_text(f1, SOLVED_ABOVE) for f1 in (e.likeness.f1, best.f1))
        undone = f"; undoing this raises F1 from {before} to {after}"
    return (
        f"{maps} look like {best.looks} (r = {best.similarity:.2f}; with the truth itself "
        f"{e.likeness.truth:.2f}){undone}"
    )


def confirmation(e: Evidence, best: LookAlike) -> str:
    """The experiment that would confirm that the maps are what they look like."""
    if best.f1 is None:
        return _experiment(e, best)
    lifted = score_text(best.f1, SOLVED_ABOVE)
    return f"{_experiment(e, best)}; confirmed if F1 rises to about {lifted}"


def _experiment(e: Evidence, best: LookAlike) -> str:
    if best.cause == "sign-flips":
        shared = "" if best.throughout else ", and for what these images share"
        look_for = "a division by a value that can be negative"
        if e.sawtooth:  # whose slope along any way has the wrong sign where it falls to 0
            look_for = "points or noise across a wrap of the modulo"
        return f"flip the maps of these images and test again; look for {look_for}{shared}"
    if best.cause in SEEN_BY:
        control = f"compare with the control {SEEN_BY[best.cause]}"
        if best.cause in ("edges", "constant"):
            return f"{control}, which does not see the network"
        if e.environment == DISTRACTORS or e.share("distractors"):
            return control
        return f"`{e.test(environment=DISTRACTORS)}`, where this is not the truth; {control}"
    if best.cause == "positive-only":
        return f"`{e.test(claim='positive')}`, or keep negative values: look for a clamp"
    if best.cause == "unsigned":
        return f"`{e.test(claim='overall')}`, or keep the signs (no absolute value, no square)"
    if best.cause == "blur":
        less = e.claim != "positive-smoothed"
        smoothed = f", or ask for less: `{e.test(claim='positive-smoothed')}`"
        return "leave out smoothing and upsampling" + smoothed * less
    if best.cause == "gradient-without-input":
        multiply = "multiply by input minus baseline"
        if e.built_in:
            multiply += f": `{e.test(method='input-x-gradient')}`"
        return f"{multiply}; confirmed if empty pixels then get nothing"
    return UNDO[best.cause]
