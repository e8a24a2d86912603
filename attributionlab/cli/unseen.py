"""The command `unseen`."""

import re
from typing import Annotated, Any

import typer

from attributionlab.base import AttributionLabError, located, nearest
from attributionlab.cli import options, paths


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
    from attributionlab.methods import METHODS
    from attributionlab.show import print_tables
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
    found: Any = located(tested, METHODS) if ":" in tested else tested
    is_metric = tested in FUNCTIONS or (":" in tested and says_direction(found))
    given = {**tried, **running}
    if not is_metric:
        report: Any = unseen_test(tested, settings=options.parse_settings(settings or []), **given)
        with files.written(report):
            typer.echo(report.title)
            print_tables({"": report.shown()})
            typer.echo(report.sentence)
        return
    if settings:
        raise AttributionLabError(
            "--set is for methods: for a metric with other settings, write a function that calls it"
        )
    report = metric_test(found, **given)
    table = report.dose_frame().query("ranked_by == 'signed'")
    if table.empty:
        raise AttributionLabError(f"{tested} is not tried at any dose: {report.sentence}")
    title = f"{report.title}: agreement with the truth by dose of unseen data"
    with files.written(
        report,
        figure=lambda: dose_figure(table, "correlation", "metric", title),
    ):
        typer.echo(title)
        print_tables({"": table[["axis", "dose", "unseen", "correlation", "low", "high"]].round(2)})
