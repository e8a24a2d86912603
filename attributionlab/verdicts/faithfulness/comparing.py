"""Run methods side by side: a cell of work for every method in every environment."""

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal, Unpack

import torch

from attributionlab.base import (
    AttributionLabError,
    AttributionWarning,
    Stopped,
    drawn_seed,
    explained_arguments,
)
from attributionlab.methods import METHODS, AttributionMethod, Method, preset_of
from attributionlab.runs import Cell, Running, outcomes_of
from attributionlab.verdicts.faithfulness.comparison import Comparison, Refusal
from attributionlab.verdicts.faithfulness.isolation import (
    as_tested,
    fingerprint_of,
    processes_ended,
)
from attributionlab.verdicts.faithfulness.protocol import DEFAULT_ENVIRONMENTS, protocol_changes
from attributionlab.verdicts.faithfulness.report import FaithfulnessReport, labelled
from attributionlab.verdicts.faithfulness.setup import Claim
from attributionlab.verdicts.faithfulness.test import checked_request, faithfulness_test
from attributionlab.worlds import Environment, as_environments, load, load_call
from attributionlab.worlds.truth import Output

QUICK_SIZE = 72
"""Image side of a quick comparison."""


@explained_arguments
@processes_ended()
def compare(
    methods: AttributionMethod
    | Sequence[AttributionMethod | tuple[AttributionMethod, Mapping[str, Any]]]
    | None = None,
    environments: Sequence[str | Environment] | str | Environment | None = None,
    n: int = 20,
    seed: int | Literal["fresh"] = 0,
    claim: Claim | None = None,
    output: Output | None = None,
    *,
    preset: str | None = "paper",
    quick: bool = False,
    one_network: bool = False,
    equivalent: int = 0,
    isolated: bool = True,
    command: str | None = None,
    **running: Unpack[Running],
) -> Comparison:
    """Run attribution methods side by side on the same images.

    A method that cannot be run somewhere (it needs a classifier, weights, a library) is listed with the
    reason; the others go on.

    Parameters
    ----------
    methods : sequence or one method, optional
        What `faithfulness_test` takes; a pair (method, settings) sets its settings. All built-in
        methods and the controls "random" and "constant" by default.
    environments : str, Environment, or a sequence of them, optional
        Where; the default environments of `faithfulness_test` without any.
    seed : int or "fresh"
        Which questions, as for `faithfulness_test`.
    n, claim, output
        As for `faithfulness_test`; without a claim each method has its own.
    preset : {"paper", "none"} or None
        Settings that a paper states for a built-in method.
    quick : bool
        Images of 72 x 72 pixels; environments are then given by name.
    one_network, equivalent, isolated : bool, int and bool
        As for `faithfulness_test`.
    command : str, optional
        How to run this again, for the result.
    **running
        How to run it: `attributionlab.runs.running.Running`.

    Raises
    ------
    AttributionLabError
        For an unknown method or environment, and for settings that no run could have.

    Examples
    --------
    >>> import attributionlab as al
    >>> env = al.load("multi-color-sum", image_size=24)
    >>> table = al.compare(["guided-backprop", "sobel"], env, n=13).to_frame()
    >>> table[table.part == "overall"].verdict.tolist()
    ['pass', 'fail']
    """
    chosen, device = _environments(environments, quick), running.get("device")
    pairs = _with_settings(methods)
    number, seed_drawn = drawn_seed(seed)
    # Refused before the first run: what no run could have.
    preset_of(preset, "regression", "")
    checked_request(
        n=n,
        seed=number,
        claim=claim or "signed",
        outputs=(output,),
        one_network=one_network,
        equivalent=equivalent,
    )
    resolved = [as_tested(method, settings, isolated) for method, settings in pairs]
    named = [labelled(each.name, each.settings) for each in resolved]
    twice = [name for name, count in Counter(named).items() if count > 1]
    if twice:
        raise AttributionLabError(f"methods name {twice[0]!r} twice: name each once")
    shown = [
        f"({each.reference}, {dict(each.settings)})" if each.settings else each.reference
        for each in resolved
    ]
    again = command or (
        f"attributionlab.compare([{', '.join(shown)}], "
        f"[{', '.join(load_call(env) for env in chosen)}], n={n}, seed={number}, "
        f"claim={claim!r}, output={output!r}, preset={preset!r}, quick={quick}, "
        f"one_network={one_network}, equivalent={equivalent}, isolated={isolated}, device={device!r})"
    )
    options = {
        "n": n,
        "seed": number,
        "claim": claim,
        "output": output,
        "preset": preset,
        "one_network": one_network,
        "equivalent": equivalent,
        "isolated": isolated,
    }
    changed = protocol_changes(
        chosen,
        n=int(n),
        claim=claim,
        output=output,
        preset=preset if preset != "none" else None,
        one_network=one_network,
    )
    cells = [
        method_cell(label, method, pair, env, options, device)
        for env in chosen
        for label, method, pair in zip(named, resolved, pairs, strict=True)
    ]
    done, stop = outcomes_of(cells, "comparing", running)
    found = [(cell, done[cell.key]) for cell in cells if cell.key in done]
    reports = [outcome.value for _, outcome in found if not outcome.refused]
    refusals = [
        Refusal(cell.place["method"], cell.place["environment"], outcome.error)
        for cell, outcome in found
        if outcome.refused
    ]
    comparison = Comparison(reports, refusals, chosen, again, seed_drawn, changed)
    if stop is not None:
        verdicts = "; ".join(f"{each.label} {each.verdict}" for each in reports)
        said = f"{len(found)} of {len(cells)} runs were done: {verdicts}"
        raise Stopped(said, comparison if reports else None) from stop
    if not reports:
        reasons = list(dict.fromkeys(refusal.reason for refusal in refusals))
        alike = len(reasons) == 1 < len(refusals)  # about the call, not about a method
        raise AttributionLabError(
            reasons[0] if alike else f"no method could be run: {'; '.join(reasons)}"
        )
    return comparison


