"""Options that several commands share: their help, and what their values mean."""

import ast
import functools
import inspect
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from attributionlab.base import (
    AttributionLabError,
    Stopped,
    check_writable,
    follow,
    format_error,
    is_made_here,
    nearest,
    place_of,
    printable,
    refuse_if,
)
from attributionlab.cli.supervisor import limit
from attributionlab.worlds import find_dataset, find_spec, read_spec

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from attributionlab.worlds import Environment

Result = TypeVar("Result")


DISTRIBUTIONS = {"PIL": "pillow", "skimage": "scikit-image", "sklearn": "scikit-learn"}
"""Packages that are installed under another name than they are imported by."""
WORDS = {"true": True, "false": False, "none": None}
"""What Python's own words may also be spelled like, as in TOML or a shell."""
QUICK_SIZE = 72
"""Side of the images of a quick run, in pixels."""
QUICK_QUESTIONS = 20
"""Of which a method that passes solves 19 or more."""
arguments: list[str] = []
"""Arguments of the command line."""
STATUSES = {"pass": 0, "fail": 1, "inconclusive": 3, "invalid": 4}
"""Exit status by verdict."""

Environments = Annotated[
    list[str] | None,
    typer.Option(
        "--env",
        help="Environment (name, TOML file, or random:N:DIFFICULTY:SEED for N random worlds); may be "
        "repeated.",
    ),
]
Quick = Annotated[
    bool,
    typer.Option(
        "--quick", help="Images of 72 x 72 pixels: fast; scores differ from those at 224."
    ),
]
ImageSize = Annotated[
    int | None,
    typer.Option("--image-size", metavar="S", help="Images of S x S pixels, S from 8 to 1024."),
]
FreshSeed = Annotated[
    str,
    typer.Option("--seed", metavar="S", help="Which questions: an integer, or fresh to draw it."),
]
Seed = Annotated[int, typer.Option(help="Seed of images and methods.")]
OneNetwork = Annotated[
    bool,
    typer.Option(
        "--one-network",
        help="Give all images the same network, as in the paper: a pass then proves less.",
    ),
]
Isolation = Annotated[
    bool,
    typer.Option(
        "--isolation/--no-isolation",
        help="Run a method or metric of a file or module in a process of its own, away from truth and "
        "scores.",
    ),
]
Beside = Annotated[
    list[str] | None,
    typer.Option(
        "--also",
        metavar="WHAT[:K]",
        help="Beside the verdict; may be repeated. truths: score also against ablation, insertion, "
        "Shapley values and integrated gradients. equivalent: before K (5) forms of each network with "
        "equal answers. camouflage: how far maps drift between K (3) networks of the same function. "
        "seeds: K (5) runs of a method that draws random numbers.",
    ),
]
Preset = Annotated[
    str | None, typer.Option(help="paper: the settings that a paper states for a built-in method.")
]
Claimed = Annotated[
    str | None,
    typer.Option(
        "--claim",
        help="signed, overall, positive, positive-smoothed or agreed; the method's own by default.",
    ),
]
Explained = Annotated[str | None, typer.Option("--output", help="probability or logit.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting; may be repeated.")
]
Device = Annotated[str, typer.Option(help="cpu or cuda.")]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="DIR", help="Keep results in this folder; what is there is not run again."
    ),
]
FIGURES = (".png", ".pdf", ".svg")
SIZE_NAMES = ("slide", "page", "column")
"""Keys of `report.style.SIZES`, which imports matplotlib."""
Size = Annotated[
    str | None,
    typer.Option("--size", metavar="S", help="Of figures: slide, page or column (of a page)."),
]
Latex = Annotated[Path | None, typer.Option(help="Write the table to this file, for booktabs.")]
Table = Annotated[Path | None, typer.Option(help="Write the table to this file.")]
Report = Annotated[Path | None, typer.Option(help="Write the report to this file.")]
Jobs = Annotated[
    int | None,
    typer.Option(help="Processes; by default as many as there are cores, where that pays."),
]
RetryFailed = Annotated[
    bool, typer.Option("--retry-failed", help="Run again what failed in the folder of --out.")
]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        metavar="S",
        help="Seconds after which the command is ended, without a verdict.",
        callback=lambda value: limit("--time-limit", value, seconds=value),
    ),
]
MemoryLimit = Annotated[
    float | None,
    typer.Option(
        metavar="GIB",
        help="Memory of all its processes beyond which the command is ended, without a verdict.",
        callback=lambda value: limit("--memory-limit", value, gib=value),
    ),
]

