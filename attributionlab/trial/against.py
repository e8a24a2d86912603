"""A method's maps held against every definition of the truth, not against masks alone."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from attributionlab.metrics import cosine, efficiency_gap, rank_correlation, sign_agreement
from attributionlab.results import TruthScore, mean_of
from attributionlab.trial.question import Trial, joined
from attributionlab.trial.run import Outcome
from attributionlab.truth import Definition

__all__ = ["truth_scores", "truth_scores_of"]

SCORED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "rank_correlation": rank_correlation,
    "cosine": cosine,
    "sign_agreement": sign_agreement,
}


def truth_scores(outcome: Outcome, trial: Trial) -> list[TruthScore]:
    """Scores of the studied images' maps, not normalized, against each definition; means over images.

    The sum gap is what the attributions' sum misses of the definition's, as a share of it.
    """
    scene = joined(outcome.studied)
    truths = trial.env.truths(scene.images, scene.targets, trial.truth_output)
    return [truth_scores_of(outcome.studied_maps, definition) for definition in truths.values()]


def truth_scores_of(maps: Tensor, definition: Definition) -> TruthScore:
    """Scores against one definition; values within their error are taken for 0."""
    values = definition.certain
    found: dict[str, Any] = {
        name: mean_of(score(maps, values).cpu().numpy()) for name, score in SCORED.items()
    }
    gap = None
    if definition.name != "mask":  # signs have no sum that attributions could miss
        sums = definition.values.sum((1, 2, 3))
        gap = mean_of(efficiency_gap(maps, sums).cpu().numpy())
    known = definition.name, definition.meaning, definition.source
    return TruthScore(*known, **found, sum_gap=gap)
