"""The spine: environment -> method -> score -> verdict."""

import inspect
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, Literal, cast, get_args

import torch

from attributionlab.base import (
    FEWEST_QUESTIONS,
    MOST_IMAGES,
    AttributionLabError,
    AttributionWarning,
    boolean_problem,
    drawn_seed,
    explained_arguments,
    follow,
    integer_problem,
    library_versions,
    nearest,
    own_arithmetic,
    refuse_if,
)
from attributionlab.methods import AttributionMethod, Method, Notice, summarized
from attributionlab.runs import Cell, Workers, one_thread, pays, values
from attributionlab.show import INSIDE
from attributionlab.verdicts.faithfulness.calls import bound_to_one_network
from attributionlab.verdicts.faithfulness.forms import robustness_of
from attributionlab.verdicts.faithfulness.isolation import as_tested, is_users, processes_ended
from attributionlab.verdicts.faithfulness.protocol import (
    DEFAULT_ENVIRONMENTS,
    QUESTIONS,
    bound_seed,
    given_to,
    protocol_changes,
    source_of,
)
from attributionlab.verdicts.faithfulness.report import (
    EnvironmentResult,
    FaithfulnessReport,
    format_settings,
)
from attributionlab.verdicts.faithfulness.run import run_method
from attributionlab.verdicts.faithfulness.score import score_outcome
from attributionlab.verdicts.faithfulness.setup import Claim, prepared
from attributionlab.worlds import Environment, Questions, as_environments, load_call
from attributionlab.worlds.nets import FORMS
from attributionlab.worlds.truth import Output

QUESTION_SECONDS = 0.12
"""About what a test takes at least on a processor for a question, however small its image is: a network
is built for each, and asked by the controls."""
PIXEL_SECONDS = 1e-5
"""And beside it for each pixel: 0.6 s a question at 224 x 224, where `saliency` took 0.7 s."""
MOST_SEEDS = 1_000
MOST_NETWORKS = 100