RUNNING: dict[str, tuple[Any, Any]] = {
    "device": (Device, "cpu"),
    "out": (Out, None),
    "jobs": (Jobs, None),
    "retry_failed": (RetryFailed, False),
}
"""Options of how a command is run, with their defaults."""
LIMITS: dict[str, tuple[Any, Any]] = {
    "time_limit": (TimeLimit, None),
    "memory_limit": (MemoryLimit, None),
}
"""Further ones, which are obeyed where they are read."""


def with_running(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the options `RUNNING` and `LIMITS` behind its own, of which it gets the first as
    one: `running`.
    """
    signature = inspect.signature(command)
    own = {key: each for key, each in signature.parameters.items() if key != "running"}
    others = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in (RUNNING | LIMITS).items()
        if name not in own
    ]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        running = {name: given[name] for name in RUNNING} | {"show_progress": True}
        command(**{name: given[name] for name in own}, running=running)

    parameters = [*own.values(), *others]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def say(line: str) -> None:
    """Write a line to standard error, at once, since progress is written from a thread; where nobody
    can read it, the exit status says enough.
    """
    with suppress(OSError):
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


def command_line(seed: int | None = None) -> str:
    """Command that repeats the run, with the seed that was drawn for it, if one was; bytes that are no
    text, as names of files may have, are escapes.
    """
    words = list(arguments)
    if seed is not None:
        for place, word in enumerate(words):
            if word == "fresh" and words[place - 1] == "--seed":
                words[place] = str(seed)
            words[place] = words[place].replace("--seed=fresh", f"--seed={seed}")
    return shlex.join(["attributionlab", *words]).encode(errors="backslashreplace").decode()


def with_command(result: Result) -> Result:
    """A result that says which command repeats it."""
    made: Any = result
    seed = made.seed if getattr(made, "seed_drawn", False) else None
    repeated: Result = replace(made, command=command_line(seed))
    return repeated


def load_all(names: Sequence[str], quick: bool, image_size: int | None) -> list["Environment"]:
    """Environments with the images' side that --quick or --image-size asks for."""
    from attributionlab.worlds import load

    if quick and image_size not in (None, QUICK_SIZE):
        raise AttributionLabError(
            f"--image-size is {image_size}, --quick takes {QUICK_SIZE}: leave one of them out"
        )
    size = QUICK_SIZE if quick else image_size
    loaded = [load(name, **({} if size is None else {"image_size": size})) for name in names]
    for name, env in zip(names, loaded, strict=True):
        if name.endswith(":fresh"):  # the command that is printed names the seed that was drawn
            arguments[:] = [word.replace(name, env.name) for word in arguments]
    return loaded


def parse_seed(text: str) -> int | Literal["fresh"]:
    """A seed, or "fresh"."""
    if text == "fresh":
        return "fresh"
    try:
        return int(text)
    except ValueError:
        raise AttributionLabError(
            f"--seed is {text!r}: give an integer of at least 0, or fresh"
        ) from None


@contextmanager
def saying_what_was_done() -> Iterator[None]:
    """On Ctrl-C print what a long computation had found; the interruption goes on."""
    try:
        yield
    except KeyboardInterrupt as stop:
        if str(stop):
            say(printable(str(stop)))
        raise


@contextmanager
def removed_if_refused(out: Path | None) -> Iterator[None]:
    """A command that is refused before it has any result leaves no new folder of --out."""
    from attributionlab.runs import remove_without_results

    if out is None:
        yield
        return
    made = [each for each in (out, *out.parents) if not os.path.exists(each)]
    empty = not made and os.path.isdir(out) and not os.listdir(out)
    try:
        yield
    except AttributionLabError:
        if made or empty:
            remove_without_results(out, made[1:])
        if empty:
            out.mkdir(exist_ok=True)
        raise


@contextmanager
def kept_in(out: Path | None) -> Iterator[Path]:
    """The folder where results are kept while a command works: --out, or a temporary one, which stays
    only where the command was interrupted.
    """
    if out is not None:
        with removed_if_refused(out):
            yield out
        return
    folder = Path(tempfile.mkdtemp(prefix="attributionlab-"))
    try:
        yield folder
    except KeyboardInterrupt:
        say(f"what is done is kept: go on by the same command with --out {folder}")
        raise
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)


def as_far_as_done(
    title: str, out: Path | None, compute: Callable[[Path], Result]
) -> tuple[Result, KeyboardInterrupt | None]:
    """Run `compute`, which works cell by cell, with the folder for its results. Return what it found,
    with the command, and what stopped it, if anything did.
    """
    try:
        with follow(title), saying_what_was_done(), kept_in(out) as folder:
            return with_command(compute(folder)), None
    except Stopped as stop:
        if stop.result is None:
            raise
        return with_command(stop.result), stop


