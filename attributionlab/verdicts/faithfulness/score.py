r"""Scores of a run, their uncertainty, what the controls say of the test itself, and what a run shows
beyond its verdict: what its resolution allows, what is missing, what it looks like.

How well maps of a method's own resolution can score at most is computed from the truth. With magnitudes
a_j in [0, 1] and a truth g_j in [0, 1],

.. math:: F_1 = \frac{2 \sum_j a_j g_j}{\sum_j a_j + \sum_j g_j}.

A map that is coarse, a = U c with c >= 0 and U >= 0, scores :math:`F_1 = 2 w \cdot c / (m \cdot c + G)`
with :math:`w = U^T g`, :math:`m = U^T 1`, :math:`G = \sum g`. That grows with c_k where w_k / m_k, the
mean truth where c_k is felt, exceeds F1 / 2, and falls with it elsewhere. So where each c_k has a range
of its own, the best c takes those with the largest means to the end of their ranges and leaves the
others at 0, and one sort finds how many (the argument of `attributionlab.metrics.best_map`).
"""

import inspect
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from attributionlab.base import (
    AttributionLabError,
    Tally,
    count_of,
    lowest_f1,
    mean_interval,
    mean_score,
)
from attributionlab.methods import observe
from attributionlab.metrics import (
    best_choice,
    best_map,
    cosine,
    efficiency_gap,
    f1,
    rank_correlation,
    sign_agreement,
)
from attributionlab.verdicts.controls import INPUT_ONLY, OF_OTHER_TRUTHS
from attributionlab.verdicts.diagnosis.evidence import KEPT, Evidence
from attributionlab.verdicts.diagnosis.likeness import look_alikes
from attributionlab.verdicts.faithfulness.report import (
    SCORES,
    EnvironmentResult,
    Example,
    TruthScore,
    median_gap,
)
from attributionlab.verdicts.faithfulness.run import Outcome
from attributionlab.verdicts.faithfulness.setup import Batch, Setup
from attributionlab.verdicts.faithfulness.verdicts import (
    WorldCount,
    control_score,
    lowest_mean,
    mean_of,
)
from attributionlab.worlds import Rule, hidden_in, load_call
from attributionlab.worlds.truth import Definition, Truth

OWN_REGIONS = "own regions"
POSITIVE_ONLY = "positive only"
"""The method's maps are constant on its own superpixels; they have no negative values."""
ARGUMENTS = ("baseline", "baselines", "n_steps", "segmentation", "layer")
"""Arguments from which it follows how a method works."""


def study_of(outcome: Outcome, setup: Setup, part: str) -> dict[str, Any]:
    """What is known of a run beyond its verdict, from the first images; `part` decides over the claim.

    Causes are known for the laboratory's images only, so there is no evidence before a user's own
    network, and none of tokens.
    """
    if (batch := outcome.studied) is None:
        return {}
    resolution, best = _resolution(outcome, batch, setup)
    found = {"resolution": resolution, "resolution_f1": best}
    if not setup.env.has_roles or setup.env.is_of_tokens:
        return found
    return {**found, "evidence": _evidence(outcome, batch, setup, part, resolution, best)}


def _resolution(
    outcome: Outcome, batch: Batch, setup: Setup
) -> tuple[str, float] | tuple[None, None]:
    """What limits the method's maps, and the best F1 of the claim that this allows."""
    never_negative = bool((outcome.highest > 0).any()) and not (outcome.lowest < 0).any()
    regions = outcome.regions
    if regions is not None:
        labels = regions.cpu()
        return _limited(OWN_REGIONS, lambda g: f1(best_on_regions(g, labels), g), batch, setup)
    env = batch.envs[0]  # the networks of all questions have maps of the same sizes
    model = env.explained_model(setup.output)
    layers = dict(env.layers)
    layer = None if setup.env.is_of_tokens else setup.method.enlarged_layer(model, layers)
    if layer is not None and never_negative:  # cells of both signs sharpen each other's edges
        rows, columns = observe(model, layer, batch.images[:1].to(env.device))[0].shape[2:]
        name = f"{rows} x {columns} cells"
        return _limited(name, lambda g: grid_bound(g, (rows, columns)), batch, setup)
    if setup.plain_claim == "signed" and never_negative and batch.truth.negative.any():
        return POSITIVE_ONLY, 0.0
    return None, None


def _limited(
    name: str, best: Callable[[Tensor], Tensor], batch: Batch, setup: Setup
) -> tuple[str, float] | tuple[None, None]:
    """A limit with the lowest mean over the claim's parts, each by itself."""
    smoothed = batch.smooth
    truths: list[Tensor] = (
        [getattr(batch.truth, part) for part in setup.claimed_parts]
        if smoothed is None
        else [smoothed]
    )
    means = [mean_of(best(truth).numpy()) for truth in truths]
    there = [mean for mean in means if mean is not None]
    return (name, min(there)) if there else (None, None)


