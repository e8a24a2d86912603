"""Run a sweep: at first the maps, then the metrics that score them; all is kept as it is done."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attributionlab.base import (
    AttributionLabError,
    AttributionLabWarning,
    Files,
    Stopped,
    as_device,
    attributes,
    code_digest,
    explained_arguments,
    follow,
    integer_problem,
    number_problem,
    refuse_if,
)
from attributionlab.runs import Cell, Outcome, Store, Workers, decisive_versions, run_cells
from attributionlab.verdicts.sweep.cells import (
    MAPS,
    METRIC,
    MapsResult,
    MetricResult,
    Planned,
    planned,
    scoring,
)
from attributionlab.verdicts.sweep.spec import SweepSpec, read_sweep

if TYPE_CHECKING:
    import pandas as pd

ABOUT = "sweep"
"""Under which name a store says what sweep it holds."""
RESULTS = "results"
"""Files of the results, without their suffixes."""
GIB = 2**30
COLUMNS: Mapping[str, str] = {
    **dict.fromkeys(("kind", "environment", "method"), "object"),
    **dict.fromkeys(("seed", "n"), "int64"),
    **dict.fromkeys(("claim", "output"), "object"),
    "one_network": "bool",
    **dict.fromkeys(("metric", "axis"), "object"),
    "dose": "float64",
    "image": "Int64",
    "part": "object",
    **dict.fromkeys(("precision", "recall", "f1", "score"), "float64"),
    "higher_is_better": "boolean",
    "verdict": "object",
    "claim_f1": "float64",
    **dict.fromkeys(("solved", "asked"), "Int64"),
    **dict.fromkeys(("warnings", "status", "error"), "object"),
    "cpu_seconds": "float64",
}
"""Of the table, with their types; what does not apply is missing."""


@dataclass(frozen=True, eq=False)
class Sweep(Files):
    """The results of a sweep so far.

    `table`: as `to_frame` returns it. `counts`: for "maps" and "metric", the number of "cells" and how
    many are "done" and "failed". `document`: the sweep's specification; None if it contains Python
    objects.
    """

    table: "pd.DataFrame" = field(repr=False)
    counts: Mapping[str, Mapping[str, int]]
    document: Mapping[str, Any] | None

    @property
    def failed(self) -> int:
        """How many cells failed."""
        return sum(each["failed"] for each in self.counts.values())

    def to_frame(self) -> "pd.DataFrame":
        """One row for each image and part of maps, for each image of a metric, and for a failed cell.

        Columns: kind ("maps" or "metric"), environment, method, seed, n, claim, output, one_network,
        metric, axis and dose; image and part; precision, recall and f1 of maps; score of a metric and
        whether it is better if higher; verdict, claim_f1, solved and asked of the maps of all images;
        warnings about the cell; status ("done" or "failed") and error; cpu_seconds of the whole cell.
        All columns except the last are reproducible.
        """
        return self.table

    def to_dict(self) -> dict[str, Any]:
        """Document that `to_json` writes: the table's rows, with null for what does not apply."""
        rows = self.table.astype(object).where(self.table.notna(), None)
        return {
            "schema": 1,
            "sweep": self.document,
            "cells": self.counts,
            "versions": {**decisive_versions(), "code": code_digest()},
            "rows": rows.to_dict("records"),
        }

    def write(self, folder: Path) -> list[Path]:
        """Write the results into a folder, as CSV, Parquet and JSON."""
        writers = {".csv": self.to_csv, ".parquet": self.to_parquet, ".json": self.to_json}
        paths = [folder / f"{RESULTS}{suffix}" for suffix in writers]
        for path, write in zip(paths, writers.values(), strict=True):
            write(path)
        return paths


