"""Table 2 of Duan et al. (2024): do checkpoints of one training rank methods alike?"""

from collections.abc import Iterator
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from attributionlab.errors import AttributionLabError, refuse_if
from attributionlab.imputation import constant
from attributionlab.leaderboard import PAPER_METHODS, PROTOCOLS
from attributionlab.leaderboard.agreement import ranks_of
from attributionlab.metrics import area_under_curve, removal_curve
from attributionlab.papers.metarank.reading import (
    convention,
    draws_interval,
    mean_said,
    row_said,
    shares_said,
    strength,
)
from attributionlab.papers.reproduction import Reproduction
from attributionlab.papers.subjects.drawn_pictures import CLASSES, Pictures, pictures
from attributionlab.papers.subjects.small_network import accuracy_of, trained_small_network
from attributionlab.papers.subjects.subjects import TRAINED, Subject, maps_of
from attributionlab.progress import track
from attributionlab.ranking import spearman
from attributionlab.validation import integer_problem

if TYPE_CHECKING:
    import pandas as pd

ITEM = "metarank-table-2"
RUNS, EPOCHS, TRAINING, IMAGES = 6, 12, 1000, 96
QUICK_RUNS, QUICK_EPOCHS, QUICK_TRAINING, QUICK_IMAGES = 2, 4, 200, 12
QUARTERS = 4
FRACTIONS = tuple(tenth / 10 for tenth in range(10))
WITHIN, BETWEEN, PROTOCOL = "checkpoints of one training", "two trainings", "MoRF and LeRF"
SHOWN = {
    "ranks": "of the first training: epochs, accuracy, and the rank of every method, 1 is best",
    "consistency": "mean Spearman correlation of two rankings of eight methods, with its 95 % interval "
    "over trainings; moved: how many of the eight have another rank, mean",
}


