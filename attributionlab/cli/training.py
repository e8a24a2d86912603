"""The command `train`: a network that learns the rule of a world, with its certificate."""

from pathlib import Path
from typing import Annotated

import typer

from attributionlab.base import AttributionLabError, follow, printable
from attributionlab.cli import options, paths

SUFFIX = ".safetensors"


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
        raise AttributionLabError(f"--out is {str(out)!r}: name it {SUFFIX}")
    places = paths.check_paths({"out": out}, read=[world])
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
        typer.echo("\n" + printable(f"not certified, and not written: {problems}"))
        raise typer.Exit(1)
    trained.write(places["out"])
    call = f"al.load({world!r}, image_size={image_size}, trained={str(out)!r})"
    typer.echo("\n" + printable(f"{out}: certified; next: {call}"))
