"""Run methods side by side: a cell of work for every method in every environment."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Unpack

from attributionlab.base import (
    AttributionLabError,
    Stopped,
    drawn_seed,
    explained_arguments,
    refuse_if,
    repeated_problem,
)
from attributionlab.methods import METHODS, AttributionMethod
from attributionlab.runs import outcomes_of, running_problems
from attributionlab.verdicts.faithfulness.comparison import Comparison, Refusal
from attributionlab.verdicts.faithfulness.isolation import as_tested
from attributionlab.verdicts.faithfulness.protocol import QUESTIONS
from attributionlab.verdicts.faithfulness.report import FaithfulnessReport, labelled
from attributionlab.verdicts.faithfulness.request import (
    Claim,
    Explained,
    RunningMethods,
    places_of,
    requested,
)
from attributionlab.verdicts.faithfulness.test import method_cells, report_of
from attributionlab.verdicts.own_process import processes_ended
from attributionlab.worlds import Environment, load_call


@explained_arguments
@processes_ended()
def compare(
    methods: AttributionMethod
    | Sequence[AttributionMethod | tuple[AttributionMethod, Mapping[str, Any]]]
    | None = None,
    environments: Sequence[str | Environment] | str | Environment | None = None,
    n: int = QUESTIONS,
    seed: int | Literal["fresh"] = 0,
    claim: Claim | None = None,
    *,
    explain: Explained | None = None,
    preset: str | None = None,
    also: str | Sequence[str] = (),
    one_network: bool = False,
    **running: Unpack[RunningMethods],
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
    n, claim, explain, preset, one_network, **running
        As for `faithfulness_test`; without a claim each method has its own.
    also : str or sequence of str
        As for `faithfulness_test`; there is no diagnosis.

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
    number, seed_drawn = drawn_seed(seed)
    # Refused before the first run: what no run could have.
    request = requested(n, number, claim, explain, preset, one_network, also)
    request = replace(request, also=request.also._replace(diagnosis=request.also.truths))
    refuse_if(running_problems(running))
    chosen = places_of(environments, running)
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