class Plan:
    """The cells of a sweep, or of a shard of it.

    `spec`: what is run. `shard`: which of how many shards, from 1. A maps cell and its metric cells are
    in one shard.
    """

    def __init__(self, spec: SweepSpec, shard: tuple[int, int] | None = None) -> None:
        if shard is not None and not _is_shard(shard):
            raise AttributionLabError(
                f"shard is {shard!r}: take a pair (I, N) of integers with I from 1 to N, such as "
                "(1, 4); on the command line --shard 1/4"
            )
        self.spec, self.shard = spec, shard
        every = planned(spec)
        self.combinations = [each for each in every if _in_shard(each.maps.key, shard)]
        self.maps = list({each.maps.key: each.maps for each in self.combinations}.values())
        self.metrics = [each.metric for each in self.combinations if each.metric is not None]

    @property
    def cells(self) -> Mapping[str, Sequence[Cell]]:
        """By kind."""
        return {MAPS: self.maps, METRIC: self.metrics} if self.metrics else {MAPS: self.maps}

    def describe(self) -> dict[str, Any]:
        """What a store says about it."""
        return {
            "spec": self.spec.document,
            "shard": self.shard,
            "cells": {kind: len(cells) for kind, cells in self.cells.items()},
        }

    def reasons(self, store: Store | None) -> dict[str, Counter[str]]:
        """Of each kind how many cells are "known", "failed", "without maps", since these failed, "new",
        or changed, and in what.
        """
        keys = {} if store is None else store.keys()

        def why(cell: Cell, maps: Cell) -> str:
            if cell.key in keys:
                return "failed" if keys[cell.key] else "known"
            if keys.get(maps.key):
                return "without maps"
            return "new" if store is None else store.why_missing(cell)

        found = {MAPS: Counter(why(cell, cell) for cell in self.maps)}
        if self.metrics:
            pairs = [(each.metric, each.maps) for each in self.combinations]
            found[METRIC] = Counter(why(cell, maps) for cell, maps in pairs if cell is not None)
        return found

    def result(self, store: Store) -> Sweep:
        """What the store has of it."""
        table, counts = sweep_table(self.combinations, store)
        return Sweep(table, counts, self.spec.document)


def _is_shard(shard: object) -> bool:
    return (
        isinstance(shard, tuple | list)
        and len(shard) == 2
        and not integer_problem("N", shard[1], 1)
        and not integer_problem("I", shard[0], 1, shard[1])
    )


def _in_shard(key: str, shard: tuple[int, int] | None) -> bool:
    return shard is None or int(key[:15], 16) % shard[1] == shard[0] - 1


@explained_arguments
def run_sweep(
    spec: str | Path | Mapping[str, Any],
    out: str | Path,
    *,
    jobs: int | None = 1,
    retry_failed: bool = False,
    shard: tuple[int, int] | None = None,
    scheduler: str | None = None,
    devices: Sequence[str] = (),
    cell_seconds: float | None = None,
    cell_gib: float | None = None,
    disk_gib: float | None = None,
    show_progress: bool = False,
    say: Callable[[str], object] | None = None,
) -> Sweep:
    """Run methods in environments with several seeds, and metrics on their maps.

    A cell is a method in an environment with a seed, whose n maps are made once, scored as by
    `faithfulness_test` and stored; or a metric at a dose, which scores these maps. Cells in the
    folder's store are reused, so a stopped sweep continues, and an added method costs only its own
    cells. Results are written into the folder as results.csv, .parquet and .json, also if the sweep is
    stopped.

    Parameters
    ----------
    spec : path or mapping
        A TOML file or its content: `attributionlab.verdicts.sweep.spec.read_sweep`, docs/sweeps.md.
    out : str or Path
        Folder of the store and of the results.
    jobs, retry_failed, show_progress
        As for `attributionlab.compare`.
    shard : pair of int, optional
        Compute shard I of N only, ``(I, N)``, I from 1; `merge_sweeps` brings the folders together.
    scheduler : str, optional
        Address of a dask scheduler to compute on; its workers need no access to the folder.
    devices : sequence of str
        Devices to compute on, with one process each.
    cell_seconds, cell_gib : float, optional
        Limits of a cell: time, and memory of its process in GiB. A cell that needs more fails.
    disk_gib : float, optional
        Largest size of the folder, in GiB; the sweep stops when it is reached.
    say : callable, optional
        Called with lines about what is computed, why, and by which process.

    Raises
    ------
    AttributionLabError
        For all problems of the specification at once, before anything is computed; for a folder that
        another process uses or that is not a store; and if the disk budget is reached.
    Stopped
        On Ctrl-C, with the results so far.

    Examples
    --------
    >>> import tempfile
    >>> import attributionlab as al
    >>> spec = {
    ...     "environments": [{"name": "multi-color-sum", "image_size": 12}],
    ...     "methods": ["gradcam", "random"], "metrics": ["sparsity"], "n": 2,
    ... }
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sweep = al.run_sweep(spec, folder)
    >>> sweep.counts["metric"]
    {'cells': 2, 'done': 2, 'failed': 0}
    """
    heard = say or (lambda line: None)
    refuse_if([] if disk_gib is None else number_problem("disk_gib", disk_gib, above=0))
    plan = Plan(read_sweep(spec), shard)
    _refuse_other_devices(plan.spec, devices)
    workers = Workers(jobs, cell_seconds, cell_gib, tuple(devices), scheduler)
    with Store(out) as store:
        store.describe(ABOUT, plan.describe())
        for line in reason_lines(plan.reasons(store), retry_failed=retry_failed):
            heard(line)
        heard(format_workers(workers))
        try:
            with follow("sweep", show=show_progress):
                for _ in _computed(plan, store, workers, retry_failed, disk_gib, show_progress):
                    pass
        except KeyboardInterrupt as stop:
            found = plan.result(store)
            found.write(store.folder)
            raise Stopped(_how_far(found), found) from stop
        except AttributionLabError:
            with suppress(AttributionLabError):  # a full disk has no room for results
                plan.result(store).write(store.folder)
            raise
        found = plan.result(store)
        found.write(store.folder)
    return found


