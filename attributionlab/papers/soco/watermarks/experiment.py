"""Semi-natural data sets: two watermarks, and two maps that know them, by Attr% and ROAD."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from attributionlab.errors import refuse_if
from attributionlab.papers.reproduction import Reproduction
from attributionlab.papers.soco.watermarks.findings import findings_of
from attributionlab.papers.soco.watermarks.images import natural_images
from attributionlab.papers.soco.watermarks.maps import CRAFTED, METHODS, SQUARED
from attributionlab.papers.soco.watermarks.study import FRACTIONS, MARKS, Study, data_sets, study_of
from attributionlab.report.watermarks import (
    MarkedRow,
    NetworkCurves,
    network_curves_figure,
    share_figure,
    watermarks_figure,
)
from attributionlab.validation import integer_problem

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

TRAINING, QUICK_TRAINING, TESTING = 3000, 2000, 400
NETWORKS, QUICK_NETWORKS = 3, 1
HEADINGS = {
    "number": "number watermarks: the label's digits in a black square",
    "stripes": "stripe watermarks: the label in binary",
}


@dataclass(frozen=True)
class Item:
    """A figure of the paper: its subject, the tables that show it, and which findings are about it."""

    title: str
    tables: tuple[str, ...]
    about: tuple[str, ...]


ITEMS = {
    "soco-figure-2": Item(
        "Attr% of maps that know the watermark", ("attr", "uses", "networks"), ("attr", "uses")
    ),
    "soco-figure-3": Item(
        "ROAD on a semi-natural data set and on its original images",
        ("road", "networks"),
        ("rect", "uses"),
    ),
    "soco-figure-11": Item(
        "Samples of number and stripe watermarks with their maps", ("attr",), ("attr",)
    ),
    "soco-figure-12": Item(
        "ROAD on original, semi-natural and pure synthetic images",
        ("road", "networks"),
        ("order",),
    ),
}
NOTES = {
    "networks": "accuracy on test images, mean and extremes over networks; chance: 1 / classes",
    "uses": "semi-natural data sets: share of answers that are the label (or what the changed stripes "
    "spell), mean and extremes over networks",
    "attr": "share of attribution on the watermark, mean and extremes over networks; zero_maps: share "
    "of maps without any; uniform: the watermark's share of the area",
    "road": "mean accuracy along the curve, most relevant pixels removed first (lower is better), mean "
    "and extremes over networks; rank: 1 is lowest",
}


def soco_watermarks(
    item: str,
    *,
    n: int | None,
    quick: bool,
    seed: int = 0,
    images: str | None = None,
    networks: int | None = None,
    show_progress: bool = False,
) -> Reproduction:
    """Train networks on watermarked images, explain them, and score the maps by Attr% and ROAD.

    Parameters
    ----------
    item : str
        A name in `ITEMS`.
    n : int, optional
        Images of each data set that are explained; 64, or 32 in a quick run, by default.
    quick : bool
        Fewer images for training, and a single network for each data set.
    seed : int
        Of images, labels, places of numbers, networks and noise.
    images : str, optional
        A folder with the binary files of CIFAR-100 or CIFAR-10, or with a folder of images for each
        class; patches of our own by default (`natural_images`).
    networks : int, optional
        For each data set, from `seed` on; 3, or 1 in a quick run, by default.
    show_progress : bool
        Show progress on standard error.

    Returns
    -------
    Reproduction
        Tables of means over networks "networks", "uses", "attr" and "road"; those with a row for each
        network, "networks-each" and so on; "curves". Figures "samples", "attr", "road" (figure 3) and
        "road-canvases" (figure 12).
    """
    import pandas as pd

    n = (32 if quick else 64) if n is None else n
    if networks is None:
        networks = QUICK_NETWORKS if quick else NETWORKS
    refuse_if([*integer_problem("n", n, 1), *integer_problem("networks", networks, 1)])
    natural = natural_images(
        images,
        training=QUICK_TRAINING if quick else TRAINING,
        testing=max(n, TESTING),
        seed=seed,
    )
    data = data_sets(natural, seed)
    found = study_of(
        data,
        networks=networks,
        n=n,
        seed=seed,
        show_progress=show_progress,
    )
    each = {
        name: pd.DataFrame(rows)
        for name, rows in (
            ("networks", found.networks),
            ("uses", found.uses),
            ("attr", found.attr),
            ("road", found.road),
        )
    }
    tables = {
        "attr": _spread(each["attr"], ["data", "method"], "attr", ["zero_maps"]),
        "road": _ranked(_spread(each["road"], ["data", "canvas", "method"], "road")),
        "networks": _spread(each["networks"], ["data", "canvas"], "accuracy", ["chance"]),
        "uses": _spread(each["uses"], ["data", "check", "answer"], "agreed", ["images"]),
    }
    curves = _curves(found)
    asked = ITEMS[item]
    order = dict.fromkeys([*asked.tables, *tables])
    return Reproduction(
        item,
        asked.title,
        {name: tables[name] for name in order}
        | {f"{name}-each": table for name, table in each.items()}
        | {"curves": curves},
        _figures(found, tables, natural.source, min(n, len(data[0].testing.labels))),
        findings_of(asked.about, tables | {"curves": curves}, found.told, natural.source),
        {name: NOTES[name] for name in asked.tables},
    )


def _spread(
    each: "pd.DataFrame", keys: list[str], value: str, also: list[str] | None = None
) -> "pd.DataFrame":
    """Mean and extremes over networks, and the means of what else there is."""
    groups = each.groupby(keys, sort=False)
    spread = groups[value].agg(["mean", "min", "max"])
    spread.columns = [value, "lowest", "highest"]
    return spread.join(groups[also or []].mean()).reset_index()


def _ranked(road: "pd.DataFrame") -> "pd.DataFrame":
    ranks = road.groupby(["data", "canvas"], sort=False).road.rank()
    return road.assign(rank=ranks)


def _curves(found: Study) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame(
        {"data": data, "canvas": canvas, "method": method, "network": index}
        | {"removed": fraction, "accuracy": accuracy}
        for (data, canvas), by_method in found.curves.items()
        for method, curves in by_method.items()
        for index, curve in enumerate(curves)
        for fraction, accuracy in zip(FRACTIONS, curve, strict=True)
    )


def _figures(
    found: Study, tables: Mapping[str, "pd.DataFrame"], source: str, n: int
) -> dict[str, "Figure"]:
    networks = len(next(iter(found.curves["original", "images"].values())))
    said = f"{source}; {n} images, {networks} network{'s' * (networks > 1)} for each data set"
    groups = {
        HEADINGS[data]: [
            MarkedRow(f"label {one.label}", one.image, one.region, one.maps) for one in samples
        ]
        for data, samples in found.samples.items()
    }
    rows: dict[str, dict[str, list[float]]] = {data: {} for data in MARKS}
    for row in found.attr:
        rows[row["data"]].setdefault(row["method"], []).append(row["attr"])
    areas = {data: by_method.pop("uniform")[0] for data, by_method in rows.items()}
    ordered = {
        data: {method: by_method[method] for method in (*CRAFTED, *METHODS, SQUARED)}
        for data, by_method in rows.items()
    }
    accuracies = tables["networks"].set_index(["data", "canvas"]).accuracy
    titles = {
        ("original", "images"): "original images and labels",
        ("number", "images"): "number watermarks on images",
        ("number", "blank"): "number watermarks on a blank canvas",
    }
    panels = {
        key: NetworkCurves(
            f"{title}\naccuracy on test images {accuracies[key]:.1%}",
            FRACTIONS,
            {name: np.stack(curves) for name, curves in found.curves[key].items()},
        )
        for key, title in titles.items()
    }
    three = [
        panel._replace(curves={name: panel.curves[name] for name in METHODS})
        for panel in panels.values()
    ]
    bands = "" if networks == 1 else "; bands: from the lowest to the highest network"
    return {
        "samples": watermarks_figure(groups, f"Watermarks and maps ({source})"),
        "attr": share_figure(ordered, areas, f"Attr%\n{said}"),
        "road": network_curves_figure(
            [panels["number", "images"], panels["original", "images"]],
            f"ROAD, most relevant pixels first\n{said}{bands}",
        ),
        "road-canvases": network_curves_figure(
            three, f"ROAD, most relevant pixels first\n{said}{bands}"
        ),
    }
