"""The spine: environment -> method -> score -> verdict, for one method or several side by side."""

import math
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Unpack

from attributionlab.base import (
    FEWEST_QUESTIONS,
    QUESTIONS,
    AttributionLabError,
    AttributionWarning,
    Stopped,
    drawn_seed,
    explained_arguments,
    follow,
    library_versions,
    one_thread,
    own_arithmetic,
    refuse_if,
    repeated_problem,
)
from attributionlab.methods import METHODS, AttributionMethod, Method, Notice, summarized
from attributionlab.runs import (
    Cell,
    Running,
    Workers,
    outcomes_of,
    pays,
    running_problems,
    values,
)
from attributionlab.show import INSIDE
from attributionlab.verdicts.faithfulness import protocol
from attributionlab.verdicts.faithfulness.calls import bound_to_one_network
from attributionlab.verdicts.faithfulness.comparison import Comparison, Refusal
from attributionlab.verdicts.faithfulness.equal_networks import robustness_of
from attributionlab.verdicts.faithfulness.isolation import (
    as_tested,
    fingerprint_of,
    is_users,
)
from attributionlab.verdicts.faithfulness.report import (
    EnvironmentResult,
    FaithfulnessReport,
    format_settings,
    labelled,
)
from attributionlab.verdicts.faithfulness.run import run_method
from attributionlab.verdicts.faithfulness.score import score_outcome
from attributionlab.verdicts.faithfulness.setup import asked
from attributionlab.verdicts.own_process import processes_ended
from attributionlab.worlds import Environment, load_call
from attributionlab.worlds.nets import GRADED, TRAINED

QUESTION_SECONDS = 0.12
"""About what a test takes at least on a processor for a question, however small its image is: a network
is built for each, and asked by the controls."""
PIXEL_SECONDS = 1e-5
"""And beside it for each pixel: 0.6 s a question at 224 x 224, where `saliency` took 0.7 s."""


