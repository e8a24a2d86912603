"""The commands `leaderboard`, of methods, `metrics`, and `results` of the protocol."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attributionlab.base import AttributionLabError
from attributionlab.cli import options, paths

if TYPE_CHECKING:
    from attributionlab.verdicts import Leaderboard, MetricBoard


All = Annotated[bool, typer.Option("--all", help="Add the defaults to those you list.")]
Quick = Annotated[
    bool,
    typer.Option("--quick", help="Use fewer and smaller images: faster, but ranks may change."),
]
FILES = {
    "json": "everything",
    "csv": "the leaderboard",
    "latex": "the leaderboard, for booktabs,",
    "markdown": "the leaderboard",
}


@paths.with_files(**FILES, figure="scores, truth and ranks (.png, .pdf or .svg)")
@options.with_running
def run_leaderboard(
    methods: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[METHOD]...",
            help="At least two methods, as for test. Default: the paper's eight and six more.",
        ),
    ] = None,
    all_: All = False,
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env",
            help="An additional environment, in which removed pixels get the true baseline. Each world "
            "of random:N:DIFFICULTY:SEED counts as one. Can be repeated.",
        ),
    ] = None,
    quick: Quick = False,
    n: Annotated[
        int | None,
        typer.Option("--n", help="Images per pair. Default: 16, or 6 with --quick."),
    ] = None,
    seed: options.Seed = 0,
    indicator: Annotated[
        str,
        typer.Option(
            help="How the effect of removal is measured: accuracy or label-probability. Random worlds "
            "use the output."
        ),
    ] = "accuracy",
    *,
    running: dict[str, Any],
    files: paths.Files,
) -> None:
    """Rank methods in 26 cases, fuse the rankings (Meta-Rank), and compare with the truth.

    --env adds two cases for each environment or random world, without unseen data.

    Exit status: 0 done, 1 if a listed method raised an error somewhere, 2 wrong input, 70 crash, 130
    interrupted.
    """
    from attributionlab.verdicts import DEFAULT_METHODS, PAIRS, Pair, rank_methods

    named = [name for name in methods or [] if name not in DEFAULT_METHODS or not all_]
    board, stop = options.as_far_as_done(
        "leaderboard",
        running["out"],
        lambda folder: rank_methods(
            [*DEFAULT_METHODS, *named] if all_ else named or None,
            n=n,
            seed=seed,
            pairs=[*PAIRS, *(Pair(name, removed_to="true baseline") for name in env or ())],
            indicator=indicator,  # type: ignore[arg-type]
            quick=quick,
            **{**running, "out": folder},
        ),
    )

    _show(board, stop, files, 140)
    raise typer.Exit(options.status_of(methods or [], board.missing()["method"]))


def _show(
    board: "Leaderboard | MetricBoard", stop: BaseException | None, files: paths.Files, width: int
) -> None:
    """Print a board, and write its files."""
    from attributionlab.show import notes_list, print_table, print_tables

    with files.written(board, stop):
        typer.echo(board.title)
        print_tables(board.tables(), width)
        print_table(notes_list(board.notes))


@paths.with_files(**FILES, figure="agreement and definitions (.png, .pdf or .svg)")
@options.with_running
def rank_all_metrics(
    metrics: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[METRIC]...", help="Metrics, as for metric. Default: all that can rank maps."
        ),
    ] = None,
    all_: All = False,
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env",
            help="Environment. Each world of random:N:DIFFICULTY:SEED counts as one. Can be repeated. "
            "Default: those of test and 50 random worlds of --seed (10 with --quick).",
        ),
    ] = None,
    quick: Quick = False,
    n: Annotated[int, typer.Option("--n", help="Number of questions per world.")] = 6,
    seed: options.Seed = 0,
    image_size: Annotated[
        int | None,
        typer.Option(
            metavar="S", help="Use images of S x S pixels. Default: 48, or 24 with --quick."
        ),
    ] = None,
    isolated: options.Isolation = True,
    cite: options.Cite = False,
    *,
    running: dict[str, Any],
    files: paths.Files,
) -> None:
    """Rank metrics by their agreement with the truth and the share of worlds in which they are valid.

    Exit status: 0 done, 1 if a listed metric raised an error somewhere, 2 wrong input, 70 crash, 130
    interrupted.
    """
    from attributionlab.verdicts import DEFAULT_METRICS, rank_metrics

    named: list[Any] = [*DEFAULT_METRICS] if all_ else []
    named += [options.named_metric(each) for each in metrics or [] if each not in named]
    board, stop = options.as_far_as_done(
        "metrics",
        running["out"],
        lambda folder: rank_metrics(
            named or None,
            env,
            n,
            seed,
            image_size=image_size,
            quick=quick,
            isolated=isolated,
            **{**running, "out": folder},
        ),
    )
    _show(board, stop, files, 180)
    if cite:
        table = board.shown()
        agreements = zip(table["metric"], table["agreement"], table["valid"], strict=True)
        listed = "; ".join(f"{name}: {mean}, valid {share}" for name, mean, share in agreements)
        options.print_citation(
            f"{board.title}, were ranked by their agreement with the truth and the share of worlds in "
            f"which they are valid ({listed})"
        )
    raise typer.Exit(options.status_of(metrics or [], board.refused()["metric"]))


@paths.with_files(
    json="all results",
    csv="the table",
    latex="the table, for booktabs,",
    markdown="the table",
    figure="the share of questions solved (.png, .pdf or .svg)",
)
@options.with_running
def show_results(
    reports: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILE]...",
            help="Reports that test or compare wrote with --json. Default: run all built-in methods "
            "and controls.",
        ),
    ] = None,
    protocol: Annotated[int, typer.Option(help="Number of the protocol. This version has 1.")] = 1,
    seed: Annotated[
        list[str] | None,
        typer.Option(
            metavar="S",
            help="Seed of the questions: an integer, or fresh (draw one). Can be repeated. Default: 0 "
            "and fresh.",
        ),
    ] = None,
    n: Annotated[
        int | None,
        typer.Option("--n", help="Number of questions per environment. Default: 32."),
    ] = None,
    image_size: options.ImageSize = None,
    preset: Annotated[
        str | None,
        typer.Option(help="paper: use the settings that a paper states for a built-in method."),
    ] = None,
    *,
    running: dict[str, Any],
    files: paths.Files,
) -> None:
    """Show results of the protocol in one table: from checked reports, or from a run of all methods.

    A report is refused if it follows another protocol, lacks an environment, or states a verdict that
    its counts contradict.

    Exit status: 0 done, 2 wrong input or a report refused, 70 crash, 130 interrupted.
    """
    from rich.text import Text

    from attributionlab.base import QUESTIONS, drawn_seed
    from attributionlab.show import print_table, solved_table
    from attributionlab.verdicts import protocol_results, read_results

    if protocol != 1:
        raise AttributionLabError(f"--protocol is {protocol}: this version has protocol 1")
    if reports:
        asked = {"--seed": seed, "--n": n, "--image-size": image_size, "--preset": preset}
        asked |= {
            f"--{name.replace('_', '-')}": running[name]
            for name, (_, default) in options.RUNNING.items()
            if running[name] != default
        }
        given = [name for name, value in asked.items() if value is not None]
        if given:
            raise AttributionLabError(
                f"{given[0]} is for a new run, but reports are given: leave one of the two out"
            )
        found, stop = options.with_command(read_results(reports)), None
    else:
        seeds = [drawn_seed(options.parse_seed(each))[0] for each in seed or ("0", "fresh")]
        options.name_seeds(seeds)
        found, stop = options.as_far_as_done(
            "results",
            running["out"],
            lambda folder: protocol_results(
                seeds,
                n=QUESTIONS if n is None else n,
                preset=preset,
                image_size=image_size,
                **{**running, "out": folder},
            ),
        )
    with files.written(found, stop):
        table = found.to_frame()
        print_table(solved_table(table), width=128)
        print_table(Text(f"\n{table.attrs['caption']}"))
