"""Table 3 of Hesse et al. (2024): accuracy before and after fine-tuning on images without a patch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attributionlab.papers.idsds.alignment.accuracy_findings import accuracy_findings
from attributionlab.papers.idsds.alignment.conditions import interval_over_images
from attributionlab.papers.idsds.alignment.given import given_pair
from attributionlab.papers.idsds.alignment.worst_patch import (
    LeftTruth,
    Rights,
    answers,
    left_truth,
    rights,
)
from attributionlab.papers.idsds.data import Task, task_named
from attributionlab.papers.idsds.training import trained_pair
from attributionlab.papers.reproduction import Reproduction
from attributionlab.papers.subjects.networks import Design
from attributionlab.progress import track
from attributionlab.report.method_scores import ScoreDot, ScorePanel, method_scores_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

PATCHES = 16
BLACK = 0.0
"""What deleted pixels become; no image that networks are trained on first has it."""
DESIGNS = (
    Design("residual", batch_norm=True),
    Design("residual", depth=2, batch_norm=True),
    Design("residual", width=24, batch_norm=True),
    Design("residual"),
    Design("residual", bias=False),
    Design("plain"),
    Design("attention"),
    Design("b-cos"),
    Design("bag"),
)
"""In the order of the paper's table; of its four depths two have a counterpart."""
QUICK_DESIGNS = (
    Design("residual", batch_norm=True),
    Design("plain"),
    Design("bag"),
)
BEFORE, AFTER = "before", "after"
ASKED = {
    "whole": "whole images",
    "worst": "without the worst patch",
    "same": "without the worst patch\nthat leaves the label true",
    "left": "without the worst patch,\nby the color that wins then",
}
"""The keys of `rights`."""
SHOWN = {
    "accuracies": "in %, before and after fine-tuning, means over training runs; change in points; low "
    "and high: 95 % interval of the change over images, if six or more; worst: right without whichever "
    "patch",
    "losses": "in points: how much accuracy falls from whole images to those without the worst patch; "
    "of that, where the label is no longer the winning color (truth), and where it still is (network); "
    "left: accuracy without the worst patch, held against the color that wins then",
}


@dataclass(frozen=True)
class Scale:
    """How much is trained: training images, images to ask about, epochs, and training runs."""

    training: int
    images: int
    epochs: int
    fine_tuning: int
    runs: int
    designs: Sequence[Design]


FULL = Scale(2000, 300, 8, 4, 2, DESIGNS)
QUICK = Scale(1000, 100, 10, 3, 1, QUICK_DESIGNS)
Found = dict[str, dict[str, Rights]]
"""By network and version, `rights` averaged over training runs."""