def check_paths(
    paths: Mapping[str, Path | None], read: Sequence[str], size: str | None = None
) -> dict[str, Path]:
    """Refuse before the work what could not be written after it; the others as absolute paths.

    `paths`: files to write, by option. `read`: what may name files that the work reads, and which must
    stay: environments with their data sets, and methods or metrics as ``file.py:name``, ``module:name``
    or a file of maps. `size`: that figures shall have.
    """
    drawn = ("figure", "maps", "forms", "draw")
    check_size(size, any(paths.get(name) for name in drawn), "--figure PATH")
    given = {name: path for name, path in paths.items() if path}
    places = {name: check_writable(path) for name, path in given.items()}
    files = [file for name in read for file in _files_behind(name)]
    sources = {Path(file).resolve() for file in files if os.path.isfile(file)}
    for index, (name, place) in enumerate(places.items()):
        path = str(given[name])
        if name in drawn and place.suffix.lower() not in FIGURES:
            raise AttributionLabError(f"--{name} is {path!r}: name it .png, .pdf or .svg")
        if place in sources:
            raise AttributionLabError(f"--{name} is {path!r}, which is read: write elsewhere")
        check_replaced({f"--{name}": place})
        earlier = list(places.values())[:index]
        if place in earlier:
            other = list(places)[earlier.index(place)]
            raise AttributionLabError(f"--{other} and --{name} are both {path!r}: give two paths")
    return places


def check_replaced(places: Mapping[str, Path]) -> None:
    """Refuse paths, by what they are for, at which there are files that no command of ours wrote."""
    refuse_if(
        [
            f"{name} is {str(place)!r}, a file that AttributionLab did not write: name another, or "
            "delete it first"
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


def not_installed(error: ImportError) -> str:
    """What cannot be imported, and how it is installed."""
    package = (error.name or "").partition(".")[0]
    if not package:  # pandas names none: the sentence does, and lists all that it tried
        said = format_error(error).partition(". ")[0]
        return f"{said}: install what is missing"
    install = f"{sys.executable} -m pip install {DISTRIBUTIONS.get(package, package)}"
    return f"{format_error(error)}: install it, as by {install}"


def status_of(named: Iterable[str], failed: Iterable[str]) -> int:
    """Exit status: 1 if something that was named on the command line failed somewhere. What was not
    named, as all built-in methods are without names, need not fit everywhere.
    """
    return int(not {printable(name) for name in named}.isdisjoint(failed))


@contextmanager
def written_at_last(
    places: Mapping[str, Path],
    writers: Mapping[str, Callable[[Path], None]],
    stop: BaseException | None = None,
) -> Iterator[None]:
    """Write the files of a command whether or not anybody reads what the block prints; then raise what
    stopped the command, if anything did.
    """
    try:
        yield
    finally:
        write_all(places, writers)
    if stop is not None:
        raise stop


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


def table_writers(
    tables: Callable[[], "pd.DataFrame | Mapping[str, pd.DataFrame]"],
) -> dict[str, Callable[[Path], None]]:
    """What writes a table, or several under their names, as LaTeX and Markdown, by option."""
    heads = {"latex": "% {}", "markdown": "### {}"}
    ends = {
        "latex": "% written by AttributionLab\n",
        "markdown": "<!-- written by AttributionLab -->\n",
    }

    def write(path: Path, kind: str) -> None:
        from attributionlab.base import write_atomically
        from attributionlab.show import table_text

        found = tables()
        if isinstance(found, Mapping):
            texts = [
                f"{heads[kind].format(name)}\n\n{table_text(table, kind)}"
                for name, table in found.items()
            ]
        else:
            texts = [table_text(found, kind)]
        write_atomically(path, "\n".join([*texts, ends[kind]]))

    return {kind: partial(write, kind=kind) for kind in heads}


def parse_settings(pairs: Sequence[str]) -> dict[str, Any]:
    """KEY=VALUE pairs; a value is a Python literal, or else a string."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.isidentifier():
            raise AttributionLabError(f"--set {pair!r}: write KEY=VALUE, such as n_steps=100")
        if key in settings:
            raise AttributionLabError(f"--set gives {key} twice, last by {pair!r}: give it once")
        if text.lower() in WORDS:
            settings[key] = WORDS[text.lower()]
            continue
        try:
            settings[key] = ast.literal_eval(text)
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            settings[key] = text
    return settings
