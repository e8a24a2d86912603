"""The spine: environment -> method -> score -> verdict."""

import warnings
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.assess import CONTROLS
from attributionlab.catalog import as_environments
from attributionlab.device import without_tf32
from attributionlab.environment import Environment
from attributionlab.errors import AttributionLabError, AttributionWarning, nearest, refuse_if
from attributionlab.methods import (
    METHODS,
    Finding,
    as_method,
    heard,
    preset_of,
    summarized,
)
from attributionlab.metrics import Alignment, Part, alignment, magnitudes
from attributionlab.results import (
    EnvironmentResult,
    Example,
    FaithfulnessReport,
    library_versions,
)
from attributionlab.trial import Claim, Trial, attributions_and_truth, chosen_outputs
from attributionlab.truth import Output, Truth

__all__ = ["DEFAULT_ENVIRONMENTS", "faithfulness_test"]

DEFAULT_ENVIRONMENTS = ("multi-color-sum", "multi-color-sum-distractors", "single-color-modulo")
MOST_IMAGES = 1_000_000


def faithfulness_test(
    method: Any,
    environments: Sequence[str | Environment] | str | Environment | None = None,
    n: int = 32,
    seed: int = 0,
    gamma: float = 0.5,
    claim: Claim | None = None,
    output: Output | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    preset: str | None = None,
    truth_output: Output | None = None,
    device: str | torch.device | None = None,
    show_progress: bool = False,
    command: str | None = None,
) -> FaithfulnessReport:
    """Does an attribution method find what the networks used?

    A method fails if its F1 against the truth is below gamma in any environment (AttributionLab,
    eq. 2). Passing does not make it faithful.

    Parameters
    ----------
    method : str, class, callable, array or mapping
        A built-in name, ``file.py:name``, ``module:name``, a Captum class or instance,
        ``f(model, inputs, targets, **settings)``, or attributions for ``env.batch(n, seed)``.
    environments : str, Environment, or a sequence of them, optional
        Where to test; `DEFAULT_ENVIRONMENTS` by default.
    n, seed : int
        How many images of each environment, and which.
    gamma : float
        The F1 in (0, 1] that must be reached.
    claim : {"signed", "overall", "positive", "positive-smoothed"}, optional
        What must reach it; the method's own claim, or "signed", by default. "signed" takes the lowest
        of the parts overall, positive and negative that an environment has.
    output : {"probability", "logit"}, optional
        Which output of a classifier is explained; the method's own choice, or the probability, by
        default. A regression has one output, which is explained in any case.
    settings : mapping, optional
        Passed to the method.
    preset : {"paper"}, optional
        Settings and output that a paper states for this method; `settings` and `output` override them.
    truth_output : {"probability", "logit"}, optional
        Which output the truth is about, where that is not the one explained.
    device : str or torch.device, optional
        Where to compute; by default where the environments are, at first the CPU.
    show_progress : bool
        Show progress on standard error.
    command : str, optional
        How to run this again, for the report.

    Returns
    -------
    FaithfulnessReport

    Raises
    ------
    AttributionLabError
        For everything that cannot be tested: unknown names, a method that raises, wrong shapes, NaN.

    Examples
    --------
    >>> import attributionlab as al
    >>> env = al.load("multi-color-sum-distractors", image_size=24)
    >>> al.faithfulness_test("oracle", env, n=2).verdict
    'pass'
    >>> al.faithfulness_test("non-background", env, n=2).verdict
    'fail'
    """
    contestant = as_method(method, METHODS | CONTROLS, settings)
    claim, gamma = _checked(
        n, seed, gamma, claim or contestant.claim or "signed", output, truth_output
    )
    chosen = as_environments(DEFAULT_ENVIRONMENTS if environments is None else environments)
    names = [env.name for env in chosen]
    if len({(env.name, env.spec.digest) for env in chosen}) < len(chosen):
        raise AttributionLabError(f"environments are {names}: name each once")
    if device is not None:
        chosen = [env.to(device) for env in chosen]
    findings, results = [], []
    with without_tf32():
        for env in chosen:
            prepared = preset_of(preset, env.task, contestant.name)
            run = contestant
            if prepared.settings:
                here = {**prepared.settings, **contestant.settings}
                run = as_method(method, METHODS | CONTROLS, here)
            explained, held = chosen_outputs(
                env, output, truth_output, prepared.output, contestant.output
            )
            trial = Trial(env, explained, held, claim, gamma, int(n), int(seed))
            with heard() as told:
                maps, truth, seconds = attributions_and_truth(run, trial, show_progress)
            results.append(_judge(maps, truth, trial, run.settings, seconds, _gaps(told, n)))
            findings += told
    remarks = [f"{contestant.name}: {sentence}" for sentence in summarized(findings)]
    for remark in remarks:
        warnings.warn(remark, AttributionWarning, stacklevel=2)
    return FaithfulnessReport(
        verdict="pass" if all(result.verdict == "pass" for result in results) else "fail",
        claim=claim,
        gamma=gamma,
        method=contestant.name,
        settings=contestant.settings,
        preset=preset,
        seed=int(seed),
        n=int(n),
        environments=results,
        warnings=remarks,
        command=command
        or f"attributionlab.faithfulness_test({contestant.name}, {names}, n={n}, seed={seed}, "
        f"gamma={gamma}, claim={claim!r}, output={output!r}, settings={contestant.settings}, "
        f"preset={preset!r}, truth_output={truth_output!r})",
        versions=library_versions(),
    )


