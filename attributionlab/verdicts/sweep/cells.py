"""The two kinds of cells of a sweep: maps of a method, and a metric's scores of these maps."""

import json
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attributionlab.base import AttributionWarning, own_arithmetic
from attributionlab.methods import Method, summarized
from attributionlab.runs import Cell, Reference
from attributionlab.verdicts.faithfulness.protocol import Request
from attributionlab.verdicts.faithfulness.run import run_method
from attributionlab.verdicts.faithfulness.score import score_outcome
from attributionlab.verdicts.faithfulness.setup import ALONE, Batch, Setup, asked
from attributionlab.verdicts.metric_trials.case import Evaluation, case_of
from attributionlab.verdicts.metric_trials.conditions import AS_IT_IS, conditions_of
from attributionlab.verdicts.metric_trials.registry import Metric
from attributionlab.verdicts.sweep.spec import OPTIONS, Dose, Named, SweepSpec
from attributionlab.worlds import Environment

MAPS, METRIC = "maps", "metric"
"""Kinds of cells."""
QUESTIONS_KEPT = 64
"""Questions with their Shapley values that a process keeps from one metric cell to the next: 0.5 s of
work each at 224 pixels, and some MiB."""


@dataclass(frozen=True)
class MapsResult:
    """What a method made of the questions of one environment and seed.

    - `maps` (n, 1, H, W): as the method gave them, summed over channels: what
      `attributionlab.attribute` returns.
    - `scores`: for each part precision, recall and F1 of each image, NaN where not applicable; those of
      `faithfulness_test`.
    - `verdict`: "pass", "fail", "inconclusive" or "invalid".
    - `claim`, `claim_f1`: what decides, and the mean F1 of its lowest part.
    - `solved`, `asked`: how many questions are solved, of how many to which the claim applies.
    - `output`: what is explained.
    - `warnings`: what is unusual about the maps.
    """

    maps: Tensor = field(repr=False)  # empty where the store was not asked for arrays
    scores: Mapping[str, Mapping[str, list[float]]] = field(repr=False)
    verdict: str
    claim: str
    claim_f1: float
    solved: int
    asked: int
    output: str
    warnings: list[str]


class MetricResult(NamedTuple):
    """What a metric says of a method's maps."""

    scores: list[float]
    """one for each image, NaN where not applicable"""
    higher_is_better: bool
    warnings: list[str]


class Work(NamedTuple):
    """A method in an environment under a seed, as it goes to whoever computes."""

    env: Environment
    method: Method
    request: Request
    device: str | None
    """where to compute; None: where the environment is"""


class Planned(NamedTuple):
    """A combination of the axes as cells."""

    maps: Cell
    work: Work
    metric: Cell | None
    """which lacks the maps that it scores: `scoring` adds them when they are there"""


def planned(spec: SweepSpec) -> Iterator[Planned]:
    """The cells of each combination; maps cells come once for each of their metric cells."""
    known: dict[str, tuple[Cell, Work]] = {}
    for chosen in spec.combinations():
        place = _place(chosen, spec)
        name = json.dumps(place)
        if name not in known:
            env, method = chosen["environment"], chosen["method"]
            options = {**{name: chosen[name] for name in OPTIONS}, **spec.settings}
            inputs = {
                "specification": env.identity,
                "function": method.identity,
                **{name: value for name, value in options.items() if name not in place},
            }
            device, output, n = (options.pop(name) for name in ("device", "output", "n"))
            request = Request(int(n), int(chosen["seed"]), explain=output, also=ALONE, **options)
            work = Work(env.value, method.value, request, device)
            known[name] = Cell(MAPS, place, inputs, partial(compute_maps, work)), work
        maps, work = known[name]
        scorer, dose = chosen["metric"], chosen["dose"]
        yield Planned(maps, work, scorer and _metric_cell(maps, work, scorer, dose))


