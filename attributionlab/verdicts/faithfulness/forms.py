"""Scores before equivalent networks: does a score hang on how a network is written?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from attributionlab.base import AttributionLabError, count_of, lowest_f1, mean_score
from attributionlab.base.stats.counts import Count
from attributionlab.methods import collect_notices
from attributionlab.verdicts.faithfulness.calls import attribute_batch
from attributionlab.verdicts.faithfulness.setup import Setup, on_networks
from attributionlab.verdicts.faithfulness.verdicts import Verdict
from attributionlab.worlds.nets import FORMS, forms_of


@dataclass(frozen=True)
class FormScore:
    """The claim's score before networks of one form."""

    form: str
    f1: float | None
    """mean over questions, None where the method did not run"""
    count: Count | None
    """how many questions it solves"""
    verdict: Verdict | None
    refused: str = ""
    """why the method did not run"""


@dataclass(frozen=True)
class Robustness:
    """Scores before equivalent networks: equal outputs for every integer image, other derivatives.

    `verdict`: verdict before the plain networks. `forms`: one for each form that the networks have.
    """

    verdict: Verdict
    forms: Sequence[FormScore]

    @property
    def lowest(self) -> FormScore | None:
        """The form with the lowest score, None where there is none."""
        scored = [each for each in self.forms if each.f1 is not None]
        return min(scored, key=lambda each: each.f1 or 0.0, default=None)

    @property
    def reading(self) -> Literal["robust", "depends on the implementation", "undecided", ""]:
        """Of a method that passes: whether it passes before every form, or fails before one; empty for
        a method that does not, and without forms.
        """
        found = {each.verdict for each in self.forms}
        if self.verdict != "pass" or not found:
            return ""
        if "fail" in found:
            return "depends on the implementation"
        return "robust" if found == {"pass"} else "undecided"

    def to_dict(self) -> dict[str, Any]:
        """Entry of an environment in the JSON file."""
        lowest = self.lowest
        return {
            "reading": self.reading,
            "lowest": lowest and {"form": lowest.form, "claim_f1": lowest.f1},
            "forms": [
                {
                    "form": each.form,
                    "claim_f1": each.f1,
                    "solved": each.count and each.count.solved,
                    "verdict": each.verdict,
                    "refused": each.refused,
                }
                for each in self.forms
            ],
        }


def robustness_of(setup: Setup, verdict: Verdict, show_progress: bool = False) -> Robustness:
    """Score a method before the first `setup.equivalent` forms, each scored by itself."""
    known = forms_of(setup.env.network)
    forms = [form for form in FORMS[: setup.equivalent] if form in known]
    return Robustness(verdict, [_score(setup, form, show_progress) for form in forms])


def _score(setup: Setup, form: str, show_progress: bool) -> FormScore:
    """The claim's score of one run before networks of a form."""
    found: dict[str, list[np.ndarray[Any, Any]]] = {part: [] for part in setup.claimed_parts}
    best: list[np.ndarray[Any, Any]] = []
    try:
        for batch in setup.batches(f"{setup.title}, {form}", show_progress):
            [other] = on_networks([batch], lambda env: env.equivalent(form))
            with collect_notices():  # the notices of the test are those of its own run
                maps = attribute_batch(setup, other).maps
            scores = setup.scores(other.scaled(maps), other)
            for part, values in found.items():
                values.append(scores[part].f1.double().numpy())
            best.append(other.best_f1.numpy())
    except AttributionLabError as error:
        return FormScore(form, None, None, None, str(error))
    claimed: dict[str, Any] = {part: np.concatenate(values) for part, values in found.items()}
    means = [mean for mean in map(mean_score, claimed.values()) if not np.isnan(mean)]
    count = count_of(lowest_f1(claimed), np.concatenate(best))
    return FormScore(form, min(means), count, count.verdict(setup.environments))
