"""Methods side by side: every method in every environment, on the same images, in one table."""

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from attributionlab.assess import CONTROLS
from attributionlab.catalog import as_environments, load
from attributionlab.environment import Environment
from attributionlab.errors import AttributionLabError, AttributionWarning
from attributionlab.faithfulness import DEFAULT_ENVIRONMENTS, faithfulness_test
from attributionlab.files import write_atomically
from attributionlab.methods import METHODS, as_method
from attributionlab.metrics import Part
from attributionlab.progress import track
from attributionlab.results import (
    SCORES,
    EnvironmentResult,
    FaithfulnessReport,
    labelled,
    library_versions,
)
from attributionlab.trial import Claim
from attributionlab.truth import Output

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["QUICK_SIZE", "Comparison", "Refusal", "compare"]

QUICK_SIZE = 72
"""Image side of a quick comparison."""


@dataclass(frozen=True)
class Refusal:
    """A method that could not be run in an environment, and why."""

    method: str
    environment: str
    reason: str


@dataclass(frozen=True, eq=False)
class Comparison:
    """What several methods scored in several environments.

    Parameters
    ----------
    reports : list of FaithfulnessReport
        One for each method and environment that could be run, each with one environment.
    refusals : list of Refusal
        The others.
    gamma : float
        The F1 that must be reached.
    environments : list of Environment
        Where.
    command : str
        How to run it again.
    """

    reports: list[FaithfulnessReport]
    refusals: list[Refusal]
    gamma: float
    environments: list[Environment]
    command: str

    @property
    def results(self) -> list[tuple[FaithfulnessReport, EnvironmentResult]]:
        """Every report with its one environment's result."""
        return [(report, result) for report in self.reports for result in report.environments]

    def to_frame(self) -> "pd.DataFrame":
        """One row for each method, environment and part.

        Columns: method, environment, spec, output, truth_output, part, precision, recall, f1 (means
        over images, NaN where not applicable), reaches_gamma, claim, verdict, completeness_gap (the
        median), seconds_per_image, n, seed.
        """
        import pandas as pd

        rows = [
            {
                "method": report.label,
                "environment": result.name,
                "spec": result.digest[:8],
                "output": result.output,
                "truth_output": result.truth_output,
                "part": part,
                **{score: result.mean(part, score) for score in SCORES},
                "reaches_gamma": None if f1 is None else f1 >= self.gamma,
                "claim": report.claim,
                "verdict": result.verdict,
                "completeness_gap": result.median_gap,
                "seconds_per_image": result.seconds,
                "n": report.n,
                "seed": report.seed,
            }
            for report, result in self.results
            for part in result.scores
            for f1 in [result.mean(part, "f1")]
        ]
        types = {**dict.fromkeys((*SCORES, "completeness_gap"), float), "reaches_gamma": "boolean"}
        return pd.DataFrame(rows).astype(types)

    def summary(self) -> "pd.DataFrame":
        """One row for each method and environment: overall precision, recall and F1, F1 of the positive
        and negative part, completeness gap, and the verdict on the method's claim.
        """
        import pandas as pd

        rows = [
            {
                "environment": result.name,
                "method": report.label,
                **{score: result.mean("overall", score) for score in SCORES},
                **{f"f1_{part}": result.mean(part, "f1") for part in ("positive", "negative")},
                "gap": result.median_gap,
                "claim": report.claim,
                "claim_f1": result.claim_f1,
                "verdict": result.verdict,
            }
            for report, result in self.results
        ]
        numbers = (*SCORES, "f1_positive", "f1_negative", "gap")
        return pd.DataFrame(rows).astype(dict.fromkeys(numbers, float))

    def to_dict(self) -> dict[str, Any]:
        """The document that `to_json` writes."""
        return {
            "schema": 1,
            "gamma": self.gamma,
            "results": [
                {
                    "method": report.label,
                    "claim": report.claim,
                    "n": report.n,
                    "seed": report.seed,
                    "preset": report.preset,
                    **result.to_dict(),
                    "warnings": report.warnings,
                }
                for report, result in self.results
            ],
            "refused": [vars(refusal) for refusal in self.refusals],
            "command": self.command,
            "versions": library_versions(),
        }

    def to_json(self, path: str | Path) -> None:
        """Write everything but the maps; whole or not at all."""
        text = json.dumps(self.to_dict(), indent=2, allow_nan=False, ensure_ascii=False)
        write_atomically(path, text + "\n")

    def to_csv(self, path: str | Path) -> None:
        """Write the table of `to_frame`."""
        write_atomically(path, self.to_frame().to_csv(index=False))

    def to_parquet(self, path: str | Path) -> None:
        """Write the table of `to_frame`."""
        import io

        buffer = io.BytesIO()
        self.to_frame().to_parquet(buffer, index=False)
        write_atomically(path, buffer.getvalue())

    def violins(self) -> "Figure":
        """The spread of precision, recall and F1 over images: a row for each environment and part."""
        from attributionlab.report import violins_figure

        rows = {
            f"{env.name}: {part}": {
                report.label: result.scores[part]
                for report, result in self.results
                if result.name == env.name and result.mean(part, "f1") is not None
            }
            for env in self.environments
            for part in get_args(Part)
        }
        return violins_figure({name: row for name, row in rows.items() if row}, self.gamma)

    def maps(self, images: int = 3) -> "Figure":
        """The first images of each environment with their truth and every method's attributions."""
        from attributionlab.report import MapsRow, maps_figure

        rows = []
        for env in self.environments:
            shown = [(report, result) for report, result in self.results if result.name == env.name]
            if not shown:
                continue
            report, result = shown[0]
            pictures, labels = env.batch(min(images, report.n), report.seed)
            truth = env.truth(
                pictures, env.targets(labels), env.checked_output(result.truth_output)
            )
            rows += [
                MapsRow(
                    env.name if index == 0 else "",
                    picture.numpy(),
                    env.max_value,
                    truth.signed[index, 0].numpy(),
                    {report.label: result.attributions[index] for report, result in shown},
                )
                for index, picture in enumerate(pictures)
            ]
        return maps_figure(rows)


