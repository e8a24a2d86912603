"""Panels on photographs beside what AttributionLab's figures 5, 6 and 7 show of environments."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

from attributionlab.papers.attributionlab.photographs.pictured import Pictured
from attributionlab.papers.reproduction import Reproduction
from attributionlab.report.photographs import PhotographRow, photographs_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

DRAWN_IMAGES = 3


class Panel(NamedTuple):
    """Tables, figures and findings beside those of an experiment, and how to read the tables."""

    tables: Mapping[str, "pd.DataFrame"]
    figures: Mapping[str, "Figure"]
    findings: list[str]
    shown: Mapping[str, str]


def with_panel(outcome: Reproduction, panel: Panel, pictured: list[Pictured]) -> Reproduction:
    """An experiment with a panel behind its own tables, figures and findings."""
    notes = [note for each in pictured for note in each.subject.notes]
    shown = outcome.shown or {"summary": "means over images", "verdicts": "F1 held against gamma"}
    tables = {**outcome.tables, **panel.tables}
    return replace(
        outcome,
        tables=tables,
        figures={**outcome.figures, **panel.figures},
        findings=[*outcome.findings, *notes, *panel.findings],
        shown={name: how for name, how in {**shown, **panel.shown}.items() if name in tables},
    )


def panel_figure(pictured: Pictured, maps: Mapping[str, Tensor], title: str) -> "Figure":
    """The maps of the first images, by name."""
    subject, objects = pictured
    rows = [
        PhotographRow(
            (subject.images[index] / subject.highest).numpy(),
            {name: each[index, 0].numpy() for name, each in maps.items()},
            {},
            region=None if objects is None else objects[index, 0].numpy(),
        )
        for index in range(min(DRAWN_IMAGES, len(subject.images)))
    ]
    return photographs_figure(rows, f"{title}: {subject.name}")
