"""Appendix E: masking the pixel that adds most need not be what changes the class soonest."""

from collections.abc import Iterator
from functools import partial
from itertools import permutations, product
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.stats import binomtest
from torch import nn

from attributionlab.base import CONFIDENCE
from attributionlab.metrics import pixel_flipping, removal_curve
from attributionlab.metrics.imputation import constant
from attributionlab.papers.answers import decided
from attributionlab.papers.catalog import Found, Run, Tables
from attributionlab.papers.unified import masking_orders
from attributionlab.show import curves

BOTH_SIGNS, POSITIVE = "weights of both signs", "positive weights"
COUNTS, OWN_CLASS = "one class per pixel, counts", "one class per pixel, both signs"
KINDS = (BOTH_SIGNS, POSITIVE, COUNTS, OWN_CLASS)
"""Kinds of classifiers. Weights and inputs of counts are 1, as where our environments count colors."""
TWO, MORE = "two classes, without counts", "more classes, without counts"
SQUARES = ((4, 1), (6, 0), (5, 0))
"""Squares of the paper's weights, (2, 1), (sqrt 6, 0) and (sqrt 5, 0) for its three classes. Both
pixels are 1, and no class adds up two roots."""
INTEGERS = ((20, 10), (24, 0), (22, 0))
"""The same order of scores without roots, for metrics that compute in float32."""
PIXELS, CLASSES = (2, 4, 6, 8), (2, 3, 5, 10)
LARGEST = 1000
"""The largest weight or input that is drawn."""
EXHAUSTED, CANDIDATES = 4, 500
"""Pixels of the classifier of which all orders are tried, and from how many it is drawn."""
ROUNDING = 1e-12
"""Difference by rounding of two means of the same few shares, summed in another sequence."""


def accuracy_counterexample(run: Run) -> Found:
    """Compute the paper's counterexample, and how often random linear classifiers are one.

    Table "exhausted" has all orders of one classifier, "cases" the shares by number of pixels.
    """
    sizes = product(KINDS, PIXELS, CLASSES)
    cases = pd.DataFrame(
        {"kind": kind, "pixels": pixels, "classes": classes, **found}
        for kind, pixels, classes in run.track(sizes)
        if (found := _measured(kind, run.n, pixels, classes, run.seed))
    )
    tables = {
        "example": pd.DataFrame(_example_rows()),
        "orders": _order_table(np.array(INTEGERS), np.ones(2, dtype=np.int64)),
        "shares": _summary(cases),
        "totals": _totals(cases),
        "exhausted": _exhausted(run.seed),
        "cases": cases,
    }
    shown = cases.assign(
        share=cases.beaten / cases.classifiers,
        classes=[f"{each} classes" for each in cases.classes],
    )
    figure = curves(
        *(shown, "pixels", "share", "classes"),
        panel="kind",
        columns=2,
        title="Linear classifiers for which another order beats the order by contribution in accuracy; "
        f"in score: {cases.beaten_by_score.sum()} of {cases.classifiers.sum():,}. Bands: 95 % (Wilson)",
        ylabel="share of classifiers (lower is better)",
    )
    return Found(tables, {"shares": figure})


def score_and_accuracy_disagree(tables: Tables) -> bool:
    orders = tables["orders"].set_index("by_contribution")
    by_score = orders.pixel_flipping[True] > orders.pixel_flipping[False]
    return bool(by_score == (orders.mean_accuracy[True] > orders.mean_accuracy[False]))


def score_never_prefers_another_order(tables: Tables) -> bool | None:
    totals = tables["totals"].set_index("classifiers_of")
    against = totals.by_score["all"] or totals.by_accuracy[COUNTS]
    others = totals.by_accuracy[[BOTH_SIGNS, POSITIVE, OWN_CLASS]]
    return decided(not against and others.all(), against)


def margin_decides_for_two_classes(tables: Tables) -> bool | None:
    beaten = tables["totals"].set_index("classifiers_of").by_margin
    return False if beaten[TWO] else True if beaten[MORE] else None


