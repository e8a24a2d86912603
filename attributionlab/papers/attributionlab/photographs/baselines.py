"""Panel (d) of AttributionLab's figure 7: IG and Occlusion of photographs by baseline."""

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from attributionlab.metrics import magnitudes, relevance_mass_accuracy
from attributionlab.papers.attributionlab.photographs.panels import Panel, panel_figure
from attributionlab.papers.attributionlab.photographs.pictured import Pictured
from attributionlab.papers.subjects.subjects import Subject, maps_of
from attributionlab.ranking import spearman
from attributionlab.stats.intervals import mean_interval

if TYPE_CHECKING:
    import pandas as pd

METHODS = {"IG": "integrated-gradients", "Occlusion": "occlusion"}
BLACK = "black"
WINDOWS = 14
"""Windows of Occlusion that fit into a side without overlap; neighbors overlap by half."""
SAME = 0.9
"""The mean rank correlation from which maps are said to be alike."""
SHOWN = (
    "means over images and networks; with_black: rank correlation of the map with the one from black; "
    "on_object: share of the positive attribution"
)


def baselines_panel(pictured: Sequence[Pictured], seed: int) -> Panel:
    """Maps of integrated gradients and Occlusion from black, white and the mean color.

    Parameters
    ----------
    pictured : sequence of Pictured
        Networks and images; the first one's are drawn.
    seed : int
        Of intervals.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    shown: dict[str, dict[str, Tensor]] = {}
    for each in pictured:
        maps = {key: _maps(each.subject, *key, seed) for key in product(METHODS, _colors(each))}
        shown[each.subject.name] = {f"{name}, {color}": of for (name, color), of in maps.items()}
        rows += _rows(each, maps)
    table = pd.DataFrame(rows)
    means = table.drop(columns=["network", "image"]).groupby(["method", "baseline"], sort=False)
    figure = panel_figure(
        pictured[0],
        shown[pictured[0].subject.name],
        "IG and Occlusion on pictures by baseline, as in panel (d)",
    )
    tables = {"photographs": means.mean().reset_index(), "photographs_images": table}
    return Panel(tables, {"photographs": figure}, _findings(table, seed), {"photographs": SHOWN})


def _colors(pictured: Pictured) -> dict[str, Any]:
    subject = pictured.subject
    return {BLACK: 0.0, "white": subject.highest, "mean color": subject.empty}


def _maps(subject: Subject, name: str, color: str, seed: int) -> Tensor:
    settings: dict[str, Any] = {"baselines": _colors(Pictured(subject, None))[color]}
    if name == "Occlusion":
        window = max(2, subject.side // WINDOWS)
        settings |= {"window": window, "stride": window // 2}
    return maps_of(subject, METHODS[name], seed, settings)


def _rows(pictured: Pictured, maps: dict[tuple[str, str], Tensor]) -> list[dict[str, Any]]:
    subject, objects = pictured
    rows = []
    for (name, color), of_color in maps.items():
        for index, one in enumerate(of_color):
            values = one.flatten().numpy()
            row = {"network": subject.name, "image": index, "method": name, "baseline": color}
            row["with_black"] = spearman(values, maps[name, BLACK][index].flatten().numpy())
            if objects is not None:
                positive = magnitudes(one[None], "positive")
                share = relevance_mass_accuracy(positive, objects[index : index + 1])
                row |= {
                    "on_object": share.item(),
                    "object_area": objects[index].double().mean().item(),
                }
            rows.append(row)
    return rows


def _findings(table: "pd.DataFrame", seed: int) -> list[str]:
    sentences = []
    for name, of_method in table.groupby("method", sort=False):
        others = of_method[of_method.baseline != BLACK]
        parts = []
        for color, of_color in others.groupby("baseline", sort=False):
            if of_color.with_black.isna().all():
                parts.append(f"undefined from {color}")
                continue
            interval = mean_interval(of_color.with_black.to_numpy(), seed)
            ends = f" ({interval.low:.2f} to {interval.high:.2f})" if interval else ""
            parts.append(f"{of_color.with_black.mean():.2f}{ends} from {color}")
        sentence = (
            f"{name} on pictures: rank correlation with the map from black {', '.join(parts)}"
        )
        if "on_object" in of_method:
            means = of_method.groupby("baseline", sort=False).on_object.mean().dropna()
            listed = ", ".join(f"{color} {share:.2f}" for color, share in means.items()) or "none"
            sentence += (
                f"; positive attribution on the object, {of_method.object_area.mean():.2f} of the "
                f"pixels: {listed}"
            )
        least = others.groupby("baseline").with_black.mean().min()
        sentence += (
            ". Whether the baseline matters is undecided: in every pair a map is constant"
            if np.isnan(least)
            else ". As in the paper, other pixels are highlighted from another baseline"
            if least < SAME
            else ". Unlike in the paper, the baseline hardly matters"
        )
        sentences.append(f"{sentence}.")
    return sentences
