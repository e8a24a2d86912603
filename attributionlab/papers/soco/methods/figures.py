"""Figures of `soco_methods`: curves of methods beside the truth, and their maps."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attributionlab.papers.soco.methods.measures import FRACTIONS, LEVELS, THRESHOLDS, Case
from attributionlab.papers.subjects.subjects import Subject
from attributionlab.report import CurvePanel, curves_figure
from attributionlab.report.positive_maps import PositiveMapsRow, positive_maps_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURE_INDICATOR = "label probability"
MAPS = 3
"""Images that are drawn."""


def slug(name: str) -> str:
    """The name of a case or a subject as a part of a file's."""
    return name.replace(", ", "-").replace(" ", "-")


def case_figure(case: Case, group: str, names: Sequence[str], seed: int) -> "Figure":
    """What is estimated on the left and the truth beside it; removal curves below for ensembles."""
    by_method = case.found[FIGURE_INDICATOR]
    methods = [name for name in names if name in by_method]

    def panel(key: str, title: str, x: Sequence[float], xlabel: str, ylabel: str) -> CurvePanel:
        curves = {name: by_method[name].curves[key] for name in methods}
        if key.split("-")[0] in ("road", "deletion"):  # whose images reach from 0 to 1: no bands
            curves = {name: values.mean(0, keepdims=True) for name, values in curves.items()}
        return CurvePanel(title, xlabel, ylabel, torch.tensor(x).numpy(), curves)

    level = "predictive level (0: nothing kept, 1: whole image)"
    threshold = "attribution threshold (share of the map's maximum)"
    removed = "fraction of pixels removed"
    share = "share of attribution (higher is better)"
    rows = [
        [
            panel("soundness", "Soundness, estimated", LEVELS, level, share),
            panel("true soundness", "Soundness, true", LEVELS, level, share),
        ],
        [
            panel(
                *("completeness", "Completeness, estimated", THRESHOLDS, threshold),
                "fall of probability (higher is better)",
            ),
            panel(
                *("true completeness", "Completeness, true", THRESHOLDS, threshold),
                "share of information (higher is better)",
            ),
        ],
    ]
    rows += [
        [
            panel(
                *(f"{metric}-{order}", f"{name}, {words} first", FRACTIONS, removed),
                f"label probability ({better} is better)",
            )
            for order, words, better in (
                ("morf", "most relevant", "lower"),
                ("lerf", "least relevant", "higher"),
            )
        ]
        for metric, name in (
            ("road", f"ROAD ({case.imputation})"),
            ("deletion", "Deletion (black)"),
        )
    ]
    if case.subject.information is None:
        rows[:2] = [[rows[0][0], rows[1][0]]]
    count = len(case.subject.images)
    samples = f", noise {case.noise:g} of the value range" if group == "ensembles" else ""
    title = f"{case.name}: {count} images of {case.subject.side} x {case.subject.side} pixels"
    return curves_figure(rows, f"{title}{samples}, seed {seed}")


def maps_figure(case: Case, maps: Mapping[str, Tensor]) -> "Figure":
    """Images, the information of each pixel where it is known, and the maps (B, 1, H, W) by method."""
    subject = case.subject
    rows = [
        PositiveMapsRow(
            subject.images[index].numpy() / subject.highest,
            {
                **({} if subject.information is None else {"information": _whole(subject, index)}),
                **{name: of_name[index, 0].numpy() for name, of_name in maps.items()},
            },
        )
        for index in range(min(MAPS, len(subject.images)))
    ]
    title = f"{subject.name}: what is positive of each map, by its maximum (noise {case.noise:g})"
    return positive_maps_figure(rows, title)


def _whole(subject: Subject, index: int) -> Any:
    assert subject.information is not None
    values = subject.information[index, 0]
    return (values / max(float(values.max()), math.ulp(0))).numpy()
