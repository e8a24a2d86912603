"""Appendix E: masking the pixel that adds most need not be what changes the class soonest."""

from functools import partial
from itertools import permutations, product
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import binomtest
from torch import nn

from attributionlab.errors import refuse_if
from attributionlab.imputation import constant
from attributionlab.metrics import pixel_flipping, removal_curve
from attributionlab.papers.reproduction import Reproduction
from attributionlab.papers.unified.linear.accuracy_findings import (
    BOTH_SIGNS,
    COUNTS,
    OWN_CLASS,
    POSITIVE,
    findings_of,
)
from attributionlab.papers.unified.linear.masking_orders import (
    along,
    best_total,
    correct_shares,
    descending_order,
    scores_of_sets,
)
from attributionlab.progress import track
from attributionlab.report.metric_panels import MetricLine, MetricPanel, metric_panels_figure
from attributionlab.validation import integer_problem

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

SQUARES = ((4, 1), (6, 0), (5, 0))
"""Squares of the paper's weights, (2, 1), (sqrt 6, 0) and (sqrt 5, 0) for its three classes. Both
pixels are 1, and no class adds up two roots."""
INTEGERS = ((20, 10), (24, 0), (22, 0))
"""The same order of scores without roots, for metrics that compute in float32."""
PIXELS, CLASSES = (2, 4, 6, 8), (2, 3, 5, 10)
CLASSIFIERS, QUICK_CLASSIFIERS = 2000, 500
LARGEST = 1000
"""Of weights and inputs that are drawn."""
EXHAUSTED = 4
"""Pixels of the classifier of which all orders are asked one by one."""
SHOWN = {
    "example": "the paper's example, exact: squares of the three scores after masking, whether the "
    "first class still wins, and what the first score lost",
    "orders": "both orders of the example in integers, by the package's metrics",
    "shares": "of random classifiers that are right about their input, averaged over numbers of "
    "pixels: share whose order by contribution is beaten by another order (low, high: 95 %, Wilson), "
    "by accuracy and by score; first_pixel: another single pixel lowers accuracy more; by_margin: the "
    "order by what a pixel adds to the target less the runner-up is beaten; loss: mean accuracy too "
    "much over the curve. Counts: weights and inputs are 1, else integers up to 1,000 are drawn",
}


def accuracy_counterexample(
    *, n: int | None, quick: bool, seed: int = 0, show_progress: bool = False
) -> Reproduction:
    """The paper's counterexample, and how often random linear classifiers are one.

    Parameters
    ----------
    n : int, optional
        Random classifiers for each number of pixels and of classes; 2,000, or 500 in a quick run.
    quick : bool
        Fewer classifiers.
    seed : int
        Of the classifiers.
    show_progress : bool
        Show progress on standard error.

    Returns
    -------
    Reproduction
        Tables "example", "orders", "shares", "exhausted" (all orders of one classifier, by the
        package's metrics) and "cases" (by number of pixels); figure "shares".
    """
    import pandas as pd

    number = n if n is not None else QUICK_CLASSIFIERS if quick else CLASSIFIERS
    refuse_if(integer_problem("n", number, 1))
    sizes = list(product((BOTH_SIGNS, POSITIVE, COUNTS, OWN_CLASS), PIXELS, CLASSES))
    rows = [
        {"kind": kind, "pixels": pixels, "classes": classes, **found}
        for kind, pixels, classes in track(sizes, len(sizes), "unified-appendix-e", show_progress)
        if (found := _measured(kind, number, pixels, classes, seed))
    ]
    cases = pd.DataFrame(rows)
    tables = {
        "example": pd.DataFrame(_example_rows()),
        "orders": pd.DataFrame(_order_rows(np.array(INTEGERS), np.ones(2, dtype=np.int64))),
        "shares": _summary(cases),
        "exhausted": pd.DataFrame(_exhausted_rows(seed)),
        "cases": cases,
    }
    return Reproduction(
        item="unified-appendix-e",
        title="Accuracy as an indicator of Pixel Flipping",
        tables=tables,
        figures={"shares": _figure(cases)},
        findings=findings_of(tables),
        shown=SHOWN,
    )


def _example_rows() -> list[dict[str, Any]]:
    """Every score is one weight, or 2 + 1: roots are compared by their squares."""
    rows = []
    for masked in ((), (0,), (1,), (0, 1)):
        left = [pixel for pixel in (0, 1) if pixel not in masked]
        first = sum((2, 1)[pixel] for pixel in left)  # of class 1, an integer
        squares = [first**2, *(sum(row[pixel] for pixel in left) for row in SQUARES[1:])]
        rows.append(
            {
                "masked": " and ".join(f"x{pixel + 1}" for pixel in masked) or "nothing",
                **{f"y{label + 1}_squared": square for label, square in enumerate(squares)},
                "right": squares[0] > max(squares[1:]),
                "tied": squares.count(max(squares)) > 1,
                "lost": 3 - first,
            }
        )
    return rows


