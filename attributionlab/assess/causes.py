"""Rules: from the evidence of one environment to one likely cause each, or to nothing.

A rule is a small function. Those of what guards and constants speak for come first; then what the maps
look like. Where the evidence fits no cause, nothing is said.
"""

from collections.abc import Callable

from attributionlab.assess.evidence import Evidence, Hint

__all__ = ["LAST_RESORTS", "RULES", "Rule"]

Rule = Callable[[Evidence], Hint | None]

NEAR_GAMMA = 0.1
"""From gamma, up to which a resolution's ceiling is in the way."""

STATED_GAP = 0.05
"""Share of the output change that attributions may miss."""

CAPTUM_STEPS = 50
"""Nodes of integrated gradients unless said otherwise."""

BACKGROUND_LEVEL = 0.05
"""What the background far from all patches may get of what relevant pixels get."""

RECURRENCE = 0.15
"""Correlation of pixels three apart from which unequal values have a pattern."""

REACH = 0.8
"""What the background far from all patches gets of what background near them gets, at least, where
the background as such gets attribution."""

SMOOTH = 0.95
"""Correlation of neighbors from which a map counts as blurred or enlarged."""

SURE = 0.9
"""Similarity from which what the maps look like leaves no room for another cause."""

UNEVEN = 0.02
"""Variance of equal pixels' values over their mean square that is more than rounding."""

CLEAN = 0.1
"""Share of the missing F1 that a background that gets nothing may account for."""

UNRELATED = 0.1
"""Similarity up to which maps look like nothing."""

AFTER_ANOTHER_BASELINE = (
    "background",
    "irrelevant inside patches",
    "wrong sign",
    "whole-image sign flips",
    "relevant missed",
    "uneven values",
)


# What a guard or a constant speaks for


def saturation(e: Evidence) -> Hint | None:
    """Maps of zeros behind a softmax of which a guard said that it is saturated."""
    if not e.told("because the softmax is saturated"):
        return None
    at = "" if e.temperature is None else f" at temperature {e.temperature:g}"
    return Hint(
        "saturation",
        f"{e.all_zero:.0%} of the maps are zero everywhere, behind a softmax that is saturated{at}",
        f"{e.test('--output logit')}, or a larger temperature",
        e.missing if e.all_zero > 0.5 else min(e.missing, e.all_zero),
    )


def hooks(e: Evidence) -> Hint | None:
    """Activations of which a guard said that the method's hooks miss them."""
    if not e.told("because it hooks modules"):
        return None
    return Hint(
        "hooks",
        "the network calls activations as functions, or one module several times, which the method's "
        "hooks miss",
        "give each activation an nn.ReLU of its own and test again",
        e.missing,
    )


def quadrature(e: Evidence) -> Hint | None:
    """Path integrals that do not sum to the output change."""
    gap = e.completeness_gap
    along_a_path = e.told("larger n_steps") or "n_steps" in e.settings
    if gap is None or gap <= STATED_GAP or not along_a_path:
        return None
    steps = int(e.settings.get("n_steps", CAPTUM_STEPS))
    sawtooth = ", and the output is a sawtooth along the path" if e.regression else ""
    exact = "integrated-gradients-exact" + "-true-baseline" * e.method.endswith("-true-baseline")
    return Hint(
        "quadrature",
        f"the attributions miss {gap:.0%} of the change of the output (median image), which {steps} "
        f"points on the path do not resolve{sawtooth}",
        f"{e.test(method=exact)}, or --set n_steps={10 * steps}",
        e.missing * min(1.0, gap),
    )


def empty_maps(e: Evidence) -> Hint | None:
    """Maps of zeros without a saturated softmax."""
    if not e.all_zero or saturation(e):
        return None
    return Hint(
        "empty-maps",
        f"{e.all_zero:.0%} of the maps are zero everywhere",
        "look at what the method computes for one of these images before any threshold or clipping",
        min(e.missing, e.all_zero),
    )


def baseline(e: Evidence) -> Hint | None:
    """A pattern on the background, far from all patches, though the background is the baseline."""
    texture, best = e.likeness.texture, e.best()
    if e.asks_for_baseline or not e.unseen_colors_disturb or (best and best.similarity >= SURE):
        return None
    everywhere = texture.background_level >= BACKGROUND_LEVEL and texture.background_reach >= REACH
    pattern = max(texture.background_recurrence, texture.background_smoothness) >= RECURRENCE
    # Noise has no pattern; what leaks out of patches thins out, or is as smooth as a blur.
    if not everywhere or not pattern or texture.background_smoothness >= SMOOTH:
        return None
    return Hint(
        "baseline",
        f"background far from all patches gets {texture.background_level:.0%} of what relevant pixels "
        "get, in a pattern: the images are compared with a baseline other than the background, such as "
        "black, a color that this network has never seen",
        f"{e.test(method=f'{e.method}-true-baseline')} for a built-in method; let yours declare "
        "`baseline`, or pass the background's color as baselines",
        e.share(*AFTER_ANOTHER_BASELINE),
    )


