"""Section 3.3 of Li et al. (2024): two maps of one order, and what metrics can tell of them."""

from functools import partial
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from attributionlab.metrics import (
    THRESHOLDS,
    completeness_curve,
    deletion_curve,
    insertion_curve,
    label_probability,
    pixel_flipping,
    removal_curve,
    soundness_sweep,
    true_completeness,
    true_soundness,
)
from attributionlab.metrics.imputation import constant
from attributionlab.papers.catalog import Found, Run, Tables
from attributionlab.papers.soco.maps import scaled
from attributionlab.show import curves

MAPS = {"A": (1.0, 2.0, 3.0), "B": (1.0, 1.1, 100.0)}
WEIGHTS = (1.0, 0.0, 2.0)
"""What each of the three features adds to the label's output. The second is not read."""
INPUT = (1.0, 0.5, 1.0)
LEVEL = 0.95
"""Reached by the first and the third feature together, not by the third alone."""
FRACTIONS = (0.0, 1 / 3, 2 / 3, 1.0)
RATIOS = (2 / 3, 1 / 3, 0.0)
BY_ORDER = ("insertion", "deletion", "pixel flipping", "ROAD, most first", "ROAD, least first")
DRAWN = {
    "deletion": "deletion: output of the label (lower is better)",
    "ROAD, most first": "ROAD, most first: probability (lower is better)",
    "completeness": "completeness: probability lost (higher is better)",
}


def maps_of_one_order(run: Run) -> Found:
    """Compare the maps (1, 2, 3) and (1, 1.1, 100) of three features by every metric.

    The paper names no model. Here the label's output is x1 + 2 x3, the other class's is 0, and x = (1,
    0.5, 1); removed features become 0, or in ROAD means of their neighbors and noise.
    """
    found = {name: _curves(maps, run.seed) for name, maps in example_maps().items()}
    values = pd.DataFrame(
        {"metric": metric, "at": at, **{name: found[name][metric][1][i] for name in MAPS}}
        for metric, (points, _) in found["A"].items()
        for i, at in enumerate(points)
    )
    values["equal"] = values.A == values.B
    [sound] = values[values.metric == "soundness"].itertuples()
    drawn = values.melt(["metric", "at"], [*MAPS], "map", "value")
    drawn = drawn.assign(
        panel=drawn.metric.map(DRAWN),
        map=drawn["map"] + ": " + drawn["map"].map(lambda name: str(MAPS[name])),
    ).dropna(subset=["panel"])
    figure = curves(
        *(drawn, "at", "value", "map"),
        panel="panel",
        title="Two maps with the same order: metrics of order cannot distinguish them\n"
        f"soundness: A {sound.A:.3f}, B {sound.B:.3f} (higher is better)",
        xlabel="fraction of features removed,\nor attribution threshold",
    )
    information = torch.tensor(WEIGHTS)[None, None, None]
    true = pd.DataFrame(
        {
            "map": name,
            "values": ", ".join(f"{value:g}" for value in MAPS[name]),
            "true_soundness": float(true_soundness(maps, information)),
            "true_completeness": float(true_completeness(maps, information, threshold=0.5)),
        }
        for name, maps in example_maps().items()
    )
    return Found({"maps": true, "values": values}, {"curves": figure})


def values_tell_apart(tables: Tables) -> bool:
    equal = tables["values"].groupby("metric").equal.all()
    return not equal[["soundness", "completeness"]].any()


def preferences_differ(tables: Tables) -> bool:
    values = tables["values"]
    means = values[~values.equal].groupby("metric")[["A", "B"]].mean()
    return bool(
        {"soundness", "completeness"} <= {*means.index}
        and means.B["soundness"] > means.A["soundness"]
        and means.A["completeness"] > means.B["completeness"]
    )


def example_model() -> nn.Module:
    """The network from images (B, 1, 1, 3) to x1 + 2 x3 for class 0, and 0 for class 1."""
    linear = nn.Linear(3, 2, bias=False)
    linear.weight = nn.Parameter(torch.tensor([WEIGHTS, (0.0, 0.0, 0.0)]), requires_grad=False)
    return nn.Sequential(nn.Flatten(), linear).eval()


def example_maps() -> dict[str, Tensor]:
    """Both maps, each divided by its largest value; (1, 1, 1, 3)."""
    return {
        name: scaled(torch.tensor(values, dtype=torch.float64)[None, None, None])
        for name, values in MAPS.items()
    }


def _curves(maps: Tensor, seed: int) -> dict[str, tuple[tuple[float, ...], list[float]]]:
    """Return, by metric, where its curve is known and its values there."""
    case = (example_model(), torch.tensor([[[INPUT]]]), torch.tensor([0]), maps)
    settings: dict[str, Any] = {"indicator": label_probability, "nothing_kept": 0.0, "seed": seed}
    exact = settings | {"imputation": partial(constant, value=0.0)}
    road = settings | {"fractions": FRACTIONS}
    curves_of: dict[str, tuple[tuple[float, ...], Tensor]] = {
        "insertion": (FRACTIONS, insertion_curve(*case, replacement=0.0)[0]),
        "deletion": (FRACTIONS, deletion_curve(*case, replacement=0.0)[0]),
        "pixel flipping": ((1.0,), pixel_flipping(*case, replacement=0.0)),
        "ROAD, most first": (FRACTIONS, removal_curve(*case, **road)[0]),
        "ROAD, least first": (FRACTIONS, removal_curve(*case, order="lerf", **road)[0]),
        "soundness": (
            (LEVEL,),
            soundness_sweep(*case, ratios=RATIOS, **exact).at(LEVEL).per_sample,
        ),
        "completeness": (
            THRESHOLDS,
            completeness_curve(*case, thresholds=THRESHOLDS, **exact).differences,
        ),
    }
    return {name: (points, values.tolist()) for name, (points, values) in curves_of.items()}
