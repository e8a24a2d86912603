"""Rules: from the evidence of one environment to one likely cause each, or to nothing.

A rule is a small function. Those of what guards and constants speak for come first; then what the maps
look like. Where the evidence fits no cause, there is no hint.
"""

import shlex
from collections.abc import Callable

import numpy as np

from attributionlab.base import SOLVED_ABOVE, listed, score_text
from attributionlab.verdicts.diagnosis.evidence import Evidence, Hint
from attributionlab.verdicts.diagnosis.resemblance import confirmation, resemblance

Rule = Callable[[Evidence], Hint | None]

NEAR_SOLVED = 0.1
"""From the F1 of a solved question, up to which a resolution is in the way."""

BACKGROUND_LEVEL = 0.05
"""What the background far from all patches may get of what relevant pixels get."""

RECURRENCE = 0.15
"""Correlation of pixels three apart from which unequal values have a pattern."""

REACH = 0.8
"""What the background far from all patches gets of what background near them gets, at least, where
the background as such gets attribution."""

SMOOTH = 0.95
"""Correlation of neighbors from which a map counts as blurred or upsampled."""

SURE = 0.9
"""Similarity from which what the maps look like leaves no room for another cause."""

UNEVEN = 0.02
"""Variance of equal pixels' values over their mean square that is more than rounding."""

CLEAN = 0.1
"""Share of the missing F1 that a background that gets nothing may account for."""

NEAR_SHAPLEY = 0.1
"""F1 below that of exact Shapley values up to which unequal sizes are no fault."""

ONE_OF_TIED = 0.05
"""How far the share of relevant pixels that are shown may lie from that of one of some equal counts."""
RUNNER_UP_LOSS = 0.3
"""F1 by which the class with the second-most pixels must be explained worse than the target."""

FULL_RANGE = 0.5
"""Share of an image's largest value that some call must have, at least."""

UNRELATED = 0.1
"""Similarity up to which maps look like nothing."""

OFF_THE_COLOR = 0.01
"""How far calls must lie from a value of the image, on both sides, to be more than rounding."""

IMAGE_ONLY = ("foreground", "filled-patches", "baseline-distance", "edges", "constant")
"""What maps may look like that are made from the image alone."""

CERTAIN = {
    "image-only": (
        "the maps do not depend on the network: an image has the same map for two networks in "
        "which different pixels count",
        "look where the method calls the network, and whether the result is used; confirmed if the "
        "maps of two networks then differ",
    ),
    "target": (
        "the maps do not depend on the target: an image has the same map for two different target "
        "classes",
        "compare the index that you differentiate or read with `targets`; confirmed if maps of two "
        "targets then differ",
    ),
    "unseeded": (
        "the method draws random numbers that no seed sets: two runs on one image under the same seed "
        "gave two different maps",
        "draw from torch's, numpy's or Python's global generator, or declare an argument named "
        "generator; confirmed if this test then gives the same result in every run",
    ),
    "batch-mixing": (
        "the method mixes the images of a batch: two images have different maps in one call than in "
        "separate calls",
        "explain one image per call, and look for a mean, a maximum or a normalization over the "
        "first dimension; confirmed if both ways then give the same maps",
    ),
}
"""Causes that were tried out on the method, which come before what maps suggest: what was seen, and
what would confirm it."""

IN_DISTRIBUTION = "multi-color-sum-in-distribution"

WITHOUT_NEGATIVES = ("positive-only", "blur", "shift", "orientation", "baseline-distance")
"""What maps without negative values may look like."""

AFTER_ANOTHER_BASELINE = (
    "background",
    "irrelevant inside patches",
    "wrong sign",
    "whole-image sign flips",
    "relevant missed",
    "uneven values",
)


def tried_out(e: Evidence) -> Hint | None:
    """A cause of `CERTAIN`: no guess from maps, but tried out on the method."""
    order = ("unseeded", "batch-mixing", "image-only", "target")
    cause = next((cause for cause in order if cause in e.guards), None)
    if cause is None:
        return None
    best = e.best()
    of_the_image = best is not None and best.cause in IMAGE_ONLY
    if cause == "image-only" and "target" in e.guards and not of_the_image:
        cause = "target"  # the winner of an image may be the same before another network
    says, confirm = CERTAIN[cause]
    if cause == "target" and of_the_image:
        return None  # nor on anything else but the image
    if cause == "image-only" and best and best.cause in IMAGE_ONLY:
        says += f"; they look like {best.looks} (r = {best.similarity:.2f})"
    return Hint(cause, says, confirm, e.missing, tried=True)


