"""A method against every definition of the truth, as a table for the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from attributionlab.report.reading import first_images, labels

TRUTH_COLUMNS = {
    "rank_correlation": "rank corr.",
    "cosine": "cosine",
    "sign_agreement": "signs",
    "sum_gap": "sum gap",
}
"""Heading of each score."""


def truths_table(environments: Sequence[Mapping[str, Any]]) -> RenderableType | None:
    """One row for each environment and definition, None where no definition was asked about."""
    if not any(result["truths"] for result in environments):
        return None
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("environment", overflow="fold")
    table.add_column("definition of the truth", no_wrap=True)
    for heading in TRUTH_COLUMNS.values():
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("known by", no_wrap=True)
    for place, result in zip(labels(environments), environments, strict=True):
        for index, scores in enumerate(result["truths"]):
            table.add_row(
                Text(place if index == 0 else ""),
                Text(scores["definition"]),
                *(truth_score_text(name, scores[name]) for name in TRUTH_COLUMNS),
                Text(scores["source"]),
            )
    legend = (
        f"Against each definition of the truth ({first_images(environments[0])}): Spearman's "
        "correlation and cosine over all pixels; share of the pixels with a value whose sign is right; "
        "sum gap: what the attributions' sum misses of the definition's, as a share of it (only "
        "methods that distribute the output aim at 0). No part of the verdict."
    )
    return Group(table, Text(legend, style="dim"))


def truth_score_text(name: str, value: float | None) -> str:
    """A score as it is printed: gaps in percent, nothing where it is not defined."""
    if value is None:
        return ""
    if name == "sum_gap":
        return f"{value:.0%}" if value < 99.995 else "> 9,999%"
    return f"{value:.2f}"
