"""Figure 2 and Tables 1 and 4 to 7: protocols that delete, side by side and held against the truth."""

from typing import Unpack

import pandas as pd
from matplotlib.figure import Figure

from attributionlab.base import FEWEST_FOR_ORDER, AttributionLabError
from attributionlab.papers.answers import decided, every
from attributionlab.papers.catalog import Check, Found, Run, Tables
from attributionlab.papers.idsds import protocol_tables
from attributionlab.papers.idsds.maps import refused_rows
from attributionlab.papers.idsds.protocol_scores import (
    ALIGNED_IDS,
    ENVIRONMENTS,
    IDS,
    IDSDS,
    INTRINSIC,
    PARTS,
    SDS,
    STRENGTHS,
    UPDATED_IDS,
    Scale,
    dosed,
    environment_scores,
    pair_scores,
    trained_scores,
)
from attributionlab.papers.idsds.training import given_pair
from attributionlab.papers.subjects.subjects import OwnNetwork
from attributionlab.show import dots

TABLE_1, TABLE_7 = "idsds-table-1", "idsds-table-7"

ALIKE = 0.7
"""Spearman's correlation from which two rankings are called much alike here."""

SCALE = Scale(networks=3, training=1500, images=20, epochs=12, fine_tuning=6, updated=8, steps=32)
QUICK_SCALE = Scale(networks=1, training=200, images=5, epochs=3, fine_tuning=1, updated=2, steps=4)
MASKS, QUICK_MASKS = 1500, 200
MODULO_IMAGES = 50


def idsds_protocols(
    run: Run, *, fine_tuned: str | None = None, layer: str | None = None, **own: Unpack[OwnNetwork]
) -> Found:
    """Score the panel's maps by IDSDS, SDS, IDS and single deletion of parts, and compare protocols.

    `run.n` are images of each environment and output, or of each class of given images. Of a user's
    classifier (`OwnNetwork`; `size` is a multiple of 4), `fine_tuned` is a file with its weights
    after training on images of which half lack a cell (`attributionlab.metrics.patch_deleted`),
    with the mean color in its place, without which there is no IDSDS; `layer` is the dotted name of
    the module for rows that explain by a layer, which are left out without.
    """
    given = given_pair(run, fine_tuned, layer, both=False, **own)
    if given is None:
        tables = run.once("ours", lambda: _tables_of_ours(run))
        return Found(tables, _figures(tables))
    if run.item in (TABLE_1, TABLE_7):
        raise AttributionLabError(
            f"{run.item} needs networks whose truth is known, or images whose parts are: leave images "
            "and model out"
        )
    subject, tuned = given
    scale = SCALE._replace(**({"updated": 2, "steps": 8} if run.quick else {}))
    scores = pair_scores(subject, tuned, [layer, layer], scale, run.seed, quick=run.quick)
    tables = protocol_tables.score_tables(scores.assign(place=subject.name, network=0), run.seed)
    left_out = refused_rows(subject.model, subject.images, subject.targets)
    return Found(tables, _figures(tables), [*subject.notes, *left_out])


def _tables_of_ours(run: Run) -> dict[str, pd.DataFrame]:
    how = {"quick": run.quick, "show_progress": run.show_progress}
    known = [
        environment_scores(name, output, run.n, run.seed, **how)
        for name in ENVIRONMENTS
        for output in ("logit", "probability")
    ]
    scale, masks = (QUICK_SCALE, QUICK_MASKS) if run.quick else (SCALE, MASKS)
    learned, networks, (task, pair) = trained_scores(scale, run.seed, **how)
    of_environments, unseen = (
        pd.concat(each, ignore_index=True) for each in zip(*known, strict=True)
    )
    leaked = protocol_tables.leaks(task, pair.original, masks, run.seed)
    agreement = protocol_tables.agreement_table(of_environments, run.seed)
    of_all = agreement[agreement.maps == protocol_tables.ALL]
    accuracies = networks.drop(columns="network").groupby(["place", "family"], sort=False).mean()
    tables = {
        **protocol_tables.score_tables(
            pd.concat([of_environments, learned], ignore_index=True), run.seed
        ),
        "agreement": agreement,
        "agreements": protocol_tables.side_by_side(
            of_all.assign(place=of_all.place + ", " + of_all.output),
            *(["protocol"], ("f1", "f1_low", "f1_high")),
        ),
        "properties": protocol_tables.properties_table(
            unseen, leaked, protocol_tables.recalibration(task, pair, run.seed)
        ),
        "domain": protocol_tables.domain_table(unseen),
        "modulo": protocol_tables.modulo_table(MODULO_IMAGES, run.seed),
        "intrinsic": protocol_tables.intrinsic_table(learned, run.seed),
        "networks": networks,
        "accuracy": accuracies.reset_index(),
    }
    return tables | {"above": protocol_tables.above_table(tables["scores"])}