@explained_arguments
@processes_ended()
def faithfulness_test(
    method: AttributionMethod,
    environments: Sequence[str | Environment] | str | Environment | None = None,
    n: int = QUESTIONS,
    seed: int | Literal["fresh", "bound"] = 0,
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
    equivalent: int = 0,
    one_network: bool = False,
    isolated: bool = True,
    device: str | torch.device | None = None,
    jobs: int | None = 1,
    show_progress: bool = False,
    command: str | None = None,
) -> FaithfulnessReport:
    """Does an attribution method find what the networks used?

    Each image is a question with a network of its own: which colors count and as which class, weights,
    background, redundant channels and target are drawn (`attributionlab.Questions`). A question is
    solved if the lowest F1 of the claim's parts lies above two thirds. A method passes if the exact
    95 % interval of the share of questions that it solves (Clopper and Pearson) begins at 3/4 or above
    in every environment, which needs at least 13 questions. It fails if the interval of an environment
    ends below 3/4, with a tail that is divided by the number of environments. Otherwise the result is
    inconclusive. The paper's own criterion, a mean F1 of at least 0.5 (AttributionLab, eq. 2), is
    reported beside it.

    A map that is made without something that an environment hides solves a question with probability
    1/m at most, for m alternatives (`worlds.environment.hidden`): roles of colors, target,
    place, color, sign and context. A pass needs an environment that hides it for each that the claim
    asks; the default environments do. Passing does not make a method faithful. Controls are run on the
    same questions; if one has the wrong result, there is no verdict.

    Parameters
    ----------
    method : str, class, callable, array or mapping
        A built-in name, ``file.py:name``, ``module:name``, a Captum class or instance,
        ``f(model, inputs, targets, **settings)``, or, with `one_network`, attributions for
        ``env.batch(n, seed)``.
    environments : str, Environment, or a sequence of them, optional
        Where to test; `DEFAULT_ENVIRONMENTS` by default. One of `custom_environment` has one network,
        which proves nothing of blind maps: alone it gives no "pass" without `one_network`.
    n : int
        How many questions (images) of each environment.
    seed : int, "fresh" or "bound"
        Which questions. A method can know those of a given seed by heart; "fresh" draws a seed, which
        the report states. "bound" derives it from the protocol and the method's code, so that nobody
        chooses it.
    claim : {"signed", "overall", "positive", "positive-smoothed", "agreed"}, optional
        What is held against the truth; by default the method's own claim, or "signed". "signed" takes
        the lowest of the parts overall, positive and negative that an environment has; "agreed" does
        so on the pixels to which every definition in ``env.truths`` gives the same sign; the others do
        not count.
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
        Look beyond the verdict at 8 images: the method's resolution, likely causes and, on one
        network, the runner-up class.
    truths : bool
        Score the maps of these 8 images also against every definition of the truth: single-pixel
        ablation and insertion, Shapley values, integrated gradients (``env.truths``).
    camouflage : int
        On how many other networks, camouflaged but functionally equal (``env.camouflaged``), the
        method explains these 8 images again; how far its maps drift is reported and decides nothing.
    equivalent : int
        Ask the same questions before the first so many of `attributionlab.nets.FORMS`, 0 to 5: networks
        with equal answers for every integer image and other derivatives. Their scores make a second
        verdict, whether a method that passes is robust, and are never mixed into the first.
    one_network : bool
        Give all images of an environment its own network, and their labels as targets, as in the
        paper. A table of the network's colors passes then; attributions that are computed already and
        instances that are bound to a model can be tested in this way only.
    isolated : bool
        Run a user's method in a process of its own, which holds the network, images, targets and
        arguments, and neither truth nor scores. What such a method notes in variables stays there. Set
        it to False for one that cannot be sent to another process, as the report will say.
    device : str or torch.device, optional
        Where to compute; by default where the environments are, at first the CPU.
    jobs : int or None
        Processes, each of which takes one environment after the other, with one thread; None: as many
        as there are cores, where that pays. With 1 all cores work on the same image, and sums may be
        rounded otherwise. What a method remembers from call to call, such as a generator of its own
        file, each process remembers for itself.
    show_progress : bool
        Show progress on standard error.
    command : str, optional
        How to run this again, for the report.

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
    >>> report = al.faithfulness_test("oracle", env, n=13)
    >>> report.environments[0].count
    Tally(solved=13, asked=13)
    >>> report.verdict, report.not_excluded  # this environment alone does not ask for all
    ('inconclusive', ['place', 'sign', 'context'])
    >>> al.faithfulness_test("half-and-half", env, n=13).verdict
    'fail'
    """
    resolved = as_tested(method, settings, isolated)
    declared = resolved.claim or "signed"
    bound = isinstance(seed, str) and seed == "bound"
    number, seed_drawn = (bound_seed(resolved), False) if bound else drawn_seed(seed)
    claim = checked_request(
        n=n,
        seed=number,
        claim=declared if claim is None else claim,
        outputs=(output, truth_output),
        seeds=seeds,
        camouflage=camouflage,
        equivalent=equivalent,
        diagnosed=diagnosed,
        truths=truths,
        one_network=one_network,
    )
    seed, workers = int(number), Workers(jobs)
    chosen = as_environments(DEFAULT_ENVIRONMENTS if environments is None else environments)
    several_networks = not one_network and any(env.has_roles for env in chosen)
    if several_networks and (reason := bound_to_one_network(resolved)):
        raise AttributionLabError(
            f"{resolved.name}: each question has a network of its own, and {reason}; or set "
            "one_network (--one-network)"
        )
    names = [env.name for env in chosen]
    if len({(env.name, env.spec.digest) for env in chosen}) < len(chosen):
        raise AttributionLabError(f"environments are {names}: name each once")
    beyond = {
        f"claim is {claim!r}": claim in ("agreed", "positive-smoothed"),
        f"truths is {truths}": truths,
        f"camouflage is {camouflage}": camouflage,
        f"equivalent is {equivalent}": equivalent,
    }
    for env in chosen:
        if not env.has_roles:
            refuse_if(
                [
                    f"{what}, which takes a network and images of the laboratory: leave it out"
                    for what, given in beyond.items()
                    if given
                ],
                f"{env.name}, a user's own environment",
            )
        if equivalent and {"camouflage_seed", "equivalent_form"} & env.spec.constants.keys():
            raise AttributionLabError(
                f"equivalent is {equivalent}, but {env.name} is rewritten already: pass the plain one"
            )
        if camouflage and "camouflage_seed" in env.spec.constants:
            raise AttributionLabError(
                f"camouflage is {camouflage}, but {env.name} is camouflaged already: pass the plain one"
            )
    if n < FEWEST_QUESTIONS:
        warnings.warn(
            f"n is {n}: with fewer than {FEWEST_QUESTIONS} questions no method passes; take "
            f"{FEWEST_QUESTIONS} or more for a verdict",
            AttributionWarning,
            stacklevel=4,
        )
    options = _beyond_defaults(
        claim=claim if claim != declared else None,
        n=int(n),
        seed=seed,
        output=output,
        preset=preset,
        one_network=one_network,
    )
    changed = protocol_changes(
        chosen,
        n=int(n),
        claim=claim if claim != declared else None,
        output=output,
        truth_output=truth_output,
        preset=preset,
        seeds=seeds if seeds > 1 else None,
        one_network=one_network,
    )
    with own_arithmetic():
        if device is not None:
            chosen = [env.to(device) for env in chosen]
    test = partial(
        _tested,
        resolved,
        (output, truth_output),
        preset=preset,
        claim=claim,
        environments=len(chosen),
        n=int(n),
        seed=seed,
        one_network=one_network,
        seeds=int(seeds),
        diagnosed=diagnosed or truths,
        truths=truths,
        camouflage=int(camouflage),
        equivalent=int(equivalent),
        options=options,
    )
    cells = _cells(chosen, int(n), test)
    apart = len(cells) > 1 and (workers.most > 1 if workers.jobs else pays(cells, workers))
    found: list[Tested] = []
    stop = None
    if apart:
        done, stop = values(cells, "testing", {"jobs": jobs, "show_progress": show_progress})
        found = [value for _, value in done]
    else:
        try:
            for env in chosen:
                found.append(test(env, show_progress))
        except KeyboardInterrupt as error:
            stop = error
    results = [result for result, _ in found]
    notices = [notice for _, heard in found for notice in heard]
    if stop is not None:
        raise KeyboardInterrupt(_what_was_done(results, len(chosen))) from stop
    remarks = [f"{resolved.name}: {sentence}" for sentence in summarized(notices)]
    for remark in remarks:
        warnings.warn(remark, AttributionWarning, stacklevel=4)
    if not isolated and is_users(resolved):
        remarks.insert(0, f"{resolved.name}: {INSIDE}")
    return FaithfulnessReport(
        claim=claim,
        method=resolved.name,
        settings=resolved.settings,
        preset=preset,
        seed=seed,
        n=int(n),
        one_network=one_network,
        seed_drawn=seed_drawn,
        seed_bound=bound,
        changed=changed,
        source=source_of(resolved),
        given=given_to(resolved),
        environments=results,
        warnings=remarks,
        command=command
        or f"attributionlab.faithfulness_test({resolved.reference}, "
        f"[{', '.join(load_call(env) for env in chosen)}], n={n}, seed={seed}, "
        f"claim={claim!r}, output={output!r}, settings={format_settings(resolved.settings)}, "
        f"preset={preset!r}, truth_output={truth_output!r}, seeds={seeds}, "
        f"diagnosed={diagnosed}, truths={truths}, camouflage={camouflage}, "
        f"equivalent={equivalent}, one_network={one_network}, isolated={isolated}, "
        f"device={device!r}, jobs={jobs})",
        versions=library_versions()
        | ({"threads": "1"} if apart or all(map(_in_one_thread, chosen)) else {}),
    )