def _place(chosen: Mapping[str, Any], spec: SweepSpec) -> dict[str, Any]:
    """What a maps cell is called."""
    return {
        "environment": chosen["environment"].label,
        "method": chosen["method"].label,
        "seed": chosen["seed"],
        **{name: chosen[name] for name in OPTIONS if name in spec.listed},
    }


def _metric_cell(maps: Cell, work: Work, scorer: Named, dose: Dose | None) -> Cell:
    """What a metric cell is called and depends on."""
    where = {} if dose is None else dose._asdict()
    return Cell(
        METRIC,
        {**maps.place, "metric": scorer.label, **where},
        {**maps.inputs, "metric's function": scorer.identity},
        partial(compute_scores, work, scorer.value, dose),
    )


def scoring(cell: Cell, maps: Reference) -> Cell:
    """A metric cell with the maps that it scores."""
    return replace(cell, compute=partial(cell.compute, maps), read=maps.read)  # type: ignore[arg-type]


@own_arithmetic()
def compute_maps(work: Work, device: str | None) -> MapsResult:
    """Run a method as `faithfulness_test` does, and keep all its maps."""
    setup = asked(work.method, _placed(work, device), work.request)
    kept: list[Tensor] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AttributionWarning)  # kept in the result
        outcome = run_method(setup, keep=lambda maps: kept.append(maps.float()))
        result = score_outcome(outcome, setup)
    return MapsResult(
        maps=torch.cat(kept),
        scores={
            part: {score: values.tolist() for score, values in each.items()}
            for part, each in result.scores.items()
        },
        verdict=result.verdict,
        claim=setup.claim,
        claim_f1=result.claim_f1,
        **result.count._asdict(),
        output=result.output,
        warnings=summarized(outcome.notices),
    )


@own_arithmetic()
def compute_scores(
    work: Work, metric: Metric, dose: Dose | None, maps: Reference, device: str | None
) -> MetricResult:
    """A metric's score of each map of a maps cell, as `metric_test` would score it.

    Without a dose the network is the question's own, and its true baseline takes the place of removed
    pixels.
    """
    env = _placed(work, device)
    result: MapsResult = maps.value
    # The signed truth is that of metrics, whatever the method's claim.
    setup = asked(work.method, env, replace(work.request, claim="signed"))
    condition = AS_IT_IS if dose is None else conditions_of(env, {dose.axis: [dose.dose]})[0]
    scores, said = [], list[str]()
    for number, own in enumerate(result.maps):
        batch, values = _asked(_Asked(env.spec.digest, setup.seed, number, setup.truth_output,
                                      setup.questions is None, str(env.device), setup))  # fmt: skip
        case = case_of(batch, own[None], values, setup.seed)
        # Without questions each image has redundant weights of its own, as in `metric_test`.
        network = condition.network(batch.env, number if setup.questions is None else 0)
        canvas = condition.canvas(batch.env, number, setup.seed).to(case.image.device)
        seen = Evaluation(case, network.explained_model(setup.truth_output), canvas)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", AttributionWarning)
            scores.append(float(metric.scores(seen)[0]))
        said += [str(each.message) for each in caught]
    return MetricResult(scores, metric.higher_is_better, list(dict.fromkeys(said)))


@dataclass(frozen=True)
class _Asked:
    """Which question it is."""

    specification: str
    seed: int
    number: int
    output: str
    one_network: bool
    device: str
    setup: Setup = field(compare=False)


@lru_cache(maxsize=QUESTIONS_KEPT)
def _asked(which: _Asked) -> tuple[Batch, Tensor]:
    """An image before its network, and its exact Shapley values (1, 1, H, W): a question that many
    metric cells ask one after another.
    """
    batch = which.setup.image(which.number)
    [image] = batch.images
    values = batch.env.shapley(image, int(batch.targets[0]), which.setup.truth_output)
    return batch, values[None].float()


def _placed(work: Work, device: str | None) -> Environment:
    chosen = device or work.device
    return work.env if chosen is None else work.env.to(chosen)