@explained_arguments
@processes_ended()
def faithfulness_test(
    method: AttributionMethod,
    environments: Sequence[str | Environment] | str | Environment | None = None,
    n: int = QUESTIONS,
    seed: int | Literal["fresh", "bound"] = 0,
    claim: protocol.Claim | None = None,
    *,
    explain: protocol.Explained | None = None,
    settings: Mapping[str, Any] | None = None,
    preset: str | None = None,
    also: str | Sequence[str] | None = (),
    one_network: bool = False,
    implementations: str | Sequence[str] | None = None,
    image_size: int | None = None,
    **running: Unpack[protocol.RunningMethods],
) -> FaithfulnessReport:
    """Test whether an attribution method finds what the networks used.

    Each image is a question with its own network. For every question we draw a new network (which
    colors count and for which class, weights, background, redundant channels) and a target
    (`attributionlab.Questions`). A question is solved if the lowest F1 of the claim's parts is above
    two thirds. A method passes if the exact 95 % interval of the share of questions that it solves
    (Clopper and Pearson) lies at or above 3/4 in every environment and implementation, which needs at
    least 13 questions. It fails if one of the intervals lies below 3/4, with the tail probability
    divided by their number. Otherwise the result is inconclusive. The paper's own criterion, a mean F1
    of at least 0.5 (AttributionLab, eq. 2), is reported, too.

    Environments hide roles of colors, target, place, color, sign or context. A map made without seeing
    one of these solves a question with probability at most 1/m, for m alternatives
    (`worlds.environment.hidden`). For a pass, the environments together must hide everything that the
    claim requires; the default environments do. Passing does not make a method faithful. Controls are
    run on the same questions; if one has the wrong result, there is no verdict.

    Parameters
    ----------
    method : str, class, callable, array or mapping
        A built-in name, ``file.py:name``, ``module:name``, a Captum class or instance,
        ``f(model, inputs, targets, **settings)``, or, with `one_network`, attributions for
        ``env.batch(n, seed)``.
    environments : str, Environment, or a sequence of them, optional
        Where to test; `DEFAULT_ENVIRONMENTS` by default, also named "images"; "tokens" stands for
        `TOKEN_ENVIRONMENTS`. A custom environment (`custom_environment`) has one network, which cannot
        exclude blind maps: alone it gives no "pass" without `one_network`.
    n : int
        How many questions (images) of each environment.
    seed : int, "fresh" or "bound"
        Which questions. A method could have memorized those of a given seed; "fresh" draws a seed,
        which the report states. "bound" derives it from the protocol and the method's code, so that
        nobody can choose it.
    claim : {"signed", "overall", "positive", "positive-smoothed", "agreed"}, optional
        What is compared with the truth; by default the method's own claim, or "signed". "signed" takes
        the lowest of the parts overall, positive and negative that an environment has; "agreed" does so
        on the pixels that have the same sign by every definition in ``env.truths``, ignoring all
        others.
    explain : {"probability", "logit"} or a pair of them, optional
        Which output of a classifier is explained, and whose truth is used; by default the method's own
        choice, or the probability. The second of a pair is the output of the truth. A regression has a
        single output, which is always explained.
    settings : mapping, optional
        Passed to the method.
    preset : {"paper"}, optional
        Settings and output that a paper states for this method; `settings` and `explain` override them.
    also : str, sequence of str, or None
        What to measure in addition to the verdict and its diagnosis (the method's resolution, likely
        causes and, on one network, the runner-up class, for 8 images). None: the verdict only.

        "truths"
            The maps of these 8 images are also scored against every definition of the truth:
            single-pixel ablation and insertion, Shapley values, integrated gradients (``env.truths``).
        "camouflage", "camouflage:K"
            The method explains these 8 images again on K (3) other networks, camouflaged but
            functionally equal (``env.camouflaged``). The drift of its maps does not affect the verdict.
        "equivalent", "equivalent:K"
            The same questions are repeated on the first K (all 5) of `attributionlab.nets.EQUIVALENT`:
            networks with identical outputs on every integer image but different gradients (for the
            paper's implementation only). Their scores give a second verdict, whether a passing method
            is robust, and never affect the first.
        "seeds", "seeds:K"
            A method that draws random numbers is run K (5) times on each image with different seeds;
            the means of its scores count.
    one_network : bool
        Give all images of an environment its own network, and their labels as targets, as in the paper.
        A lookup table of the network's colors then passes. Precomputed attributions, and instances that
        are bound to a model, can only be tested in this way.
    implementations : str or sequence of str, optional
        Implementations of the networks (`attributionlab.nets.IMPLEMENTATIONS`), with n questions each.
        "trained": a network that learned the rule, included in the package for some worlds; a map's sum
        over each patch is then scored, with `one_network`. For environments given by name the default
        is "paper" and "natural", as far as they exist; an `Environment` is used as it is.
    image_size : int, optional
        Side of the images, in pixels, for environments given by name: by default 72 for those of the
        catalog (the paper has 224), the size in the file for others, and 24 for trained networks.
        Scores depend on the size.
    **running
        How to run it: out, jobs, retry_failed, show_progress and device as
        `attributionlab.runs.running.Running` says, and isolated (True), whether a user's method runs in
        a process of its own (`verdicts.faithfulness.protocol.RunningMethods`). Each of several
        processes handles one environment after the other, with one thread and its own copy of what a
        method remembers between calls. In a single process, all cores work on the same image of a
        user's own network, and sums may be rounded differently.

    Raises
    ------
    AttributionLabError
        For everything that cannot be tested: unknown names, a method that raises, wrong shapes, NaN.
    KeyboardInterrupt
        On Ctrl-C, with the results so far in its message.

    Examples
    --------
    >>> import attributionlab as al
    >>> env = al.load("multi-color-sum-distractors", image_size=24)
    >>> report = al.faithfulness_test("oracle", env, n=13)
    >>> report.environments[0].count
    Tally(solved=13, asked=13)
    >>> report.verdict, report.not_excluded  # this environment alone does not ask for all
    ('inconclusive', ['place', 'sign', 'context'])
    >>> al.faithfulness_test("half-and-half", env, n=13).verdict
    'fail'
    """
    isolated = running.get("isolated", True)
    resolved = as_tested(method, settings, isolated)
    declared = resolved.claim or "signed"
    bound = isinstance(seed, str) and seed == "bound"
    number, seed_drawn = (protocol.bound_seed(resolved), False) if bound else drawn_seed(seed)
    request = protocol.requested(n, number, claim, explain, preset, one_network, also)
    request = replace(request, claim=None if claim == declared else request.claim)
    refuse_if(running_problems(running))
    chosen = protocol.places_of(environments, running, implementations, image_size)
    _refuse_rewritten(request, chosen)
    for env in chosen:
        _refuse_misfit(resolved, request, env)
    if request.n < FEWEST_QUESTIONS:
        warnings.warn(
            f"n is {n}: with fewer than {FEWEST_QUESTIONS} questions no method passes; take "
            f"{FEWEST_QUESTIONS} or more for a verdict",
            AttributionWarning,
            stacklevel=4,
        )
    found, stop = list[Tested](), None
    in_cells = running.get("out") is not None or _pays(request.n, chosen, running)
    if in_cells:
        cells = method_cells(resolved, request, chosen, len(chosen), isolated)
        done, stop = values(cells, "testing", running)
        found = [value for _, value in done]
    else:
        try:
            for env in chosen:
                show = running.get("show_progress", False)
                found.append(_tested(resolved, request, env, len(chosen), show_progress=show))
        except KeyboardInterrupt as error:
            stop = error
    if stop is not None:
        told = _what_was_done([result for result, _ in found], len(chosen))
        raise KeyboardInterrupt(told) from stop
    alone = in_cells or all(map(_in_one_thread, chosen))
    report = report_of(resolved, request, chosen, found, running, in_one_thread=alone)
    for remark in report.warnings:
        if not remark.endswith(INSIDE):  # what the user asked for
            warnings.warn(remark, AttributionWarning, stacklevel=4)
    return replace(report, seed_drawn=seed_drawn, seed_bound=bound)


