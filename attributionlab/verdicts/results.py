"""Results of the protocol, of anybody: reports of tests and comparisons as one table, checked."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Unpack

from attributionlab.base import (
    LEAST_SHARE,
    QUESTIONS,
    AttributionLabError,
    Files,
    Stopped,
    Tally,
    checked_arguments,
    cut,
    library_versions,
    refuse_if,
)
from attributionlab.methods import METHODS, figure_label
from attributionlab.verdicts.controls import CONTROLS
from attributionlab.verdicts.faithfulness.protocol import (
    DEFAULT_ENVIRONMENTS,
    DEFAULT_IMPLEMENTATIONS,
    NAME,
    RunningMethods,
    protocol_hash,
)
from attributionlab.verdicts.faithfulness.report import gravest
from attributionlab.verdicts.faithfulness.test import compare

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

REPORTS, TABLES = 3, 1
"""Schemas of what is read: reports of tests and comparisons, and what `Results` writes."""
COLUMNS = tuple(
    f"{environment}, {implementation}"
    for environment in DEFAULT_ENVIRONMENTS
    for implementation in DEFAULT_IMPLEMENTATIONS
)
"""What the protocol asks."""


class Result(NamedTuple):
    """What a method solved under one seed.

    - `counts`: solved and asked questions by column of `COLUMNS`; a column is missing where the method
      could not be run.
    - `invalid`: columns in which a control had the wrong result.
    - `changed`: what differs from the protocol, as "n = 13".
    - `source`: SHA-256 of the method's file; None for a built-in method, and one without a file.
    """

    method: str
    seed: int
    claim: str
    n: int
    changed: Sequence[str]
    source: str | None
    counts: Mapping[str, Tally]
    invalid: Sequence[str] = ()

    @property
    def verdict(self) -> str:
        """The verdict on all columns together, counted again; without a column, no pass."""
        found = {tally.verdict(len(COLUMNS)) for tally in self.counts.values()}
        missing = {"inconclusive"} if len(self.counts) < len(COLUMNS) else set()
        return gravest(found | missing | ({"invalid"} if self.invalid else set()))


@dataclass(frozen=True, eq=False)
class Results(Files):
    """Results of the protocol, one for each method and seed.

    - `results`: in the order in which they were read.
    - `command`: how to make the table again.
    """

    results: Sequence[Result]
    command: str

    def to_frame(self) -> "pd.DataFrame":
        """One row for each method, best first, as a survey would print it.

        Columns: method (with its claim unless it is *signed*), each of `COLUMNS` (questions solved,
        "13/12" under two seeds, "-" where it was not run), verdict (a pass needs every seed), seed
        ("0/7"). The caption is in ``attrs["caption"]``.
        """
        import pandas as pd

        rows = []
        for label, own in self._by_method().items():
            texts = {column: [_solved(each, column) for each in own] for column in COLUMNS}
            texts["verdict"] = [gravest({each.verdict for each in own})]
            texts["seed"] = [str(each.seed) for each in own]
            rows.append({"method": label} | {key: "/".join(each) for key, each in texts.items()})
        table = pd.DataFrame(rows, columns=["method", *COLUMNS, "verdict", "seed"])
        table.attrs["caption"] = self.caption
        return table

    @property
    def caption(self) -> str:
        """Protocol, what was changed, n and seeds."""
        changed = list(dict.fromkeys(", ".join(each.changed) or "nothing" for each in self.results))
        numbers = " or ".join(str(n) for n in sorted({each.n for each in self.results}))
        return (
            f"Questions solved of {numbers} per column. A method passes if the exact 95 % interval of "
            f"the share solved lies at or above {LEAST_SHARE:g} in every column, under every seed. "
            f"{NAME} ({protocol_hash()[:6]}; changed: {' or '.join(changed)})."
        )

    def to_dict(self) -> dict[str, Any]:
        """Document that `to_json` writes."""
        return {
            "schema": TABLES,
            "protocol": {"name": NAME, "sha256": protocol_hash()},
            "results": [
                {
                    **each._asdict(),
                    "counts": {name: tally._asdict() for name, tally in each.counts.items()},
                    "verdict": each.verdict,
                }
                for each in self.results
            ],
            "command": self.command,
            "versions": library_versions(),
        }

    def figure(self) -> "Figure":
        """The share solved, all seeds together, by method and column."""
        import pandas as pd

        from attributionlab.show import heat_map

        rows = []
        for label, own in self._by_method().items():
            for column in COLUMNS:
                there = [each.counts[column] for each in own if column in each.counts]
                asked = sum(tally.asked for tally in there)
                share = sum(tally.solved for tally in there) / asked if asked else float("nan")
                rows.append({"method": figure_label(label), "column": column, "share": share})
        return heat_map(
            pd.DataFrame(rows),
            *("column", "method", "share"),
            title=f"Share of questions solved, {NAME}",
            label="share of questions solved",
            limits=(0, 1),
        )

    def _by_method(self) -> dict[str, list[Result]]:
        """Results of each method, the best method first."""
        found: dict[str, list[Result]] = {}
        for each in self.results:
            found.setdefault(_labelled(each), []).append(each)
        return dict(sorted(found.items(), key=lambda pair: _rank(pair[1]), reverse=True))


@checked_arguments
def read_results(paths: Sequence[str | Path]) -> Results:
    """Read what `attributionlab test`, `compare` or `results` wrote with --json, and check it.

    Each has to follow this version's protocol in all its environments and implementations; n, the size
    of images and a preset may differ, and are said. Counts decide: a verdict that contradicts them is
    refused.

    Parameters
    ----------
    paths : sequence of str or Path
        The files.

    Returns
    -------
    Results
        `to_frame`, `figure`, `to_json` and other files.

    Raises
    ------
    AttributionLabError
        For a file that is no such report, that follows another protocol, or whose verdicts are not
        those of its counts; and for two results of a method under one seed.

    Examples
    --------
    >>> import attributionlab as al
    >>> al.read_results([])
    Traceback (most recent call last):
    attributionlab.base.errors.AttributionLabError: there are no reports: name files that ...
    """
    if not paths:
        raise AttributionLabError(
            "there are no reports: name files that attributionlab test METHOD --json FILE wrote"
        )
    found = [result for path in paths for result in _read(Path(path))]
    return Results(_each_once(found), f"attributionlab.read_results({[str(p) for p in paths]})")


def protocol_results(
    seeds: Sequence[int | Literal["fresh"]] = (0, "fresh"),
    *,
    n: int = QUESTIONS,
    preset: str | None = None,
    image_size: int | None = None,
    **running: Unpack[RunningMethods],
) -> Results:
    """Run all built-in methods and controls on the whole protocol, with each seed.

    Parameters
    ----------
    seeds : sequence of int or "fresh"
        Which questions; one that nobody has chosen shows that the first was not.
    n, preset, image_size, **running
        As for `attributionlab.compare`; what differs from the protocol is said.

    Raises
    ------
    AttributionLabError
        For settings that no run could have.
    """
    command = f"attributionlab results --protocol {NAME.split()[-1]}"
    documents: list[Any] = []
    for seed in seeds:
        try:
            found = compare(
                [*METHODS, *CONTROLS],
                *(None, n, seed),
                preset=preset,
                image_size=image_size,
                **running,
            )
        except Stopped as stop:
            documents += [] if stop.result is None else [stop.result.to_dict()]
            known = Results(_each_once(_of_documents(documents)), command) if documents else None
            raise Stopped(str(stop), known) from stop
        documents.append(found.to_dict())
    return Results(_each_once(_of_documents(documents)), command)


def _labelled(result: Result) -> str:
    return result.method if result.claim == "signed" else f"{result.method} ({result.claim})"


def _solved(result: Result, column: str) -> str:
    tally = result.counts.get(column)
    if tally is None:
        return "-"
    return str(tally.solved) if tally.asked == result.n else f"{tally.solved} of {tally.asked}"


def _rank(results: Sequence[Result]) -> tuple[bool, float]:
    """Passes first, then the mean share over columns."""
    shares = [
        tally.solved / max(1, tally.asked)
        for each in results
        for tally in (each.counts.get(column, Tally(0, 1)) for column in COLUMNS)
    ]
    return all(each.verdict == "pass" for each in results), sum(shares) / len(shares)


def _of_documents(documents: Sequence[Any]) -> list[Result]:
    return [result for document in documents for result in _results(document)]


def _each_once(results: list[Result]) -> list[Result]:
    keys = [(_labelled(each), each.seed) for each in results]
    twice = {key for key in keys if keys.count(key) > 1}
    refuse_if([f"{name} has two results of seed {seed}: name one" for name, seed in sorted(twice)])
    return results


def _read(path: Path) -> list[Result]:
    """The results of a file. Raises AttributionLabError with its name for what is wrong with it."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise AttributionLabError(
            f"{path} cannot be read as JSON: {cut(str(error), 80)}"
        ) from error
    try:
        known = (document["schema"], document["protocol"]["name"], document["protocol"]["sha256"])
        readable = known[0] in (REPORTS, TABLES) and known[1:] == (NAME, protocol_hash())
        results = _results(document) if readable else []
        problems = _problems(document, results) if readable else []
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise AttributionLabError(
            f"{path} is not a report: write it with attributionlab test METHOD --json FILE"
        ) from error
    if not readable:
        raise AttributionLabError(
            f"{path} has schema {known[0]!r} and {known[1]} ({str(known[2])[:6]}); this version reads "
            f"schema {REPORTS} and {NAME} ({protocol_hash()[:6]}): run the test again with this version"
        )
    refuse_if(problems, str(path))
    return results