Tested = tuple[EnvironmentResult, list[Notice]]
"""What was found in an environment, and what is to be said of the method."""


def _tested(
    method: Method,
    outputs: tuple[Output | None, Output | None],
    env: Environment,
    show_progress: bool,
    device: str | None = None,
    **options: Any,
) -> Tested:
    """One environment; the `device` of a worker is not used, since the environment has its own."""
    several = env.has_roles and not options["one_network"]
    with own_arithmetic(), one_thread() if _in_one_thread(env) else nullcontext():
        questions = Questions(env, options["seed"]) if several else None
        setup = prepared(method, env, *outputs, questions=questions, **options)
        outcome = run_method(setup, show_progress)
        with follow(f"causes on {env.name}", show=show_progress):
            result = score_outcome(outcome, setup)
        if setup.equivalent:
            robustness = robustness_of(setup, result.verdict, show_progress)
            result = replace(result, robustness=robustness)
    return result, outcome.notices


def _in_one_thread(env: Environment) -> bool:
    """Whether an environment is tested with one thread wherever that is, as in further processes.

    More threads add in another order, and gain nothing in the laboratory's small networks; beside other
    work they wait for each other. A user's own network may be large.
    """
    return env.has_roles and env.device.type == "cpu"


def _cells(environments: Sequence[Environment], n: int, test: Callable[..., Tested]) -> list[Cell]:
    """The test of each environment, for other processes."""
    names = [env.name for env in environments]
    cells = []
    for env in environments:
        place = {"environment": env.name}
        if names.count(env.name) > 1:
            place["spec"] = env.spec.digest[:8]
        each = QUESTION_SECONDS + math.prod(env.image_shape[1:]) * PIXEL_SECONDS
        seconds = n * each if env.device.type == "cpu" else 0
        cells.append(Cell("test", place, {}, partial(test, env, False), seconds))
    return cells


