"""The commands `compare` and `metric`."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attributionlab.base import AttributionLabError
from attributionlab.cli import options

if TYPE_CHECKING:
    from attributionlab.verdicts import Comparison, MetricReport


@options.with_running
def compare_methods(
    methods: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[METHOD]...",
            help="As for test; without any, all built-in methods and two controls.",
        ),
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="Add all built-in methods to those named.")
    ] = False,
    quick: options.Quick = False,
    image_size: options.ImageSize = None,
    env: options.Environments = None,
    n: Annotated[
        int | None,
        typer.Option("--n", help="Images in each environment; 32 by default, 20 with --quick."),
    ] = None,
    seed: options.FreshSeed = "0",
    claim: options.Claimed = None,
    output: options.Explained = None,
    one_network: options.OneNetwork = False,
    also: options.Beside = None,
    isolated: options.Isolation = True,
    preset: options.Preset = None,
    csv: options.Table = None,
    parquet: options.Table = None,
    json: Annotated[Path | None, typer.Option(help="Write all results to this file.")] = None,
    figure: Annotated[
        Path | None,
        typer.Option(help="Write the F1 that decides to this file (.png, .pdf or .svg)."),
    ] = None,
    all_parts: Annotated[
        bool,
        typer.Option(
            "--all-parts", help="With --figure: precision, recall and F1 of every part instead."
        ),
    ] = False,
    forms: Annotated[
        Path | None,
        typer.Option(help="Write the lowest scores before equivalent networks to this file."),
    ] = None,
    maps: Annotated[
        Path | None,
        typer.Option(
            help="Write the attributions of up to three images of each environment to this file."
        ),
    ] = None,
    size: options.Size = None,
    latex: options.Latex = None,
    markdown: options.Table = None,
    *,
    running: dict[str, Any],
) -> None:
    """Run methods side by side on the same images: scores, verdicts, seconds.

    Exit status: 0 whatever the verdicts, 1 if a method that was named failed in an environment, 2
    refused, 70 a crash, 130 interrupted.
    """
    from attributionlab.methods import METHODS
    from attributionlab.show import comparison_table, print_table
    from attributionlab.verdicts import DEFAULT_ENVIRONMENTS, QUESTIONS, compare

    places = options.check_paths(
        {
            "csv": csv,
            "parquet": parquet,
            "json": json,
            "figure": figure,
            "forms": forms,
            "maps": maps,
            "latex": latex,
            "markdown": markdown,
        },
        [*(methods or []), *(env or [])],
        size,
    )
    if all_parts and not figure:
        raise AttributionLabError("--all-parts is given without --figure: add --figure PATH")
    if forms and not any(each.startswith("equivalent") for each in also or ()):
        raise AttributionLabError("--forms is given without --also equivalent: add it")
    named = [name for name in methods or [] if name not in METHODS or not all_]
    environments = options.load_all(env or DEFAULT_ENVIRONMENTS, quick, image_size)

    comparison, stop = options.as_far_as_done(
        "compare",
        running["out"],
        lambda folder: compare(
            [*METHODS, *named] if all_ else named or None,
            environments,
            (options.QUICK_QUESTIONS if quick else QUESTIONS) if n is None else n,
            options.parse_seed(seed),
            claim,  # type: ignore[arg-type]
            explain=output,  # type: ignore[arg-type]
            preset=preset,
            also=also or (),
            one_network=one_network,
            isolated=isolated,
            **{**running, "out": folder},
        ),
    )
    writers = {
        "csv": comparison.to_csv,
        "parquet": comparison.to_parquet,
        "json": comparison.to_json,
        **options.table_writers(comparison.summary),
        "figure": options.figure_writer(lambda: comparison.figure(all_parts), size),
        "forms": options.figure_writer(comparison.forms, size),
        "maps": options.figure_writer(comparison.maps, size),
    }
    with options.written_at_last(places, writers, stop):
        print_table(comparison_table(comparison.to_dict()), width=128)
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


@options.with_running
def run_metric_test(
    metric: Annotated[
        str,
        typer.Argument(
            help="A metric of al.metrics, such as insertion or road; path/to/file.py:name, or "
            "module:name."
        ),
    ],
    env: Annotated[
        str,
        typer.Option(
            "--env",
            help="A name, the path of a TOML file, or random:N:DIFFICULTY:SEED for N random worlds.",
        ),
    ] = "multi-color-sum",
    n: Annotated[
        int,
        typer.Option(
            "--n", help="Questions (an image, a target, a network), at least 2; 6 to decide."
        ),
    ] = 8,
    seed: options.Seed = 0,
    quick: options.Quick = False,
    image_size: options.ImageSize = None,
    dose: Annotated[
        list[str] | None,
        typer.Option(
            "--dose",
            metavar="AXIS=NUMBER[,NUMBER...]",
            help="Doses of unseen data on an axis (strength, channels, distance, share); may be "
            "repeated. All axes by default.",
        ),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option("--method", help="A method to rank as well; may be repeated."),
    ] = None,
    output: options.Explained = None,
    threshold: Annotated[
        float, typer.Option(help="The correlation below which a metric counts as broken.")
    ] = 0.5,
    lower_is_better: Annotated[
        bool,
        typer.Option(
            "--lower-is-better", help="For your own metric, if it does not say so itself."
        ),
    ] = False,
    takes: Annotated[
        str | None,
        typer.Option(
            metavar="[logits|probabilities]",
            help="For your own metric: what the outputs are of the model that it is handed. By "
            "default what is explained; one that applies a softmax itself takes logits.",
        ),
    ] = None,
    isolated: options.Isolation = True,
    json: options.Report = None,
    csv: Annotated[Path | None, typer.Option(help="Write the table of doses to this file.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page to this file.")] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Write a figure to this file (.png, .pdf or .svg).")
    ] = None,
    size: options.Size = None,
    *,
    running: dict[str, Any],
) -> None:
    """Check a metric's code; then try whether it ranks attributions as the truth does, and because of
    the network. A metric whose code has an error is not tried. All else that the checks find is advice:
    the trial decides.

    In worlds from rules nothing is unseen: there are no doses. `metrics` says in how many worlds a
    metric is valid.

    Exit status: 0 valid, 1 not valid (faulty, blind or reversed, too), 2 refused, 3 undecided.
    """
    from attributionlab.base import located
    from attributionlab.verdicts import STATUS, metric_test, says_direction

    scorer: Any = located(metric, {}) if ":" in metric else metric
    says_so = isinstance(scorer, str) or says_direction(scorer)
    if lower_is_better and says_so:
        raise AttributionLabError(
            f"--lower-is-better: {metric} says itself which is better: leave it out"
        )
    paths = {"json": json, "csv": csv, "html": html, "figure": figure}
    places = options.check_paths(paths, [metric, *(method or []), env], size)
    doses = parse_doses(dose) if dose else None
    [place] = options.load_all([env], quick, image_size)

    report, stop = options.as_far_as_done(
        f"metric {metric}",
        running["out"],
        lambda folder: metric_test(
            scorer,
            place,
            n,
            seed,
            higher_is_better=None if says_so else not lower_is_better,
            takes=takes,  # type: ignore[arg-type]
            methods=method or (),
            doses=doses,
            output=output,  # type: ignore[arg-type]
            threshold=threshold,
            isolated=isolated,
            **{**running, "out": folder},
        ),
    )

    writers: dict[str, Callable[[Path], None]] = {
        "json": report.to_json,
        "csv": report.to_csv,
        "html": report.to_html,
        "figure": options.figure_writer(report.figure, size),
    }
    if report.checks is not None and report.checks.faults:
        typer.echo(report.checks.text())
        options.write_all(places, {"json": writers["json"]})
        if unwritten := [str(paths[name]) for name in ("csv", "html", "figure") if paths[name]]:
            typer.echo(f"not written, because the metric was not tried: {', '.join(unwritten)}")
        raise typer.Exit(STATUS["faulty"])
    with options.written_at_last(places, writers, stop):
        _print_trial(report)
    raise typer.Exit(STATUS[report.verdict])


def _print_trial(report: "MetricReport") -> None:
    """What a metric's check and trial found."""
    from attributionlab.show import data_table, notes_list, print_table

    checked = f"{report.checks.text()}\n" if report.checks else ""
    side = report.image_size
    typer.echo(f"{checked}{report.title}, {side} x {side} pixels\n{report.sentence}")
    for title, table in report.tables().items():
        typer.echo(f"\n{title}")
        print_table(data_table(table), width=140)
    print_table(notes_list(report.notes))


def parse_doses(words: list[str]) -> dict[str, list[float]]:
    """Doses by axis, from AXIS=NUMBER[,NUMBER...]."""
    doses: dict[str, list[float]] = {}
    for word in words:
        axis, _, numbers = word.partition("=")
        try:
            doses.setdefault(axis, []).extend(float(each) for each in numbers.split(","))
        except ValueError:
            raise AttributionLabError(
                f"--dose is {word!r}: write AXIS=NUMBER[,NUMBER...], such as share=0,0.5,1"
            ) from None
    return doses
