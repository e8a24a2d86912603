"""The commands `export` and `score`: environments and maps as files, for other frameworks."""

from pathlib import Path
from typing import Annotated

import typer

from attributionlab.base import AttributionLabError, follow, printable
from attributionlab.cli import options


def export_files(
    env: Annotated[str, typer.Argument(help="A name, or the path of a TOML file.")],
    out: Annotated[Path, typer.Option(help="Write this folder, whole or not at all.")],
    n: Annotated[int, typer.Option(help="How many images.")] = 32,
    seed: Annotated[int, typer.Option(help="Which images.")] = 0,
    output: options.Explained = None,
    quick: options.Quick = False,
    image_size: options.ImageSize = None,
) -> None:
    """Write images, labels, masks and the network of an environment as files.

    Other frameworks read them without torch; `attributionlab score` scores their maps.
    """
    from attributionlab.verdicts import export_environment

    [loaded] = options.load_all([env], quick, image_size)
    export_environment(
        loaded,
        out,
        n,
        seed,
        output,  # type: ignore[arg-type]
        show_progress=True,
        command=options.command_line(),
    )
    chosen = loaded.checked_output(output)
    typer.echo(
        printable(f"{out}: {loaded.name}, {n} images, seed {seed}, masks of the {chosen}")
        + "\nnext: save a map of each image as maps.npz, then "
        + printable(f"attributionlab score {out} maps.npz")
    )


def score_files(
    folder: Annotated[Path, typer.Argument(help="What attributionlab export wrote.")],
    maps: Annotated[Path, typer.Argument(help="A .npz or .npy file: one map for each image.")],
    claim: options.Claimed = None,
    json: options.Report = None,
) -> None:
    """Score maps that were made of exported images, by any framework.

    All images have one network: a pass proves less than one of attributionlab test. The exit status is
    that of attributionlab test.
    """
    from attributionlab.show import print_table, report_table
    from attributionlab.verdicts import score_export

    places = options.check_paths({"json": json}, read=[str(maps)])
    if json and folder.resolve() in places["json"].parents:
        raise AttributionLabError(f"--json is {str(json)!r}, in the export: write elsewhere")
    with follow(f"score {maps}"):
        report = score_export(
            folder,
            maps,
            claim,  # type: ignore[arg-type]
            show_progress=True,
        )
    report = options.with_command(report)
    with options.written_at_last(places, {"json": report.to_json}):
        print_table(report_table(report.to_dict()))
    raise typer.Exit(options.STATUSES[report.verdict])