def _pays(n: int, environments: Sequence[Environment], running: Running) -> bool:
    """Whether several processes take one environment after the other."""
    workers = Workers(running.get("jobs", 1))
    if workers.jobs is not None or len(environments) == 1:
        return min(len(environments), workers.most) > 1
    return pays([_seconds(n, env) for env in environments], workers)


def _seconds(n: int, env: Environment) -> float:
    """What the test of an environment takes at least, as far as is known."""
    each = QUESTION_SECONDS + math.prod(env.image_shape[1:]) * PIXEL_SECONDS
    return n * each if env.device.type == "cpu" else 0


Tested = tuple[EnvironmentResult, list[Notice]]
"""What was found in an environment, and what is to be said of the method."""


def method_cells(
    method: Method,
    request: protocol.Request,
    environments: Sequence[Environment],
    together: int,
    isolated: bool,
) -> list[Cell]:
    """The test of a method in each environment as work, whose value is `Tested`; so many are asked
    `together`.
    """
    label = labelled(method.name, method.settings)
    inputs = {
        "method": method.name if method.built_in else fingerprint_of(method),
        "settings": dict(method.settings),
        "together": together,
        "isolated": isolated,
        **vars(request),
    }
    return [
        Cell(
            "test",
            {"method": label, "environment": env.name, "spec": env.spec.digest[:8]},
            {**inputs, "environment": env.spec.digest, "device": str(env.device)},
            partial(_tested, method, request, env, together),
            _seconds(request.n, env),
        )
        for env in environments
    ]


def _tested(
    method: Method,
    request: protocol.Request,
    env: Environment,
    together: int,
    device: str | None = None,
    *,
    show_progress: bool = False,
) -> Tested:
    """One environment; the `device` of a worker is not used, since the environment has its own."""
    _refuse_misfit(method, request, env)
    request = _of_networks(request, env)
    with own_arithmetic(), one_thread() if _in_one_thread(env) else nullcontext():
        setup = asked(method, env, request, together)
        outcome = run_method(setup, show_progress)
        with follow(f"causes on {env.name}", show=show_progress):
            result = score_outcome(outcome, setup)
        if request.also.equivalent:
            robustness = robustness_of(setup, result.verdict, show_progress)
            result = replace(result, robustness=robustness)
    return result, outcome.notices


def _refuse_misfit(method: Method, request: protocol.Request, env: Environment) -> None:
    """Refuse what cannot be asked of a method, or in an environment."""
    if env.has_roles and not request.one_network and (reason := bound_to_one_network(method)):
        raise AttributionLabError(
            f"{method.name}: each question has its own network, and {reason}; or set one_network "
            "(--one-network)"
        )
    claim = request.claim or method.claim
    beyond = [f"also names {word!r}" for word in request.also.words if not word.startswith("seeds")]
    if claim in ("agreed", "positive-smoothed"):
        beyond.insert(0, f"claim is {claim!r}")
    if not env.has_roles:
        needs = "which needs a network and images of the laboratory: leave it out"
        refuse_if([f"{what}, {needs}" for what in beyond], f"{env.name}, a user's own environment")
    if env.is_of_tokens:
        needs = "which is about pixels and their neighbors: leave it out"
        about_pixels = [what for what in beyond if "claim" in what or "truths" in what]
        refuse_if([f"{what}, {needs}" for what in about_pixels], env.name)
    if env.implementation == TRAINED:
        needs = "which is about pixels, and a trained network is scored on patches: leave it out"
        refuse_if([f"{what}, {needs}" for what in beyond], env.name)


