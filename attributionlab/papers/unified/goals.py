"""Section 6.2.2: Pixel Flipping asks what pixels add, a gradient says what changing them would do."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from attributionlab.base import FEWEST_FOR_ORDER, with_intervals
from attributionlab.metrics import curve_fractions, deletion_curve
from attributionlab.papers.answers import decided
from attributionlab.papers.catalog import Found, Run, Tables
from attributionlab.papers.unified import digits
from attributionlab.papers.unified import masking_orders as orders
from attributionlab.show import curves

REMOVAL, CHANGE = "removal", "change"
PRODUCT, GRADIENT, RANDOM = "gradient x input", "gradient", "random order"
BEST, WORST = "best order", "worst order"
OWN = {REMOVAL: (PRODUCT, GRADIENT), CHANGE: (GRADIENT, PRODUCT)}
"""By goal: the map whose goal it is, and the other one."""
INPUTS = {"all 1": (1,), "0 or 1": (0, 1), "1, 2 or 3": (1, 2, 3), "-2 to 2": range(-2, 3)}
EVERY = 5
"""Points of a curve from one that is drawn to the next."""


def compatible_goals(run: Run, *, pixels: int) -> Found:
    """Judge gradient and gradient x input of linear models by removal and by change.

    The output is sum_j w_j x_j. Table "exhausted" has all models and inputs of so many pixels, table
    "digits" a sparse linear model of digits.
    """
    rows = [row for kind in run.track(INPUTS) for row in _exhausted(kind, pixels)]
    along = _along_orders(run.n, run.seed)
    losses = with_intervals(_losses(along), ["goal", "map"], "loss", run.seed)
    tables = {"exhausted": pd.DataFrame(rows), "digits": losses}
    return Found(tables, {"curves": _figure(along)})


def gradient_is_best_in_change(tables: Tables) -> bool:
    return bool(
        _shares(tables, CHANGE, GRADIENT).min() == 1 > _shares(tables, CHANGE, PRODUCT).min()
    )


def digits_prefer_their_own_map(tables: Tables) -> bool | None:
    table = tables["digits"].set_index(["goal", "map"])
    if table.images.min() < FEWEST_FOR_ORDER:
        return None
    pairs = [((goal, own), (goal, other)) for goal, (own, other) in OWN.items()]
    pairs += [((goal, other), (goal, RANDOM)) for goal, (_, other) in OWN.items()]
    return decided(
        all(table.high[first] < table.low[second] for first, second in pairs),
        any(table.low[first] > table.high[second] for first, second in pairs),
    )


def _shares(tables: Tables, goal: str, name: str) -> pd.Series:
    """For each kind of inputs, the share of pairs of a model and an input for which a map is best."""
    table = tables["exhausted"]
    return table[(table.goal == goal) & (table["map"] == name)].best


def _exhausted(kind: str, pixels: int) -> Iterator[dict[str, Any]]:
    """One row for each goal and map: all weights from -2 to 2 with all inputs of a kind."""
    every = product(product(range(-2, 3), repeat=pixels), product(INPUTS[kind], repeat=pixels))
    weights, inputs = (np.array(each, dtype=np.int64) for each in zip(*every, strict=True))
    goals = {
        REMOVAL: orders.scores_of_sets(weights[:, None], inputs)[..., 0],
        # What is not yet changed: the least of it left at every step is the most of it changed.
        CHANGE: orders.scores_of_sets(weights[:, None], np.ones_like(inputs))[..., 0],
    }
    maps = {PRODUCT: weights * inputs, GRADIENT: weights}
    for (goal, outputs), (name, values) in product(goals.items(), maps.items()):
        total = orders.along(outputs, orders.descending_order(values)).sum(1)
        best, worst = orders.best_total(outputs), orders.worst_total(outputs)
        matters = worst > best
        loss = (total - best)[matters] / (worst - best)[matters]
        yield {
            "inputs": kind,
            "goal": goal,
            "map": name,
            "best": float((total == best).mean()),
            "loss": float(loss.mean()),
            "largest_loss": float(loss.max()),
            "cases": len(total),
        }


def _along_orders(number: int, seed: int) -> dict[tuple[str, str], Tensor]:
    """Outputs (B, S) of the true class along orders of the pixels, by goal and order."""
    training, test = digits.digits_split(number, seed)
    fitted = digits.sparse_classifier(
        training.ink, training.labels, unit=digits.DARKEST, inverse_penalty=0.1, seed=seed
    )
    linear = nn.Linear(digits.SIDE**2, digits.CLASSES, bias=False, dtype=torch.float64)
    linear.weight = nn.Parameter(fitted.weights / fitted.weights.abs().max(), requires_grad=False)
    model, images = nn.Sequential(nn.Flatten(), linear).eval(), test.ink.double() / digits.DARKEST
    gradient = linear.weight[test.labels].view(images.shape)
    noise = torch.rand(images.shape, generator=torch.Generator().manual_seed(seed))
    maps = {PRODUCT: gradient * images, GRADIENT: gradient, RANDOM: noise}
    goals = {
        REMOVAL: (torch.zeros_like(images), maps[PRODUCT]),
        CHANGE: (images + 1 / digits.DARKEST, gradient),
    }
    return {
        (goal, name): deletion_curve(model, images, test.labels, values, replacement=replaced)
        for goal, (replaced, best) in goals.items()
        for name, values in {**maps, BEST: best, WORST: -best}.items()
    }


def _losses(along: dict[tuple[str, str], Tensor]) -> pd.DataFrame:
    """Each image's distance from the best order, the worst being 1, by goal and map."""
    parts = []
    for goal, name in product(OWN, (PRODUCT, GRADIENT, RANDOM)):
        total, best, worst = (along[goal, each].sum(1).numpy() for each in (name, BEST, WORST))
        parts.append(
            pd.DataFrame({"goal": goal, "map": name, "loss": (total - best) / (worst - best)})
        )
    return pd.concat(parts)


def _figure(along: dict[tuple[str, str], Tensor]) -> Any:
    """Draw means over images of where outputs lie between the least and the largest possible."""
    meaning = {
        REMOVAL: "pixels set to 0, lower is better",
        CHANGE: "one shade brighter, higher is better",
    }
    rows = []
    for goal, said in meaning.items():
        ends = torch.cat([along[goal, BEST], along[goal, WORST]], 1)
        low, high = ends.amin(1, keepdim=True), ends.amax(1, keepdim=True)
        for name in (PRODUCT, GRADIENT, RANDOM, WORST):
            share = ((along[goal, name] - low) / (high - low)).mean(0).numpy()[::EVERY]
            fraction = curve_fractions(digits.SIDE**2).numpy()[::EVERY]
            part = {"goal": f"{goal}: {said}", "map": name, "fraction": fraction, "output": share}
            rows.append(pd.DataFrame(part))
    return curves(
        *(pd.concat(rows), "fraction", "output", "map"),
        panel="goal",
        title="Sparse linear model of digits: means over images along orders of pixels",
        xlabel="fraction of the pixels",
        ylabel="output of the class, from the least\nto the largest possible",
    )