def compare(
    methods: Sequence[Any] | None = None,
    environments: Sequence[str | Environment] | str | Environment | None = None,
    n: int = 4,
    seed: int = 0,
    gamma: float = 0.5,
    claim: Claim | None = None,
    output: Output | None = None,
    *,
    preset: str | None = "paper",
    quick: bool = False,
    device: str | None = None,
    show_progress: bool = False,
    command: str | None = None,
) -> Comparison:
    """Run attribution methods side by side on the same images.

    A method that cannot be run somewhere (it needs a classifier, weights, a library) is listed with the
    reason; the others go on.

    Parameters
    ----------
    methods : sequence, optional
        What `faithfulness_test` takes; a pair (method, settings) sets its settings. All built-in
        methods and the controls "random" and "constant" by default.
    environments : str, Environment, or a sequence of them, optional
        Where; the default environments of `faithfulness_test` without any.
    n, seed, gamma, claim, output
        As for `faithfulness_test`; without a claim each method is judged by its own.
    preset : {"paper"} or None
        Settings that a paper states for a method.
    quick : bool
        Images of 72 x 72 pixels; environments are then given by name.
    device : str, optional
        "cpu" or "cuda".
    show_progress : bool
        Show progress on standard error.
    command : str, optional
        How to run this again, for the result.

    Returns
    -------
    Comparison

    Raises
    ------
    AttributionLabError
        For an unknown method or environment, and for settings that no run could have.

    Examples
    --------
    >>> import attributionlab as al
    >>> env = al.load("multi-color-sum", image_size=24)
    >>> table = al.compare(["saliency", "sobel"], env, n=2).to_frame()
    >>> table[table.part == "overall"].verdict.tolist()
    ['pass', 'fail']
    """
    chosen = _environments(environments, quick)
    contestants = [
        each if isinstance(each, tuple) else (each, {})
        for each in (methods if methods is not None else [*METHODS, "random", "constant"])
    ]
    for method, settings in contestants:
        as_method(
            method, METHODS | CONTROLS, settings
        )  # a typing error is told before the first run
    reports, refusals = [], []
    pairs = [(method, settings, env) for env in chosen for method, settings in contestants]
    for method, settings, env in track(pairs, len(pairs), "comparing", show_progress):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", AttributionWarning)  # kept in the report
                report = faithfulness_test(
                    method,
                    env,
                    n,
                    seed,
                    gamma,
                    claim,
                    output if env.task == "classification" else None,
                    settings=settings,
                    preset=preset,
                    device=device,
                )
        except AttributionLabError as error:
            name = as_method(method, METHODS | CONTROLS, settings).name
            refusals.append(Refusal(labelled(name, settings), env.name, str(error)))
        else:
            reports.append(report)
    if not reports:
        raise AttributionLabError(f"no method could be run: {refusals[0].reason}")
    return Comparison(
        reports,
        refusals,
        gamma,
        chosen,
        command or f"attributionlab.compare(n={n}, seed={seed}, gamma={gamma}, quick={quick})",
    )


def _environments(
    environments: Sequence[str | Environment] | str | Environment | None, quick: bool
) -> list[Environment]:
    named = DEFAULT_ENVIRONMENTS if environments is None else environments
    if not quick:
        return as_environments(named)
    named = [named] if isinstance(named, str | Environment) else list(named)
    made = [env for env in named if isinstance(env, Environment)]
    if made:
        raise AttributionLabError(
            f"quick is True, but {made[0]!r} is made already: name environments, or leave quick out"
        )
    return [load(str(name), image_size=QUICK_SIZE) for name in named]
