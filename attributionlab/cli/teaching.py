"""The commands for teaching: live pages, laboratories whose truth is hidden, the course."""

import contextlib
import io
import json
import re
import shlex
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from attributionlab.base import (
    AttributionLabError,
    attributes,
    check_new_folder,
    follow,
    printable,
    refuse_if,
    track,
)
from attributionlab.cli import options, paths
from attributionlab.worlds import environments, specs_folder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "slide"
"""The figure that a notebook binds to this name is its slide."""
EMPTY_GATE = re.compile(r"^prediction = None\b", re.MULTILINE)
MAGIC = re.compile(r"^%.*$", re.MULTILINE)
"""Lines for notebooks alone, such as %matplotlib inline."""
REMEMBER = "## What to remember"
DPI = 144
"""1,920 pixels for the width of a slide."""


def write_live_page(
    out: Annotated[Path, typer.Option(help="Write the page to this file.")],
    env: Annotated[str, typer.Option(help="A name or a TOML file.")] = "multi-color-sum",
    n: Annotated[int, typer.Option(help="Number of images, 1 to 16.")] = 4,
    seed: Annotated[int, typer.Option(help="Seed of the images.")] = 0,
    image_size: Annotated[
        int, typer.Option(metavar="S", help="Use images of S x S pixels, S from 24 to 128.")
    ] = 72,
) -> None:
    """Write an interactive page in which a network runs: predict, try, see.

    Students change the baseline or the implementation of the network, remove pixels, and see how
    attribution maps change. The page is one HTML file and needs no server.
    """
    from attributionlab.base import write_atomically
    from attributionlab.teaching import live_page
    from attributionlab.worlds import load

    tokens = environments("tokens")
    if env in (*paths.SETS, *tokens):
        kind = "a world of tokens" if env in tokens else "a set of environments"
        raise AttributionLabError(
            f"--env is {env!r}, {kind}, and live draws the images of one environment: take one of "
            "images from attributionlab list, such as quadrants"
        )
    places = paths.check_paths({"out": out}, read=[env])
    with follow(f"live {env}"):
        command = printable(options.command_line())  # a path may be no text in UTF-8
        page = live_page(load(env, image_size=image_size), n, seed, command=command)
    write_atomically(places["out"], page)
    images = f"{n} image{'s' * (n > 1)}"
    typer.echo(printable(f"{out}: {env}, {images}, {len(page.encode()):,} bytes"))
    typer.echo(printable(f"next: open {out} in a browser"))


def seal_files(
    out: Annotated[Path, typer.Option(help="Write the laboratory for students, a zip file.")],
    answers: Annotated[Path, typer.Option(help="Write the key with the answers, a zip file.")],
    difficulty: Annotated[str, typer.Option(help="easy, medium or hard.")] = "medium",
    image_size: Annotated[int, typer.Option(help="Image size in pixels.")] = 48,
    n: Annotated[int, typer.Option(help="Number of images.")] = 6,
) -> None:
    """Draw a world and hide its truth: write a laboratory for students and the key to grade it.

    Keep the key: answers cannot be graded without it.
    """
    from attributionlab.teaching import seal_laboratory

    with follow("seal"):
        seal_laboratory(out, answers, difficulty, image_size, n)
    typer.echo(
        printable(f"{out}: for students; its questions.md states what to hand in")
        + "\n"
        + printable(f"{answers}: keep it")
        + "\n"
        + printable(f"next: attributionlab grade {out} {answers} SUBMISSION ... --csv marks.csv")
    )


def check_files(
    lab: Annotated[Path, typer.Argument(help="The laboratory that you received.")],
    submission: Annotated[
        Path, typer.Argument(help="A folder or zip file with maps.npz and answers.json.")
    ],
) -> None:
    """Check a submission before you hand it in: missing files, wrong types or shapes.

    This needs no key and gives no grade: it does not check whether answers are right.
    """
    from attributionlab.teaching import check_submission

    problems = check_submission(lab, submission)
    if len(problems) > 1:
        for problem in problems:
            options.say(f"  {printable(problem)}")
        problems = [f"{submission} has these {len(problems)} problems: correct them"]
    refuse_if(problems)
    typer.echo(printable(f"{submission}: maps and all answers can be read; hand it in"))


