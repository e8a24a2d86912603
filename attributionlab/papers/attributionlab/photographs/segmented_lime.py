"""LIME of photographs by their superpixels: how noisy its maps are, and what they lie on."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from attributionlab.metrics import magnitudes, relevance_mass_accuracy
from attributionlab.papers.attributionlab.photographs.map_noise import (
    scattered_share,
    total_variation,
)
from attributionlab.papers.attributionlab.photographs.pictured import Pictured
from attributionlab.papers.attributionlab.photographs.superpixels import (
    CONTROL,
    DRAWN_REGIONS,
    SAM,
    superpixels_of,
)
from attributionlab.papers.subjects.subjects import maps_of
from attributionlab.report.photographs import PhotographRow, photographs_figure
from attributionlab.stats.intervals import mean_interval

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

SAMPLES, QUICK_SAMPLES = 1000, 300
DRAWN_IMAGES = 2
MEASURES = {
    "total_variation": "total variation",
    "scattered": "share of the positive attribution outside of the main region",
    "on_object": "share of the positive attribution on the object",
}
UNDECIDED = "the interval holds 0, or one image has none"
SHOWN = {
    "lime": "means over images and networks; total_variation: mean difference of neighboring pixels, "
    "in units of the map's maximum, and scattered: share of the positive attribution outside of the "
    "main region (both: less is less noise); on_object: share of it on the object",
    "lime_differences": "first minus against, image by image; low, high: 95 % bootstrap interval of "
    "the mean; same_sign: networks whose own mean has that sign",
}


class SegmentedMaps(NamedTuple):
    """LIME's maps of one network's images by name of the superpixels, and these."""

    pictured: Pictured
    maps: dict[str, Float[Tensor, "batch 1 height width"]]
    superpixels: dict[str, Int64[Tensor, "batch height width"]]


def segmented_maps(
    pictured: Sequence[Pictured], sam_weights: str | None, quick: bool, seed: int
) -> Iterator[SegmentedMaps]:
    """LIME for each network and its images, with the mean color for what is left out.

    Parameters
    ----------
    pictured : sequence of Pictured
        Networks and images.
    sam_weights : str, optional
        A file with the weights of a Segment Anything model; without it SAM is left out.
    quick : bool
        300 samples for an image instead of 1,000.
    seed : int
        Of LIME's samples.
    """
    for each in pictured:
        superpixels = superpixels_of(each, sam_weights)
        common = {
            "baselines": each.subject.empty,
            "n_samples": QUICK_SAMPLES if quick else SAMPLES,
        }
        maps = {
            name: maps_of(each.subject, "lime", seed, {"segmentation": labels, **common})
            for name, labels in superpixels.items()
        }
        yield SegmentedMaps(each, maps, superpixels)


def lime_tables(results: Sequence[SegmentedMaps], seed: int) -> dict[str, "pd.DataFrame"]:
    """Tables "lime" (means), "lime_differences" (of the first from the others) and "lime_images"."""
    import pandas as pd

    images = pd.DataFrame([row for result in results for row in _rows(result)])
    measured = [name for name in MEASURES if name in images]
    columns = ["superpixels", *measured]
    means = images.groupby("superpixels_by", sort=False)[columns].mean().reset_index()
    tables = {"lime": means}
    first, *others = means.superpixels_by
    if first in (DRAWN_REGIONS, SAM):
        rows = [
            _difference(images, measure, first, other, seed)
            for measure in measured
            for other in others
        ]
        tables["lime_differences"] = pd.DataFrame(rows)
    return tables | {"lime_images": images}


def _rows(result: SegmentedMaps) -> Iterator[dict[str, Any]]:
    subject, objects = result.pictured
    for name, maps in result.maps.items():
        constant = maps.flatten(1).amax(1) == maps.flatten(1).amin(1)
        said = {"total_variation": total_variation(maps), "scattered": scattered_share(maps)}
        if objects is not None:
            positive = magnitudes(maps, "positive")
            said["on_object"] = relevance_mass_accuracy(positive, objects)
        measures = {
            "superpixels": result.superpixels[name].flatten(1).amax(1) + 1,
            "constant": constant,
            # Without noise, because it says nothing: that is no merit.
            **{key: torch.where(constant, torch.nan, values) for key, values in said.items()},
        }
        if objects is not None:
            measures["object_area"] = objects.double().mean((1, 2, 3))
        for index in range(len(maps)):
            values = {key: of_images[index].item() for key, of_images in measures.items()}
            yield {"network": subject.name, "image": index, "superpixels_by": name, **values}


def _difference(
    images: "pd.DataFrame", measure: str, first: str, against: str, seed: int
) -> dict[str, Any]:
    table = images.pivot(index=["network", "image"], columns="superpixels_by", values=measure)
    differences = table[first] - table[against]
    interval = mean_interval(differences.to_numpy(), seed)
    low, high = interval or (np.nan, np.nan)
    mean = differences.mean()
    networks = differences.groupby("network").mean()
    return {
        "measure": measure,
        "first": first,
        "against": against,
        "mean": mean,
        "low": low,
        "high": high,
        "same_sign": f"{int((np.sign(networks) == np.sign(mean)).sum())} of {len(networks)}",
    }


def lime_figure(result: SegmentedMaps, title: str) -> "Figure":
    """Superpixels and maps of the first images."""
    subject, objects = result.pictured
    rows = []
    for index in range(min(DRAWN_IMAGES, len(subject.images))):
        maps = {name: each[index, 0].numpy() for name, each in result.maps.items()}
        notes = {
            name: f"variation {float(total_variation(each[index : index + 1])):.3f}"
            for name, each in result.maps.items()
        }
        segments = {name: labels[index].numpy() for name, labels in result.superpixels.items()}
        region = None if objects is None else objects[index, 0].numpy()
        image = (subject.images[index] / subject.highest).numpy()
        rows.append(PhotographRow(image, maps, notes, segments, region))
    return photographs_figure(rows, title)


def lime_findings(tables: dict[str, "pd.DataFrame"], samples: int) -> list[str]:
    """What the paper says of SAM, and what was measured."""
    means, images = tables["lime"].set_index("superpixels_by"), tables["lime_images"]
    said = [
        f"LIME of the label's logit: {samples:,} samples for an image, the mean color in place of "
        "superpixels that are left out; the paper states neither. Noise is the total variation of a "
        "map, and the share of its positive attribution outside of the main region; the paper judges "
        "by eye."
    ]
    constant = images.groupby("superpixels_by", sort=False).constant.sum()
    if constant.any():
        counted = ", ".join(f"{name} {number}" for name, number in constant.items() if number)
        said.append(
            f"Constant maps, which say nothing and are left out (one superpixel has no other to differ "
            f"from; larger images have more): {counted}."
        )
    if "lime_differences" not in tables:
        listed = "; ".join(_means(name, row) for name, row in means.iterrows())
        return [*said, f"{listed}.", "SAM is not run: pass sam_weights, a file of its weights."]
    differences = tables["lime_differences"]
    first = differences["first"].iloc[0]
    if first == DRAWN_REGIONS:
        said.append(
            "The regions that a picture was drawn of (background, object, clutter) stand for what SAM "
            "is to find"
            + ("; SAM itself is beside them." if SAM in means.index else " (sam_weights adds SAM).")
        )
    for measure, meaning in MEASURES.items():
        of_measure = differences[differences.measure == measure].set_index("against")
        if of_measure.empty:
            continue
        listed = "; ".join(
            f"{name} {means.loc[name, measure]:.3f} ({_by(row)})"
            for name, row in of_measure.iterrows()
        )
        sentence = f"{meaning.capitalize()}: {first} {means.loc[first, measure]:.3f}; {listed}."
        if measure == "on_object":
            sentence += f" The object has {images.object_area.mean():.3f} of the pixels."
        said.append(sentence)
    return [*said, _judged(differences, first)]


def _means(name: Any, row: "pd.Series") -> str:
    variation, scattered = row.total_variation, row.scattered
    return f"{name}: total variation {variation:.3f}, outside of the main region {scattered:.3f}"


def _by(row: "pd.Series") -> str:
    if np.isnan(row.low):
        return f"by {row['mean']:+.3f}"
    return f"by {row['mean']:+.3f}, {row.low:+.3f} to {row.high:+.3f}"


def _judged(differences: "pd.DataFrame", first: str) -> str:
    """Whether there is less noise, and whether that is more than a matter of the number."""
    noise = differences[differences.measure == "total_variation"].set_index("against")
    papers: dict[str, list[str]] = {}
    for name, row in noise.drop([CONTROL, SAM], errors="ignore").iterrows():
        papers.setdefault(_outcome(row), []).append(str(name))
    said = {
        "less": "less than {}, as in the paper",
        "not less": "not less than {}, unlike the paper's SAM",
        "undecided": f"undecided against {{}} ({UNDECIDED})",
    }
    parts = [said[each].format(" and ".join(papers[each])) for each in said if each in papers]
    control = {
        "less": "less than a grid of as many squares, so that it is not for the number of superpixels "
        "alone",
        "not less": "not less than a grid of as many squares: few superpixels, whatever they show, "
        "make a map that varies little",
        "undecided": f"undecided against a grid of as many squares ({UNDECIDED})",
    }
    parts.append(control[_outcome(noise.loc[CONTROL])])
    return f"Noise (total variation) of {first}: {'; '.join(parts)}."


def _outcome(row: "pd.Series") -> str:
    """Undecided where the interval holds 0 inside, and where one image has none."""
    return "less" if row.high < 0 else "not less" if row.low >= 0 else "undecided"
