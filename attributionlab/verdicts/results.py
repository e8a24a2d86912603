"""Results of the protocol, of anybody: reports of tests and comparisons as one table, checked."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Unpack, get_args

from attributionlab.base import (
    HIGHEST_SEED,
    MOST_IMAGES,
    QUESTIONS,
    AttributionLabError,
    Files,
    Stopped,
    Tally,
    checked_arguments,
    cut,
    drawn_seed,
    integer_problem,
    library_versions,
    printable,
    refuse_if,
    repeated_problem,
)
from attributionlab.methods import METHODS, figure_label
from attributionlab.show import INSIDE, PASS_RULE
from attributionlab.verdicts.controls import CONTROLS
from attributionlab.verdicts.faithfulness.protocol import (
    DEFAULT_ENVIRONMENTS,
    DEFAULT_IMPLEMENTATIONS,
    NAME,
    Claim,
    RunningMethods,
    protocol_hash,
)
from attributionlab.verdicts.faithfulness.report import gravest, labelled
from attributionlab.verdicts.faithfulness.test import compare

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

REPORTS, TABLES = 3, 1
"""Schemas of the documents that are read: of tests and comparisons, and of `Results`."""
COLUMNS = tuple(
    f"{environment}, {implementation}"
    for environment in DEFAULT_ENVIRONMENTS
    for implementation in DEFAULT_IMPLEMENTATIONS
)
"""Environments and implementations that the protocol asks."""
MAY_DIFFER = ("n = ", "image_size = ", "preset = ")
"""Changes with which a report still counts as one of the protocol; the caption names them."""


class Result(NamedTuple):
    """What a method solved with one seed.

    - `method`: its name, with the settings that a user set.
    - `changed`: what differs from the protocol, as "n = 13".
    - `source`: the fingerprint of the method's code, with what its file imports; None for a built-in
      method.
    - `counts`: solved and asked questions by column of `COLUMNS`.
    - `refused`: columns in which the method could not be run; with those of `counts` they are all.
    - `invalid`: columns in which a control had the wrong result.
    """

    method: str
    claim: str
    seed: int
    n: int
    changed: Sequence[str]
    source: str | None
    counts: Mapping[str, Tally]
    refused: Sequence[str] = ()
    invalid: Sequence[str] = ()

    @property
    def verdict(self) -> str:
        """The verdict on all columns, computed from the counts; no pass if a column was refused."""
        found = {tally.verdict(len(COLUMNS)) for tally in self.counts.values()}
        missing = {"inconclusive"} if self.refused else set()
        return gravest(found | missing | ({"invalid"} if self.invalid else set()))

    @property
    def share(self) -> float:
        """The mean share solved over all columns; 0 where the method could not be run."""
        return sum(each.solved / max(1, each.asked) for each in self.counts.values()) / len(COLUMNS)


@dataclass(frozen=True, eq=False)
class Results(Files):
    """Results of the protocol, one for each method and seed.

    - `results`: in the order in which they were read.
    - `command`: how to make the table again.
    """

    results: Sequence[Result]
    command: str

    def to_frame(self) -> "pd.DataFrame":
        """One row for each method, best first.

        Columns: method (with its claim unless it is *signed*, and its source where several files have a
        method of the name), each of `COLUMNS` (questions solved, "13/12" with two seeds, "not run"),
        verdict (a pass needs every seed), seed ("0/7"). The caption is in ``attrs["caption"]``.
        """
        import pandas as pd

        rows = []
        for label, own in self._by_method().items():
            texts = {column: [self._solved(each, column) for each in own] for column in COLUMNS}
            texts["verdict"] = [gravest({each.verdict for each in own})]
            texts["seed"] = [str(each.seed) for each in own]
            rows.append({"method": label} | {key: "/".join(each) for key, each in texts.items()})
        table = pd.DataFrame(rows, columns=["method", *COLUMNS, "verdict", "seed"])
        table.attrs["caption"] = self.caption
        return table

    @property
    def caption(self) -> str:
        """n, what a pass needs, protocol, changes to it, and seeds in the order of the cells."""
        changed = list(dict.fromkeys(", ".join(each.changed) or "nothing" for each in self.results))
        numbers = " or ".join(str(n) for n in sorted({each.n for each in self.results}))
        seeds = ", ".join(str(seed) for seed in sorted({each.seed for each in self.results}))
        return (
            f"Questions solved of {numbers} per column. A method passes if {PASS_RULE} in every "
            f"column, under every seed. {NAME} ({protocol_hash()[:6]}; "
            f"changed: {' or '.join(changed)}). Seeds: {seeds}."
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

        methods, names, rows = self._by_method(), dict[str, str](), []
        for label, own in methods.items():
            plain = _labelled(own[0])
            names[label] = figure_label(plain) + label.removeprefix(plain)
        short = Counter(names.values())
        for label, own in methods.items():
            name = names[label] if short[names[label]] == 1 else label
            for column in COLUMNS:
                there = [each.counts[column] for each in own if column in each.counts]
                asked = sum(tally.asked for tally in there)
                share = sum(tally.solved for tally in there) / asked if asked else float("nan")
                rows.append({"method": name, "column": column, "share": share})
        return heat_map(
            pd.DataFrame(rows),
            "column",
            "method",
            "share",
            title=f"Share of questions solved, {NAME}",
            label="share of questions solved",
            limits=(0, 1),
        )

    def _by_method(self) -> dict[str, list[Result]]:
        """Results of each method by seed, the best method first: passes, then by the share solved."""
        found: dict[tuple[str, str | None], list[Result]] = {}
        for each in sorted(self.results, key=lambda result: result.seed):
            found.setdefault((_labelled(each), each.source), []).append(each)
        names = Counter(name for name, _ in found)
        order = sorted(
            found.items(),
            key=lambda pair: (
                all(each.verdict == "pass" for each in pair[1]),
                sum(each.share for each in pair[1]) / len(pair[1]),
            ),
            reverse=True,
        )
        return {
            f"{name}, {source[:6] if source else 'built in'}" if names[name] > 1 else name: own
            for (name, source), own in order
        }

    def _solved(self, result: Result, column: str) -> str:
        tally = result.counts.get(column)
        if tally is None:
            return "not run"
        plain = tally.asked == result.n and len({each.n for each in self.results}) == 1
        return str(tally.solved) if plain else f"{tally.solved} of {tally.asked}"


@checked_arguments
def read_results(paths: Sequence[str | Path]) -> Results:
    """Read what `attributionlab test`, `compare` or `results` wrote with --json, and check it.

    Each file must follow this version's protocol in all its environments and implementations; n, image
    size and preset may differ and are then stated. A verdict that contradicts its counts is refused.

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
        For a file that is not such a report, follows another protocol, or has verdicts that contradict
        its counts; and for two results of one method with the same seed.

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
    keys = Counter((_labelled(each), each.seed, each.source) for each in found)
    refuse_if(
        [
            f"{name} has two results of seed {seed}: leave one of the two files out"
            for (name, seed, _), count in keys.items()
            if count > 1
        ]
    )
    return Results(found, f"attributionlab.read_results({[str(p) for p in paths]})")


