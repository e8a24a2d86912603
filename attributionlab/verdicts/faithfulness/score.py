"""Scores of a run, their uncertainty, and what the controls say of the test itself."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.base import (
    AttributionLabError,
    Tally,
    count_of,
    lowest_f1,
    mean_interval,
)
from attributionlab.metrics import cosine, efficiency_gap, rank_correlation, sign_agreement
from attributionlab.verdicts.controls import INPUT_ONLY, OF_OTHER_TRUTHS
from attributionlab.verdicts.faithfulness.report import (
    SCORES,
    EnvironmentResult,
    Example,
    TruthScore,
)
from attributionlab.verdicts.faithfulness.run import Outcome
from attributionlab.verdicts.faithfulness.setup import Setup
from attributionlab.verdicts.faithfulness.study import study_of
from attributionlab.verdicts.faithfulness.verdicts import (
    WorldCount,
    control_score,
    lowest_mean,
    mean_of,
)
from attributionlab.worlds import hidden_in, load_call
from attributionlab.worlds.truth import Definition, Truth

SCORED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "rank_correlation": rank_correlation,
    "cosine": cosine,
    "sign_agreement": sign_agreement,
}


def truth_scores(outcome: Outcome, setup: Setup) -> Sequence[TruthScore]:
    """Scores of the studied images' maps against each definition of the truth."""
    if outcome.studied is None or not setup.also.truths:
        return ()
    found: dict[str, list[Definition]] = {}
    for batch in outcome.studied.by_network():
        truths = batch.env.truths(batch.images, batch.targets, setup.truth_output)
        for name, definition in truths.items():
            found.setdefault(name, []).append(definition)
    whole = [
        replace(
            parts[0],
            values=torch.cat([part.values for part in parts]),
            error=torch.cat([part.error for part in parts]),
        )
        for parts in found.values()
    ]
    return [truth_score(outcome.studied_maps, definition) for definition in whole]


def truth_score(maps: Tensor, definition: Definition) -> TruthScore:
    """Scores of maps, not normalized, against one definition: means over images.

    Values within their error are taken for 0. The sum gap is what the attributions' sum misses of the
    definition's, as a share of it.
    """
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


def score_outcome(outcome: Outcome, setup: Setup) -> EnvironmentResult:
    """Score every image and part; a question is solved by the lowest F1 of the claim's parts."""
    env, first = setup.env, outcome.by_seed[0]
    scores = {  # means over seeds
        part: {
            score: np.mean([run[part][score] for run in outcome.by_seed], axis=0)
            for score in SCORES
        }
        for part in first
    }
    claimed = {part: scores[part]["f1"] for part in setup.claimed_parts}
    decisive, mean = lowest_mean(claimed)
    if decisive is None or mean is None:
        raise AttributionLabError(
            f"no image of {env.name} has a truth for the claim {setup.claim!r}: take a larger n or "
            "another seed"
        )
    # One network for all images hides nothing: a table of its colors would do.
    hidden = {} if setup.questions is None else hidden_in(env, setup.form)
    unknown = () if env.has_roles else OF_OTHER_TRUTHS
    controls = {
        name: control_score(name, setup.form, None, Tally(0, 0), hidden)
        if name in unknown
        else control_score(
            *(name, setup.form, lowest_mean(f1)[1]),
            *(count_of(lowest_f1(f1), outcome.best), hidden),
        )
        for name, f1 in outcome.controls.items()
    }
    intervals = {
        part: {score: mean_interval(each[score], setup.seed) for score in SCORES}
        for part, each in scores.items()
    }
    lowest = lowest_f1(claimed)
    study = None if outcome.studied is None else study_of(outcome, outcome.studied, setup, decisive)
    return EnvironmentResult(
        name=env.name,
        output=setup.output,
        truth_output=setup.truth_output,
        settings=setup.method.settings,
        count=count_of(lowest, outcome.best),
        claim_f1=mean,
        claim_interval=intervals[decisive]["f1"],
        controls=controls,
        environments=setup.environments,
        claim_part=decisive,
        scores=scores,
        lowest=lowest,
        intervals=intervals,
        bar=[name for name in INPUT_ONLY if controls[name].passes],
        hidden=hidden,
        best=outcome.best,
        studied_images=0 if outcome.studied is None else len(outcome.studied.images),
        resolution=study.resolution if study else None,
        resolution_f1=study.resolution_f1 if study else None,
        strict={part: mean_of(f1) for part, f1 in outcome.strict.items()},
        runner_up=None
        if outcome.runner_up is None
        else {part: mean_of(each["f1"]) for part, each in outcome.runner_up.items()},
        evidence=study.evidence if study else None,
        stochastic=outcome.stochastic,
        seeds=len(outcome.by_seed),
        compared_runs=outcome.compared_runs,
        seed_sd=_seed_sd([run[decisive]["f1"] for run in outcome.by_seed]),
        temperature=env.temperature if setup.output == "probability" else None,
        digest=env.spec.digest,
        constants=env.spec.constants,
        seconds=outcome.seconds,
        completeness_gap=outcome.gaps,
        drift=outcome.drift,
        attributions=outcome.maps[:, 0].numpy(),
        faint=outcome.faint[: len(outcome.maps)] > 0,
        images=outcome.images.numpy(),
        truth=outcome.truth.signed[:, 0].numpy(),
        signless=_signless(outcome.truth),
        examples=_examples(
            outcome, lowest_f1({part: first[part]["f1"] for part in claimed}), setup
        ),
        truth_scores=truth_scores(outcome, setup),
        worlds=_in_worlds(setup, lowest, outcome.best),
    )


