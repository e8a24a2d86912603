"""The commands `sweep`, `status` and `merge`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from attributionlab.base import AttributionLabError, printable, refuse_if
from attributionlab.cli.options import Jobs, RetryFailed, removed_if_refused, saying_what_was_done
from attributionlab.cli.options import say as say_line

MOST_ROWS = 30
"""Rows of the table that is shown; the files have all."""

Folder = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="Store cells and results in this folder.")
]


def run_sweep_file(
    spec: Annotated[
        Path,
        typer.Argument(metavar="SPEC.toml", help="The sweep's specification (docs/sweeps.md)."),
    ],
    out: Folder,
    jobs: Jobs = None,
    retry_failed: RetryFailed = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show what would be run and its cost, without running it."),
    ] = False,
    shard: Annotated[
        str | None,
        typer.Option(metavar="I/N", help="Run part I of N. Use merge to combine the folders."),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="tcp://HOST:PORT", help="Compute on the workers of a dask scheduler."),
    ] = None,
    cell_seconds: Annotated[
        float | None, typer.Option(metavar="S", help="A cell fails after this many seconds.")
    ] = None,
    cell_memory: Annotated[
        float | None,
        typer.Option(metavar="GIB", help="A cell fails if its process uses more memory."),
    ] = None,
    disk: Annotated[
        float | None, typer.Option(metavar="GIB", help="Stop when the folder reaches this size.")
    ] = None,
) -> None:
    """Run methods x environments x metrics x doses x seeds, and compute only what is missing.

    Exit status: 0 all done, 1 a cell failed, 2 wrong input, 130 interrupted, 143 terminated. Finished
    cells are always saved, and the same command resumes.
    """
    from attributionlab.verdicts import dry_run as look_ahead
    from attributionlab.verdicts import run_sweep

    part = None if shard is None else parse_shard(shard)
    refuse_if(
        [
            f"--{name} is {value:g}: take a number above 0"
            for name, value in (
                *(("cell-seconds", cell_seconds), ("cell-memory", cell_memory), ("disk", disk)),
                ("jobs", jobs),
            )
            if value is not None and not 0 < value < float("inf")
        ]
    )
    if dry_run:
        lines = look_ahead(
            spec, out, shard=part, jobs=jobs, scheduler=scheduler, retry_failed=retry_failed
        )
        typer.echo("\n".join(map(printable, lines)))
        return
    with saying_what_was_done(), removed_if_refused(out):
        sweep = run_sweep(
            *(spec, out),
            jobs=jobs,
            retry_failed=retry_failed,
            shard=part,
            scheduler=scheduler,
            cell_seconds=cell_seconds,
            cell_gib=cell_memory,
            disk_gib=disk,
            show_progress=True,
            say=lambda line: say_line(printable(line)),
        )
    print_sweep(sweep, out)
    raise typer.Exit(1 if sweep.failed else 0)


def parse_shard(text: str) -> tuple[int, int]:
    """Part I of N, from "I/N"."""
    part, _, parts = text.partition("/")
    try:
        return int(part), int(parts)
    except ValueError:
        raise AttributionLabError(f"--shard is {text!r}: write I/N, such as 1/4") from None


def print_sweep(sweep: Any, out: Path) -> None:
    """Verdicts of the maps and mean scores of the metrics, as far as there is room; then counts."""
    from attributionlab.show import data_table, print_table

    table = sweep.to_frame()
    done = table[table["status"] == "done"]
    by_cell = ["environment", "method", "seed", "n", "claim", "output", "one_network"]
    maps = done[done["kind"] == "maps"].drop_duplicates(by_cell)
    keys = ["environment", "method", "seed"]
    shown = [
        maps[[*keys, "claim", "claim_f1", "solved", "asked", "verdict"]].reset_index(drop=True)
    ]
    scores = done[done["kind"] == "metric"]
    if len(scores):
        by = [*keys, "metric", "axis", "dose"]
        means = scores.groupby(by, sort=False, dropna=False)["score"].mean().reset_index()
        shown.append(means.dropna(axis="columns", how="all"))
    for each in shown:
        if len(each):
            print_table(data_table(each.head(MOST_ROWS)), width=140)
            if len(each) > MOST_ROWS:
                typer.echo(f"{len(each) - MOST_ROWS:,} more rows in the files")
            typer.echo("")
    failed = table[table["status"] == "failed"]
    for error, cells in failed.groupby("error", sort=False):
        typer.echo(printable(f"failed: {len(cells)} cells: {error}"))
    for kind, each in sweep.counts.items():
        typer.echo(f"{kind}: {each['done']} of {each['cells']} cells done, {each['failed']} failed")
    typer.echo(printable(f"written: {out / 'results'}.csv, .parquet, .json"))


def show_status(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder written with --out.")],
) -> None:
    """Show the progress of the work in a folder, even while another process is running it."""
    from attributionlab.show import data_table, print_table
    from attributionlab.verdicts import status_of

    status = status_of(folder)
    print_table(data_table(status.kinds))
    typer.echo(printable(status.holder))
    if status.rate is not None:
        typer.echo(f"{status.rate:.2g} cells per second in the last minutes")
    for line in filter(None, [status.note, *(f"failed: {error}" for error in status.errors)]):
        typer.echo(printable(line))


def merge_folders(
    new: Annotated[Path, typer.Argument(metavar="NEW", help="The folder for all cells.")],
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="Folders written with --out. They are not changed."),
    ],
) -> None:
    """Merge the cells of several folders, such as shards, or rescue those of a damaged folder."""
    from attributionlab.verdicts import merge_sweeps

    with removed_if_refused(new):
        taken, sweep = merge_sweeps(new, folders)
    typer.echo(f"{taken} cells copied to {printable(str(new))}")
    if sweep is not None:
        print_sweep(sweep, new)