@checked_arguments
def protocol_results(
    seeds: Sequence[int | Literal["fresh"]] = (0, "fresh"),
    *,
    n: int = QUESTIONS,
    preset: str | None = None,
    image_size: int | None = None,
    **running: Unpack[RunningMethods],
) -> Results:
    """Run all built-in methods and controls as the protocol requires, for each seed.

    Parameters
    ----------
    seeds : sequence of int or "fresh"
        Seeds of the questions. "fresh" draws one, so that nobody can have chosen it.
    n, preset, image_size, **running
        As for `attributionlab.compare`; the caption names differences from the protocol.

    Returns
    -------
    Results
        One result for each method and seed.

    Raises
    ------
    AttributionLabError
        For impossible settings, and for a seed that is named twice.
    """
    numbers = [drawn_seed(seed)[0] for seed in seeds]
    refuse_if(["seeds are empty: name at least one"] if not numbers else [])
    refuse_if(repeated_problem("seeds", [str(seed) for seed in numbers]))
    asked = {"n": n, "preset": preset, "image_size": image_size}
    said = "".join(f", {name}={value!r}" for name, value in asked.items() if value is not None)
    command = f"attributionlab.protocol_results({numbers}{said})"
    documents: list[Any] = []
    for seed in numbers:
        try:
            found = compare([*METHODS, *CONTROLS], None, seed=seed, **asked, **running)  # type: ignore[arg-type]
        except Stopped as stop:
            documents += [] if stop.result is None else [stop.result.to_dict()]
            known = Results(_of_documents(documents), command) if documents else None
            raise Stopped(str(stop), known) from stop
        documents.append(found.to_dict())
    return Results(_of_documents(documents), command)


def _labelled(result: Result) -> str:
    method = printable(result.method)
    return method if result.claim == "signed" else f"{method} ({result.claim})"


def _of_documents(documents: Sequence[Any]) -> list[Result]:
    return [result for document in documents for result in _results(document)]


