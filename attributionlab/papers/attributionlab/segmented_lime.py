"""LIME of pictures by their superpixels (figures 6, 25, 26): how noisy its maps are, where they lie.

The superpixels that group what belongs together come first: SAM's where there are weights for it, and
the regions that a picture was drawn of. A grid of about as many squares is the control: what it shares
with them is the number alone.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple, Unpack

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Float64, Int64
from matplotlib.figure import Figure
from scipy import ndimage
from torch import Tensor

from attributionlab.base.segmentation import grid, segment
from attributionlab.metrics import magnitudes, relevance_mass_accuracy
from attributionlab.papers.answers import decided, mean_ends
from attributionlab.papers.attributionlab.comparison_plan import (
    check_weights,
    compared,
    lime_plan,
    marked,
)
from attributionlab.papers.attributionlab.photographs import (
    NETWORK,
    Pictured,
    image_rows,
    outlined,
    pictured_by,
    with_panel,
)
from attributionlab.papers.catalog import Found, Run, Tables, claim
from attributionlab.papers.subjects.drawn_pictures import NOISE
from attributionlab.papers.subjects.subjects import OwnNetwork, maps_of
from attributionlab.show import map_grid

SAMPLES, QUICK_SAMPLES = 1000, 300
DRAWN_IMAGES = 2
MEASURES = ("total_variation", "scattered", "on_object")
SAM = "SAM"
DRAWN_REGIONS = "drawn regions"
CONTROL = "grid of as many"
GIVEN = {"quickshift": {}, "felzenszwalb": {"scale": 100, "sigma": 0.5, "min_size": 50}}
"""LIME's public code, and scikit-image's gallery; the paper states none."""
DRAWN = {"quickshift": {"kernel_size": 2, "max_dist": 6, "ratio": 0.5}, "felzenszwalb": {}}
"""For pictures of 32 x 32 pixels, on which those leave one or two superpixels."""
DEVIATIONS = 5
"""By how many standard deviations of the noise clutter differs from the background."""
INSTEAD = {"figure-25": "convolutions", "figure-26": "attention"}
"""What is trained on drawn pictures without a network and photographs, for VGG16 and ViT-B-16."""


class SegmentedMaps(NamedTuple):
    """LIME's maps of one network's images by name of the superpixels, and these."""

    pictured: Pictured
    maps: dict[str, Float[Tensor, "batch 1 height width"]]
    superpixels: dict[str, Int64[Tensor, "batch height width"]]


def figure_6(
    run: Run,
    *,
    pictures: int | None = None,
    sam_weights: str | None = None,
    **own: Unpack[OwnNetwork],
) -> Found:
    """LIME under several segmentations, in an environment and on pictures (panel b).

    SAM is left out without `sam_weights`, a file with the weights of a Segment Anything model.
    """
    check_weights(sam_weights)
    subjects = pictured_by(NETWORK, own, pictures, run)
    sam = "lime-true-baseline (segmentation=sam"
    labels = {} if sam_weights is None else {f"{sam})": f"{sam}, weights={sam_weights})"}
    found = compared(run, lime_plan(sam_weights), labels=labels)
    tables, figure = _lime(run, subjects, sam_weights)
    return with_panel(found, tables, figure, subjects)


def lime_on_photographs(
    run: Run, *, sam_weights: str | None = None, **own: Unpack[OwnNetwork]
) -> Found:
    """LIME of pictures by superpixels (figures 25 and 26); settings as for `figure_6`."""
    check_weights(sam_weights)
    subjects = pictured_by(INSTEAD[run.item], own, run.n, run)
    tables, figure = _lime(run, subjects, sam_weights)
    notes = [note for each in subjects for note in each.subject.notes]
    return Found(tables, {"maps": figure}, notes)


def _lime(
    run: Run, subjects: list[Pictured], sam_weights: str | None
) -> tuple[dict[str, pd.DataFrame], Figure]:
    work = run.track(subjects)
    results = [segmented_maps(each, sam_weights, run.quick, run.seed) for each in work]
    return lime_tables(results, run.seed), _lime_figure(results[0])


def segmented_maps(
    pictured: Pictured, sam_weights: str | None, quick: bool, seed: int
) -> SegmentedMaps:
    """LIME of the label's logit for each image, with the mean color for what is left out."""
    superpixels = superpixels_of(pictured, sam_weights)
    samples = QUICK_SAMPLES if quick else SAMPLES
    common = {"baselines": pictured.subject.empty, "n_samples": samples}
    maps = {
        name: maps_of(pictured.subject, "lime", seed, {"segmentation": labels, **common})
        for name, labels in superpixels.items()
    }
    return SegmentedMaps(pictured, maps, superpixels)