def _of_networks(request: protocol.Request, env: Environment) -> protocol.Request:
    """What is asked in an environment: only networks as they were built are rewritten beside it."""
    found, changed = request.also, env.spec.constants
    if env.implementation == TRAINED:  # causes are told from pixels
        found = found._replace(diagnosis=False)
    if env.is_of_tokens:
        found = found._replace(equivalent=0, camouflage=0)
    if {"camouflage_seed", "implementation"} & changed.keys():
        found = found._replace(equivalent=0)
    if "camouflage_seed" in changed or changed.get("implementation") in GRADED:
        found = found._replace(camouflage=0)
    return replace(request, also=found)


def _refuse_rewritten(request: protocol.Request, environments: Sequence[Environment]) -> None:
    """Refuse to rewrite networks where none of the environments has any that was not rewritten."""
    left = [_of_networks(request, env).also for env in environments]
    for name in ("equivalent", "camouflage"):
        if getattr(request.also, name) and not any(getattr(also, name) for also in left):
            names = ", ".join(env.name for env in environments)
            raise AttributionLabError(
                f"also names {name!r}, but {names} already has rewritten networks or consists of "
                "tokens: pass an environment of images with its plain network"
            )


def report_of(
    method: Method,
    request: protocol.Request,
    environments: Sequence[Environment],
    found: Sequence[Tested],
    running: protocol.RunningMethods,
    *,
    in_one_thread: bool = True,
) -> FaithfulnessReport:
    """The report of what was found in environments."""
    notices = [notice for _, heard in found for notice in heard]
    remarks = [f"{method.name}: {sentence}" for sentence in summarized(notices)]
    remarks += [
        _ON_PATCHES.format(env.name, env.image_shape[-1])
        for env in environments
        if env.implementation == TRAINED
    ]
    if not running.get("isolated", True) and is_users(method):
        remarks.insert(0, f"{method.name}: {INSIDE}")
    arguments = [method.reference, f"[{', '.join(load_call(env) for env in environments)}]"]
    if method.settings:
        arguments.append(f"settings={format_settings(method.settings)}")
    return FaithfulnessReport(
        claim=request.claim or method.claim or "signed",
        method=method.name,
        settings=method.settings,
        preset=request.preset,
        seed=request.seed,
        n=request.n,
        one_network=request.one_network,
        changed=request.changes(environments),
        source=protocol.source_of(method),
        given=protocol.given_to(method),
        environments=[result for result, _ in found],
        warnings=remarks,
        command=f"attributionlab.faithfulness_test({request.call(*arguments, **running)})",
        versions=library_versions() | ({"threads": "1"} if in_one_thread else {}),
    )


_ON_PATCHES = (
    "{}: its network was trained, on images of {} pixels, so maps are scored by their sums over "
    "patches against the rule's truth, and pixels outside patches are not scored"
)


def _in_one_thread(env: Environment) -> bool:
    """Whether an environment is tested with one thread wherever that is, as in further processes.

    More threads add in another order, and gain nothing in the laboratory's small networks; beside other
    work they wait for each other. A user's own network may be large.
    """
    return env.has_roles and env.device.type == "cpu"


def _what_was_done(results: Sequence[EnvironmentResult], environments: int) -> str:
    """What an interrupted test had found."""
    found = [
        f"{each.name} {each.verdict}, solved {each.count.solved} of {each.count.asked}"
        for each in results
    ]
    return "; ".join([f"{len(results)} of {environments} environments were done", *found])


