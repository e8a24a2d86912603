"""What an experiment yields: tables, figures, and sentences that say what they mean."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attributionlab.files import make_folder, write_atomically
from attributionlab.report import to_png
from attributionlab.versions import library_versions

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Reproduction:
    """The outcome of an experiment.

    Parameters
    ----------
    item : str
        Its name, such as "table-1".
    title : str
        What it shows.
    tables : mapping of str to DataFrame
        Tidy tables by name.
    figures : mapping of str to Figure
        By name.
    findings : list of str
        What the paper says, what was measured here, and why they differ.
    shown : mapping of str to str
        The tables that a terminal has room for, and how to read each; without any, all short ones.
    run : mapping
        What it was run with: n, quick, seed and settings.
    claims : list of mapping
        What the paper says, each with its `place`, whether the tables agree (`here`), and why not.
    """

    item: str
    title: str
    tables: Mapping[str, "pd.DataFrame"]
    figures: Mapping[str, "Figure"]
    findings: list[str]
    shown: Mapping[str, str] = field(default_factory=dict)
    run: Mapping[str, Any] = field(default_factory=dict)
    claims: list[dict[str, str]] = field(default_factory=list)

    def save(self, folder: str | Path, command: str) -> list[Path]:
        """Write tables (CSV), figures (PNG) and a summary (JSON) into a folder, made where missing.

        Returns
        -------
        list of Path
            What was written.
        """
        folder = make_folder(folder)
        summary: dict[str, Any] = {
            "schema": 1,
            "item": self.item,
            "title": self.title,
            "findings": self.findings,
            "claims": self.claims,
            "run": dict(self.run),
            "command": command,
            "versions": library_versions(),
        }
        files: dict[str, str | bytes] = {
            f"{self.item}.json": json.dumps(
                summary, indent=2, allow_nan=False, ensure_ascii=False, default=str
            )
            + "\n"
        }
        files |= {
            f"{self.item}-{name}.csv": t.to_csv(index=False) for name, t in self.tables.items()
        }
        files |= {
            f"{self.item}-{name}.png": to_png(figure) for name, figure in self.figures.items()
        }
        for name, content in files.items():
            write_atomically(folder / name, content)
        return [folder / name for name in files]