def _in_worlds(
    setup: Setup, lowest: NDArray[np.float64], best: NDArray[np.float64]
) -> list[WorldCount]:
    """The count of each world that was asked about, of an environment that consists of several."""
    worlds = setup.env.worlds
    return [
        WorldCount(
            *(env.name, str(env.rule), load_call(env), env.features or ()),
            *count_of(lowest[place :: len(worlds)], best[place :: len(worlds)]),
        )
        for place, env in enumerate(worlds[: setup.n])
        if len(worlds) > 1
    ]


def _seed_sd(runs: Sequence[NDArray[np.float64]]) -> float | None:
    """How much the F1 of an image varies from seed to seed; None for one run."""
    if len(runs) < 2:
        return None
    return float(np.sqrt(np.nanmean(np.var(runs, axis=0, ddof=1))))


def _signless(truth: Truth) -> dict[str, NDArray[np.bool_]]:
    """Pixels (k, H, W) whose sign is not asked, by why, where there are any."""
    found = {"mixed": truth.mixed[:, 0].numpy(), "not asked": ~truth.asked[:, 0].numpy()}
    return {name: where for name, where in found.items() if where.any()}


def _examples(outcome: Outcome, f1: NDArray[np.float64], setup: Setup) -> list[Example]:
    """From the worst to the best of the images whose maps are kept, the median one among them."""
    f1 = f1[: len(outcome.maps)]
    scored = int((~np.isnan(f1)).sum())
    overall = outcome.by_seed[0]["overall"]["f1"][: len(f1)]
    # Equal ones by what is right without its sign; NaN comes last.
    order = np.lexsort((overall, f1))
    places = {rank: round(share * (scored - 1)) for rank, share in RANKS.items()}
    places["median"] = scored // 2
    shown: dict[int, str] = {}
    signless = _signless(outcome.truth)
    for rank, place in places.items():
        shown.setdefault(place, rank)
    return [
        Example(
            sample=sample,
            rank=shown[place],
            f1=float(f1[sample]),
            image=outcome.images[sample].float().numpy(),
            highest=setup.env.max_value,
            truth=outcome.truth.signed[sample, 0].numpy(),
            attribution=outcome.maps[sample, 0].numpy(),
            faint=bool(outcome.faint[sample]),
            signless={
                name: where[sample] for name, where in signless.items() if where[sample].any()
            },
        )
        for place in sorted(shown)
        for sample in [int(order[place])]
    ]
