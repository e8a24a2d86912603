"""Ensembles of integrated gradients and other methods by soundness and completeness, beside the truth.

Figures 8, 9, 14 and 15 of Li, Zhang, Kawaguchi, Khakzar, Bischl and Rezaei (2024): A dual-perspective
approach to evaluating feature attribution methods. TMLR.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from attributionlab.errors import AttributionLabError, refuse_if
from attributionlab.experiments.comparison_plan import environment_of
from attributionlab.experiments.reproduction import Reproduction
from attributionlab.experiments.soco.methods_findings import findings
from attributionlab.experiments.soco.methods_measures import (
    FRACTIONS,
    INDICATORS,
    LEVELS,
    THRESHOLDS,
    Measured,
    measured,
)
from attributionlab.experiments.soco.methods_subjects import (
    ENSEMBLES,
    OTHERS,
    PLAIN,
    Subject,
    ensemble_maps,
    environment_subject,
    given_subject,
    method_maps,
)
from attributionlab.experiments.soco.methods_tables import (
    SHOWN,
    agreement_table,
    noise_rows,
    rows_of,
    summary_table,
)
from attributionlab.progress import track
from attributionlab.report import CurvePanel, curves_figure
from attributionlab.report.positive_maps import PositiveMapsRow, positive_maps_figure
from attributionlab.validation import integer_problem, number_problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["SOCO_METHODS", "soco_methods"]

SEEN, UNSEEN = "multi-color-sum-in-distribution", "multi-color-sum"
CASES = ((SEEN, "noisy-linear"), (UNSEEN, "noisy-linear"), (UNSEEN, "true-baseline"))
"""Environments, and what takes the place of removed pixels. Linear imputation makes colors that no
image has: without channels for unseen colors they are absent, with them they disturb the counts."""
SIDE = 72
NOISE, PAPER_NOISE = 0.0005, 0.124
"""Of the ensembles' samples, in units of the value range: an eighth of a gray level, which the networks
bear, and the paper's (`attributionlab.methods.PRESETS` says how it is read)."""
NOISES = (0.005, PAPER_NOISE)
QUICK_NOISES = (PAPER_NOISE,)
NOISE_IMAGES = 2
MAPS = 3
"""Images that are drawn."""
GROUPS = {"ensembles": (PLAIN, *ENSEMBLES), "methods": (PLAIN, *OTHERS)}
FIGURE_INDICATOR = "label probability"
SOCO_METHODS = {
    "soco-figure-8": (
        "Integrated gradients and three ensembles of it, by four metrics",
        "ensembles",
    ),
    "soco-figure-9": ("Attribution methods by soundness and completeness", "methods"),
    "soco-figure-14": ("Maps of integrated gradients and three ensembles of it", "maps"),
    "soco-figure-15": (
        "Integrated gradients and three ensembles of it, LeRF included",
        "ensembles",
    ),
}
"""Title, and which part of the run comes first."""


class Case(NamedTuple):
    """One subject under one imputation, and what was measured there by indicator and method."""

    subject: Subject
    imputation: str
    found: Mapping[str, Mapping[str, Measured]]

    @property
    def name(self) -> str:
        return f"{self.subject.name}, {self.imputation}"


