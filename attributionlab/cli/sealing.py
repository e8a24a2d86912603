"""The commands `seal`, `check-submission` and `grade`: laboratories whose truth is hidden."""

from pathlib import Path
from typing import Annotated

import typer

from attributionlab.base import check_new_folder, follow, printable, refuse_if
from attributionlab.cli import options


def seal_files(
    out: Annotated[Path, typer.Option(help="Write the laboratory for students, a zip file.")],
    answers: Annotated[Path, typer.Option(help="Write the key with the answers, a zip file.")],
    difficulty: Annotated[str, typer.Option(help="easy, medium or hard.")] = "medium",
    image_size: Annotated[int, typer.Option(help="Side of the images in pixels.")] = 48,
    n: Annotated[int, typer.Option(help="How many images.")] = 6,
) -> None:
    """Draw a world and hide its truth: a laboratory for students, and the key that opens it.

    Keep the key: nothing else can mark the answers.
    """
    from attributionlab.teaching import seal_laboratory

    with follow("seal"):
        seal_laboratory(out, answers, difficulty, image_size, n)
    typer.echo(
        printable(f"{out}: for students; questions.md in it says what to hand in")
        + "\n"
        + printable(f"{answers}: keep it")
        + "\n"
        + printable(f"next: attributionlab grade {out} {answers} SUBMISSION ... --csv marks.csv")
    )


def check_files(
    lab: Annotated[Path, typer.Argument(help="The laboratory, as you were given it.")],
    submission: Annotated[
        Path, typer.Argument(help="A folder or zip file with maps.npz and answers.json.")
    ],
) -> None:
    """Check a submission before it is handed in: what is missing, or of the wrong type or shape.

    No key is needed, and no mark is given: whether answers are right is not looked at.
    """
    from attributionlab.teaching import check_submission

    refuse_if(check_submission(lab, submission))
    typer.echo(printable(f"{submission}: maps and all answers can be read; hand it in"))


def grade_files(
    lab: Annotated[Path, typer.Argument(help="The laboratory that attributionlab seal wrote.")],
    key: Annotated[Path, typer.Argument(help="Its key.")],
    submissions: Annotated[
        list[Path], typer.Argument(help="Folders or zip files with maps.npz and answers.json.")
    ],
    csv: Annotated[Path | None, typer.Option(help="Write the marks to this file.")] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write pages of feedback into this new folder.")
    ] = None,
) -> None:
    """Mark submissions for a sealed laboratory: points, misconceptions, duplicates.

    Answers in words are shown for you to read, without points. Nothing of a submission is executed.
    One that cannot be read gets a row with the reason.
    """
    from attributionlab.show import data_table, print_table
    from attributionlab.teaching import GROUPS, grade_submissions

    read = [each for path in (lab, key, *submissions) for each in (path, *path.rglob("*"))]
    places = options.check_paths({"csv": csv}, read=[*map(str, read)])
    if html:
        folder = check_new_folder(html)
        taken = folder.exists() and any(folder.iterdir())
        refuse_if([f"--html is {str(html)!r}, which is not empty: name a new folder"] * taken)
        places["html"] = folder
    grades = grade_submissions(lab, key, submissions, show_progress=True)
    frame = grades.to_frame().drop(columns=["misconceptions"])
    frame = frame.drop(columns=[f"free_{name}" for name in grades.free])
    groups = [*GROUPS]
    frame[groups] = frame[groups].astype("string").fillna("")
    with options.written_at_last(places, {"csv": grades.to_csv, "html": grades.to_html}):
        print_table(data_table(frame))
        for name, question in grades.free.items():
            typer.echo("\n" + printable(question))
            for each in grades.submissions:
                if name in each.texts:
                    typer.echo(f"  {each.name}: {each.texts[name]}")
