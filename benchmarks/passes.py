"""What each method's pass proves: verdicts on one network, on questions, and on equal networks.

    python benchmarks/passes.py [--size 48] [--n 8] [--limit 120] [--out passes.csv] [METHOD ...]

One row for each built-in method and control, written as it is found: verdict and lowest F1 of the
claim in the default environments of before (one network for all images, single-color-modulo among them)
and of today (questions), and the second verdict with the lowest score before five equivalent forms.
"""

import argparse
import csv
import signal
import sys
import time
import warnings

import torch

import attributionlab as al
from attributionlab.faithfulness.test import DEFAULT_ENVIRONMENTS
from attributionlab.methods import METHODS
from attributionlab.methods.controls import CONTROLS

BEFORE = ("multi-color-sum", "multi-color-sum-distractors", "single-color-modulo")
COLUMNS = (
    *("method", "claim", "one network", "F1 (one network)", "questions", "F1 (questions)"),
    *("second verdict", "lowest form", "F1 (lowest form)", "p network", "p target", "seconds"),
)


def row_of(method: str, size: int, n: int) -> list[object]:
    """What is found of one method; a refusal stands in place of a verdict."""
    start = time.perf_counter()
    cells: list[object] = [method]
    try:
        places = [al.load(name, image_size=size) for name in BEFORE]
        before = al.faithfulness_test(method, places, n=n, one_network=True, diagnosed=False)
        cells += [before.claim, before.verdict, round(before.least.claim_f1, 3)]
        places = [al.load(name, image_size=size) for name in DEFAULT_ENVIRONMENTS]
        today = al.faithfulness_test(method, places, n=n, diagnosed=False, equivalent=5)
        cells += [today.verdict, round(today.least.claim_f1, 3)]
        forms = [result.robustness for result in today.environments]
        lowest = min((each.lowest for each in forms), key=lambda each: each.f1)
        readings = {each.reading for each in forms} - {""}
        order = ("depends on the implementation", "undecided", "robust")
        cells += [next((each for each in order if each in readings), "")]
        cells += [lowest.form, round(lowest.f1, 3)]
        for p in ("p_network", "p_target"):
            values = [getattr(result.proof, p) for result in today.environments]
            cells.append(max((each for each in values if each is not None), default=None))
    except (al.AttributionLabError, TimeoutError) as error:
        cells = [method, f"not run: {error}"]
        cells += [""] * (len(COLUMNS) - 1 - len(cells))
    return [*cells, round(time.perf_counter() - start, 1)]


def stop(*_: object) -> None:
    """End a method that takes too long."""
    raise TimeoutError("took longer than the limit")


def main() -> None:
    """Write the table row by row."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("methods", nargs="*", default=[*METHODS, *CONTROLS])
    parser.add_argument("--size", type=int, default=48)
    parser.add_argument("--n", type=int, default=8)
    parser.add_argument("--limit", type=int, default=120, help="seconds for each method")
    parser.add_argument("--out", default="passes.csv")
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, stop)
    with open(given.out, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        for method in given.methods:
            signal.alarm(given.limit)
            row = row_of(method, given.size, given.n)
            signal.alarm(0)
            table.writerow(row)
            file.flush()
            print(*row, sep="  ", file=sys.stderr)


if __name__ == "__main__":
    main()
