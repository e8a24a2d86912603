"""A trial judged: scores, their uncertainty, and what the controls say of the test itself."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from attributionlab.assess import (
    INPUT_ONLY,
    MUST_FAIL,
    Interval,
    images_to_decide,
    least_mean_interval,
    mean_interval,
    mean_score,
    verdict_of,
)
from attributionlab.errors import AttributionLabError
from attributionlab.methods import Method
from attributionlab.results import (
    SCORES,
    ControlScore,
    EnvironmentResult,
    Example,
    ImageScores,
    Verdict,
    mean_of,
)
from attributionlab.trial.question import Trial
from attributionlab.trial.run import Outcome
from attributionlab.trial.study import ceilings_of, evidence_of

__all__ = ["judge"]

RANKS = {"median": 0.5, "worst": 0.0, "best": 1.0, "lower quartile": 0.25, "upper quartile": 0.75}
"""Which images are shown, the most telling first: where there are few, the others are left out."""
ROUNDING = 1e-6
"""Of an F1 from float32 maps."""


def judge(outcome: Outcome, trial: Trial, method: Method) -> EnvironmentResult:
    """Score every image and part; the claim's mean F1 decides, for "signed" the lowest."""
    env, scores = trial.env, outcome.scores
    decisive = _decisive(scores, trial)
    if decisive is None:
        raise AttributionLabError(
            f"no image of {env.name} has a truth for the claim {trial.claim!r}: take a larger n or "
            "another seed"
        )
    f1 = scores[decisive]["f1"]
    mean = mean_score(f1)
    claimed = {part: scores[part]["f1"] for part in trial.claimed_parts}
    interval = least_mean_interval(claimed, trial.seed)
    controls = {name: _control(each, trial) for name, each in outcome.controls.items()}
    best = mean_score(outcome.best)
    reason = _why_invalid(controls, best, trial)
    verdict: Verdict = "invalid" if reason else verdict_of(interval, trial.gamma, mean)
    ceilings, own = ceilings_of(outcome, trial, method) if trial.diagnosed else ({}, None)
    own_ceiling = (own, ceilings[own]) if own in ceilings else None
    return EnvironmentResult(
        name=env.name,
        output=trial.output,
        truth_output=trial.truth_output,
        settings=method.settings,
        verdict=verdict,
        reason=reason,
        claim_f1=mean,
        claim_interval=interval,
        claim_part=decisive,
        images_to_decide=(images_to_decide(f1, trial.gamma) if verdict == "inconclusive" else None),
        scores=scores,
        intervals=_intervals(scores, trial.seed),
        controls=controls,
        bar=[name for name in INPUT_ONLY if controls[name].passes],
        ceiling=best if trial.claim == "positive-smoothed" else None,
        ceilings=ceilings,
        own_ceiling=own if own_ceiling else None,
        runner_up=_runner_up(outcome),
        evidence=(
            evidence_of(outcome, trial, method, decisive, own_ceiling) if trial.diagnosed else None
        ),
        stochastic=outcome.stochastic,
        seeds=trial.seeds if outcome.stochastic else 1,
        seed_sd=_seed_sd(outcome, decisive),
        temperature=env.temperature if trial.output == "probability" else None,
        digest=env.spec.digest,
        constants=env.spec.constants,
        seconds=outcome.seconds,
        completeness_gap=outcome.gaps,
        attributions=outcome.maps[:, 0].numpy(),
        examples=_examples(outcome, f1, trial),
    )


def _decisive(scores: ImageScores, trial: Trial) -> str | None:
    """The part of the claim with the lowest mean F1, None where there is no truth at all."""
    means = {part: mean_of(scores[part]["f1"]) for part in trial.claimed_parts}
    there = {part: mean for part, mean in means.items() if mean is not None}
    return min(there, key=there.__getitem__) if there else None


def _intervals(scores: ImageScores, seed: int) -> dict[str, dict[str, Interval | None]]:
    return {
        part: {score: mean_interval(values[score], seed) for score in SCORES}
        for part, values in scores.items()
    }


def _control(scores: ImageScores, trial: Trial) -> ControlScore:
    """A control by its mean: what it must do does not depend on the images."""
    part = _decisive(scores, trial)
    f1 = None if part is None else mean_of(scores[part]["f1"])
    return ControlScore(f1, f1 is not None and f1 >= trial.gamma)


def _why_invalid(controls: Mapping[str, ControlScore], best: float, trial: Trial) -> str:
    """Which control has the wrong result, in a sentence; empty if none has."""
    oracle = controls["oracle"].claim_f1
    assert oracle is not None  # a trial without any truth is refused before
    if oracle < best - ROUNDING:
        return (
            f"the oracle scores {oracle:.3f} where the best possible map scores {best:.3f}: truth and "
            "scores contradict each other"
        )
    if oracle < trial.gamma:
        return (
            f"even the best possible map scores {oracle:.2f}, below gamma {trial.gamma:g}: choose a "
            "smaller gamma or another claim"
        )
    for name in MUST_FAIL:
        if name == "inverted-oracle" and trial.claim == "overall":
            continue  # which asks for no sign
        if controls[name].passes:
            return (
                f"the control {name}, which must fail, scores {controls[name].claim_f1:.2f}: gamma "
                f"{trial.gamma:g} is no bar here; choose a larger one, or larger images"
            )
    return ""


def _runner_up(outcome: Outcome) -> dict[str, float | None] | None:
    """Mean F1 of each part where the class with the second-most pixels is explained."""
    if outcome.runner_up is None:
        return None
    means = {part: mean_of(scores["f1"]) for part, scores in outcome.runner_up.items()}
    return {"images": sum(len(scene.images) for scene in outcome.studied), **means}


def _seed_sd(outcome: Outcome, part: str) -> float | None:
    """How much the F1 of an image varies from seed to seed."""
    if outcome.seed_variance is None or not outcome.stochastic:
        return None
    return float(np.sqrt(np.nanmean(outcome.seed_variance[part])))


def _examples(outcome: Outcome, f1: NDArray[np.float64], trial: Trial) -> list[Example]:
    """From the worst to the best image, the median one among them."""
    scored = int((~np.isnan(f1)).sum())
    order = f1.argsort(kind="stable")  # NaN comes last
    places = {rank: round(share * (scored - 1)) for rank, share in RANKS.items()}
    places["median"] = scored // 2
    shown: dict[int, str] = {}
    for rank, place in places.items():
        shown.setdefault(place, rank)
    dataset = trial.env.dataset(trial.n, trial.seed)
    return [
        Example(
            sample=sample,
            rank=shown[place],
            f1=float(f1[sample]),
            image=dataset[sample].image.numpy(),
            highest=trial.env.max_value,
            truth=outcome.truth.signed[sample, 0].numpy(),
            attribution=outcome.maps[sample, 0].numpy(),
        )
        for place in sorted(shown)
        for sample in [int(order[place])]
    ]
