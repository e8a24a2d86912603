"""Results as tables for the terminal; plain text carries everything, color only underlines it.

The tables of a faithfulness test are in `verdict.py`.
"""

import errno
import io
import os
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from attributionlab.base import FEWEST_QUESTIONS, LEAST_SHARE, listed, printable
from attributionlab.show import provenance, reading
from attributionlab.show.frames import data_table

if TYPE_CHECKING:
    import pandas as pd

STYLES = {
    "pass": "green",
    reading.DOUBTED: "dim green",
    "fail": "red",
    "inconclusive": "grey58",
    "invalid": "magenta",
}
"""As on the page and in figures (`style.VERDICT_COLORS`), in colors of a terminal."""
RUNS = f"lowest, highest: of several runs; {reading.AMPLIFIED}.\n"
FORMS = (
    "Rows with an implementation: the lowest score on networks with identical outputs but different "
    "gradients.\n"
)
WIDE = 104
"""Columns from which on a comparison has room for gaps, seconds and intervals."""
SHORTEST_NAME = 12
"""Columns that names of methods have at least, where they are broken."""
HEADINGS, ROOM = (14, 12, 9, 7), 24
"""Columns of headings over counts, the widest first that leaves names so many."""
NARROWEST = 80
"""Columns that tables of results need; in fewer, names and numbers would be cut."""
WIDTHS = {"prec.": 5, "rec.": 5, "F1": 5, "F1 +": 5, "F1 -": 5, "gap": 6, "s": 6}
"""Columns of numbers in a comparison."""
EXTRA = ("gap", "s")
"""Those that narrow terminals leave out."""
INTERVAL = 14


def methods_table(table: "pd.DataFrame", document: Mapping[str, Any]) -> RenderableType:
    """Methods side by side in short: one row for each, with its verdict.

    Parameters
    ----------
    table : DataFrame
        `Comparison.paper_table`.
    document : mapping
        As written by `Comparison.to_dict`.
    """
    document = printable_document(document)
    notes = f"Solved of {_questions(document)}. {MORE}\n{_not_excluded(document)}"
    return Group(solved_table(table), *_refused(document), Text(notes.rstrip("\n"), style="dim"))


def solved_table(table: "pd.DataFrame") -> RenderableType:
    """Questions solved by each method, with its verdict: columns "environment, implementation" under
    their environment.
    """
    return _Solved(table)


class _Solved:
    """Gives names their width first, and breaks them at hyphens; counts need little of it."""

    def __init__(self, table: "pd.DataFrame") -> None:
        self.table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        places: dict[str, list[str]] = {}
        for column in (name for name in self.table if ", " in name):
            places.setdefault(column.rpartition(", ")[0], []).append(column)
        rows = self.table.to_dict("records")
        names = [printable(row["method"]) for row in rows]
        verdicts = [
            Text.assemble(
                verdict_text(row["verdict"]), f" ({row['claim']})" if "claim" in row else ""
            )
            for row in rows
        ]
        solved = [
            [" ".join(str(row[column]) for column in columns) for columns in places.values()]
            for row in rows
        ]
        longest, ends = (max(map(len, each), default=0) for each in (names, verdicts))
        for width in HEADINGS:
            heads = [
                f"{_filled(printable(place), width)}\n"
                + _filled(", ".join(column.rpartition(", ")[2] for column in columns), width)
                for place, columns in places.items()
            ]
            cells = [
                max(map(len, "\n".join(each).split("\n")))
                for each in zip(heads, *solved, strict=True)
            ]
            room = options.max_width - sum(cells) - 2 * (len(cells) + 1) - ends
            if room >= min(longest, ROOM):
                break
        shown = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        room = min(longest, max(room, SHORTEST_NAME))
        shown.add_column("method", overflow="fold", width=max(room, len("method")))
        for head in heads:
            shown.add_column(head, justify="right")
        shown.add_column("verdict", no_wrap=True)
        for name, counts, verdict in zip(names, solved, verdicts, strict=True):
            shown.add_row(Text(_filled(name, room)), *counts, verdict)
        yield shown