def grade_files(
    lab: Annotated[Path, typer.Argument(help="The laboratory written by attributionlab seal.")],
    key: Annotated[Path, typer.Argument(help="Its key.")],
    submissions: Annotated[
        list[Path],
        typer.Argument(
            help="Folders or zip files with maps.npz and answers.json, or a folder of these."
        ),
    ],
    csv: Annotated[Path | None, typer.Option(help="Write the grades to this file.")] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write pages of feedback into this new folder.")
    ] = None,
) -> None:
    """Grade submissions for a sealed laboratory: points, misconceptions, duplicates.

    Free-text answers are shown for you to read and get no points. No code of a submission is executed.
    A submission that cannot be read gets a row with the reason.
    """
    from attributionlab.show import data_table, print_table
    from attributionlab.teaching import GROUPS, grade_submissions

    read = [each for path in (lab, key, *submissions) for each in (path, *path.rglob("*"))]
    places = paths.check_paths({"csv": csv}, read=[*map(str, read)])
    taken = csv is not None and csv.exists()  # marks of students, perhaps with remarks
    refuse_if([f"--csv is {str(csv)!r}, which exists: name a new file, or delete it first"] * taken)
    if html:
        folder = check_new_folder(html)
        taken = folder.exists() and any(folder.iterdir())
        refuse_if([f"--html is {str(html)!r}, which is not empty: name a new folder"] * taken)
        places["html"] = folder
    grades = grade_submissions(lab, key, submissions, show_progress=True)
    frame = grades.to_frame().drop(columns=["misconceptions", "reason"])
    frame = frame.drop(columns=[*GROUPS, *(f"free_{name}" for name in grades.free)])
    same = [attributes(each, *GROUPS).items() for each in grades.submissions]
    if any(number for each in same for _, number in each):
        frame["same"] = [", ".join(f"{name[5:]} {k}" for name, k in each if k) for each in same]
    with paths.Files(places, None).written(grades):
        print_table(data_table(frame))
        for each in grades.submissions:
            if each.marks.problems:
                typer.echo(f"\n{each.name}")
            for problem in each.marks.problems:
                typer.echo(f"  {printable(problem)}")
        for name, question in grades.free.items():
            texts = [
                (each.name, each.texts[name]) for each in grades.submissions if name in each.texts
            ]
            if texts:
                lines = [printable(question), *(f"  {who}: {text}" for who, text in texts)]
                typer.echo("\n" + "\n".join(lines))


def show_class(
    predictions: Annotated[
        list[Path], typer.Argument(help="Students' files predictions.json, under any names.")
    ],
    html: Annotated[
        Path | None, typer.Option(help="Write a page with a histogram for each question.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the table to this file.")] = None,
) -> None:
    """Show what a class predicted at each question of the course: what to talk about next time.

    No student is named. The files are not protected: marks for right predictions can be typed in.
    """
    from attributionlab.show import data_table, print_table
    from attributionlab.teaching import read_class

    given = {"html": html, "csv": csv}
    places = paths.check_paths(given, read=[str(each) for each in predictions])
    found = read_class(predictions)
    with paths.Files(places, None).written(found):
        print_table(data_table(found.to_frame()))


def write_course(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Make this new folder.")],
    install: Annotated[
        str | None,
        typer.Option(
            metavar="SOURCE", help="What to install in Colab: a URL or file that pip accepts."
        ),
    ] = None,
) -> None:
    """Write the notebooks of the course into a new folder, for students.

    No answer is written in them: closed cells compute it.
    """
    from attributionlab.base import folder_made_whole

    cell = _colab_cell(install)
    files = sorted(specs_folder("notebooks").glob("*.ipynb"))
    place = check_new_folder(out)
    taken = place.exists() and any(place.iterdir())
    refuse_if([f"--out is {str(out)!r}, which is not empty: name a new folder"] * taken)
    with folder_made_whole(out) as folder:
        for file in files:
            notebook = json.loads(file.read_text(encoding="utf-8"))
            notebook["cells"][1:1] = cell
            text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
            (folder / file.name).write_text(text, encoding="utf-8")
    typer.echo(printable(f"{out}: {len(files)} notebooks"))
    typer.echo(printable(f"next: jupyter lab {out}"))
    typer.echo("Jupyter is not part of this package; to install it: pip install jupyterlab")


