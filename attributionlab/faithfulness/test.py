"""The spine: environment -> method -> score -> verdict."""

import inspect
import warnings
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, cast, get_args

import torch

from attributionlab.device import own_arithmetic
from attributionlab.digits import score_text
from attributionlab.environment import Environment
from attributionlab.environment.catalog import as_environments, load_call
from attributionlab.errors import AttributionLabError, AttributionWarning, nearest, refuse_if
from attributionlab.faithfulness.report import (
    EnvironmentResult,
    FaithfulnessReport,
    format_settings,
)
from attributionlab.faithfulness.run import run_method
from attributionlab.faithfulness.score import score_outcome
from attributionlab.faithfulness.setup import Claim, prepared
from attributionlab.methods import (
    METHODS,
    AttributionMethod,
    Notice,
    as_method,
    summarized,
)
from attributionlab.methods.controls import CONTROLS
from attributionlab.progress import follow
from attributionlab.truth import Output
from attributionlab.validation import MOST_IMAGES, boolean_problem, integer_problem
from attributionlab.versions import library_versions

DEFAULT_ENVIRONMENTS = ("multi-color-sum", "multi-color-sum-distractors", "single-color-modulo")
MOST_SEEDS = 1_000
MOST_NETWORKS = 100


def faithfulness_test(
    method: AttributionMethod,
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
    seeds: int = 1,
    diagnosed: bool = True,
    truths: bool = False,
    camouflage: int = 0,
    device: str | torch.device | None = None,
    show_progress: bool = False,
    command: str | None = None,
) -> FaithfulnessReport:
    """Does an attribution method find what the networks used?

    A method fails if its F1 against the truth is below gamma in any environment (AttributionLab,
    eq. 2): if the 95 % interval of its mean over images lies below. Where gamma lies inside the
    interval, the images do not suffice for a verdict. Passing does not make a method faithful. Controls
    are run on the same images; if one has the wrong result, there is no verdict on the method.

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
    claim : {"signed", "overall", "positive", "positive-smoothed", "agreed"}, optional
        What must reach it; the method's own claim, or "signed", by default. "signed" takes the lowest
        of the parts overall, positive and negative that an environment has; "agreed" does so on the
        pixels to which every definition in ``env.truths`` gives the same sign; the others do not
        count.
    output : {"probability", "logit"}, optional
        Which output of a classifier is explained; the method's own choice, or the probability, by
        default. A regression has one output, which is explained in any case.
    settings : mapping, optional
        Passed to the method.
    preset : {"paper"}, optional
        Settings and output that a paper states for this method; `settings` and `output` override them.
    truth_output : {"probability", "logit"}, optional
        Which output the truth is about, where that is not the one explained.
    seeds : int
        How often a method that draws random numbers is run on each image, under different seeds.
    diagnosed : bool
        Look beyond the verdict at 8 images: ceilings, the runner-up class, likely causes.
    truths : bool
        Score the maps of these 8 images also against every definition of the truth: single-pixel
        ablation and insertion, Shapley values, integrated gradients (``env.truths``).
    camouflage : int
        On how many other networks, camouflaged but functionally equal (``env.camouflaged``), the
        method explains these 8 images again; how far its maps drift is reported and decides nothing.
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
    KeyboardInterrupt
        On Ctrl-C; its message says what was found so far.

    Examples
    --------
    >>> import attributionlab as al
    >>> env = al.load("multi-color-sum-distractors", image_size=24)
    >>> al.faithfulness_test("oracle", env, n=2).verdict
    'pass'
    >>> al.faithfulness_test("non-background", env, n=2).verdict
    'fail'
    """
    resolved = as_method(method, METHODS | CONTROLS, settings)
    declared = resolved.claim or "signed"
    claim, gamma = checked_request(
        n=n,
        seed=seed,
        gamma=gamma,
        claim=declared if claim is None else claim,
        outputs=(output, truth_output),
        seeds=seeds,
        camouflage=camouflage,
        diagnosed=diagnosed,
        truths=truths,
    )
    chosen = as_environments(DEFAULT_ENVIRONMENTS if environments is None else environments)
    names = [env.name for env in chosen]
    if len({(env.name, env.spec.digest) for env in chosen}) < len(chosen):
        raise AttributionLabError(f"environments are {names}: name each once")
    for env in chosen:
        if camouflage and "camouflage_seed" in env.spec.constants:
            raise AttributionLabError(
                f"camouflage is {camouflage}, but {env.name} is camouflaged already: pass the plain one"
            )
    options = _beyond_defaults(
        claim=claim if claim != declared else None,
        gamma=gamma,
        n=int(n),
        seed=int(seed),
        output=output,
        preset=preset,
    )
    results: list[EnvironmentResult] = []
    notices: list[Notice] = []
    try:
        with own_arithmetic():
            if device is not None:
                chosen = [env.to(device) for env in chosen]
            for env in chosen:
                setup = prepared(
                    *(resolved, env, output, truth_output),
                    preset=preset,
                    claim=claim,
                    gamma=gamma,
                    n=int(n),
                    seed=int(seed),
                    seeds=int(seeds),
                    diagnosed=diagnosed or truths,
                    truths=truths,
                    camouflage=int(camouflage),
                    options=options,
                )
                outcome = run_method(setup, show_progress)
                with follow(f"causes and ceilings on {env.name}", show=show_progress):
                    results.append(score_outcome(outcome, setup))
                notices += outcome.notices
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(_what_was_done(results, len(chosen), gamma)) from stop
    remarks = [f"{resolved.name}: {sentence}" for sentence in summarized(notices)]
    for remark in remarks:
        warnings.warn(remark, AttributionWarning, stacklevel=2)
    return FaithfulnessReport(
        claim=claim,
        gamma=gamma,
        method=resolved.name,
        settings=resolved.settings,
        preset=preset,
        seed=int(seed),
        n=int(n),
        environments=results,
        warnings=remarks,
        command=command
        or f"attributionlab.faithfulness_test({resolved.reference}, "
        f"[{', '.join(load_call(env) for env in chosen)}], n={n}, seed={seed}, gamma={gamma}, "
        f"claim={claim!r}, output={output!r}, settings={format_settings(resolved.settings)}, "
        f"preset={preset!r}, truth_output={truth_output!r}, seeds={seeds}, "
        f"diagnosed={diagnosed}, truths={truths}, camouflage={camouflage}, device={device!r})",
        versions=library_versions(),
    )


