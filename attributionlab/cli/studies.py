"""The commands `compare`, `metric`, `cards`, `unseen` and `train`."""

import re
import time
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attributionlab.base import AttributionLabError, follow, nearest, printable
from attributionlab.cli import options, paths

if TYPE_CHECKING:
    from attributionlab.verdicts import Comparison, MetricReport

SUFFIX = ".safetensors"
"""Of a trained network's file."""


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
        bool, typer.Option("--all", help="Add all built-in methods to those you list.")
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
    cite: options.Cite = False,
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
    from attributionlab.show import (
        DOUBTED,
        PASS_RULE,
        code_text,
        comparison_table,
        methods_table,
        print_table,
    )
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
        if cite:
            table = comparison.paper_table()
            told = {report.label: code_text(report.to_dict()) for report in comparison.reports}
            found = [
                f"{method}: {'inconclusive' if verdict == DOUBTED else verdict}"
                + f", {told[method]}" * bool(told[method])
                for method, verdict in zip(table["method"], table["verdict"], strict=True)
            ]
            verdicts = "; ".join(found)
            options.print_citation(
                f"Methods were compared on {comparison.reports[0].n} questions for each network "
                f"({verdicts}), using {comparison.setting}; a method passes if {PASS_RULE} "
                "in every environment and implementation"
            )
    raise typer.Exit(
        options.status_of(methods or [], (each.method for each in comparison.refusals))
    )


def _print_differences(comparison: "Comparison", first: str, second: str) -> None:
    """Two methods on the same images, where there are some that both explained."""
    from rich.text import Text

    from attributionlab.show import data_table, print_table

    try:
        differences = comparison.differences(first, second)
    except AttributionLabError:  # each ran where the other did not
        return
    numbers = differences.select_dtypes("float").round(3) + 0.0  # no -0
    what = f"{first} (first) minus {second} (second)"
    print_table(Text(f"\n{what}, F1 on the same images, with a 95 % interval"))
    better = differences["better"].fillna("undecided")  # names would not fit into 80 columns
    shown = differences.assign(**numbers, better=better)
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
        float, typer.Option(help="A metric is called broken below this correlation.")
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
    quick: options.QuickTrial = False,
    cite: options.Cite = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            help="Also print the scores at every dose, the findings of the checks and all notes.",
        ),
    ] = False,
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
    from rich.text import Text

    from attributionlab.show import print_table
    from attributionlab.verdicts import STATUS, metric_test, says_direction

    scorer = options.named_metric(metric)
    says_so = isinstance(scorer, str) or says_direction(scorer)
    if lower_is_better and says_so:
        raise AttributionLabError(
            f"--lower-is-better: {metric} already declares its direction: leave the option out"
        )
    started = time.monotonic()
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
            quick=quick,
            **tried,
            **{**running, "out": folder},
        ),
    )
    seconds = time.monotonic() - started
    if report.checks is not None and report.checks.faults:
        print_table(Text(f"{report.checks.text()}\n\nNext: {CORRECT}."))
        kept = {name: path for name, path in files.places.items() if name == "json"}
        paths.write_all(kept, files.writers(report))
        if unwritten := [path.name for name, path in files.places.items() if name not in kept]:
            typer.echo(f"not written, as there was no trial of the metric: {', '.join(unwritten)}")
        raise typer.Exit(STATUS["faulty"])
    with files.written(report, stop):
        _print_trial(report, verbose, seconds)
        if cite:
            asked = f"{report.n} questions, seed {report.seed}"
            options.print_citation(
                f"{report.title} was tested with AttributionLab, {asked}: {report.sentence.rstrip('.')}"
            )
    raise typer.Exit(STATUS[report.verdict])


MORE = (
    "More: --verbose (every dose, wrong attributions, checks, columns), --html PATH, --json PATH."
)
CORRECT = (
    "correct this, then repeat the command; al.check_metric(METRIC, only=[ID], time_limit=None) "
    "repeats one check, for a debugger"
)
FULL, ENOUGH = 5, 16
"""How many times as long as a quick test a full one takes; questions that mostly decide."""