def superpixels_of(
    pictured: Pictured, sam_weights: str | None
) -> dict[str, Int64[Tensor, "batch height width"]]:
    """Superpixels by their name; those that group what belongs together come first."""
    images, highest = pictured.subject.images, pictured.subject.highest
    found: dict[str, Tensor] = {}
    if pictured.objects is not None:
        found[DRAWN_REGIONS] = drawn_regions(images, pictured.objects)
    if sam_weights is not None:
        found[SAM] = segment(images, "sam", highest=highest, settings={"weights": sam_weights})
    settings = GIVEN if pictured.objects is None else DRAWN
    plain = {
        name: segment(images, name, highest=highest, settings=own) for name, own in settings.items()
    }
    for labels in list(found.values())[:1]:
        plain[CONTROL] = torch.stack(
            [
                grid(image, highest, cells=round((int(each.max()) + 1) ** 0.5))
                for image, each in zip(images, labels, strict=True)
            ]
        )
    return found | plain


def drawn_regions(
    images: Float[Tensor, "batch channels height width"],
    objects: Bool[Tensor, "batch 1 height width"],
) -> Int64[Tensor, "batch height width"]:
    """Background, object and each connected patch of clutter of drawn pictures.

    Clutter is what differs from the background's color, the median outside of the object, by more than
    five standard deviations of the noise in a channel.
    """
    maps = []
    for image, inside in zip(images, objects[:, 0], strict=True):
        background = image[:, ~inside].median(dim=1).values[:, None, None]
        clutter = ((image - background).abs().amax(0) > DEVIATIONS * NOISE) & ~inside
        patches, _ = ndimage.label(clutter.numpy())
        labels = torch.from_numpy(patches).long()
        maps.append(torch.where(inside, 1, torch.where(clutter, labels + 1, 0)))
    return torch.stack(maps)


def total_variation(maps: Float[Tensor, "batch 1 height width"]) -> Float64[Tensor, " batch"]:
    r"""Mean difference of neighboring pixels, in units of the map's largest value (Rudin et al., 1992).

    .. math:: \frac{1}{|N| \max_j |a_j|} \sum_{\{j, k\} \in N} |a_j - a_k|

    over all pairs N of pixels that share a side; from 0 to 2. A map of zeros has 0. Of a map that
    is constant on segments it is the length of their borders, weighted by the steps there: few
    segments have little of it, whatever they show.
    """
    values = maps[:, 0].double()
    steps = [values.diff(dim=1).abs().flatten(1), values.diff(dim=2).abs().flatten(1)]
    highest = values.abs().amax((1, 2))
    return torch.cat(steps, 1).mean(1) / torch.where(highest > 0, highest, 1)


def scattered_share(maps: Float[Tensor, "batch 1 height width"]) -> Float64[Tensor, " batch"]:
    """The share of the positive attribution outside of the map's main region.

    Regions are connected by sides; their pixels have at least half of the map's largest value, and
    the main one has the largest sum. 0 where all positive attribution is in one region; NaN for a
    map without positive values.
    """
    shares = []
    for values in maps[:, 0].double().clamp(min=0).numpy():
        highest = values.max()
        if highest <= 0:
            shares.append(np.nan)
            continue
        regions, count = ndimage.label(values >= highest / 2)
        main = np.max(ndimage.sum_labels(values, regions, np.arange(1, count + 1)))
        shares.append(1 - main / values.sum())
    return torch.tensor(shares, dtype=torch.float64)


