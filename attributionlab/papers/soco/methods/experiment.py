"""Ensembles of integrated gradients and other methods by soundness and completeness, beside the truth.

Figures 8, 9, 14 and 15 of Li, Zhang, Kawaguchi, Khakzar, Bischl and Rezaei (2024): A dual-perspective
approach to evaluating feature attribution methods. TMLR.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from attributionlab.errors import refuse_if
from attributionlab.methods import METHODS, as_method
from attributionlab.papers.attributionlab.comparison_plan import environment_of
from attributionlab.papers.reproduction import Reproduction
from attributionlab.papers.soco.maps import ENSEMBLES, OTHERS, PLAIN, ensemble_maps, method_maps
from attributionlab.papers.soco.methods.figures import (
    FIGURE_INDICATOR,
    case_figure,
    maps_figure,
    slug,
)
from attributionlab.papers.soco.methods.findings import findings_of
from attributionlab.papers.soco.methods.measures import INDICATORS, Case, Measured, measured
from attributionlab.papers.soco.methods.tables import (
    SHOWN,
    agreement_table,
    networks_table,
    noise_rows,
    rows_of,
    summary_table,
    with_other_runs,
)
from attributionlab.papers.subjects.subjects import (
    TRAINED,
    Subject,
    chosen_subject,
    environment_subject,
    trained_subject,
)
from attributionlab.progress import track
from attributionlab.validation import number_problem

SEEN, UNSEEN = "multi-color-sum-in-distribution", "multi-color-sum"
CASES = ((SEEN, "noisy-linear"), (UNSEEN, "noisy-linear"), (UNSEEN, "true-baseline"))
"""Environments, and what takes the place of removed pixels. Linear imputation makes colors that no
image has: without channels for unseen colors they are absent, with them they disturb the counts."""
SIDE = 72
NOISE, PAPER_NOISE = 0.0005, 0.124
"""Of the ensembles' samples, in units of the value range: an eighth of a gray level, chosen by looking
at what hand-weighted networks bear, and the paper's (`attributionlab.methods.PRESETS` says how it is
read)."""
NOISES = (0.005, PAPER_NOISE)
QUICK_NOISES = (PAPER_NOISE,)
NOISE_IMAGES = 2
NETWORKS, QUICK_NETWORKS = 3, 1
"""Trained, and asked, with consecutive seeds."""
IMAGES, QUICK_IMAGES = 4, 2
TRAINED_IMAGES, QUICK_TRAINED_IMAGES = 20, 6
TRAINING, QUICK_TRAINING = 2000, 500
GROUPS = {"ensembles": (PLAIN, *ENSEMBLES), "methods": (PLAIN, *OTHERS)}
ITEMS = {
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
    classes: str | None = None,
    weights: str | None = None,
    size: int = 224,
    show_progress: bool = False,
) -> Reproduction:
    """Measure methods by soundness, completeness, ROAD and Deletion where the truth is known.

    What is positive of a map, summed over channels, is divided by its maximum and judged; the paper
    clamps maps to [0, 1].

    Parameters
    ----------
    item : str
        A name in `ITEMS`; all of them have the same tables and figures, their own first.
    n : int, optional
        Images; by default 4 of each environment and 20 for each trained network, or 2 and 6 in a quick
        run. Of given images, for each class; 4 or 2.
    quick : bool
        Fewer noisy samples (8 instead of 20) and iterations, one noise in the table of noises, one
        trained network instead of three and fewer pictures to train on.
    seed : int
        Of images, training, methods and imputation.
    noise : float, optional
        Standard deviation of the ensembles' noise in units of the value range; by default 0.0005 for
        environments, and 0.124 for trained networks and given images.
    images, model : str, optional
        A folder of class folders and a classifier (``path/to/file.py:name``, see
        `attributionlab.local_data`), to be judged instead of our own networks, without a truth.
    layer : str, optional
        Dotted name of the module of that classifier for GradCAM and IBA, which are left out without.
    classes : str, optional
        A text file that names the class folder of each output of the classifier, one in a line, for a
        folder that has only some of them.
    weights : str, optional
        A safetensors file, or a state dict that `torch.save` wrote, with that classifier's weights.
    size : int
        Side of the given images.
    show_progress : bool
        Show progress on standard error.
    """
    import pandas as pd

    if noise is not None:
        refuse_if(number_problem("noise", noise, least=0))
    of_class = n if n is not None else QUICK_IMAGES if quick else IMAGES
    given = chosen_subject(
        *(images, model, of_class, seed), size=size, layer=layer, classes=classes, weights=weights
    )
    if given is not None:
        cases, trained = [(given, "noisy-linear")], []
    else:
        cases = _environments(of_class, seed)
        trained = _trained(n, quick, seed)
    cases += [(subject, "noisy-linear") for subject in trained]
    subjects = {subject.name: subject for subject, _ in cases}
    steps: list[Subject | tuple[Subject, str]] = [*subjects.values(), *cases]
    work = track(steps, len(steps), item, show_progress)
    maps: dict[str, dict[str, Tensor]] = {}
    again: dict[str, list[dict[str, Tensor]]] = {}
    others: list[pd.DataFrame] = []
    noises: list[dict[str, Any]] = []
    done: list[Case] = []
    for each in work:
        if isinstance(each, Subject):
            chosen = _noise_of(each, noise)
            maps[each.name] = _maps(each, chosen, quick, seed)
            again[each.name] = _other_runs(each, quick, seed)
            noises += _noises(each, maps[each.name], chosen, quick, seed)
            continue
        subject, imputation = each
        of_noise = _noise_of(subject, noise)
        found = _found(subject, maps[subject.name], imputation, seed)
        done.append(Case(subject, imputation, of_noise, found))
        for run in again[subject.name]:
            case = Case(subject, imputation, of_noise, _found(subject, run, imputation, seed))
            others.append(summary_table([case], {subject.name: run}))
    long = rows_of(done)
    summary = summary_table(done, maps)
    of_figure = summary[summary.indicator == FIGURE_INDICATOR].drop(columns="indicator")
    learned = of_figure.environment.isin([subject.name for subject in trained])
    judged = of_figure[~learned]
    correlations = agreement_table(summary[summary.all_completeness.notna()], GROUPS)
    tables = {
        **{
            group: judged[judged.method.isin(names)].reset_index(drop=True)
            for group, names in GROUPS.items()
        },
        "agreement": correlations[
            (correlations.methods == "all") & (correlations.indicator == FIGURE_INDICATOR)
        ].reset_index(drop=True),
        "networks": networks_table(of_figure[learned]),
        "noise": pd.DataFrame(noises),
        "summary": summary,
        "correlations": correlations,
        **{name: pd.DataFrame(of_name) for name, of_name in long.items()},
    }
    complete = with_other_runs(summary, others)
    shown = complete[complete.indicator == FIGURE_INDICATOR].drop(columns="indicator")
    shown = shown[~shown.environment.isin([subject.name for subject in trained])]
    in_full = {
        "summary": complete,
        "methods": shown[shown.method.str.split(", ").str[0].isin(GROUPS["methods"])].reset_index(
            drop=True
        ),
    }
    drawn = [case for case in done if case.subject not in trained[1:]]
    figures = {
        f"{group}-{slug(case.name)}": case_figure(case, group, names, seed)
        for group, names in GROUPS.items()
        for case in drawn
    }
    # The last environment, or what is given, and the first trained network.
    for case in {case.subject in trained: case for case in drawn}.values():
        figures[f"maps-{slug(case.subject.name)}"] = maps_figure(case, maps[case.subject.name])
    title, first = ITEMS[item]
    order = ["noise", "ensembles", "networks"]
    if first != "maps":
        order = [first, "networks", "agreement"]
    order = [name for name in order if len(tables[name])]
    return Reproduction(
        item,
        title,
        {name: (tables | in_full)[name] for name in dict.fromkeys([*order, *tables])},
        dict(sorted(figures.items(), key=lambda pair: not pair[0].startswith(first))),
        [
            *(given.notes if given is not None else ()),
            *findings_of(tables, {case.subject.name: len(case.subject.images) for case in done}),
        ],
        {name: SHOWN[name] for name in order},
    )


def _environments(n: int, seed: int) -> list[tuple[Subject, str]]:
    subjects = {
        name: environment_subject(environment_of(name, False, image_size=SIDE), n, seed)
        for name in dict.fromkeys(name for name, _ in CASES)
    }
    return [(subjects[name], imputation) for name, imputation in CASES]


def _trained(n: int | None, quick: bool, seed: int) -> list[Subject]:
    asked = n if n is not None else QUICK_TRAINED_IMAGES if quick else TRAINED_IMAGES
    training = QUICK_TRAINING if quick else TRAINING
    count = QUICK_NETWORKS if quick else NETWORKS
    return [
        replace(trained_subject(asked, training, each), name=f"{TRAINED}, seed {each}")
        for each in range(seed, seed + count)
    ]


def _noise_of(subject: Subject, noise: float | None) -> float:
    if noise is not None:
        return noise
    return PAPER_NOISE if subject.information is None else NOISE


def _maps(subject: Subject, noise: float, quick: bool, seed: int) -> dict[str, Tensor]:
    """By method, in the order of the tables."""
    found = dict(method_maps(subject, (PLAIN, *OTHERS), seed, quick=quick))
    ensembles = ensemble_maps(subject, noise, seed, quick=quick)
    return {PLAIN: found.pop(PLAIN), **ensembles, **found}


def _other_runs(subject: Subject, quick: bool, seed: int) -> list[dict[str, Tensor]]:
    """Maps by method, of each run beside the first, of the methods that have it."""
    runs = max(as_method(name, METHODS).runs for name in OTHERS)
    return [
        dict(method_maps(subject, OTHERS, seed, quick=quick, repeat=repeat))
        for repeat in range(1, runs)
    ]


def _found(
    subject: Subject, maps: Mapping[str, Tensor], imputation: str, seed: int
) -> dict[str, dict[str, Measured]]:
    """What was measured, by indicator and method."""
    found: dict[str, dict[str, Measured]] = {indicator: {} for indicator in INDICATORS}
    for method, of_method in maps.items():
        for indicator, result in measured(subject, of_method, imputation, seed):
            found[indicator][method] = result
    return found


def _noises(
    subject: Subject, maps: Mapping[str, Tensor], chosen: float, quick: bool, seed: int
) -> list[dict[str, Any]]:
    """At the chosen noise and, where the truth is known, at others."""
    known = subject.information is not None
    count = min(NOISE_IMAGES, len(subject.images)) if known else len(subject.images)
    rows = noise_rows(subject, 0.0, {PLAIN: maps[PLAIN][:count]})
    rows += noise_rows(subject, chosen, {name: maps[name][:count] for name in ENSEMBLES})
    others = (QUICK_NOISES if quick else NOISES) if known else ()
    for noise in others:
        if noise != chosen:
            of_noise = ensemble_maps(subject, noise, seed, images=count, quick=quick)
            rows += noise_rows(subject, noise, of_noise)
    return rows