def shown_range(e: Evidence) -> Hint | None:
    """A network that was never shown values as large as the image has."""
    if not e.shown or e.shown.values[1] >= FULL_RANGE * e.shown.of_image[1]:
        return None
    (low, high), (image_low, image_high) = e.shown.values, e.shown.of_image
    return Hint(
        "range",
        f"the method queries the network with values between {low:.3g} and {high:.3g} only; those of "
        f"the image are between {image_low:g} and {image_high:g}",
        "leave out the division by 255 or the normalization: the network takes images as they are; "
        "confirmed if its calls then have the image's range",
        e.missing,
        tried=True,
    )


# What a guard or a constant speaks for


def saturation(e: Evidence) -> Hint | None:
    """Maps of zeros behind a softmax that is saturated by a guard's notice."""
    if "saturation" not in e.guards:
        return None
    at = "" if e.temperature is None else f" at temperature {e.temperature:g}"
    return Hint(
        "saturation",
        f"{e.zero_maps}: the softmax is saturated{at}",
        f"`{e.test(explain='logit')}`, or a larger temperature; confirmed if no map is 0 then",
        e.missing if e.all_zero > 0.5 else min(e.missing, e.all_zero),
    )


def hooks(e: Evidence) -> Hint | None:
    """Activations that the method's hooks miss, by a guard's notice."""
    if "hooks" not in e.guards:
        return None
    return Hint(
        "hooks",
        "the network calls activations as functions, or one module several times, which the method's "
        "hooks miss",
        "give each activation an nn.ReLU of its own and test again",
        e.missing,
    )


def tie(e: Evidence) -> Hint | None:
    """One of several equal counts, of which the gradient of a minimum or maximum follows one."""
    missed, best = e.share("relevant missed"), e.best()
    recall = (1 - missed) / (1 + missed)  # F1 = 2r / (1 + r), if nothing else is missing
    whole = best is not None and best.cause == "one-part"  # where more is missing, as off the path
    if e.tied < 2 or not (whole or abs(recall - 1 / e.tied) <= ONE_OF_TIED):
        return None
    return Hint(
        "tie",
        f"the output is decided by {e.tied} equal counts, and the maps show one of them: a gradient at "
        "such a tie follows one branch",
        f"remove pixels instead: `{e.test(method='feature-ablation-true-baseline')}`; confirmed if it "
        "shows all of them; in a method without gradients look for an argmax or a largest component",
        missed,
    )


def quadrature(e: Evidence) -> Hint | None:
    """Path integrals that do not sum to the output change."""
    gap = e.completeness_gap
    if gap is None or "quadrature" not in e.guards:
        return None
    steps = e.settings.get("n_steps")
    points = "the points" if steps is None else f"{steps} points"
    sawtooth = ", and the output is a sawtooth along the path" if e.sawtooth else ""
    exact = "integrated-gradients-exact" + "-true-baseline" * ("baseline" in e.takes)
    commands = [e.test(method=exact)]
    if steps is not None:
        commands.append(e.test(settings={**e.settings, "n_steps": 10 * steps}))
    off = f"{100 * gap:.0f} % of" if gap <= 1 else f"{gap:,.3g} times"
    return Hint(
        "quadrature",
        f"the attributions should sum to the change of the output; they are off by {off} that change "
        f"(median image), because {points} on the path are too few or badly chosen{sawtooth}",
        f"`{'`, or `'.join(commands)}`; confirmed if F1 rises and the sum is right",
        e.missing * min(1.0, gap),
    )


def empty_maps(e: Evidence) -> Hint | None:
    """Maps of zeros without a saturated softmax."""
    if not e.all_zero or saturation(e):
        return None
    why, look_for = _why_zero(e)
    return Hint(
        "empty-maps",
        f"{e.zero_maps}: {why}",
        f"{look_for}; confirmed if no map is 0 then",
        min(e.missing, e.all_zero),
    )


