"""The comparisons of AttributionLab's figures 2, 5 to 8, 16, 17, 19, 22 and 23, as data."""

from typing import Any

from attributionlab.faithfulness.comparison import Comparison
from attributionlab.faithfulness.report import EnvironmentResult
from attributionlab.papers.attributionlab.comparison_plan import PaperVerdict, Plan

MODULO, COLORS = "single-color-modulo", "multi-color-sum"
WITHOUT, UNIFORM = "multi-color-sum-in-distribution", "multi-color-sum-uniform"

CONTROLS = ["random", "constant"]
ON_MODULO = [
    *("gradcam", "guided-backprop", "lrp", "extremal-perturbation", "occlusion", "deep-shap"),
    *("integrated-gradients", "integrated-gradients-exact", "iba", *CONTROLS),
]
ON_COLORS = [
    *("gradcam", "guided-backprop", "lime", "lime-true-baseline", "extremal-perturbation"),
    *("occlusion", "occlusion-true-baseline", "deep-shap", "integrated-gradients"),
    *("integrated-gradients-true-baseline", "iba"),
]
SETTINGS = (
    "The paper states neither the number of images, nor the softmax's temperature, nor the strength of "
    "the redundant channels, nor how channels become one map: here 2 redundant channels of strength up "
    "to 1, the environment's temperature, and the sum over channels (docs/conventions.md)."
)
NEGATIVE = (
    "Methods that give no negative attribution score 0 on the negative truth; the paper sets those "
    "scores to 0 by hand."
)


def _overall(environment: str, **verdicts: str) -> list[PaperVerdict]:
    return [
        PaperVerdict(method.replace("_", "-"), environment, "overall", 0.5, verdict)
        for method, verdict in verdicts.items()
    ]


PARTS = ("overall", "positive", "negative")


def path_and_nodes(comparison: Comparison) -> list[str]:
    """IG from the true baseline: what 50 nodes cost, and what unseen colors on the path cost."""
    sentences = []
    for report, result in comparison.results:
        if not report.method.startswith("integrated-gradients"):
            continue
        gap = "" if result.median_gap is None else f"; completeness gap {result.median_gap:.1g}"
        unseen = "with" if result.constants.get("redundant_channels") else "without"
        sentences.append(
            f"{report.method}, {unseen} the Unseen Data Effect: F1 overall / positive / negative "
            f"{_f1s(result)}{gap}."
        )
    return [
        *sentences,
        "Exact against 50 nodes is the quadrature's share, with against without the effect the path's: "
        "even from the true baseline the straight line runs through colors that the network never saw.",
    ]


def coarse_methods(comparison: Comparison) -> list[str]:
    """Precision and recall on the smoothed truth beside the best that any map can reach."""
    return [
        f"{report.method}{_over_runs(result)}: precision "
        f"{result.mean('positive-smoothed', 'precision'):.2f}, recall "
        f"{result.mean('positive-smoothed', 'recall'):.2f} on the smoothed truth, on which the best "
        f"possible map has F1 {result.ceiling:.2f}; on the sharp one F1 "
        f"{result.mean('positive', 'f1'):.2f}."
        for report, result in comparison.results
    ]


def _over_runs(result: EnvironmentResult) -> str:
    """What other runs make of the same numbers, in brackets; nothing for a method of one run."""
    said = [
        f"{end['of']}: {end['positive-smoothed']['precision']:.2f}, "
        f"{end['positive-smoothed']['recall']:.2f}, {end['positive']['f1']:.2f}"
        for end in result.spread()
    ]
    return f" ({'; '.join(said)})" if said else ""


def true_patches(comparison: Comparison) -> list[str]:
    """What LIME scores when it is given the generator's own patches."""
    return [
        f"With the true patches F1 is {_f1s(result)} (overall / positive / negative). Half of the "
        "pixels of a patch are background, so a map that is constant on each patch has an overall F1 "
        "of at most about 2/3; superpixels that tell filled pixels from empty ones can score more."
        for report, result in comparison.results
        if report.settings.get("segmentation") == "patches"
    ]


def _f1s(result: EnvironmentResult) -> str:
    means = [result.mean(part, "f1") for part in PARTS]
    return " / ".join("not applicable" if mean is None else f"{mean:.2f}" for mean in means)