def _beyond_defaults(**given: Any) -> dict[str, Any]:
    """Options that differ from the defaults above, for commands of hints."""
    parameters = inspect.signature(faithfulness_test).parameters
    return {key: value for key, value in given.items() if value != parameters[key].default}


def _what_was_done(results: Sequence[EnvironmentResult], environments: int, gamma: float) -> str:
    """What an interrupted test had found."""
    found = [
        f"{each.name} {each.verdict}, F1 {score_text(each.claim_f1, gamma)}" for each in results
    ]
    return "; ".join([f"{len(results)} of {environments} environments were done", *found])


def checked_request(
    *,
    n: int,
    seed: int,
    gamma: float,
    claim: str,
    outputs: Sequence[str | None],
    seeds: int = 1,
    camouflage: int = 0,
    diagnosed: bool = True,
    truths: bool = False,
) -> tuple[Claim, float]:
    """The claim and gamma, or all that is wrong at once."""
    problems = [*integer_problem("n", n, 1, MOST_IMAGES), *integer_problem("seed", seed, 0)]
    problems += integer_problem("seeds", seeds, 1, MOST_SEEDS)
    problems += integer_problem("camouflage", camouflage, 0, MOST_NETWORKS)
    if not isinstance(gamma, Real) or isinstance(gamma, bool) or not 0 < gamma <= 1:
        problems.append(f"gamma is {gamma!r}: take a number in (0, 1]")
    if claim not in get_args(Claim):
        problems.append(f"claim is {claim!r}: {nearest(str(claim), get_args(Claim))}")
    problems += boolean_problem("diagnosed", diagnosed) + boolean_problem("truths", truths)
    problems += [
        f"output is {output!r}: {nearest(str(output), get_args(Output))}"
        for output in outputs
        if output not in (None, *get_args(Output))
    ]
    refuse_if(problems)
    return cast(Claim, claim), float(gamma)