def _filled(words: str, width: int) -> str:
    """Lines of this width, broken at blanks and hyphens; what is longer is left to the table."""
    return textwrap.fill(words, width, break_long_words=False)


MORE = (
    f"A method passes if {reading.PASS_RULE} everywhere. "
    "All scores: --verbose, --csv PATH; pictures: --maps PATH."
)


def comparison_table(document: Mapping[str, Any]) -> RenderableType:
    """Methods side by side: one row for each method, under its environment and what it explained.

    Parameters
    ----------
    document : mapping
        As written by `Comparison.to_dict`.
    """
    return _Comparison(printable_document(document))


class _Comparison:
    """Shows all columns where there is room, and says elsewhere where to find the others."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        document, wide = self.document, options.max_width >= WIDE
        results = document["results"]
        groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
        for result in results:
            groups.setdefault((result["environment"], _outputs_text(result)), []).append(result)
        columns = WIDTHS if wide else {name: WIDTHS[name] for name in WIDTHS if name not in EXTRA}
        taken = sum(columns.values()) + len(columns) + INTERVAL * wide
        verdicts = max(len(_verdict(result, document["not_excluded"])) for result in results)
        names = [result["method"] for result in results]
        names += [f"  {end['of']}" for result in results for end in result["spread"]]
        longest = max(map(len, names))
        room = min(longest, max(options.max_width - taken - verdicts - 2, SHORTEST_NAME))
        yield Text(f"{_questions(document)}\n")
        for (place, outputs), here in groups.items():
            yield Text.assemble((place, "bold"), f": {outputs}")
            yield _methods_table(here, document["not_excluded"], room, wide)
            yield ""
        yield from _refused(document)
        runs = RUNS if any(result["spread"] for result in results) else ""
        forms = FORMS if any(result.get("equivalent") for result in results) else ""
        notes = _legend(wide) + runs + forms + _not_excluded(document)
        yield Text(notes, style="dim")


def _refused(document: Mapping[str, Any]) -> Iterator[Text]:
    """What was not run, and why: once for all environments of one reason."""
    refused: dict[tuple[str, str], list[str]] = {}
    for each in document["refused"]:
        method, env = each["method"], each["environment"]
        reason = each["reason"].removeprefix(f"{method} on {env}: ")
        refused.setdefault((method, reason), []).append(env)
    for (method, reason), where in refused.items():
        yield Text(f"not run: {method} on {', '.join(where)}: {reason}", style="red")


def _questions(document: Mapping[str, Any]) -> str:
    """How much was asked, and from which seed."""
    first = document["results"][0]
    kind = "images" if document["one_network"] else "questions (one network each)"
    drawn = " (fresh)" * bool(document["seed_drawn"])
    return (
        f"{first['n']} {kind} in each environment, seed {first['seed']}{drawn}, "
        f"{provenance.protocol_text(document)}"
    )


def _not_excluded(document: Mapping[str, Any]) -> str:
    """Methods that pass in these environments, which does not exclude that they are blind."""
    passing = {each["method"] for each in document["results"] if each["verdict"] == "pass"}
    kinds: dict[str, list[str]] = {}
    for method, things in document["not_excluded"].items():
        if things and method in passing:
            kinds.setdefault(listed(things), []).append(method)
    return "".join(
        f"{reading.DOUBTED}: none of these environments hides {things}, so a pass of {listed(methods)} "
        "does not exclude maps made without them; `test` calls it inconclusive.\n"
        for things, methods in kinds.items()
    )


def _legend(wide: bool) -> str:
    where = "beside it" if wide else f"in terminals of {WIDE} columns or more, and in --json"
    gap = (
        "s: seconds for an image. gap: attributions should sum to the change of the output (LRP's: to "
        "the output); the gap is the error of that sum, in percent of the change or as a multiple of "
        "it (x), median image; masks state signs and cannot show it. "
    )
    return (
        "prec., rec., F1: all attributions, without signs; F1 +, F1 -: the positive and the negative "
        f"ones. {gap if wide else f'Gap and seconds: from {WIDE} columns on. '}Verdict: the claim, and "
        "how many questions are solved: those with an F1 above 2/3 (signed: the lowest of F1, F1 + and "
        f"F1 -). By the exact 95 % interval of the share solved ({where}): pass, if all of it is at "
        f"least {LEAST_SHARE:g}, which needs {FEWEST_QUESTIONS} questions; fail, if none of it is; "
        f"inconclusive, if {LEAST_SHARE:g} lies inside, so that more questions are needed; invalid, if "
        "a control did not do what it must. !: there are warnings, see --json or attributionlab test.\n"
    )


def _methods_table(
    results: Sequence[Mapping[str, Any]],
    not_excluded: Mapping[str, Sequence[str]],
    room: int,
    wide: bool,
) -> Table:
    """One row for each method in an environment, whose name has so many columns."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("method", overflow="fold", width=room)
    for heading, width in WIDTHS.items():
        if wide or heading not in EXTRA:
            table.add_column(heading, justify="right", no_wrap=True, min_width=width)
    table.add_column("verdict", no_wrap=True)
    if wide:
        table.add_column("95 % interval", no_wrap=True)
    for result in results:
        overall, gap = result["overall"], result.get("completeness_gap")
        extra = [
            "" if gap is None else f"{gap:.0%}" if gap < 10 else f"{gap:,.0f} x",
            f"{result['seconds_per_image']:.2g}",
        ]
        table.add_row(
            Text(textwrap.fill(result["method"], room)),
            *(_score(overall, key) for key in ("precision", "recall", "f1")),
            *(_score(result[part], "f1") for part in ("positive", "negative")),
            *extra * wide,
            _verdict(result, not_excluded),
            *[reading.share_text(result["solved_ci"])] * wide,
        )
        if result.get("equivalent") and (lowest := result["equivalent"]["lowest"]):
            count = len(result["equivalent"]["forms"])
            table.add_row(
                Text(f"  {lowest['form']}, lowest of {count} forms"),
                *[""] * (len(WIDTHS) if wide else len(WIDTHS) - len(EXTRA)),
                f"{result['claim']} F1 {lowest['claim_f1']:.2f}",
            )
        for end in result["spread"]:
            scored = [_score(end["overall"], key) for key in ("precision", "recall", "f1")]
            signs = [_score(end[part], "f1") for part in ("positive", "negative")]
            f1 = (end[result["claim_part"]] or {}).get("f1")
            claimed = "" if f1 is None else f"{result['claim']} F1 {f1:.2f}"
            table.add_row(Text(f"  {end['of']}"), *scored, *signs, *["", ""] * wide, claimed)
    return table


