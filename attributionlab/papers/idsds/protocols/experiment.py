"""Hesse et al. (2024), Figure 2 and Tables 1 and 4 to 7: protocols that delete, side by side."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import nn

from attributionlab.errors import AttributionLabError
from attributionlab.papers.idsds.maps import refused_rows
from attributionlab.papers.idsds.protocols.construction import ENVIRONMENTS, Judged, judged
from attributionlab.papers.idsds.protocols.findings import findings_of
from attributionlab.papers.idsds.protocols.names import (
    ALIGNED_IDS,
    IDS,
    IDSDS,
    INTRINSIC,
    LEGEND,
    PARTS,
    SDS,
    UPDATED_IDS,
)
from attributionlab.papers.idsds.protocols.properties import (
    leaks,
    modulo_scores,
    properties_table,
    recalibration,
)
from attributionlab.papers.idsds.protocols.scoring import Scored
from attributionlab.papers.idsds.protocols.tables import (
    ALL,
    absolute_table,
    agreement_table,
    correlation_table,
    intrinsic_table,
    readable,
    score_table,
    side_by_side,
)
from attributionlab.papers.idsds.protocols.trained import (
    Explained,
    Scale,
    Trained,
    pair_scores,
    trained,
)
from attributionlab.papers.reproduction import Reproduction
from attributionlab.papers.subjects.subjects import Subject, chosen_subject
from attributionlab.report.estimates import Agreement, agreements_figure
from attributionlab.report.method_scores import ScoreDot, ScorePanel, method_scores_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

ITEMS = {
    "idsds-figure-2": (
        "(a) IDSDS by method, (b) IDS with fixed and updated maps, (c) protocols side by side",
        ("rankings", "pairs", "agreements"),
        "idsds",
    ),
    "idsds-table-1": ("What protocols have, and what they lack", ("properties",), "truth"),
    "idsds-table-4": ("IDSDS by method", ("idsds",), "idsds"),
    "idsds-table-5": ("IDS by method", ("ids", "updated"), "updates"),
    "idsds-table-6": ("SDS by method", ("sds", "rankings"), "protocols"),
    "idsds-table-7": ("Single deletion of known parts, by method", ("parts",), "protocols"),
}
"""Title, tables for the terminal, and which figure comes first; all are of the same run."""
CELLS = (
    "mean and 95 % interval over networks (colors, pictures; of three its ends are the lowest and the "
    "highest, of one it is over images) or images, each with a network of its own (sum, distractors); "
    "constant_maps: images whose map has the same sum everywhere, which score 0"
)
SHOWN = {
    "properties": "each tick and cross of the paper, and what was measured of it here",
    "idsds": f"Spearman's correlation of drops and attributions, in domain, higher is better: {CELLS}",
    "sds": "the same of the original network (colors, pictures), or with black cells (sum, "
    f"distractors): {CELLS}",
    "ids": f"mean probability of the label, least relevant pixels first, higher is better: {CELLS}",
    "updated": "the same with maps that are made anew after each step, of some methods (sum and "
    f"distractors: true baseline): {CELLS}",
    "parts": "the same correlation for the patches of the generator, an analogue of FunnyBirds' single "
    f"deletion alone: {CELLS}",
    "rankings": "Spearman's correlation of two protocols' mean scores over methods, the control left "
    "out; 95 % interval over methods",
    "pairs": "raw minus absolute map; 95 % interval as for scores; 0.00 without any variation where "
    "both say the same",
    "agreements": "Spearman's correlation over maps of a protocol's scores with how right the maps "
    "are: lowest F1 of all masks; mean over images with 95 % interval; sum, distractors: environments",
}
SECOND = "distractors"
"""The environment that tables to read leave out, and all others have."""
IMAGES, QUICK_IMAGES = 12, 2
"""Of each environment and output."""
SCALE = Scale(
    networks=3, training=1500, images=20, epochs=12, fine_tuning=6, updated=8, steps=32, quick=False
)
QUICK_SCALE = Scale(
    networks=1, training=200, images=5, epochs=3, fine_tuning=1, updated=2, steps=4, quick=True
)
MASKS, QUICK_MASKS = 1500, 200
MODULO_IMAGES = 50
GIVEN_SCALE = Scale(
    networks=1, training=0, images=0, epochs=0, fine_tuning=0, updated=8, steps=32, quick=False
)
QUICK_GIVEN_SCALE = Scale(
    networks=1, training=0, images=0, epochs=0, fine_tuning=0, updated=2, steps=8, quick=True
)


def idsds_protocols(
    item: str,
    *,
    n: int | None,
    quick: bool,
    seed: int = 0,
    images: str | None = None,
    model: str | None = None,
    weights: str | None = None,
    fine_tuned: str | None = None,
    layer: str | None = None,
    classes: str | None = None,
    size: int = 224,
    show_progress: bool = False,
) -> Reproduction:
    """Scores of the panel by IDSDS, SDS, IDS and single deletion of parts, and who agrees with whom.

    Two environments are in their domain by construction where the true baseline replaces what is
    deleted, and out of it by a known dose elsewhere; small networks are trained and fine-tuned.

    Parameters
    ----------
    item : str
        A name in `ITEMS`.
    n : int, optional
        Images of each environment and output; 12, or 2 in a quick run, by default. Of given images,
        for each class; 1 by default.
    quick : bool
        Fewer images, networks and epochs, fewer samples in methods, 8 steps of IDS instead of 32.
    seed : int
        Of images, weights, what is deleted while fine-tuning, and what is random in methods.
    images, model : str, optional
        A folder of class folders and a classifier (``path/to/file.py:name``, see
        `attributionlab.local_data`), to be judged instead of ours.
    weights, fine_tuned : str, optional
        Files with the weights of that classifier, and of the same fine-tuned on images of which half
        lack a cell (`attributionlab.metrics.patch_deleted`), with the mean color in its place; without
        the latter there is no IDSDS.
    layer : str, optional
        Dotted name of the module of that classifier for rows that explain by a layer, which are left
        out without.
    classes : str, optional
        A text file that names the class folder of each output of the classifier, one in a line, for a
        folder that has only some of them.
    size : int
        Side of the given images, a multiple of 4.
    show_progress : bool
        Show progress on standard error.

    Returns
    -------
    Reproduction
        Tables "scores" (all in one), "idsds", "sds", "ids", "updated", "parts" (to read),
        "correlations", "absolute", "intrinsic", "agreement", "properties" and "networks"; figures
        "idsds", "updates", "protocols" and "truth". Of given networks those that need no truth.
    """
    of_class = 1 if n is None else n
    given = chosen_subject(
        *(images, model, of_class, seed), size=size, layer=layer, classes=classes, weights=weights
    )
    if given is not None:
        tuned = None
        if fine_tuned is not None:
            tuned = chosen_subject(
                *(images, model, of_class, seed),
                size=size,
                layer=layer,
                classes=classes,
                weights=fine_tuned,
            )
        return _of_given(item, given, tuned, quick, seed, layer)
    if fine_tuned is not None:
        raise AttributionLabError(
            f"fine_tuned is {fine_tuned!r} without images and model: pass both, too"
        )
    number = n if n is not None else QUICK_IMAGES if quick else IMAGES
    known = [
        judged(name, output, number, seed, quick=quick, show_progress=show_progress)
        for name in ENVIRONMENTS
        for output in ("logit", "probability")
    ]
    learned = trained(QUICK_SCALE if quick else SCALE, seed, show_progress=show_progress)
    return _of_ours(item, known, learned, quick, seed)


def _of_given(
    item: str, given: Subject, tuned: Subject | None, quick: bool, seed: int, layer: str | None
) -> Reproduction:
    if item in ("idsds-table-1", "idsds-table-7"):
        raise AttributionLabError(
            f"{item} needs networks whose truth is known, or images whose parts are: leave images and "
            "model out"
        )
    explained = Explained(given.images, given.targets, given.empty, [layer, layer])
    pair: tuple[nn.Module, nn.Module | None] = given.model, None if tuned is None else tuned.model
    scale = QUICK_GIVEN_SCALE if quick else GIVEN_SCALE
    scored = list(pair_scores(given.name, 0, pair, explained, scale, seed))
    tables = _tables(scored, seed)
    missing = (
        ("fine_tuned is not given: there is no IDSDS.",) if tuned is None else tuple(tuned.notes)
    )
    refused = refused_rows(given.model, given.images, given.targets)
    findings = [*given.notes, *missing, *refused, *findings_of(tables, [], None)]
    return _reproduction(item, tables, {}, findings)


def _of_ours(
    item: str, known: Sequence[Judged], learned: Trained, quick: bool, seed: int
) -> Reproduction:
    import pandas as pd

    scored = [*(score for each in known for score in each.scored), *learned.scored]
    task, pair = learned.last
    found = leaks(task, pair.original, QUICK_MASKS if quick else MASKS, seed)
    tables = _tables(scored, seed) | {
        "agreement": agreement_table(known, seed),
        "properties": properties_table(known, found, recalibration(task, pair, seed)),
        "intrinsic": intrinsic_table(learned.scored, seed),
        "networks": pd.DataFrame(learned.accuracies),
    }
    tables["agreements"] = _agreements(tables["agreement"])
    facts = [each for each in known if each.output == "logit"]
    findings = findings_of(tables, facts, modulo_scores(MODULO_IMAGES, seed))
    return _reproduction(item, tables, {"truth": _truth_figure(tables["agreement"])}, findings)


def _tables(scored: Sequence[Scored], seed: int) -> "dict[str, pd.DataFrame]":
    scores = score_table(scored, seed)
    names = {"idsds": IDSDS, "sds": SDS, "ids": IDS, "updated": UPDATED_IDS, "parts": PARTS}
    first = scores[~scores.place.str.startswith(SECOND)]
    to_read = {key: readable(first, protocol) for key, protocol in names.items()}
    correlations, absolute = correlation_table(scores, seed), absolute_table(scored, seed)
    return {
        **{key: table for key, table in to_read.items() if len(table)},
        "rankings": side_by_side(
            correlations, ("first", "second"), "place", ("correlation", "low", "high")
        ),
        "pairs": side_by_side(
            absolute[~absolute.place.str.startswith(SECOND)],
            ("protocol", "method"),
            "place",
            ("raw_minus_absolute", "low", "high"),
        ),
        "correlations": correlations,
        "absolute": absolute,
        "scores": scores,
    }


def _agreements(agreement: "pd.DataFrame") -> "pd.DataFrame":
    here = agreement[agreement.maps == ALL]
    places = here.place + ", " + here.output
    return side_by_side(
        here.assign(place=places), ("protocol",), "place", ("f1", "f1_low", "f1_high")
    )


def _reproduction(
    item: str,
    tables: "dict[str, pd.DataFrame]",
    more: "dict[str, Figure]",
    findings: list[str],
) -> Reproduction:
    title, shown, first = ITEMS[item]
    figures = _score_figures(tables["scores"]) | more
    order = dict.fromkeys([first, *figures] if first in figures else figures)
    return Reproduction(
        item=item,
        title=title,
        tables=tables,
        figures={name: figures[name] for name in order},
        findings=findings,
        shown={name: SHOWN[name] for name in shown if name in tables},
    )


def _score_figures(scores: "pd.DataFrame") -> "dict[str, Figure]":
    """Figure 2's three parts, with a panel for each place."""
    methods = [*LEGEND.values(), *INTRINSIC.values()]
    shown = [each for each in methods if each in set(scores.method)]
    places = [each for each in dict.fromkeys(scores.place) if not each.startswith(SECOND)]
    parts = {
        "idsds": ("IDSDS (Figure 2a)", (IDSDS,), "Spearman's correlation\n(higher is better)"),
        "updates": (
            "IDS with fixed and with updated maps (Figure 2b)",
            (ALIGNED_IDS, IDS, UPDATED_IDS),
            "probability of the label\n(higher is better)",
        ),
        "protocols": (
            "Protocols side by side (Figure 2c)",
            (IDSDS, SDS, PARTS),
            "Spearman's correlation\n(higher is better)",
        ),
    }
    figures = {}
    for key, (title, protocols, label) in parts.items():
        panels = [
            ScorePanel(place, label, _dots(scores[scores.place == place], protocols, shown))
            for place in places
        ]
        panels = [panel for panel in panels if panel.scores]
        drawn = {name for panel in panels for of_one in panel.scores.values() for name in of_one}
        if panels:
            rows = [name for name in shown if name in drawn]
            figures[key] = method_scores_figure([panels], rows, f"{title}; lines: 95 % intervals")
    return figures