@explained_arguments
@processes_ended()
def compare(
    methods: AttributionMethod
    | Sequence[AttributionMethod | tuple[AttributionMethod, Mapping[str, Any]]]
    | None = None,
    environments: Sequence[str | Environment] | str | Environment | None = None,
    n: int = QUESTIONS,
    seed: int | Literal["fresh"] = 0,
    claim: protocol.Claim | None = None,
    *,
    explain: protocol.Explained | None = None,
    preset: str | None = None,
    also: str | Sequence[str] = (),
    one_network: bool = False,
    implementations: str | Sequence[str] | None = None,
    image_size: int | None = None,
    **running: Unpack[protocol.RunningMethods],
) -> Comparison:
    """Compare attribution methods on the same images.

    A method that cannot run somewhere (because it needs a classifier, weights or a library) is listed
    with the reason, without affecting the others.

    Parameters
    ----------
    methods : sequence or one method, optional
        What `faithfulness_test` takes; a pair (method, settings) sets its settings. All built-in
        methods and the controls "random" and "constant" by default.
    environments : str, Environment, or a sequence of them, optional
        Where to test; by default the default environments of `faithfulness_test`.
    seed : int or "fresh"
        Which questions, as for `faithfulness_test`.
    n, claim, explain, preset, one_network, implementations, image_size, **running
        As for `faithfulness_test`; by default each method has its own claim.
    also : str or sequence of str
        As for `faithfulness_test`; there is no diagnosis.

    Raises
    ------
    AttributionLabError
        For an unknown method or environment, and for impossible settings.

    Examples
    --------
    >>> import attributionlab as al
    >>> env = al.load("multi-color-sum", image_size=24)
    >>> table = al.compare(["guided-backprop", "sobel"], env, n=13).to_frame()
    >>> table[table.part == "overall"].verdict.tolist()
    ['pass', 'fail']
    """
    number, seed_drawn = drawn_seed(seed)
    # Refused before the first run: what no run could have.
    request = protocol.requested(n, number, claim, explain, preset, one_network, also)
    request = replace(request, also=request.also._replace(diagnosis=request.also.truths))
    refuse_if(running_problems(running))
    chosen = protocol.places_of(environments, running, implementations, image_size)
    _refuse_rewritten(request, chosen)
    isolated = running.get("isolated", True)
    resolved = [as_tested(*pair, isolated) for pair in _with_settings(methods)]
    labels = [labelled(each.name, each.settings) for each in resolved]
    refuse_if(repeated_problem("methods", labels))
    shown = [
        f"({each.reference}, {dict(each.settings)})" if each.settings else each.reference
        for each in resolved
    ]
    arguments = f"[{', '.join(shown)}]", f"[{', '.join(load_call(env) for env in chosen)}]"
    runs = [(env, method) for env in chosen for method in resolved]
    by_method = [method_cells(each, request, chosen, 1, isolated) for each in resolved]
    cells = [cell for of_env in zip(*by_method, strict=True) for cell in of_env]
    done, stop = outcomes_of(cells, "comparing", running)
    reports, refusals = list[FaithfulnessReport](), list[Refusal]()
    for cell, (env, method) in zip(cells, runs, strict=True):
        outcome = done.get(cell.key)
        if outcome is not None and outcome.refused:
            refusals.append(Refusal(cell.place["method"], env.name, outcome.error))
        elif outcome is not None:
            reports.append(report_of(method, request, [env], [outcome.value], running))
    comparison = Comparison(
        *(reports, refusals, chosen),
        command=f"attributionlab.compare({request.call(*arguments, **running)})",
        seed_drawn=seed_drawn,
        changed=request.changes(chosen),
    )
    if stop is not None:
        verdicts = "; ".join(f"{each.label} {each.verdict}" for each in reports)
        said = f"{len(done)} of {len(cells)} runs were done: {verdicts}"
        raise Stopped(said, comparison if reports else None) from stop
    if not reports:
        reasons = list(dict.fromkeys(refusal.reason for refusal in refusals))
        alike = len(reasons) == 1 < len(refusals)  # about the call, not about a method
        raise AttributionLabError(
            reasons[0] if alike else f"no method could be run: {'; '.join(reasons)}"
        )
    return comparison


def _with_settings(methods: Any) -> list[tuple[Any, Mapping[str, Any]]]:
    """Each method with its settings."""
    if methods is None:
        methods = [*METHODS, "random", "constant"]
    elif not isinstance(methods, list | tuple):
        methods = [methods]
    if not methods:
        raise AttributionLabError("methods are empty: name at least one, or leave them out")
    return [each if isinstance(each, tuple) else (each, {}) for each in methods]
