"""Figure 7: IG and Occlusion by baseline, in environments and on pictures (panel d).

Pictures are a user's photographs, or drawn ones that small networks are trained on.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Unpack

import pandas as pd
from matplotlib.figure import Figure
from torch import Tensor

from attributionlab.base import with_intervals
from attributionlab.metrics import magnitudes, relevance_mass_accuracy
from attributionlab.metrics.ranking import spearman
from attributionlab.papers.attributionlab.comparison_plan import comparison, marked
from attributionlab.papers.catalog import Found, Run, Tables
from attributionlab.papers.subjects import drawn_pictures
from attributionlab.papers.subjects.networks import accuracy_of
from attributionlab.papers.subjects.subjects import (
    OwnNetwork,
    Subject,
    chosen_subject,
    maps_of,
    trained_subject,
)
from attributionlab.show import map_grid

TRAINING, QUICK_TRAINING = 1000, 500
SEEDS, QUICK_SEEDS = 3, 1
"""Networks to train: what holds for one says little about training."""
IMAGES, QUICK_IMAGES = 12, 6
TESTED = 500
DRAWN_IMAGES = 3
WINDOWS = 14
"""Windows of Occlusion that fit into a side without overlap; neighbors overlap by half."""
BLACK = "black"
SAME = 0.9
"""The mean rank correlation from which maps are said to be alike."""


def figure_7(run: Run, *, pictures: int | None = None, **own: Unpack[OwnNetwork]) -> Found:
    """IG and Occlusion by baseline, in environments and on pictures (panel d).

    Without a user's network and photographs small networks stand for VGG16. `pictures` counts drawn
    ones of each network, 12 or 6 in a quick run by default, or photographs of each class folder, 1 by
    default. Without class folders it counts all, and what the network predicts is explained.
    """
    subjects = pictured(own, pictures, run)
    tables, maps = baselines_tables(subjects, run.seed)
    found = comparison(run)
    notes = [note for subject in subjects for note in subject.notes]
    figures = {**found.figures, "photographs": _maps_figure(subjects[0], maps)}
    return Found({**found.tables, **tables}, figures, [*found.notes, *notes])


def pictured(own: OwnNetwork, n: int | None, run: Run) -> list[Subject]:
    """A user's network and photographs, or networks trained on drawn pictures, with others."""
    given = chosen_subject(n or 1, run.seed, predicted=True, **own)
    if given is not None:  # no method here takes a layer, so the note on layers is left out
        return [replace(given, notes=given.notes[:1])]
    number = n or (QUICK_IMAGES if run.quick else IMAGES)
    found = []
    for seed in range(run.seed, run.seed + (QUICK_SEEDS if run.quick else SEEDS)):
        subject = trained_subject(number, QUICK_TRAINING if run.quick else TRAINING, seed)
        tested = drawn_pictures.pictures(TESTED, seed + 2)
        right = accuracy_of(subject.model, tested.images, tested.labels)
        name = f"convolutions, seed {seed}"
        note = f"{name}: right on {right:.0%} of {TESTED} other drawn pictures."
        found.append(replace(subject, name=name, notes=(note,)))
    return found


def baselines_tables(
    subjects: list[Subject], seed: int
) -> tuple[dict[str, pd.DataFrame], dict[str, Tensor]]:
    """Maps of IG and Occlusion from black, white and the mean color; and the first network's maps.

    "photographs" has means over images and networks, with the interval of the correlation with black.
    """
    parts: list[pd.DataFrame] = []
    shown: dict[str, Tensor] = {}
    for subject in subjects:
        colors = {BLACK: 0.0, "white": subject.highest, "mean color": subject.empty}
        window = max(2, subject.side // WINDOWS)
        windows = {"window": window, "stride": window // 2}
        for name, method in (("IG", "integrated-gradients"), ("Occlusion", "occlusion")):
            more = windows if name == "Occlusion" else {}
            maps = {
                color: maps_of(subject, method, seed, {"baselines": baseline, **more})
                for color, baseline in colors.items()
            }
            black = maps[BLACK].flatten(1).numpy()
            for color, of_color in maps.items():
                shown.setdefault(f"{name}, {color}", of_color)
                pairs = zip(of_color.flatten(1).numpy(), black, strict=True)
                columns: dict[str, Any] = {"network": subject.name, "image": range(len(black))}
                columns |= {"method": name, "baseline": color}
                columns["with_black"] = [spearman(*pair) for pair in pairs]
                if (objects := subject.objects) is not None:
                    positive = magnitudes(of_color, "positive")
                    columns["on_object"] = relevance_mass_accuracy(positive, objects).numpy()
                    columns["object_area"] = objects.double().mean((1, 2, 3)).numpy()
                parts.append(pd.DataFrame(columns))
    images = pd.concat(parts, ignore_index=True)
    keys = ["method", "baseline"]
    means = images.drop(columns=["network", "image"]).groupby(keys, sort=False).mean()
    ends = with_intervals(images, keys, "with_black", seed).set_index(keys)[["low", "high"]]
    return {"photographs": means.join(ends).reset_index(), "photographs_images": images}, shown


def _maps_figure(subject: Subject, maps: Mapping[str, Tensor]) -> Figure:
    """Draw the first images, objects outlined, and their maps by name."""
    shown = range(min(DRAWN_IMAGES, len(subject.images)))
    images = [(subject.images[index] / subject.highest).numpy() for index in shown]
    if (objects := subject.objects) is not None:
        outlines = (objects[index, 0].numpy().astype(int) for index in shown)
        images = [marked(*pair) for pair in zip(images, outlines, strict=True)]
    rows = {"image": images}
    rows |= {name: [each[index, 0].numpy() for index in shown] for name, each in maps.items()}
    title = "IG and Occlusion on pictures by baseline, as in panel (d)"
    return map_grid(rows, title=f"{title}: {subject.name}, {subject.side} x {subject.side} pixels")


def other_baselines_highlight_other_pixels(tables: Tables) -> bool | None:
    table = tables["photographs"]
    others = table[table.baseline != BLACK].groupby("method").with_black.min()
    return None if others.isna().any() else bool((others < SAME).all())