_NODES = (
    "take Gauss-Legendre nodes, which lie closer together at both ends, since evenly spaced points can "
    "miss the narrow slope of the paper's detectors"
)
_LOOK = (
    "print what it computes before any scaling, and take several pixels away together; on a path "
    + _NODES
)


def _why_zero(e: Evidence) -> tuple[str, str]:
    """Why maps are zero, by a guard or else by what the method showed the network, and what to try."""
    cut = "leave out the ReLU or clamp at the end and test again"
    if "relu" in e.built_in_settings:
        cut = f"`{e.test(settings={**e.settings, 'relu': False})}`"
    if e.why_zero:
        reason, _, remedy = e.why_zero.partition(": ")
        return reason, cut if "ReLU" in reason else remedy or _LOOK
    if e.takes_a_path or e.around or e.noise:
        finds, other = "noise added to the input finds no gradient", _without_noise(e)
        if not e.noise and not e.around:
            finds, other = "points on a path find no gradient", _NODES
        return (
            f"the network is flat between the colors that it knows, so {finds}",
            f"print the model's output where the method evaluates it, or {other}",
        )
    if e.positive_only and e.all_zero < 1:
        return "no map has a negative value, so a ReLU or clamp may have removed all of them", cut
    return (
        "the output does not change anywhere the method looks (its slope is 0 there, or more than "
        "enough pixels remain when one is removed)",
        _LOOK,
    )


def _without_noise(e: Evidence) -> str:
    """How to add no noise to the input."""
    if e.noise:
        return f"add no noise: `{e.test(settings={**e.settings, 'noise': 0})}`"
    return "set its noise to 0"


def shown_baseline(e: Evidence) -> Hint | None:
    """A background that the method replaced by another color when it called the network."""
    if not e.shown or "baseline" in e.takes:
        return None
    color, low, high = map(np.array, (e.shown.color, e.shown.lowest, e.shown.highest))
    if e.around or not e.replaced:
        return None
    start = np.where(color - low > high - color, low, high)
    seen = ", ".join(f"{value:.0f}" for value in start)
    own = ", ".join(f"{value:.0f}" for value in color)
    return Hint(
        "baseline",
        f"the method shows the network a background of about ({seen}), while sample 0 has ({own}): "
        "the path crosses unseen colors",
        _from_the_background(e),
        e.missing,
        tried=True,
    )


def _from_the_background(e: Evidence) -> str:
    """How to start from the image's background: to a Captum class no argument can be added."""
    seen = "confirmed if the background keeps its color in all calls and then gets nothing"
    if not e.captum:
        return f"let the method declare an argument named `baseline` and start from it; {seen}"
    return (
        "wrap it in a function that takes `baseline` and test that (`--html PATH` shows the code); "
        f"{seen}. The code: `from captum.attr import {e.captum}\n\n"
        "def my_method(model, inputs, targets, baseline):\n"
        f"    explain = {e.captum}(model).attribute\n"
        "    start = baseline.expand_as(inputs)\n"
        "    return explain(inputs, baselines=start, target=targets)`"
    )


def baseline(e: Evidence) -> Hint | None:
    """A pattern on the background, far from all patches, though the background is the baseline."""
    texture, best = e.likeness.texture, e.best()
    if "baseline" in e.takes or not e.unseen_colors_disturb or (best and best.similarity >= SURE):
        return None
    if e.shown and not e.replaced:
        return None  # its calls had no other baseline
    everywhere = texture.background_level >= BACKGROUND_LEVEL and texture.background_reach >= REACH
    pattern = max(texture.background_recurrence, texture.background_smoothness) >= RECURRENCE
    # Noise has no pattern; what leaks out of patches thins out, or is as smooth as a blur.
    if not everywhere or not pattern or texture.background_smoothness >= SMOOTH:
        return None
    variant = f"{e.method}-true-baseline"
    known = "baselines" in e.built_in_settings
    return Hint(
        "baseline",
        f"the background far from all patches receives {100 * texture.background_level:.0f} % as much "
        "attribution as relevant pixels, in a regular pattern: the images are compared with a baseline "
        "other than the background, such as black, a color that this network has never seen",
        f"`{e.test(method=variant)}`; confirmed if the background then gets nothing"
        if known
        else "let the method declare an argument named baseline and start from it, or pass the "
        "background's color as baselines",
        e.share(*AFTER_ANOTHER_BASELINE),
    )


