"""What the store costs: beside a cell's work, for known cells, and for one writer.

Limits: under 5 ms beside each cell; 1,000 known cells looked up in under 2 s; inserts as fast
at the end of 100,000 cells as at their start, also of a sweep.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from attributionlab.runs import NAME, Cell, Outcome, Store, Workers, run_cells
from attributionlab.runs import store as store_module
from attributionlab.runs.records import record_of
from attributionlab.verdicts import run_sweep
from attributionlab.verdicts.sweep import cells
from attributionlab.verdicts.sweep.cells import MapsResult, Work

SIZES = {"4 KiB": 1 << 12, "1 MiB": 1 << 20}
FOLDER = Path(__file__).parent


def empty(size: int, place: int, device: str | None) -> Any:
    """No work, and a record of so many bytes, another one for each cell."""
    made = np.zeros(size, np.uint8)
    made[:8] = np.array([place]).view(np.uint8)
    return made


def cells_of(count: int, size: int) -> list[Cell]:
    inputs = {"n": 8, "seed": 0, "claim": None, "settings": {"steps": 50}}
    return [
        Cell(
            "empty",
            {"method": f"method {place}", "size": size},
            inputs,
            partial(empty, size, place),
        )
        for place in range(count)
    ]


def beside_a_cell(count: int, size: int, jobs: int) -> tuple[float, float]:
    """Milliseconds a cell, of the clock and of this process; without what others take to start."""
    made = cells_of(count + 10 * jobs, size)
    with tempfile.TemporaryDirectory() as folder, Store(folder) as store:
        pairs = run_cells(made, store, Workers(jobs))
        for _ in range(10 * jobs):
            next(pairs)
        start, cpu = time.perf_counter(), time.process_time()
        for _ in pairs:
            pass
        spent = time.perf_counter() - start, time.process_time() - cpu
        return spent[0] / count * 1000, spent[1] / count * 1000


def known(count: int) -> tuple[float, float]:
    """Seconds to go through known cells: in this process, and of a whole one beside its imports."""
    script = (
        "import sys, store; from attributionlab.runs.running import run_cells\n"
        "from attributionlab.runs.store import Store\n"
        "cells = store.cells_of(int(sys.argv[2]), 1 << 12)\n"
        "with Store(sys.argv[1]) as kept: assert len(list(run_cells(cells, kept))) == len(cells)\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        with Store(folder) as store:
            for _ in run_cells(cells_of(count, 1 << 12), store):
                pass
        with Store(folder) as store:
            start = time.perf_counter()
            for _ in run_cells(cells_of(count, 1 << 12), store):
                pass
            here = time.perf_counter() - start
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(FOLDER), *sys.path])}
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, "-c", script, folder, str(count)], check=True, env=environment
        )
        return here, time.perf_counter() - start


def many(count: int) -> None:
    """Inserts a second from start to end, and what a store of that size takes to open and read."""
    outcome = Outcome(record_of(empty(SIZES["4 KiB"], 0, None)))
    with tempfile.TemporaryDirectory() as folder:
        steps = []
        with Store(folder) as store:
            made = cells_of(count, SIZES["4 KiB"])
            for first in range(0, count, count // 10):
                start = time.process_time()
                for cell in made[first : first + count // 10]:
                    store.put(cell, outcome)
                steps.append(count // 10 / (time.process_time() - start))
        size = (Path(folder) / NAME).stat().st_size
        print(
            f"{count:,} cells of 4 KiB, inserts a second of CPU: "
            f"{', '.join(f'{each:,.0f}' for each in steps)}"
        )
        print(f"  last tenth / first tenth {steps[-1] / steps[0]:.2f}; {size / 1e6:,.0f} MB")
        print(f"  at cells of 1 s one writer serves {min(steps):,.0f} workers")
        start = time.perf_counter()
        Store(folder).close()
        print(f"  opened in {time.perf_counter() - start:.3f} s")
        store_module.CHECKED_BYTES = 1 << 62
        start = time.perf_counter()
        with Store(folder) as store:
            print(
                f"  opened and looked through, as after a kill, in {time.perf_counter() - start:.2f} s"
            )
            start = time.perf_counter()
            rows = sum(1 for _ in store.rows())
            print(f"  {rows:,} rows listed in {time.perf_counter() - start:.2f} s")
            start = time.perf_counter()
            store.keys()
            print(f"  keys in {time.perf_counter() - start:.2f} s")


def swept(count: int) -> None:
    """A sweep of so many cells without work: what is beside them, as it grows."""
    found = MapsResult(
        maps=torch.zeros(1, 1, 12, 12),
        scores={"overall": {name: [1.0] for name in ("precision", "recall", "f1")}},
        **dict.fromkeys(("verdict", "claim", "output"), ""),
        claim_f1=1.0,
        solved=1,
        asked=1,
        warnings=[],
    )
    moments: list[float] = []

    def empty_maps(work: Work, device: str | None) -> MapsResult:
        moments.append(time.process_time())
        return found

    cells.compute_maps = empty_maps
    spec = {
        "environments": [{"name": "multi-color-sum", "image_size": 12}],
        "methods": ["gradcam"],
        "seeds": list(range(count)),
        "n": 1,
    }
    start = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        run_sweep(spec, folder)
    end = time.process_time()
    part = count // 10
    first, last = moments[part] - moments[0], moments[-1] - moments[-1 - part]
    print(
        f"sweep of {count:,} cells, ms of CPU a cell: "
        f"{(moments[0] - start) / count * 1000:.2f} to plan, "
        f"{first / part * 1000:.2f} in the first tenth, {last / part * 1000:.2f} in the last, "
        f"{(end - moments[-1]) / count * 1000:.2f} for the results"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=100_000, help="cells of the large store")
    large = parser.parse_args().cells
    for name, size in SIZES.items():
        for jobs in (1, 2):
            found, cpu = map(
                min, zip(*(beside_a_cell(200, size, jobs) for _ in range(3)), strict=True)
            )
            print(
                f"empty cell, record of {name}, {jobs} process(es): {found:.2f} ms, {cpu:.2f} of CPU "
                "(limit 5)"
            )
    here, whole = known(1000)
    print(f"1,000 known cells: {here:.2f} s, {whole:.2f} s as a whole process (limit 2)")
    many(large)
    swept(large)


if __name__ == "__main__":
    main()
