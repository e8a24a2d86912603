"""Section 6.2.2: Pixel Flipping asks what pixels add, a gradient says what changing them would do."""

from collections.abc import Mapping
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from attributionlab.errors import refuse_if
from attributionlab.metrics import curve_fractions, deletion_curve
from attributionlab.papers.reproduction import Reproduction
from attributionlab.papers.unified.linear.digits import (
    CLASSES,
    DARKEST,
    MOST_TEST,
    SIDE,
    digits_split,
    sparse_classifier,
)
from attributionlab.papers.unified.linear.goals_findings import (
    CHANGE,
    GRADIENT,
    PRODUCT,
    RANDOM,
    REMOVAL,
    findings_of,
)
from attributionlab.papers.unified.linear.masking_orders import (
    along,
    best_total,
    descending_order,
    scores_of_sets,
    worst_total,
)
from attributionlab.progress import track
from attributionlab.report.metric_panels import MetricLine, MetricPanel, metric_panels_figure
from attributionlab.stats.intervals import mean_interval
from attributionlab.validation import integer_problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WEIGHTS = range(-2, 3)
INPUTS: Mapping[str, tuple[int, ...]] = {
    "all 1": (1,),
    "0 or 1": (0, 1),
    "1, 2 or 3": (1, 2, 3),
    "-2 to 2": (-2, -1, 0, 1, 2),
}
PIXELS, QUICK_PIXELS = 4, 3
TEST, QUICK_TEST = MOST_TEST, 100
INVERSE_PENALTY = 0.1
STEP = 1 / DARKEST
"""By which each pixel of a digit is changed: one shade of ink."""
EVERY = 5
"""Points of a curve from one that is drawn to the next."""
BEST, WORST = "best order", "worst order"
DigitCurves = dict[str, dict[str, Tensor]]
"""By goal and order, outputs (B, S) of the true class."""
SHOWN = {
    "exhausted": "all linear models with weights from -2 to 2 and all inputs of a kind; best: share "
    "for which no order of the pixels is better by the goal; loss: distance from the best order, the "
    "worst being 1, mean and largest (a random order loses 0.5 on average)",
    "digits": "the sparse linear model of digits, output of the true class; loss as above, mean over "
    "test images, low, high: 95 % interval",
}


def goals_of_maps(
    *, n: int | None, quick: bool, seed: int = 0, show_progress: bool = False
) -> Reproduction:
    """Gradient and gradient x input of linear models, judged by either one's goal.

    The output of a linear model is sum w_j x_j. Removal, which is Pixel Flipping by score, sets pixels
    to 0 in an order: the sooner the output falls, the better. Change adds the same small step to pixels
    in an order: the sooner the output rises, the better.

    Parameters
    ----------
    n : int, optional
        Digits; 600, or 100 in a quick run, by default.
    quick : bool
        All models of three pixels instead of four, fewer digits.
    seed : int
        Of the digits, the model's training and the random order.
    show_progress : bool
        Show progress on standard error.

    Returns
    -------
    Reproduction
        Tables "exhausted" and "digits"; figure "curves".
    """
    import pandas as pd

    number = n if n is not None else QUICK_TEST if quick else TEST
    refuse_if(integer_problem("n", number, 1, MOST_TEST))
    rows = [
        row
        for kind in track(list(INPUTS), len(INPUTS), "unified-section-6-2-2", show_progress)
        for row in _exhausted_rows(kind, QUICK_PIXELS if quick else PIXELS)
    ]
    curves = _digit_curves(number, seed)
    tables = {"exhausted": pd.DataFrame(rows), "digits": pd.DataFrame(_digit_rows(curves, seed))}
    return Reproduction(
        item="unified-section-6-2-2",
        title="Compatible goals: gradient and gradient x input of linear models",
        tables=tables,
        figures={"curves": _figure(curves)},
        findings=findings_of(tables),
        shown=SHOWN,
    )


