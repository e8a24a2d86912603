"""What a sweep would compute and what that would cost; how far one is, seen from outside."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil

from attributionlab.base import AttributionLabError, cut
from attributionlab.runs import NAME, Cell, Row, Store, Workers
from attributionlab.verdicts.sweep.cells import MAPS, Work
from attributionlab.verdicts.sweep.run import ABOUT, GIB, Plan, format_workers, reason_lines
from attributionlab.verdicts.sweep.spec import read_sweep

if TYPE_CHECKING:
    import pandas as pd

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
        seconds = _known_seconds([] if store is None else list(store.rows()))
    finally:
        if store is not None:
            store.close()
    missing = {
        kind: [cell for cell in cells if cell.key not in keys or (keys[cell.key] and retry_failed)]
        for kind, cells in plan.cells.items()
    }
    lines += [_cost_line(kind, cells, seconds) for kind, cells in missing.items() if cells]
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


def _known_seconds(rows: Sequence[Row]) -> dict[tuple[Any, ...], float]:
    """CPU seconds for an image of the cells that a store has done, by what costs alike."""
    totals: dict[tuple[Any, ...], list[float]] = {}
    for row in rows:
        for like in () if row.error else _alike(row.kind, row.place):
            total = totals.setdefault(like, [0.0, 0.0])
            total[0] += row.seconds
            total[1] += int(row.place.get("n", row.depends_on.get("n", 1)))
    return {like: seconds / images for like, (seconds, images) in totals.items()}


def _cost_line(kind: str, cells: Sequence[Cell], known: Mapping[tuple[Any, ...], float]) -> str:
    """What cells of a kind will take, as a line."""
    each = [
        known[like] * int(cell.place.get("n", cell.inputs.get("n", 1)))
        for cell in cells
        for like in [like for like in _alike(cell.kind, cell.place) if like in known][:1]
    ]
    unknown = len(cells) - len(each)
    parts = [f"about {sum(each):.3g} s of CPU time for {len(each)} cells"] if each else []
    parts += [f"unknown for {unknown}: there are none like them in the store"] if unknown else []
    return f"{kind}: {', '.join(parts)}"


def _alike(kind: str, place: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """What cells cost alike, the most alike first."""
    what = place.get("metric", place.get("method"))
    return [(kind, what, place.get("environment")), (kind, what)]


class Status(NamedTuple):
    """How far the work in a folder is."""

    kinds: "pd.DataFrame"
    """a row for each kind of cells: how many are done, failed and missing ("?" where the store does not
    say what belongs to it), and the CPU time of those that are there"""
    holder: str
    """who writes, or that nobody does"""
    rate: float | None
    """cells per second in the last minutes; None where none was finished in them"""
    errors: list[str]
    """the last ones"""
    note: str
    """why it is not known what is missing, if it is not"""


def status_of(folder: str | Path) -> Status:
    """Look at a store, whoever writes into it.

    Raises AttributionLabError for a folder without a store, and for a damaged one.
    """
    import pandas as pd

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
        kinds.append(
            {
                "kind": kind,
                "done": len(own) - failed,
                "failed": failed,
                "missing": "?" if cells is None else str(len(cells) - len(own)),
                "CPU seconds": round(sum(row.seconds for row in own), 1),
            }
        )
    recent = [row.finished for row in rows if now - row.finished < RECENT_SECONDS]
    rate = len(recent) / max(now - min(recent), 1.0) if recent else None
    last = sorted((row for row in rows if row.error), key=lambda row: row.finished)[-LAST_ERRORS:]
    errors = [
        f"{', '.join(map(str, row.place.values()))}: {cut(row.error.strip().splitlines()[-1])}"
        for row in last
    ]
    who = f"{holder[0]} works on it for {holder[1]:.1f} min" if holder else "nobody works on it"
    return Status(pd.DataFrame(kinds), who, rate, errors, note)


def _planned(about: Any) -> tuple[dict[str, set[str]], str]:
    """Keys of all cells of the sweep that a store holds, by kind; none, and why not."""
    if about is None:
        return {}, ""
    if not isinstance(about, dict) or not {"spec", "shard"} <= about.keys():
        return {}, "what is missing is not known: the store's record of its sweep is damaged"
    if about["spec"] is None:
        return {}, "the sweep holds objects of Python, so cannot be determined here"
    try:
        plan = Plan(read_sweep(about["spec"]), about["shard"])
    except AttributionLabError as error:
        return {}, f"what is missing is not known: {error}"
    return {kind: {cell.key for cell in cells} for kind, cells in plan.cells.items()}, ""