def _read(path: Path) -> list[Result]:
    """The results of a file. Raises AttributionLabError with its name for what is wrong with it."""
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
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
    """One for each method, claim and seed."""
    if document["schema"] == TABLES:
        known = [{name: each[name] for name in Result._fields} for each in document["results"]]
        counts = [{name: Tally(**of) for name, of in each["counts"].items()} for each in known]
        return [Result(**each | {"counts": of}) for each, of in zip(known, counts, strict=True)]
    found: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for each in _entries(document):
        found.setdefault((each["method"], each["claim"], each["seed"]), []).append(each)
    refused: dict[str, list[str]] = {}
    for each in document.get("refused", ()):
        refused.setdefault(each["method"], []).append(_column(each["environment"]))
    first = next(iter(found.values()), [{}])[0]
    for method in refused.keys() - {method for method, _, _ in found}:
        found[method, "signed", first["seed"]] = []
    return [
        Result(
            *key,
            first["n"],
            list(document["protocol"]["changed"]),
            own[0]["source"]["fingerprint"] if own else None,
            {_column(each["name"], each): Tally(each["solved"], each["asked"]) for each in own},
            refused.get(key[0], []),
            [_column(each["name"], each) for each in own if each["verdict"] == "invalid"],
        )
        for key, own in found.items()
    ]


def _entries(document: Any) -> list[dict[str, Any]]:
    """What a test or a comparison found, one entry for each method and network."""
    if "results" in document:
        return list(document["results"])
    given = {key: document[key] for key in ("claim", "n", "seed", "source", "warnings")}
    given["method"] = labelled(document["method"], document["settings"])
    return [{**each, **given} for each in document["environments"]]


def _ran_inside(entry: Mapping[str, Any]) -> bool:
    """Whether a user's method ran beside the truth, which code may look for."""
    return any(str(each).endswith(INSIDE) for each in entry["warnings"])


def _column(name: str, entry: Mapping[str, Any] | None = None) -> str:
    """Environment and implementation; a name states the implementation unless it is the paper's."""
    name, _, said = name.removesuffix(")").partition(" (")
    return f"{name}, {entry['implementation'] if entry else said or DEFAULT_IMPLEMENTATIONS[0]}"


def _problems(document: Any, results: Sequence[Result]) -> list[str]:
    """Reasons why a document does not count as results of the protocol."""
    problems = [] if results else ["it holds no results: run the test again"]
    if document.get("one_network"):
        problems.append("all images had one network: leave --one-network out")
    for each in results:
        problems += [f"{each.method}: {problem}" for problem in _values(each)]
    if problems:
        return problems
    for each in results:
        there = [*each.counts, *each.refused]
        strange = [column for column in (*there, *each.invalid) if column not in COLUMNS]
        missing = [column for column in COLUMNS if column not in there]
        if strange or missing:
            what = f"has {strange[0]}" if strange else f"lacks {missing[0]}"
            problems.append(f"{each.method} {what}: leave --env and --implementation out")
        problems += repeated_problem(f"{each.method}: columns", there)
        said = [change for change in each.changed if change.startswith("n = ")]
        if said != [f"n = {each.n}"] * (each.n != QUESTIONS):
            problems.append(
                f"{each.method} has n = {each.n}, but states {said}: run the test again"
            )
        problems += [
            f"{each.method} was run with {change!r}: leave this option out"
            for change in each.changed
            if not change.startswith(MAY_DIFFER)
        ]
    return problems + _contradictions(document, results)


def _values(result: Result) -> list[str]:
    """Values that a report cannot have."""
    problems = integer_problem("n", result.n, 1, MOST_IMAGES)
    problems += integer_problem("seed", result.seed, 0, HIGHEST_SEED)
    texts = [result.method, *result.changed, *result.refused, *result.invalid, result.source or ""]
    if result.claim not in get_args(Claim):
        problems.append(f"claim is {result.claim!r}: run the test again")
    problems += [
        f"it has {cut(repr(each), 60)} in place of a text: run the test again"
        for each in texts
        if not isinstance(each, str)
    ]
    for column, (solved, asked) in result.counts.items() if not problems else ():
        problems += integer_problem(f"questions asked in {column}", asked, 0, result.n)
        most = asked if isinstance(asked, int) else 0
        problems += integer_problem(f"questions solved in {column}", solved, 0, most)
    return problems


def _contradictions(document: Any, results: Sequence[Result]) -> list[str]:
    """Verdicts that contradict the counts."""
    problems = []
    if document["schema"] == TABLES:
        stated = zip(results, [each["verdict"] for each in document["results"]], strict=True)
        return [
            f"{each.method} is stated as {said}, but its counts say {each.verdict}: run the test again"
            for each, said in stated
            if said != each.verdict
        ]
    entries = _entries(document)
    for method in dict.fromkeys(each["method"] for each in entries if _ran_inside(each)):
        problems.append(
            f"{method} ran in the process that knows the truth: leave --no-isolation out"
        )
    if len(entries) != sum(len(each.counts) for each in results):
        problems.append("a method has two entries of one network and seed: run the test again")
    for entry in entries:
        tally, said = Tally(entry["solved"], entry["asked"]), entry["verdict"]
        if said not in ("invalid", tally.verdict(), tally.verdict(len(COLUMNS))):
            problems.append(
                f"{entry['method']} solves {tally.solved} of {tally.asked} in "
                f"{_column(entry['name'], entry)}, but the report says {said}: run the test again"
            )
    return problems
