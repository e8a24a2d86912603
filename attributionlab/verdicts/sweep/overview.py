"""What a sweep would compute and what that would cost; how far one is, seen from outside."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from attributionlab.base import AttributionLabError, cut
from attributionlab.runs import NAME, Cell, Row, Store, Workers
from attributionlab.verdicts.sweep.cells import MAPS, Work
from attributionlab.verdicts.sweep.run import ABOUT, GIB, Plan, format_workers, reason_lines
from attributionlab.verdicts.sweep.spec import read_sweep

FLOAT32 = 4
COPIES = 4
"""Copies of a cell's maps in memory when they are kept: as they come, joined, written, sent."""
LAST_ERRORS = 5
RECENT_SECONDS = 600.0
"""Over which a rate is measured."""


def dry_run(
    spec: str | Path | Mapping[str, Any],
    out: str | Path,
    *,
    shard: tuple[int, int] | None = None,
    jobs: int | None = 1,
    scheduler: str | None = None,
    retry_failed: bool = False,
) -> list[str]:
    """What `run_sweep` would compute and why, and what that takes, as lines; nothing is written.

    CPU time is estimated from cells of the store that are like those to come: the mean for an image of
    the same method (or metric) in the same environment, or else of the same method anywhere. Disk is
    that of the maps, n * H * W float32 numbers a cell; memory is what a process has before any work and
    the largest cell's maps, and a method may need more.
    """
    plan = Plan(read_sweep(spec), shard)
    there = (Path(out) / NAME).is_file()
    store = Store(out, writable=False) if there else None
    try:
        lines = reason_lines(plan.reasons(store), retry_failed=retry_failed)
        keys = {} if store is None else store.keys()
        costs = _Costs([] if store is None else list(store.rows()))
    finally:
        if store is not None:
            store.close()
    missing = {
        kind: [cell for cell in cells if cell.key not in keys or (keys[cell.key] and retry_failed)]
        for kind, cells in plan.cells.items()
    }
    lines += [costs.line(kind, cells) for kind, cells in missing.items() if cells]
    coming = {cell.key for cell in missing[MAPS]}
    sizes = {each.maps.key: _maps_bytes(each.work) for each in plan.combinations}
    disk = sum(size for key, size in sizes.items() if key in coming)
    own = psutil.Process().memory_info().rss
    largest = COPIES * max((size for key, size in sizes.items() if key in coming), default=0)
    lines.append(f"disk: {_gib(disk)} of maps")
    lines.append(
        f"memory: about {_gib(own + largest)} in each process, more where a method needs it"
    )
    return [*lines, format_workers(Workers(jobs, scheduler=scheduler))]


def _maps_bytes(work: Work) -> int:
    _, height, width = work.env.image_shape
    return FLOAT32 * work.request.n * height * width


def _gib(size: float) -> str:
    return f"{size / GIB:.3g} GiB" if size >= GIB / 10 else f"{size / 2**20:.3g} MiB"


class _Costs:
    """CPU seconds of the cells in a store, for an image."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._known: dict[tuple[Any, ...], list[float]] = {}
        for row in rows:
            if row.error:
                continue
            images = int(row.place.get("n", row.depends_on.get("n", 1)))
            for like in _alike(row.kind, row.place):
                total = self._known.setdefault(like, [0.0, 0.0])
                total[0] += row.seconds
                total[1] += images

    def of(self, cell: Cell) -> float | None:
        """What a cell will take; None where there is none like it."""
        for like in _alike(cell.kind, cell.place):
            if like in self._known:
                seconds, images = self._known[like]
                return seconds / images * int(cell.place.get("n", cell.inputs.get("n", 1)))
        return None

    def line(self, kind: str, cells: Sequence[Cell]) -> str:
        """What cells of a kind will take, as a line."""
        each = [self.of(cell) for cell in cells]
        known = [seconds for seconds in each if seconds is not None]
        unknown = len(each) - len(known)
        parts = [f"about {sum(known):.3g} s of CPU time for {len(known)} cells"] if known else []
        parts += [f"unknown for {unknown}: none like them is in the store"] if unknown else []
        return f"{kind}: {', '.join(parts)}"


def _alike(kind: str, place: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """What cells cost alike, the most alike first."""
    what = place.get("metric", place.get("method"))
    return [(kind, what, place.get("environment")), (kind, what)]


class KindStatus(NamedTuple):
    """How far the cells of a kind are."""

    kind: str
    done: int
    failed: int
    missing: int | None
    """None where the store does not say what belongs to it"""
    seconds: float
    """CPU time of those that are there"""


class Status(NamedTuple):
    """How far the work in a folder is."""

    kinds: list[KindStatus]
    holder: str
    """who writes, or that nobody does"""
    rate: float | None
    """cells a second over the last minutes; None where none was finished in them"""
    errors: list[str]
    """the last ones"""
    note: str
    """why it is not known what is missing, if it is not"""


def status_of(folder: str | Path) -> Status:
    """Look at a store, whoever writes into it.

    Raises AttributionLabError for a folder without a store, and for a damaged one.
    """
    with Store(folder, writable=False) as store:
        rows = list(store.rows())
        about = store.description(ABOUT)
        holder = store.holder()
    now = time.time()
    planned, note = _planned(about)
    kinds = []
    for kind in dict.fromkeys([*planned, *(row.kind for row in rows)]):
        cells = planned.get(kind)
        own = [row for row in rows if row.kind == kind and (cells is None or row.key in cells)]
        failed = sum(bool(row.error) for row in own)
        left = None if cells is None else len(cells) - len(own)
        seconds = sum(row.seconds for row in own)
        kinds.append(KindStatus(kind, len(own) - failed, failed, left, seconds))
    recent = [row.finished for row in rows if now - row.finished < RECENT_SECONDS]
    rate = len(recent) / max(now - min(recent), 1.0) if recent else None
    last = sorted((row for row in rows if row.error), key=lambda row: row.finished)[-LAST_ERRORS:]
    errors = [
        f"{', '.join(map(str, row.place.values()))}: {cut(row.error.strip().splitlines()[-1])}"
        for row in last
    ]
    who = f"{holder[0]} works on it for {holder[1]:.1f} min" if holder else "nobody works on it"
    return Status(kinds, who, rate, errors, note)


def _planned(about: Any) -> tuple[dict[str, set[str]], str]:
    """Keys of all cells of the sweep that a store holds, by kind; none, and why not."""
    if about is None:
        return {}, ""
    if not isinstance(about, dict) or not {"spec", "shard"} <= about.keys():
        return {}, "what is missing is not known: what the store says of its sweep is damaged"
    if about["spec"] is None:
        return {}, "the sweep holds objects of Python, so what is missing is not known here"
    try:
        plan = Plan(read_sweep(about["spec"]), about["shard"])
    except AttributionLabError as error:
        return {}, f"what is missing is not known: {error}"
    return {kind: {cell.key for cell in cells} for kind, cells in plan.cells.items()}, ""
