"""The command `reproduce`: one item in the terminal, or many into one folder with a page."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attributionlab.base import follow, printable, refuse_if
from attributionlab.cli import options, paths

if TYPE_CHECKING:
    import pandas as pd

    from attributionlab.papers import Reproduction

Written = Annotated[Path | None, typer.Option(help="Write the tables to this file.")]
ALL = "all"
LONGEST_TABLE = 30
"""Rows beyond which a table is written, but not shown."""


@options.with_running
def reproduce_items(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="ITEM...",
            help="Items such as table-1 or figure-17 (see list), or all. With --out, several items "
            "are written to one page.",
        ),
    ],
    n: Annotated[
        int | None, typer.Option(help="Number of images. Default: the item's own.")
    ] = None,
    seed: options.Seed = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Use fewer and smaller images.")] = False,
    set_: options.Settings = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write tables, figures, notes and claims into this folder. For several items, also "
            "write index.html and store the results for reuse."
        ),
    ] = None,
    size: paths.Size = None,
    latex: Written = None,
    markdown: Written = None,
    *,
    running: dict[str, Any],
) -> None:
    """Reproduce tables and figures of papers and compare them with the published ones.

    Exit status: 0 all computed, 1 one of several failed, 2 wrong input, 130 interrupted.
    """
    from attributionlab.papers import items

    if names == [ALL] or len(names) > 1:
        device = running["device"]
        own = {
            "--n": n,
            "--set": set_ or None,
            "--device": None if device == "cpu" else device,
            "--size": size,
            "--latex": latex and str(latex),
            "--markdown": markdown and str(markdown),
        }
        _refuse_options_of_one(names, own)
        asked = {"quick": quick, "seed": seed, **running}
        _reproduce_many(None if names == [ALL] else names, out, asked)
        return
    resumable = names[0] in items() and items()[names[0]].resumable
    given = {"--jobs": running["jobs"], "--retry-failed": running["retry_failed"]}
    if not resumable:
        refuse_if(
            [
                f"{name} is given, but {names[0]} cannot be split: leave it out"
                for name, value in given.items()
                if value
            ]
        )
    paths.check_size(size, out is not None, "--out DIR")
    read = [word.partition("=")[2] for word in set_ or ()]
    places = paths.check_paths({"latex": latex, "markdown": markdown}, read)
    settings = options.parse_settings(set_ or [])
    asked = {"n": n, "seed": seed, "quick": quick, "settings": settings, **running}
    _reproduce_one(names[0], asked, out, size, places)


def _refuse_options_of_one(names: list[str], given: Mapping[str, object]) -> None:
    """What each item counts, which settings and devices it takes, is its own."""
    together = ALL in names and len(names) > 1
    problems = [f"{ALL} is given with other items: name {ALL} alone"] if together else []
    problems += [
        f"{option} is {value!r}, which is for a single item: leave it out, or name one item"
        for option, value in given.items()
        if value is not None
    ]
    refuse_if(problems)


def _reproduce_many(names: list[str] | None, out: Path | None, asked: dict[str, Any]) -> None:
    """Several items: a summary in the terminal, everything else in the folder."""
    from attributionlab.papers import reproduce_all
    from attributionlab.show import data_table, print_table

    found, stop = options.as_far_as_done(
        "reproduce",
        out,
        lambda folder: reproduce_all(names, **{**asked, "out": folder}),
    )
    written = None
    if out is not None:
        with follow(f"writing into {out}"):
            written = found.save(out)[0]
    print_table(data_table(found.summary()), width=140)
    for attempt in found.failed:
        options.say(printable(f"failed: {attempt.item.name}: {attempt.reason}"))
    if written is not None:
        options.say(printable(f"written: {written}"))
    if stop is not None:
        raise stop
    if found.failed:
        raise typer.Exit(1)


def _reproduce_one(
    item: str,
    asked: dict[str, Any],
    out: Path | None,
    size: str | None,
    places: Mapping[str, Path],
) -> None:
    """One item: its tables in the terminal, its files in the folder."""
    from attributionlab.base import make_folder
    from attributionlab.papers import reproduce
    from attributionlab.show import claims_table, laid_out_for, notes_list, print_table

    with laid_out_for(size), options.removed_if_refused(out):
        if out:
            make_folder(out)  # before the work whose results shall lie there
        outcome = reproduce(item, **asked)
    with follow(f"writing into {out}", show=bool(out)):
        written = outcome.save(out, options.command_line(), size) if out else []
    tables = partial(_shown_tables, outcome)
    paths.write_all(places, {kind: partial(paths.write_tables, tables, kind) for kind in places})
    written += places.values()
    typer.echo(f"{outcome.item.name}: {outcome.item.title}")
    _print_tables(outcome, all_written=bool(out))
    print_table(notes_list(outcome.notes))
    if outcome.claims:
        typer.echo("")
        print_table(claims_table(outcome.claims), width=120)
    for path in written:
        options.say(printable(f"written: {path}"))


def _print_tables(outcome: "Reproduction", all_written: bool) -> None:
    """The tables that there is room for, and what the others are called, if not written."""
    from rich.text import Text

    from attributionlab.show import data_table, print_table

    readings, tables = outcome.item.tables, _shown_tables(outcome)
    left = [
        f"{name} ({_rows(each)})" for name, each in outcome.tables.items() if name not in tables
    ]
    for name, table in tables.items():
        shown, place = _without_one_place(table)
        typer.echo(f"\n{name}{place}")
        if name in readings:
            print_table(Text(f"({readings[name]})"), width=140)
        print_table(data_table(shown), width=140)
    if left and not all_written:
        typer.echo("")
        print_table(Text(f"More tables with --out DIR: {', '.join(left)}."))


def _shown_tables(outcome: "Reproduction") -> dict[str, "pd.DataFrame"]:
    """Those that a terminal has room for."""
    readings = outcome.item.tables
    return {
        name: table
        for name, table in outcome.tables.items()
        if len(table) <= LONGEST_TABLE and (not readings or name in readings)
    }


def _rows(table: "pd.DataFrame") -> str:
    return "1 row" if len(table) == 1 else f"{len(table):,} rows"


def _without_one_place(table: "pd.DataFrame") -> tuple["pd.DataFrame", str]:
    """Without empty columns and the environment that all rows share, and that one for the heading."""
    table = table.dropna(axis="columns", how="all")
    if "environment" not in table or table["environment"].nunique() != 1:
        return table, ""
    return table.drop(columns="environment"), f", {table['environment'].iloc[0]}"
