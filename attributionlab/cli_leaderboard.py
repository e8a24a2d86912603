"""The command that ranks methods in many cases."""

from pathlib import Path
from typing import Annotated

import typer

from attributionlab.cli_options import (
    Device,
    Seed,
    check_paths,
    command_line,
    saying_what_was_done,
    write_all,
)
from attributionlab.progress import follow

__all__ = ["run_leaderboard"]


def run_leaderboard(
    methods: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[METHOD]...",
            help="As for test, at least two; without any, the paper's eight and six more.",
        ),
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="The default methods beside those named.")
    ] = False,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Fewer and smaller images: fast; places may differ."),
    ] = False,
    n: Annotated[
        int | None, typer.Option("--n", help="Images of each pair; 16, or 6 with --quick.")
    ] = None,
    seed: Seed = 0,
    indicator: Annotated[
        str,
        typer.Option(help="What removal is seen by: accuracy or label-probability."),
    ] = "accuracy",
    device: Device = "cpu",
    json: Annotated[Path | None, typer.Option(help="Write everything to this file.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the leaderboard to this file.")] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Write scores, truth and ranks to this PNG.")
    ] = None,
) -> None:
    """Rank methods in 26 cases, make one ranking of them (Meta-Rank), and hold it against the truth."""
    from attributionlab.files import write_atomically
    from attributionlab.leaderboard import DEFAULT_METHODS, rank_methods
    from attributionlab.report import data_table, findings_list, print_table, to_png

    places = check_paths(
        {"json": json, "csv": csv, "figure": figure},
        read=methods or [],
    )
    named = [name for name in methods or [] if name not in DEFAULT_METHODS or not all_]
    with saying_what_was_done(), follow("leaderboard"):
        board = rank_methods(
            [*DEFAULT_METHODS, *named] if all_ else named or None,
            n,
            seed,
            indicator=indicator,  # type: ignore[arg-type]
            quick=quick,
            device=device,
            show_progress=True,
            command=command_line(),
        )
    try:
        typer.echo(f"{board.title}\n")
        print_table(data_table(board.to_frame()), width=140)
        typer.echo("\nSpearman correlation of the fused ranking with the truth's")
        agreement = board.agreement()
        shown = agreement[agreement["ranked_by"] == "signed"].drop(columns="ranked_by")
        print_table(data_table(shown), width=140)
        print_table(findings_list(board.findings()))
    finally:  # whether or not anybody reads the tables
        write_all(
            places,
            {
                "json": board.to_json,
                "csv": board.to_csv,
                "figure": lambda path: write_atomically(path, to_png(board.figure())),
            },
        )
