"""Experiments that compare methods: what to run, and what the paper says about it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attributionlab.environment import Environment
from attributionlab.environment.catalog import load
from attributionlab.faithfulness.comparison import QUICK_SIZE, Comparison, compare
from attributionlab.faithfulness.setup import Claim
from attributionlab.papers.reproduction import Reproduction

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class PaperVerdict:
    """What a paper says about one method: does its F1 on a part of the truth reach gamma?"""

    method: str
    environment: str
    part: str
    gamma: float
    verdict: str


@dataclass(frozen=True)
class Plan:
    """A comparison of methods.

    Parameters
    ----------
    item, title : str
        Name and subject.
    methods : sequence
        Names, or pairs of a name and its settings.
    environments : sequence of str
        Where.
    paper : sequence of PaperVerdict
        What to hold the results against.
    notes : sequence of str
        What the paper leaves open and was chosen here.
    claim : str, optional
        One claim for all methods.
    reading : callable, optional
        Comparison -> further sentences, computed from the results.
    """

    item: str
    title: str
    methods: Sequence[Any]
    environments: Sequence[str]
    paper: Sequence[PaperVerdict] = ()
    notes: Sequence[str] = ()
    claim: Claim | None = None
    reading: Callable[[Comparison], list[str]] | None = None


def carry_out(
    plan: Plan,
    *,
    n: int | None,
    quick: bool,
    seed: int = 0,
    device: str | None = None,
    show_progress: bool = False,
) -> Reproduction:
    """Run a plan.

    Parameters
    ----------
    plan : Plan
        What to run.
    n : int, optional
        Images in each environment; 4, or 2 in a quick run, by default.
    quick : bool
        Images of 72 x 72 pixels.
    seed : int
        Of images and methods.
    device : str, optional
        Where methods compute.
    show_progress : bool
        Show progress on standard error.
    """
    comparison = compare(
        plan.methods,
        [environment_of(name, quick) for name in plan.environments],
        n or (2 if quick else 4),
        seed,
        claim=plan.claim,
        device=device,
        show_progress=show_progress,
    )
    verdicts = verdict_table(comparison, plan.paper)
    findings = [
        *_agreements(verdicts),
        *(plan.reading(comparison) if plan.reading else []),
        *plan.notes,
        *(
            f"not run: {each.method} on {each.environment}: {each.reason}"
            for each in comparison.refusals
        ),
    ]
    tables = {"summary": comparison.summary(), "scores": comparison.to_frame()}
    if len(verdicts):
        tables["verdicts"] = verdicts
    figures = {"scores": comparison.violins(), "maps": comparison.maps()}
    return Reproduction(plan.item, plan.title, tables, figures, findings)


def environment_of(name: str, quick: bool, **overrides: Any) -> Environment:
    """An environment of the catalogue, a small one for a quick run."""
    return load(name, **({"image_size": QUICK_SIZE} if quick else {}), **overrides)


def verdict_table(comparison: Comparison, paper: Sequence[PaperVerdict]) -> "pd.DataFrame":
    """The paper's verdicts beside ours: method, environment, part, gamma, paper, ours, f1, agree."""
    import pandas as pd

    found = {(report.label, result.name): result for report, result in comparison.results}
    rows = []
    for said in paper:
        result = found.get((said.method, said.environment))
        f1 = None if result is None else result.mean(said.part, "f1")
        if result is None or f1 is None:
            continue
        f1_by_name = {said.method: f1}
        for end in result.spread():
            if end[said.part] is not None:
                f1_by_name[f"{said.method}, {end['of']}"] = end[said.part]["f1"]
        rows += [
            {
                **vars(said),
                "method": method,
                "paper": said.verdict,
                "ours": "pass" if each >= said.gamma else "fail",
                "f1": each,
            }
            for method, each in f1_by_name.items()
        ]
    frame = pd.DataFrame(rows)
    if rows:
        frame = frame.drop(columns="verdict").assign(agree=frame["paper"] == frame["ours"])
    return frame


def _agreements(verdicts: "pd.DataFrame") -> list[str]:
    """One sentence for each verdict."""
    return [
        f"{row.method} on {row.environment}, {row.part}: F1 {row.f1:.2f}, {row.ours} at gamma "
        f"{row.gamma:g}; the paper: {row.paper}."
        for row in verdicts.itertuples()
    ]
