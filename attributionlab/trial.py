"""One method in one environment: what is asked, the run that answers, and how the answer is judged."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.assess import CONTROLS
from attributionlab.environment import Environment
from attributionlab.errors import AttributionLabError
from attributionlab.methods import Call, Finding, Method, Preset, attribute, heard
from attributionlab.metrics import Alignment, Part, alignment, best_map, magnitudes, normalize
from attributionlab.progress import track
from attributionlab.results import EnvironmentResult, Example
from attributionlab.truth import Output, Truth, smoothed

__all__ = ["Claim", "Outcome", "Trial", "carry_out", "chosen_outputs", "judge"]

Claim = Literal["signed", "overall", "positive", "positive-smoothed"]
REFERENCE_IMAGES = 256
"""How many other images a method gets that asks for some: enough to set off every neuron of IBA's layer
that a test image sets off, or nearly (16 leave neurons that never vary, which then own the map)."""


@dataclass(frozen=True)
class Trial:
    """What is asked of a method in one environment."""

    env: Environment
    output: Output
    truth_output: Output
    claim: Claim
    gamma: float
    n: int
    seed: int

    def claimed(self, truth: Truth) -> Tensor:
        """The truth that the claim is about, with its signs."""
        if self.claim == "positive-smoothed":
            return smoothed(truth.positive, self.env.smoothing_sigma)
        return truth.signed.float()

    def ideal(self, truth: Truth) -> Tensor:
        """The best possible map for the claim."""
        claimed = self.claimed(truth)
        return best_map(claimed) if self.claim == "positive-smoothed" else claimed


class Outcome(NamedTuple):
    """What a method made of a trial."""

    maps: Tensor
    """(n, 1, H, W), summed over channels and normalized to [-1, 1]"""
    truth: Truth
    seconds: float
    """of the method, for an image"""
    findings: list[Finding]
    gaps: NDArray[np.float64] | None
    """(n,), the completeness gap of each image, None where no method looked"""


def chosen_outputs(
    env: Environment,
    output: Output | None,
    truth_output: Output | None,
    preset: Preset,
    of_method: str | None,
) -> tuple[Output, Output]:
    """Which output is explained and which the truth is about: the same, unless the user or a preset
    asks for another. What the user asks for comes first, then the preset, then the method.
    """
    if env.task == "regression":
        return env.outputs[0], env.outputs[0]
    explained = env.checked_output(output or preset.output or of_method)
    of_preset = None if output else preset.truth_output
    return explained, env.checked_output(truth_output or of_preset or explained)


def carry_out(method: Method, trial: Trial, show_progress: bool) -> Outcome:
    """Run a method on n images of an environment."""
    env = trial.env
    model, loader = env.explained_model(trial.output), env.loader(trial.n, trial.seed)
    always = _always_offered(method, trial)
    sees_truth = any(method.function is control for control in CONTROLS.values())
    maps: list[Tensor] = []
    signed: list[Tensor] = []
    findings: list[Finding] = []
    gaps: list[float] = []
    first, seconds = 0, 0.0
    for images, labels, patches in track(
        loader, len(loader), f"{method.name} on {env.name}", show_progress
    ):
        targets = env.targets(labels)
        truth = env.truth(images, targets, trial.truth_output)
        seed = int(np.random.SeedSequence([trial.seed, first]).generate_state(1)[0])
        offered = always | {
            "patches": patches,
            "generator": torch.Generator().manual_seed(seed),
        }
        if sees_truth:
            offered |= {"truth": truth, "ideal": trial.ideal(truth)}
        inputs = images.to(env.device).contiguous(memory_format=torch.channels_last)
        call = Call(env.name, model, inputs, targets.to(env.device), first, trial.n, offered)
        start = time.perf_counter()
        with heard() as told:
            attributions = attribute(method, call, seed)
        seconds += time.perf_counter() - start
        # float32 halves the memory of what is kept, and is precise enough within [-1, 1].
        maps.append(normalize(attributions).float())
        signed.append(truth.signed)
        findings += told
        gaps += next((each.gaps for each in told if len(each.gaps) == len(images)), ())
        first += len(images)
    return Outcome(
        torch.cat(maps),
        Truth(torch.cat(signed)),
        seconds / trial.n,
        findings,
        np.array(gaps) if len(gaps) == trial.n else None,
    )


def _always_offered(method: Method, trial: Trial) -> dict[str, Any]:
    """What a method may declare by name that is the same for every batch."""
    env = trial.env
    offered = {
        "baseline": env.baseline.clone(),
        "layers": dict(env.layers),
        "highest": env.max_value,
    }
    if method.asks_for("reference_images"):
        # A stream of its own: none of them is tested.
        stream = int(np.random.SeedSequence([trial.seed, 1]).generate_state(1)[0])
        offered["reference_images"] = env.batch(REFERENCE_IMAGES, stream)[0].to(env.device)
    return offered


def judge(outcome: Outcome, trial: Trial, settings: Mapping[str, Any]) -> EnvironmentResult:
    """Score every image and part; the claim's mean F1 decides, for "signed" the lowest."""
    env, claim = trial.env, trial.claim
    maps, truth = outcome.maps, outcome.truth
    scores, ceiling = _score(maps, truth, trial)
    f1 = {which: float(score.f1.nanmean()) for which, score in scores.items()}
    candidates = get_args(Part) if claim == "signed" else (claim,)
    applicable = [which for which in candidates if not np.isnan(f1[which])]
    if not applicable:
        raise AttributionLabError(
            f"no image of {env.name} has a truth for the claim {claim!r}: take a larger n or "
            "another seed"
        )
    decisive = min(applicable, key=f1.__getitem__)
    return EnvironmentResult(
        name=env.name,
        output=trial.output,
        truth_output=trial.truth_output,
        settings=settings,
        verdict="pass" if f1[decisive] >= trial.gamma else "fail",
        claim_f1=f1[decisive],
        claim_part=decisive,
        scores={
            which: {name: values.numpy() for name, values in score._asdict().items()}
            for which, score in scores.items()
        },
        temperature=env.temperature if trial.output == "probability" else None,
        digest=env.spec.digest,
        constants=env.spec.constants,
        ceiling=ceiling,
        seconds=outcome.seconds,
        completeness_gap=outcome.gaps,
        attributions=maps[:, 0].numpy(),
        example=_example(maps, truth, scores[decisive].f1, trial),
    )


def _score(maps: Tensor, truth: Truth, trial: Trial) -> tuple[dict[str, Alignment], float | None]:
    """Precision, recall and F1 of each image and part, and the ceiling of a smoothed truth."""
    scores = {
        which: alignment(magnitudes(maps, which), getattr(truth, which)) for which in get_args(Part)
    }
    if trial.claim != "positive-smoothed":
        return scores, None
    claimed = trial.claimed(truth)
    scores[trial.claim] = alignment(magnitudes(maps, "positive"), claimed)
    return scores, float(alignment(trial.ideal(truth), claimed).f1.nanmean())


def _example(maps: Tensor, truth: Truth, f1: Tensor, trial: Trial) -> Example:
    """The image with the median score, neither the best nor the worst."""
    scored = int((~f1.isnan()).sum())
    median = int(f1.argsort()[scored // 2])  # NaN comes last
    return Example(
        sample=median,
        image=trial.env.dataset(trial.n, trial.seed)[median].image.numpy(),
        highest=trial.env.max_value,
        truth=truth.signed[median, 0].numpy(),
        attribution=maps[median, 0].numpy(),
    )