def unseen_colors(e: Evidence) -> Hint | None:
    """Unequal values on equal pixels in the pattern of the first kernel, and a clean background."""
    texture, best = e.likeness.texture, e.best()
    if not e.unseen_colors_disturb or not e.takes_a_path:
        return None
    if best and (best.f1 is None or best.cause == "sign-flips"):
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
        "the background gets nothing, but relevant pixels of one color get unequal values, in a "
        f"pattern that repeats every three pixels (r = {texture.recurrence:.2f}) like the first "
        "kernel: the path from baseline to image crosses colors that the network has never seen",
        f"`{e.test(environment=IN_DISTRIBUTION)}`, or this environment with redundant_channels=0; "
        "confirmed if pixels of one color then get equal values",
        unequal,
    )


def segmentation(e: Evidence) -> Hint | None:
    """A resolution of the method's own at which questions can hardly be solved."""
    if e.own_ceiling is None or e.own_resolution is None:
        return None
    if e.own_ceiling > SOLVED_ABOVE + NEAR_SOLVED:
        return None
    superpixels = "segmentation" in e.takes
    if not e.own_resolution.endswith("cells"):
        values = f"one value for each {'superpixel' if superpixels else 'region'}"
    else:
        values = f"{e.own_resolution}, upsampled to the image"
    return Hint(
        "segmentation" if superpixels else "resolution",
        f"the maps have {values}, which allows a mean F1 up to "
        f"{score_text(e.own_ceiling, SOLVED_ABOVE)} here",
        _finer(e),
        min(e.missing, 1 - e.own_ceiling),
    )


def _finer(e: Evidence) -> str:
    """How to get maps of a finer resolution, or to ask for less."""
    if "segmentation" in e.takes:
        remedy = "take smaller superpixels"
        true = {**e.settings, "segmentation": "patches"}
        if "segmentation" in e.built_in_settings and e.settings.get("segmentation") != "patches":
            remedy += f", or the true patches: `{e.test(method=e.method, settings=true)}`"
        return remedy
    setting = " (--set layer=...)" if e.in_shell else " (the setting layer)"
    remedies = {
        True: f"take a finer layer{setting if 'layer' in e.takes else ''}",
        False: "take smaller regions",
    }
    remedy = remedies[str(e.own_resolution).endswith("cells")]
    if e.claim != "positive-smoothed":
        remedy += f", or ask for less: `{e.test(claim='positive-smoothed')}`"
    return remedy


def positive_only(e: Evidence) -> Hint | None:
    """A claim about signs of maps that find the positive truth and are never negative."""
    best = e.best()
    if e.claim != "signed" or e.part != "negative" or not e.positive_only:
        return None
    if best is None or best.cause not in WITHOUT_NEGATIVES:
        return None
    keep = "keep negative values"
    if "relu" in e.built_in_settings:
        keep = f"`{e.test(settings={**e.settings, 'relu': False})}`"
    squared = e.share("wrong sign", "whole-image sign flips") > e.share("relevant missed")
    others = (
        "positive values: look for abs() or a square" if squared else "nothing: look for a clamp"
    )
    return Hint(
        "unsigned" if squared else "positive-only",
        "no map has a negative value, so it misses every pixel that lowers the output, but the claim "
        f"is about signs; these pixels get {others}",
        f"`{e.test(claim='positive')}`, or {keep}; confirmed if F1 then rises",
        e.missing,
    )


# What the maps look like


def look_alike(e: Evidence) -> Hint | None:
    """The known failure that the maps look like."""
    best = e.best()
    if best is None or (best.cause == "positive-only" and positive_only(e)):
        return None
    if best.cause == "sizes" and _as_uneven_as_shapley(e):
        return None
    if (best.cause == "blur" and segmentation(e)) or (best.cause == "one-part" and tie(e)):
        return None  # what coarse maps, or a gradient at a tie, look like
    # Maps of zeros were left out of what undoing it gains.
    shown = 1 - e.all_zero if e.likeness.without_zeros else 1.0
    return Hint(
        best.cause,
        resemblance(e, best),
        confirmation(e, best),
        min(e.missing, best.explains * shown),
    )