def _shapley_f1(batch: Batch, setup: Setup) -> float | None:
    """The claim's F1 of exact Shapley values; None where no closed form is known."""
    with suppress(AttributionLabError):  # worlds may have none
        values = [
            env.shapley(image, int(target), setup.truth_output)
            for image, target, env in zip(batch.images, batch.targets, batch.envs, strict=True)
        ]
        scores = setup.control_f1(torch.stack(values), batch)
        return lowest_mean({part: each.numpy() for part, each in scores.items()})[1]
    return None


def _evidence(
    outcome: Outcome,
    batch: Batch,
    setup: Setup,
    part: str,
    own: str | None,
    own_f1: float | None,
) -> Evidence:
    """What is known about why F1 is missing."""
    env, method = setup.env, setup.method
    shares = {name: mean_score(share) for name, share in outcome.shares[part].items()}
    if own == POSITIVE_ONLY:  # no resolution; `positive_only` below states it
        own = None
    lost = {} if outcome.runner_up is None else outcome.runner_up
    empty = (outcome.lowest == 0) & (outcome.highest == 0)
    return Evidence(
        environment=env.reference,
        method=method.name,
        reference=method.reference,
        in_shell=(method.reference != method.name and not env.overrides.keys() - {*KEPT}),
        overrides=env.overrides,
        options=setup.options,
        claim=setup.plain_claim,
        part=part,
        missing=sum(shares.values()),
        shares=shares,
        likeness=look_alikes(
            outcome.maps[: len(batch.images)],
            batch.truth.signed,
            batch.flat_images,
            batch.patches,
            batch.baselines,
            setup.plain_claim,
            batch.smooth,
            tested=setup.n,
            others=_truths(batch, setup),
        ),
        guards=frozenset(
            each.kind
            for each in outcome.notices
            if each.kind in ("image-only", "target") or (each.images and each.kind)
        ),
        completeness_gap=median_gap(outcome.gaps),
        shown=next((each.shown for each in outcome.notices if each.shown), None),
        captum=_captum_with_baselines(method.function),
        rule=" ".join(str(env.rule).split()) if env.rule else "",
        settings=method.settings,
        takes=frozenset(name for name in ARGUMENTS if method.asks_for(name)),
        tied=_tied(batch),
        sawtooth=env.worlds[0].counting.modulus is not None,
        unseen_colors_disturb=bool(env.worlds[0].network.effective.get("redundant_strength")),
        temperature=env.temperature if setup.output == "probability" else None,
        images=setup.n,
        all_zero=float(empty.mean()),
        zeros=tuple(empty.nonzero()[0].tolist()),
        why_zero=_why_zero(outcome),
        own_resolution=own,
        own_ceiling=None if own is None else own_f1,
        positive_only=not (outcome.lowest < 0).any(),
        stochastic=outcome.stochastic,
        shapley_f1=_shapley_f1(batch, setup),
        runner_up=lowest_mean({part: lost[part]["f1"] for part in setup.claimed_parts if lost})[1],
    )


def _captum_with_baselines(function: Any) -> str:
    """The name of a class of Captum's that needs a network alone and starts from baselines, or ""."""
    if not (isinstance(function, type) and function.__module__.startswith("captum.")):
        return ""
    attribute: Any = getattr(function, "attribute")  # noqa: B009
    takes = {*inspect.signature(function).parameters, *inspect.signature(attribute).parameters}
    return function.__name__ if "baselines" in takes and "layer" not in takes else ""


def _why_zero(outcome: Outcome) -> str:
    """What guards say of most maps that are zero, without what they are: "are zero because ..."."""
    told = [each for each in outcome.notices if each.kind == "zeros" and each.images]
    if not told:
        return ""
    return re.split(" because |: ", max(told, key=lambda each: each.images).text, maxsplit=1)[-1]


def _tied(batch: Batch) -> int:
    """How many equal counts decide a minimum or maximum of the rule, in every image; else 1."""
    pairs = zip(batch.envs, batch.images, strict=True)
    return min(
        env.counting.ties(image) if isinstance(env.counting, Rule) else 1 for env, image in pairs
    )


def _truths(batch: Batch, setup: Setup) -> list[Tensor]:
    """The signed truth of each class; none where there is one output."""
    if setup.env.task == "regression":
        return []
    found = []
    for index in range(setup.env.classes):
        target = torch.tensor([index])
        pairs = zip(batch.images, batch.envs, strict=True)
        truths = [env.truth(image[None], target, setup.truth_output) for image, env in pairs]
        found.append(torch.cat([truth.signed for truth in truths]))
    return found


Masks = Float[Tensor, "batch 1 height width"] | Bool[Tensor, "batch 1 height width"]


