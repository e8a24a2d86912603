"""Section 3.3 of Li et al. (2024): two maps of one order, and what metrics can tell of them."""

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from attributionlab.imputation import constant
from attributionlab.metrics import (
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
from attributionlab.metrics.completeness_curves import THRESHOLDS
from attributionlab.papers.reproduction import Reproduction
from attributionlab.papers.soco.scaling import scaled
from attributionlab.report.metric_panels import MetricLine, MetricPanel, metric_panels_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

MAPS = {"A": (1.0, 2.0, 3.0), "B": (1.0, 1.1, 100.0)}
WEIGHTS = (1.0, 0.0, 2.0)
"""Of the three features: what each adds to the label's output. The second is not read."""
INPUT = (1.0, 0.5, 1.0)
LEVEL = 0.95
"""Reached by the first and the third feature together, not by the third alone."""
FRACTIONS = (0.0, 1 / 3, 2 / 3, 1.0)
RATIOS = (2 / 3, 1 / 3, 0.0)
ZERO = partial(constant, value=0.0)
BY_ORDER = ("insertion", "deletion", "pixel flipping", "ROAD, most first", "ROAD, least first")


def soco_order_example(
    *, n: int | None, quick: bool, seed: int = 0, show_progress: bool = False
) -> Reproduction:
    """The maps (1, 2, 3) and (1, 1.1, 100) of three features, under every metric.

    The paper names no model. Here the label's output is x1 + 2 x3, the other class's is 0, and x = (1,
    0.5, 1); removed features become 0, or in ROAD means of their neighbors and noise.

    Parameters
    ----------
    n : int, optional
        Not used: there is one input.
    quick : bool
        Not used.
    seed : int
        Of ROAD's noise.
    show_progress : bool
        Not used.

    Returns
    -------
    Reproduction
        Tables "values" (a row for each metric and point of its curve: both maps' values, and whether
        they are equal) and "maps" (true ratios).
    """
    import pandas as pd

    values = pd.DataFrame(_rows(seed))
    values["equal"] = values.A == values.B
    return Reproduction(
        item="soco-section-3-3",
        title="Two maps of one order: what metrics of order and of values see",
        tables={"maps": pd.DataFrame(_true_rows()), "values": values},
        figures={"curves": _figure(values)},
        findings=_findings(values),
        shown={
            "maps": "Definition 4.8 of all attributed features, Definition 4.9 of those above half of "
            "the map's largest value",
            "values": "both maps under every metric; at: fraction removed, level, or threshold",
        },
    )


def example_model() -> nn.Module:
    """Images (B, 1, 1, 3) to x1 + 2 x3 for class 0, and 0 for class 1."""
    linear = nn.Linear(3, 2, bias=False)
    linear.weight = nn.Parameter(torch.tensor([WEIGHTS, (0.0, 0.0, 0.0)]), requires_grad=False)
    return nn.Sequential(nn.Flatten(), linear).eval()


def example_maps() -> dict[str, Tensor]:
    """Both maps, each divided by its largest value; (1, 1, 1, 3)."""
    return {
        name: scaled(torch.tensor(values, dtype=torch.float64)[None, None, None])
        for name, values in MAPS.items()
    }


def _rows(seed: int) -> list[dict[str, Any]]:
    found = {name: _curves(maps, seed) for name, maps in example_maps().items()}
    return [
        {"metric": metric, "at": at, **{name: found[name][metric][1][i] for name in MAPS}}
        for metric, (points, _) in found["A"].items()
        for i, at in enumerate(points)
    ]


def _curves(maps: Tensor, seed: int) -> dict[str, tuple[tuple[float, ...], list[float]]]:
    """By metric, where its curve is known and its values there."""
    asked = (example_model(), torch.tensor([[[INPUT]]]), torch.tensor([0]), maps)
    setup: dict[str, Any] = {"indicator": label_probability, "nothing_kept": 0.0, "seed": seed}
    exact = setup | {"imputation": ZERO}
    sweep = soundness_sweep(*asked, ratios=RATIOS, **exact)
    complete = completeness_curve(*asked, thresholds=THRESHOLDS, **exact)
    curves: dict[str, tuple[tuple[float, ...], Tensor]] = {
        "insertion": (FRACTIONS, insertion_curve(*asked, replacement=0.0)[0]),
        "deletion": (FRACTIONS, deletion_curve(*asked, replacement=0.0)[0]),
        "pixel flipping": ((1.0,), pixel_flipping(*asked, replacement=0.0)),
        "ROAD, most first": (FRACTIONS, removal_curve(*asked, fractions=FRACTIONS, **setup)[0]),
        "ROAD, least first": (
            FRACTIONS,
            removal_curve(*asked, fractions=FRACTIONS, order="lerf", **setup)[0],
        ),
        "soundness": ((LEVEL,), sweep.at(LEVEL).per_sample),
        "completeness": (THRESHOLDS, complete.differences),
    }
    return {name: (points, values.tolist()) for name, (points, values) in curves.items()}


def _true_rows() -> list[dict[str, Any]]:
    information = torch.tensor(WEIGHTS)[None, None, None]
    return [
        {
            "map": name,
            "values": ", ".join(f"{value:g}" for value in MAPS[name]),
            "true_soundness": float(true_soundness(maps, information)),
            "true_completeness": float(true_completeness(maps, information, threshold=0.5)),
        }
        for name, maps in example_maps().items()
    ]


def _findings(values: "pd.DataFrame") -> list[str]:
    by_order = values[values.metric.isin(BY_ORDER)]
    differing = sorted(set(by_order[~by_order.equal].metric))
    said = (
        f"{', '.join(differing)} tell the maps apart"
        if differing
        else f"all {len(by_order)} values are equal, bit by bit, as the paper says"
    )
    [sound] = values[values.metric == "soundness"].itertuples()
    complete = values[(values.metric == "completeness") & ~values.equal]
    where = ", ".join(f"{row['at']:g}" for _, row in complete.iterrows())
    return [
        f"Metrics of order ({', '.join(BY_ORDER)}): {said}.",
        f"Soundness at level {sound.at:g}, a probability of the label: {sound.A:.3f} for A and "
        f"{sound.B:.3f} for B; it is the share of attribution that is not on the second "
        "feature, which the model does not read.",
        f"Completeness differs at thresholds {where or 'none'}: B has one feature above them, A all "
        "three. That B leaves out the first feature, which is used, lowers its completeness; its "
        "soundness says nothing of that.",
        "Which map is nearer to the truth (1, 0, 2) no metric of order can say, and of the two that "
        f"can, soundness prefers {_better(sound.A, sound.B)} and completeness "
        f"{_better(complete.A.mean(), complete.B.mean())}, at the thresholds where it differs.",
    ]


def _better(first: float, second: float) -> str:
    return "A" if first > second else "B"


def _figure(values: "pd.DataFrame") -> "Figure":
    panels = []
    for metric, xlabel, ylabel in (
        ("deletion", "fraction of features removed", "output of the label (lower is better)"),
        ("ROAD, most first", "fraction of features removed", "probability (lower is better)"),
        ("completeness", "attribution threshold", "probability lost (higher is better)"),
    ):
        here = values[values.metric == metric]
        at = here["at"].to_numpy()
        lines = {
            f"{name}: ({', '.join(f'{value:g}' for value in MAPS[name])})": MetricLine(
                at, here[name].to_numpy()
            )
            for name in MAPS
        }
        panels.append(MetricPanel(metric[0].upper() + metric[1:], xlabel, ylabel, lines))
    [sound] = values[values.metric == "soundness"].itertuples()
    title = (
        "Two maps of one order: metrics of order cannot tell them apart\n"
        f"soundness: A {sound.A:.3f}, B {sound.B:.3f} (higher is better)"
    )
    return metric_panels_figure([panels], title)
