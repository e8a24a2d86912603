"""What a faithfulness test found, as an object, a table and a file."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attributionlab.assess import Hint, Verdict, across, gamma_curve
from attributionlab.files import write_atomically, write_csv, write_parquet
from attributionlab.results import SCORES, EnvironmentResult, ends, hint_document, plain

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FaithfulnessReport", "labelled"]

GRAVEST_FIRST: tuple[Verdict, ...] = ("invalid", "fail", "inconclusive")
"""A control with the wrong result says something about the test, before the test says anything."""


@dataclass(frozen=True, eq=False)
class FaithfulnessReport:
    """The outcome of a faithfulness test. Passing is necessary for faithfulness, never sufficient.

    Parameters
    ----------
    claim : str
        What was tested: "signed", "overall", "positive", "positive-smoothed" or "agreed".
    gamma : float
        The F1 that must be reached.
    method : str
        The method's name.
    settings : dict
        What the user set.
    preset : str or None
        Whose settings hold apart from these.
    seed, n : int
        Which images, and how many of each environment.
    environments : list of EnvironmentResult
        One per environment.
    warnings : list of str
        What was accepted although it is unusual.
    command : str
        How to run it again.
    versions : dict of str to str
        Of the libraries, with the number of threads.
    """

    claim: str
    gamma: float
    method: str
    settings: Mapping[str, Any]
    preset: str | None
    seed: int
    n: int
    environments: list[EnvironmentResult]
    warnings: list[str]
    command: str
    versions: Mapping[str, str]

    def __repr__(self) -> str:
        from attributionlab.report import as_text, report_table

        return as_text(report_table(self.to_dict()))

    def _repr_html_(self) -> str:
        from attributionlab.report import report_fragment

        return report_fragment(self.to_dict())

    @property
    def verdict(self) -> Verdict:
        """A pass if every environment passes (AttributionLab, eq. 2); otherwise the gravest of
        "invalid", "fail" and "inconclusive" among them.
        """
        found = {result.verdict for result in self.environments}
        return next((verdict for verdict in GRAVEST_FIRST if verdict in found), "pass")

    @property
    def least(self) -> EnvironmentResult:
        """The environment with the lowest F1 of the claim, on which eq. 2 rests."""
        return min(self.environments, key=lambda result: result.claim_f1)

    @property
    def hints(self) -> list[Hint]:
        """What is likely wrong, over all environments, the most important first."""
        found = [result.evidence for result in self.environments if result.evidence is not None]
        return list(across(found))

    @property
    def label(self) -> str:
        """The method with what the user set."""
        return labelled(self.method, self.settings)

    def to_frame(self) -> "pd.DataFrame":
        """One row per environment, image and part: precision, recall and F1 (NaN: not applicable).

        `spec` tells environments of one name with different constants apart.
        """
        import pandas as pd

        rows = [
            pd.DataFrame(
                {
                    "method": self.method,
                    "environment": result.name,
                    "spec": result.digest[:8],
                    "output": result.output,
                    "part": part,
                    "sample": np.arange(self.n),
                    **{score: values[score] for score in SCORES},
                }
            )
            for result in self.environments
            for part, values in result.scores.items()
        ]
        return pd.concat(rows, ignore_index=True)

    def to_gamma_frame(self) -> "pd.DataFrame":
        """One row for each environment and gamma, from 0.01 to 1 in steps of 0.01: the share of images
        whose F1 reaches it, and the verdict that it would give.
        """
        import pandas as pd

        gammas = np.arange(1, 101) / 100
        rows = [
            pd.DataFrame(
                {
                    "method": self.method,
                    "environment": result.name,
                    "spec": result.digest[:8],
                    "part": result.claim_part,
                    "gamma": gammas,
                    "share": gamma_curve(result.scores[result.claim_part]["f1"], gammas),
                    "verdict": [result.standing.verdict(float(gamma)) for gamma in gammas],
                }
            )
            for result in self.environments
        ]
        return pd.concat(rows, ignore_index=True)

    def to_dict(self) -> dict[str, Any]:
        """The document that `to_json` writes."""
        return {
            "schema": 1,
            "verdict": self.verdict,
            "claim": self.claim,
            "gamma": self.gamma,
            "seed": self.seed,
            "n": self.n,
            "method": self.method,
            "settings": {key: plain(value) for key, value in self.settings.items()},
            "preset": self.preset,
            "versions": dict(self.versions),
            "command": self.command,
            "warnings": list(self.warnings),
            "least": {
                "environment": self.least.name,
                "claim_f1": self.least.claim_f1,
                "claim_ci": ends(self.least.claim_interval),
            },
            "hints": [hint_document(hint) for hint in self.hints],
            "controls": {
                name: [
                    {"environment": result.name, **result.controls[name]._asdict()}
                    for result in self.environments
                ]
                for name in self.environments[0].controls
            },
            "environments": [result.to_dict() for result in self.environments],
        }

    def to_json(self, path: str | Path) -> None:
        """Write the means and everything needed to run it again; whole or not at all."""
        text = json.dumps(self.to_dict(), indent=2, allow_nan=False, ensure_ascii=False)
        write_atomically(path, text + "\n")

    def to_html(self, path: str | Path) -> None:
        """Write one self-contained page: the verdict, how the method fails, sample images."""
        from attributionlab.report import Panel, faithfulness_page

        panels = [
            Panel(result.examples, result.scores[result.claim_part]["f1"])
            for result in self.environments
        ]
        write_atomically(path, faithfulness_page(self.to_dict(), panels))

    def to_csv(self, path: str | Path) -> None:
        """Write the table of `to_frame`."""
        write_csv(path, self.to_frame())

    def to_parquet(self, path: str | Path) -> None:
        """Write the table of `to_frame`."""
        write_parquet(path, self.to_frame())


def labelled(method: str, settings: Mapping[str, Any]) -> str:
    """A method's name with its settings."""
    said = ", ".join(f"{key}={plain(value)}" for key, value in settings.items())
    return f"{method} ({said})" if said else method
