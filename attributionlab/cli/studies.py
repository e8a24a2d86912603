"""The commands `compare`, `metric` and `cards`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attributionlab.base import AttributionLabError, printable
from attributionlab.cli import options, paths

if TYPE_CHECKING:
    from attributionlab.verdicts import Comparison, MetricReport


@paths.with_files(
    csv="the table",
    parquet="the table",
    json="all results",
    figure="the deciding F1 of each method (.png, .pdf or .svg)",
    forms="the lowest scores on equivalent networks",
    maps="attribution maps for up to three images per environment",
    latex="one row for each method, for booktabs,",
    markdown="one row for each method",
)
@options.with_running
@options.with_questions
def compare_methods(
    methods: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[METHOD]...",
            help="Methods, as for test. Default: all built-in methods and two controls.",
        ),
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="Add all built-in methods to those listed.")
    ] = False,
    seed: Annotated[
        str,
        typer.Option(metavar="S", help="Seed of the questions: an integer, or fresh (draw one)."),
    ] = "0",
    all_parts: Annotated[
        bool,
        typer.Option(
            "--all-parts",
            help="With --figure, show precision, recall and F1 of every part instead.",
        ),
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Print the scores in each environment.")
    ] = False,
    *,
    asked: dict[str, Any],
    running: dict[str, Any],
    files: paths.Files,
) -> None:
    """Compare methods on the same images: one row for each method, with its verdict.

    Exit status: 0 for any verdicts, 1 if a listed method raised an error in an environment, 2 wrong
    input, 70 crash, 130 interrupted.
    """
    from attributionlab.methods import METHODS
    from attributionlab.show import comparison_table, methods_table, print_table
    from attributionlab.verdicts import compare

    if all_parts and "figure" not in files.places:
        raise AttributionLabError("--all-parts is given without --figure: add --figure PATH")
    if "forms" in files.places and not any(each.startswith("equivalent") for each in asked["also"]):
        raise AttributionLabError("--forms is given without --also equivalent: add it")
    named = [name for name in methods or [] if name not in METHODS or not all_]

    comparison, stop = options.as_far_as_done(
        "compare",
        running["out"],
        lambda folder: compare(
            [*METHODS, *named] if all_ else named or None,
            seed=options.parse_seed(seed),
            **asked,
            **{**running, "out": folder},
        ),
    )
    with files.written(
        comparison,
        stop,
        tables=comparison.paper_table,
        figure=lambda: comparison.figure(all_parts),
        forms=comparison.forms,
        maps=comparison.maps,
    ):
        document = comparison.to_dict()
        short = methods_table(comparison.paper_table(), document)
        print_table(comparison_table(document) if verbose else short, width=128)
        labels = list(dict.fromkeys(report.label for report in comparison.reports))
        if len(labels) == 2 and comparison.reports[0].n > 1:
            _print_differences(comparison, *labels)
    raise typer.Exit(
        options.status_of(methods or [], (each.method for each in comparison.refusals))
    )


def _print_differences(comparison: "Comparison", first: str, second: str) -> None:
    """Two methods on the same images, where there are some that both explained."""
    from attributionlab.show import data_table, print_table

    try:
        differences = comparison.differences(first, second)
    except AttributionLabError:  # each ran where the other did not
        return
    better = differences["better"].map({"first": first, "second": second})
    numbers = differences.select_dtypes("float").round(3) + 0.0  # no -0
    typer.echo(f"\n{first} minus {second}, F1 on the same images, with a 95 % interval")
    shown = differences.assign(**numbers, better=better.fillna("undecided"))
    print_table(data_table(shown), width=120)


@paths.with_files(
    json="the report",
    csv="the table of doses",
    html="a page",
    figure="a figure (.png, .pdf or .svg)",
)
@options.with_running
@options.with_trial
def run_metric_test(
    metric: Annotated[
        str,
        typer.Argument(
            help="A metric of al.metrics, such as insertion or road, path/to/file.py:name or "
            "module:name."
        ),
    ],
    method: Annotated[
        list[str] | None,
        typer.Option("--method", help="A method to rank as well. Can be repeated."),
    ] = None,
    output: options.Explained = None,
    threshold: Annotated[
        float, typer.Option(help="A metric counts as broken below this correlation.")
    ] = 0.5,
    lower_is_better: Annotated[
        bool,
        typer.Option(
            "--lower-is-better",
            help="For your own metric, if it does not declare its direction.",
        ),
    ] = False,
    takes: Annotated[
        str | None,
        typer.Option(
            metavar="[logits|probabilities]",
            help="For your own metric: the outputs of the model that it receives. Default: the "
            "explained output. Choose logits if the metric applies a softmax itself.",
        ),
    ] = None,
    *,
    tried: dict[str, Any],
    running: dict[str, Any],
    files: paths.Files,
) -> None:
    """Test a metric: check its code, then try whether it ranks attribution maps as the truth does.

    A metric with an error in its code is not tried. All other findings of the checks are advice: the
    trial decides, and also tests whether the ranking depends on the network. Worlds from rules have no
    unseen data and therefore no doses. `metrics` counts the worlds in which a metric is valid.

    Exit status: 0 valid, 1 not valid (or faulty, blind, reversed), 2 wrong input, 3 undecided.
    """
    from attributionlab.base import located
    from attributionlab.verdicts import STATUS, metric_test, says_direction

    scorer: Any = located(metric, {}) if ":" in metric else metric
    says_so = isinstance(scorer, str) or says_direction(scorer)
    if lower_is_better and says_so:
        raise AttributionLabError(
            f"--lower-is-better: {metric} already declares its direction: leave the option out"
        )
    report, stop = options.as_far_as_done(
        f"metric {metric}",
        running["out"],
        lambda folder: metric_test(
            scorer,
            higher_is_better=None if says_so else not lower_is_better,
            takes=takes,  # type: ignore[arg-type]
            methods=method or (),
            output=output,  # type: ignore[arg-type]
            threshold=threshold,
            **tried,
            **{**running, "out": folder},
        ),
    )
    if report.checks is not None and report.checks.faults:
        typer.echo(report.checks.text())
        kept = {name: path for name, path in files.places.items() if name == "json"}
        paths.write_all(kept, files.writers(report))
        if unwritten := [path.name for name, path in files.places.items() if name not in kept]:
            typer.echo(f"not written, because the metric was not tried: {', '.join(unwritten)}")
        raise typer.Exit(STATUS["faulty"])
    with files.written(report, stop):
        _print_trial(report)
    raise typer.Exit(STATUS[report.verdict])


def _print_trial(report: "MetricReport") -> None:
    """What a metric's check and trial found."""
    from attributionlab.show import notes_list, print_table, print_tables

    checked = f"{report.checks.text()}\n" if report.checks else ""
    side = report.image_size
    typer.echo(f"{checked}{report.title}, {side} x {side} pixels\n{report.sentence}")
    print_tables(report.tables())
    print_table(notes_list(report.notes))