def unseen_colors(e: Evidence) -> Hint | None:
    """Unequal values on equal pixels in the pattern of the first kernel, and a clean background."""
    texture, best = e.likeness.texture, e.best()
    if not e.unseen_colors_disturb or (best and (best.f1 is None or best.cause == "sign-flips")):
        return None
    clean = e.share("background", "irrelevant inside patches") <= CLEAN * e.missing
    # What is merely smooth is most alike next door.
    if (
        not clean
        or texture.unevenness < UNEVEN
        or texture.recurrence < max(RECURRENCE, texture.smoothness)
    ):
        return None
    unequal = e.share("uneven values", "wrong sign", "whole-image sign flips", "relevant missed")
    return Hint(
        "unseen-colors",
        "the background gets nothing, yet relevant pixels of one color get unequal values, in a "
        f"pattern that recurs every three pixels (r = {texture.recurrence:.2f}) as the first kernel "
        "does: on the way from baseline to image lie colors that the network has never seen",
        f"{e.test(environment='multi-color-sum-in-distribution')}, or redundant_channels=0",
        unequal,
    )


def segmentation(e: Evidence) -> Hint | None:
    """A resolution of the method's own at which gamma is out of reach, or nearly."""
    if e.own_ceiling is None or e.own_ceiling > e.gamma + NEAR_GAMMA:
        return None
    segments = "segmentation" in e.settings or e.method.startswith("lime")
    finer = "attach to a layer with larger maps, or test it with --claim positive-smoothed"
    return Hint(
        "segmentation" if segments else "resolution",
        f"the resolution of the maps ({e.own_resolution}) allows no score above "
        f"{e.own_ceiling:.2f} here",
        f"{e.test('--set segmentation=patches')}, or smaller segments" if segments else finer,
        min(e.missing, 1 - e.own_ceiling),
    )


def positive_only(e: Evidence) -> Hint | None:
    """A claim about signs of maps that find the positive truth and are never negative."""
    best = e.best()
    if e.claim != "signed" or e.part != "negative" or not e.positive_only:
        return None
    if best is None or best.cause not in ("positive-only", "blur", "shift", "orientation"):
        return None
    return Hint(
        "positive-only",
        "no map has a negative value, so that every pixel that lowers the output is missed, and the "
        "claim is about signs",
        f"{e.test('--claim positive')}, or keep negative values (GradCAM: --set relu=False)",
        e.missing,
    )


# What the maps look like

CONFIRM = {
    "sign-flips": "flip the maps of these images and test again; look for a division by what may be "
    "negative, and for what these images share",
    "shift": "shift the maps back and test again; look for padding, cropping and resizing",
    "orientation": "undo it and test again; look for swapped axes",
    "outliers": "clip the maps at their 99 % quantile before they are returned, and test again",
    "stray-signs": "set values within rounding of 0 to 0, or all of the sign that cannot occur, and "
    "test again",
    "noise-floor": "set values below half of the largest to 0, and test again",
    "sizes": "replace values by their signs, and test again; masks state signs, not sizes, so that "
    "exact Shapley values may lose some F1 too",
    "foreground": "{distractors}, where it is not the truth; compare with the control non-background",
    "filled-patches": "{distractors}, where they are not the truth; compare with the control "
    "filled-patches",
    "baseline-distance": "{distractors}, where it is not the truth; compare with the control "
    "baseline-distance",
    "edges": "compare with the control sobel, which looks at the input only",
    "positive-only": "{positive}, or keep negative values",
    "unsigned": "{overall}, or keep the signs (no absolute value, no square)",
    "blur": "leave out smoothing and enlarging, or {smoothed}",
    "constant": "compare with the control constant",
}


def look_alike(e: Evidence) -> Hint | None:
    """The known failure that the maps look like."""
    best = e.best()
    if best is None or (best.cause == "positive-only" and positive_only(e)):
        return None
    if best.cause == "blur" and segmentation(e):  # what coarse maps look like
        return None
    undone = (
        ""
        if best.f1 is None
        else f"; undoing that lifts F1 from {e.likeness.f1:.2f} to {best.f1:.2f}"
    )
    commands = {
        "distractors": e.test(environment="multi-color-sum-distractors"),
        "positive": e.test("--claim positive"),
        "overall": e.test("--claim overall"),
        "smoothed": e.test("--claim positive-smoothed"),
    }
    return Hint(
        best.cause,
        f"the maps look like {best.looks} (r = {best.similarity:.2f}; with the truth itself "
        f"{e.likeness.truth:.2f}){undone}",
        CONFIRM[best.cause].format(**commands),
        min(e.missing, best.explains),
    )


def unrelated(e: Evidence) -> Hint | None:
    """Maps like neither the truth nor any known failure."""
    others = [each.similarity for each in e.likeness.ranked if each.cause != "constant"]
    most = max((abs(r) for r in (e.likeness.truth, *others)), default=1.0)
    if most > UNRELATED or e.all_zero > 0.5:
        return None
    again = "with another seed" if e.stochastic else "on the same images in another order"
    return Hint(
        "unrelated",
        f"the maps look like noise: their correlation with the truth is {e.likeness.truth:.2f}, and at "
        f"most {most:.2f} with anything looked for",
        f"run it again {again} and see whether the maps return; compare with the control random",
        e.missing,
    )


RULES: tuple[Rule, ...] = (
    saturation,
    hooks,
    quadrature,
    empty_maps,
    baseline,
    unseen_colors,
    segmentation,
    positive_only,
    look_alike,
)
"""In the order in which equally good causes are named: measured ones before resemblances."""

LAST_RESORTS: tuple[Rule, ...] = (unrelated,)
"""Asked only where no rule has an answer."""
