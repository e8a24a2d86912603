"""Panel (b) of AttributionLab's figure 5: both signs in DeepSHAP's maps of photographs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attributionlab.metrics import magnitudes, relevance_mass_accuracy
from attributionlab.papers.attributionlab.photographs.map_noise import sign_changes
from attributionlab.papers.attributionlab.photographs.panels import Panel, panel_figure
from attributionlab.papers.attributionlab.photographs.pictured import Pictured
from attributionlab.papers.subjects.subjects import maps_of
from attributionlab.stats.intervals import mean_interval

if TYPE_CHECKING:
    import pandas as pd

METHODS = {"DeepSHAP": "deep-shap", "IG": "integrated-gradients"}
MINORITY = 0.1
"""The share of the rarer sign from which a map is said to have both."""
SHOWN = (
    "means over images and networks, of the object where it is known, else of the whole image; "
    "negative: share of the attribution's absolute value; sign_changes: share of neighboring pixels of "
    "opposite signs; on_object: share of the absolute value"
)


def signs_panel(pictured: Sequence[Pictured], seed: int) -> Panel:
    """DeepSHAP's maps from the mean color, those of integrated gradients beside them.

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
    for subject, objects in pictured:
        for name, method in METHODS.items():
            maps = maps_of(subject, method, seed, {"baselines": subject.empty})
            shown.setdefault(subject.name, {})[name] = maps
            where = torch.ones_like(maps, dtype=torch.bool) if objects is None else objects
            size = maps.abs()
            negative = (magnitudes(maps, "negative") * where).sum((1, 2, 3))
            measures = {
                "negative": negative / (size * where).sum((1, 2, 3)),
                "sign_changes": sign_changes(maps, where),
            }
            if objects is not None:
                measures["on_object"] = relevance_mass_accuracy(size, objects)
                measures["object_area"] = objects.double().mean((1, 2, 3))
            for index in range(len(maps)):
                values = {key: of_images[index].item() for key, of_images in measures.items()}
                rows.append({"network": subject.name, "image": index, "method": name, **values})
    table = pd.DataFrame(rows)
    means = table.drop(columns=["network", "image"]).groupby("method", sort=False).mean()
    figure = panel_figure(
        pictured[0], shown[pictured[0].subject.name], "DeepSHAP on pictures, as in panel (b)"
    )
    tables = {"photographs": means.reset_index(), "photographs_images": table}
    return Panel(tables, {"photographs": figure}, _findings(table, seed), {"photographs": SHOWN})


def _findings(table: "pd.DataFrame", seed: int) -> list[str]:
    sentences = []
    where = "on the object" if "on_object" in table else "in the image"
    for name, of_method in table.groupby("method", sort=False):
        known = of_method.negative.dropna()
        if known.empty:
            sentences.append(f"{name} on pictures: no map has any attribution {where}.")
            continue
        negative, both = known.mean(), known.between(MINORITY, 1 - MINORITY).sum()
        interval = mean_interval(of_method.negative.to_numpy(), seed)
        ends = f" ({interval.low:.2f} to {interval.high:.2f})" if interval else ""
        sentence = (
            f"{name} on pictures: {negative:.2f}{ends} of the attribution {where} is negative, and "
            f"{of_method.sign_changes.mean():.2f} of its neighboring pixels have opposite signs"
        )
        if "on_object" in of_method:
            sentence += (
                f"; the object, {of_method.object_area.mean():.2f} of the pixels, has "
                f"{of_method.on_object.mean():.2f} of the attribution"
            )
        if name == "DeepSHAP":
            sentence += (
                f". The paper sees both signs on the foreground: {both} of our {len(known)} maps have "
                f"at least {MINORITY:.0%} of each there"
            )
        sentences.append(f"{sentence}.")
    return [
        *sentences,
        "What is true of these maps nobody knows: a trained network may use neighboring pixels of one "
        "color with opposite signs.",
    ]
