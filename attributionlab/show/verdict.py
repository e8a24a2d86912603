"""A faithfulness test as people read it in a terminal: at 80 columns, and without color."""

import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from attributionlab.base import GAMMA, LEAST_SHARE, cut, listed, score_text
from attributionlab.show import provenance, reading
from attributionlab.show.asked import needed_text
from attributionlab.show.frames import data_table, in_latex, name_lines
from attributionlab.show.proof import has_no_questions, labels, proof_sentence
from attributionlab.show.terminal import printable_document, verdict_text

SHOWN_HINTS = 2
SOLVED = "solved, 95 % interval"
NOTEBOOK = 100
"""Columns of a table in a notebook."""
TO_CONFIRM = "  to confirm"
ASKED_FOR = ("by feature", "seeds", "drift", "  to load them", "equivalent")
"""Titles of notes of which there are none unless somebody asks for them."""
MORE = "More: --verbose, report.text(); pictures: {}."
ROW = "\n(read its row: one environment rarely hides enough for a pass)"
"""Beside the command of one environment, whose verdict may be inconclusive where its row is right."""
FOOT = (
    "Solved: every part of the claim has an F1 above 2/3. Interval: 95 %, of the share solved; a pass "
    f"needs all of it at {LEAST_SHARE:g} or above, a failure all of it below. Passing is necessary for "
    "faithfulness, never sufficient."
)


def verdict_table(document: Mapping[str, Any]) -> RenderableType:
    """A faithfulness test in short: a row for each environment, a column for each implementation.

    Below it stand what would decide, the likely cause, what to do next, and where all else is.

    Parameters
    ----------
    document : mapping
        As written by `FaithfulnessReport.to_dict`.
    """
    reading.refuse_older(document)
    document = printable_document(document)
    truths = truths_table(document["environments"])
    held = [] if truths is None else ["", truths]
    page = re.search(r" --html[= ]('[^']*'|\S+)", document["command"])
    more = MORE.format(page[1] if page else "--html PATH")
    below = Text(f"{_questions(document)}. {more}", style="dim")
    notes = _titled(_essential(document))
    needed = needed_text(document).replace(" of ", "/")
    passes = f"{needed} everywhere, intervals" if needed else "every interval"
    passes = f" (a pass needs {passes} at {LEAST_SHARE:g} or above)"
    head = _head(document, passes * (document["verdict"] != "invalid"))
    return Group(head, _Counts(document), *held, "", notes, below)


def report_table(document: Mapping[str, Any]) -> RenderableType:
    """A faithfulness test: one row for each environment and part, then what there is to know of it.

    Parameters
    ----------
    document : mapping
        As written by `FaithfulnessReport.to_dict`.
    """
    reading.refuse_older(document)
    document = printable_document(document)
    truths = truths_table(document["environments"])
    held = [] if truths is None else [truths, ""]
    notes = _titled(_notes(document))
    head = _head(document, f"\n{_questions(document)}")
    below = Text(FOOT, style="dim")
    return Group(head, "", _scores_table(document), "", *held, notes, "", below)


def _head(document: Mapping[str, Any], more: str) -> Text:
    """The verdict, what differs between implementations, and what is excluded."""
    return Text.assemble(
        (cut(provenance.method_text(document)), "bold"),
        ": ",
        verdict_text(document["verdict"]),
        f", {second}" if (second := reading.second_verdict(document)) else "",
        more,
        *(
            f"\n{text}"
            for text in (reading.implementations_text(document), proof_sentence(document))
            if text
        ),
    )


def _titled(notes: Iterable[tuple[str, str]]) -> Table:
    """Notes, each behind its title."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for title, text in notes:
        table.add_row(title, Text(text))
    return table


class _Counts:
    """Questions solved, the interval of their share, and the verdict: a column an implementation.

    At 80 columns a row has a line, with two implementations; where verdicts are long words, names of
    environments are broken at hyphens.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        environments = document["environments"]
        self.written = list(dict.fromkeys(result["implementation"] for result in environments))
        counts = [len(reading.solved_text(result)) for result in environments]
        self.wide = max(counts) - len(" of ") + len("/")
        self.rows = {
            name: [self._cell(cells.get(each)) for each in self.written]
            for name, cells in reading.in_rows(environments).items()
        }

    def _cell(self, result: Mapping[str, Any] | None) -> Text:
        if result is None:
            return Text("")
        count = reading.solved_text(result).replace(" of ", "/")
        interval = reading.share_text(result["solved_ci"]).replace(" to", ",").replace("0.", ".")
        return Text.assemble(f"{count:>{self.wide}} [{interval}] ", verdict_text(result["verdict"]))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = zip(self.written, *self.rows.values(), strict=True)
        taken = sum(1 + max(map(len, column)) for column in columns)
        heads = [SOLVED, *self.rows]
        heading, *names = ("\n".join(name_lines(each, options.max_width - taken)) for each in heads)
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
        table.add_column(heading, overflow="fold")
        for implementation in self.written:
            table.add_column(implementation, no_wrap=True)
        for name, cells in zip(names, self.rows.values(), strict=True):
            table.add_row(Text(name), *cells)
        yield table


