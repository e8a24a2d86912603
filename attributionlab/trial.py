"""What is asked of a method in one environment, and the run that answers it."""

import time
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from attributionlab.assess import CONTROLS
from attributionlab.environment import Environment
from attributionlab.methods import Call, Method, attribute
from attributionlab.metrics import normalize
from attributionlab.progress import track
from attributionlab.truth import Output, Truth, smoothed

__all__ = ["Claim", "Trial", "attributions_and_truth", "chosen_outputs"]

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

    def ideal(self, truth: Truth) -> Tensor:
        """The best possible map: the claim's own truth."""
        if self.claim == "positive-smoothed":
            return smoothed(truth.positive, self.env.smoothing_sigma)
        return truth.signed.float()


def chosen_outputs(
    env: Environment,
    output: Output | None,
    truth_output: Output | None,
    of_preset: str | None,
    of_method: str | None,
) -> tuple[Output, Output]:
    """Which output is explained and which the truth is about.

    A preset may explain another output than the truth's; a method that explains one output only is
    held against the truth of that one.
    """
    if env.task == "regression":
        return env.outputs[0], env.outputs[0]
    explained = env.checked_output(output or of_preset or of_method)
    same = explained if output or not of_preset else None
    return explained, env.checked_output(truth_output or same)


def attributions_and_truth(
    method: Method, trial: Trial, show_progress: bool
) -> tuple[Tensor, Truth, float]:
    """Normalized attributions of n images, summed over channels, the truth, and seconds per image."""
    env = trial.env
    model, loader = env.explained_model(trial.output), env.loader(trial.n, trial.seed)
    always = _always_offered(method, trial)
    sees_truth = any(method.function is control for control in CONTROLS.values())
    maps: list[Tensor] = []
    signed: list[Tensor] = []
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
        attributions = attribute(method, call, seed)
        seconds += time.perf_counter() - start
        # float32 halves the memory of what is kept, and is precise enough within [-1, 1].
        maps.append(normalize(attributions).float())
        signed.append(truth.signed)
        first += len(images)
    return torch.cat(maps), Truth(torch.cat(signed)), seconds / trial.n


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