@options.with_trial
def write_cards(
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Write index.html, the cards and table.csv into this folder, and reuse results "
            "already there.",
        ),
    ],
    metrics: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[METRIC]...",
            help="Metrics of al.metrics, such as insertion, path/to/file.py:name or module:name. "
            "Default: all of al.metrics.",
        ),
    ] = None,
    jobs: options.Jobs = None,
    retry_failed: options.RetryFailed = False,
    *,
    tried: dict[str, Any],
) -> None:
    """Write a card for each metric (question, cost, blind spots, checks, trial) and an overview.

    Your own function declares which direction is better with @al.metrics.metric.
    """
    from attributionlab.base import check_writable, located
    from attributionlab.show import data_table, print_table
    from attributionlab.verdicts import FUNCTIONS, any_metric, files_of, metric_cards

    chosen = [located(each, {}) if ":" in each else each for each in metrics or FUNCTIONS]
    for name in files_of(any_metric(each).name for each in chosen):
        if (out / name).exists():
            paths.check_replaced({"--out": check_writable(out / name)})
    running: dict[str, Any] = {"jobs": jobs, "retry_failed": retry_failed, "show_progress": True}
    cards, stop = options.as_far_as_done(
        "cards", out, lambda folder: metric_cards(chosen, **tried, **{**running, "out": folder})
    )
    written = cards.save(out)
    print_table(data_table(cards.shown().drop(columns=["range", "cannot_see"])), width=140)
    options.say(printable(f"written: {written[0]}"))
    if stop is not None:
        raise stop
