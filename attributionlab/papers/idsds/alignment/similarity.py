"""Section 4.1 and Figure 10 of Hesse et al. (2024): does fine-tuning change what a network uses?"""

from typing import TYPE_CHECKING

import numpy as np

from attributionlab.papers.idsds.alignment.given import given_pair
from attributionlab.papers.idsds.alignment.network_pairs import (
    Compared,
    Scale,
    compared_given,
    compared_trained,
    few_of,
)
from attributionlab.papers.idsds.alignment.similarity_findings import similarity_findings
from attributionlab.papers.reproduction import Reproduction
from attributionlab.report.method_scores import ScoreDot, ScorePanel, method_scores_figure
from attributionlab.report.picture_grid import picture_grid_figure
from attributionlab.stats.intervals import mean_interval

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

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
FULL, QUICK = Scale(1500, 300, 8, 4, 4), Scale(800, 120, 6, 3, 2)
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
        As for `attributionlab.papers.subjects.subjects.given_subject`.
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
        found, number = compared_given(given, seed), len(given.subject.images)
    else:
        scale = QUICK if quick else FULL
        number = scale.images if n is None else n
        found = compared_trained(task, scale, number, seed, show_progress=show_progress)
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
            found.strips, f"The {few_of(number)} images that excite channels most (Figure 10)"
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


def _differences(found: Compared, seed: int) -> "pd.DataFrame":
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


def _channels(found: Compared, images: int, seed: int) -> "pd.DataFrame":
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
                "chance": few_of(images) / images,
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