def _verdict(result: Mapping[str, Any], not_excluded: Mapping[str, Sequence[str]]) -> Text:
    """The verdict with the claim and the count; an exclamation mark where there are warnings."""
    return Text.assemble(
        verdict_text(reading.marked_verdict(result["verdict"], not_excluded[result["method"]])),
        f" {result['claim']} {reading.solved_text(result)}",
        "!" if result["warnings"] else "",
    )


def _outputs_text(result: Mapping[str, Any]) -> str:
    """What was explained, and what the truth was about where that is another output."""
    differs = result["truth_output"] != result["output"]
    return reading.explained(result) + (
        f", truth of the {result['truth_output']}" if differs else ""
    )


def _score(scores: Mapping[str, float] | None, key: str) -> str:
    return "" if scores is None else f"{scores[key]:.2f}"


def certificates_table(documents: Sequence[Mapping[str, Any]]) -> RenderableType:
    """What was verified, by environment and check; below it what numbers of half precision hold."""
    import pandas as pd

    documents = [printable_document(document) for document in documents]
    checks = pd.DataFrame(
        {
            "environment": "" if index else document["environment"],
            "check": check["name"],
            "tested": check["tested"],
            "mismatches": check["mismatches"],
        }
        for document in documents
        for index, check in enumerate(document["checks"])
    )
    wrong = [
        Text(f"{document['environment']}, {check['name']}: {check['detail']}", style="red")
        for document in documents
        for check in document["checks"]
        if not check["passed"]
    ]
    half = pd.DataFrame(
        {"environment": document["environment"]}
        | {each["dtype"]: _precision_text(each) for each in document["precisions"]}
        for document in documents
        if document.get("precisions")
    )
    legend = (
        "Half precision, a report, not a check: images whose logits equal those in float32, and the "
        "largest difference of a logit; proved: equal for any image in the valid box."
    )
    more = ["", data_table(half), Text(legend, style="dim")] if len(half) else []
    return Group(data_table(checks), *wrong, *more)


