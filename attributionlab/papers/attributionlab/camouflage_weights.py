"""What weights look like before and after a camouflage that leaves the function as it is."""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from attributionlab.environment import Environment
from attributionlab.environment.catalog import environments
from attributionlab.nets import MOVES, camouflaged
from attributionlab.papers.attributionlab.comparison_plan import environment_of
from attributionlab.papers.catalog import Found, Run, Tables, claim
from attributionlab.report.plots import curves

ITEM = "camouflage-weights"
DRAWN = ("multi-color-sum", "number-checker", "single-color-modulo")
"""Environments in the figure: a classifier, a plain count, and a head behind it."""
DISSECTED = "multi-color-sum"
"""The environment whose camouflage is taken apart, move by move."""


def camouflage_weights(run: Run) -> Found:
    """Weights of every environment's network, plain and camouflaged, and what each move changes.

    `equal` is the share of n images with equal outputs, `times_slower` the ratio of the forward passes'
    times on this machine.
    """
    rows: list[dict[str, Any]] = []
    octaves: list[pd.DataFrame] = []
    for name in run.track(environments()):
        plain = environment_of(name, run.quick)
        pair = {"plain": plain, "camouflaged": plain.camouflaged(run.seed)}
        compared = _compared(pair, plain.batch(run.n, run.seed)[0])
        for kind, env in pair.items():
            known = {"environment": name, "network": kind}
            rows.append({**known, **weight_statistics(env.model), **compared[kind]})
            if name in DRAWN:
                octaves.append(octave_table(_weights(env.model)).assign(**known))
    tables = {
        "weights": pd.DataFrame(rows),
        "moves": _each_move(environment_of(DISSECTED, run.quick), run.seed),
        "octaves": pd.concat(octaves) if octaves else pd.DataFrame(),
    }
    figures = {}
    if octaves:
        octave = tables["octaves"]
        shown = octave.assign(line=octave["network"] + ", " + octave["sign"])
        figures["histograms"] = curves(
            *(shown, "octave", "share", "line"),
            panel="environment",
            title="The same functions: weights before and after camouflage",
            xlabel="magnitude, power of 2",
            ylabel="share of the weights other than 0",
        )
    return Found(tables, figures)


def octave_table(weights: NDArray[np.float64]) -> pd.DataFrame:
    """Shares of the weights other than 0 by sign and power of 2 below their magnitude."""
    values = weights[weights != 0]
    octave = np.floor(np.log2(np.abs(values))).astype(int)
    table = pd.DataFrame({"octave": octave, "sign": np.where(values > 0, "positive", "negative")})
    counts = table.value_counts(["octave", "sign"], sort=False) / len(values)
    return counts.rename("share").reset_index()


def weight_statistics(model: nn.Module) -> dict[str, int | float]:
    """How hand-made the parameters of a network look, biases included.

    `layers` with weights; `parameters`; how many `distinct` values they have; `zeros`, the share that
    is 0; `negative` and `commonest`, the shares of the others that are negative and that have the
    commonest magnitude; `smallest` and `largest`, the range of their magnitudes.
    """
    weights = _weights(model)
    magnitudes = np.abs(weights[weights != 0])
    _, counts = np.unique(magnitudes, return_counts=True)
    return {
        "layers": sum(isinstance(m, nn.Conv2d | nn.Linear) for m in model.modules()),
        "parameters": len(weights),
        "distinct": len(np.unique(weights)),
        "zeros": float((weights == 0).mean()),
        "negative": float((weights < 0).sum() / len(magnitudes)),
        "commonest": float(counts.max() / len(magnitudes)),
        "smallest": float(magnitudes.min()),
        "largest": float(magnitudes.max()),
    }


def _weights(model: nn.Module) -> NDArray[np.float64]:
    return torch.cat([each.detach().flatten() for each in model.parameters()]).double().numpy()


def _compared(
    pair: Mapping[str, Environment], images: Float[Tensor, "batch channels height width"]
) -> dict[str, dict[str, float]]:
    """Whether two networks have equal outputs, and how much longer the second takes for them."""
    outputs, seconds = {}, {}
    with torch.no_grad():
        for kind, env in pair.items():
            env.model(images[:1])  # the first pass of a network sets its kernels up
            start = time.perf_counter()
            outputs[kind] = torch.cat([env.model(image[None]) for image in images])
            seconds[kind] = time.perf_counter() - start
    equal = (outputs["plain"] == outputs["camouflaged"]).all(1).double().mean()
    return {
        "plain": {"equal": 1.0, "times_slower": 1.0},
        "camouflaged": {
            "equal": float(equal),
            "times_slower": seconds["camouflaged"] / seconds["plain"],
        },
    }


def _each_move(env: Environment, seed: int) -> pd.DataFrame:
    """The network of one environment after no move, each move alone, and all of them."""
    rows = [{"move": "none", **weight_statistics(env.model)}]
    for move in MOVES:
        alone = camouflaged(env.network, seed, moves=[move])
        rows.append({"move": move, **weight_statistics(alone.model)})
    rows.append({"move": "all", **weight_statistics(camouflaged(env.network, seed).model)})
    return pd.DataFrame(rows)


def _pair(tables: Tables) -> tuple[pd.DataFrame, pd.DataFrame]:
    table = tables["weights"]
    plain, other = (
        table[table.network == kind].set_index("environment") for kind in ("plain", "camouflaged")
    )
    return plain, other


@claim(
    ITEM, place="ours", statement="Camouflaged networks give outputs equal (==) to the plain ones"
)
def outputs_are_equal(tables: Tables) -> bool:
    return bool((tables["weights"]["equal"] == 1).all())


@claim(
    ITEM,
    place="ours",
    statement="Their weights look less made by hand: more values, over more powers of 2, and a "
    "commonest magnitude of a smaller share",
)
def weights_look_less_made_by_hand(tables: Tables) -> bool:
    plain, other = _pair(tables)
    more = (other.distinct > plain.distinct) & (other.commonest < plain.commonest)
    wider = other.largest / other.smallest > plain.largest / plain.smallest
    return bool((more & wider).all())


@claim(ITEM, place="ours", statement="No move alone makes as many values as all together")
def no_move_alone_is_enough(tables: Tables) -> bool:
    distinct = tables["moves"].set_index("move").distinct
    return bool(distinct.drop(["none", "all"]).max() < distinct["all"])
