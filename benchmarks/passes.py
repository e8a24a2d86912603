"""What each method's pass proves: verdicts on one network, on questions, and on equal networks.

    python benchmarks/passes.py [--size 48] [--n 8] [--limit 120] [--jobs 1] [--out DIR] [METHOD ...]

One row for each built-in method and control, kept in DIR as it is found and not run again, and in
DIR/passes.csv at the end: verdict and lowest F1 of the claim where only counts of colors matter, with
one network for all images (and single-color-modulo) and on questions, and the second verdict with the
lowest score before five equivalent forms. `attributionlab compare --all --env WORLD` has the worlds.
"""

import argparse
import csv
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import attributionlab as al
from attributionlab.methods import METHODS
from attributionlab.methods.controls import CONTROLS
from attributionlab.store.cells import Cell
from attributionlab.store.running import Workers, run_cells
from attributionlab.store.store import Store

COUNTING = ("multi-color-sum", "multi-color-sum-distractors", "single-color-sum")
BEFORE = ("multi-color-sum", "multi-color-sum-distractors", "single-color-modulo")
COLUMNS = (
    *("method", "claim", "one network", "F1 (one network)", "questions", "F1 (questions)"),
    *("second verdict", "lowest form", "F1 (lowest form)", "p network", "p target", "seconds"),
)


def row_of(method: str, size: int, n: int, _: str | None) -> list[object]:
    """What is found of one method; a refusal stands in place of a verdict."""
    start = time.perf_counter()
    warnings.simplefilter("ignore")
    cells: list[object] = [method]
    try:
        places = [al.load(name, image_size=size) for name in BEFORE]
        before = al.faithfulness_test(method, places, n=n, one_network=True, diagnosed=False)
        cells += [before.claim, before.verdict, round(before.least.claim_f1, 3)]
        places = [al.load(name, image_size=size) for name in COUNTING]
        today = al.faithfulness_test(method, places, n=n, diagnosed=False, equivalent=5)
        cells += [today.verdict, round(today.least.claim_f1, 3)]
        forms = [result.robustness for result in today.environments]
        lowest = min((each.lowest for each in forms), key=lambda each: each.f1)
        readings = {each.reading for each in forms if today.verdict != "fail"} - {""}
        order = ("depends on the implementation", "undecided", "robust")
        cells += [next((each for each in order if each in readings), "")]
        cells += [lowest.form, round(lowest.f1, 3)]
        for p in ("p_network", "p_target"):
            values = [getattr(result.proof, p) for result in today.environments]
            cells.append(max((each for each in values if each is not None), default=None))
    except al.AttributionLabError as error:
        cells = [method, f"not run: {error}"]
        cells += [""] * (len(COLUMNS) - 1 - len(cells))
    return [*cells, round(time.perf_counter() - start, 1)]


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("methods", nargs="*", default=[*METHODS, *CONTROLS])
    parser.add_argument("--size", type=int, default=48)
    parser.add_argument("--n", type=int, default=8)
    parser.add_argument("--limit", type=float, default=120, help="seconds for each method")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", default="passes")
    given = parser.parse_args()
    cells = [
        Cell(
            "passes",
            {"method": method},
            {"size": given.size, "n": given.n},
            partial(row_of, method, given.size, given.n),
        )
        for method in given.methods
    ]
    rows = {}
    with Store(given.out) as store:
        for cell, outcome in run_cells(cells, store, Workers(given.jobs, seconds=given.limit)):
            row = [cell.title, f"not run: {outcome.error}"] if outcome.error else outcome.value
            rows[cell.title] = row + [""] * (len(COLUMNS) - len(row))
            print(*row, sep="  ", file=sys.stderr, flush=True)
    with open(Path(given.out) / "passes.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([COLUMNS, *(rows[method] for method in given.methods)])


if __name__ == "__main__":
    main()
