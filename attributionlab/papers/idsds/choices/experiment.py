"""Figures 3, 4, 5, 8 and 9 of Hesse et al. (2024): which designs have more correct attributions?"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from attributionlab.papers.idsds.choices.cells import AFTER, LOGIT, OUTPUTS, TRUTH
from attributionlab.papers.idsds.choices.comparisons import (
    ALL,
    NOT_ABSOLUTE,
    Comparison,
    compared,
    method_differences,
    network_changes,
    summarized,
)
from attributionlab.papers.idsds.choices.findings import (
    attention_findings,
    comparison_findings,
    network_findings,
    softmax_findings,
    tradeoff_finding,
)
from attributionlab.papers.idsds.choices.given import given_network
from attributionlab.papers.idsds.choices.measurement import Measured, Scale, measured
from attributionlab.papers.idsds.choices.studies import STUDIES
from attributionlab.papers.idsds.choices.tradeoff import best_scores, tradeoff_of
from attributionlab.papers.idsds.maps import ATTENDED, CONTROL, PANEL, refused_rows
from attributionlab.papers.reproduction import Reproduction
from attributionlab.papers.subjects.subjects import chosen_subject
from attributionlab.report.method_scores import ScoreDot
from attributionlab.report.setups import NetworkPoint, SetupPanel, setups_figure, tradeoff_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

FULL = Scale(
    images=48,
    tested=300,
    training=1500,
    epochs=10,
    fine_tuning=3,
    runs=6,
    methods=PANEL,
    quick=True,
)
QUICK = Scale(
    images=16,
    tested=100,
    training=600,
    epochs=6,
    fine_tuning=3,
    runs=1,
    methods=(
        "input-x-gradient",
        "integrated-gradients",
        "input-x-gradient-absolute",
        "integrated-gradients-absolute",
        "saliency",
        "gradcam",
        *ATTENDED,
        CONTROL,
    ),
    quick=True,
)
RUN, IMAGE = "training run", "image"
"""What intervals are over."""
SHOWN = {
    "comparisons": "second setup minus first: how many methods score higher and lower, mean difference "
    "of means over methods and its 95 % interval; rankings: rank correlation of the methods' means on "
    "both; maps: all (the paper's count), or only those that are no absolute values or squares; "
    "against: drops of the logit (IDSDS) or of the probability; outcome: whether that is the paper's "
    "direction",
    "changes": "second network minus first, mean over runs and 95 % interval: accuracy, and truth, "
    "the rank correlation of its own drops with what the data say of each cell",
    "networks": "means over runs. accuracy: on images as they are, before and after fine-tuning; "
    "network_truth: rank correlation of the network's own drops of the logit with what the data say of "
    "each cell; idsds: mean over methods; map_truth: the same held against what the data say",
    "tradeoff": "means over the runs that all designs have, and their 95 % intervals, which are too "
    "narrow for fewer than six runs; best: the IDSDS of the method that is best "
    "on average",
}


def idsds_choices(
    item: str,
    *,
    n: int | None,
    quick: bool,
    seed: int = 0,
    task: str = "colors",
    runs: int | None = None,
    show_progress: bool = False,
) -> Reproduction:
    """Train small networks of several designs, and score attribution methods for each.

    Parameters
    ----------
    item : str
        A name in `STUDIES`.
    n : int, optional
        Images explained in each run; 48, or 16 in a quick run, by default.
    quick : bool
        One training run of each design, with fewer images and methods.
    seed : int
        Of the first run's images and weights.
    task : {"colors", "pictures"}
        What networks are trained on: which of four colors has the most pixels, or objects on
        backgrounds.
    runs : int, optional
        Trainings of each design; 6, or 1 in a quick run, by default.
    show_progress : bool
        Show progress on standard error.

    Returns
    -------
    Reproduction
        Tables "comparisons", "networks", "methods" (mean and interval of each setup and method, by what
        maps are held against), "differences" (of each comparison and method) and "scores" (each run);
        of idsds-figure-5 also "tradeoff". A figure for each, and one of the trade-off.

    Raises
    ------
    AttributionLabError
        For settings that do not fit.
    """
    scale = QUICK if quick else FULL
    scale = replace(
        scale,
        images=scale.images if n is None else n,
        runs=scale.runs if runs is None else runs,
    )
    study = STUDIES[item]
    settings: dict[str, Any] = {"task": task, "seed": seed, "show_progress": show_progress}
    softmax = [each.first for each in study.comparisons if each.of_outputs]
    found = measured(study.designs, scale, after_softmax=softmax, **settings)
    if study.others:
        found += measured(study.others, replace(scale, runs=math.ceil(scale.runs / 2)), **settings)
    tables = _tables(found, study.comparisons, seed)
    figures = {"setups": _figure(tables["methods"], study.comparisons, study.title, "IDSDS", RUN)}
    findings = [
        f"The paper (ImageNet): {study.paper}",
        *([study.note] if study.note else []),
        *network_findings(found.networks, found.scores),
        *comparison_findings(tables["comparisons"], tables["changes"], RUN),
        *attention_findings(tables["methods"]),
        *softmax_findings(found.scores, found.networks, tables["comparisons"]),
    ]
    if study.others:
        tables["tradeoff"] = best_scores(_idsds(found.scores), found.networks, seed)
        figures["tradeoff"] = _tradeoff_figure(tables["tradeoff"])
        findings.append(tradeoff_finding(tradeoff_of(_idsds(found.scores), found.networks, seed)))
    return Reproduction(
        item=item,
        title=study.title,
        tables={name: table for name, table in tables.items() if len(table)},
        figures=figures,
        findings=findings,
        shown={name: note for name, note in SHOWN.items() if len(tables.get(name, ()))},
    )


def idsds_softmax(
    item: str,
    *,
    n: int | None,
    quick: bool,
    seed: int = 0,
    task: str = "colors",
    runs: int | None = None,
    images: str | None = None,
    model: str | None = None,
    weights: str | None = None,
    layer: str | None = None,
    classes: str | None = None,
    size: int = 224,
    show_progress: bool = False,
) -> Reproduction:
    """`idsds_choices`, or maps of the logit and of the probability of a network of one's own.

    Parameters
    ----------
    item : {"idsds-figure-4", "idsds-figure-9"}
        With a network of one's own the part of the figure about the softmax.
    n : int, optional
        Images of each class, 1 by default, of a folder of one's own; else as for `idsds_choices`.
    quick, seed, task, runs, show_progress
        As for `idsds_choices`; task and runs are of networks that are trained here.
    images, model, weights, layer, classes, size
        Of a classifier that returns logits, as for `papers.subjects.subjects.given_subject`.
        It is asked as it is: what it scores is IDSDS if its training has seen images without a patch,
        and SDS if not.
    """
    subject = chosen_subject(
        images,
        model,
        1 if n is None else n,
        seed,
        size=size,
        layer=layer,
        classes=classes,
        weights=weights,
    )
    if subject is None:
        return idsds_choices(
            item,
            n=n,
            quick=quick,
            seed=seed,
            task=task,
            runs=runs,
            show_progress=show_progress,
        )
    found = given_network(subject, (QUICK if quick else FULL).methods, seed, quick=quick)
    comparisons = (Comparison("softmax", subject.name, subject.name + AFTER, "lower"),)
    title = f"{subject.name}: maps of the logit or of the probability"
    tables = _tables(found, comparisons, seed)
    return Reproduction(
        item=item,
        title=title,
        tables={name: table for name, table in tables.items() if len(table)},
        figures={"setups": _figure(tables["methods"], comparisons, title, "SDS", IMAGE)},
        findings=[
            *subject.notes,
            *refused_rows(subject.model, subject.images, subject.targets),
            "The network is explained as it is. These are its SDS, and its IDSDS if its training has "
            "seen images without a cell, which the mean color of yours replaces.",
            f"The paper (ImageNet): {STUDIES[item].paper}",
            *comparison_findings(tables["comparisons"], tables["changes"], IMAGE),
            *softmax_findings(found.scores, found.networks, tables["comparisons"]),
        ],
        shown={"comparisons": SHOWN["comparisons"]},
    )


def _idsds(scores: "pd.DataFrame") -> "pd.DataFrame":
    return scores[scores.against == LOGIT]


def _tables(
    found: Measured, comparisons: Sequence[Comparison], seed: int
) -> dict[str, "pd.DataFrame"]:
    """By name; comparisons of outputs are held against the drops of both."""
    import pandas as pd

    by_reference = dict(list(found.scores.groupby("against", sort=False)))
    pairs = [
        (against, each)
        for each in comparisons
        for against in (OUTPUTS if each.of_outputs else OUTPUTS[:1])
    ]
    rows = [
        compared(by_reference[against], each, seed, against=against, maps=maps)
        for against, each in pairs
        for maps in (ALL, NOT_ABSOLUTE)
    ]
    differences = [
        method_differences(by_reference[against], each, seed).assign(against=against)
        for against, each in pairs
    ]
    methods = [
        summarized(scores, seed).assign(against=against) for against, scores in by_reference.items()
    ]
    return {
        "comparisons": pd.DataFrame(rows),
        "changes": pd.DataFrame(
            [network_changes(found.networks, x, seed) for x in comparisons if not x.of_outputs]
        ),
        "networks": _networks(found),
        "methods": pd.concat(methods, ignore_index=True),
        "differences": pd.concat(differences, ignore_index=True),
        "scores": found.scores,
        "runs": found.networks,
    }


def _networks(found: Measured) -> "pd.DataFrame":
    """Means over runs of each design, and over methods of what its maps score."""
    own = found.scores[found.scores.method != CONTROL]
    means = own.groupby(["setup", "against"], sort=False).score.mean().unstack("against")
    table = found.networks.drop(columns="run").groupby("setup", sort=False).mean()
    table["idsds"] = means[LOGIT]
    table["map_truth"] = means.get(TRUTH, np.nan)
    return table.astype({"parameters": int}).reset_index()


def _figure(
    methods: "pd.DataFrame", comparisons: Sequence[Comparison], title: str, score: str, unit: str
) -> "Figure":
    """A panel for each part; one for the drops of the probability beside that of the softmax."""
    parts: dict[tuple[str, str], list[str]] = {}
    for each in comparisons:
        for against in OUTPUTS if each.of_outputs else OUTPUTS[:1]:
            parts.setdefault((each.part, against), []).extend((each.first, each.second))
    panels = []
    for (part, against), setups in parts.items():
        here = methods[methods.against == against].set_index("setup")
        dots = {
            setup: {
                row.method: ScoreDot(row.mean, row.low, row.high)
                for row in here.loc[[setup]].itertuples()
            }
            for setup in dict.fromkeys(setups)
        }
        label = score if against == LOGIT else f"as {score}, drops of the probability"
        panels.append(SetupPanel(part, f"{label} (higher is better)", dots))
    return setups_figure(panels, title, bars=f"bars: 95 % intervals over {unit}s")


def _tradeoff_figure(table: "pd.DataFrame") -> "Figure":
    points = {
        row.setup: NetworkPoint(
            ScoreDot(row.accuracy, row.accuracy_low, row.accuracy_high),
            ScoreDot(row.best, row.best_low, row.best_high),
            row.best_method,
        )
        for row in table.itertuples()
    }
    return tradeoff_figure(
        points,
        "accuracy (higher is better)",
        "best IDSDS of a method (higher is better)",
        "(b) Best IDSDS of each network over its accuracy",
        bars=f"bars: 95 % intervals over {RUN}s, too narrow for fewer than six",
    )
