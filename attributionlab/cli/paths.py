"""The files that commands write: refused before the work where they cannot be, written after it."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from attributionlab.base import (
    AttributionLabError,
    check_writable,
    follow,
    format_error,
    is_made_here,
    nearest,
    place_of,
    refuse_if,
)
from attributionlab.cli.options import Command, option, with_options
from attributionlab.worlds import environments, find_dataset, find_spec, read_spec

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

DISTRIBUTIONS = {"PIL": "pillow", "skimage": "scikit-image", "sklearn": "scikit-learn"}
"""Packages that are installed under another name than they are imported by."""
FIGURES = (".png", ".pdf", ".svg")
SIZE_NAMES = ("slide", "page", "column")
"""Keys of `show.style.SIZES`, which imports matplotlib."""
SUFFIXES = {
    "html": ".html",
    "out": ".html",  # of live; train names its own
    "json": ".json",
    "csv": ".csv",
    "parquet": ".parquet",
    "latex": ".tex",
    "markdown": ".md",
}
"""What files of each kind are called: none may have the name of another kind, others may be free."""
DRAWN = ("figure", "maps", "forms", "draw")
"""Files that hold figures."""
SETS = ("images", "tokens")
"""Names of several environments: keys of `SETS` of the protocol, which imports torch."""
READ = ("method", "methods", "metric", "metrics", "env", "maps", "reports")
"""Arguments that may name files, which the work reads."""

Size = Annotated[
    str | None,
    typer.Option("--size", metavar="S", help="Figure size: slide, page or column."),
]


class Files(NamedTuple):
    """The files that a command shall write, as absolute paths by option, and the size of figures."""

    places: Mapping[str, Path]
    size: str | None

    def writers(self, result: Any, **own: Any) -> dict[str, Callable[[Path], None]]:
        """What writes each of them: figures from what draws them, and texts of tables from `tables`,
        both the result's if none is given; all else the result itself.
        """
        tables = own.get("tables") or result.to_frame
        found: dict[str, Callable[[Path], None]] = {}
        for name in self.places:
            if name in DRAWN:
                found[name] = figure_writer(own.get(name) or result.figure, self.size)
            elif name in TEXTS:
                found[name] = partial(write_tables, tables, name)
            else:
                found[name] = getattr(result, f"to_{name}")
        return found

    @contextmanager
    def written(self, result: Any, stop: BaseException | None = None, **own: Any) -> Iterator[None]:
        """Write them whether or not anybody reads what the block prints; then raise what stopped the
        command, if anything did.
        """
        try:
            yield
        finally:
            write_all(self.places, self.writers(result, **own))
        if stop is not None:
            raise stop


def with_files(**meanings: str) -> Callable[[Command], Command]:
    """Commands with an option for each file that they write, by what it says of itself; what could not
    be written is refused before the work.
    """
    kinds = {
        name: option(Path | None, f"Write {meaning} to this file.")
        for name, meaning in meanings.items()
    }
    if not set(DRAWN).isdisjoint(meanings):
        kinds["size"] = (Size, None)

    def collected(given: dict[str, Any]) -> Files:
        envs = given.get("env") or []  # misspelled ones are refused before torch is imported
        for env in [envs] if isinstance(envs, str) else envs:
            if ":" not in env and env not in (*SETS, *environments("tokens")):
                find_spec(env, "designs", "environment")
        named = [given[name] for name in READ if name not in meanings and given.get(name)]
        read = [
            str(word) for each in named for word in (each if isinstance(each, list) else [each])
        ]
        paths = {name: given[name] for name in meanings}
        return Files(check_paths(paths, read, given.get("size")), given.get("size"))

    return with_options("files", kinds, collected)


def check_paths(
    paths: Mapping[str, Path | None], read: Sequence[str], size: str | None = None
) -> dict[str, Path]:
    """Refuse before the work what could not be written after it; the others as absolute paths.

    `paths`: files to write, by option. `read`: what may name files that the work reads, and which must
    stay: environments with their data sets, and methods or metrics as ``file.py:name``, ``module:name``
    or a file of maps. `size`: that figures shall have.
    """
    check_size(size, any(paths.get(name) for name in DRAWN), "--figure PATH")
    given = {name: path for name, path in paths.items() if path}
    places = {name: check_writable(path) for name, path in given.items()}
    files = [file for name in read for file in _files_behind(name)]
    sources = {Path(file).resolve() for file in files if os.path.isfile(file)}
    for index, (name, place) in enumerate(places.items()):
        path = str(given[name])
        if name in DRAWN and place.suffix.lower() not in FIGURES:
            raise AttributionLabError(f"--{name} is {path!r}: name it .png, .pdf or .svg")
        if place in sources:
            raise AttributionLabError(f"--{name} is {path!r}, an input file: write to another path")
        check_replaced({f"--{name}": place})
        earlier = list(places.values())[:index]
        if place in earlier:
            other = list(places)[earlier.index(place)]
            raise AttributionLabError(f"--{other} and --{name} are both {path!r}: give two paths")
        own = SUFFIXES.get(name, place.suffix.lower())
        if place.suffix.lower() in {*SUFFIXES.values(), *FIGURES} - {own}:
            raise AttributionLabError(
                f"--{name} is {path!r}, the name of another kind of file: name it {own}"
            )
    return places


def check_replaced(places: Mapping[str, Path]) -> None:
    """Refuse paths, by what they are for, at which there are files that no command of ours wrote."""
    refuse_if(
        [
            f"{name} is {str(place)!r}, a file that AttributionLab did not write: name another file, "
            "or delete it first"
            for name, place in places.items()
            if not is_made_here(place)
        ]
    )


def check_size(size: str | None, drawn: bool, remedy: str) -> None:
    """Refuse a size of figures that there is not, and one without a figure to be `drawn`."""
    if size is not None and size not in SIZE_NAMES:
        raise AttributionLabError(f"--size is {size!r}: {nearest(size, SIZE_NAMES)}")
    if size is not None and not drawn:
        raise AttributionLabError(f"--size is {size!r}, but there is no figure: add {remedy}")


def _files_behind(name: str) -> Iterator[str | Path]:
    """Where what is read may lie; nothing is run, and what is wrong is refused where it is used."""
    place = name.rpartition(":")[0]
    yield from (name, place)
    if name.endswith(".toml"):
        with suppress(AttributionLabError):
            design = find_spec(name, "designs", "environment")
            yield find_dataset(design, str(read_spec(design).get("dataset")))
    folders = None  # those of sys.path
    for part in place.split("."):
        spec = PathFinder.find_spec(part, folders) if part.isidentifier() else None
        if spec is None:
            return
        yield from filter(None, [spec.origin])
        folders = spec.submodule_search_locations


def write_all(places: Mapping[str, Path], writers: Mapping[str, Callable[[Path], None]]) -> None:
    """Write every file that can be written; then refuse for those that cannot."""
    problems = []
    for name, write in writers.items():
        if name in places:
            try:
                with follow(f"writing --{name}"):
                    write(places[name])
            except AttributionLabError as error:
                problems.append(str(error))
            except Exception as error:  # the others are still to be written
                why = f"{format_error(error)}{place_of(error)}: report it as a bug"
                if isinstance(error, ImportError):
                    why = not_installed(error)
                problems.append(f"--{name} could not be written to {str(places[name])!r}: {why}")
    refuse_if(problems)


def figure_writer(draw: Callable[[], "Figure"], size: str | None) -> Callable[[Path], None]:
    """What draws a figure and writes it, in the format that the path's suffix names."""

    def write(path: Path) -> None:
        from attributionlab.base import write_atomically
        from attributionlab.show import encoded, laid_out_for

        with laid_out_for(size):
            figure = draw()
        write_atomically(path, encoded(figure, path.suffix.lower(), size))

    return write