def _order_rows(weights: NDArray[np.int64], inputs: NDArray[np.int64]) -> list[dict[str, Any]]:
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
    asked = (model, images, torch.full((len(orders),), target), maps.view(images.shape))
    flipping = pixel_flipping(*asked, replacement=0.0)
    fractions = [step / pixels for step in range(pixels + 1)]
    accuracies = removal_curve(
        *asked,
        fractions=fractions,
        value_range=(0, int(inputs.max())),
        imputation=partial(constant, value=0.0),
        nothing_kept=0.0,
    ).mean(1)
    added = weights[target] * inputs
    return [
        {
            "order": ", ".join(f"x{pixel + 1}" for pixel in order),
            "by_contribution": all(np.diff(added[list(order)]) <= 0),
            "pixel_flipping": score,
            "mean_accuracy": right,
        }
        for order, score, right in zip(orders, flipping.tolist(), accuracies.tolist(), strict=True)
    ]


def _exhausted_rows(seed: int) -> list[dict[str, Any]]:
    """All orders of the first drawn classifier whose order by contribution is beaten by accuracy."""
    weights, inputs = _drawn(BOTH_SIGNS, QUICK_CLASSIFIERS, EXHAUSTED, 3, seed)
    weights, inputs = weights % 19 - 9, inputs % 9 + 1  # small, so that float32 is exact
    weights, inputs, targets = _right_alone(weights, inputs)
    beaten = _judged(weights, inputs, targets)["beaten"]
    first = int(np.flatnonzero(beaten)[0])
    return _order_rows(weights[first], inputs[first])


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


def _judged(
    weights: NDArray[np.int64], inputs: NDArray[np.int64], targets: NDArray[np.int64]
) -> dict[str, NDArray[Any]]:
    """What orders do to each classifier; losses in units of `correct_shares`."""
    scores = scores_of_sets(weights, inputs)
    of_target = np.take_along_axis(scores, targets[:, None, None], 2)[..., 0]
    right = correct_shares(scores, targets)
    others = scores[:, 0].copy()
    np.put_along_axis(others, targets[:, None], np.iinfo(np.int64).min, axis=1)
    places = np.arange(len(targets))
    added = weights[places, targets] * inputs
    order = descending_order(added)
    margin = descending_order(added - weights[places, others.argmax(1)] * inputs)
    best = best_total(right)
    single = right[:, 1 << np.arange(inputs.shape[1])]
    return {
        "beaten": along(right, order).sum(1) > best,
        "beaten_by_score": along(of_target, order).sum(1) > best_total(of_target),
        "first_pixel": single[places, order[:, 0]] > single.min(1),
        "by_margin": along(right, margin).sum(1) > best,
        "loss": along(right, order).sum(1) - best,
    }


def _measured(kind: str, number: int, pixels: int, classes: int, seed: int) -> dict[str, Any]:
    """Shares over classifiers that are right; nothing where there is none."""
    weights, inputs, targets = _right_alone(*_drawn(kind, number, pixels, classes, seed))
    if not len(targets):
        return {}
    judged = _judged(weights, inputs, targets)
    unit = np.lcm.reduce(np.arange(1, classes + 1)) * (pixels + 1)
    beaten = {name: int(judged[name].sum()) for name in ("beaten", "beaten_by_score")}
    return {
        "classifiers": len(targets),
        **beaten,
        **_ends(beaten["beaten"], len(targets)),
        **{name: float(judged[name].mean()) for name in ("first_pixel", "by_margin")},
        "loss": float(judged["loss"].mean() / unit),
    }


def _ends(count: int, total: int) -> dict[str, float]:
    ends = binomtest(count, total).proportion_ci(method="wilson")
    return {"low": ends.low, "high": ends.high}


def _summary(cases: "pd.DataFrame") -> "pd.DataFrame":
    import pandas as pd

    rows = []
    for (kind, classes), here in cases.groupby(["kind", "classes"], sort=False):
        total = int(here.classifiers.sum())
        rows.append(
            {
                "kind": kind,
                "classes": classes,
                "by_accuracy": here.beaten.sum() / total,
                **_ends(int(here.beaten.sum()), total),
                "by_score": here.beaten_by_score.sum() / total,
                **{
                    name: float(np.average(here[name], weights=here.classifiers))
                    for name in ("first_pixel", "by_margin", "loss")
                },
                "classifiers": total,
            }
        )
    return pd.DataFrame(rows)


def _figure(cases: "pd.DataFrame") -> "Figure":
    panels = []
    for kind, of_kind in cases.groupby("kind", sort=False):
        lines = {}
        for classes, here in of_kind.groupby("classes", sort=False):
            shares = (here.beaten / here.classifiers).to_numpy()
            lengths = np.stack([shares - here.low, here.high - shares])
            lines[f"{classes} classes"] = MetricLine(
                here.pixels.to_numpy(dtype=float),
                shares,
                lengths.clip(min=0),  # the share itself, rounded, can be the end
            )
        panels.append(
            MetricPanel(str(kind), "pixels", "share of classifiers (lower is better)", lines)
        )
    title = (
        "Linear classifiers whose order by contribution is beaten by another one, by accuracy\n"
        f"By score: {cases.beaten_by_score.sum()} of {cases.classifiers.sum():,}. "
        "Bars: 95 % intervals (Wilson)"
    )
    return metric_panels_figure([panels], title)
