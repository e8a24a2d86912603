"""Table 2 of Duan et al. (2024): do checkpoints of one training rank methods alike?"""

from collections.abc import Iterator
from functools import partial
from itertools import combinations
from typing import Any

import pandas as pd

from attributionlab.base import AttributionLabError
from attributionlab.metrics.imputation import constant
from attributionlab.metrics.ranking import spearman
from attributionlab.papers.answers import above, every, over_draws, shares
from attributionlab.papers.catalog import Run, Tables
from attributionlab.papers.metarank.removal import ranked_by_removal
from attributionlab.papers.subjects.drawn_pictures import pictures
from attributionlab.papers.subjects.networks import (
    accuracy_of,
)
from attributionlab.papers.subjects.subjects import maps_of, subject_trained_on
from attributionlab.verdicts import PAPER_METHODS

QUARTERS = 4
WITHIN, BETWEEN, PROTOCOL = "checkpoints of one training", "two trainings", "MoRF and LeRF"


def checkpoint_rankings(run: Run, *, runs: int, epochs: int, training: int) -> Tables:
    """Rank eight methods at a quarter, a half, three quarters and the end of several trainings.

    `run.n` pictures are explained, the same ones for all networks; `training` others are learned.
    Table "ranks" is of the first training.
    """
    if epochs % QUARTERS:
        raise AttributionLabError(f"epochs are {epochs}: take a multiple of {QUARTERS}, such as 8")
    explained = pictures(run.n, run.seed + runs)
    quarters = [epochs * quarter // QUARTERS for quarter in range(1, QUARTERS + 1)]
    rows: list[dict[str, Any]] = []
    for number, epoch in run.track((number, epoch) for number in range(runs) for epoch in quarters):
        learned = pictures(training, run.seed + number)
        subject = subject_trained_on(learned, explained, run.seed + number, epoch)
        given = (subject.model, subject.images, subject.targets)
        accuracy = accuracy_of(*given)
        maps = {name: maps_of(subject, name, run.seed) for name in PAPER_METHODS}
        for row in ranked_by_removal(
            *given, maps, imputation=partial(constant, value=0.0), batch_size=len(subject.images)
        ):
            keys = {"run": number, "epoch": epoch, "protocol": row["protocol"]}
            rows.append({**keys, "accuracy": accuracy, **row})
    areas = pd.DataFrame(rows)
    correlations = pd.DataFrame(_correlations(areas))
    wide = areas[areas.run == 0].pivot(
        index=["protocol", "epoch", "accuracy"], columns="method", values="rank"
    )
    return {
        "ranks": wide[list(PAPER_METHODS)].reset_index().rename_axis(columns=None),
        "checkpoints": _checkpoints(areas, correlations, run.seed),
        "consistency": _consistency(correlations, run.seed),
        "differences": _differences(correlations, run.seed),
        "correlations": correlations,
        "areas": areas,
    }


def first_quarter_differs_most(tables: Tables) -> bool | None:
    first, *later = tables["checkpoints"].iloc[:-1].itertuples()
    return every(*(above(first.low - row.high, first.high - row.low) for row in later))


def _correlations(areas: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Those of checkpoints of a training, of the ends of two, and of the protocols there."""
    wide = areas.pivot(index="method", columns=["run", "epoch", "protocol"], values="rank")
    last = areas.epoch.max()
    kinds = {
        (True, False, True): WITHIN,
        (False, True, True): BETWEEN,
        (True, True, False): PROTOCOL,
    }
    for one, other in combinations(wide.columns, 2):
        same = tuple(first == second for first, second in zip(one, other, strict=True))
        kind = kinds.get(same)
        if kind is None or (kind != WITHIN and one[1] != last):
            continue
        yield {
            "kind": kind,
            "run": one[0],
            "other_run": other[0],
            "protocol": "both" if kind == PROTOCOL else one[2],
            "epoch": one[1],
            "other_epoch": other[1],
            "correlation": spearman(wide[one], wide[other]),
            "moved": int((wide[one] != wide[other]).sum()),
        }


def _by_run(correlations: pd.DataFrame, kind: str) -> pd.Series:
    """The mean of each training's correlations.

    One of two trainings counts for both, so that these means are not independent.
    """
    part = correlations[correlations.kind == kind]
    other = part[part.run != part.other_run]
    both = pd.concat([part, other.assign(run=other.other_run)])
    return both.groupby("run").correlation.mean()


def _checkpoints(areas: pd.DataFrame, correlations: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Accuracy at each checkpoint, and how many ranks differ from the last one's."""
    last = areas.epoch.max()
    ends = correlations[(correlations.kind == WITHIN) & (correlations.other_epoch == last)]
    by_run = ends.groupby(["epoch", "run"], as_index=False).moved.mean()
    accuracy = areas.groupby("epoch", as_index=False).accuracy.mean()
    return accuracy.merge(over_draws(by_run, ["epoch"], "moved", seed), on="epoch", how="left")


def _consistency(correlations: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Mean correlations of rankings of each kind, with intervals over trainings."""
    rows = []
    for kind in (WITHIN, BETWEEN, PROTOCOL):
        part = correlations[correlations.kind == kind]
        by_run = _by_run(correlations, kind).reset_index().assign(rankings=kind)
        row = over_draws(by_run, ["rankings"], "correlation", seed).assign(
            pairs=len(part),
            correlation=part.correlation.mean(),
            least=part.correlation.min(),
            moved=part.moved.mean(),
            **shares(part.correlation),
        )
        rows.append(row)
    return pd.concat(rows, ignore_index=True)


def _differences(correlations: pd.DataFrame, seed: int) -> pd.DataFrame:
    """By how much checkpoints of one training correlate more than other rankings do."""
    within, parts = _by_run(correlations, WITHIN), []
    for other in (BETWEEN, PROTOCOL):
        values = {"rankings": WITHIN, "other": other}
        parts.append(pd.DataFrame(values | {"difference": within - _by_run(correlations, other)}))
    return over_draws(pd.concat(parts), ["rankings", "other"], "difference", seed)
