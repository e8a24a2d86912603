"""The command `slides`: the figure of each notebook of the course that is worth a slide."""

import contextlib
import io
import json
import re
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attributionlab.base import AttributionLabError, printable, track
from attributionlab.cli import options

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "slide"
"""The figure that a notebook binds to this name is its slide."""
EMPTY_GATE = re.compile(r"^prediction = None\b", re.MULTILINE)
MAGIC = re.compile(r"^%.*$", re.MULTILINE)
"""Lines for notebooks alone, such as %matplotlib inline."""
DPI = 200


def write_slides(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Write the PNG files here.")],
    notebooks: Annotated[
        Path, typer.Option("--notebooks", metavar="DIR", help="Where the course's notebooks are.")
    ] = Path("notebooks"),
) -> None:
    """Write the figure of each notebook of the course that is worth a slide.

    Each notebook is run, with its questions skipped, until it has drawn that figure: what a class sees
    and what the slides show is the same code. A notebook's code is executed; run only those you trust.
    """
    from attributionlab.base import make_folder, write_atomically
    from attributionlab.show import encoded

    files = sorted(notebooks.glob("*.ipynb"))
    if not files:
        raise AttributionLabError(
            f"there are no notebooks in {str(notebooks)!r}: pass --notebooks with the folder of the "
            "course, which is in the repository and in the source distribution"
        )
    codes = [(file.stem, _code_cells(file)) for file in files]
    options.check_replaced({f"the slide of {stem}": out / f"{stem}.png" for stem, _ in codes})
    folder = make_folder(out)
    done = track(codes, len(codes), "drawing slides", True, "notebooks", name=lambda each: each[0])
    for stem, cells in done:
        write_atomically(folder / f"{stem}.png", encoded(_slide(stem, cells), dpi=DPI))
    for stem, _ in codes:
        typer.echo(printable(str(folder / f"{stem}.png")))


def _code_cells(file: Path) -> list[tuple[str, str]]:
    """Name and source of each code cell."""
    try:
        cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
        return [
            (str(cell["id"]), "".join(cell["source"]))
            for cell in cells
            if cell["cell_type"] == "code"
        ]
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise AttributionLabError(
            f"{str(file)!r} cannot be read as a notebook ({type(error).__name__}): take a fresh copy"
        ) from error


def _slide(stem: str, cells: list[tuple[str, str]]) -> "Figure":
    """Run a notebook up to its slide, in a folder of its own, where tries are counted."""
    from matplotlib.figure import Figure

    names: dict[str, Any] = {"__name__": "__main__", "display": lambda *shown: None}
    with _aside():
        for cell, source in cells:
            try:
                python = MAGIC.sub("", EMPTY_GATE.sub('prediction = "skip"', source))
                code = compile(python, cell, "exec")
                exec(code, names)
            except Exception as error:
                raise AttributionLabError(
                    f"notebook {stem}, cell {cell!r}: {type(error).__name__}: {error}; take a fresh "
                    "copy of the notebook"
                ) from error
            figure = names.get(NAME)
            if isinstance(figure, Figure):
                return figure
    raise AttributionLabError(
        f"notebook {stem} has no slide: bind a figure to the name {NAME!r} in one of its cells"
    )


@contextlib.contextmanager
def _aside() -> Iterator[None]:
    """A passing folder, no windows, and nothing printed."""
    import matplotlib

    matplotlib.use("agg")
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        contextlib.redirect_stdout(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        yield