def _gaps(findings: Sequence[Finding], n: int) -> NDArray[np.float64] | None:
    """For each image the share of the output change that the attributions miss, if anybody looked."""
    gaps = np.array([gap for finding in findings for gap in finding.gaps])
    return gaps if len(gaps) == n else None


def _score(maps: Tensor, truth: Truth, trial: Trial) -> tuple[dict[str, Alignment], float | None]:
    """Precision, recall and F1 of each image and part, and the ceiling of a smoothed truth."""
    scores = {
        which: alignment(magnitudes(maps, which), getattr(truth, which)) for which in get_args(Part)
    }
    if trial.claim != "positive-smoothed":
        return scores, None
    best = trial.ideal(truth)
    scores[trial.claim] = alignment(magnitudes(maps, "positive"), best)
    return scores, float(alignment(best, best).f1.nanmean())


def _judge(
    maps: Tensor,
    truth: Truth,
    trial: Trial,
    settings: Mapping[str, Any],
    seconds: float,
    gaps: NDArray[np.float64] | None,
) -> EnvironmentResult:
    """Score every image and part; the claim's mean F1 decides, for "signed" the lowest."""
    env, claim = trial.env, trial.claim
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
        seconds=seconds,
        completeness_gap=gaps,
        attributions=maps[:, 0].numpy(),
        example=_example(maps, truth, scores[decisive].f1, trial),
    )


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


def _checked(
    n: int, seed: int, gamma: float, claim: str, *outputs: str | None
) -> tuple[Claim, float]:
    """The claim and gamma, or all that is wrong at once."""
    problems = []
    if not isinstance(n, Integral) or isinstance(n, bool) or not 1 <= n <= MOST_IMAGES:
        problems.append(f"n is {n!r}: take an integer from 1 to {MOST_IMAGES}")
    if not isinstance(seed, Integral) or isinstance(seed, bool) or seed < 0:
        problems.append(f"seed is {seed!r}: take an integer of at least 0")
    if not isinstance(gamma, Real) or not 0 < gamma <= 1:
        problems.append(f"gamma is {gamma!r}: take a number in (0, 1]")
    if claim not in get_args(Claim):
        problems.append(f"claim is {claim!r}: {nearest(str(claim), get_args(Claim))}")
    problems += [
        f"output is {output!r}: {nearest(str(output), get_args(Output))}"
        for output in outputs
        if output not in (None, *get_args(Output))
    ]
    refuse_if(problems)
    return cast(Claim, claim), float(gamma)