TEXTS = {
    "latex": ("% {}", "% written by AttributionLab\n"),
    "markdown": ("### {}", "<!-- written by AttributionLab -->\n"),
}
"""Files that hold tables as text: how a table's name stands above it, and how the file ends."""


def write_tables(
    tables: Callable[[], "pd.DataFrame | Mapping[str, pd.DataFrame]"], kind: str, path: Path
) -> None:
    """Write a table, or several under their names, as one of `TEXTS`."""
    from attributionlab.base import write_atomically
    from attributionlab.show import table_text

    (head, end), found = TEXTS[kind], tables()
    if isinstance(found, Mapping):
        texts = [f"{head.format(name)}\n\n{table_text(each, kind)}" for name, each in found.items()]
    else:
        texts = [table_text(found, kind)]
    write_atomically(path, "\n".join([*texts, end]))


def not_installed(error: ImportError) -> str:
    """What cannot be imported, and how it is installed."""
    package = (error.name or "").partition(".")[0]
    if not package:  # pandas names none: the sentence does, and lists all that it tried
        said = format_error(error).partition(". ")[0]
        return f"{said}: install what is missing"
    install = f"{sys.executable} -m pip install {DISTRIBUTIONS.get(package, package)}"
    return f"{format_error(error)}: install it, as by {install}"
