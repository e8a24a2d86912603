"""The command `leaderboard`, of methods and of metrics."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attributionlab.base import AttributionLabError, refuse_if
from attributionlab.cli import options
from attributionlab.cli.worlds import check_options

if TYPE_CHECKING:
    import pandas as pd

    from attributionlab.verdicts import Leaderboard, MetricBoard


def run_leaderboard(
    methods: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="Methods as for test, at least two; without any, the paper's eight and six more. With "
            "--metrics metrics as for metric; without any, all that rank maps.",
        ),
    ] = None,
    metrics: Annotated[
        bool,
        typer.Option(
            "--metrics",
            help="Rank metrics: agreement with the truth over default environments and random worlds.",
        ),
    ] = False,
    all_: Annotated[
        bool, typer.Option("--all", help="Add the default ones to those named.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer and smaller images: fast; places may differ.")
    ] = False,
    n: Annotated[
        int | None,
        typer.Option(
            "--n",
            help="Images of each pair; 16, or 6 with --quick. With --metrics questions of each world; "
            "6.",
        ),
    ] = None,
    seed: options.Seed = 0,
    worlds: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Random worlds to add (default 0; with --metrics 50, or 10 with --quick).",
        ),
    ] = None,
    difficulty: options.Difficulty = None,
    indicator: Annotated[
        str,
        typer.Option(
            help="What measures the effect of removal: accuracy or label-probability; in random worlds "
            "it is the output."
        ),
    ] = "accuracy",
    image_size: Annotated[
        int | None,
        typer.Option(
            metavar="S", help="With --metrics: images of S x S pixels; 48, or 24 with --quick."
        ),
    ] = None,
    device: options.Device = "cpu",
    out: options.Out = None,
    jobs: options.Jobs = None,
    retry_failed: options.RetryFailed = False,
    json: Annotated[Path | None, typer.Option(help="Write everything to this file.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the leaderboard to this file.")] = None,
    figure: Annotated[
        Path | None,
        typer.Option(help="Write scores, truth and ranks to this file (.png, .pdf or .svg)."),
    ] = None,
    size: options.Size = None,
    latex: options.Latex = None,
    markdown: options.Table = None,
) -> None:
    """Rank methods in 26 cases, fuse the rankings (Meta-Rank), and compare with the truth.

    --worlds adds two cases for each random world. Nothing is unseen there.

    With --metrics rank metrics instead, over the default environments of test and random worlds.

    Exit status: 0 done, 1 if a method or metric that was named failed somewhere, 2 refused, 70 a crash,
    130 interrupted.
    """
    from attributionlab.verdicts import ALL, DEFAULT_METHODS, rank_methods

    places = options.check_paths(
        {"json": json, "csv": csv, "figure": figure, "latex": latex, "markdown": markdown},
        methods or [],
        size,
    )
    if metrics:
        others = {"indicator": indicator != "accuracy", "device": device != "cpu"}
        refuse_if(
            [f"--{key} is given with --metrics: leave it out" for key in others if others[key]]
        )
        _rank_metrics(
            *(methods or [], all_, out, places, size),
            worlds=worlds,
            seed=seed,
            difficulty=difficulty,
            image_size=image_size,
            n=n,
            quick=quick,
            jobs=jobs,
            retry_failed=retry_failed,
        )
        return
    if image_size is not None:
        raise AttributionLabError(
            "--image-size is given without --metrics: use --quick, or leave it"
        )
    check_options(worlds or None, {"difficulty": difficulty}, {}, ("difficulty",))
    named = [name for name in methods or [] if name not in DEFAULT_METHODS or not all_]

    board, stop = options.as_far_as_done(
        "leaderboard",
        out,
        lambda folder: rank_methods(
            [*DEFAULT_METHODS, *named] if all_ else named or None,
            n=n,
            seed=seed,
            worlds=worlds or 0,
            difficulty=difficulty or "medium",
            indicator=indicator,  # type: ignore[arg-type]
            quick=quick,
            device=device,
            out=folder,
            jobs=jobs,
            retry_failed=retry_failed,
            show_progress=True,
            command=options.command_line(),
        ),
    )

    def tables() -> Iterator[tuple[str, "pd.DataFrame"]]:
        yield "", board.to_frame()
        agreement = board.agreement()
        shown = (agreement["ranked_by"] == "signed") | (agreement["fused"] == ALL)
        yield "Spearman correlation of the fused ranking with the truth's", agreement[shown]
        yield "What follows", board.checks()
        yield "Places that the others change where one is left out", board.left_out()
        yield "Fused for each set of images alone, correlation with its truth", board.by_images()
        yield "Random worlds with and without a feature, fused alone", board.by_feature()
        yield "Missing", board.missing()

    _show(board, stop, places, size, tables, 140)
    raise typer.Exit(options.status_of(methods or [], board.missing()["method"]))


def _show(
    board: "Leaderboard | MetricBoard",
    stop: BaseException | None,
    places: Mapping[str, Path],
    size: str | None,
    tables: Callable[[], Iterator[tuple[str, "pd.DataFrame"]]],
    width: int,
) -> None:
    """Print a board's tables that are not empty, each under its title, and write its files."""
    from attributionlab.show import data_table, notes_list, print_table

    writers = {
        "json": board.to_json,
        "csv": board.to_csv,
        **options.table_writers(board.to_frame),
        "figure": options.figure_writer(board.figure, size),
    }
    with options.written_at_last(places, writers, stop):
        typer.echo(board.title)
        for title, table in tables():
            if len(table):
                typer.echo(f"\n{title}" if title else "")
                print_table(data_table(table), width=width)
        print_table(notes_list(board.notes))


def _rank_metrics(
    names: list[str],
    all_: bool,
    out: Path | None,
    places: Mapping[str, Path],
    size: str | None,
    **others: Any,
) -> None:
    """`leaderboard --metrics`: rank the metrics, print the board, write its files.

    Options that are None are left to `attributionlab.rank_metrics`; `all_` adds its metrics.
    """
    from attributionlab.base import located
    from attributionlab.verdicts import DEFAULT_METRICS, rank_metrics

    metrics: list[Any] = [*DEFAULT_METRICS] if all_ else []
    metrics += [located(name, {}) if ":" in name else name for name in names if name not in metrics]
    given = {name: value for name, value in others.items() if name == "jobs" or value is not None}
    again = options.command_line()
    board, stop = options.as_far_as_done(
        "leaderboard",
        out,
        lambda folder: rank_metrics(
            metrics or None, out=folder, show_progress=True, command=again, **given
        ),
    )
    _show(
        *(board, stop, places, size),
        lambda: iter(
            [("", board.shown()), ("Refused", board.refused()), ("Not built", board.not_built())]
        ),
        180,
    )
    raise typer.Exit(options.status_of(names, board.refused()["metric"]))