def _example_rows() -> Iterator[dict[str, Any]]:
    """Scores after masking: each is one weight, or 2 + 1, and roots are compared by squares."""
    for masked in ((), (0,), (1,), (0, 1)):
        left = [pixel for pixel in (0, 1) if pixel not in masked]
        first = sum((2, 1)[pixel] for pixel in left)  # of class 1, an integer
        squares = [first**2, *(sum(row[pixel] for pixel in left) for row in SQUARES[1:])]
        yield {
            "masked": " and ".join(f"x{pixel + 1}" for pixel in masked) or "nothing",
            **{f"y{label + 1}_squared": square for label, square in enumerate(squares)},
            "right": squares[0] > max(squares[1:]),
            "tied": squares.count(max(squares)) > 1,
            "lost": 3 - first,
        }


def _order_table(weights: NDArray[np.int64], inputs: NDArray[np.int64]) -> pd.DataFrame:
    """All orders in which a classifier's pixels can be masked, by the package's metrics."""
    pixels = len(inputs)
    linear = nn.Linear(pixels, len(weights), bias=False)
    linear.weight = nn.Parameter(torch.from_numpy(weights).float(), requires_grad=False)
    model = nn.Sequential(nn.Flatten(), linear).eval()
    orders = list(permutations(range(pixels)))
    maps = torch.zeros(len(orders), pixels)
    for index, order in enumerate(orders):
        maps[index, list(order)] = torch.arange(pixels, 0, -1).float()
    images = torch.from_numpy(inputs).float().expand(len(orders), 1, 1, pixels)
    target = int((weights @ inputs).argmax())
    arguments = (model, images, torch.full((len(orders),), target), maps.view(images.shape))
    flipping = pixel_flipping(*arguments, replacement=0.0)
    fractions = [step / pixels for step in range(pixels + 1)]
    accuracies = removal_curve(
        *arguments,
        fractions=fractions,
        value_range=(0, int(inputs.max())),
        imputation=partial(constant, value=0.0),
        nothing_kept=0.0,
    ).mean(1)
    added = weights[target] * inputs
    table = pd.DataFrame(
        {
            "order": [", ".join(f"x{pixel + 1}" for pixel in order) for order in orders],
            "by_contribution": [all(np.diff(added[list(order)]) <= 0) for order in orders],
            "pixel_flipping": flipping.tolist(),
            "mean_accuracy": accuracies.tolist(),
        }
    )
    own = table[table.by_contribution]
    return table.assign(
        better_by_score=table.pixel_flipping > own.pixel_flipping.max(),
        better_by_accuracy=own.mean_accuracy.min() - table.mean_accuracy > ROUNDING,
    )


def _exhausted(seed: int) -> pd.DataFrame:
    """All orders of the first drawn classifier whose own order is beaten by accuracy."""
    weights, inputs = _drawn(BOTH_SIGNS, CANDIDATES, EXHAUSTED, 3, seed)
    weights, inputs = weights % 19 - 9, inputs % 9 + 1  # small, so that float32 is exact
    weights, inputs, targets = _right_alone(weights, inputs)
    beaten = _compared(weights, inputs, targets)["beaten"]
    first = int(np.flatnonzero(beaten)[0])
    return _order_table(weights[first], inputs[first])