def _next(report: "MetricReport", seconds: float) -> list[str]:
    """What to do after a verdict, as lines; none where the sentence of the verdict says it."""
    words, trial = report.command, report.trial
    if report.stopped or trial is None:
        return []
    if report.quick and report.verdict == "undecided" and trial.lead and trial.ranked:
        n = max(ENOUGH, 2 * report.n)
        what, times = "more questions", (1 + n / report.n) / 2  # half of it is the start
        words = f"{re.sub(r' --n[ =][0-9]+', '', words)} --n {n}"
    elif report.quick and report.verdict == "valid":
        what, times, words = "the full test", FULL, words.replace(" --quick", "")
    elif report.verdict == "valid":
        other = "quadrants" if report.environment != "quadrants" else "multi-color-sum"
        return [f"Next: other environments (--env {other}), and your image size (--image-size S)."]
    else:
        return []
    return [
        f"Next: {what}, about {times:.0f} times as long as this run ({seconds:.0f} s):",
        f"  {words}",
    ]


def _print_trial(report: "MetricReport", verbose: bool, seconds: float) -> None:
    """What a metric's check and trial found in some seconds; without `verbose` what decides."""
    from rich.text import Text

    from attributionlab.show import notes_list, print_table, print_tables
    from attributionlab.verdicts import BOTH, SHORT_TABLES

    tables, checks = report.tables(), report.checks
    if verbose and checks:
        typer.echo(checks.text())
    side = report.image_size
    print_table(Text(f"{report.title}, {side} x {side} pixels\n{report.sentence}"))
    if verbose:
        print_tables(tables)
        print_table(notes_list(report.notes))
        return
    print_tables({name: tables[name] for name in SHORT_TABLES if name in tables}, width=100)
    below = [BOTH] if SHORT_TABLES[-1] in tables else []
    if checks:
        found = f": {', '.join(row.id for row in checks.notes)}" if checks.notes else ""
        below.append(f"Checks of its code: {checks.title.partition(': ')[2]}{found}.")
    below += report.caveats
    below += _next(report, seconds)
    print_table(Text("\n" + "\n".join(map(printable, [*below, MORE]))))


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
    from attributionlab.base import check_writable
    from attributionlab.show import data_table, print_table
    from attributionlab.verdicts import FUNCTIONS, any_metric, files_of, metric_cards

    chosen = [options.named_metric(each) for each in metrics or FUNCTIONS]
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


@paths.with_files(
    csv="the table of doses",
    figure="a figure (.png, .pdf or .svg)",
)
@options.with_running
@options.with_trial
def show_unseen(
    tested: Annotated[
        str,
        typer.Argument(
            metavar="METHOD|METRIC",
            help="A built-in method such as integrated-gradients, a metric of al.metrics such as "
            "insertion, path/to/file.py:name or module:name.",
        ),
    ],
    settings: options.Settings = None,
    *,
    tried: dict[str, Any],
    running: dict[str, Any],
    files: paths.Files,
) -> None:
    """Measure how unseen colors affect a method or a metric.

    For a method, the network's response to unseen colors increases from dose to dose (strength,
    channels), and the method's queries are counted. For a metric, the doses can also be the distance
    of the replacement color from the background, and the share of removed pixels that get it.
    """
    from rich.text import Text

    from attributionlab.methods import METHODS
    from attributionlab.show import print_table, print_tables
    from attributionlab.verdicts import (
        CONTROLS,
        FUNCTIONS,
        dose_figure,
        metric_test,
        says_direction,
        unseen_test,
    )

    if re.fullmatch("[a-z0-9-]+", tested) and tested not in {*METHODS, *CONTROLS, *FUNCTIONS}:
        raise AttributionLabError(
            f"no method or metric {tested!r}: {nearest(tested, [*METHODS, *FUNCTIONS])}"
        )
    found = options.named_metric(tested)
    is_metric = tested in FUNCTIONS or (":" in tested and says_direction(found))
    if not is_metric and callable(found) and "attributions" in signature(found).parameters:
        raise AttributionLabError(
            f"{tested} takes attributions, so it is a metric, but declares no direction: mark it with "
            "@metric(higher_is_better=True) of attributionlab.metrics (or False)"
        )
    given = {**tried, **running}
    if not is_metric:
        report: Any = unseen_test(tested, settings=options.parse_settings(settings or []), **given)
        with files.written(report):
            typer.echo(report.title)
            print_tables({"": report.shown()})
            print_table(Text(report.sentence))
        return
    if settings:
        raise AttributionLabError(
            "--set is for methods: for a metric with other settings, write a function that calls it"
        )
    report = metric_test(found, **given)
    table = report.dose_frame().query("ranked_by == 'signed'")
    if table.empty:
        raise AttributionLabError(f"{tested} has no result at any dose: {report.sentence}")
    title = f"{report.title}: agreement with the truth by dose of unseen data"
    with files.written(
        report,
        figure=lambda: dose_figure(table, "correlation", "metric", title),
    ):
        typer.echo(title)
        print_tables({"": table[["axis", "dose", "unseen", "correlation", "low", "high"]].round(2)})