def _results(document: Any) -> list[Result]:
    """One for each method and seed."""
    if document["schema"] == TABLES:
        known = [{name: each[name] for name in Result._fields} for each in document["results"]]
        counts = [{name: Tally(**of) for name, of in each["counts"].items()} for each in known]
        return [Result(**each | {"counts": of}) for each, of in zip(known, counts, strict=True)]
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for each in _entries(document):
        found.setdefault((each["method"], each["seed"]), []).append(each)
    return [
        Result(
            *key,
            own[0]["claim"],
            own[0]["n"],
            list(document["protocol"]["changed"]),
            own[0]["source"]["sha256"],
            {_column(each): Tally(each["solved"], each["asked"]) for each in own},
            [_column(each) for each in own if each["verdict"] == "invalid"],
        )
        for key, own in found.items()
    ]


def _entries(document: Any) -> list[dict[str, Any]]:
    """What a test or a comparison found, one entry for each method and network."""
    if "results" in document:
        return list(document["results"])
    given = {key: document[key] for key in ("method", "claim", "n", "seed", "source")}
    return [{**each, **given} for each in document["environments"]]


def _column(entry: Mapping[str, Any]) -> str:
    """Environment and implementation; a name may say the implementation, too."""
    name = entry["name"].replace(f" ({entry['implementation']})", "", 1)
    return f"{name}, {entry['implementation']}"