def _colab_cell(install: str | None) -> list[dict[str, Any]]:
    """The first code cell where notebooks run in Colab, none without a source to install from."""
    if install is None:
        return []
    if not install.strip() or not install.isprintable():
        raise AttributionLabError(
            f"--install is {printable(install)!r}: give the argument of pip install, in one line"
        )
    lines = (
        "# In Colab, this installs the package once per session.",
        "import sys",
        "",
        'if "google.colab" in sys.modules:',
        f"    %pip install --quiet {shlex.quote(install)}",
    )
    made: dict[str, Any] = {
        "cell_type": "code",
        "execution_count": None,
        "id": "colab",
        "metadata": {},
    }
    return [made | {"outputs": [], "source": "\n".join(lines).splitlines(keepends=True)}]


def write_slides(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Write deck and figures here.")],
    notebooks: Annotated[
        Path | None,
        typer.Option(
            "--notebooks", metavar="DIR", help="Your own notebooks, instead of the course."
        ),
    ] = None,
) -> None:
    """Write a slide deck: of each notebook of the course its goals, and the figure worth a slide.

    deck.md is for Marp (16:9, with notes): `npx @marp-team/marp-cli deck.md --pdf --allow-local-files`.
    Each notebook runs, with its questions skipped, until it has drawn its figure, so slides and course
    show the same results. This executes the notebooks: use it only with notebooks that you trust.
    """
    from attributionlab.base import make_folder, write_atomically
    from attributionlab.show import encoded

    source = notebooks or specs_folder("notebooks")
    files = sorted(source.glob("*.ipynb"))
    if not files:
        raise AttributionLabError(
            f"there are no notebooks in {str(source)!r}: pass --notebooks with their folder"
        )
    codes = [(file.stem, _cells(file)) for file in files]
    written = {f"the slide of {stem}": out / f"{stem}.png" for stem, _ in codes}
    paths.check_replaced(written)
    folder = make_folder(out)
    done = track(codes, len(codes), "drawing slides", True, "notebooks", name=lambda each: each[0])
    for stem, cells in done:
        figure = _slide(stem, [(name, text) for kind, name, text in cells if kind == "code"])
        write_atomically(folder / f"{stem}.png", encoded(figure, size="slide", dpi=DPI))
    texts = [
        (stem, [text for kind, _, text in cells if kind == "markdown"]) for stem, cells in codes
    ]
    write_atomically(folder / "deck.md", _deck(texts))
    for place in (*written.values(), out / "deck.md"):
        typer.echo(printable(str(place)))


def _deck(texts: Iterable[tuple[str, list[str]]]) -> str:
    """A deck for Marp: of each notebook its title and goals, and its figure with what to remember."""
    slides = ["---\nmarp: true\nsize: 16:9\npaginate: true\ntitle: AttributionLab, a course\n---"]
    for stem, parts in texts:
        first = parts[0] if parts else f"# {stem}"
        remember = next((text for text in parts if REMEMBER in text), "").partition(REMEMBER)[2]
        goals = first.partition("**Time.**")[0].strip()
        notes = remember.partition("\n## ")[0].strip().replace("-->", "->")
        slides.append(f"{goals}\n\n<!--\nAsk for a vote before the next slide.\n-->")
        slides.append(f"![bg fit]({quote(stem)}.png)\n\n<!--\n{notes}\n-->")
    return "\n\n---\n\n".join([slides[0] + "\n\n" + slides[1], *slides[2:]]) + "\n"


def _cells(file: Path) -> list[tuple[str, str, str]]:
    """Kind, name and source of each cell."""
    try:
        cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
        return [
            (str(cell["cell_type"]), str(cell["id"]), "".join(cell["source"])) for cell in cells
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
