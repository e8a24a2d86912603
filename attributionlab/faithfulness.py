"""The spine: environment -> method -> score -> verdict."""

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast, get_args

import numpy as np
import torch
from torch import Tensor

from attributionlab.assess import CONTROLS
from attributionlab.catalog import load, nearest
from attributionlab.device import as_device, without_tf32
from attributionlab.environment import Environment
from attributionlab.errors import AttributionLabError, AttributionWarning, refuse_if
from attributionlab.methods import METHODS, Method, Occasion, as_method, attribute
from attributionlab.metrics import Alignment, Part, alignment, normalize, part
from attributionlab.progress import track
from attributionlab.results import (
    EnvironmentResult,
    Example,
    FaithfulnessReport,
    library_versions,
)
from attributionlab.truth import Output, Truth, smoothed

__all__ = ["DEFAULT_ENVIRONMENTS", "Claim", "as_environments", "faithfulness_test"]

Claim = Literal["signed", "overall", "positive", "positive-smoothed"]
DEFAULT_ENVIRONMENTS = ("multi-color-sum", "multi-color-sum-distractors", "single-color-modulo")


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
        Which output of a classifier is explained; the probability by default. A regression has one
        output, which is explained in any case.
    settings : mapping, optional
        Passed to the method.
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
    claim = _checked(n, gamma, claim or contestant.claim or "signed", output)
    trials = [
        (env, env.checked_output(output if env.task == "classification" else None))
        for env in as_environments(environments)
    ]
    if device is not None:
        trials = [(env.to(as_device(device)), explained) for env, explained in trials]
    notes, results = Counter[str](), []
    with without_tf32():
        for env, explained in trials:
            maps, truth = _attribute(contestant, env, explained, n, seed, notes, show_progress)
            results.append(_judge(maps, truth, env, explained, claim, gamma, n, seed))
    remarks = [f"{contestant.name}: attributions of {k} images {note}" for note, k in notes.items()]
    for remark in remarks:
        warnings.warn(remark, AttributionWarning, stacklevel=2)
    return FaithfulnessReport(
        verdict="pass" if all(result.verdict == "pass" for result in results) else "fail",
        claim=claim,
        gamma=gamma,
        method=contestant.name,
        settings=contestant.settings,
        seed=seed,
        n=n,
        environments=results,
        warnings=remarks,
        command=command or f"attributionlab.faithfulness_test({contestant.name}, ...)",
        versions=library_versions(),
    )


def _attribute(
    method: Method,
    env: Environment,
    output: Output,
    n: int,
    seed: int,
    notes: Counter[str],
    show_progress: bool,
) -> tuple[Tensor, Truth]:
    """Normalized attributions of n images, summed over channels, and the truth about them."""
    maps: list[Tensor] = []
    signed: list[Tensor] = []
    start, loader = 0, env.loader(n, seed)
    is_control = any(method.function is control for control in CONTROLS.values())
    what = f"{method.name} on {env.name}"
    for images, labels, patches in track(loader, len(loader), what, show_progress):
        targets = env.targets(labels)
        truth = env.truth(images, targets, output)
        batch_seed = int(np.random.SeedSequence([seed, start]).generate_state(1)[0])
        offered = {
            "baseline": env.baseline,
            "layers": env.layers,
            "patches": patches,
            "generator": torch.Generator().manual_seed(batch_seed),
        }
        if is_control:
            offered["truth"] = truth
        inputs = images.to(env.device).contiguous(memory_format=torch.channels_last)
        model, targets = env.explained_model(output), targets.to(env.device)
        occasion = Occasion(env.name, model, inputs, targets, start, offered)
        maps.append(normalize(attribute(method, occasion, batch_seed, notes)))
        signed.append(truth.signed)
        start += len(images)
    return torch.cat(maps), Truth(torch.cat(signed))


def _judge(
    maps: Tensor,
    truth: Truth,
    env: Environment,
    output: Output,
    claim: Claim,
    gamma: float,
    n: int,
    seed: int,
) -> EnvironmentResult:
    """Score every image and part; the claim's mean F1 decides, for "signed" the lowest."""
    scores, ceiling = _score(maps, truth, claim, env)
    f1 = {which: float(score.f1.nanmean()) for which, score in scores.items()}
    candidates = get_args(Part) if claim == "signed" else (claim,)
    applicable = [which for which in candidates if not np.isnan(f1[which])]
    if not applicable:
        raise AttributionLabError(
            f"no image of {env.name} has a truth for the claim {claim!r}: take a larger n or "
            "another seed"
        )
    decisive = min(applicable, key=f1.__getitem__)
    # An example for looking at: the image with the median score, neither the best nor the worst.
    scored = int((~scores[decisive].f1.isnan()).sum())
    median = int(scores[decisive].f1.argsort()[scored // 2])  # NaN comes last
    return EnvironmentResult(
        name=env.name,
        output=output,
        verdict="pass" if f1[decisive] >= gamma else "fail",
        claim_f1=f1[decisive],
        claim_part=decisive,
        scores={
            which: {name: values.numpy() for name, values in score._asdict().items()}
            for which, score in scores.items()
        },
        temperature=env.temperature if output == "probability" else None,
        digest=env.spec.digest,
        ceiling=ceiling,
        example=Example(
            sample=median,
            image=env.dataset(n, seed)[median].image.numpy(),
            highest=env.max_value,
            truth=truth.signed[median, 0].numpy(),
            attribution=maps[median, 0].numpy(),
        ),
    )


def _score(
    maps: Tensor, truth: Truth, claim: Claim, env: Environment
) -> tuple[dict[str, Alignment], float | None]:
    """Precision, recall and F1 of each image and part, and the ceiling of a smoothed truth."""
    scores = {
        which: alignment(part(maps, which), getattr(truth, which)) for which in get_args(Part)
    }
    if claim != "positive-smoothed":
        return scores, None
    best = smoothed(truth.positive, env.smoothing_sigma)
    scores[claim] = alignment(part(maps, "positive"), best)
    return scores, float(alignment(best, best).f1.nanmean())


def as_environments(
    environments: Sequence[str | Environment] | str | Environment | None,
) -> list[Environment]:
    """Names, environments or a mixture, as environments."""
    if environments is None:
        environments = DEFAULT_ENVIRONMENTS
    if isinstance(environments, str | Environment):
        environments = [environments]
    if not isinstance(environments, list | tuple) or not environments:
        raise AttributionLabError(
            f"environments is {environments!r}: name at least one, in a list, or leave it out"
        )
    return [load(each) if isinstance(each, str) else each for each in environments]


def _checked(n: int, gamma: float, claim: str, output: str | None) -> Claim:
    problems = []
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        problems.append(f"n is {n!r}: take an integer of at least 1")
    if not 0 < gamma <= 1:
        problems.append(f"gamma is {gamma!r}: take a number in (0, 1]")
    if claim not in get_args(Claim):
        problems.append(f"claim is {claim!r}: {nearest(str(claim), get_args(Claim))}")
    if output not in (None, *get_args(Output)):
        problems.append(f"output is {output!r}: {nearest(str(output), get_args(Output))}")
    refuse_if(problems)
    return cast(Claim, claim)
