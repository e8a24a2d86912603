"""Methods side by side: every method in every environment, on the same images."""

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import torch

from attributionlab.assess import CONTROLS
from attributionlab.catalog import as_environments, load, load_call
from attributionlab.compared import Comparison, Refusal
from attributionlab.environment import Environment
from attributionlab.errors import AttributionLabError, AttributionWarning
from attributionlab.faithfulness import (
    DEFAULT_ENVIRONMENTS,
    checked_request,
    faithfulness_test,
)
from attributionlab.faithfulness_report import FaithfulnessReport, labelled
from attributionlab.methods import METHODS, AttributionMethod, as_method, preset_of
from attributionlab.progress import track
from attributionlab.trial import Claim
from attributionlab.truth import Output

__all__ = ["QUICK_SIZE", "compare"]

QUICK_SIZE = 72
"""Image side of a quick comparison."""


def compare(
    methods: AttributionMethod
    | Sequence[AttributionMethod | tuple[AttributionMethod, Mapping[str, Any]]]
    | None = None,
    environments: Sequence[str | Environment] | str | Environment | None = None,
    n: int = 4,
    seed: int = 0,
    gamma: float = 0.5,
    claim: Claim | None = None,
    output: Output | None = None,
    *,
    preset: str | None = "paper",
    quick: bool = False,
    device: str | torch.device | None = None,
    show_progress: bool = False,
    command: str | None = None,
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
    n, seed, gamma, claim, output
        As for `faithfulness_test`; without a claim each method is judged by its own.
    preset : {"paper", "none"} or None
        Settings that a paper states for a built-in method.
    quick : bool
        Images of 72 x 72 pixels; environments are then given by name.
    device : str or torch.device, optional
        Where to compute, as for `faithfulness_test`.
    show_progress : bool
        Show progress on standard error.
    command : str, optional
        How to run this again, for the result.

    Returns
    -------
    Comparison

    Raises
    ------
    AttributionLabError
        For an unknown method or environment, and for settings that no run could have.

    Examples
    --------
    >>> import attributionlab as al
    >>> env = al.load("multi-color-sum", image_size=24)
    >>> table = al.compare(["saliency", "sobel"], env, n=2).to_frame()
    >>> table[table.part == "overall"].verdict.tolist()
    ['pass', 'fail']
    """
    chosen = _environments(environments, quick)
    contestants = _contestants(methods)
    # What no run could have is told before the first one.
    preset_of(preset, "regression", "")
    checked_request(n=n, seed=seed, gamma=gamma, claim=claim or "signed", outputs=(output,))
    named = [labelled(as_method(m, METHODS | CONTROLS, s).name, s) for m, s in contestants]
    twice = [name for name, count in Counter(named).items() if count > 1]
    if twice:
        raise AttributionLabError(f"methods name {twice[0]!r} twice: name each once")
    reports: list[FaithfulnessReport] = []
    refusals: list[Refusal] = []
    pairs = [
        (f"{label} on {env.name}", method, settings, env)
        for env in chosen
        for label, (method, settings) in zip(named, contestants, strict=True)
    ]
    for _, method, settings, env in track(
        pairs, len(pairs), "comparing", show_progress, "runs", itemgetter(0)
    ):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", AttributionWarning)  # kept in the report
                report = faithfulness_test(
                    method,
                    env,
                    n,
                    seed,
                    gamma,
                    claim,
                    output if env.task == "classification" else None,
                    settings=settings,
                    preset=preset,
                    diagnosed=False,
                    device=device,
                )
        except KeyboardInterrupt as stop:
            raise KeyboardInterrupt(
                f"{len(reports)} of {len(pairs)} runs were done: "
                + "; ".join(f"{each.label} {each.verdict}" for each in reports)
            ) from stop
        except AttributionLabError as error:
            name = as_method(method, METHODS | CONTROLS, settings).name
            refusals.append(Refusal(labelled(name, settings), env.name, str(error)))
        else:
            reports.append(report)
    if not reports:
        reasons = list(dict.fromkeys(refusal.reason for refusal in refusals))
        alike = len(reasons) == 1 < len(refusals)  # about the call, not about a method
        raise AttributionLabError(
            reasons[0] if alike else f"no method could be run: {'; '.join(reasons)}"
        )
    return Comparison(
        reports,
        refusals,
        gamma,
        chosen,
        command
        or f"attributionlab.compare({_said(contestants)}, "
        f"[{', '.join(load_call(env) for env in chosen)}], n={n}, seed={seed}, "
        f"gamma={gamma}, claim={claim!r}, output={output!r}, preset={preset!r}, quick={quick}, "
        f"device={device!r})",
    )


def _said(contestants: Sequence[tuple[Any, Mapping[str, Any]]]) -> str:
    """Methods and their settings as Python would name them."""
    pairs = [(as_method(m, METHODS | CONTROLS, s).reference, dict(s)) for m, s in contestants]
    return (
        f"[{', '.join(f'({name}, {settings})' if settings else name for name, settings in pairs)}]"
    )


def _contestants(methods: Any) -> list[tuple[Any, Mapping[str, Any]]]:
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
