"""Many items of the papers on one store, one folder of files, and one page.

A cell of work is an item, or several that share most of what they compute (`Item.run_with`).
"""

import hashlib
import math
import shlex
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from attributionlab.base import (
    AttributionLabError,
    AttributionLabWarning,
    Stopped,
    attributes,
    boolean_problem,
    explained_arguments,
    integer_problem,
    make_folder,
    nearest,
    refuse_if,
    repeated_problem,
    write_atomically,
)
from attributionlab.papers.catalog import Item, Reproduction, items, reproduce, said_of
from attributionlab.runs import Cell, Outcome, Running, Store, outcomes_of, stored
from attributionlab.worlds import specs_folder

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

KIND = "reproduce"
"""Of the cells of a store."""
INDEX = "index.html"
"""The page, beside the items' files."""
ANSWERS = ("agrees", "differs", "undecided")
_Outcomes = dict[tuple[str, ...], Outcome]
"""What became of items that were run together."""
OWN = ("images", "model", "weights", "sam_weights", "fine_tuned")
"""Settings that name what a user has: photographs, networks, weights."""


@dataclass(frozen=True, eq=False)
class Attempt:
    """What became of an item.

    `drawn` is what was found, None where it failed or was not computed yet; `error` why it failed,
    one line or a traceback; `seconds` the CPU time that it took, NaN where it was not computed yet,
    which items that were run together share in equal parts.
    """

    item: Item
    drawn: Reproduction | None = None
    error: str = ""
    seconds: float = math.nan

    @property
    def status(self) -> Literal["computed", "failed", "not yet"]:
        """What it came to."""
        if self.error:
            return "failed"
        return "not yet" if self.drawn is None else "computed"

    @property
    def reason(self) -> str:
        """The line of the error that says most: its last."""
        lines = self.error.strip().splitlines()
        return lines[-1] if lines else ""

    @property
    def claims(self) -> Sequence[Mapping[str, str]]:
        """What the paper says, and whether the tables agree."""
        return [] if self.drawn is None else self.drawn.claims


