"""Table 1 and Figures 7 and 13 of Li et al. (2024): do metrics see that the values of a map changed?"""

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from attributionlab.environment.catalog import load
from attributionlab.papers.reproduction import Reproduction
from attributionlab.papers.soco.maps import method_maps
from attributionlab.papers.soco.methods.measures import INDICATORS
from attributionlab.papers.soco.modifications.curves import (
    BY_ORDER,
    METRICS,
    ORIGINAL,
    UNCLIPPED,
    change_rows,
    curves_of,
    distances,
    modifications,
    paired_differences,
)
from attributionlab.papers.soco.modifications.findings import findings_of
from attributionlab.papers.soco.modified_maps import SCHEMES
from attributionlab.papers.subjects.subjects import (
    Subject,
    chosen_subject,
    environment_subject,
    trained_subject,
)
from attributionlab.progress import track
from attributionlab.report.metric_panels import MetricLine, MetricPanel, metric_panels_figure
from attributionlab.report.positive_maps import PositiveMapsRow, positive_maps_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

ENVIRONMENT = "multi-color-sum-in-distribution"
SIDE = 32
IMAGES, QUICK_IMAGES = 40, 8
TRAINING, QUICK_TRAINING = 2000, 1000
RATIOS = tuple(percent / 100 for percent in range(98, -1, -2))
QUICK_RATIOS = tuple(percent / 100 for percent in range(98, -1, -4))
"""Masked shares of the sweep of soundness; the paper's step is 0.01."""
METHODS = {
    "gradcam": "GradCAM",
    "integrated-gradients": "IG",
    "extremal-perturbation": "ExPerturb",
}
DRAWN = "constant"
"""The scheme of the curves that are drawn; the table has all."""
MAP_IMAGES = 3
Sample = tuple[Subject, str, Tensor]
"""Whose curves and maps are drawn: a subject, and the name and maps of its first method."""
ITEMS = {
    "soco-table-1": (
        "Smallest Hausdorff distance between curves of original and modified maps",
        "distances",
    ),
    "soco-figure-7": ("Curves of original and modified maps, by four metrics", "curves"),
    "soco-figure-13": ("Maps modified in three ways", "maps"),
}
"""Title, and which figure comes first; all are of the same run."""
SHOWN = {
    "distances": "smallest of the three distances between Original, Remove and Introduce, both axes in "
    "[0, 1]; mean, sd (standard deviation) and range over cases, each a scheme and a method; cases: "
    "how many have a distance",
    "differences": "of these distances, case by case: metric minus against; low, high: 95 % bootstrap "
    "interval of the mean over the cases, which share their images",
    "changes": "what a modification leaves of the order, means over methods: rank correlation with the "
    "original; shares of pixels at 0 and at 1, which are tied; mean change of the values",
}


def soco_modifications(
    item: str,
    *,
    n: int | None,
    quick: bool,
    seed: int = 0,
    images: str | None = None,
    model: str | None = None,
    layer: str | None = None,
    classes: str | None = None,
    weights: str | None = None,
    size: int = 224,
    show_progress: bool = False,
) -> Reproduction:
    """Curves of original and modified maps, and the smallest Hausdorff distance between them.

    Positive parts of maps, each divided by its maximum, are modified as in Table 3 of the paper and
    clamped to [0, 1].

    Parameters
    ----------
    item : str
        A name in `ITEMS`.
    n : int, optional
        Images; 40, or 8 in a quick run, by default. Of given images, for each class; 1 by default.
    quick : bool
        Fewer images for the metrics and for training, coarser steps of soundness, 100 iterations of
        extremal perturbation instead of 800.
    seed : int
        Of images, weights, noise and random shifts.
    images, model : str, optional
        A folder of class folders and a classifier (``path/to/file.py:name``, see
        `attributionlab.local_data`), to be judged instead of our two.
    layer : str, optional
        Dotted name of the module of that classifier for GradCAM, which is left out without.
    classes : str, optional
        A text file that names the class folder of each output of the classifier, one in a line, for a
        folder that has only some of them.
    weights : str, optional
        A safetensors file, or a state dict that `torch.save` wrote, with that classifier's weights.
    size : int
        Side of the given images.
    show_progress : bool
        Show progress on standard error.

    Returns
    -------
    Reproduction
        Tables "distances" (summary), "differences" (case by case), "changes", "pairs" (every distance)
        and "curves"; figures "curves" and "maps".
    """
    import pandas as pd

    ratios = QUICK_RATIOS if quick else RATIOS
    of_class = 1 if n is None else n
    given = chosen_subject(
        *(images, model, of_class, seed), size=size, layer=layer, classes=classes, weights=weights
    )
    if given is not None:
        subjects = [given]
    else:
        number = n if n is not None else QUICK_IMAGES if quick else IMAGES
        subjects = [
            trained_subject(number, QUICK_TRAINING if quick else TRAINING, seed),
            environment_subject(load(ENVIRONMENT, image_size=SIDE), number, seed),
        ]
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    sample: dict[str, Sample] = {}
    for subject in subjects:
        found = track(
            method_maps(subject, list(METHODS), seed, quick=quick),
            len(METHODS),
            f"{item}, {subject.name}",
            show_progress,
        )
        for name, maps in found:
            method = METHODS[name]
            sample.setdefault(subject.name, (subject, method, maps))
            for table, row in _rows_of(subject, maps, seed, ratios):
                rows[table].append({"subject": subject.name, "method": method, **row})
    pairs, changes = pd.DataFrame(rows["pairs"]), pd.DataFrame(rows["changes"])
    curves = pd.DataFrame(rows["curves"])
    tables = {
        "distances": _summary(pairs),
        "differences": paired_differences(pairs, seed),
        "changes": changes.drop(columns="method")
        .groupby(["subject", "scheme", "direction"], sort=False)
        .mean()
        .reset_index(),
        "pairs": pairs,
        "curves": curves,
    }
    title, first = ITEMS[item]
    figures = {
        "curves": _curves_figure(curves, [sample[each.name] for each in subjects]),
        "maps": _maps_figure(sample[subjects[0].name], seed),
    }
    order = [first, *figures] if first in figures else list(figures)
    return Reproduction(
        item=item,
        title=title,
        tables=tables,
        figures={name: figures[name] for name in dict.fromkeys(order)},
        findings=[
            *(given.notes if given is not None else ()),
            *findings_of(tables, {each.name: len(each.images) for each in subjects}),
        ],
        shown=SHOWN,
    )


