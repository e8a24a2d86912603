"""Section 4.1 and Figure 10 of Hesse et al. (2024): does fine-tuning change what a network uses?"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attributionlab.assess import mean_interval
from attributionlab.experiments.idsds.alignment.given import GivenPair, given_pair
from attributionlab.experiments.idsds.alignment.likeness import (
    Overlap,
    Seen,
    excitations,
    overlap,
    seen,
    strongest,
)
from attributionlab.experiments.idsds.alignment.similarity_findings import similarity_findings
from attributionlab.experiments.idsds.data import task_named
from attributionlab.experiments.idsds.networks import Design, gradcam_layer
from attributionlab.experiments.idsds.training import trained_pair
from attributionlab.experiments.reproduction import Reproduction
from attributionlab.experiments.small_network import accuracy_of
from attributionlab.progress import track
from attributionlab.report.method_scores import ScoreDot, ScorePanel, method_scores_figure
from attributionlab.report.picture_grid import GridRow, picture_grid_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["ITEMS", "idsds_similarity"]

ITEMS = {
    "idsds-section-4-1": (
        "How much fine-tuned networks differ from the original ones",
        "differences",
    ),
    "idsds-figure-10": (
        "Images that excite channels of original and fine-tuned networks most",
        "channels",
    ),
}
"""Title, and which figure comes first; both are of the same run."""
PATCHES, BLACK = 16, 0.0
DESIGNS = {"residual": Design("residual", batch_norm=True), "plain": Design("plain")}
BEFORE, AFTER = "original", "fine-tuned"
STRONGEST, DRAWN = 8, 2
"""Images that count as exciting a channel most; channels of each network that are drawn."""
KINDS = ("same", "others")
MEASURES = {
    "output": "difference of the label's probability",
    "map": "difference of GradCAM's maps",
}
SHOWN = {
    "differences": "mean absolute differences, in [0, 1], of the label's probability (output) and of "
    "GradCAM's maps, each the positive part divided by its maximum (map); low, high: 95 % interval "
    "over images, after the mean over runs; least, most: of the runs",
    "channels": "share of common images among those that excite a channel most: of the same channel "
    "(same, with its 95 % interval over channels), of another channel of the other network (others), "
    "and of images drawn at random (chance)",
}


@dataclass(frozen=True)
class Scale:
    """How much is trained: training images, images to ask about, epochs, and training runs."""

    training: int
    images: int
    epochs: int
    fine_tuning: int
    runs: int


FULL, QUICK = Scale(1500, 300, 8, 4, 4), Scale(800, 120, 6, 3, 2)


@dataclass(eq=False)
class Found:
    """What was measured, by comparison, in the order of training runs.

    Parameters
    ----------
    differences : mapping of str to list
        By comparison, `Seen.differences` of each run.
    overlaps : mapping of str to list of Overlap
        By comparison.
    accuracies : mapping of str to list of float
        By network and version.
    strips : list of GridRow
        Images that excite channels most.
    """

    differences: dict[str, list[dict[str, NDArray[np.float64]]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    overlaps: dict[str, list[Overlap]] = field(default_factory=lambda: defaultdict(list))
    accuracies: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    strips: list[GridRow] = field(default_factory=list)


def idsds_similarity(
    item: str,
    *,
    n: int | None,
    quick: bool,
    seed: int = 0,
    task: str = "pictures",
    images: str | None = None,
    model: str | None = None,
    weights: str | None = None,
    fine_tuned: str | None = None,
    layer: str | None = None,
    classes: str | None = None,
    size: int = 224,
    show_progress: bool = False,
) -> Reproduction:
    """Compare networks before and after fine-tuning with each other and with other networks.

    Parameters
    ----------
    item : str
        A name in `ITEMS`.
    n : int, optional
        Images; 300, or 120 in a quick run, by default. Of given images, for each class; 1 by default.
    quick : bool
        Two training runs instead of four, with fewer images.
    seed : int
        Of images and of the first run's weights; of the channels that are drawn.
    task : {"pictures", "colors"}
        What networks are trained on: objects on backgrounds, or which of four colors has the most
        pixels.
    images, model : str, optional
        A folder of class folders and a classifier (``path/to/file.py:name``), to be judged instead.
    weights, fine_tuned : str, optional
        Files with the weights of that classifier, before and after fine-tuning.
    layer : str, optional
        Dotted name of its last convolution, for GradCAM and channels; without it outputs alone are
        compared, and idsds-figure-10 has nothing to draw.
    classes, size
        As for `attributionlab.experiments.subjects.given_subject`.
    show_progress : bool
        Show progress on standard error.

    Returns
    -------
    Reproduction
        Tables "differences", "channels" and, of networks that are trained here, "accuracies"; figures
        "differences" and "channels".
    """
    import pandas as pd

    given = given_pair(
        *(images, model, 1 if n is None else n, seed),
        size=size,
        layer=layer,
        classes=classes,
        weights=weights,
        fine_tuned=fine_tuned,
    )
    if given is not None:
        found, number = _given(given, seed), len(given.subject.images)
    else:
        scale = QUICK if quick else FULL
        number = scale.images if n is None else n
        found = _trained(task, scale, number, seed, show_progress)
    tables = {"differences": _differences(found, seed)}
    if found.overlaps:
        tables["channels"] = _channels(found, number, seed)
    if found.accuracies:
        rows = [
            {"network": network, "run": run, "accuracy": accuracy}
            for network, runs in found.accuracies.items()
            for run, accuracy in enumerate(runs)
        ]
        tables["accuracies"] = pd.DataFrame(rows)
    title, first = ITEMS[item]
    figures = {"differences": _figure(tables["differences"])}
    if found.strips:
        figures["channels"] = picture_grid_figure(
            found.strips, f"The {STRONGEST} images that excite channels most (Figure 10)"
        )
    order = [name for name in dict.fromkeys([first, *figures]) if name in figures]
    return Reproduction(
        item=item,
        title=title,
        tables=tables,
        figures={name: figures[name] for name in order},
        findings=[
            *(given.subject.notes[:1] if given is not None else ()),
            *similarity_findings(tables, found.differences, number, seed),
        ],
        shown={name: note for name, note in SHOWN.items() if name in tables},
    )


def _trained(task: str, scale: Scale, number: int, seed: int, show_progress: bool) -> Found:
    data = task_named(task)(scale.training, number, seed)
    found = Found()
    views: dict[str, list[Seen]] = defaultdict(list)
    excited: dict[str, list[Tensor]] = defaultdict(list)
    plans = [(family, run) for family in DESIGNS for run in range(scale.runs)]
    for family, run in track(plans, len(plans), "networks", show_progress):
        pair = trained_pair(
            DESIGNS[family],
            data,
            seed=seed + run,
            patches=PATCHES,
            replacement=BLACK,
            epochs=scale.epochs,
            fine_tuning_epochs=scale.fine_tuning,
        )
        for version, network in zip((BEFORE, AFTER), pair, strict=True):
            key, held = f"{family}, {version}", gradcam_layer(network)
            views[key].append(seen(network, data.images, data.labels, held))
            excited[key].append(excitations(network, data.images, held))
            found.accuracies[key].append(accuracy_of(network, data.images, data.labels))
    for comparison, (first, second, later) in _comparisons().items():
        for run in range(scale.runs):
            other = (run + later) % scale.runs
            found.differences[comparison].append(
                views[first][run].differences(views[second][other])
            )
            if first.split(", ")[0] == second.split(", ")[0]:  # others' channels do not correspond
                shared = overlap(excited[first][run], excited[second][other], _few(number))
                found.overlaps[comparison].append(shared)
    for family in DESIGNS:
        versions = {each: excited[f"{family}, {each}"][0] for each in (BEFORE, AFTER)}
        found.strips += _strips(family, versions, data.images, seed)
    return found


def _comparisons() -> dict[str, tuple[str, str, int]]:
    """By name, the two networks, and how many training runs the second one is behind."""
    fine_tuning = {
        f"{family} and its fine-tuned self": (f"{family}, {BEFORE}", f"{family}, {AFTER}", 0)
        for family in DESIGNS
    }
    again = {
        f"{family} and another training of it": (f"{family}, {BEFORE}", f"{family}, {BEFORE}", 1)
        for family in DESIGNS
    }
    first, second = (f"{family}, {BEFORE}" for family in DESIGNS)
    return {**fine_tuning, " and ".join(DESIGNS): (first, second, 0), **again}


def _given(given: GivenPair, seed: int) -> Found:
    subject = given.subject
    layer = subject.offered.get("layer")
    asked = (subject.images, subject.targets, layer)
    found = Found()
    name = f"{subject.name} and its fine-tuned self"
    networks = {BEFORE: subject.model, AFTER: given.fine_tuned}
    first, second = (seen(network, *asked) for network in networks.values())
    found.differences[name].append(first.differences(second))
    if layer is not None:
        excited = {
            version: excitations(network, subject.images, layer)
            for version, network in networks.items()
        }
        few = _few(len(subject.images))
        found.overlaps[name].append(overlap(excited[BEFORE], excited[AFTER], few))
        found.strips += _strips(subject.name, excited, subject.images, seed)
    return found


def _few(images: int) -> int:
    """How many images count as exciting a channel most."""
    return min(STRONGEST, max(1, images // 4))


def _strips(name: str, excited: Mapping[str, Tensor], images: Tensor, seed: int) -> list[GridRow]:
    """Images for channels drawn at random from those that compare, a row for each version."""
    few = _few(len(images))
    compared = overlap(excited[BEFORE], excited[AFTER], few).compared.nonzero()[:, 0]
    generator = torch.Generator().manual_seed(seed)
    channels = compared[torch.randperm(len(compared), generator=generator)[:DRAWN]].sort().values
    shown = images.clamp(0, 1).cpu().numpy()
    return [
        GridRow(
            f"{name}, channel {channel}, {version}",
            [shown[index] for index in strongest(of_version, few)[channel].tolist()],
        )
        for channel in channels.tolist()
        for version, of_version in excited.items()
    ]


def _differences(found: Found, seed: int) -> "pd.DataFrame":
    import pandas as pd

    rows = []
    for comparison, runs in found.differences.items():
        for measure in runs[0]:
            every = np.stack([run[measure] for run in runs])  # (runs, images)
            low, high = mean_interval(every.mean(0), seed) or (np.nan, np.nan)
            means = every.mean(1)
            rows.append(
                {
                    "comparison": comparison,
                    "measure": measure,
                    "mean": means.mean(),
                    "low": low,
                    "high": high,
                    "least": means.min(),
                    "most": means.max(),
                    "runs": len(runs),
                }
            )
    return pd.DataFrame(rows)


def _channels(found: Found, images: int, seed: int) -> "pd.DataFrame":
    import pandas as pd

    rows = []
    for comparison, runs in found.overlaps.items():
        same, others = (np.concatenate([getattr(run, key) for run in runs]) for key in KINDS)
        low, high = mean_interval(same, seed) or (np.nan, np.nan)
        rows.append(
            {
                "comparison": comparison,
                "same": same.mean() if len(same) else np.nan,
                "low": low,
                "high": high,
                "others": others.mean() if len(others) else np.nan,
                "chance": _few(images) / images,
                "channels": len(same),
                "not_compared": sum(int((~run.compared).sum()) for run in runs),
            }
        )
    return pd.DataFrame(rows)


def _figure(differences: "pd.DataFrame") -> "Figure":
    panels = []
    for measure, here in differences.groupby("measure", sort=False):
        dots = {row.comparison: ScoreDot(row.mean, row.low, row.high) for row in here.itertuples()}
        panels.append(
            ScorePanel(
                MEASURES[str(measure)],
                "mean absolute difference\n(lower: more alike)",
                {"difference": dots},
            )
        )
    return method_scores_figure(
        [panels],
        list(dict.fromkeys(differences.comparison)),
        "How much networks differ, with 95 % intervals over images (section 4.1)",
    )