def _essential(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What a reader of a verdict needs beside it, and what was asked for."""
    kept: dict[str, int | None] = {"note": None, "no verdict": None, **dict.fromkeys(ASKED_FOR)}
    if document["verdict"] == "inconclusive":
        kept["inconclusive"] = 1
    if document["verdict"] != "pass":
        kept |= {"likely cause": 1, TO_CONFIRM: 1}
    grouped: dict[str, list[str]] = {}
    title = ""
    for own, text in _notes(document):
        title = own or title  # the first of several has it
        grouped.setdefault(title, []).append(text)
    for title, texts in grouped.items():
        for index, text in enumerate(texts[: kept[title]] if title in kept else []):
            if title == TO_CONFIRM:  # what to do, without what would be seen then
                confirm = document["hints"][0]["confirm"]
                command = reading.next_command(confirm, document["command"])
                step = confirm.partition("; confirmed")[0]
                if " --html" in document["command"]:
                    step = step.replace(" (`--html PATH`)", "").replace("`--html PATH`", "the page")
                row = ROW * (" --env " in step and "--one-network" not in step)
                yield "next", _copyable(f"{step}; then `{command}`" if command else step) + row
            else:
                yield "" if index and title in ASKED_FOR else title, text


def _copyable(step: str) -> str:
    """What to do, with each command alone on its line."""
    parts = re.split("`(attributionlab[^`]*)`", step)
    lines = [part if index % 2 else part.strip(" ,") for index, part in enumerate(parts)]
    return "\n".join(line.replace("`", "") for line in lines if line)


def report_fragment(document: Mapping[str, Any]) -> str:
    """A faithfulness test in short for a notebook, as HTML with colors; `faithfulness_page` has all."""
    console = Console(record=True, file=io.StringIO(), width=NOTEBOOK)
    console.print(verdict_table(document))
    frame = '<pre style="line-height: normal; font-family: monospace">{code}</pre>'
    return console.export_html(inline_styles=True, code_format=frame)


def _questions(document: Mapping[str, Any]) -> str:
    """What was asked, how often, and by which protocol."""
    kind = "images" if has_no_questions(document) else "questions"
    claim = document["claim"]
    return (
        f"Asked: {reading.CLAIMED[claim]} (claim {claim}), {document['n']} {kind}{of_size(document)} "
        f"each, {provenance.seed_text(document)}, {provenance.protocol_text(document)}"
    )


def of_size(document: Mapping[str, Any]) -> str:
    """Size of the images, where all environments have the same."""
    constants = [result["constants"] for result in document["environments"]]
    lengths = {each.get("length") for each in constants}
    if len(lengths) == 1 and lengths != {None}:  # worlds of tokens
        return " of {} tokens".format(*lengths)
    stated = [each["image_size"] for each in constants]
    sizes = {tuple(size) if isinstance(size, list) else (size, size) for size in stated}
    return " of {} x {} pixels".format(*sizes.pop()) if len(sizes) == 1 else ""


def _scores_table(document: Mapping[str, Any]) -> Table:
    """The count of each environment, which decides, and below it the means of its parts."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("environment", overflow="fold")
    for heading in ("prec.", "rec.", "F1", "solved", "interval"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    environments = document["environments"]
    for place, result in zip(labels(environments), environments, strict=True):
        count = reading.solved_text(result), reading.share_text(result["solved_ci"])
        table.add_row(Text(place), *[""] * 3, *count, verdict_text(result["verdict"]))
        for name in reading.PARTS:
            if result.get(name) is None:
                continue
            scores = result[name]
            means = [f"{scores[key]:.2f}" for key in ("precision", "recall")]
            table.add_row(Text(f"  {name}"), *means, score_text(scores["f1"], GAMMA))
            for end in result["spread"]:
                if end[name] is None:  # the first images, which other runs have, lack this part
                    continue
                cells = [f"{end[name][key]:.2f}" for key in ("precision", "recall", "f1")]
                table.add_row(Text(f"    {end['of'].split()[0]}", style="dim"), *cells)
        if result.get("ceiling_f1") is not None:
            table.add_row("    best possible", "", "", f"{result['ceiling_f1']:.2f}")
    return table


def _notes(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Notes below the table, each under its title."""
    named = list(zip(labels(document["environments"]), document["environments"], strict=True))
    if few := reading.few_images_text(document["n"]):
        yield "note", few
    if (told := provenance.given_text(document)) and not document["source"].get("built_in"):
        yield "note", told  # what built-in methods are given is known
    yield from (("note", each) for each in document["warnings"] if each.endswith(provenance.INSIDE))
    for label, result in named:
        if result["verdict"] == "invalid":
            yield "no verdict", f"{label}: {result['reason']}"
        if result["verdict"] == "inconclusive":
            yield "inconclusive", reading.undecided(label, result)
    for hint in document["hints"][:SHOWN_HINTS]:
        yield "likely cause", hint["says"].replace("`", "")
        yield TO_CONFIRM, hint["confirm"].partition(reading.CODE)[0].replace("`", "")
    for title, text_of in {**reading.SHOWN, **reading.NOTES}.items():
        said: dict[str, list[str]] = {}  # environments of which the same is said
        for label, result in named:
            said.setdefault(text_of(result), []).append(label)
        for text, where in said.items():
            if text:
                yield title, f"{listed(where)}: {text}"
                title = ""
    if text := reading.controls_text(document):
        yield "controls", text


def truths_table(environments: Sequence[Mapping[str, Any]]) -> RenderableType | None:
    """One row for each environment and definition, None without any definition."""
    import pandas as pd

    rows = [
        {
            "environment": "" if index else place,
            "definition of the truth": scores["definition"],
            "known by": scores["source"],
            **{heading: scores[name] for name, heading in reading.TRUTH_COLUMNS.items()},
        }
        for place, result in zip(labels(environments), environments, strict=True)
        for index, scores in enumerate(result["truths"])
    ]
    if not rows:
        return None
    legend = (
        f"Against each definition of the truth ({reading.first_images(environments[0])}): Spearman's "
        "correlation and cosine over all pixels; share of the pixels with a value whose sign is right; "
        "sum gap: sum of the attributions minus that of the definition, as a share of the latter (only "
        "methods that distribute the output aim at 0). No part of the verdict."
    )
    frame = pd.DataFrame(rows).astype(dict.fromkeys(reading.TRUTH_COLUMNS.values(), float))
    return Group(data_table(frame), Text(legend, style="dim"))


def citation(document: Mapping[str, Any]) -> str:
    """A sentence for a paper that reports the result, and BibTeX of what it cites."""
    version = document["versions"]["attributionlab"]
    counts = listed(
        [
            f"{each['solved']} of {each['asked']} in {each['name']}"
            for each in document["environments"]
        ]
    )
    code = provenance.code_text(document)
    return cited(
        f"{provenance.method_text(document)} was tested with AttributionLab {version}, "
        f"{provenance.protocol_text(document)}, {provenance.seed_text(document)}; "
        f"{code and f'{code}; '}claim {document['claim']}: {document['verdict']}; "
        f"questions{of_size(document)} solved: {counts}",
        version,
    )


def cited(sentence: str, version: str) -> str:
    """A sentence for a paper as LaTeX, and BibTeX of what it cites."""
    entries = BIBTEX.replace("VERSION", version)
    return f"{in_latex(sentence)} \\citep{{attributionlab-software,attributionlab}}.\n\n{entries}"


BIBTEX = """\
@software{attributionlab-software,
  title = {AttributionLab},
  author = {{The AttributionLab developers}},
  version = {VERSION},
  year = {2026},
}

@misc{attributionlab,
  title = {AttributionLab: Faithfulness of Feature Attribution Under Controllable Environments},
  author = {Zhang, Yang and Li, Yawei and Brown, Hannah and Rezaei, Mina and Bischl, Bernd and
    Torr, Philip and Khakzar, Ashkan and Kawaguchi, Kenji},
  year = {2023},
  eprint = {2310.06514},
  archivePrefix = {arXiv},
  url = {https://arxiv.org/abs/2310.06514},
}
"""
