"""Panels on photographs: a user's images and network, or trained networks with drawn pictures.

Figures 5 (b), signs of DeepSHAP, and 7 (d), baselines of IG and Occlusion; LIME is in segmented_lime.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Unpack

import pandas as pd
import torch
from jaxtyping import Bool, Float, Float64
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor, nn

from attributionlab.base import with_intervals
from attributionlab.metrics import magnitudes, relevance_mass_accuracy
from attributionlab.metrics.ranking import spearman
from attributionlab.papers.attributionlab.comparison_plan import comparison, marked
from attributionlab.papers.catalog import Found, Run, Tables, claim
from attributionlab.papers.subjects.drawn_pictures import CLASSES, SIDE, pictures
from attributionlab.papers.subjects.networks import Design, network_of
from attributionlab.papers.subjects.small_network import accuracy_of, fit_network, small_network
from attributionlab.papers.subjects.subjects import (
    OwnNetwork,
    Subject,
    chosen_subject,
    maps_of,
    of_images,
)
from attributionlab.show import map_grid

NETWORK = "convolutions"
"""In place of VGG16, where no network is given."""
CONVOLUTIONS_EPOCHS, ATTENTION_EPOCHS = 5, 10
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
MINORITY = 0.1
"""The share of the rarer sign from which a map is said to have both."""


class Pictured(NamedTuple):
    """A subject, and where the objects are that tell the classes, if that is known.

    A drawn picture's background tells its class, too.
    """

    subject: Subject
    objects: Bool[Tensor, "batch 1 height width"] | None


def pictured_by(network: str, own: OwnNetwork, n: int | None, run: Run) -> list[Pictured]:
    """Return a user's network and photographs; without them networks trained on drawn pictures.

    Of photographs without class folders the class that the network predicts is explained.
    n counts pictures for each network, 12 or 6 in a quick run by default; of a user's photographs it
    counts those of each class folder (of a folder without, all), 1 by default.
    """
    given = chosen_subject(n or 1, run.seed, predicted=True, **own)
    if given is not None:  # no method here takes a layer, so the note on layers is left out
        return [Pictured(replace(given, notes=given.notes[:1]), None)]
    number = n or (QUICK_IMAGES if run.quick else IMAGES)
    training = QUICK_TRAINING if run.quick else TRAINING
    seeds = range(run.seed, run.seed + (QUICK_SEEDS if run.quick else SEEDS))
    return [_drawn(network, number, training, each) for each in seeds]


def _drawn(network: str, n: int, training: int, seed: int) -> Pictured:
    """Return a trained network, and n drawn pictures that it was not trained on."""
    learned, explained = pictures(training, seed), pictures(n, seed + 1)
    tested = pictures(TESTED, seed + 2)
    model: nn.Module
    if network == NETWORK:  # stands for VGG16
        model = small_network(3, CLASSES, SIDE, seed)
    else:  # for ViT-B-16
        model = network_of(Design("attention"), 3, CLASSES, SIDE, seed)
    epochs = CONVOLUTIONS_EPOCHS if network == NETWORK else ATTENTION_EPOCHS
    fit_network(model, learned.images, learned.labels, seed=seed, epochs=epochs)
    right = accuracy_of(model, tested.images, tested.labels)
    name = f"{network}, seed {seed}"
    notes = (f"{name}: right on {right:.0%} of {TESTED} other drawn pictures.",)
    empty = learned.images.mean((0, 2, 3))[:, None, None]
    shown = (explained.images, explained.labels, empty)
    return Pictured(of_images(name, model, *shown, notes=notes), explained.objects)


def figure_5(run: Run, *, pictures: int | None = None, **own: Unpack[OwnNetwork]) -> Found:
    """DeepSHAP on multi-color-sum, and on pictures from the mean color, IG beside it (panel b)."""
    subjects = pictured_by(NETWORK, own, pictures, run)
    tables, maps = signs_tables(subjects, run.seed)
    figure = panel_figure(subjects[0], maps, "DeepSHAP on pictures, as in panel (b)")
    return with_panel(comparison(run), tables, figure, subjects)


def figure_7(run: Run, *, pictures: int | None = None, **own: Unpack[OwnNetwork]) -> Found:
    """IG and Occlusion by baseline, in environments and on pictures (panel d)."""
    subjects = pictured_by(NETWORK, own, pictures, run)
    tables, maps = baselines_tables(subjects, run.seed)
    title = "IG and Occlusion on pictures by baseline, as in panel (d)"
    return with_panel(comparison(run), tables, panel_figure(subjects[0], maps, title), subjects)


def with_panel(found: Found, tables: Tables, figure: Figure, subjects: list[Pictured]) -> Found:
    """Return what environments gave with what pictures gave behind it."""
    notes = [note for each in subjects for note in each.subject.notes]
    figures = {**found.figures, "photographs": figure}
    return Found({**found.tables, **tables}, figures, [*found.notes, *notes])


def sign_changes(
    maps: Float[Tensor, "batch 1 height width"], within: Bool[Tensor, "batch 1 height width"]
) -> Float64[Tensor, " batch"]:
    """The share of pairs of neighboring pixels, both `within`, whose attributions have opposite signs.

    A pair with a zero has no opposite signs; NaN without a pair.
    """
    signs, inside = maps[:, 0].sign(), within[:, 0]
    opposite, pairs = torch.zeros(len(maps)).double(), torch.zeros(len(maps)).double()
    for dim in (1, 2):
        side = signs.shape[dim]
        one, other = (signs.narrow(dim, start, side - 1) for start in (0, 1))
        both = inside.narrow(dim, 0, side - 1) & inside.narrow(dim, 1, side - 1)
        opposite += ((one * other < 0) & both).sum((1, 2))
        pairs += both.sum((1, 2))
    return opposite / pairs


def signs_tables(
    subjects: list[Pictured], seed: int
) -> tuple[dict[str, pd.DataFrame], dict[str, Tensor]]:
    """Both signs in maps of DeepSHAP and IG; and the first network's maps.

    "photographs" has means over images and networks, with the interval of the negative share, and how
    many of the maps with any attribution have at least 10 % of each sign.
    """
    rows: list[dict[str, Any]] = []
    shown: dict[str, Tensor] = {}
    for pictured in subjects:
        subject, objects = pictured
        for name, method in (("DeepSHAP", "deep-shap"), ("IG", "integrated-gradients")):
            maps = maps_of(subject, method, seed, {"baselines": subject.empty})
            shown.setdefault(name, maps)
            where = torch.ones_like(maps, dtype=torch.bool) if objects is None else objects
            size = maps.abs()
            negative = (magnitudes(maps, "negative") * where).sum((1, 2, 3))
            measures = {
                "negative": negative / (size * where).sum((1, 2, 3)),
                "sign_changes": sign_changes(maps, where),
            }
            if objects is not None:
                measures["on_object"] = relevance_mass_accuracy(size, objects)
            rows += image_rows(pictured, {"method": name}, measures)
    images = pd.DataFrame(rows)
    by_method = images.drop(columns=["network", "image"]).groupby("method", sort=False)
    negative = images.groupby("method", sort=False).negative
    means = by_method.mean().join(_interval_ends(images, ["method"], "negative", seed))
    means["both_signs"] = negative.agg(lambda each: each.between(MINORITY, 1 - MINORITY).sum())
    means["maps"] = negative.count()
    return {"photographs": means.reset_index(), "photographs_images": images}, shown


def baselines_tables(
    subjects: list[Pictured], seed: int
) -> tuple[dict[str, pd.DataFrame], dict[str, Tensor]]:
    """Maps of IG and Occlusion from black, white and the mean color; and the first network's maps.

    "photographs" has means over images and networks, with the interval of the correlation with black.
    """
    rows: list[dict[str, Any]] = []
    shown: dict[str, Tensor] = {}
    for pictured in subjects:
        subject, objects = pictured
        colors = {BLACK: 0.0, "white": subject.highest, "mean color": subject.empty}
        window = max(2, subject.side // WINDOWS)
        windows = {"window": window, "stride": window // 2}
        methods = {"IG": "integrated-gradients", "Occlusion": "occlusion"}
        for name, method in methods.items():
            more = windows if name == "Occlusion" else {}
            maps = {
                color: maps_of(subject, method, seed, {"baselines": baseline, **more})
                for color, baseline in colors.items()
            }
            black = maps[BLACK]
            for color, of_color in maps.items():
                shown.setdefault(f"{name}, {color}", of_color)
                pairs = zip(of_color.flatten(1).numpy(), black.flatten(1).numpy(), strict=True)
                alike = torch.tensor([spearman(*pair) for pair in pairs], dtype=torch.float64)
                measures = {"with_black": alike}
                if objects is not None:
                    positive = magnitudes(of_color, "positive")
                    measures["on_object"] = relevance_mass_accuracy(positive, objects)
                rows += image_rows(pictured, {"method": name, "baseline": color}, measures)
    images = pd.DataFrame(rows)
    keys = ["method", "baseline"]
    groups = images.drop(columns=["network", "image"]).groupby(keys, sort=False)
    means = groups.mean().join(_interval_ends(images, keys, "with_black", seed))
    return {"photographs": means.reset_index(), "photographs_images": images}, shown


def image_rows(
    pictured: Pictured, known: Mapping[str, str], measures: Mapping[str, Tensor]
) -> list[dict[str, Any]]:
    """A row of measures (B,) for each image, with the share of its object where that is known."""
    measures = dict(measures)
    if pictured.objects is not None:
        measures["object_area"] = pictured.objects.double().mean((1, 2, 3))
    return [
        {"network": pictured.subject.name, "image": index, **known}
        | {key: values[index].item() for key, values in measures.items()}
        for index in range(len(pictured.subject.images))
    ]


def _interval_ends(images: pd.DataFrame, keys: list[str], value: str, seed: int) -> pd.DataFrame:
    """95 % intervals of means over images."""
    return with_intervals(images, keys, value, seed).set_index(keys)[["low", "high"]]


def panel_figure(pictured: Pictured, maps: Mapping[str, Tensor], title: str) -> Figure:
    """Draw the first images, objects outlined, and their maps by name."""
    count = min(DRAWN_IMAGES, len(pictured.subject.images))
    rows = {"image": [outlined(pictured, index) for index in range(count)]}
    rows |= {
        name: [each[index, 0].numpy() for index in range(count)] for name, each in maps.items()
    }
    side = pictured.subject.side
    return map_grid(rows, title=f"{title}: {pictured.subject.name}, {side} x {side} pixels")


def outlined(pictured: Pictured, index: int) -> NDArray[Any]:
    """An image in [0, 1], (C, H, W), with the outline of its object where that is known."""
    image: NDArray[Any] = (pictured.subject.images[index] / pictured.subject.highest).numpy()
    if pictured.objects is None:
        return image
    return marked(image, pictured.objects[index, 0].numpy().astype(int))


@claim(
    "figure-5",
    place="Figure 5 (b)",
    reason="Small networks that see simple objects alone; what is true of these maps nobody knows.",
)
def deep_shap_has_both_signs_on_objects(tables: Tables) -> bool | None:
    """DeepSHAP gives both signs on the foreground of a photograph."""
    row = tables["photographs"].set_index("method").loc["DeepSHAP"]
    return None if not row.maps else bool(row.both_signs > row.maps / 2)


@claim("figure-7", place="Figure 7 (d)")
def other_baselines_highlight_other_pixels(tables: Tables) -> bool | None:
    """From another baseline IG and Occlusion highlight other pixels of a photograph."""
    table = tables["photographs"]
    others = table[table.baseline != BLACK].groupby("method").with_black.min()
    return None if others.isna().any() else bool((others < SAME).all())