def _rows_of(
    subject: Subject, maps: Tensor, seed: int, ratios: Sequence[float]
) -> list[tuple[str, dict[str, Any]]]:
    """Rows of "pairs", "changes" and "curves" of one method's maps, for all schemes."""
    rows: list[tuple[str, dict[str, Any]]] = []
    original = list(curves_of(subject, maps, seed, ratios))
    for scheme in (*SCHEMES, UNCLIPPED):
        clip = scheme != UNCLIPPED
        versions = modifications(maps, scheme if clip else "constant", seed, clip=clip)  # type: ignore[arg-type]
        found: dict[tuple[str, str], dict[str, Any]] = defaultdict(dict)
        for name, of_name in versions.items():
            # Metrics of values take no negative ones, which Remove leaves where nothing is clamped.
            metrics = METRICS if clip or name != "Remove" else BY_ORDER
            measured = (
                original if name == ORIGINAL else curves_of(subject, of_name, seed, ratios, metrics)
            )
            for indicator, metric, curve in measured:
                found[indicator, metric][name] = curve
        for (indicator, metric), curves in found.items():
            keys = {"scheme": scheme, "indicator": indicator, "metric": metric}
            rows.append(("pairs", keys | distances(curves)))
            rows += [
                ("curves", {**keys, "map": name, "x": x, "y": y})
                for name, curve in curves.items()
                for x, y in curve.tolist()
            ]
        if clip:
            rows += [("changes", {"scheme": scheme, **row}) for row in change_rows(maps, versions)]
    return rows


def _summary(pairs: "pd.DataFrame") -> "pd.DataFrame":
    """Smallest distances over schemes and methods, by subject, indicator and metric."""
    clipped = pairs[pairs.scheme != UNCLIPPED]
    grouped = clipped.groupby(["subject", "indicator", "metric"], sort=False).smallest
    summary = grouped.agg(["mean", "std", "min", "max", "count"]).reset_index()
    return summary.rename(columns={"std": "sd", "count": "cases"})


def _curves_figure(curves: "pd.DataFrame", samples: Sequence[Sample]) -> "Figure":
    """Four metrics for the first method of each subject and each indicator, a row for each."""
    axes = {
        "Completeness": ("attribution threshold", "{} lost (higher is better)"),
        "Soundness": ("{} (predictive level)", "soundness (higher is better)"),
        "ROAD": ("fraction removed, most first", "{} (lower is better)"),
        "Deletion": ("fraction removed, most first", "{} (lower is better)"),
    }
    panels = []
    for subject, method, _ in samples:
        for indicator in INDICATORS:
            here = curves[
                (curves.subject == subject.name)
                & (curves.method == method)
                & (curves.indicator == indicator)
                & (curves.scheme == DRAWN)
            ]
            row = []
            for metric, labels in axes.items():
                lines = {
                    name: MetricLine(of_map.x.to_numpy(), of_map.y.to_numpy())
                    for name, of_map in here[here.metric == metric].groupby("map", sort=False)
                }
                title = f"{metric}: {subject.name}, {method}"
                xlabel, ylabel = (each.format(indicator) for each in labels)
                row.append(MetricPanel(title, xlabel, ylabel, lines))
            panels.append(row)
    title = "Maps shifted by a constant 0.6 and clamped to [0, 1]"
    return metric_panels_figure(panels, title)


def _maps_figure(sample: Sample, seed: int) -> "Figure":
    subject, method, maps = sample
    shown = maps[:MAP_IMAGES]
    columns: dict[str, Any] = {ORIGINAL: shown}
    for scheme in SCHEMES:
        versions = modifications(shown, scheme, seed)
        columns |= {f"{scheme} {name}": versions[name] for name in ("Remove", "Introduce")}
    rows = [
        PositiveMapsRow(
            (subject.images[index] / subject.highest).numpy(),
            {name: of_name[index, 0].numpy() for name, of_name in columns.items()},
        )
        for index in range(len(shown))
    ]
    return positive_maps_figure(rows, f"Modified maps of {method} (Table 3), {subject.name}")