def lime_tables(results: Sequence[SegmentedMaps], seed: int) -> dict[str, pd.DataFrame]:
    """Tables "lime" (means), "lime_differences" (of the first from the others) and "lime_images"."""
    images = pd.DataFrame([row for result in results for row in _rows(result)])
    measured = [name for name in MEASURES if name in images]
    columns = ["superpixels", *measured, *(["object_area"] if "object_area" in images else [])]
    by_name = images.groupby("superpixels_by", sort=False)
    means = by_name[columns].mean().assign(constant=by_name.constant.sum()).reset_index()
    tables = {"lime": means}
    first, *others = means.superpixels_by
    if first in (DRAWN_REGIONS, SAM):
        rows = [
            _difference(images, measure, first, other, seed)
            for measure, other in product(measured, others)
        ]
        columns = ["measure", "first", "against", "mean", "low", "high", "same_sign"]
        tables["lime_differences"] = pd.DataFrame(rows, columns=columns)
    return tables | {"lime_images": images}


def _rows(result: SegmentedMaps) -> Iterator[dict[str, Any]]:
    objects = result.pictured.objects
    for name, maps in result.maps.items():
        constant = maps.flatten(1).amax(1) == maps.flatten(1).amin(1)
        noise = {"total_variation": total_variation(maps), "scattered": scattered_share(maps)}
        if objects is not None:
            positive = magnitudes(maps, "positive")
            noise["on_object"] = relevance_mass_accuracy(positive, objects)
        measures = {
            "superpixels": result.superpixels[name].flatten(1).amax(1) + 1,
            "constant": constant,
            # Without noise, because it says nothing: that is no merit.
            **{key: torch.where(constant, torch.nan, values) for key, values in noise.items()},
        }
        yield from image_rows(result.pictured, {"superpixels_by": name}, measures)


def _difference(
    images: pd.DataFrame, measure: str, first: str, second: str, seed: int
) -> tuple[Any, ...]:
    table = images.pivot(index=["network", "image"], columns="superpixels_by", values=measure)
    differences = table[first] - table[second]
    networks, mean = differences.groupby("network").mean(), differences.mean()
    alike = f"{int((np.sign(networks) == np.sign(mean)).sum())} of {len(networks)}"
    return (measure, first, second, mean, *mean_ends(differences, seed), alike)


def _lime_figure(result: SegmentedMaps) -> Figure:
    """Draw superpixels and maps of the first images."""
    subject, _ = result.pictured
    shown = range(min(DRAWN_IMAGES, len(subject.images)))
    rows = {"image": [outlined(result.pictured, index) for index in shown]}
    notes = {}
    for name, labels in result.superpixels.items():
        rows[name] = [
            marked((subject.images[index] / subject.highest).numpy(), labels[index].numpy())
            for index in shown
        ]
        maps = result.maps[name]
        rows[f"LIME, {name}"] = [maps[index, 0].numpy() for index in shown]
        noise = total_variation(maps)
        notes[f"LIME, {name}"] = [f"variation {float(noise[index]):.3f}" for index in shown]
    side = subject.side
    title = (
        f"LIME by superpixels: {subject.name}, {side} x {side} pixels; less variation, less noise"
    )
    return map_grid(rows, notes=notes, title=title)


def _less_noise(tables: Tables, others: Sequence[str]) -> bool | None:
    """Whether the first superpixels have less noise than others: None where an interval holds 0."""
    if "lime_differences" not in tables:
        return None
    table = tables["lime_differences"]
    noise = table[(table.measure == "total_variation") & table.against.isin(others)]
    return decided((noise.high < 0).all(), (noise.low >= 0).any())


@claim(*("figure-6", "figure-25", "figure-26"), place="Figures 25 and 26")
def regions_have_less_noise(tables: Tables) -> bool | None:
    """Superpixels of SAM (or of drawn regions) make less noise than Quickshift's and
    Felzenszwalb's.
    """
    return _less_noise(tables, [*GIVEN])


@claim(*("figure-6", "figure-25", "figure-26"))
def a_grid_has_no_more_noise(tables: Tables) -> bool | None:
    """That is no merit of the regions: a grid of as many squares has no more noise."""
    less = _less_noise(tables, [CONTROL])
    return None if less is None else not less