def _precision_text(precision: Mapping[str, Any]) -> str:
    equal = f"{precision['equal']} of {precision['images']}"
    if precision["proved"]:
        return f"{equal}, proved"
    if precision["largest_difference"] is None:
        return f"{equal}, not finite"
    if precision["equal"] == precision["images"]:
        return equal
    return f"{equal}, off by {precision['largest_difference']:,.6g}"


def notes_list(notes: Iterable[str]) -> RenderableType:
    """Sentences below each other, wrapped, each behind a dash and a blank line."""
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column()
    table.add_column(overflow="fold")
    for note in notes:
        table.add_row("")
        table.add_row("-", Text(printable(note)))
    return table


def claims_table(claims: Sequence[Mapping[str, str]]) -> RenderableType:
    """What a paper says, whether the tables agree, and why not: one row for each claim."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 1, 0))
    table.add_column("paper says", ratio=3, overflow="fold")
    table.add_column("here", no_wrap=True)
    if any(claim["reason"] for claim in claims):
        table.add_column("reason", ratio=3, overflow="fold")
    for claim in claims:
        statement = Text(printable(f"{claim['paper says']} ({claim['place']})"))
        shown = [statement, Text(claim["here"]), Text(printable(claim["reason"]))]
        table.add_row(*shown[: len(table.columns)])
    return table


def names_table(sections: Mapping[str, Mapping[str, str]]) -> RenderableType:
    """Names and what they mean, under headings."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for index, (title, names) in enumerate(sections.items()):
        table.add_row(Text(("" if index == 0 else "\n") + title), "", style="bold")
        for name, meaning in names.items():
            table.add_row(Text(f"  {printable(name)}"), Text(printable(meaning)))
    return table


def printable_document(value: Any) -> Any:
    """A document whose text has no character that ends a line, moves the cursor or hides others.

    They are written as in Python's strings. Markup stays: whoever prints text wraps it in `Text`.

    Examples
    --------
    >>> printable_document({"method": "two\\nlines"})
    {'method': 'two\\\\nlines'}
    """
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {printable_document(key): printable_document(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [printable_document(each) for each in value]
    return value


class _Console(Console):
    """Says that nobody reads on, where rich would leave with the exit status of a failed test."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def print_table(renderable: RenderableType, width: int = 100) -> None:
    """Print to standard output, as wide as the terminal, or into a file.

    There it is as wide as COLUMNS says, or so many columns, without blanks at the ends of lines.
    Lines are no narrower than `NARROWEST`: a narrower terminal breaks them, and nothing is cut.
    """
    console = _Console()
    if console.is_terminal:
        console.width = max(console.width, NARROWEST)
        console.print(renderable)
        return
    columns = os.environ.get("COLUMNS", "")
    wide = int(columns) if columns.isdecimal() else 0
    if getattr(sys.stdout, "closed", False):  # by the method that was tested
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    try:
        sys.stdout.write(as_text(renderable, max(wide or width, NARROWEST)) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:  # with its number, Typer would leave with the status of a failed test
        raise BrokenPipeError from None


def print_tables(tables: Mapping[str, "pd.DataFrame"], width: int = 140) -> None:
    """Print tables that are not empty, each under its heading, if it has one."""
    for heading, table in tables.items():
        if len(table):
            print_table(Text(f"\n{printable(heading)}" if heading else ""), width)
            print_table(data_table(table), width)


def as_text(renderable: RenderableType, width: int = 80) -> str:
    """What `print_table` prints, without color, of this width."""
    console = Console(width=width, file=io.StringIO(), color_system=None)
    with console.capture() as captured:
        console.print(renderable)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def verdict_text(verdict: str) -> Text:
    """A verdict in its color."""
    return Text(verdict, style=STYLES[verdict])