def _drawn(
    kind: str, number: int, pixels: int, classes: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Weights (n, K, d) and inputs (n, d)."""
    random = np.random.default_rng([seed, pixels, classes])
    inputs = random.integers(1, LARGEST + 1, (number, pixels))
    if kind not in (COUNTS, OWN_CLASS):
        least = 1 if kind == POSITIVE else -LARGEST
        return random.integers(least, LARGEST + 1, (number, classes, pixels)), inputs
    owner = random.integers(0, classes, (number, 1, pixels))
    owned = (owner == np.arange(classes)[:, None]).astype(np.int64)
    if kind == COUNTS:
        return owned, np.ones_like(inputs)
    return owned * random.integers(-LARGEST, LARGEST + 1, owner.shape), inputs


def _right_alone(
    weights: NDArray[np.int64], inputs: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Classifiers with one largest score, and its class, which is taken for the true one."""
    scores = np.einsum("nkd,nd->nk", weights, inputs)
    alone = (scores == scores.max(1, keepdims=True)).sum(1) == 1
    return weights[alone], inputs[alone], scores[alone].argmax(1)


def _compared(
    weights: NDArray[np.int64], inputs: NDArray[np.int64], targets: NDArray[np.int64]
) -> dict[str, NDArray[Any]]:
    """Compare orders of each classifier; losses in units of `correct_shares`."""
    scores = masking_orders.scores_of_sets(weights, inputs)
    of_target = np.take_along_axis(scores, targets[:, None, None], 2)[..., 0]
    right = masking_orders.correct_shares(scores, targets)
    others = scores[:, 0].copy()
    np.put_along_axis(others, targets[:, None], np.iinfo(np.int64).min, axis=1)
    places = np.arange(len(targets))
    added = weights[places, targets] * inputs
    order = masking_orders.descending_order(added)
    margin = masking_orders.descending_order(added - weights[places, others.argmax(1)] * inputs)
    best = masking_orders.best_total(right)
    single = right[:, 1 << np.arange(inputs.shape[1])]
    return {
        "beaten": masking_orders.along(right, order).sum(1) > best,
        "beaten_by_score": masking_orders.along(of_target, order).sum(1)
        > masking_orders.best_total(of_target),
        "first_pixel": single[places, order[:, 0]] > single.min(1),
        "by_margin": masking_orders.along(right, margin).sum(1) > best,
        "loss": masking_orders.along(right, order).sum(1) - best,
    }


def _measured(kind: str, number: int, pixels: int, classes: int, seed: int) -> dict[str, Any]:
    """Shares over classifiers that are right, nothing where there is none."""
    weights, inputs, targets = _right_alone(*_drawn(kind, number, pixels, classes, seed))
    if not len(targets):
        return {}
    compared = _compared(weights, inputs, targets)
    unit = np.lcm.reduce(np.arange(1, classes + 1)) * (pixels + 1)
    beaten = {name: int(compared[name].sum()) for name in ("beaten", "beaten_by_score")}
    return {
        "classifiers": len(targets),
        **beaten,
        **_ends(beaten["beaten"], len(targets)),
        **{name: float(compared[name].mean()) for name in ("first_pixel", "by_margin")},
        "loss": float(compared["loss"].mean() / unit),
    }


def _ends(count: int, total: int) -> dict[str, float]:
    ends = binomtest(count, total).proportion_ci(CONFIDENCE, method="wilson")
    return {"low": ends.low, "high": ends.high}


def _summary(cases: pd.DataFrame) -> pd.DataFrame:
    """Shares over all numbers of pixels, by kind and number of classes."""
    means = cases[["first_pixel", "by_margin", "loss"]].mul(cases.classifiers, axis=0)
    counts = cases[["beaten", "beaten_by_score", "classifiers"]]
    sums = means.join(counts).groupby([cases.kind, cases.classes], sort=False).sum()
    shares = sums.drop(columns="classifiers").div(sums.classifiers, axis=0)
    pairs = zip(sums.beaten.astype(int), sums.classifiers.astype(int), strict=True)
    table = shares.join(pd.DataFrame([_ends(*pair) for pair in pairs], index=shares.index))
    table = table.rename(columns={"beaten": "by_accuracy", "beaten_by_score": "by_score"})
    table["classifiers"] = sums.classifiers
    order = ["by_accuracy", "low", "high", "by_score", *means.columns, "classifiers"]
    return table[order].reset_index()


def _totals(cases: pd.DataFrame) -> pd.DataFrame:
    """How many classifiers have a better order than that by contribution, or by margin."""
    other = cases[cases.kind != COUNTS]
    parts = {
        **{kind: cases[cases.kind == kind] for kind in KINDS},
        TWO: other[other.classes == 2],
        MORE: other[other.classes > 2],
        "all": cases,
    }
    return pd.DataFrame(
        {
            "classifiers_of": name,
            "by_accuracy": part.beaten.sum(),
            "by_score": part.beaten_by_score.sum(),
            "by_margin": int((part.by_margin * part.classifiers).round().sum()),
            "classifiers": part.classifiers.sum(),
        }
        for name, part in parts.items()
    )