def _computed(
    plan: Plan,
    store: Store,
    workers: Workers,
    retry_failed: bool,
    disk_gib: float | None,
    show_progress: bool,
) -> Iterator[None]:
    """Compute what is missing: maps, and then metrics of those maps that are there."""
    size = store.size()
    kinds: tuple[tuple[str, Callable[[], Sequence[Cell]]], ...] = (
        ("maps", lambda: plan.maps),
        ("metrics", lambda: list(_metric_cells(plan.combinations, store, workers))),
    )
    known = store.keys()
    for what, cells in kinds:
        for cell, outcome in run_cells(
            *(cells(), store, workers),
            retry_failed=retry_failed,
            arrays=False,
            what=what,
            show_progress=show_progress,
        ):
            if known.get(cell.key, True) and outcome.record is not None:
                size += len(outcome.record.text) + len(outcome.record.data or b"")
            if disk_gib is not None and size > float(disk_gib) * GIB:
                raise AttributionLabError(
                    f"{str(store.folder)!r} has {size / GIB:.3g} GiB, over the disk budget of "
                    f"{disk_gib:g}: {len(store.keys())} cells are kept; raise it (--disk) and run again"
                )
            yield


def _metric_cells(
    combinations: Iterable[Planned], store: Store, workers: Workers
) -> Iterator[Cell]:
    """Metric cells whose maps the store has, with these."""
    maps = {}
    for each in combinations:
        key = each.maps.key
        if key not in maps:
            maps[key] = store.reference(key, travels=workers.scheduler is not None)
        if each.metric is not None and (reference := maps[key]) is not None:
            yield scoring(each.metric, reference)


def _refuse_other_devices(spec: SweepSpec, devices: Sequence[str]) -> None:
    """Refuse devices of another kind than the sweep says: their results differ in rounding."""
    stated = "cpu" if spec.settings["device"] is None else str(spec.settings["device"])
    for device in devices:
        if as_device(device).type != as_device(stated).type:
            raise AttributionLabError(
                f"devices are {list(devices)} and the sweep's device is {stated!r}: set device = "
                f"{as_device(device).type!r} in it"
            )


def reason_lines(reasons: Mapping[str, Counter[str]], *, retry_failed: bool = False) -> list[str]:
    """How many cells of each kind are known, and why others are computed."""
    lines = []
    for kind, counts in reasons.items():
        parts = [
            f"{count} {why}" for why, count in counts.items() if why not in ("known", "failed")
        ]
        if counts["failed"]:
            again = "failed, computed again" if retry_failed else "failed (--retry-failed)"
            parts.insert(0, f"{counts['failed']} {again}")
        parts.insert(0, f"{counts['known']} known")
        lines.append(f"{kind}: {counts.total()} cells: {', '.join(parts)}")
    return lines


def format_workers(workers: Workers) -> str:
    """Who computes, as a line."""
    if workers.scheduler is not None:
        return f"jobs: the workers of {workers.scheduler}"
    if workers.devices:
        return f"jobs: {len(workers.devices)}, on {', '.join(workers.devices)}"
    if workers.jobs is None:
        return (
            f"jobs: this process, or {workers.most} others instead if much is left (--jobs)"
            if workers.most > 1
            else "jobs: 1, because there is one core"
        )
    return f"jobs: {workers.jobs}"


def _how_far(sweep: Sweep) -> str:
    told = [
        f"{each['done']} of {each['cells']} {kind} cells are done"
        + (f", {each['failed']} failed" if each["failed"] else "")
        for kind, each in sweep.counts.items()
    ]
    return f"{'; '.join(told)}; to continue, repeat the command"