def method_cell(
    label: str,
    method: Method,
    pair: tuple[Any, Mapping[str, Any]],
    env: Environment,
    options: Mapping[str, Any],
    device: str | torch.device | None,
) -> Cell:
    """One method in one environment, as work for the store."""
    return Cell(
        "compare",
        {"method": label, "environment": env.name, "spec": env.spec.digest[:8]},
        {
            "method": method.name if method.built_in else fingerprint_of(method),
            "settings": dict(method.settings),
            "environment": env.spec.digest,
            "device": str(env.device if device is None else device),
            **options,
        },
        partial(_run, *pair, env, options, device),
    )


def _run(
    method: AttributionMethod,
    settings: Mapping[str, Any],
    env: Environment,
    options: Mapping[str, Any],
    device: str | torch.device | None,
    own_device: str | None,
) -> FaithfulnessReport:
    """The faithfulness test of one method in one environment."""
    output = options["output"] if env.task == "classification" else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AttributionWarning)  # kept in the report
        return faithfulness_test(
            *(method, env),
            **{**options, "output": output},
            settings=settings,
            diagnosed=False,
            device=own_device or device,
        )


def _with_settings(methods: Any) -> list[tuple[Any, Mapping[str, Any]]]:
    """Each method with its settings."""
    if methods is None:
        methods = [*METHODS, "random", "constant"]
    elif not isinstance(methods, list | tuple):
        methods = [methods]
    if not methods:
        raise AttributionLabError("methods are empty: name at least one, or leave them out")
    return [each if isinstance(each, tuple) else (each, {}) for each in methods]


def _environments(
    environments: Sequence[str | Environment] | str | Environment | None, quick: bool
) -> list[Environment]:
    named = DEFAULT_ENVIRONMENTS if environments is None else environments
    if quick:
        named = [named] if isinstance(named, str | Environment) else list(named)
        made = [env for env in named if isinstance(env, Environment)]
        if made:
            raise AttributionLabError(
                f"quick is True, but {made[0]!r} is made already: name environments, or leave quick out"
            )
        named = [load(str(name), image_size=QUICK_SIZE) for name in named]
    chosen = as_environments(named)
    if len({env.spec.digest for env in chosen}) < len(chosen):
        raise AttributionLabError(
            f"environments are {[env.name for env in chosen]}: name each once"
        )
    return chosen
