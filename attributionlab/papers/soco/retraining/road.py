"""ROAD of three methods with and without retraining: does it change which of them is ahead?"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float32, Int64
from numpy.typing import NDArray
from torch import Tensor, nn

from attributionlab.methods import gradcam, integrated_gradients
from attributionlab.methods.findings import heard
from attributionlab.metrics import Retraining
from attributionlab.metrics.orders import Order
from attributionlab.papers.soco.road_curves import road_curve
from attributionlab.papers.subjects.drawn_pictures import CLASSES
from attributionlab.papers.subjects.small_network import accuracy_of, trained_small_network
from attributionlab.report.watermarks import NetworkCurves, network_curves_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

METHODS = ("IG", "GradCAM", "random")
ORDERS: tuple[Order, ...] = ("morf", "lerf")
FRACTIONS = (0.1, 0.4, 0.8)
"""Of the pixels removed; an object has 6 to 25 %."""
BETTER = {
    "morf": ("most relevant pixels first", "lower is better"),
    "lerf": ("least relevant pixels first", "higher is better"),
}
RETRAINED = {False: "without retraining", True: "retrained at every fraction"}


class RoadRun(NamedTuple):
    """Of one network: rows of a table, and accuracies along `FRACTIONS`, in the order of the rows."""

    rows: list[dict[str, Any]]
    curves: list[NDArray[np.float64]]


def road_run(
    train: tuple[Float32[Tensor, "n channels side side"], Int64[Tensor, " n"]],
    test: tuple[Float32[Tensor, "m channels side side"], Int64[Tensor, " m"]],
    *,
    seed: int,
    epochs: int,
) -> RoadRun:
    """Train a network, explain it, and score the maps by ROAD, with and without retraining.

    A network that is trained anew at some fraction has the seed, the number of images and the epochs of
    the one that is explained. Maps are of the label's logit: IG from black, summed over channels, of
    either sign; GradCAM at the last ReLU before the linear layer; uniform noise.

    Parameters
    ----------
    train, test : (Tensor, Tensor)
        Images in [0, 1] and labels.
    seed, epochs : int
        Of the network.
    """
    fit = partial(trained_small_network, classes=CLASSES, seed=seed, epochs=epochs)
    network = fit(*train)
    training_maps, maps = (
        _maps(network, *part, seed=[seed, index]) for index, part in enumerate((train, test))
    )
    intact = accuracy_of(network, *test)
    run = RoadRun([], [])
    for order in ORDERS:
        for retrained in RETRAINED:
            for method in METHODS:
                retraining = Retraining(*train, training_maps[method], fit) if retrained else None
                curve, height = road_curve(
                    *(network, *test, maps[method]),
                    order=order,
                    fractions=FRACTIONS,
                    seed=seed,
                    retraining=retraining,
                )
                run.rows.append(
                    {"seed": seed, "order": order, "retrained": retrained, "method": method}
                    | {"road": height, "intact": intact}
                )
                run.curves.append(curve)
    return run


def _maps(
    network: nn.Sequential, images: Tensor, labels: Tensor, *, seed: Sequence[int]
) -> dict[str, Tensor]:
    """By method; what guards say of IG's quadrature is not shown, since only its order counts."""
    last = [module for module in network if isinstance(module, nn.ReLU)][-1]
    rng = np.random.default_rng([*seed, 2])
    with heard():
        return {
            "IG": integrated_gradients(network, images, labels).sum(1, keepdim=True).double(),
            "GradCAM": gradcam(network, images, labels, layers={"gradcam": last}).double(),
            "random": torch.from_numpy(rng.random((len(images), 1, *images.shape[2:]))),
        }


def road_table(each: "pd.DataFrame") -> "pd.DataFrame":
    """Means and extremes over networks, and ranks of the means: 1 is best."""
    keys = ["order", "retrained"]
    found = each.groupby([*keys, "method"], sort=False).road
    table = found.agg(road="mean", lowest="min", highest="max").reset_index()
    lower = table.order == "morf"
    table["rank"] = (
        table.road.where(lower, -table.road).groupby([table[key] for key in keys]).rank()
    )
    return table


def road_figure(runs: Sequence[RoadRun], title: str) -> "Figure":
    """Curves of the methods: orders in rows, without and with retraining in columns."""
    curves: dict[tuple[str, bool], dict[str, list[NDArray[np.float64]]]] = {}
    for run in runs:
        for row, curve in zip(run.rows, run.curves, strict=True):
            panel = curves.setdefault((row["order"], row["retrained"]), {})
            panel.setdefault(row["method"], []).append(curve)
    panels = [
        NetworkCurves(
            f"{BETTER[order][0]}, {RETRAINED[retrained]}",
            FRACTIONS,
            {method: np.stack(found) for method, found in by_method.items()},
            BETTER[order][1],
        )
        for (order, retrained), by_method in curves.items()
    ]
    return network_curves_figure(panels, title, columns=len(RETRAINED))