def _as_uneven_as_shapley(e: Evidence) -> bool:
    """Whether the test is passed with sizes about as uneven as those of exact Shapley values."""
    f1 = 1 - e.missing
    return e.shapley_f1 is not None and f1 >= SOLVED_ABOVE and e.shapley_f1 - f1 <= NEAR_SHAPLEY


def runner_up(e: Evidence) -> Hint | None:
    """A class that lost, explained far worse than the target; no part of the missing F1."""
    f1 = e.likeness.f1 * (1 - e.all_zero if e.likeness.without_zeros else 1.0)
    if e.runner_up is None or not f1 - e.runner_up > RUNNER_UP_LOSS:
        return None
    return Hint(
        "runner-up",
        "when the class with the second-most pixels is explained, the F1 falls from "
        f"{f1:.2f} to {e.runner_up:.2f}",
        "look for a division by a sum that can be negative, or for the label used instead of the "
        f"target; confirmed if it then rises to about {f1:.2f}",
        0.0,
    )


def shown_noise(e: Evidence) -> Hint | None:
    """Noise on the input of a network of number checkers, where the maps look like no failure."""
    if not e.shown or e.implementation != "paper" or 1 - e.missing >= SOLVED_ABOVE:
        return None
    seen = zip(e.shown.color, e.shown.lowest, e.shown.highest, strict=True)
    color, low, high = max(seen, key=lambda each: min(each[0] - each[1], each[2] - each[0]))
    if min(color - low, high - color) <= OFF_THE_COLOR:
        return None
    return Hint(
        "noise",
        f"the method shows the network values around those of the image, as noise does: from {low:.4g} "
        f"to {high:.4g} where sample 0 has {color:g}; this network checks for whole numbers, and its "
        "gradients between them are not those of the rule",
        f"{_without_noise(e)}; confirmed if F1 then rises",
        e.missing,
    )


def unrelated(e: Evidence) -> Hint | None:
    """Maps like neither the truth nor any known failure."""
    others = [each.similarity for each in e.likeness.ranked if each.cause != "constant"]
    most = max((abs(r) for r in (e.likeness.truth, *others)), default=1.0)
    if most > UNRELATED or e.all_zero > 0.5:
        return None
    again = (
        f"`{e.test(also='seeds:3')}` shows how much the scores depend on the method's random numbers"
        if e.stochastic
        else "run it on the same images in a different order and see whether the maps stay the same"
    )
    return Hint(
        "unrelated",
        f"the maps look like noise: their correlation with the truth is {e.likeness.truth:.2f}, and at "
        f"most {most:.2f} with any known failure",
        f"{again}; compare with the control random",
        e.missing,
    )


def _shown(e: Evidence) -> str:
    """An environment with the network that was tested, as the command `show` takes it."""
    options = {name: e.overrides.get(name) for name in ("implementation", "image_size")}
    words = [
        (f"--{name.replace('_', '-')}", str(value)) for name, value in options.items() if value
    ]
    return shlex.join([e.environment, *(word for pair in words for word in pair)])


def none_found(e: Evidence) -> Hint | None:
    """That nothing fits, and what was looked for."""
    if 1 - e.missing >= SOLVED_ABOVE or unrelated(e) or not e.likeness.ranked:
        return None
    excluded = [each.cause.replace("-", " ") for each in e.likeness.ranked]
    if e.shown:  # what was tried out on the method itself
        excluded += ["a map that does not depend on the network", "a wrong range of values"]
        excluded += ["a background other than the image's"]
    return Hint(
        "none-found",
        f"no cause was found; the maps have r = {e.likeness.truth:.2f} with the truth. Excluded: "
        f"{listed(list(dict.fromkeys(excluded)))}",
        f"compare maps and truth by eye (`--html PATH`); `attributionlab show {_shown(e)}` says what "
        "the network computes",
        e.missing,
    )


RULES: tuple[Rule, ...] = (
    tried_out,
    shown_range,
    shown_baseline,
    saturation,
    hooks,
    tie,
    quadrature,
    empty_maps,
    baseline,
    unseen_colors,
    segmentation,
    positive_only,
    look_alike,
)
"""In the order in which equally good causes are named: measured ones before resemblances."""

LAST_RESORTS: tuple[Rule, ...] = (unrelated, none_found)
"""Asked only where no rule has an answer."""
