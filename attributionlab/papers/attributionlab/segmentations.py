"""LIME under several segmentations: scores (figure 6), segments and maps (figure 24)."""

from typing import Any

import torch

from attributionlab.faithfulness.comparison import compare
from attributionlab.papers.attributionlab.comparison_plan import carry_out, environment_of
from attributionlab.papers.attributionlab.figures import COLORS, lime_methods, lime_plan
from attributionlab.papers.reproduction import Reproduction
from attributionlab.report import segmentation_figure
from attributionlab.segmentation import segment


def figure_6(
    *,
    n: int | None,
    quick: bool,
    seed: int = 0,
    show_progress: bool = False,
    sam_weights: str | None = None,
) -> Reproduction:
    """LIME's scores under several segmentations.

    Parameters
    ----------
    n, quick, seed, show_progress
        As for `carry_out`.
    sam_weights : str, optional
        A file with the weights of a Segment Anything model; no row for it without one.
    """
    return carry_out(
        lime_plan(sam_weights), n=n, quick=quick, seed=seed, show_progress=show_progress
    )


def figure_24(
    *,
    n: int | None,
    quick: bool,
    seed: int = 0,
    show_progress: bool = False,
    sam_weights: str | None = None,
) -> Reproduction:
    """Superpixels and LIME's maps side by side, a figure for each image; parameters of `figure_6`."""
    env = environment_of(COLORS, quick)
    n = n or 1
    methods = lime_methods(sam_weights)
    comparison = compare(methods, env, n, seed, claim="overall", show_progress=show_progress)
    samples = [env.dataset(n, seed)[index] for index in range(n)]
    figures = {}
    for index, sample in enumerate(samples):
        target = env.targets(sample.label[None])
        truth = env.truth(sample.image[None], target).signed[0, 0]
        columns = [
            (
                ", ".join(str(value) for value in report.settings.values()),
                _labels(report.settings, sample, env.max_value),
                result.attributions[index],
                f"F1 {result.scores['overall']['f1'][index]:.2f}",
            )
            for report, result in comparison.results
        ]
        figures[f"image-{index}"] = segmentation_figure(
            sample.image.numpy(), env.max_value, truth.numpy(), columns
        )
    return Reproduction(
        "figure-24",
        "Superpixels and LIME's attributions",
        {"summary": comparison.summary(), "scores": comparison.to_frame()},
        figures,
        [f"not run: {each.method}: {each.reason}" for each in comparison.refusals]
        + [
            f"{report.label}: {int(_labels(report.settings, samples[0], env.max_value).max()) + 1} "
            f"superpixels in the first image, mean overall F1 {result.claim_f1:.2f}."
            for report, result in comparison.results
        ],
    )


def _labels(settings: Any, sample: Any, highest: int) -> Any:
    """The superpixels that LIME used, (H, W)."""
    own = {key: value for key, value in settings.items() if key != "segmentation"}
    labels: torch.Tensor = segment(
        sample.image[None],
        settings["segmentation"],
        highest=highest,
        patches=sample.patches[None],
        settings=own,
    )
    return labels[0].numpy()
