"""AttributionLab's figures 5, 6 and 7: environments, and their panels on photographs."""

from attributionlab.papers.attributionlab.comparison_plan import carry_out
from attributionlab.papers.attributionlab.figures import PLANS
from attributionlab.papers.attributionlab.photographs.baselines import baselines_panel
from attributionlab.papers.attributionlab.photographs.panels import Panel, with_panel
from attributionlab.papers.attributionlab.photographs.pictured import Own, pictured_by
from attributionlab.papers.attributionlab.photographs.segmented_lime import (
    QUICK_SAMPLES,
    SAMPLES,
    SHOWN,
    lime_figure,
    lime_findings,
    lime_tables,
    segmented_maps,
)
from attributionlab.papers.attributionlab.photographs.signs import signs_panel
from attributionlab.papers.attributionlab.segmentations import figure_6 as of_environments
from attributionlab.papers.reproduction import Reproduction
from attributionlab.progress import track

NETWORK = "convolutions"
"""In place of VGG16, where no network is given."""


def figure_5(
    *,
    n: int | None,
    quick: bool,
    seed: int = 0,
    images: str | None = None,
    model: str | None = None,
    weights: str | None = None,
    classes: str | None = None,
    size: int = 224,
    show_progress: bool = False,
) -> Reproduction:
    """DeepSHAP on multi-color-sum, and on pictures (panel b).

    Parameters
    ----------
    n, quick, seed, show_progress
        As for `carry_out` and `lime_on_photographs`.
    images, model, weights, classes, size
        A user's photographs and network, as for `lime_on_photographs`.
    """
    pictured = pictured_by(NETWORK, Own(images, model, weights, classes, size), n, quick, seed)
    outcome = carry_out(PLANS["figure-5"], n=n, quick=quick, seed=seed, show_progress=show_progress)
    return with_panel(outcome, signs_panel(pictured, seed), pictured)


def figure_6(
    *,
    n: int | None,
    quick: bool,
    seed: int = 0,
    sam_weights: str | None = None,
    images: str | None = None,
    model: str | None = None,
    weights: str | None = None,
    classes: str | None = None,
    size: int = 224,
    show_progress: bool = False,
) -> Reproduction:
    """LIME under several segmentations, in an environment and on pictures (panel b).

    Parameters
    ----------
    n, quick, seed, show_progress
        As for `carry_out` and `lime_on_photographs`.
    sam_weights : str, optional
        A file with the weights of a Segment Anything model; SAM is left out without one.
    images, model, weights, classes, size
        A user's photographs and network, as for `lime_on_photographs`.
    """
    pictured = pictured_by(NETWORK, Own(images, model, weights, classes, size), n, quick, seed)
    outcome = of_environments(
        n=n, quick=quick, seed=seed, show_progress=show_progress, sam_weights=sam_weights
    )
    work = segmented_maps(pictured, sam_weights, quick, seed)
    results = list(track(work, len(pictured), "figure-6, pictures", show_progress))
    tables = lime_tables(results, seed)
    figure = lime_figure(results[0], f"LIME by superpixels: {pictured[0].subject.name}")
    findings = lime_findings(tables, QUICK_SAMPLES if quick else SAMPLES)
    return with_panel(outcome, Panel(tables, {"photographs": figure}, findings, SHOWN), pictured)


def figure_7(
    *,
    n: int | None,
    quick: bool,
    seed: int = 0,
    images: str | None = None,
    model: str | None = None,
    weights: str | None = None,
    classes: str | None = None,
    size: int = 224,
    show_progress: bool = False,
) -> Reproduction:
    """IG and Occlusion by baseline, in environments and on pictures (panel d).

    Parameters
    ----------
    n, quick, seed, show_progress
        As for `carry_out` and `lime_on_photographs`.
    images, model, weights, classes, size
        A user's photographs and network, as for `lime_on_photographs`.
    """
    pictured = pictured_by(NETWORK, Own(images, model, weights, classes, size), n, quick, seed)
    outcome = carry_out(PLANS["figure-7"], n=n, quick=quick, seed=seed, show_progress=show_progress)
    return with_panel(outcome, baselines_panel(pictured, seed), pictured)