def soco_methods(
    item: str,
    *,
    n: int | None,
    quick: bool,
    seed: int = 0,
    noise: float | None = None,
    images: str | None = None,
    model: str | None = None,
    layer: str | None = None,
    size: int = 224,
    show_progress: bool = False,
) -> Reproduction:
    """Measure methods by soundness, completeness, ROAD and Deletion where the truth is known.

    What is positive of a map, summed over channels, is divided by its maximum and judged; the paper
    clamps maps to [0, 1].

    Parameters
    ----------
    item : str
        A name in `SOCO_METHODS`; all of them have the same tables and figures, their own first.
    n : int, optional
        Images; 4, or 2 in a quick run, by default. Of given images, for each class.
    quick : bool
        Fewer noisy samples (8 instead of 20) and iterations, and one noise in the table of noises.
    seed : int
        Of images, methods and imputation.
    noise : float, optional
        Standard deviation of the ensembles' noise in units of the value range; 0.0005 by default, and
        0.124 for given images.
    images, model : str, optional
        A folder of class folders and a classifier (``path/to/file.py:name``, see
        `attributionlab.local_data`), to be judged instead of environments, without a truth.
    layer : str, optional
        Dotted name of the module of that classifier for GradCAM and IBA, which are left out without.
    size : int
        Side of the given images.
    show_progress : bool
        Show progress on standard error.
    """
    import pandas as pd

    if (images is None) != (model is None):
        raise AttributionLabError(
            f"images is {images!r} and model is {model!r}: pass both, or neither for environments"
        )
    if noise is not None:
        refuse_if(number_problem("noise", noise, least=0))
    refuse_if(integer_problem("size", size, 1))
    n = n or (2 if quick else 4)
    chosen = noise if noise is not None else (NOISE if images is None else PAPER_NOISE)
    if images is not None and model is not None:
        subjects = {images: given_subject(images, model, n, seed, size, layer)}
        cases = [(images, "noisy-linear")]
    else:
        names = dict.fromkeys(name for name, _ in CASES)
        subjects = {
            name: environment_subject(environment_of(name, False, image_size=SIDE), n, seed)
            for name in names
        }
        cases = list(CASES)
    work = track([*subjects, *cases], len(subjects) + len(cases), item, show_progress)
    maps: dict[str, dict[str, Tensor]] = {}
    noises: list[dict[str, Any]] = []
    done: list[Case] = []
    for each in work:
        if isinstance(each, str):
            subject = subjects[each]
            maps[each] = _maps(subject, chosen, quick, seed)
            noises += _noises(subject, maps[each], chosen, quick, seed)
            continue
        name, imputation = each
        found: dict[str, dict[str, Measured]] = {indicator: {} for indicator in INDICATORS}
        for method, of_method in maps[name].items():
            for indicator, result in measured(subjects[name], of_method, imputation, seed):
                found[indicator][method] = result
        done.append(Case(subjects[name], imputation, found))
    long = rows_of(done)
    summary = summary_table(done, maps_of={s.name: maps[key] for key, s in subjects.items()})
    of_figure = summary[summary.indicator == FIGURE_INDICATOR].drop(columns="indicator")
    correlations = agreement_table(summary, GROUPS)
    tables = {
        **{
            group: of_figure[of_figure.method.isin(names)].reset_index(drop=True)
            for group, names in GROUPS.items()
        },
        "agreement": correlations[
            (correlations.methods == "all") & (correlations.indicator == FIGURE_INDICATOR)
        ].reset_index(drop=True),
        "noise": pd.DataFrame(noises),
        "summary": summary,
        "correlations": correlations,
        **{name: pd.DataFrame(of_name) for name, of_name in long.items()},
    }
    figures = {
        f"{group}-{_slug(case)}": _figure(case, group, chosen, seed)
        for group in GROUPS
        for case in done
    }
    figures["maps"] = _maps_figure(list(subjects.values())[-1], list(maps.values())[-1], chosen)
    title, first = SOCO_METHODS[item]
    order = ["noise", "ensembles"] if first == "maps" else [first, "agreement"]
    return Reproduction(
        item,
        title,
        {name: tables[name] for name in dict.fromkeys([*order, *tables])},
        dict(sorted(figures.items(), key=lambda pair: not pair[0].startswith(first))),
        findings(tables, n, chosen),
        {name: SHOWN[name] for name in order},
    )


def _maps(subject: Subject, noise: float, quick: bool, seed: int) -> dict[str, Tensor]:
    """By method, in the order of the tables."""
    found = dict(method_maps(subject, (PLAIN, *OTHERS), seed, quick=quick))
    ensembles = ensemble_maps(subject, noise, seed, quick=quick)
    return {PLAIN: found.pop(PLAIN), **ensembles, **found}


def _noises(
    subject: Subject, maps: Mapping[str, Tensor], chosen: float, quick: bool, seed: int
) -> list[dict[str, Any]]:
    count = min(NOISE_IMAGES, len(subject.images))
    rows = noise_rows(subject, 0.0, {PLAIN: maps[PLAIN][:count]})
    rows += noise_rows(subject, chosen, {name: maps[name][:count] for name in ENSEMBLES})
    for noise in QUICK_NOISES if quick else NOISES:
        if noise != chosen:
            of_noise = ensemble_maps(subject, noise, seed, images=count, quick=quick)
            rows += noise_rows(subject, noise, of_noise)
    return rows


def _slug(case: Case) -> str:
    return f"{case.subject.name}-{case.imputation}"


def _figure(case: Case, group: str, noise: float, seed: int) -> "Figure":
    """What is estimated on the left and the truth beside it; removal curves below for ensembles."""
    by_method = case.found[FIGURE_INDICATOR]
    methods = [name for name in GROUPS[group] if name in by_method]

    def panel(key: str, title: str, x: Sequence[float], xlabel: str, ylabel: str) -> CurvePanel:
        curves = {name: by_method[name].curves[key] for name in methods}
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
    samples = f", noise {noise:g} of the value range" if group == "ensembles" else ""
    title = f"{case.name}: {count} images of {case.subject.side} x {case.subject.side} pixels"
    return curves_figure(rows, f"{title}{samples}, seed {seed}")


def _maps_figure(subject: Subject, maps: Mapping[str, Tensor], noise: float) -> "Figure":
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
    title = f"{subject.name}: what is positive of each map, by its maximum (noise {noise:g})"
    return positive_maps_figure(rows, title)


def _whole(subject: Subject, index: int) -> Any:
    assert subject.information is not None
    values = subject.information[index, 0]
    return (values / max(float(values.max()), math.ulp(0))).numpy()