def metarank_checkpoints(
    *,
    n: int | None,
    quick: bool,
    seed: int = 0,
    runs: int | None = None,
    epochs: int | None = None,
    show_progress: bool = False,
) -> Reproduction:
    """Rankings of eight methods at a quarter, a half, three quarters and the end of several trainings.

    Parameters
    ----------
    n : int, optional
        Pictures that are explained, the same ones for all networks.
    quick : bool
        Fewer pictures and trainings.
    seed : int
        Of the first training; seed + 1, ... of the others.
    runs : int, optional
        Trainings; 6 by default.
    epochs : int, optional
        Of each; a multiple of 4, 12 by default.
    show_progress : bool
        Show progress on standard error.

    Returns
    -------
    Reproduction
        Tables "ranks" (first training), "consistency", "correlations" and "areas".
    """
    import pandas as pd

    trainings = runs if runs is not None else QUICK_RUNS if quick else RUNS
    length = epochs if epochs is not None else QUICK_EPOCHS if quick else EPOCHS
    refuse_if(
        [*integer_problem("runs", trainings, 2), *integer_problem("epochs", length, QUARTERS)]
    )
    if length % QUARTERS:
        raise AttributionLabError(f"epochs are {length}: take a multiple of {QUARTERS}, such as 8")
    explained = pictures(
        n if n is not None else QUICK_IMAGES if quick else IMAGES, seed + trainings
    )
    asked = [
        (run, length * quarter // QUARTERS)
        for run in range(trainings)
        for quarter in range(1, QUARTERS + 1)
    ]
    rows: list[dict[str, Any]] = []
    for run, epoch in track(asked, len(asked), ITEM, show_progress):
        learned = pictures(QUICK_TRAINING if quick else TRAINING, seed + run)
        subject = checkpoint_subject(learned, explained, epoch, seed + run)
        rows += [{"run": run, "epoch": epoch, **row} for row in _ranks(subject, seed)]
    areas = pd.DataFrame(rows)
    correlations = pd.DataFrame(_correlations(areas))
    consistency = _consistency(correlations, seed)
    return Reproduction(
        item=ITEM,
        title="Rankings of eight methods at four checkpoints of a training (Duan et al., Table 2)",
        tables={
            "ranks": _wide(areas[areas.run == 0]),
            "consistency": consistency,
            "correlations": correlations,
            "areas": areas,
        },
        figures={},
        findings=_findings(areas, correlations, consistency, seed),
        shown=SHOWN,
    )


def checkpoint_subject(learned: Pictures, explained: Pictures, epoch: int, seed: int) -> Subject:
    """What a training has come to after some epochs.

    The network is trained anew up to there: with the same seed that is the same trajectory, step by
    step.

    Parameters
    ----------
    learned, explained : Pictures
        What it is trained on, and what it answers for.
    epoch : int
        How many epochs.
    seed : int
        Of weights and order.
    """
    network = trained_small_network(
        learned.images, learned.labels, classes=CLASSES, seed=seed, epochs=epoch
    )
    last = [module for module in network if isinstance(module, nn.ReLU)][-1]
    return Subject(
        TRAINED,
        network,
        network,
        explained.images,
        explained.labels,
        1.0,
        torch.zeros(3, 1, 1),
        1.0,
        offered={"layers": {"gradcam": last}},
    )


def _ranks(subject: Subject, seed: int) -> Iterator[dict[str, Any]]:
    """Every method's area and rank in both protocols."""
    right = accuracy_of(subject.model, subject.images, subject.targets)
    maps = {name: maps_of(subject, name, seed) for name in PAPER_METHODS}
    at = torch.tensor(FRACTIONS, dtype=torch.float64)
    for protocol, order in PROTOCOLS.items():
        areas = []
        for each in maps.values():
            curves = removal_curve(
                subject.model,
                subject.images,
                subject.targets,
                each,
                order=order,
                fractions=FRACTIONS,
                imputation=partial(constant, value=0.0),
                batch_size=len(subject.images),
            )
            areas.append(float(area_under_curve(curves.mean(0), at)))
        [ranks] = ranks_of(np.array(areas)[:, None], [order == "morf"]).T
        for method, area, rank in zip(maps, areas, ranks, strict=True):
            yield {
                "protocol": protocol,
                "accuracy": right,
                "method": method,
                "area": area,
                "rank": float(rank),
            }


def _correlations(areas: "pd.DataFrame") -> Iterator[dict[str, Any]]:
    """Of two checkpoints of a training, of two trainings' ends, and of the protocols at an end."""
    wide = areas.pivot(index="method", columns=["run", "epoch", "protocol"], values="rank")
    last = areas.epoch.max()
    for one, other in combinations(wide.columns, 2):
        same = [first == second for first, second in zip(one, other, strict=True)]
        at_end = one[1] == other[1] == last
        if same == [True, False, True]:
            kind = WITHIN
        elif same == [False, True, True] and at_end:
            kind = BETWEEN
        elif same == [True, True, False] and at_end:
            kind = PROTOCOL
        else:
            continue
        yield {
            "kind": kind,
            "run": one[0],
            "other_run": other[0],
            "protocol": one[2] if same[2] else "both",
            "epoch": one[1],
            "other_epoch": other[1],
            "correlation": spearman(wide[one], wide[other]),
            "moved": int((wide[one] != wide[other]).sum()),
        }


def _by_run(correlations: "pd.DataFrame", kind: str) -> "pd.Series[float]":
    """The mean of a training's correlations; one of two trainings counts for both, so that these means
    are not independent.
    """
    import pandas as pd

    here = correlations[correlations.kind == kind]
    both = pd.concat(
        [here, here[here.run != here.other_run].assign(run=lambda each: each.other_run)]
    )
    return both.groupby("run").correlation.mean()


def _consistency(correlations: "pd.DataFrame", seed: int) -> "pd.DataFrame":
    import pandas as pd

    rows = []
    for kind in (WITHIN, BETWEEN, PROTOCOL):
        here = correlations[correlations.kind == kind]
        low, high = draws_interval(_by_run(correlations, kind), seed)
        rows.append(
            {
                "rankings": kind,
                "pairs": len(here),
                "correlation": float(here.correlation.mean()),
                "low": low,
                "high": high,
                "least": float(here.correlation.min()),
                "moved": float(here.moved.mean()),
            }
        )
    return pd.DataFrame(rows)


def _wide(areas: "pd.DataFrame") -> "pd.DataFrame":
    """A row for each checkpoint and protocol."""
    wide = areas.pivot(index=["protocol", "epoch", "accuracy"], columns="method", values="rank")
    return wide[list(PAPER_METHODS)].reset_index().rename_axis(columns=None)


def _findings(
    areas: "pd.DataFrame", correlations: "pd.DataFrame", table: "pd.DataFrame", seed: int
) -> list[str]:
    rows = table.set_index("rankings")
    reached = areas.groupby("epoch").accuracy.mean()
    found = [
        convention(),
        "Accuracy at the checkpoints, mean over trainings: "
        + ", ".join(f"{value:.0%} after {epoch} epochs" for epoch, value in reached.items())
        + f" (chance: {1 / CLASSES:.0%}).",
    ]
    last = int(areas.epoch.max())
    within = correlations[(correlations.kind == WITHIN) & (correlations.other_epoch == last)]
    means = within.groupby("epoch").moved.mean()
    moved = ", ".join(f"{value:.1f} of 8 after {epoch} epochs" for epoch, value in means.items())
    found.append(
        "The paper: the ranking after 200 epochs differs in one place from those after 100 and 150, "
        "and in somewhat more from that after 50. Here the ranks of so many methods differ from those "
        f"after {last} epochs, on average: {moved}."
    )
    for kind in (WITHIN, BETWEEN, PROTOCOL):
        row = rows.loc[kind]
        here = correlations[correlations.kind == kind]
        found.append(
            f"{kind}: mean correlation {row_said(row)} over trainings; "
            f"{shares_said(here.correlation.tolist())}."
            + (
                " Pairs share trainings: their interval is too narrow, and nothing rests on it."
                if kind == BETWEEN
                else ""
            )
        )
    difference = _by_run(correlations, WITHIN) - _by_run(correlations, BETWEEN)
    protocols = _by_run(correlations, WITHIN) - _by_run(correlations, PROTOCOL)
    low, high = rows.loc[WITHIN, ["low", "high"]].to_numpy(float)
    shown = strength(low, high)
    strong, more = shown == "strong", draws_interval(protocols, seed)[0] > 0
    outcome = (
        f"undecided: {areas.run.nunique()} trainings give no interval"
        if np.isnan(low)
        else "agreed: they are shown to be strong and more alike than protocols"
        if strong and more
        else "agreed in part: they are shown to be strong, but not to be more alike than protocols"
        if strong
        else "agreed in part: they are more alike than protocols, but not shown to be strong"
        if more
        else "not agreed: they are shown not to be strong, and not to be more alike than protocols"
        if shown == "not strong"
        else "undecided: they are shown neither to be strong nor to be more alike than protocols"
    )
    found.append(
        "Finding 2 of the paper, that checkpoints of one training rank alike: checkpoints exceed "
        f"protocols by {mean_said(protocols, seed)} and two trainings by "
        f"{mean_said(difference, seed)} (whose pairs share trainings); "
        f"{outcome}."
    )
    return found