# Figures


def _figures(tables: Tables) -> dict[str, Figure]:
    """Draw Figure 2's three parts, with a panel for each place, and agreement with the truth."""
    scores = tables["scores"]
    shown = [*protocol_tables.METHODS, *INTRINSIC.values()]
    scores = scores[~scores.place.str.startswith(protocol_tables.SECOND) & scores["mean"].notna()]
    scores = scores[scores.method.isin(shown)]
    correlation = "Spearman's correlation (higher is better)"
    parts = {
        "idsds": ("IDSDS (Figure 2a)", (IDSDS,), correlation),
        "updates": (
            "IDS with fixed and with updated maps (Figure 2b)",
            (ALIGNED_IDS, IDS, UPDATED_IDS),
            "probability of the label (higher is better)",
        ),
        "protocols": ("Protocols side by side (Figure 2c)", (IDSDS, SDS, PARTS), correlation),
    }
    figures = {}
    for name, (title, protocols, xlabel) in parts.items():
        here = scores[scores.protocol.isin(protocols)]
        # Panels, colors and lines come in the order of the rows.
        keys = {"method": shown, "protocol": protocols, "place": list(dict.fromkeys(scores.place))}
        here = here.sort_values(list(keys), key=lambda c: c.map(keys[c.name].index))
        if len(here):
            figures[name] = dots(
                *(here, "mean", "method"),
                color="protocol",
                panel="place",
                title=f"{title}; lines: 95 % intervals",
                xlabel=xlabel,
                columns=4,
                reference=0,
            )
    if "agreement" in tables:
        figures["truth"] = _truth_figure(tables["agreement"])
    return figures


def _truth_figure(agreement: pd.DataFrame) -> Figure:
    of_all = agreement[agreement.maps == protocol_tables.ALL]
    truths = {"f1": "F1 of the masks", "cells": "exact Shapley values of cells"}
    of_all = of_all.assign(network=of_all.place + ", " + of_all.output)
    parts = [
        of_all.rename(
            columns={truth: "value", f"{truth}_low": "low", f"{truth}_high": "high"}
        ).assign(truth=f"by {label}")
        for truth, label in truths.items()
    ]
    return dots(
        *(pd.concat(parts), "value", "protocol"),
        color="network",
        panel="truth",
        title="Does a protocol rank maps as the truth does? (lines: 95 % intervals)",
        xlabel="Spearman with the truth's ranking (1 is best)",
        reference=0,
    )


# Claims


def _as_wanted(better: pd.Series, wanted: str) -> bool | None:
    """Say whether all are better as wanted, or one is the opposite; None where neither is."""
    holds = len(better) and (better == wanted).all()
    return decided(holds, ((better != wanted) & (better != "")).any())


def _better(table: str, wanted: str, *methods: str) -> Check:
    """What says whether these methods' differences are as wanted, None without the table."""

    def check(tables: Tables) -> bool | None:
        if table not in tables:
            return None
        rows = tables[table]
        return _as_wanted(rows.better[rows.method.isin(methods)], wanted)

    return check


