"""What a faithfulness test found, as an object, a table and a file."""

import json
import math
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributionlab.files import write_atomically

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "EnvironmentResult",
    "Example",
    "FaithfulnessReport",
    "Verdict",
    "labelled",
    "library_versions",
]

Verdict = Literal["pass", "fail", "inconclusive", "invalid"]
SCORES = ("precision", "recall", "f1")


class Example(NamedTuple):
    """One image of a test, for looking at: that with the median F1 of the claim."""

    sample: int
    image: NDArray[np.float32]
    """(C, H, W), integers from 0 to `highest`."""
    highest: int
    truth: NDArray[np.int8]
    """(H, W), -1, 0, +1"""
    attribution: NDArray[np.float32]
    """(H, W), normalized to [-1, 1]"""


@dataclass(frozen=True, eq=False)
class EnvironmentResult:
    """What a method scored in one environment.

    Parameters
    ----------
    name, output, truth_output : str
        Environment, which of its outputs was explained, and which one the truth is about.
    settings : dict
        Of the method here, a preset's included.
    verdict : {"pass", "fail"}
        Whether `claim_f1` reaches gamma.
    claim_f1 : float
        Mean F1 of the part that the claim rests on.
    claim_part : str
        That part; for the claim "signed" the part with the lowest mean F1.
    scores : dict of str to dict of str to array
        For each part ("overall", "positive", "negative" and, if claimed, "positive-smoothed")
        precision, recall and F1 of each image, NaN where not applicable.
    temperature : float or None
        Of the softmax, where there is one.
    digest : str
        Hash of the environment's specification.
    constants : dict
        Its constants, overrides included.
    ceiling : float or None
        For "positive-smoothed", the mean F1 of the best possible map.
    seconds : float
        That the method took for an image.
    completeness_gap : array or None
        For methods whose attributions claim to sum to an output change: per image, the share of that
        change which they miss.
    attributions : array
        (n, H, W), normalized to [-1, 1].
    example : Example
        The image with the median F1.
    """

    name: str
    output: str
    truth_output: str
    settings: Mapping[str, Any]
    verdict: Verdict
    claim_f1: float
    claim_part: str
    scores: Mapping[str, Mapping[str, NDArray[np.float64]]] = field(repr=False)
    temperature: float | None
    digest: str
    constants: Mapping[str, Any] = field(repr=False)
    ceiling: float | None
    seconds: float
    completeness_gap: NDArray[np.float64] | None = field(repr=False)
    attributions: NDArray[np.float32] = field(repr=False)
    example: Example = field(repr=False)

    def mean(self, part: str, score: str) -> float | None:
        """Mean over the images to which it applies, None without any."""
        values = self.scores[part][score]
        applicable = values[~np.isnan(values)]
        return float(applicable.mean()) if len(applicable) else None

    def to_dict(self) -> dict[str, Any]:
        """As in the JSON file: numbers, None for what does not apply."""
        document: dict[str, Any] = {
            "name": self.name,
            "output": self.output,
            "truth_output": self.truth_output,
            "settings": {key: _plain(value) for key, value in self.settings.items()},
            "verdict": self.verdict,
            "claim_f1": self.claim_f1,
            "claim_part": self.claim_part,
            "seconds_per_image": self.seconds,
            "temperature": self.temperature,
            "spec": self.digest,
            "constants": json.loads(json.dumps(dict(self.constants))),  # lists, as in the file
        }
        for part in self.scores:
            means = {score: self.mean(part, score) for score in SCORES}
            document[part] = None if means["f1"] is None else means
        if self.ceiling is not None:
            document["ceiling_f1"] = self.ceiling
        if self.median_gap is not None:
            document["completeness_gap"] = self.median_gap
        return document

    @property
    def median_gap(self) -> float | None:
        """The completeness gap of the median image, None where nobody looked or it is not finite."""
        if self.completeness_gap is None:
            return None
        median = float(np.median(self.completeness_gap))
        return median if math.isfinite(median) else None


@dataclass(frozen=True, eq=False)
class FaithfulnessReport:
    """The outcome of a faithfulness test. Passing is necessary for faithfulness, never sufficient.

    Parameters
    ----------
    verdict : {"pass", "fail"}
        "pass" if every environment passes.
    claim : str
        What was tested: "signed", "overall", "positive" or "positive-smoothed".
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

    verdict: Verdict
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
            "settings": {key: _plain(value) for key, value in self.settings.items()},
            "preset": self.preset,
            "versions": dict(self.versions),
            "command": self.command,
            "warnings": list(self.warnings),
            "environments": [result.to_dict() for result in self.environments],
        }

    def to_json(self, path: str | Path) -> None:
        """Write the means and everything needed to run it again; whole or not at all."""
        text = json.dumps(self.to_dict(), indent=2, allow_nan=False, ensure_ascii=False)
        write_atomically(path, text + "\n")


def labelled(method: str, settings: Mapping[str, Any]) -> str:
    """A method's name with its settings."""
    said = ", ".join(f"{key}={_plain(value)}" for key, value in settings.items())
    return f"{method} ({said})" if said else method


def _plain(value: Any) -> Any:
    plain = isinstance(value, bool | int | str | None)
    return value if plain or (isinstance(value, float) and math.isfinite(value)) else repr(value)


def library_versions() -> dict[str, str]:
    """Versions of what a result depends on, and the number of threads."""
    from importlib.metadata import version

    import torch

    import attributionlab

    libraries = ("torch", "captum", "numpy", "scipy", "scikit-image", "scikit-learn", "pandas")
    return {
        "attributionlab": attributionlab.__version__,
        "python": platform.python_version(),
        **{name: version(name) for name in libraries},
        "threads": str(torch.get_num_threads()),
    }
