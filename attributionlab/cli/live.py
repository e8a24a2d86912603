"""The command `live`: a page in which a network runs."""

from pathlib import Path
from typing import Annotated

import typer

from attributionlab.base import follow, printable
from attributionlab.cli import options


def write_live_page(
    out: Annotated[Path, typer.Option(help="Write the page to this file.")],
    env: Annotated[
        str, typer.Option(help="A name, or the path of a TOML file.")
    ] = "multi-color-sum",
    n: Annotated[int, typer.Option(help="How many images, 1 to 16.")] = 4,
    seed: Annotated[int, typer.Option(help="Which images.")] = 0,
    image_size: Annotated[
        int, typer.Option(metavar="S", help="Images of S x S pixels, S from 24 to 128.")
    ] = 72,
) -> None:
    """Write one HTML file in which the network itself runs: predict, try, see.

    Students move the baseline, write the network another way or remove pixels, and see what
    attributions make of it. The file needs no server and loads nothing.
    """
    from attributionlab.base import write_atomically
    from attributionlab.teaching import live_page
    from attributionlab.worlds import load

    places = options.check_paths({"out": out}, read=[env])
    with follow(f"live {env}"):
        command = printable(options.command_line())  # a path may be no text in UTF-8
        page = live_page(load(env, image_size=image_size), n, seed, command=command)
    write_atomically(places["out"], page)
    images = f"{n} image{'s' * (n > 1)}"
    typer.echo(printable(f"{out}: {env}, {images}, {len(page.encode()):,} bytes"))
    typer.echo(printable(f"next: open {out} in a browser"))
