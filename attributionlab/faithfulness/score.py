"""A trial judged: scores, their uncertainty, and what the controls say of the test itself."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.errors import AttributionLabError
from attributionlab.faithfulness.report import (
    SCORES,
    EnvironmentResult,
    Example,
    ImageScores,
    TruthScore,
    mean_of,
)
from attributionlab.faithfulness.run import Outcome
from attributionlab.faithfulness.setup import Trial, joined
from attributionlab.faithfulness.study import ceilings_of, evidence_of
from attributionlab.faithfulness.verdicts import ClaimScore, ControlScore, control_score
from attributionlab.methods import Method
from attributionlab.methods.controls import INPUT_ONLY
from attributionlab.metrics import cosine, efficiency_gap, rank_correlation, sign_agreement
from attributionlab.stats.intervals import (
    Interval,
    images_to_decide,
    least_mean_interval,
    mean_interval,
    mean_score,
)
from attributionlab.truth import Definition

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


RANKS = {"median": 0.5, "worst": 0.0, "best": 1.0, "lower quartile": 0.25, "upper quartile": 0.75}
"""Which images are shown, the most telling first: where there are few, the others are left out."""


def score_outcome(outcome: Outcome, trial: Trial, method: Method) -> EnvironmentResult:
    """Score every image and part; the claim's mean F1 decides, for "signed" the lowest."""
    env, scores = trial.env, _mean(outcome.by_seed)
    claimed = {part: scores[part]["f1"] for part in trial.claimed_parts}
    decisive = _lowest(claimed)
    if decisive is None:
        raise AttributionLabError(
            f"no image of {env.name} has a truth for the claim {trial.claim!r}: take a larger n or "
            "another seed"
        )
    interval = least_mean_interval(claimed, trial.seed)
    controls = {name: _control(name, each, trial) for name, each in outcome.controls.items()}
    mean, best = mean_score(claimed[decisive]), mean_score(outcome.best)
    claim_score = ClaimScore(mean, interval, controls, best)
    verdict = claim_score.verdict(trial.gamma)
    ceilings, own = ceilings_of(outcome, trial, method) if trial.diagnosed else ({}, None)
    return EnvironmentResult(
        name=env.name,
        output=trial.output,
        truth_output=trial.truth_output,
        settings=method.settings,
        verdict=verdict,
        reason=claim_score.reason(trial.gamma),
        claim_score=claim_score,
        claim_part=decisive,
        images_to_decide=_images_to_decide(claimed, trial) if verdict == "inconclusive" else None,
        scores=scores,
        intervals=_intervals(scores, trial.seed),
        bar=[name for name in INPUT_ONLY if controls[name].passes],
        ceiling=claim_score.best if trial.claim == "positive-smoothed" else None,
        studied_images=sum(len(scene.images) for scene in outcome.studied),
        ceilings=ceilings,
        own_ceiling=own,
        runner_up=_runner_up(outcome),
        evidence=(
            evidence_of(outcome, trial, method, decisive, ceilings, own)
            if trial.diagnosed
            else None
        ),
        stochastic=outcome.stochastic,
        seeds=len(outcome.by_seed),
        compared_runs=outcome.compared_runs,
        seed_sd=_seed_sd([run[decisive]["f1"] for run in outcome.by_seed]),
        temperature=env.temperature if trial.output == "probability" else None,
        digest=env.spec.digest,
        constants=env.spec.constants,
        seconds=outcome.seconds,
        completeness_gap=outcome.gaps,
        drift=outcome.drift,
        attributions=outcome.maps[:, 0].numpy(),
        examples=_examples(outcome, outcome.by_seed[0][decisive]["f1"], trial),
        truth_scores=truth_scores(outcome, trial) if trial.truths else (),
    )


def _lowest(f1: Mapping[str, NDArray[np.float64]]) -> str | None:
    """The part with the lowest mean F1, None where there is no truth at all."""
    means = {part: mean_of(values) for part, values in f1.items()}
    there = {part: mean for part, mean in means.items() if mean is not None}
    return min(there, key=there.__getitem__) if there else None


def _intervals(scores: ImageScores, seed: int) -> dict[str, dict[str, Interval | None]]:
    return {
        part: {score: mean_interval(values[score], seed) for score in SCORES}
        for part, values in scores.items()
    }


def _images_to_decide(claimed: Mapping[str, NDArray[np.float64]], trial: Trial) -> int | None:
    """How many images would decide, more than there are."""
    needed = images_to_decide(claimed, trial.gamma)
    return None if needed is None else max(needed, trial.n + 1)


def _control(name: str, f1: Mapping[str, NDArray[np.float64]], trial: Trial) -> ControlScore:
    """A control by its mean: what it must do does not depend on the images."""
    part = _lowest(f1)
    score = None if part is None else mean_of(f1[part])
    return control_score(name, trial.form, score, trial.gamma)


def _runner_up(outcome: Outcome) -> dict[str, float | None] | None:
    """Mean F1 of each part where the class with the second-most pixels is explained."""
    if outcome.runner_up is None:
        return None
    return {part: mean_of(scores["f1"]) for part, scores in outcome.runner_up.items()}


def _mean(runs: Sequence[ImageScores]) -> ImageScores:
    """Each image's scores, means over seeds."""
    return {
        part: {score: np.mean([run[part][score] for run in runs], axis=0) for score in SCORES}
        for part in runs[0]
    }


def _seed_sd(runs: Sequence[NDArray[np.float64]]) -> float | None:
    """How much the F1 of an image varies from seed to seed; None for one run."""
    if len(runs) < 2:
        return None
    return float(np.sqrt(np.nanmean(np.var(runs, axis=0, ddof=1))))


def _examples(outcome: Outcome, f1: NDArray[np.float64], trial: Trial) -> list[Example]:
    """From the worst to the best of the images whose maps are kept, the median one among them."""
    f1 = f1[: len(outcome.maps)]
    scored = int((~np.isnan(f1)).sum())
    overall = outcome.by_seed[0]["overall"]["f1"][: len(f1)]
    order = np.lexsort(
        (overall, f1)
    )  # equal ones by what is right without its sign; NaN comes last
    places = {rank: round(share * (scored - 1)) for rank, share in RANKS.items()}
    places["median"] = scored // 2
    shown: dict[int, str] = {}
    for rank, place in places.items():
        shown.setdefault(place, rank)
    return [
        Example(
            sample=sample,
            rank=shown[place],
            f1=float(f1[sample]),
            image=outcome.images[sample].float().numpy(),
            highest=trial.env.max_value,
            truth=outcome.truth.signed[sample, 0].numpy(),
            attribution=outcome.maps[sample, 0].numpy(),
        )
        for place in sorted(shown)
        for sample in [int(order[place])]
    ]