def _beyond_defaults(**given: Any) -> dict[str, Any]:
    """Options that differ from the defaults above, for commands of hints."""
    parameters = inspect.signature(faithfulness_test).parameters
    return {key: value for key, value in given.items() if value != parameters[key].default}


def _what_was_done(results: Sequence[EnvironmentResult], environments: int) -> str:
    """What an interrupted test had found."""
    found = [
        f"{each.name} {each.verdict}, solved {each.count.solved} of {each.count.asked}"
        for each in results
    ]
    return "; ".join([f"{len(results)} of {environments} environments were done", *found])


def checked_request(
    *,
    n: int,
    seed: int,
    claim: str,
    outputs: Sequence[str | None],
    seeds: int = 1,
    camouflage: int = 0,
    equivalent: int = 0,
    diagnosed: bool = True,
    truths: bool = False,
    one_network: bool = False,
) -> Claim:
    """The claim, or all that is wrong at once."""
    problems = [*integer_problem("n", n, 1, MOST_IMAGES), *integer_problem("seed", seed, 0)]
    problems += integer_problem("seeds", seeds, 1, MOST_SEEDS)
    problems += integer_problem("camouflage", camouflage, 0, MOST_NETWORKS)
    problems += integer_problem("equivalent", equivalent, 0, len(FORMS))
    if claim not in get_args(Claim):
        problems.append(f"claim is {claim!r}: {nearest(str(claim), get_args(Claim))}")
    switches = {"diagnosed": diagnosed, "truths": truths, "one_network": one_network}
    for name, value in switches.items():
        problems += boolean_problem(name, value)
    problems += [
        f"output is {output!r}: {nearest(str(output), get_args(Output))}"
        for output in outputs
        if output not in (None, *get_args(Output))
    ]
    refuse_if(problems)
    return cast(Claim, claim)