def best_on_regions(
    truth: Masks, regions: Int[Tensor, "batch height width"]
) -> Float[Tensor, "batch 1 height width"]:
    """The map in [0, 1], constant on every region, with the largest possible F1 against a truth.

    It is 1 on the regions with the largest mean truth and 0 on the others. The largest possible for
    signed maps too: each part of the truth sees magnitudes only. `regions` are label maps of any
    integers, `truth` a mask or values in [0, 1].

    Raises AttributionLabError for label maps of another shape.
    """
    batch, _, height, width = truth.shape
    if regions.shape != (batch, height, width):
        raise AttributionLabError(
            f"regions have shape {tuple(regions.shape)}: pass labels of shape "
            f"{(batch, height, width)}, one for each pixel of the truth"
        )
    values = truth.double().flatten(1)
    known, renamed = torch.unique(regions.to(truth.device), return_inverse=True)
    labels = renamed.flatten(1)
    none = values.new_zeros(batch, len(known))
    hits = none.scatter_add(1, labels, values)
    sizes = none.scatter_add(1, labels, torch.ones_like(values))
    chosen, _ = best_choice(hits, sizes, values.sum(1))
    return chosen.gather(1, labels).reshape(truth.shape).float()


def grid_bound(truth: Masks, cells: tuple[int, int]) -> Float64[Tensor, " batch"]:
    r"""An F1 that no map exceeds which is upsampled bilinearly from a grid of cells >= 0.

    a = U c as of torch's ``interpolate(mode="bilinear", align_corners=False)``. From a_j <= 1 follows
    :math:`c_k \le 1 / \max_j U_{jk}`. With that range for each cell by itself the best c is found
    exactly; it may exceed 1 where cells overlap, so its F1 is a bound. NaN for an image without any
    truth. Cells of both signs, which cancel where they meet, are not covered.

    `cells`: rows and columns. Raises AttributionLabError for a grid without cells.
    """
    if min(cells) < 1:
        raise AttributionLabError(f"a grid has {cells} cells: take at least 1 row and 1 column")
    values = truth.double()[:, 0]  # (B, H, W)
    rows, columns = (
        _enlargement(count, side).to(values)
        for count, side in zip(cells, values.shape[1:], strict=True)
    )
    hits = (rows @ values @ columns.T).flatten(1)  # U^T g
    masses = torch.outer(rows.sum(1), columns.sum(1)).flatten()  # U^T 1
    # Every sum over a row of U is 1, so that c <= 1 is allowed; more only if a cell never counts fully.
    limits = 1 / torch.outer(rows.amax(1), columns.amax(1)).flatten()
    limits = torch.where(masses > 0, limits, 1.0)  # no pixel feels this cell
    _, bound = best_choice(hits * limits, (masses * limits).expand_as(hits), values.sum((1, 2)))
    # Cells above 1 may cover more than all of the truth; nothing exceeds what pixels reach.
    is_mask = truth.dtype == torch.bool  # its own best map
    return bound.minimum(f1(truth.float() if is_mask else best_map(truth), truth))


def _enlargement(cells: int, side: int) -> Float64[Tensor, "cells side"]:
    """Along one axis, how much of each cell's value every pixel takes."""
    ones = torch.eye(cells, dtype=torch.float64)[None]
    return F.interpolate(ones, side, mode="linear", align_corners=False)[0]


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
        score.__name__: mean_of(score(maps, values).cpu().numpy())
        for score in (rank_correlation, cosine, sign_agreement)
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
    hidden = {} if setup.questions is None else hidden_in(env, setup.plain_claim)
    unknown = () if env.has_roles else OF_OTHER_TRUTHS
    controls = {
        name: control_score(name, setup.plain_claim, None, Tally(0, 0), hidden)
        if name in unknown
        else control_score(
            name,
            setup.plain_claim,
            claim_f1=lowest_mean(f1)[1],
            count=count_of(lowest_f1(f1), outcome.best),
            hidden=hidden,
        )
        for name, f1 in outcome.controls.items()
    }
    intervals = {
        part: {score: mean_interval(each[score], setup.seed) for score in SCORES}
        for part, each in scores.items()
    }
    lowest = lowest_f1(claimed)
    return EnvironmentResult(
        name=env.name,
        implementation=env.implementation,
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
        **study_of(outcome, setup, decisive),
        strict={part: mean_of(f1) for part, f1 in outcome.strict.items()},
        runner_up=None
        if outcome.runner_up is None
        else {part: mean_of(each["f1"]) for part, each in outcome.runner_up.items()},
        stochastic=outcome.stochastic,
        seeds=len(outcome.by_seed),
        compared_runs=outcome.compared_runs,
        seed_sd=_seed_sd([run[decisive]["f1"] for run in outcome.by_seed]),
        temperature=env.temperature if setup.output == "probability" else None,
        digest=env.spec.digest,
        computes=env.spec.claim,
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