@dataclass(frozen=True, eq=False)
class Reproductions:
    """What became of many items, in the order in which they were named; `command` runs them again."""

    attempts: Sequence[Attempt]
    quick: bool
    seed: int
    command: str

    def __getitem__(self, name: str) -> Reproduction:
        """What was found for an item."""
        found = next((each for each in self.attempts if each.item.name == name), None)
        if found is None or found.drawn is None:
            why = "not among the items" if found is None else found.reason or "not computed yet"
            raise AttributionLabError(f"{name!r} has no result: {why}")
        return found.drawn

    @property
    def failed(self) -> list[Attempt]:
        """Items that could not be computed."""
        return [each for each in self.attempts if each.status == "failed"]

    @property
    def missing(self) -> list[Attempt]:
        """Items that were not computed yet."""
        return [each for each in self.attempts if each.status == "not yet"]

    def to_frame(self) -> "pd.DataFrame":
        """A row for each item: how many claims agree, differ and are undecided, and CPU seconds.

        Columns: paper, item, place, title, grade, status, agrees, differs, undecided, seconds, error.
        """
        import pandas as pd

        rows = []
        for each in self.attempts:
            counted = Counter(claim["here"] for claim in each.claims)
            rows.append(
                {
                    "paper": each.item.paper,
                    "item": each.item.name,
                    **{key: getattr(each.item, key) for key in ("place", "title", "grade")},
                    "status": each.status,
                    **{answer: counted[answer] for answer in ANSWERS},
                    "seconds": each.seconds,
                    "error": each.reason,
                }
            )
        return pd.DataFrame(rows)

    def summary(self) -> "pd.DataFrame":
        """A row for each paper: items computed, failed and left, and its claims by their answers.

        A claim about several items counts once, and once for each answer where their tables answer it
        differently.
        """
        import pandas as pd

        rows = []
        for paper in dict.fromkeys(each.item.paper for each in self.attempts):
            of_paper = [each for each in self.attempts if each.item.paper == paper]
            status = Counter(each.status for each in of_paper)
            different = {
                (claim["place"], claim["paper says"], claim["here"])
                for each in of_paper
                for claim in each.claims
            }
            counted = Counter(answer for *_, answer in different)
            rows.append(
                {
                    "paper": paper,
                    "items": len(of_paper),
                    "computed": status["computed"],
                    "failed": status["failed"],
                    "left": status["not yet"],
                    **{answer: counted[answer] for answer in ANSWERS},
                }
            )
        return pd.DataFrame(rows)

    def to_html(self) -> str:
        """One page that needs nothing else, but links to the files that `save` writes beside it."""
        from attributionlab.show import reproduction_page

        return reproduction_page(self._document())

    def save(self, folder: str | Path) -> list[Path]:
        """Write each item's files, as `Reproduction.save` does, and the page ``index.html``.

        Result: what was written, the page first.
        """
        folder, written = make_folder(folder), []
        for each in self.attempts:
            if each.drawn is not None:
                written += each.drawn.save(folder, self._command_of(each.item))
        write_atomically(folder / INDEX, self.to_html())
        return [folder / INDEX, *written]

    def _command_of(self, item: Item) -> str:
        """Command that computes an item alone."""
        words = ["attributionlab", "reproduce", item.name]
        words += ["--quick"] * self.quick + ["--seed", str(self.seed)] * bool(self.seed)
        return shlex.join(words)

    def _document(self) -> dict[str, Any]:
        """What the page shows."""
        papers: dict[str, list[dict[str, Any]]] = {}
        for each in self.attempts:
            papers.setdefault(each.item.paper, []).append(self._shown(each))
        versions: dict[str, list[str]] = {}
        for each in self.attempts:
            for name, version in (each.drawn.versions if each.drawn else {}).items():
                versions.setdefault(name, []).append(version)
        return {
            "quick": self.quick,
            "seed": self.seed,
            "command": self.command,
            "summary": self.summary().to_dict("records"),
            "papers": papers,
            "versions": {name: sorted(set(found)) for name, found in versions.items()},
        }

    def _shown(self, attempt: Attempt) -> dict[str, Any]:
        """What the page shows of an item."""
        item, drawn = attempt.item, attempt.drawn
        found = drawn or Reproduction(item.name, {}, {}, [], [], {}, {})
        return {
            **attributes(item, "name", "title", "place", "grade"),
            **attributes(attempt, "status", "error", "reason", "claims"),
            **attributes(found, "notes", "run", "tables", "figures"),
            "command": self._command_of(item),
            "own": [name for name in OWN if drawn and name in item.settings()],
            "readings": item.tables,
            "files": list(drawn.files("")) if drawn else [],
        }


