"""What weights look like before and after a camouflage that leaves the function as it is."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from attributionlab.environment import Environment
from attributionlab.environment.catalog import environments
from attributionlab.nets import MOVES, camouflaged
from attributionlab.papers.attributionlab.comparison_plan import environment_of
from attributionlab.papers.reproduction import Reproduction
from attributionlab.progress import track
from attributionlab.report.weights import WeightsRow, weights_figure

if TYPE_CHECKING:
    import pandas as pd

DRAWN = ("multi-color-sum", "number-checker", "single-color-modulo")
"""Environments in the figure: a classifier, a plain count, and a head behind it."""
DISSECTED = "multi-color-sum"
"""The environment whose camouflage is taken apart, move by move."""
SHOWN = {"weights": "smallest and largest: of the weights that are not 0; commonest: their share"}


def camouflage_weights(
    *, n: int | None, quick: bool, seed: int = 0, show_progress: bool = False
) -> Reproduction:
    """Weights of every environment's network, plain and camouflaged, and what each move changes.

    Parameters
    ----------
    n : int, optional
        Images on which outputs are compared and passes timed; 16, or 4 in a quick run, by default.
    quick : bool
        Images of 72 x 72 pixels.
    seed : int
        Of the images and of the camouflage.
    show_progress : bool
        Show progress on standard error.

    Returns
    -------
    Reproduction
        Tables "weights" (two rows for each environment, see `weight_statistics`; `equal` is the share
        of images with equal outputs, `times_slower` the ratio of the forward passes' times) and
        "moves" (one environment's network after each move alone).
    """
    import pandas as pd

    n = n or (4 if quick else 16)
    names = environments()
    rows: list[dict[str, Any]] = []
    drawn: list[WeightsRow] = []
    for name in track(names, len(names), "camouflage-weights", show_progress):
        plain = environment_of(name, quick)
        pair = {"plain": plain, "camouflaged": plain.camouflaged(seed)}
        weights = {kind: _weights(env.model) for kind, env in pair.items()}
        compared = _compared(pair, plain.batch(n, seed)[0])
        for kind, env in pair.items():
            known = {"environment": name, "network": kind}
            rows.append({**known, **weight_statistics(env.model), **compared[kind]})
        if name in DRAWN:
            drawn.append(WeightsRow(name, weights))
    table = pd.DataFrame(rows)
    moves = _each_move(environment_of(DISSECTED, quick), seed)
    title = "The same functions: weights before and after camouflage"
    return Reproduction(
        item="camouflage-weights",
        title=title,
        tables={"weights": table, "moves": moves},
        figures={"histograms": weights_figure(drawn, title)},
        findings=_findings(table, moves, n),
        shown={**SHOWN, "moves": f"{DISSECTED}, each move alone"},
    )


def weight_statistics(model: nn.Module) -> dict[str, int | float]:
    """How hand-made the parameters of a network look, biases included.

    Parameters
    ----------
    model : nn.Module
        Convolutions and linear layers among others.

    Returns
    -------
    dict
        `layers` with weights; `parameters`; how many `distinct` values they have; `zeros`, the share
        that is 0; `negative` and `commonest`, the shares of the others that are negative and that have
        the commonest magnitude; `smallest` and `largest`, the range of their magnitudes.
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
    """Whether the two networks say the same, and how much longer the second takes for it."""
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


def _each_move(env: Environment, seed: int) -> "pd.DataFrame":
    """The network of one environment after no move, each move alone, and all of them."""
    import pandas as pd

    rows = [{"move": "none", **weight_statistics(env.model)}]
    for move in MOVES:
        alone = camouflaged(env.network, seed, moves=[move])
        rows.append({"move": move, **weight_statistics(alone.model)})
    rows.append({"move": "all", **weight_statistics(camouflaged(env.network, seed).model)})
    return pd.DataFrame(rows)


def _findings(table: "pd.DataFrame", moves: "pd.DataFrame", n: int) -> list[str]:
    plain, other = (
        table[table.network == kind].set_index("environment") for kind in ("plain", "camouflaged")
    )
    slower = other.times_slower
    single = moves[~moves.move.isin(["none", "all"])].set_index("move")
    most = single.distinct.idxmax()
    return [
        f"{int((other.equal == 1).sum())} of {len(other)} camouflaged networks give outputs equal (==) "
        f"to those of the plain ones on all of {n} images each.",
        f"They have {_range(other.distinct)} distinct weights (plain: {_range(plain.distinct)}); "
        f"{_percent(other.zeros)} of the weights are 0 (plain: {_percent(plain.zeros)}), and the "
        f"commonest magnitude has {_percent(other.commonest)} of the rest (plain: "
        f"{_percent(plain.commonest)}).",
        f"Their magnitudes span {_powers(other)} (plain: {_powers(plain)}). Every layer keeps to the "
        "exactness budget, or the camouflage would have been refused, so float32 sums stay exact.",
        f"In {DISSECTED} the move that adds most values by itself is {most} "
        f"({single.distinct[most]:,}, from {int(moves.distinct.iloc[0]):,}).",
        f"A pass of one image takes {slower.min():.1f} to {slower.max():.1f} times as long here; that "
        "depends on the machine.",
        "Weights that do not look made by hand are not trained weights: the function is as before, and "
        "so are its simple parts for whoever finds them. What a camouflage is for: a method that reads "
        "the function gives the same map, one that reads the implementation another "
        "(`attributionlab test METHOD --camouflage K`).",
    ]


def _range(numbers: "pd.Series") -> str:
    return f"{numbers.min():,} to {numbers.max():,}"


def _percent(shares: "pd.Series") -> str:
    return f"{shares.min():.0%} to {shares.max():.0%}"


def _powers(table: "pd.DataFrame") -> str:
    low, high = np.log2(table.smallest.min()), np.log2(table.largest.max())
    return f"2^{np.floor(low):.0f} to 2^{np.ceil(high):.0f}"
