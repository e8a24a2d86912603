"""The command `cards`: a card of each metric, and one table of all of them."""

from pathlib import Path
from typing import Annotated

import typer

from attributionlab.base import printable
from attributionlab.cli import options
from attributionlab.cli.studies import parse_doses


def write_cards(
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Write the page index.html, the cards and table.csv into this folder; results that "
            "are there are not computed again.",
        ),
    ],
    metrics: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[METRIC]...",
            help="Metrics of al.metrics, such as insertion; path/to/file.py:name or module:name; all "
            "of al.metrics by default.",
        ),
    ] = None,
    env: Annotated[
        str, typer.Option("--env", help="A name, or the path of a TOML file, of the trial.")
    ] = "multi-color-sum",
    n: Annotated[int, typer.Option("--n", help="Questions of the trial; 6 to decide.")] = 8,
    seed: options.Seed = 0,
    quick: options.Quick = False,
    image_size: options.ImageSize = None,
    dose: Annotated[
        list[str] | None,
        typer.Option(
            "--dose", metavar="AXIS=NUMBER[,NUMBER...]", help="As for metric; all axes by default."
        ),
    ] = None,
    jobs: options.Jobs = None,
    retry_failed: options.RetryFailed = False,
) -> None:
    """Write a card of each metric (what it asks, costs and cannot see, its checks and its trial), and a
    page with one table of all.

    A function of your own says which direction is better by @al.metrics.metric.
    """
    from attributionlab.base import check_writable, located
    from attributionlab.show import data_table, print_table
    from attributionlab.verdicts import FUNCTIONS, any_metric, files_of, metric_cards

    [place] = options.load_all([env], quick, image_size)
    doses = parse_doses(dose) if dose else None
    chosen = [located(each, {}) if ":" in each else each for each in metrics or FUNCTIONS]
    for name in files_of(any_metric(each).name for each in chosen):
        if (out / name).exists():
            options.check_replaced({"--out": check_writable(out / name)})

    cards, stop = options.as_far_as_done(
        "cards",
        out,
        lambda folder: metric_cards(
            chosen,
            place,
            n,
            seed,
            doses=doses,
            out=folder,
            jobs=jobs,
            retry_failed=retry_failed,
            show_progress=True,
        ),
    )
    written = cards.save(out)
    print_table(data_table(cards.shown().drop(columns=["range", "cannot_see"])), width=140)
    options.say(printable(f"written: {written[0]}"))
    if stop is not None:
        raise stop
