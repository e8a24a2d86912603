"""Leaderboards with another run of a method that optimizes in place of its first."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from attributionlab.assess import over_runs

if TYPE_CHECKING:
    import pandas as pd

    from attributionlab.leaderboard.report import Leaderboard

__all__ = ["run_name", "table_of_runs"]


def run_name(method: str, index: int) -> str:
    """What a run of a method is called; the first one is the method."""
    return f"{method}, run {index + 1}" if index else method


def table_of_runs(board: "Leaderboard") -> "pd.DataFrame":
    """`Leaderboard.ranking` with the lowest and the highest of each number below a method that
    optimizes.
    """
    import pandas as pd

    table, rows = board.ranking(), []
    for row in table.to_dict("records"):
        rows.append(row)
        found = [row]
        for other in _other_runs(board, row["method"]):
            of_run = other.ranking().set_index("method", drop=False)
            found.append(of_run.loc[row["method"]].to_dict())
        for name, end in over_runs(len(found)).items():
            ends = {key: end([float(run[key]) for run in found]) for key in row if key != "method"}
            rows.append({"method": f"{row['method']}, {name}", **ends})
    return pd.DataFrame(rows).astype(table.dtypes.to_dict())


def _other_runs(board: "Leaderboard", method: str) -> "Iterator[Leaderboard]":
    """The same with another run of a method in place of the first."""
    for index in count(1):
        run = run_name(method, index)
        if not any(run in case.areas for case in board.cases):
            return
        yield replace(
            board,
            cases=[
                case._replace(
                    areas={**case.areas, method: case.areas[run]},
                    truth={**case.truth, method: case.truth[run]},
                )
                if run in case.areas
                else case
                for case in board.cases
            ],
        )