def idsds_table_3(
    *,
    n: int | None,
    quick: bool,
    seed: int = 0,
    task: str = "colors",
    images: str | None = None,
    model: str | None = None,
    weights: str | None = None,
    fine_tuned: str | None = None,
    layer: str | None = None,
    classes: str | None = None,
    size: int = 224,
    show_progress: bool = False,
) -> Reproduction:
    """Accuracy of networks before and after fine-tuning, on whole images and without the worst patch.

    Deleted pixels become black, which is new to networks before they are fine-tuned.

    Parameters
    ----------
    n : int, optional
        Images; 300, or 100 in a quick run, by default. Of given images, for each class; 1 by default.
    quick : bool
        Three designs, one training run, fewer images.
    seed : int
        Of images and of the first run's weights.
    task : {"colors", "pictures"}
        What networks are trained on: which of four colors has the most pixels, or objects on
        backgrounds. What is true of an image without a patch is known of the colors alone.
    images, model : str, optional
        A folder of class folders and a classifier (``path/to/file.py:name``), to be judged instead.
        Its deleted pixels have the mean color of the images.
    weights, fine_tuned : str, optional
        Files with the weights of that classifier, before and after fine-tuning.
    layer, classes, size
        As for `attributionlab.papers.subjects.subjects.given_subject`; no layer is needed.
    show_progress : bool
        Show progress on standard error.

    Returns
    -------
    Reproduction
        Tables "accuracies", of the colors "losses", and "runs" (each training run); one figure.
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
        subject = given.subject
        asked = (subject.images, PATCHES, subject.empty)
        versions = {BEFORE: subject.model, AFTER: given.fine_tuned}
        found: Found = {
            subject.name: {
                version: rights(answers(network, *asked), subject.targets)
                for version, network in versions.items()
            }
        }
        runs = pd.DataFrame()
        number, notes, exact = len(subject.images), subject.notes[:1], None
    else:
        scale = QUICK if quick else FULL
        number = scale.images if n is None else n
        data = task_named(task)(scale.training, number, seed)
        truth = (
            left_truth(data.images, data.labels, PATCHES, BLACK) if data.name == "colors" else None
        )
        found, runs = _trained(scale, data, truth, seed, show_progress)
        notes = ()
        exact = None if truth is None else float(truth.same.all(1).double().mean())
    tables = {"accuracies": _accuracies(found, seed)}
    if any("same" in right for of in found.values() for right in of.values()):
        tables["losses"] = _losses(found)
    if len(runs):
        tables["runs"] = runs
    return Reproduction(
        item="idsds-table-3",
        title="Accuracy before and after fine-tuning on images without a patch",
        tables=tables,
        figures={"accuracies": _figure(found, seed)},
        findings=[
            *notes,
            *accuracy_findings(tables, number, exact, seed, unseen=given is None),
        ],
        shown={name: note for name, note in SHOWN.items() if name in tables},
    )


def _trained(
    scale: Scale, data: Task, truth: LeftTruth | None, seed: int, show_progress: bool
) -> tuple[Found, "pd.DataFrame"]:
    """`rights` of all designs, means over training runs, and a row for each run and version."""
    import pandas as pd

    every: dict[str, dict[str, list[Rights]]] = {}
    rows: list[dict[str, Any]] = []
    plans = [(design, run) for design in scale.designs for run in range(scale.runs)]
    for design, run in track(plans, len(plans), "networks", show_progress):
        pair = trained_pair(
            design,
            data,
            seed=seed + run,
            patches=PATCHES,
            replacement=BLACK,
            epochs=scale.epochs,
            fine_tuning_epochs=scale.fine_tuning,
        )
        for version, network in zip((BEFORE, AFTER), pair, strict=True):
            right = rights(answers(network, data.images, PATCHES, BLACK), data.labels, truth)
            every.setdefault(design.name, {BEFORE: [], AFTER: []})[version].append(right)
            accuracies = {name: float(each.mean()) for name, each in right.items()}
            rows.append({"network": design.name, "run": run, "version": version, **accuracies})
    found = {
        design: {
            version: {name: np.mean([run[name] for run in of_runs], axis=0) for name in of_runs[0]}
            for version, of_runs in versions.items()
        }
        for design, versions in every.items()
    }
    return found, pd.DataFrame(rows)


def _accuracies(found: Found, seed: int) -> "pd.DataFrame":
    import pandas as pd

    rows = []
    for network, versions in found.items():
        row: dict[str, Any] = {"network": network}
        for asked in ("whole", "worst"):
            change = 100 * (versions[AFTER][asked] - versions[BEFORE][asked])
            low, high = interval_over_images(change, seed)
            row[f"{asked}_before"] = 100 * versions[BEFORE][asked].mean()
            row[f"{asked}_after"] = 100 * versions[AFTER][asked].mean()
            row |= {
                f"{asked}_change": change.mean(),
                f"{asked}_low": low,
                f"{asked}_high": high,
            }
        rows.append(row)
    return pd.DataFrame(rows)


def _losses(found: Found) -> "pd.DataFrame":
    """loss = whole - worst = (whole - same) + (same - worst), the network's part and the truth's."""
    import pandas as pd

    rows = []
    for network, versions in found.items():
        for version, right in versions.items():
            whole, worst, same, left = (100 * right[name].mean() for name in ASKED)
            rows.append(
                {
                    "network": network,
                    "version": version,
                    "loss": whole - worst,
                    "truth": same - worst,
                    "network_own": whole - same,
                    "left": left,
                }
            )
    return pd.DataFrame(rows)


def _figure(found: Found, seed: int) -> "Figure":
    first: Mapping[str, Rights] = next(iter(found.values()))
    panels = [
        ScorePanel(
            ASKED[asked],
            "accuracy in % (higher is better)",
            {
                f"{version} fine-tuning": {
                    network: _dot(versions[version][asked], seed)
                    for network, versions in found.items()
                }
                for version in (BEFORE, AFTER)
            },
        )
        for asked in first[BEFORE]
    ]
    rows = [panels[:2], panels[2:]] if len(panels) > 2 else [panels]
    return method_scores_figure(
        rows, list(found), "Accuracy with 95 % intervals over images (Table 3)"
    )


def _dot(right: NDArray[np.float64], seed: int) -> ScoreDot:
    return ScoreDot(*(100 * each for each in (right.mean(), *interval_over_images(right, seed))))