def _problems(document: Any, results: Sequence[Result]) -> list[str]:
    """What keeps results of the protocol from being believed."""
    problems = []
    if document.get("one_network"):
        problems.append("all images had one network: leave --one-network out")
    for each in results:
        strange = [column for column in each.counts if column not in COLUMNS]
        if strange or (len(each.counts) < len(COLUMNS) and "environments" in document):
            missing = [column for column in COLUMNS if column not in each.counts]
            what = f"has {strange[0]}" if strange else f"lacks {missing[0]}"
            problems.append(f"{each.method} {what}: leave --env and --implementation out")
        problems += [
            f"{each.method} solves {tally.solved} of {tally.asked} in {column}, of {each.n} questions: "
            "run the test again"
            for column, tally in each.counts.items()
            if not 0 <= tally.solved <= tally.asked <= each.n
        ]
    for entry in _entries(document) if document["schema"] == REPORTS and not problems else ():
        tally, stated = Tally(entry["solved"], entry["asked"]), entry["verdict"]
        if stated not in ("invalid", tally.verdict(), tally.verdict(len(COLUMNS))):
            problems.append(
                f"{entry['method']} solves {tally.solved} of {tally.asked} in {_column(entry)}, where "
                f"the report says {stated}: run the test again"
            )
    return problems
