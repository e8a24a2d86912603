"""The command that tests a metric."""

from pathlib import Path
from typing import Annotated, Any

import typer

from attributionlab.cli_options import (
    Device,
    Explained,
    Seed,
    check_paths,
    command_line,
    saying_what_was_done,
    write_all,
)
from attributionlab.errors import AttributionLabError
from attributionlab.progress import follow

__all__ = ["run_metric_test"]


def run_metric_test(
    metric: Annotated[
        str,
        typer.Argument(
            help="A built-in name, such as insertion; path/to/file.py:name, or module:name."
        ),
    ],
    env: Annotated[
        str, typer.Option("--env", help="Environment with a color detector (name or TOML file).")
    ] = "multi-color-sum",
    n: Annotated[int, typer.Option("--n", help="Images, at least 2.")] = 8,
    seed: Seed = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="Images of 72 x 72 pixels; results differ from 224.")
    ] = False,
    method: Annotated[
        list[str] | None,
        typer.Option("--method", help="A method to rank as well; may be repeated."),
    ] = None,
    output: Explained = None,
    threshold: Annotated[
        float, typer.Option(help="The correlation below which a metric counts as broken.")
    ] = 0.5,
    lower_is_better: Annotated[
        bool,
        typer.Option(
            "--lower-is-better", help="For a metric of yours that does not say so itself."
        ),
    ] = False,
    device: Device = "cpu",
    json: Annotated[Path | None, typer.Option(help="Write the report to this file.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the table to this file.")] = None,
) -> None:
    """Test whether a metric ranks attributions as the truth does, at rising doses of unseen data."""
    from attributionlab.catalog import load
    from attributionlab.comparison import QUICK_SIZE
    from attributionlab.dose import METRICS, metric_test
    from attributionlab.methods import as_method
    from attributionlab.report import data_table, findings_list, print_table

    places = check_paths({"json": json, "csv": csv}, read=[metric, *(method or []), env])
    place = load(env, **({"image_size": QUICK_SIZE} if quick else {}))
    asked: Any = (
        metric if metric in METRICS or ":" not in metric else as_method(metric, {}).function
    )
    says_so = isinstance(asked, str) or hasattr(asked, "higher_is_better")
    if lower_is_better and says_so:
        raise AttributionLabError(
            f"--lower-is-better: {metric} says itself which is better: leave it out"
        )
    with saying_what_was_done(), follow(f"metric {metric}"):
        report = metric_test(
            asked,
            place,
            n,
            seed,
            higher_is_better=None if says_so else not lower_is_better,
            methods=method or (),
            output=output,  # type: ignore[arg-type]
            threshold=threshold,
            device=device,
            show_progress=True,
            command=command_line(),
        )
    try:
        table = report.to_frame()
        shown = table[table["ranked_by"] == "signed"].drop(columns=["metric", "ranked_by"])
        size = f", {QUICK_SIZE} x {QUICK_SIZE} pixels" if quick else ""
        typer.echo(f"{report.title}{size}\n")
        print_table(data_table(shown), width=140)
        print_table(findings_list(report.findings()))
    finally:  # whether or not anybody reads the table
        write_all(places, {"json": report.to_json, "csv": report.to_csv})