def _dots(
    scores: "pd.DataFrame", protocols: Sequence[str], methods: Sequence[str]
) -> dict[str, dict[str, ScoreDot]]:
    dots: dict[str, dict[str, ScoreDot]] = {}
    for protocol in protocols:
        here = scores[(scores.protocol == protocol) & scores.method.isin(methods)]
        here = here[here["mean"].notna()]
        if len(here):
            dots[protocol] = {
                row.method: ScoreDot(row.mean, row.low, row.high)
                for row in here[["method", "mean", "low", "high"]].itertuples()
            }
    return dots


def _truth_figure(agreement: "pd.DataFrame") -> "Figure":
    here = agreement[agreement.maps == ALL]
    conditions = list(dict.fromkeys(here.protocol))
    labels = {"f1": "F1 of the masks", "cells": "exact Shapley values of cells"}
    panels: dict[str, dict[str, list[Agreement]]] = {}
    for truth, label in labels.items():
        of_truth = panels.setdefault(label, {})
        for (place, output), group in here.groupby(["place", "output"], sort=False):
            rows: Any = group.set_index("protocol").reindex(conditions)
            of_truth[f"{place}, {output}"] = [
                Agreement(*values)
                for values in rows[[truth, f"{truth}_low", f"{truth}_high"]].to_numpy()
            ]
    return agreements_figure(
        panels, conditions, "Does a protocol rank maps as the truth does? (lines: 95 % intervals)"
    )