def _best(protocol: str, *best: str) -> Check:
    """What says whether methods score higher than all others in each place, by intervals."""

    def check(tables: Tables) -> bool | None:
        scores = tables["scores"]
        here = scores[(scores.protocol == protocol) & scores.method.isin(protocol_tables.METHODS)]
        here = here[here["mean"].notna() & (here.units >= FEWEST_FOR_ORDER)]
        ahead, behind = [], []
        for _, part in here.groupby("place"):
            own, others = part[part.method.isin(best)], part[~part.method.isin(best)]
            ahead.append(own.low.min() > others.high.max())
            behind.append(own.high.min() < others.low.max())
        return decided(ahead and all(ahead), any(behind))

    return check


def _as_published(tables: Tables, name: str) -> pd.DataFrame:
    """What was measured of a property, with `right` where it comes out as in Table 1."""
    table = tables["properties"]
    here = table[(table.property == name) & table.paper.isin(("yes", "no")) & (table.ours != "")]
    return here.assign(right=here.ours == here.paper)


ig_from_noise_is_best = _best(IDSDS, "IG-U")
noise_is_better_for_ig = _better("noise", "noise", "IG-U")
noise_is_worse_for_rise = _better("noise", "baseline", "RISE-U")


def raw_is_better_under_idsds(tables: Tables) -> bool | None:
    table = tables["absolute"]
    here = table[(table.protocol == IDSDS) & table.method.isin(("IG", "IG-U"))]
    # Where nothing speaks against the label, both maps are the same.
    return _as_wanted(here[here.raw_minus_absolute.abs() > protocol_tables.SAME].better, "raw")


def absolute_is_better_under_ids(tables: Tables) -> bool | None:
    table = tables["absolute"]
    found = {name: _as_wanted(part.better, "absolute") for name, part in table.groupby("protocol")}
    others = [found[name] for name in (IDSDS, SDS, PARTS) if name in found]
    return False if found[IDS] is False or any(others) else found[IDS]


updating_raises_ids_of_raw_maps = _better("gains", "updated", "IxG", "IG", "IG-U")
CAMS = ("Grad-CAM", "XGrad-CAM")


def cams_are_best_under_ids_and_sds(tables: Tables) -> bool | None:
    return every(_best(IDS, *CAMS)(tables), _best(SDS, *CAMS)(tables))


ig_is_best_under_parts = _best(PARTS, "IG")


def sds_ranks_as_idsds(tables: Tables) -> bool | None:
    table = tables["correlations"]
    here = table[(table["first"] == IDSDS) & (table.second == SDS) & (table.place != "paper")]
    return decided(len(here) and (here.low >= ALIKE).all(), (here.high < ALIKE).any())


networks_that_explain_themselves_are_ahead = _better("intrinsic", "first", *INTRINSIC.values())


def leaks_are_as_published(tables: Tables) -> bool | None:
    wrong = _as_published(tables, protocol_tables.TIGHT).query("not right")
    # Few masks, as in a quick run, do not show that anything leaks: that decides nothing.
    return decided(wrong.empty, (wrong.ours != "yes").any())


def equal_cells_leave_ranks_alone(tables: Tables) -> bool | None:
    if "agreement" not in tables:
        return None
    rows = _agreement(tables, "logit")
    return bool((rows["f1", SDS] == rows["f1", IDSDS]).all())


def leaving_the_domain_harms(tables: Tables) -> bool | None:
    if "agreement" not in tables:
        return None
    return every(_agrees_less(tables, IDS), _agrees_less(tables, dosed(STRENGTHS[-1])))


def _agreement(tables: Tables, output: str) -> pd.DataFrame:
    """Agreement with the F1 of all maps: a row for each environment, columns by protocol."""
    table = tables["agreement"]
    here = table[(table.maps == protocol_tables.ALL) & (table.output == output)]
    return here.pivot(
        index="place", columns="protocol", values=["f1", "f1_low", "f1_high", "images"]
    )


def _agrees_less(tables: Tables, protocol: str) -> bool | None:
    rows = _agreement(tables, "probability")
    if rows["images"][[protocol, IDSDS]].min().min() < FEWEST_FOR_ORDER:
        return None
    return decided(
        (rows["f1_high", protocol] < rows["f1_low", IDSDS]).all(),
        (rows["f1_low", protocol] > rows["f1_high", IDSDS]).any(),
    )