@explained_arguments
def merge_sweeps(out: str | Path, folders: Sequence[str | Path]) -> tuple[int, Sweep | None]:
    """Merge the cells of several stores, such as shards, into one.

    Parameters
    ----------
    out : str or Path
        Folder of the target store: new, or an existing store.
    folders : sequence of str or Path
        Folders of stores, which are not changed. Damaged cells are left out.

    Returns
    -------
    (int, Sweep or None)
        The number of cells copied; and the results, written into `out` as by `run_sweep`, if all stores
        belong to the same sweep.

    Raises
    ------
    AttributionLabError
        For a folder without a store, and one that is also `out`.
    """
    places = [Path(folder) for folder in folders]
    for place in places:
        if place.resolve() == Path(out).resolve():
            raise AttributionLabError(
                f"{str(out)!r} is merged into itself: name a new folder first"
            )
        if not (place / "store.sqlite").is_file():
            raise AttributionLabError(
                f"{str(place)!r} does not hold a store: name folders of --out"
            )
    specs = []
    for place in places:
        with suppress(AttributionLabError), Store(place, writable=False) as store:
            specs.append(_spec_in(store))
    with Store(out) as store:
        taken = store.take_over(places)
        own = store.description(ABOUT)
        specs += [] if own is None else [_spec_in(store)]
        if not specs or specs[0] is None or any(each != specs[0] for each in specs):
            return taken, None
        try:
            plan = Plan(read_sweep(specs[0]))
        except AttributionLabError as error:  # a method's file is elsewhere
            text = f"the cells are merged, but no results are written: {error}"
            warnings.warn(text, AttributionLabWarning, stacklevel=3)
            return taken, None
        store.describe(ABOUT, plan.describe())
        found = plan.result(store)
        found.write(store.folder)
        return taken, found


def _spec_in(store: Store) -> Any:
    """What a store says was run; None where it says nothing, or something else."""
    about = store.description(ABOUT)
    return about.get("spec") if isinstance(about, dict) else None


def sweep_table(
    combinations: Iterable[Planned], store: Store
) -> tuple["pd.DataFrame", dict[str, dict[str, int]]]:
    """Rows of every cell that the store has, in the order of the plan, and counts by kind."""
    import pandas as pd

    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    counts = {kind: dict.fromkeys(("cells", "done", "failed"), 0) for kind in (MAPS, METRIC)}

    def add(kind: str, rows: list[dict[str, Any]]) -> None:
        counts[kind]["cells"] += 1
        if rows:
            counts[kind][rows[0]["status"]] += 1
        for row in rows:
            for name, values in columns.items():
                values.append(row.get(name))

    maps: dict[str, Outcome | None] = {}
    for each in combinations:
        key = each.maps.key
        if key not in maps:
            outcome = store.outcome(key, arrays=False)
            maps[key] = outcome and outcome._replace(record=None)
            add(MAPS, _maps_rows(each, outcome))
        if each.metric is not None:
            add(METRIC, _metric_rows(each, store.outcome(each.metric.key), maps[key]))
    table = pd.DataFrame(
        {name: pd.Series(columns[name], dtype=kind) for name, kind in COLUMNS.items()}
    )
    if not counts[METRIC]["cells"]:
        del counts[METRIC]
    return table, counts


def _cell_columns(plan: Planned, kind: str) -> dict[str, Any]:
    """What all rows of a cell have."""
    request = plan.work.request
    found = {
        "kind": kind,
        **plan.maps.place,
        **attributes(request, "n", "claim", "one_network"),
        "output": request.explain,
    }
    if kind == METRIC and plan.metric is not None:
        found |= {name: plan.metric.place.get(name) for name in ("metric", "axis", "dose")}
    return found


def _maps_rows(plan: Planned, outcome: Outcome | None) -> list[dict[str, Any]]:
    """A row for each image and part."""
    if outcome is None:
        return []
    own = _cell_columns(plan, MAPS) | {"cpu_seconds": outcome.seconds}
    if outcome.error:
        return [own | _failure(outcome.error)]
    result: MapsResult = outcome.value
    own |= attributes(result, "claim", "output", "verdict", "claim_f1", "solved", "asked")
    own |= {"status": "done", "warnings": "; ".join(result.warnings) or None}
    return [
        own | {"image": image, "part": part} | {name: each[image] for name, each in scores.items()}
        for part, scores in result.scores.items()
        for image in range(len(scores["f1"]))
    ]


def _metric_rows(
    plan: Planned, outcome: Outcome | None, maps: Outcome | None
) -> list[dict[str, Any]]:
    """A row for each image."""
    own = _cell_columns(plan, METRIC)
    if outcome is None:
        if maps is None or not maps.error:
            return []
        return [own | _failure(f"no maps: {maps.error}") | {"cpu_seconds": 0.0}]
    own |= {"cpu_seconds": outcome.seconds}
    if outcome.error:
        return [own | _failure(outcome.error)]
    result: MetricResult = outcome.value
    own |= {"higher_is_better": result.higher_is_better, "status": "done"}
    own |= {"warnings": "; ".join(result.warnings) or None}
    return [own | {"image": image, "score": score} for image, score in enumerate(result.scores)]


def _failure(error: str) -> dict[str, Any]:
    """An error as a row has it: the last line of a traceback, the whole of which is in the store."""
    return {"status": "failed", "error": error.strip().splitlines()[-1]}