MODULO_PLAN = Plan(
    "figure-17",
    "Attributions on single-color-modulo against the overall truth (figures 16 and 17 in one run)",
    ON_MODULO,
    [MODULO],
    _overall(MODULO, lrp="pass", deep_shap="pass", integrated_gradients="pass"),
    [
        "The figure gives no verdicts; its text calls LRP, DeepSHAP and IG near optimal, which is "
        "counted as a pass here.",
        "Binary images hold 0 and 1 and the true baseline is 0, so IG and IG* are one method here.",
    ],
    claim="overall",
)
COLORS_PLAN = Plan(
    "figure-23",
    "Attributions on multi-color-sum against the overall, positive and negative truth (figures 2, 19 "
    "and 23 in one run)",
    ON_COLORS,
    [COLORS],
    [
        *_overall(
            COLORS,
            deep_shap="pass",
            integrated_gradients="fail",
            integrated_gradients_true_baseline="pass",
            occlusion="fail",
            occlusion_true_baseline="pass",
        ),
        PaperVerdict("deep-shap", COLORS, "positive", 0.5, "fail"),
        PaperVerdict("deep-shap", COLORS, "negative", 0.5, "fail"),
    ],
    [SETTINGS, NEGATIVE],
)
UNSEEN_PLAN = Plan(
    "figure-22",
    "Attributions without the Unseen Data Effect, in both readings of appendix I",
    ON_COLORS,
    [WITHOUT, UNIFORM],
    notes=[
        "Appendix I is headed 'without Unseen Data Effect', says that the redundant channels stay and "
        "that the accumulator is uniform, and that the number of redundant channels differs. Both "
        f"readings are run: {WITHOUT} has no redundant channels, {UNIFORM} keeps them before a uniform "
        "accumulator.",
        NEGATIVE,
    ],
)
DEEP_SHAP_PLAN = Plan(
    "figure-5",
    "DeepSHAP on multi-color-sum",
    ["deep-shap", "deep-shap-true-baseline"],
    [COLORS],
    [
        PaperVerdict("deep-shap", COLORS, part, 0.5, verdict)
        for part, verdict in (("overall", "pass"), ("positive", "fail"), ("negative", "fail"))
    ],
    [
        "Where the paper's verdict comes from, as far as our networks can tell, is the subject of "
        "`attributionlab reproduce deepshap-signs`.",
        SETTINGS,
    ],
)
BASELINES_PLAN = Plan(
    "figure-7",
    "IG and Occlusion from black and from the true baseline; quadrature and unseen colors apart",
    [
        *("integrated-gradients", "integrated-gradients-true-baseline"),
        *("integrated-gradients-exact", "integrated-gradients-exact-true-baseline"),
        *("occlusion", "occlusion-true-baseline"),
    ],
    [COLORS, WITHOUT],
    _overall(
        COLORS,
        integrated_gradients="fail",
        integrated_gradients_true_baseline="pass",
        occlusion="fail",
        occlusion_true_baseline="pass",
    ),
    [
        "The paper measures Occlusion's output change in front of the softmax (G.2), where pixels of "
        "other colors change nothing once the true baseline replaces them.",
        SETTINGS,
    ],
    reading=path_and_nodes,
)
COARSE_PLAN = Plan(
    "figure-8",
    "GradCAM, extremal perturbation and IBA against the smoothed positive truth",
    ["gradcam", "extremal-perturbation", "iba"],
    [COLORS],
    [
        PaperVerdict(method, COLORS, "positive-smoothed", 0.5, "pass")
        for method in ("gradcam", "extremal-perturbation", "iba")
    ],
    [
        "The paper does not say how its truth is smoothed: here a Gaussian of 0.04 of the side.",
        SETTINGS,
    ],
    claim="positive-smoothed",
    reading=coarse_methods,
)


def lime_methods(weights: str | None) -> list[tuple[str, dict[str, Any]]]:
    """LIME with each segmentation, SAM where there are weights for it."""
    names = ("quickshift", "felzenszwalb", "slic", "grid", "patches")
    plain: list[dict[str, Any]] = [{"segmentation": name} for name in names]
    others = [
        {"segmentation": "quickshift", "kernel_size": 5, "max_dist": 10, "ratio": 1.0},
        {"segmentation": "felzenszwalb", "scale": 100, "sigma": 0.5, "min_size": 50},
    ]
    with_sam = [] if weights is None else [{"segmentation": "sam", "weights": weights}]
    return [("lime-true-baseline", each) for each in [*plain, *others, *with_sam]]


def lime_plan(weights: str | None) -> Plan:
    """LIME under several segmentations (figure 6).

    Parameters
    ----------
    weights : str, optional
        A file with the weights of a Segment Anything model.
    """
    said = [("quickshift", 0.5, "pass"), ("quickshift", 0.6, "fail"), ("felzenszwalb", 0.5, "fail")]
    paper = [
        PaperVerdict(f"lime-true-baseline (segmentation={name})", COLORS, "overall", gamma, verdict)
        for name, gamma, verdict in said
    ]
    if weights is not None:
        label = f"lime-true-baseline (segmentation=sam, weights={weights})"
        paper += [PaperVerdict(label, COLORS, "overall", gamma, "pass") for gamma in (0.5, 0.6)]
    return Plan(
        "figure-6",
        "LIME under several segmentations",
        lime_methods(weights),
        [COLORS],
        paper,
        [
            "The paper states neither the parameters of Quickshift and Felzenszwalb, nor the number of "
            "samples, the baseline, or which truth its figure uses. Here: 1,000 samples, the true "
            "baseline (black is an unseen color), the overall truth, and two sets of parameters for "
            "each algorithm: LIME's public defaults and scikit-image's for Quickshift, scikit-image's "
            "defaults and those of its gallery for Felzenszwalb.",
            "Without a file of weights (--set sam_weights=PATH) there is no row for SAM; the row "
            "'patches' has the generator's own patches in its place."
            if weights is None
            else "SAM's masks are made a partition: where they overlap the smallest wins.",
            SETTINGS,
        ],
        claim="overall",
        reading=true_patches,
    )


PLANS = {
    **dict.fromkeys(("figure-16", "figure-17"), MODULO_PLAN),
    **dict.fromkeys(("figure-2", "figure-19", "figure-23"), COLORS_PLAN),
    "figure-22": UNSEEN_PLAN,
    "figure-5": DEEP_SHAP_PLAN,
    "figure-7": BASELINES_PLAN,
    "figure-8": COARSE_PLAN,
}
"""By item; items that one run serves share a plan."""
