"""A whole command with one process and with two on two idle cores: seconds, their ratio, and whether
the tables are equal.

    python benchmarks/workers.py [compare --all --quick]
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd

COMMAND = ("compare", "--all", "--quick")
LIMIT = 1.7


def timed(command: list[str], jobs: int) -> tuple[float, pd.DataFrame]:
    """Seconds of a run into a new store, and its table without its own times."""
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.csv"
        start = time.perf_counter()
        subprocess.run(
            [
                *(sys.executable, "-m", "attributionlab", *command),
                *("--jobs", str(jobs), "--csv", str(table)),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        seconds = time.perf_counter() - start
        rows = pd.read_csv(table)
    return seconds, rows.loc[:, ~rows.columns.str.contains("seconds")]


def main() -> None:
    command = sys.argv[1:] or [*COMMAND]
    two, of_two = timed(command, 2)
    one, of_one = timed(command, 1)
    ratio = f"{one / two:.2f} times as fast (limit: {LIMIT})"
    print(f"{' '.join(command)}: {one:.0f} s with one process, {two:.0f} s with two: {ratio}")
    print(f"tables of {len(of_one):,} rows, equal: {of_one.equals(of_two)}")


if __name__ == "__main__":
    main()