@explained_arguments
def reproduce_all(
    names: Sequence[str] | None = None,
    *,
    quick: bool = False,
    seed: int = 0,
    **running: Unpack[Running],
) -> Reproductions:
    """Repeat many tables and figures of the papers: an item that fails is listed, the others go on.

    Parameters
    ----------
    names : sequence of str, optional
        Items of `attributionlab.papers.catalog.items`; all of them by default.
    quick : bool
        Small images, few of them.
    seed : int
        Seed for images and methods.
    **running
        As for `attributionlab.compare`; all is computed on the CPU.

    Returns
    -------
    Reproductions

    Raises
    ------
    AttributionLabError
        For unknown items, and a folder that is something else or in use.
    """
    names = list(items()) if names is None else list(names)
    known = items()
    problems = [
        f"no item named {name!r}: {nearest(name, known)}" for name in names if name not in known
    ]
    problems += repeated_problem("items", names)
    problems += [] if names else ["items are empty: name at least one, or leave them out"]
    if str(running.get("device") or "cpu") != "cpu":
        problems += [f"device is {running['device']!r}: several items take the CPU; leave it out"]
    problems += [*boolean_problem("quick", quick), *integer_problem("seed", seed, 0)]
    refuse_if(problems)
    together = _run_together(names)

    def run(groups: Sequence[Sequence[str]]) -> tuple[_Outcomes, KeyboardInterrupt | None]:
        cells = {_cell(group, quick, seed): group for group in groups}
        with stored(running.get("out")) as store:
            line = longest_first(list(cells), store)
        done, stop = outcomes_of(line, "reproducing", running)
        return {tuple(cells[cell]): done[cell.key] for cell in cells if cell.key in done}, stop

    found, stop = run(together)
    broken = [group for group, each in found.items() if each.error and len(group) > 1]
    if broken and stop is None:  # who of them fails is seen alone
        alone, stop = run([[name] for group in broken for name in group])
        found = {group: each for group, each in found.items() if group not in broken} | alone
    again = f"attributionlab.papers.everything.reproduce_all({names}, quick={quick}, seed={seed})"
    reproductions = Reproductions(_attempts(names, found), quick, seed, again)
    if stop is not None:
        done = sum(len(group) for group in found)
        raise Stopped(
            f"{done} of {len(names)} items were done", reproductions if done else None
        ) from stop
    return reproductions


def _run_together(names: Sequence[str]) -> list[list[str]]:
    """Items in groups that share most of their work, each a cell."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(items()[name].run_with or name, []).append(name)
    return list(found.values())


def _attempts(names: Sequence[str], found: "_Outcomes") -> list[Attempt]:
    """What became of each item."""
    attempts = {name: Attempt(items()[name]) for name in names}
    for group, outcome in found.items():
        drawn = {} if outcome.error else outcome.value
        for name in group:
            seconds = outcome.seconds / len(group)
            attempts[name] = Attempt(items()[name], drawn.get(name), outcome.error, seconds)
    return list(attempts.values())


def longest_first(cells: Sequence[Cell], store: Store | None) -> list[Cell]:
    """Cells in the order in which several processes end soonest, as far as the store has measured them
    before (of other code, say); those that it does not know, which may be long, come first.
    """
    seconds: dict[str, float] = {}
    for row in store.rows(KIND) if store is not None else ():
        if cells and row.depends_on.get("quick") == cells[0].depends_on["quick"]:
            seconds[row.place["item"]] = row.seconds
    return sorted(cells, key=lambda cell: -seconds.get(cell.place["item"], math.inf))


def _cell(names: Sequence[str], quick: bool, seed: int) -> Cell:
    """Items that are run together as work for the store."""
    blocks = [asdict(items()[name]) for name in names]
    return Cell(
        KIND,
        {"item": ", ".join(names)},
        {"quick": quick, "seed": seed, "blocks": blocks, "files": _digest_of_files()}
        | {"statements": said_of(names)},
        partial(_run, tuple(names), quick, seed),
        modules=[items()[name].module for name in names],
    )


def _run(
    names: Sequence[str], quick: bool, seed: int, device: str | None
) -> dict[str, Reproduction]:
    """Compute items and draw their figures; on the CPU, whatever the worker's device is."""
    kept: dict[Any, Any] = {}
    pngs: dict[Figure, bytes] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AttributionLabWarning)
        return {
            name: reproduce(name, quick=quick, seed=seed, kept=kept).drawn(pngs) for name in names
        }


@cache
def _digest_of_files() -> str:
    """SHA-256 of what results depend on beside code: printed numbers, and the environments' files."""
    found, files = hashlib.sha256(), [*Path(__file__).parent.rglob("*.csv")]
    for kind in ("designs", "datasets"):
        files += specs_folder(kind).glob("*.toml")
    for path in sorted(files, key=lambda each: (each.parent.name, each.name)):
        found.update(f"{path.parent.name}/{path.name}".encode() + path.read_bytes())
    return found.hexdigest()[:16]