def _exhausted_rows(kind: str, pixels: int) -> list[dict[str, Any]]:
    """Every model with every input."""
    every = list(product(product(WEIGHTS, repeat=pixels), product(INPUTS[kind], repeat=pixels)))
    weights = np.array([each[0] for each in every], dtype=np.int64)
    inputs = np.array([each[1] for each in every], dtype=np.int64)
    ones = np.ones_like(inputs)
    goals = {
        REMOVAL: scores_of_sets(weights[:, None], inputs)[..., 0],
        # What is not yet changed: the least of it left at every step is the most of it changed.
        CHANGE: scores_of_sets(weights[:, None], ones)[..., 0],
    }
    maps = {PRODUCT: weights * inputs, GRADIENT: weights}
    rows = []
    for (goal, outputs), (name, values) in product(goals.items(), maps.items()):
        own = along(outputs, descending_order(values)).sum(1)
        best, worst = best_total(outputs), worst_total(outputs)
        matters = worst > best
        loss = (own - best)[matters] / (worst - best)[matters]
        rows.append(
            {
                "inputs": kind,
                "goal": goal,
                "map": name,
                "best": float((own == best).mean()),
                "loss": float(loss.mean()),
                "largest_loss": float(loss.max()),
                "cases": len(own),
            }
        )
    return rows


def _digit_curves(number: int, seed: int) -> DigitCurves:
    """Outputs of the true class along each map's order, by goal."""
    training, test = digits_split(number, seed)
    fitted = sparse_classifier(
        training.ink, training.labels, unit=DARKEST, inverse_penalty=INVERSE_PENALTY, seed=seed
    )
    linear = nn.Linear(SIDE**2, CLASSES, bias=False, dtype=torch.float64)
    scale = fitted.weights.abs().max()
    linear.weight = nn.Parameter(fitted.weights / scale, requires_grad=False)
    model = nn.Sequential(nn.Flatten(), linear).eval()
    images = test.ink.double() / DARKEST
    gradient = linear.weight[test.labels].view(images.shape)
    generator = torch.Generator().manual_seed(seed)
    maps = {
        PRODUCT: gradient * images,
        GRADIENT: gradient,
        RANDOM: torch.rand(images.shape, generator=generator),
    }
    curves = {}
    for goal, (replaced, adds) in {
        REMOVAL: (torch.zeros_like(images), gradient * images),
        CHANGE: (images + STEP, gradient),
    }.items():
        curves[goal] = {
            name: deletion_curve(model, images, test.labels, values, replacement=replaced)
            for name, values in {**maps, BEST: adds, WORST: -adds}.items()
        }
    return curves


def _digit_rows(curves: DigitCurves, seed: int) -> list[dict[str, Any]]:
    rows = []
    for goal, of_goal in curves.items():
        best, worst = of_goal[BEST].sum(1), of_goal[WORST].sum(1)
        for name in (PRODUCT, GRADIENT, RANDOM):
            loss = ((of_goal[name].sum(1) - best) / (worst - best)).numpy()
            ends = mean_interval(loss, seed)
            low, high = ends if ends is not None else (np.nan, np.nan)
            rows.append(
                {
                    "goal": goal,
                    "map": name,
                    "loss": float(loss.mean()),
                    "low": low,
                    "high": high,
                    "images": len(loss),
                }
            )
    return rows


def _figure(curves: DigitCurves) -> "Figure":
    """Means over images of where outputs lie between the least and the largest that any order has."""
    labels = {
        REMOVAL: ("fraction of pixels set to 0", "lower is better"),
        CHANGE: ("fraction of pixels one shade brighter", "higher is better"),
    }
    x = curve_fractions(SIDE**2).numpy()[::EVERY]
    panels = []
    for goal, of_goal in curves.items():
        ends = torch.cat([of_goal[BEST], of_goal[WORST]], 1)
        low, high = ends.amin(1, keepdim=True), ends.amax(1, keepdim=True)
        xlabel, better = labels[goal]
        lines = {
            name: MetricLine(x, ((curve - low) / (high - low)).mean(0).numpy()[::EVERY])
            for name, curve in of_goal.items()
            if name != BEST
        }
        ylabel = f"output of the class, from the least\nto the largest possible ({better})"
        panels.append(MetricPanel(f"Goal: {goal}", xlabel, ylabel, lines))
    images = len(curves[REMOVAL][BEST])
    title = f"Sparse linear model of digits: means over {images} images along orders of pixels"
    return metric_panels_figure([panels], title)