def train_file(
    world: Annotated[str, typer.Argument(help="A name or a TOML file.")],
    out: Annotated[Path, typer.Option(help="Write the network to this file (.safetensors).")],
    architecture: Annotated[
        str, typer.Option(help="Architecture: patch-cnn, cnn, gelu-cnn or vit.")
    ] = "patch-cnn",
    seed: Annotated[int, typer.Option(help="Seed of the initial weights and the batches.")] = 0,
    samples: Annotated[
        int | None, typer.Option(help="Number of training images. Default: the world's own number.")
    ] = None,
    image_size: Annotated[
        int, typer.Option(metavar="S", help="Use images of S x S pixels, S a multiple of 4.")
    ] = 24,
) -> None:
    """Train a network on the rule of a world, examine it, and write it with its certificate.

    The same command writes the same file on the same machine. It takes half a minute to three minutes
    of processor time.

    Exit status: 0 certified and written, 1 not certified and not written, 2 wrong input, 70 crash, 130
    interrupted.
    """
    from attributionlab.worlds import LEARNING_IMAGES, load, make_trained

    if out.suffix != SUFFIX:
        raise AttributionLabError(f"--out is {str(out)!r}: name it NAME{SUFFIX}")
    places = paths.check_paths({"out": out}, read=[world])
    if world.partition(":")[0] == "random":
        raise AttributionLabError(
            f"{world} is random, and a network that is trained on a random world cannot be loaded: "
            f"name a world of the catalog, or a TOML file with a rule (attributionlab show {world})"
        )
    env = load(world, image_size=image_size, **LEARNING_IMAGES.get(world, {}))
    with options.saying_what_was_done(), follow(f"train {world}"):
        trained = make_trained(env, architecture, seed=seed, samples=samples, show_progress=True)
    certificate = trained.certificate
    for name, value in certificate.agreement.items():
        typer.echo(f"{name:16} agrees {value:.4f}, {certificate.asked[name]:.0%} asked")
    typer.echo(f"{'one patch less':16} {certificate.signs:.1%} right signs")
    shapley = f"R^2 {certificate.shapley:.4f}, largest null patch {certificate.null:.3f}"
    typer.echo(f"{'Shapley values':16} {shapley}")
    if certificate.problems:
        problems = "; ".join(certificate.problems)
        typer.echo("\n" + printable(f"not certified, so not written: {problems}"))
        raise typer.Exit(1)
    trained.write(places["out"])
    call = f"al.load({world!r}, image_size={image_size}, trained={str(out)!r})"
    typer.echo("\n" + printable(f"{out}: certified; next: {call}"))
