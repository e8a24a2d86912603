"""What a comparison says, in sentences computed from its results."""

from attributionlab.comparison import Comparison
from attributionlab.results import EnvironmentResult

__all__ = ["coarse_methods", "path_and_nodes", "true_patches"]

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
        f"{report.method}: precision {result.mean('positive-smoothed', 'precision'):.2f}, recall "
        f"{result.mean('positive-smoothed', 'recall'):.2f} on the smoothed truth, whose own F1, the "
        f"ceiling, is {result.ceiling:.2f}; on the sharp one F1 {result.mean('positive', 'f1'):.2f}."
        for report, result in comparison.results
    ]


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
